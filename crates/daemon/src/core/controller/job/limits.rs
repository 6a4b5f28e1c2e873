//! The time of jobs: how long they may run, since when they are suspended.
//!
//! ```text
//! all ranks run --the limit, without the time suspended--> TERM, one line, status 124 --grace--> killed
//!               --`tutti kill --kill-after`-------------> TERM                        --grace--> killed
//! ```
//!
//! What is known of it is in the order ([`Clock`](crate::message::Clock)), so the controller that takes the
//! job over goes on from there: its limit is not longer for it, and no signal is sent twice. It is the time
//! that passes for everybody, as batch users know it: that others have turns in between counts, that the user
//! has suspended the job does not. No clock that is set changes it ([`Elapsed`]).

use rustix::process::Signal;

use super::JobRecord;
use crate::core::clocks::{Clocks, Elapsed};
use crate::message::{EndKind, Run, Suspended};
use tutti_protocol::time_limit::{self, GRACE_MS};
use tutti_protocol::users::SuspendedBy;

/// Order that a job gets at its limit.
pub(in crate::core::controller) const TERM: u32 = Signal::TERM.as_raw() as u32;
/// Exit status of a job that a user has ended and that did not end by TERM.
const KILLED: u8 = 128 + 9;
/// Exit status of a job that has reached its limit, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

impl JobRecord {
    /// Records that its ranks run, for this controller.
    pub(in crate::core::controller) fn record_start(&mut self, now: Clocks) {
        let started_ms = *self.started_ms.get_or_insert(now.wall_ms);
        if self.launch.batch.limit().is_some() {
            self.order.clock.started_ms = Some(started_ms);
            if self.order.run == Run::Go {
                self.order.clock.ran.start(now.boot_ms);
            }
        }
    }

    /// Takes over what an earlier controller knew of its time.
    pub(in crate::core::controller) fn learn_clock(&mut self) {
        let clock = self.order.clock;
        self.started_ms = self.started_ms.or(clock.started_ms);
        if clock.since_term.is_some() && clock.grace_ms.is_none() {
            self.record_limit();
        }
    }

    /// Lets it run or stand still, as a user wants it.
    pub(in crate::core::controller) fn set_run(&mut self, run: Run, uid: u32, now: Clocks) {
        let has_limit = self.launch.batch.limit().is_some();
        let clock = &mut self.order.clock;
        if run == Run::Stop {
            clock.suspended = Some(Suspended { since_ms: now.wall_ms, uid, why: SuspendedBy::User });
            clock.started_ms = self.started_ms;
            clock.ran.stop(now.boot_ms);
        } else if clock.suspended.take().is_some() && self.started_ms.is_some() && has_limit {
            clock.ran.start(now.boot_ms);
        }
        self.order.run = run;
    }

    /// Suspends it for a user. Its origin is told anew when all its ranks stand still.
    pub(in crate::core::controller) fn suspend(&mut self, uid: u32, now: Clocks) {
        self.reported_suspended = false;
        self.set_run(Run::Stop, uid, now);
    }

    /// Suspends it by a rule that its user has set.
    pub(in crate::core::controller) fn suspend_by_rule(&mut self, why: SuspendedBy, now: Clocks) {
        self.suspend(self.launch.user.uid, now);
        self.order.clock.suspended.iter_mut().for_each(|suspended| suspended.why = why);
    }

    /// Whether something is to be done because of its limit.
    pub(in crate::core::controller) fn is_past_limit(&self, boot_ms: u64) -> bool {
        let clock = &self.order.clock;
        if self.is_killed() || self.queued.is_some() {
            return false;
        }
        let runs = self.order.run != Run::Stop && clock.ran.since_ms.is_some();
        match (clock.since_term, self.launch.batch.limit()) {
            (Some(since_term), _) => since_term.at(boot_ms) >= self.grace_ms(),
            (None, Some((limit_ms, _))) => runs && clock.ran.at(boot_ms) >= limit_ms,
            (None, None) => false,
        }
    }

