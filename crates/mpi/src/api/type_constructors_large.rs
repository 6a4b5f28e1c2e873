//! MPI 5.1: constructors of datatypes, with large counts.

use core::ffi::c_int;

use crate::abi::*;
use crate::datatype::arrays::{self, Distribution};
use crate::datatype::constructors::{self, Form, Unit};
use crate::errhandler::call;
use crate::type_arguments::{created, dimensions, layouts, numbers, slice};

/// Elements one after the other (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_contiguous_c(
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_contiguous_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::contiguous(Form::Large, count, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks at equal distances, counted in elements (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_vector_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_vector_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::vector(Form::Large, count, blocklength, stride, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks at equal distances, counted in bytes (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_create_hvector_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_hvector_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::hvector(Form::Large, count, blocklength, stride, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks anywhere, places counted in elements (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_indexed_c(
    count: MPI_Count,
    array_of_blocklengths: *const MPI_Count,
    array_of_displacements: *const MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_indexed_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `count` elements.
        let (lengths, places) =
            unsafe { (numbers(array_of_blocklengths, count)?, numbers(array_of_displacements, count)?) };
        let layout = constructors::indexed(Form::Large, Unit::Elements, &lengths, &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks anywhere, places counted in bytes (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_create_hindexed_c(
    count: MPI_Count,
    array_of_blocklengths: *const MPI_Count,
    array_of_displacements: *const MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_hindexed_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `count` elements.
        let (lengths, places) =
            unsafe { (numbers(array_of_blocklengths, count)?, numbers(array_of_displacements, count)?) };
        let layout = constructors::indexed(Form::Large, Unit::Bytes, &lengths, &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks of one length anywhere, places counted in elements (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_create_indexed_block_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: *const MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_indexed_block_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives an array of `count` elements.
        let places = unsafe { numbers(array_of_displacements, count)? };
        let layout = constructors::indexed_block(Form::Large, Unit::Elements, blocklength, &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks of one length anywhere, places counted in bytes (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_create_hindexed_block_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: *const MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_hindexed_block_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives an array of `count` elements.
        let places = unsafe { numbers(array_of_displacements, count)? };
        let layout = constructors::indexed_block(Form::Large, Unit::Bytes, blocklength, &places, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// Blocks of different types anywhere (5.1.2). Large count.
#[inline]
pub unsafe fn MPI_Type_create_struct_c(
    count: MPI_Count,
    array_of_blocklengths: *const MPI_Count,
    array_of_displacements: *const MPI_Count,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_struct_c", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives arrays of `count` elements.
        let (lengths, places, types) = unsafe {
            (
                numbers(array_of_blocklengths, count)?,
                numbers(array_of_displacements, count)?,
                layouts(guard, array_of_types, count)?,
            )
        };
        let layout = constructors::structure(Form::Large, &lengths, &places, types)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// A part of an array (5.1.3). Large count.
#[inline]
pub unsafe fn MPI_Type_create_subarray_c(
    ndims: c_int,
    array_of_sizes: *const MPI_Count,
    array_of_subsizes: *const MPI_Count,
    array_of_starts: *const MPI_Count,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_subarray_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        // SAFETY: the user gives arrays of `ndims` elements.
        let (sizes, subsizes, starts) = unsafe {
            (
                dimensions(array_of_sizes, ndims)?,
                dimensions(array_of_subsizes, ndims)?,
                dimensions(array_of_starts, ndims)?,
            )
        };
        let layout = arrays::subarray(Form::Large, &sizes, &subsizes, &starts, order, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// One process's part of a distributed array (5.1.4). Large count.
#[inline]
pub unsafe fn MPI_Type_create_darray_c(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: *const MPI_Count,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_darray_c", MPI_COMM_SELF, |guard| {
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
        let layout = arrays::darray(Form::Large, array, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}

/// With bounds set by the user (5.1.7). Large count.
#[inline]
pub unsafe fn MPI_Type_create_resized_c(
    oldtype: MPI_Datatype,
    lb: MPI_Count,
    extent: MPI_Count,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_create_resized_c", MPI_COMM_SELF, |guard| {
        let old = guard.layout(oldtype)?;
        let layout = constructors::resized(Form::Large, lb, extent, &old)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { created(guard, layout, newtype) }
    })
}
