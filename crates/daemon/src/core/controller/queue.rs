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

use std::collections::{BTreeMap, VecDeque};

use tutti_protocol::wire::Report;
use tutti_sched::{Demand, NodeId, Place, SubmitError, Wait};

use super::dependencies::Outcome;
use super::job::JobRecord;
use super::listing::names;
use super::{Filing, JobEvent, SETTLE_LOST, placement};
use crate::core::{Action, Core, Queued};
use crate::gang::Command;
use crate::message::{Answer, JobId, Launch, Routed, Run};

/// What a job waits for.
#[derive(Debug)]
pub(super) struct Waits {
    demand: Demand,
    /// The scheduler is not asked for it before this time: nodes may know better.
    held_until_ms: Option<u64>,
    /// The scheduler has been asked for it.
    pub(super) submitted: bool,
    /// Jobs that it waits for and that are over.
    pub(super) over: BTreeMap<JobId, Outcome>,
    /// Why it waits.
    why: Option<String>,
    /// Its user has been told that it does.
    pub(super) reported: bool,
}

impl Waits {
    fn new(demand: Demand, held_until_ms: Option<u64>) -> Self {
        Waits { demand, held_until_ms, submitted: false, over: BTreeMap::new(), why: None, reported: false }
    }
}

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

    /// What it asks for where it is already.
    fn demand_in_place(&self) -> Demand {
        let launch = &self.launch;
        let shares = placement::shares(&launch.nodes, &launch.first_ranks, launch.job.ranks());
        let place = Place::Given(shares.map(|(node, ranks)| (node, ranks as u32)).collect());
        let terms = launch.terms;
        Demand {
            place,
            weight: terms.weight,
            exclusive: terms.exclusive,
            gang: terms.gang,
            oversubscribe: true,
            memory_bytes: terms.memory_bytes,
        }
    }
}

impl Core {
    /// The jobs that waited in an earlier incarnation of the controller.
    pub(in crate::core) fn take_queue(&mut self, queued: Vec<(JobId, Queued)>) {
        let held_until_ms = Some(self.now_ms + SETTLE_LOST * self.config.lost_ms);
        let Some(controller) = &mut self.controller else { return };
        for (id, Queued { launch, demand, suspended, over }) in queued {
            controller.next_job = controller.next_job.max(id.0 + 1);
            controller.first_job = controller.first_job.max(id.0 + 1);
            controller.remember(launch.origin, launch.request_id, Answer::Job(id));
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
            controller.jobs.insert(id, job);
            controller.pending.insert(id);
        }
    }

    /// Writes the file of a job that waits; `false`: it has none. Who is named hears when it is there.
    pub(super) fn file(&mut self, id: JobId, filing: Filing) -> bool {
        let Some(controller) = &mut self.controller else { return false };
        let Some(job) = controller.jobs.get(&id).filter(|job| !job.is_ending()) else { return false };
        let Some(queued) = &job.queued else { return false };
        let launch = Launch { detached: job.detached, ..Launch::clone(&job.launch) };
        let over = queued.over.iter().map(|(job, outcome)| (*job, outcome.status)).collect();
        let suspended = job.order.run == Run::Stop;
        let file = Queued { launch, demand: queued.demand.clone(), suspended, over };
        controller.filing.entry(id).or_default().push_back(filing);
        self.act(Action::Queue(id, Some(Box::new(file))));
        true
    }

    /// A new job wants nodes. Its user, `requester`, gets its number when the file is written.
    pub(super) fn queue(
        &mut self,
        id: JobId,
        launch: Launch,
        demand: Demand,
        (from, request_id): (NodeId, u64),
    ) {
        let Some(controller) = &mut self.controller else { return };
        let held_until_ms = controller.jobs.values().find_map(|job| job.queued.as_ref()?.held_until_ms);
        let mut waits = Waits::new(demand, held_until_ms);
        waits.over = controller.outcomes(&launch.batch.after);
        controller.jobs.insert(id, JobRecord::waiting(id, launch, waits));
        self.file(id, Filing::New(from, request_id));
    }

