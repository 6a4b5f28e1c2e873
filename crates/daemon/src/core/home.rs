//! The home of a job: the node where it was submitted. It has the front end, if there is one, what the job has written
//! lately, and the questions that users of this node ask the head.
//!
//! To its front end the home looks like a starter of all ranks: the same frames, both ways.

use std::collections::{BTreeMap, VecDeque};

use tutti_protocol::wire::{self, Kind, Report};

use super::parts::FIRST_ROOM_BYTES;
use super::{Action, ClientId, Core, WriterSaid};
use crate::members::NodeId;
use crate::message::output::OutputPlan;
use crate::message::{Answer, JobId, Notice, Routed, User};

mod files;
mod front_end;
mod input;
mod output;
mod questions;

pub use files::Journal;
use files::{Deeds, Files};
use input::Input;
use output::Stream;
use questions::Question;

/// Jobs that are over whose output is kept.
const OVER_MAX: usize = 64;
/// A question without an answer is asked again.
const AGAIN_MS: u64 = 1000;
/// A head that has said nothing of a job for so long is asked whether it knows it.
const SILENCE_MS: u64 = 5000;
/// What is left to write of a job that is over is given up when its files have taken nothing for so long.
const WRITING_MS: u64 = 60_000;
/// Reports that are remembered, so that a new head does not say them again to the front end.
const SAID_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Home {
    client: Option<ClientId>,
    user: Option<User>,
    /// Its mpiexec has what it writes.
    enrolled: bool,
    /// Its front end's death is its own.
    coupled: bool,
    /// The front end's process is stopped.
    front_stopped: bool,
    /// The job stands still.
    suspended: bool,
    streams: BTreeMap<NodeId, Stream>,
    /// Where the output goes, besides to who watches.
    files: Option<Box<Files>>,
    /// The head has not heard what is with them.
    files_changed: bool,
    /// The node that has begun to say a line longer than a frame, and until when the others wait for its rest.
    floor: Option<(NodeId, u64)>,
    /// Bytes on their way to the front end.
    under_way: usize,
    /// Whole frames.
    log: VecDeque<Vec<u8>>,
    log_bytes: usize,
    /// Reports that have been heard, of the head in this life of it.
    heard: u64,
    life: u64,
    /// When something was last heard of it, or asked.
    heard_ms: u64,
    /// When it was last asked for the rest of the output. Since the job is over the head says so again and again, which is no answer.
    asked_ms: u64,
    /// What the front end has been told.
    said: Vec<Report>,
    end: Option<(u8, Vec<(NodeId, u64)>)>,
    /// Why it has ended, if not by itself.
    cause: Option<String>,
    over: bool,
    input: Input,
}

/// What a node has as the home of jobs.
#[derive(Debug, Default)]
pub(super) struct Homes {
    homes: BTreeMap<JobId, Home>,
    /// Of jobs whose nodes are not known here yet.
    journals: BTreeMap<JobId, Journal>,
    clients: BTreeMap<ClientId, JobId>,
    questions: BTreeMap<u64, Question>,
    /// Jobs that run already and are to take part, and who waits for the answer; none: it has gone away.
    enrolling: BTreeMap<JobId, Option<ClientId>>,
    asked: u64,
    /// Nothing has been heard of the head for so long that front ends were told.
    head_gone: bool,
    /// Before the first piece of stdin of a job: larger than any of an earlier life of this daemon.
    pieces: u64,
}

impl Homes {
    pub(super) fn is_front_end(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Numbers of questions are never those of another life.
    pub(super) fn begin(&mut self, incarnation: u64, wall_ms: u64, journals: Vec<(JobId, Journal)>) {
        self.asked = incarnation;
        self.journals = journals.into_iter().collect();
        self.pieces = wall_ms << 16;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.questions.is_empty() && self.homes.values().all(|home| home.over)
    }
}

impl Core {
    /// A report for the front end.
    fn tell(&mut self, job: JobId, report: &Report) {
        let mut frame = Vec::new();
        wire::put_json(&mut frame, Kind::Report, report);
        self.give(job, frame);
    }

