//! MPI 7.8: names of communicators.

use core::ffi::{c_char, c_int};

use crate::abi::*;
use crate::argument::{put_text, text};
use crate::errhandler::call;

/// Names a communicator (7.8); what does not fit into MPI_MAX_OBJECT_NAME is cut off.
#[inline]
pub unsafe fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> c_int {
    call(c"MPI_Comm_set_name", comm, |guard| {
        // SAFETY: the user gives a text.
        let name = unsafe { text(comm_name, "comm_name") }?;
        guard.comm_mut(comm)?.name = name[..name.len().min(MPI_MAX_OBJECT_NAME as usize - 1)].to_vec();
        Ok(())
    })
}

/// The name of a communicator (7.8); MPI_COMM_NULL has one too.
#[inline]
pub unsafe fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call(c"MPI_Comm_get_name", comm, |guard| {
        let name: &[u8] = if comm == MPI_COMM_NULL { b"MPI_COMM_NULL" } else { &guard.comm(comm)?.name };
        // SAFETY: the user gives room for MPI_MAX_OBJECT_NAME bytes and a place for the length.
        unsafe { put_text(name, comm_name, MPI_MAX_OBJECT_NAME as usize, resultlen, "comm_name") }
    })
}
