//! Symmetric memory: where a symmetric address of this PE lies in the memory of another.
//!
//! | memory | reached by |
//! |---|---|
//! | heap | a mapping of each PE's range of the node's arena |
//! | static variables of a program that `oshcc` linked | the same: `statics.rs` replaces their pages |
//! | static variables of other programs | `process_vm_*`, put and get only |
//! | all of PEs on other nodes | records of remote memory: [`crate::nodes`] |
//!
//! Everything here is set by `shmem_init` and read without a lock afterwards.

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, AtomicUsize, Ordering::*};

use std::ptr::NonNull;

use tutti_runtime::job::Job;
use tutti_runtime::rank;
use tutti_runtime::word_wait::{self, Storers};
use tutti_shm::endpoint::Endpoint;
use tutti_shm::opened::Opened;
use tutti_shm::watch;

use crate::fault;
use crate::nodes::{self, Far, Kind};
use crate::pes::{self, Pes, index, started};

/// One kind of symmetric memory.
#[derive(Debug)]
struct Region {
    base: AtomicUsize,
    /// 0 while there is none.
    bytes: AtomicUsize,
    /// For each PE its first byte as this process sees it; null: it is on another node.
    mates: AtomicPtr<*mut u8>,
}

/// Static variables that are not mapped.
#[derive(Debug)]
struct Private {
    base: AtomicUsize,
    bytes: AtomicUsize,
    mates: AtomicPtr<Option<Remote>>,
}

/// Where a PE's static variables lie in its own process.
pub type Remote = tutti_rma::Remote;

static HEAP: Region = Region::none();
static STATICS: Region = Region::none();
static PRIVATE: Private = Private {
    base: AtomicUsize::new(0),
    bytes: AtomicUsize::new(0),
    mates: AtomicPtr::new(std::ptr::null_mut()),
};
/// A PE that runs another program, so that static variables are not symmetric; -1: there is none.
static OTHER_PROGRAM: AtomicIsize = AtomicIsize::new(-1);
/// For each PE its endpoint.
static ENDPOINTS: AtomicPtr<NonNull<Endpoint>> = AtomicPtr::new(std::ptr::null_mut());
/// [`Storers::Calls`] if a sleeper can rely on being rung.
static IS_FENCED: AtomicBool = AtomicBool::new(false);
/// Whether threads of the program may store to words that others wait for.
static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// Where a piece of symmetric memory of a PE is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Mapped here.
    Mapped(*mut u8),
    /// In the other process alone.
    Private(Remote),
    /// On another node.
    Far(Far),
}

