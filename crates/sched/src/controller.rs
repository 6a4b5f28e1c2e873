//! The controller's side of the gang switch: what goes down the tree, and what the reports that come up lead
//! to.
//!
//! [`Controller`] has the [`Scheduler`]. The caller tells it events, sends down what
//! [`Controller::poll_down`] gives, in that order, to the node's own [`crate::gang::NodeSwitch`] too, and
//! hands it what the controller's own [`crate::barrier::Merger`] has merged.
//!
//! ```text
//!  overlapped:  PLAN if changed, SWITCH                                  FROZEN comes behind; nothing waits for it but the job's next turn
//!  strict:      PLAN if changed, SWITCH (the paper's FREEZE)
//!               of each job that leaves:  FROZEN -> SAVE -> SAVED
//!               of each job that comes:   all that leave its slots are SAVED -> RESTORE -> RESTORED -> RUN
//! ```
//!
//! Barriers are per job: in strict mode a job waits for those that leave its own slots, and for no other. The
//! next strict switch waits until this one is through; so a node that is late would hold up everything: after
//! ten slices it is expelled ([`Notice::Expelled`]), its jobs are left out, and the barriers are complete
//! without it (`strict`). In overlapped mode a late node holds up its own jobs only, since they are not
//! switched in before they are FROZEN; so it is named, and nothing else happens to it (`late`).
//!
//! After a change of the tree everything in force is repeated, since a lost node may have taken it along.

use std::collections::{BTreeMap, VecDeque};

use crate::message::{Down, Members, Mode, Order, Plan, Report, Stage, Switch};
use crate::scheduler::{JobState, Scheduler};
use crate::tree::Tree;
use crate::types::{Generation, JobId, Membership, NodeId, Version};

mod late;
mod strict;

pub use late::Lags;
use late::Late;
use strict::Strict;

/// News for the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The job is suspended and frozen on all its nodes.
    Suspended(JobId),
    /// The node keeps a job, this one if there are several, that has left its row: it has not frozen it for a
    /// second or more.
    Late(NodeId, JobId),
    /// The node has frozen all jobs that it kept.
    InTime(NodeId),
    /// The node is out of the slice plan.
    Expelled(NodeId),
    /// The node is in the slice plan again.
    Back(NodeId),
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Controller {
    scheduler: Scheduler,
    tree: Tree,
    /// The switch in force and its plan.
    switch: Option<Switch>,
    plan: Plan,
    strict: Option<Strict>,
    /// The last suspend (true) or resume of each job, and its number.
    suspends: BTreeMap<JobId, (u64, bool)>,
    /// Lower bound of this controller's numbers: all are larger.
    first: u64,
    down: VecDeque<Down>,
    notices: VecDeque<Notice>,
    late: Late,
    /// Jobs that ran before the switch that is being made.
    before: Vec<JobId>,
}

impl Controller {
    /// The controller of this tree. States of the tree, suspensions and resumptions are numbered from the
    /// scheduler's first generation on: what nodes know of an earlier controller's is older.
    #[must_use]
    pub fn new(scheduler: Scheduler, mut tree: Tree) -> Self {
        let first = scheduler.generation().0;
        tree.handle_members(&Members { membership: Membership(first), ..tree.members().clone() });
        let mut controller = Controller {
            scheduler,
            tree,
            switch: None,
            plan: Plan::default(),
            strict: None,
            suspends: BTreeMap::new(),
            first,
            down: VecDeque::new(),
            notices: VecDeque::new(),
            late: Late::default(),
            before: Vec::new(),
        };
        if first > 0 {
            // Reports count in the state of the tree that they are of.
            controller.handle_daemon_back();
        }
        controller
    }

    /// The scheduler: for looks.
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// The scheduler: to submit, begin and end jobs, add nodes, set weights. Suspend, resume, kill and losses
    /// of nodes go through the controller, since others are to hear of them.
    pub fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// The tree as the controller has ordered it.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// A node has joined at the end of the tree.
    pub fn handle_join(&mut self, now_ns: u64, slots: u32, memory_bytes: u64) -> NodeId {
        let node = self.tree.grow();
        self.scheduler.handle_node(now_ns, node, slots, memory_bytes);
        node
    }

