//! Lines of the controller's logs, as far as history and metrics need them.

use serde::Deserialize;
use tutti_protocol::turns::TurnBatch;

/// Line of the log of events.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Event {
    /// When, in ms since 1970.
    pub ms: u64,
    /// Kind of event.
    pub event: String,
    /// The job that it is about.
    pub job: Option<u64>,
    /// Nodes by name.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Text: the command of a submission, the cause of an end.
    #[serde(default)]
    pub text: String,
    /// Exit status.
    pub status: Option<u8>,
    /// Facts of a submission.
    #[serde(flatten)]
    pub submitted: Submitted,
    /// Use, at the end.
    #[serde(flatten)]
    pub used: Used,
}

/// Facts of a submission.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Submitted {
    /// Owner of the job.
    pub uid: Option<u32>,
    /// Number of ranks.
    pub ranks: Option<u64>,
    /// Name that the user has given.
    #[serde(default)]
    pub name: String,
}

/// Use of a job, when it is over.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Used {
    /// Processor time, in us.
    pub cpu_us: Option<u64>,
    /// Memory of the largest process.
    pub largest_bytes: Option<u64>,
}

/// Line of the log of turns.
#[derive(Clone, Debug, Deserialize)]
pub struct Turns {
    /// The turns.
    #[serde(flatten)]
    pub batch: TurnBatch,
}

/// Lines that can be understood.
pub fn parse<T: for<'a> Deserialize<'a>>(lines: &[Vec<u8>]) -> Vec<T> {
    lines.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect()
}
