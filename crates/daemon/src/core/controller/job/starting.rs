//! Obstacles to a job's start beside other jobs: it is held (`tutti hold`, `tutti submit --hold`), or it
//! stands for an array and never starts ([`super::super::arrays`]).
//!
//! ```text
//! waits --Hold--> held, kept in its file; taken back from the scheduler --Release--> the scheduler is asked
//! ```
//!
//! The scheduler may have chosen nodes while the word that takes the job back was on its way. It answers each
//! such word with `Withdrawn`; what it has said of the job before means nothing any more. A job that has its
//! nodes is not held: its user suspends it. What root or the owner of the daemons holds, its user does not
//! release.

use std::sync::Arc;

use tutti_protocol::users::HeldBy;
use tutti_protocol::wait_kind::WaitKind;
use tutti_protocol::wire::Report;

use super::super::waits::Waits;
use super::JobRecord;
use crate::core::clocks::{Clocks, Elapsed};
use crate::core::local::LocalNode;
use crate::message::{Amended, Change, EndKind, JobId, Launch, Run, User};

impl JobRecord {
    /// A job that has no nodes yet.
    pub(in crate::core::controller) fn waiting(id: JobId, launch: Launch, waits: Waits) -> Self {
        let mut job = JobRecord::new(id, launch);
        job.queued = Some(waits);
        job
    }

    /// Whether it waits since an earlier incarnation of the controller, and the scheduler does not know it
    /// yet.
    pub(in crate::core::controller) fn is_held(&self) -> bool {
        self.queued.as_ref().is_some_and(|queued| queued.held_until_ms().is_some()) && !self.is_ending()
    }

    /// Why it has no nodes.
    pub(in crate::core::controller) fn waits(&self, local: &LocalNode) -> Option<String> {
        let queued = self.queued.as_ref().filter(|_| !self.is_ending())?;
        if queued.held_until_ms().is_some() {
            return Some("the controller was restarted and waits for the reports of its nodes".into());
        }
        let why = self.tasks_text().or_else(|| self.hold_text(local)).or_else(|| self.waits_for());
        let of_queue = || queued.why().map_or("others wait longer", |(_, text)| text).to_owned();
        why.or_else(|| Some(of_queue()))
    }

    /// Kind of what it waits for; none: it has its nodes.
    pub(in crate::core::controller) fn wait_kind(&self) -> Option<WaitKind> {
        let queued = self.queued.as_ref().filter(|_| !self.is_ending())?;
        Some(if queued.held_until_ms().is_some() {
            WaitKind::Restart
        } else if self.user_hold().is_some() {
            WaitKind::Held
        } else if self.waits_for().is_some() {
            WaitKind::Dependency
        } else {
            queued.why().map(|(kind, _)| *kind).unwrap_or_default()
        })
    }

    /// Tells its user once that it waits, for this. `true`: just now.
    pub(in crate::core::controller) fn report_wait(&mut self, why: &str) -> bool {
        let is_new = self.queued.as_mut().is_some_and(Waits::poll_report);
        if is_new {
            self.report(Report::Warning(format!("job {} waits: {why}", self.id)));
        }
        is_new
    }

    /// Since when it is held while it waits, and by which user.
    pub(in crate::core::controller) fn user_hold(&self) -> Option<HeldBy> {
        self.queued.as_ref().filter(|_| !self.is_ending())?.user_hold()
    }

    /// Why a held job waits.
    pub(in crate::core::controller) fn hold_text(&self, local: &LocalNode) -> Option<String> {
        let hold = self.user_hold()?;
        let actor = local.actor(User::new(hold.uid, hold.uid));
        Some(format!("it is held by {actor}, until `tutti release {}`", self.id))
    }

    /// Whether it stands for an array, and so never gets nodes.
    pub(in crate::core::controller) fn is_array(&self) -> bool {
        self.launch.batch.array().is_some()
    }

    /// The array of which it is a task.
    pub(in crate::core::controller) fn array_id(&self) -> Option<JobId> {
        self.launch.batch.array_task().map(|task| task.array)
    }

    /// Reason for which an array waits.
    pub(in crate::core::controller) fn tasks_text(&self) -> Option<String> {
        let (tasks, over) = (&self.launch.batch.array()?.tasks, self.queued.as_ref()?.over());
        Some(format!("{} of its {} tasks are over", over.len(), tasks.len()))
    }

    /// An array whose tasks are over is over: with the first of their status that is not 0.
    pub(in crate::core::controller) fn judge_array(&mut self) {
        let Some(queued) = self.queued.as_ref().filter(|_| self.is_array() && !self.is_ending()) else {
            return;
        };
        if self.waits_for().is_some() {
            return;
        }
        let ended = queued.over().iter().map(|(id, outcome)| (*id, outcome.status));
        let failed: Vec<_> = ended.filter(|(_, status)| *status != Some(0)).collect();
        let Some((first, status)) = failed.first().copied() else { return self.end_by(None, 0) };
        let count = failed.len();
        let named = self.launch.batch.after.iter().position(|after| after.job == first);
        let task = named.and_then(|at| self.launch.batch.array()?.tasks.get(at).copied()).unwrap_or_default();
        let how = match status {
            Some(status) => format!("has ended with status {status}"),
            None => "is known no more".to_owned(),
        };
        let more = if count > 1 { format!(", as have {} more", count - 1) } else { String::new() };
        self.end.mark(EndKind::Failed);
        self.report(Report::Refused(format!("task {task} (job {first}) {how}{more}")));
        self.end_by(None, status.unwrap_or(1));
    }

    /// Whether its time to begin lies between the two.
    pub(in crate::core::controller) fn is_begin_due(&self, since_ms: u64, wall_ms: u64) -> bool {
        let begin_ms = self.launch.batch.rules().begin_ms.filter(|_| self.queued.is_some());
        begin_ms.is_some_and(|begin_ms| (since_ms..=wall_ms).contains(&begin_ms))
    }

    /// Applies what was changed since its submission, by its order, as if it had been submitted so.
    pub(in crate::core::controller) fn apply_amended(&mut self) {
        let amended = self.order.amended();
        if *amended != Amended::default() {
            let mut launch = Launch::clone(&self.launch);
            amended.apply(&mut launch);
            self.launch = Arc::new(launch);
        }
    }

    /// Has other values from now on.
    pub(in crate::core::controller) fn change(&mut self, change: &Change, now: Clocks) {
        let had_limit = self.launch.batch.limit().is_some();
        self.order.amended_mut().add(change);
        self.apply_amended();
        let lasts_ns = self.lasts_ns();
        if let Some(queued) = &mut self.queued {
            queued.set_weight(self.launch.terms.weight);
            queued.set_lasts(lasts_ns);
        }
        if let Some(started_ms) = self.started_ms.filter(|_| !had_limit && change.time_ms.is_some()) {
            // It was not counted before: as if it had run all the time.
            let ran_ms = now.wall_ms.saturating_sub(started_ms);
            let since_ms = (self.order.run == Run::Go).then_some(now.boot_ms);
            (self.order.clock.started_ms, self.order.clock.ran) =
                (Some(started_ms), Elapsed { ms: ran_ms, since_ms });
        }
        if change.time_ms.is_some() {
            self.order.clock.warned = false;
        }
    }
}
