//! The origin of a job: the node where it was submitted. It has the front end, if there is one, what the job
//! has written lately, and the questions that users of this node ask the controller.
//!
//! To its front end the origin looks like a starter of all ranks: the same frames, both ways.

use std::collections::{BTreeMap, VecDeque};

use tutti_protocol::wire::{self, Counted, Kind, Report};

use super::action::Action;
use super::context::Context;
use super::event::WriterEvent;
use super::fair::fair_share;
use super::journal::Journal;
use super::local::LocalNode;
use super::outbox::Outbox;
use super::outlet::FIRST_ROOM_BYTES;
use crate::ids::ClientId;
use crate::members::NodeId;
use crate::message::output::OutputPlan;
use crate::message::{Account, Answer, JobId, Notice, Routed, User};

mod comeback;
mod files;
mod front_end;
mod input;
mod late_stop;
mod output;
mod requests;

use comeback::Comeback;
use files::{FileActions, Files};
use input::Input;
use late_stop::LateStop;
use output::{Passed, Stream};
use requests::PendingRequest;

/// Jobs that are over whose output is kept. Whoever has most of them loses its oldest first.
const OVER_MAX: usize = 64;
/// A question without an answer is asked again.
const RESEND_MS: u64 = 1000;
/// A controller that has said nothing of a job for so long is asked whether it knows it.
const SILENCE_MS: u64 = 5000;
/// Time without progress of a job's files after which what is left to write of it, once it is over, is
/// given up.
const WRITING_MS: u64 = 60_000;
/// Reports that are remembered, so that a new controller does not say them again to the front end.
const REPORTED_MAX: usize = 1024;
/// Warnings of a job that are kept when it is over, and bytes of each.
const WARNINGS_MAX: usize = 8;
const WARNING_BYTES_MAX: usize = 1 << 10;

#[derive(Debug, Default)]
struct OriginJob {
    client: Option<ClientId>,
    user: Option<User>,
    /// Whether its mpiexec has what it writes.
    enrolled: bool,
    /// Whether its front end's death is its own.
    coupled: bool,
    /// The front end's process is stopped.
    front_stopped: bool,
    /// Whether it may do so though its job goes on again.
    late_stop: LateStop,
    /// The job stands still.
    suspended: bool,
    streams: BTreeMap<NodeId, Stream>,
    /// Where the output goes, besides to who watches.
    files: Option<Box<Files>>,
    /// The controller has not heard what is with them.
    files_changed: bool,
    /// The node that has begun to say a line longer than a frame, and until when the others wait for its
    /// rest.
    line_holder: Option<(NodeId, u64)>,
    /// Bytes on their way to the front end.
    in_flight_bytes: usize,
    /// Whole frames.
    log: VecDeque<Passed>,
    log_bytes: usize,
    /// Reports that have been heard, of the controller in this incarnation of it.
    received: u64,
    incarnation: u64,
    /// When something was last heard of it, or asked.
    contact_ms: u64,
    /// When it was last asked for the rest of the output. Since the job is over the controller says so again
    /// and again, which is no answer.
    requested_ms: u64,
    /// Reports that the front end has been given.
    reported: Vec<Report>,
    /// The first warnings since its ranks have started, for who looks at it later.
    warnings: Vec<Warned>,
    end: Option<(u8, Vec<(NodeId, u64)>)>,
    /// Why it has ended, if not by itself.
    cause: Option<String>,
    /// Number of the report that has said so, in this incarnation of the controller.
    cause_report: Option<u64>,
    /// Counts of its ranks, if its user wants to know.
    counted: Option<Counted>,
    over: bool,
    input: Input,
    comeback: Comeback,
}

/// A warning of a job.
#[derive(Debug)]
struct Warned {
    /// Number of its report in this incarnation of the controller, if that has said it.
    number: Option<u64>,
    /// Text of it, as far as it is kept.
    text: String,
}

