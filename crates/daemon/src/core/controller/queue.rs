//! Jobs on their way to their nodes. Where a job runs the scheduler says, in the switch thread
//! (`crate::gang::admission`).
//!
//! ```text
//! submitted -> file, Submit -> Waits (why) ... Placed (nodes) -> file gone, order to the nodes -> all run -> Begin ... over -> Over
//!                                '- killed: over, Over
//! ```
//!
//! One that is to start behind others (`--after`) is filed as any other, and the scheduler is asked for it
//! when those are over ([`super::dependencies`]).
//!
//! A job that waits is known to the controller alone, so the controller has a file of each
//! ([`Action::Queue`]), made before the user has the job's number and removed before the first order for its
//! nodes leaves. A controller that is started anew finds the files, and waits for nodes that may know better,
//! as with submissions that it is asked for again; jobs that come meanwhile stand behind those. What happens
//! if it stops right here: there is a file and no order, and the job waits on in the next incarnation of the
//! controller; or the order is on its way, and the job is known to its nodes, or lost with this controller. A
//! node's daemon that dies before it begins its part is no loss: the next one begins it
//! ([`JobRecord::judge`]).

use tutti_protocol::users::HeldBy;
use tutti_protocol::wait_kind::WaitKind;
use tutti_protocol::wire::Report;
use tutti_sched::{Demand, NodeId, SubmitError, Wait};

use super::allowance::Full;
use super::answers::Requester;
use super::filings::Filing;
use super::job::JobRecord;
use super::jobs::SETTLE_LOST;
use super::waits::{Outcome, Waits};
use super::{Controller, arrays, gpus, log, scheduler, start_rules};
use crate::core::action::Action;
use crate::core::context::Context;
use crate::core::job_event::JobEvent;
use crate::core::outbox::Outbox;
use crate::core::record::Queued;
use crate::core::relay::Relay;
use crate::gang::Command;
use crate::message::{Answer, JobId, Launch, Routed, Run, User};

impl Controller {
    /// The jobs that waited in an earlier incarnation of the controller.
    pub(in crate::core) fn take_queue(&mut self, cx: Context<'_>, queued: Vec<(JobId, Queued)>) {
        queued.iter().for_each(|(id, _)| self.jobs.begin_behind(*id));
        let queued = arrays::without_unfinished(cx.out, queued);
        let until_ms = cx.local.now_ms + SETTLE_LOST * cx.local.config.lost_ms;
        let held_until_ms = Some(until_ms);
        if !queued.is_empty() {
            self.jobs.hold_until(until_ms);
        }
        for (id, Queued { launch, demand, suspended, over, on_hold, .. }) in queued {
            self.answers.remember((launch.origin, launch.request_id), Answer::Job(id));
            let over = over.into_iter().map(|(job, status)| (job, Outcome { status, filed: true }));
            let waits = Waits::new(demand, held_until_ms, over.collect(), on_hold);
            let mut job = JobRecord::waiting(id, launch, waits);
            if suspended {
                job.order.run = Run::Stop;
            }
            self.jobs.insert(id, job);
            self.jobs.pending.insert(id);
        }
        self.follow_restarts(cx.out);
    }

    /// Writes the file of a job that waits; `false`: it has none. Who is named hears when it is there.
    pub(super) fn file(&mut self, out: &Outbox, id: JobId, filing: Filing) -> bool {
        let Some(job) = self.jobs.get(id).filter(|job| !job.is_ending()) else { return false };
        let Some(queued) = &job.queued else { return false };
        let launch = Launch { detached: job.is_detached(), ..Launch::clone(&job.launch) };
        let over = queued.over().iter().map(|(job, outcome)| (*job, outcome.status)).collect();
        let suspended = job.order.run == Run::Stop;
        let (demand, on_hold) = (queued.demand().clone(), queued.user_hold());
        let file = Queued { launch, demand, suspended, over, on_hold, environment_at: None };
        self.filings.push(id, filing);
        out.act(Action::Queue(id, Some(Box::new(file))));
        true
    }

    /// A new job wants nodes. Its user gets its number when the file is written, as `filing` says.
    pub(super) fn queue(
        &mut self,
        cx: Context<'_>,
        id: JobId,
        mut launch: Launch,
        demand: Demand,
        filing: Filing,
    ) {
        let may_begin_anew =
            launch.detached && launch.steps.owner.is_none() && launch.batch.array().is_none();
        launch.set_demand(may_begin_anew.then_some(&demand));
        let held_until_ms = self.jobs.held_until_ms();
        let over = self.jobs.outcomes(&launch.batch.after);
        let hold = HeldBy { since_ms: cx.local.wall_ms, uid: launch.user.uid };
        let waits = Waits::new(demand, held_until_ms, over, launch.batch.rules().held.then_some(hold));
        self.jobs.insert(id, JobRecord::waiting(id, launch, waits));
        self.file(cx.out, id, filing);
    }

