//! The jobs and nodes of the cluster as users see them.

use std::collections::BTreeMap;

use tutti_os::cgroup::Enforced;
use tutti_sched::controller::Lags;
use tutti_sched::fill_trial::PutOut;

use super::drains::Drains;
use super::gpus;
use super::job::JobRecord;
use super::jobs::Jobs;
use super::late;
use crate::core::local::LocalNode;
use crate::core::relay::Relay;
use crate::members::{Members, NodeId};
use crate::message::{JobId, JobRow, Launch, NodeRow, Run};
use tutti_protocol::public::{self, PublicRow};
use tutti_protocol::users::FreezeMethod;

/// Rows of these jobs.
pub(super) fn list<'a>(
    jobs: impl IntoIterator<Item = (JobId, &'a JobRecord)>,
    lags: &Lags,
    local: &LocalNode,
    relay: &Relay,
) -> Vec<JobRow> {
    let Some(members) = &local.members else { return Vec::new() };
    let row = |(id, job): (JobId, &JobRecord)| JobRow {
        job: id,
        uid: job.launch.user.uid,
        state: job.state(),
        name: job.launch.batch.name.clone(),
        kept_note: job.launch.batch.note().to_owned(),
        limit_ms: job.launch.batch.limit().map(|(limit_ms, _)| limit_ms),
        ranks: job.launch.ranks() + job.later_ranks(),
        nodes: job.launch.places().iter().map(|(node, _)| members.name(*node)).collect(),
        first_ranks: first_ranks(&job.launch),
        command: job.command().to_owned(),
        submitted_ms: job.launch.submitted_ms,
        started_ms: job.started_ms(),
        ended_ms: job.ended_ms(),
        status: job.is_done().then_some(job.end.status()),
        how_ended: job.how_ended().filter(|_| job.is_done()),
        process_use: job.used(),
        output: job.shown_output(),
        origin: members.name(job.launch.origin),
        output_state: job.output().clone(),
        held_by: held_by(relay, id, members),
        enforced: enforced(relay, id, members),
        put_out: put_out(relay, id, members),
        weight: job.launch.terms.weight,
        exclusive: job.launch.terms.exclusive,
        memory_bytes: job.launch.terms.memory_bytes,
        node_gpus: job.launch.terms.gpus,
        seen_libraries: job.libraries().to_vec(),
        in_reservation: job.launch.batch.rules().reservation.clone(),
        limits_memory: {
            let limits =
                |node: &NodeId| members.nodes.get(node).is_some_and(|member| member.about.limits_memory);
            !job.launch.nodes.is_empty() && job.launch.nodes.iter().all(limits)
        },
        enrolled: job.launch.enrolled,
        gang: job.launch.terms.gang,
        fill: job.launch.terms.fill,
        turns: job.served().turns,
        busy_permille: job.served().busy_permille,
        effective_milli: job.served().effective_milli,
        suspended: job.order.clock.suspended.filter(|_| job.order.run == Run::Stop && !job.is_over()),
        waits: job.waits(local),
        wait_kind: job.wait_kind(),
        in_place_of: job.launch.batch.restart(),
        unfrozen: late::keepers(lags, members, id, job),
        deadlock: job.deadlock().map(|notice| notice.line.as_ref().to_owned()),
        deadlock_cycle: job.deadlock().map_or_else(Vec::new, |notice| notice.cycle.to_vec()),
        // Which job is connected to which is known to the controller as a whole.
        connected: Vec::new(),
        cause: job.end.cause().map(str::to_owned),
        pids: job.pids().iter().map(|(node, pids)| (members.name(*node), pids.clone())).collect(),
        script: job.launch.steps.allocation.is_some(),
        step_of: job.launch.steps.owner,
        on_hold: job.user_hold(),
        in_array: job.launch.batch.part_in_array().clone(),
        not_before_ms: job.launch.batch.rules().begin_ms.filter(|_| job.queued.is_some() && !job.is_over()),
    };
    jobs.into_iter().map(row).collect()
}

