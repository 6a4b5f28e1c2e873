//! Jobs that begin anew: by command, since a node was lost, or where the keeper's prolog failed. How the new
//! one comes about is in [`super::job`]; here is when, which job has taken the place of which, and who waits
//! for it.

use std::collections::BTreeSet;

use tutti_protocol::mail::MailEvent;

use super::answers::Requester;
use super::filings::Filing;
use super::job::JobRecord;
use super::jobs::Jobs;
use super::{Controller, log, mails};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::core::outbox::Outbox;
use crate::members::NodeId;
use crate::message::{Answer, JobId, Launch, User};

/// Line about a job that was to begin anew.
fn not_begun(id: JobId) -> String {
    format!("job {id} was ended before another one had taken its place")
}

impl Jobs {
    /// The job that waits to take the place of this one: an earlier controller died before it ended this one.
    pub(super) fn waiting_restart_of(&self, id: JobId) -> Option<JobId> {
        let is_it = |job: &&JobRecord| {
            job.queued.is_some() && !job.is_ending() && job.launch.batch.restart().is_some()
        };
        self.relations.behind(id).filter_map(|id| self.get(id)).find(is_it).map(|job| job.id)
    }

    /// Jobs that wait for this one wait for that one from now on. Gives them.
    pub(super) fn wait_for_other(&mut self, old: JobId, new: JobId) -> Vec<JobId> {
        let waits = |id: &JobId| self.get(*id).is_some_and(|job| job.queued.is_some() && !job.is_ending());
        let changed: Vec<JobId> = self.relations.behind(old).filter(|id| *id != new && waits(id)).collect();
        for id in &changed {
            let Some(job) = self.get(*id) else { continue };
            let mut launch = Launch::clone(&job.launch);
            let of_old = launch.batch.after.iter_mut().filter(|after| after.job == old);
            of_old.for_each(|after| after.job = new);
            self.set_launch(*id, launch);
        }
        changed
    }
}

impl Controller {
    /// A user has a job begin anew. None: it is answered when the new one's file is written.
    pub(super) fn requeue(
        &mut self,
        cx: Context<'_>,
        id: JobId,
        (_, requester): (User, Option<Requester>),
    ) -> Option<Answer> {
        let refusal = |text| Some(Answer::Refused(text));
        if self.filings.has_again(id) {
            return refusal(format!("job {id} is being requeued"));
        }
        let job = self.jobs.get(id)?;
        // A signal of a user's ends none that catches it, and its script may requeue itself at it.
        if job.is_ending() || job.order.clock.grace_ms.is_some() {
            return refusal(format!("job {id} is being ended"));
        }
        if let Some(text) = job.why_not_again() {
            return refusal(text);
        }
        self.begin_again(cx, id, requester);
        None
    }

    /// The job that has taken the place of this one, or itself. One whose file is not there yet has not.
    pub(super) fn newest(&self, id: JobId) -> JobId {
        let restart = |job: &JobRecord| job.launch.batch.restart();
        let first = self.jobs.get(id).and_then(restart).map_or(id, |restart| restart.first);
        let of_first = self.jobs.relations.restarts(first).filter(|id| !self.filings.has_new(*id));
        let of_first = of_first.filter_map(|id| self.jobs.get(id));
        of_first.max_by_key(|job| restart(job).map(|restart| restart.count)).map_or(id, |job| job.id)
    }

    /// Whether it is not known yet which job takes the place of this one, or that none does: its end says
    /// nothing to those that wait for it.
    pub(super) fn awaits_successor(&self, id: JobId, now_ms: u64) -> bool {
        let is_replaced = |job: &JobRecord| job.end.is_requeued() && self.newest(id) == id;
        self.filings.has_again(id)
            || !self.jobs.is_past_adoption(now_ms) && self.jobs.get(id).is_some_and(is_replaced)
    }

    /// Whether the file is on its way of a job that takes the place of this one, or of a task of it.
    pub(super) fn awaits_file_of_successor(&self, id: JobId) -> bool {
        let array = self.jobs.get(id).filter(|job| job.is_array());
        let tasks = array.into_iter().flat_map(JobRecord::named_before);
        [id].into_iter().chain(tasks).any(|id| self.filings.has_again(id))
    }

    fn begin_again(&mut self, cx: Context<'_>, id: JobId, requester: Option<Requester>) {
        let new = self.jobs.next_id();
        let Some(job) = self.jobs.get(id) else { return };
        let is_there = |node| cx.local.members.as_ref().is_some_and(|members| members.is_alive(node));
        let origin = Some(job.launch.origin).filter(|node| is_there(*node)).unwrap_or(NodeId::CONTROLLER);
        let launch = job.again(new, origin);
        let Some(demand) = launch.demand() else { return };
        let demand = demand.awaiting_lost();
        self.log_submission(cx, new, &launch);
        self.queue(cx, new, launch, demand, Filing::Again(id, requester));
    }

