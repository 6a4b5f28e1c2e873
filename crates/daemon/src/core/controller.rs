//! The controller: the jobs of the cluster. It chooses their nodes, and turns what their parts report into
//! what is to be with them.
//!
//! ```text
//! Waiting --placed--> Starting --all ready--> peers are told --all running--> Running <--> Suspended
//!     \___________________________\__________________________|____________/
//!                  one part ends, a node is lost, a user kills
//!                                  v
//!                               Ending --all left--> leave --all over--> Over: forgotten by all but the list
//! ```
//!
//! The first part that ends a job says why; what happens elsewhere afterwards is a consequence, and not told.
//! A job that is over is forgotten when its origin has all of its output and its last report.
//!
//! The controller keeps nothing on a disk. One that has been started anew learns the jobs from the nodes,
//! whose orders name everything (`adopt_job`), for [`ADOPT_MS`]; what it has never heard of after that is
//! ended where it turns up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tutti_protocol::wire::Report;
use tutti_sched::controller::Lags;

use super::Core;
use crate::members::NodeId;
use crate::message::output::OutputState;
use crate::message::{Answer, Environments, JobId, Launch, Notice, Order, Routed, Run};

mod bounds;
mod dependencies;
mod event;
mod job;
mod late;
mod limits;
mod listing;
pub(super) mod placement;
mod queue;
mod requests;
mod snapshot;
mod stuck;

pub use event::JobEvent;
use job::JobRecord;
use listing::name;

/// Jobs that are over and still listed.
const OVER_MAX: usize = 1000;
/// Answers that are remembered, for questions asked twice.
const ANSWERS_MAX: usize = 4096;
/// Reports that are not heard are said again.
const RESEND_MS: u64 = 1000;
/// So long a new controller takes over jobs that it does not know.
const ADOPT_MS: u64 = 60_000;
/// A new controller that is asked for a second time waits this long with a submission, in units of the time
/// after which a node is lost: its predecessor may have accepted it, and a node will say so.
const SETTLE_LOST: u64 = 2;

/// Who hears when the file of a job is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filing {
    /// Who has asked for the job, which is new: its number.
    New(NodeId, u64),
    /// Who has changed it: that it is so.
    Changed(NodeId, u64),
    /// This job, which it waits for, is over: it may be forgotten.
    Over(JobId),
}

impl Filing {
    fn requester(self) -> Option<(NodeId, u64)> {
        match self {
            Filing::New(from, request_id) | Filing::Changed(from, request_id) => Some((from, request_id)),
            Filing::Over(_) => None,
        }
    }
}

/// The jobs of the cluster.
#[derive(Debug)]
pub(super) struct Controller {
    jobs: BTreeMap<JobId, JobRecord>,
    next_job: u64,
    /// Jobs by the question that submitted them.
    answers: VecDeque<((NodeId, u64), Answer)>,
    /// Jobs whose files are being written, each as often as it is.
    filing: BTreeMap<JobId, VecDeque<Filing>>,
    /// Jobs to be judged although none of their parts has said anything.
    pending: BTreeSet<JobId>,
    started_at_ms: u64,
    /// First job of this incarnation: earlier ones that are not known are an earlier controller's.
    first_job: u64,
    /// No node tells any more of jobs that this controller does not know.
    settled: bool,
    /// Whom jobs wait for that stand still.
    lags: Lags,
    environments: Environments,
}

impl Controller {
    pub(super) fn new(first_job: u64, now_ms: u64) -> Self {
        let first_job = first_job.max(1);
        Controller {
            jobs: BTreeMap::new(),
            next_job: first_job,
            answers: VecDeque::new(),
            filing: BTreeMap::new(),
            pending: BTreeSet::new(),
            started_at_ms: now_ms,
            first_job,
            settled: false,
            lags: Lags::default(),
            environments: Environments::default(),
        }
    }

    /// The daemon of a node has been started anew: as an origin it knows nothing of its jobs, and hears
    /// everything again.
    pub(super) fn renew_origin(&mut self, node: NodeId) {
        for (id, job) in
            self.jobs.iter_mut().filter(|(_, job)| job.launch.origin == node && !job.order.forget)
        {
            (job.received, job.sent_ms) = (0, 0);
            self.pending.insert(*id);
        }
    }

