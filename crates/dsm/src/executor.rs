//! The member of this rank on its network.
//!
//! ```text
//! register   the records of shared memory have a route; then all ranks meet, before the first one is sent
//! call       begins a call of the program, and waits until it is over
//! ```
//!
//! A home that computes answers by the service thread, which takes over when its program has not looked for a
//! tick (docs/internals/dsm.md has what other ways cost).
//!
//! Records for ranks of the same node go through memory that they share ([`crate::mates`]).
//!
//! Whoever looks at the network (a thread that waits, the service thread while the program computes) hands
//! records over and sends what is owed. The state is reached under the process lock alone. A wait here
//! looks at the network and at nothing else: it runs in the handler of faults too, so no function of the
//! program may run.

mod counts;
mod mistakes;
mod spinning;

use std::cell::{RefCell, UnsafeCell};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tutti_runtime::background;
use tutti_runtime::rank::{self, LockedRank, Rank};
use tutti_runtime::router::{Client, Mark, Outbox, RouteId, Router, SendError, Taken};
use tutti_runtime::service_state;
use tutti_runtime::sleep::{self, SleepReport};
use tutti_runtime::waiting::{self, Waiting};
use tutti_runtime::wrong::{self, Wrong};
use tutti_shm::report::{Wait, What};

use crate::arena::Arena;
use crate::core::member::{Access, Asked, Counters, Frames, Goal, Member, Port, Sent, Touch};
use crate::core::message::{KINDS, checked_ranks_max};
use crate::core::sync::Place;
use crate::core::unit::{Placement, Run, UNIT_BYTES};
use crate::mates::Mail;
use crate::permissions::Backend;
use crate::size::{CHECK_VARIABLE, Wishes};
use crate::spin::Spins;
use crate::{failure, nap, note, variables};
pub(crate) use counts::{All, COUNTS, costs, counted, mark_part};

/// Where the last differences to a rank end, and whether it was asked to acknowledge them.
type Handed = Option<(Mark, bool)>;

#[derive(Debug)]
struct State {
    member: Member,
    arena: Arena,
    router: Rc<RefCell<Router>>,
    route: RouteId,
    /// By rank.
    marks: Vec<Handed>,
    record_bytes_max: usize,
    /// The way to the ranks of this node, if there are others.
    mail: Option<Mail>,
    sent: Sending,
    /// Counts when the parallel part of the program began, and when it ended.
    part: [Option<All>; 2],
    /// Counts as they were when the fault began that is under way.
    before: Counters,
    /// Loops that wait, where they are looked for.
    spins: Option<Spins>,
}

/// Counts of what has gone to other ranks.
#[derive(Clone, Copy, Debug, Default)]
struct Sending {
    records: u64,
    bytes: u64,
}

/// Faults of the program that came by a signal.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

static STATE: Cell = Cell(UnsafeCell::new(None));

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: the content is reached only by who holds the process lock.
unsafe impl Sync for Cell {}

/// The state, once it is there.
///
/// # Safety
/// The caller holds the process lock as long as it uses the value, and has no other one.
unsafe fn state<'a>() -> Option<&'a mut State> {
    // SAFETY: our contract.
    unsafe { (*STATE.0.get()).as_mut() }
}

/// Lends the state to whoever polls the network.
fn lend(use_client: &mut dyn FnMut(&mut dyn Client)) {
    // SAFETY: who polls holds the process lock, and the state is not borrowed meanwhile.
    let state = unsafe { state() };
    use_client(state.expect("what is registered has a state"));
}

struct ToRouter<'a, 'b> {
    outbox: &'a mut Outbox<'b>,
    marks: &'a mut [Handed],
    mail: Option<&'a mut Mail>,
    record_bytes_max: usize,
    sent: &'a mut Sending,
}

impl Port for ToRouter<'_, '_> {
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Sent {
        if let Some(mail) = self.mail.as_mut().filter(|mail| mail.is_for(to)) {
            return if mail.try_send(to, head, body) { Sent::Taken } else { Sent::Full };
        }
        match self.outbox.try_send(to, head, body) {
            Ok(()) => {
                self.sent.records += 1;
                self.sent.bytes += (head.len() + body.len()) as u64;
                Sent::Taken
            }
            Err(SendError::Full) => Sent::Full,
            Err(SendError::Exited(_)) => Sent::Gone,
            Err(error) => panic!("a record of shared memory to rank {to} cannot be sent: {error}"),
        }
    }

    fn record_bytes_max(&self) -> usize {
        self.record_bytes_max
    }

    fn note_awaited(&mut self, to: usize) {
        if let Some(mail) = self.mail.as_mut().filter(|mail| mail.is_for(to)) {
            return mail.mark(to);
        }
        self.marks[to] = self.outbox.completion(to).map(|mark| (mark, false));
    }

