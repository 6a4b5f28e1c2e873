//! What the Fortran bindings need of this library beyond the functions of C: array sections, and the language
//! of attributes. They find it by name, so they also load over another library of the binary interface.

use core::ffi::{c_int, c_void};
use std::rc::Rc;

use tutti_datatype::{Datatype, Description, Layout, Misfit, Section};

use crate::abi::*;
use crate::argument::put;
use crate::attributes;
use crate::check_mode;
use crate::datatype::checked_count;
use crate::errhandler::call;
use crate::error::{Error, Result, check};
use crate::process::Guard;

/// A dimension of an array descriptor (`CFI_dim_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Dimension {
    lower_bound: isize,
    extent: isize,
    stride: isize,
}

/// An array descriptor (`CFI_cdesc_t`), as far as all compilers agree.
#[repr(C)]
#[derive(Debug)]
pub struct Descriptor {
    address: *mut c_void,
    element_bytes: usize,
    version: c_int,
    rank: i8,
    differing: [u8; 3],
    dimensions: [Dimension; 0],
}

/// Dimensions of an array, at most (5.4.6 of Fortran 2018).
const RANK_MAX: i8 = 15;

/// Makes a committed type, of which one element at the section's address is `count` elements of `datatype` in
/// the section.
///
/// # Safety
/// `descriptor` is one of a Fortran compiler, or null.
pub unsafe fn section_type(
    descriptor: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    call(c"array section", MPI_COMM_NULL, |guard| {
        // SAFETY: our contract.
        let section = unsafe { read(descriptor.cast::<Descriptor>())? };
        let made = make(guard, section, count, datatype)?;
        // SAFETY: the caller gives a place for the handle.
        unsafe { put(newtype, "newtype", made) }
    })
}

/// The section, and its bytes if they are limited.
unsafe fn read(descriptor: *const Descriptor) -> Result<(Section, Option<usize>)> {
    // SAFETY: our contract.
    let (element_bytes, dimensions) = unsafe {
        let rank = if descriptor.is_null() { -1 } else { (*descriptor).rank };
        check((0..=RANK_MAX).contains(&rank), MPI_ERR_BUFFER, || {
            "the buffer is no array that this library can read".into()
        })?;
        let all = (&raw const (*descriptor).dimensions).cast::<Dimension>();
        let dimensions = std::slice::from_raw_parts(all, rank as usize);
        ((*descriptor).element_bytes, dimensions.iter().map(|d| (d.extent, d.stride)).collect::<Vec<_>>())
    };
    Section::new(element_bytes, &dimensions)
        .ok_or_else(|| Error::new(MPI_ERR_BUFFER, "the array section has no elements, or too many"))
}

fn make(
    guard: &mut Guard,
    (section, bytes): (Section, Option<usize>),
    count: i64,
    datatype: MPI_Datatype,
) -> Result<MPI_Datatype> {
    checked_count(count)?;
    let old = guard.datatype(datatype)?;
    check(old.is_committed(), MPI_ERR_TYPE, || format!("datatype {:#x} is not committed", datatype.0))?;
    let layout = old.layout.clone();
    let part = layout.part.through(count, &section, bytes).map_err(|misfit| match misfit {
        Misfit::Outside(at, room) => Error::new(
            MPI_ERR_BUFFER,
            format_args!("the data reach byte {at} of an array section that has {room}"),
        ),
        Misfit::TooLarge => Error::new(MPI_ERR_COUNT, "the data are larger than can be described"),
    })?;
    // Its contents say what the data are: so many elements of the type.
    let description = Description {
        combiner: MPI_COMBINER_CONTIGUOUS,
        integers: vec![c_int::try_from(count).unwrap_or(c_int::MAX)],
        types: vec![layout],
        ..Description::default()
    };
    let mut made = Datatype::new(Rc::new(Layout { part, description, handle: None }));
    made.commit(check_mode::is_on());
    Ok(guard.add_type(made))
}

/// From which language the next calls about attributes come: 0 is C, 1 is Fortran, 2 is Fortran with INTEGER.
pub fn attribute_language(number: c_int) {
    attributes::set_language(number);
}
