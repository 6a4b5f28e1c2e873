//! MPI 9.1 and 9.6: versions, names, clocks.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::*;
use crate::argument::put_text;
use crate::error::{Result, check};
use crate::info::{self, host_name};
use crate::phase::{FORKED, phase};
use crate::process::entry::call;
use crate::process::{self, Process};
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
///
/// # Safety
/// `name` has room for MPI_MAX_PROCESSOR_NAME bytes and `resultlen` for a number, or they are null.
pub(super) unsafe fn processor(call_name: &'static CStr, name: *mut c_char, resultlen: *mut c_int) -> c_int {
    let put = |process: &Process| {
        // SAFETY: our contract.
        unsafe { put_text(processor_name(process), name, MPI_MAX_PROCESSOR_NAME as usize, resultlen, "name") }
    };
    // A forked child may ask for it too.
    if phase() == FORKED
        && let Some(process) = process::state_before_fork()
        && put(process).is_ok()
    {
        return MPI_SUCCESS;
    }
    call(call_name, MPI_COMM_SELF, |guard| put(guard))
}

fn processor_name(process: &Process) -> Vec<u8> {
    let mut name = host_name().unwrap_or_else(|| b"localhost".to_vec());
    let job = &process.engine.job;
    if job.network().is_some() && std::env::var_os(VIRTUAL_NODE_VARIABLE).is_some() {
        name.extend_from_slice(format!("-node{}", job.node()).as_bytes());
    }
    name
}

/// Allocates memory.
pub(super) fn allocate(size: MPI_Aint, info: MPI_Info) -> Result<*mut c_void> {
    check(size >= 0, MPI_ERR_ARG, || format!("size is {size}, expected 0 or more"))?;
    let alignment = info::memory_alignment(&info::hints(info)?);
    // SAFETY: aligned_alloc takes any size that is a multiple of the alignment, which is a power of two.
    let memory =
        unsafe { libc::aligned_alloc(alignment, (size as usize).max(1).next_multiple_of(alignment)) };
    check(!memory.is_null(), MPI_ERR_NO_MEM, || format!("cannot allocate {size} bytes"))?;
    Ok(memory)
}

/// Frees memory of [`allocate`].
///
/// # Safety
/// `base` is null or came from there, and is not used any more.
pub(super) unsafe fn release(base: *mut c_void) -> Result<()> {
    // SAFETY: our contract.
    unsafe { libc::free(base) };
    Ok(())
}

/// Hook for profiling tools (15.2.4): does nothing itself.
#[inline]
pub unsafe fn MPI_Pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}
