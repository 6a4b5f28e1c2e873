//! One node: what its program calls, and what records of others do.
//!
//! ```text
//! begin_*  the program's call; one at a time
//! advance  goes on with it as far as the network lets; true when it is over
//! handle_record  what comes, at any time, also while the program computes
//! pump     sends what is owed to others
//! ```
//!
//! [`Member::begin_fault`], [`Member::advance`] of a fault and [`Member::handle_record`] of pages and
//! differences allocate nothing: a fault may come while the program is inside its allocator.

use std::collections::VecDeque;
use std::ops::Range;

use super::check::{Check, Stamp};
use super::difference;
use super::interval::{Log, Part};
use super::message::{self, Call, Differences, Message};
use super::page::{Pages, Store};
use super::sync::{Granted, Grants, Kept, Violation};
use super::time::VectorTime;
use super::unit::{HOME_UNITS, Placement, Run, UNIT_BYTES, runs_of};

/// Rights of the program on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No right: each access faults.
    None,
    /// Loads.
    Read,
    /// Loads and stores.
    Write,
}

/// The memory of a node: a frame for each unit of the arena, and room for a twin of each.
pub trait Frames {
    /// From now on the program may do this with the units.
    fn allow(&mut self, run: Run, access: Access);
    /// Keeps the unit as it is now.
    fn make_twin(&mut self, unit: u32);
    /// The twin is not needed any more.
    fn drop_twin(&mut self, unit: u32);
    /// A unit. The program does not run meanwhile.
    fn frame(&self, unit: u32) -> &[u8];
    /// The twin of a unit that has one.
    fn twin(&self, unit: u32) -> &[u8];
    /// The first run of bytes of a unit from `from` on that the program has noted.
    fn next_noted(&self, unit: u32, from: usize) -> Option<Range<usize>>;
    /// The notes of a unit are not needed any more.
    fn drop_notes(&mut self, unit: u32);
    /// The memory of a unit is not needed: it is absent.
    fn forget(&mut self, unit: u32);
    /// A record with so many bytes about a unit has gone to its home.
    fn note_sent(&mut self, unit: u32, bytes: usize);
    /// Stores bytes beside those of a twin too, which another rank has stored.
    fn store_twin(&mut self, unit: u32, offset: usize, bytes: &[u8]);
    /// The place in the program of the first store to a unit in this interval; 0: not known.
    fn site_of(&self, unit: u32) -> u64;
    /// The interval ends: no note is needed any more. How many units still had some.
    fn drop_all_notes(&mut self) -> usize;
    /// The note at a place of the list of those that leave one by one, in the order in which the program has
    /// made them. None: there are no more, or notes are combined.
    fn single(&self, place: usize) -> Option<(u32, Range<usize>)>;
    /// The list is empty.
    fn drop_singles(&mut self);
    /// Stores bytes from `offset` of a unit on, byte by byte: the program may store to others beside them.
    fn store(&mut self, unit: u32, offset: usize, bytes: &[u8]);
    /// Loads bytes from `offset` of a unit on; the program may be storing.
    fn load(&self, unit: u32, offset: usize, into: &mut [u8]);
}

/// Whether a record was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Sent, in order with those before it.
    Taken,
    /// No room yet.
    Full,
    /// The node has left.
    Gone,
}

/// The way to the other nodes.
pub trait Port {
    /// Hands a record over.
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Sent;
    /// Bytes of the longest record.
    fn record_bytes_max(&self) -> usize;
    /// The last record handed over to a node is one that [`Port::is_applied`] is about.
    fn note_awaited(&mut self, to: usize);
    /// Whether all of those have been applied there.
    fn is_applied(&mut self, to: usize) -> bool;
}

/// Goal of a call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nothing.
    Nothing,
    /// Units, from their home.
    Page {
        /// The home.
        home: usize,
    },
    /// Homes, which have not applied all stores yet.
    Applied,
    /// An answer of the node that keeps a lock, barrier or flag.
    Answer {
        /// The node.
        keeper: usize,
        /// Thing that it keeps.
        asked: Asked,
    },
}

/// Thing that another node is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A lock.
    Lock(u64),
    /// That all have come to a barrier.
    Barrier(u64),
    /// That a flag is set.
    Flag(u64),
    /// Memory, which is given at once.
    Memory,
}

impl Asked {
    fn of(call: &Call) -> Self {
        match call {
            Call::Lock { lock } => Asked::Lock(*lock),
            Call::Arrive { barrier, .. } => Asked::Barrier(*barrier),
            Call::Wait { flag } => Asked::Flag(*flag),
            _ => Asked::Memory,
        }
    }
}

