//! What a function does whose body is not written.

use crate::abi::MPI_ERR_UNSUPPORTED_OPERATION;
use core::ffi::{CStr, c_int};

/// Raises MPI_ERR_UNSUPPORTED_OPERATION for the function `name`.
pub fn unsupported(name: &CStr) -> c_int {
    let _ = name;
    MPI_ERR_UNSUPPORTED_OPERATION
}
