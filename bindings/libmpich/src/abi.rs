//! The types and constants of our binary interface, under their C names.

#![allow(dead_code, reason = "generated for all users of the table")]

include!(concat!(env!("OUT_DIR"), "/abi_constants.rs"));

/// An address or a difference of addresses.
pub type MPI_Aint = isize;
/// A position in a file.
pub type MPI_Offset = i64;
/// A number of elements that may be large.
pub type MPI_Count = i64;

/// Our status.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MPI_Status {
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
    /// The length, its low half first, and whether the operation was cancelled.
    pub MPI_internal: [c_int; 5],
}
