//! Functions of `mpi_f08` that take descriptors and have none of C behind them.

use crate::abi::MPI_SUCCESS;
use crate::put_code;
use crate::section::Descriptor;
use core::ffi::c_int;

/// Does nothing: that it might is what keeps the compiler from moving a buffer's use (19.1.8).
// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_f_sync_reg(_buffer: *const Descriptor) {}

/// Bytes of a variable's element.
// SAFETY: no other library may define the name.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_f_sizeof(
    variable: *const Descriptor,
    size: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the compiler hands over a descriptor; the caller gives the places of two INTEGERs.
    unsafe {
        *size = (*variable).element_bytes as c_int;
        put_code(ierror, MPI_SUCCESS);
    }
}
