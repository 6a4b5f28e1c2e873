//! One node: what its program calls, and what records of others do.
//!
//! ```text
//! begin_*  the program's call; one at a time
//! advance  goes on with it as far as the network lets; true when it is over
//! handle_record  what comes, at any time, also while the program computes
//! pump     sends what is owed to others
//! ```
//!
//! | module | state |
//! |---|---|
//! | `task` | the call under way |
//! | `knowledge` | write notices and vector times |
//! | `fetch` | units on their way from homes, and answers of this home |
//! | `stores` | stores to copies on their way home |
//! | `updates` | stores on their way from a home to copies |
//! | `copies` | copies that take memory, when that is limited |
//! | `checks` | races and stores without notes, when they are looked for; the first violation |
//! | `moves` | homes that move to the only writer |
//! | `mail` | messages to and from other nodes |
//! | `keeper` | what messages change of that which this node keeps |
//! | `deputy` | locks that other nodes keep, while the ranks of this node hand them over |
//!
//! [`Member::begin_fault`], [`Member::advance`] of a fault and [`Member::handle_record`] of pages and
//! differences allocate nothing: a fault may come while the program is inside its allocator.

mod checks;
mod copies;
mod deputy;
mod fetch;
mod frames;
mod keeper;
mod knowledge;
mod mail;
mod moves;
mod port;
mod stores;
mod task;
mod updates;

pub use frames::{Access, Frames};
pub use port::{Port, Sent};
pub use task::{Asked, Goal, Touch};

use super::message::{self, Call, Message};
use super::page::{Pages, Store};

use super::blocks::Attributes;
use super::sync::{Kept, Place};
use super::unit::{Placement, Run, UNIT_BYTES, runs_of};
use super::violation::Violation;
use checks::Checks;
use copies::Copies;
use deputy::Deputy;
use fetch::{Answers, Fetches};
use knowledge::Knowledge;
use mail::{Mail, NotOurs};
use moves::Moves;
use stores::{Flush, Stores};
use task::{Request, Task};
use updates::Updates;

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
    /// Units that were stored to though they were not here, without a fetch.
    pub absent_stores: u64,
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
    /// Acquires that lacked notices: all copies were dropped.
    pub full_drops: u64,
    /// Clean copies dropped to save memory.
    pub evicted_units: u64,
    /// Records of stores from this home to copies, and their bytes.
    pub update_records: u64,
    /// See above.
    pub update_bytes: u64,
    /// Such records that copies here have taken.
    pub updates_taken: u64,
    /// Runs of bytes in them for units that are not here.
    pub updates_unused: u64,
    /// Messages of locks, barriers and flags.
    pub messages: u64,
    /// Locks that have come to this deputy from a keeper of another node.
    pub locks_lent: u64,
    /// Locks that this deputy has given to a rank of its node without asking their keeper.
    pub locks_passed: u64,
    /// Units whose home has moved here.
    pub homes_moved: u64,
}

