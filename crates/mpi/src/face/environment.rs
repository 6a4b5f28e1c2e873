//! MPI 9.1 and 9.6: versions, names, clocks.

use core::ffi::{c_char, c_int, c_void};

use crate::abi::*;
use crate::errhandler::call;

/// Copies a text with its final zero, at most `room` bytes, and gives its length.
unsafe fn write_text(text: &[u8], to: *mut c_char, room: usize, length: *mut c_int) {
    let bytes = text.len().min(room - 1);
    // SAFETY: the user gives room for the standard's maximum and a place for the length.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, bytes);
        to.add(bytes).write(0);
        length.write(bytes as c_int);
    }
}

/// The version of the standard (9.1.1).
#[inline]
pub unsafe fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the user gives two places for integers.
    unsafe {
        version.write(MPI_VERSION);
        subversion.write(MPI_SUBVERSION);
    }
    MPI_SUCCESS
}

/// The version of the library (9.1.1).
#[inline]
pub unsafe fn MPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int {
    let text = concat!("Tutti ", env!("CARGO_PKG_VERSION"));
    // SAFETY: the user gives MPI_MAX_LIBRARY_VERSION_STRING bytes and a place for the length.
    unsafe { write_text(text.as_bytes(), version, MPI_MAX_LIBRARY_VERSION_STRING as usize, resultlen) };
    MPI_SUCCESS
}

/// The name of this host (9.1.2).
#[inline]
pub unsafe fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
    call(c"MPI_Get_processor_name", MPI_COMM_SELF, |_| {
        let mut host = [0_u8; 256];
        // SAFETY: the buffer is valid for its length; the last byte stays zero.
        unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
        let length = host.iter().position(|&byte| byte == 0).unwrap_or(0);
        // SAFETY: the user gives MPI_MAX_PROCESSOR_NAME bytes and a place for the length.
        unsafe { write_text(&host[..length], name, MPI_MAX_PROCESSOR_NAME as usize, resultlen) };
        Ok(())
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
