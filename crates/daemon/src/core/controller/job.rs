//! One job as the controller knows it: what its parts say becomes what is to be with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_os::stderr::is_deceptive;
use tutti_protocol::gpus::Gpus;
use tutti_protocol::wire::{Cause, Counted, Input, Library, Report, Used};
use tutti_sched::fill_trial::PutOut;
use tutti_shm::ticket::public_number;

use super::allocation;
use super::answers::Requester;
use super::stillness::Stuck;
use super::waits::Waits;
use crate::members::{Members, NodeId};
use crate::message::output::{OutputPlan, OutputState};
use crate::message::{Change, EndKind, Ending, JobId, JobState, Launch, Notice, Order, Run};

mod again;
mod ending;
mod judging;
mod kept;
mod libraries;
mod starting;

pub(super) use again::mixed;
pub(super) use kept::shorten;

/// Signals of an order; older ones have long been handed on.
const SIGNALS_MAX: usize = 16;
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
pub(super) struct Taking {
    pub(super) number: u64,
    /// Questions that wait for it: node, number; none: the controller itself asks, since all ranks are still.
    pub(super) requesters: Vec<Requester>,
    pub(super) since_ms: u64,
    /// Views of the nodes, as soon as all have seen.
    pub(super) seen: Option<Vec<String>>,
}

