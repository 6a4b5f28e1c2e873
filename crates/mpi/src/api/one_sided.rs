//! MPI 12.3: operations on the memory of a window. A request is done when the call that gives it returns, so
//! it is the one that has nothing to wait for.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::argument::put;
use crate::errhandler::call_window;
use crate::point_to_point::{Data, FINISHED_SEND};
use crate::win::operations::Target;

#[inline(always)]
fn target(rank: c_int, disp: MPI_Aint, count: impl Into<i64>, datatype: MPI_Datatype) -> Target {
    Target { rank, disp, count: count.into(), datatype }
}

/// Writes to the memory of a rank (12.3.1).
#[inline]
pub unsafe fn MPI_Put(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Put", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.put(origin, to, win) }
    })
}

/// Writes to the memory of a rank (12.3.1). Large count.
#[inline]
pub unsafe fn MPI_Put_c(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Put_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.put(origin, to, win) }
    })
}

/// Reads from the memory of a rank (12.3.2).
#[inline]
pub unsafe fn MPI_Get(
    origin_addr: *mut c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Get", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.get(origin, to, win) }
    })
}

/// Reads from the memory of a rank (12.3.2). Large count.
#[inline]
pub unsafe fn MPI_Get_c(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Get_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.get(origin, to, win) }
    })
}

/// Changes elements of the memory of a rank (12.3.4).
#[inline]
pub unsafe fn MPI_Accumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Accumulate", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, None, to, op, win) }
    })
}

/// Changes elements of the memory of a rank (12.3.4). Large count.
#[inline]
pub unsafe fn MPI_Accumulate_c(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Accumulate_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, None, to, op, win) }
    })
}

/// Changes elements of the memory of a rank and gives what they were (12.3.4).
#[inline]
pub unsafe fn MPI_Get_accumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: c_int,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let result = Data::new(result_addr, result_count, result_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Get_accumulate", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, Some(result), to, op, win) }
    })
}

/// Changes elements of the memory of a rank and gives what they were (12.3.4). Large count.
#[inline]
pub unsafe fn MPI_Get_accumulate_c(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let result = Data::new(result_addr, result_count, result_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Get_accumulate_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, Some(result), to, op, win) }
    })
}

/// Starts to write to the memory of a rank (12.3.5).
#[inline]
pub unsafe fn MPI_Rput(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Rput", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.put(origin, to, win) }?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to write to the memory of a rank (12.3.5). Large count.
#[inline]
pub unsafe fn MPI_Rput_c(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Rput_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.put(origin, to, win) }?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to read from the memory of a rank (12.3.5).
#[inline]
pub unsafe fn MPI_Rget(
    origin_addr: *mut c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Rget", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.get(origin, to, win) }?;
        guard.await_fetched(win, target_rank)?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to read from the memory of a rank (12.3.5). Large count.
#[inline]
pub unsafe fn MPI_Rget_c(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Rget_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.get(origin, to, win) }?;
        guard.await_fetched(win, target_rank)?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to change elements of the memory of a rank (12.3.5).
#[inline]
pub unsafe fn MPI_Raccumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Raccumulate", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, None, to, op, win) }?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to change elements of the memory of a rank (12.3.5). Large count.
#[inline]
pub unsafe fn MPI_Raccumulate_c(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Raccumulate_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, None, to, op, win) }?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to change elements of the memory of a rank and to fetch them (12.3.5).
#[inline]
pub unsafe fn MPI_Rget_accumulate(
    origin_addr: *const c_void,
    origin_count: c_int,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: c_int,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: c_int,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let result = Data::new(result_addr, result_count, result_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Rget_accumulate", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, Some(result), to, op, win) }?;
        guard.await_fetched(win, target_rank)?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Starts to change elements of the memory of a rank and to fetch them (12.3.5). Large count.
#[inline]
pub unsafe fn MPI_Rget_accumulate_c(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = Data::new(origin_addr, origin_count, origin_datatype);
    let result = Data::new(result_addr, result_count, result_datatype);
    let to = target(target_rank, target_disp, target_count, target_datatype);
    call_window(c"MPI_Rget_accumulate_c", win, |guard| {
        // SAFETY: the user's buffers are valid.
        unsafe { guard.accumulate(origin, Some(result), to, op, win) }?;
        guard.await_fetched(win, target_rank)?;
        // SAFETY: the user gives a place for the request.
        unsafe { put(request, "request", FINISHED_SEND) }
    })
}

/// Changes one element of the memory of a rank and gives what it was (12.3.4).
#[inline]
pub unsafe fn MPI_Fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let to = target(target_rank, target_disp, 1, datatype);
    call_window(c"MPI_Fetch_and_op", win, |guard| {
        // SAFETY: the user's two elements are valid.
        unsafe { guard.fetch_and_op(origin_addr.cast_mut().cast(), result_addr.cast(), to, op, win) }
    })
}

/// Replaces one element of the memory of a rank if it has a certain value, and gives what it was (12.3.4).
#[inline]
pub unsafe fn MPI_Compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> c_int {
    let to = target(target_rank, target_disp, 1, datatype);
    let places = [origin_addr.cast_mut().cast(), compare_addr.cast_mut().cast(), result_addr.cast()];
    call_window(c"MPI_Compare_and_swap", win, |guard| {
        // SAFETY: the user's three elements are valid.
        unsafe { guard.compare_and_swap(places, to, win) }
    })
}
