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

/// Pieces of memory that a program gives; none where the kernel refuses their number.
///
/// # Safety
/// Pieces of that number stand at the pointer.
unsafe fn pieces<'a>(pieces: *const libc::iovec, count: usize) -> &'a [libc::iovec] {
    if pieces.is_null() || count > libc::UIO_MAXIOV as usize {
        return &[];
    }
    present::load(pieces.addr(), count * size_of::<libc::iovec>());
    // SAFETY: our contract.
    unsafe { core::slice::from_raw_parts(pieces, count) }
}

/// A call loads from these pieces.
fn load_all(pieces: &[libc::iovec]) {
    pieces.iter().for_each(|piece| present::load(piece.iov_base.addr(), piece.iov_len));
}

/// A call may store to these pieces.
fn store_all(pieces: &[libc::iovec]) {
    pieces.iter().for_each(|piece| present::store(piece.iov_base.addr(), piece.iov_len));
}

/// A call has stored so many bytes to these pieces, or has failed.
fn stored_all(pieces: &[libc::iovec], stored: isize) {
    let mut rest = stored.max(0) as usize;
    for piece in pieces {
        let bytes = rest.min(piece.iov_len);
        present::stored(piece.iov_base.addr(), bytes);
        rest -= bytes;
    }
}

/// Calls that load from pieces of memory, or store to them.
macro_rules! in_pieces {
    ($($name:ident => $real:path, $before:ident, $after:expr, ($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                descriptor: c_int, given: *const libc::iovec, count: c_int, $($argument: $kind),*
            ) -> isize {
                // SAFETY: the program gives so many pieces.
                let all = unsafe { pieces(given, usize::try_from(count).unwrap_or(0)) };
                $before(all);
                // SAFETY: the program's call.
                let moved = unsafe { $real(descriptor, given, count, $($argument),*) };
                $after(all, moved);
                moved
            }
        )*
    };
}

in_pieces! {
    __wrap_writev => libc::writev, load_all, |_, _| (), ();
    __wrap_pwritev => libc::pwritev, load_all, |_, _| (), (offset: libc::off_t);
    __wrap_pwritev64 => libc::pwritev, load_all, |_, _| (), (offset: libc::off_t);
    __wrap_readv => libc::readv, store_all, stored_all, ();
    __wrap_preadv => libc::preadv, store_all, stored_all, (offset: libc::off_t);
    __wrap_preadv64 => libc::preadv, store_all, stored_all, (offset: libc::off_t);
}

/// The parts of a message that a call of the system looks at, as it does. None: no message.
///
/// # Safety
/// The program's message, if it is one.
unsafe fn parts_of<'a>(message: *const libc::msghdr) -> Option<(&'a libc::msghdr, &'a [libc::iovec])> {
    present::load(message.addr(), size_of::<libc::msghdr>());
    // SAFETY: our contract; its pieces are as many as it says.
    unsafe {
        let message = message.as_ref()?;
        Some((message, pieces(message.msg_iov, message.msg_iovlen)))
    }
}

/// See the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sendmsg(
    descriptor: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the program's message.
    if let Some((head, all)) = unsafe { parts_of(message) } {
        present::load(head.msg_name.addr(), head.msg_namelen as usize);
        present::load(head.msg_control.addr(), head.msg_controllen);
        load_all(all);
    }
    // SAFETY: the program's call.
    unsafe { libc::sendmsg(descriptor, message, flags) }
}

/// See the C library. The kernel stores to the message itself, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_recvmsg(
    descriptor: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the program's message; its lengths are those of before the call.
    let parts = unsafe { parts_of(message) }.map(|(head, all)| (*head, all));
    if let Some((head, all)) = &parts {
        present::store(message.addr(), size_of::<libc::msghdr>());
        present::store(head.msg_name.addr(), head.msg_namelen as usize);
        present::store(head.msg_control.addr(), head.msg_controllen);
        store_all(all);
    }
    // SAFETY: the program's call.
    let received = unsafe { libc::recvmsg(descriptor, message, flags) };
    if let Some((head, all)) = parts.filter(|_| received >= 0) {
        present::stored(message.addr(), size_of::<libc::msghdr>());
        // SAFETY: the kernel has filled it.
        let now = unsafe { &*message };
        present::stored(head.msg_name.addr(), head.msg_namelen.min(now.msg_namelen) as usize);
        present::stored(head.msg_control.addr(), head.msg_controllen.min(now.msg_controllen));
        stored_all(all, received);
    }
    received
}
