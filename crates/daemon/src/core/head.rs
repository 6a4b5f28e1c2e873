//! The head: the jobs of the cluster. It chooses their nodes, and turns what their parts report into what is to be with them.
//!
//! ```text
//! Starting --all ready--> peers are told --all running--> Running <--> Suspended
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
use std::sync::Arc;

use serde::Serialize;
use tutti_node::wire::{Ended, Input, Report};

use super::{Action, Core};
use crate::gang::Command;
use crate::members::{Members, NodeId};
use crate::message::{
    Answer, Control, End, Fence, JobId, JobRow, JobState, Launch, NodeRow, Notice, Order, PartState, Phase,
    Request, Routed, Run, Submit, User,
};

pub(super) mod placement;

/// Jobs that are over and still listed.
const OVER_MAX: usize = 1000;
/// Signals of an order; older ones have long been handed on.
const SIGNALS_MAX: usize = 16;
/// SIGWINCH.
const WINDOW_CHANGED: u32 = 28;
/// Characters of a command that are listed.
const COMMAND_CHARS: usize = 60;
/// Answers that are remembered, for questions asked twice.
const ANSWERS_MAX: usize = 4096;
/// Reports that are not heard are said again.
const AGAIN_MS: u64 = 1000;
/// So long a new head takes over jobs that it does not know.
const ADOPT_MS: u64 = 60_000;
/// A new head that is asked for a second time waits this long with a submission, in units of the time after which a node is lost: its
/// predecessor may have accepted it, and a node will say so.
const SETTLE_LOST: u64 = 2;

/// A line of the log of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobEvent {
    /// When, in ms since 1970.
    pub ms: u64,
    /// What.
    pub event: &'static str,
    /// Which job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Which node or nodes, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Anything else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
}

impl JobEvent {
    /// Something about a node.
    pub(super) fn node(ms: u64, event: &'static str, name: &str) -> Self {
        JobEvent { ms, event, job: None, nodes: vec![name.into()], text: String::new(), status: None }
    }
}

#[derive(Debug)]
struct HeadJob {
    launch: Arc<Launch>,
    order: Order,
    command: String,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    status: u8,
    /// The part that ended the job.
    ender: Option<NodeId>,
    /// A user asked for its end.
    asked: bool,
    /// It outlives its home.
    detached: bool,
    told_started: bool,
    told_suspended: bool,
    /// Warnings and ended ranks that were told, by node.
    told: BTreeMap<NodeId, (usize, usize)>,
    /// Nodes that were lost.
    lost: BTreeSet<NodeId>,
    signals: u64,
    notices: Vec<Notice>,
    heard: u64,
    said_ms: u64,
    over: bool,
    /// What the last end report says, by node.
    written: Option<Vec<(NodeId, u64)>>,
    /// Until when nodes that are not there may say what is left of a job of an earlier head.
    adopted_until_ms: Option<u64>,
    /// Pids by node, for the list.
    pids: Vec<(NodeId, Vec<u32>)>,
}

/// The jobs of the cluster.
#[derive(Debug)]
pub(super) struct Head {
    jobs: BTreeMap<JobId, HeadJob>,
    next_job: u64,
    /// Jobs by the question that submitted them.
    answers: VecDeque<((NodeId, u64), Answer)>,
    /// Jobs to be judged although none of their parts has said anything.
    pending: BTreeSet<JobId>,
    born_ms: u64,
    /// First job of this life: earlier ones that are not known are an earlier head's.
    first_job: u64,
}

impl Head {
    pub(super) fn new(first_job: u64, now_ms: u64) -> Self {
        let first_job = first_job.max(1);
        Head {
            jobs: BTreeMap::new(),
            next_job: first_job,
            answers: VecDeque::new(),
            pending: BTreeSet::new(),
            born_ms: now_ms,
            first_job,
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
                    job.notices.push(Notice::Say(Report::Warning(text)));
                }
            } else if job.launch.home == node && !job.detached {
                job.end_by(None, 1);
            }
            job.said_ms = now_ms.saturating_sub(AGAIN_MS);
        }
    }
}

