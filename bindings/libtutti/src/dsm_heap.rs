//! `free` and `realloc` of shared memory. Where other sets of macros make `malloc` of G_MALLOC, programs give
//! such memory back by `free`. `tutticc` puts these functions in the place of those of the C library
//! (`--wrap`), in the program's own objects.

use core::ffi::c_void;

use tutti_dsm::object;

/// See the C library. Shared memory goes back as by G_FREE.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __wrap_free(address: *mut c_void) {
    if object::is_shared(address.addr()) {
        object::free_as_private(address.addr());
    } else {
        // SAFETY: the program's call.
        unsafe { libc::free(address) };
    }
}

/// See the C library. A block of shared memory keeps its length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_realloc(address: *mut c_void, bytes: usize) -> *mut c_void {
    if object::is_shared(address.addr()) {
        object::refuse_realloc(address.addr());
    }
    // SAFETY: the program's call.
    unsafe { libc::realloc(address, bytes) }
}

/// The same of so many elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_reallocarray(
    address: *mut c_void,
    count: usize,
    bytes: usize,
) -> *mut c_void {
    if object::is_shared(address.addr()) {
        object::refuse_realloc(address.addr());
    }
    // SAFETY: the program's call.
    unsafe { libc::reallocarray(address, count, bytes) }
}
