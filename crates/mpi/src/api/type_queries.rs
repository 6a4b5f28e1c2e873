//! MPI 5.1: commit, free, sizes, bounds and addresses of datatypes.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use crate::abi::*;
use crate::attribute_calls;
use crate::attributes::HasAttributes;
use crate::attributes::Owner;
use crate::comm::HasComms;
use crate::datatype::HasTypes;
use crate::datatype::Types;
use crate::datatype::constructors;
use crate::error::Result;
use crate::progress::Progress;
use crate::win::HasWindows;

/// Lets go of a type; gives the handle that the user has then.
pub(super) fn free(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    datatype: MPI_Datatype,
) -> Result<MPI_Datatype> {
    call.types().check_not_predefined(datatype)?;
    attribute_calls::delete_all(call, Owner::Datatype(datatype))?;
    call.types_mut().free(datatype)?;
    Ok(MPI_DATATYPE_NULL)
}

/// A copy of a type with the attributes that are copied.
pub(super) fn duplicate(
    call: &mut (impl Progress + HasComms + HasTypes + HasAttributes + HasWindows),
    datatype: MPI_Datatype,
) -> Result<MPI_Datatype> {
    // The callbacks may free types and keys: they come before anything is made.
    let copies = attribute_calls::copy(call, Owner::Datatype(datatype))?;
    let old = call.types().find(datatype)?;
    let copy = old.duplicate(Rc::new(constructors::duplicate(&old.layout)));
    let handle = call.types_mut().add(copy);
    attribute_calls::adopt(call, Owner::Datatype(handle), copies);
    Ok(handle)
}

/// The bytes of data of one element.
pub(super) fn size(types: &Types, datatype: MPI_Datatype) -> Result<i128> {
    Ok(types.find(datatype)?.layout.part.bounds.size)
}

/// Lower bound and extent.
pub(super) fn extent(types: &Types, datatype: MPI_Datatype) -> Result<(i128, i128)> {
    let bounds = types.find(datatype)?.layout.part.bounds;
    Ok((bounds.lower(), bounds.extent()))
}

/// The bounds of the data.
pub(super) fn true_extent(types: &Types, datatype: MPI_Datatype) -> Result<(i128, i128)> {
    let bounds = types.find(datatype)?.layout.part.bounds;
    Ok((bounds.true_lower(), bounds.true_extent()))
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