/// Access at which the program faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A load, or an access of which the processor does not say what it is.
    Load,
    /// A store.
    Store(Store),
}

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Faults of the program.
    pub faults: u64,
    /// Requests to homes.
    pub fetches: u64,
    /// Units that came by them.
    pub fetched_units: u64,
    /// Twins made.
    pub twins: u64,
    /// Units whose first store in an interval was noted.
    pub noted_stores: u64,
    /// Units whose first store in an interval was not.
    pub unnoted_stores: u64,
    /// Units with notes to which nothing was stored in the interval.
    pub notes_without_store: u64,
    /// Records of differences, and the bytes that the program had stored in them.
    pub difference_records: u64,
    /// See above.
    pub difference_bytes: u64,
    /// Intervals closed.
    pub intervals: u64,
    /// Copies dropped because others had written.
    pub dropped_units: u64,
    /// Clean copies dropped to save memory.
    pub evicted_units: u64,
    /// Messages of locks, barriers and flags.
    pub messages: u64,
}

impl Counters {
    /// The counts with their names, as they are printed.
    pub fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("noted_stores", self.noted_stores),
            ("unnoted_stores", self.unnoted_stores),
            ("notes_without_store", self.notes_without_store),
            ("faults", self.faults),
            ("fetches", self.fetches),
            ("fetched_units", self.fetched_units),
            ("twins", self.twins),
            ("difference_records", self.difference_records),
            ("difference_bytes", self.difference_bytes),
            ("intervals", self.intervals),
            ("dropped_units", self.dropped_units),
            ("evicted_units", self.evicted_units),
            ("messages", self.messages),
        ]
    }
}

/// Copies whose stores go to their homes.
#[derive(Debug)]
struct Flush {
    units: Vec<u32>,
    /// The next of them, and its first byte that has not gone.
    next: usize,
    offset: usize,
    /// The next note of those that leave one by one, and how many of its bytes have gone.
    single: usize,
    single_bytes: usize,
}

impl Flush {
    fn new(mut units: Vec<u32>, pages: &Pages) -> Self {
        // Those of one home after each other: they share records.
        units.sort_unstable_by_key(|&unit| (pages.homes().of(unit), unit));
        Flush { units, next: 0, offset: 0, single: 0, single_bytes: 0 }
    }
}

/// Rest of a call.
#[derive(Debug)]
enum Task {
    Idle,
    Fault { unit: u32, touch: Touch },
    Release { flush: Flush, then: Option<Request> },
    Await { keeper: usize, asked: Asked, is_full: bool },
    Acquire { flush: Flush, drops: Vec<u32>, grant: Message, is_full: bool },
}

/// A message to a node that keeps something.
#[derive(Debug)]
struct Request {
    keeper: usize,
    call: Call,
    is_answered: bool,
    /// All nodes meet: what all have seen may be forgotten.
    is_full: bool,
}

/// Units on their way here.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    run: Run,
    is_sent: bool,
    got_bytes: usize,
}

/// An answer on its way.
#[derive(Clone, Copy, Debug)]
struct Answer {
    run: Run,
    sent_bytes: usize,
}

/// A message on its way.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    sent_bytes: usize,
    /// The next release waits until it has been applied: nobody answers it, and who hears of that release may
    /// ask its receiver for what it changes.
    is_awaited: bool,
}

/// Units that others have, and debts to them.
#[derive(Debug)]
struct Peer {
    /// Knowledge by messages between the two.
    told: VectorTime,
    outgoing: VecDeque<Outgoing>,
    incoming: Vec<u8>,
    answer: Option<Answer>,
}

/// Copies that take memory, when that is limited.
#[derive(Debug, Default)]
struct Copies {
    /// At most so many, unless more have stores that have not gone home.
    limit: Option<usize>,
    /// Those that there are; the oldest first.
    resident: VecDeque<u32>,
}

/// A node of the shared memory.
#[derive(Debug)]
pub struct Member {
    me: usize,
    nodes: usize,
    pages: Pages,
    log: Log,
    seen: VectorTime,
    /// The time of the last barrier of all nodes: all have seen it when they meet again.
    met: VectorTime,
    kept: Kept,
    peers: Vec<Peer>,
    task: Task,
    fetch: Option<Fetch>,
    /// Where the last run that was fetched ended, and its length: a fault there asks for more.
    streak: Run,
    copies: Copies,
    /// The program is checked.
    check: Option<Box<Check>>,
    /// Own units with a twin to check by.
    own_twins: Vec<u32>,
    /// Bytes about each unit in the record of differences that is being made.
    put: Vec<(u32, usize)>,
    reply: Option<Message>,
    value: u64,
    differences: Differences,
    counters: Counters,
    violation: Option<Violation>,
    #[cfg(test)]
    pub(crate) mutation: Option<super::sim::Mutation>,
}

#[cfg(test)]
macro_rules! mutated {
    ($member:expr, $which:ident) => {
        $member.mutation == Some(super::sim::Mutation::$which)
    };
}
#[cfg(not(test))]
macro_rules! mutated {
    ($member:expr, $which:ident) => {
        false
    };
}

