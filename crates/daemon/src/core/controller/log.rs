//! Entries for the log of events of a job.

use tutti_protocol::wire::{Cause, Report};
use tutti_sched::fill_trial::PutOut;

use super::job::JobRecord;
use super::listing;
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::job_event::{EndedBy, Files, JobEvent};
use crate::core::local::LocalNode;
use crate::members::NodeId;
use crate::message::{JobId, Notice};

/// Pids of a node's ranks that a line has: a job that runs already may claim any number.
const PIDS_MAX: usize = 512;

pub(super) fn log(cx: Context<'_>, id: JobId, event: JobEvent) {
    cx.out.act(Action::Log(JobEvent { ms: cx.local.wall_ms, job: Some(id), ..event }));
}

fn node_name(local: &LocalNode, node: NodeId) -> Vec<String> {
    local.members.iter().map(|members| members.name(node)).collect()
}

/// The ranks of all nodes run: a line for each node.
pub(super) fn log_start(cx: Context<'_>, job: &JobRecord) {
    log(cx, job.id, JobEvent { event: "started", ..JobEvent::default() });
    let firsts = job.launch.first_ranks.clone();
    for ((node, pids), first) in job.pids().iter().zip(firsts) {
        let (node, pids) = (*node, pids.iter().take(PIDS_MAX).copied().collect());
        let (rank, nodes) = (Some(first), node_name(cx.local, node));
        log(cx, job.id, JobEvent { event: "ranks-started", rank, pids, nodes, ..JobEvent::default() });
    }
}

/// The files of a job's output are open, or something of it is lost.
pub(super) fn log_files(cx: Context<'_>, job: &JobRecord) {
    let (output, first_ranks) = (job.shown_output(), listing::first_ranks(&job.launch));
    let files = Files { output, first_ranks, output_state: job.output().clone() };
    log(cx, job.id, JobEvent::output(files));
}

/// No rank of a node is left there.
pub(super) fn log_left(cx: Context<'_>, id: JobId, left: Vec<(NodeId, u8)>) {
    for (node, status) in left {
        let (status, nodes) = (Some(status), node_name(cx.local, node));
        log(cx, id, JobEvent { event: "ranks-ended", status, nodes, ..JobEvent::default() });
    }
}

/// As a filler it is put out on nodes, or may fill again.
pub(super) fn log_fillings(cx: Context<'_>, id: JobId, fillings: Vec<(NodeId, Option<PutOut>)>) {
    for (node, put_out) in fillings {
        let (nodes, event) = (node_name(cx.local, node), if put_out.is_some() { "put-out" } else { "fills" });
        let text = put_out.map_or_else(|| "fills again".to_owned(), |put_out| put_out.to_string());
        log(cx, id, JobEvent { event, text, nodes, ..JobEvent::default() });
    }
}

/// Logs that the job has reached its limit.
pub(super) fn log_limit(cx: Context<'_>, job: &JobRecord) {
    let text = job.end.cause().unwrap_or_default().to_owned();
    log(cx, job.id, JobEvent { event: "limit", text, ..JobEvent::default() });
}

/// Logs what the user of a job is told.
pub(super) fn log_notice(cx: Context<'_>, job: &JobRecord, notice: &Notice) {
    match notice {
        Notice::Report(Report::Ended(ended)) => {
            let launch = &job.launch;
            let after = launch.first_ranks.partition_point(|first| *first <= ended.rank);
            let node = after.checked_sub(1).and_then(|at| launch.nodes.get(at).copied());
            let signal = if let Cause::Signal { signal, .. } = ended.cause { Some(signal) } else { None };
            let event = JobEvent {
                event: "rank-ended",
                text: ended.to_string(),
                rank: Some(ended.rank),
                pids: vec![ended.pid],
                nodes: node.map_or_else(Vec::new, |node| node_name(cx.local, node)),
                status: Some(ended.cause.status()),
                by: Some(EndedBy { cause: name_of(ended.cause), signal }),
                ..JobEvent::default()
            };
            log(cx, job.id, event);
        }
        Notice::Report(Report::Refused(text) | Report::Warning(text)) => {
            log(cx, job.id, JobEvent { event: "said", text: text.clone(), ..JobEvent::default() });
        }
        _ => {}
    }
}

fn name_of(cause: Cause) -> &'static str {
    match cause {
        Cause::Signal { .. } => "signal",
        Cause::Status(_) => "status",
        Cause::NotFinalized => "not-finalized",
        Cause::Abort(_) => "abort",
        Cause::Fatal(_) => "error",
        Cause::Exit(_) => "exit",
        Cause::Vanished => "vanished",
        Cause::NoPmi => "no-pmi",
        Cause::NeverInit => "never-init",
        Cause::Memory | Cause::UserMemory => "memory",
        Cause::Gone => "gone",
        Cause::Absent => "absent",
        Cause::Unknown => "unknown",
    }
}
