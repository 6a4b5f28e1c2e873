//! MPI 12.3: operations on the memory of a window that do more than the operation itself. On this node
//! a request is done when the call that gives it returns, so it is the one that has nothing to wait for.

use core::ffi::c_void;

use crate::abi::*;
use crate::error::Result;
use crate::point_to_point::Data;
use crate::process::Guard;
use crate::win::operations::Target;

/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub(super) unsafe fn start_put(
    guard: &mut Guard,
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<MPI_Request> {
    // SAFETY: our contract.
    guard.start_request(win, target.rank, |guard, note| unsafe { guard.put_noted(origin, target, win, note) })
}

/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub(super) unsafe fn start_get(
    guard: &mut Guard,
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<MPI_Request> {
    // SAFETY: our contract.
    guard.start_request(win, target.rank, |guard, note| unsafe { guard.get_noted(origin, target, win, note) })
}

/// # Safety
/// The user's buffers are valid.
#[inline(always)]
pub(super) unsafe fn start_accumulate(
    guard: &mut Guard,
    origin: Data,
    result: Option<Data>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<MPI_Request> {
    // SAFETY: our contract.
    guard.start_request(win, target.rank, |guard, note| unsafe {
        guard.accumulate_noted(origin, result, target, (op, note), win)
    })
}

/// # Safety
/// The user's two elements are valid.
#[inline(always)]
pub(super) unsafe fn fetch_and_op(
    guard: &mut Guard,
    origin: *const c_void,
    result: *mut c_void,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    // SAFETY: our contract.
    unsafe { guard.fetch_and_op(origin.cast_mut().cast(), result.cast(), target, op, win) }
}

/// # Safety
/// The user's three elements are valid.
#[inline(always)]
pub(super) unsafe fn compare_and_swap(
    guard: &mut Guard,
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    target: Target,
    win: MPI_Win,
) -> Result<()> {
    let places = [origin.cast_mut().cast(), compare.cast_mut().cast(), result.cast()];
    // SAFETY: our contract.
    unsafe { guard.compare_and_swap(places, target, win) }
}
