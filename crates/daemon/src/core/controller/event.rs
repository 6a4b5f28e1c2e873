//! The log of events: what happens to jobs and nodes.

use serde::Serialize;
use tutti_protocol::wire::{Cause, Report};

use super::listing::name;
use crate::core::{Action, Core};
use crate::members::NodeId;
use crate::message::{JobId, Notice};

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
    pub(in crate::core) fn node(ms: u64, event: &'static str, name: &str) -> Self {
        JobEvent { ms, event, nodes: vec![name.into()], ..JobEvent::default() }
    }
}

impl Core {
    pub(super) fn log(&mut self, id: JobId, event: JobEvent) {
        self.act(Action::Log(JobEvent { ms: self.wall_ms, job: Some(id), ..event }));
    }

    fn node_name(&self, node: NodeId) -> Vec<String> {
        self.members.iter().map(|members| name(members, node)).collect()
    }

    /// The ranks of all nodes run: a line for each node.
    pub(super) fn log_start(&mut self, id: JobId) {
        self.log(id, JobEvent { event: "started", ..JobEvent::default() });
        let Some(job) = self.controller.as_ref().and_then(|controller| controller.jobs.get(&id)) else {
            return;
        };
        let firsts = job.launch.first_ranks.clone();
        for ((node, pids), first) in job.pids.clone().into_iter().zip(firsts) {
            let (rank, nodes) = (Some(first), self.node_name(node));
            self.log(id, JobEvent { event: "ranks-started", rank, pids, nodes, ..JobEvent::default() });
        }
    }

    /// No rank of a node is left there.
    pub(super) fn log_left(&mut self, id: JobId, left: Vec<(NodeId, u8)>) {
        for (node, status) in left {
            let (status, nodes) = (Some(status), self.node_name(node));
            self.log(id, JobEvent { event: "ranks-ended", status, nodes, ..JobEvent::default() });
        }
    }

    /// What the user of a job is told.
    pub(super) fn log_notice(&mut self, id: JobId, notice: &Notice) {
        match notice {
            Notice::Report(Report::Ended(ended)) => {
                let launch = self
                    .controller
                    .as_ref()
                    .and_then(|controller| controller.jobs.get(&id))
                    .map(|job| &job.launch);
                let node = launch.and_then(|launch| {
                    let after = launch.first_ranks.partition_point(|first| *first <= ended.rank);
                    launch.nodes.get(after.checked_sub(1)?).copied()
                });
                let signal = if let Cause::Signal { signal, .. } = ended.cause { Some(signal) } else { None };
                let event = JobEvent {
                    event: "rank-ended",
                    text: ended.to_string(),
                    rank: Some(ended.rank),
                    pids: vec![ended.pid],
                    nodes: node.map_or_else(Vec::new, |node| self.node_name(node)),
                    status: Some(ended.cause.status()),
                    cause: Some(name_of(ended.cause)),
                    signal,
                    ..JobEvent::default()
                };
                self.log(id, event);
            }
            Notice::Report(Report::Refused(text) | Report::Warning(text)) => {
                self.log(id, JobEvent { event: "said", text: text.clone(), ..JobEvent::default() });
            }
            _ => {}
        }
    }
}

fn name_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Signal { .. } => "signal",
        Cause::Status(_) => "status",
        Cause::NotFinalized => "not-finalized",
        Cause::Abort(_) => "abort",
        Cause::Exit(_) => "exit",
        Cause::Vanished => "vanished",
        Cause::NoPmi => "no-pmi",
        Cause::Memory => "memory",
    }
}
