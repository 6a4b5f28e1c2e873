//! Error of a function whose body is not written.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::error::Error;
use crate::process;
use crate::process::entry;
use tutti_runtime::log;

/// Raises MPI_ERR_UNSUPPORTED_OPERATION for the function `name`.
#[cold]
pub fn unsupported(name: &CStr) -> c_int {
    match process::enter() {
        Some(guard) => {
            let error = Error::new(MPI_ERR_UNSUPPORTED_OPERATION, "this version of Tutti does not have it");
            entry::raise(guard, name, MPI_COMM_SELF, error)
        }
        None => {
            log::line(format_args!("{}: this version of Tutti does not have it", name.to_string_lossy()));
            MPI_ERR_UNSUPPORTED_OPERATION
        }
    }
}
