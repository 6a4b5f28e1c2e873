//! The head: the jobs of the cluster. It chooses their nodes, and turns what their parts report into what is to be with them.
//!
//! ```text
//! Waiting --placed--> Starting --all ready--> peers are told --all running--> Running <--> Suspended
//!     \___________________________\__________________________|____________/
//!                  one part ends, a node is lost, a user kills
//!                                  v
//!                               Ending --all left--> leave --all over--> Over: forgotten by all but the list
//! ```
//!
//! The first part that ends a job says why; what happens elsewhere afterwards is a consequence, and not told. A job that is over
//! is forgotten when its home has all of its output and its last report.
//!
//! The head keeps nothing on a disk. One that has been started anew learns the jobs from the nodes, whose orders name everything
//! (`adopt_job`), for [`ADOPT_MS`]; what it has never heard of after that is ended where it turns up.

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
use job::HeadJob;
use listing::name;

/// Jobs that are over and still listed.
const OVER_MAX: usize = 1000;
/// Answers that are remembered, for questions asked twice.
const ANSWERS_MAX: usize = 4096;
/// Reports that are not heard are said again.
const AGAIN_MS: u64 = 1000;
/// So long a new head takes over jobs that it does not know.
const ADOPT_MS: u64 = 60_000;
/// A new head that is asked for a second time waits this long with a submission, in units of the time after which a node is lost: its
/// predecessor may have accepted it, and a node will say so.
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
    fn asked(self) -> Option<(NodeId, u64)> {
        match self {
            Filing::New(from, ask) | Filing::Changed(from, ask) => Some((from, ask)),
            Filing::Over(_) => None,
        }
    }
}

/// The jobs of the cluster.
#[derive(Debug)]
pub(super) struct Head {
    jobs: BTreeMap<JobId, HeadJob>,
    next_job: u64,
    /// Jobs by the question that submitted them.
    answers: VecDeque<((NodeId, u64), Answer)>,
    /// Jobs whose files are being written, each as often as it is.
    filing: BTreeMap<JobId, VecDeque<Filing>>,
    /// Jobs to be judged although none of their parts has said anything.
    pending: BTreeSet<JobId>,
    born_ms: u64,
    /// First job of this life: earlier ones that are not known are an earlier head's.
    first_job: u64,
    /// No node tells any more of jobs that this head does not know.
    settled: bool,
    /// Whom jobs wait for that stand still.
    lags: Lags,
    environments: Environments,
}

impl Head {
    pub(super) fn new(first_job: u64, now_ms: u64) -> Self {
        let first_job = first_job.max(1);
        Head {
            jobs: BTreeMap::new(),
            next_job: first_job,
            answers: VecDeque::new(),
            filing: BTreeMap::new(),
            pending: BTreeSet::new(),
            born_ms: now_ms,
            first_job,
            settled: false,
            lags: Lags::default(),
            environments: Environments::default(),
        }
    }

    /// The daemon of a node has been started anew: as a home it knows nothing of its jobs, and hears everything again.
    pub(super) fn renew_home(&mut self, node: NodeId) {
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| job.launch.home == node && !job.order.forget)
        {
            (job.heard, job.said_ms) = (0, 0);
            self.pending.insert(*id);
        }
    }

    /// Nodes may yet tell of this job, which this head does not know.
    fn may_learn(&self, id: JobId, now_ms: u64, lost_ms: u64) -> bool {
        id.0 < self.first_job && now_ms < self.born_ms + SETTLE_LOST * lost_ms
    }

    /// Some job is not over, or waits to be judged.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty() || self.jobs.values().any(|job| !job.order.forget)
    }

    /// The same question again has the same answer.
    fn remember(&mut self, from: NodeId, ask: u64, answer: Answer) {
        self.answers.push_back(((from, ask), answer));
        if self.answers.len() > ANSWERS_MAX {
            self.answers.pop_front();
        }
    }

    /// A node is gone, with all that ran on it.
    pub(super) fn lose_node(&mut self, node: NodeId, name: &str, now_ms: u64) {
        for (id, job) in self.jobs.iter_mut().filter(|(_, job)| !job.order.forget) {
            self.pending.insert(*id);
            if job.launch.index(node).is_some() && job.lost.insert(node) {
                let is_news = !job.is_ending() && !job.asked;
                job.end_by(Some(node), 1);
                if is_news {
                    let text =
                        format!("node {name} does not answer any more, its ranks are lost; the job is ended");
                    job.note_cause(text.clone());
                    job.say(Report::Warning(text));
                }
            } else if job.launch.home == node && !job.detached {
                job.end_by(None, 1);
            }
            job.said_ms = now_ms.saturating_sub(AGAIN_MS);
        }
    }
}

