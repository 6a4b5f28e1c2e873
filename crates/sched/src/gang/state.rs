//! One job on one node, and what time does to it.

use super::channels::Channels;
use super::{Action, Arrival, NodeSwitch};
use crate::message::Stage;
use crate::types::{Generation, JobId, Slots};

/// A job on this node.
#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) job: JobId,
    pub(super) slots: Slots,
    /// Whether this is the job's only node.
    only_here: bool,
    body: Body,
    /// Place in the rows.
    pub(super) place: RowPlace,
    suspended: bool,
    /// The number of the last suspend or resume.
    serial: u64,
    dying: bool,
    /// Channels in a strict switch.
    pub(super) channels: Channels,
    sleep: Sleep,
    /// Whether the job counts as frozen since it sleeps: nothing keeps it from waking up.
    exempt: bool,
    /// Whether the job counts as frozen since it has been ordered to freeze; its freezer has not said so.
    assumed: bool,
    /// Job in whose turn this one runs; it counts as frozen meanwhile.
    lender: Option<JobId>,
    stint: u64,
    stint_since_ns: u64,
    /// When it is named, if it is not frozen by then.
    stuck_at_ns: u64,
}

/// Place of a job in the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowPlace {
    /// Whether the job stands in the row in force, and whether it stood in the one before.
    in_row: bool,
    was_in_row: bool,
    /// Since which generation it stands in the row: strict, it waits for a RUN of this or a later one.
    entered: Generation,
    /// The generation of the last RUN.
    run: Option<Generation>,
}

impl RowPlace {
    fn new(entered: Generation) -> Self {
        RowPlace { in_row: false, was_in_row: false, entered, run: None }
    }

    /// Whether the job stands in the row in force.
    pub(super) fn is_in_row(&self) -> bool {
        self.in_row
    }

    /// Notes whether the job stands in the row in force.
    pub(super) fn set_in_row(&mut self, in_row: bool) {
        self.in_row = in_row;
    }

    /// Notes the row of a switch; `skipped`: this node has not heard of all switches before. Gives whether
    /// the job has left the row.
    pub(super) fn change_row(&mut self, in_row: bool, generation: Generation, skipped: bool) -> bool {
        (self.was_in_row, self.in_row) = (self.in_row, in_row);
        // Who ran through what this node has not heard may have been off meanwhile.
        let may_have_been_off = !self.was_in_row || skipped;
        if self.in_row && may_have_been_off {
            self.entered = generation;
        }
        !self.in_row && (self.was_in_row || skipped)
    }

    /// Notes a RUN.
    pub(super) fn order_run(&mut self, generation: Generation) {
        self.run = self.run.max(Some(generation));
    }

    /// Notes that the last RUN was of the row in which the job stands: it came before the job.
    pub(super) fn enter_with_run(&mut self) {
        self.entered = self.run.map_or(self.entered, |run| self.entered.min(run));
    }

    /// Whether RUN was said since the job stands in the row.
    pub(super) fn may_run(&self) -> bool {
        self.run >= Some(self.entered)
    }
}

/// Sleep of all processes of a job, and what was said of it.
#[derive(Clone, Copy, Debug, Default)]
struct Sleep {
    since_ns: Option<u64>,
    /// IDLE has been said, in this stint, and is not taken back.
    idle_reported: bool,
    idle_reported_in: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Body {
    Thawed,
    Freezing { since_ns: u64 },
    Frozen,
}

impl Local {
    pub(super) fn new(
        job: JobId,
        slots: Slots,
        only_here: bool,
        arrival: Arrival,
        entered: Generation,
    ) -> Self {
        let body = match arrival {
            Arrival::Running => Body::Thawed,
            Arrival::Frozen => Body::Frozen,
        };
        Local {
            job,
            slots,
            only_here,
            body,
            place: RowPlace::new(entered),
            suspended: false,
            serial: 0,
            dying: false,
            channels: Channels::new(only_here),
            sleep: Sleep::default(),
            exempt: false,
            assumed: false,
            lender: None,
            stint: 0,
            stint_since_ns: 0,
            stuck_at_ns: 0,
        }
    }

    /// Whether it was killed, and has not ended.
    pub(super) fn is_dying(&self) -> bool {
        self.dying
    }

    /// Notes that it is killed; false if it was before.
    pub(super) fn kill(&mut self) -> bool {
        !std::mem::replace(&mut self.dying, true)
    }

    /// Whether somebody has suspended it.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Notes a suspend or resume; false if a later one came before.
    pub(super) fn suspend(&mut self, serial: u64, suspended: bool) -> bool {
        let is_new = serial > self.serial;
        if is_new {
            (self.serial, self.suspended) = (serial, suspended);
        }
        is_new
    }

    /// Number of the suspend that holds, once its freezer has said frozen.
    pub(super) fn suspended_by(&self) -> Option<u64> {
        (self.suspended && self.is_surely_frozen()).then_some(self.serial)
    }

    /// Notes that all of it sleeps.
    pub(super) fn fall_asleep(&mut self, now_ns: u64) {
        self.sleep.since_ns = self.sleep.since_ns.or(Some(now_ns));
    }

    /// Notes that some of it works. Gives whether it was said to be idle.
    pub(super) fn wake(&mut self) -> bool {
        std::mem::take(&mut self.sleep).idle_reported
    }

    pub(super) fn is_thawed(&self) -> bool {
        self.body == Body::Thawed
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.body == Body::Frozen
    }

    pub(super) fn freezing_since_ns(&self) -> Option<u64> {
        match self.body {
            Body::Freezing { since_ns } => Some(since_ns),
            Body::Thawed | Body::Frozen => None,
        }
    }

