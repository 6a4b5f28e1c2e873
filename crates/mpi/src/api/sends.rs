//! MPI chapter 3: sends, blocking and nonblocking.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::engine::message::{Mode, Started};
use crate::errhandler::{continue_after, outside};
use crate::point_to_point::{Data, FINISHED_SEND};
use crate::process::{self, Guard};

/// A blocking send: the fast path here, in registers; anything else, wrong arguments included, in a function
/// of its own.
#[inline(always)]
fn send(name: &'static CStr, data: Data, dest: c_int, tag: c_int, comm: MPI_Comm, mode: Mode) -> c_int {
    let Some(mut guard) = process::enter_running() else {
        return enter_and_send(name, data, dest, tag, comm, mode);
    };
    if mode == Mode::Standard && guard.try_send_small(data, dest, tag, comm) {
        guard.leave();
        return MPI_SUCCESS;
    }
    send_slowly(guard, name, data, dest, tag, comm, mode)
}

/// The process is not running, or it is being checked.
#[cold]
#[inline(never)]
fn enter_and_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> c_int {
    match crate::check::enter_call(name) {
        Some(guard) => send_slowly(guard, name, data, dest, tag, comm, mode),
        None => outside(name),
    }
}

#[inline(never)]
fn send_slowly(
    guard: Guard,
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> c_int {
    continue_after(guard, name, comm, |guard| {
        if let Started::Pending(index) = guard.start_send(data, dest, tag, comm, mode)? {
            guard.finish_request(index);
        }
        Ok(())
    })
}

/// Starts a standard send, the fast path if it can be gone.
///
/// # Safety
/// `request` is valid for writing.
#[inline(always)]
unsafe fn start_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe { enter_and_start_send(name, data, dest, tag, comm, Mode::Standard, request) };
    };
    if guard.try_send_small(data, dest, tag, comm) {
        // SAFETY: our contract.
        unsafe { request.write(FINISHED_SEND) };
        guard.leave();
        return MPI_SUCCESS;
    }
    // SAFETY: our contract.
    unsafe { start_send_slowly(guard, name, data, dest, tag, comm, Mode::Standard, request) }
}

/// Starts a send.
///
/// # Safety
/// `request` is valid for writing.
#[inline(never)]
unsafe fn start_send_slowly(
    guard: Guard,
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    request: *mut MPI_Request,
) -> c_int {
    continue_after(guard, name, comm, |guard| {
        let started = guard.start_send(data, dest, tag, comm, mode)?;
        // SAFETY: our contract.
        unsafe { request.write(guard.send_handle(started)) };
        Ok(())
    })
}

/// Starts a send without the fast path: a synchronous one, or the process is not running or being checked.
///
/// # Safety
/// `request` is valid for writing.
#[inline(never)]
unsafe fn enter_and_start_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    request: *mut MPI_Request,
) -> c_int {
    match crate::check::enter_call(name) {
        // SAFETY: our contract.
        Some(guard) => unsafe { start_send_slowly(guard, name, data, dest, tag, comm, mode, request) },
        None => outside(name),
    }
}

/// Sends (3.2.1).
#[inline]
pub unsafe fn MPI_Send(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Send", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends to a receive that is posted already (3.4).
#[inline]
pub unsafe fn MPI_Rsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Rsend", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends and waits for the receive to start (3.4).
#[inline]
pub unsafe fn MPI_Ssend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Ssend", Data::new(buf, count, datatype), dest, tag, comm, Mode::Synchronous)
}

/// Starts a send (3.7.2).
#[inline]
pub unsafe fn MPI_Isend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Isend", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a send to a receive that is posted already (3.7.2).
#[inline]
pub unsafe fn MPI_Irsend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Irsend", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a synchronous send (3.7.2).
#[inline]
pub unsafe fn MPI_Issend(
    buf: *const c_void,
    count: c_int,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let data = Data::new(buf, count, datatype);
    // SAFETY: the user gives a place for the request.
    unsafe { enter_and_start_send(c"MPI_Issend", data, dest, tag, comm, Mode::Synchronous, request) }
}

/// Sends (3.2.1). Large count.
#[inline]
pub unsafe fn MPI_Send_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Send_c", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends to a receive that is posted already (3.4). Large count.
#[inline]
pub unsafe fn MPI_Rsend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Rsend_c", Data::new(buf, count, datatype), dest, tag, comm, Mode::Standard)
}

/// Sends and waits for the receive to start (3.4). Large count.
#[inline]
pub unsafe fn MPI_Ssend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send(c"MPI_Ssend_c", Data::new(buf, count, datatype), dest, tag, comm, Mode::Synchronous)
}

/// Starts a send (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Isend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Isend_c", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a send to a receive that is posted already (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Irsend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    // SAFETY: the user gives a place for the request.
    unsafe { start_send(c"MPI_Irsend_c", Data::new(buf, count, datatype), dest, tag, comm, request) }
}

/// Starts a synchronous send (3.7.2). Large count.
#[inline]
pub unsafe fn MPI_Issend_c(
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let data = Data::new(buf, count, datatype);
    // SAFETY: the user gives a place for the request.
    unsafe { enter_and_start_send(c"MPI_Issend_c", data, dest, tag, comm, Mode::Synchronous, request) }
}