    /// Nodes may yet tell of this job, which this controller does not know.
    fn may_learn(&self, id: JobId, now_ms: u64, lost_ms: u64) -> bool {
        id.0 < self.first_job && now_ms < self.started_at_ms + SETTLE_LOST * lost_ms
    }

    /// Some job is not over, or waits to be judged.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty() || self.jobs.values().any(|job| !job.order.forget)
    }

    /// The same question again has the same answer.
    fn remember(&mut self, from: NodeId, request_id: u64, answer: Answer) {
        self.answers.push_back(((from, request_id), answer));
        if self.answers.len() > ANSWERS_MAX {
            self.answers.pop_front();
        }
    }

    /// A node is gone, with all that ran on it.
    pub(super) fn lose_node(&mut self, node: NodeId, name: &str, now_ms: u64) {
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| !job.order.forget) {
            self.pending.insert(*id);
            if job.launch.index(node).is_some() && job.lost.insert(node) {
                let is_news = !job.is_ending() && !job.by_user;
                job.end_by(Some(node), 1);
                if is_news {
                    let text =
                        format!("node {name} does not answer any more, its ranks are lost; the job is ended");
                    job.record_cause(text.clone());
                    job.report(Report::Warning(text));
                }
            } else if job.launch.origin == node && !job.detached {
                job.end_by(None, 1);
            }
            job.sent_ms = now_ms.saturating_sub(RESEND_MS);
        }
    }
}

impl Core {
    /// This controller does not know the job, and nodes may yet tell of it.
    fn is_unsettled(&self, id: JobId) -> bool {
        let (now_ms, lost_ms) = (self.now_ms, self.config.lost_ms);
        self.controller.as_ref().is_some_and(|controller| {
            !controller.jobs.contains_key(&id) && controller.may_learn(id, now_ms, lost_ms)
        })
    }

    /// A node knows a job that the relay does not.
    pub(super) fn adopt_job(&mut self, id: JobId, order: Order) {
        let (Some(controller), Some(launch)) = (&mut self.controller, order.launch.clone()) else { return };
        let is_young = self.now_ms < controller.started_at_ms + ADOPT_MS;
        // A file says that it waits, which its nodes know better: the file was about to be removed.
        if controller.jobs.get(&id).is_some_and(JobRecord::is_held) {
            let removed = controller.jobs.remove(&id);
            controller.pending.extend(removed.iter().flat_map(JobRecord::named_before));
            self.actions.push_back(super::Action::Queue(id, None));
        }
        match controller.jobs.get_mut(&id) {
            Some(job) if job.order.forget => {}
            Some(job) => {
                if job.adopted_until_ms.is_some() && order.version > job.order.version {
                    job.learn(&order);
                    self.publish(id);
                    self.controller.iter_mut().for_each(|controller| controller.pending.extend([id]));
                }
                return;
            }
            None if is_young && id.0 < controller.first_job && !order.forget => {
                let mut job = JobRecord::new(id, Launch::clone(&launch));
                job.learn(&order);
                job.adopted_until_ms = Some(self.now_ms + SETTLE_LOST * self.config.lost_ms);
                controller.next_job = controller.next_job.max(id.0 + 1);
                controller.remember(launch.origin, launch.request_id, Answer::Job(id));
                controller.jobs.insert(id, job);
                controller.pending.insert(id);
                // Down to all its nodes, this one too: each says what it has of it.
                self.relay.set_order(id, crate::message::Order { hold: None, ..order });
                self.publish(id);
                self.submit_running(id);
                return self.log(id, JobEvent { event: "adopted", ..JobEvent::default() });
            }
            None => {}
        }
        self.relay.learn(id, order);
        self.relay.end_entry(id);
    }

