//! The home of a job: the node where it was submitted. It has the front end, if there is one, what the job has written
//! lately, and the questions that users of this node ask the head.
//!
//! To its front end the home looks like a starter of all ranks: the same frames, both ways.

use std::collections::{BTreeMap, VecDeque};

use tutti_node::wire::{self, Decoder, Kind, Report};

use super::parts::FIRST_ROOM_BYTES;
use super::{Action, ClientId, Core};
use crate::members::NodeId;
use crate::message::{Answer, Control, JobId, Notice, Request, Routed, User};

/// Bytes on their way to a front end, about; beyond it nodes get no more room.
const JAM_BYTES: usize = 1 << 20;
/// What a job has written lately, kept for `tutti logs` and for who attaches.
const LOG_BYTES: usize = 1 << 20;
/// Jobs that are over whose output is kept.
const OVER_MAX: usize = 64;
/// In place of a user's program that is gone, or for what the daemon asks by itself.
const NOBODY: ClientId = ClientId(0);
/// Questions that wait for the head; beyond it what front ends want of their jobs is dropped.
const QUESTIONS_MAX: usize = 8192;
/// A question without an answer is asked again.
const AGAIN_MS: u64 = 1000;
/// A head that has said nothing of a job for so long is asked whether it knows it.
const SILENCE_MS: u64 = 5000;
/// The rest of a long line has this time to follow before other nodes speak.
const FLOOR_MS: u64 = 500;
/// Reports that are remembered, so that a new head does not say them again to the front end.
const SAID_MAX: usize = 1024;

/// Text as frames of output.
fn frames_of(text: &[u8]) -> Vec<Vec<u8>> {
    let frame = |piece: &[u8]| {
        let mut frame = Vec::new();
        wire::put(&mut frame, Kind::Output, 0, piece);
        frame
    };
    text.chunks(wire::DATA_BYTES_MAX).map(frame).collect()
}

#[derive(Debug, Default)]
struct Stream {
    /// Something has come: what comes next follows it. Before, it begins with whatever its node still has.
    begun: bool,
    have: u64,
    limit: u64,
    decoder: Decoder,
}

#[derive(Debug)]
struct Question {
    client: ClientId,
    user: User,
    request: Request,
    asked_ms: u64,
    again: bool,
}

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
    /// What the front end has been told.
    said: Vec<Report>,
    end: Option<(u8, Vec<(NodeId, u64)>)>,
    over: bool,
    input: Input,
}

/// Stdin on its way to the ranks.
#[derive(Debug, Default)]
struct Input {
    /// Nodes whose ranks get it.
    takers: Vec<NodeId>,
    piece: u64,
    bytes: Vec<u8>,
    /// Who has not yet taken the piece.
    waiting: Vec<NodeId>,
    said_ms: u64,
}

/// What a node has as the home of jobs.
#[derive(Debug, Default)]
pub(super) struct Homes {
    homes: BTreeMap<JobId, Home>,
    clients: BTreeMap<ClientId, JobId>,
    questions: BTreeMap<u64, Question>,
    /// Jobs that run already and are to take part, and who waits for the answer; none: it has gone away.
    enrolling: BTreeMap<JobId, Option<ClientId>>,
    asked: u64,
    /// Before the first piece of stdin of a job: larger than any of an earlier life of this daemon.
    pieces: u64,
}

impl Homes {
    pub(super) fn is_front_end(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Numbers of questions are never those of another life.
    pub(super) fn begin(&mut self, incarnation: u64, wall_ms: u64) {
        self.asked = incarnation;
        self.pieces = wall_ms << 16;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.questions.is_empty() && self.homes.values().all(|home| home.over)
    }
}

impl Core {
    pub(super) fn handle_request(&mut self, client: ClientId, user: User, request: Request) {
        match request {
            // A job that was submitted elsewhere the head knows.
            Request::Logs(job) if self.home.homes.contains_key(&job) => self.answer_logs(client, user, job),
            Request::Attach(job) if self.home.homes.contains_key(&job) => self.attach(client, user, job),
            request => {
                self.home.asked = self.home.asked.wrapping_add(1);
                let ask = self.home.asked;
                let question = Question { client, user, request, asked_ms: self.now_ms, again: false };
                self.home.questions.insert(ask, question);
                self.ask(ask);
            }
        }
    }

    fn ask(&mut self, ask: u64) {
        let now_ms = self.now_ms;
        let Some(question) = self.home.questions.get_mut(&ask) else { return };
        question.asked_ms = now_ms;
        let again = std::mem::replace(&mut question.again, true);
        let body = Routed::Ask { ask, user: question.user, request: question.request.clone(), again };
        self.route(NodeId::HEAD, body);
    }

