//! `libmpifort.so.12` and `libmpichfort.so.12`: the Fortran bindings of MPICH, for programs in Fortran that
//! were compiled for it or a relative and come without that library.
//!
//! Every function turns its arguments into those of C and calls the function of MPICH's C interface by its
//! symbol, which `libmpi.so.12` has: a profiling tool that was compiled for MPICH sees each call once.
//! Handles and statuses are the same integers in both languages there. The functions are generated (see
//! `tutti_table::fortran::exports`), and what is by hand is shared with our own Fortran bindings. What only
//! MPICH has is here: its variables ([`sentinels`]), gfortran's array descriptors ([`gfortran`]), and what
//! the object code of its modules has ([`modules`]).

#![allow(non_snake_case, non_camel_case_types)]
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments, clippy::unnecessary_cast)]
#![allow(missing_docs, unreachable_pub, reason = "symbols of the library, which Fortran calls")]

mod abi;
#[path = "../../libmpifort/src/array.rs"]
mod array;
#[path = "../../libmpifort/src/by_hand.rs"]
mod by_hand;
#[path = "../../libmpifort/src/callbacks.rs"]
mod callbacks;
mod extensions;
#[path = "../../libmpifort/src/functions.rs"]
mod functions;
mod gfortran;
mod handle;
#[path = "../../shared/lengths.rs"]
mod lengths;
mod modules;
#[path = "../../libmpifort/src/predefined.rs"]
mod predefined;
#[path = "../../libmpifort/src/removed.rs"]
mod removed;
#[path = "../../libmpifort/src/section.rs"]
mod section;
mod sentinels;
#[path = "../../libmpifort/src/text.rs"]
mod text;

use abi::*;
use array::{Logicals, dimensions, put_indices};
use core::ffi::{c_char, c_int, c_void};
use handle::{Handles, handle};
use lengths::{neighbours, receives, sends};
use section::Descriptor;
use text::{Text, TextPlace};

/// Functions that another one's names lead to.
macro_rules! other_names {
    ($($of:ident: $($name:ident)+;)*) => {
        /// Other names of functions.
        mod names {
            $crate::other_names! { @each $($of: $($name)+;)* }
        }
    };
    (@each $($of:ident: $($name:ident)+;)*) => { $( $crate::other_names! { @of $of $($name)+ } )* };
    (@of $of:ident $($name:ident)+) => { $( $crate::other_names! { @one $of $name } )+ };
    (@one $of:ident $name:ident) => {
        // SAFETY: the name is that of MPICH's library; the function jumped to has the caller's arguments.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!(concat!("jmp ", stringify!($of), "@PLT"));
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!(concat!("b ", stringify!($of)));
        }
    };
}
pub(crate) use other_names;

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// Functions of our library beyond those of C; those that take handles have them in MPICH's numbers.
mod beside {
    use core::ffi::CStr;

    pub(crate) const ATTRIBUTE_LANGUAGE: &CStr = c"tutti_attribute_language";
    pub(crate) const SECTION_TYPE_OF: &CStr = c"tutti_mpich_section_type_of";
    pub(crate) const SECTION_REFUSED: &CStr = c"tutti_mpich_section_refused";
    pub(crate) const SECTIONS_STAGE: &CStr = c"tutti_sections_stage";
    pub(crate) const SECTIONS_ATTACH: &CStr = c"tutti_mpich_sections_attach";
    pub(crate) const SECTION_OF_PARTITIONS: &CStr = c"tutti_mpich_section_of_partitions";
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
