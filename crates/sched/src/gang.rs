//! The node's side of the gang switch: which of its jobs are frozen and which are thawed.
//!
//! Events go in by `handle_*`, actions come out of [`NodeSwitch::poll_action`] in the order in which they are
//! to be done; after each event the caller polls until None, then sleeps until [`NodeSwitch::poll_timeout`].
//! A job on this node is in one of three states:
//!
//! ```text
//!             not in the row, suspended              freezer: frozen
//!   Thawed --------------------------> Freezing --------------------------> Frozen --.
//!     ^                                                                      |       | reports FROZEN
//!     '----------------------------------------------------------------------'       v
//!        in the row; nobody who shares a slot is thawed (strict: they are frozen, and RUN
//!        of this generation has come)
//! ```
//!
//! - **Overlapped**: forward to the children, freeze A, thaw B. Once the freezer has been written to, no rank
//!   of A runs an instruction of its own, so A cannot disturb B, and counts as frozen; nobody waits
//!   until its freezer has said so but whoever suspends it. Where nobody comes to A's slots, or A is stopped
//!   by signals, A's next turn waits for that word.
//! - **Strict**: the switch is the paper's FREEZE. FROZEN of a job with several nodes is said when its
//!   channels are steady, too. B waits for RESTORE and RUN. What is asked of channels is waited for
//!   [`Timing::channel_ns`] at most: then the switch goes on without, and nothing more is asked until an
//!   answer comes.
//! - **The newest generation wins**: an older switch is never executed. A switch whose plan has not come
//!   waits for it, or for a newer switch. A generation that was skipped makes all frozen jobs report once
//!   more, since the node cannot know whether they should have run in it.
//! - A job that waits for a service of a frozen one may lend it its turn ([`NodeSwitch::handle_wish`]).
//! - KILL and SUSPEND are legal in any state and wait for nobody. A job that dies no longer counts.
//! - **Nobody stays frozen for ever**: a job of the row is thawed as soon as it may be, whatever was late. A
//!   node that hears nothing for `silence_ns` runs by turns the jobs that it has alone; those of several
//!   nodes wait for word from the controller.
//!
//! After [`NodeSwitch::new`] nothing here allocates but for [`NodeSwitch::handle_plan`] and
//! [`NodeSwitch::handle_job`], as long as there are at most as many jobs as announced.

mod channels;
mod execute;
mod loans;
mod orders;
mod state;

use std::collections::VecDeque;

use crate::message::{Down, Mode, Order, Plan, Stage, Switch};
use crate::types::{Generation, JobId, Membership, NodeId, SLICE_DEFAULT_NS, Slots, Version};
use loans::Loans;
use orders::Early;
use state::Local;

/// The times that a node keeps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// When a job that does not get frozen is named.
    pub stuck_ns: u64,
    /// How long all ranks of a job sleep before it is idle.
    pub idle_ns: u64,
    /// How long nothing may be heard of the controller; 0 on the controller itself.
    pub silence_ns: u64,
    /// The slice in which a node without a controller runs its own jobs by turns.
    pub alone_slice_ns: u64,
    /// How long an answer about the channels of a job is waited for, in strict switches: below the time after
    /// which a node is late. 0: nobody asks whether they are steady, and a copy may take any time.
    pub channel_ns: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            stuck_ns: 1_000_000_000,
            idle_ns: 1_000_000,
            silence_ns: 10_000_000_000,
            alone_slice_ns: SLICE_DEFAULT_NS,
            channel_ns: 5 * SLICE_DEFAULT_NS,
        }
    }
}

/// Work for the daemon, to be done in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Send the order to the children: all, or those with nodes of its job. Comes before everything that the
    /// order causes here.
    Forward(Order),
    /// Bind the job's ranks to these slots, which they did not have before.
    Bind(JobId, Slots),
    /// Write to the freezer; [`JobChange::Frozen`] when it says frozen.
    Freeze(JobId),
    /// Write to the freezer; [`JobChange::Thawed`] when it says so.
    Thaw(JobId),
    /// Let the job run in the turn of another one, which waits for it: its freezer is opened, and it still
    /// counts as frozen.
    Lend(JobId),
    /// Take back a job that has run in the turn of another one: as [`Self::Freeze`]. One that was exempt
    /// before may be left as it was: [`JobChange::Exempt`].
    Return(JobId),
    /// `cgroup.kill`; [`NodeSwitch::handle_job_ended`] when nobody is left.
    Kill(JobId),
    /// Ask whether the channels of the job, which is frozen here, are steady: whether all that its ranks here
    /// have sent to other nodes has been taken or refused. [`JobChange::Steady`].
    TestSteady(JobId),
    /// Go on without: a question about the job's channels was not answered in time, or is not asked since the
    /// last one was not.
    Unanswered(JobId),
    /// Copy the job's channel state; [`JobChange::Saved`].
    Save(JobId),
    /// Load the job's channel state; [`JobChange::Restored`].
    Restore(JobId),
    /// Say that this node's part has reached the stage: for [`crate::barrier::Merger::handle_own`].
    Reached(JobId, Stage, Generation),
    /// An idle job has a rank awake: for [`crate::barrier::Merger::handle_own_woken`].
    Woken(JobId),
    /// The job has not been frozen for `stuck_ns`: for `tutti ps`, and a [`crate::Report::Late`] of this
    /// node.
    Stuck(JobId),
    /// Say that this node, expelled, has frozen all that it should: a [`crate::Report::Here`] of this node.
    Here(Generation),
}