    /// A node that is lost has its place at the end of the tree: an earlier controller had it.
    pub fn handle_join_lost(&mut self) -> NodeId {
        let node = self.tree.grow();
        self.note_lost(node);
        node
    }

    /// A node that was lost is back, with nothing running on it.
    pub fn handle_node_back(&mut self, now_ns: u64, node: NodeId, slots: u32, memory_bytes: u64) {
        self.scheduler.handle_node(now_ns, node, slots, memory_bytes);
        let mut members = self.tree.members().clone();
        members.lost.retain(|&lost| lost != node);
        self.change(members);
    }

    /// A daemon has come back to its place in the tree, its jobs are where they were: everything in force is
    /// repeated.
    pub fn handle_daemon_back(&mut self) {
        self.change(self.tree.members().clone());
    }

    /// A node is lost: its jobs are killed everywhere. They are returned; the caller says
    /// [`Self::handle_job_ended`] of each when it is.
    pub fn handle_node_lost(&mut self, now_ns: u64, node: NodeId) -> Vec<JobId> {
        let jobs = self.scheduler.handle_node_lost(now_ns, node);
        for &job in &jobs {
            self.forget(job);
        }
        self.note_lost(node);
        jobs
    }

    fn note_lost(&mut self, node: NodeId) {
        let mut members = self.tree.members().clone();
        members.expelled.retain(|&expelled| expelled != node);
        if let Err(at) = members.lost.binary_search(&node) {
            members.lost.insert(at, node);
        }
        self.change(members);
    }

    /// Freezes the job until it is resumed. [`Notice::Suspended`] follows.
    pub fn suspend(&mut self, now_ns: u64, job: JobId) {
        self.scheduler.suspend(now_ns, job);
        let serial = self.next_serial(job, true);
        self.down.push_back(Down::Order(Order::Suspend(job, serial)));
    }

    /// Lets a suspended job take its turns again.
    pub fn resume(&mut self, now_ns: u64, job: JobId) {
        self.scheduler.resume(now_ns, job);
        let serial = self.next_serial(job, false);
        self.down.push_back(Down::Order(Order::Resume(job, serial)));
    }

    /// A job that an earlier controller had has begun again. Of that one's last SUSPEND or RESUME some nodes
    /// may have heard, and others not: all hear what holds, or a part would stay frozen for ever.
    pub fn handle_found(&mut self, job: JobId) {
        let suspended = self.scheduler.state(job) == Some(JobState::Suspended);
        let serial = self.next_serial(job, suspended);
        let order = if suspended { Order::Suspend(job, serial) } else { Order::Resume(job, serial) };
        self.down.push_back(Down::Order(order));
    }

    /// Ends the job, whatever state it is in. The caller says [`Self::handle_job_ended`] when nothing of it
    /// is left.
    pub fn kill(&mut self, now_ns: u64, job: JobId) {
        self.scheduler.kill(now_ns, job);
        self.forget(job);
        self.down.push_back(Down::Order(Order::Kill(job)));
    }

    /// Handles the end of the job, of which nothing is left on any node.
    pub fn handle_job_ended(&mut self, now_ns: u64, job: JobId) {
        self.scheduler.end(now_ns, job);
        self.suspends.remove(&job);
        self.forget(job);
    }

    /// A report that the controller's merger has merged or passed on.
    pub fn handle_report(&mut self, now_ns: u64, report: Report) {
        match report {
            Report::Reached { job, stage, generation, membership } => {
                if membership == self.tree.membership() {
                    self.handle_stage(now_ns, job, stage, generation);
                }
            }
            Report::Woken { job } => self.scheduler.handle_woken(now_ns, job),
            Report::Late { node, job, stage } => self.handle_late(now_ns, node, job, stage),
            Report::Here { node, generation } => self.handle_here(now_ns, node, generation),
            Report::ChildJoined { .. } => self.handle_daemon_back(),
        }
    }

    /// Takes what goes down next. After an event and at [`Self::poll_timeout`] the caller polls until None.
    pub fn poll_down(&mut self, now_ns: u64) -> Option<Down> {
        if self.down.is_empty() {
            self.expel_nameless(now_ns);
            if self.is_complete() {
                self.turn(now_ns);
            }
        }
        self.down.pop_front()
    }

