//! Orders on their way down the tree, states on their way up.
//!
//! Every node keeps the orders of the jobs that run on it or below it, and the states of their parts. What
//! has changed goes on at the end of an event: all changes of a job to a neighbour in one message. On the way
//! up a change that only says that a node is further waits until all nodes below are as far (a barrier); one
//! that says that the job ends goes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::action::Action;
use super::context::Context;
use super::outbox::Outbox;
use crate::gang::Command;
use crate::ids::LinkId;
use crate::members::{Members, NodeId};
use crate::message::{Environments, Held, JobId, Message, Order, PartState, Phase, State};

/// Another message begins behind orders and states of so many bytes: users make them long, and a message has
/// an end.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// Contents of one message.
#[derive(Debug, Default)]
struct Batch {
    orders: Vec<(JobId, Order)>,
    states: Vec<State>,
}

/// Messages that go over a link at the end of an event: as few as have room for everything.
#[derive(Debug, Default)]
struct Batches {
    full: Vec<Batch>,
    bytes: usize,
}

impl Batches {
    /// The message for what is so long.
    fn next(&mut self, bytes: usize) -> &mut Batch {
        if self.full.is_empty() || self.bytes + bytes > BATCH_BYTES_MAX {
            self.full.push(Batch::default());
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.full.last_mut().expect("one was begun")
    }

    fn push_order(&mut self, job: JobId, order: Order) {
        self.next(order.bytes()).orders.push((job, order));
    }

    fn push_state(&mut self, state: State) {
        self.next(state.part.bytes()).states.push(state);
    }
}

/// Level that all nodes below have reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    phase: Phase,
    suspended: bool,
    /// The barrier of PMI.
    fence: u32,
    /// Numbers of what ranks have asked for, added; the order of new ranks that has begun everywhere.
    asks: u64,
    spawned: u32,
    /// The order as of which no rank is left, or some part says of none.
    empty: Option<u32>,
    /// Public numbers of the launches that parts are connected to, added.
    connected: u64,
    /// Libraries that parts have seen, added.
    libraries: usize,
    /// Ranks with those that were started later, while all parts run.
    ranks: usize,
    /// Whether it is known by what they are held while others have the cores.
    held_by: bool,
    /// Twice the number of the last snapshot, and one more when they go on.
    snapshot: u64,
    /// Numbers of the stillness of all, added; none: some rank is not still.
    stalled: Option<u64>,
    /// Whether nothing of the job has worked for long.
    idle: bool,
}

#[derive(Debug)]
struct Entry {
    order: Order,
    /// A newer one that nodes below have had from an earlier controller. Only the controller, who is told,
    /// can order something newer than that.
    newest: Option<Order>,
    /// The order has changed since it went down.
    new: bool,
    /// The order is to go up with the next states: the link is new, or a node below knows it and we did not.
    up: bool,
    /// Only nodes below, or an earlier incarnation, have said what the order is: this node has not yet done
    /// what it says.
    learned: bool,
    states: BTreeMap<NodeId, PartState>,
    /// Nodes whose state has changed since it went up.
    changed: BTreeSet<NodeId>,
    /// Level that all nodes below had reached when something last went up.
    sent: Option<Level>,
    /// The switch thread has been notified of the job.
    announced: bool,
}

/// Orders and states of the jobs on this node and below it.
#[derive(Debug, Default)]
pub(super) struct Relay {
    entries: BTreeMap<JobId, Entry>,
    /// Which launches a link has been told.
    launches: BTreeMap<LinkId, BTreeSet<JobId>>,
    /// Links that have just come up: they get everything.
    greeted: BTreeSet<LinkId>,
    /// The list of nodes has changed since orders were last sent down.
    moved: bool,
    environments: Environments,
}

impl Relay {
    /// States of parts, as far as they are known here.
    pub(super) fn states(&self, job: JobId) -> Option<&BTreeMap<NodeId, PartState>> {
        self.entries.get(&job).map(|entry| &entry.states)
    }

    pub(super) fn order(&self, job: JobId) -> Option<&Order> {
        self.entries.get(&job).map(|entry| &entry.order)
    }

    /// No job is on this node or below it.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A new order of the controller's, or one from above.
    pub(super) fn set_order(&mut self, job: JobId, mut order: Order) {
        self.share(&mut order);
        match self.entries.get_mut(&job) {
            Some(entry) => {
                // Who says how to start it again may know nothing of the parts.
                if order.launch.is_some() {
                    entry.changed = entry.states.keys().copied().collect();
                    entry.sent = None;
                    // The one from above need not be newer than what the nodes below have had from a daemon
                    // that died before it began its own part.
                    entry.new |= std::mem::take(&mut entry.learned);
                }
                // What the controller has forgotten is over, whatever it knew of it in the end.
                if order.version <= entry.order.version && !order.forget {
                    return;
                }
                order.launch = order.launch.or_else(|| entry.order.launch.clone());
                entry.newest = entry.newest.take().filter(|newest| newest.version > order.version);
                entry.new = true;
                entry.order = order;
            }
            None if order.launch.is_some() && !order.forget => {
                drop(self.entries.insert(job, Entry::new(order)))
            }
            // Of a job that we never heard of nothing has to be changed.
            None => {}
        }
    }