    fn is_applied(&mut self, to: usize) -> bool {
        if let Some(mail) = self.mail.as_ref().filter(|mail| mail.is_for(to)) {
            return mail.is_taken(to);
        }
        let Some((mark, was_asked)) = &mut self.marks[to] else { return true };
        if self.outbox.is_complete(to, *mark) {
            self.marks[to] = None;
            return true;
        }
        if !std::mem::replace(was_asked, true) {
            self.outbox.ask_now(to);
        }
        false
    }
}

impl State {
    /// Works with the member, the memory and the way out at once.
    fn with<T>(
        &mut self,
        outbox: &mut Outbox<'_>,
        action: impl FnOnce(&mut Member, &mut ToRouter<'_, '_>, &mut Arena) -> T,
    ) -> T {
        self.take_mail();
        let State { member, arena, marks, mail, record_bytes_max, sent, .. } = self;
        let (mail, record_bytes_max) = (mail.as_mut(), *record_bytes_max);
        let port = &mut ToRouter { outbox, marks, mail, record_bytes_max, sent };
        let value = action(member, port, arena);
        outbox.note_owing(member.is_owing());
        if let Some(violation) = member.take_violation() {
            mistakes::take(&violation);
        }
        value
    }

    /// Takes in the records of mates.
    fn take_mail(&mut self) {
        let State { member, arena, mail, .. } = self;
        let Some(mail) = mail else { return };
        mail.receive(&mut |from, record| {
            if !member.handle_record(from, record, arena) {
                wrong::count(from, Wrong::Form);
            }
        });
    }

    /// Goes on with the call of the program, and sends; whether it is over.
    fn advance(&mut self) -> bool {
        let (router, route) = (self.router.clone(), self.route);
        let mut router = router.borrow_mut();
        let is_over = self.with(&mut router.outbox(route), |member, port, arena| member.advance(port, arena));
        router.transmit_as(route, self);
        is_over
    }
}

// SAFETY: it has no bulk messages.
unsafe impl Client for State {
    fn record(&mut self, from: usize, record: &[u8]) -> Taken {
        if !self.member.handle_record(from, record, &mut self.arena) {
            wrong::count(from, Wrong::Form);
        }
        if let Some(violation) = self.member.take_violation() {
            mistakes::take(&violation);
        }
        service_state::note_applied();
        Taken::Yes
    }

    fn advance(&mut self, outbox: &mut Outbox<'_>) {
        self.with(outbox, |member, port, arena| member.pump(port, arena));
    }
}

/// A thread in a call of shared memory.
struct CallWait<'a> {
    rank: &'a mut LockedRank,
    router: Rc<RefCell<Router>>,
}

// SAFETY: there is no state.
unsafe impl Waiting for CallWait<'_> {
    type State = ();
    type Goal<'a> = ();

    fn rank(&mut self) -> &mut LockedRank {
        self.rank
    }

    fn state(&mut self) -> NonNull<()> {
        NonNull::dangling()
    }

    fn progress(&mut self, _: Option<usize>) -> bool {
        service_state::polled();
        self.router.borrow_mut().poll()
    }

    fn describe((): &(), (): (), report: &mut SleepReport) {
        // SAFETY: a wait is described under the process lock.
        let goal = unsafe { state() }.map_or(Goal::Nothing, |state| state.member.goal());
        report.put_alternative(|report| report.put(wait_of(goal)));
    }
}

/// A goal as others see it.
fn wait_of(goal: Goal) -> Wait {
    let wait = Wait::other(0, false);
    match goal {
        Goal::Page { home } => Wait { what: What::Page, peer: home as i32, matched: true, ..wait },
        Goal::Answer { keeper, asked } => match asked {
            Asked::Lock(lock) => {
                Wait { what: What::SharedLock, peer: keeper as i32, tag: lock as i32, ..wait }
            }
            Asked::Barrier(barrier) => Wait { what: What::Barrier, tag: barrier as i32, ..wait },
            Asked::Flag(flag) => Wait { what: What::Pause, tag: flag as i32, ..wait },
            Asked::Memory => wait,
        },
        Goal::Applied | Goal::Nothing => wait,
    }
}

/// Describes who waits for the locks that this rank keeps, or hands over inside its node. Bytes of 1: the
/// peer has a queue of its own, in which this rank has a place.
fn describe_background(report: &mut SleepReport) {
    // SAFETY: the caller holds the process lock.
    let Some(state) = (unsafe { state() }) else { return };
    state.member.visit_queues(|Place { lock, holder, asker, is_deputy }| {
        let place = Wait { what: What::Place, peer: holder as i32, tag: lock as i32, ..Wait::other(0, true) };
        let place = Wait { bytes: u64::from(is_deputy), moved: asker as u64, ..place };
        if !report.is_full() {
            report.put_alternative(|report| report.put(place));
        }
    });
}

