//! What users ask of the controller.

use rustix::process::Signal;
use tutti_protocol::wire::Report;

use super::bounds::{REFUSAL_BYTES_MAX, shorten};
use super::job::{JobRecord, command};
use super::listing::{name, names, ranks};
use super::{Filing, JobEvent, SETTLE_LOST, placement};
use crate::core::{Action, Core};
use crate::members::NodeId;
use crate::message::{
    Answer, BATCH_AFTER_MAX, Control, JobId, Launch, Notice, Request, Routed, Run, Submit, User,
};

/// Why a job ended whose front end was there no more.
const ABANDONED: &str = "its front end is gone";
/// The same, for its user too.
const DOWN: &str = "the cluster has been shut down; the job is ended";

impl Core {
    /// A user of a node asks the controller.
    pub(in crate::core) fn handle_routed_request(
        &mut self,
        from: NodeId,
        request_id: u64,
        user: User,
        request: Request,
        again: bool,
    ) {
        // What nodes have of a predecessor's jobs says whether one was given a number.
        let is_new =
            matches!(request, Request::Run(_) | Request::Submit(_) | Request::Enrol(_) | Request::Withdraw);
        let changes = is_new || matches!(request, Request::Control(..));
        let Some(controller) = &self.controller else { return };
        if let Some((_, answer)) =
            controller.answers.iter().rev().find(|(requester, _)| *requester == (from, request_id))
        {
            let answer = answer.clone();
            return self.route(from, Routed::Answer { request_id, answer });
        }
        if is_new && again && self.now_ms < controller.started_at_ms + SETTLE_LOST * self.config.lost_ms {
            return;
        }
        let mut answer = match request {
            // It is answered when its file is written.
            _ if controller
                .filing
                .values()
                .flatten()
                .any(|filing| filing.requester() == Some((from, request_id))) =>
            {
                return;
            }
            Request::Run(submit) => match self.submit(from, request_id, user, *submit, false, false) {
                Some(answer) => answer,
                None => return,
            },
            Request::Submit(submit) => match self.submit(from, request_id, user, *submit, true, false) {
                Some(answer) => answer,
                None => return,
            },
            Request::Enrol(submit) => match self.submit(from, request_id, user, *submit, true, true) {
                Some(answer) => answer,
                None => return,
            },
            Request::Jobs { all } => Answer::Jobs(self.list(|_, job| all || !job.is_done())),
            Request::Job(job) => match self.list(|id, _| id == job) {
                rows if rows.is_empty() => Answer::Refused(format!("there is no job {job}")),
                rows => Answer::Jobs(rows),
            },
            Request::Wait(job) => match self.wait_for(from, request_id, job) {
                Some(answer) => answer,
                None => return,
            },
            Request::Control(job, control) => {
                match self.control(user, job, control, Some((from, request_id))) {
                    Some(answer) => answer,
                    None => return,
                }
            }
            Request::Snapshot(job) => match self.begin_snapshot(from, request_id, user, job) {
                Some(answer) => answer,
                None => return,
            },
            Request::Nodes => Answer::Nodes(self.list_nodes()),
            Request::Down => self.shut_down(user),
            // This answer is remembered: should what was asked still be on its way, it is not done.
            Request::Withdraw => Answer::Done,
            Request::Attach(job) | Request::Logs(job) => self.origin_of(user, job),
        };
        if let Answer::Refused(text) = &mut answer {
            shorten(text, REFUSAL_BYTES_MAX);
        }
        if let Some(controller) = self.controller.as_mut().filter(|_| changes) {
            controller.remember(from, request_id, answer.clone());
        }
        self.route(from, Routed::Answer { request_id, answer });
    }

    /// Where a job was submitted.
    fn origin_of(&self, user: User, id: JobId) -> Answer {
        let job = self.controller.as_ref().and_then(|controller| controller.jobs.get(&id));
        let Some((launch, members)) = job.map(|job| &job.launch).zip(self.members.as_ref()) else {
            return Answer::Refused(format!("there is no job {id}"));
        };
        if !self.may(user, Some(launch.user)) {
            Answer::Refused(format!("job {id} is another user's"))
        } else if !members.is_alive(launch.origin) {
            let origin = name(members, launch.origin);
            Answer::Refused(format!("what job {id} wrote is lost with {origin}, where it was submitted"))
        } else {
            Answer::Origin(launch.origin)
        }
    }

