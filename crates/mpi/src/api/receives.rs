//! MPI chapter 3: receives, blocking and nonblocking. What stands out of line gets its data arguments as in
//! [`super::sends`].

use core::ffi::{CStr, c_int, c_void};

use crate::abi::*;
use crate::check::inspection::Inspect;
use crate::comm::HasComms;
use crate::datatype::Data;
use crate::datatype::HasTypes;
use crate::engine::completion::outcome_result;
use crate::error::Result;
use crate::point_to_point;
use crate::process::entry::continue_or_enter;
use crate::process::{self, Guard};
use crate::progress::Progress;
use crate::request::Outcome;

/// A blocking receive, the fast path if the message comes soon.
///
/// # Safety
/// The user's buffer is valid; `status` is MPI_STATUS_IGNORE or valid for writing.
#[inline(always)]
pub(super) unsafe fn receive(
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    let Data { address, count, datatype } = data;
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe { receive_slowly(None, name, address, count, datatype, source, tag, comm, status) };
    };
    // SAFETY: our contract.
    unsafe {
        if let Some(outcome) = point_to_point::try_receive_small(&mut guard, data, source, tag, comm) {
            outcome.write(status);
            guard.leave();
            return MPI_SUCCESS;
        }
        receive_slowly(Some(guard), name, address, count, datatype, source, tag, comm, status)
    }
}

/// The general way. Without a guard the process is not running, or it is being checked.
///
/// # Safety
/// As [`receive`].
#[inline(never)]
unsafe fn receive_slowly(
    guard: Option<Guard>,
    name: &'static CStr,
    address: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    let data = Data { address, count, datatype };
    // SAFETY: our caller's contract.
    continue_or_enter(guard, name, comm, |guard| unsafe {
        finish_receive(guard, data, source, tag, comm, status)
    })
}

/// Receives and waits for the message.
pub(super) unsafe fn finish_receive(
    call: &mut (impl Progress + Inspect + HasComms + HasTypes),
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let (outcome, capacity) = match point_to_point::start_receive(call, data, source, tag, comm)? {
        None => (Outcome::PROC_NULL, 0),
        Some(index) => {
            let capacity = call.engine().requests.get(index).buffer.bytes;
            (call.finish_request(index), capacity)
        }
    };
    // SAFETY: the user gives a status or MPI_STATUS_IGNORE.
    unsafe { outcome.write(status) };
    outcome_result(&outcome, capacity)
}

/// Starts a receive, the fast path if it can be gone.
///
/// # Safety
/// The user's buffer is valid; `request` is valid for writing.
#[inline(always)]
pub(super) unsafe fn start_receive(
    name: &'static CStr,
    data: Data,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let Data { address, count, datatype } = data;
    let Some(mut guard) = process::enter_running() else {
        // SAFETY: our contract.
        return unsafe {
            start_receive_slowly(None, name, address, count, datatype, source, tag, comm, request)
        };
    };
    // SAFETY: our contract.
    unsafe {
        if let Some(handle) = point_to_point::try_start_receive_small(&mut guard, data, source, tag, comm) {
            request.write(handle);
            guard.leave();
            return MPI_SUCCESS;
        }
        start_receive_slowly(Some(guard), name, address, count, datatype, source, tag, comm, request)
    }
}

/// The general way. Without a guard the process is not running, or it is being checked.
///
/// # Safety
/// As [`start_receive`].
#[inline(never)]
unsafe fn start_receive_slowly(
    guard: Option<Guard>,
    name: &'static CStr,
    address: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    let data = Data { address, count, datatype };
    continue_or_enter(guard, name, comm, |guard| {
        let started = point_to_point::start_receive(guard, data, source, tag, comm)?;
        let handle = guard.engine.receive_handle(started);
        // SAFETY: our caller's contract.
        unsafe { request.write(handle) };
        Ok(())
    })
}
