//! The MPI-5.0 Standard ABI in Rust, under the C names.
//!
//! - A handle is `MPI_Comm(usize)`, transparent: C passes the same bits as a pointer to a structure that does
//!   not exist.
//! - A callback parameter has the type `MPI_X_function`, an integer: the address of a C function, or one of
//!   the predefined numbers (`MPI_COMM_DUP_FN` is 1), so look for those first. `MPI_X_function_fn` is the
//!   function pointer type; turn an address into it with `transmute::<usize, MPI_X_function_fn>`.
//! - Addresses with a meaning (`MPI_BOTTOM`, `MPI_IN_PLACE`, `MPI_STATUS_IGNORE`, `MPI_UNWEIGHTED` ...) are
//!   pointers that nobody may follow; compare them.
//! - Types and constants are generated from `bindings/mpi`; what is below stands in no table.

#![allow(non_camel_case_types, non_snake_case)]

include!(concat!(env!("OUT_DIR"), "/abi_constants.rs"));

/// An address or a difference of addresses.
pub type MPI_Aint = isize;
/// A position in a file.
pub type MPI_Offset = i64;
/// A number of elements that may be large.
pub type MPI_Count = i64;
/// An INTEGER of Fortran, as our handles and statuses travel in it.
pub type MPI_Fint = c_int;

/// Status of a receive. Aligned like an `int` only, so a 64-bit number inside is copied byte by byte.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MPI_Status {
    /// The sender.
    pub MPI_SOURCE: c_int,
    /// The tag.
    pub MPI_TAG: c_int,
    /// The error; written only by functions that complete several requests.
    pub MPI_ERROR: c_int,
    /// Tutti's own: length and whether it was cancelled.
    pub MPI_internal: [c_int; 5],
}

const _: () = assert!(size_of::<MPI_Status>() == 32 && align_of::<MPI_Status>() == 4);