impl Member {
    /// A rank at its place, with an arena of so many units and records of so many bytes at most.
    pub fn new(me: usize, placement: Placement, units: u32, record_bytes_max: usize) -> Self {
        let nodes = placement.nodes().len();
        let time = VectorTime::zero(nodes);
        let peer = |_| Peer {
            told: VectorTime::zero(nodes),
            outgoing: VecDeque::new(),
            incoming: Vec::new(),
            answer: None,
        };
        Member {
            me,
            nodes,
            pages: Pages::new(placement, units),
            log: Log::new(nodes),
            seen: time.clone(),
            met: time,
            kept: Kept::new(nodes, units as usize * UNIT_BYTES),
            peers: (0..nodes).map(peer).collect(),
            task: Task::Idle,
            fetch: None,
            streak: Run { first: 0, count: 0 },
            copies: Copies::default(),
            check: None,
            own_twins: Vec::new(),
            put: Vec::new(),
            reply: None,
            value: 0,
            differences: Differences::new(record_bytes_max),
            counters: Counters::default(),
            violation: None,
            #[cfg(test)]
            mutation: None,
        }
    }

    /// Work done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Gives who waits for a lock that is kept here: the lock, who holds it, who waits.
    pub fn visit_queues(&self, visit: impl FnMut(u64, usize, usize)) {
        self.kept.visit_queues(visit);
    }

    /// The heap, which node 0 keeps.
    pub fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// From now on stores are checked. Each rank of the job is a node of its own, and does so.
    pub fn check(&mut self) {
        self.check = Some(Box::default());
    }

    /// From now on this rank has at most so many copies of units of other nodes; more while their stores have
    /// not gone home.
    pub fn limit_copies(&mut self, limit: usize) {
        // A fault allocates nothing.
        self.copies =
            Copies { limit: Some(limit), resident: VecDeque::with_capacity(self.pages.units() as usize + 1) };
    }

    /// The first thing that a program was not allowed to do, as far as this node is to say it.
    pub fn take_violation(&mut self) -> Option<Violation> {
        self.violation.take()
    }

    /// Result of the last call: the place of a block.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Goal of the call that is under way.
    pub fn goal(&self) -> Goal {
        match &self.task {
            Task::Idle => Goal::Nothing,
            Task::Fault { unit, .. } => Goal::Page { home: self.pages.homes().of(*unit) },
            Task::Release { .. } | Task::Acquire { .. } => Goal::Applied,
            Task::Await { keeper, asked, .. } => Goal::Answer { keeper: *keeper, asked: *asked },
        }
    }

    /// Whether something for others waits for room.
    pub fn is_owing(&self) -> bool {
        self.peers.iter().any(|peer| peer.answer.is_some() || !peer.outgoing.is_empty())
    }

    /// The program has touched a unit that it may not touch.
    pub fn begin_fault(&mut self, unit: u32, touch: Touch) {
        self.counters.faults += 1;
        self.begin(Task::Fault { unit, touch });
    }

    /// Code that makes no notes is about to run: its first store to a unit faults, also where noted stores
    /// have made the unit writable.
    pub fn rearm(&mut self, frames: &mut impl Frames) {
        if mutated!(self, ForeignStoreUnnoted) {
            return;
        }
        runs_of(&mut self.pages.rearm()).into_iter().for_each(|run| frames.allow(run, Access::Read));
    }

    /// The program wants a lock.
    pub fn begin_lock(&mut self, lock: u64) {
        self.begin_request(self.keeper_of(lock), Call::Lock { lock });
    }

    /// The program gives a lock back.
    pub fn begin_unlock(&mut self, lock: u64) {
        self.begin_release(self.keeper_of(lock), Call::Unlock { lock }, false);
    }

    /// The program has come to a barrier of so many nodes.
    pub fn begin_barrier(&mut self, barrier: u64, count: u64) {
        self.begin_release(self.keeper_of(barrier), Call::Arrive { barrier, count }, true);
    }

    /// The program sets a flag.
    pub fn begin_set(&mut self, flag: u64) {
        self.begin_release(self.keeper_of(flag), Call::Set { flag }, false);
    }

    /// The program clears a flag.
    pub fn begin_clear(&mut self, flag: u64) {
        self.begin_release(self.keeper_of(flag), Call::Clear { flag }, false);
    }

    /// The program waits for a flag.
    pub fn begin_wait(&mut self, flag: u64) {
        self.begin_request(self.keeper_of(flag), Call::Wait { flag });
    }

    /// The program wants memory; [`Member::value`] says where.
    pub fn begin_allocate(&mut self, bytes: u64, site: &str) {
        self.begin_request(0, Call::Allocate { bytes, site: site.to_owned() });
    }

    /// The program gives memory back. Its own stores there go home before the next owner stores.
    pub fn begin_free(&mut self, offset: u64, site: &str) {
        self.begin_release(0, Call::Free { offset, site: site.to_owned() }, false);
    }

    /// The program touches a place of which this node does not know that it is part of a block.
    pub fn begin_touch(&mut self, offset: u64) {
        self.begin_request(0, Call::Touch { offset });
    }

    /// Goes on with the call; whether it is over.
    pub fn advance(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        loop {
            self.pump(port, frames);
            let is_through = match &self.task {
                Task::Idle => return true,
                Task::Fault { .. } => self.advance_fault(port, frames),
                Task::Release { .. } => self.advance_release(port, frames),
                Task::Await { .. } => self.advance_await(),
                Task::Acquire { .. } => self.advance_acquire(port, frames),
            };
            if !is_through {
                return false;
            }
        }
    }

