//! Changes of jobs after their submission (`tutti change`): time limit, weight, name, time to begin.
//!
//! ```text
//! waits  --> its file has it, then who asked is answered
//! runs   --> its order has it ([`Amended`]), which a new controller learns from the nodes
//! ```
//!
//! A job whose time to begin is put off is taken back from the scheduler ([`Waits::withdraw`]).
//!
//! A user changes a job within the limits of the configuration, as if it were submitted with the new values.
//! What is asked for an array is done to all its tasks that are not over.

use tutti_sched::WEIGHT_MAX;

use super::answers::Asker;
use super::filings::Filing;
use super::job::JobRecord;
use super::waits::Waits;
use super::{Controller, log};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::core::local::LocalNode;
use crate::core::relay::Relay;
use crate::gang::Command;
use crate::message::{Answer, Change, JobId, User};

impl Controller {
    /// Whether a user may change a job in this way.
    pub(super) fn check_change(
        &self,
        local: &LocalNode,
        user: User,
        id: JobId,
        change: &Change,
    ) -> Result<(), Answer> {
        self.jobs.check_owner(id, |owner| local.may(user, Some(owner)))?;
        let refused = |text: String| Err(Answer::Refused(text));
        let Some(job) = self.jobs.get(id) else { return Err(self.jobs.refuse_unknown(id)) };
        if job.is_over() {
            return refused(format!("job {id} is over"));
        }
        if job.is_ending() || job.order.clock.since_term.is_some() {
            return refused(format!("job {id} is being ended"));
        }
        if job.launch.enrolled || job.launch.steps.owner.is_some() {
            return refused(format!("job {id} is no job of its own: its values are those of its mpiexec"));
        }
        if change.begin_ms.is_some() && job.queued.is_none() {
            return refused(format!("--begin: job {id} has its nodes already"));
        }
        if change.weight.is_some_and(|weight| !(1..=WEIGHT_MAX).contains(&weight)) {
            return refused(format!("--weight: a whole number from 1 to {WEIGHT_MAX} is expected"));
        }
        let owner = job.launch.user;
        if user.uid == owner.uid
            && let Err(text) = self.check_changed(local, owner, &job.launch.batch.queue, change)
        {
            return refused(text);
        }
        Ok(())
    }

    /// A user changes a job. None: it is answered when the job's file is written.
    pub(super) fn change_job(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        asker: Asker,
        (id, change): (JobId, &Change),
    ) -> Option<Answer> {
        let may = |owner| cx.local.may(asker.user, Some(owner));
        if self.awaits_file_of_successor(id) && self.jobs.check_owner(id, may).is_ok() {
            // Asked again, it is known whether another one has taken its place.
            return None;
        }
        if let Err(text) = self.check_change(cx.local, asker.user, id, change) {
            return Some(text);
        }
        if self.jobs.get(id).is_some_and(JobRecord::is_array) {
            for task in self.jobs.tasks_of(id) {
                if self.check_change(cx.local, asker.user, task, change).is_ok() {
                    self.carry_out(cx, relay, task, change);
                }
            }
        }
        self.carry_out(cx, relay, id, change);
        let actor = cx.local.actor(asker.user);
        let event =
            JobEvent { event: "changed", text: format!("{change} by {actor}"), ..JobEvent::default() };
        log::log(cx, id, event);
        let is_filed = self.file(cx.out, id, Filing::Changed(asker.requester));
        (!is_filed).then_some(Answer::Done)
    }

    fn carry_out(&mut self, cx: Context<'_>, relay: &mut Relay, id: JobId, change: &Change) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.change(change, cx.local.clocks());
        let is_put_off = change.begin_ms.is_some_and(|begin_ms| begin_ms > cx.local.wall_ms);
        if is_put_off && job.queued.as_mut().is_some_and(Waits::withdraw) {
            cx.out.act(Action::Gang(Command::Withdraw(id)));
        }
        if change.time_ms.is_some() && job.queued.is_some() {
            cx.out.act(Action::Gang(Command::Lasts(id, job.lasts_ns())));
        }
        if let Some(weight) = change.weight {
            cx.out.act(Action::Gang(Command::Weight(id, weight)));
        }
        if job.launch.batch.array_task().is_some() {
            self.file(cx.out, id, Filing::Noted);
        }
        self.publish(relay, id);
        self.jobs.pending.insert(id);
        if change.name.is_some() {
            // Others may have waited for the last job of that name.
            self.retry_waiting();
        }
    }
}
