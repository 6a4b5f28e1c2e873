//! The types and constants of MPICH's binary interface, under their C names.

#![allow(dead_code, reason = "generated for all of the table")]

use core::ffi::{c_int, c_void};

include!(concat!(env!("OUT_DIR"), "/abi_constants.rs"));

/// An address or a difference of addresses.
pub type MPI_Aint = isize;
/// A position in a file.
pub type MPI_Offset = i64;
/// A number of elements that may be large.
pub type MPI_Count = i64;

/// Result of a receive: the same integers in C and in Fortran.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MPI_Status([c_int; 5]);
