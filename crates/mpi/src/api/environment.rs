//! MPI 9.1 and 9.6: versions, names, clocks.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::*;
use crate::argument::{put, put_text};
use crate::errhandler::{call, call_anytime};
use crate::info::host_name;
use crate::process::Guard;
use tutti_shm::ticket::VIRTUAL_NODE_VARIABLE;

/// The name of a rank's node. Nodes that share a host have names of their own, so that a program that counts
/// nodes by name counts them all.
fn processor_name(guard: &Guard) -> Vec<u8> {
    let mut name = host_name().unwrap_or_else(|| b"localhost".to_vec());
    let job = &guard.engine.job;
    if job.network().is_some() && std::env::var_os(VIRTUAL_NODE_VARIABLE).is_some() {
        name.extend_from_slice(format!("-node{}", job.node()).as_bytes());
    }
    name
}

/// The version of the standard (9.1.1).
#[inline]
pub unsafe fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    call_anytime(c"MPI_Get_version", || {
        // SAFETY: the user gives two places for integers.
        unsafe {
            put(version, "version", MPI_VERSION)?;
            put(subversion, "subversion", MPI_SUBVERSION)
        }
    })
}

/// The version of the library (9.1.1).
#[inline]
pub unsafe fn MPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int {
    let text = concat!("Tutti ", env!("CARGO_PKG_VERSION"));
    call_anytime(c"MPI_Get_library_version", || {
        let room = MPI_MAX_LIBRARY_VERSION_STRING as usize;
        // SAFETY: the user gives MPI_MAX_LIBRARY_VERSION_STRING bytes and a place for the length.
        unsafe { put_text(text.as_bytes(), version, room, resultlen, "version") }
    })
}

/// The name of this node (9.1.2).
#[inline]
pub unsafe fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call(c"MPI_Get_processor_name", MPI_COMM_SELF, |guard| {
        let host = processor_name(guard);
        // SAFETY: the user gives MPI_MAX_PROCESSOR_NAME bytes and a place for the length.
        unsafe { put_text(&host, name, MPI_MAX_PROCESSOR_NAME as usize, resultlen, "name") }
    })
}

/// Allocates memory (9.2).
#[inline]
pub unsafe fn MPI_Alloc_mem(size: MPI_Aint, _info: MPI_Info, baseptr: *mut c_void) -> c_int {
    call(c"MPI_Alloc_mem", MPI_COMM_SELF, |_| {
        crate::error::check(size >= 0, MPI_ERR_ARG, || format!("size is {size}, expected 0 or more"))?;
        // SAFETY: aligned_alloc takes any size that is a multiple of the alignment.
        let memory = unsafe { libc::aligned_alloc(64, (size as usize).max(1).next_multiple_of(64)) };
        crate::error::check(!memory.is_null(), MPI_ERR_NO_MEM, || format!("cannot allocate {size} bytes"))?;
        // SAFETY: the user gives a place for a pointer (declared as void * by the standard).
        unsafe { baseptr.cast::<*mut c_void>().write(memory) };
        Ok(())
    })
}

/// Frees memory of MPI_Alloc_mem (9.2).
#[inline]
pub unsafe fn MPI_Free_mem(base: *mut c_void) -> c_int {
    call(c"MPI_Free_mem", MPI_COMM_SELF, |_| {
        // SAFETY: the user gives a pointer of MPI_Alloc_mem.
        unsafe { libc::free(base) };
        Ok(())
    })
}

/// Hook for profiling tools (15.2.4): does nothing itself.
#[inline]
pub unsafe fn MPI_Pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}
