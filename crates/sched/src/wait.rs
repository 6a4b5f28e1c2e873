//! Why a job waits, for people.

use std::fmt;

use crate::types::{Bytes, JobId};

/// Why a job waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Fewer nodes are up than it asks for.
    Nodes {
        /// Asked for.
        asked: u32,
        /// Up.
        there: u32,
    },
    /// An exclusive job has the nodes.
    Taken {
        /// Asked for.
        asked: u32,
        /// Without an exclusive job.
        there: u32,
        /// One of those who have them.
        owner: JobId,
    },
    /// It is exclusive, and others have ranks on the nodes.
    Occupied {
        /// Asked for.
        asked: u32,
        /// Empty.
        there: u32,
    },
    /// The jobs there have the memory.
    Memory {
        /// Asked for on each node.
        asked_bytes: u64,
        /// Nodes asked for.
        asked: u32,
        /// With so much memory left.
        there: u32,
        /// The most that one of them has left.
        free_bytes: u64,
    },
    /// An earlier one has been passed often enough.
    Behind(JobId),
    /// The matrix has no row left, or the nodes that have the memory lack the slots.
    Room,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Wait::Nodes { asked, there } => {
                write!(f, "{} of the {} that it needs up", is(there), nodes(asked))
            }
            Wait::Taken { asked, there, owner } => write!(
                f,
                "it needs {}, {} not taken by an exclusive job (job {owner})",
                nodes(asked),
                is(there)
            ),
            Wait::Occupied { asked, there } => {
                write!(
                    f,
                    "it is exclusive and needs {} without other jobs, {} empty",
                    nodes(asked),
                    is(there)
                )
            }
            Wait::Memory { asked_bytes, asked, there, free_bytes } => write!(
                f,
                "it needs {} of memory on {}, {} so much left (at most {})",
                Bytes(asked_bytes),
                nodes(asked),
                if there == 1 { "1 has".into() } else { format!("{there} have") },
                Bytes(free_bytes)
            ),
            Wait::Behind(job) => write!(f, "job {job} waits longer, and has been passed often enough"),
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