    /// The file of a job is there, or cannot be.
    pub(in crate::core) fn handle_filed(&mut self, id: JobId, filed: &Result<(), String>) {
        let Some(controller) = &mut self.controller else { return };
        let Some(filings) = controller.filing.get_mut(&id) else { return };
        let filing = filings.pop_front();
        if filings.is_empty() {
            controller.filing.remove(&id);
        }
        let answer = match filing {
            Some(Filing::New(..)) => self.begin_filed(id, filed),
            // What cannot be kept is so in this incarnation, and the log of the daemon says that it is in no
            // other.
            Some(Filing::Changed(..)) => Answer::Done,
            Some(Filing::Over(job)) => return self.record_filed(id, job),
            None => return,
        };
        let Some((from, request_id)) = filing.and_then(Filing::requester) else { return };
        if let Some(controller) = &mut self.controller {
            controller.remember(from, request_id, answer.clone());
        }
        self.route(from, Routed::Answer { request_id, answer });
    }

    /// What the user of a new job hears. Nobody would know of one that was submitted and lost; who waits for
    /// his job sees what becomes of it.
    fn begin_filed(&mut self, id: JobId, filed: &Result<(), String>) -> Answer {
        let job = self.controller.as_ref().and_then(|controller| controller.jobs.get(&id));
        // It may have been killed meanwhile.
        let Some(job) = job.filter(|job| !job.is_ending()) else { return Answer::Job(id) };
        if let Err(why) = filed
            && job.detached
        {
            if let Some(controller) = &mut self.controller {
                let removed = controller.jobs.remove(&id);
                controller.pending.extend(removed.iter().flat_map(JobRecord::named_before));
            }
            // It may be there all the same, until the power fails.
            self.act(Action::Queue(id, None));
            let event = JobEvent { event: "refused", text: why.clone(), ..JobEvent::default() };
            self.log(id, event);
            return Answer::Refused(format!("the controller cannot keep the job: {why}"));
        }
        if job.failed_dependency().is_some() {
            self.controller.iter_mut().for_each(|controller| controller.pending.extend([id]));
        }
        self.try_to_schedule(id);
        Answer::Job(id)
    }

    /// Asks the scheduler for nodes, unless the job is to wait for something else.
    pub(super) fn try_to_schedule(&mut self, id: JobId) {
        let Some(controller) = &mut self.controller else { return };
        let is_new =
            |filings: &VecDeque<Filing>| filings.iter().any(|filing| matches!(filing, Filing::New(..)));
        if controller.filing.get(&id).is_some_and(is_new) {
            return;
        }
        let Some(job) = controller.jobs.get_mut(&id).filter(|job| !job.is_ending()) else { return };
        let is_suspended = job.order.run == Run::Stop;
        if let Some(text) = job.take_waiting_text() {
            job.report(Report::Warning(format!("job {id} waits: {text}")));
            self.log(id, JobEvent { event: "waits", text, ..JobEvent::default() });
            return self.send_reports(id);
        }
        if job.waits_for().is_some() || job.failed_dependency().is_some() {
            return;
        }
        let Some(queued) = job.queued.as_mut().filter(|queued| !queued.submitted) else { return };
        if queued.held_until_ms.is_some() {
            return;
        }
        queued.submitted = true;
        let demand = Box::new(queued.demand.clone());
        self.act(Action::Gang(Command::Submit(id, demand, false)));
        if is_suspended {
            self.suspend_in_scheduler(id, true);
        }
    }

    /// Those that waited for what nodes know have waited long enough; in the order in which they came.
    pub(super) fn release_held(&mut self) {
        let now_ms = self.now_ms;
        let mut due = Vec::new();
        let Some(controller) = &mut self.controller else { return };
        for (id, job) in &mut controller.jobs {
            if let Some(queued) = job.queued.as_mut().filter(|_| !job.over)
                && !controller.filing.contains_key(id)
                && queued.held_until_ms.is_some_and(|until_ms| now_ms >= until_ms)
            {
                queued.held_until_ms = None;
                due.push(*id);
            }
        }
        controller.pending.extend(&due);
        for id in due {
            self.try_to_schedule(id);
        }
    }

