//! MPI 5.1.11 and 13.3: basic elements in a status.

use core::ffi::c_int;

use crate::abi::*;
use crate::errhandler::call;
use crate::error::{Error, Result, check};
use crate::process::Guard;
use crate::request::Outcome;
use crate::type_arguments::{Number, put};

/// Writes how many basic elements were received, also when the last element of the type is not whole.
unsafe fn write_elements<T: Number>(
    guard: &Guard,
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut T,
) -> Result<()> {
    check(!status.is_null(), MPI_ERR_ARG, || "the status is MPI_STATUS_IGNORE".into())?;
    // SAFETY: a status of the user, not null.
    let bytes = Outcome::read(unsafe { &*status }).bytes as i128;
    let signature = &guard.datatype(datatype)?.layout.part.signature;
    let (elements, left) = match signature.size {
        0 => (0, bytes),
        size => {
            let (some, left) = signature.elements_in(bytes % size);
            (bytes / size * signature.elements + some, left)
        }
    };
    // SAFETY: the user gives a place for the count.
    unsafe { put(count, if left == 0 { elements } else { i128::MAX }) };
    Ok(())
}

/// Basic elements received (5.1.11).
#[inline]
pub unsafe fn MPI_Get_elements(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut c_int,
) -> c_int {
    call(c"MPI_Get_elements", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a status and a place for the count.
        unsafe { write_elements(guard, status, datatype, count) }
    })
}

/// Basic elements received (5.1.11). Large count.
#[inline]
pub unsafe fn MPI_Get_elements_c(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> c_int {
    call(c"MPI_Get_elements_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a status and a place for the count.
        unsafe { write_elements(guard, status, datatype, count) }
    })
}

/// Basic elements received (5.1.11). Large count.
#[inline]
pub unsafe fn MPI_Get_elements_x(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> c_int {
    call(c"MPI_Get_elements_x", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a status and a place for the count.
        unsafe { write_elements(guard, status, datatype, count) }
    })
}

/// Makes a status say that so many basic elements were received.
unsafe fn set_elements(
    guard: &Guard,
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: i64,
) -> Result<()> {
    check(!status.is_null(), MPI_ERR_ARG, || "the status is MPI_STATUS_IGNORE".into())?;
    let count = crate::datatype::checked_count(count)? as i128;
    let signature = &guard.datatype(datatype)?.layout.part.signature;
    let bytes = match signature.elements {
        0 => 0,
        elements => count / elements * signature.size + signature.bytes_of(count % elements),
    };
    let bytes = usize::try_from(bytes).map_err(|_| {
        Error::new(
            MPI_ERR_COUNT,
            format_args!("{count} elements are {bytes} bytes, more than a status can tell"),
        )
    })?;
    // SAFETY: a status of the user, not null.
    unsafe { Outcome { bytes, ..Outcome::read(&*status) }.write(status) };
    Ok(())
}

/// Sets the number of basic elements in a status (13.3).
#[inline]
pub unsafe fn MPI_Status_set_elements(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: c_int,
) -> c_int {
    call(c"MPI_Status_set_elements", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a status.
        unsafe { set_elements(guard, status, datatype, count.into()) }
    })
}

/// Sets the number of basic elements in a status (13.3). Large count.
#[inline]
pub unsafe fn MPI_Status_set_elements_c(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> c_int {
    call(c"MPI_Status_set_elements_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a status.
        unsafe { set_elements(guard, status, datatype, count) }
    })
}

/// Sets the number of basic elements in a status (13.3). Large count.
#[inline]
pub unsafe fn MPI_Status_set_elements_x(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> c_int {
    call(c"MPI_Status_set_elements_x", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a status.
        unsafe { set_elements(guard, status, datatype, count) }
    })
}