impl HeadJob {
    fn new(launch: Launch) -> Self {
        let takers = match launch.job.input {
            Input::None => Vec::new(),
            Input::All => launch.nodes.clone(),
            Input::Rank(rank) => {
                let index = launch.first_ranks.partition_point(|first| *first <= rank);
                index.checked_sub(1).map(|index| launch.nodes[index]).into_iter().collect()
            }
        };
        let takers = if launch.detached { Vec::new() } else { takers };
        let placed = Notice::Placed { nodes: launch.nodes.clone(), user: launch.user, takers };
        let detached = launch.detached;
        let launch = Arc::new(launch);
        let order = Order {
            version: 1,
            launch: Some(Arc::clone(&launch)),
            peers: None,
            run: Run::Go,
            leave: false,
            window: None,
            signals: Vec::new(),
            fence: Arc::default(),
            end: None,
            forget: false,
        };
        HeadJob {
            command: command(&launch),
            launch,
            order,
            started_ms: None,
            ended_ms: None,
            status: 0,
            ender: None,
            asked: false,
            detached,
            told_started: false,
            told_suspended: false,
            told: BTreeMap::new(),
            lost: BTreeSet::new(),
            signals: 0,
            notices: vec![placed],
            heard: 0,
            said_ms: 0,
            over: false,
            written: None,
            adopted_until_ms: None,
            pids: Vec::new(),
        }
    }

    /// The job ends everywhere; the first who says so gives the status.
    fn end_by(&mut self, ender: Option<NodeId>, status: u8) {
        if self.order.run != Run::Kill {
            self.order.run = Run::Kill;
            self.ender = ender;
        }
        self.note(status);
    }

    /// What another head knew of the job.
    fn learn(&mut self, order: &Order) {
        let known = &mut self.order;
        known.version = known.version.max(order.version);
        known.run = known.run.max(order.run);
        known.leave |= order.leave;
        known.window = order.window.or(known.window);
        known.peers = known.peers.take().or_else(|| order.peers.clone());
        if order.signals.last() > known.signals.last() {
            known.signals.clone_from(&order.signals);
        }
        if order.fence.number > known.fence.number {
            known.fence = Arc::clone(&order.fence);
        }
        self.signals = known.signals.last().map_or(0, |(number, _)| *number);
        if let Some(end) = order.end {
            (self.ender, self.asked) = (end.by, end.asked);
            self.note(end.status);
        }
    }

    fn note(&mut self, status: u8) {
        if self.status == 0 {
            self.status = status;
        }
    }

    fn signal(&mut self, signal: u32) {
        self.signals += 1;
        self.order.signals.push((self.signals, signal));
        let excess = self.order.signals.len().saturating_sub(SIGNALS_MAX);
        self.order.signals.drain(..excess);
    }

    fn say(&mut self, report: Report) {
        self.notices.push(Notice::Say(report));
    }

    fn state(&self) -> JobState {
        match self.order.run {
            _ if self.over => JobState::Over,
            Run::Kill => JobState::Ending,
            Run::Stop => JobState::Suspended,
            Run::Go if self.told_started => JobState::Running,
            Run::Go => JobState::Starting,
        }
    }

    /// Nobody may do anything to it that is not the job's own end.
    fn is_ending(&self) -> bool {
        self.over || self.order.run == Run::Kill
    }

