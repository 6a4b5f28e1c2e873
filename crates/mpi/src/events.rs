//! Events of the tool information interface (MPI 15.3.8): what the library raises, and how tools get it.
//!
//! ```text
//! raise, under the process lock -> a callback that needs no MPI: called at once
//!                               -> any other: the event waits; the phase becomes PENDING, so that the next call
//!                                  of MPI takes the slow way in, where nothing is locked or borrowed
//! ```
//!
//! Nothing is raised, and one word is read in ways that are slow anyway, while no handle has a callback. The
//! table has a lock of its own, which is never held while a callback runs or another lock is taken. An event
//! that a callback causes itself is counted as dropped: else callbacks could go on without end.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::info::Info;
use crate::phase;
use crate::tool_users::{self, Answer, check_initialized};

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// MPI_INT.
    Int,
    /// MPI_UNSIGNED_LONG_LONG.
    Long,
}

impl Kind {
    /// Size of the element in bytes, which is its alignment too.
    pub fn bytes(self) -> usize {
        match self {
            Kind::Int => size_of::<c_int>(),
            Kind::Long => size_of::<u64>(),
        }
    }

    /// Writes a value.
    ///
    /// # Safety
    /// `place` has room for it; it need not be aligned.
    pub unsafe fn write(self, value: u64, place: *mut u8) {
        // SAFETY: our contract.
        unsafe {
            match self {
                Kind::Int => place.cast::<c_int>().write_unaligned(value as c_int),
                Kind::Long => place.cast::<u64>().write_unaligned(value),
            }
        }
    }
}

/// Kind of event.
#[derive(Debug)]
pub struct Description {
    /// Name.
    pub name: &'static str,
    /// When it is raised, and what its elements mean.
    pub meaning: &'static str,
    /// Names and types of its elements.
    pub elements: &'static [(&'static str, Kind)],
    /// The category it belongs to, by name.
    pub category: &'static str,
}

/// Elements of an event, at most.
pub const ELEMENTS_MAX: usize = 4;
/// The values of the elements, in order; the rest is 0.
pub type Values = [u64; ELEMENTS_MAX];

/// An event, as a number in [`EVENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Event {
    /// A message came before its receive.
    Unexpected,
    /// A send was announced.
    Announced,
    /// The receiver has answered.
    Answered,
    /// A collective operation has its algorithm.
    Collective,
    /// A collective access to a file goes through aggregators.
    Aggregated,
    /// The job has stood still.
    Thawed,
}

/// All events.
pub const EVENTS: [Description; 6] = [
    Description {
        name: "tutti.unexpected",
        meaning: "a message has arrived before its receive: world rank of its sender, tag, bytes",
        elements: &[("source", Kind::Int), ("tag", Kind::Int), ("bytes", Kind::Long)],
        category: "tutti.messages",
    },
    Description {
        name: "tutti.rendezvous_started",
        meaning: "a message was announced to its receiver: world rank of the receiver, tag, bytes",
        elements: &[("destination", Kind::Int), ("tag", Kind::Int), ("bytes", Kind::Long)],
        category: "tutti.messages",
    },
    Description {
        name: "tutti.rendezvous_answered",
        meaning: "the receiver of an announced message has its receive, or the data already: its world rank, tag, \
                  bytes",
        elements: &[("destination", Kind::Int), ("tag", Kind::Int), ("bytes", Kind::Long)],
        category: "tutti.messages",
    },
    Description {
        name: "tutti.collective",
        meaning: "a collective operation that is not small has its algorithm (0 tree, 1 direct, 2 reduction in \
                  parts, 3 edges of a topology, 4 two groups, 5 single copies), number of ranks",
        elements: &[("algorithm", Kind::Int), ("ranks", Kind::Int)],
        category: "tutti.collectives",
    },
    Description {
        name: "tutti.file_aggregated",
        meaning: "a collective access to a file goes through aggregators: 1 if it writes, number of aggregators, \
                  rounds, bytes of this rank",
        elements: &[
            ("writes", Kind::Int),
            ("aggregators", Kind::Int),
            ("rounds", Kind::Long),
            ("bytes", Kind::Long),
        ],
        category: "tutti.files",
    },
    Description {
        name: "tutti.thawed",
        meaning: "a rank that waits has found that the job was thawed: times since the start, microseconds \
                  that it has stood still since the start",
        elements: &[("thaws", Kind::Long), ("frozen_us", Kind::Long)],
        category: "tutti.turns",
    },
];

/// The source of all events: name, meaning.
pub const SOURCE: (&str, &str) = ("tutti.clock", "the monotonic clock of the node, in nanoseconds");

