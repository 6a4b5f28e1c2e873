//! MPI 12.5: synchronisation of windows.

use core::ffi::c_int;

use crate::abi::*;
use crate::argument::put;
use crate::errhandler::call_window;

/// Ends the operations of all ranks of a window and lets new ones begin (12.5.1).
#[inline]
pub unsafe fn MPI_Win_fence(assert: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_fence", win, |guard| guard.fence_window(win, assert))
}

/// Begins operations on the memory of a group (12.5.2).
#[inline]
pub unsafe fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_start", win, |guard| guard.start_epoch(win, group, assert))
}

/// Ends the operations begun by MPI_Win_start (12.5.2).
#[inline]
pub unsafe fn MPI_Win_complete(win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_complete", win, |guard| guard.complete_epoch(win))
}

/// Opens this process's memory to a group (12.5.2).
#[inline]
pub unsafe fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_post", win, |guard| guard.post_epoch(win, group, assert))
}

/// Waits until the group of MPI_Win_post has ended its operations (12.5.2).
#[inline]
pub unsafe fn MPI_Win_wait(win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_wait", win, |guard| guard.await_epoch(win))
}

/// Whether the group of MPI_Win_post has ended its operations (12.5.2).
#[inline]
pub unsafe fn MPI_Win_test(win: MPI_Win, flag: *mut c_int) -> c_int {
    call_window(c"MPI_Win_test", win, |guard| {
        let is_over = guard.test_epoch(win)?;
        // SAFETY: the user gives a place for the flag.
        unsafe { put(flag, "flag", c_int::from(is_over)) }
    })
}

/// Locks the memory of a rank (12.5.3).
#[inline]
pub unsafe fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_lock", win, |guard| guard.lock_window(win, lock_type, rank, assert))
}

/// Locks the memory of all ranks, shared (12.5.3).
#[inline]
pub unsafe fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_lock_all", win, |guard| guard.lock_window_all(win, assert))
}

/// Ends the operations on a rank and gives its lock back (12.5.3).
#[inline]
pub unsafe fn MPI_Win_unlock(rank: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_unlock", win, |guard| guard.unlock_window(win, rank))
}

/// Ends the operations on all ranks and gives their locks back (12.5.3).
#[inline]
pub unsafe fn MPI_Win_unlock_all(win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_unlock_all", win, |guard| guard.unlock_window_all(win))
}

/// Waits until the operations on a rank are done there (12.5.4).
#[inline]
pub unsafe fn MPI_Win_flush(rank: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_flush", win, |guard| guard.flush_window(win, Some(rank)))
}

/// Waits until all operations are done at their targets (12.5.4).
#[inline]
pub unsafe fn MPI_Win_flush_all(win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_flush_all", win, |guard| guard.flush_window(win, None))
}

/// Waits until the operations on a rank are done here (12.5.4).
#[inline]
pub unsafe fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_flush_local", win, |guard| guard.flush_window(win, Some(rank)))
}

/// Waits until all operations are done here (12.5.4).
#[inline]
pub unsafe fn MPI_Win_flush_local_all(win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_flush_local_all", win, |guard| guard.flush_window(win, None))
}

/// Makes loads, stores and operations see each other (12.5.4).
#[inline]
pub unsafe fn MPI_Win_sync(win: MPI_Win) -> c_int {
    call_window(c"MPI_Win_sync", win, |guard| guard.sync_window(win))
}
