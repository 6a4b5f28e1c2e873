//! MPI 5.1: constructors of datatypes, with int and with large counts.

use core::ffi::c_int;
use std::rc::Rc;

use tutti_datatype::{Datatype, Layout};

use crate::abi::*;
use crate::datatype::Types;
use crate::datatype::arrays::{self, Distribution};
use crate::datatype::constructors::{self, Form, Unit};
use crate::error::Result;

/// Gives a new type a handle.
fn created(types: &mut Types, layout: Layout) -> Result<MPI_Datatype> {
    Ok(types.add(Datatype::new(Rc::new(layout))))
}

/// Elements one after the other.
pub(super) fn contiguous(
    types: &mut Types,
    form: Form,
    count: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::contiguous(form, count, &types.layout(old)?)?;
    created(types, layout)
}

/// Blocks at distances counted in elements.
pub(super) fn vector(
    types: &mut Types,
    form: Form,
    count: i64,
    blocklength: i64,
    stride: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::vector(form, count, blocklength, stride, &types.layout(old)?)?;
    created(types, layout)
}

/// Blocks at distances counted in bytes.
pub(super) fn hvector(
    types: &mut Types,
    form: Form,
    count: i64,
    blocklength: i64,
    stride: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::hvector(form, count, blocklength, stride, &types.layout(old)?)?;
    created(types, layout)
}

/// Blocks anywhere.
pub(super) fn indexed(
    types: &mut Types,
    form: Form,
    unit: Unit,
    lengths: &[i64],
    places: &[i64],
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::indexed(form, unit, lengths, places, &types.layout(old)?)?;
    created(types, layout)
}

/// Blocks of one length anywhere.
pub(super) fn indexed_block(
    types: &mut Types,
    form: Form,
    unit: Unit,
    length: i64,
    places: &[i64],
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::indexed_block(form, unit, length, places, &types.layout(old)?)?;
    created(types, layout)
}

/// Blocks of different types, among which may be the markers of MPI-1.
pub(super) fn structure(
    types: &mut Types,
    form: Form,
    lengths: &[i64],
    places: &[i64],
    members: &[MPI_Datatype],
) -> Result<MPI_Datatype> {
    let members = members.iter().map(|handle| types.layout_or_marker(*handle)).collect::<Result<_>>()?;
    let layout = constructors::structure(form, lengths, places, members)?;
    created(types, layout)
}

/// A part of an array.
pub(super) fn subarray(
    types: &mut Types,
    form: Form,
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: c_int,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = arrays::subarray(form, sizes, subsizes, starts, order, &types.layout(old)?)?;
    created(types, layout)
}

/// One process's part of a distributed array.
pub(super) fn darray(
    types: &mut Types,
    form: Form,
    size: c_int,
    rank: c_int,
    gsizes: &[i64],
    distribs: &[c_int],
    dargs: &[c_int],
    psizes: &[c_int],
    order: c_int,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let array = Distribution { size, rank, gsizes, distribs, dargs, psizes, order };
    let layout = arrays::darray(form, array, &types.layout(old)?)?;
    created(types, layout)
}

/// With bounds set by the user.
pub(super) fn resized(
    types: &mut Types,
    form: Form,
    lower: i64,
    extent: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::resized(form, lower, extent, &types.layout(old)?)?;
    created(types, layout)
}