    /// A user ends a job while the file of the one that is to take its place is written: none does.
    pub(super) fn give_up_again(&mut self, cx: Context<'_>, old: JobId) {
        let Some(new) = self.filings.give_up_again(old) else { return };
        self.jobs.remove(new);
        cx.out.act(Action::Queue(new, None));
        let text = not_begun(old);
        log::log(cx, new, JobEvent { event: "refused", text, ..JobEvent::default() });
    }

    /// Jobs that waited in an earlier incarnation of the controller wait for those that take the place of
    /// others: it may have died before their files said so.
    pub(super) fn follow_restarts(&mut self, out: &Outbox) {
        let waits = |job: &&JobRecord| job.queued.is_some() && job.launch.batch.restart().is_some();
        let restarts = self.jobs.records.values().filter(waits);
        let places = restarts.flat_map(|job| job.named_before().map(move |old| (old, job.id)));
        let places: Vec<(JobId, JobId)> = places.collect();
        places.into_iter().for_each(|(old, new)| self.move_dependents(out, old, new));
    }

    /// Jobs that wait for one job wait for another one from now on, also in their files.
    pub(super) fn move_dependents(&mut self, out: &Outbox, from: JobId, to: JobId) {
        for dependent in self.jobs.wait_for_other(from, to) {
            self.file(out, dependent, Filing::Noted);
        }
    }

    /// An earlier controller has had this job: those that waited for one whose place it has taken wait for
    /// it, or for the one that has taken its place since.
    pub(super) fn follow_adopted(&mut self, out: &Outbox, id: JobId) {
        let newest = self.newest(id);
        let Some(job) = self.jobs.get(id) else { return };
        let restart = job.launch.batch.restart();
        let before: Vec<JobId> = job.named_before().filter(|_| restart.is_some()).collect();
        let first = restart.map_or(id, |restart| restart.first);
        let others: Vec<JobId> = self.jobs.relations.restarts(first).collect();
        let all: BTreeSet<JobId> = before.into_iter().chain(others).chain([first, id]).collect();
        all.into_iter().filter(|old| *old != newest).for_each(|old| self.move_dependents(out, old, newest));
    }

    /// The file of a job is there that takes the place of another one, or cannot be. If it is, those that
    /// wait for the other one, or ask for its end, wait for this one, and the other one ends.
    pub(super) fn handle_again_filed(
        &mut self,
        cx: Context<'_>,
        (old, new): (JobId, JobId),
        filed: &Result<(), String>,
    ) -> Answer {
        self.jobs.pending.insert(old);
        if self.jobs.get(new).is_none() {
            return Answer::Refused(not_begun(old));
        }
        if filed.is_ok() {
            mails::of(&self.jobs, cx.local, old, MailEvent::Requeue)
                .into_iter()
                .for_each(|mail| cx.out.act(mail));
            self.move_dependents(cx.out, old, new);
            let waiters = self.jobs.get_mut(old).map(JobRecord::take_waiters).unwrap_or_default();
            self.jobs.get_mut(new).into_iter().for_each(|job| job.set_waiters(waiters.clone()));
            self.jobs.get_mut(old).into_iter().for_each(|job| job.end_for(new));
        }
        self.begin_filed(cx, new, filed)
    }

    /// Jobs that a lost node has ended begin anew, if their users have said so.
    pub(super) fn requeue_lost(&mut self, cx: Context<'_>, node: NodeId) {
        let is_one = |job: &&JobRecord| {
            let is_lost = job.has_lost(node) && job.is_ending() && !job.is_over();
            is_lost
                && !job.is_ended_by_user()
                && job.launch.batch.is_requeued_if_lost()
                && job.why_not_again().is_none()
        };
        let lost: Vec<JobId> = self.jobs.records.values().filter(is_one).map(|job| job.id).collect();
        for id in lost {
            if self.newest(id) == id && !self.filings.has_again(id) {
                self.begin_again(cx, id, None);
            }
        }
    }

    /// The keeper's prolog has failed on these nodes of a job, and this is how: they are drained at once, and
    /// the scheduler hears so before it is asked for the job that begins in place of this one.
    pub(super) fn begin_elsewhere(&mut self, cx: Context<'_>, id: JobId, unprepared: &[(NodeId, String)]) {
        for (node, why) in unprepared {
            self.drain_for_fault(cx.local, *node, why).into_iter().for_each(|action| cx.out.act(action));
        }
        let Some(job) = self.jobs.get(id).filter(|_| !unprepared.is_empty()) else { return };
        let is_able = !job.is_ended_by_user() && job.why_not_again().is_none();
        if is_able && self.newest(id) == id && !self.filings.has_again(id) {
            self.begin_again(cx, id, None);
        }
    }
}
