//! MPI 3.2.5 and 13.3: the fields of statuses. Lengths stand with the datatypes.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::argument::put;
use crate::errhandler::call_anytime;
use crate::error::{Result, check};

/// Runs a call that reads a status.
unsafe fn read(
    name: &'static CStr,
    status: *const MPI_Status,
    body: impl FnOnce(&MPI_Status) -> Result<()>,
) -> c_int {
    call_anytime(name, || {
        check(!status.is_null(), MPI_ERR_ARG, || "status is MPI_STATUS_IGNORE".into())?;
        // SAFETY: the user gives a status.
        body(unsafe { &*status })
    })
}

/// Runs a call that changes a status.
unsafe fn change(name: &'static CStr, status: *mut MPI_Status, body: impl FnOnce(&mut MPI_Status)) -> c_int {
    call_anytime(name, || {
        check(!status.is_null(), MPI_ERR_ARG, || "status is MPI_STATUS_IGNORE".into())?;
        // SAFETY: the user gives a status.
        body(unsafe { &mut *status });
        Ok(())
    })
}

/// Says whether the operation was cancelled (13.3).
#[inline]
pub unsafe fn MPI_Status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { change(c"MPI_Status_set_cancelled", status, |status| status.set_cancelled(flag != 0)) }
}

/// The sender (3.2.5).
#[inline]
pub unsafe fn MPI_Status_get_source(status: *const MPI_Status, source: *mut c_int) -> c_int {
    // SAFETY: the user gives a status and a place for the rank.
    unsafe { read(c"MPI_Status_get_source", status, |status| put(source, "source", status.MPI_SOURCE)) }
}

/// The tag (3.2.5).
#[inline]
pub unsafe fn MPI_Status_get_tag(status: *const MPI_Status, tag: *mut c_int) -> c_int {
    // SAFETY: the user gives a status and a place for the tag.
    unsafe { read(c"MPI_Status_get_tag", status, |status| put(tag, "tag", status.MPI_TAG)) }
}

/// The error (3.2.5).
#[inline]
pub unsafe fn MPI_Status_get_error(status: *const MPI_Status, error: *mut c_int) -> c_int {
    // SAFETY: the user gives a status and a place for the error.
    unsafe { read(c"MPI_Status_get_error", status, |status| put(error, "error", status.MPI_ERROR)) }
}

/// Sets the sender (13.3).
#[inline]
pub unsafe fn MPI_Status_set_source(status: *mut MPI_Status, source: c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { change(c"MPI_Status_set_source", status, |status| status.MPI_SOURCE = source) }
}

/// Sets the tag (13.3).
#[inline]
pub unsafe fn MPI_Status_set_tag(status: *mut MPI_Status, tag: c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { change(c"MPI_Status_set_tag", status, |status| status.MPI_TAG = tag) }
}

/// Sets the error (13.3).
#[inline]
pub unsafe fn MPI_Status_set_error(status: *mut MPI_Status, error: c_int) -> c_int {
    // SAFETY: as the user's.
    unsafe { change(c"MPI_Status_set_error", status, |status| status.MPI_ERROR = error) }
}