impl Description {
    /// Where the elements lie in a copy of an event: displacement and type of each.
    pub fn layout(&self) -> impl Iterator<Item = (usize, Kind)> {
        self.elements.iter().scan(0, |end: &mut usize, &(_, kind)| {
            let begin = end.next_multiple_of(kind.bytes());
            *end = begin + kind.bytes();
            Some((begin, kind))
        })
    }
}

/// The levels of callbacks, the least safe first.
const LEVELS: [MPI_T_cb_safety; 4] = [
    MPI_T_CB_REQUIRE_NONE,
    MPI_T_CB_REQUIRE_MPI_RESTRICTED,
    MPI_T_CB_REQUIRE_THREAD_SAFE,
    MPI_T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];
/// Events that wait for a callback of one handle; more are dropped.
const WAITING_MAX: usize = 1024;

/// An event that has been raised.
#[derive(Clone, Copy, Debug)]
pub struct Raised {
    /// Which.
    pub event: usize,
    /// When, in ns of the source.
    pub stamp: MPI_Count,
    /// Values of its elements.
    pub values: Values,
}

/// A function of the tool, with its argument.
#[derive(Clone, Copy, Debug)]
struct Function {
    address: usize,
    data: usize,
}

#[derive(Debug)]
struct Callback {
    function: Function,
    info: Info,
}

#[derive(Debug)]
struct Handle {
    id: usize,
    event: usize,
    info: Info,
    /// By level.
    callbacks: [Option<Callback>; LEVELS.len()],
    dropped_handler: usize,
    dropped: MPI_Count,
    /// Argument that the functions of the handle got last: the dropped handler has none of its own.
    data: usize,
    waiting: VecDeque<Raised>,
    /// Callbacks that run.
    running: u32,
    /// Freed by a callback that still runs: what is called then.
    freed: Option<Function>,
}

#[derive(Debug)]
struct Table {
    /// Identities are never given twice; 0 is no handle.
    next_id: usize,
    handles: Vec<Handle>,
    /// Events that running callbacks look at.
    shown: Vec<(usize, Raised)>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { next_id: 1, handles: Vec::new(), shown: Vec::new() });
/// A bit for each event that a callback wants.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Whether something waits for the next call of MPI.
static WAITING: AtomicBool = AtomicBool::new(false);
/// Thaws that were noticed.
static THAWS: AtomicU32 = AtomicU32::new(0);

/// Where this thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// A callback that may call all of MPI.
    Callback,
    /// A callback in the midst of the library.
    Restricted,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside::Nothing) };
}

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this thread runs a callback that may not use what the process lock protects.
pub fn is_restricted() -> bool {
    INSIDE.get() == Inside::Restricted
}

