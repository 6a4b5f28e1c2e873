//! Which phase the process is in: the one word that every call looks at.

use std::sync::atomic::{AtomicU8, Ordering};

/// Before Init.
pub const BEFORE: u8 = 0;
/// Between Init and Finalize.
pub const RUNNING: u8 = 1;
/// After Finalize.
pub const AFTER: u8 = 2;
/// Between Init and Finalize, while the program is being checked: every way in is the slow one
/// ([`crate::check`]).
pub const CHECKED: u8 = 3;
/// In a process that was forked between Init and Finalize: it has no place in the job, nor the job's segments
/// (`MADV_DONTFORK`), so no call may look at the state that it has a copy of.
pub const FORKED: u8 = 4;
/// As RUNNING, and an event of a tool waits for the next call ([`crate::events`]).
pub const PENDING: u8 = 5;

pub(crate) static PHASE: AtomicU8 = AtomicU8::new(BEFORE);

/// Which phase the process is in.
#[inline(always)]
pub fn phase() -> u8 {
    PHASE.load(Ordering::Relaxed)
}

/// The next call takes the slow way in, to look for events of tools.
pub(crate) fn arm() {
    // In other phases every call takes it, or none is allowed.
    let _ = PHASE.compare_exchange(RUNNING, PENDING, Ordering::Relaxed, Ordering::Relaxed);
}

/// Lets the next call take the fast way in again: what waited is being shown.
pub(crate) fn disarm() {
    let _ = PHASE.compare_exchange(PENDING, RUNNING, Ordering::Relaxed, Ordering::Relaxed);
}
