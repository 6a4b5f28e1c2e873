//! A strict switch: who leaves, who comes, which step each has come to, and which nodes it goes on without.
//!
//! ```text
//!  leaves:  Freezing --FROZEN--> Saving --SAVED--> Saved
//!  comes:   Waiting --all on its slots Saved--> Restoring --RESTORED--> Running
//! ```
//!
//! Each step of a job is a barrier of its nodes that count, and begins at a time. A node that is named
//! (`Report::Late`) as lacking in a step that has been open for ten slices is expelled; if the step is open
//! still longer and nobody could say who lacks, since all nodes of the job lack alike, all are. A job of
//! which no node counts is waited for by nobody: who leaves counts as saved, who comes as absent until a node
//! of it is back.

use std::collections::BTreeMap;

use super::{Controller, Notice};
use crate::demand::Part;
use crate::message::{Down, Mode, Order, Stage};
use crate::types::{Generation, JobId, NodeId, Slots};

/// A node that lacks in a step for so many slices is late.
const LATE_SLICES: u64 = 10;

/// A strict switch.
#[derive(Clone, Debug)]
pub(super) struct Strict {
    generation: Generation,
    leaving: Vec<Step<Leaving>>,
    coming: Vec<Step<Coming>>,
    /// Pairs of a job that comes and one that leaves, on whose slots it comes.
    after: Vec<(JobId, JobId)>,
    pub(super) complete: bool,
}

/// Where a job is in the switch, and since when.
#[derive(Clone, Copy, Debug)]
struct Step<At> {
    job: JobId,
    at: At,
    since_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    Freezing,
    Saving,
    Saved,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Coming {
    Waiting,
    Restoring,
    Running,
    /// No node of the job counts.
    Absent,
}

impl Strict {
    /// The barriers that are open: their jobs, what they wait for, and since when.
    fn open(&self) -> impl Iterator<Item = (JobId, Stage, u64)> + '_ {
        let leaving = self.leaving.iter().filter_map(|step| match step.at {
            Leaving::Freezing => Some((step.job, Stage::Frozen, step.since_ns)),
            Leaving::Saving => Some((step.job, Stage::Saved, step.since_ns)),
            Leaving::Saved => None,
        });
        let restoring = self.coming.iter().filter(|step| step.at == Coming::Restoring);
        leaving.chain(restoring.map(|step| (step.job, Stage::Restored, step.since_ns)))
    }

    /// A job has reached a stage: true if that was waited for.
    fn reach(&mut self, now_ns: u64, job: JobId, stage: Stage, down: &mut impl Extend<Down>) -> bool {
        let leaving = self.leaving.iter_mut().find(|step| step.job == job);
        let coming = self.coming.iter_mut().find(|step| step.job == job);
        match (stage, leaving, coming) {
            (Stage::Frozen, Some(step), _) if step.at == Leaving::Freezing => {
                step.go_to(Leaving::Saving, now_ns);
                down.extend([Down::Order(Order::Save(job, self.generation))]);
            }
            (Stage::Saved, Some(step), _) if step.at == Leaving::Saving => {
                step.go_to(Leaving::Saved, now_ns);
            }
            (Stage::Restored, _, Some(step)) if step.at == Coming::Restoring => {
                step.go_to(Coming::Running, now_ns);
                down.extend([Down::Order(Order::Run(job, self.generation))]);
            }
            _ => return false,
        }
        true
    }