impl Counters {
    /// The counts with their names, as they are printed.
    pub fn named(&self) -> [(&'static str, u64); 22] {
        [
            ("noted_stores", self.noted_stores),
            ("unnoted_stores", self.unnoted_stores),
            ("absent_stores", self.absent_stores),
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
            ("update_records", self.update_records),
            ("update_bytes", self.update_bytes),
            ("updates_taken", self.updates_taken),
            ("updates_unused", self.updates_unused),
            ("messages", self.messages),
            ("locks_lent", self.locks_lent),
            ("locks_passed", self.locks_passed),
            ("homes_moved", self.homes_moved),
            ("full_drops", self.full_drops),
        ]
    }
}

/// A node of the shared memory.
#[derive(Debug)]
pub struct Member {
    me: usize,
    nodes: usize,
    pages: Pages,
    known: Knowledge,
    task: Task,
    fetches: Fetches,
    answers: Answers,
    stores: Stores,
    copies: Copies,
    checks: Checks,
    mail: Mail,
    kept: Kept,
    deputy: Deputy,
    moves: Moves,
    reply: Option<Message>,
    value: u64,
    /// Noted stores to units that are not here bring none.
    writes_absent: bool,
    /// Counts of what is done here; parts count their own work.
    counters: Counters,
}

impl Member {
    /// A rank at its place, with an arena of so many units and records of so many bytes at most.
    pub fn new(me: usize, placement: Placement, units: u32, record_bytes_max: usize) -> Self {
        let nodes = placement.nodes().len();
        let pages = Pages::new(placement, units);
        let updates = Updates::new(me, nodes, &pages, record_bytes_max);
        Member {
            me,
            nodes,
            pages,
            known: Knowledge::new(me, nodes),
            task: Task::Idle,
            fetches: Fetches::new(),
            answers: Answers::new(me, nodes),
            stores: Stores::new(me, record_bytes_max, updates),
            copies: Copies::default(),
            checks: Checks::new(me, nodes),
            mail: Mail::new(nodes),
            kept: Kept::new(nodes, units as usize * UNIT_BYTES),
            deputy: Deputy::new(nodes),
            moves: Moves::new(me),
            reply: None,
            value: 0,
            writes_absent: false,
            counters: Counters::default(),
        }
    }

    /// Work done so far.
    pub fn counters(&self) -> Counters {
        let (fetches, fetched_units) = self.fetches.counts();
        let (difference_records, difference_bytes) = self.stores.counts();
        let updates = self.stores.updates.counts();
        let (locks_lent, locks_passed) = self.deputy.counts();
        Counters {
            fetches,
            fetched_units,
            difference_records,
            difference_bytes,
            evicted_units: self.copies.evicted_units(),
            update_records: updates.sent_records,
            update_bytes: updates.sent_bytes,
            updates_taken: updates.applied_records,
            updates_unused: updates.unused_runs,
            messages: self.mail.messages(),
            locks_lent,
            locks_passed,
            homes_moved: self.moves.count(),
            ..self.counters
        }
    }

    /// Gives who waits for locks that are kept here, or lent to this node, and who has them.
    pub fn visit_queues(&self, mut visit: impl FnMut(Place)) {
        self.kept.visit_queues(&mut visit);
        self.deputy.visit_queues(&mut visit);
    }

    /// From now on the ranks of this node hand locks over without their keepers. Each rank of the job does
    /// so.
    pub fn pass_locks(&mut self) {
        self.deputy.begin(self.pages.mates());
    }

    /// From now on the home of a unit moves to the only rank that writes it. Each rank of the job does so.
    pub fn move_homes(&mut self) {
        self.moves.begin();
    }

    /// Number of this rank.
    pub fn me(&self) -> usize {
        self.me
    }