    fn give(&mut self, job: JobId, frame: Vec<u8>) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        if let Some(client) = home.client {
            home.under_way += frame.len();
            self.act(Action::ToClient(client, frame));
        }
    }

    pub(super) fn handle_reports(
        &mut self,
        job: JobId,
        ask: u64,
        life: u64,
        first: u64,
        reports: Vec<Notice>,
    ) {
        // Reports of a job answer the question for it, should the answer have been lost.
        if self.home.questions.contains_key(&ask) {
            self.handle_answer(ask, Answer::Job(job));
        }
        // Whose daemon was started anew has no such job, and begins one that nobody waits for.
        let home = self.home.homes.entry(job).or_default();
        if home.life != life {
            (home.life, home.heard) = (life, 0);
        }
        home.heard_ms = self.now_ms;
        for (number, notice) in (first..).zip(reports) {
            // Who has heard the end, and waits for output that no node has any more, asks for it until the head has forgotten the job.
            let is_last = ask == 0 && matches!(notice, Notice::End { .. });
            let is_next = |home: &&mut Home| number == home.heard || is_last && home.end.is_some();
            let Some(home) = self.home.homes.get_mut(&job).filter(is_next) else { continue };
            home.heard = home.heard.max(number + 1);
            self.handle_notice(job, notice);
        }
        self.try_to_end(job);
        // What the head says of a job that it has forgotten is not to be said again.
        let Some(home) = self.home.homes.get(&job).filter(|_| ask != 0) else { return };
        // The end has been heard when all that belongs before it is here.
        let below = if home.end.is_some() && !home.over { home.heard - 1 } else { home.heard };
        self.say_heard(job, below);
    }

    fn handle_notice(&mut self, job: JobId, notice: Notice) {
        let Some(home) = self.home.homes.get_mut(&job).filter(|home| !home.over) else { return };
        match notice {
            Notice::Placed { nodes, user, takers, output } => {
                let user = *home.user.get_or_insert(user);
                let first = home.streams.is_empty();
                for &node in &nodes {
                    let room = || Stream { limit: FIRST_ROOM_BYTES, ..Stream::default() };
                    home.streams.entry(node).or_insert_with(room);
                }
                if first {
                    home.input.takers = takers;
                }
                if let Some(plan) = output.filter(|_| home.files.is_none()) {
                    self.begin_files(job, user, &nodes, *plan);
                }
            }
            Notice::Resumed => {
                home.suspended = false;
                if let Some(client) = home.client {
                    self.act(Action::Continue(client));
                }
            }
            Notice::Say(Report::Suspended) => {
                let was_told = std::mem::replace(&mut home.suspended, true);
                if !was_told && self.stops_front_end(job) {
                    self.tell(job, &Report::Suspended);
                }
            }
            Notice::Say(report) => {
                if home.said.contains(&report) {
                    return;
                }
                if home.said.len() < SAID_MAX {
                    home.said.push(report.clone());
                }
                let wants = matches!(report, Report::Started { .. }) && home.input.takers.is_empty();
                self.tell(job, &report);
                if wants {
                    self.tell(job, &Report::InputUnwanted);
                }
            }
            Notice::End { status, written, cause } => {
                if home.end.is_none() {
                    home.asked_ms = self.now_ms;
                }
                (home.end, home.cause) = (Some((status, written)), cause);
            }
        }
    }

