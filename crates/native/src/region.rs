//! Regions: memory that this rank opens to others, and where a handle leads.
//!
//! Memory comes from the rank's share of the node's arena, so mates map it. A handle names rank, number and
//! generation, and where the rank's directory lies; a mate looks the rest up there
//! ([`tutti_shm::directory`]). Ranks of other nodes name the region of the engine ([`tutti_rma::engine`]).

use core::ffi::{c_int, c_void};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tutti_rma::claims::Claims;
use tutti_rma::region::{Region, Rights};
use tutti_rma::wire::NO_REGION;
use tutti_runtime::rank::{self, LOCK, Rank};
use tutti_runtime::remote_memory;
use tutti_runtime::word_wait::{self, Storers};
use tutti_shm::arena::Mapping;
use tutti_shm::directory::{Directory, Line, REGIONS_MAX, SIGNAL};
use tutti_shm::opened::Opened;
use tutti_shm::queue::Queue;
use tutti_shm::watch;

use crate::handle::{ATOMIC, Handle, QUEUE, READ, WRITE};
use crate::mates::opened;
use crate::status::*;
use crate::{handler, multicast, published, stand_in};

/// Taker of the messages of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taker {
    /// The program takes them.
    Calls,
    /// A thread gives each to a function of the program ([`crate::signal`]).
    Handler,
}

#[derive(Debug)]
struct Own {
    directory: Directory,
    at: u64,
    /// Of the socket on which the starter stands in for this rank; 0: of none.
    port: u16,
    /// Open regions by number.
    open: BTreeMap<u16, Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    handle: Handle,
    line: Line,
    address: usize,
    taker: Taker,
}

#[derive(Debug, Default)]
struct State {
    own: Option<Own>,
    /// Memory that this rank has taken, by address.
    memory: BTreeMap<usize, Arc<Taken>>,
}

/// Memory that this rank has taken. It stays mapped as long as the value, so a thread that looks at it
/// without the process lock holds the value.
#[derive(Debug)]
pub(crate) struct Taken {
    mapping: Mapping,
    /// Whether it was a queue that has been closed since.
    is_closed: AtomicBool,
}

impl Taken {
    fn new(mapping: Mapping) -> Arc<Self> {
        Arc::new(Taken { mapping, is_closed: AtomicBool::new(false) })
    }

    /// Whether the queue in it was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Acquire)
    }
}

static STATE: Mutex<State> = Mutex::new(State { own: None, memory: BTreeMap::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this rank has an open queue. Its messages name their senders.
pub fn is_queue_open() -> bool {
    let is_queue = |open: &Open| open.line.rights as c_int & QUEUE != 0;
    state().own.as_ref().is_some_and(|own| own.open.values().any(is_queue))
}

/// Whether this rank has opened anything to others.
pub fn is_any_open() -> bool {
    state().own.as_ref().is_some_and(|own| !own.open.is_empty())
}

/// Takes zeroed memory that may be opened.
pub fn alloc(bytes: usize) -> *mut c_void {
    let Some(rank) = rank::enter() else { return std::ptr::null_mut() };
    let Some(mapping) = rank.map_shared(bytes) else { return std::ptr::null_mut() };
    let base = mapping.base();
    // Threads of the program may store there too.
    word_wait::add_memory(base.addr().get(), mapping.range().bytes as usize, Storers::Anybody);
    state().memory.insert(base.addr().get(), Taken::new(mapping));
    base.as_ptr().cast()
}

/// Gives it back. Nothing of it is open any more.
pub fn free(memory: *mut c_void) -> c_int {
    let Some(rank) = rank::enter() else { return NOT_RUNNING };
    let mut state = state();
    let Some(taken) = state.memory.get(&memory.addr()) else { return INVALID };
    let range = taken.mapping.range();
    if state.own.as_ref().is_some_and(|own| own.open.values().any(|open| open.line.range == range)) {
        return BUSY;
    }
    state.memory.remove(&memory.addr());
    word_wait::remove_memory(memory.addr());
    rank.free_shared(range);
    OK
}

fn own<'a>(rank: &Rank, state: &'a mut State) -> Option<&'a mut Own> {
    if state.own.is_none() {
        let ranks = rank.job.local_ranks().len();
        let mapping = rank.map_shared(Directory::bytes(ranks))?;
        let directory = Directory::new(opened(&mapping), ranks)?;
        let at = mapping.range().offset;
        let port = let_starter_stand_in(rank, &directory);
        state.own = Some(Own { directory, at, port, open: BTreeMap::new() });
        // An onlooker looks for signals there.
        rank.job.report(rank.job.rank()).directory.store(at, Release);
        // Mates look at it as long as the job runs.
        std::mem::forget(mapping);
        if !watch::register() {
            word_wait::store_unnoticed(&rank.job);
        }
    }
    state.own.as_mut()
}