impl Warned {
    fn kept(text: &str) -> &str {
        &text[..text.floor_char_boundary(WARNING_BYTES_MAX)]
    }
}

/// State of a node as the origin of jobs.
#[derive(Debug, Default)]
pub(super) struct Origin {
    jobs: BTreeMap<JobId, OriginJob>,
    /// Of jobs whose nodes are not known here yet.
    journals: BTreeMap<JobId, Journal>,
    clients: BTreeMap<ClientId, JobId>,
    pending: BTreeMap<u64, PendingRequest>,
    /// Jobs that run already and are to take part, and who waits for the answer; none: it has gone away.
    enrolling: BTreeMap<JobId, Option<ClientId>>,
    last_request: u64,
    /// Whether nothing has been heard of the controller for so long that front ends were notified.
    controller_gone: bool,
    /// Before the first piece of stdin of a job: larger than any of an earlier incarnation of this daemon.
    pieces: u64,
}

impl Origin {
    pub(super) fn is_front_end(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Steps that are taken as time passes, in order. What each gives out is handed on before the next.
    pub(super) const TICK_STEPS: [fn(&mut Origin, Context<'_>); 7] = [
        Origin::resend_requests,
        Origin::notify_waiting,
        Origin::report_controller_state,
        Origin::resend_inputs,
        Origin::end_lines,
        Origin::tick_files,
        Origin::give_up_front_ends,
    ];

    /// Numbers of questions are never those of another incarnation.
    pub(super) fn begin(&mut self, incarnation: u64, wall_ms: u64, journals: Vec<(JobId, Journal)>) {
        self.last_request = incarnation;
        self.journals = journals.into_iter().collect();
        self.pieces = wall_ms << 16;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.jobs.values().all(|entry| entry.over)
    }
}

impl Origin {
    /// A report for the front end.
    fn report(&mut self, out: &Outbox, job: JobId, report: &Report) {
        let mut frame = Vec::new();
        wire::put_json(&mut frame, Kind::Report, report);
        self.give(out, job, frame);
    }

    fn give(&mut self, out: &Outbox, job: JobId, frame: Vec<u8>) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        if let Some(client) = entry.client {
            entry.in_flight_bytes += frame.len();
            out.act(Action::ToClient(client, frame));
        }
    }

    pub(super) fn handle_reports(
        &mut self,
        cx: Context<'_>,
        job: JobId,
        request_id: u64,
        (incarnation, first): (u64, u64),
        reports: Vec<Notice>,
    ) {
        // Reports of a job answer the question for it, should the answer have been lost.
        if self.pending.contains_key(&request_id) {
            self.handle_answer(cx, request_id, Answer::Job(job));
        }
        // Whose daemon was started anew has no such job, and begins one that nobody waits for.
        let entry = self.jobs.entry(job).or_default();
        if entry.incarnation != incarnation {
            (entry.incarnation, entry.received) = (incarnation, 0);
            entry.warnings.iter_mut().for_each(|warned| warned.number = None);
        }
        entry.contact_ms = cx.local.now_ms;
        for (number, notice) in (first..).zip(reports) {
            // Who has heard the end, and waits for output that no node has any more, asks for it until the
            // controller has forgotten the job.
            let is_last = request_id == 0 && matches!(notice, Notice::End { .. });
            let has_ended_well = matches!(notice, Notice::End { status: 0, .. });
            let is_next = |entry: &&mut OriginJob| number == entry.received || is_last && entry.end.is_some();
            let Some(entry) = self.jobs.get_mut(&job).filter(is_next) else { continue };
            entry.received = entry.received.max(number + 1);
            if is_last && has_ended_well {
                self.report_loss(cx.out, job);
            } else if let Notice::End { status: 0, written, .. } = &notice {
                self.report_losses_of_nodes(cx, job, written);
            }
            self.handle_notice(cx, job, (number, notice));
        }
        self.try_to_end(cx, job);
        // What the controller says of a job that it has forgotten is not to be said again.
        let Some(entry) = self.jobs.get(&job).filter(|_| request_id != 0) else { return };
        // The end has been heard when all that belongs before it is here.
        let below = if entry.end.is_some() && !entry.over { entry.received - 1 } else { entry.received };
        self.ack_reports(cx.out, job, below);
    }

    fn handle_notice(&mut self, cx: Context<'_>, job: JobId, (number, notice): (u64, Notice)) {
        let Some(entry) = self.jobs.get_mut(&job).filter(|entry| !entry.over) else { return };
        match notice {
            Notice::Placed { nodes, user, takers, output, has_front_end } => {
                entry.user = Some(user);
                if has_front_end && entry.streams.is_empty() && entry.client.is_none() && !entry.coupled {
                    entry.comeback.expect(cx.local.now_ms + cx.local.config.keep_ms);
                }
                let first = entry.streams.is_empty();
                for &node in &nodes {
                    let room = || Stream { limit: FIRST_ROOM_BYTES, ..Stream::default() };
                    entry.streams.entry(node).or_insert_with(room);
                }
                let plan = output.filter(|_| entry.files.is_none());
                if first {
                    self.begin_taking(job, takers);
                }
                if let Some(plan) = plan {
                    self.begin_files(cx, job, user, &nodes, *plan);
                }
            }
            Notice::Resumed => {
                entry.suspended = false;
                if let Some(client) = entry.client {
                    entry.front_stopped = false;
                    entry.late_stop.handle_resumed(cx.local.now_ms);
                    cx.out.act(Action::Continue(client));
                }
            }
            Notice::Report(Report::Suspended) => {
                let was_told = std::mem::replace(&mut entry.suspended, true);
                if !was_told && self.stops_front_end(job) {
                    self.jobs.get_mut(&job).into_iter().for_each(|entry| entry.late_stop.handle_asked());
                    self.report(cx.out, job, &Report::Suspended);
                }
            }
            Notice::Report(report) => {
                if entry.reported.contains(&report) {
                    // A new controller says it again, under another number.
                    if let Report::Warning(text) = &report {
                        let again =
                            entry.warnings.iter_mut().find(|warned| warned.text == Warned::kept(text));
                        again.into_iter().for_each(|warned| warned.number = Some(number));
                    }
                    return;
                }
                let has_started = |report: &Report| matches!(report, Report::Started { .. });
                if let Report::Warning(text) = &report
                    && entry.warnings.len() < WARNINGS_MAX
                    && entry.reported.iter().any(has_started)
                {
                    let text = Warned::kept(text).to_owned();
                    entry.warnings.push(Warned { number: Some(number), text });
                }
                if entry.reported.len() < REPORTED_MAX {
                    entry.reported.push(report.clone());
                }
                let wants = matches!(report, Report::Started { .. }) && entry.input.takers.is_empty();
                self.report(cx.out, job, &report);
                if wants {
                    self.report(cx.out, job, &Report::InputUnwanted);
                }
            }
            Notice::End { status, written, cause, counted, cause_report } => {
                if entry.end.is_none() {
                    entry.requested_ms = cx.local.now_ms;
                }
                (entry.end, entry.cause) = (Some((status, written)), cause);
                entry.cause_report = cause_report;
                entry.counted = counted;
            }
        }
    }

    /// The controller has forgotten a job whose end is not here: its nodes no longer have what it wrote.
    fn report_loss(&mut self, out: &Outbox, job: JobId) {
        let Some(entry) = self.jobs.get(&job).filter(|entry| !entry.over) else { return };
        let has_all = |written: &[(NodeId, u64)]| {
            let have = |node| entry.streams.get(node).map_or(0, |stream| stream.have);
            written.iter().all(|(node, end)| have(node) >= *end)
        };
        if entry.end.as_ref().is_none_or(|(_, written)| !has_all(written)) {
            let text = format!(
                "the end of the output of job {job} may be lost: this node was away when it ended, or nodes \
                 of it are gone"
            );
            self.report(out, job, &Report::Warning(text));
        }
    }

    /// A job has ended well, with these places as the ends of its output: of a node that is not among them
    /// nothing more comes. If an earlier end has named one, this node may have had all.
    fn report_losses_of_nodes(&mut self, cx: Context<'_>, job: JobId, written: &[(NodeId, u64)]) {
        let is_waiting = |entry: &&OriginJob| !entry.over && !entry.enrolled;
        let Some(entry) = self.jobs.get(&job).filter(is_waiting) else { return };
        let end_of = |written: &[(NodeId, u64)], node| {
            written.iter().find(|(other, _)| *other == node).map(|(_, end)| *end)
        };
        let lacks = |(node, stream): &(&NodeId, &Stream)| {
            let earlier = entry.end.as_ref().map(|(_, written)| end_of(written, **node));
            let lacked = earlier.is_none_or(|end| end.is_some_and(|end| stream.have < end));
            // A starter that has died while it said all again has said less than it had.
            let is_less = |end: u64| earlier.flatten().is_some_and(|before| end < before);
            lacked && end_of(written, **node).is_none_or(is_less)
        };
        let lost: Vec<NodeId> = entry.streams.iter().filter(lacks).map(|(node, _)| *node).collect();
        for node in lost {
            let members = cx.local.members.as_ref();
            let name = members.map_or_else(|| node.to_string(), |members| members.name(node));
            let text = format!(
                "the end of the output of job {job} may be lost: node {name} had it, and nothing of the job is \
                 left there"
            );
            self.report(cx.out, job, &Report::Warning(text.clone()));
            let Some(entry) = self.jobs.get_mut(&job) else { return };
            if let Some(files) = &mut entry.files {
                files.status.trouble.get_or_insert_with(|| text.clone());
                entry.files_changed = true;
            }
            if entry.warnings.len() < WARNINGS_MAX {
                entry.warnings.push(Warned { number: None, text: Warned::kept(&text).to_owned() });
            }
        }
    }

    /// The end is told when all output is there.
    fn try_to_end(&mut self, cx: Context<'_>, job: JobId) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let Some((_, written)) = &entry.end else { return };
        let complete = written
            .iter()
            .all(|(node, end)| entry.streams.get(node).is_none_or(|stream| stream.have >= *end));
        if !complete || entry.over {
            return;
        }
        // No rest of a line comes any more.
        entry.line_holder = None;
        self.pass_frames(cx, job);
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        if entry.files.as_ref().is_some_and(|files| !files.is_empty()) {
            return;
        }
        self.end_files(cx.out, job);
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let Some((status, _)) = &entry.end else { return };
        entry.over = true;
        let report = Report::End { status: *status };
        let counted = entry.counted.take().map(Report::Counted);
        let below = entry.received;
        entry.streams.clear();
        entry.reported.clear();
        self.ack_reports(cx.out, job, below);
        counted.iter().chain([&report]).for_each(|report| self.report(cx.out, job, report));
        if let Some(client) = self.jobs.get_mut(&job).and_then(|entry| entry.client.take()) {
            self.clients.remove(&client);
            // One that stands still with its job is to see the end of it.
            cx.out.act(Action::Continue(client));
            cx.out.act(Action::Release(client));
        }
        self.forget_old(cx.out);
    }

    /// How far the reports of a job have been heard, and what is with its files.
    fn ack_reports(&mut self, out: &Outbox, job: JobId, below: u64) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.files_changed = false;
        let output = entry.files.as_ref().map(|files| Box::new(files.status.clone()));
        let incarnation = entry.incarnation;
        out.route(NodeId::CONTROLLER, Routed::ReportsReceived { job, incarnation, below, output });
    }