/// How a job is when it comes to this node (again).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The job's processes run, or are about to be forked.
    Running,
    /// The job's freezer says frozen.
    Frozen,
}

/// When the steps of the newest switch were done on this node, in the time of the `handle_*` calls; 0 is not
/// yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lap {
    /// Of this generation.
    pub generation: Generation,
    /// SWITCH came.
    pub received_ns: u64,
    /// SWITCH was executed: the freezers were written to.
    pub executed_ns: u64,
    /// The last freezer said frozen.
    pub frozen_ns: u64,
    /// The last job was ordered to be thawed.
    pub thawing_ns: u64,
    /// The last job was said to be thawed.
    pub thawed_ns: u64,
}

/// Change of a job on a node, told by what freezes it and by what watches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobChange {
    /// The freezer has been written to, and is one behind whose write no rank runs an instruction of its own:
    /// see [`NodeSwitch::may_assume_frozen`]. The job counts as frozen; [`Self::Frozen`] may follow.
    FreezeRequested,
    /// The freezer says that the job is frozen.
    Frozen,
    /// The job has been left as it is instead of being frozen, since it sleeps: see
    /// [`NodeSwitch::may_exempt`]. It counts as frozen.
    Exempt,
    /// The freezer says that the job is thawed.
    Thawed,
    /// The steady state test is over: the channels of the job are steady, or its time is.
    Steady,
    /// The channel state of the job has been copied.
    Saved,
    /// The channel state of the job has been loaded.
    Restored,
    /// All ranks of the job on this node sleep in the library.
    Asleep,
    /// A rank of the job sleeps no longer. Also of a frozen job: what would wake it (input, a datagram)
    /// counts.
    Awake,
}

/// The jobs of one node, and who of them runs.
#[derive(Clone, Debug)]
pub struct NodeSwitch {
    me: NodeId,
    timing: Timing,
    /// By number: whoever looks at all of them asks for each.
    jobs: Vec<Local>,
    early: Early,
    /// In the order of their versions, none older than that in force.
    plans: VecDeque<Plan>,
    /// The newest switch that has come.
    newest: Option<Switch>,
    /// The newest that has been executed.
    done: Option<Switch>,
    lap: Lap,
    contact_ns: u64,
    /// Set while nothing is heard of the controller: when the next turn of the own jobs begins, and whose it
    /// is.
    alone: Option<(u64, usize)>,
    /// The newest state of the tree that has come.
    membership: Membership,
    /// Whether this node has been expelled; and the generation in which it said that it is here.
    expelled: bool,
    reported_here: Option<Generation>,
    loans: Loans,
    actions: VecDeque<Action>,
}

/// Plans that have come before their switch; a controller sends far fewer.
const PLANS_MAX: usize = 8;

impl NodeSwitch {
    /// Node `me` without jobs, with room for `jobs` of them.
    #[must_use]
    pub fn new(me: NodeId, timing: Timing, jobs: usize) -> Self {
        NodeSwitch {
            me,
            timing,
            jobs: Vec::with_capacity(jobs),
            early: Early::new(jobs),
            plans: VecDeque::with_capacity(PLANS_MAX + 1),
            newest: None,
            done: None,
            lap: Lap::default(),
            contact_ns: 0,
            alone: None,
            membership: Membership(0),
            expelled: false,
            reported_here: None,
            loans: Loans::new(),
            actions: VecDeque::with_capacity(4 * jobs + 8),
        }
    }

    /// A job has come: its slots here, and whether this is its only node. It runs or is frozen according to
    /// the row in force.
    pub fn handle_job(&mut self, now_ns: u64, job: JobId, slots: Slots, only_here: bool, arrival: Arrival) {
        let Err(at) = self.place_of(job) else { return };
        self.jobs.insert(at, Local::new(job, slots, only_here, arrival, self.generation()));
        self.mark_row();
        self.bind_moved();
        self.handle_early_orders(job);
        if arrival == Arrival::Frozen && !self.jobs[at].place.is_in_row() {
            self.settle_frozen(now_ns, at);
        }
        self.apply(now_ns);
    }

