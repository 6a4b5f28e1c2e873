//! MPI 5.1: constructors of datatypes, with int counts.

use core::ffi::c_int;

use crate::abi::*;
use crate::datatype::arrays::{self, Distribution};
use crate::datatype::constructors::{self, Form, Unit};
use crate::errhandler::call;
use crate::type_arguments::{created, dimensions, layouts, numbers, slice};

/// Elements one after the other (5.1.2).
#[inline]
pub unsafe fn MPI_Type_contiguous(count: c_int, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_contiguous", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::contiguous(Form::Int, count.into(), &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks at equal distances, counted in elements (5.1.2).
#[inline]
pub unsafe fn MPI_Type_vector(
    count: c_int,
    blocklength: c_int,
    stride: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_vector", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::vector(Form::Int, count.into(), blocklength.into(), stride.into(), &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks at equal distances, counted in bytes (5.1.2).
#[inline]
pub unsafe fn MPI_Type_create_hvector(
    count: c_int,
    blocklength: c_int,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_hvector", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::hvector(Form::Int, count.into(), blocklength.into(), stride as i64, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks anywhere, places counted in elements (5.1.2).
#[inline]
pub unsafe fn MPI_Type_indexed(
    count: c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_indexed", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `count` elements.
        let (lengths, places) =
            unsafe { (numbers(array_of_blocklengths, count)?, numbers(array_of_displacements, count)?) };
        let layout = constructors::indexed(Form::Int, Unit::Elements, &lengths, &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks anywhere, places counted in bytes (5.1.2).
#[inline]
pub unsafe fn MPI_Type_create_hindexed(
    count: c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_hindexed", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `count` elements.
        let (lengths, places) =
            unsafe { (numbers(array_of_blocklengths, count)?, numbers(array_of_displacements, count)?) };
        let layout = constructors::indexed(Form::Int, Unit::Bytes, &lengths, &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks of one length anywhere, places counted in elements (5.1.2).
#[inline]
pub unsafe fn MPI_Type_create_indexed_block(
    count: c_int,
    blocklength: c_int,
    array_of_displacements: *const c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_indexed_block", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives an array of `count` elements.
        let places = unsafe { numbers(array_of_displacements, count)? };
        let layout =
            constructors::indexed_block(Form::Int, Unit::Elements, blocklength.into(), &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks of one length anywhere, places counted in bytes (5.1.2).
#[inline]
pub unsafe fn MPI_Type_create_hindexed_block(
    count: c_int,
    blocklength: c_int,
    array_of_displacements: *const MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_hindexed_block", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives an array of `count` elements.
        let places = unsafe { numbers(array_of_displacements, count)? };
        let layout = constructors::indexed_block(Form::Int, Unit::Bytes, blocklength.into(), &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks of different types anywhere (5.1.2).
#[inline]
pub unsafe fn MPI_Type_create_struct(
    count: c_int,
    array_of_blocklengths: *const c_int,
    array_of_displacements: *const MPI_Aint,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_struct", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives arrays of `count` elements.
        let (lengths, places, types) = unsafe {
            (
                numbers(array_of_blocklengths, count)?,
                numbers(array_of_displacements, count)?,
                layouts(guard, array_of_types, count)?,
            )
        };
        let layout = constructors::structure(Form::Int, &lengths, &places, types)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// A part of an array (5.1.3).
#[inline]
pub unsafe fn MPI_Type_create_subarray(
    ndims: c_int,
    array_of_sizes: *const c_int,
    array_of_subsizes: *const c_int,
    array_of_starts: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_subarray", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `ndims` elements.
        let (sizes, subsizes, starts) = unsafe {
            (
                dimensions(array_of_sizes, ndims)?,
                dimensions(array_of_subsizes, ndims)?,
                dimensions(array_of_starts, ndims)?,
            )
        };
        let layout = arrays::subarray(Form::Int, &sizes, &subsizes, &starts, order, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// One process's part of a distributed array (5.1.4).
#[inline]
pub unsafe fn MPI_Type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: *const c_int,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_darray", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `ndims` elements; the first is checked for all of them.
        let (gsizes, distribs, dargs, psizes) = unsafe {
            (
                dimensions(array_of_gsizes, ndims)?,
                slice(array_of_distribs, ndims)?,
                slice(array_of_dargs, ndims)?,
                slice(array_of_psizes, ndims)?,
            )
        };
        let array = Distribution { size, rank, gsizes: &gsizes, distribs, dargs, psizes, order };
        let layout = arrays::darray(Form::Int, array, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// With bounds set by the user (5.1.7).
#[inline]
pub unsafe fn MPI_Type_create_resized(
    oldtype: MPI_Datatype,
    lb: MPI_Aint,
    extent: MPI_Aint,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_resized", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::resized(Form::Int, lb as i64, extent as i64, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}
