//! Messages that the ranks of jobs have sent, as nodes have counted them last. They are shown, nothing else.

use std::collections::BTreeMap;

use tutti_sched::market::NodeUse;

use super::jobs::Jobs;
use crate::members::NodeId;
use crate::message::JobId;

/// Counts by job and node.
#[derive(Debug, Default)]
pub(super) struct Messages {
    sent: BTreeMap<JobId, BTreeMap<NodeId, u64>>,
}

impl Messages {
    /// A node has counted. Of jobs that are not known, or over, nothing is kept.
    pub(super) fn handle_use(&mut self, jobs: &Jobs, node: NodeId, found: &NodeUse) {
        for one in found.jobs.iter().filter(|one| one.messages > 0) {
            if jobs.get(one.job).is_some_and(|job| !job.is_over()) {
                self.sent.entry(one.job).or_default().insert(node, one.messages);
            }
        }
    }

    /// A job is over, or forgotten.
    pub(super) fn forget(&mut self, job: JobId) {
        self.sent.remove(&job);
    }

    /// Messages of each job that has sent some.
    pub(super) fn all(&self) -> impl Iterator<Item = (JobId, u64)> {
        let sum =
            |nodes: &BTreeMap<NodeId, u64>| nodes.values().fold(0_u64, |sum, one| sum.saturating_add(*one));
        self.sent.iter().map(move |(job, nodes)| (*job, sum(nodes)))
    }
}