    /// A question of the daemon's own, whose answer nobody waits for.
    pub(super) fn demand(&mut self, user: User, request: Request) {
        self.handle_request(NOBODY, user, request);
    }

    pub(super) fn handle_answer(&mut self, ask: u64, answer: Answer) {
        let Some(Question { client, user, request, .. }) = self.home.questions.remove(&ask) else { return };
        let (answer, frames) = match answer {
            Answer::Snapshot(text) => (Answer::Done, frames_of(text.as_bytes())),
            answer => (answer, Vec::new()),
        };
        if let (Answer::Job(job), Request::Run(_) | Request::Submit(_)) = (&answer, &request) {
            let home = self.home.homes.entry(*job).or_default();
            home.user = Some(user);
            home.heard_ms = self.now_ms;
            home.coupled = matches!(request, Request::Run(_));
            if home.coupled && client == NOBODY {
                let job = *job;
                self.demand(user, Request::Control(job, Control::Kill));
            } else if home.coupled {
                home.client = Some(client);
                self.home.clients.insert(client, *job);
            }
        }
        if let (&Answer::Job(job), Request::Enrol(..)) = (&answer, &request) {
            let home = self.home.homes.entry(job).or_default();
            (home.user, home.enrolled, home.heard_ms) = (Some(user), true, self.now_ms);
            self.home.enrolling.insert(job, Some(client).filter(|client| *client != NOBODY));
            return self.try_to_enrol(job);
        }
        if let Answer::Home(home) = answer {
            return self.send_home(client, user, request, home);
        }
        let stays = matches!((&answer, &request), (Answer::Job(_), Request::Run(_)));
        if client != NOBODY {
            self.act(Action::Answer(client, answer));
            frames.into_iter().for_each(|frame| self.act(Action::ToClient(client, frame)));
            if !stays {
                self.act(Action::Release(client));
            }
        }
    }

    /// Who waits for the answer that a job takes part; the inner none: it has gone away.
    pub(super) fn take_enrolling(&mut self, job: JobId) -> Option<Option<ClientId>> {
        self.home.enrolling.remove(&job)
    }

    /// A user wants something of a job whose home the head has named.
    fn send_home(&mut self, client: ClientId, user: User, request: Request, home: NodeId) {
        match request {
            _ if client == NOBODY => {}
            Request::Logs(job) if Some(home) == self.me => self.answer_logs(client, user, job),
            Request::Attach(job) if Some(home) == self.me => self.attach(client, user, job),
            request => self.open_tunnel(client, user, request, home),
        }
    }

