//! Functions of the C library that hand addresses and options of sockets to the kernel. `tutticc` puts these
//! in their place (`--wrap`), in the program's own objects.

use core::ffi::{c_int, c_void};

use crate::dsm_arguments::{filled, loaded, placing, stored, within};

placing! { if |result| result >= 0;
    __wrap_socketpair => libc::socketpair,
        (domain: c_int, kind: c_int, protocol: c_int, ends: *mut c_int = stored(ends, 2)) -> c_int;
    __wrap_bind => libc::bind, (socket: c_int,
        to: *const libc::sockaddr = loaded(to.cast::<u8>(), to_bytes as usize).cast(),
        to_bytes: libc::socklen_t) -> c_int;
    __wrap_connect => libc::connect, (socket: c_int,
        to: *const libc::sockaddr = loaded(to.cast::<u8>(), to_bytes as usize).cast(),
        to_bytes: libc::socklen_t) -> c_int;
    __wrap_accept => libc::accept, (socket: c_int, from: *mut libc::sockaddr = within(from, from_bytes),
        from_bytes: *mut libc::socklen_t = stored(from_bytes, 1)) -> c_int;
    __wrap_accept4 => libc::accept4, (socket: c_int, from: *mut libc::sockaddr = within(from, from_bytes),
        from_bytes: *mut libc::socklen_t = stored(from_bytes, 1), flags: c_int) -> c_int;
    __wrap_getsockname => libc::getsockname, (socket: c_int,
        name: *mut libc::sockaddr = within(name, name_bytes),
        name_bytes: *mut libc::socklen_t = stored(name_bytes, 1)) -> c_int;
    __wrap_getpeername => libc::getpeername, (socket: c_int,
        name: *mut libc::sockaddr = within(name, name_bytes),
        name_bytes: *mut libc::socklen_t = stored(name_bytes, 1)) -> c_int;
    __wrap_getsockopt => libc::getsockopt, (socket: c_int, level: c_int, option: c_int,
        value: *mut c_void = within(value, value_bytes),
        value_bytes: *mut libc::socklen_t = stored(value_bytes, 1)) -> c_int;
    __wrap_setsockopt => libc::setsockopt, (socket: c_int, level: c_int, option: c_int,
        value: *const c_void = loaded(value.cast::<u8>(), value_bytes as usize).cast(),
        value_bytes: libc::socklen_t) -> c_int;
    __wrap_sendto => libc::sendto, (socket: c_int,
        from: *const c_void = loaded(from.cast::<u8>(), bytes).cast(), bytes: usize, flags: c_int,
        to: *const libc::sockaddr = loaded(to.cast::<u8>(), to_bytes as usize).cast(),
        to_bytes: libc::socklen_t) -> isize;
    __wrap_recvfrom => libc::recvfrom, (socket: c_int, to: *mut c_void = filled(to, bytes), bytes: usize,
        flags: c_int, from: *mut libc::sockaddr = within(from, from_bytes),
        from_bytes: *mut libc::socklen_t = stored(from_bytes, 1)) -> isize;
}
