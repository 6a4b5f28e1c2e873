//! Functions of the C library that hand memory to the kernel: shared memory is made present first. `tutticc`
//! puts them in the place of those functions (`--wrap`), in the program's own objects.

use core::ffi::{c_int, c_void};

use tutti_dsm::present;

/// Calls that load from a buffer.
macro_rules! loading {
    ($($name:ident => $real:path, ($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                descriptor: c_int, buffer: *const c_void, bytes: usize, $($argument: $kind),*
            ) -> isize {
                present::load(buffer.addr(), bytes);
                // SAFETY: the program's call.
                unsafe { $real(descriptor, buffer, bytes, $($argument),*) }
            }
        )*
    };
}

/// Calls that store to a buffer.
macro_rules! storing {
    ($($name:ident => $real:path, ($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                descriptor: c_int, buffer: *mut c_void, bytes: usize, $($argument: $kind),*
            ) -> isize {
                present::store(buffer.addr(), bytes);
                // SAFETY: the program's call.
                let stored = unsafe { $real(descriptor, buffer, bytes, $($argument),*) };
                present::stored(buffer.addr(), stored.max(0) as usize);
                stored
            }
        )*
    };
}

loading! {
    __wrap_write => libc::write, ();
    __wrap_pwrite => libc::pwrite, (offset: libc::off_t);
    __wrap_pwrite64 => libc::pwrite, (offset: libc::off_t);
    __wrap_send => libc::send, (flags: c_int);
    __wrap_sendto => libc::sendto, (flags: c_int, to: *const libc::sockaddr, to_bytes: libc::socklen_t);
}

storing! {
    __wrap_read => libc::read, ();
    __wrap_pread => libc::pread, (offset: libc::off_t);
    __wrap_pread64 => libc::pread, (offset: libc::off_t);
    __wrap_recv => libc::recv, (flags: c_int);
    __wrap_recvfrom => libc::recvfrom, (flags: c_int, from: *mut libc::sockaddr, from_bytes: *mut libc::socklen_t);
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fread(
    buffer: *mut c_void,
    bytes: usize,
    count: usize,
    stream: *mut libc::FILE,
) -> usize {
    let all = bytes.saturating_mul(count);
    present::store(buffer.addr(), all);
    // SAFETY: the program's call.
    let read = unsafe { libc::fread(buffer, bytes, count, stream) };
    present::stored(buffer.addr(), read * bytes);
    read
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fwrite(
    buffer: *const c_void,
    bytes: usize,
    count: usize,
    stream: *mut libc::FILE,
) -> usize {
    present::load(buffer.addr(), bytes.saturating_mul(count));
    // SAFETY: the program's call.
    unsafe { libc::fwrite(buffer, bytes, count, stream) }
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_writev(descriptor: c_int, pieces: *const libc::iovec, count: c_int) -> isize {
    present::load(pieces.addr(), count.max(0) as usize * size_of::<libc::iovec>());
    // SAFETY: the program gives so many pieces.
    for piece in unsafe { core::slice::from_raw_parts(pieces, count.max(0) as usize) } {
        present::load(piece.iov_base.addr(), piece.iov_len);
    }
    // SAFETY: the program's call.
    unsafe { libc::writev(descriptor, pieces, count) }
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_readv(descriptor: c_int, pieces: *const libc::iovec, count: c_int) -> isize {
    present::load(pieces.addr(), count.max(0) as usize * size_of::<libc::iovec>());
    // SAFETY: the program gives so many pieces.
    let all = unsafe { core::slice::from_raw_parts(pieces, count.max(0) as usize) };
    all.iter().for_each(|piece| present::store(piece.iov_base.addr(), piece.iov_len));
    // SAFETY: the program's call.
    let stored = unsafe { libc::readv(descriptor, pieces, count) };
    let mut rest = stored.max(0) as usize;
    for piece in all {
        let bytes = rest.min(piece.iov_len);
        present::stored(piece.iov_base.addr(), bytes);
        rest -= bytes;
    }
    stored
}
