//! The log of events: what happens to jobs and nodes.

use serde::Serialize;

use crate::message::JobId;

/// A line of the log of events; what is empty is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobEvent {
    /// When, in ms since 1970.
    pub ms: u64,
    /// What.
    pub event: &'static str,
    /// Which job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Which node or nodes, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Anything else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Whose job it is, when it is submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// What its user calls it, when it is submitted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its number of ranks, when it is submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u64>,
    /// Exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
    /// Which rank, or the first one of those of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Processes, in the order of ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// How a rank ended: signal, status, not-finalized, abort, vanished, no-pmi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// The signal that killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl JobEvent {
    /// Something about a node.
    pub(super) fn node(ms: u64, event: &'static str, name: &str) -> Self {
        JobEvent { ms, event, nodes: vec![name.into()], ..JobEvent::default() }
    }
}
