//! The time of jobs: how long they may run, since when they are suspended.
//!
//! ```text
//! all ranks run --limit, without the time suspended--> TERM, one line, status 124 --GRACE_MS--> killed
//! ```
//!
//! What is known of it is in the order ([`Clock`](crate::message::Clock)), so the controller that takes the
//! job over goes on from there: its limit is not longer for it, and no signal is sent twice. It is wall time
//! by the controller's clock, as batch users know it: that others have turns in between counts, that the user
//! has suspended the job does not.

use rustix::process::Signal;
use tutti_protocol::wire::Report;

use super::job::JobRecord;
use crate::message::{Run, Suspended};
use tutti_protocol::time_limit;
use tutti_protocol::users::SuspendedBy;

/// Between TERM and KILL.
const GRACE_MS: u64 = 10_000;
/// Exit status of a job that has reached its limit, as timeout(1) has it.
const TIMED_OUT: u8 = 124;

impl JobRecord {
    /// Its ranks run, for this controller.
    pub(super) fn record_start(&mut self, wall_ms: u64) {
        let started_ms = *self.started_ms.get_or_insert(wall_ms);
        if self.launch.batch.limit().is_some() {
            self.order.clock.started_ms = Some(started_ms);
        }
    }

    /// What an earlier controller knew of its time.
    pub(super) fn learn_clock(&mut self) {
        let clock = self.order.clock;
        self.started_ms = self.started_ms.or(clock.started_ms);
        if clock.kill_ms.is_some() {
            self.record_limit();
        }
    }

    /// It is to run or to stand still, as a user wants it.
    pub(super) fn set_run(&mut self, run: Run, uid: u32, wall_ms: u64) {
        let clock = &mut self.order.clock;
        if run == Run::Stop {
            clock.suspended = Some(Suspended { since_ms: wall_ms, uid, why: SuspendedBy::User });
            clock.started_ms = self.started_ms;
        } else if let Some(Suspended { since_ms, .. }) = clock.suspended.take()
            && let Some(started_ms) = self.started_ms
        {
            clock.suspended_ms += wall_ms.saturating_sub(since_ms.max(started_ms));
        }
        self.order.run = run;
    }

    /// It is suspended by a rule that its user has set.
    pub(super) fn suspend_by_rule(&mut self, why: SuspendedBy, wall_ms: u64) {
        self.reported_suspended = false;
        self.set_run(Run::Stop, self.launch.user.uid, wall_ms);
        self.order.clock.suspended.iter_mut().for_each(|suspended| suspended.why = why);
    }

    /// When something is to be done because of its limit.
    pub(super) fn limit_due_ms(&self) -> Option<u64> {
        let clock = &self.order.clock;
        if self.is_ending() || self.queued.is_some() {
            return None;
        }
        let (limit_ms, _) = self.launch.batch.limit()?;
        let runs = self.order.run == Run::Go;
        let end_ms = || {
            Some(
                clock
                    .started_ms
                    .filter(|_| runs)?
                    .saturating_add(clock.suspended_ms)
                    .saturating_add(limit_ms),
            )
        };
        clock.kill_ms.or_else(end_ms)
    }

    /// `true`: it has just reached its limit.
    pub(super) fn judge_limit(&mut self, wall_ms: u64) -> bool {
        if self.limit_due_ms().is_none_or(|due_ms| wall_ms < due_ms) {
            return false;
        }
        if self.order.clock.kill_ms.is_some() {
            self.end_by(None, TIMED_OUT);
            return false;
        }
        self.order.clock.kill_ms = Some(wall_ms + GRACE_MS);
        self.record_limit();
        let text = self.cause.clone().unwrap_or_default();
        self.report(Report::Warning(format!("{text}; the job is ended")));
        self.signal(Signal::TERM.as_raw() as u32);
        true
    }

    /// Whatever its ranks do from now on is a consequence.
    fn record_limit(&mut self) {
        let launch = std::sync::Arc::clone(&self.launch);
        let Some((limit_ms, option)) = launch.batch.limit() else { return };
        self.by_user = true;
        self.record_status(TIMED_OUT);
        self.record_cause(format!(
            "it reached its time limit of {} ({option})",
            time_limit::text_ms(limit_ms)
        ));
    }
}
