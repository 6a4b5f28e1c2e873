//! Means of the library that a program must not take away: the mapping of shared memory, and the descriptors
//! by which ranks reach each other. `tutticc` puts functions that ask here in the place of those of the C
//! library (`--wrap`).
//!
//! | call of the program | what happens |
//! |---|---|
//! | munmap, mremap, mprotect, mmap over a part of shared memory | one line, and the end |
//! | close, closefrom, close_range | a descriptor of the library is not open for the program |
//! | dup2, dup3 onto a descriptor of the library | one line, and the end |
//! | madvise over a part of shared memory | is not taken; MADV_REMOVE: one line, and the end |
//! | locks, barriers and the like of threads in shared memory | one line, and the end |
//! | syscall of an unknown number, aio, with shared memory | one line, and the end |
//! | mlockall | pages are locked as they come: all of the address space would not fit |

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use crate::arena::BASE;
use crate::process::{Running, running};
use crate::{failure, globals, object, os, present};

/// Descriptors of the library and of the rank's starter.
static OWN: OnceLock<BTreeSet<i32>> = OnceLock::new();

/// Whether a range has a part of shared memory.
pub fn is_shared(address: usize, bytes: usize) -> bool {
    let arena_bytes = running().as_ref().map_or(0, |running| running.view.bytes);
    let end = address.saturating_add(bytes.max(1));
    let variables = globals::addresses();
    (address < BASE + arena_bytes && BASE < end) || (address < variables.end && variables.start < end)
}

/// Ends the job when a call is about to use a lock, a barrier or the like of threads that lies in shared
/// memory: it orders no process of another node, and none of this one where it is not made for that.
pub fn refuse_of_threads(address: usize, call: &str, instead: &str) {
    let is_shared = object::is_shared(address) || globals::addresses().contains(&address);
    let ranks = if is_shared { running().as_ref().map_or(1, Running::ranks) } else { 1 };
    if ranks > 1 {
        failure::end(format_args!(
            "{call} of shared memory at {address:#x}: it orders threads of one process alone; {instead} orders processes"
        ));
    }
}

/// Ends the job when a call of the system by its number is about to get shared memory: what it does with it
/// is not known here.
pub fn refuse_call(number: i64, address: usize) {
    if present::is_shared(address) {
        failure::end(format_args!(
            "syscall {number} with shared memory at {address:#x}: what it does there is not known; \
             the C library's function for it takes shared memory, or copy to private memory first"
        ));
    }
}

/// Ends the job when a request is about to get shared memory that goes on behind its call.
pub fn refuse_later(address: usize, call: &str, instead: &str) {
    if present::is_shared(address) {
        failure::end(format_args!(
            "{call} of shared memory at {address:#x}: another thread would touch it; {instead} takes it"
        ));
    }
}

/// Ends the job when a call is about to change the mapping of a part of shared memory.
pub fn refuse_shared(address: usize, bytes: usize, call: &str) {
    if is_shared(address, bytes) {
        failure::end(format_args!(
            "{call} of shared memory at {:#x}: its mapping is the library's; G_FREE gives memory back",
            if globals::addresses().contains(&address) { address } else { address.max(BASE) }
        ));
    }
}

/// Notes what is open now: it is the library's or the starter's, but for the standard ones, for the program
/// has not begun.
pub(crate) fn note_own() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let listed: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The list names the descriptor by which it was read: it is the program's next one.
    let open = listed.into_iter().filter(|descriptor| os::is_open(*descriptor));
    let _ = OWN.set(open.filter(|descriptor| *descriptor > libc::STDERR_FILENO).collect());
}

/// Whether a descriptor is the library's: for the program it is not open.
pub fn is_own(descriptor: i32) -> bool {
    OWN.get().is_some_and(|own| own.contains(&descriptor))
}

/// Ends the job when a call is about to put something in the place of a descriptor of the library.
pub fn refuse_own(descriptor: i32, call: &str) {
    if is_own(descriptor) {
        failure::end(format_args!(
            "{call} onto descriptor {descriptor}, which the library uses: dup gives a number that is free"
        ));
    }
}

/// The parts of a range of descriptors that are not the library's.
pub fn others(first: u32, last: u32) -> Vec<RangeInclusive<u32>> {
    let own = OWN.get().into_iter().flatten().filter_map(|own| u32::try_from(*own).ok());
    parts(first, last, own)
}

/// The parts of a range without some numbers, which ascend.
fn parts(first: u32, last: u32, without: impl Iterator<Item = u32>) -> Vec<RangeInclusive<u32>> {
    let mut parts = Vec::new();
    let mut from = Some(first);
    for number in without.filter(|number| (first..=last).contains(number)) {
        parts.extend(from.filter(|from| *from < number).map(|from| from..=number - 1));
        from = number.checked_add(1);
    }
    parts.extend(from.filter(|from| *from <= last).map(|from| from..=last));
    parts
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn descriptors_of_the_library_are_left_out_of_a_range() {
        assert_eq!(parts(3, u32::MAX, [1, 3, 7].into_iter()), [4..=6, 8..=u32::MAX]);
        assert_eq!(parts(0, 5, [5].into_iter()), [0..=4]);
        assert_eq!(parts(4, 4, [4].into_iter()), []);
        assert_eq!(parts(5, 4, std::iter::empty()), []);
        assert_eq!(parts(0, u32::MAX, [u32::MAX].into_iter()), [0..=u32::MAX - 1]);
    }
}