    /// The file of a job is there, or cannot be.
    pub(in crate::core) fn handle_filed(&mut self, cx: Context<'_>, id: JobId, filed: &Result<(), String>) {
        let (requester, answer) = match self.filings.pop(id) {
            Some(Filing::New(requester)) => {
                let of_tasks = self.filings.take_failure(id).map_or(Ok(()), Err);
                (requester, self.begin_filed(cx, id, &filed.clone().and(of_tasks)))
            }
            Some(Filing::Task(array)) => {
                return if let Err(why) = filed {
                    self.filings.fail(array, why.clone())
                };
            }
            // What cannot be kept is so in this incarnation, and the log of the daemon says that it is in no
            // other.
            Some(Filing::Again(old, requester)) => {
                let answer = self.handle_again_filed(cx, (old, id), filed);
                match requester {
                    Some(requester) => (requester, answer),
                    None => return,
                }
            }
            Some(Filing::Changed(requester)) => (requester, Answer::Done),
            Some(Filing::Over(job)) => return self.jobs.record_filed(id, job),
            Some(Filing::Outcomes(jobs)) => return self.record_outcomes(cx.out, id, &jobs),
            Some(Filing::Noted) | None => return,
        };
        self.answers.remember(requester, answer.clone());
        let (from, request_id) = requester;
        cx.out.route(from, Routed::answer(request_id, answer));
    }

    /// Begins a new job; returns what its user hears. Nobody would know of one that was submitted and lost;
    /// who waits for his job sees what becomes of it.
    pub(super) fn begin_filed(&mut self, cx: Context<'_>, id: JobId, filed: &Result<(), String>) -> Answer {
        let job = self.jobs.get(id);
        // It may have been killed meanwhile.
        let Some(job) = job.filter(|job| !job.is_ending()) else { return Answer::Job(id) };
        if job.is_array() {
            self.begin_array(cx, id, filed);
        }
        let Some(job) = self.jobs.get(id) else { return Answer::Job(id) };
        if let Err(why) = filed
            && job.is_detached()
        {
            self.jobs.remove(id);
            // It may be there all the same, until the power fails.
            cx.out.act(Action::Queue(id, None));
            let event = JobEvent { event: "refused", text: why.clone(), ..JobEvent::default() };
            log::log(cx, id, event);
            return Answer::Refused(format!("the controller cannot keep the job: {why}"));
        }
        if job.failed_dependency().is_some() {
            self.jobs.pending.insert(id);
        }
        self.try_to_schedule(cx, id);
        Answer::Job(id)
    }

    /// Asks the scheduler for nodes, unless the job is to wait for something else.
    pub(super) fn try_to_schedule(&mut self, cx: Context<'_>, id: JobId) {
        self.try_to_schedule_beside(cx, id, &mut Full::default());
    }