    /// A job that writes to files has its nodes: the files are opened.
    fn begin_files(&mut self, cx: Context<'_>, job: JobId, user: User, nodes: &[NodeId], plan: OutputPlan) {
        let name = |node: &NodeId| {
            let member = cx.local.members.as_ref().and_then(|members| members.nodes.get(node));
            member.map_or_else(|| node.to_string(), |member| member.about.name.clone())
        };
        let names: Vec<String> = nodes.iter().map(name).collect();
        let journal = self.journals.remove(&job);
        let mut files = Box::new(Files::new(job, plan, &names, journal, cx.local.now_ms));
        let actions = files.begin();
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        (entry.files, entry.user) = (Some(files), Some(user));
        self.apply_file_actions(cx.out, job, actions);
    }

    /// The writer of a job says something.
    pub(super) fn handle_writer(&mut self, cx: Context<'_>, job: JobId, reported: WriterEvent) {
        let now_ms = cx.local.now_ms;
        let Some(files) = self.files_of(job) else { return };
        let actions = match reported {
            WriterEvent::Opened(opened) => files.handle_opened(opened, now_ms),
            WriterEvent::Written(written) => files.handle_written(written, now_ms),
            WriterEvent::Gone(text) => files.handle_gone(&text),
        };
        self.apply_file_actions(cx.out, job, actions);
        self.write_on(cx.out, job);
        self.try_to_end(cx, job);
    }

