//! Turns: which row runs next, and what each job has had.
//!
//! **The rule.** Every job has a virtual time: the service it had, divided by its weight. A row is as
//! deserving as the most deserving (least virtual time) of the jobs at home in it that can run; the most
//! deserving row is next, among equals the one that has waited longest. With equal weights that is a plain
//! rotation; a job of weight 300 gets three slices for one of weight 100.
//!
//! **What a job gets.** No virtual time is more than a slice (over its weight) ahead of the least one, since
//! service beyond that is free: it fills holes that nobody else could use, or falls to a light job because it
//! stands in a heavy one's row. So, while the jobs that can run stay the same, a job gets at least `weight /
//! sum over rows of the heaviest weight` of the time, less one round.
//!
//! **Fair shares.** The weight by which a job is served is what `shares.rs` makes of the declared one. Who
//! could run and has waited for 30 s is next, whatever its weight.
//!
//! **Joining.** Who begins, resumes or wakes starts at the least virtual time of those that can run, at the
//! earliest: nobody saves up turns by sleeping.
//!
//! **Fillers** ([`Demand::fill`](crate::Demand::fill)) have turns only while no job that is none wants one;
//! as soon as one does the turn is over. So no filler delays anybody. What they fill beyond that their nodes
//! decide.
//!
//! **Connected jobs** ([`Scheduler::set_connected`]) are at home in the same row where that is possible
//! without more or heavier rows, and fill holes together.
//!
//! **Floods.** Who has sent more than its part while the network was scarce is left out of its row for whole
//! slices (`flood.rs`). What it misses it does not get back.
//!
//! **Not frozen yet.** A job that left the row is not switched in before FROZEN has come from all its nodes.
//! If the row to run has such a job, it is left out of the plan until then (a new version), and since it has
//! not been served its virtual time stays: that is its credit. Overlapped switches need no more than this; a
//! node that is silent holds up its own jobs only.

use std::collections::BTreeMap;

use crate::message::Switch;
use crate::scheduler::Scheduler;
use crate::types::{Generation, JobId, Version};

mod account;
mod fair;
mod flood;
mod window;

#[cfg(any(test, feature = "testing"))]
pub(crate) use account::credit_ns;
pub use account::{Account, Busy};
pub(crate) use account::{Freeze, Turn};
pub(crate) use fair::Fair;
pub use fair::Processor;
pub use window::Window;

/// Connected jobs are brought together at most so often.
const UNITE_NS: u64 = 1_000_000_000;

/// Where the rotation stands.
#[derive(Clone, Debug)]
pub(crate) struct Rotation {
    generation: Generation,
    /// The jobs of the row in force, those that have ended since left out; ascending.
    running: Vec<JobId>,
    charged_ns: u64,
    slice_end_ns: u64,
    /// The virtual time of the whole.
    clock_ns: u64,
    /// A strict switch is under way since then.
    paused_ns: Option<u64>,
    /// The version of the last row that was switched in.
    bound_in: Version,
    /// The row was switched off to be switched on again.
    forced: bool,
    window: Option<Window>,
    /// No job that could run has waited since earlier.
    waits_floor_ns: u64,
    /// Jobs that are left out of their rows because they have flooded the network.
    left_out: Vec<JobId>,
    /// Virtual times ahead of all that users' ended jobs had: many short jobs have no more than a long one.
    debts: BTreeMap<u32, u64>,
}

impl Rotation {
    pub(crate) fn new(generation: Generation, version: Version) -> Self {
        let running = Vec::new();
        Rotation {
            generation,
            running,
            charged_ns: 0,
            slice_end_ns: 0,
            clock_ns: 0,
            paused_ns: None,
            bound_in: version,
            forced: false,
            window: None,
            waits_floor_ns: 0,
            left_out: Vec::new(),
            debts: BTreeMap::new(),
        }
    }

    pub(crate) fn running(&self) -> &[JobId] {
        &self.running
    }

    /// The virtual time at which the next job of a user begins at the earliest.
    pub(super) fn debt_ns(&self, user: u32) -> u64 {
        self.debts.get(&user).copied().unwrap_or(0)
    }

    /// A user's job has ended with this virtual time.
    pub(super) fn keep_debt(&mut self, user: u32, virtual_ns: u64, clock_ns: u64) {
        self.debts.retain(|_, debt_ns| *debt_ns > clock_ns);
        if virtual_ns > clock_ns {
            let debt_ns = self.debts.entry(user).or_default();
            *debt_ns = virtual_ns.max(*debt_ns);
        }
    }

