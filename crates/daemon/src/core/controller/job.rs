//! One job as the controller knows it: what its parts say becomes what is to be with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_os::stderr::is_deceptive;
use tutti_protocol::gpus::Gpus;
use tutti_protocol::wire::{Cause, Counted, Ended, Inherits, Input, Program, Reached, Report, Used};
use tutti_sched::fill_trial::PutOut;
use tutti_shm::ticket::public_number;

use super::allocation;
use super::answers::Requester;
use super::stillness::Stuck;
use super::waits::Waits;
use crate::core::clocks::Clocks;
use crate::members::{Members, NodeId};
use crate::message::output::{OutputPlan, OutputState};
use crate::message::{
    Change, End, EndKind, Ending, Fence, JobEnd, JobId, JobState, Launch, Notice, Order, PartState, Phase,
    Renewed, Run, SpawnOrder,
};

mod again;
mod starting;

pub(super) use again::mixed;

/// Signals of an order; older ones have long been handed on.
const SIGNALS_MAX: usize = 16;
/// Characters of a command that are listed.
const COMMAND_CHARS: usize = 60;

/// Lines of ranks and starters.
const CAUSE_BYTES_MAX: usize = 1 << 10;
/// A directory of a job that is over: no path is longer.
const DIRECTORY_BYTES_MAX: usize = 4 << 10;

