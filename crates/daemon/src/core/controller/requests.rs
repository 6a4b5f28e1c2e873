//! Requests of users to the controller.

use tutti_protocol::users::refusal::Reason;

use super::answers::{Asker, Requester};
use super::bounds::{REFUSAL_BYTES_MAX, check_names, check_room};
use super::filings::Filing;
use super::job::{JobRecord, command, shorten};
use super::{
    Controller, allocation, allowance, arrays, gpus, listing, log, placement, scheduler, start_rules,
};
use crate::core::context::Context;
use crate::core::job_event::{JobEvent, Submitted};
use crate::core::local::LocalNode;
use crate::core::relay::Relay;
use crate::members::NodeId;
use crate::message::{
    Answer, BATCH_AFTER_MAX, Change, JobId, JobRow, Launch, NOTE_BYTES_MAX, Request, Routed, Run, Steps,
    Submit, User,
};

/// How a job is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Runs while its user waits for it.
    Attached,
    /// Outlives who has submitted it.
    Detached,
    /// Runs already.
    Enrolled,
}

impl Controller {
    /// A user of a node asks the controller.
    pub(in crate::core) fn handle_request(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        asker: Asker,
        request: Request,
        again: bool,
    ) {
        let Asker { requester, user } = asker;
        let (from, request_id) = requester;
        // What nodes have of a predecessor's jobs says whether one was given a number.
        let is_new =
            matches!(request, Request::Run(_) | Request::Submit(_) | Request::Enrol(_) | Request::Withdraw);
        let changes =
            is_new || matches!(request, Request::Control(..) | Request::Change(..) | Request::Number);
        if let Some(answer) = self.answers.get(requester) {
            let answer = answer.clone();
            return cx.out.route(from, Routed::answer(request_id, answer));
        }
        // Its daemon may have died behind its file.
        let repeated = match &request {
            Request::Submit(submit) => Some(submit.batch.sending()).filter(|sending| sending.is_repeated),
            _ => None,
        };
        let again = again || repeated.is_some();
        // A reservation names nodes, which may not have come back yet.
        let awaits_nodes = is_new || matches!(request, Request::Reserve(_));
        if awaits_nodes && again && !self.jobs.is_settled(cx.local.now_ms, cx.local.config.lost_ms) {
            return;
        }
        if let Some(job) = repeated.and_then(|sending| self.jobs.of_submission(user.uid, sending.number)) {
            // Asked again, it is answered when the file is on the disk.
            if self.filings.has_new(job) {
                return;
            }
            return cx.out.route(from, Routed::answer(request_id, Answer::Job(job)));
        }
        let request = self.about_newest(request);
        let mut answer = match request {
            // It is answered when its file is written.
            _ if self.filings.answers(requester) || self.drains.answers(requester) => return,
            _ if self.reservations.answers(requester) => return,
            Request::Run(submit) => match self.submit(cx, relay, asker, *submit, Kind::Attached) {
                Some(answer) => answer,
                None => return,
            },
            Request::Submit(submit) => match self.submit(cx, relay, asker, *submit, Kind::Detached) {
                Some(answer) => answer,
                None => return,
            },
            Request::Enrol(submit) => match self.submit(cx, relay, asker, *submit, Kind::Enrolled) {
                Some(answer) => answer,
                None => return,
            },
            Request::Jobs { all } => match all {
                true => Answer::Jobs(self.list(cx.local, relay, self.jobs.all())),
                false => Answer::Jobs(self.list(cx.local, relay, self.jobs.open())),
            },
            Request::Job(job) => match self.row(cx.local, relay, job) {
                rows if rows.is_empty() => self.jobs.refuse_unknown(job),
                rows => Answer::Jobs(rows),
            },
            Request::Wait(job) => match self.wait_for(cx.local, relay, requester, job) {
                Some(answer) => answer,
                None => return,
            },
            Request::Control(job, control) => {
                match self.control(cx, relay, job, control, (user, Some(requester))) {
                    Some(answer) => answer,
                    None => return,
                }
            }
            Request::Change(job, change) => match self.change_job(cx, relay, asker, (job, &change)) {
                Some(answer) => answer,
                None => return,
            },
            Request::Snapshot(job) => match self.begin_snapshot(cx.local, relay, asker, job) {
                Some(answer) => answer,
                None => return,
            },
            Request::Nodes => {
                Answer::Nodes(listing::list_nodes(&self.jobs, &self.versions, &self.drains, cx.local))
            }
            Request::Configuration => Answer::Configuration(cx.local.config.loaded.settings.clone()),
            Request::Prices => Answer::Prices(Box::new(self.prices())),
            Request::Watch(watch) => self.watch(cx.local, relay, &watch),
            Request::Reload => match self.reload(cx, user, requester) {
                Some(answer) => answer,
                None => return,
            },
            Request::Drain(node, why) => match self.change_drain(cx.local, asker, (node, Some(why)), again) {
                Ok(action) => return action.into_iter().for_each(|action| cx.out.act(action)),
                Err(text) => Answer::Refused(text),
            },
            Request::Undrain(node) => match self.change_drain(cx.local, asker, (node, None), again) {
                Ok(action) => return action.into_iter().for_each(|action| cx.out.act(action)),
                Err(text) => Answer::Refused(text),
            },
            Request::Reserve(new) => match self.reserve(cx.local, asker, *new, again) {
                Ok(action) => return action.into_iter().for_each(|action| cx.out.act(action)),
                Err(text) => Answer::Refused(text),
            },
            Request::Unreserve(name) => match self.unreserve(cx.local, asker, name, again) {
                Ok(action) => return action.into_iter().for_each(|action| cx.out.act(action)),
                Err(text) => Answer::Refused(text),
            },
            Request::Reservations => Answer::Reservations(self.reservations.list(cx.local.wall_ms)),
            Request::Down => self.shut_down(cx, relay, user),
            // This answer is remembered: should what was asked still be on its way, it is not done.
            Request::Withdraw => Answer::Done,
            Request::Attach(job) | Request::Logs(job) => self.origin_of(cx.local, user, job),
            Request::Number => Answer::Job(self.jobs.reserve(user.uid)),
            Request::Return(back) => match self.origin_of_known(cx.local, user, back.job) {
                Some(answer) => answer,
                None => return,
            },
            Request::Token | Request::LogsFor(..) => {
                Answer::Refused("tokens are for the daemon of the node that made them".into())
            }
        };
        if let Answer::Refused(text) | Answer::Because(_, text) = &mut answer {
            shorten(text, REFUSAL_BYTES_MAX);
        }
        if changes {
            self.answers.remember(requester, answer.clone());
        }
        cx.out.route(from, Routed::answer(request_id, answer));
    }

