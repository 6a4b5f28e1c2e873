//! Variables of C as shared memory, where a program is linked so (`tutticc --globals=shared`): the linker
//! puts those of the program's own files into pages of their own, and these pages are a block of the arena.
//!
//! ```text
//! want        the start object, before begin: where the pages are
//! take_block  begin: the first block of the heap, on all ranks alike
//! held        rank 0: what the pages hold before main. It is stored into them when they are shared memory
//! (views)     where the arena is shown, its frames are mapped in the place of the pages
//! ```
//!
//! The program reaches these units at the address that the linker gave them, and nowhere else. So everything
//! that goes from addresses to units asks [`offset_of`], and rights are set there ([`crate::permissions`]).
//! Compiled code makes no notes of stores to variables: the first one in an interval faults, and their pages
//! are compared with copies.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::core::blocks::Attributes;
use crate::core::unit::{BASE, Run, UNIT_BYTES};
use crate::core::violation::Violation;
use crate::heap::Heap;
use crate::permissions::{self, Permissions, Windowed};
use crate::{failure, os};

/// Address of the pages, and how long they are; 0 bytes: variables are private.
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Where their block begins in the arena.
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// Notes that the variables between two addresses are to be shared: whole pages of the program. Called once,
/// before the rank begins.
pub fn want(begin: usize, end: usize) {
    assert!(
        begin.is_multiple_of(UNIT_BYTES) && end.is_multiple_of(UNIT_BYTES),
        "the linker gives whole pages"
    );
    ADDRESS.store(begin, Relaxed);
    BYTES.store(end.saturating_sub(begin), Relaxed);
}

/// Bytes of the variables that are to be shared.
pub(crate) fn bytes() -> usize {
    BYTES.load(Relaxed)
}

/// Shared variables get the first block of the heap, on all ranks alike; where it ends. 0: there are none.
pub(crate) fn take_block(heap: &mut Heap) -> Result<usize, Violation> {
    let bytes = bytes();
    if bytes == 0 {
        return Ok(0);
    }
    let offset =
        heap.common.allocate(bytes as u64, Attributes::default(), "variables of C (--globals=shared)")?;
    OFFSET.store(offset as usize, Relaxed);
    Ok(offset as usize + bytes)
}

/// Pages of shared variables that hold something before `main`, and what: their addresses and bytes. Called
/// before they are mapped anew.
pub(crate) fn held() -> Vec<(usize, Vec<u8>)> {
    let pages = addresses().step_by(UNIT_BYTES).map(|page| (page, os::bytes(page, UNIT_BYTES)));
    pages
        .filter(|(_, bytes)| bytes.iter().any(|byte| *byte != 0))
        .map(|(page, bytes)| (page, bytes.to_vec()))
        .collect()
}

/// Address of shared variables, and their units.
pub(crate) fn window() -> Option<(usize, Run)> {
    let units = |bytes: usize| (bytes / UNIT_BYTES) as u32;
    let run = Run { first: units(OFFSET.load(Relaxed)), count: units(bytes()) };
    (run.count > 0).then(|| (ADDRESS.load(Relaxed), run))
}

/// Addresses of shared variables; empty: there are none.
pub(crate) fn addresses() -> Range<usize> {
    let begin = ADDRESS.load(Relaxed);
    begin..begin + bytes()
}

/// Place in the arena of an address of the program: one of its first `arena_bytes`, or of a shared variable.
pub(crate) fn offset_of(address: usize, arena_bytes: usize) -> Option<usize> {
    let variable = address.wrapping_sub(ADDRESS.load(Relaxed));
    if variable < bytes() && arena_bytes > 0 {
        return Some(OFFSET.load(Relaxed) + variable);
    }
    Some(address.wrapping_sub(BASE)).filter(|offset| *offset < arena_bytes)
}

/// The address by which the program reaches a place of the arena.
pub(crate) fn address_of(offset: usize) -> usize {
    let variable = offset.wrapping_sub(OFFSET.load(Relaxed));
    if variable < bytes() { ADDRESS.load(Relaxed) + variable } else { BASE + offset }
}

/// Rights on the arena, and on the units of shared variables where the program sees these.
pub(crate) fn with_window(arena: Box<dyn Permissions>) -> Box<dyn Permissions> {
    let Some((address, window)) = window() else { return arena };
    let refuse = |error: std::io::Error| -> ! {
        failure::end(format_args!("shared variables cannot be protected: {error}"))
    };
    match permissions::choose(Some(arena.backend()), address, window.count) {
        Ok((other, None)) => Box::new(Windowed::new(arena, other, window)),
        Ok((_, Some(error))) | Err(error) => refuse(error),
    }
}
