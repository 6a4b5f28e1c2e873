//! The controller: the jobs of the cluster. It chooses their nodes, and turns what their parts report into
//! what is to be with them.
//!
//! ```text
//! Waiting --placed--> Starting --all ready--> peers are notified --all running--> Running <--> Suspended
//!     \___________________________\__________________________|____________/
//!                  one part ends, a node is lost, a user kills
//!                                  v
//!                               Ending --all left--> leave --all over--> Over: forgotten by all but the list
//! ```
//!
//! The first part that ends a job says why; what happens elsewhere afterwards is a consequence, and not told.
//! A job that is over is forgotten when its origin has all of its output and its last report.
//!
//! The controller keeps nothing of jobs that run on a disk. One that has been started anew learns the jobs
//! from the nodes, whose orders name everything (`adopt_job`), for a minute (`jobs::ADOPT_MS`); what it has
//! never heard of after that is ended where it turns up.

use std::collections::{BTreeMap, BTreeSet};

use tutti_protocol::config::Rules;
use tutti_protocol::mail::MailEvent;
use tutti_protocol::public::PublicRow;
use tutti_protocol::wire::{Report, Used};
use tutti_sched::controller::Lags;
use tutti_sched::market::NodeUse;

use super::action::Action;
use super::context::Context;
use super::job_event::JobEvent;
use super::local::LocalNode;
use super::relay::Relay;
use crate::gang::{Command, ServedReport, SwitchEvent};
use crate::members::NodeId;
use crate::message::output::OutputState;
use crate::message::{Answer, EndKind, Environments, JobId, Launch, Notice, Order, Routed, Run};

mod allocation;
mod allowance;
mod answers;
mod arrays;
mod bounds;
mod change;
mod configuration;
mod connections;
mod control;
mod dependencies;
mod drains;
mod filings;
pub(in crate::core) mod gpus;
mod job;
mod jobs;
mod late;
mod listing;
mod log;
mod mails;
mod messages;
pub(super) mod placement;
mod queue;
mod relations;
mod requests;
mod requeue;
mod reservations;
mod reserved;
mod scheduler;
mod shares;
mod start_rules;
mod steps;
mod waits;
mod watch;

use answers::Answers;
pub(super) use answers::Asker;
use filings::Filings;
use job::{JobRecord, News};
use jobs::{Jobs, SETTLE_LOST};

/// State of the controller.
#[derive(Debug)]
pub(super) struct Controller {
    jobs: Jobs,
    answers: Answers,
    filings: Filings,
    /// No node tells any more of jobs that this controller does not know.
    settled: bool,
    /// Whom jobs wait for that stand still.
    lags: Lags,
    environments: Environments,
    rules: Rules,
    /// The version of the configuration that each node has stored.
    versions: BTreeMap<NodeId, u64>,
    /// Last report of the switch thread, on what jobs and users have had.
    served: ServedReport,
    /// Users with daemons of their own who share this machine with ours, and whether others are hidden.
    sharers: (Vec<u32>, bool),
    drains: drains::Drains,
    reservations: reserved::Reservations,
    /// Jobs that are connected to each other, as the scheduler knows it.
    connections: BTreeSet<connections::Pair>,
    messages: messages::Messages,
    /// Changes for readers that follow what there is.
    watched: watch::Watched,
}

impl Controller {
    pub(super) fn new(first_job: u64, now_ms: u64, rules: Rules) -> Self {
        Controller {
            jobs: Jobs::new(first_job, now_ms),
            answers: Answers::default(),
            filings: Filings::default(),
            settled: false,
            lags: Lags::default(),
            environments: Environments::default(),
            rules,
            versions: BTreeMap::new(),
            served: ServedReport::default(),
            sharers: Default::default(),
            drains: drains::Drains::default(),
            reservations: reserved::Reservations::default(),
            connections: BTreeSet::new(),
            messages: messages::Messages::default(),
            watched: watch::Watched::default(),
        }
    }