impl Core {
    /// This head does not know the job, and nodes may yet tell of it.
    fn is_unsettled(&self, id: JobId) -> bool {
        let (now_ms, lost_ms) = (self.now_ms, self.config.lost_ms);
        self.head
            .as_ref()
            .is_some_and(|head| !head.jobs.contains_key(&id) && head.may_learn(id, now_ms, lost_ms))
    }

    /// A node knows a job that the relay does not.
    pub(super) fn adopt_job(&mut self, id: JobId, order: Order) {
        let (Some(head), Some(launch)) = (&mut self.head, order.launch.clone()) else { return };
        let is_young = self.now_ms < head.born_ms + ADOPT_MS;
        // A file says that it waits, which its nodes know better: the file was about to be removed.
        if head.jobs.get(&id).is_some_and(HeadJob::is_held) {
            let removed = head.jobs.remove(&id);
            head.pending.extend(removed.iter().flat_map(HeadJob::named_before));
            self.actions.push_back(super::Action::Queue(id, None));
        }
        match head.jobs.get_mut(&id) {
            Some(job) if job.order.forget => {}
            Some(job) => {
                if job.adopted_until_ms.is_some() && order.version > job.order.version {
                    job.learn(&order);
                    self.publish(id);
                    self.head.iter_mut().for_each(|head| head.pending.extend([id]));
                }
                return;
            }
            None if is_young && id.0 < head.first_job && !order.forget => {
                let mut job = HeadJob::new(id, Launch::clone(&launch));
                job.learn(&order);
                job.adopted_until_ms = Some(self.now_ms + SETTLE_LOST * self.config.lost_ms);
                head.next_job = head.next_job.max(id.0 + 1);
                head.remember(launch.home, launch.ask, Answer::Job(id));
                head.jobs.insert(id, job);
                head.pending.insert(id);
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
        let Some(job) = self.head.as_mut().and_then(|head| head.jobs.get_mut(&id)) else { return };
        let Some(known) = self.relay.order(id) else { return };
        let order = &mut job.order;
        // Nodes may have had more orders from an earlier head than the one that this head took first.
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
        let Some(job) = self.head.as_mut().and_then(|head| head.jobs.get_mut(&id)) else { return };
        if job.order.forget {
            return;
        }
        let (started, said, was_over) = (job.told_started, job.notices.len(), job.over);
        job.judge_dependencies();
        let none = BTreeMap::new();
        let has_reached_limit = job.judge_limit(wall_ms);
        job.judge(self.relay.states(id).unwrap_or(&none), wall_ms);
        let (now_started, over, status) = (job.told_started, job.over, job.status);
        let is_suspended = job.order.run == Run::Stop;
        let text = job.cause.clone().unwrap_or_default();
        let (new, left) = (job.notices[said..].to_vec(), std::mem::take(&mut job.left));
        self.judge_snapshot(id);
        self.judge_stillness(id);
        self.forget_if_heard(id);
        self.publish(id);
        if now_started && !started {
            self.tell_gang_of_start(id, is_suspended);
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
        self.say_reports(id);
    }

    /// Whoever waits for the job, or for its output, is to hear that it is over.
    fn is_newly_done(&mut self, id: JobId) -> bool {
        let job = self.head.as_mut().and_then(|head| head.jobs.get_mut(&id));
        job.is_some_and(|job| job.note_done())
    }

    /// A job that is over is kept by its nodes until its home has everything, or is lost itself.
    fn forget_if_heard(&mut self, id: JobId) {
        let Some(head) = &mut self.head else { return };
        if head.jobs.get(&id).is_none_or(|job| !job.over) || head.is_owed(id) {
            return;
        }
        let Some(job) = head.jobs.get_mut(&id) else { return };
        let Some(members) = &self.members else { return };
        if job.heard >= job.notices.len() as u64 {
            job.order.forget = true;
            job.shed();
        } else if !members.is_alive(job.launch.home) && !job.waits_for_home(self.now_ms, self.config.keep_ms)
        {
            job.lose_output(&name(members, job.launch.home));
            // Should it come back, it ends with what it has.
            job.say_end(Vec::new());
            job.order.forget = true;
            job.shed();
        }
    }

    fn say_reports(&mut self, id: JobId) {
        let (now_ms, life) = (self.now_ms, self.config.about.incarnation);
        let Some(job) = self.head.as_mut().and_then(|head| head.jobs.get_mut(&id)) else { return };
        let first = job.heard;
        if first < job.notices.len() as u64 {
            job.said_ms = now_ms;
            let reports = job.notices[first as usize..].to_vec();
            let (home, ask) = (job.launch.home, job.launch.ask);
            self.route(home, Routed::Reports { job: id, ask, life, first, reports });
        }
    }

    pub(super) fn handle_contact(&mut self, from: NodeId, id: JobId, life: u64, below: u64) {
        let own_life = self.config.about.incarnation;
        let Some(head) = &mut self.head else { return };
        match head.jobs.get_mut(&id) {
            Some(job) if life == own_life && !job.order.forget => {
                let before = job.heard;
                job.heard = job.heard.max(below.min(job.notices.len() as u64));
                if job.over && job.heard > before {
                    head.pending.insert(id);
                    self.judge(id);
                }
            }
            Some(job) if !job.order.forget => job.said_ms = 0,
            // No node has it any more, and perhaps never this head: it ends with what its home has.
            known => {
                let is_settled = self.now_ms >= head.born_ms + SETTLE_LOST * self.config.lost_ms;
                let ended = known.map(|job| {
                    job.heard = job.notices.len() as u64;
                    (job.status, job.cause.clone())
                });
                if ended.is_some() || is_settled {
                    let first = if life == own_life { below } else { 0 };
                    let (status, cause) = ended.unwrap_or((1, None));
                    let reports = vec![Notice::End { status, written: Vec::new(), cause }];
                    self.route(from, Routed::Reports { job: id, ask: 0, life: own_life, first, reports });
                }
            }
        }
    }

    /// A home says what is with the files of a job's output.
    pub(super) fn handle_output_state(&mut self, id: JobId, output: Option<Box<OutputState>>) {
        let (Some(output), Some(head)) = (output, &mut self.head) else { return };
        let Some(job) = head.jobs.get_mut(&id) else { return };
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
                job.say(Report::Refused(format!("{text}; the job is ended")));
                job.end_by(None, 1);
                head.pending.insert(id);
            }
            (None, Some(text)) if !job.is_ending() => {
                job.say(Report::Warning(format!("{text}; what is not written is lost, the job goes on")));
                head.pending.insert(id);
            }
            _ => {}
        }
    }

    fn forget_oldest(&mut self) {
        let Some(head) = &mut self.head else { return };
        let over: Vec<JobId> =
            head.jobs.iter().filter(|(_, job)| job.order.forget).map(|(id, _)| *id).collect();
        for id in over.iter().take(over.len().saturating_sub(OVER_MAX)) {
            head.jobs.remove(id);
        }
    }

    pub(super) fn tick_head(&mut self) {
        let (now_ms, wall_ms) = (self.now_ms, self.wall_ms);
        self.release_held();
        self.settle_dependencies();
        let (Some(head), Some(members)) = (&mut self.head, &self.members) else { return };
        // A job of an earlier head ends if a node of it does not come back.
        let mut absent = BTreeSet::new();
        for job in head.jobs.values_mut().filter(|job| !job.order.forget) {
            if job.adopted_until_ms.is_some_and(|until_ms| now_ms >= until_ms) {
                job.adopted_until_ms = None;
                let nodes = job.launch.nodes.iter().chain([&job.launch.home]);
                absent.extend(nodes.filter(|node| !members.is_alive(**node)));
            }
        }
        for node in absent {
            head.lose_node(node, &name(members, node), now_ms);
        }
        let unheard =
            |job: &HeadJob| job.heard < job.notices.len() as u64 && now_ms >= job.said_ms + AGAIN_MS;
        let mut ids = std::mem::take(&mut head.pending);
        ids.extend(
            head.jobs
                .iter()
                .filter(|(_, job)| {
                    let is_late = job.limit_due_ms().is_some_and(|due_ms| wall_ms >= due_ms);
                    unheard(job) || job.taking.is_some() || job.stuck.is_due(now_ms) || is_late
                })
                .map(|(id, _)| *id),
        );
        for id in ids {
            self.judge(id);
            self.say_reports(id);
        }
    }
}

#[cfg(test)]
impl Head {
    /// The job has ended well, and nobody has said that any of its output is lost.
    pub(super) fn is_complete(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.over && job.status == 0 && job.output.trouble.is_none())
    }

    pub(super) fn leftovers(&self) -> Vec<String> {
        let open = self.jobs.iter().filter(|(_, job)| !job.order.forget);
        open.map(|(id, job)| format!("job {id}: {job:?}")).collect()
    }
}