impl Region {
    const fn none() -> Self {
        Region {
            base: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            mates: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    fn set(&self, base: *mut u8, bytes: usize, mates: Vec<*mut u8>) {
        self.base.store(base.addr(), Relaxed);
        self.mates.store(Box::leak(mates.into_boxed_slice()).as_mut_ptr(), Relaxed);
        self.bytes.store(bytes, Release);
    }

    /// The distance of an address from the beginning, if so many bytes there are inside.
    #[inline(always)]
    fn offset(&self, address: usize, bytes: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base.load(Relaxed));
        let length = self.bytes.load(Relaxed);
        (offset < length && bytes <= length - offset).then_some(offset)
    }

    /// Null of a PE on another node.
    ///
    /// # Safety
    /// The PE exists, and the offset came from [`Region::offset`].
    #[inline(always)]
    unsafe fn at(&self, offset: usize, pe: usize) -> *mut u8 {
        // SAFETY: there is one address for each PE, and its mapping has so many bytes.
        unsafe {
            let base = *self.mates.load(Relaxed).add(pe);
            if base.is_null() { base } else { base.add(offset) }
        }
    }
}

/// The heap is there from now on.
pub fn set_heap(base: *mut u8, bytes: usize, mates: Vec<*mut u8>) {
    HEAP.set(base, bytes, mates);
}

/// Static variables are mapped from now on.
pub fn set_statics(base: *mut u8, bytes: usize, mates: Vec<*mut u8>) {
    STATICS.set(base, bytes, mates);
}

/// Static variables are reached through the kernel from now on.
pub fn set_private(base: usize, bytes: usize, mates: Vec<Option<Remote>>) {
    PRIVATE.base.store(base, Relaxed);
    PRIVATE.mates.store(Box::leak(mates.into_boxed_slice()).as_mut_ptr(), Relaxed);
    PRIVATE.bytes.store(bytes, Release);
}

/// Notes that PE `pe` runs another program, so no static variables are symmetric.
pub fn set_other_program(pe: usize) {
    OTHER_PROGRAM.store(pe as isize, Relaxed);
}

/// Stores ring who waits from now on. `is_fenced`: all PEs have registered ([`watch::register`]).
pub fn set_waits(job: &Job, is_fenced: bool, has_threads: bool) {
    let own = job.rank();
    // Nobody rings a PE of another node by it.
    let endpoint = |pe| job.endpoint(if job.local_ranks().contains(pe) { pe } else { own });
    let endpoints: Vec<_> = job.world().iter().map(|pe| NonNull::from(endpoint(*pe as usize))).collect();
    ENDPOINTS.store(Box::leak(endpoints.into_boxed_slice()).as_mut_ptr(), Relaxed);
    IS_FENCED.store(is_fenced, Relaxed);
    HAS_THREADS.store(has_threads, Relaxed);
    for region in [&HEAP, &STATICS] {
        word_wait::add_memory(region.base.load(Relaxed), region.bytes.load(Relaxed), storers());
    }
}

/// Kinds of storers to words that others wait for.
#[inline(always)]
fn storers() -> Storers {
    match (IS_FENCED.load(Relaxed), HAS_THREADS.load(Relaxed)) {
        (false, _) => Storers::Unfenced,
        (true, false) => Storers::Calls,
        (true, true) => Storers::Anybody,
    }
}

/// Calls find none any more.
pub fn finish() {
    pes::finish();
    for bytes in [&HEAP.bytes, &STATICS.bytes, &PRIVATE.bytes] {
        bytes.store(0, Relaxed);
    }
}

/// The same; ends the job otherwise.
#[inline(always)]
pub fn pes(function: &str) -> Pes {
    match started() {
        Some(pes) => pes,
        None => fault::end_not_running(function),
    }
}

/// Where `bytes` bytes at a symmetric address of this PE lie in the memory of `pe`. Ends the job if the
/// address is not symmetric or there is no such PE.
#[inline(always)]
pub fn place(function: &str, what: &str, address: *const u8, bytes: usize, pe: c_int) -> Place {
    if let Some(offset) = HEAP.offset(address.addr(), bytes)
        && let Some(pe) = index(pe)
    {
        // SAFETY: both were just checked.
        let at = unsafe { HEAP.at(offset, pe) };
        return if at.is_null() { far(pe, Kind::Heap, offset) } else { Place::Mapped(at) };
    }
    place_of_static(function, what, address, bytes, pe)
}

#[cold]
fn far(pe: usize, kind: Kind, offset: usize) -> Place {
    Place::Far(Far { pe, kind, offset: offset as u64 })
}

/// The same for atomic operations: where an element of `bytes` bytes is mapped, or on which node it is.
#[inline(always)]
pub fn element(
    function: &str,
    what: &str,
    address: *const u8,
    bytes: usize,
    pe: c_int,
) -> Result<*mut u8, Far> {
    match place(function, what, address, bytes, pe) {
        Place::Mapped(at) if at.addr().is_multiple_of(bytes.max(1)) => Ok(at),
        Place::Far(far) if address.addr().is_multiple_of(bytes.max(1)) => Err(far),
        Place::Mapped(_) | Place::Far(_) => end_unaligned(function, what, address, bytes),
        Place::Private(_) => end_private(function, what, address),
    }
}

/// The same for an element of this PE.
#[inline(always)]
pub fn own(function: &str, what: &str, address: *const u8, bytes: usize) -> *mut u8 {
    let me = pes(function).me as c_int;
    match element(function, what, address, bytes, me) {
        Ok(at) => at,
        Err(_) => unreachable!("this PE is on this node"),
    }
}

#[inline(never)]
fn place_of_static(function: &str, what: &str, address: *const u8, bytes: usize, pe: c_int) -> Place {
    if let (Some(offset), Some(pe)) = (STATICS.offset(address.addr(), bytes), index(pe)) {
        // SAFETY: both were just checked.
        let at = unsafe { STATICS.at(offset, pe) };
        return if at.is_null() { far(pe, Kind::Statics, offset) } else { Place::Mapped(at) };
    }
    let pes = pes(function);
    let Some(target) = index(pe) else {
        fault::end(function, format_args!("there is no PE {pe}, PEs are 0 to {}", pes.count - 1))
    };
    let offset = address.addr().wrapping_sub(PRIVATE.base.load(Relaxed));
    let length = PRIVATE.bytes.load(Relaxed);
    if offset < length && bytes <= length - offset {
        if target == pes.me {
            return Place::Mapped(address.cast_mut());
        }
        // SAFETY: there is one for each PE.
        let remote = unsafe { *PRIVATE.mates.load(Relaxed).add(target) };
        let Some(remote) = remote else { return far(target, Kind::Statics, offset) };
        return Place::Private(Remote { address: remote.address + offset as u64, ..remote });
    }
    end_not_symmetric(function, what, address, bytes)
}

#[cold]
fn end_not_symmetric(function: &str, what: &str, address: *const u8, bytes: usize) -> ! {
    let begins_inside =
        HEAP.offset(address.addr(), 1).is_some() || STATICS.offset(address.addr(), 1).is_some();
    let how = if begins_inside {
        format!("{bytes} bytes at {what} {address:p} reach beyond the symmetric memory")
    } else if let other @ 0.. = OTHER_PROGRAM.load(Relaxed) {
        format!(
            "{what} {address:p} is not symmetric: not from shmem_malloc, and PE {other} runs another program, so that no static variable is"
        )
    } else {
        format!(
            "{what} {address:p} is not symmetric: neither from shmem_malloc nor a static variable of the program"
        )
    };
    fault::end(function, format_args!("{how}"))
}

#[cold]
fn end_unaligned(function: &str, what: &str, address: *const u8, bytes: usize) -> ! {
    fault::end(function, format_args!("{what} {address:p} is not aligned to the {bytes} bytes of its type"))
}

#[cold]
fn end_private(function: &str, what: &str, address: *const u8) -> ! {
    fault::end(
        function,
        format_args!(
            "{what} {address:p} is a static variable, which other PEs can change atomically only if oshcc has linked the program and shmem_init is called before other threads are made"
        ),
    )
}

/// The address at which this process sees symmetric memory of `pe`, or null.
pub fn pointer(address: *const u8, pe: c_int) -> *mut u8 {
    let Some(pe) = index(pe) else { return std::ptr::null_mut() };
    if started().is_some_and(|pes| pes.me != pe)
        && let Some(rank) = rank::enter()
    {
        word_wait::store_unnoticed(&rank.job);
    }
    for region in [&HEAP, &STATICS] {
        if let Some(offset) = region.offset(address.addr(), 1) {
            // SAFETY: both were just checked.
            return unsafe { region.at(offset, pe) };
        }
    }
    std::ptr::null_mut()
}

/// The memory of this PE that others reach: its heap, and its static variables if they are symmetric.
pub fn of_own() -> (Opened, Option<Opened>) {
    let opened = |base: &AtomicUsize, bytes: &AtomicUsize| {
        let base = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(base.load(Relaxed)))?;
        // SAFETY: it stays mapped until the process ends, and the program shares it with other PEs.
        (bytes.load(Relaxed) > 0).then(|| unsafe { Opened::new(base, bytes.load(Relaxed)) })
    };
    let heap = opened(&HEAP.base, &HEAP.bytes).expect("the heap is there");
    let statics = opened(&STATICS.base, &STATICS.bytes).or_else(|| opened(&PRIVATE.base, &PRIVATE.bytes));
    (heap, statics)
}

