//! The log of events: what happens to jobs and nodes.

use serde::Serialize;
use tutti_node::wire::Report;

use crate::core::{Action, Core};
use crate::message::{JobId, Notice};

/// A line of the log of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
    /// Exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
}

impl JobEvent {
    /// Something about a node.
    pub(in crate::core) fn node(ms: u64, event: &'static str, name: &str) -> Self {
        JobEvent { ms, event, job: None, nodes: vec![name.into()], text: String::new(), status: None }
    }
}

impl Core {
    pub(super) fn log(&mut self, id: JobId, event: &'static str, status: Option<u8>, text: String) {
        let event = JobEvent { ms: self.wall_ms, event, job: Some(id), nodes: Vec::new(), text, status };
        self.act(Action::Log(event));
    }
}

/// What the log says of a notice.
pub(super) fn line(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Say(Report::Ended(ended)) => Some(format!("rank {} ended: {:?}", ended.rank, ended.cause)),
        Notice::Say(Report::Refused(text) | Report::Warning(text)) => Some(text.clone()),
        _ => None,
    }
}
