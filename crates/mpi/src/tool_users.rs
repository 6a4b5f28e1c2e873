//! Whether the tool information interface is in use, and what its calls give.

use core::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::*;

/// Result of a call of the interface: a code of its own chapter is no error class of a communicator.
pub type Answer<T = ()> = Result<T, c_int>;

/// How many more calls of MPI_T_init_thread than of MPI_T_finalize. Changed under the lock of the table; read
/// without it, since a callback of an event may run while another thread has it.
pub(crate) static USERS: AtomicU32 = AtomicU32::new(0);

/// Fails unless the interface is initialized.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED.
pub fn check_initialized() -> Answer {
    if USERS.load(Ordering::Acquire) > 0 { Ok(()) } else { Err(MPI_T_ERR_NOT_INITIALIZED) }
}

/// An index argument below `count`.
///
/// # Errors
/// MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_INVALID_INDEX.
pub fn checked_index(index: c_int, count: usize) -> Answer<usize> {
    check_initialized()?;
    usize::try_from(index).ok().filter(|&index| index < count).ok_or(MPI_T_ERR_INVALID_INDEX)
}
