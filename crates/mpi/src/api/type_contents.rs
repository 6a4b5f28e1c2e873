//! MPI 5.1.13, 7.8 and 19.1: how a type was made, its name, and types chosen by what they can represent.

use core::ffi::{c_char, c_int};

use tutti_datatype::Description;

use crate::abi::*;
use crate::argument::{self, put_text, text};
use crate::datatype::fortran;
use crate::errhandler::call;
use crate::error::{Result, check};
use crate::process::Guard;

/// How a type was made, for the functions that cannot tell large counts.
fn description_without_counts(guard: &Guard, datatype: MPI_Datatype) -> Result<&Description> {
    let description = &guard.datatype(datatype)?.layout.description;
    check(description.counts.is_empty(), MPI_ERR_TYPE, || {
        format!("datatype {:#x} was made with large counts, expected the function ending in _c", datatype.0)
    })?;
    Ok(description)
}

/// How many arguments a type was made with (5.1.13).
#[inline]
pub unsafe fn MPI_Type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    call(c"MPI_Type_get_envelope", MPI_COMM_SELF, |guard| {
        let description = description_without_counts(guard, datatype)?;
        // SAFETY: the user gives places for all four.
        unsafe {
            argument::put(num_integers, "num_integers", description.integers.len() as c_int)?;
            argument::put(num_addresses, "num_addresses", description.addresses.len() as c_int)?;
            argument::put(num_datatypes, "num_datatypes", description.types.len() as c_int)?;
            argument::put(combiner, "combiner", description.combiner)
        }
    })
}

/// How many arguments a type was made with (5.1.13). Large count.
#[inline]
pub unsafe fn MPI_Type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: *mut MPI_Count,
    num_addresses: *mut MPI_Count,
    num_large_counts: *mut MPI_Count,
    num_datatypes: *mut MPI_Count,
    combiner: *mut c_int,
) -> c_int {
    call(c"MPI_Type_get_envelope_c", MPI_COMM_SELF, |guard| {
        let description = &guard.datatype(datatype)?.layout.description;
        // SAFETY: the user gives places for all five.
        unsafe {
            argument::put(num_integers, "num_integers", description.integers.len() as MPI_Count)?;
            argument::put(num_addresses, "num_addresses", description.addresses.len() as MPI_Count)?;
            argument::put(num_large_counts, "num_large_counts", description.counts.len() as MPI_Count)?;
            argument::put(num_datatypes, "num_datatypes", description.types.len() as MPI_Count)?;
            argument::put(combiner, "combiner", description.combiner)
        }
    })
}

/// Copies an array of arguments to the user's, which has room for `room`.
unsafe fn copy_out<T: Copy>(values: &[T], to: *mut T, room: i64, name: &str) -> Result<()> {
    check(room >= values.len() as i64, MPI_ERR_ARG, || {
        format!("max_{name} is {room}, expected {} or more", values.len())
    })?;
    check(!to.is_null() || values.is_empty(), MPI_ERR_ARG, || format!("array_of_{name} is a null pointer"))?;
    if !values.is_empty() {
        // SAFETY: the user's array has room for as many as was just checked.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), to, values.len()) };
    }
    Ok(())
}

/// Checks that a type has contents, and copies the types; this is last, because it makes handles.
unsafe fn copy_types_out(
    guard: &mut Guard,
    datatype: MPI_Datatype,
    to: *mut MPI_Datatype,
    room: i64,
) -> Result<()> {
    let layout = guard.layout(datatype)?;
    let types = &layout.description.types;
    // SAFETY: only the room is checked: nothing is copied yet.
    unsafe { copy_out::<MPI_Datatype>(&vec![MPI_DATATYPE_NULL; types.len()], to, room, "datatypes")? };
    for (i, part) in types.iter().enumerate() {
        let handle = guard.handle_of(part);
        // SAFETY: the user's array has room for as many as was just checked.
        unsafe { to.add(i).write(handle) };
    }
    Ok(())
}

fn check_contents(description: &Description, datatype: MPI_Datatype) -> Result<()> {
    check(description.combiner != MPI_COMBINER_NAMED, MPI_ERR_TYPE, || {
        format!("datatype {:#x} is predefined and has no contents", datatype.0)
    })
}

