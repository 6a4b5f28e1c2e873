//! Functions of the C library that could take away what shared memory needs. `tutticc` puts these in their
//! place (`--wrap`), in the program's own objects.

use core::ffi::{c_int, c_uint, c_void};

use tutti_dsm::keep;

fn set_error(error: c_int) -> c_int {
    // SAFETY: the place is this thread's.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_munmap(address: *mut c_void, bytes: usize) -> c_int {
    keep::refuse_shared(address.addr(), bytes, "munmap");
    // SAFETY: the program's call.
    unsafe { libc::munmap(address, bytes) }
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mprotect(address: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    keep::refuse_shared(address.addr(), bytes, "mprotect");
    // SAFETY: the program's call.
    unsafe { libc::mprotect(address, bytes, protection) }
}

/// See the C library. The last argument counts with `MREMAP_FIXED` alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mremap(
    address: *mut c_void,
    bytes: usize,
    bytes_then: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    keep::refuse_shared(address.addr(), bytes, "mremap");
    if flags & libc::MREMAP_FIXED != 0 {
        keep::refuse_shared(to.addr(), bytes_then, "mremap");
    }
    // SAFETY: the program's call.
    unsafe { libc::mremap(address, bytes, bytes_then, flags, to) }
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    if flags & libc::MAP_FIXED != 0 {
        keep::refuse_shared(address.addr(), bytes, "mmap with MAP_FIXED");
    }
    // SAFETY: the program's call.
    unsafe { libc::mmap(address, bytes, protection, flags, descriptor, offset) }
}

/// The same, with offsets of 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    descriptor: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the program's call.
    unsafe { __wrap_mmap(address, bytes, protection, flags, descriptor, offset) }
}

/// madvise(2): advice about shared memory is not taken, since the library has its own; what takes memory away
/// is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if keep::is_shared(address.addr(), bytes) {
        if advice == libc::MADV_REMOVE {
            keep::refuse_shared(address.addr(), bytes, "madvise with MADV_REMOVE");
        }
        return 0;
    }
    // SAFETY: the program's call.
    unsafe { libc::madvise(address, bytes, advice) }
}

/// posix_madvise(3), the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_posix_madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if keep::is_shared(address.addr(), bytes) {
        return 0;
    }
    // SAFETY: the program's call.
    unsafe { libc::posix_madvise(address, bytes, advice) }
}

/// mlockall(2): shared memory is address space, and no machine could hold all of it. Pages are locked as they
/// come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mlockall(flags: c_int) -> c_int {
    // SAFETY: numbers alone.
    unsafe { libc::mlockall(flags | libc::MCL_ONFAULT) }
}

/// See the C library: a descriptor of the library is not open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_close(descriptor: c_int) -> c_int {
    if keep::is_own(descriptor) {
        return set_error(libc::EBADF);
    }
    // SAFETY: the program's call.
    unsafe { libc::close(descriptor) }
}

/// close_range(2) but for the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if first > last {
        return set_error(libc::EINVAL);
    }
    for part in keep::others(first, last) {
        // SAFETY: numbers alone.
        let closed = unsafe { libc::syscall(libc::SYS_close_range, *part.start(), *part.end(), flags) };
        if closed != 0 {
            return -1;
        }
    }
    0
}

/// closefrom(3) but for the library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_closefrom(first: c_int) {
    // SAFETY: as above.
    unsafe { __wrap_close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// dup2(2): not onto a descriptor of the library, which would be closed by it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_dup2(from: c_int, to: c_int) -> c_int {
    if keep::is_own(from) {
        return set_error(libc::EBADF);
    }
    keep::refuse_own(to, "dup2");
    // SAFETY: numbers alone.
    unsafe { libc::dup2(from, to) }
}

/// dup3(2): as dup2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
    if keep::is_own(from) {
        return set_error(libc::EBADF);
    }
    keep::refuse_own(to, "dup3");
    // SAFETY: numbers alone.
    unsafe { libc::dup3(from, to, flags) }
}