    /// The end is told when all output is there.
    fn try_to_end(&mut self, job: JobId) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let Some((_, written)) = &home.end else { return };
        let complete =
            written.iter().all(|(node, end)| home.streams.get(node).is_none_or(|stream| stream.have >= *end));
        if !complete || home.over {
            return;
        }
        // No rest of a line comes any more.
        home.floor = None;
        self.pass_frames(job);
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        if home.files.as_ref().is_some_and(|files| !files.is_empty()) {
            return;
        }
        self.end_files(job);
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let Some((status, _)) = &home.end else { return };
        home.over = true;
        let report = Report::End { status: *status };
        let below = home.heard;
        home.streams.clear();
        home.said.clear();
        self.say_heard(job, below);
        self.tell(job, &report);
        if let Some(client) = self.home.homes.get_mut(&job).and_then(|home| home.client.take()) {
            self.home.clients.remove(&client);
            // One that stands still with its job is to see the end of it.
            self.act(Action::Continue(client));
            self.act(Action::Release(client));
        }
        self.forget_old();
    }

    /// How far the reports of a job have been heard, and what is with its files.
    fn say_heard(&mut self, job: JobId, below: u64) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.files_changed = false;
        let output = home.files.as_ref().map(|files| Box::new(files.status.clone()));
        let life = home.life;
        self.route(NodeId::HEAD, Routed::Heard { job, life, below, output });
    }

    /// A job that writes to files has its nodes: the files are opened.
    fn begin_files(&mut self, job: JobId, user: User, nodes: &[NodeId], plan: OutputPlan) {
        let name = |node: &NodeId| {
            let member = self.members.as_ref().and_then(|members| members.nodes.get(node));
            member.map_or_else(|| node.to_string(), |member| member.about.name.clone())
        };
        let names: Vec<String> = nodes.iter().map(name).collect();
        let journal = self.home.journals.remove(&job);
        let mut files = Box::new(Files::new(job, plan, &names, journal, self.now_ms));
        let deeds = files.begin();
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        (home.files, home.user) = (Some(files), Some(user));
        self.do_for_files(job, deeds);
    }

    /// The writer of a job says something.
    pub(super) fn handle_writer(&mut self, job: JobId, said: WriterSaid) {
        let now_ms = self.now_ms;
        let Some(files) = self.files_of(job) else { return };
        let deeds = match said {
            WriterSaid::Opened(opened) => files.handle_opened(opened, now_ms),
            WriterSaid::Written(written) => files.handle_written(written, now_ms),
            WriterSaid::Gone(text) => files.handle_gone(&text),
        };
        self.do_for_files(job, deeds);
        self.write_on(job);
        self.try_to_end(job);
    }

    fn files_of(&mut self, job: JobId) -> Option<&mut Files> {
        self.home.homes.get_mut(&job)?.files.as_deref_mut()
    }

    /// The next batch, if there is one and the writer has none.
    fn write_on(&mut self, job: JobId) {
        let Some(files) = self.files_of(job) else { return };
        let deeds = files.poll();
        self.do_for_files(job, deeds);
    }

    fn do_for_files(&mut self, job: JobId, deeds: Deeds) {
        if let Some(journal) = deeds.journal {
            self.act(Action::KeepOutput(job, Box::new(journal)));
        }
        if let Some(open) = deeds.open {
            let home = self.home.homes.get(&job);
            let Some((user, files)) = home.and_then(|home| home.user.zip(home.files.as_ref())) else {
                return;
            };
            let groups = files.groups().to_vec();
            self.act(Action::OpenFiles(job, user, groups, Box::new(open)));
        }
        if !deeds.frames.is_empty() {
            self.act(Action::WriteFiles(job, deeds.frames));
        }
        if deeds.close {
            self.act(Action::CloseFiles(job));
        }
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let mut nodes = deeds.taken;
        if deeds.resumes {
            nodes.extend(home.streams.keys());
        }
        if deeds.news {
            let below = if home.end.is_some() && !home.over { home.heard - 1 } else { home.heard };
            self.say_heard(job, below);
        } else {
            home.files_changed |= home.files.as_ref().is_some_and(|files| files.status.lost_bytes > 0);
        }
        nodes.into_iter().for_each(|node| self.give_room(job, node, true));
    }

    /// All output of a job is in its files.
    fn end_files(&mut self, job: JobId) {
        if let Some(files) = self.files_of(job) {
            let deeds = files.end();
            self.do_for_files(job, deeds);
        } else if self.home.journals.remove(&job).is_some() {
            // It has never had nodes.
            self.act(Action::DropOutput(job));
        }
    }

    /// The head hears what has been lost, once a tick at most; what is not taken for long is given up when it is the last.
    fn tick_files(&mut self) {
        let now_ms = self.now_ms;
        let (mut changed, mut stuck) = (Vec::new(), Vec::new());
        for (job, home) in self.home.homes.iter_mut().filter(|(_, home)| !home.over) {
            let Some(files) = &home.files else { continue };
            if home.files_changed {
                changed.push((*job, if home.end.is_some() { home.heard - 1 } else { home.heard }));
            }
            if home.end.is_some() && !files.is_empty() && now_ms >= files.moved_ms + WRITING_MS {
                stuck.push(*job);
            }
        }
        changed.into_iter().for_each(|(job, below)| self.say_heard(job, below));
        for job in stuck {
            let Some(files) = self.files_of(job) else { continue };
            let deeds = files.refuse(format!("its files have taken nothing for {} s", WRITING_MS / 1000));
            self.do_for_files(job, deeds);
            self.try_to_end(job);
        }
    }

    fn forget_old(&mut self) {
        let over: Vec<JobId> =
            self.home.homes.iter().filter(|(_, home)| home.over).map(|(job, _)| *job).collect();
        for job in over.iter().take(over.len().saturating_sub(OVER_MAX)) {
            let had_files = self.home.homes.remove(job).is_some_and(|home| home.files.is_some());
            if had_files {
                self.act(Action::DropOutput(*job));
            }
        }
    }

    pub(super) fn tick_home(&mut self) {
        self.ask_again();
        self.tell_who_waits();
        self.tell_of_head();
        self.say_inputs_again();
        self.end_lines();
        self.tick_files();
        self.ask_for_silent_jobs();
    }

    /// Who watches a job hears once that nothing is heard of the head, and once that it is back.
    fn tell_of_head(&mut self) {
        let silent_ms = self.head_silent_ms();
        let is_gone = silent_ms >= self.config.lost_ms;
        if std::mem::replace(&mut self.home.head_gone, is_gone) == is_gone {
            return;
        }
        let name = &self.config.about.name;
        let text = match is_gone {
            false => format!("{name} hears the head again"),
            true => format!(
                "{name} has heard nothing of the head for {} s: the job stays as it is until it is back, running or frozen",
                silent_ms / 1000
            ),
        };
        let watched = self.home.homes.iter().filter(|(_, home)| home.client.is_some() && !home.over);
        let watched: Vec<JobId> = watched.map(|(job, _)| *job).collect();
        watched.into_iter().for_each(|job| self.tell(job, &Report::Warning(text.clone())));
    }

    /// What the head has said nothing of for long it may not know any more; what a node owes it may not know that.
    fn ask_for_silent_jobs(&mut self) {
        let now_ms = self.now_ms;
        let mut silent = Vec::new();
        for (job, home) in self.home.homes.iter_mut().filter(|(_, home)| !home.over) {
            let due_ms =
                if home.end.is_some() { home.asked_ms + AGAIN_MS } else { home.heard_ms + SILENCE_MS };
            if now_ms >= due_ms {
                (home.heard_ms, home.asked_ms) = (now_ms, now_ms);
                let below = if home.end.is_some() { home.heard - 1 } else { home.heard };
                let nodes: Vec<NodeId> = home.streams.keys().copied().collect();
                silent.push((*job, below, nodes));
            }
        }
        for (job, below, nodes) in silent {
            self.say_heard(job, below);
            nodes.into_iter().for_each(|node| self.give_room(job, node, true));
        }
    }
}

#[cfg(test)]
impl Homes {
    pub(super) fn leftovers(&self) -> Vec<String> {
        let questions = self.questions.values().map(|question| format!("{question:?}"));
        let open = self.homes.iter().filter(|(_, home)| !home.over);
        let open = open.map(|(job, home)| {
            format!("home of job {job}: streams {:?}, end {:?}, heard {}", home.streams, home.end, home.heard)
        });
        let clients = self.clients.iter().map(|client| format!("{client:?}"));
        questions.chain(open).chain(clients).collect()
    }
}