/// From now on this rank takes the records of shared memory.
pub(crate) fn register(
    rank: &Rank,
    units: u32,
    placement: Placement,
    mut arena: Arena,
    mail: Option<Mail>,
    wishes: Wishes,
) {
    let router = rank.router.clone().expect("a job on several nodes has a network");
    let (me, ranks) = (rank.job.rank(), rank.job.ranks());
    let record_bytes_max = router.borrow().record_bytes_max();
    let checked_max = checked_ranks_max(record_bytes_max);
    if wishes.is_checked && ranks > checked_max {
        // All have the same longest record.
        if me > 0 {
            failure::await_end();
        }
        failure::end(format_args!(
            "{CHECK_VARIABLE}=1 is for {checked_max} ranks at most on this network, whose longest record has \
             {record_bytes_max} bytes; the job has {ranks}"
        ));
    }
    let route = router.borrow_mut().register(KINDS, Some(lend));
    let mut member = Member::new(me, placement, units, record_bytes_max);
    if let Some(limit) = wishes.copies {
        member.limit_copies(limit);
        IS_LIMITED.store(true, Relaxed);
    }
    if wishes.is_checked {
        member.check();
    }
    if wishes.writes_absent {
        member.write_absent();
    }
    if wishes.passes_locks {
        member.pass_locks();
    }
    if wishes.moves_homes {
        member.move_homes();
    }
    member.hide_absent(&mut arena);
    nap::prepare();
    service_state::open();
    sleep::describe_also(describe_background);
    // SAFETY: the lock is ours.
    let state = unsafe { &mut *STATE.0.get() };
    let marks = vec![None; ranks];
    let (sent, part, before) = (Sending::default(), [None; 2], member.counters());
    let spins = None;
    *state = Some(State {
        member,
        arena,
        router,
        route,
        marks,
        record_bytes_max,
        mail,
        sent,
        part,
        before,
        spins,
    });
}

/// Whether this rank has a member: the job is on several nodes.
pub fn is_on(rank: &Rank) -> bool {
    let _ = rank;
    // SAFETY: the value says that the lock is ours.
    unsafe { state() }.is_some()
}

/// Begins a call and waits until it is over; what it gives. None: there is no shared memory any more.
pub fn call(begin: impl FnOnce(&mut Member)) -> Option<u64> {
    variables::look();
    let begin = |state: &mut State| {
        state.spins.iter_mut().for_each(Spins::note_call);
        begin(&mut state.member);
    };
    call_with(begin, |state| state.member.value())
}

/// Counts a fault that came by a signal.
pub(crate) fn count_signal() {
    SIGNALS.fetch_add(1, Relaxed);
}

/// Handles a fault of the instruction at an address on a byte of the arena; false: there is no shared memory
/// any more.
pub(crate) fn handle_fault(offset: usize, touch: Touch, address: usize) -> bool {
    let unit = (offset / UNIT_BYTES) as u32;
    let suspect = spinning::note_access(offset, touch, address);
    if suspect.is_some() {
        // Nobody's stores are heard of by it; the fault brings the page again.
        call_with(|state| state.member.begin_invalidate(vec![unit]), |_| ());
    }
    let is_there = handle_access(unit, touch, address);
    if let Some(before) = suspect {
        spinning::judge(offset, before, address);
    }
    is_there
}

fn handle_access(unit: u32, touch: Touch, address: usize) -> bool {
    let begin = |state: &mut State| {
        let place = state.arena.sites.place_of(address);
        if let Touch::Store(_) = touch {
            state.arena.sites.note_storer(unit, place);
            state.arena.sites.costs_mut(place).stores += 1;
        }
        state.before = state.member.counters();
        state.arena.note_touched(Some(unit));
        state.member.begin_fault(unit, touch);
    };
    let end = |state: &mut State| {
        state.arena.note_touched(None);
        let (before, after) = (state.before, state.member.counters());
        let place = state.arena.sites.place_of(address);
        let costs = state.arena.sites.costs_mut(place);
        costs.misses += after.fetches - before.fetches;
        costs.pages += after.fetched_units - before.fetched_units;
        costs.twins += after.twins - before.twins;
    };
    call_with(begin, end).is_some()
}

