//! The MPI face.

pub mod abi;