/// In a job on several nodes the starter may apply what other nodes ask while this rank stands still: it gets
/// a socket for that, whose port is given, and both claim what they apply. 0: it does not.
fn let_starter_stand_in(rank: &Rank, directory: &Directory) -> u16 {
    if rank.remote_memory().is_none() {
        return 0;
    }
    let Some(mapping) = rank.map_shared(Claims::bytes(rank.job.ranks())) else { return 0 };
    directory.set_claims(mapping.range());
    let claims = Claims::new(opened(&mapping));
    // As long as the job runs.
    std::mem::forget(mapping);
    rank.remote_memory().iter_mut().for_each(|memory| memory.set_claims(claims));
    stand_in::listen(&rank.job)
}

fn publish(
    rank: &Rank,
    state: &mut State,
    line: Line,
    address: usize,
    queue: Option<(Queue, Taker)>,
) -> Result<Handle, c_int> {
    let me = rank.job.rank() as u32;
    // Mates of other nodes may name it in a list from now on.
    multicast::register(rank);
    let own = own(rank, state).ok_or(MEMORY)?;
    let slot = (0..REGIONS_MAX as u16).find(|slot| !own.open.contains_key(slot)).ok_or(MEMORY)?;
    let region = match queue {
        Some((queue, _)) => Region::queue(queue),
        None => {
            let base = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(address)).ok_or(INVALID)?;
            // SAFETY: it lies in memory that this rank has taken, and stays until it is closed.
            Region::plain(unsafe { Opened::new(base, line.bytes as usize) })
        }
    };
    let rights =
        [(READ, Rights::READ), (WRITE, Rights::WRITE), (ATOMIC, Rights::CHANGE), (QUEUE, Rights::ENQUEUE)]
            .into_iter()
            .filter(|(bit, _)| line.rights as c_int & bit != 0)
            .fold(Rights::NONE, |rights, (_, right)| rights.and(right));
    let name = rank.remote_memory().map_or(NO_REGION, |mut memory| memory.open(region.with_rights(rights)));
    let generation = own.directory.open(slot as usize, line);
    let mut handle = Handle {
        rank: me,
        slot,
        port: own.port,
        generation,
        directory: own.at,
        id: name.id,
        id_generation: name.generation,
        bytes: line.bytes,
        check: 0,
    };
    handle.check = handle.sum(rank.job.id());
    let taker = queue.map_or(Taker::Calls, |(_, taker)| taker);
    own.open.insert(slot, Open { handle, line, address, taker });
    Ok(handle)
}

/// Opens a part of memory from [`alloc`].
pub fn open(memory: *mut c_void, bytes: usize, rights: c_int) -> Result<Handle, c_int> {
    let rank = rank::enter().ok_or(NOT_RUNNING)?;
    if bytes == 0 || rights & !(READ | WRITE | ATOMIC) != 0 || rights == 0 {
        return Err(INVALID);
    }
    let mut state = state();
    let (base, taken) = state.memory.range(..=memory.addr()).next_back().ok_or(INVALID)?;
    let (begin, range) = (memory.addr() - base, taken.mapping.range());
    if begin.checked_add(bytes).is_none_or(|end| end as u64 > range.bytes) {
        return Err(INVALID);
    }
    memory.expose_provenance();
    let line = Line { rights: rights as u64, range, begin: begin as u64, bytes: bytes as u64 };
    publish(&rank, &mut state, line, memory.addr(), None)
}

/// Opens a part of a region of this rank once more, with the same rights or fewer.
pub fn alias(of: &Handle, offset: u64, bytes: u64, rights: c_int) -> Result<Handle, c_int> {
    let rank = rank::enter().ok_or(NOT_RUNNING)?;
    let mut state = state();
    let found = state.own.as_ref().and_then(|own| own.open.get(&of.slot)).copied();
    let found = found.filter(|open| open.handle == *of).ok_or(NO_REGION_STATUS)?;
    if rights == 0 || found.line.rights as c_int & QUEUE != 0 {
        return Err(INVALID);
    }
    if rights & !(found.line.rights as c_int) != 0 {
        return Err(NO_RIGHT);
    }
    if bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > found.line.bytes) {
        return Err(OUT_OF_RANGE);
    }
    let line = Line { rights: rights as u64, begin: found.line.begin + offset, bytes, ..found.line };
    publish(&rank, &mut state, line, found.address + offset as usize, None)
}

