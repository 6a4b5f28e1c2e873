//! Number of this PE and how many there are: set by `shmem_init`, read without a lock afterwards.
//!
//! PEs are numbered as MPI_COMM_WORLD numbers its members. Their ranks in the job are others in a world that
//! MPI_Comm_spawn has made, or where a rank has moved: what the runtime is asked for goes by [`rank`].

use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};

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
/// For each PE its rank in the job.
static RANKS: AtomicPtr<u32> = AtomicPtr::new(std::ptr::null_mut());
static FINISHED: AtomicBool = AtomicBool::new(false);

/// The PEs have these ranks in the job. Called before [`begin`].
pub fn set_ranks(ranks: &[u32]) {
    // It stays until the process ends.
    RANKS.store(Box::leak(Box::<[u32]>::from(ranks)).as_mut_ptr(), Release);
}

/// The rank in the job of a PE, which exists.
#[inline(always)]
pub fn rank(pe: usize) -> usize {
    // SAFETY: there is a rank for each PE from `set_ranks` on.
    unsafe { *RANKS.load(Relaxed).add(pe) as usize }
}

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