    /// Request about the job that has taken the place of one that was requeued.
    fn about_newest(&self, request: Request) -> Request {
        match request {
            Request::Wait(job) => Request::Wait(self.newest(job)),
            Request::Control(job, control) => Request::Control(self.newest(job), control),
            Request::Change(job, change) => {
                // A front end says that by itself.
                Request::Change(self.newest(job), Change { detached: false, ..change })
            }
            Request::Snapshot(job) => Request::Snapshot(self.newest(job)),
            other => other,
        }
    }

    /// Row of a job; none if it is not known.
    fn row(&self, local: &LocalNode, relay: &Relay, id: JobId) -> Vec<JobRow> {
        self.list(local, relay, self.jobs.get(id).map(|job| (id, job)))
    }

    pub(super) fn list<'a>(
        &self,
        local: &LocalNode,
        relay: &Relay,
        jobs: impl IntoIterator<Item = (JobId, &'a JobRecord)>,
    ) -> Vec<JobRow> {
        let mut rows = listing::list(jobs, &self.lags, local, relay);
        rows.iter_mut().for_each(|row| row.connected = self.connected_to(row.job));
        rows
    }

    /// A user waits for the end of a job. None: it is answered then, or when it is asked again.
    fn wait_for(
        &mut self,
        local: &LocalNode,
        relay: &Relay,
        requester: Requester,
        id: JobId,
    ) -> Option<Answer> {
        let may_learn = self.jobs.may_learn(id, local.now_ms, local.config.lost_ms);
        match self.jobs.get_mut(id) {
            Some(job) if job.is_done() => Some(Answer::Jobs(self.row(local, relay, id))),
            Some(job) => {
                job.add_waiter(requester);
                None
            }
            None if may_learn => None,
            None => Some(self.jobs.refuse_unknown(id)),
        }
    }

    /// A job is over: those who wait for it hear so.
    pub(super) fn answer_waiters(&mut self, cx: Context<'_>, relay: &Relay, id: JobId) {
        let job = self.jobs.get_mut(id);
        let waiters = job.map(|job| job.take_waiters()).unwrap_or_default();
        for (from, request_id) in waiters {
            let answer = Answer::Jobs(self.row(cx.local, relay, id));
            cx.out.route(from, Routed::answer(request_id, answer));
        }
    }