    /// A record of another node. False: it is not one of ours, and nothing was done.
    pub fn handle_record(&mut self, from: usize, record: &[u8], frames: &mut impl Frames) -> bool {
        let taken = match record.first() {
            Some(&message::FETCH) => self.handle_fetch(from, record),
            Some(&message::PAGE) => self.handle_page(from, record, frames),
            Some(&message::DIFFERENCE) if self.check.is_some() => self.handle_stamped(from, record, frames),
            Some(&message::DIFFERENCE) => {
                let (me, homes) = (self.me, self.pages.homes());
                let mut is_home = true;
                message::decode_differences(record, self.pages.units(), |unit, offset, bytes| {
                    if homes.of(unit) == me {
                        frames.store(unit, offset, bytes);
                    } else {
                        is_home = false;
                    }
                })
                .filter(|()| is_home)
            }
            Some(&message::MESSAGE) => self.handle_piece(from, record),
            _ => None,
        };
        taken.is_some()
    }

    /// Sends what is owed to others, as far as there is room.
    pub fn pump(&mut self, port: &mut impl Port, frames: &impl Frames) {
        for to in 0..self.nodes {
            self.pump_messages(to, port);
            self.pump_answer(to, port, frames);
        }
    }

    fn keeper_of(&self, number: u64) -> usize {
        (number % self.nodes as u64) as usize
    }

    fn begin(&mut self, task: Task) {
        assert!(matches!(self.task, Task::Idle), "one call at a time, found {:?}", self.task);
        self.task = task;
    }

    /// A call that acquires.
    fn begin_request(&mut self, keeper: usize, call: Call) {
        self.begin(Task::Await { keeper, asked: Asked::of(&call), is_full: false });
        self.post(keeper, Message { call, time: self.seen.clone(), parts: Vec::new() });
    }

    /// A call that releases, and perhaps acquires then.
    fn begin_release(&mut self, keeper: usize, call: Call, is_answered: bool) {
        let is_full = matches!(call, Call::Arrive { count, .. } if count == self.nodes as u64);
        let flush = Flush::new(self.pages.pending().to_vec(), &self.pages);
        let then = Some(Request { keeper, call, is_answered, is_full });
        self.begin(Task::Release { flush, then });
    }

    /// One step of a fault; whether the call is over, or another step may follow.
    fn advance_fault(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        let Task::Fault { unit, touch } = self.task else { return false };
        let mut held = Run::of(unit);
        if !self.pages.is_present(unit) {
            let run = self.predict(unit);
            let fetch = self.fetch.get_or_insert(Fetch { run, is_sent: false, got_bytes: 0 });
            if !fetch.is_sent {
                let home = self.pages.homes().of(unit);
                fetch.is_sent = port.try_send(home, &message::encode_fetch(fetch.run), &[]) != Sent::Full;
                self.counters.fetches += u64::from(fetch.is_sent);
            }
            let fetch = *fetch;
            if fetch.got_bytes < fetch.run.count as usize * UNIT_BYTES {
                return false;
            }
            fetch.run.units().for_each(|unit| self.pages.note_fetched(unit));
            self.counters.fetched_units += u64::from(fetch.run.count);
            (self.fetch, self.streak) = (None, fetch.run);
            frames.allow(fetch.run, Access::Read);
            held = fetch.run;
        }
        self.hold(held, frames);
        let is_silent = (mutated!(self, HomeUnnoticed) && self.pages.is_here(unit))
            || (mutated!(self, MateUnnoticed) && self.pages.is_here(unit) && !self.pages.is_home(unit));
        match touch {
            Touch::Store(store) if !is_silent => {
                self.note_store(unit, store, frames);
                frames.allow(Run::of(unit), Access::Write);
            }
            Touch::Store(_) => frames.allow(Run::of(unit), Access::Write),
            Touch::Load if self.pages.is_writable(unit) => frames.allow(Run::of(unit), Access::Write),
            Touch::Load => frames.allow(self.readable_run(unit), Access::Read),
        }
        self.task = Task::Idle;
        true
    }

    /// Units take memory; clean copies that have had it longest make room.
    fn hold(&mut self, held: Run, frames: &mut impl Frames) {
        let Some(limit) = self.copies.limit else { return };
        for unit in held.units() {
            if self.pages.note_resident(unit) {
                self.copies.resident.push_back(unit);
            }
        }
        let mut looks = self.copies.resident.len();
        while self.copies.resident.len() > limit && looks > 0 {
            looks -= 1;
            let Some(unit) = self.copies.resident.pop_front() else { return };
            let is_clean = self.pages.is_clean(unit) || mutated!(self, WrittenEvicted);
            if !is_clean || held.units().contains(&unit) {
                self.copies.resident.push_back(unit);
                continue;
            }
            self.pages.evict(unit);
            frames.allow(Run::of(unit), Access::None);
            frames.forget(unit);
            self.counters.evicted_units += 1;
        }
    }