    /// Learns what somebody below takes for the order of a job: it is not known here, or older.
    pub(super) fn learn(&mut self, job: JobId, mut order: Order) {
        self.share(&mut order);
        match self.entries.get_mut(&job) {
            None if order.launch.is_some() => {
                self.entries.insert(job, Entry { new: false, up: true, learned: true, ..Entry::new(order) });
            }
            Some(entry) if order.version > entry.newest_order().version => {
                (entry.newest, entry.up) = (Some(order), true);
            }
            _ => {}
        }
    }

    /// Shares the environment of what has just come with other jobs that may have it too. Who made the order
    /// here has seen to it.
    fn share(&mut self, order: &mut Order) {
        if let Some(launch) = order.launch.as_mut().and_then(Arc::get_mut) {
            self.environments.share(&mut launch.environment);
        }
    }

    /// Forgets what was known: nothing of it concerns us any more.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.launches.clear();
    }

    /// The job is over, and nobody below may keep anything of it.
    pub(super) fn end_entry(&mut self, job: JobId) {
        if let Some(entry) = self.entries.get_mut(&job) {
            entry.order.version += 1;
            entry.order.forget = true;
            entry.new = true;
        }
    }

    pub(super) fn record_batch(&mut self, state: State) {
        let Some(entry) = self.entries.get_mut(&state.job) else { return };
        let known = entry.states.get(&state.node).map_or(0, |part| part.version);
        if state.part.version > known {
            entry.changed.insert(state.node);
            entry.states.insert(state.node, state.part);
        }
    }

    /// A link upwards is new: all that is known goes up.
    pub(super) fn resend_all(&mut self) {
        for entry in self.entries.values_mut() {
            entry.changed = entry.states.keys().copied().collect();
            entry.sent = None;
            entry.up = true;
        }
    }

    /// Barriers are judged again: those who are missing are not waited for.
    pub(super) fn members_changed(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.sent = None);
        self.moved = true;
    }

    pub(super) fn greet(&mut self, link: LinkId) {
        self.launches.remove(&link);
        self.greeted.insert(link);
    }

    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.launches.remove(&link);
        self.greeted.remove(&link);
    }
}

impl Entry {
    fn new(order: Order) -> Self {
        let (states, changed) = (BTreeMap::new(), BTreeSet::new());
        Entry {
            order,
            newest: None,
            new: true,
            up: false,
            learned: false,
            states,
            changed,
            sent: None,
            announced: false,
        }
    }

    /// The newest that this node or one below has had.
    fn newest_order(&self) -> &Order {
        self.newest.as_ref().unwrap_or(&self.order)
    }

    fn concerns(&self, members: &Members, below: NodeId) -> bool {
        let launch = self.order.launch.as_ref();
        launch.is_some_and(|launch| launch.nodes.iter().any(|node| members.is_below(*node, below)))
    }

    /// Level that the nodes of the job on and below `me` have all reached.
    fn level(&self, members: &Members, me: NodeId) -> Option<Level> {
        let launch = self.order.launch.as_ref()?;
        let below =
            launch.nodes.iter().filter(|node| members.is_alive(**node) && members.is_below(**node, me));
        let mut level = Level {
            phase: Phase::Over,
            suspended: true,
            fence: u32::MAX,
            asks: 0,
            spawned: u32::MAX,
            empty: Some(u32::MAX),
            connected: 0,
            libraries: 0,
            ranks: 0,
            held_by: true,
            snapshot: u64::MAX,
            stalled: Some(0),
            idle: true,
        };
        for node in below {
            let part = self.states.get(node)?;
            let snapshot = |held: &Held| held.number * 2 + u64::from(held.released.is_some());
            level.phase = level.phase.min(part.phase);
            level.suspended &= part.suspended;
            level.fence = level.fence.min(part.fence.number);
            level.idle &= part.idle;
            level.asks += u64::from(part.ask.number);
            level.spawned = level.spawned.min(part.spawned.number);
            if part.phase < Phase::Left {
                level.empty = level.empty.min(part.empty);
            }
            level.connected = part.connected.iter().fold(level.connected, |sum, job| sum.wrapping_add(*job));
            level.libraries += part.libraries().len();
            level.ranks += part.pids.len();
            level.held_by &= part.held_by.is_some();
            let stalls = level.stalled.zip(part.stalled.as_ref());
            level.stalled = stalls.map(|(sum, stalled)| sum.wrapping_add(stalled.number));
            level.snapshot = level.snapshot.min(part.held.as_ref().map_or(0, snapshot));
        }
        // Before and after, parts differ for a while.
        if level.phase != Phase::Running {
            level.ranks = 0;
        }
        Some(level)
    }