/// A job of the cluster.
#[derive(Debug)]
pub(super) struct JobRecord {
    pub(super) id: JobId,
    pub(super) launch: Arc<Launch>,
    pub(super) order: Order,
    pub(super) command: String,
    pub(super) started_ms: Option<u64>,
    pub(super) ended_ms: Option<u64>,
    /// Use of its processes, as far as their starters have said it.
    used: Option<Used>,
    pub(super) status: u8,
    /// A node has ended it with status 0: what the others report is a consequence.
    ends_well: bool,
    /// Why it ended, as its user was told first.
    pub(super) cause: Option<String>,
    /// The notice by which its user was warned of that.
    cause_notice: Option<u64>,
    /// A signal that was to end it, and who sent it; its user.
    ended_by: Option<(String, u32)>,
    /// In which way it ends.
    way: Ending,
    /// The part that ended the job.
    pub(super) ender: Option<NodeId>,
    /// A user asked for its end.
    pub(super) by_user: bool,
    /// Whether it outlives its origin.
    pub(super) detached: bool,
    pub(super) reported_started: bool,
    pub(super) reported_suspended: bool,
    /// Reports given of its parts, by node.
    reported: BTreeMap<NodeId, Reported>,
    /// Counts of the ranks of each part, if its user wants to know.
    counted: BTreeMap<NodeId, Counted>,
    /// Nodes that were lost.
    pub(super) lost: BTreeSet<NodeId>,
    pub(super) signals: u64,
    pub(super) notices: Vec<Notice>,
    pub(super) received: u64,
    pub(super) sent_ms: u64,
    pub(super) over: bool,
    /// Whether it is over, and its origin has written its output.
    done: bool,
    /// Lengths of output that the last end report says, by node.
    pub(super) written: Option<Vec<(NodeId, u64)>>,
    /// Whether this controller has chosen its nodes, so all that became of it since is known here.
    chosen: bool,
    /// Until when nodes that are not there may say what is left of a job of an earlier controller.
    pub(super) adopted_until_ms: Option<u64>,
    /// Nodes whose ranks have left, with their status, that the log does not have yet; and all of them.
    pub(super) left: Vec<(NodeId, u8)>,
    /// Nodes on which it was put out as a filler, or may fill again; until that is in the log.
    pub(super) fillings: Vec<(NodeId, Option<PutOut>)>,
    reported_left: BTreeSet<NodeId>,
    /// Nodes where the keeper's prolog has failed, and how, until they are drained.
    unprepared: Vec<(NodeId, String)>,
    /// A snapshot under way, and the number of the last.
    pub(super) taking: Option<Taking>,
    pub(super) last_hold: u64,
    /// Whether its ranks wait for each other for ever.
    pub(super) stuck: Stuck,
    /// Whether it is idle, and what its user wants done then has been done.
    pub(super) idle_acted: bool,
    /// Pids by node, for the list.
    pub(super) pids: Vec<(NodeId, Vec<u32>)>,
    /// Wait of a job that has no nodes yet.
    pub(super) queued: Option<Waits>,
    /// Launches that its ranks are connected to, by their public numbers, as its starters say; and its own.
    pub(super) connected: BTreeSet<u64>,
    /// Libraries on which its ranks have begun with MPI.
    libraries: Vec<Library>,
    /// Lines that the log of events has of its connections.
    pub(super) connection_lines: u32,
    pub(super) public: u64,
    /// Requesters that wait for its end: the node, and the question.
    pub(super) waiters: BTreeSet<Requester>,
    /// Slices that it has had, as the switch thread has said last.
    pub(super) turns: u64,
    /// Weight of the job beside the others, in thousandths, in the same way.
    pub(super) effective_milli: u64,
    /// How much of its slots' time it uses, in thousandths, if that is known.
    pub(super) busy_permille: Option<u32>,
    /// State of the files of its output, as its origin has said last.
    pub(super) output: OutputState,
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
            status: 0,
            ends_well: false,
            cause: None,
            cause_notice: None,
            ended_by: None,
            way: Ending::default(),
            ender: None,
            by_user: false,
            detached,
            reported_started: false,
            reported_suspended: false,
            reported: BTreeMap::new(),
            counted: BTreeMap::new(),
            lost: BTreeSet::new(),
            signals: 0,
            notices: placed(&launch).into_iter().collect(),
            received: 0,
            sent_ms: 0,
            over: false,
            used: None,
            done: false,
            written: None,
            chosen: false,
            adopted_until_ms: None,
            left: Vec::new(),
            fillings: Vec::new(),
            reported_left: BTreeSet::new(),
            unprepared: Vec::new(),
            taking: None,
            last_hold: 0,
            stuck: Stuck::default(),
            idle_acted: false,
            pids: Vec::new(),
            queued: None,
            connected: BTreeSet::new(),
            libraries: Vec::new(),
            connection_lines: 0,
            public: public_number(launch.job.id),
            waiters: BTreeSet::new(),
            turns: 0,
            effective_milli: 0,
            busy_permille: None,
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
        self.notices.extend(placed(&self.launch));
        if self.detached {
            self.detach();
        }
    }

    /// Detaches a job that its front end has left alone: it outlives its origin, which awaits nobody.
    pub(super) fn detach(&mut self) {
        self.detached = true;
        self.order.amended_mut().add(&Change { detached: true, ..Change::default() });
        for notice in &mut self.notices {
            if let Notice::Placed { has_front_end, .. } = notice {
                *has_front_end = false;
            }
        }
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
            (self.ender, self.by_user) = (end.by, end.by_user);
            (self.ends_well, self.way) = (end.by.is_some() && end.status == 0, end.way);
            self.record_status(end.status);
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
            Report::Refused(text) => self.record_cause(EndKind::NotStarted, text.clone()),
            Report::Ended(ended) => {
                let is_memory = matches!(ended.cause, Cause::Memory | Cause::UserMemory);
                let kind = if is_memory { EndKind::Memory } else { EndKind::Failed };
                self.way.mark(kind);
                match ended.notice() {
                    Some(text) => self.record_cause(kind, text),
                    // That memory was short a warning before this has said.
                    None => {
                        if let Some((notice, text)) = self.last_warning() {
                            self.record_noticed_cause(kind, text, notice);
                        }
                    }
                }
            }
            _ => {}
        }
        self.notices.push(Notice::Report(report));
    }

    /// The last warning of its user, and which notice that was.
    fn last_warning(&self) -> Option<(usize, String)> {
        self.notices.iter().enumerate().rev().find_map(|(number, notice)| match notice {
            Notice::Report(Report::Warning(text)) => Some((number, text.clone())),
            _ => None,
        })
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