/// The time of the source.
pub fn now() -> MPI_Count {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a structure of our own; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Raises an event, if a tool wants it. For ways that are slow anyway; the caller may hold the process lock.
#[inline(always)]
pub fn raise(event: Event, values: impl FnOnce() -> Values) {
    if is_wanted(event) {
        raise_wanted(event as usize, values());
    }
}

/// Whether a tool wants an event.
#[inline(always)]
pub fn is_wanted(event: Event) -> bool {
    WANTED.load(Ordering::Relaxed) & (1 << event as u32) != 0
}

/// Looks whether the job has stood still since the last look.
#[inline]
pub fn note_turns(counts: impl FnOnce() -> (u64, u64)) {
    if is_wanted(Event::Thawed) {
        let (thaws, frozen_us) = counts();
        if THAWS.swap(thaws as u32, Ordering::Relaxed) != thaws as u32 {
            raise_wanted(Event::Thawed as usize, [thaws, frozen_us, 0, 0]);
        }
    }
}

#[cold]
#[inline(never)]
fn raise_wanted(event: usize, values: Values) {
    let raised = Raised { event, stamp: now(), values };
    let is_own = INSIDE.get() != Inside::Nothing;
    let mut at_once = Vec::new();
    for handle in table().handles.iter_mut().filter(|one| one.event == event && one.freed.is_none()) {
        let level = handle.callbacks.iter().rposition(Option::is_some);
        let Some(level) = level else { continue };
        if level > 0 && !is_own {
            let least = (1..LEVELS.len()).find(|&level| handle.callbacks[level].is_some());
            at_once.push((handle.id, least.unwrap_or(level)));
        } else if is_own || handle.waiting.len() == WAITING_MAX {
            handle.dropped += 1;
            WAITING.store(true, Ordering::Release);
        } else {
            handle.waiting.push_back(raised);
            WAITING.store(true, Ordering::Release);
        }
    }
    for (id, level) in at_once {
        show(id, level, raised, Inside::Restricted);
    }
    arm();
}

/// The next call of MPI looks for what waits.
pub fn arm() {
    if WAITING.load(Ordering::Acquire) {
        phase::arm();
    }
}

/// Calls a handle's callback of a level for an event.
fn show(id: usize, level: usize, raised: Raised, inside: Inside) {
    let (instance, function) = {
        let mut table = table();
        let instance = table.new_id();
        let Ok(handle) = table.find(id) else { return };
        let Some(callback) = &handle.callbacks[level] else { return };
        let function = callback.function;
        handle.running += 1;
        table.shown.push((instance, raised));
        (instance, function)
    };
    let safety = safety_of(inside);
    within(inside, || {
        // SAFETY: the tool has registered a function of this type.
        let call = unsafe { std::mem::transmute::<usize, MPI_T_event_cb_function_fn>(function.address) };
        let (shown, handle) = (MPI_T_event_instance(instance), MPI_T_event_registration(id));
        // SAFETY: as above; its argument is the tool's.
        unsafe { call(shown, handle, safety, function.data as *mut c_void) };
    });
    table().shown.retain(|one| one.0 != instance);
    leave(id, inside);
}

/// A callback of a handle has ended; a handle that was freed meanwhile goes with its last one.
fn leave(id: usize, inside: Inside) {
    let freed = {
        let mut table = table();
        let Some(place) = table.handles.iter().position(|one| one.id == id) else { return };
        let handle = &mut table.handles[place];
        handle.running -= 1;
        let freed = handle.freed.filter(|_| handle.running == 0);
        if freed.is_some() {
            table.handles.remove(place);
        }
        freed
    };
    if let Some(function) = freed {
        call_free(id, function, inside);
    }
}

fn call_free(id: usize, function: Function, inside: Inside) {
    if function.address == 0 {
        return;
    }
    let safety = safety_of(inside);
    within(inside, || {
        // SAFETY: the tool has given a function of this type, or none.
        let call = unsafe { std::mem::transmute::<usize, MPI_T_event_free_cb_function_fn>(function.address) };
        // SAFETY: as above; its argument is the tool's.
        unsafe { call(MPI_T_event_registration(id), safety, function.data as *mut c_void) };
    });
}

fn safety_of(inside: Inside) -> MPI_T_cb_safety {
    if inside == Inside::Restricted { MPI_T_CB_REQUIRE_MPI_RESTRICTED } else { MPI_T_CB_REQUIRE_NONE }
}

fn within(inside: Inside, action: impl FnOnce()) {
    let before = INSIDE.replace(inside);
    action();
    INSIDE.set(before);
}

/// Shows what waits. Nothing is locked or borrowed by this thread.
#[cold]
pub fn deliver() {
    if INSIDE.get() != Inside::Nothing || !WAITING.swap(false, Ordering::AcqRel) {
        return;
    }
    loop {
        // The lock is free again before anything is called.
        let next = table().next();
        let Some(next) = next else { break };
        match next {
            Next::Event(id, raised) => show(id, 0, raised, Inside::Callback),
            Next::Dropped(id, count, function) => {
                within(Inside::Callback, || {
                    // SAFETY: the tool has given a function of this type.
                    let call = unsafe {
                        std::mem::transmute::<usize, MPI_T_event_dropped_cb_function_fn>(function.address)
                    };
                    let (handle, data) = (MPI_T_event_registration(id), function.data as *mut c_void);
                    // SAFETY: as above; its argument is the tool's.
                    unsafe { call(count, handle, 0, MPI_T_CB_REQUIRE_NONE, data) };
                });
                leave(id, Inside::Callback);
            }
        }
    }
}

enum Next {
    Event(usize, Raised),
    Dropped(usize, MPI_Count, Function),
}

impl Table {
    fn new_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id - 1
    }

    fn find(&mut self, id: usize) -> Answer<&mut Handle> {
        let found = self.handles.iter_mut().find(|one| one.id == id && one.freed.is_none());
        found.ok_or(MPI_T_ERR_INVALID_HANDLE)
    }

    /// Takes what is delivered next: events before what was dropped behind them.
    fn next(&mut self) -> Option<Next> {
        for handle in self.handles.iter_mut().filter(|one| one.freed.is_none()) {
            if handle.callbacks[0].is_none() {
                // It was removed, or another was registered that is called at once.
                handle.dropped += handle.waiting.drain(..).count() as MPI_Count;
            }
            if let Some(raised) = handle.waiting.pop_front() {
                return Some(Next::Event(handle.id, raised));
            }
            if handle.dropped > 0 && handle.dropped_handler != 0 {
                handle.running += 1;
                let function = Function { address: handle.dropped_handler, data: handle.data };
                return Some(Next::Dropped(handle.id, std::mem::take(&mut handle.dropped), function));
            }
        }
        None
    }

    fn publish(&self) {
        let is_used = |one: &&Handle| one.freed.is_none() && one.callbacks.iter().any(Option::is_some);
        let wanted = self.handles.iter().filter(is_used).fold(0, |bits, one| bits | 1 << one.event);
        WANTED.store(wanted, Ordering::Relaxed);
    }
}