/// Whether an address of this PE is symmetric.
pub fn is_symmetric(address: *const u8) -> bool {
    let private = address.addr().wrapping_sub(PRIVATE.base.load(Relaxed)) < PRIVATE.bytes.load(Relaxed);
    private || HEAP.offset(address.addr(), 1).is_some() || STATICS.offset(address.addr(), 1).is_some()
}

/// The offset of an address in the heap.
pub fn heap_offset(address: *const u8) -> Option<usize> {
    HEAP.offset(address.addr(), 1)
}

/// The address of an offset in the heap of this PE.
pub fn heap_address(offset: usize) -> *mut u8 {
    // SAFETY: the heap has given out the offset while the library runs.
    unsafe { HEAP.at(offset, pes::me()) }
}

/// All stores of this thread are visible to all PEs before it goes on. `shmem_quiet` promises that; a fence
/// of the compiler would leave them in the store buffer.
#[inline(always)]
pub fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a locked instruction that changes nothing, half as dear as `mfence`.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0")
    };
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(SeqCst);
}

/// Memory of a PE has been changed: wakes it if it waits for that.
#[inline(always)]
pub fn notify(pe: c_int) {
    // SAFETY: callers have changed memory of the PE, so there is one; the segment stays mapped.
    watch::notify(unsafe { (*ENDPOINTS.load(Relaxed).add(pe as usize)).as_ref() });
}