    /// All steps that can be taken without anybody's word.
    fn advance(&mut self, now_ns: u64, counts: impl Fn(JobId) -> bool, down: &mut impl Extend<Down>) {
        for step in self.leaving.iter_mut().filter(|step| step.at != Leaving::Saved && !counts(step.job)) {
            step.go_to(Leaving::Saved, now_ns);
        }
        let is_left = |job| {
            let mut on_its_slots = self.leaving.iter().filter(|step| self.after.contains(&(job, step.job)));
            on_its_slots.all(|step| step.at == Leaving::Saved)
        };
        for step in &mut self.coming {
            match (step.at, counts(step.job)) {
                (Coming::Waiting | Coming::Restoring, false) => step.go_to(Coming::Absent, now_ns),
                (Coming::Absent, true) => step.go_to(Coming::Waiting, now_ns),
                _ => {}
            }
            if step.at == Coming::Waiting && is_left(step.job) {
                step.go_to(Coming::Restoring, now_ns);
                down.extend([Down::Order(Order::Restore(step.job, self.generation))]);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.leaving.iter().all(|step| step.at == Leaving::Saved)
            && self.coming.iter().all(|step| matches!(step.at, Coming::Running | Coming::Absent))
    }

    /// Orders given so far, for those who may not have heard them.
    pub(super) fn orders(&self, running: &[JobId]) -> Vec<Down> {
        let generation = self.generation;
        let saves = self.leaving.iter().filter(|step| step.at != Leaving::Freezing);
        let restores =
            self.coming.iter().filter(|step| matches!(step.at, Coming::Restoring | Coming::Running));
        // Those too that run since an earlier switch: a daemon that is new has not heard of it.
        let comes = |job| self.coming.iter().any(|step| step.job == job && step.at != Coming::Running);
        let runs = running.iter().filter(|&&job| !comes(job));
        let saves = saves.map(|step| Order::Save(step.job, generation));
        let restores = restores.map(|step| Order::Restore(step.job, generation));
        let runs = runs.map(|&job| Order::Run(job, generation));
        saves.chain(restores).chain(runs).map(Down::Order).collect()
    }
}

impl<At> Step<At> {
    fn go_to(&mut self, at: At, now_ns: u64) {
        (self.at, self.since_ns) = (at, now_ns);
    }
}

impl Controller {
    pub(super) fn begin_strict(&mut self, now_ns: u64, generation: Generation, before: &[JobId]) {
        let after = self.scheduler.running();
        let leaving: Vec<_> = before.iter().copied().filter(|job| !after.contains(job)).collect();
        let coming: Vec<_> = after.iter().copied().filter(|job| !before.contains(job)).collect();
        let slots = |job: &JobId| by_node(self.scheduler.parts(*job).unwrap_or_default());
        let left: Vec<_> = leaving.iter().map(|job| (*job, slots(job))).collect();
        let mut pairs = Vec::new();
        for &comes in &coming {
            let parts = self.scheduler.parts(comes).unwrap_or_default();
            pairs.extend(left.iter().filter(|left| overlap(parts, &left.1)).map(|left| (comes, left.0)));
        }
        let leaves = |job| Step { job, at: Leaving::Freezing, since_ns: now_ns };
        let comes = |job| Step { job, at: Coming::Waiting, since_ns: now_ns };
        self.strict = Some(Strict {
            generation,
            leaving: leaving.into_iter().map(leaves).collect(),
            coming: coming.into_iter().map(comes).collect(),
            after: pairs,
            complete: false,
        });
    }

    /// A job has reached a stage, of this generation or a later one.
    pub(super) fn reach(&mut self, now_ns: u64, job: JobId, stage: Stage, generation: Generation) {
        let strict = self.strict.as_mut().filter(|strict| generation >= strict.generation);
        if strict.is_some_and(|strict| strict.reach(now_ns, job, stage, &mut self.down)) {
            self.advance(now_ns);
        }
    }

    /// Restores who may be restored; says when the strict switch is through, and when it no longer is.
    pub(super) fn advance(&mut self, now_ns: u64) {
        let Some(strict) = &mut self.strict else { return };
        let (scheduler, tree) = (&self.scheduler, &self.tree);
        let counts = |job| scheduler.parts(job).unwrap_or_default().iter().any(|part| tree.counts(part.node));
        strict.advance(now_ns, counts, &mut self.down);
        match (strict.is_over(), strict.complete) {
            (true, false) => self.scheduler.extend_slice(now_ns),
            // A job that was absent comes after all.
            (false, true) => self.scheduler.pause(now_ns),
            _ => {}
        }
        strict.complete = strict.is_over();
    }

    /// A job that dies takes no further part in the switch.
    pub(super) fn forget(&mut self, job: JobId) {
        if let Some(strict) = &mut self.strict {
            strict.leaving.retain(|step| step.job != job);
            strict.coming.retain(|step| step.job != job);
        }
        self.advance(self.scheduler.now_ns());
    }

    /// A node lacks: strict switches go on without it if they have waited long enough.
    pub(super) fn expel_late(&mut self, now_ns: u64, node: NodeId, job: JobId, stage: Stage) {
        let late_ns = LATE_SLICES * self.scheduler.slice_ns();
        // Several may be late alike: that one has been expelled gives the others no more time, but for who
        // may have waited for it.
        let waited =
            self.tree.members().expelled.iter().any(|&other| self.tree.next_hop(node, other).is_some());
        let from_ns = if self.tree.counts(node) && !waited { 0 } else { self.late.tree_ns };
        let is_due = |open: &(JobId, Stage, u64)| {
            (open.0, open.1) == (job, stage) && now_ns >= open.2.max(from_ns) + late_ns
        };
        if !self.strict.as_ref().is_some_and(|strict| strict.open().any(|open| is_due(&open))) {
            return;
        }
        // Named again although it does not count: it does not forward either, so nobody below it counts.
        let again = self.tree.is_here(node) && !self.tree.counts(node) && node != self.tree.controller();
        let below = |other| again && self.tree.next_hop(node, other).is_some();
        let nodes = (0..self.tree.nodes()).map(NodeId);
        self.expel(now_ns, nodes.filter(|&other| other == node || below(other)).collect());
    }

    /// Expels all nodes of jobs in whose steps all lack alike, for so long that somebody else would have been
    /// named.
    pub(super) fn expel_nameless(&mut self, now_ns: u64) {
        let nameless_ns = self.nameless_step_ns();
        let Some(strict) = self.strict.as_ref().filter(|strict| !strict.complete) else { return };
        let is_due = |open: &(JobId, Stage, u64)| now_ns >= open.2.max(self.late.tree_ns) + nameless_ns;
        let due =
            strict.open().filter(is_due).flat_map(|open| self.scheduler.parts(open.0).unwrap_or_default());
        let nodes: Vec<NodeId> = due.map(|part| part.node).collect();
        self.expel(now_ns, nodes);
    }

    /// When [`Self::expel_nameless`] has something to do.
    pub(super) fn strict_timeout(&self) -> Option<u64> {
        let strict = self.strict.as_ref().filter(|strict| !strict.complete)?;
        let since_ns = strict.open().map(|open| open.2).min()?;
        Some(since_ns.max(self.late.tree_ns) + self.nameless_step_ns())
    }

    /// Longer than it takes any level of the tree to name who lacks ([`crate::barrier::Merger::new`]), twice.
    fn nameless_step_ns(&self) -> u64 {
        let late_ns = LATE_SLICES * self.scheduler.slice_ns();
        2 * late_ns + late_ns / 10 * u64::from(self.tree.height())
    }

    fn expel(&mut self, now_ns: u64, nodes: Vec<NodeId>) {
        let mut members = self.tree.members().clone();
        for node in nodes.into_iter().filter(|node| self.tree.is_here(*node)) {
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

    /// The switch in force is overlapped, or there is none.
    pub(super) fn is_overlapped(&self) -> bool {
        self.switch.is_none_or(|switch| switch.mode == Mode::Overlapped)
    }
}

/// The slots of each node.
fn by_node(parts: &[Part]) -> BTreeMap<NodeId, Slots> {
    parts.iter().map(|part| (part.node, part.slots)).collect()
}

/// True if the two share a slot.
fn overlap(parts: &[Part], slots: &BTreeMap<NodeId, Slots>) -> bool {
    parts.iter().any(|part| slots.get(&part.node).is_some_and(|slots| !slots.is_disjoint(&part.slots)))
}

#[cfg(test)]
mod tests;
