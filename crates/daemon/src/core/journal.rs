//! How far the output of a job is in its files, for the daemon that follows this one.

use serde::{Deserialize, Serialize};

use crate::members::NodeId;

/// Facts on the files of a job that the daemon that follows must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// The question that submitted the job.
    pub request_id: u64,
    /// Whether something may have been written: the files are not to be made empty.
    pub begun: bool,
    /// Everything is written.
    pub over: bool,
    /// Place below which the output of a node is in its files, or lost.
    pub(super) durable: Vec<(NodeId, u64)>,
    /// Bytes that are in a file already, of what comes next of a node for it.
    pub(super) present: Vec<(NodeId, u32, u64)>,
    /// Entries that are with the writer, in order.
    pub(super) batch: Vec<Entry>,
    /// Lengths of its files before.
    pub(super) lengths: Vec<(u32, u64)>,
    pub(super) inode: Option<u64>,
    pub(super) lost_bytes: u64,
    pub(super) trouble: Option<String>,
}

/// A stretch of a node's output that is for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) node: NodeId,
    /// Where it ends in all that the node has to say.
    pub(super) to: u64,
    pub(super) file: Option<u32>,
    /// Bytes at its start that were in the file before.
    pub(super) present: u64,
    /// The others.
    pub(super) bytes: u64,
}

impl Journal {
    /// Journal of the files when a job is submitted.
    pub(super) fn submitted(request_id: u64) -> Self {
        Journal { request_id, ..Journal::default() }
    }
}
