//! `tutti_parallel_begin`, `tutti_parallel_end` and the barrier of a team: they work before and without
//! MPI_Init.

use core::ffi::c_int;

use crate::status::{BUSY, INVALID, NO_MEMBER, OK};
use tutti_shm::team_barrier::TeamError;

pub use tutti_shm::phases::{begin, end};
pub use tutti_shm::team_barrier::TeamBarrier;

fn status(result: Result<(), TeamError>) -> c_int {
    match result {
        Ok(()) => OK,
        Err(TeamError::None) => INVALID,
        Err(TeamError::Member) => NO_MEMBER,
        Err(TeamError::Busy) => BUSY,
    }
}

/// The barrier at an address of the user's; none: it is null or not aligned.
///
/// # Safety
/// The address is null, or the memory is a barrier's for as long as anybody uses it.
unsafe fn at<'a>(barrier: *const TeamBarrier) -> Option<&'a TeamBarrier> {
    if !barrier.is_aligned() {
        return None;
    }
    // SAFETY: our contract; all its words are atomics.
    unsafe { barrier.as_ref() }
}

/// Makes a barrier of the members in the mask.
///
/// # Safety
/// The address is null, or memory for a barrier.
pub unsafe fn barrier_init(barrier: *mut TeamBarrier, mask: u64) -> c_int {
    // SAFETY: our contract.
    unsafe { at(barrier) }.map_or(INVALID, |barrier| status(barrier.init(mask)))
}

/// Waits for all members.
///
/// # Safety
/// As for [`barrier_init`].
pub unsafe fn barrier_wait(barrier: *mut TeamBarrier, member: c_int) -> c_int {
    let Ok(member) = u32::try_from(member) else { return NO_MEMBER };
    // SAFETY: our contract.
    unsafe { at(barrier) }.map_or(INVALID, |barrier| status(barrier.wait(member)))
}

/// The members that wait.
///
/// # Safety
/// As for [`barrier_init`].
pub unsafe fn barrier_inside(barrier: *const TeamBarrier) -> u64 {
    // SAFETY: our contract.
    unsafe { at(barrier) }.map_or(0, TeamBarrier::inside)
}