/// Waits until a word of this PE `is_over`.
#[inline(always)]
pub fn wait_until(is_over: impl FnMut() -> bool) {
    word_wait::until(storers(), is_over);
}

/// A test has failed: what PEs of other nodes have sent is taken in before it is made again. Who tests in
/// vain again and again gives the core away.
#[inline(always)]
pub fn look_again(holds: impl FnOnce() -> bool) -> bool {
    if nodes::is_spread() {
        nodes::look();
        if holds() {
            return true;
        }
    }
    word_wait::looked_in_vain();
    false
}

/// Copies to a PE. `from` may be anything, also memory that overlaps.
///
/// # Safety
/// `from` is valid for so many bytes.
#[inline(always)]
pub unsafe fn put(function: &str, dest: *mut u8, from: *const u8, bytes: usize, pe: c_int) {
    match place(function, "dest", dest, bytes, pe) {
        // SAFETY: the place is inside the memory of the PE; `from` by our contract.
        Place::Mapped(to) => unsafe { tutti_shm::opened::copy(from, to, bytes) },
        // SAFETY: our contract.
        Place::Private(remote) => unsafe { put_private(function, remote, from, bytes) },
        // SAFETY: our contract.
        Place::Far(far) => return unsafe { far.put(function, from, bytes) },
    }
    notify(pe);
}

/// The same; `from` stays until the next quiet.
///
/// # Safety
/// `from` is valid for so many bytes until then.
#[inline(always)]
pub unsafe fn put_nbi(function: &str, dest: *mut u8, from: *const u8, bytes: usize, pe: c_int) {
    if nodes::is_spread()
        && let Place::Far(far) = place(function, "dest", dest, bytes, pe)
    {
        // SAFETY: our contract.
        return unsafe { far.put_nbi(function, from, bytes) };
    }
    // SAFETY: our contract.
    unsafe { put(function, dest, from, bytes, pe) }
}

/// Copies from a PE.
///
/// # Safety
/// `to` is valid for writing so many bytes.
#[inline(always)]
pub unsafe fn get(function: &str, to: *mut u8, source: *const u8, bytes: usize, pe: c_int) {
    match place(function, "source", source, bytes, pe) {
        // SAFETY: the place is inside the memory of the PE; `to` by our contract.
        Place::Mapped(from) => unsafe { tutti_shm::opened::copy(from, to, bytes) },
        // SAFETY: our contract.
        Place::Private(remote) => unsafe { get_private(function, remote, to, bytes) },
        // SAFETY: our contract.
        Place::Far(far) => unsafe { far.get(function, to, bytes, true) },
    }
}

/// The same; the bytes are here at the next quiet at the latest.
///
/// # Safety
/// `to` is valid for writing so many bytes until then.
#[inline(always)]
pub unsafe fn get_nbi(function: &str, to: *mut u8, source: *const u8, bytes: usize, pe: c_int) {
    if nodes::is_spread()
        && let Place::Far(far) = place(function, "source", source, bytes, pe)
    {
        // SAFETY: our contract.
        return unsafe { far.get(function, to, bytes, false) };
    }
    // SAFETY: our contract.
    unsafe { get(function, to, source, bytes, pe) }
}

/// All operations of this PE are done, and its stores visible to all.
#[inline(always)]
pub fn quiet(function: &str) {
    if nodes::is_spread() {
        nodes::quiet(function);
    }
    settle();
}

#[cold]
unsafe fn put_private(function: &str, remote: Remote, from: *const u8, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        let to = remote.address + done as u64;
        // SAFETY: our caller's contract, as far as the bytes reach.
        match unsafe { tutti_rma::write(remote.process, to, from.add(done), bytes - done) } {
            Ok(copied) => done += copied,
            Err(error) => end_refused(function, error),
        }
    }
}

#[cold]
unsafe fn get_private(function: &str, remote: Remote, to: *mut u8, bytes: usize) {
    let mut done = 0;
    while done < bytes {
        let from = remote.address + done as u64;
        // SAFETY: our caller's contract, as far as the bytes reach.
        match unsafe { tutti_rma::read(remote.process, from, to.add(done), bytes - done) } {
            Ok(copied) => done += copied,
            Err(error) => end_refused(function, error),
        }
    }
}

#[cold]
fn end_refused(function: &str, error: std::io::Error) -> ! {
    tutti_rma::await_job_end_if_dead(&error);
    fault::end(
        function,
        format_args!(
            "the static variables of another PE cannot be reached: {error}; link the program with oshcc"
        ),
    )
}
