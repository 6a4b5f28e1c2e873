//! Start and end: the place in the job (MPI's, if the program has not taken it), the heap, the teams.

use core::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use tutti_mpi::abi::*;
use tutti_mpi::{above, api};
use tutti_runtime::background;
use tutti_runtime::bad_memory;
use tutti_runtime::job::Job;
use tutti_runtime::rank;
use tutti_shm::arena::Range;
use tutti_shm::watch;

use crate::argument_names;
use crate::environment;
use crate::fault;
use crate::heap::Heap;
use crate::memory;
use crate::nodes;
use crate::pes::{self, Pes};
use crate::size::{self, Size};
use crate::statics;
use crate::team;

/// State that a start leaves for the end.
#[derive(Debug)]
struct Running {
    heap: Heap,
    /// Whether we have started MPI, and so end it.
    owns_mpi: bool,
    thread_level: c_int,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

/// Levels of threads: OpenSHMEM's number is the place in this list.
const LEVELS: [c_int; 4] =
    [MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE];

/// OpenSHMEM's level that lets all threads call.
pub const THREAD_MULTIPLE: c_int = 3;

/// Bounds of the alignment of a heap.
const ALIGN_MIN: usize = 1 << 21;
const ALIGN_MAX: usize = 1 << 30;

/// Message of a PE to the others at the start.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Card {
    heap: [u64; 2],
    statics: statics::Card,
    /// 1: the kernel lets it sleep until others store ([`watch::register`]).
    is_fenced: u64,
}

/// Starts the library with a level of threads; the level that it has then.
pub fn start(function: &str, requested: c_int) -> c_int {
    if pes::started().is_some() {
        fault::end(function, format_args!("called a second time"));
    }
    if pes::has_finished() {
        fault::end(function, format_args!("called after shmem_finalize"));
    }
    let thread_level = requested.clamp(0, THREAD_MULTIPLE);
    let owns_mpi = above::start(LEVELS[thread_level as usize])
        .unwrap_or_else(|| fault::end(function, format_args!("called after MPI_Finalize")));
    let job = rank::enter().map(|rank| rank.job.clone()).expect("MPI has started");
    bad_memory::set_arguments("shmem_", argument_names::write);
    let world = job.world();
    let pes = Pes { me: job.world_place(), count: world.len() };
    pes::set_ranks(&world);
    let size = size::wanted().unwrap_or_else(|what| fault::end(function, format_args!("{what}")));
    let ranges = take_memory(function, &job, size);
    team::start(pes, &job);
    if pes.me == 0 {
        environment::print();
    }
    let cards = exchange(&ranges);
    map_heap(function, &job, pes, size, &cards);
    let statics: Vec<_> = cards.iter().map(|card| card.statics).collect();
    statics::share(function, &job, pes, &statics);
    if job.nodes() > 1 {
        let (heap, statics) = memory::of_own();
        nodes::begin(exchange(&nodes::open(heap, statics)));
    }
    let is_fenced = cards.iter().all(|card| card.is_fenced != 0);
    memory::set_waits(&job, is_fenced, thread_level > 0);
    let heap = Heap::new(cards[pes.me].heap[1] as usize);
    *lock() = Some(Running { heap, owns_mpi, thread_level });
    pes::begin(pes);
    barrier();
    thread_level
}

/// Ends the library. Called by all PEs.
pub fn finish() {
    memory::quiet("finalize");
    barrier();
    if let Some(pes) = pes::started() {
        nodes::finish(pes.me);
    }
    team::finish();
    memory::finish();
    // The memory stays mapped: mates may be a step behind, and pointers of the program a bug.
    if let Some(running) = lock().take()
        && running.owns_mpi
    {
        // SAFETY: all PEs end MPI, which we have started.
        unsafe { api::MPI_Finalize() };
    }
}

/// Starts a thread of an interface above this one, which uses symmetric memory beside the program's own.
///
/// # Errors
/// When there can be no more threads.
pub fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    if let Some(_rank) = rank::enter() {
        rank::LOCK.need_while_held();
    }
    background::spawn(name, body)
}

/// Whether MPI or OpenSHMEM has been started in this process.
pub fn has_mpi() -> bool {
    let mut initialized = 0;
    // SAFETY: the place is ours.
    unsafe { api::MPI_Initialized(&mut initialized) };
    initialized != 0
}

/// The level of threads.
pub fn thread_level() -> c_int {
    lock().as_ref().map_or(0, |running| running.thread_level)
}

/// Alignment of a heap of so many bytes, and of what lies in it at most: blocks are aligned by their offsets.
pub fn alignment(heap_bytes: usize) -> usize {
    heap_bytes.checked_next_power_of_two().unwrap_or(ALIGN_MAX).clamp(ALIGN_MIN, ALIGN_MAX)
}

/// Works on the allocator of the heap.
pub fn with_heap<T>(action: impl FnOnce(&mut Heap) -> T) -> Option<T> {
    lock().as_mut().map(|running| action(&mut running.heap))
}

/// All PEs have come here.
pub fn barrier() {
    if let Some(world) = team::find(team::WORLD) {
        // SAFETY: the communicator is ours; errors end the job.
        unsafe { api::MPI_Barrier(world.comm) };
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the heap, and room for static variables.
fn take_memory(function: &str, job: &Job, size: Size) -> Card {
    let take = |bytes: usize| -> Option<Range> { rank::enter()?.allocate_shared(bytes as u64) };
    let Some(heap) = take(size.bytes) else {
        fault::end(
            function,
            format_args!(
                "there is no room for a symmetric heap of {size}: the job's shared file is limited (ulimit -f), or {} is too large",
                size::VARIABLE
            ),
        )
    };
    let statics = statics::prepare(job, &take);
    Card { heap: [heap.offset, heap.bytes], statics, is_fenced: u64::from(watch::register()) }
}

/// Cards of all PEs, in order. `T` has numbers alone.
fn exchange<T: Copy>(own: &T) -> Vec<T> {
    // SAFETY: the caller gives numbers; all PEs start together.
    unsafe { above::exchange(own, team::world_of_start().comm) }
}

fn map_heap(function: &str, job: &Job, pes: Pes, size: Size, cards: &[Card]) {
    let own = cards[pes.me].heap[1];
    if let Some(pe) = cards.iter().position(|card| card.heap[1] != cards[0].heap[1]) {
        // One PE says it; the others end with the job.
        if pes.me == 0 {
            fault::end(
                function,
                format_args!(
                    "{} is not the same everywhere: PE 0 has a heap of {own} bytes, PE {pe} one of {}",
                    size::VARIABLE,
                    cards[pe].heap[1]
                ),
            );
        }
        fault::await_end();
    }
    let align = alignment(own as usize);
    let map = |(pe, card): (usize, &Card)| {
        if !job.local_ranks().contains(pes::rank(pe)) {
            return std::ptr::null_mut();
        }
        let range = Range { offset: card.heap[0], bytes: card.heap[1] };
        let mapping = if pe == pes.me { job.map_aligned(range, align) } else { job.map(range) };
        let mapping = mapping.unwrap_or_else(|error| {
            fault::end(
                function,
                format_args!(
                    "the symmetric heaps of {} PEs, {size} each, cannot be mapped: {error}; {} sets the size, ulimit -v the address space",
                    pes.count,
                    size::VARIABLE
                ),
            )
        });
        let base = mapping.base().as_ptr();
        // It stays until the process ends.
        std::mem::forget(mapping);
        base
    };
    let mates: Vec<*mut u8> = cards.iter().enumerate().map(map).collect();
    memory::set_heap(mates[pes.me], own as usize, mates);
}
