//! The jobs and nodes of the cluster as users see them.

use std::collections::BTreeMap;

use super::job::HeadJob;
use super::placement;
use crate::core::Core;
use crate::gang::Means;
use crate::members::{Members, NodeId};
use crate::message::{JobId, JobRow, NodeRow};

impl Core {
    pub(super) fn list(&self, wanted: impl Fn(JobId, &HeadJob) -> bool) -> Vec<JobRow> {
        let (Some(head), Some(members)) = (&self.head, &self.members) else { return Vec::new() };
        let row = |(id, job): (&JobId, &HeadJob)| JobRow {
            job: *id,
            uid: job.launch.user.uid,
            state: job.state(),
            ranks: job.launch.job.ranks(),
            nodes: names(members, &job.launch.nodes),
            command: job.command.clone(),
            submitted_ms: job.launch.submitted_ms,
            started_ms: job.started_ms,
            ended_ms: job.ended_ms,
            status: job.over.then_some(job.status),
            held_by: self.held_by(*id, members),
            pids: job.pids.iter().map(|(node, pids)| (name(members, *node), pids.clone())).collect(),
        };
        head.jobs.iter().filter(|(id, job)| wanted(**id, job)).map(row).collect()
    }

    fn held_by(&self, job: JobId, members: &Members) -> Vec<(String, Means)> {
        let states = self.relay.states(job).into_iter().flatten();
        states.filter_map(|(node, part)| Some((name(members, *node), part.held_by?))).collect()
    }

    pub(super) fn list_nodes(&self) -> Vec<NodeRow> {
        let (Some(head), Some(members)) = (&self.head, &self.members) else { return Vec::new() };
        let load = load(&head.jobs);
        let row = |(node, member): (&NodeId, &crate::members::Member)| NodeRow {
            node: *node,
            name: member.about.name.clone(),
            alive: member.alive,
            slots: member.about.slots,
            preferred: member.about.preferred,
            ranks: load.get(node).copied().unwrap_or(0),
            parent: members.parent(*node),
            address: member.about.data.to_string(),
        };
        members.nodes.iter().map(row).collect()
    }
}

/// Ranks on each node.
pub(super) fn load(jobs: &BTreeMap<JobId, HeadJob>) -> BTreeMap<NodeId, u64> {
    let mut load = BTreeMap::new();
    for job in jobs.values().filter(|job| !job.over) {
        for (node, ranks) in
            placement::shares(&job.launch.nodes, &job.launch.first_ranks, job.launch.job.ranks())
        {
            *load.entry(node).or_default() += ranks;
        }
    }
    load
}

pub(super) fn name(members: &Members, node: NodeId) -> String {
    members.nodes.get(&node).map_or_else(|| node.to_string(), |member| member.about.name.clone())
}

pub(super) fn names(members: &Members, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| name(members, *node)).collect()
}