    /// A job has ended here: its processes are gone.
    pub fn handle_job_ended(&mut self, now_ns: u64, job: JobId) {
        self.jobs.retain(|local| local.job != job);
        self.early.forget(job);
        self.loans.forget(job);
        self.apply(now_ns);
    }

    /// The rows of a version have come. They may come late, from who was the parent before.
    pub fn handle_plan(&mut self, now_ns: u64, plan: Plan) {
        let is_old = self.done.is_some_and(|done| plan.version < done.version);
        let Err(at) = self.plans.binary_search_by_key(&plan.version, |known| known.version) else { return };
        if is_old {
            return;
        }
        self.plans.insert(at, plan);
        if self.plans.len() > PLANS_MAX {
            // The first may be in force; the one behind it never will be.
            self.plans.remove(1);
        }
        self.execute(now_ns);
    }

    /// An order of the controller has come. It is forwarded first.
    pub fn handle_order(&mut self, now_ns: u64, order: &Order) {
        // What is to run is settled below, by what the order says.
        (self.contact_ns, self.alone) = (now_ns, None);
        self.actions.push_back(Action::Forward(order.clone()));
        match (order, order.job()) {
            (Order::Switch(switch), _) => self.handle_switch(now_ns, *switch),
            (Order::Members(members), _) => self.handle_members(members),
            (_, Some(job)) => self.handle_job_order(job, order),
            (_, None) => unreachable!("{order:?} is for a job"),
        }
        self.apply(now_ns);
    }

    /// Notes that something was heard of the controller: an order, a heartbeat.
    pub fn handle_contact(&mut self, now_ns: u64) {
        self.contact_ns = now_ns;
        if self.alone.take().is_some() {
            self.apply(now_ns);
        }
    }

    /// Handles a change of a job here.
    pub fn handle_change(&mut self, now_ns: u64, job: JobId, change: JobChange) {
        match change {
            JobChange::FreezeRequested => self.handle_freeze_requested(now_ns, job),
            JobChange::Frozen => self.handle_frozen(now_ns, job),
            JobChange::Exempt => self.handle_exempt(now_ns, job),
            JobChange::Thawed => self.handle_thawed(now_ns, job),
            JobChange::Steady | JobChange::Saved | JobChange::Restored => {
                self.handle_answer(now_ns, job, change);
            }
            JobChange::Asleep => self.handle_asleep(now_ns, job, true),
            JobChange::Awake => self.handle_asleep(now_ns, job, false),
        }
    }

    fn handle_frozen(&mut self, now_ns: u64, job: JobId) {
        let Some(at) = self.find(job) else { return };
        if self.jobs[at].end_assumed() {
            self.report_suspended(at);
        } else {
            self.count_as_frozen(now_ns, at, Local::confirm_frozen);
        }
    }

    fn handle_freeze_requested(&mut self, now_ns: u64, job: JobId) {
        if let Some(at) = self.find(job) {
            self.count_as_frozen(now_ns, at, Local::assume_frozen);
        }
    }

    fn handle_exempt(&mut self, now_ns: u64, job: JobId) {
        if let Some(at) = self.find(job) {
            self.count_as_frozen(now_ns, at, Local::confirm_exempt);
        }
    }

    /// If somebody has asked for that.
    fn count_as_frozen(&mut self, now_ns: u64, at: usize, confirm: fn(&mut Local) -> bool) {
        if confirm(&mut self.jobs[at]) {
            self.lap.frozen_ns = now_ns;
            self.settle_frozen(now_ns, at);
            self.apply(now_ns);
        }
    }

    fn handle_thawed(&mut self, now_ns: u64, job: JobId) {
        if self.find(job).is_some_and(|at| self.jobs[at].is_thawed()) {
            self.lap.thawed_ns = now_ns;
        }
    }

    fn handle_asleep(&mut self, now_ns: u64, job: JobId, asleep: bool) {
        let Some(local) = self.find_mut(job) else { return };
        if asleep {
            local.fall_asleep(now_ns);
        } else if local.wake() {
            self.actions.push_back(Action::Woken(job));
        }
    }

    /// Time has passed.
    pub fn handle_time(&mut self, now_ns: u64) {
        self.execute(now_ns);
        self.check_silence(now_ns);
        self.check_unanswered(now_ns);
        self.apply(now_ns);
        self.check_idle(now_ns);
        self.check_stuck(now_ns);
    }