/// Rank of each node's first one.
pub(super) fn first_ranks(launch: &Launch) -> Vec<u32> {
    match &launch.steps.allocation {
        None => launch.first_ranks.clone(),
        Some(allocation) => {
            let ranks = allocation.parts.iter().map(|part| part.1);
            ranks.scan(0, |next, ranks| Some(std::mem::replace(next, *next + ranks))).collect()
        }
    }
}

/// Rows of the jobs that are not over, with what every user of the machine may know of them.
pub(super) fn public_rows(
    jobs: &Jobs,
    lags: &Lags,
    local: &LocalNode,
    relay: &Relay,
    with_arguments: bool,
) -> Vec<PublicRow> {
    let open = jobs.open().filter(|(_, job)| !job.is_over());
    let rows = list(open, lags, local, relay).into_iter().map(|row| PublicRow {
        job: row.job.0,
        uid: row.uid,
        state: row.state,
        ranks: row.ranks,
        nodes: row.nodes.len() as u64,
        since_ms: row.started_ms.unwrap_or(row.submitted_ms),
        command: public::command(&row.command, with_arguments),
    });
    rows.collect()
}

fn held_by(relay: &Relay, job: JobId, members: &Members) -> Vec<(String, FreezeMethod)> {
    let states = relay.states(job).into_iter().flatten();
    states.filter_map(|(node, part)| Some((members.name(*node), part.held_by?))).collect()
}

fn enforced(relay: &Relay, job: JobId, members: &Members) -> Vec<(String, Enforced)> {
    let states = relay.states(job).into_iter().flatten();
    states.filter_map(|(node, part)| Some((members.name(*node), part.enforced?))).collect()
}

fn put_out(relay: &Relay, job: JobId, members: &Members) -> Vec<(String, PutOut)> {
    let states = relay.states(job).into_iter().flatten();
    states.filter_map(|(node, part)| Some((members.name(*node), part.put_out?))).collect()
}

pub(super) fn list_nodes(
    jobs: &Jobs,
    versions: &BTreeMap<NodeId, u64>,
    drains: &Drains,
    local: &LocalNode,
) -> Vec<NodeRow> {
    let Some(members) = &local.members else { return Vec::new() };
    let load = load(jobs);
    let row = |(node, member): (&NodeId, &crate::members::Member)| NodeRow {
        node: *node,
        name: member.about.name.clone(),
        alive: member.alive,
        slots: member.about.slots,
        preferred: member.about.preferred,
        ranks: load.get(node).map_or(0, |load| load.ranks),
        memory_bytes: member.about.memory_bytes,
        limits_memory: member.about.limits_memory,
        freezes: member.about.freezes,
        declared_bytes: load.get(node).map_or(0, |load| load.declared_bytes),
        counted_gpus: member.about.gpus(),
        taken_gpu_set: gpus::taken(jobs, *node),
        policy: (*node == NodeId::CONTROLLER).then(|| local.config.policy.to_string()),
        configuration: versions.get(node).copied().unwrap_or(0),
        parent: members.parent(*node),
        address: member.about.data.to_string(),
        control: Some(member.about.control),
        release: member.about.release.clone(),
        drained: drains.of(&member.about.name).cloned(),
    };
    members.nodes.iter().map(row).collect()
}

/// Load of a node: ranks and memory of the jobs on it.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    ranks: u64,
    declared_bytes: u64,
}

/// Ranks of jobs on each node.
pub(super) fn ranks(jobs: &Jobs) -> BTreeMap<NodeId, u64> {
    load(jobs).into_iter().map(|(node, load)| (node, load.ranks)).collect()
}

fn load(jobs: &Jobs) -> BTreeMap<NodeId, Load> {
    let mut load: BTreeMap<NodeId, Load> = BTreeMap::new();
    let open = jobs.records.values().filter(|job| !job.is_over()).map(|job| &job.launch);
    // A step has what its job has.
    for launch in open.filter(|launch| launch.steps.owner.is_none()) {
        for (node, ranks) in launch.places() {
            let of_node = load.entry(node).or_default();
            of_node.ranks += ranks;
            of_node.declared_bytes += launch.terms.memory_bytes;
        }
    }
    load
}