    /// The daemon of a node has been started anew.
    pub(super) fn renew_origin(&mut self, node: NodeId) {
        self.versions.remove(&node);
        self.jobs.renew_origin(node);
    }

    /// A node is gone, with all that ran on it.
    pub(super) fn lose_node(&mut self, cx: Context<'_>, node: NodeId, name: &str) {
        self.jobs.lose_node(node, name);
        self.requeue_lost(cx, node);
    }

    /// Some job is not over, or waits to be judged.
    pub(super) fn is_busy(&self) -> bool {
        self.jobs.is_busy()
    }

    /// Rows of the jobs that are not over, with what every user of the machine may know of them.
    pub(super) fn public_rows(
        &self,
        local: &LocalNode,
        relay: &Relay,
        with_arguments: bool,
    ) -> Vec<PublicRow> {
        listing::public_rows(&self.jobs, &self.lags, local, relay, with_arguments)
    }

    /// A node has counted what jobs have had.
    pub(super) fn handle_use(&mut self, node: NodeId, found: &NodeUse) {
        self.messages.handle_use(&self.jobs, node, found);
    }

    /// A node knows a job that the relay does not.
    pub(super) fn adopt_job(&mut self, cx: Context<'_>, relay: &mut Relay, id: JobId, order: Order) {
        let Some(launch) = order.launch.clone() else { return };
        // A file says that it waits, which its nodes know better: the file was about to be removed.
        if self.jobs.get(id).is_some_and(JobRecord::is_held) {
            self.jobs.remove(id);
            cx.out.act(Action::Queue(id, None));
        }
        let may_adopt = self.jobs.may_adopt(id, cx.local.now_ms);
        match self.jobs.get_mut(id) {
            Some(job) if job.order.forget => {}
            Some(job) => {
                if job.is_adopted() && order.version > job.order.version {
                    job.learn(&order);
                    self.publish(relay, id);
                    self.jobs.pending.insert(id);
                }
                return;
            }
            None if may_adopt && !order.forget => {
                let mut job = JobRecord::new(id, Launch::clone(&launch));
                job.learn(&order);
                job.adopt_until(cx.local.now_ms + SETTLE_LOST * cx.local.config.lost_ms);
                let restart = self.jobs.waiting_restart_of(id);
                restart.into_iter().for_each(|new| job.end_for(new));
                self.answers.remember((launch.origin, launch.request_id), Answer::Job(id));
                self.jobs.insert(id, job);
                self.jobs.pending.insert(id);
                // Some may have been submitted behind it when it was not known which job takes its place, and
                // its controller may have died before their files said so.
                self.follow_adopted(cx.out, id);
                // Down to all its nodes, this one too: each says what it has of it.
                relay.set_order(id, Order { hold: None, ..order });
                self.publish(relay, id);
                let owner = self.owner(cx.local, launch.user);
                self.jobs.get(id).into_iter().for_each(|job| scheduler::submit_found(cx.out, job, owner));
                return log::log(cx, id, JobEvent { event: "adopted", ..JobEvent::default() });
            }
            None => {}
        }
        relay.learn(id, order);
        relay.end_entry(id);
    }

