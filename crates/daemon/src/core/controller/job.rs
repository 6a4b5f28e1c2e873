//! One job as the controller knows it: what its parts say becomes what is to be with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_os::stderr::is_deceptive;
use tutti_protocol::gpus::Gpus;
use tutti_protocol::wire::{Cause, Counted, Input, Library, Report, Used};
use tutti_sched::fill_trial::PutOut;
use tutti_shm::ticket::public_number;
use tutti_snapshot::DeadlockNotice;

use super::allocation;
use super::answers::Requester;
use super::waits::Waits;
use crate::gang::ServedJob;
use crate::members::{Members, NodeId};
use crate::message::output::{OutputPlan, OutputState};
use crate::message::{Change, EndKind, JobId, JobState, Launch, Notice, Order, PartState, Run};

mod again;
mod connected;
mod control;
mod end_state;
mod ending;
mod idle;
mod judging;
mod kept;
mod libraries;
mod limits;
mod reports;
mod snapshot;
mod starting;
mod stillness;
mod stuck;

pub(super) use again::mixed;
pub(super) use kept::shorten;
pub(super) use limits::TERM;

use connected::Connected;
use end_state::EndState;
use reports::Reports;
use stillness::Stuck;

/// Signals of an order; older ones have long been handed on.
const SIGNALS_MAX: usize = 16;
/// Requesters that wait for the end of a job, at most.
const WAITERS_MAX: usize = 4096;
/// Characters of a command that are listed.
const COMMAND_CHARS: usize = 60;

/// Reports that a user was given of a part.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    warnings: usize,
    ended: usize,
    /// Whether it has ended: whatever it says now of why is a consequence.
    ending: bool,
    /// Reason for which it is put out there, as a filler.
    put_out: Option<PutOut>,
    unprepared: bool,
}

/// A snapshot under way.
#[derive(Debug)]
struct Taking {
    number: u64,
    /// Questions that wait for it: node, number; none: the controller itself asks, since all ranks are still.
    requesters: Vec<Requester>,
    since_ms: u64,
    /// Views of the nodes, as soon as all have seen.
    seen: Option<Vec<String>>,
}

/// News of a job for the log, and for whatever begins in its place.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Nodes whose ranks have left, with their status.
    pub(super) left: Vec<(NodeId, u8)>,
    /// Nodes on which it was put out as a filler, or may fill again.
    pub(super) fillings: Vec<(NodeId, Option<PutOut>)>,
    /// Nodes where the keeper's prolog has failed, and how, which are to be drained.
    pub(super) unprepared: Vec<(NodeId, String)>,
}

/// A job of the cluster.
#[derive(Debug)]
pub(super) struct JobRecord {
    pub(super) id: JobId,
    pub(super) launch: Arc<Launch>,
    pub(super) order: Order,
    command: String,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    /// Use of its processes, as far as their starters have said it.
    used: Option<Used>,
    /// Why it ends, and with which status.
    pub(super) end: EndState,
    /// Whether it outlives its origin.
    detached: bool,
    reported_started: bool,
    reported_suspended: bool,
    /// Reports given of its parts, by node.
    reported: BTreeMap<NodeId, Reported>,
    /// Counts of the ranks of each part, if its user wants to know.
    counted: BTreeMap<NodeId, Counted>,
    /// Nodes that were lost.
    lost: BTreeSet<NodeId>,
    signals: u64,
    /// Reports for its origin.
    pub(super) reports: Reports,
    over: bool,
    /// Whether it is over, and its origin has written its output.
    done: bool,
    /// Lengths of output that the last end report says, by node.
    written: Option<Vec<(NodeId, u64)>>,
    /// Whether this controller has chosen its nodes, so all that became of it since is known here.
    chosen: bool,
    /// Until when nodes that are not there may say what is left of a job of an earlier controller.
    adopted_until_ms: Option<u64>,
    news: News,
    /// Nodes whose ranks have left.
    reported_left: BTreeSet<NodeId>,
    /// A snapshot under way, and the number of the last.
    taking: Option<Taking>,
    last_hold: u64,
    /// Whether its ranks wait for each other for ever.
    stuck: Stuck,
    /// Whether it is idle, and what its user wants done then has been done.
    idle_acted: bool,
    /// Pids by node, for the list.
    pids: Vec<(NodeId, Vec<u32>)>,
    /// Wait of a job that has no nodes yet.
    pub(super) queued: Option<Waits>,
    /// Launches that its ranks are connected to.
    pub(super) connected: Connected,
    /// Libraries on which its ranks have begun with MPI.
    libraries: Vec<Library>,
    /// Requesters that wait for its end: the node, and the question.
    waiters: BTreeSet<Requester>,
    /// Turns that it has had, as the switch thread has said last.
    served: ServedJob,
    /// State of the files of its output, as its origin has said last.
    output: OutputState,
    absence: Absence,
}

