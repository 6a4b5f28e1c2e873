//! Why a job waits, for people.

use std::fmt;

use crate::types::{Bytes, JobId};

/// Why a job waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Fewer nodes are up than it asks for.
    Nodes {
        /// Asked for.
        requested: u32,
        /// Up.
        there: u32,
    },
    /// Nodes that it needs are drained: they take nothing new.
    Drained {
        /// Asked for.
        requested: u32,
        /// Up and not drained.
        there: u32,
    },
    /// Nodes that it needs are reserved for others, or will be while it may still run.
    Reserved {
        /// Asked for.
        requested: u32,
        /// Up, not drained and not reserved.
        there: u32,
        /// Number of a reservation of them.
        reservation: u32,
    },
    /// An exclusive job has the nodes.
    Taken {
        /// Asked for.
        requested: u32,
        /// Without an exclusive job.
        there: u32,
        /// Job that has some of them.
        owner: JobId,
    },
    /// The job is exclusive, and others have ranks on the nodes.
    Occupied {
        /// Asked for.
        requested: u32,
        /// Empty.
        there: u32,
    },
    /// The jobs there have the memory.
    Memory {
        /// Asked for on each node.
        requested_bytes: u64,
        /// Nodes asked for.
        requested: u32,
        /// With so much memory left.
        there: u32,
        /// The most that one of them has left.
        free_bytes: u64,
    },
    /// The jobs there have the GPUs, suspended ones too.
    Gpus {
        /// Asked for on each node.
        requested_gpus: u32,
        /// Nodes asked for.
        requested: u32,
        /// With so many GPUs left.
        there: u32,
    },
    /// An earlier one has been passed often enough.
    QueuedBehind(JobId),
    /// The matrix has no row left, or the nodes that have the memory lack the slots.
    Room,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Wait::Nodes { requested, there } => {
                write!(f, "{} of the {} that it needs up", is(there), nodes(requested))
            }
            Wait::Drained { requested, there } => {
                write!(f, "it needs {}, {} not drained (tutti nodes)", nodes(requested), is(there))
            }
            Wait::Reserved { requested, there, .. } => {
                write!(f, "it needs {}, {} not reserved (tutti reserve)", nodes(requested), is(there))
            }
            Wait::Taken { requested, there, owner } => write!(
                f,
                "it needs {}, {} not taken by an exclusive job (job {owner})",
                nodes(requested),
                is(there)
            ),
            Wait::Occupied { requested, there } => {
                write!(
                    f,
                    "it is exclusive and needs {} without other jobs, {} empty",
                    nodes(requested),
                    is(there)
                )
            }
            Wait::Memory { requested_bytes, requested, there, free_bytes } => write!(
                f,
                "it needs {} of memory on {}, {} so much left (at most {})",
                Bytes(requested_bytes),
                nodes(requested),
                if there == 1 { "1 has".into() } else { format!("{there} have") },
                Bytes(free_bytes)
            ),
            Wait::Gpus { requested_gpus, requested, there } => write!(
                f,
                "it needs {} on {}, {} so many left",
                if requested_gpus == 1 { "1 GPU".into() } else { format!("{requested_gpus} GPUs") },
                nodes(requested),
                if there == 1 { "1 has".into() } else { format!("{there} have") },
            ),
            Wait::QueuedBehind(job) => write!(f, "job {job} waits longer, and has been passed often enough"),
            Wait::Room => write!(f, "no row of the matrix has room for it"),
        }
    }
}

fn nodes(count: u32) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}

fn is(count: u32) -> String {
    if count == 1 { "1 is".into() } else { format!("{count} are") }
}