    fn files_of(&mut self, job: JobId) -> Option<&mut Files> {
        self.jobs.get_mut(&job)?.files.as_deref_mut()
    }

    /// The next batch, if there is one and the writer has none.
    fn write_on(&mut self, out: &Outbox, job: JobId) {
        let Some(files) = self.files_of(job) else { return };
        let actions = files.poll();
        self.apply_file_actions(out, job, actions);
    }

    fn apply_file_actions(&mut self, out: &Outbox, job: JobId, actions: FileActions) {
        if let Some(journal) = actions.journal {
            out.act(Action::RecordOutput(job, Box::new(journal)));
        }
        if let Some(open) = actions.open {
            let entry = self.jobs.get(&job);
            let Some((user, files)) = entry.and_then(|entry| entry.user.zip(entry.files.as_ref())) else {
                return;
            };
            let groups = files.groups().to_vec();
            out.act(Action::OpenFiles(job, user, groups, Box::new(open)));
        }
        if !actions.frames.is_empty() {
            out.act(Action::WriteFiles(job, actions.frames));
        }
        if actions.close {
            out.act(Action::CloseFiles(job));
        }
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let mut nodes = actions.taken;
        if actions.resumes {
            nodes.extend(entry.streams.keys());
        }
        if actions.status_changed {
            let below = if entry.end.is_some() && !entry.over { entry.received - 1 } else { entry.received };
            self.ack_reports(out, job, below);
        } else {
            entry.files_changed |= entry.files.as_ref().is_some_and(|files| files.status.lost_bytes > 0);
        }
        nodes.into_iter().for_each(|node| self.give_room(out, job, node, true));
    }