/// How long the origin of a job that is over, whose files it writes, is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// Present when it was needed last.
    None,
    /// Lost, and may come back until then.
    Until(u64),
    /// Gone for good: the job is over without it.
    Final,
}

impl JobRecord {
    /// A job that has its nodes, or none yet ([`Self::queued`]).
    pub(super) fn new(id: JobId, launch: Launch) -> Self {
        let detached = launch.detached;
        let launch = Arc::new(launch);
        let order = Order::of(Arc::clone(&launch));
        JobRecord {
            id,
            command: command(&launch),
            order,
            started_ms: None,
            ended_ms: None,
            used: None,
            end: EndState::default(),
            detached,
            reported_started: false,
            reported_suspended: false,
            reported: BTreeMap::new(),
            counted: BTreeMap::new(),
            lost: BTreeSet::new(),
            signals: 0,
            reports: Reports::new(placed(&launch)),
            over: false,
            done: false,
            written: None,
            chosen: false,
            adopted_until_ms: None,
            news: News::default(),
            reported_left: BTreeSet::new(),
            taking: None,
            last_hold: 0,
            stuck: Stuck::default(),
            idle_acted: false,
            pids: Vec::new(),
            queued: None,
            connected: Connected::new(public_number(launch.job.id)),
            libraries: Vec::new(),
            waiters: BTreeSet::new(),
            served: ServedJob::default(),
            output: OutputState::default(),
            absence: Absence::None,
            launch,
        }
    }

    /// Gives it nodes from now on, with so many ranks on each. A script runs on the first one.
    pub(super) fn place(&mut self, parts: &[(NodeId, u32)], gpus: Vec<(NodeId, Gpus)>, members: &Members) {
        (self.queued, self.chosen) = (None, true);
        let mut launch = Launch::clone(&self.launch);
        let mut begun = parts;
        if let Some(allocation) = &mut launch.steps.allocation {
            allocation.parts = parts.to_vec();
            allocation::set_variable(&mut launch, members);
            begun = &parts[..parts.len().min(1)];
        }
        launch.nodes = begun.iter().map(|part| part.0).collect();
        let firsts = begun.iter().scan(0, |next, part| Some(std::mem::replace(next, *next + part.1)));
        launch.first_ranks = firsts.collect();
        launch.set_gpus(gpus);
        launch.incarnations = launch.nodes.iter().map(|node| members.nodes[node].about.incarnation).collect();
        self.launch = Arc::new(launch);
        self.order.launch = Some(Arc::clone(&self.launch));
        placed(&self.launch).into_iter().for_each(|notice| self.reports.push(notice));
        if self.detached {
            self.detach();
        }
    }

    /// Detaches a job that its front end has left alone: it outlives its origin, which awaits nobody.
    pub(super) fn detach(&mut self) {
        self.detached = true;
        self.order.amended_mut().add(&Change { detached: true, ..Change::default() });
        self.reports.detach();
    }

