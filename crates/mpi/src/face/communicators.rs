//! MPI chapter 7: groups and communicators.

use core::ffi::c_int;

use crate::abi::*;
use crate::errhandler::call;

/// Size of the local group (7.4.1).
#[inline]
pub unsafe fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    call(c"MPI_Comm_size", comm, |guard| {
        let ranks = guard.comm(comm)?.size();
        // SAFETY: the user gives a place for the size.
        unsafe { size.write(ranks as c_int) };
        Ok(())
    })
}

/// Rank in the local group (7.4.1).
#[inline]
pub unsafe fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    call(c"MPI_Comm_rank", comm, |guard| {
        let mine = guard.comm(comm)?.rank;
        // SAFETY: the user gives a place for the rank.
        unsafe { rank.write(mine as c_int) };
        Ok(())
    })
}