    /// The front end of a job says something.
    pub(super) fn handle_frame(&mut self, client: ClientId, kind: Kind, number: u32, payload: &[u8]) {
        if self.put_into_tunnel(client, kind, number, payload) {
            return;
        }
        let Some(&job) = self.home.clients.get(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let Some(user) = home.user else { return };
        let control = match kind {
            Kind::Suspend => Control::Suspend,
            Kind::Resume => {
                home.front_stopped = false;
                Control::Resume
            }
            Kind::Window => Control::Window((number >> 16) as u16, number as u16),
            Kind::Detach => return self.detach(client, job, user),
            Kind::Kill => Control::Kill,
            Kind::Signal => Control::Signal(number),
            Kind::Input => return self.put_input(job, payload),
            _ => return,
        };
        // A front end that asks faster than it is answered is not asked for it.
        if self.home.questions.len() < QUESTIONS_MAX {
            self.demand(user, Request::Control(job, control));
        }
    }

    /// The front end has been stopped by a signal that it cannot catch, or goes on (W25).
    pub(super) fn handle_front_state(&mut self, client: ClientId, stopped: bool) {
        if stopped && self.stop_at_tunnel(client) {
            return;
        }
        let Some(&job) = self.home.clients.get(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.front_stopped = stopped;
        if let Some(user) = home.user.filter(|_| stopped && !home.suspended) {
            self.demand(user, Request::Control(job, Control::Suspend));
        }
    }

    /// The front end goes, the job goes on as one that was submitted.
    fn detach(&mut self, client: ClientId, job: JobId, user: User) {
        self.tell(job, &Report::Detached);
        if let Some(home) = self.home.homes.get_mut(&job) {
            home.coupled = false;
        }
        self.demand(user, Request::Control(job, Control::Detach));
        self.act(Action::Release(client));
        self.handle_client_gone(client);
    }

    /// A front end that is stopped already, or has just said that the job is to go on, is not told to stop.
    fn stops_front_end(&self, job: JobId) -> bool {
        let resume = Request::Control(job, Control::Resume);
        let resumes = self.home.questions.values().any(|question| question.request == resume);
        !resumes && self.home.homes.get(&job).is_some_and(|home| !home.front_stopped)
    }

    fn put_input(&mut self, job: JobId, bytes: &[u8]) {
        let first = self.home.pieces;
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.input.piece = home.input.piece.max(first) + 1;
        home.input.bytes = bytes.to_vec();
        home.input.waiting = home.input.takers.clone();
        self.say_input(job);
    }

    fn say_input(&mut self, job: JobId) {
        let now_ms = self.now_ms;
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.input.said_ms = now_ms;
        let (piece, bytes) = (home.input.piece, home.input.bytes.clone());
        for node in home.input.waiting.clone() {
            self.route(node, Routed::Input { job, piece, bytes: bytes.clone() });
        }
    }

    pub(super) fn handle_input_taken(&mut self, from: NodeId, job: JobId, piece: u64, unwanted: bool) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let input = &mut home.input;
        let waited = input.waiting.contains(&from);
        if unwanted {
            input.takers.retain(|node| *node != from);
        }
        if unwanted || piece == input.piece {
            input.waiting.retain(|node| *node != from);
        }
        if unwanted && input.takers.is_empty() {
            self.tell(job, &Report::InputUnwanted);
        } else if waited && input.waiting.is_empty() {
            self.tell(job, &Report::InputTaken);
        }
    }

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
            let Some(home) = self.home.homes.get_mut(&job).filter(|home| number == home.heard) else {
                continue;
            };
            home.heard += 1;
            self.handle_notice(job, notice);
        }
        self.try_to_end(job);
        // What the head says of a job that it has forgotten is not to be said again.
        let Some(home) = self.home.homes.get(&job).filter(|_| ask != 0) else { return };
        // The end has been heard when all that belongs before it is here.
        let below = if home.end.is_some() && !home.over { home.heard - 1 } else { home.heard };
        self.route(NodeId::HEAD, Routed::Heard { job, life, below });
    }