    /// Takes over what another controller knew of the job.
    pub(super) fn learn(&mut self, order: &Order) {
        let known = &mut self.order;
        let mut other = order.clock;
        if order.version >= known.version {
            std::mem::swap(&mut known.clock, &mut other);
            *known.amended_mut() = order.amended().clone();
        }
        known.clock.keep_facts(&other);
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
        if (order.spawn.number, order.spawn.ended) > (known.spawn.number, known.spawn.ended) {
            known.spawn = Arc::clone(&order.spawn);
        }
        for renewed in &order.renewed {
            match known.renewed.iter_mut().find(|known| known.node == renewed.node) {
                Some(known) if known.before >= renewed.before => {}
                Some(known) => *known = *renewed,
                None => known.renewed.push(*renewed),
            }
        }
        let is_detached = known.amended().is_detached();
        self.signals = known.signals.last().map_or(0, |(number, _)| *number);
        if is_detached {
            self.detach();
        }
        if let Some(end) = order.end {
            self.end.learn(end);
        }
        self.apply_amended();
        self.learn_clock();
    }

    pub(super) fn signal(&mut self, signal: u32) {
        self.signals += 1;
        self.order.signals.push((self.signals, signal));
        let excess = self.order.signals.len().saturating_sub(SIGNALS_MAX);
        self.order.signals.drain(..excess);
    }

    pub(super) fn report(&mut self, report: Report) {
        match &report {
            Report::Refused(text) => self.end.record_cause(EndKind::NotStarted, text.clone()),
            Report::Ended(ended) => {
                let is_memory = matches!(ended.cause, Cause::Memory | Cause::UserMemory);
                let kind = if is_memory { EndKind::Memory } else { EndKind::Failed };
                self.end.mark(kind);
                match ended.notice() {
                    Some(text) => self.end.record_cause(kind, text),
                    // That memory was short a warning before this has said.
                    None => {
                        if let Some((notice, text)) = self.reports.last_warning() {
                            self.end.record_noticed_cause(kind, text.to_owned(), notice);
                        }
                    }
                }
            }
            _ => {}
        }
        self.reports.push(Notice::Report(report));
    }

    pub(super) fn state(&self) -> JobState {
        match self.order.run {
            _ if self.is_done() => JobState::Over,
            _ if self.over => JobState::Ending,
            Run::Kill => JobState::Ending,
            Run::Stop => JobState::Suspended,
            Run::Go if self.queued.is_some() => JobState::Waiting,
            Run::Go if self.reported_started => JobState::Running,
            Run::Go => JobState::Starting,
        }
    }

    /// The files of its output, for people.
    pub(super) fn shown_output(&self) -> Vec<String> {
        let launch = &self.launch;
        launch.output.as_ref().map_or_else(Vec::new, |output| output.shown(self.id, &launch.directory))
    }

    /// Command line of its programs, shortened.
    pub(super) fn command(&self) -> &str {
        &self.command
    }

    /// When its ranks have begun, all of them, in wall clock time.
    pub(super) fn started_ms(&self) -> Option<u64> {
        self.started_ms
    }

    /// When it was over, in wall clock time.
    pub(super) fn ended_ms(&self) -> Option<u64> {
        self.ended_ms
    }

    /// Whether all its ranks have begun.
    pub(super) fn has_started(&self) -> bool {
        self.reported_started
    }

    /// Whether no rank of it is left, and none will be.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether it outlives its origin.
    pub(super) fn is_detached(&self) -> bool {
        self.detached
    }

    /// Pids of its ranks, by node.
    pub(super) fn pids(&self) -> &[(NodeId, Vec<u32>)] {
        &self.pids
    }

    /// State of the files of its output.
    pub(super) fn output(&self) -> &OutputState {
        &self.output
    }

    /// Records what its origin says of the files of its output. Gives the state before.
    pub(super) fn record_output(&mut self, output: OutputState) -> OutputState {
        std::mem::replace(&mut self.output, output)
    }

    /// The deadlock, if its ranks wait for each other for ever.
    pub(super) fn deadlock(&self) -> Option<&DeadlockNotice> {
        self.stuck.deadlock()
    }

    /// Turns that it has had, and its weight beside the others.
    pub(super) fn served(&self) -> &ServedJob {
        &self.served
    }

    /// Records what the switch thread says of its turns.
    pub(super) fn record_served(&mut self, served: ServedJob) {
        self.served = served;
    }

    /// Adds one that waits for the job's end, as long as there is room.
    pub(super) fn add_waiter(&mut self, requester: Requester) {
        if self.waiters.len() < WAITERS_MAX {
            self.waiters.insert(requester);
        }
    }