    /// What the parts say becomes what is to be.
    fn judge(&mut self, states: &BTreeMap<NodeId, PartState>, wall_ms: u64) {
        for (node, part) in states {
            self.hear(*node, part);
        }
        let parts: Vec<Option<&PartState>> = self
            .launch
            .nodes
            .iter()
            .filter(|node| !self.lost.contains(node))
            .map(|node| states.get(node))
            .collect();
        let all = |phase| parts.iter().all(|part| part.is_some_and(|part| part.phase >= phase));
        let whole = self.lost.is_empty();
        if whole && all(Phase::Ready) && self.order.peers.is_none() && !self.is_ending() {
            self.order.peers = Some(parts.iter().flatten().flat_map(|part| part.addresses.clone()).collect());
        }
        if whole && all(Phase::Running) && !self.told_started && !self.is_ending() {
            self.told_started = true;
            self.started_ms = Some(wall_ms);
            self.pids = self.launch.nodes.iter().map(|node| (*node, states[node].pids.clone())).collect();
            let pids = parts.iter().flatten().flat_map(|part| part.pids.clone()).collect();
            let cores = parts.iter().flatten().flat_map(|part| part.cores.clone()).collect();
            self.say(Report::Started { pids, cores });
        }
        let suspended = self.order.run == Run::Stop
            && parts.iter().all(|part| part.is_some_and(|part| part.suspended || part.phase >= Phase::Left));
        if suspended && !std::mem::replace(&mut self.told_suspended, true) {
            self.say(Report::Suspended);
        }
        let next = self.order.fence.number + 1;
        if whole && parts.iter().all(|part| part.is_some_and(|part| part.fence.number == next)) {
            let puts = parts.iter().flatten().flat_map(|part| part.fence.puts.iter().copied()).collect();
            self.order.fence = Arc::new(Fence { number: next, puts });
        }
        self.order.leave |= all(Phase::Left);
        if all(Phase::Over) && !self.over {
            self.over = true;
            self.ended_ms = Some(wall_ms);
            let statuses: Vec<u8> = parts.iter().flatten().map(|part| part.status).collect();
            statuses.into_iter().for_each(|status| self.note(status));
        }
        if self.over {
            let nodes = self.launch.nodes.iter().filter(|node| !self.lost.contains(node));
            self.say_end(nodes.filter_map(|node| Some((*node, states.get(node)?.written?))).collect());
        }
        if self.order.run == Run::Kill {
            self.order.end = Some(End { by: self.ender, status: self.status, asked: self.asked });
        }
    }

    /// The end, with what the home is to have of each node; said again when a node has been lost since.
    fn say_end(&mut self, written: Vec<(NodeId, u64)>) {
        if self.written.as_ref() != Some(&written) {
            self.notices.push(Notice::End { status: self.status, written: written.clone() });
            self.written = Some(written);
        }
    }

    /// What one part says.
    fn hear(&mut self, node: NodeId, part: &PartState) {
        if let Some(status) = part.ending {
            self.end_by(Some(node), status);
        }
        let is_news = !self.asked && self.ender == Some(node);
        let (warnings, ended) = self.told.get(&node).copied().unwrap_or_default();
        part.warnings.iter().skip(warnings).for_each(|text| self.say(Report::Warning(text.clone())));
        let new: Vec<Ended> = part.ended.iter().skip(ended).copied().collect();
        for ended in new {
            self.note(ended.cause.status());
            if is_news {
                self.say(Report::Ended(ended));
            }
        }
        if let Some(text) = part.refused.clone().filter(|_| is_news && !self.told.contains_key(&node)) {
            self.say(Report::Refused(text));
        }
        if part.ending.is_some() || !part.warnings.is_empty() || !part.ended.is_empty() {
            self.told.insert(node, (part.warnings.len(), part.ended.len()));
        }
    }
}

impl Core {
    /// A user of a node asks the head.
    pub(super) fn handle_ask(&mut self, from: NodeId, ask: u64, user: User, request: Request, again: bool) {
        let is_new = matches!(request, Request::Run(_) | Request::Submit(_));
        let changes = is_new || matches!(request, Request::Control(..));
        let Some(head) = &self.head else { return };
        if let Some((_, answer)) = head.answers.iter().rev().find(|(asked, _)| *asked == (from, ask)) {
            let answer = answer.clone();
            return self.route(from, Routed::Answer { ask, answer });
        }
        if is_new && again && self.now_ms < head.born_ms + SETTLE_LOST * self.config.lost_ms {
            return;
        }
        let answer = match request {
            Request::Run(submit) => self.submit(from, ask, user, *submit, false),
            Request::Submit(submit) => self.submit(from, ask, user, *submit, true),
            Request::Jobs { all } => Answer::Jobs(self.list(|_, job| all || !job.over)),
            Request::Job(job) => match self.list(|id, _| id == job) {
                rows if rows.is_empty() => Answer::Refused(format!("there is no job {job}")),
                rows => Answer::Jobs(rows),
            },
            Request::Control(job, control) => self.control(user, job, control),
            Request::Nodes => Answer::Nodes(self.list_nodes()),
            Request::Down => self.shut_down(user),
            Request::Attach(job) | Request::Logs(job) => self.home_of(user, job),
        };
        if let Some(head) = self.head.as_mut().filter(|_| changes) {
            head.remember(from, ask, answer.clone());
        }
        self.route(from, Routed::Answer { ask, answer });
    }

