//! The log of events: what happens to jobs and nodes.

use serde::Serialize;
use tutti_protocol::batch::Restart;
use tutti_protocol::output::OutputState;
use tutti_protocol::wire::Used;

use crate::message::{JobEnd, JobId};

/// A line of the log of events; what is empty is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobEvent {
    /// When, in ms since 1970.
    pub ms: u64,
    /// Name of the event.
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
    /// Of a job that is submitted.
    #[serde(flatten)]
    pub submitted: Option<Submitted>,
    /// The files of its output, when they are open, and when something of it is lost.
    #[serde(flatten)]
    pub output_files: Option<Files>,
    /// Use of its processes, when it is over.
    #[serde(flatten)]
    pub used: Option<Used>,
    /// In which way it has ended.
    #[serde(rename = "end", skip_serializing_if = "Option::is_none")]
    pub ended_how: Option<JobEnd>,
    /// Exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
    /// Which rank, or the first one of those of a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Processes, in the order of ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// How a rank ended.
    #[serde(flatten)]
    pub by: Option<EndedBy>,
}

/// Facts of a job when it is submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Submitted {
    /// Owner of the job.
    pub uid: u32,
    /// Name that its user has given.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Text that the program which submitted it keeps with it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Number of ranks.
    pub ranks: u64,
    /// Number as a task of an array, such as 12_3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array_task: Option<String>,
    /// The job whose place it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
}

/// Files of a job's output, for commands that find no daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Files {
    /// Patterns with their folder and the job's number in them.
    pub output: Vec<String>,
    /// Rank of each node's first one, by which a pattern has a node's name.
    pub first_ranks: Vec<u32>,
    /// Outcome of them.
    pub output_state: OutputState,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EndedBy {
    /// One word: signal, status, not-finalized, abort, vanished, no-pmi.
    pub cause: &'static str,
    /// The signal that killed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

impl JobEvent {
    /// A controller begins: jobs of the log that it does not get to know are lost.
    pub(crate) fn controller_begun(ms: u64) -> Self {
        JobEvent { ms, event: "begun", ..JobEvent::default() }
    }

    /// The files of a job's output.
    pub(super) fn output(files: Files) -> Self {
        JobEvent { event: "output", output_files: Some(files), ..JobEvent::default() }
    }

    /// Event of a node.
    pub(super) fn node(ms: u64, event: &'static str, name: &str) -> Self {
        JobEvent { ms, event, nodes: vec![name.into()], ..JobEvent::default() }
    }
}