    fn try_to_schedule_beside(&mut self, cx: Context<'_>, id: JobId, full: &mut Full) {
        let array = self.jobs.get(id).and_then(JobRecord::array_id);
        // A task comes to its file with its array, or later by itself, when it begins anew.
        if [array, Some(id)].into_iter().flatten().any(|id| self.filings.has_new(id)) {
            return;
        }
        let is_one = |job: &&mut JobRecord| !job.is_ending() && !job.is_array();
        let Some(job) = self.jobs.get_mut(id).filter(is_one) else { return };
        let is_suspended = job.order.run == Run::Stop;
        if let Some(text) = job.waits_for().filter(|text| job.report_wait(text)) {
            log::log(cx, id, JobEvent { event: "waits", text, ..JobEvent::default() });
            return self.send_reports(cx, id);
        }
        if job.waits_for().is_some() || job.failed_dependency().is_some() {
            return;
        }
        let Some(queued) = job.queued.as_ref().filter(|queued| !queued.is_submitted()) else { return };
        if queued.held_until_ms().is_some() {
            return;
        }
        let hold = job.hold_text(cx.local);
        let hold = hold.map(|text| (WaitKind::Held, text));
        let rule = || start_rules::rule_text(&self.jobs, cx.local, id);
        let why = hold.or_else(rule).or_else(|| self.reservation_text(cx.local, id));
        if let Some((kind, text)) = why {
            return self.wait_since(cx, id, (kind, &text));
        }
        let Some(job) = self.jobs.get(id) else { return };
        let is_step = job.launch.steps.owner.is_some();
        if let Some(text) = full.arrays.why_waits(&self.jobs, id) {
            if let Some(queued) = self.jobs.get_mut(id).and_then(|job| job.queued.as_mut()) {
                queued.set_why(WaitKind::ArrayLimit, &text);
            }
            return;
        }
        if let Some(text) = (!is_step).then(|| self.over_limit(cx.local, id, full)).flatten() {
            return self.wait_since(cx, id, (WaitKind::UserLimit, &text));
        }
        let Some(job) = self.jobs.get(id) else { return };
        let (owner, lasts_ns) = (self.owner(cx.local, job.launch.user), job.lasts_ns());
        let reservation = self.reservation_number(cx.local, job);
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(queued) = job.queued.as_mut() else { return };
        let demand = Box::new(queued.submit(owner, lasts_ns, reservation));
        cx.out.act(Action::Gang(Command::Submit(id, demand, false)));
        if is_suspended {
            scheduler::suspend(cx.out, job, true);
        }
    }

    /// A job waits for another reason than the scheduler's: its user or group has as much as it may, or it is
    /// held. Its user is notified once, the log when the reason is another.
    fn wait_since(&mut self, cx: Context<'_>, id: JobId, (kind, text): (WaitKind, &str)) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(queued) = &mut job.queued else { return };
        let is_new = queued.set_why(kind, text);
        job.report_wait(text);
        if is_new {
            log::log(cx, id, JobEvent { event: "waits", text: text.to_owned(), ..JobEvent::default() });
        }
        self.send_reports(cx, id);
    }

    /// Releases jobs that have waited long enough for what nodes know.
    pub(super) fn release_held(&mut self, cx: Context<'_>) {
        let due = self.jobs.release_held(cx.local.now_ms, |id| !self.filings.has(id));
        self.jobs.pending.extend(&due);
        for id in due {
            self.try_to_schedule(cx, id);
        }
    }

    /// Jobs start whose others are over. When no node can tell any more of a job that this controller does
    /// not know, it is over.
    pub(super) fn settle_dependencies(&mut self, cx: Context<'_>) {
        if self.jobs.is_past_adoption(cx.local.now_ms) && !std::mem::replace(&mut self.settled, true) {
            for (over, dependents) in self.jobs.give_up_unknown() {
                self.file_over(cx.out, over, dependents);
            }
            // No other job takes the place of these.
            self.jobs.judge_requeued();
        }
        let mut full = Full::default();
        for id in self.jobs.take_unsubmitted() {
            self.try_to_schedule_beside(cx, id, &mut full);
        }
    }

    /// A job is over: those that wait for it may start.
    pub(super) fn release_dependents(&mut self, out: &Outbox, id: JobId) {
        let dependents = self.jobs.release_dependents(id);
        self.file_over(out, id, dependents);
    }

    fn file_over(&mut self, out: &Outbox, over: JobId, dependents: Vec<JobId>) {
        for dependent in dependents {
            if self.jobs.get(dependent).is_some_and(JobRecord::is_array) {
                self.file_outcomes(out, dependent);
            } else {
                self.file(out, dependent, Filing::Over(over));
            }
        }
    }