    fn note_store(&mut self, unit: u32, store: Store, frames: &mut impl Frames) {
        match store {
            Store::Noted => self.counters.noted_stores += 1,
            Store::Unnoted => self.counters.unnoted_stores += 1,
        }
        let is_first = self.pages.is_clean(unit);
        if self.pages.note_store(unit, store) {
            // The notes so far have been right, or it will not be known.
            self.check_notes(unit, frames);
            frames.make_twin(unit);
            self.counters.twins += 1;
        }
        if self.check.is_some() {
            if self.pages.is_home(unit) && is_first {
                frames.make_twin(unit);
                self.own_twins.push(unit);
            } else if self.pages.note_checked(unit) {
                frames.make_twin(unit);
            }
        }
    }

    /// Units asked for with one: a fault behind the last run asks for one of twice its length.
    fn predict(&self, unit: u32) -> Run {
        let wanted = if unit == self.streak.end() { (2 * self.streak.count).clamp(1, HOME_UNITS) } else { 1 };
        let end = (unit + wanted).min(self.pages.homes().end_of(unit)).min(self.pages.units());
        let count = (unit..end).take_while(|&unit| !self.pages.is_present(unit)).count();
        Run { first: unit, count: count as u32 }
    }

    /// Units around a home's own one that get permission with it, so that its neighbours need no fault.
    fn readable_run(&self, unit: u32) -> Run {
        let first = unit / HOME_UNITS * HOME_UNITS;
        let run = Run { first, count: self.pages.homes().end_of(unit).min(self.pages.units()) - first };
        let is_plain = self.pages.is_here(unit) && !run.units().any(|unit| self.pages.is_writable(unit));
        if is_plain { run } else { Run::of(unit) }
    }

    fn advance_release(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        let Task::Release { mut flush, then } = std::mem::replace(&mut self.task, Task::Idle) else {
            return false;
        };
        let is_flushed =
            self.advance_singles(&mut flush, port, frames) && self.advance_flush(&mut flush, port, frames);
        let is_awaited = |peer: &Peer| peer.outgoing.iter().any(|message| message.is_awaited);
        let is_applied = mutated!(self, RecordBeforeApplied)
            || (!self.peers.iter().any(is_awaited) && (0..self.nodes).all(|to| port.is_applied(to)));
        if !is_flushed || !is_applied {
            self.task = Task::Release { flush, then };
            return false;
        }
        self.check_own(frames);
        self.close_interval(&flush.units, frames);
        if let Some(Request { keeper, call, is_answered, is_full }) = then {
            let told = &mut self.peers[keeper].told;
            let parts = if keeper == self.me { Vec::new() } else { self.log.since(told, &self.seen) };
            told.join(&self.seen);
            if is_answered {
                self.task = Task::Await { keeper, asked: Asked::of(&call), is_full };
            }
            self.post(keeper, Message { call, time: self.seen.clone(), parts });
        }
        true
    }

    /// The stores of this interval are at their homes. What was written may be stored to again by a fault
    /// only, so that the next interval notices.
    fn close_interval(&mut self, flushed: &[u32], frames: &mut impl Frames) {
        let has_written = self.pages.has_written();
        let mut units = self.pages.take_written();
        if !mutated!(self, NotesKept) {
            // Those of units that have their home here go nowhere.
            units.iter().for_each(|unit| frames.drop_notes(*unit));
            self.counters.notes_without_store += frames.drop_all_notes() as u64;
        }
        if !has_written {
            return;
        }
        let early = |unit: &u32| !self.pages.is_here(*unit) && !flushed.contains(unit);
        if mutated!(self, EarlyFlushUnnoticed) {
            let kept = units.iter().copied().filter(|unit| !early(unit)).collect();
            units = kept;
        }
        let runs = runs_of(&mut units);
        let mut present: Vec<u32> =
            units.iter().copied().filter(|&unit| self.pages.is_present(unit)).collect();
        runs_of(&mut present).into_iter().for_each(|run| frames.allow(run, Access::Read));
        let number = self.log.append(self.me, runs);
        self.seen.set(self.me, number);
        self.counters.intervals += 1;
    }

    fn advance_await(&mut self) -> bool {
        let Some(grant) = self.reply.take() else { return false };
        let Task::Await { is_full, .. } = self.task else { return false };
        let drops = self.drops_of(&grant);
        let hit = |unit: &&u32| drops.binary_search(unit).is_ok();
        let pending: Vec<u32> = self.pages.pending().iter().filter(hit).copied().collect();
        let flush = Flush::new(pending, &self.pages);
        self.task = Task::Acquire { flush, drops, grant, is_full };
        true
    }

