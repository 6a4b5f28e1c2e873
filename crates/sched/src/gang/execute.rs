//! A switch is executed on a node, and jobs are frozen, copied and thawed as far as they may be by now.
//!
//! [`NodeSwitch::execute`] comes once for each switch; [`NodeSwitch::apply`] after every event, since each
//! may be the one that somebody waited for.

use super::{Action, Lap, NodeSwitch};
use crate::message::{Mode, Stage, Switch};
use crate::types::Generation;

impl NodeSwitch {
    /// A switch has come: it counts if it is newer than all before it.
    pub(super) fn handle_switch(&mut self, now_ns: u64, switch: Switch) {
        if self.newest.is_some_and(|newest| newest.generation >= switch.generation) {
            return;
        }
        self.newest = Some(switch);
        self.lap = Lap { generation: switch.generation, received_ns: now_ns, ..Lap::default() };
        self.execute(now_ns);
    }

    /// Executes the newest switch, if its time and its plan have come.
    pub(super) fn execute(&mut self, now_ns: u64) {
        let Some(switch) = self.newest else { return };
        if self.done == Some(switch) || switch.at_ns > now_ns || self.plan(switch.version).is_none() {
            return;
        }
        let skipped = switch.generation != self.generation().next();
        self.done = Some(switch);
        self.lap.executed_ns = now_ns;
        while self.plans.front().is_some_and(|plan| plan.version < switch.version) {
            self.plans.pop_front();
        }
        if let Some(plan) = self.plans.front() {
            self.early.handle_switch(&switch, plan, skipped);
        }
        self.bind_moved();
        for at in 0..self.jobs.len() {
            let plan = self.plans.iter().find(|plan| plan.version == switch.version);
            let local = &mut self.jobs[at];
            let in_row = plan.map_or(local.place.is_in_row(), |plan| plan.holds(switch.row, local.job));
            let has_left = local.place.change_row(in_row, switch.generation, skipped);
            if has_left && local.is_frozen() {
                self.report_frozen(at);
            }
        }
        self.apply(now_ns);
    }

    /// Binds the jobs to the slots that the plan in force gives them.
    pub(super) fn bind_moved(&mut self) {
        let Some(plan) =
            self.done.and_then(|done| self.plans.iter().find(|plan| plan.version == done.version))
        else {
            return;
        };
        for moved in plan.moved.iter().filter(|moved| moved.node == self.me) {
            if let Some(local) = self.jobs.iter_mut().find(|local| local.job == moved.job)
                && local.slots != moved.slots
            {
                local.slots = moved.slots;
                self.actions.push_back(Action::Bind(moved.job, moved.slots));
            }
        }
    }

    /// Marks which jobs stand in the row in force.
    pub(super) fn mark_row(&mut self) {
        let Some(done) = self.done else { return };
        let Some(plan) = self.plans.iter().find(|plan| plan.version == done.version) else { return };
        for local in &mut self.jobs {
            local.place.set_in_row(plan.holds(done.row, local.job));
        }
    }

    /// Freezes and thaws what is to be, as far as it may be by now.
    pub(super) fn apply(&mut self, now_ns: u64) {
        for at in 0..self.jobs.len() {
            if self.jobs[at].is_thawed() && !self.wanted(at) && !self.jobs[at].is_dying() {
                self.jobs[at].freeze(now_ns, self.timing.stuck_ns);
                self.actions.push_back(Action::Freeze(self.jobs[at].job));
            }
        }
        self.end_loans(now_ns);
        self.save_and_restore(now_ns);
        for at in 0..self.jobs.len() {
            if self.jobs[at].is_frozen() && self.wanted(at) && self.may_thaw(at) {
                self.jobs[at].thaw(now_ns);
                self.lap.thawing_ns = now_ns;
                self.actions.push_back(Action::Thaw(self.jobs[at].job));
            }
        }
        self.begin_loans();
        if self.expelled && !self.is_at_work() && self.reported_here < Some(self.generation()) {
            self.reported_here = Some(self.generation());
            self.actions.push_back(Action::Here(self.generation()));
        }
    }

    /// True if the job is to run now.
    pub(super) fn wanted(&self, at: usize) -> bool {
        let local = &self.jobs[at];
        if local.is_dying() || local.is_suspended() {
            return false;
        }
        match self.alone {
            // Strict: who runs although nobody has said RUN ran while the node was alone, or its daemon away.
            None => {
                let place = &local.place;
                place.is_in_row() && (self.mode() == Mode::Overlapped || place.may_run())
            }
            Some((_, turn)) => self.has_turn(at, turn),
        }
    }

    /// True if a frozen job that is to run may be thawed by now.
    pub(super) fn may_thaw(&self, at: usize) -> bool {
        let local = &self.jobs[at];
        // RUN may be repeated together with SAVE or RESTORE, after a change of the tree: nobody runs while
        // its channels are copied.
        if local.channels.are_copied() {
            return false;
        }
        let strict = self.mode() == Mode::Strict && self.alone.is_none();
        let others = (0..self.jobs.len()).filter(|other| *other != at && !self.jobs[*other].is_dying());
        let mut neighbours = others.filter(|other| !self.jobs[*other].slots.is_disjoint(&local.slots));
        neighbours.all(|other| {
            let neighbour = &self.jobs[other];
            // A job and its steps have the same slots, and run at once.
            let is_mate = local.place.is_in_row() && neighbour.place.is_in_row() && self.wanted(other);
            is_mate || neighbour.is_frozen() || !strict && neighbour.freezing_since_ns().is_some()
        })
    }

    /// The job is frozen: says so, in all the ways that somebody may wait for; FROZEN not before its channels
    /// are steady.
    pub(super) fn report_frozen(&mut self, at: usize) {
        if !self.jobs[at].channels.are_tested() {
            self.actions.push_back(Action::Reached(self.jobs[at].job, Stage::Frozen, self.generation()));
        }
        self.report_suspended(at);
    }

    /// Reports a suspended job once its freezer has said frozen: whoever has suspended it waits for that.
    pub(super) fn report_suspended(&mut self, at: usize) {
        let local = &self.jobs[at];
        if let Some(serial) = local.suspended_by() {
            self.actions.push_back(Action::Reached(local.job, Stage::Suspended, Generation(serial)));
        }
    }
}