    /// The order goes down if it has changed.
    fn publish(&mut self, id: JobId) {
        let Some(job) = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id)) else {
            return;
        };
        let Some(known) = self.relay.order(id) else { return };
        let order = &mut job.order;
        // Nodes may have had more orders from an earlier controller than the one that this controller took
        // first.
        let newest = std::mem::replace(&mut order.version, known.version).max(known.version);
        if *known != *order || newest > known.version {
            order.version = newest + 1;
            let order = order.clone();
            self.relay.set_order(id, order);
        }
    }

    /// States of a job have changed, or something else that its order depends on.
    pub(super) fn judge(&mut self, id: JobId) {
        let wall_ms = self.wall_ms;
        let Some(job) = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id)) else {
            return;
        };
        if job.order.forget {
            return;
        }
        let (started, reported, was_over) = (job.reported_started, job.notices.len(), job.over);
        job.judge_dependencies();
        let none = BTreeMap::new();
        let has_reached_limit = job.judge_limit(wall_ms);
        job.judge(self.relay.states(id).unwrap_or(&none), wall_ms);
        let (now_started, over, status) = (job.reported_started, job.over, job.status);
        let is_suspended = job.order.run == Run::Stop;
        let text = job.cause.clone().unwrap_or_default();
        let (new, left) = (job.notices[reported..].to_vec(), std::mem::take(&mut job.left));
        self.judge_snapshot(id);
        self.judge_stall(id);
        self.forget_if_received(id);
        self.publish(id);
        if now_started && !started {
            self.forward_start(id, is_suspended);
            self.log_start(id);
        }
        if has_reached_limit {
            self.log_limit(id);
        }
        new.iter().for_each(|notice| self.log_notice(id, notice));
        self.log_left(id, left);
        if over && !was_over {
            self.leave_scheduler(id);
            self.log(id, JobEvent { event: "over", status: Some(status), text, ..JobEvent::default() });
            self.forget_oldest();
        }
        if self.is_newly_done(id) {
            self.answer_waiters(id);
            self.release_dependents(id);
        }
        self.send_reports(id);
    }

    /// Whoever waits for the job, or for its output, is to hear that it is over.
    fn is_newly_done(&mut self, id: JobId) -> bool {
        let job = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id));
        job.is_some_and(|job| job.poll_done())
    }

    /// A job that is over is kept by its nodes until its origin has everything, or is lost itself.
    fn forget_if_received(&mut self, id: JobId) {
        let Some(controller) = &mut self.controller else { return };
        if controller.jobs.get(&id).is_none_or(|job| !job.over) || controller.is_awaited_by_others(id) {
            return;
        }
        let Some(job) = controller.jobs.get_mut(&id) else { return };
        let Some(members) = &self.members else { return };
        if job.received >= job.notices.len() as u64 {
            job.order.forget = true;
            job.shed();
        } else if !members.is_alive(job.launch.origin)
            // Nodes are still coming back to a controller that has just begun.
            && job.adopted_until_ms.is_none()
            && !job.waits_for_origin(self.now_ms, self.config.keep_ms)
        {
            job.lose_output(&name(members, job.launch.origin));
            // Should it come back, it ends with what it has.
            job.report_end(Vec::new());
            job.order.forget = true;
            job.shed();
        }
    }

    fn send_reports(&mut self, id: JobId) {
        let (now_ms, incarnation) = (self.now_ms, self.config.about.incarnation);
        let Some(job) = self.controller.as_mut().and_then(|controller| controller.jobs.get_mut(&id)) else {
            return;
        };
        let first = job.received;
        if first < job.notices.len() as u64 {
            job.sent_ms = now_ms;
            let reports = job.notices[first as usize..].to_vec();
            let (origin, request_id) = (job.launch.origin, job.launch.request_id);
            self.route(origin, Routed::Reports { job: id, request_id, incarnation, first, reports });
        }
    }

    pub(super) fn handle_contact(&mut self, from: NodeId, id: JobId, incarnation: u64, below: u64) {
        let own_incarnation = self.config.about.incarnation;
        let Some(controller) = &mut self.controller else { return };
        match controller.jobs.get_mut(&id) {
            Some(job) if incarnation == own_incarnation && !job.order.forget => {
                let before = job.received;
                job.received = job.received.max(below.min(job.notices.len() as u64));
                if job.over && job.received > before {
                    controller.pending.insert(id);
                    self.judge(id);
                }
            }
            Some(job) if !job.order.forget => job.sent_ms = 0,
            // No node has it any more, and perhaps never this controller: it ends with what its origin has.
            known => {
                let is_settled = self.now_ms >= controller.started_at_ms + SETTLE_LOST * self.config.lost_ms;
                let ended = known.map(|job| {
                    job.received = job.notices.len() as u64;
                    (job.status, job.cause.clone())
                });
                if ended.is_some() || is_settled {
                    let first = if incarnation == own_incarnation { below } else { 0 };
                    let (status, cause) = ended.unwrap_or((1, None));
                    let reports = vec![Notice::End { status, written: Vec::new(), cause }];
                    self.route(
                        from,
                        Routed::Reports {
                            job: id,
                            request_id: 0,
                            incarnation: own_incarnation,
                            first,
                            reports,
                        },
                    );
                }
            }
        }
    }

    /// An origin says what is with the files of a job's output.
    pub(super) fn handle_output_state(&mut self, id: JobId, output: Option<Box<OutputState>>) {
        let (Some(output), Some(controller)) = (output, &mut self.controller) else { return };
        let Some(job) = controller.jobs.get_mut(&id) else { return };
        let before = std::mem::replace(&mut job.output, *output);
        let is_news =
            |before: &Option<String>, now: &Option<String>| now.clone().filter(|_| before.is_none());
        let refused = is_news(&before.refused, &job.output.refused);
        let trouble = is_news(&before.trouble, &job.output.trouble);
        match (refused, trouble) {
            // Its ranks were faster than the writer of its files.
            (Some(text), _) if job.is_ending() => {
                job.fail_late(text.clone());
                self.log(id, JobEvent { event: "said", text, ..JobEvent::default() });
            }
            (Some(text), _) => {
                job.report(Report::Refused(format!("{text}; the job is ended")));
                job.end_by(None, 1);
                controller.pending.insert(id);
            }
            (None, Some(text)) if !job.is_ending() => {
                job.report(Report::Warning(format!(
                    "{text}; what is not written is lost, the job continues"
                )));
                controller.pending.insert(id);
            }
            _ => {}
        }
    }

    fn forget_oldest(&mut self) {
        let Some(controller) = &mut self.controller else { return };
        let over: Vec<JobId> =
            controller.jobs.iter().filter(|(_, job)| job.order.forget).map(|(id, _)| *id).collect();
        for id in over.iter().take(over.len().saturating_sub(OVER_MAX)) {
            controller.jobs.remove(id);
        }
    }

    pub(super) fn tick_controller(&mut self) {
        let (now_ms, wall_ms) = (self.now_ms, self.wall_ms);
        self.release_held();
        self.settle_dependencies();
        let (Some(controller), Some(members)) = (&mut self.controller, &self.members) else { return };
        // A job of an earlier controller ends if a node of it does not come back.
        let mut absent = BTreeSet::new();
        for job in controller.jobs.values_mut().filter(|job| !job.order.forget) {
            if job.adopted_until_ms.is_some_and(|until_ms| now_ms >= until_ms) {
                job.adopted_until_ms = None;
                let nodes = job.launch.nodes.iter().chain([&job.launch.origin]);
                absent.extend(nodes.filter(|node| !members.is_alive(**node)));
            }
        }
        for node in absent {
            controller.lose_node(node, &name(members, node), now_ms);
        }
        let unheard =
            |job: &JobRecord| job.received < job.notices.len() as u64 && now_ms >= job.sent_ms + RESEND_MS;
        let mut ids = std::mem::take(&mut controller.pending);
        ids.extend(
            controller
                .jobs
                .iter()
                .filter(|(_, job)| {
                    let is_late = job.limit_due_ms().is_some_and(|due_ms| wall_ms >= due_ms);
                    unheard(job) || job.taking.is_some() || job.stuck.is_due(now_ms) || is_late
                })
                .map(|(id, _)| *id),
        );
        for id in ids {
            self.judge(id);
            self.send_reports(id);
        }
    }
}

#[cfg(test)]
impl Controller {
    /// The job has ended well, and nobody has said that any of its output is lost.
    pub(super) fn is_complete(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.over && job.status == 0 && job.output.trouble.is_none())
    }

    pub(super) fn leftovers(&self) -> Vec<String> {
        let open = self.jobs.iter().filter(|(_, job)| !job.order.forget);
        open.map(|(id, job)| format!("job {id}: {job:?}")).collect()
    }
}