    /// The scheduler has found nodes for a job.
    pub(in crate::core) fn handle_placed(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        id: JobId,
        parts: &[(NodeId, u32)],
    ) {
        let Some(members) = &cx.local.members else { return };
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.is_ending()) else { return };
        let Some(queued) = job.queued.as_ref().filter(|queued| queued.is_asked()) else { return };
        if parts.iter().any(|(node, _)| !members.is_alive(*node)) {
            // Lost meanwhile, which the scheduler was told too: once more.
            let demand = Box::new(queued.demand().clone());
            cx.out.act(Action::Gang(Command::JobOver(id)));
            return cx.out.act(Action::Gang(Command::Submit(id, demand, false)));
        }
        let nodes: Vec<NodeId> = parts.iter().map(|(node, _)| *node).collect();
        let chosen = self.jobs.get(id).map(|job| gpus::choose(&self.jobs, members, &job.launch, &nodes));
        let gpus = match chosen {
            Some(Ok(gpus)) => gpus,
            Some(Err(text)) => return self.end_refused(cx, relay, id, text),
            None => return,
        };
        let nodes_by_name = members.names(&nodes);
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.place(parts, gpus, members);
        // Those that it has waited for may be forgotten.
        let (before, order): (Vec<JobId>, _) = (job.named_before().collect(), job.order.clone());
        self.jobs.pending.extend(before.into_iter().chain([id]));
        cx.out.act(Action::Queue(id, None));
        relay.set_order(id, order);
        if self.rules.has_limits() {
            // It may have less than it might have got, so others of its user may start.
            self.retry_waiting();
        }
        log::log(cx, id, JobEvent { event: "placed", nodes: nodes_by_name, ..JobEvent::default() });
    }

    /// Why a job has no nodes yet. Its user is notified once, the log each time.
    pub(in crate::core) fn handle_waits(&mut self, cx: Context<'_>, id: JobId, why: &Wait) {
        let (kind, text) = self.wait_text(why);
        let job = self.jobs.get_mut(id);
        let Some(job) = job.filter(|job| !job.is_ending()) else { return };
        let Some(queued) = job.queued.as_mut().filter(|queued| queued.is_asked()) else { return };
        queued.set_why(kind, &text);
        job.report_wait(&text);
        log::log(cx, id, JobEvent { event: "waits", text, ..JobEvent::default() });
        self.send_reports(cx, id);
    }

    /// No nodes of the cluster could ever hold the job: it has lost some since it was asked.
    pub(in crate::core) fn handle_refused(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        id: JobId,
        why: &SubmitError,
    ) {
        let job = self.jobs.get(id);
        let is_asked = |job: &JobRecord| job.queued.as_ref().is_some_and(Waits::is_asked);
        if job.is_some_and(|job| is_asked(job) && !job.is_ending()) {
            self.end_refused(cx, relay, id, why.to_string());
        }
    }

    /// A job that waited ends, since its nodes cannot hold it.
    fn end_refused(&mut self, cx: Context<'_>, relay: &mut Relay, id: JobId, text: String) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        job.report(Report::Refused(text));
        job.end_by(None, 1);
        self.judge(cx, relay, id);
    }

    /// A user holds a job, or releases it. None: it is answered when the job's file is written.
    pub(super) fn change_hold(
        &mut self,
        cx: Context<'_>,
        id: JobId,
        holds: bool,
        (user, requester): (User, Option<Requester>),
    ) -> Option<Answer> {
        let job = self.jobs.get_mut(id)?;
        let (owner, is_step) = (job.launch.user, job.launch.steps.owner.is_some());
        let is_ending = job.is_ending();
        let Some(queued) = job.queued.as_mut().filter(|_| !is_ending && !is_step) else {
            let refusal = match (holds, is_step) {
                (true, true) => format!("job {id} is a step: its job is held, or nothing"),
                (true, false) => format!("job {id} has its nodes already: `tutti suspend {id}` stops it"),
                // It was released before, perhaps by this very question.
                (false, _) => return Some(Answer::Done),
            };
            return Some(Answer::Refused(refusal));
        };
        if let Some(hold) = queued.user_hold()
            && !holds
            && hold.uid != owner.uid
            && !cx.local.may(user, None)
        {
            let actor = cx.local.actor(User::new(hold.uid, hold.uid));
            return Some(Answer::Refused(format!("job {id} is held by {actor}, who alone releases it")));
        }
        if queued.user_hold().is_some() == holds {
            return Some(Answer::Done);
        }
        let hold = HeldBy { since_ms: cx.local.wall_ms, uid: user.uid };
        if queued.change_hold(holds.then_some(hold)) {
            cx.out.act(Action::Gang(Command::Withdraw(id)));
        }
        let event = if holds { "held" } else { "released" };
        let text = format!("by {}", cx.local.actor(user));
        log::log(cx, id, JobEvent { event, text, ..JobEvent::default() });
        let filing = requester.map_or(Filing::Noted, Filing::Changed);
        let is_filed = self.file(cx.out, id, filing) && requester.is_some();
        self.try_to_schedule(cx, id);
        (!is_filed).then_some(Answer::Done)
    }

    /// The scheduler has taken a job back: what it says of it from now on holds.
    pub(super) fn handle_withdrawn(&mut self, id: JobId) {
        if let Some(queued) = self.jobs.get_mut(id).and_then(|job| job.queued.as_mut()) {
            queued.handle_withdrawn();
        }
        // Its nodes, or its place before others, are free.
        self.retry_waiting();
    }
}