    /// Whether what has changed is to go up now.
    fn is_due(&mut self, members: &Members, me: NodeId) -> bool {
        let urgent = |node| {
            self.states.get(node).is_some_and(|part: &PartState| {
                let is_late = part.refused.is_some() || part.unbegun.is_some();
                is_late || part.ending.is_some() || !part.warnings.is_empty()
            })
        };
        let level = self.level(members, me);
        let due = !self.changed.is_empty() && (self.changed.iter().any(urgent) || level != self.sent);
        if due {
            self.sent = level;
        }
        due
    }
}

impl Relay {
    /// On the controller: the jobs of which something has changed.
    pub(super) fn take_changed(&mut self) -> Vec<JobId> {
        let mut jobs = Vec::new();
        for (job, entry) in &mut self.entries {
            if !std::mem::take(&mut entry.changed).is_empty() {
                jobs.push(*job);
            }
        }
        jobs
    }

    /// Sends up on this link what is due. `true`: something has changed.
    pub(super) fn flush_states(&mut self, cx: Context<'_>, up: LinkId) -> bool {
        let (Some(me), Some(members)) = (cx.local.me, cx.local.members.as_ref()) else { return false };
        let mut batches = Batches::default();
        for (job, entry) in &mut self.entries {
            if std::mem::take(&mut entry.up) {
                let mut order = entry.newest_order().clone();
                order.clock = order.clock.sent(cx.local.boot_ms);
                batches.push_order(*job, order);
            }
            if entry.is_due(members, me) {
                for node in std::mem::take(&mut entry.changed) {
                    batches.push_state(State { job: *job, node, part: entry.states[&node].clone() });
                }
            }
        }
        let full = batches.full;
        let any = !full.is_empty();
        for Batch { orders, states } in full {
            cx.out.act(Action::Send(up, Message::States { orders, states }));
        }
        any
    }

    /// Sends orders down to these children; gives those that are new here too.
    pub(super) fn flush_orders(
        &mut self,
        cx: Context<'_>,
        children: &[(LinkId, NodeId)],
    ) -> Vec<(JobId, Order)> {
        if self.is_empty() {
            // Without jobs nobody misses any, and the list of nodes need not be copied for each sign of life.
            self.greeted.clear();
            self.moved = false;
            return Vec::new();
        }
        let Some(members) = &cx.local.members else { return Vec::new() };
        // A child may have come before the list that hangs others below it: it has not been notified of their
        // jobs.
        let moved = std::mem::take(&mut self.moved);
        for &(link, child) in children {
            let whole = self.greeted.remove(&link);
            let sent = self.launches.entry(link).or_default();
            let mut batches = Batches::default();
            for (job, entry) in &self.entries {
                let is_news = whole || entry.new || moved && !sent.contains(job);
                if is_news && entry.concerns(members, child) {
                    let mut order = entry.order.clone();
                    order.clock = order.clock.sent(cx.local.boot_ms);
                    if !sent.insert(*job) {
                        order.launch = None;
                    }
                    batches.push_order(*job, order);
                }
            }
            for Batch { orders, .. } in batches.full {
                cx.out.act(Action::Send(link, Message::Orders(orders)));
            }
        }
        self.announce_jobs(cx.out);
        let entries = self.entries.iter_mut();
        let new = entries.filter_map(|(job, entry)| std::mem::take(&mut entry.new).then_some((job, entry)));
        new.map(|(job, entry)| (*job, entry.order.clone())).collect()
    }

    /// The job is over, and forgotten everywhere.
    pub(super) fn forget(&mut self, out: &Outbox, job: JobId) {
        out.act(Action::Gang(Command::JobForgotten(job)));
        self.entries.remove(&job);
        for sent in self.launches.values_mut() {
            sent.remove(&job);
        }
    }

    /// Tells the switch thread of the jobs that are new to it, also of those that an earlier incarnation has
    /// kept.
    fn announce_jobs(&mut self, out: &Outbox) {
        let unknown = self.entries.iter_mut().filter(|(_, entry)| !entry.announced && !entry.order.forget);
        let mut jobs = Vec::new();
        for (job, entry) in unknown {
            if let Some(launch) = &entry.order.launch {
                entry.announced = true;
                jobs.push((*job, launch.nodes.clone()));
            }
        }
        jobs.into_iter().for_each(|(job, nodes)| out.act(Action::Gang(Command::Job(job, nodes))));
    }
}

#[cfg(test)]
impl Relay {
    pub(super) fn leftovers(&self) -> Vec<String> {
        let launches = self.launches.values().flatten().map(|job| format!("a launch of job {job} at a link"));
        let entries = self.entries.iter().map(|(job, entry)| format!("job {job}: {entry:?}"));
        entries.chain(launches).collect()
    }
}
