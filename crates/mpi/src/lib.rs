//! The MPI face.

pub mod abi;
pub mod face;
mod unsupported;

pub use unsupported::unsupported;