/// The last user of the interface leaves it.
pub fn clear() {
    let mut table = table();
    table.handles.clear();
    table.publish();
}

/// A new handle, without callbacks.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_INDEX.
pub fn new_handle(event: c_int, info: Info) -> Answer<MPI_T_event_registration> {
    let event = tool_users::checked_index(event, EVENTS.len())?;
    let mut table = table();
    let id = table.new_id();
    let (callbacks, waiting) = ([const { None }; LEVELS.len()], VecDeque::new());
    let (dropped_handler, dropped, data, running, freed) = (0, 0, 0, 0, None);
    let handle =
        Handle { id, event, info, callbacks, dropped_handler, dropped, data, waiting, running, freed };
    table.handles.push(handle);
    Ok(MPI_T_event_registration(id))
}

/// Frees a handle; the function is called when none of its callbacks runs any more.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_HANDLE.
pub fn free_handle(handle: MPI_T_event_registration, data: *mut c_void, address: usize) -> Answer {
    check_initialized()?;
    table().find(handle.0)?;
    // What it has seen until now is shown first.
    deliver();
    let function = Function { address, data: data as usize };
    {
        let mut table = table();
        let found = table.find(handle.0)?;
        found.freed = Some(function);
        found.waiting.clear();
        let runs = found.running > 0;
        table.publish();
        if runs {
            return Ok(());
        }
        table.handles.retain(|one| one.id != handle.0);
    }
    let inside = if is_restricted() { Inside::Restricted } else { Inside::Callback };
    call_free(handle.0, function, inside);
    Ok(())
}

/// The hints of a handle, to be read or replaced.
///
/// # Errors
/// As [`free_handle`].
pub fn with_info<T>(handle: MPI_T_event_registration, action: impl FnOnce(&mut Info) -> T) -> Answer<T> {
    check_initialized()?;
    Ok(action(&mut table().find(handle.0)?.info))
}

fn level_of(safety: MPI_T_cb_safety) -> Answer<usize> {
    LEVELS.iter().position(|&level| level == safety).ok_or(MPI_T_ERR_INVALID)
}

/// Registers the callback of a level, or removes it if `address` is 0.
///
/// # Errors
/// As [`free_handle`]; MPI_T_ERR_INVALID for a level that does not exist.
pub fn register(
    handle: MPI_T_event_registration,
    safety: MPI_T_cb_safety,
    info: Info,
    data: *mut c_void,
    address: usize,
) -> Answer {
    check_initialized()?;
    let mut table = table();
    let found = table.find(handle.0)?;
    let function = Function { address, data: data as usize };
    found.callbacks[level_of(safety)?] = (address != 0).then_some(Callback { function, info });
    found.data = function.data;
    table.publish();
    Ok(())
}

/// The hints of a callback, to be read or replaced.
///
/// # Errors
/// As [`register`]; MPI_T_ERR_INVALID when there is no callback of that level.
pub fn with_callback_info<T>(
    handle: MPI_T_event_registration,
    safety: MPI_T_cb_safety,
    action: impl FnOnce(&mut Info) -> T,
) -> Answer<T> {
    check_initialized()?;
    let mut table = table();
    let callback = table.find(handle.0)?.callbacks[level_of(safety)?].as_mut();
    callback.map(|callback| action(&mut callback.info)).ok_or(MPI_T_ERR_INVALID)
}

/// Sets the function that learns how many events were dropped; 0 for none.
///
/// # Errors
/// As [`free_handle`].
pub fn set_dropped_handler(handle: MPI_T_event_registration, address: usize) -> Answer {
    check_initialized()?;
    table().find(handle.0)?.dropped_handler = address;
    Ok(())
}

/// Event that a callback looks at.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED; MPI_T_ERR_INVALID_HANDLE when its callback has ended.
pub fn shown(instance: MPI_T_event_instance) -> Answer<Raised> {
    check_initialized()?;
    let table = table();
    let found = table.shown.iter().find(|one| one.0 == instance.0);
    found.map(|one| one.1).ok_or(MPI_T_ERR_INVALID_HANDLE)
}