    /// When [`Self::poll_down`] and [`Self::poll_notice`] are to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let next_ns = if self.is_complete() { self.scheduler.next_at_ns() } else { self.strict_timeout() };
        next_ns.into_iter().chain(self.late_timeout()).min()
    }

    /// Takes the next notice for the caller.
    pub fn poll_notice(&mut self, now_ns: u64) -> Option<Notice> {
        self.judge_late(now_ns);
        self.notices.pop_front()
    }

    /// The switch in force.
    #[must_use]
    pub fn switch(&self) -> Option<Switch> {
        self.switch
    }

    /// True if the last switch is through: always, when overlapped; strict, when RUN has gone to all.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.strict.as_ref().is_none_or(|strict| strict.complete)
    }

    /// Makes the switch that is due, if one is.
    fn turn(&mut self, now_ns: u64) {
        // Who runs before and after is asked for by strict switches only: others take no memory.
        self.before.clear();
        self.before.extend_from_slice(self.scheduler.running());
        let Some(switch) = self.scheduler.next_row(now_ns) else { return };
        if self.plan.version != switch.version || self.switch.is_none() {
            self.plan = self.scheduler.plan();
            self.down.push_back(Down::Plan(self.plan.clone()));
        }
        self.switch = Some(switch);
        self.down.push_back(Down::Order(Order::Switch(switch)));
        self.strict = None;
        if switch.mode == Mode::Strict {
            let before = std::mem::take(&mut self.before);
            self.begin_strict(now_ns, switch.generation, &before);
            self.before = before;
            self.scheduler.pause(now_ns);
            self.advance(now_ns);
        }
    }

    fn handle_stage(&mut self, now_ns: u64, job: JobId, stage: Stage, generation: Generation) {
        match stage {
            Stage::Frozen => self.scheduler.handle_frozen(now_ns, job, generation),
            Stage::Idle => self.scheduler.handle_idle(now_ns, job, generation),
            Stage::Suspended => {
                if self.suspends.get(&job) == Some(&(generation.0, true)) {
                    self.notices.push_back(Notice::Suspended(job));
                }
            }
            Stage::Saved | Stage::Restored => {}
        }
        self.reach(now_ns, job, stage, generation);
    }

    fn handle_here(&mut self, now_ns: u64, node: NodeId, generation: Generation) {
        if self.switch.is_some_and(|switch| generation < switch.generation) {
            // It is still working through what has come meanwhile; it will say so again.
            return;
        }
        let mut members = self.tree.members().clone();
        if let Ok(at) = members.expelled.binary_search(&node) {
            members.expelled.remove(at);
            self.scheduler.handle_node_back(now_ns, node);
            self.notices.push_back(Notice::Back(node));
            self.change(members);
        }
    }

    /// Orders a new state of the tree, and repeats all that is in force. What holds of the reports is
    /// repeated by the nodes.
    fn change(&mut self, mut members: Members) {
        members.membership = self.tree.membership().next();
        self.late.tree_ns = self.scheduler.now_ns();
        self.late.changed |= members.expelled != self.tree.members().expelled;
        self.tree.handle_members(&members);
        self.scheduler.forget_idle();
        self.down.push_back(Down::Order(Order::Members(members)));
        if let Some(switch) = self.switch {
            self.down.push_back(Down::Plan(self.plan.clone()));
            self.down.push_back(Down::Order(Order::Switch(switch)));
        }
        for (&job, &(serial, suspended)) in &self.suspends {
            let order = if suspended { Order::Suspend(job, serial) } else { Order::Resume(job, serial) };
            self.down.push_back(Down::Order(order));
        }
        for job in self.scheduler.jobs() {
            if self.scheduler.state(job) == Some(JobState::Dying) {
                self.down.push_back(Down::Order(Order::Kill(job)));
            }
        }
        if let Some(strict) = &self.strict {
            self.down.extend(strict.orders(self.scheduler.running()));
        }
        // Of some jobs nobody may count by now.
        self.advance(self.scheduler.now_ns());
    }

    fn next_serial(&mut self, job: JobId, suspended: bool) -> u64 {
        let entry = self.suspends.entry(job).or_insert((self.first, suspended));
        *entry = (entry.0 + 1, suspended);
        entry.0
    }

    /// The version of the plan in force.
    #[must_use]
    pub fn version(&self) -> Version {
        self.plan.version
    }
}

#[cfg(test)]
mod tests;