    /// The order goes down if it has changed.
    fn publish(&mut self, relay: &mut Relay, id: JobId) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        let Some(known) = relay.order(id) else { return };
        let order = &mut job.order;
        // Nodes may have had more orders from an earlier controller than the one that this controller took
        // first.
        let newest = std::mem::replace(&mut order.version, known.version).max(known.version);
        if *known != *order || newest > known.version {
            order.version = newest + 1;
            let order = order.clone();
            relay.set_order(id, order);
        }
    }

    /// The scheduler says something.
    pub(super) fn handle_gang(&mut self, cx: Context<'_>, relay: &mut Relay, event: SwitchEvent) {
        match event {
            SwitchEvent::Placed(job, parts) => self.handle_placed(cx, relay, job, &parts),
            SwitchEvent::Waits(job, why) => self.handle_waits(cx, job, &why),
            SwitchEvent::Withdrawn(job) => self.handle_withdrawn(job),
            SwitchEvent::Refused(job, why) => self.handle_refused(cx, relay, job, &why),
            SwitchEvent::Served(served) => {
                for served in &served.jobs {
                    if let Some(job) = self.jobs.get_mut(served.job) {
                        job.record_served(*served);
                    }
                }
                self.served = served;
            }
            SwitchEvent::Notice(notice) => late::report_late(cx, notice),
            SwitchEvent::Lags(lags) => self.lags = lags,
            // The parts' own.
            SwitchEvent::Relay(..)
            | SwitchEvent::LogLine(_)
            | SwitchEvent::UserLine(..)
            | SwitchEvent::Method(..)
            | SwitchEvent::Moved(_)
            | SwitchEvent::Context(..) => {}
        }
    }

    /// States of a job have changed, or something else that its order depends on.
    pub(super) fn judge(&mut self, cx: Context<'_>, relay: &mut Relay, id: JobId) {
        let (now_ms, wall_ms, now) = (cx.local.now_ms, cx.local.wall_ms, cx.local.clocks());
        let puts_bytes_max = self.puts_bytes_max(cx.local, relay, id);
        let has_steps = self.has_steps(id);
        let (Some(job), Some(members)) = (self.jobs.get_mut(id), &cx.local.members) else { return };
        if job.order.forget {
            return;
        }
        let (was_started, reported, was_over) = (job.has_started(), job.reports.next(), job.is_over());
        job.judge_dependencies();
        job.judge_array();
        let warning = job.judge_warning(now.boot_ms);
        let has_reached_limit = job.judge_limit(now.boot_ms, has_steps);
        let none = BTreeMap::new();
        let states = relay.states(id).unwrap_or(&none);
        job.judge(states, now, (puts_bytes_max, has_steps));
        let (new, News { left, fillings, unprepared }) =
            (job.reports.from(reported).to_vec(), job.take_news());
        let is_started = job.has_started() && !was_started;
        let is_over = job.is_over() && !was_over;
        let is_suspended = job.order.run == Run::Stop;
        let (status, text) = (job.end.status(), job.end.cause().unwrap_or_default().to_owned());
        if let Some((requesters, answer)) = job.judge_snapshot(states, members, (now_ms, wall_ms)) {
            for (node, request_id) in requesters {
                cx.out.route(node, Routed::answer(request_id, answer.clone()));
            }
        }
        let is_now_suspended = job.judge_stall(relay.states(id), (now_ms, now))
                // A script that waits for its steps works.
                || !has_steps && job.judge_idle(relay.states(id), now);
        job.note_libraries(relay.states(id));
        let is_connected_otherwise = job.judge_connections(relay.states(id));
        self.begin_elsewhere(cx, id, &unprepared);
        let is_open = |job: &JobRecord| job.is_over() && !job.is_done();
        let is_awaited = self.jobs.get(id).is_some_and(is_open) && self.awaits_successor(id, now_ms);
        if !is_awaited {
            self.jobs.forget_if_received(id, members, now_ms, cx.local.config.keep_ms);
        }
        self.publish(relay, id);
        if is_connected_otherwise {
            self.settle_connections(cx);
        }
        let Some(job) = self.jobs.get(id) else { return };
        if is_started {
            // One that an earlier controller had may be suspended, which the scheduler does not know.
            cx.out.act(Action::Gang(Command::JobStarted(id)));
            if is_suspended {
                scheduler::suspend(cx.out, job, true);
            }
            log::log_start(cx, job);
            mails::of(&self.jobs, cx.local, id, MailEvent::Begin)
                .into_iter()
                .for_each(|mail| cx.out.act(mail));
        }
        let Some(job) = self.jobs.get(id) else { return };
        if is_now_suspended {
            scheduler::suspend(cx.out, job, true);
            log::log(cx, id, JobEvent { event: "suspended", ..JobEvent::default() });
        }
        if has_reached_limit {
            log::log_limit(cx, job);
        }
        let step_of = job.launch.steps.owner;
        new.iter().for_each(|notice| log::log_notice(cx, job, notice));
        log::log_fillings(cx, id, fillings);
        log::log_left(cx, id, left);
        if is_over {
            self.messages.forget(id);
            scheduler::leave(cx.out, job);
            let (used, ended_how) = (job.used(), job.how_ended());
            let event = JobEvent {
                event: "over",
                status: Some(status),
                text,
                used,
                ended_how,
                ..JobEvent::default()
            };
            log::log(cx, id, event);
            mails::of(&self.jobs, cx.local, id, MailEvent::End).into_iter().for_each(|mail| cx.out.act(mail));
            self.jobs.note_end();
        }
        if let Some(signal) = warning {
            self.warn_steps(cx, relay, id, signal);
        }
        if has_reached_limit {
            self.end_steps_at_limit(cx, relay, id);
        }
        if has_steps {
            self.end_steps_of_ended(cx, relay, id);
        }
        if let Some(owner) = step_of.filter(|_| is_over) {
            self.judge(cx, relay, owner);
        }
        // Whoever waits for the job, or for its output, is to hear that it is over.
        if !is_awaited && self.jobs.get_mut(id).is_some_and(JobRecord::poll_done) {
            let with_losses = self.jobs.get(id).filter(|job| job.output().lost_bytes > 0);
            with_losses.into_iter().for_each(|job| log::log_files(cx, job));
            self.answer_waiters(cx, relay, id);
            self.release_dependents(cx.out, id);
            self.retry_waiting();
        }
        self.send_reports(cx, id);
    }

    /// Bytes that the ranks of a job may have put over PMI. The owner of the daemon has no bound.
    fn puts_bytes_max(&self, local: &LocalNode, relay: &Relay, id: JobId) -> usize {
        let (Some(job), Some(states)) = (self.jobs.get(id), relay.states(id)) else { return usize::MAX };
        if job.launch.user.account().uid == local.config.owner || !job.has_new_puts(states) {
            return usize::MAX;
        }
        bounds::room_for_puts(&self.jobs.records, id)
    }

    pub(super) fn send_reports(&mut self, cx: Context<'_>, id: JobId) {
        let (now_ms, incarnation) = (cx.local.now_ms, cx.local.config.about.incarnation);
        let Some(job) = self.jobs.get_mut(id) else { return };
        if let Some((first, reports)) = job.reports.take_unreceived(now_ms) {
            let (origin, request_id) = (job.launch.origin, job.launch.request_id);
            cx.out.route(origin, Routed::Reports { job: id, request_id, incarnation, first, reports });
        }
    }

    /// An origin has these reports of a job, of this controller in that incarnation.
    pub(super) fn handle_contact(
        &mut self,
        cx: Context<'_>,
        relay: &mut Relay,
        from: NodeId,
        id: JobId,
        (incarnation, below): (u64, u64),
    ) {
        let own_incarnation = cx.local.config.about.incarnation;
        match self.jobs.get_mut(id) {
            Some(job) if incarnation == own_incarnation && !job.order.forget => {
                if job.reports.record_received(below) && job.is_over() {
                    self.jobs.pending.insert(id);
                    self.judge(cx, relay, id);
                }
            }
            Some(job) if !job.order.forget => job.reports.hasten(),
            // No node has it any more, and perhaps never this controller: it ends with what its origin has.
            known => {
                let ended = known.map(|job| {
                    job.reports.give_up();
                    job.end.notice(Vec::new(), None)
                });
                if ended.is_some() || self.jobs.is_settled(cx.local.now_ms, cx.local.config.lost_ms) {
                    let first = if incarnation == own_incarnation { below } else { 0 };
                    let unknown = Notice::End {
                        status: 1,
                        written: Vec::new(),
                        cause: None,
                        counted: None,
                        cause_report: None,
                    };
                    cx.out.route(
                        from,
                        Routed::Reports {
                            job: id,
                            request_id: 0,
                            incarnation: own_incarnation,
                            first,
                            reports: vec![ended.unwrap_or(unknown)],
                        },
                    );
                }
            }
        }
    }

    /// Processes of a job are gone on a node.
    pub(super) fn handle_used(&mut self, id: JobId, used: Used) {
        if let Some(job) = self.jobs.get_mut(id) {
            job.add_used(used);
        }
    }

    /// An origin says what is with the files of a job's output.
    pub(super) fn handle_output_state(
        &mut self,
        cx: Context<'_>,
        id: JobId,
        output: Option<Box<OutputState>>,
    ) {
        let Some(output) = output else { return };
        let Some(job) = self.jobs.get_mut(id) else { return };
        let before = job.record_output(*output);
        if before.inode.is_none() && job.output().inode.is_some() {
            log::log_files(cx, job);
        }
        let is_news =
            |before: &Option<String>, now: &Option<String>| now.clone().filter(|_| before.is_none());
        let refused = is_news(&before.refused, &job.output().refused);
        let trouble = is_news(&before.trouble, &job.output().trouble);
        match (refused, trouble) {
            // Its ranks were faster than the writer of its files.
            (Some(text), _) if job.is_ending() => {
                job.fail_late(text.clone());
                log::log(cx, id, JobEvent { event: "said", text, ..JobEvent::default() });
            }
            (Some(text), _) => {
                job.end.mark(EndKind::Failed);
                job.report(Report::Refused(format!("{text}; the job is ended")));
                job.end_by(None, 1);
                self.jobs.pending.insert(id);
            }
            (None, Some(text)) if !job.is_ending() => {
                job.report(Report::Warning(format!(
                    "{text}; what is not written is lost, the job continues"
                )));
                self.jobs.pending.insert(id);
            }
            _ => {}
        }
    }

    /// A job of an earlier controller ends if a node of it does not come back, or begins anew.
    fn lose_absent(&mut self, cx: Context<'_>) {
        let Some(members) = &cx.local.members else { return };
        for node in self.jobs.take_absent(members, cx.local.now_ms) {
            self.lose_node(cx, node, &members.name(node));
        }
    }

    /// Releases jobs for which what they have waited for may have come.
    pub(super) fn release_waiting(&mut self, cx: Context<'_>) {
        self.lose_absent(cx);
        self.pass_reservations(cx.local).into_iter().for_each(|action| cx.out.act(action));
        self.release_held(cx);
        self.settle_dependencies(cx);
    }

    /// The jobs that are to be judged since time has passed.
    pub(super) fn take_due(&mut self, local: &LocalNode) -> BTreeSet<JobId> {
        if local.members.is_none() {
            return BTreeSet::new();
        }
        self.jobs.take_due(local.now_ms, local.clocks())
    }
}

#[cfg(test)]
impl Controller {
    /// The job has ended well, and nobody has said that any of its output is lost.
    pub(super) fn is_complete(&self, job: JobId) -> bool {
        self.jobs
            .get(job)
            .is_some_and(|job| job.is_over() && job.end.status() == 0 && job.output().trouble.is_none())
    }

    /// Trouble with the output of the job.
    pub(super) fn output_trouble(&self, job: JobId) -> Option<String> {
        self.jobs.get(job)?.output().trouble.clone()
    }

    /// Jobs that the scheduler has not been asked for are about to be looked at anew, all of them.
    pub(super) fn looks_anew(&self) -> bool {
        self.jobs.retries
    }

    /// Checks that what is kept beside the records of jobs is what these say.
    pub(super) fn check_relations(&self) {
        let mut found = relations::Relations::default();
        self.jobs.all().into_iter().for_each(|(id, job)| found.insert(id, &job.launch));
        assert_eq!(self.jobs.relations, found);
        self.jobs.check_past();
    }

    pub(super) fn leftovers(&self) -> Vec<String> {
        self.jobs.records.iter().map(|(id, job)| format!("job {id}: {job:?}")).collect()
    }
}
