//! MPI chapter 3: sends, blocking and nonblocking.
//!
//! Functions out of line get their data arguments one by one, in registers: a value of three words would be
//! written to memory first, also by a call that needs none of it.

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::datatype::Data;
use crate::engine::completion::outcome_result;
use crate::engine::message::Mode;
use crate::point_to_point;
use crate::process::entry::continue_or_enter;
use crate::process::{self, Guard};
use crate::progress::Progress;
use crate::request::FINISHED_SEND;
use crate::request::Started;

/// A blocking send: the fast path here, in registers; anything else, wrong arguments included, in a function
/// of its own.
#[inline(always)]
pub(super) fn send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> c_int {
    let Data { address, count, datatype } = data;
    let Some(mut guard) = process::enter_running() else {
        return send_slowly(None, name, address, count, datatype, dest, tag, comm, mode);
    };
    if mode == Mode::Standard && point_to_point::try_send_small(&mut guard, data, dest, tag, comm) {
        guard.leave();
        return MPI_SUCCESS;
    }
    send_slowly(Some(guard), name, address, count, datatype, dest, tag, comm, mode)
}

/// The general way. Without a guard the process is not running, or it is being checked.
#[inline(never)]
fn send_slowly(
    guard: Option<Guard>,
    name: &'static CStr,
    address: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
) -> c_int {
    let data = Data { address, count, datatype };
    continue_or_enter(guard, name, comm, |guard| {
        if let Started::Pending(index) = point_to_point::start_send(guard, data, dest, tag, comm, mode)? {
            outcome_result(&guard.finish_request(index), 0)?;
        }
        Ok(())
    })
}

/// Starts a standard send, the fast path if it can be gone.
///
/// # Safety
/// `request` is valid for writing.
#[inline(always)]
pub(super) unsafe fn start_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let Data { address, count, datatype } = data;
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe {
            start_send_slowly(None, name, address, count, datatype, dest, tag, comm, Mode::Standard, request)
        };
    };
    if point_to_point::try_send_small(&mut guard, data, dest, tag, comm) {
        // SAFETY: our contract.
        unsafe { request.write(FINISHED_SEND) };
        guard.leave();
        return MPI_SUCCESS;
    }
    // SAFETY: our contract.
    unsafe {
        start_send_slowly(
            Some(guard),
            name,
            address,
            count,
            datatype,
            dest,
            tag,
            comm,
            Mode::Standard,
            request,
        )
    }
}

/// Starts a send. Without a guard the process is not running, or it is being checked.
///
/// # Safety
/// `request` is valid for writing.
#[inline(never)]
unsafe fn start_send_slowly(
    guard: Option<Guard>,
    name: &'static CStr,
    address: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    request: *mut MPI_Request,
) -> c_int {
    let data = Data { address, count, datatype };
    continue_or_enter(guard, name, comm, |guard| {
        let started = point_to_point::start_send(guard, data, dest, tag, comm, mode)?;
        // SAFETY: our contract.
        unsafe { request.write(guard.engine.send_handle(started)) };
        Ok(())
    })
}

/// Starts a send without the fast path: a synchronous one.
///
/// # Safety
/// `request` is valid for writing.
#[inline(always)]
pub(super) unsafe fn enter_and_start_send(
    name: &'static CStr,
    data: Data,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Mode,
    request: *mut MPI_Request,
) -> c_int {
    let Data { address, count, datatype } = data;
    // SAFETY: our contract.
    unsafe { start_send_slowly(None, name, address, count, datatype, dest, tag, comm, mode, request) }
}