    /// The scheduler is told of a job that runs already.
    pub(super) fn submit_running(&mut self, id: JobId) {
        let Some(job) = self.controller.as_ref().and_then(|controller| controller.jobs.get(&id)) else {
            return;
        };
        let demand = Box::new(job.demand_in_place());
        self.act(Action::Gang(Command::Submit(id, demand, true)));
    }

    pub(in crate::core) fn suspend_in_scheduler(&mut self, id: JobId, suspended: bool) {
        let job = self.controller.as_ref().and_then(|controller| controller.jobs.get(&id));
        if job.is_some_and(|job| job.launch.terms.gang) {
            self.act(Action::Gang(Command::Suspend(id, suspended)));
        }
    }

    /// Nothing of the job runs any more: others may have its nodes.
    pub(super) fn leave_scheduler(&mut self, id: JobId) {
        let job = self.controller.as_ref().and_then(|controller| controller.jobs.get(&id));
        if job.is_some_and(|job| job.queued.is_some()) {
            self.act(Action::Queue(id, None));
        }
        self.act(Action::Gang(Command::JobOver(id)));
    }

    /// The scheduler has found nodes for a job.
    pub(in crate::core) fn handle_placed(&mut self, id: JobId, parts: &[(NodeId, u32)]) {
        let (Some(controller), Some(members)) = (&mut self.controller, &self.members) else { return };
        let Some(job) = controller.jobs.get_mut(&id).filter(|job| !job.is_ending()) else { return };
        let Some(queued) = &job.queued else { return };
        if parts.iter().any(|(node, _)| !members.is_alive(*node)) {
            // Lost meanwhile, which the scheduler was told too: once more.
            let demand = Box::new(queued.demand.clone());
            self.act(Action::Gang(Command::JobOver(id)));
            return self.act(Action::Gang(Command::Submit(id, demand, false)));
        }
        let nodes: Vec<NodeId> = parts.iter().map(|(node, _)| *node).collect();
        let firsts = parts.iter().scan(0, |next, (_, ranks)| Some(std::mem::replace(next, *next + ranks)));
        let incarnations = nodes.iter().map(|node| members.nodes[node].about.incarnation).collect();
        let nodes_by_name = names(members, &nodes);
        job.place(nodes, firsts.collect(), incarnations);
        // Those that it has waited for may be forgotten.
        controller.pending.extend(job.named_before().chain([id]));
        let order = job.order.clone();
        self.act(Action::Queue(id, None));
        self.relay.set_order(id, order);
        self.log(id, JobEvent { event: "placed", nodes: nodes_by_name, ..JobEvent::default() });
    }

    /// Why a job has no nodes yet. Its user is told once, the log each time.
    pub(in crate::core) fn handle_waits(&mut self, id: JobId, why: &Wait) {
        let text = why.to_string();
        let job = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id));
        let Some(job) = job.filter(|job| !job.is_ending()) else { return };
        let Some(queued) = &mut job.queued else { return };
        queued.why = Some(text.clone());
        if !std::mem::replace(&mut queued.reported, true) {
            job.report(Report::Warning(format!("job {id} waits: {text}")));
        }
        self.log(id, JobEvent { event: "waits", text, ..JobEvent::default() });
        self.send_reports(id);
    }

    /// No nodes of the cluster could ever hold the job: it has lost some since it was asked.
    pub(in crate::core) fn handle_refused(&mut self, id: JobId, why: &SubmitError) {
        let job = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id));
        let Some(job) = job.filter(|job| job.queued.is_some() && !job.is_ending()) else { return };
        job.report(Report::Refused(why.to_string()));
        job.end_by(None, 1);
        self.judge(id);
    }

    pub(in crate::core) fn record_turns(&mut self, turns: &[(JobId, u64)]) {
        let Some(controller) = &mut self.controller else { return };
        for (id, turns) in turns {
            if let Some(job) = controller.jobs.get_mut(id) {
                job.turns = *turns;
            }
        }
    }
}