    pub(super) fn freeze(&mut self, now_ns: u64, stuck_ns: u64) {
        self.body = Body::Freezing { since_ns: now_ns };
        self.lender = None;
        self.stuck_at_ns = now_ns + stuck_ns;
    }

    pub(super) fn thaw(&mut self, now_ns: u64) {
        self.body = Body::Thawed;
        (self.exempt, self.assumed, self.lender) = (false, false, None);
        self.channels.end_question();
        self.stint += 1;
        self.stint_since_ns = now_ns;
    }

    /// The freezer says frozen; false if nobody has asked for that.
    pub(super) fn confirm_frozen(&mut self) -> bool {
        let requested = matches!(self.body, Body::Freezing { .. });
        if requested {
            self.body = Body::Frozen;
        }
        requested
    }

    /// Notes that the job runs no instruction of its own from now on; false if nobody has asked for that.
    pub(super) fn assume_frozen(&mut self) -> bool {
        self.assumed = self.confirm_frozen();
        self.assumed
    }

    /// Frozen as far as others run beside it, and its freezer has not said so; false from now on.
    pub(super) fn end_assumed(&mut self) -> bool {
        std::mem::take(&mut self.assumed)
    }

    /// Whether the job's freezer has said frozen, or the job sleeps.
    pub(super) fn is_surely_frozen(&self) -> bool {
        self.is_frozen() && !self.assumed && self.lender.is_none()
    }

    /// Notes that the job, which is not to run, sleeps; false if nobody has asked for that.
    pub(super) fn confirm_exempt(&mut self) -> bool {
        self.exempt = self.confirm_frozen();
        self.exempt
    }

    /// See [`Self::confirm_exempt`].
    pub(super) fn is_exempt(&self) -> bool {
        self.exempt
    }

    /// The job in whose turn it runs.
    pub(super) fn lender(&self) -> Option<JobId> {
        self.lender
    }

    /// Forgets the lender of a job that dies: nobody gives it back.
    pub(super) fn forget_lender(&mut self) {
        self.lender = None;
    }

    /// Runs the job in this one's turn from now on, whether it was left as it is before or not.
    pub(super) fn begin_loan(&mut self, lender: JobId) {
        (self.lender, self.assumed, self.exempt) = (Some(lender), false, false);
    }

    /// Whether the job's freezer has been written to and has not said frozen.
    fn must_report(&self) -> bool {
        (self.assumed || self.freezing_since_ns().is_some()) && !self.dying
    }

    /// When the job will be idle, if nothing happens; None if it has been said in this stint. A job that is
    /// seen asleep may have been woken by what came while it was frozen, so the time begins anew with each
    /// stint. Who dozes was never frozen.
    fn idle_at_ns(&self, idle_ns: u64) -> Option<u64> {
        let since_ns =
            self.sleep.since_ns.filter(|_| !self.dying && self.sleep.idle_reported_in != Some(self.stint))?;
        if self.exempt && !self.suspended {
            return Some(since_ns + idle_ns);
        }
        self.is_thawed().then(|| since_ns.max(self.stint_since_ns) + idle_ns)
    }
}

impl NodeSwitch {
    /// When time does something to the job.
    pub(super) fn timeout_of(&self, local: &Local) -> Option<u64> {
        let stuck = local.must_report().then_some(local.stuck_at_ns);
        let idle = local.idle_at_ns(self.timing.idle_ns);
        let asked = local.channels.waits_until_ns().filter(|_| !local.dying);
        stuck.into_iter().chain(idle).chain(asked).min()
    }

    /// Jobs that have been asleep long enough are idle.
    pub(super) fn check_idle(&mut self, now_ns: u64) {
        let generation = self.generation();
        for local in &mut self.jobs {
            if local.idle_at_ns(self.timing.idle_ns).is_some_and(|at_ns| at_ns <= now_ns) {
                (local.sleep.idle_reported, local.sleep.idle_reported_in) = (true, Some(local.stint));
                self.actions.push_back(Action::Reached(local.job, Stage::Idle, generation));
            }
        }
    }

    /// Jobs that do not get frozen are named, again and again: the controller may not have waited for them
    /// before. Who has been expelled is not waited for; that it still does not forward, others say.
    pub(super) fn check_stuck(&mut self, now_ns: u64) {
        for local in self.jobs.iter_mut().filter(|local| local.must_report()) {
            if now_ns >= local.stuck_at_ns {
                local.stuck_at_ns = now_ns + self.timing.stuck_ns;
                if !self.expelled {
                    self.actions.push_back(Action::Stuck(local.job));
                }
            }
        }
    }

    /// A node that hears nothing goes on with what it has alone, by turns.
    pub(super) fn check_silence(&mut self, now_ns: u64) {
        match self.alone {
            None if self.timing.silence_ns > 0 && now_ns >= self.contact_ns + self.timing.silence_ns => {
                self.alone = Some((now_ns + self.timing.alone_slice_ns, 0));
            }
            Some((turn_ns, turn)) if now_ns >= turn_ns => {
                let turn = if turn + 1 < self.jobs.len() { turn + 1 } else { 0 };
                self.alone = Some((now_ns + self.timing.alone_slice_ns, turn));
            }
            _ => {}
        }
    }

    /// True if the job runs in this turn of a node that is alone: the first from `turn` on, and each that
    /// shares no slot with those before it.
    pub(super) fn has_turn(&self, at: usize, turn: usize) -> bool {
        let count = self.jobs.len();
        let mut taken = Slots::NONE;
        for step in 0..count {
            let candidate = (turn + step) % count;
            let local = &self.jobs[candidate];
            if !local.only_here || local.dying || local.suspended || !taken.is_disjoint(&local.slots) {
                continue;
            }
            if candidate == at {
                return true;
            }
            taken = taken.with(&local.slots);
        }
        false
    }
}
