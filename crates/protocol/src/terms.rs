//! How a job shares nodes and time with others.

use serde::{Deserialize, Serialize};
use tutti_sched::phases::Phases;
use tutti_sched::{SLICE_DEFAULT_NS, WEIGHT_DEFAULT};

/// The slice that `--slice` has when it is not given, in ms.
pub const SLICE_DEFAULT_MS: f64 = SLICE_DEFAULT_NS as f64 / 1e6;

/// On what terms a job shares nodes and time with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Share of the time that it gets beside the others', from 1 to 10000.
    pub weight: u32,
    /// No other job has ranks on its nodes.
    pub exclusive: bool,
    /// Memory that it needs on each node; 0: not declared.
    pub memory_bytes: u64,
    /// Whether it takes turns.
    pub gang: bool,
    /// Policy by which it shares its node with other jobs that have serial and parallel phases too; none: it
    /// has no such phases.
    #[serde(default)]
    pub phases: Option<Phases>,
    /// Whether it is a filler: behind all jobs that are none.
    #[serde(default)]
    pub fill: bool,
    /// GPUs that it has alone on each node.
    #[serde(default)]
    pub gpus: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            weight: WEIGHT_DEFAULT,
            exclusive: false,
            memory_bytes: 0,
            gpus: 0,
            gang: true,
            phases: None,
            fill: false,
        }
    }
}
