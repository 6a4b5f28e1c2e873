//! MPI 12.3: operations on the memory of a window that do more than the operation itself. On this node
//! a request is done when the call that gives it returns, so it is the one that has nothing to wait for.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::collective::state::HasCollectives;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::error::Result;
use crate::process;
use crate::process::entry::{continue_on_window, enter_on_window};
use crate::progress::Progress;
use crate::win::HasWindows;
use crate::win::operations;
use crate::win::operations::Target;
use crate::win::other_nodes;
use crate::win::synchronisation;

/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub(super) unsafe fn start_put(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<MPI_Request> {
    // SAFETY: our contract.
    other_nodes::start_request(call, win, target.rank, |call, note| unsafe {
        operations::put_noted(call, origin, target, win, note)
    })
}

/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub(super) unsafe fn start_get(
    call: &mut (impl Progress + HasComms + HasTypes + HasWindows),
    origin: Data,
    target: Target,
    win: MPI_Win,
) -> Result<MPI_Request> {
    // SAFETY: our contract.
    other_nodes::start_request(call, win, target.rank, |call, note| unsafe {
        operations::get_noted(call, origin, target, win, note)
    })
}

/// # Safety
/// The user's buffers are valid.
#[inline(always)]
pub(super) unsafe fn start_accumulate(
    call: &mut (impl Progress + HasCollectives + HasComms + HasTypes + HasWindows),
    origin: Data,
    result: Option<Data>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<MPI_Request> {
    // SAFETY: our contract.
    other_nodes::start_request(call, win, target.rank, |call, note| unsafe {
        operations::accumulate_noted(call, origin, result, target, (op, note), win)
    })
}

/// A call about a window: the fast path here, in registers, which does all or nothing; anything else, wrong
/// arguments included, in a function of its own. (A closure for the fast path would be given its arguments by
/// way of memory.)
macro_rules! call_fast {
    ($name:expr, $win:expr, |$fast_guard:ident| $fast:expr, |$guard:ident| $body:expr) => {{
        match process::enter_running() {
            #[allow(unused_mut)]
            Some(mut $fast_guard) => match $fast {
                Some(()) => {
                    $fast_guard.leave();
                    MPI_SUCCESS
                }
                None => continue_on_window($fast_guard, $name, $win, move |$guard| $body),
            },
            None => enter_on_window($name, $win, move |$guard| $body),
        }
    }};
}

/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub(super) unsafe fn put(name: &'static CStr, origin: Data, target: Target, win: MPI_Win) -> c_int {
    call_fast!(
        name,
        win,
        // SAFETY: our contract.
        |guard| unsafe { operations::try_put_plain(&guard, origin, target, win) },
        // SAFETY: our contract.
        |guard| unsafe { operations::put(guard, origin, target, win) }
    )
}

/// # Safety
/// The user's buffer is valid.
#[inline(always)]
pub(super) unsafe fn get(name: &'static CStr, origin: Data, target: Target, win: MPI_Win) -> c_int {
    call_fast!(
        name,
        win,
        // SAFETY: our contract.
        |guard| unsafe { operations::try_get_plain(&guard, origin, target, win) },
        // SAFETY: our contract.
        |guard| unsafe { operations::get(guard, origin, target, win) }
    )
}

/// # Safety
/// The user's buffers are valid.
#[inline(always)]
pub(super) unsafe fn accumulate(
    name: &'static CStr,
    origin: Data,
    result: Option<Data>,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    call_fast!(
        name,
        win,
        // SAFETY: our contract.
        |guard| unsafe { operations::try_accumulate_plain(&guard, origin, result, target, op, win) },
        // SAFETY: our contract.
        |guard| unsafe {
            operations::accumulate_noted(guard, origin, result, target, (op, None), win).map(drop)
        }
    )
}

/// # Safety
/// The user's two elements are valid.
#[inline(always)]
pub(super) unsafe fn fetch_and_op(
    name: &'static CStr,
    origin: *const c_void,
    result: *mut c_void,
    target: Target,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let origin = Data { address: origin.cast_mut(), count: 1, datatype: target.datatype };
    let result = Data { address: result, ..origin };
    call_fast!(
        name,
        win,
        // SAFETY: our contract.
        |guard| unsafe { operations::try_accumulate_plain(&guard, origin, Some(result), target, op, win) },
        // SAFETY: our contract.
        |guard| unsafe { operations::fetch_and_op(guard, origin, result, target, op, win) }
    )
}

/// # Safety
/// The user's three elements are valid.
#[inline(always)]
pub(super) unsafe fn compare_and_swap(
    name: &'static CStr,
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    target: Target,
    win: MPI_Win,
) -> c_int {
    let places = [origin.cast_mut().cast(), compare.cast_mut().cast(), result.cast()];
    call_fast!(
        name,
        win,
        // SAFETY: our contract.
        |guard| unsafe { operations::try_compare_and_swap_plain(&guard, places, target, win) },
        // SAFETY: our contract.
        |guard| unsafe { operations::compare_and_swap(guard, places, target, win) }
    )
}

/// The operations on a rank are done there.
#[inline(always)]
pub(super) fn flush(name: &'static CStr, win: MPI_Win, rank: c_int) -> c_int {
    call_fast!(name, win, |guard| synchronisation::try_flush_here(&guard, win, rank), |guard| {
        synchronisation::flush_window(guard, win, Some(rank))
    })
}

/// Locks a rank's memory.
#[inline(always)]
pub(super) fn lock(name: &'static CStr, win: MPI_Win, kind: c_int, rank: c_int, assert: c_int) -> c_int {
    call_fast!(
        name,
        win,
        |guard| synchronisation::try_lock_here(&mut guard, win, kind, rank, assert),
        |guard| { synchronisation::lock_window(guard, win, kind, rank, assert) }
    )
}

/// Gives the lock back.
#[inline(always)]
pub(super) fn unlock(name: &'static CStr, win: MPI_Win, rank: c_int) -> c_int {
    call_fast!(name, win, |guard| synchronisation::try_unlock_here(&mut guard, win, rank), |guard| {
        synchronisation::unlock_window(guard, win, rank)
    })
}