    /// Where a job was submitted.
    fn home_of(&self, user: User, id: JobId) -> Answer {
        let job = self.head.as_ref().and_then(|head| head.jobs.get(&id));
        let Some((launch, members)) = job.map(|job| &job.launch).zip(self.members.as_ref()) else {
            return Answer::Refused(format!("there is no job {id}"));
        };
        if !self.may(user, Some(launch.user)) {
            Answer::Refused(format!("job {id} is another user's"))
        } else if !members.is_alive(launch.home) {
            let home = name(members, launch.home);
            Answer::Refused(format!("what job {id} wrote is lost with {home}, where it was submitted"))
        } else {
            Answer::Home(launch.home)
        }
    }

    fn submit(&mut self, home: NodeId, ask: u64, user: User, submit: Submit, detached: bool) -> Answer {
        let (Some(head), Some(members)) = (&mut self.head, &self.members) else {
            return Answer::Refused("this node is not the head".into());
        };
        let load = load(&head.jobs);
        let (nodes, first_ranks) = match placement::place(members, &load, &submit) {
            Ok(placed) => placed,
            Err(error) => return Answer::Refused(error.to_string()),
        };
        let job = JobId(head.next_job);
        head.next_job += 1;
        let launch = Launch {
            // What every packet carries need not be secret, only different from all others on these machines.
            key: submit.job.id.rotate_left(17) ^ job.0,
            job: submit.job,
            user,
            environment: submit.environment,
            directory: submit.directory,
            umask: submit.umask,
            home,
            lives: nodes.iter().map(|node| members.nodes[node].about.incarnation).collect(),
            nodes,
            first_ranks,
            detached,
            submitted_ms: self.wall_ms,
            ask,
        };
        let names = names(members, &launch.nodes);
        let new = HeadJob::new(launch);
        let event = JobEvent {
            ms: self.wall_ms,
            event: "submitted",
            job: Some(job),
            nodes: names,
            text: new.command.clone(),
            status: None,
        };
        self.relay.set_order(job, new.order.clone());
        head.jobs.insert(job, new);
        head.pending.insert(job);
        self.act(Action::Log(event));
        Answer::Job(job)
    }

    fn control(&mut self, user: User, id: JobId, control: Control) -> Answer {
        let owner = self.head.as_ref().and_then(|head| head.jobs.get(&id)).map(|job| job.launch.user);
        let Some(owner) = owner else { return Answer::Refused(format!("there is no job {id}")) };
        if !self.may(user, Some(owner)) {
            return Answer::Refused(format!("job {id} is another user's"));
        }
        let Some(job) = self.head.as_mut().and_then(|head| head.jobs.get_mut(&id)) else {
            return Answer::Refused(format!("there is no job {id}"));
        };
        if job.over {
            return Answer::Refused(format!("job {id} is over"));
        }
        let was = job.order.run;
        match control {
            Control::Suspend if was == Run::Go => {
                job.order.run = Run::Stop;
                job.told_suspended = false;
            }
            Control::Resume if was == Run::Stop => {
                job.order.run = Run::Go;
                job.notices.push(Notice::Resumed);
            }
            Control::Suspend | Control::Resume => {}
            Control::Detach => job.detached = true,
            Control::Window(rows, columns) => {
                job.order.window = Some((rows, columns));
                job.signal(WINDOW_CHANGED);
            }
            Control::Kill => {
                job.asked = true;
                job.end_by(None, 128 + 9);
            }
            Control::Signal(signal) => {
                job.signal(signal);
                // Who is to end must be able to hear it (DESIGN 8).
                let ends = [libc_number("TERM"), libc_number("INT"), libc_number("HUP"), libc_number("QUIT")];
                if ends.contains(&signal) && was == Run::Stop {
                    job.order.run = Run::Go;
                }
                job.asked |= ends.contains(&signal);
            }
        }
        let run = job.order.run;
        self.publish(id);
        if run != was {
            let event = match run {
                Run::Go => "resumed",
                Run::Stop => "suspended",
                Run::Kill => "killed",
            };
            if run != Run::Kill {
                self.act(Action::Gang(Command::Suspend(tutti_sched::JobId(id.0), run == Run::Stop)));
            }
            self.log(id, event, None, String::new());
        }
        self.judge(id);
        Answer::Done
    }