/// The arguments that a type was made with (5.1.13).
#[inline]
pub unsafe fn MPI_Type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_get_contents", MPI_COMM_SELF, |guard| {
        let description = description_without_counts(guard, datatype)?;
        check_contents(description, datatype)?;
        // SAFETY: the user's arrays have the lengths given.
        unsafe {
            copy_out(&description.integers, array_of_integers, max_integers.into(), "integers")?;
            copy_out(&description.addresses, array_of_addresses, max_addresses.into(), "addresses")?;
            copy_types_out(guard, datatype, array_of_datatypes, max_datatypes.into())
        }
    })
}

/// The arguments that a type was made with (5.1.13). Large count.
#[inline]
pub unsafe fn MPI_Type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_get_contents_c", MPI_COMM_SELF, |guard| {
        let description = &guard.datatype(datatype)?.layout.description;
        check_contents(description, datatype)?;
        // SAFETY: the user's arrays have the lengths given.
        unsafe {
            copy_out(&description.integers, array_of_integers, max_integers, "integers")?;
            copy_out(&description.addresses, array_of_addresses, max_addresses, "addresses")?;
            copy_out(&description.counts, array_of_large_counts, max_large_counts, "large_counts")?;
            copy_types_out(guard, datatype, array_of_datatypes, max_datatypes)
        }
    })
}

/// Names a type (7.8); what does not fit into MPI_MAX_OBJECT_NAME is cut off.
#[inline]
pub unsafe fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> c_int {
    call(c"MPI_Type_set_name", MPI_COMM_SELF, |guard| {
        // SAFETY: the user gives a text.
        let name = unsafe { text(type_name, "type_name") }?;
        guard.datatype_mut(datatype)?.name =
            name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec();
        Ok(())
    })
}

/// The name of a type (7.8): the constant's, unless the user has given another; MPI_DATATYPE_NULL has one
/// too.
#[inline]
pub unsafe fn MPI_Type_get_name(
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    call(c"MPI_Type_get_name", MPI_COMM_SELF, |guard| {
        let name: &[u8] = match datatype {
            MPI_DATATYPE_NULL => b"MPI_DATATYPE_NULL",
            _ => &guard.datatype(datatype)?.name,
        };
        // SAFETY: the user gives room for MPI_MAX_OBJECT_NAME bytes and a place for the length.
        unsafe { put_text(name, type_name, MPI_MAX_OBJECT_NAME as usize, resultlen, "type_name") }
    })
}

/// The type that SELECTED_REAL_KIND chooses (19.1.5).
#[inline]
pub unsafe fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_create_f90_real", MPI_COMM_SELF, |guard| {
        let handle = guard.f90_real(MPI_COMBINER_F90_REAL, p, r)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { argument::put(newtype, "newtype", handle) }
    })
}

/// The complex type of the kind that SELECTED_REAL_KIND chooses (19.1.5).
#[inline]
pub unsafe fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_create_f90_complex", MPI_COMM_SELF, |guard| {
        let handle = guard.f90_real(MPI_COMBINER_F90_COMPLEX, p, r)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { argument::put(newtype, "newtype", handle) }
    })
}

/// The type that SELECTED_INT_KIND chooses (19.1.5).
#[inline]
pub unsafe fn MPI_Type_create_f90_integer(r: c_int, newtype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_create_f90_integer", MPI_COMM_SELF, |guard| {
        let handle = guard.f90_integer(r)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { argument::put(newtype, "newtype", handle) }
    })
}

/// The predefined type of a class and size (19.1.9).
#[inline]
pub unsafe fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: *mut MPI_Datatype) -> c_int {
    call(c"MPI_Type_match_size", MPI_COMM_SELF, |_| {
        // SAFETY: the user gives a place for the handle.
        unsafe { argument::put(datatype, "datatype", fortran::match_size(typeclass, size)?) }
    })
}

/// The predefined pair of a value and an index, for MPI_MINLOC and MPI_MAXLOC (6.9.4); MPI_DATATYPE_NULL when
/// there is none.
#[inline]
pub unsafe fn MPI_Type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> c_int {
    call(c"MPI_Type_get_value_index", MPI_COMM_SELF, |guard| {
        guard.datatype(value_type)?;
        guard.datatype(index_type)?;
        // SAFETY: the user gives a place for the handle.
        unsafe { argument::put(pair_type, "pair_type", fortran::value_index(value_type, index_type)) }
    })
}