    fn handle_notice(&mut self, job: JobId, notice: Notice) {
        let Some(home) = self.home.homes.get_mut(&job).filter(|home| !home.over) else { return };
        match notice {
            Notice::Placed { nodes, user, takers } => {
                home.user.get_or_insert(user);
                let first = home.streams.is_empty();
                for node in nodes {
                    let room = || Stream { limit: FIRST_ROOM_BYTES, ..Stream::default() };
                    home.streams.entry(node).or_insert_with(room);
                }
                if first {
                    home.input.takers = takers;
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
            Notice::End { status, written } => home.end = Some((status, written)),
        }
    }

    pub(super) fn handle_data(&mut self, from: NodeId, job: JobId, offset: u64, start: u64, bytes: &[u8]) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let Some(stream) = home.streams.get_mut(&from) else { return };
        if !stream.begun {
            if offset != start {
                // The middle of what an earlier life of ours had the beginning of: from its start, please.
                return self.give_room(job, from, true);
            }
            (stream.begun, stream.have) = (true, offset);
        }
        let known = stream.have.saturating_sub(offset);
        if offset <= stream.have && known < bytes.len() as u64 {
            stream.decoder.extend(&bytes[known as usize..]);
            stream.have = offset + bytes.len() as u64;
        }
        let held = home.floor.is_some();
        self.pass_frames(job);
        self.give_room(job, from, true);
        if held {
            self.give_room_to_all(job);
        }
        self.try_to_end(job);
    }

    /// Whole frames go to the front end; those of other nodes wait while one is in the middle of a long line.
    fn pass_frames(&mut self, job: JobId) {
        let now_ms = self.now_ms;
        let Some(home) = self.home.homes.get_mut(&job).filter(|home| !home.over) else { return };
        for frame in home.take_frames(now_ms) {
            if let Some(home) = self.home.homes.get_mut(&job) {
                home.keep(frame.clone());
                self.give(job, frame);
            }
        }
    }

    /// Tells a node what has come of its output, and what may come.
    fn give_room(&mut self, job: JobId, node: NodeId, always: bool) {
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let jammed = home.under_way >= JAM_BYTES;
        let Some(stream) = home.streams.get_mut(&node) else { return };
        // What waits for the end of another node's line is as good as not taken.
        let waits = home.floor.is_some_and(|(holder, _)| holder != node);
        let limit =
            if jammed || waits { stream.limit } else { stream.limit.max(stream.have + FIRST_ROOM_BYTES) };
        if always || limit > stream.limit {
            stream.limit = limit;
            let have = stream.begun.then_some(stream.have);
            self.route(node, Routed::Room { job, have, limit });
        }
    }

    /// The front end has taken so many bytes.
    pub(super) fn handle_taken(&mut self, client: ClientId, bytes: usize) {
        self.tunnel_taken(client, bytes);
        let Some(&job) = self.home.clients.get(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        let jammed = home.under_way >= JAM_BYTES;
        home.under_way = home.under_way.saturating_sub(bytes);
        if jammed && home.under_way < JAM_BYTES {
            home.floor = home.floor.map(|(holder, _)| (holder, self.now_ms + FLOOR_MS));
            self.give_room_to_all(job);
        }
    }

    fn give_room_to_all(&mut self, job: JobId) {
        let nodes = self.home.homes.get(&job).map(|home| home.streams.keys().copied().collect::<Vec<_>>());
        nodes.into_iter().flatten().for_each(|node| self.give_room(job, node, false));
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
        let Some((status, _)) = &home.end else { return };
        home.over = true;
        let report = Report::End { status: *status };
        let (life, below) = (home.life, home.heard);
        home.streams.clear();
        home.said.clear();
        self.route(NodeId::HEAD, Routed::Heard { job, life, below });
        self.tell(job, &report);
        if let Some(client) = self.home.homes.get_mut(&job).and_then(|home| home.client.take()) {
            self.home.clients.remove(&client);
            // One that stands still with its job is to see the end of it.
            self.act(Action::Continue(client));
            self.act(Action::Release(client));
        }
        self.forget_old();
    }

    fn forget_old(&mut self) {
        let over: Vec<JobId> =
            self.home.homes.iter().filter(|(_, home)| home.over).map(|(job, _)| *job).collect();
        for job in over.iter().take(over.len().saturating_sub(OVER_MAX)) {
            self.home.homes.remove(job);
        }
    }

    pub(super) fn handle_client_gone(&mut self, client: ClientId) {
        self.near_gone(client);
        // A job that is being submitted is so all the same.
        for question in self.home.questions.values_mut().filter(|question| question.client == client) {
            question.client = NOBODY;
        }
        let enrolling = self.home.enrolling.values_mut().find(|waiting| **waiting == Some(client));
        enrolling.into_iter().for_each(|waiting| *waiting = None);
        let Some(job) = self.home.clients.remove(&client) else { return };
        let Some(home) = self.home.homes.get_mut(&job) else { return };
        home.client = None;
        home.front_stopped = false;
        home.under_way = 0;
        let nodes: Vec<NodeId> = home.streams.keys().copied().collect();
        if let Some(user) = home.user.filter(|_| home.coupled && !home.over) {
            self.demand(user, Request::Control(job, Control::Kill));
        }
        nodes.into_iter().for_each(|node| self.give_room(job, node, false));
    }

    fn answer_logs(&mut self, client: ClientId, user: User, job: JobId) {
        match self.visible(user, job) {
            Err(text) => self.act(Action::Answer(client, Answer::Refused(text))),
            Ok(home) => {
                let frames: Vec<Vec<u8>> = home.log.iter().cloned().collect();
                self.act(Action::Answer(client, Answer::Job(job)));
                frames.into_iter().for_each(|frame| self.act(Action::ToClient(client, frame)));
            }
        }
        self.act(Action::Release(client));
    }

    /// A user becomes the front end of a job that has none.
    fn attach(&mut self, client: ClientId, user: User, job: JobId) {
        let refusal = match self.visible(user, job) {
            Err(text) => Some(text),
            Ok(home) if home.over => {
                Some(format!("job {job} is over; `tutti logs {job}` shows what it wrote"))
            }
            Ok(home) if home.client.is_some() => Some(format!("job {job} has a front end already")),
            Ok(_) => None,
        };
        if let Some(text) = refusal {
            self.act(Action::Answer(client, Answer::Refused(text)));
            return self.act(Action::Release(client));
        }
        let home = self.home.homes.get_mut(&job).expect("it is visible");
        home.client = Some(client);
        let frames: Vec<Vec<u8>> = home.log.iter().cloned().collect();
        let (takes_input, room) = (!home.input.takers.is_empty(), home.input.waiting.is_empty());
        self.home.clients.insert(client, job);
        self.act(Action::Answer(client, Answer::Job(job)));
        frames.into_iter().for_each(|frame| self.give(job, frame));
        match (takes_input, room) {
            (false, _) => self.tell(job, &Report::InputUnwanted),
            (true, true) => self.tell(job, &Report::InputTaken),
            // What the last front end has said is still on its way.
            (true, false) => {}
        }
    }

    fn visible(&self, user: User, job: JobId) -> Result<&Home, String> {
        match self.home.homes.get(&job) {
            None => Err(format!("no job {job} was submitted on this node")),
            Some(home) if home.enrolled => {
                Err(format!("job {job} was started by mpiexec, which has its output and input"))
            }
            Some(home) if self.may(user, home.user) => Ok(home),
            Some(_) => Err(format!("job {job} is another user's")),
        }
    }

    /// Whether a user may have a job of another's.
    pub(super) fn may(&self, user: User, owner: Option<User>) -> bool {
        user.uid == 0 || user.uid == self.config.owner || owner.is_some_and(|owner| owner.uid == user.uid)
    }

    pub(super) fn tick_home(&mut self) {
        let now_ms = self.now_ms;
        let old: Vec<u64> = self
            .home
            .questions
            .iter()
            .filter(|(_, question)| now_ms >= question.asked_ms + AGAIN_MS)
            .map(|(ask, _)| *ask)
            .collect();
        old.into_iter().for_each(|ask| self.ask(ask));
        let inputs: Vec<JobId> = self
            .home
            .homes
            .iter()
            .filter(|(_, home)| !home.input.waiting.is_empty() && now_ms >= home.input.said_ms + AGAIN_MS)
            .map(|(job, _)| *job)
            .collect();
        inputs.into_iter().for_each(|job| self.say_input(job));
        let is_late = |home: &Home| home.floor.is_some_and(|(_, until_ms)| now_ms >= until_ms);
        let late: Vec<JobId> =
            self.home.homes.iter().filter(|(_, home)| is_late(home)).map(|(job, _)| *job).collect();
        for job in late {
            self.pass_frames(job);
            self.give_room_to_all(job);
        }
        self.ask_for_silent_jobs();
    }

    /// What the head has said nothing of for long it may not know any more; what a node owes it may not know that.
    fn ask_for_silent_jobs(&mut self) {
        let now_ms = self.now_ms;
        let mut silent = Vec::new();
        for (job, home) in self.home.homes.iter_mut().filter(|(_, home)| !home.over) {
            let patience_ms = if home.end.is_some() { AGAIN_MS } else { SILENCE_MS };
            if now_ms >= home.heard_ms + patience_ms {
                home.heard_ms = now_ms;
                let below = if home.end.is_some() { home.heard - 1 } else { home.heard };
                let nodes: Vec<NodeId> = home.streams.keys().copied().collect();
                silent.push((*job, home.life, below, nodes));
            }
        }
        for (job, life, below, nodes) in silent {
            self.route(NodeId::HEAD, Routed::Heard { job, life, below });
            nodes.into_iter().for_each(|node| self.give_room(job, node, true));
        }
    }
}

impl Home {
    /// What may be passed on. A frame of half the longest length without a newline at its end is a part of a long line.
    fn take_frames(&mut self, now_ms: u64) -> Vec<Vec<u8>> {
        // While the front end does not read, the rest has no room to come.
        let jammed = self.under_way >= JAM_BYTES;
        self.floor = self.floor.filter(|(_, until_ms)| jammed || now_ms < *until_ms);
        let (mut frames, mut at) = (Vec::new(), 0);
        while let Some((node, stream)) = self.streams.iter_mut().nth(at) {
            let holds = self.floor.is_some();
            let may_speak = self.floor.is_none_or(|(holder, _)| holder == *node);
            let next = if may_speak { stream.decoder.next_frame().ok().flatten() } else { None };
            let Some((head, payload)) = next else {
                at += 1;
                continue;
            };
            let goes_on = payload.last() != Some(&b'\n') && (holds || head.bytes >= wire::DATA_BYTES_MAX / 2);
            self.floor = goes_on.then_some((*node, now_ms + FLOOR_MS));
            let mut frame = Vec::new();
            wire::put(&mut frame, head.kind, head.rank, payload);
            frames.push(frame);
            if holds && !goes_on {
                // Those who waited for the end of the line.
                at = 0;
            }
        }
        frames
    }

    fn keep(&mut self, frame: Vec<u8>) {
        self.log_bytes += frame.len();
        self.log.push_back(frame);
        while self.log_bytes > LOG_BYTES
            && let Some(old) = self.log.pop_front()
        {
            self.log_bytes -= old.len();
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