    fn shut_down(&mut self, user: User) -> Answer {
        if !self.may(user, None) {
            return Answer::Refused("only the owner of the daemons may end them".into());
        }
        let open: Vec<JobId> = self
            .head
            .iter()
            .flat_map(|head| &head.jobs)
            .filter(|(_, job)| !job.over)
            .map(|(id, _)| *id)
            .collect();
        for job in open {
            self.control(User { uid: 0, gid: 0 }, job, Control::Kill);
        }
        // The kills go down first.
        self.flush_orders();
        self.leave_all();
        Answer::Done
    }

    /// A node knows a job that the relay does not.
    pub(super) fn adopt_job(&mut self, id: JobId, order: Order) {
        let (Some(head), Some(launch)) = (&mut self.head, order.launch.clone()) else { return };
        let is_young = self.now_ms < head.born_ms + ADOPT_MS;
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
                let mut job = HeadJob::new(Launch::clone(&launch));
                job.learn(&order);
                job.adopted_until_ms = Some(self.now_ms + SETTLE_LOST * self.config.lost_ms);
                head.next_job = head.next_job.max(id.0 + 1);
                head.remember(launch.home, launch.ask, Answer::Job(id));
                head.jobs.insert(id, job);
                head.pending.insert(id);
                // Down to all its nodes, this one too: each says what it has of it.
                self.relay.set_order(id, order);
                self.publish(id);
                return self.log(id, "adopted", None, String::new());
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
        order.version = known.version;
        if *known != *order {
            order.version += 1;
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
        let none = BTreeMap::new();
        job.judge(self.relay.states(id).unwrap_or(&none), wall_ms);
        let (now_started, over, status) = (job.told_started, job.over, job.status);
        let lines: Vec<String> = job.notices[said..].iter().filter_map(line).collect();
        self.forget_if_heard(id);
        self.publish(id);
        if now_started && !started {
            self.tell_gang_of_start(id);
            self.log(id, "started", None, String::new());
        }
        lines.into_iter().for_each(|text| self.log(id, "said", None, text));
        if over && !was_over {
            self.log(id, "over", Some(status), String::new());
            self.forget_oldest();
        }
        self.say_reports(id);
    }

    /// A job that is over is kept by its nodes until its home has everything, or is lost itself.
    fn forget_if_heard(&mut self, id: JobId) {
        let Some(job) = self.head.as_mut().and_then(|head| head.jobs.get_mut(&id)) else { return };
        let Some(members) = self.members.as_ref().filter(|_| job.over) else { return };
        if job.heard >= job.notices.len() as u64 {
            job.order.forget = true;
        } else if !members.is_alive(job.launch.home) {
            // Should it come back, it ends with what it has.
            job.say_end(Vec::new());
            job.order.forget = true;
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

    pub(super) fn handle_heard(&mut self, from: NodeId, id: JobId, life: u64, below: u64) {
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
                let status = known.map(|job| {
                    job.heard = job.notices.len() as u64;
                    job.status
                });
                if status.is_some() || is_settled {
                    let first = if life == own_life { below } else { 0 };
                    let reports = vec![Notice::End { status: status.unwrap_or(1), written: Vec::new() }];
                    self.route(from, Routed::Reports { job: id, ask: 0, life: own_life, first, reports });
                }
            }
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
        let now_ms = self.now_ms;
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
        ids.extend(head.jobs.iter().filter(|(_, job)| unheard(job)).map(|(id, _)| *id));
        for id in ids {
            self.judge(id);
            self.say_reports(id);
        }
    }

    fn log(&mut self, id: JobId, event: &'static str, status: Option<u8>, text: String) {
        let event = JobEvent { ms: self.wall_ms, event, job: Some(id), nodes: Vec::new(), text, status };
        self.act(Action::Log(event));
    }

    fn list(&self, wanted: impl Fn(JobId, &HeadJob) -> bool) -> Vec<JobRow> {
        let (Some(head), Some(members)) = (&self.head, &self.members) else { return Vec::new() };
        let row = |(id, job): (&JobId, &HeadJob)| JobRow {
            job: *id,
            uid: job.launch.user.uid,
            state: job.state(),
            ranks: job.launch.job.ranks(),
            nodes: names(members, &job.launch.nodes),
            command: job.command.clone(),
            submitted_ms: job.launch.submitted_ms,
            started_ms: job.started_ms,
            ended_ms: job.ended_ms,
            status: job.over.then_some(job.status),
            pids: job.pids.iter().map(|(node, pids)| (name(members, *node), pids.clone())).collect(),
        };
        head.jobs.iter().filter(|(id, job)| wanted(**id, job)).map(row).collect()
    }

    fn list_nodes(&self) -> Vec<NodeRow> {
        let (Some(head), Some(members)) = (&self.head, &self.members) else { return Vec::new() };
        let load = load(&head.jobs);
        let row = |(node, member): (&NodeId, &crate::members::Member)| NodeRow {
            node: *node,
            name: member.about.name.clone(),
            alive: member.alive,
            slots: member.about.slots,
            ranks: load.get(node).copied().unwrap_or(0),
            parent: members.parent(*node),
            address: member.about.data.to_string(),
        };
        members.nodes.iter().map(row).collect()
    }
}

/// Numbers of the signals that ask for an end, on Linux.
fn libc_number(name: &str) -> u32 {
    match name {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        _ => 15,
    }
}

/// Ranks on each node.
fn load(jobs: &BTreeMap<JobId, HeadJob>) -> BTreeMap<NodeId, u64> {
    let mut load = BTreeMap::new();
    for job in jobs.values().filter(|job| !job.over) {
        for (node, ranks) in
            placement::shares(&job.launch.nodes, &job.launch.first_ranks, job.launch.job.ranks())
        {
            *load.entry(node).or_default() += ranks;
        }
    }
    load
}

fn name(members: &Members, node: NodeId) -> String {
    members.nodes.get(&node).map_or_else(|| node.to_string(), |member| member.about.name.clone())
}

fn names(members: &Members, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| name(members, *node)).collect()
}

/// What runs, shortened.
fn command(launch: &Launch) -> String {
    let words = launch.job.programs.iter().map(|program| {
        let words: Vec<_> =
            program.arguments.iter().map(|word| String::from_utf8_lossy(word.as_bytes())).collect();
        words.join(" ")
    });
    let text: String =
        words.collect::<Vec<_>>().join(" : ").chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(COMMAND_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// What the log says of a notice.
fn line(notice: &Notice) -> Option<String> {
    match notice {
        Notice::Say(Report::Ended(ended)) => Some(format!("rank {} ended: {:?}", ended.rank, ended.cause)),
        Notice::Say(Report::Refused(text) | Report::Warning(text)) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
impl Head {
    pub(super) fn leftovers(&self) -> Vec<String> {
        let open = self.jobs.iter().filter(|(_, job)| !job.order.forget);
        open.map(|(id, job)| format!("job {id}: {job:?}")).collect()
    }
}