    /// Takes those that wait for its end.
    pub(super) fn take_waiters(&mut self) -> BTreeSet<Requester> {
        std::mem::take(&mut self.waiters)
    }

    /// Replaces those that wait for its end.
    pub(super) fn set_waiters(&mut self, waiters: BTreeSet<Requester>) {
        self.waiters = waiters;
    }

    /// The parts have said something; whether the job is connected to others than before.
    pub(super) fn judge_connections(&mut self, states: Option<&BTreeMap<NodeId, PartState>>) -> bool {
        self.connected.judge(states, !self.over && self.launch.terms.gang)
    }

    /// Takes over a job of an earlier controller: nodes that are not there may say until then what is left of
    /// it.
    pub(super) fn adopt_until(&mut self, until_ms: u64) {
        self.adopted_until_ms = Some(until_ms);
    }

    /// Whether nodes may yet say what is left of it since an earlier controller.
    pub(super) fn is_adopted(&self) -> bool {
        self.adopted_until_ms.is_some()
    }

    /// Ends the time in which nodes may say what is left of it. `true`: it has just passed.
    pub(super) fn poll_adopted(&mut self, now_ms: u64) -> bool {
        self.adopted_until_ms.take_if(|until_ms| now_ms >= *until_ms).is_some()
    }

    /// Whether it is to be judged since time has passed.
    pub(super) fn is_due(&self, now_ms: u64, boot_ms: u64) -> bool {
        self.reports.is_due(now_ms)
            || self.taking.is_some()
            || self.stuck.is_due(now_ms)
            || self.is_past_limit(boot_ms)
            || self.is_term_due(boot_ms)
            || self.is_warning_due(boot_ms)
    }

    /// Use of its processes, when it is over and that is known.
    pub(super) fn used(&self) -> Option<Used> {
        self.used.filter(|_| self.over)
    }

    /// Use of its processes on one more node.
    pub(super) fn add_used(&mut self, used: Used) {
        self.used = Some(self.used.unwrap_or_default().and(used));
    }

    /// Whether it had ranks on this node, which was lost.
    pub(super) fn has_lost(&self, node: NodeId) -> bool {
        self.lost.contains(&node)
    }

    /// Replaces the launch, here and in the order.
    pub(super) fn set_launch(&mut self, launch: Launch) {
        self.launch = Arc::new(launch);
        self.order.launch = Some(Arc::clone(&self.launch));
    }
}

/// Where it runs, for its origin; none: that is not known yet.
fn placed(launch: &Launch) -> Option<Notice> {
    let takers = match launch.job.input {
        Input::None => Vec::new(),
        Input::All => launch.nodes.clone(),
        Input::Rank(rank) => {
            let index = launch.first_ranks.partition_point(|first| *first <= rank);
            index.checked_sub(1).map(|index| launch.nodes[index]).into_iter().collect()
        }
    };
    let takers = if launch.detached { Vec::new() } else { takers };
    let output = launch.output.clone().filter(|_| !launch.enrolled).map(|output| {
        Box::new(OutputPlan {
            output,
            directory: launch.directory.clone(),
            umask: launch.umask,
            groups: launch.groups.clone(),
            first_ranks: launch.first_ranks.clone(),
            ranks: launch.job.ranks() as u32,
            request_id: launch.request_id,
            begins_anew: launch.batch.restart().is_some() || launch.batch.array_task().is_some(),
        })
    });
    let has_front_end = !launch.detached && !launch.enrolled;
    let placed =
        Notice::Placed { nodes: launch.nodes.clone(), user: launch.user, takers, output, has_front_end };
    (!launch.nodes.is_empty()).then_some(placed)
}

/// Command line of the programs, shortened.
pub(super) fn command(launch: &Launch) -> String {
    let words = launch.job.programs.iter().map(|program| {
        let words: Vec<_> =
            program.arguments.iter().map(|word| String::from_utf8_lossy(word.as_bytes())).collect();
        words.join(" ")
    });
    let text: String = words
        .collect::<Vec<_>>()
        .join(" : ")
        .chars()
        .map(|c| if is_deceptive(c) { ' ' } else { c })
        .collect();
    match text.char_indices().nth(COMMAND_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}