    /// A user wants a snapshot; none: the answer comes when it is there.
    fn begin_snapshot(
        &mut self,
        local: &LocalNode,
        relay: &mut Relay,
        asker: Asker,
        id: JobId,
    ) -> Option<Answer> {
        let may = |owner| local.may(asker.user, Some(owner));
        if let Err(answer) = self.jobs.check_owner(id, may) {
            return Some(answer);
        }
        let answer = self.jobs.get_mut(id)?.begin_snapshot(asker.requester, (local.now_ms, local.wall_ms));
        if answer.is_none() {
            self.publish(relay, id);
        }
        answer
    }

    /// Where a job was submitted.
    fn origin_of(&self, local: &LocalNode, user: User, id: JobId) -> Answer {
        let job = self.jobs.get(id);
        let Some((launch, members)) = job.map(|job| &job.launch).zip(local.members.as_ref()) else {
            return self.jobs.refuse_unknown(id);
        };
        if !local.may(user, Some(launch.user)) {
            Answer::Because(Reason::OtherUser, format!("job {id} is another user's"))
        } else if !members.is_alive(launch.origin) {
            let origin = members.name(launch.origin);
            Answer::Refused(format!("what job {id} wrote is lost with {origin}, where it was submitted"))
        } else {
            Answer::Origin(launch.origin)
        }
    }

    /// The same for a front end that is back. None: a node may yet tell of the job, or be the one that is
    /// sought; it is asked again.
    fn origin_of_known(&self, local: &LocalNode, user: User, id: JobId) -> Option<Answer> {
        let may_learn = self.jobs.may_learn(id, local.now_ms, local.config.lost_ms);
        let is_alive = |node| local.members.as_ref().is_some_and(|members| members.is_alive(node));
        match self.jobs.get(id) {
            None if may_learn => None,
            Some(job) if job.is_adopted() && !is_alive(job.launch.origin) => None,
            _ => Some(self.origin_of(local, user, id)),
        }
    }