    /// Copies that others have written since: ascending.
    fn drops_of(&self, grant: &Message) -> Vec<u32> {
        let (mut drops, mut is_forgotten) = (Vec::new(), false);
        for node in (0..self.nodes).filter(|node| *node != self.me) {
            for number in self.seen.of(node) + 1..=grant.time.of(node) {
                match self.log.units(node, number) {
                    Some(runs) => drops.extend(runs.iter().flat_map(|run| run.units())),
                    None => is_forgotten = true,
                }
            }
        }
        if is_forgotten {
            // Which units were written is not known: all copies may be stale.
            drops = (0..self.pages.units()).collect();
        }
        drops.sort_unstable();
        drops.dedup();
        drops.retain(|&unit| !self.pages.is_here(unit) && self.pages.is_present(unit));
        drops
    }

    fn advance_acquire(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        let Task::Acquire { mut flush, mut drops, grant, is_full } =
            std::mem::replace(&mut self.task, Task::Idle)
        else {
            return false;
        };
        if mutated!(self, StoresDropped) {
            while let Some(unit) = flush.units.pop() {
                self.end_flush(unit, frames);
            }
            self.pages.drop_flushed();
        }
        // The fetch of such a unit follows its differences to the same home, in order: nobody waits for them.
        if !self.advance_flush(&mut flush, port, frames) {
            self.task = Task::Acquire { flush, drops, grant, is_full };
            return false;
        }
        drops.iter().for_each(|&unit| self.pages.drop_copy(unit));
        self.counters.dropped_units += drops.len() as u64;
        runs_of(&mut drops).into_iter().for_each(|run| frames.allow(run, Access::None));
        self.seen.join(&grant.time);
        if let Call::Grant { value } = grant.call {
            self.value = value;
        }
        if is_full {
            self.log.forget(&self.met);
            self.met = self.seen.clone();
        }
        true
    }

    /// Sends notes that are not combined, each in a record of its own; whether all have gone. Those of a unit
    /// that was flushed early may go again: no other node stores to these bytes before this release.
    fn advance_singles(&mut self, flush: &mut Flush, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        if frames.single(0).is_none() {
            return true;
        }
        while let Some((unit, range)) = frames.single(flush.single) {
            // One to which nothing was stored has no right value.
            if self.pages.is_noted(unit) && flush.single_bytes < range.len() {
                let begin = range.start + flush.single_bytes;
                self.differences.clear();
                self.differences.begin(unit);
                let count = self.differences.put(begin, &frames.frame(unit)[begin..range.end]);
                self.differences.end();
                if !self.send_differences(self.pages.homes().of(unit), port) {
                    return false;
                }
                flush.single_bytes += count;
            } else {
                (flush.single, flush.single_bytes) = (flush.single + 1, 0);
            }
        }
        frames.drop_singles();
        // What is left are twins.
        flush.units.iter().for_each(|&unit| frames.drop_notes(unit));
        true
    }

    /// Sends the record that was made; whether there was room.
    fn send_differences(&mut self, home: usize, port: &mut impl Port) -> bool {
        if port.try_send(home, self.differences.record(), &[]) == Sent::Full {
            return false;
        }
        port.note_awaited(home);
        self.counters.difference_records += 1;
        self.counters.difference_bytes += self.differences.record().len() as u64;
        true
    }

    /// Sends the stores of copies to their homes; whether all have gone.
    fn advance_flush(&mut self, flush: &mut Flush, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        while let Some(&first) = flush.units.get(flush.next) {
            let home = self.pages.homes().of(first);
            let (mut next, mut offset) = (flush.next, flush.offset);
            if self.check.is_some() {
                let interval = self.seen.of(self.me) + 1;
                self.differences.begin_stamped(interval, frames.site_of(first), &self.seen);
            } else {
                self.differences.clear();
            }
            self.put.clear();
            while let Some(&unit) = flush.units.get(next).filter(|unit| self.pages.homes().of(**unit) == home)
            {
                if !self.differences.begin(unit) {
                    break;
                }
                let before = self.differences.record().len();
                let rest = self.put_unit(unit, offset, frames);
                self.differences.end();
                self.put.push((unit, self.differences.record().len().saturating_sub(before)));
                match rest {
                    Some(rest) => offset = rest,
                    None => (next, offset) = (next + 1, 0),
                }
                // A stamp is about one unit.
                if rest.is_some() || self.check.is_some() {
                    break;
                }
            }
            if !self.differences.is_empty() {
                if !self.send_differences(home, port) {
                    return false;
                }
                self.put.iter().for_each(|(unit, bytes)| frames.note_sent(*unit, *bytes));
            }
            for &unit in &flush.units[flush.next..next] {
                self.end_flush(unit, frames);
            }
            (flush.next, flush.offset) = (next, offset);
        }
        self.pages.drop_flushed();
        true
    }

    /// Adds what of a unit fits from `offset` on; where to go on in the next record.
    fn put_unit(&mut self, unit: u32, mut offset: usize, frames: &impl Frames) -> Option<usize> {
        while let Some(mut run) = self.next_stored(unit, offset, frames) {
            if mutated!(self, WholeWords) {
                run = run.start / 8 * 8..run.end.next_multiple_of(8);
            }
            if mutated!(self, WholeUnits) {
                run = if offset == 0 { 0..UNIT_BYTES } else { offset..UNIT_BYTES };
            }
            let count = self.differences.put(run.start, &frames.frame(unit)[run.clone()]);
            offset = run.start + count;
            if offset < run.end {
                return Some(offset);
            }
        }
        None
    }

