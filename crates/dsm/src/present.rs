//! Shared memory in calls of the system: the kernel does not fault as the program does, it gives EFAULT. So
//! pages are made present before a call, and what the call has stored is noted behind it. `tutticc` puts the
//! functions of `bindings/libtutti` that do so in the place of those of the C library (`--wrap`).
//!
//! With userfaultfd a page may lose its entry in the page table at any time, where the kernel needs memory.
//! So the kernel gets addresses of another view of the same memory, in which nothing is guarded.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::arena::BASE;
use crate::core::unit::UNIT_BYTES;
use crate::{executor, fault, globals, note, os};

/// The part of a range that lies in the arena of a job on several nodes, or in variables that are shared.
pub(crate) fn shared(address: usize, bytes: usize) -> Option<Range<usize>> {
    let arena_bytes = fault::arena_bytes();
    let variables = if arena_bytes > 0 { globals::addresses() } else { 0..0 };
    let part = |of: Range<usize>| address.max(of.start)..address.saturating_add(bytes).min(of.end);
    [part(BASE..BASE + arena_bytes), part(variables)].into_iter().find(|part| !part.is_empty())
}

/// The first byte of each page of a range.
pub(crate) fn pages(range: Range<usize>) -> impl Iterator<Item = usize> {
    let next = (range.start / UNIT_BYTES + 1) * UNIT_BYTES;
    std::iter::once(range.start).chain((next..range.end).step_by(UNIT_BYTES))
}

/// The view that calls of the system get addresses of; 0: they get the program's.
static VIEW: AtomicUsize = AtomicUsize::new(0);

/// Address space for that view.
static RESERVED: AtomicUsize = AtomicUsize::new(0);

/// Notes address space that is reserved for a view of the whole arena.
pub(crate) fn reserve_view(view: usize) {
    RESERVED.store(view, Relaxed);
}

pub(crate) fn reserved_view() -> usize {
    RESERVED.load(Relaxed)
}

/// From now on calls get addresses of a view of the whole arena.
pub(crate) fn show_to_kernel(view: usize) {
    VIEW.store(view, Relaxed);
}

/// The view that calls get addresses of, where it is not the program's.
pub(crate) fn view_of_kernel() -> Option<usize> {
    Some(VIEW.load(Relaxed)).filter(|view| *view != 0)
}

/// The address by which the kernel is to reach bytes of the program. What is in part shared memory it will
/// refuse.
fn address_of(address: usize, bytes: usize) -> usize {
    let offset = globals::offset_of(address, fault::arena_bytes());
    match (view_of_kernel(), shared(address, bytes), offset) {
        (Some(view), Some(range), Some(offset)) if range.len() == bytes => view + offset,
        _ => address,
    }
}

/// Whether an address is shared memory that calls of the system cannot always reach.
pub fn is_shared(address: usize) -> bool {
    shared(address, 1).is_some()
}

/// All pages of a call have to be here at once.
fn pin(range: &Range<usize>) {
    if let Some(offset) = globals::offset_of(range.start, fault::arena_bytes()) {
        executor::pin(offset, range.len());
    }
}

/// The call is over: what it was about to reach need not stay.
pub fn end_call() {
    executor::end_call();
}

/// A call loads these bytes; from which address.
pub fn load(address: usize, bytes: usize) -> usize {
    if let Some(range) = shared(address, bytes) {
        executor::cover();
        pin(&range);
        pages(range).for_each(os::touch);
    }
    address_of(address, bytes)
}

/// A call may store to these bytes; to which address.
pub fn store(address: usize, bytes: usize) -> usize {
    if let Some(range) = shared(address, bytes) {
        executor::cover();
        pin(&range);
        pages(range).for_each(os::touch_to_store);
    }
    address_of(address, bytes)
}

/// A call has stored so many. Pages of variables are compared: they need no notes.
pub fn stored(address: usize, bytes: usize) {
    if let Some(range) = shared(address, bytes).filter(|range| range.start >= BASE) {
        note::add_stored(range.start, range.len());
    }
}

/// A word of shared memory.
pub(crate) fn load_word(address: usize) -> u64 {
    load(address, size_of::<u64>());
    let mut bytes = [0; size_of::<u64>()];
    os::load(address, &mut bytes);
    u64::from_ne_bytes(bytes)
}

/// Stores a word of shared memory, and notes it.
pub(crate) fn store_word(address: usize, value: u64) {
    store(address, size_of::<u64>());
    os::store(address, &value.to_ne_bytes());
    stored(address, size_of::<u64>());
}