    /// None: it is answered when its file is written.
    fn submit(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        asker: Asker,
        mut submit: Submit,
        kind: Kind,
    ) -> Option<Answer> {
        let Asker { requester, user } = asker;
        let (origin, request_id) = requester;
        let (detached, enrolled) = (kind != Kind::Attached, kind == Kind::Enrolled);
        let Some(members) = &cx.local.members else {
            return Some(Answer::Refused("this node is not the controller".into()));
        };
        if submit.batch.after.len() > BATCH_AFTER_MAX {
            return Some(Answer::Refused(format!("a job can wait for {BATCH_AFTER_MAX} others at most")));
        }
        if submit.batch.note().len() > NOTE_BYTES_MAX {
            return Some(Answer::Refused(format!("the note of a job has {NOTE_BYTES_MAX} bytes at most")));
        }
        if let Err(text) = check_names(&submit) {
            return Some(Answer::Refused(text));
        }
        for after in &mut submit.batch.after {
            after.job = self.newest(after.job);
            if self.jobs.get(after.job).is_some() {
                continue;
            }
            // Asked again, it is answered when nodes have said what they know.
            let may_learn = self.jobs.may_learn(after.job, cx.local.now_ms, cx.local.config.lost_ms);
            return if may_learn { None } else { Some(self.jobs.refuse_unknown(after.job)) };
        }
        submit.batch.set_restart(None);
        let array = match arrays::asked(&mut submit, kind == Kind::Detached) {
            Ok(array) => array,
            Err(text) => return Some(Answer::Refused(text)),
        };
        // One more stands for all tasks.
        let jobs = array.as_ref().map_or(1, |array| array.tasks.len() + 1);
        let owner = match self.owner_of_step(user, &submit) {
            Ok(owner) => owner,
            Err(text) => return Some(Answer::Refused(text)),
        };
        if let Some(owner) = owner {
            if let Err(text) = self.enter_job(members, owner, &mut submit) {
                return Some(Answer::Refused(text));
            }
        } else if !enrolled {
            let entered = allowance::enter_queue(&self.rules, &mut submit);
            if let Err(text) =
                entered.and_then(|()| self.check_terms(cx.local, user, &mut submit, jobs as u64))
            {
                return Some(Answer::Refused(text));
            }
        } else if let Some(text) = self.refuse_in_place(cx.local, origin, user, &submit) {
            let text = format!("the job takes no turns: {text}");
            return Some(Answer::Because(Reason::WithoutTurns, text));
        }
        if let Err(text) = start_rules::check(&submit) {
            return Some(Answer::Refused(text));
        }
        if owner.is_some() || enrolled {
            submit.batch.rules_mut().reservation.clear();
        }
        let within = match self.check_reservation(cx.local, user, &submit) {
            Ok(found) => found.map(|found| placement::Within::new(members, found)),
            Err(text) => return Some(Answer::Refused(text)),
        };
        let is_outside = |node: NodeId| within.as_ref().is_some_and(|within| !within.has(node));
        let ranks = listing::ranks(&self.jobs);
        let is_drained = |node| self.drains.of(&members.name(node)).is_some();
        let is_shut = |node: NodeId| is_drained(node) || is_outside(node);
        let ranks = |node| if is_shut(node) { u64::MAX } else { ranks.get(&node).copied().unwrap_or(0) };
        let mut wanted = || {
            placement::fill(members, ranks, &mut submit)
                .and_then(|()| placement::demand(members, &submit, within.as_ref()))
        };
        let wanted = match enrolled {
            true => None,
            false => match wanted() {
                Ok(demand) => match self.check_demand(cx.local, user, owner, demand) {
                    Ok(demand) => Some(demand),
                    Err(text) => return Some(Answer::Refused(text)),
                },
                Err(error) => return Some(Answer::Refused(error.to_string())),
            },
        };
        let reserved = submit.script.reserved.filter(|number| self.jobs.take_reserved(*number, user.uid));
        let id = self.jobs.id_of(submit.job.number.take().or(reserved));
        let mut environment = submit.environment;
        self.environments.share(&mut environment);
        let allocation = match allocation::allocate(&mut submit.job, submit.script.is_script) {
            Ok(allocation) => allocation,
            Err(text) => return Some(Answer::Refused(text)),
        };
        // Who runs already has his nodes.
        let nodes: Vec<NodeId> = enrolled.then_some(origin).into_iter().collect();
        let launch = Launch {
            key: submit.key,
            job: submit.job,
            user,
            groups: submit.groups,
            session: submit.session,
            environment,
            directory: submit.directory,
            umask: submit.umask,
            terms: submit.terms,
            batch: submit.batch.cleaned(),
            // Who waits for the job has its output.
            output: submit.output.filter(|_| detached && !enrolled),
            origin,
            incarnations: nodes.iter().map(|node| members.nodes[node].about.incarnation).collect(),
            first_ranks: vec![0; nodes.len()],
            nodes,
            detached,
            submitted_ms: cx.local.wall_ms,
            request_id,
            enrolled,
            steps: Steps { allocation, owner },
            gpu_sets: gpus::of_owner(&self.jobs, owner),
            asked_for: String::new(),
        };
        if let Err(text) = check_room(self.jobs.records.values(), &launch, jobs) {
            return Some(Answer::Refused(text));
        }
        if let Some((array, demand)) = array.zip(wanted.clone()) {
            self.queue_array(cx, (id, launch, array), demand, requester);
            return None;
        }
        self.log_submission(cx, id, &launch);
        match wanted {
            Some(demand) => {
                let is_suspended = owner
                    .and_then(|owner| self.jobs.get(owner))
                    .is_some_and(|owner| owner.order.run == Run::Stop);
                self.queue(cx, id, launch, demand, Filing::New(requester));
                if let Some(job) = self.jobs.get_mut(id).filter(|_| is_suspended) {
                    job.set_run(Run::Stop, user.uid, cx.local.clocks());
                }
                None
            }
            None => {
                let job = JobRecord::new(id, launch);
                relay.set_order(id, job.order.clone());
                scheduler::submit_running(cx.out, &job, self.owner(cx.local, user));
                self.jobs.pending.insert(id);
                self.jobs.insert(id, job);
                Some(Answer::Job(id))
            }
        }
    }

    /// The log has a job that is new.
    pub(super) fn log_submission(&self, cx: Context<'_>, id: JobId, launch: &Launch) {
        let nodes = cx.local.members.as_ref().map(|members| members.names(&launch.nodes));
        let submitted = Submitted {
            uid: launch.user.uid,
            name: launch.batch.name.clone(),
            note: launch.batch.note().to_owned(),
            ranks: launch.ranks(),
            array_task: launch.batch.array_task().map(|task| task.to_string()),
            restart: launch.batch.restart(),
        };
        let event = JobEvent {
            event: "submitted",
            nodes: nodes.unwrap_or_default(),
            text: command(launch),
            submitted: Some(submitted),
            ..JobEvent::default()
        };
        log::log(cx, id, event);
    }
}