    /// All output of a job is in its files.
    fn end_files(&mut self, out: &Outbox, job: JobId) {
        if let Some(files) = self.files_of(job) {
            let actions = files.end();
            self.apply_file_actions(out, job, actions);
        } else if self.journals.remove(&job).is_some() {
            // It has never had nodes.
            out.act(Action::ForgetOutput(job));
        }
    }

    /// The controller hears what has been lost, once a tick at most; what is not taken for long is given up
    /// when it is the last.
    fn tick_files(&mut self, cx: Context<'_>) {
        let now_ms = cx.local.now_ms;
        let (mut changed, mut stuck) = (Vec::new(), Vec::new());
        for (job, entry) in self.jobs.iter_mut().filter(|(_, entry)| !entry.over) {
            let Some(files) = &entry.files else { continue };
            if entry.files_changed {
                changed.push((*job, if entry.end.is_some() { entry.received - 1 } else { entry.received }));
            }
            if entry.end.is_some() && !files.is_empty() && now_ms >= files.moved_ms + WRITING_MS {
                stuck.push(*job);
            }
        }
        changed.into_iter().for_each(|(job, below)| self.ack_reports(cx.out, job, below));
        for job in stuck {
            let Some(files) = self.files_of(job) else { continue };
            let actions = files.refuse(format!("its files have taken nothing for {} s", WRITING_MS / 1000));
            self.apply_file_actions(cx.out, job, actions);
            self.try_to_end(cx, job);
        }
    }

