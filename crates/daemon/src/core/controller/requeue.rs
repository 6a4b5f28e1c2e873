//! Jobs that begin anew: by command, since a node was lost, or where the keeper's prolog failed. How the new
//! one comes about is in [`super::job`]; here is when, which job has taken the place of which, and who waits
//! for it.

use tutti_protocol::mail::MailEvent;

use super::answers::Requester;
use super::filings::Filing;
use super::job::JobRecord;
use super::jobs::Jobs;
use super::{Controller, mails};
use crate::core::context::Context;
use crate::core::outbox::Outbox;
use crate::core::relay::Relay;
use crate::members::NodeId;
use crate::message::{Answer, JobId, Launch, User};

impl Jobs {
    /// The job that has taken the place of this one, or itself.
    pub(super) fn newest(&self, id: JobId) -> JobId {
        let restart = |job: &JobRecord| job.launch.batch.restart();
        let first = self.get(id).and_then(restart).map_or(id, |restart| restart.first);
        let of_first = self.relations.restarts(first).filter_map(|id| self.get(id));
        of_first.max_by_key(|job| restart(job).map(|restart| restart.count)).map_or(id, |job| job.id)
    }

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
        if job.is_ending() {
            return refusal(format!("job {id} is being ended"));
        }
        if let Some(text) = job.why_not_again() {
            return refusal(text);
        }
        self.begin_again(cx, id, requester);
        None
    }

    fn begin_again(&mut self, cx: Context<'_>, id: JobId, requester: Option<Requester>) {
        let new = self.jobs.next_id();
        mails::of(&self.jobs, cx.local, id, MailEvent::Requeue).into_iter().for_each(|mail| cx.out.act(mail));
        let Some(job) = self.jobs.get(id) else { return };
        let is_there = |node| cx.local.members.as_ref().is_some_and(|members| members.is_alive(node));
        let origin = Some(job.launch.origin).filter(|node| is_there(*node)).unwrap_or(NodeId::CONTROLLER);
        let launch = job.again(new, origin);
        let Some(demand) = launch.demand() else { return };
        let demand = demand.awaiting_lost();
        self.log_submission(cx, new, &launch);
        self.queue(cx, new, launch, demand, Filing::Again(id, requester));
        self.move_dependents(cx.out, id, new);
        // Who waits for the end of the old one waits for that of the new one.
        let waiters = self.jobs.get_mut(id).map(|job| job.take_waiters()).unwrap_or_default();
        self.jobs.get_mut(new).into_iter().for_each(|job| job.set_waiters(waiters.clone()));
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

    /// The file of a job is there that takes the place of another one, or cannot be: then those that wait for
    /// it, and those that ask for its end, wait for the other one again.
    pub(super) fn handle_again_filed(
        &mut self,
        cx: Context<'_>,
        relay: &Relay,
        (old, new): (JobId, JobId),
        filed: &Result<(), String>,
    ) -> Answer {
        let waiters = self.jobs.get_mut(new).map(JobRecord::take_waiters).unwrap_or_default();
        let answer = self.begin_filed(cx, new, filed);
        let kept = if self.jobs.get(new).is_some() { new } else { old };
        if let Some(job) = self.jobs.get_mut(kept) {
            waiters.into_iter().for_each(|requester| job.add_waiter(requester));
        }
        if kept == old {
            self.move_dependents(cx.out, new, old);
            if self.jobs.get(old).is_none_or(JobRecord::is_done) {
                self.answer_waiters(cx, relay, old);
                self.release_dependents(cx.out, old);
            }
        }
        if filed.is_ok()
            && let Some(job) = self.jobs.get_mut(old)
        {
            job.end_for(new);
            self.jobs.pending.insert(old);
        }
        answer
    }

    /// Jobs that a lost node has ended begin anew, if their users have said so.
    pub(super) fn requeue_lost(&mut self, cx: Context<'_>, node: NodeId) {
        let is_one = |job: &&JobRecord| {
            let is_lost = job.has_lost(node) && job.is_ending() && !job.is_over();
            is_lost
                && !job.end.is_by_user()
                && job.launch.batch.is_requeued_if_lost()
                && job.why_not_again().is_none()
        };
        let lost: Vec<JobId> = self.jobs.records.values().filter(is_one).map(|job| job.id).collect();
        for id in lost {
            if self.jobs.newest(id) == id && !self.filings.has_again(id) {
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
        let is_able = !job.end.is_by_user() && job.why_not_again().is_none();
        if is_able && self.jobs.newest(id) == id && !self.filings.has_again(id) {
            self.begin_again(cx, id, None);
        }
    }
}
