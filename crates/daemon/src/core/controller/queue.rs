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

use tutti_protocol::wire::Report;
use tutti_sched::{Demand, NodeId, SubmitError, Wait};

use super::allowance::Full;
use super::answers::Requester;
use super::filings::Filing;
use super::job::JobRecord;
use super::jobs::SETTLE_LOST;
use super::waits::{Outcome, Waits};
use super::{Controller, log, scheduler};
use crate::core::action::Action;
use crate::core::job_event::JobEvent;
use crate::core::local::LocalNode;
use crate::core::outbox::Outbox;
use crate::core::record::Queued;
use crate::core::relay::Relay;
use crate::gang::Command;
use crate::message::{Answer, JobId, Launch, Routed, Run};

impl JobRecord {
    /// A job that has no nodes yet.
    fn waiting(id: JobId, launch: Launch, waits: Waits) -> Self {
        let mut job = JobRecord::new(id, launch);
        job.queued = Some(waits);
        job
    }

    /// It waits since an earlier incarnation of the controller, and the scheduler does not know it yet.
    pub(super) fn is_held(&self) -> bool {
        self.queued.as_ref().is_some_and(|queued| queued.held_until_ms.is_some()) && !self.is_ending()
    }

    /// Why it has no nodes.
    pub(super) fn waits(&self) -> Option<String> {
        let queued = self.queued.as_ref().filter(|_| !self.is_ending())?;
        if queued.held_until_ms.is_some() {
            return Some("the controller was restarted and waits for the reports of its nodes".into());
        }
        self.waits_for().or_else(|| Some(queued.why.clone().unwrap_or_else(|| "others wait longer".into())))
    }
}

impl Controller {
    /// The jobs that waited in an earlier incarnation of the controller.
    pub(in crate::core) fn take_queue(&mut self, local: &LocalNode, queued: Vec<(JobId, Queued)>) {
        let held_until_ms = Some(local.now_ms + SETTLE_LOST * local.config.lost_ms);
        for (id, Queued { launch, demand, suspended, over }) in queued {
            self.jobs.begin_behind(id);
            self.answers.remember((launch.origin, launch.request_id), Answer::Job(id));
            let mut waits = Waits::new(demand, held_until_ms);
            waits.over =
                over.into_iter().map(|(job, status)| (job, Outcome { status, filed: true })).collect();
            let mut job = JobRecord::waiting(id, launch, waits);
            if suspended {
                job.order.run = Run::Stop;
            }
            if !job.detached && job.launch.origin == NodeId::CONTROLLER {
                // Its front end lost its daemon with the last incarnation of this one, and has said that the
                // job is ended.
                job.end_by(None, 1);
            }
            self.jobs.insert(id, job);
            self.jobs.pending.insert(id);
        }
    }

    /// Writes the file of a job that waits; `false`: it has none. Who is named hears when it is there.
    pub(super) fn file(&mut self, out: &mut Outbox, id: JobId, filing: Filing) -> bool {
        let Some(job) = self.jobs.get(id).filter(|job| !job.is_ending()) else { return false };
        let Some(queued) = &job.queued else { return false };
        let launch = Launch { detached: job.detached, ..Launch::clone(&job.launch) };
        let over = queued.over.iter().map(|(job, outcome)| (*job, outcome.status)).collect();
        let suspended = job.order.run == Run::Stop;
        let file = Queued { launch, demand: queued.demand.clone(), suspended, over };
        self.filings.push(id, filing);
        out.act(Action::Queue(id, Some(Box::new(file))));
        true
    }

    /// A new job wants nodes. Its user, `requester`, gets its number when the file is written.
    pub(super) fn queue(
        &mut self,
        out: &mut Outbox,
        id: JobId,
        launch: Launch,
        demand: Demand,
        requester: Requester,
    ) {
        let held_until_ms = self.jobs.records.values().find_map(|job| job.queued.as_ref()?.held_until_ms);
        let mut waits = Waits::new(demand, held_until_ms);
        waits.over = self.jobs.outcomes(&launch.batch.after);
        self.jobs.insert(id, JobRecord::waiting(id, launch, waits));
        self.file(out, id, Filing::New(requester));
    }

