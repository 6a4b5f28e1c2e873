//! MPI 9.1 and 9.6: versions, names, clocks.

use core::ffi::{c_int, c_void};

use crate::abi::*;
use crate::error::{Result, check};
use crate::info::host_name;
use crate::process::Guard;
use tutti_shm::ticket::VIRTUAL_NODE_VARIABLE;

/// The version of the standard.
pub(super) fn version() -> Result<(c_int, c_int)> {
    Ok((MPI_VERSION, MPI_SUBVERSION))
}

/// The version of the library.
pub(super) fn library() -> Result<&'static str> {
    Ok(concat!("Tutti ", env!("CARGO_PKG_VERSION")))
}

/// The name of a rank's node. Nodes that share a host have names of their own, so that a program that counts
/// nodes by name counts them all.
pub(super) fn processor(guard: &Guard) -> Result<Vec<u8>> {
    let mut name = host_name().unwrap_or_else(|| b"localhost".to_vec());
    let job = &guard.engine.job;
    if job.network().is_some() && std::env::var_os(VIRTUAL_NODE_VARIABLE).is_some() {
        name.extend_from_slice(format!("-node{}", job.node()).as_bytes());
    }
    Ok(name)
}

/// Allocates memory.
pub(super) fn allocate(_: &Guard, size: MPI_Aint) -> Result<*mut c_void> {
    check(size >= 0, MPI_ERR_ARG, || format!("size is {size}, expected 0 or more"))?;
    // SAFETY: aligned_alloc takes any size that is a multiple of the alignment.
    let memory = unsafe { libc::aligned_alloc(64, (size as usize).max(1).next_multiple_of(64)) };
    check(!memory.is_null(), MPI_ERR_NO_MEM, || format!("cannot allocate {size} bytes"))?;
    Ok(memory)
}

/// Frees memory of [`allocate`].
///
/// # Safety
/// `base` is null or came from there, and is not used any more.
pub(super) unsafe fn release(_: &Guard, base: *mut c_void) -> Result<()> {
    // SAFETY: our contract.
    unsafe { libc::free(base) };
    Ok(())
}

/// Hook for profiling tools (15.2.4): does nothing itself.
#[inline]
pub unsafe fn MPI_Pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}
