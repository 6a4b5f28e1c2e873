//! `libmpifort_abi.so.1`: the Fortran bindings, for `mpif.h` and the modules `mpi` and `mpi_f08`.
//!
//! Every function turns its arguments into those of C and calls the function of C by its symbol, so a
//! profiling tool written in C sees each call once. The functions are generated (see
//! `tutti_table::fortran::exports`); those that differ from C by more than types stand in [`by_hand`].
//! Nothing of this library belongs to a Fortran compiler: it is the same for all of them.

#![allow(non_snake_case, non_camel_case_types)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unnecessary_cast)]
#![allow(missing_docs, unreachable_pub, reason = "symbols of the library, which Fortran calls")]

#[path = "../../shared/abi.rs"]
mod abi;
mod array;
mod by_hand;
mod callbacks;
mod conversions;
mod descriptors;
mod functions;
mod handle;
#[path = "../../shared/lengths.rs"]
mod lengths;
mod predefined;
mod removed;
mod section;
mod sentinels;
mod text;

use abi::*;
use array::{Logicals, dimensions, put_indices};
use core::ffi::{c_char, c_int, c_void};
use handle::{Handles, handle};
use lengths::{neighbours, receives, sends};
use section::Descriptor;
use text::{Text, TextPlace};

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// Functions of our C library beyond those of C.
mod beside {
    use core::ffi::CStr;

    pub(crate) const ATTRIBUTE_LANGUAGE: &CStr = c"tutti_attribute_language";
    pub(crate) const SECTION_TYPE_OF: &CStr = c"tutti_section_type_of";
    pub(crate) const SECTION_REFUSED: &CStr = c"tutti_section_refused";
    pub(crate) const SECTIONS_STAGE: &CStr = c"tutti_sections_stage";
    pub(crate) const SECTIONS_ATTACH: &CStr = c"tutti_sections_attach";
    pub(crate) const SECTION_OF_PARTITIONS: &CStr = c"tutti_section_of_partitions";
}

/// Gives the error code, which a caller of `mpi_f08` may have left out.
#[inline(always)]
pub(crate) unsafe fn put_code(place: *mut c_int, code: c_int) {
    if !place.is_null() {
        // SAFETY: it is the place of an INTEGER.
        unsafe { *place = code }
    }
}

/// Gives a LOGICAL.
#[inline(always)]
pub(crate) unsafe fn put_logical(place: *mut c_int, value: c_int) {
    // SAFETY: the caller gives the place of a LOGICAL.
    unsafe { *place = c_int::from(value != 0) }
}

/// Gives an index, counted from 1; MPI_UNDEFINED stays.
#[inline(always)]
pub(crate) unsafe fn put_index(place: *mut c_int, value: c_int) {
    // SAFETY: the caller gives the place of an INTEGER.
    unsafe { *place = if value >= 0 { value + 1 } else { value } }
}
