//! Shared memory in calls of the system: the kernel does not fault as the program does, it gives EFAULT. So
//! pages are made present before a call, and what the call has stored is noted behind it. `tutticc` puts the
//! functions of `bindings/libtutti` that do so in the place of those of the C library (`--wrap`).

use crate::arena::BASE;
use crate::core::unit::UNIT_BYTES;
use crate::{executor, fault, note, os};

/// The part of a range that lies in the arena of a job on several nodes.
pub(crate) fn shared(address: usize, bytes: usize) -> Option<std::ops::Range<usize>> {
    let (begin, end) = (address.max(BASE), address.saturating_add(bytes).min(BASE + fault::arena_bytes()));
    (begin < end).then_some(begin..end)
}

/// The first byte of each page of a range.
pub(crate) fn pages(range: std::ops::Range<usize>) -> impl Iterator<Item = usize> {
    let next = (range.start / UNIT_BYTES + 1) * UNIT_BYTES;
    std::iter::once(range.start).chain((next..range.end).step_by(UNIT_BYTES))
}

/// A call loads these bytes.
pub fn load(address: usize, bytes: usize) {
    let Some(range) = shared(address, bytes) else { return };
    executor::cover();
    pages(range).for_each(os::touch);
}

/// A call may store to these bytes.
pub fn store(address: usize, bytes: usize) {
    let Some(range) = shared(address, bytes) else { return };
    executor::cover();
    pages(range).for_each(os::touch_to_store);
}

/// A call has stored so many.
pub fn stored(address: usize, bytes: usize) {
    if let Some(range) = shared(address, bytes) {
        note::add_stored(range.start, range.len());
    }
}
