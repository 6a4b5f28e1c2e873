//! Late nodes: those that have not frozen a job, and what is said of them. Who is expelled for it, strict
//! switches say (`strict`).
//!
//! A report names a node and a job, again and again while it is so; the parents of the node may name each
//! other above it, so the deepest counts. Where nobody can tell, since all nodes of a job lack alike, all are
//! named. People hear of a node once it has kept a job for [`PATIENCE_NS`] or ten slices, whichever is more,
//! and again when it has frozen all that it was named for.

use std::collections::BTreeSet;

use super::{Controller, Notice};
use crate::message::Stage;
use crate::types::{JobId, NodeId};

/// A machine that others keep busy may take this long to freeze somebody without anything being wrong.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Pairs of a node and a job for which room is kept: on a busy machine somebody is late now and then.
const NAMED: usize = 64;

/// Whom jobs wait for that stand still.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lags {
    /// Jobs that have left their row, each with a node that has not frozen it, or below which one has not.
    pub unfrozen: Vec<(JobId, NodeId)>,
    /// Jobs with a part there are left out.
    pub expelled: Vec<NodeId>,
}

/// Nodes that are late, as the controller knows them.
#[derive(Clone, Debug)]
pub(super) struct Late {
    /// Nodes that have not frozen a job, in order, and whether it counts as said.
    named: Vec<((NodeId, JobId), bool)>,
    /// Whether anything differs from what [`Controller::poll_lags`] has said.
    pub(super) changed: bool,
    /// The last change of the tree, after which all is reported anew.
    pub(super) tree_ns: u64,
}

impl Default for Late {
    fn default() -> Self {
        Late { named: Vec::with_capacity(NAMED), changed: false, tree_ns: 0 }
    }
}

impl Late {
    fn knows(&self, job: JobId) -> bool {
        self.named.iter().any(|(named, _)| named.1 == job)
    }

    fn name(&mut self, named: (NodeId, JobId)) {
        if let Err(at) = self.named.binary_search_by_key(&named, |(named, _)| *named) {
            self.named.insert(at, (named, false));
        }
    }

    fn nodes(&self) -> BTreeSet<NodeId> {
        self.named.iter().filter(|(_, reported)| *reported).map(|((node, _), _)| *node).collect()
    }
}

impl Controller {
    /// Whom jobs wait for, if that has changed since it was last asked for.
    pub fn poll_lags(&mut self) -> Option<Lags> {
        if !std::mem::take(&mut self.late.changed) {
            return None;
        }
        let reported = self.late.named.iter().filter(|(_, reported)| *reported);
        Some(Lags {
            unfrozen: reported.map(|((node, job), _)| (*job, *node)).collect(),
            expelled: self.tree.members().expelled.clone(),
        })
    }

    pub(super) fn handle_late(&mut self, now_ns: u64, node: NodeId, job: JobId, stage: Stage) {
        if !self.tree.is_here(node) {
            return;
        }
        if stage == Stage::Frozen {
            self.name(node, job);
        }
        if !self.is_overlapped() {
            self.expel_late(now_ns, node, job, stage);
        }
    }

    fn name(&mut self, node: NodeId, job: JobId) {
        let deeper = |named: &(NodeId, JobId)| {
            named.1 == job && named.0 != node && self.tree.next_hop(node, named.0).is_some()
        };
        if self.scheduler.is_leaving(job) && !self.late.named.iter().any(|(named, _)| deeper(named)) {
            self.late.name((node, job));
        }
    }

    /// Looks who has become late, and who no longer is. Takes memory only if somebody has.
    pub(super) fn judge_late(&mut self, now_ns: u64) {
        while let Some(job) = self.due_nameless(now_ns) {
            let parts = self.scheduler.parts(job).unwrap_or_default();
            let nodes: Vec<NodeId> = parts.iter().map(|part| part.node).collect();
            let counting = nodes.into_iter().filter(|node| self.tree.counts(*node));
            counting.for_each(|node| self.late.name((node, job)));
        }
        let tolerance_ns = self.tolerance_ns();
        let (scheduler, tree) = (&self.scheduler, &self.tree);
        let stays = |&(node, job): &(NodeId, JobId)| tree.counts(node) && scheduler.is_leaving(job);
        let is_due = |&(_, job): &(NodeId, JobId)| {
            scheduler.left_ns(job).is_some_and(|left_ns| now_ns >= left_ns + tolerance_ns)
        };
        let named = &mut self.late.named;
        if named.iter().all(|(named, reported)| stays(named) && (*reported || !is_due(named))) {
            return;
        }
        let before = self.late.nodes();
        self.late.named.retain_mut(|(named, reported)| {
            let (stays, is_due) = (stays(named), is_due(named));
            self.late.changed |= *reported != (stays && (*reported || is_due));
            *reported |= is_due;
            stays
        });
        let after = self.late.nodes();
        for &node in after.difference(&before) {
            let job = self.late.named.iter().find(|(named, reported)| named.0 == node && *reported);
            self.notices.extend(job.map(|((_, job), _)| Notice::Late(node, *job)));
        }
        let over = before.difference(&after).filter(|node| tree.counts(**node));
        self.notices.extend(over.map(|&node| Notice::InTime(node)));
    }

    /// When [`Self::judge_late`] has something to say at the latest, unless somebody reports before.
    pub(super) fn late_timeout(&self) -> Option<u64> {
        let tolerance_ns = self.tolerance_ns();
        let due = |(job, left_ns): (JobId, u64)| {
            let mut named = self.late.named.iter().filter(|(named, _)| named.1 == job).peekable();
            if named.peek().is_none() {
                let nameless = self.is_overlapped() && self.counts_somewhere(job);
                return nameless.then_some(self.nameless_ns(left_ns));
            }
            named.any(|(_, reported)| !reported).then_some(left_ns + tolerance_ns)
        };
        self.scheduler.leaving().filter_map(due).min()
    }

    /// A job of which nobody has said who keeps it, though somebody does.
    fn due_nameless(&self, now_ns: u64) -> Option<JobId> {
        // Strict switches expel them.
        if !self.is_overlapped() {
            return None;
        }
        let mut due = self.scheduler.leaving().filter(|(_, left_ns)| now_ns >= self.nameless_ns(*left_ns));
        due.find(|(job, _)| !self.late.knows(*job) && self.counts_somewhere(*job)).map(|(job, _)| job)
    }

    fn nameless_ns(&self, left_ns: u64) -> u64 {
        left_ns.max(self.late.tree_ns) + 2 * self.tolerance_ns()
    }

    /// True if a node of the job counts.
    pub(super) fn counts_somewhere(&self, job: JobId) -> bool {
        self.scheduler.parts(job).unwrap_or_default().iter().any(|part| self.tree.counts(part.node))
    }

    fn tolerance_ns(&self) -> u64 {
        PATIENCE_NS.max(10 * self.scheduler.slice_ns())
    }
}