    /// None: it is answered when its file is written.
    fn submit(
        &mut self,
        origin: NodeId,
        request_id: u64,
        user: User,
        mut submit: Submit,
        detached: bool,
        enrolled: bool,
    ) -> Option<Answer> {
        let (Some(controller), Some(members)) = (&mut self.controller, &self.members) else {
            return Some(Answer::Refused("this node is not the controller".into()));
        };
        if submit.batch.after.len() > BATCH_AFTER_MAX {
            return Some(Answer::Refused(format!("a job can wait for {BATCH_AFTER_MAX} others at most")));
        }
        for after in &submit.batch.after {
            if controller.jobs.contains_key(&after.job) {
            } else if controller.may_learn(after.job, self.now_ms, self.config.lost_ms) {
                // Asked again, it is answered when nodes have said what they know.
                return None;
            } else {
                return Some(Answer::Refused(format!("there is no job {}", after.job)));
            }
        }
        let ranks = ranks(&controller.jobs);
        let ranks = |node| ranks.get(&node).copied().unwrap_or(0);
        let mut wanted = || {
            placement::fill(members, ranks, &mut submit).and_then(|()| placement::demand(members, &submit))
        };
        let wanted = match enrolled {
            true => None,
            false => match wanted() {
                Ok(demand) => Some(demand),
                Err(error) => return Some(Answer::Refused(error.to_string())),
            },
        };
        let job = JobId(controller.next_job);
        let mut environment = submit.environment;
        controller.environments.share(&mut environment);
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
            submitted_ms: self.wall_ms,
            request_id,
            enrolled,
        };
        if let Err(text) = controller.check_room(&launch) {
            return Some(Answer::Refused(text));
        }
        controller.next_job += 1;
        let event = JobEvent {
            ms: self.wall_ms,
            event: "submitted",
            job: Some(job),
            nodes: names(members, &launch.nodes),
            text: command(&launch),
            uid: Some(launch.user.uid),
            name: launch.batch.name.clone(),
            ranks: Some(launch.job.ranks()),
            ..JobEvent::default()
        };
        self.act(Action::Log(event));
        match wanted {
            Some(demand) => {
                self.queue(job, launch, demand, (origin, request_id));
                None
            }
            None => {
                let new = JobRecord::new(job, launch);
                self.relay.set_order(job, new.order.clone());
                self.controller.iter_mut().for_each(|controller| {
                    controller.pending.insert(job);
                });
                self.controller.as_mut().and_then(|controller| controller.jobs.insert(job, new));
                self.submit_running(job);
                Some(Answer::Job(job))
            }
        }
    }

    /// None: it is answered when the job's file is written. Nobody who has `requester` is answered at once.
    fn control(
        &mut self,
        user: User,
        id: JobId,
        control: Control,
        requester: Option<(NodeId, u64)>,
    ) -> Option<Answer> {
        let refused = |text: String| Some(Answer::Refused(text));
        let owner = self
            .controller
            .as_ref()
            .and_then(|controller| controller.jobs.get(&id))
            .map(|job| job.launch.user);
        let Some(owner) = owner else { return refused(format!("there is no job {id}")) };
        if !self.may(user, Some(owner)) {
            return refused(format!("job {id} is another user's"));
        }
        let (wall_ms, actor) = (self.wall_ms, self.actor(user));
        let job = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id))?;
        if job.over {
            return refused(format!("job {id} is over"));
        }
        let (was, was_detached) = (job.order.run, job.detached);
        match control {
            Control::Suspend if was == Run::Go => {
                job.set_run(Run::Stop, user.uid, wall_ms);
                job.reported_suspended = false;
            }
            Control::Resume if was == Run::Stop => {
                job.set_run(Run::Go, user.uid, wall_ms);
                job.notices.push(Notice::Resumed);
            }
            Control::Suspend | Control::Resume => {}
            Control::Detach => job.detached = true,
            Control::Window(rows, columns) => {
                job.order.window = Some((rows, columns));
                job.signal(Signal::WINCH.as_raw() as u32);
            }
            Control::Kill | Control::Abandon => {
                job.by_user = true;
                job.record_cause(match control {
                    Control::Kill => format!("it was killed by {actor}"),
                    _ => ABANDONED.into(),
                });
                job.end_by(None, 128 + 9);
            }
            Control::Signal(signal) => {
                job.signal(signal);
                // Who is to end must be able to hear it.
                let ends = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
                let ends = ends.iter().any(|end| end.as_raw() as u32 == signal);
                if ends && was == Run::Stop {
                    job.set_run(Run::Go, user.uid, wall_ms);
                }
                job.by_user |= ends;
                if ends {
                    let name = tutti_os::signal_name(signal as i32);
                    job.ended_by = Some(format!("signal {signal} ({name}) was sent by {actor}"));
                }
            }
        }
        let run = job.order.run;
        // A file may take a disk's time: only if there is something new in it.
        let is_new = (run, job.detached) != (was, was_detached);
        let is_filed = is_new
            && requester.is_some_and(|(from, request_id)| self.file(id, Filing::Changed(from, request_id)));
        self.publish(id);
        if run != was {
            let event = match run {
                Run::Go => "resumed",
                Run::Stop => "suspended",
                Run::Kill => "killed",
            };
            if run != Run::Kill {
                self.suspend_in_scheduler(id, run == Run::Stop);
            }
            self.log(id, JobEvent { event, ..JobEvent::default() });
        }
        self.judge(id);
        (!is_filed).then_some(Answer::Done)
    }

    /// Who does something to a job, in words.
    fn actor(&self, user: User) -> String {
        match (self.config.user_name)(user.uid) {
            Some(name) if user.uid == 0 => name,
            Some(name) => format!("user {name}"),
            None => format!("user {}", user.uid),
        }
    }

    fn shut_down(&mut self, user: User) -> Answer {
        if !self.may(user, None) {
            return Answer::Refused("only the owner of the daemons may end them".into());
        }
        let open: Vec<JobId> = self
            .controller
            .iter()
            .flat_map(|controller| &controller.jobs)
            // Who was started without a daemon goes on without one.
            .filter(|(_, job)| !job.over && !job.launch.enrolled)
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            if let Some(job) = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id)) {
                job.report(Report::Warning(DOWN.into()));
                job.record_cause(DOWN.into());
            }
            self.control(User { uid: 0, gid: 0 }, id, Control::Kill, None);
        }
        // The kills go down first.
        self.flush_orders();
        self.leave_all();
        Answer::Done
    }
}