    /// How long its ranks run at most, from the start on, unless its user suspends it; none: for ever.
    pub(in crate::core::controller) fn lasts_ns(&self) -> Option<u64> {
        let (limit_ms, _) = self.launch.batch.limit()?;
        Some(limit_ms.saturating_add(self.grace_ms()).saturating_mul(1_000_000))
    }

    /// Time between TERM and KILL.
    fn grace_ms(&self) -> u64 {
        let by_user = self.order.clock.grace_ms;
        let by_option = || Some(self.launch.batch.kill_after()?.as_millis() as u64);
        by_user.or_else(by_option).unwrap_or(GRACE_MS)
    }

    /// A user ends it: its ranks get TERM, and KILL follows after this time.
    pub(in crate::core::controller) fn end_within(&mut self, kill_after_ms: u64, now: Clocks) {
        let clock = &mut self.order.clock;
        clock.since_term.get_or_insert(Elapsed { ms: 0, since_ms: Some(now.boot_ms) });
        clock.grace_ms = Some(clock.grace_ms.map_or(kill_after_ms, |ms| ms.min(kill_after_ms)));
    }

    /// Whether its ranks are to get a signal now, since its limit is near.
    pub(in crate::core::controller) fn is_warning_due(&self, boot_ms: u64) -> bool {
        let clock = &self.order.clock;
        let limit = self.launch.batch.limit().zip(self.launch.batch.warning());
        let Some(((limit_ms, _), warning)) = limit else { return false };
        let is_open =
            !clock.warned && clock.since_term.is_none() && self.queued.is_none() && !self.is_ending();
        let runs = self.order.run != Run::Stop && clock.ran.since_ms.is_some();
        is_open && runs && clock.ran.at(boot_ms) >= limit_ms.saturating_sub(warning.before_ms)
    }

    /// The signal that its ranks, and those of its steps, get just now since its limit is near.
    pub(in crate::core::controller) fn judge_warning(&mut self, boot_ms: u64) -> Option<u32> {
        let warning = self.launch.batch.warning().filter(|_| self.is_warning_due(boot_ms))?;
        self.order.clock.warned = true;
        self.signal(warning.signal);
        Some(warning.signal)
    }

    /// Step of the limit at which its steps have had TERM, and its script has had time to see how they end:
    /// it gets TERM too.
    pub(in crate::core::controller) fn is_term_due(&self, boot_ms: u64) -> bool {
        let Some(since_term) = self.order.clock.since_term else { return false };
        self.launch.steps.allocation.is_some()
            && !self.is_ending()
            && since_term.at(boot_ms) >= self.grace_ms() / 2
            && self.order.clock.term.is_none()
            && !self.order.signals.iter().any(|(_, signal)| *signal == TERM)
    }

    /// `true`: it has just reached its limit. Its steps, if it has any, get TERM before its script does.
    pub(in crate::core::controller) fn judge_limit(&mut self, boot_ms: u64, has_steps: bool) -> bool {
        if !self.is_past_limit(boot_ms) {
            if self.is_term_due(boot_ms) {
                self.signal_end();
            }
            return false;
        }
        // What ranks that have ended left behind hears no signal.
        if self.order.clock.since_term.is_some() || self.is_ending() {
            let by_user = self.order.clock.grace_ms.is_some();
            self.end_by(None, if by_user { KILLED } else { TIMED_OUT });
            return false;
        }
        self.order.clock.since_term = Some(Elapsed { ms: 0, since_ms: Some(boot_ms) });
        self.record_limit();
        if !has_steps {
            self.signal_end();
        }
        true
    }

    /// The TERM of its end, before KILL.
    pub(in crate::core::controller) fn signal_end(&mut self) {
        self.signal(TERM);
        self.order.clock.term = Some(self.signals);
    }

    /// Whatever its ranks do from now on is a consequence.
    fn record_limit(&mut self) {
        let launch = std::sync::Arc::clone(&self.launch);
        let Some((limit_ms, option)) = launch.batch.limit() else { return };
        self.end.mark_by_user();
        self.end.record_status(TIMED_OUT);
        let limit = time_limit::text_ms(limit_ms);
        let cause = format!("it reached its time limit of {limit} ({option})");
        let line = format!("{cause}; the job is ended");
        self.warn_of_end(EndKind::TimeLimit, cause, line);
    }
}