/// Reports that a user was given of a part.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    warnings: usize,
    ended: usize,
    /// Whether it has ended: whatever it says now of why is a consequence.
    ending: bool,
    /// Reason for which it is put out there, as a filler.
    put_out: Option<PutOut>,
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
    /// Lines that the log of events has of that.
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
            taking: None,
            last_hold: 0,
            stuck: Stuck::default(),
            idle_acted: false,
            pids: Vec::new(),
            queued: None,
            connected: BTreeSet::new(),
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

    /// The job ends everywhere; the first who says so gives the status. Without an ender it is killed at
    /// once, also one that ends itself.
    pub(super) fn end_by(&mut self, ender: Option<NodeId>, status: u8) {
        if self.order.run != Run::Kill {
            self.order.run = Run::Kill;
            self.ender = ender;
            self.ends_well = ender.is_some() && status == 0;
        } else if ender.is_none() {
            self.ender = None;
        }
        self.record_status(status);
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

    /// Records the first cause of its end: what follows is a consequence of that.
    pub(super) fn record_cause(&mut self, kind: EndKind, text: String) {
        self.way.mark(kind);
        self.cause.get_or_insert(text);
    }

    /// The same, where a notice has said it, or is about to.
    fn record_told_cause(&mut self, kind: EndKind, text: String, notice: usize) {
        if self.cause.is_none() {
            self.cause_notice = Some(notice as u64);
        }
        self.record_cause(kind, text);
    }

    /// Records the cause of its end, and warns its user of that with this line.
    pub(super) fn warn_of_end(&mut self, kind: EndKind, cause: String, line: String) {
        self.record_told_cause(kind, cause, self.notices.len());
        self.report(Report::Warning(line));
    }

    /// How it ends for an origin, with what that is to have of each node.
    pub(super) fn end_notice(&self, written: Vec<(NodeId, u64)>, counted: Option<Counted>) -> Notice {
        let (status, cause, cause_report) = (self.status, self.cause.clone(), self.cause_notice);
        Notice::End { status, written, cause, counted, cause_report }
    }

    /// In which way it ends, unless that is known.
    pub(super) fn mark_end(&mut self, kind: EndKind) {
        self.way.mark(kind);
    }

    /// A user ends it.
    pub(super) fn record_cancel(&mut self, uid: u32, text: String) {
        self.way.cancel(uid);
        self.cause.get_or_insert(text);
    }

    /// A user has sent a signal that is to end it.
    pub(super) fn record_ending_signal(&mut self, uid: u32, text: String) {
        self.ended_by = Some((text, uid));
    }

    /// How it has ended, when it is over.
    pub(super) fn how_ended(&self) -> Option<JobEnd> {
        self.over.then(|| self.way.end(self.status))
    }

    pub(super) fn record_status(&mut self, status: u8) {
        if self.status == 0 && !self.ends_well {
            self.status = status;
        }
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
                            self.record_told_cause(kind, text, notice);
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

    /// The node is lost whose files it writes to: what it wrote is kept a while for a daemon that comes back.
    pub(super) fn waits_for_origin(&mut self, now_ms: u64, keep_ms: u64) -> bool {
        let has_files = self.launch.output.is_some() && !self.launch.enrolled;
        if self.absence == Absence::None {
            self.absence = Absence::Until(now_ms + keep_ms);
        }
        has_files && matches!(self.absence, Absence::Until(until_ms) if now_ms < until_ms)
    }

    /// Fails a job that has ended, or is about to, and whose output is nowhere: it has not ended well.
    pub(super) fn fail_late(&mut self, text: String) {
        self.record_cause(EndKind::Failed, text);
        self.ends_well = false;
        self.record_status(1);
    }

    /// Ends the wait for the origin.
    pub(super) fn lose_origin(&mut self, origin: &str) {
        self.absence = Absence::Final;
        if self.launch.output.is_some() {
            let text = format!(
                "node {origin}, where the job was submitted, did not come back: the end of the output is lost"
            );
            self.output.trouble.get_or_insert(text);
        }
    }

    /// The files of its output, for people.
    pub(super) fn shown_output(&self) -> Vec<String> {
        let launch = &self.launch;
        launch.output.as_ref().map_or_else(Vec::new, |output| output.shown(self.id, &launch.directory))
    }

    /// Whether it is over, and its output is in its files.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether that is new.
    pub(super) fn poll_done(&mut self) -> bool {
        let is_received = || self.order.forget || self.received >= self.notices.len() as u64;
        let is_written = || self.absence == Absence::Final || is_received();
        let done = self.over && (self.launch.output.is_none() || is_written());
        done && !std::mem::replace(&mut self.done, true)
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

    /// Whether nobody may do anything to it that is not the job's own end.
    pub(super) fn is_ending(&self) -> bool {
        self.over || self.order.run == Run::Kill
    }

    /// Whether it is over, or all of it is being killed: nothing of it may go on by itself.
    pub(super) fn is_killed(&self) -> bool {
        self.over || self.order.run == Run::Kill && self.ender.is_none()
    }

    /// A job without parts stands still and ends by word alone.
    fn judge_waiting(&mut self, wall_ms: u64) {
        if self.order.run == Run::Stop && !std::mem::replace(&mut self.reported_suspended, true) {
            self.report(Report::Suspended);
        }
        if self.order.run == Run::Kill && !self.over {
            self.over = true;
            self.ended_ms = Some(wall_ms);
            self.report_end(Vec::new());
        }
    }

    /// True when parts say what their ranks have newly put over PMI.
    pub(super) fn has_new_puts(&self, states: &BTreeMap<NodeId, PartState>) -> bool {
        states.values().any(|part| part.fence.number > self.order.fence.number)
    }

    /// All ranks are in a barrier of PMI: all nodes get what has been put, as long as there is room.
    fn judge_fence(&mut self, parts: &[Option<&PartState>], puts_bytes_max: usize) {
        let next = self.order.fence.number + 1;
        if self.is_ending() || !parts.iter().all(|part| part.is_some_and(|part| part.fence.number == next)) {
            return;
        }
        let puts: Vec<u8> = parts.iter().flatten().flat_map(|part| part.fence.puts.iter().copied()).collect();
        if puts.len() <= puts_bytes_max {
            return self.order.fence = Arc::new(Fence { number: next, puts });
        }
        let text = format!(
            "what the ranks have put over PMI takes {} bytes, and your other jobs leave room for {puts_bytes_max}",
            puts.len()
        );
        let line = format!("{text}; the job is ended");
        self.warn_of_end(EndKind::Failed, text, line);
        self.end_by(None, 1);
    }

    /// Makes what is to be of what the parts say. Ranks may have put so much over PMI. A job is not over
    /// before its steps are.
    pub(super) fn judge(
        &mut self,
        states: &BTreeMap<NodeId, PartState>,
        now: Clocks,
        (puts_bytes_max, has_steps): (usize, bool),
    ) {
        let wall_ms = now.wall_ms;
        if self.queued.is_some() {
            return self.judge_waiting(wall_ms);
        }
        for (node, part) in states {
            self.handle_part(*node, part);
            if let Some(incarnation) = part.unbegun {
                self.renew(*node, incarnation);
            }
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
            self.order.peers = Some(Reached::of_all(parts.iter().flatten().map(|part| &part.reached)));
        }
        if whole && all(Phase::Running) && !self.reported_started && !self.is_ending() {
            self.reported_started = true;
            self.record_start(now);
            self.pids = self.launch.nodes.iter().map(|node| (*node, states[node].pids.clone())).collect();
            let pids = parts.iter().flatten().flat_map(|part| part.pids.clone()).collect();
            let cores = parts.iter().flatten().flat_map(|part| part.cores.clone()).collect();
            self.report(Report::Started { pids, cores });
        }
        let suspended = self.order.run == Run::Stop
            && parts.iter().all(|part| part.is_some_and(|part| part.suspended || part.phase >= Phase::Left));
        if suspended && !std::mem::replace(&mut self.reported_suspended, true) {
            self.report(Report::Suspended);
        }
        if whole {
            self.judge_fence(&parts, puts_bytes_max);
        }
        if whole && parts.len() > 1 {
            self.order_ranks(&parts);
        }
        if whole && self.reported_started {
            let grown = |(node, pids): &mut (NodeId, Vec<u32>)| {
                let known = states.get(node).filter(|part| part.pids.len() > pids.len());
                known.into_iter().for_each(|part| pids.clone_from(&part.pids));
            };
            self.pids.iter_mut().for_each(grown);
        }
        self.order.leave |= self.is_left(&parts);
        if all(Phase::Over) && !self.over && !has_steps {
            self.over = true;
            self.ended_ms = Some(wall_ms);
            let statuses: Vec<u8> = parts.iter().flatten().map(|part| part.status).collect();
            statuses.into_iter().for_each(|status| self.record_status(status));
            if let Some((text, uid)) = self.ended_by.take().filter(|_| self.status != 0) {
                self.record_cancel(uid, text);
            }
        }
        if self.over {
            let nodes = self.launch.nodes.iter().filter(|node| !self.lost.contains(node));
            self.report_end(nodes.filter_map(|node| Some((*node, states.get(node)?.written?))).collect());
        }
        if self.order.run == Run::Kill {
            let (by, by_user) = (self.ender, self.by_user);
            self.order.end = Some(End { by, status: self.status, by_user, way: self.way });
        }
    }

    /// No rank is left on any node, and none is asked for: a part gets ranks by the next order alone, and
    /// only one that has ranks, or waits for an order, can cause one.
    fn is_left(&self, parts: &[Option<&PartState>]) -> bool {
        let SpawnOrder { number, ended, .. } = *self.order.spawn;
        let is_empty = |part: &PartState| ended == number && part.empty == Some(number);
        parts.iter().all(|part| part.is_some_and(|part| part.phase >= Phase::Left || is_empty(part)))
    }

    /// Ranks that others have asked for: when it is known of all nodes how the last ones began, it is said to
    /// all, and the next ones are ordered.
    fn order_ranks(&mut self, parts: &[Option<&PartState>]) {
        let known = |number| parts.iter().all(|part| part.is_some_and(|part| part.spawned.number == number));
        let SpawnOrder { number, ended, .. } = *self.order.spawn;
        if ended < number && known(number) {
            let spawn = Arc::make_mut(&mut self.order.spawn);
            spawn.ended = number;
            spawn.outcomes =
                parts.iter().flatten().flat_map(|part| part.spawned.puts.iter().copied()).collect();
        }
        let SpawnOrder { number, ended, ref asked, .. } = *self.order.spawn;
        let of_place = |place: usize| asked.get(place).copied().unwrap_or(0);
        let next = (0..parts.len())
            .find(|place| parts[*place].is_some_and(|part| part.ask.number > of_place(*place)));
        if ended == number
            && !self.order.leave
            && !self.is_ending()
            && let Some((place, part)) = next.and_then(|place| Some((place, parts[place]?)))
        {
            let spawn = Arc::make_mut(&mut self.order.spawn);
            spawn.asked.resize(parts.len(), 0);
            spawn.asked[place] = part.ask.number;
            (spawn.number, spawn.by, spawn.ask) = (number + 1, place as u32, part.ask.puts.clone());
        }
    }

    /// Ranks that were started since it began.
    pub(super) fn later_ranks(&self) -> u64 {
        let pids: usize = self.pids.iter().map(|(_, pids)| pids.len()).sum();
        (pids as u64).saturating_sub(self.launch.job.ranks())
    }

    /// A part whose daemon died before it began it begins with the one that is there now, unless the job ran
    /// for an earlier controller: then it may be one that was over.
    fn renew(&mut self, node: NodeId, incarnation: u64) {
        let Some((named, before)) = self.order.incarnation(&self.launch, node).filter(|_| !self.is_ending())
        else {
            return;
        };
        if !self.chosen || self.order.peers.is_some() {
            self.end_by(Some(node), 1);
            self.mark_end(EndKind::NodeLost);
            self.report(Report::Refused("a daemon died before it began its part; the job is ended".into()));
        } else if named != incarnation {
            self.order.renewed.retain(|renewed| renewed.node != node);
            self.order.renewed.push(Renewed { node, incarnation, before: before + 1 });
        }
    }

    /// The end, with what the origin is to have of each node; said again when a node has been lost since.
    pub(super) fn report_end(&mut self, written: Vec<(NodeId, u64)>) {
        if self.written.as_ref() != Some(&written) {
            let counted = self.counted.values().copied().reduce(|mut all, part| {
                all.add(&part);
                all
            });
            self.notices.push(self.end_notice(written.clone(), counted));
            self.written = Some(written);
        }
    }

    /// Drops what the list does not need: what its user has said at length, and what became of each rank, is
    /// not kept.
    pub(super) fn shed(&mut self) {
        let ranks = self.launch.job.ranks();
        let mut launch = Launch::clone(&self.launch);
        launch.environment.clear();
        launch.groups = Vec::new();
        launch.set_demand(None);
        // The names of its output are shown below it.
        if launch.directory.as_bytes().len() > DIRECTORY_BYTES_MAX {
            launch.directory = "".into();
        }
        launch.job.programs.truncate(1);
        for program in &mut launch.job.programs {
            *program = Program {
                file: "".into(),
                arguments: Vec::new(),
                // No job has more.
                ranks: u32::try_from(ranks).unwrap_or(u32::MAX),
                directory: None,
                inherits: Inherits::All,
                variables: Vec::new(),
            };
        }
        self.launch = Arc::new(launch);
        (self.order.launch, self.order.peers, self.order.stuck) = (None, None, None);
        (self.order.fence, self.order.signals) = (Arc::default(), Vec::new());
        self.order.spawn = Arc::default();
        (self.notices, self.received) = (Vec::new(), 0);
        (self.reported, self.reported_left, self.left) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        self.counted = BTreeMap::new();
        self.cause.iter_mut().for_each(|text| shorten(text, CAUSE_BYTES_MAX));
    }

    /// Memory that it takes when it is over, about.
    pub(super) fn held_bytes(&self) -> usize {
        let output: usize = self
            .launch
            .output
            .iter()
            .flat_map(|output| output.out.iter().chain(&output.errors))
            .map(|name| name.as_bytes().len())
            .sum();
        let texts = self.command.len() + self.cause.as_ref().map_or(0, String::len) + output;
        size_of::<Self>() + size_of::<Launch>() + texts + self.launch.memory_bytes_held()
    }

    /// Takes in what one part says.
    fn handle_part(&mut self, node: NodeId, part: &PartState) {
        self.counted.extend(part.counted().map(|counted| (node, counted)));
        if part.phase >= Phase::Left && self.reported_left.insert(node) {
            self.left.push((node, part.status));
        }
        if let Some(status) = part.ending {
            self.end_by(Some(node), status);
        }
        // Of a node that was lost the user has been told so, whatever it says should it come back.
        let is_news = !self.by_user && self.ender == Some(node) && !self.lost.contains(&node);
        let reported = self.reported.get(&node).copied().unwrap_or_default();
        part.warnings
            .iter()
            .skip(reported.warnings)
            .for_each(|text| self.report(Report::Warning(text.clone())));
        let new: Vec<Ended> = part.ended.iter().skip(reported.ended).copied().collect();
        for ended in new {
            self.record_status(ended.cause.status());
            if let Cause::Signal { signal, .. } = ended.cause
                && self.status == ended.cause.status()
            {
                self.way.kill(signal);
            }
            if is_news {
                self.report(Report::Ended(ended));
            }
        }
        if let Some(text) = part.refused.clone().filter(|_| is_news && !reported.ending) {
            self.report(Report::Refused(text));
        }
        if reported.put_out != part.put_out && part.phase < Phase::Left {
            self.fillings.push((node, part.put_out));
        }
        let (warnings, ended, ending) = (part.warnings.len(), part.ended.len(), part.ending.is_some());
        self.reported.insert(node, Reported { warnings, ended, ending, put_out: part.put_out });
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

/// Cuts a text that is longer.
pub(super) fn shorten(text: &mut String, bytes_max: usize) {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push_str("...");
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let cut = |text: &str, bytes| {
            let mut text = text.to_owned();
            shorten(&mut text, bytes);
            text
        };
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 4), "long...");
        assert_eq!(cut("\u{e4}\u{e4}\u{e4}", 3), "\u{e4}...");
    }
}
