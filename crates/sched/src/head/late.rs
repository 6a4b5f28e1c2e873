//! Who is late: nodes that have not frozen a job. What is said of them, and who is expelled for it.
//!
//! A report names a node and a job, again and again while it is so; the parents of the node may name each other above it, so the deepest
//! counts. Where nobody can tell, since all nodes of a job lack alike, all are named. People hear of a node once it has kept a job for
//! [`PATIENCE_NS`] or ten slices, whichever is more, and again when it has frozen all that it was named for.

use std::collections::{BTreeMap, BTreeSet};

use super::{Coming, Head, Notice};
use crate::message::Mode;
use crate::types::{JobId, NodeId};

/// A machine that others keep busy may take this long to freeze somebody without anything being wrong.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Whom jobs wait for that stand still.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lags {
    /// This node, or one below it, has not frozen this job, which has left its row.
    pub unfrozen: Vec<(JobId, NodeId)>,
    /// Jobs with a part there are left out.
    pub expelled: Vec<NodeId>,
}

/// What the head knows of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Late {
    /// Who has not frozen which job, and whether it counts as said.
    named: BTreeMap<(NodeId, JobId), bool>,
    /// It is otherwise than [`Head::poll_lags`] has said.
    pub(super) changed: bool,
    /// The last change of the tree, after which all is reported anew.
    pub(super) tree_ns: u64,
}

impl Late {
    fn knows(&self, job: JobId) -> bool {
        self.named.keys().any(|named| named.1 == job)
    }

    fn nodes(&self) -> BTreeSet<NodeId> {
        self.named.iter().filter(|(_, said)| **said).map(|((node, _), _)| *node).collect()
    }
}

impl Head {
    /// Whom jobs wait for, if that has changed since it was last asked for.
    pub fn poll_lags(&mut self) -> Option<Lags> {
        if !std::mem::take(&mut self.late.changed) {
            return None;
        }
        let said = self.late.named.iter().filter(|(_, said)| **said);
        Some(Lags {
            unfrozen: said.map(|((node, job), _)| (*job, *node)).collect(),
            expelled: self.tree.members().expelled.clone(),
        })
    }

    pub(super) fn handle_late(&mut self, now_ns: u64, node: NodeId, job: JobId) {
        if !self.tree.is_here(node) {
            return;
        }
        self.name(node, job);
        let overlapped = self.switch.is_none_or(|switch| switch.mode == Mode::Overlapped);
        if overlapped || node == self.tree.head() || !self.is_awaited(node) {
            return;
        }
        let mut members = self.tree.members().clone();
        let again = members.expelled.binary_search(&node).is_ok();
        // Named again although it does not count: it does not forward either, so nobody below it counts.
        let late = (0..self.tree.nodes()).map(NodeId).filter(|&other| {
            other == node || again && self.tree.is_here(other) && self.tree.next_hop(node, other).is_some()
        });
        for node in late {
            if let Err(at) = members.expelled.binary_search(&node) {
                members.expelled.insert(at, node);
                self.scheduler.handle_node_expelled(now_ns, node);
                self.notices.push_back(Notice::Expelled(node));
            }
        }
        if members != *self.tree.members() {
            self.change(members);
        }
    }

    /// True if a job with a part on the node, or below it, is to reach something. Reports of a job that runs, or that stands still
    /// since long, may differ for ever without anybody being late: each is of the last time at which its node had to say something.
    fn is_awaited(&self, node: NodeId) -> bool {
        let comes = |job: JobId| {
            let open = self.strict.as_ref().filter(|strict| !strict.through);
            open.is_some_and(|strict| strict.coming.contains(&(job, Coming::Restoring)))
        };
        let reaches = |other: NodeId| other == node || self.tree.next_hop(node, other).is_some();
        self.scheduler
            .jobs()
            .filter(|&job| comes(job) || self.scheduler.is_leaving(job))
            .any(|job| self.scheduler.parts(job).unwrap_or_default().iter().any(|part| reaches(part.node)))
    }

    fn name(&mut self, node: NodeId, job: JobId) {
        let deeper = |named: &(NodeId, JobId)| {
            named.1 == job && named.0 != node && self.tree.next_hop(node, named.0).is_some()
        };
        if self.scheduler.is_leaving(job) && !self.late.named.keys().any(deeper) {
            self.late.named.entry((node, job)).or_default();
        }
    }

    /// Looks who has become late, and who no longer is. Takes memory only if somebody has.
    pub(super) fn judge_late(&mut self, now_ns: u64) {
        while let Some(job) = self.due_nameless(now_ns) {
            let parts = self.scheduler.parts(job).unwrap_or_default();
            let nodes: Vec<NodeId> = parts.iter().map(|part| part.node).collect();
            let counting = nodes.into_iter().filter(|node| self.tree.counts(*node));
            self.late.named.extend(counting.map(|node| ((node, job), false)));
        }
        let patience_ns = self.patience_ns();
        let (scheduler, tree) = (&self.scheduler, &self.tree);
        let stays = |&(node, job): &(NodeId, JobId)| tree.counts(node) && scheduler.is_leaving(job);
        let is_due = |&(_, job): &(NodeId, JobId)| {
            scheduler.left_ns(job).is_some_and(|left_ns| now_ns >= left_ns + patience_ns)
        };
        let named = &mut self.late.named;
        if named.iter().all(|(named, said)| stays(named) && (*said || !is_due(named))) {
            return;
        }
        let before = self.late.nodes();
        self.late.named.retain(|named, said| {
            let (stays, is_due) = (stays(named), is_due(named));
            self.late.changed |= *said != (stays && (*said || is_due));
            *said |= is_due;
            stays
        });
        let after = self.late.nodes();
        for &node in after.difference(&before) {
            let job = self.late.named.iter().find(|(named, said)| named.0 == node && **said);
            self.notices.extend(job.map(|((_, job), _)| Notice::Late(node, *job)));
        }
        let over = before.difference(&after).filter(|node| tree.counts(**node));
        self.notices.extend(over.map(|&node| Notice::InTime(node)));
    }

    /// When [`Self::judge_late`] has something to say at the latest, unless somebody reports before.
    pub(super) fn late_timeout(&self) -> Option<u64> {
        let patience_ns = self.patience_ns();
        let due = |(job, left_ns): (JobId, u64)| {
            let mut named = self.late.named.iter().filter(|(named, _)| named.1 == job).peekable();
            if named.peek().is_none() {
                return self.counts_somewhere(job).then_some(self.nameless_ns(left_ns));
            }
            named.any(|(_, said)| !said).then_some(left_ns + patience_ns)
        };
        self.scheduler.leaving().filter_map(due).min()
    }

    /// A job of which nobody has said who keeps it, though somebody does.
    fn due_nameless(&self, now_ns: u64) -> Option<JobId> {
        let mut due = self.scheduler.leaving().filter(|(_, left_ns)| now_ns >= self.nameless_ns(*left_ns));
        due.find(|(job, _)| !self.late.knows(*job) && self.counts_somewhere(*job)).map(|(job, _)| job)
    }

    fn nameless_ns(&self, left_ns: u64) -> u64 {
        left_ns.max(self.late.tree_ns) + 2 * self.patience_ns()
    }

    fn counts_somewhere(&self, job: JobId) -> bool {
        self.scheduler.parts(job).unwrap_or_default().iter().any(|part| self.tree.counts(part.node))
    }

    fn patience_ns(&self) -> u64 {
        PATIENCE_NS.max(10 * self.scheduler.slice_ns())
    }
}
