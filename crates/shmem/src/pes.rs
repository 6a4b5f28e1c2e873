//! Number of this PE and how many there are: set by `shmem_init`, read without a lock afterwards.

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// Number of this PE and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Pes {
    /// Number of this PE.
    pub me: usize,
    /// How many PEs there are.
    pub count: usize,
}

/// 0 unless the library runs.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ME: AtomicUsize = AtomicUsize::new(0);
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Calls find the PEs from now on.
pub fn begin(pes: Pes) {
    ME.store(pes.me, Relaxed);
    COUNT.store(pes.count, Release);
}

/// Calls find no PEs any more.
pub fn finish() {
    FINISHED.store(true, Relaxed);
    COUNT.store(0, Release);
}

/// Whether the library has run and ended.
pub fn has_finished() -> bool {
    FINISHED.load(Relaxed)
}

/// Number of this PE and how many there are, while the library runs.
#[inline(always)]
pub fn started() -> Option<Pes> {
    let count = COUNT.load(Relaxed);
    (count > 0).then(|| Pes { me: ME.load(Relaxed), count })
}

/// Number of this PE while the library runs.
#[inline(always)]
pub fn me() -> usize {
    ME.load(Relaxed)
}

/// A PE's number as an index, if there is such a PE.
#[inline(always)]
pub fn index(pe: c_int) -> Option<usize> {
    ((pe as u32 as usize) < COUNT.load(Relaxed)).then_some(pe as u32 as usize)
}