    pub(crate) fn advance(&mut self) -> Generation {
        self.generation = self.generation.next();
        self.generation
    }

    pub(crate) fn forget(&mut self, job: JobId) {
        self.running.retain(|&running| running != job);
        self.left_out.retain(|&left_out| left_out != job);
    }
}

impl Scheduler {
    /// The switch that is due, if one is. To be called when [`Self::next_at_ns`] says so, and after every
    /// event.
    pub fn next_row(&mut self, now_ns: u64) -> Option<Switch> {
        self.charge(now_ns);
        if self.unite_at_ns().is_some_and(|at_ns| now_ns >= at_ns) {
            self.united_ns = Some(now_ns);
            self.matrix.unite(&self.machine);
        }
        self.refresh();
        self.settle_shares();
        if self.rotation.window.is_some_and(|window| !window.is_open(now_ns)) {
            return (!self.rotation.running.is_empty()).then(|| self.switch_off());
        }
        let kept = self.rotation.running.iter().all(|&job| self.may_continue(job));
        let over = now_ns >= self.rotation.slice_end_ns || self.is_filled_in_vain();
        if kept && !over && !self.rotation.running.is_empty() && !self.all_idle() {
            return self.widen().or_else(|| self.bind());
        }
        if !kept && !over {
            // Whoever is left of the row keeps the rest of the slice, in the row that has them all.
            let left: Vec<_> =
                self.rotation.running.iter().copied().filter(|&job| self.may_continue(job)).collect();
            if !left.is_empty()
                && let Some(row) = self.row_with(&left)
            {
                return Some(self.switch_in(row, self.rotation.slice_end_ns));
            }
        }
        self.next_turn(now_ns, kept)
    }

    /// When [`Self::next_row`] is to be called at the latest; None if only an event can change anything.
    #[must_use]
    pub fn next_at_ns(&self) -> Option<u64> {
        let turn = self.next_turn_ns().into_iter().chain(self.unite_at_ns()).min();
        let Some(window) = self.rotation.window.filter(|_| !self.matrix.rows().is_empty()) else {
            return turn;
        };
        let now_ns = self.rotation.charged_ns;
        let change_ns = window.change_ns(now_ns);
        Some(if window.is_open(now_ns) {
            turn.map_or(change_ns, |turn| turn.min(change_ns))
        } else {
            change_ns
        })
    }

    /// When connected jobs are to be brought together, if they may be apart. Users connect and part as often
    /// as they like, so not each time.
    fn unite_at_ns(&self) -> Option<u64> {
        let at_ns = self.united_ns.map_or(0, |united_ns| united_ns.saturating_add(UNITE_NS));
        self.matrix.is_apart().then_some(at_ns)
    }

    /// From now on the machine is shared with others so; none: it is ours alone.
    pub fn set_window(&mut self, now_ns: u64, window: Option<Window>) {
        self.charge(now_ns);
        self.rotation.window = window;
    }