fn call_with<T>(begin: impl FnOnce(&mut State), end: impl FnOnce(&mut State) -> T) -> Option<T> {
    nap::while_congested();
    let mut rank = rank::enter()?;
    let router = {
        // SAFETY: the lock is ours, and the value is not used across the wait.
        let state = unsafe { state() }?;
        begin(state);
        if state.advance() {
            return Some(end(state));
        }
        state.mail.iter().for_each(Mail::begin_looking);
        state.router.clone()
    };
    waiting::wait_until(&mut CallWait { rank: &mut rank, router }, None, (), |()| {
        // SAFETY: tests of waits run under the process lock, and nobody else has the state.
        unsafe { state() }.is_none_or(State::advance)
    });
    // SAFETY: the lock is ours.
    let state = unsafe { state() }?;
    let value = end(state);
    if state.mail.as_ref().is_some_and(Mail::end_looking) {
        // What has come since the last look nobody else was woken for.
        state.advance();
    }
    Some(value)
}

/// Starts the thread that takes in what mates send while the program does not look.
///
/// # Errors
/// When there can be no more threads.
pub(crate) fn serve_mates() -> std::io::Result<()> {
    let words = {
        let Some(_rank) = rank::enter() else { return Ok(()) };
        // SAFETY: the lock is ours.
        unsafe { state() }.and_then(|state| state.mail.as_ref().map(Mail::words))
    };
    let Some(words) = words else { return Ok(()) };
    background::spawn("tutti-mates", move || {
        while take_in() {
            words.await_mail();
        }
    })
}

/// Takes in what mates have sent, for a rank whose program looks at nothing. Whether it goes on.
fn take_in() -> bool {
    let Some(rank) = rank::enter() else { return false };
    // SAFETY: the lock is ours.
    let Some(router) = unsafe { state() }.map(|state| state.router.clone()) else { return false };
    router.borrow_mut().poll();
    // Its count is no atomic: it goes while the lock is held.
    drop(router);
    drop(rank);
    true
}

/// Works on the member without a wait.
pub fn with_member<T>(action: impl FnOnce(&mut Member) -> T) -> Option<T> {
    let _rank = rank::enter()?;
    // SAFETY: the lock is ours.
    unsafe { state() }.map(|state| action(&mut state.member))
}

/// Takes all permissions of the arena away: from now on accesses fault. In a job that is checked, loops that
/// wait are looked for from here on.
pub(crate) fn close_arena() -> std::io::Result<()> {
    let Some(_rank) = rank::enter() else { return Ok(()) };
    // SAFETY: the lock is ours.
    let Some(state) = (unsafe { state() }) else { return Ok(()) };
    state.arena.close()?;
    if state.member.is_checked() {
        state.spins = Some(Spins::default());
        spinning::begin()?;
    }
    Ok(())
}

/// How accesses of this rank are noticed; none: the job has no protocol.
pub(crate) fn backend() -> Option<Backend> {
    let _rank = rank::enter()?;
    // SAFETY: the lock is ours.
    unsafe { state() }.map(|state| state.arena.permission_calls().0)
}

/// Takes the permission of a run of units away: the next access of each faults.
pub(crate) fn hide(run: Run) {
    let Some(_rank) = rank::enter() else { return };
    // SAFETY: the lock is ours.
    if let Some(state) = unsafe { state() } {
        state.arena.allow(run, Access::None);
    }
}

/// Code that makes no notes is about to run: its stores have to fault. Compiled code calls this.
pub fn rearm() {
    if !note::count_rearm() {
        return;
    }
    let Some(_rank) = rank::enter() else { return };
    // SAFETY: the lock is ours.
    if let Some(state) = unsafe { state() } {
        state.member.rearm(&mut state.arena);
    }
}

/// Whether the memory for copies is limited.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);

/// Whether the last call of the system that has shared memory is over.
static IS_OVER: AtomicBool = AtomicBool::new(true);

/// A call of the system is over: the next range is of another one.
pub(crate) fn end_call() {
    IS_OVER.store(true, Relaxed);
}

/// A call of the system is about to load these bytes of the arena: none of their pages makes room for the
/// others.
pub(crate) fn pin(offset: usize, bytes: usize) {
    if bytes == 0 || !IS_LIMITED.load(Relaxed) {
        return;
    }
    let Some(_rank) = rank::enter() else { return };
    let first = offset / UNIT_BYTES;
    let run = Run { first: first as u32, count: ((offset + bytes - 1) / UNIT_BYTES - first + 1) as u32 };
    // SAFETY: the lock is ours.
    if let Some(state) = unsafe { state() } {
        state.member.pin(run, IS_OVER.swap(false, Relaxed));
    }
}

/// Code that checks no loads is about to run: its loads of what is not here have to fault.
pub fn cover() {
    if note::states().is_none() {
        return;
    }
    let Some(_rank) = rank::enter() else { return };
    // SAFETY: the lock is ours.
    if let Some(state) = unsafe { state() } {
        state.member.cover(&mut state.arena);
    }
}