    fn forget_old(&mut self, out: &Outbox) {
        let mut over: BTreeMap<Option<Account>, Vec<JobId>> = BTreeMap::new();
        for (job, entry) in self.jobs.iter().filter(|(_, entry)| entry.over) {
            over.entry(entry.user.map(|user| user.account())).or_default().push(*job);
        }
        let most = fair_share(over.values().map(Vec::len), OVER_MAX);
        let old = over.values().flat_map(|jobs| jobs.iter().take(jobs.len().saturating_sub(most)));
        for job in old {
            let had_files = self.jobs.remove(job).is_some_and(|entry| entry.files.is_some());
            if had_files {
                out.act(Action::ForgetOutput(*job));
            }
        }
    }

    /// Tells who watches a job once that nothing is heard of the controller, and once that it is back.
    fn report_controller_state(&mut self, cx: Context<'_>) {
        let silent_ms = cx.local.controller_silent_ms();
        let is_gone = silent_ms >= cx.local.config.lost_ms;
        if std::mem::replace(&mut self.controller_gone, is_gone) == is_gone {
            return;
        }
        let name = &cx.local.config.about.name;
        let text = match is_gone {
            false => format!("{name} is connected to the controller again"),
            true => format!(
                "{name} has had no message from the controller for {} s: until it is back the job stays as it is, running or frozen",
                silent_ms / 1000
            ),
        };
        let watched = self.jobs.iter().filter(|(_, entry)| entry.client.is_some() && !entry.over);
        let watched: Vec<JobId> = watched.map(|(job, _)| *job).collect();
        watched.into_iter().for_each(|job| self.report(cx.out, job, &Report::Warning(text.clone())));
    }

    /// Jobs that are asked for: what the controller has said nothing of for long it may not know any more;
    /// what a node owes it may not know that.
    pub(super) fn take_silent_jobs(&mut self, local: &LocalNode) -> Vec<JobId> {
        let now_ms = local.now_ms;
        let mut silent = Vec::new();
        for (job, entry) in self.jobs.iter_mut().filter(|(_, entry)| !entry.over) {
            let due_ms = if entry.end.is_some() {
                entry.requested_ms + RESEND_MS
            } else {
                entry.contact_ms + SILENCE_MS
            };
            if now_ms >= due_ms {
                (entry.contact_ms, entry.requested_ms) = (now_ms, now_ms);
                silent.push(*job);
            }
        }
        silent
    }

    /// The controller hears how far the reports of a job have come.
    pub(super) fn ask_controller(&mut self, out: &Outbox, job: JobId) {
        let Some(entry) = self.jobs.get(&job) else { return };
        let below = if entry.end.is_some() && !entry.over { entry.received - 1 } else { entry.received };
        self.ack_reports(out, job, below);
    }

    /// The nodes of a job hear what has come of its output.
    pub(super) fn ask_nodes(&mut self, out: &Outbox, job: JobId) {
        let Some(entry) = self.jobs.get(&job) else { return };
        let nodes: Vec<NodeId> = entry.streams.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.give_room(out, job, node, true));
    }
}

#[cfg(test)]
impl Origin {
    pub(super) fn leftovers(&self) -> Vec<String> {
        let pending = self.pending.values().map(|pending| format!("{pending:?}"));
        let open = self.jobs.iter().filter(|(_, entry)| !entry.over);
        let open = open.map(|(job, entry)| {
            format!(
                "origin of job {job}: streams {:?}, end {:?}, heard {}",
                entry.streams, entry.end, entry.received
            )
        });
        let clients = self.clients.iter().map(|client| format!("{client:?}"));
        pending.chain(open).chain(clients).collect()
    }
}
