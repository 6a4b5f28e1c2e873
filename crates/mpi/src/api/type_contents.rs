//! MPI 5.1.13, 7.8 and 19.1: how a type was made, its name, and types chosen by what they can represent.

use core::ffi::c_int;

use tutti_datatype::Description;

use crate::abi::*;
use crate::datatype::Types;
use crate::datatype::fortran;
use crate::error::{Result, check};
use crate::process::entry::call;

/// How a type was made, for the functions that cannot tell large counts.
fn description_without_counts(types: &Types, datatype: MPI_Datatype) -> Result<&Description> {
    let description = &types.find(datatype)?.layout.description;
    check(description.counts.is_empty(), MPI_ERR_TYPE, || {
        format!("datatype {:#x} was made with large counts, expected the function ending in _c", datatype.0)
    })?;
    Ok(description)
}

/// How many integers, addresses and datatypes a type was made with, and how.
pub(super) fn envelope(types: &Types, datatype: MPI_Datatype) -> Result<(usize, usize, usize, c_int)> {
    let description = description_without_counts(types, datatype)?;
    let Description { integers, addresses, types, combiner, .. } = description;
    Ok((integers.len(), addresses.len(), types.len(), *combiner))
}

/// How many integers, addresses, large counts and datatypes a type was made with, and how.
pub(super) fn large_envelope(
    types: &Types,
    datatype: MPI_Datatype,
) -> Result<(i128, i128, i128, i128, c_int)> {
    let description = &types.find(datatype)?.layout.description;
    let Description { integers, addresses, counts, types, combiner, .. } = description;
    let [integers, addresses, counts, types] =
        [integers.len(), addresses.len(), counts.len(), types.len()].map(|length| length as i128);
    Ok((integers, addresses, counts, types, *combiner))
}

/// The predefined type of a class and size.
pub(super) fn match_size(class: c_int, size: c_int) -> Result<MPI_Datatype> {
    fortran::match_size(class, size)
}

/// The predefined pair of a value and an index; MPI_DATATYPE_NULL when there is none.
pub(super) fn value_index(types: &Types, value: MPI_Datatype, index: MPI_Datatype) -> Result<MPI_Datatype> {
    types.find(value)?;
    types.find(index)?;
    Ok(fortran::value_index(value, index))
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
    types: &mut Types,
    datatype: MPI_Datatype,
    to: *mut MPI_Datatype,
    room: i64,
) -> Result<()> {
    let layout = types.layout(datatype)?;
    let parts = &layout.description.types;
    // SAFETY: only the room is checked: nothing is copied yet.
    unsafe { copy_out::<MPI_Datatype>(&vec![MPI_DATATYPE_NULL; parts.len()], to, room, "datatypes")? };
    for (i, part) in parts.iter().enumerate() {
        let handle = types.handle_of(part);
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
    call(c"MPI_Type_get_contents", MPI_COMM_NULL, |guard| {
        let description = description_without_counts(&guard.types, datatype)?;
        check_contents(description, datatype)?;
        // SAFETY: the user's arrays have the lengths given.
        unsafe {
            copy_out(&description.integers, array_of_integers, max_integers.into(), "integers")?;
            copy_out(&description.addresses, array_of_addresses, max_addresses.into(), "addresses")?;
            copy_types_out(&mut guard.types, datatype, array_of_datatypes, max_datatypes.into())
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
    call(c"MPI_Type_get_contents_c", MPI_COMM_NULL, |guard| {
        let description = &guard.types.find(datatype)?.layout.description;
        check_contents(description, datatype)?;
        // SAFETY: the user's arrays have the lengths given.
        unsafe {
            copy_out(&description.integers, array_of_integers, max_integers, "integers")?;
            copy_out(&description.addresses, array_of_addresses, max_addresses, "addresses")?;
            copy_out(&description.counts, array_of_large_counts, max_large_counts, "large_counts")?;
            copy_types_out(&mut guard.types, datatype, array_of_datatypes, max_datatypes)
        }
    })
}
