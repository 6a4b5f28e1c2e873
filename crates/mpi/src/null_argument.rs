//! Errors of exported functions for a null pointer where the standard wants a place or an array; the
//! checks are generated from `bindings/mpi/nulls.txt`.

use core::ffi::{CStr, c_int};

use crate::abi::*;
use crate::argument::null;
use crate::process;
use crate::process::entry;

/// Raises MPI_ERR_ARG for the argument of the function, on its communicator.
#[cold]
#[inline(never)]
pub fn null_argument(function: &'static CStr, comm: MPI_Comm, argument: &'static str) -> c_int {
    match process::enter() {
        Some(guard) => entry::raise(guard, function, comm, null(argument)),
        None => entry::raise_anywhere(function, crate::initial_errhandler::handler(), comm.0, null(argument)),
    }
}

/// The same on a file, or on MPI_FILE_NULL.
#[cold]
#[inline(never)]
pub fn null_argument_of_file(function: &'static CStr, file: MPI_File, argument: &'static str) -> c_int {
    match process::enter() {
        Some(guard) => entry::raise_on_file(guard, function, file, null(argument)),
        None => null_argument(function, MPI_COMM_NULL, argument),
    }
}

/// The same on a session.
#[cold]
#[inline(never)]
pub fn null_argument_of_session(
    function: &'static CStr,
    session: MPI_Session,
    argument: &'static str,
) -> c_int {
    let Some(guard) = process::enter() else { return null_argument(function, MPI_COMM_NULL, argument) };
    match guard.env.session(session).map(|session| session.errhandler) {
        Ok(handler) => entry::raise_with(guard, function, handler, session.0, null(argument)),
        Err(error) => entry::raise(guard, function, MPI_COMM_NULL, error),
    }
}