    /// The heap, which node 0 keeps.
    pub fn kept(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// From now on stores are checked. Each rank of the job is a node of its own, and does so.
    pub fn check(&mut self) {
        self.checks.begin();
    }

    /// Whether stores are checked.
    pub fn is_checked(&self) -> bool {
        self.checks.is_on()
    }

    /// From now on this rank has at most so many copies of units of other nodes; more while their stores have
    /// not gone home.
    pub fn limit_copies(&mut self, limit: usize) {
        self.copies = Copies::limited(limit, self.pages.units());
    }

    /// From now on the notices of a message have so many numbers at most.
    #[cfg(test)]
    pub fn limit_notices(&mut self, numbers: usize) {
        self.known.limit_sent(numbers);
    }

    /// The first thing that a program was not allowed to do, as far as this node is to say it.
    pub fn take_violation(&mut self) -> Option<Violation> {
        self.checks.take_violation()
    }

    /// Result of the last call: the place of a block.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Goal of the call that is under way.
    pub fn goal(&self) -> Goal {
        self.task.goal(&self.pages)
    }

    /// Whether something for others waits for room.
    pub fn is_owing(&self) -> bool {
        !self.answers.is_empty() || !self.mail.is_empty() || !self.stores.updates.is_empty()
    }

    /// Says which units are not here though nothing was stored to them. Called once, before the program
    /// begins.
    pub fn hide_absent(&self, frames: &mut impl Frames) {
        let first = self.pages.updated_from().min(self.pages.units());
        let mut units = (first..self.pages.units()).filter(|unit| !self.pages.is_present(*unit)).collect();
        runs_of(&mut units).into_iter().for_each(|run| frames.note_absent(run, true));
    }

    /// The program has touched a unit that it may not touch.
    pub fn begin_fault(&mut self, unit: u32, touch: Touch) {
        self.counters.faults += 1;
        self.begin(Task::Fault { unit, touch });
    }

    /// Code that makes no notes is about to run: its first store to a unit faults, also where noted stores
    /// have made the unit writable.
    pub fn rearm(&mut self, frames: &mut impl Frames) {
        if mutated!(ForeignStoreUnnoted) {
            return;
        }
        runs_of(&mut self.pages.rearm()).into_iter().for_each(|run| frames.allow(run, Access::Read));
        self.cover(frames);
    }

    /// From now on noted stores to units that are not here bring none: the program looks whether a unit is
    /// here before it loads.
    pub fn write_absent(&mut self) {
        self.writes_absent = true;
    }

    /// Code that does not look is about to run: its loads of units that are not here have to fault.
    pub fn cover(&mut self, frames: &mut impl Frames) {
        if mutated!(ForeignLoadUnseen) {
            return;
        }
        runs_of(&mut self.pages.blind()).into_iter().for_each(|run| frames.allow(run, Access::None));
    }

    /// A call of the system is about to load these units, which the program touches first: none makes room
    /// for the others.
    pub fn pin(&mut self, run: Run, is_first: bool) {
        self.copies.pin(run, is_first);
    }

    /// The program wants a lock.
    pub fn begin_lock(&mut self, lock: u64) {
        self.begin_request(self.deputy.asked_for(lock), Call::Lock { lock });
    }

    /// The program gives a lock back.
    pub fn begin_unlock(&mut self, lock: u64) {
        self.begin_release(self.deputy.asked_for(lock), Call::Unlock { lock }, false);
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
    pub fn begin_allocate(&mut self, bytes: u64, attributes: Attributes, site: &str) {
        self.begin_request(0, Call::Allocate { bytes, attributes, site: site.to_owned() });
    }

    /// The program wants no copies of these units any more. Its own stores there go home first.
    pub fn begin_invalidate(&mut self, mut units: Vec<u32>) {
        units.sort_unstable();
        let pages = &self.pages;
        units.retain(|&unit| unit < pages.units() && !pages.is_here(unit) && pages.is_present(unit));
        units.dedup();
        let hit = |unit: &&u32| units.binary_search(unit).is_ok();
        let flush = Flush::new(pages.pending().iter().filter(hit).copied().collect(), pages);
        // It is as if others had written, and nobody else is to be heard of.
        let (call, time) = (Call::Grant { value: 0 }, self.known.seen().clone());
        let grant = Message::new(call, time);
        self.begin(Task::Acquire { flush, drops: units, grant, is_full: false });
    }

    /// Units are part of large pages: a miss brings a whole one.
    pub fn note_large(&mut self, run: Run) {
        self.pages.note_large(run);
    }

    /// The program gives memory back. Its own stores there go home before the next owner stores.
    pub fn begin_free(&mut self, offset: u64, site: &str) {
        self.begin_release(0, Call::Free { offset, site: site.to_owned() }, false);
    }

    /// The program touches a place of which this node does not know that it is part of a block.
    pub fn begin_touch(&mut self, offset: u64) {
        self.begin_request(0, Call::Touch { offset });
    }

    /// The process of this node has ended: those who keep barriers have to know.
    pub fn begin_end(&mut self) {
        for keeper in 0..self.nodes {
            let time = self.known.seen().clone();
            self.post(keeper, Message::new(Call::End, time));
        }
    }

    /// Goes on with the call; whether it is over.
    pub fn advance(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        loop {
            self.pump(port, frames);
            let is_through = match &self.task {
                Task::Idle => return true,
                Task::Fault { .. } => self.advance_fault(port, frames),
                Task::Release { .. } => self.advance_release(port, frames),
                Task::Await { .. } => self.advance_await(frames),
                Task::Acquire { .. } => self.advance_acquire(port, frames),
            };
            if !is_through {
                return false;
            }
        }
    }

    /// A record of another node. False: it is not one of ours, and nothing was done.
    pub fn handle_record(&mut self, from: usize, record: &[u8], frames: &mut impl Frames) -> bool {
        let Member { pages, stores, fetches, .. } = self;
        let taken = match record.first() {
            Some(&message::FETCH) => {
                let run = self.answers.handle_fetch(from, record, pages);
                run.map(|run| stores.updates.join(from, run.units()))
            }
            Some(&message::PAGE) => fetches.handle_page(from, record, pages, frames),
            Some(&message::DIFFERENCE) if self.checks.is_on() => {
                self.checks.handle_stamped(from, record, pages, &mut stores.updates, frames)
            }
            Some(&message::DIFFERENCE) => stores.handle_differences(from, record, pages, frames),
            Some(&message::UPDATE) => stores.updates.handle_update(from, record, pages, fetches, frames),
            Some(&message::APPLIED) => stores.updates.handle_applied(from, record),
            Some(&message::SETTLED) => stores.updates.handle_settled(from, record),
            Some(&message::LEFT) => stores.updates.handle_left(from, record, pages),
            Some(&message::MESSAGE) => match self.mail.handle_piece(from, record, pages.units()) {
                Ok(message) => {
                    message.into_iter().for_each(|message| self.handle_message(from, message));
                    Some(())
                }
                Err(NotOurs) => None,
            },
            _ => None,
        };
        taken.is_some()
    }

    /// Sends what is owed to others, as far as there is room.
    pub fn pump(&mut self, port: &mut impl Port, frames: &impl Frames) {
        for to in 0..self.nodes {
            self.mail.pump(to, port);
            self.answers.pump(to, &self.pages, port, frames);
            // A home that hears of both hears first which copies are not there.
            self.stores.updates.pump_left(to, &self.pages, &self.fetches, port);
            self.stores.updates.pump(to, port, frames);
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
        let time = self.known.seen().clone();
        self.post(keeper, Message::new(call, time));
    }

    /// A call that releases, and perhaps acquires then.
    fn begin_release(&mut self, keeper: usize, call: Call, is_answered: bool) {
        let is_full = matches!(call, Call::Arrive { count, .. } if count == self.nodes as u64);
        let flush = Flush::new(self.pages.pending().to_vec(), &self.pages);
        self.begin(Task::Release { flush, then: Request { keeper, call, is_answered, is_full } });
    }

    /// One step of a fault; whether the call is over, or another step may follow.
    fn advance_fault(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        let Task::Fault { unit, touch } = self.task else { return false };
        let mut held = Run::of(unit);
        let is_blind = touch == Touch::Store(Store::Noted)
            && self.writes_absent
            && !self.checks.is_on()
            && self.pages.may_be_blind(unit);
        if is_blind {
            self.pages.note_blind(unit);
            self.counters.absent_stores += 1;
        } else if !self.pages.is_present(unit) {
            let Some(run) = self.fetches.advance(unit, &self.pages, port) else { return false };
            run.units().for_each(|unit| self.pages.note_fetched(unit));
            frames.note_absent(run, false);
            frames.allow(run, Access::Read);
            held = run;
        }
        self.copies.hold(held, &mut self.pages, frames);
        let is_silent = (mutated!(HomeUnnoticed) && self.pages.is_here(unit))
            || (mutated!(MateUnnoticed) && self.pages.is_here(unit) && !self.pages.is_home(unit));
        match touch {
            Touch::Store(store) if !is_silent => {
                self.note_store(unit, store, frames);
                frames.allow(Run::of(unit), Access::Write);
            }
            Touch::Store(_) => frames.allow(Run::of(unit), Access::Write),
            Touch::Load if self.pages.is_writable(unit) => frames.allow(Run::of(unit), Access::Write),
            Touch::Load => frames.allow(self.pages.readable_run(unit), Access::Read),
        }
        self.task = Task::Idle;
        true
    }

    /// The program is about to store to a unit: a copy gets a twin if no notes say what is stored.
    fn note_store(&mut self, unit: u32, store: Store, frames: &mut impl Frames) {
        match store {
            Store::Noted => self.counters.noted_stores += 1,
            Store::Unnoted => self.counters.unnoted_stores += 1,
        }
        let is_first = self.pages.is_clean(unit);
        if self.pages.note_store(unit, store) {
            // The notes so far have been right, or it will not be known.
            self.checks.check_notes(unit, &mut self.pages, frames);
            frames.make_twin(unit);
            self.counters.twins += 1;
        }
        self.checks.note_store(unit, is_first, &mut self.pages, frames);
    }

    fn advance_release(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        let Task::Release { mut flush, then } = std::mem::replace(&mut self.task, Task::Idle) else {
            return false;
        };
        let Member { pages, known, stores, mail, checks, .. } = self;
        let is_flushed = stores.advance_singles(&mut flush, pages, port, frames)
            && stores.advance_flush(&mut flush, pages, known, checks, port, frames);
        let is_applied = mutated!(RecordBeforeApplied)
            || (!mail.has_awaited() && (0..self.nodes).all(|to| port.is_applied(to)));
        if !is_flushed || !is_applied || !stores.updates.is_settled() {
            self.task = Task::Release { flush, then };
            return false;
        }
        checks.check_own(known, frames);
        self.close_interval(flush.units(), frames);
        let Request { keeper, call, is_answered, is_full } = then;
        let (told, seen) = (self.mail.told(keeper), self.known.seen().clone());
        let parts = if keeper == self.me { Vec::new() } else { self.known.since(told, &seen) };
        told.join(&seen);
        let moves = if is_full { self.moves.wish(&self.known, &self.pages) } else { Vec::new() };
        self.pages.note_wished(&moves, true);
        if mutated!(MovedWhenWished) {
            for unit in moves.iter().flat_map(|one| one.run.units()) {
                self.pages.move_home(unit, self.me);
            }
        }
        if is_answered {
            self.task = Task::Await { keeper, asked: Asked::of(&call), is_full };
        }
        self.post(keeper, Message { call, time: seen, parts, moves });
        true
    }

    /// The stores of this interval are at their homes. What was written may be stored to again by a fault
    /// only, so that the next interval notices.
    fn close_interval(&mut self, flushed: &[u32], frames: &mut impl Frames) {
        let has_written = self.pages.has_written();
        let mut units = self.pages.take_written();
        if !mutated!(NotesKept) {
            // Those of units that have their home here go nowhere.
            units.iter().for_each(|unit| frames.drop_notes(*unit));
            self.counters.notes_without_store += frames.drop_all_notes() as u64;
        }
        if !has_written {
            return;
        }
        if mutated!(EarlyFlushUnnoticed) {
            units.retain(|unit| self.pages.is_here(*unit) || flushed.contains(unit));
        }
        let mut noticed = units.iter().copied().filter(|unit| !self.pages.is_updated(*unit)).collect();
        let runs = runs_of(&mut noticed);
        let mut present: Vec<u32> =
            units.iter().copied().filter(|&unit| self.pages.is_present(unit)).collect();
        runs_of(&mut present).into_iter().for_each(|run| frames.allow(run, Access::Read));
        let mut absent: Vec<u32> =
            units.iter().copied().filter(|&unit| !self.pages.is_present(unit)).collect();
        if !mutated!(BlindKept) {
            runs_of(&mut absent).into_iter().for_each(|run| frames.allow(run, Access::None));
        }
        // All who have copies of the others have got what was stored. A race is found by numbers of
        // intervals.
        if !runs.is_empty() || self.checks.is_on() {
            self.known.close(runs);
            self.counters.intervals += 1;
        }
    }

    fn advance_await(&mut self, frames: &mut impl Frames) -> bool {
        let Some(grant) = self.reply.take() else { return false };
        let Task::Await { is_full, .. } = self.task else { return false };
        let mut drops = self.known.stale(&grant.time, &self.pages).unwrap_or_else(|| {
            self.counters.full_drops += 1;
            self.pages.copies()
        });
        if is_full {
            // A home that goes keeps a copy of which no notice is to come, so they are dropped by the homes
            // before; one that comes is dropped by none.
            let Member { moves, known, pages, copies, .. } = self;
            pages.note_wished(&moves.end_round(&grant, known, pages), false);
            copies.follow(&grant.moves, self.me, pages, frames);
            drops.retain(|unit| !pages.is_here(*unit));
        }
        let pages = &self.pages;
        let hit = |unit: &&u32| drops.binary_search(unit).is_ok();
        let flush = Flush::new(pages.pending().iter().filter(hit).copied().collect(), pages);
        self.task = Task::Acquire { flush, drops, grant, is_full };
        true
    }

    fn advance_acquire(&mut self, port: &mut impl Port, frames: &mut impl Frames) -> bool {
        let Task::Acquire { mut flush, mut drops, grant, is_full } =
            std::mem::replace(&mut self.task, Task::Idle)
        else {
            return false;
        };
        let Member { pages, known, stores, checks, .. } = self;
        if mutated!(StoresDropped) {
            flush.abandon(pages, checks, frames);
        }
        // The fetch of such a unit follows its differences to the same home, in order: nobody waits for them.
        if !stores.advance_flush(&mut flush, pages, known, checks, port, frames) {
            self.task = Task::Acquire { flush, drops, grant, is_full };
            return false;
        }
        drops.iter().for_each(|&unit| pages.drop_copy(unit));
        self.counters.dropped_units += drops.len() as u64;
        for run in runs_of(&mut drops) {
            frames.note_absent(run, true);
            frames.allow(run, Access::None);
        }
        known.acquire(&grant.time, is_full);
        if let Call::Grant { value } = grant.call {
            self.value = value;
        }
        true
    }

    fn handle_message(&mut self, from: usize, mut message: Message) {
        let parts = std::mem::take(&mut message.parts);
        if from != self.me {
            self.known.merge(parts);
        }
        if let Call::Grant { .. } = message.call {
            self.mail.told(from).join(&message.time);
            self.reply = Some(message);
            return;
        }
        let is_kept = match message.call {
            Call::Lock { lock } | Call::Unlock { lock } => self.keeper_of(lock) == self.me,
            Call::Lend { .. } | Call::Recall { .. } => false,
            _ => true,
        };
        let messages = if is_kept {
            keeper::apply(&mut self.kept, from, message, &self.known)
        } else {
            self.deputy.apply(from, message.call, &message.time, &self.known, &mut self.mail)
        };
        match messages {
            Ok(grants) => grants.into_iter().for_each(|(to, message)| self.post(to, message)),
            Err(violation) => self.checks.violate(violation),
        }
    }

    /// Hands a message over, here or to another node.
    fn post(&mut self, to: usize, message: Message) {
        if to == self.me {
            return self.handle_message(to, message);
        }
        self.mail.post(to, &message);
    }
}