    /// The file of a job is there, or cannot be.
    pub(in crate::core) fn handle_filed(
        &mut self,
        local: &LocalNode,
        out: &mut Outbox,
        id: JobId,
        filed: &Result<(), String>,
    ) {
        let (requester, answer) = match self.filings.pop(id) {
            Some(Filing::New(requester)) => (requester, self.begin_filed(local, out, id, filed)),
            // What cannot be kept is so in this incarnation, and the log of the daemon says that it is in no
            // other.
            Some(Filing::Changed(requester)) => (requester, Answer::Done),
            Some(Filing::Over(job)) => return self.jobs.record_filed(id, job),
            None => return,
        };
        self.answers.remember(requester, answer.clone());
        let (from, request_id) = requester;
        out.route(from, Routed::Answer { request_id, answer });
    }

    /// What the user of a new job hears. Nobody would know of one that was submitted and lost; who waits for
    /// his job sees what becomes of it.
    fn begin_filed(
        &mut self,
        local: &LocalNode,
        out: &mut Outbox,
        id: JobId,
        filed: &Result<(), String>,
    ) -> Answer {
        let job = self.jobs.get(id);
        // It may have been killed meanwhile.
        let Some(job) = job.filter(|job| !job.is_ending()) else { return Answer::Job(id) };
        if let Err(why) = filed
            && job.detached
        {
            self.jobs.remove(id);
            // It may be there all the same, until the power fails.
            out.act(Action::Queue(id, None));
            let event = JobEvent { event: "refused", text: why.clone(), ..JobEvent::default() };
            log::log(local, out, id, event);
            return Answer::Refused(format!("the controller cannot keep the job: {why}"));
        }
        if job.failed_dependency().is_some() {
            self.jobs.pending.insert(id);
        }
        self.try_to_schedule(local, out, id);
        Answer::Job(id)
    }

    /// Asks the scheduler for nodes, unless the job is to wait for something else.
    pub(super) fn try_to_schedule(&mut self, local: &LocalNode, out: &mut Outbox, id: JobId) {
        self.try_to_schedule_beside(local, out, id, &mut Full::default());
    }