    /// Takes the next action, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Self::handle_time`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let due =
            self.newest.filter(|newest| Some(*newest) != self.done && self.plan(newest.version).is_some());
        let jobs = self.jobs.iter().filter_map(|local| self.timeout_of(local));
        let silence = match self.alone {
            Some((turn_ns, _)) => Some(turn_ns),
            None if self.timing.silence_ns > 0 => Some(self.contact_ns + self.timing.silence_ns),
            None => None,
        };
        jobs.chain(due.map(|due| due.at_ns)).chain(silence).min()
    }

    /// The steps of the newest switch, for measurements.
    #[must_use]
    pub fn lap(&self) -> Lap {
        self.lap
    }

    /// Plans that the newest switch needs, and the switch: for those who have not heard of it.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = Down> + '_ {
        let switch = self.newest.map(|newest| Down::Order(Order::Switch(newest)));
        self.plans.iter().cloned().map(Down::Plan).chain(switch)
    }

    /// The newest switch that has been executed here.
    #[must_use]
    pub fn executed(&self) -> Option<Switch> {
        self.done
    }

    /// True while the node hears nothing of the controller and runs its own jobs by turns.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// True if the job is here and thawed, or has been ordered to be.
    #[must_use]
    pub fn is_thawed(&self, job: JobId) -> bool {
        self.find(job).is_some_and(|at| self.jobs[at].is_thawed())
    }

    /// True if the plan in force has a row without the job: it gives its cores up at the end of a slice.
    #[must_use]
    pub fn must_yield(&self, job: JobId) -> bool {
        let plan = self.done.and_then(|done| self.plan(done.version));
        plan.is_some_and(|plan| plan.rows.iter().any(|row| row.binary_search(&job).is_err()))
    }

    /// True if the switch in force is a strict one: others wait until who leaves is frozen.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.mode() == Mode::Strict
    }

    /// True if the job is here and its freezer has said frozen.
    #[must_use]
    pub fn is_frozen(&self, job: JobId) -> bool {
        self.find(job).is_some_and(|at| self.jobs[at].is_frozen())
    }

    /// True if the freezer of the job, which is not to run now, may be left open as long as all of it sleeps:
    /// nobody copies it, and nobody has asked that it stand still.
    #[must_use]
    pub fn may_exempt(&self, job: JobId) -> bool {
        let requested =
            self.find(job).is_none_or(|at| self.jobs[at].is_suspended() || self.jobs[at].is_dying());
        !requested && self.mode() == Mode::Overlapped && self.alone.is_none()
    }

    /// True if the job was left as it is, and counts as frozen.
    #[must_use]
    pub fn is_exempt(&self, job: JobId) -> bool {
        self.find(job).is_some_and(|at| self.jobs[at].is_exempt())
    }

    /// True if nobody has to know of the job, which is not to run now, more than that it runs no instruction
    /// of its own: others come to its slots, nobody copies it, and nobody has asked that it stand still.
    #[must_use]
    pub fn may_assume_frozen(&self, job: JobId) -> bool {
        let Some(local) = self.find(job).map(|at| &self.jobs[at]) else { return false };
        let comes = |other: &Local| other.place.is_in_row() && !other.slots.is_disjoint(&local.slots);
        self.may_exempt(job) && self.jobs.iter().any(comes)
    }

    /// True if some job has been ordered to freeze and has not.
    #[must_use]
    pub fn is_freezing(&self) -> bool {
        self.jobs.iter().any(|local| local.freezing_since_ns().is_some() && !local.is_dying())
    }

    /// True if some job is on its way to a stage of a switch.
    fn is_at_work(&self) -> bool {
        self.is_freezing() || self.jobs.iter().any(|local| local.channels.are_asked() && !local.is_dying())
    }

    /// Where the job is, or would be.
    fn place_of(&self, job: JobId) -> Result<usize, usize> {
        self.jobs.binary_search_by_key(&job, |local| local.job)
    }

    fn find(&self, job: JobId) -> Option<usize> {
        self.place_of(job).ok()
    }

    fn find_mut(&mut self, job: JobId) -> Option<&mut Local> {
        self.find(job).map(|at| &mut self.jobs[at])
    }

    fn plan(&self, version: Version) -> Option<&Plan> {
        self.plans.iter().find(|plan| plan.version == version)
    }

    /// The generation that this node acts by.
    fn generation(&self) -> Generation {
        self.done.map_or(Generation(0), |done| done.generation)
    }

    fn mode(&self) -> Mode {
        self.done.map_or(Mode::Overlapped, |done| done.mode)
    }
}

#[cfg(test)]
mod tests;
