//! Addresses with a meaning: MPI_BOTTOM, MPI_STATUS_IGNORE and the like are variables in Fortran, known by
//! where they lie.
//!
//! Modules use variables that lie in this library. `mpif.h` has no such means: its COMMON blocks are joined
//! with ours by the linker or the loader, so both places are compared. Statuses that are to be ignored have
//! one place for `mpif.h` and the module `mpi`, which C knows as MPI_F_STATUS_IGNORE, and one for `mpi_f08`
//! (MPI_F08_STATUS_IGNORE); programs compiled before that have the other.

use crate::abi::*;
use core::ffi::{c_int, c_void};

/// A variable that nobody reads or writes.
#[repr(C, align(16))]
pub struct Place([u8; 64]);

macro_rules! places {
    ($($common:ident $module:ident)*) => { $(
        // SAFETY: no other library may define these names; nobody reads or writes what lies there.
        #[unsafe(no_mangle)]
        pub static mut $common: Place = Place([0; 64]);
        // SAFETY: as above.
        #[unsafe(no_mangle)]
        pub static mut $module: Place = Place([0; 64]);
    )* };
}

places! {
    tutti_common_bottom_ tutti_module_bottom
    tutti_common_in_place_ tutti_module_in_place
    tutti_common_automatic_ tutti_module_automatic
    tutti_common_status_ignore_ tutti_module_status_ignore
    tutti_common_statuses_ignore_ tutti_module_statuses_ignore
    tutti_common_unweighted_ tutti_module_unweighted
    tutti_common_weights_empty_ tutti_module_weights_empty
    tutti_common_errcodes_ignore_ tutti_module_errcodes_ignore
    tutti_common_argv_null_ tutti_module_argv_null
    tutti_common_argvs_null_ tutti_module_argvs_null
}

// SAFETY: no other library may define these names; nobody reads or writes what lies there.
#[unsafe(no_mangle)]
pub static mut tutti_f08_status_ignore: Place = Place([0; 64]);
// SAFETY: as above.
#[unsafe(no_mangle)]
pub static mut tutti_f08_statuses_ignore: Place = Place([0; 64]);

/// Whether the address is that of one of the variables.
macro_rules! is_at {
    ($address:expr, $($place:ident)*) => { $( core::ptr::addr_eq($address, &raw const $place) || )* false };
}

/// A buffer as C has it.
#[inline(always)]
pub(crate) fn buffer(address: *mut c_void) -> *mut c_void {
    if is_at!(address, tutti_module_bottom tutti_common_bottom_) {
        MPI_BOTTOM
    } else if is_at!(address, tutti_module_in_place tutti_common_in_place_) {
        MPI_IN_PLACE
    } else if is_at!(address, tutti_module_automatic tutti_common_automatic_) {
        MPI_BUFFER_AUTOMATIC
    } else {
        address
    }
}

/// An address of C for `mpi_f08`: that of the variable MPI_BUFFER_AUTOMATIC instead of the number.
pub(crate) fn variable_of(address: *mut c_void) -> *mut c_void {
    if address == MPI_BUFFER_AUTOMATIC { (&raw mut tutti_module_automatic).cast() } else { address }
}

/// A status, or an array of statuses.
#[inline(always)]
pub(crate) fn status(address: *mut MPI_Status) -> *mut MPI_Status {
    let ignored = is_at!(address,
        tutti_f08_status_ignore tutti_f08_statuses_ignore
        tutti_module_status_ignore tutti_module_statuses_ignore
        tutti_common_status_ignore_ tutti_common_statuses_ignore_);
    if ignored { MPI_STATUS_IGNORE } else { address }
}

/// Weights of edges.
pub(crate) fn weights(address: *mut c_int) -> *mut c_int {
    if is_at!(address, tutti_module_unweighted tutti_common_unweighted_) {
        MPI_UNWEIGHTED
    } else if is_at!(address, tutti_module_weights_empty tutti_common_weights_empty_) {
        MPI_WEIGHTS_EMPTY
    } else {
        address
    }
}

/// Error codes of new processes.
pub(crate) fn error_codes(address: *mut c_int) -> *mut c_int {
    let ignored = is_at!(address, tutti_module_errcodes_ignore tutti_common_errcodes_ignore_);
    if ignored { MPI_ERRCODES_IGNORE } else { address }
}

/// Whether arguments of new processes are left out.
pub(crate) fn is_no_arguments(address: *const u8) -> bool {
    is_at!(address, tutti_module_argv_null tutti_common_argv_null_ tutti_module_argvs_null tutti_common_argvs_null_)
}
