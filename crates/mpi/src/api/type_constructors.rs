//! MPI 5.1: constructors of datatypes, with int and with large counts.

use core::ffi::c_int;
use std::rc::Rc;

use tutti_datatype::{Datatype, Layout};

use crate::abi::*;
use crate::datatype::arrays::{self, Distribution};
use crate::datatype::constructors::{self, Form, Unit};
use crate::error::Result;
use crate::process::Guard;

/// Gives a new type a handle.
fn created(guard: &mut Guard, layout: Layout) -> Result<MPI_Datatype> {
    Ok(guard.add_type(Datatype::new(Rc::new(layout))))
}

/// Elements one after the other.
pub(super) fn contiguous(
    guard: &mut Guard,
    form: Form,
    count: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::contiguous(form, count, &guard.layout(old)?)?;
    created(guard, layout)
}

/// Blocks at distances counted in elements.
pub(super) fn vector(
    guard: &mut Guard,
    form: Form,
    count: i64,
    blocklength: i64,
    stride: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::vector(form, count, blocklength, stride, &guard.layout(old)?)?;
    created(guard, layout)
}

/// Blocks at distances counted in bytes.
pub(super) fn hvector(
    guard: &mut Guard,
    form: Form,
    count: i64,
    blocklength: i64,
    stride: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::hvector(form, count, blocklength, stride, &guard.layout(old)?)?;
    created(guard, layout)
}

/// Blocks anywhere.
pub(super) fn indexed(
    guard: &mut Guard,
    form: Form,
    unit: Unit,
    lengths: &[i64],
    places: &[i64],
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::indexed(form, unit, lengths, places, &guard.layout(old)?)?;
    created(guard, layout)
}

/// Blocks of one length anywhere.
pub(super) fn indexed_block(
    guard: &mut Guard,
    form: Form,
    unit: Unit,
    length: i64,
    places: &[i64],
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::indexed_block(form, unit, length, places, &guard.layout(old)?)?;
    created(guard, layout)
}

/// Blocks of different types, among which may be the markers of MPI-1.
pub(super) fn structure(
    guard: &mut Guard,
    form: Form,
    lengths: &[i64],
    places: &[i64],
    types: &[MPI_Datatype],
) -> Result<MPI_Datatype> {
    let types = types.iter().map(|handle| guard.layout_or_marker(*handle)).collect::<Result<_>>()?;
    let layout = constructors::structure(form, lengths, places, types)?;
    created(guard, layout)
}

/// A part of an array.
pub(super) fn subarray(
    guard: &mut Guard,
    form: Form,
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: c_int,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = arrays::subarray(form, sizes, subsizes, starts, order, &guard.layout(old)?)?;
    created(guard, layout)
}

/// One process's part of a distributed array.
pub(super) fn darray(
    guard: &mut Guard,
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
    let layout = arrays::darray(form, array, &guard.layout(old)?)?;
    created(guard, layout)
}

/// With bounds set by the user.
pub(super) fn resized(
    guard: &mut Guard,
    form: Form,
    lower: i64,
    extent: i64,
    old: MPI_Datatype,
) -> Result<MPI_Datatype> {
    let layout = constructors::resized(form, lower, extent, &guard.layout(old)?)?;
    created(guard, layout)
}
