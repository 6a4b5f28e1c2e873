//! MPI 5.1: commit, free, sizes, bounds and addresses of datatypes.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use crate::abi::*;
use crate::argument;
use crate::attribute_calls;
use crate::attributes::Owner;
use crate::datatype::constructors;
use crate::errhandler::call;
use crate::error::Result;
use crate::process::Guard;
use crate::type_arguments::{Number, put};

/// Makes a type ready for communication (5.1.9).
#[inline]
pub unsafe fn MPI_Type_commit(datatype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_commit", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a place with a handle.
        let handle = unsafe { argument::get(datatype, "datatype")? };
        guard.datatype_mut(handle)?.commit(crate::check_mode::is_on());
        Ok(())
    })
}

/// Lets go of a type (5.1.9).
#[inline]
pub unsafe fn MPI_Type_free(datatype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_free", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a place with a handle.
        unsafe {
            let handle = argument::get(datatype, "datatype")?;
            guard.check_not_predefined(handle)?;
            attribute_calls::delete_all(guard, Owner::Datatype(handle))?;
            guard.free_type(handle)?;
            datatype.write(MPI_DATATYPE_NULL);
        }
        Ok(())
    })
}

/// A copy of a type, committed if the type is (5.1.10).
#[inline]
pub unsafe fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_dup", MPI_COMM_SELF, |guard| {
        // The callbacks may free types and keys: they come before anything is made.
        let copies = attribute_calls::copy(guard, Owner::Datatype(oldtype))?;
        let old = guard.datatype(oldtype)?;
        let copy = old.duplicate(Rc::new(constructors::duplicate(&old.layout)));
        let handle = guard.add_type(copy);
        attribute_calls::adopt(guard, Owner::Datatype(handle), copies);
        // SAFETY: the user gives a place for the handle.
        unsafe { argument::put(newtype, "newtype", handle) }
    })
}

/// Writes the bytes of data of one element.
unsafe fn write_size<T: Number>(guard: &Guard, datatype: MPI_Datatype, size: *mut T) -> Result<()> {
    let bounds = guard.datatype(datatype)?.layout.part.bounds;
    // SAFETY: the user gives a place for the size.
    unsafe { put(size, bounds.size) };
    Ok(())
}

/// Writes lower bound and extent.
unsafe fn write_extent<T: Number>(
    guard: &Guard,
    datatype: MPI_Datatype,
    lower: *mut T,
    extent: *mut T,
) -> Result<()> {
    let bounds = guard.datatype(datatype)?.layout.part.bounds;
    // SAFETY: the user gives places for both.
    unsafe {
        put(lower, bounds.lower());
        put(extent, bounds.extent());
    }
    Ok(())
}

/// Writes the bounds of the data.
unsafe fn write_true_extent<T: Number>(
    guard: &Guard,
    datatype: MPI_Datatype,
    lower: *mut T,
    extent: *mut T,
) -> Result<()> {
    let bounds = guard.datatype(datatype)?.layout.part.bounds;
    // SAFETY: the user gives places for both.
    unsafe {
        put(lower, bounds.true_lower());
        put(extent, bounds.true_extent());
    }
    Ok(())
}

/// Bytes of data in one element (5.1.5).
#[inline]
pub unsafe fn MPI_Type_size(datatype: MPI_Datatype, size: *mut c_int) -> c_int {
    // SAFETY: the user gives a place for the size.
    call(c"MPI_Type_size", MPI_COMM_SELF, |guard| unsafe { write_size(guard, datatype, size) })
}

/// Bytes of data in one element (5.1.5). Large count.
#[inline]
pub unsafe fn MPI_Type_size_c(datatype: MPI_Datatype, size: *mut MPI_Count) -> c_int {
    // SAFETY: the user gives a place for the size.
    call(c"MPI_Type_size_c", MPI_COMM_SELF, |guard| unsafe { write_size(guard, datatype, size) })
}

/// Bytes of data in one element (5.1.5). Large count.
#[inline]
pub unsafe fn MPI_Type_size_x(datatype: MPI_Datatype, size: *mut MPI_Count) -> c_int {
    // SAFETY: the user gives a place for the size.
    call(c"MPI_Type_size_x", MPI_COMM_SELF, |guard| unsafe { write_size(guard, datatype, size) })
}

/// Lower bound and extent (5.1.7).
#[inline]
pub unsafe fn MPI_Type_get_extent(datatype: MPI_Datatype, lb: *mut MPI_Aint, extent: *mut MPI_Aint) -> c_int {
    // SAFETY: the user gives places for both.
    call(c"MPI_Type_get_extent", MPI_COMM_SELF, |guard| unsafe { write_extent(guard, datatype, lb, extent) })
}

/// Lower bound and extent (5.1.7). Large count.
#[inline]
pub unsafe fn MPI_Type_get_extent_c(
    datatype: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> c_int {
    // SAFETY: the user gives places for both.
    call(c"MPI_Type_get_extent_c", MPI_COMM_SELF, |guard| unsafe {
        write_extent(guard, datatype, lb, extent)
    })
}

/// Lower bound and extent (5.1.7). Large count.
#[inline]
pub unsafe fn MPI_Type_get_extent_x(
    datatype: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> c_int {
    // SAFETY: the user gives places for both.
    call(c"MPI_Type_get_extent_x", MPI_COMM_SELF, |guard| unsafe {
        write_extent(guard, datatype, lb, extent)
    })
}

/// Bounds of the data (5.1.8).
#[inline]
pub unsafe fn MPI_Type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Aint,
    true_extent: *mut MPI_Aint,
) -> c_int {
    // SAFETY: the user gives places for both.
    call(c"MPI_Type_get_true_extent", MPI_COMM_SELF, |guard| unsafe {
        write_true_extent(guard, datatype, true_lb, true_extent)
    })
}

/// Bounds of the data (5.1.8). Large count.
#[inline]
pub unsafe fn MPI_Type_get_true_extent_c(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Count,
    true_extent: *mut MPI_Count,
) -> c_int {
    // SAFETY: the user gives places for both.
    call(c"MPI_Type_get_true_extent_c", MPI_COMM_SELF, |guard| unsafe {
        write_true_extent(guard, datatype, true_lb, true_extent)
    })
}

/// Bounds of the data (5.1.8). Large count.
#[inline]
pub unsafe fn MPI_Type_get_true_extent_x(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Count,
    true_extent: *mut MPI_Count,
) -> c_int {
    // SAFETY: the user gives places for both.
    call(c"MPI_Type_get_true_extent_x", MPI_COMM_SELF, |guard| unsafe {
        write_true_extent(guard, datatype, true_lb, true_extent)
    })
}

/// The address of a place in memory (5.1.5).
#[inline]
pub unsafe fn MPI_Get_address(location: *const c_void, address: *mut MPI_Aint) -> c_int {
    if address.is_null() {
        return MPI_ERR_ARG;
    }
    // SAFETY: the user gives a place for the address.
    unsafe { address.write(location as MPI_Aint) };
    MPI_SUCCESS
}
