//! Control of jobs by their users: signals, suspension, the end. What is done to a job is done to its steps,
//! what is done to an array to its tasks.
//!
//! ```text
//! request --check_owner--> array: its tasks | Requeue, Hold, Release: the queue | all else: the job itself
//!     --> its file, if it waits --> order to the nodes --> its steps --> judge
//! ```

use std::collections::BTreeSet;

use tutti_protocol::wire::Report;

use super::answers::Requester;
use super::filings::Filing;
use super::{Controller, log, scheduler};
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::core::outbox::Effect;
use crate::core::relay::Relay;
use crate::message::{Answer, Control, JobId, Run, User};

/// Why jobs end when all daemons are ended.
const DOWN: &str = "the cluster has been shut down; the job is ended";

impl Controller {
    /// None: it is answered when the job's file is written. Nobody who has `requester` is answered at once.
    pub(super) fn control(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        id: JobId,
        control: Control,
        (user, requester): (User, Option<Requester>),
    ) -> Option<Answer> {
        let refused = |text: String| Some(Answer::Refused(text));
        if let Err(answer) = self.jobs.check_owner(id, |owner| cx.local.may(user, Some(owner))) {
            return Some(answer);
        }
        let (now, actor) = (cx.local.clocks(), cx.local.actor(user));
        let ends = matches!(control, Control::Kill | Control::Abandon | Control::End(_));
        if ends && let Some(old) = self.filings.again_of(id) {
            // It ends with the one whose place it was to take.
            return self.control(cx, relay, old, control, (user, requester));
        }
        let is_requeued = self.filings.has_again(id);
        let is_for_new =
            matches!(control, Control::Suspend | Control::Resume | Control::Hold | Control::Release);
        if is_for_new && self.awaits_file_of_successor(id) {
            // Asked again, it is known whether another one has taken its place.
            return None;
        }
        if is_requeued && ends {
            self.give_up_again(cx, id);
        }
        let job = self.jobs.get(id)?;
        match (is_requeued, job.is_over()) {
            // It is ended with the one that was to take its place.
            (true, true) if ends => return Some(Answer::Done),
            // Asked again, it is answered by the one that takes its place.
            (true, _) if !ends && control != Control::Requeue && job.is_ending() => return None,
            (_, true) => return refused(format!("job {id} is over")),
            _ => {}
        }
        if job.is_array() {
            return self.control_tasks(cx, relay, id, control, (user, requester));
        }
        if control == Control::Requeue {
            return self.requeue(cx, id, (user, requester));
        }
        if matches!(control, Control::Hold | Control::Release) {
            return self.change_hold(cx, id, control == Control::Hold, (user, requester));
        }
        if control == Control::Resume
            && let Some(owner) = self.suspended_owner(id)
        {
            return refused(format!("job {id} is a step of job {owner}, which is suspended"));
        }
        let job = self.jobs.get_mut(id)?;
        let (was, was_detached) = (job.order.run, job.is_detached());
        let control = match job.control(control, (user.uid, &actor), now) {
            Ok(control) => control,
            Err(text) => return refused(text),
        };
        let run = job.order.run;
        // A file may take a disk's time: only if there is something new in it.
        let is_new = (run, job.is_detached()) != (was, was_detached);
        let filing = requester.map_or(Filing::Noted, Filing::Changed);
        let is_filed = is_new && self.file(cx.out, id, filing) && requester.is_some();
        self.publish(relay, id);
        if run != was {
            let event = match run {
                Run::Go => "resumed",
                Run::Stop => "suspended",
                Run::Kill => "killed",
            };
            if run != Run::Kill {
                let job = self.jobs.get(id).into_iter();
                job.for_each(|job| scheduler::suspend(cx.out, job, run == Run::Stop));
            }
            log::log(cx, id, JobEvent { event, ..JobEvent::default() });
        }
        self.control_steps(cx, relay, id, control, user);
        self.judge(cx, relay, id);
        (!is_filed).then_some(Answer::Done)
    }

    /// Does to the steps of a job what is done to the job.
    pub(super) fn control_steps(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        owner: JobId,
        control: Control,
        user: User,
    ) {
        match control {
            Control::Suspend | Control::Resume | Control::Signal(_) | Control::End(_) => {}
            // Its end ends them; the others are about its front end.
            Control::Kill
            | Control::Abandon
            | Control::Window(..)
            | Control::Detach
            | Control::Hold
            | Control::Release
            | Control::Requeue
            // Steps are none of the script's process.
            | Control::SignalScript(_) => return,
        }
        for step in self.steps_of(owner) {
            self.control(cx, relay, step, control, (user, None));
        }
    }

    /// Does to the tasks of an array what is done to it. None: it is answered when its file is written.
    pub(super) fn control_tasks(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        whole: JobId,
        control: Control,
        (user, requester): (User, Option<Requester>),
    ) -> Option<Answer> {
        if !matches!(control, Control::Window(..) | Control::Detach | Control::Abandon) {
            let whole_job = self.jobs.get(whole);
            let again = whole_job.into_iter().flat_map(|job| job.named_before());
            let again = again.filter(|task| self.filings.has_again(*task));
            let tasks: BTreeSet<JobId> = self.jobs.tasks_of(whole).into_iter().chain(again).collect();
            for id in tasks {
                // What cannot be done to one of them, such as a hold of one that runs, is no matter.
                self.control(cx, relay, id, control, (user, None));
            }
        }
        // The disk has their files before this one.
        let is_filed =
            requester.is_some_and(|requester| self.file(cx.out, whole, Filing::Changed(requester)));
        (!is_filed).then_some(Answer::Done)
    }

    /// Ends all daemons, and before that all jobs.
    pub(super) fn shut_down(&mut self, cx: Context<'_>, relay: &mut Relay, user: User) -> Answer {
        if !cx.local.may(user, None) {
            return Answer::Refused("only the owner of the daemons may end them".into());
        }
        let open: Vec<JobId> = self
            .jobs
            .records
            .iter()
            // Who was started without a daemon goes on without one.
            .filter(|(_, job)| !job.is_over() && !job.launch.enrolled)
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            if let Some(job) = self.jobs.get_mut(id) {
                job.report(Report::Warning(DOWN.into()));
                job.end.cancel(user.uid, DOWN.into());
            }
            let root = User::new(0, 0);
            self.control(cx, relay, id, Control::Kill, (root, None));
        }
        // The kills go down first.
        cx.out.push(Effect::ShutDown);
        Answer::Done
    }
}