/// Makes a queue that holds one message of so many bytes, or several shorter ones.
pub fn open_queue(bytes: usize, taker: Taker) -> Result<Handle, c_int> {
    let rank = rank::enter().ok_or(NOT_RUNNING)?;
    if taker == Taker::Handler {
        // A thread of the library takes out what is in it.
        LOCK.need_while_held();
    }
    if bytes == 0 || bytes > 1 << 30 {
        return Err(INVALID);
    }
    let length = Queue::bytes_for(bytes);
    let mapping = rank.map_shared(length).ok_or(MEMORY)?;
    // SAFETY: the mapping has so many bytes, zeroed, and stays until the queue is closed.
    let queue = Queue::create(unsafe { Opened::new(mapping.base(), length) }).ok_or(MEMORY)?;
    let rights = QUEUE as u64 | if taker == Taker::Handler { SIGNAL } else { 0 };
    let line = Line { rights, range: mapping.range(), begin: 0, bytes: length as u64 };
    let address = mapping.base().as_ptr().expose_provenance();
    let mut state = state();
    let opened = publish(&rank, &mut state, line, address, Some((queue, taker)));
    if opened.is_ok() {
        // Calls of this library alone change it.
        word_wait::add_memory(address, length, Storers::Calls);
        state.memory.insert(address, Taken::new(mapping));
    }
    opened
}

/// Closes a region or a queue of this rank: whoever names it from now on is refused. Waits for mates that
/// are in the middle of an operation on it.
///
/// The thread of a signal ends first; what is still in its queue is dropped.
pub fn close(handle: &Handle) -> c_int {
    if published::is_published(handle) {
        return published::close(handle);
    }
    let Some(mut rank) = rank::enter() else { return NOT_RUNNING };
    if handler::is_running_here() && taker_of(handle) == Some(Taker::Handler) {
        // This thread cannot wait for its own end.
        return BUSY;
    }
    let found = {
        let mut state = state();
        let Some(own) = state.own.as_mut() else { return NO_REGION_STATUS };
        let Some(found) = own.open.get(&handle.slot).copied().filter(|open| open.handle == *handle) else {
            return NO_REGION_STATUS;
        };
        if !own.directory.close(handle.slot as usize, handle.generation) {
            return NO_REGION_STATUS;
        }
        (own.directory, found)
    };
    if let Some(mut memory) = rank.remote_memory() {
        let name = handle.name();
        memory.retire(name);
        if memory.is_in_use(name) {
            remote_memory::wait(&mut rank, |memory| !memory.is_in_use(name));
        }
        memory.close(name);
    }
    while found.0.is_visited(handle.slot as usize) {
        rank.in_between(std::thread::yield_now);
    }
    if found.1.taker == Taker::Handler {
        drop(rank);
        handler::end(handle.slot.into());
        let Some(entered) = rank::enter() else { return NOT_RUNNING };
        rank = entered;
    }
    let mut state = state();
    if let Some(own) = state.own.as_mut() {
        own.open.remove(&handle.slot);
    }
    if found.1.line.rights as c_int & QUEUE != 0 {
        if let Some(taken) = state.memory.remove(&found.1.address) {
            taken.is_closed.store(true, Release);
        }
        word_wait::remove_memory(found.1.address);
        rank.free_shared(found.1.line.range);
        // Threads that wait for a message see that none comes.
        rank.wake_own();
    }
    OK
}

/// The memory of a queue of this rank, for a thread that waits for a message without the process lock. It has
/// found the queue under that lock, and not released it since.
pub(crate) fn memory_of(queue: &Queue) -> Option<Arc<Taken>> {
    state().memory.get(&queue.base().addr().get()).cloned()
}

fn taker_of(handle: &Handle) -> Option<Taker> {
    let state = state();
    let open = state.own.as_ref()?.open.get(&handle.slot).filter(|open| open.handle == *handle)?;
    Some(open.taker)
}

/// The queue of a handle of this rank, for who takes its messages.
pub(crate) fn own_queue(handle: &Handle, taker: Taker) -> Result<Queue, c_int> {
    let state = state();
    let found = state.own.as_ref().and_then(|own| own.open.get(&handle.slot));
    let open = found.filter(|open| open.handle == *handle).ok_or(NO_REGION_STATUS)?;
    if open.line.rights as c_int & QUEUE == 0 {
        return Err(NO_REGION_STATUS);
    }
    if open.taker != taker {
        return Err(NO_RIGHT);
    }
    let base = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(open.address));
    // SAFETY: the queue is open, so its memory is there; the caller has the process lock.
    let memory = unsafe { Opened::new(base.ok_or(NO_REGION_STATUS)?, open.line.bytes as usize) };
    Queue::open(memory).ok_or(NO_REGION_STATUS)
}