    /// The first run of bytes of a copy from `from` on that the program has stored: by notes, by its twin, or
    /// by both.
    fn next_stored(&self, unit: u32, from: usize, frames: &impl Frames) -> Option<Range<usize>> {
        let is_noted = self.pages.is_noted(unit) && !mutated!(self, NotesForgotten);
        let noted = is_noted.then(|| frames.next_noted(unit, from)).flatten();
        let is_compared = self.pages.is_twinned(unit);
        let compared =
            is_compared.then(|| difference::next(frames.frame(unit), frames.twin(unit), from)).flatten();
        match (noted, compared) {
            (Some(noted), Some(compared)) => {
                Some(if noted.start <= compared.start { noted } else { compared })
            }
            (noted, compared) => noted.or(compared),
        }
    }

    /// The stores of a copy have gone to its home: a twin and notes are not needed any more.
    fn end_flush(&mut self, unit: u32, frames: &mut impl Frames) {
        self.check_notes(unit, frames);
        if self.pages.is_twinned(unit) {
            frames.drop_twin(unit);
        }
        if !mutated!(self, NotesKept) {
            frames.drop_notes(unit);
        }
        self.pages.note_flushed(unit);
    }

    /// Differences of a rank in a job that is checked.
    fn handle_stamped(&mut self, from: usize, record: &[u8], frames: &mut impl Frames) -> Option<()> {
        let (interval, site, seen, rest) = message::decode_stamp(record, self.nodes)?;
        let stamp = Stamp { rank: from, interval, site };
        let Member { pages, check, own_twins, violation, .. } = self;
        let check = check.as_mut()?;
        let mut is_home = true;
        message::decode_differences(rest, pages.units(), |unit, offset, bytes| {
            if !pages.is_home(unit) {
                is_home = false;
                return;
            }
            frames.store(unit, offset, bytes);
            if own_twins.contains(&unit) {
                frames.store_twin(unit, offset, bytes);
            }
            if let Some(race) = check.note(unit, offset..offset + bytes.len(), stamp, &seen) {
                violation.get_or_insert(Violation::Race { race });
            }
        })
        .filter(|()| is_home)
    }

    /// Checks the stores of this interval to its own units.
    fn check_own(&mut self, frames: &mut impl Frames) {
        let Member { check: Some(check), own_twins, seen, me, violation, .. } = self else { return };
        for unit in own_twins.drain(..) {
            let stamp = Stamp { rank: *me, interval: seen.of(*me) + 1, site: frames.site_of(unit) };
            let mut from = 0;
            while let Some(run) = difference::next(frames.frame(unit), frames.twin(unit), from) {
                from = run.end;
                if let Some(race) = check.note(unit, run, stamp, seen) {
                    violation.get_or_insert(Violation::Race { race });
                }
            }
            frames.drop_twin(unit);
        }
    }

    /// Looks whether each byte of a copy that has changed since its first noted store is in a note.
    fn check_notes(&mut self, unit: u32, frames: &mut impl Frames) {
        if !self.pages.take_checked(unit) {
            return;
        }
        let mut from = 0;
        while let Some(run) = difference::next(frames.frame(unit), frames.twin(unit), from) {
            from = run.end;
            let mut at = run.start;
            while at < run.end {
                let noted = frames.next_noted(unit, at).filter(|noted| noted.start == at);
                let Some(noted) = noted else {
                    let offset = unit as u64 * UNIT_BYTES as u64 + at as u64;
                    let site = frames.site_of(unit);
                    self.violation.get_or_insert(Violation::Unnoted { node: self.me, offset, site });
                    frames.drop_twin(unit);
                    return;
                };
                at = noted.end;
            }
        }
        frames.drop_twin(unit);
    }

    fn handle_fetch(&mut self, from: usize, record: &[u8]) -> Option<()> {
        let run = message::decode_fetch(record, self.pages.units())?;
        let is_right = from != self.me
            && run.units().all(|unit| self.pages.is_home(unit))
            && self.peers[from].answer.is_none();
        self.peers[from].answer = Some(is_right.then_some(Answer { run, sent_bytes: 0 })?);
        Some(())
    }

    fn handle_page(&mut self, from: usize, record: &[u8], frames: &mut impl Frames) -> Option<()> {
        let (first, offset, bytes) = message::decode_page(record)?;
        let home = self.pages.homes().of(first.min(self.pages.units() - 1));
        let fetch = self.fetch.as_mut().filter(|fetch| fetch.run.first == first && home == from)?;
        let room = fetch.run.count as usize * UNIT_BYTES;
        if offset != fetch.got_bytes || bytes.len() > room - offset {
            return None;
        }
        frames.store(first, offset, bytes);
        fetch.got_bytes += bytes.len();
        Some(())
    }

