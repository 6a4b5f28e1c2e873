//! The types and constants of our binary interface, under their C names. Both faces that turn arguments into
//! ours have this module.

#![allow(dead_code, reason = "generated for all users of the table")]

include!(concat!(env!("OUT_DIR"), "/abi_constants.rs"));

/// An address or a difference of addresses.
pub type MPI_Aint = isize;
/// A position in a file.
pub type MPI_Offset = i64;
/// A number of elements that may be large.
pub type MPI_Count = i64;

/// Result of a receive: the same integers in C and in Fortran.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MPI_Status {
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
    pub MPI_internal: [c_int; 5],
}