    fn try_to_schedule_beside(&mut self, local: &LocalNode, out: &mut Outbox, id: JobId, full: &mut Full) {
        if self.filings.has_new(id) {
            return;
        }
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.is_ending()) else { return };
        let is_suspended = job.order.run == Run::Stop;
        if let Some(text) = job.take_waiting_text() {
            job.report(Report::Warning(format!("job {id} waits: {text}")));
            log::log(local, out, id, JobEvent { event: "waits", text, ..JobEvent::default() });
            return self.send_reports(local, out, id);
        }
        if job.waits_for().is_some() || job.failed_dependency().is_some() {
            return;
        }
        let Some(queued) = job.queued.as_ref().filter(|queued| !queued.submitted) else { return };
        if queued.held_until_ms.is_some() {
            return;
        }
        let is_step = job.launch.steps.owner.is_some();
        if let Some(text) = (!is_step).then(|| self.over_limit(local, id, full)).flatten() {
            return self.wait_for_limit(local, out, id, &text);
        }
        let owner = self.jobs.get(id).map(|job| self.owner(local, job.launch.user)).unwrap_or_default();
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(queued) = job.queued.as_mut() else { return };
        queued.demand.holder.owner = owner;
        queued.submitted = true;
        let demand = Box::new(queued.demand.clone());
        out.act(Action::Gang(Command::Submit(id, demand, false)));
        if is_suspended {
            scheduler::suspend(out, job, true);
        }
    }

    /// Its user or group has as much as it may. Its user is told once, the log when the reason is another.
    fn wait_for_limit(&mut self, local: &LocalNode, out: &mut Outbox, id: JobId, text: &str) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(queued) = &mut job.queued else { return };
        let is_new = queued.why.as_deref() != Some(text);
        queued.why = Some(text.to_owned());
        if !std::mem::replace(&mut queued.reported, true) {
            job.report(Report::Warning(format!("job {id} waits: {text}")));
        }
        if is_new {
            log::log(
                local,
                out,
                id,
                JobEvent { event: "waits", text: text.to_owned(), ..JobEvent::default() },
            );
        }
        self.send_reports(local, out, id);
    }

    /// Those that waited for what nodes know have waited long enough; in the order in which they came.
    pub(super) fn release_held(&mut self, local: &LocalNode, out: &mut Outbox) {
        let now_ms = local.now_ms;
        let mut due = Vec::new();
        for (id, job) in &mut self.jobs.records {
            if let Some(queued) = job.queued.as_mut().filter(|_| !job.over)
                && !self.filings.has(*id)
                && queued.held_until_ms.is_some_and(|until_ms| now_ms >= until_ms)
            {
                queued.held_until_ms = None;
                due.push(*id);
            }
        }
        self.jobs.pending.extend(&due);
        for id in due {
            self.try_to_schedule(local, out, id);
        }
    }

    /// Jobs start whose others are over. When no node can tell any more of a job that this controller does
    /// not know, it is over.
    pub(super) fn settle_dependencies(&mut self, local: &LocalNode, out: &mut Outbox) {
        if self.jobs.is_past_adoption(local.now_ms) && !std::mem::replace(&mut self.settled, true) {
            for (over, dependents) in self.jobs.give_up_unknown() {
                self.file_over(out, over, dependents);
            }
        }
        let mut full = Full::default();
        for id in self.jobs.unsubmitted() {
            self.try_to_schedule_beside(local, out, id, &mut full);
        }
    }

    /// A job is over: those that wait for it may start.
    pub(super) fn release_dependents(&mut self, out: &mut Outbox, id: JobId) {
        let dependents = self.jobs.release_dependents(id);
        self.file_over(out, id, dependents);
    }

    fn file_over(&mut self, out: &mut Outbox, over: JobId, dependents: Vec<JobId>) {
        for dependent in dependents {
            self.file(out, dependent, Filing::Over(over));
        }
    }

    /// The scheduler has found nodes for a job.
    pub(in crate::core) fn handle_placed(
        &mut self,
        local: &LocalNode,
        relay: &mut Relay,
        out: &mut Outbox,
        id: JobId,
        parts: &[(NodeId, u32)],
    ) {
        let Some(members) = &local.members else { return };
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.is_ending()) else { return };
        let Some(queued) = &job.queued else { return };
        if parts.iter().any(|(node, _)| !members.is_alive(*node)) {
            // Lost meanwhile, which the scheduler was told too: once more.
            let demand = Box::new(queued.demand.clone());
            out.act(Action::Gang(Command::JobOver(id)));
            return out.act(Action::Gang(Command::Submit(id, demand, false)));
        }
        let nodes: Vec<NodeId> = parts.iter().map(|(node, _)| *node).collect();
        let nodes_by_name = members.names(&nodes);
        job.place(parts, members);
        // Those that it has waited for may be forgotten.
        let (before, order): (Vec<JobId>, _) = (job.named_before().collect(), job.order.clone());
        self.jobs.pending.extend(before.into_iter().chain([id]));
        out.act(Action::Queue(id, None));
        relay.set_order(id, order);
        log::log(local, out, id, JobEvent { event: "placed", nodes: nodes_by_name, ..JobEvent::default() });
    }

    /// Why a job has no nodes yet. Its user is told once, the log each time.
    pub(in crate::core) fn handle_waits(
        &mut self,
        local: &LocalNode,
        out: &mut Outbox,
        id: JobId,
        why: &Wait,
    ) {
        let text = why.to_string();
        let job = self.jobs.get_mut(id);
        let Some(job) = job.filter(|job| !job.is_ending()) else { return };
        let Some(queued) = &mut job.queued else { return };
        queued.why = Some(text.clone());
        if !std::mem::replace(&mut queued.reported, true) {
            job.report(Report::Warning(format!("job {id} waits: {text}")));
        }
        log::log(local, out, id, JobEvent { event: "waits", text, ..JobEvent::default() });
        self.send_reports(local, out, id);
    }

    /// No nodes of the cluster could ever hold the job: it has lost some since it was asked.
    pub(in crate::core) fn handle_refused(
        &mut self,
        local: &LocalNode,
        relay: &mut Relay,
        out: &mut Outbox,
        id: JobId,
        why: &SubmitError,
    ) {
        let job = self.jobs.get_mut(id);
        let Some(job) = job.filter(|job| job.queued.is_some() && !job.is_ending()) else { return };
        job.report(Report::Refused(why.to_string()));
        job.end_by(None, 1);
        self.judge(local, relay, out, id);
    }
}