    /// Somebody takes his turns and is not idle.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.jobs.iter().any(|(job, record)| self.may_continue(*job) && record.turn.idle_since_ns.is_none())
    }

    fn next_turn_ns(&self) -> Option<u64> {
        let rows = self.matrix.rows();
        let running = &self.rotation.running;
        if running.is_empty() || self.all_idle() {
            return self.idle_check_ns();
        }
        let others = rows.len() > 1
            || rows.iter().any(|row| row.all != *running)
            || !self.rotation.left_out.is_empty();
        (others || self.config.force_switch).then_some(self.rotation.slice_end_ns)
    }

    /// True if FROZEN of the job has come since it left the row.
    #[must_use]
    pub fn is_frozen(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| record.turn.freeze == Freeze::Frozen)
            && !self.rotation.running.contains(&job)
    }

    /// True if the job has left the row and FROZEN has not come.
    pub(crate) fn is_leaving(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| matches!(record.turn.freeze, Freeze::Leaving(_)))
            && !self.rotation.running.contains(&job)
    }

    /// Jobs that have left the row and whose FROZEN has not come, and when they left.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = (JobId, u64)> {
        let left = self.jobs.iter().filter(|(_, job)| matches!(job.turn.freeze, Freeze::Leaving(_)));
        let left = left.filter(|(id, _)| !self.rotation.running.contains(id));
        left.map(|(id, job)| (*id, job.turn.left_ns))
    }

    /// When the job left the row, if FROZEN has not come since.
    pub(crate) fn left_ns(&self, job: JobId) -> Option<u64> {
        self.jobs.get(&job).filter(|_| self.is_leaving(job)).map(|record| record.turn.left_ns)
    }

    /// From the next turn on a row runs for so long; one out of [`SLICE_NS`](crate::SLICE_NS) is not taken.
    pub fn set_slice(&mut self, now_ns: u64, slice_ns: u64) {
        self.charge(now_ns);
        if crate::scheduler::SLICE_NS.contains(&slice_ns) {
            self.config.slice_ns = slice_ns;
            // What runs for an hour is not waited for.
            self.rotation.slice_end_ns = self.rotation.slice_end_ns.min(now_ns + slice_ns);
        }
    }

    pub(crate) fn slice_ns(&self) -> u64 {
        self.config.slice_ns
    }

    /// The jobs of the row in force, in ascending order.
    #[must_use]
    pub fn running(&self) -> &[JobId] {
        &self.rotation.running
    }

    /// The newest generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.rotation.generation
    }

    /// When the slice in force ends.
    #[must_use]
    pub fn slice_end_ns(&self) -> u64 {
        self.rotation.slice_end_ns
    }

    /// A strict switch is under way: time is on nobody's account until [`Self::extend_slice`], and not of the
    /// slice.
    pub(crate) fn pause(&mut self, now_ns: u64) {
        self.charge(now_ns);
        self.rotation.paused_ns = Some(now_ns);
    }

    /// The strict switch is through: the slice goes on, or begins.
    pub(crate) fn extend_slice(&mut self, now_ns: u64) {
        self.charge(now_ns);
        if let Some(paused_ns) = self.rotation.paused_ns.take() {
            self.rotation.slice_end_ns += now_ns - paused_ns;
        }
    }

    /// The last time that was told.
    pub(crate) fn now_ns(&self) -> u64 {
        self.rotation.charged_ns
    }

    /// True if the job may stay in the row in force.
    fn may_continue(&self, job: JobId) -> bool {
        self.matrix.residents.get(&job).is_some_and(|resident| resident.active)
    }

    /// The row in force is there for fillers, and a job that is none wants its turn and could have it.
    fn is_filled_in_vain(&self) -> bool {
        let wants = |job: &JobId| {
            self.jobs
                .get(job)
                .is_some_and(|record| !record.demand.fill && record.turn.idle_since_ns.is_none())
        };
        !self.rotation.running.is_empty()
            && !self.rotation.running.iter().any(wants)
            && self.wanting_rows(|job| wants(job) && self.can_run(*job))
    }

    fn wanting_rows(&self, wants: impl Fn(&JobId) -> bool) -> bool {
        self.matrix.rows().iter().any(|row| row.home.iter().any(&wants))
    }

    fn is_filler(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| record.demand.fill)
    }

    fn all_idle(&self) -> bool {
        let mut running = self.rotation.running.iter();
        !self.rotation.running.is_empty()
            && running.all(|job| self.jobs.get(job).is_none_or(|record| record.turn.idle_since_ns.is_some()))
    }

    /// A row that has all these jobs and in which all others could be switched in.
    fn row_with(&self, jobs: &[JobId]) -> Option<usize> {
        self.matrix.rows().iter().position(|row| {
            jobs.iter().all(|job| row.all.binary_search(job).is_ok())
                && row.all.iter().all(|&job| self.can_run(job))
        })
    }

    /// True if the job runs or could be switched in.
    fn can_run(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| self.is_able(job, &record.turn))
    }

    /// The same of a job whose turn this is.
    fn is_able(&self, job: JobId, turn: &Turn) -> bool {
        turn.freeze == Freeze::Frozen || self.rotation.running.binary_search(&job).is_ok()
    }

    /// Switches to a row that has more jobs than the one in force, and all of those: nobody loses by it.
    fn widen(&mut self) -> Option<Switch> {
        let running = &self.rotation.running;
        let wider = self.matrix.rows().iter().position(|row| {
            row.all.len() > running.len()
                && running.iter().all(|job| row.all.binary_search(job).is_ok())
                && row.all.iter().all(|&job| self.can_run(job))
        })?;
        // A row of the same plan that has more is there for its own turn; only a changed plan widens the row
        // in force.
        let in_force = self.matrix.rows().iter().any(|row| row.all == *running);
        (!in_force).then(|| self.switch_in(wider, self.rotation.slice_end_ns))
    }

    /// Switches to the row in force once more, if its jobs are to be bound to other slots.
    fn bind(&mut self) -> Option<Switch> {
        if self.rotation.bound_in >= self.matrix.moved_in() {
            return None;
        }
        let row = self.matrix.rows().iter().position(|row| row.all == self.rotation.running)?;
        Some(self.switch_in(row, self.rotation.slice_end_ns))
    }

    /// The next turn: the most deserving row.
    fn next_turn(&mut self, now_ns: u64, kept: bool) -> Option<Switch> {
        self.readmit_floods(now_ns);
        loop {
            let Some(best) = self.best_row(now_ns) else { return self.switch_to_none(now_ns, kept) };
            let held: Vec<_> =
                self.matrix.rows()[best].all.iter().copied().filter(|&job| !self.can_run(job)).collect();
            if held.is_empty() {
                if self.leave_out_flood(now_ns, best) {
                    continue;
                }
                // Somebody of the row in force may have been left out of it.
                let kept = kept && self.rotation.running.iter().all(|&job| self.may_continue(job));
                return self.turn_to(now_ns, best, kept);
            }
            for job in held {
                let turn = &mut self.jobs.get_mut(&job).expect("it stands in a row").turn;
                turn.held = true;
                turn.account.left_out += 1;
                self.settle_activity(job);
            }
            self.refresh();
        }
    }

    fn turn_to(&mut self, now_ns: u64, best: usize, kept: bool) -> Option<Switch> {
        let same = kept && self.matrix.rows()[best].all == self.rotation.running;
        let end_ns = if self.rotation.forced && self.rotation.slice_end_ns > now_ns {
            // The slice began when the row was switched off.
            self.rotation.slice_end_ns
        } else {
            now_ns + self.config.slice_ns
        };
        let is_new = !self.rotation.forced;
        if !same {
            let switch = self.switch_in(best, end_ns);
            self.count_turn(is_new);
            return Some(switch);
        }
        if self.all_idle() {
            return None;
        }
        self.count_turn(is_new);
        self.rotation.slice_end_ns = end_ns;
        if self.config.force_switch {
            self.rotation.forced = true;
            return Some(self.switch_off());
        }
        // With one row nobody need ask again in this slice, nor in any other.
        self.bind()
    }

    /// A slice begins, for those of the row in force.
    fn count_turn(&mut self, is_new: bool) {
        for job in self.rotation.running.iter().filter(|_| is_new) {
            if let Some(record) = self.jobs.get_mut(job) {
                record.turn.account.turns += 1;
            }
        }
    }

    /// Handles a turn in which nobody can be switched in.
    fn switch_to_none(&mut self, now_ns: u64, kept: bool) -> Option<Switch> {
        if kept {
            // An idle row stays where it is, and an empty one too.
            if !self.all_idle() && !self.rotation.forced {
                self.rotation.slice_end_ns = now_ns + self.config.slice_ns;
            }
            return None;
        }
        Some(self.switch_off())
    }

    /// The row that is most deserving, of those with a job at home that can run.
    fn best_row(&mut self, now_ns: u64) -> Option<usize> {
        if self.may_be_overdue(now_ns)
            && let Some(row) = self.overdue_row(now_ns)
        {
            return Some(row);
        }
        // The row of the most deserving job; of two rows that deserve it alike the first.
        let candidates = self.jobs.iter().filter_map(|(job, record)| {
            let (home, turn) = (record.home?, &record.turn);
            let wants = self.is_able(*job, turn) && self.is_eager(*job, turn, now_ns);
            wants.then_some((record.demand.fill, turn.account.virtual_ns, turn.since, home.row))
        });
        candidates.min().map(|(.., row)| row as usize).or_else(|| self.row_of_guest())
    }

    /// A row in which a job stands that is awake, can run, does not, and is at home in none: an exclusive
    /// one, or a step of one, while all that are at home there sleep.
    fn row_of_guest(&self) -> Option<usize> {
        let waits = |job: &JobId| {
            let is_running = self.rotation.running.binary_search(job).is_ok();
            self.jobs.get(job).is_some_and(|record| {
                !is_running
                    && record.home.is_none()
                    && record.turn.idle_since_ns.is_none()
                    && self.is_able(*job, &record.turn)
            })
        };
        self.matrix.rows().iter().position(|row| row.all.iter().any(waits))
    }

    /// Some job may have waited too long. Whoever begins to wait does so now, so what the last look at all
    /// has found stays true until then.
    fn may_be_overdue(&mut self, now_ns: u64) -> bool {
        let patience_ns = fair::patience_ns(self.config.slice_ns, self.matrix.rows().len());
        let is_over = |since_ns: u64| now_ns.saturating_sub(since_ns) >= patience_ns;
        if is_over(self.rotation.waits_floor_ns) {
            let since = self.jobs.values().filter_map(|record| record.turn.waits_since_ns);
            self.rotation.waits_floor_ns = since.min().unwrap_or(now_ns).min(now_ns);
        }
        is_over(self.rotation.waits_floor_ns)
    }

    /// The row of a job that has waited too long, whatever its weight.
    fn overdue_row(&self, now_ns: u64) -> Option<usize> {
        let rows = self.matrix.rows();
        let patience_ns = fair::patience_ns(self.config.slice_ns, rows.len());
        let waits = |job: &JobId| {
            let turn = &self.jobs.get(job)?.turn;
            let since_ns = turn.waits_since_ns.filter(|_| !self.is_filler(*job))?;
            let is_overdue = now_ns.saturating_sub(since_ns) >= patience_ns && self.is_able(*job, turn);
            is_overdue.then_some((since_ns, turn.since))
        };
        let longest = |row: &crate::matrix::PlannedRow| row.home.iter().filter_map(waits).min();
        let overdue = rows.iter().enumerate().filter_map(|(row, planned)| Some((longest(planned)?, row)));
        overdue.min().map(|(_, row)| row)
    }

    /// True if the job wants to run: it is awake, or is due for a look.
    fn is_eager(&self, job: JobId, turn: &Turn, now_ns: u64) -> bool {
        let Some(since_ns) = turn.idle_since_ns else { return true };
        let runs = self.rotation.running.binary_search(&job).is_ok();
        !runs
            && self.config.idle_recheck_ns > 0
            && now_ns >= since_ns.saturating_add(self.config.idle_recheck_ns)
    }

    /// When the first idle job that does not run is due for a look.
    fn idle_check_ns(&self) -> Option<u64> {
        if self.config.idle_recheck_ns == 0 {
            return None;
        }
        let others = self.jobs.iter().filter(|(job, record)| {
            self.may_continue(**job)
                && record.turn.freeze == Freeze::Frozen
                && self.rotation.running.binary_search(job).is_err()
        });
        others
            .filter_map(|(_, record)| record.turn.idle_since_ns)
            .min()
            .map(|ns| ns + self.config.idle_recheck_ns)
    }

    /// Switches to a row of the plan in force.
    fn switch_in(&mut self, row: usize, end_ns: u64) -> Switch {
        let mut switch = self.switch_to(row as u32);
        self.rotation.bound_in = switch.version;
        let coming = std::mem::take(&mut self.rotation.running);
        self.leave_row(&coming, Some(row), switch.generation);
        let mut running = coming;
        running.clear();
        running.extend_from_slice(&self.matrix.rows()[row].all);
        self.rotation.running = running;
        self.rotation.slice_end_ns = end_ns;
        self.rotation.forced = false;
        // What is left of the slice, if somebody waits for its end.
        let next_ns = self.next_at_ns();
        switch.left_ns = next_ns.map_or(0, |next_ns| next_ns.saturating_sub(self.rotation.charged_ns));
        switch
    }

    /// Switches everybody off.
    fn switch_off(&mut self) -> Switch {
        let switch = self.switch_to(Switch::NOBODY);
        let mut running = std::mem::take(&mut self.rotation.running);
        self.leave_row(&running, None, switch.generation);
        // Its memory stays.
        running.clear();
        self.rotation.running = running;
        switch
    }

    /// Notes who leaves the row and who comes.
    fn leave_row(&mut self, before: &[JobId], row: Option<usize>, generation: Generation) {
        let after: &[JobId] = row.map_or(&[], |row| &self.matrix.rows()[row].all);
        for job in before.iter().filter(|job| after.binary_search(job).is_err()) {
            if let Some(record) = self.jobs.get_mut(job) {
                record.turn.freeze = Freeze::Leaving(generation);
                record.turn.left_ns = self.rotation.charged_ns;
                record.turn.waits_since_ns = Some(self.rotation.charged_ns);
            }
        }
        for job in after.iter().filter(|job| before.binary_search(job).is_err()) {
            if let Some(record) = self.jobs.get_mut(job) {
                record.turn.since = generation;
                record.turn.account.slices += 1;
                // Whether it still sleeps will be said anew.
                record.turn.idle_since_ns = None;
                record.turn.waits_since_ns = None;
            }
        }
    }
}