    fn handle_piece(&mut self, from: usize, record: &[u8]) -> Option<()> {
        let (head, bytes) = record.split_at_checked(message::MESSAGE_HEAD_BYTES)?;
        let incoming = &mut self.peers[from].incoming;
        if incoming.len() + bytes.len() > message::MESSAGE_BYTES_MAX {
            return None;
        }
        incoming.extend(bytes);
        if head[1] != 0 {
            let whole = std::mem::take(incoming);
            let message = Message::decode(&whole, self.nodes, self.pages.units())?;
            self.handle_message(from, message);
        }
        Some(())
    }

    fn handle_message(&mut self, from: usize, message: Message) {
        let Message { call, time, parts } = message;
        if from != self.me {
            self.log.merge(parts);
        }
        let asker = || Granted { node: from, seen: time.clone() };
        let grants = match call {
            Call::Grant { .. } => {
                self.peers[from].told.join(&time);
                self.reply = Some(Message { call, time, parts: Vec::new() });
                return;
            }
            Call::Lock { lock } => self.kept.lock(lock, asker()),
            Call::Unlock { lock } => self.kept.unlock(lock, from, &time),
            Call::Arrive { barrier, count } => self.kept.arrive(barrier, count, asker()),
            Call::Set { flag } => Ok(self.kept.set(flag, &time)),
            Call::Clear { flag } => {
                self.kept.clear(flag);
                return;
            }
            Call::Wait { flag } => Ok(self.kept.wait(flag, asker())),
            Call::Allocate { bytes, site } => match self.kept.allocate(bytes, &site) {
                Ok((value, freed)) => {
                    let freed = if mutated!(self, AllocateWithoutTime) { time.clone() } else { freed };
                    return self.grant((vec![asker()], freed), value);
                }
                Err(violation) => Err(violation),
            },
            Call::Touch { offset } => {
                self.kept.blocks().touch(offset, from).map(|()| (vec![asker()], time.clone()))
            }
            Call::Free { offset, site } => {
                self.kept.free(offset, &site, &time).map(|()| (Vec::new(), time.clone()))
            }
        };
        match grants {
            Ok(grants) => self.grant(grants, 0),
            Err(violation) => {
                self.violation.get_or_insert(violation);
            }
        }
    }

    fn grant(&mut self, (granted, time): Grants, value: u64) {
        for Granted { node, seen } in granted {
            let mut upto = time.clone();
            if mutated!(self, GrantWithoutTime) {
                upto = seen.clone();
            }
            let mut parts = if node == self.me { Vec::new() } else { self.log.since(&seen, &upto) };
            if mutated!(self, OwnNoticesAlone) {
                parts.retain(|part: &Part| part.node == self.me);
                (0..self.nodes)
                    .filter(|other| *other != self.me)
                    .for_each(|other| upto.set(other, seen.of(other)));
            }
            upto.join(&seen);
            self.post(node, Message { call: Call::Grant { value }, time: upto, parts });
        }
    }

    /// Hands a message over, here or to another node.
    fn post(&mut self, to: usize, message: Message) {
        if to == self.me {
            return self.handle_message(to, message);
        }
        self.counters.messages += 1;
        let is_awaited = matches!(message.call, Call::Set { .. } | Call::Clear { .. } | Call::Free { .. })
            && !mutated!(self, ClearOvertaken);
        self.peers[to].outgoing.push_back(Outgoing { bytes: message.encode(), sent_bytes: 0, is_awaited });
    }

    fn pump_messages(&mut self, to: usize, port: &mut impl Port) {
        let room = port.record_bytes_max() - message::MESSAGE_HEAD_BYTES;
        let outgoing = &mut self.peers[to].outgoing;
        while let Some(first) = outgoing.front_mut() {
            let end = (first.sent_bytes + room).min(first.bytes.len());
            let is_last = end == first.bytes.len();
            let head = [message::MESSAGE, u8::from(is_last), 0, 0];
            match port.try_send(to, &head, &first.bytes[first.sent_bytes..end]) {
                Sent::Taken if is_last => {
                    if first.is_awaited {
                        port.note_awaited(to);
                    }
                    outgoing.pop_front();
                }
                Sent::Taken => first.sent_bytes = end,
                Sent::Full => return,
                Sent::Gone => return outgoing.clear(),
            }
        }
    }

    fn pump_answer(&mut self, to: usize, port: &mut impl Port, frames: &impl Frames) {
        let mut piece = [0; UNIT_BYTES];
        let room = (port.record_bytes_max() - message::PAGE_HEAD_BYTES).min(UNIT_BYTES);
        while let Some(answer) = &mut self.peers[to].answer {
            let rest = answer.run.count as usize * UNIT_BYTES - answer.sent_bytes;
            let piece = &mut piece[..room.min(rest)];
            frames.load(answer.run.first, answer.sent_bytes, piece);
            match port.try_send(to, &message::encode_page(answer.run, answer.sent_bytes), piece) {
                Sent::Taken => answer.sent_bytes += piece.len(),
                Sent::Full => return,
                Sent::Gone => return self.peers[to].answer = None,
            }
            if rest == piece.len() {
                self.peers[to].answer = None;
            }
        }
    }
}
