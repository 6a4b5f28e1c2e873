//! Functions of the C library that hand memory to the kernel: shared memory is made present first. `tutticc`
//! puts them in the place of those functions (`--wrap`), in the program's own objects.

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::borrow::Cow;
use std::time::{Duration, Instant};

use tutti_dsm::present;

use crate::{dsm_files, dsm_sockets, dsm_waits};

/// The place that a call loads so many bytes from.
fn load(buffer: *const c_void, bytes: usize) -> *const c_void {
    core::ptr::with_exposed_provenance(present::load(buffer.expose_provenance(), bytes))
}

/// The place that a call may store so many bytes to.
fn store(buffer: *mut c_void, bytes: usize) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(present::store(buffer.expose_provenance(), bytes))
}

/// Calls that load from a buffer.
macro_rules! loading {
    ($($name:ident => $real:path, ($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                descriptor: c_int, buffer: *const c_void, bytes: usize, $($argument: $kind),*
            ) -> isize {
                let place = load(buffer, bytes);
                // SAFETY: the program's call.
                let moved = unsafe { $real(descriptor, place, bytes, $($argument),*) };
                present::end_call();
                moved
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
                let place = store(buffer, bytes);
                // SAFETY: the program's call.
                let stored = unsafe { $real(descriptor, place, bytes, $($argument),*) };
                present::end_call();
                // A datagram may be longer (MSG_TRUNC).
                present::stored(buffer.addr(), (stored.max(0) as usize).min(bytes));
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
}

storing! {
    __wrap_read => libc::read, ();
    __wrap_pread => libc::pread, (offset: libc::off_t);
    __wrap_pread64 => libc::pread, (offset: libc::off_t);
    __wrap_recv => libc::recv, (flags: c_int);
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
    let place = store(buffer, all);
    // SAFETY: the program's call.
    let read = unsafe { libc::fread(place, bytes, count, stream) };
    present::end_call();
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
    let place = load(buffer, bytes.saturating_mul(count));
    // SAFETY: the program's call.
    let written = unsafe { libc::fwrite(place, bytes, count, stream) };
    present::end_call();
    written
}

/// The same without the lock of the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fread_unlocked(
    buffer: *mut c_void,
    bytes: usize,
    count: usize,
    stream: *mut libc::FILE,
) -> usize {
    // SAFETY: the program's call, which may be made with the lock, too.
    unsafe { __wrap_fread(buffer, bytes, count, stream) }
}

/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fwrite_unlocked(
    buffer: *const c_void,
    bytes: usize,
    count: usize,
    stream: *mut libc::FILE,
) -> usize {
    // SAFETY: as above.
    unsafe { __wrap_fwrite(buffer, bytes, count, stream) }
}

unsafe extern "C" {
    /// Ends a program whose buffer is too short.
    fn __chk_fail() -> !;
}

/// Functions that programs call in the place of others when they are compiled with `_FORTIFY_SOURCE`: the
/// length of the buffer comes besides. More than it holds ends the program as ever.
macro_rules! fortified {
    ($($name:ident => $real:path, ($($argument:ident: $kind:ty),*), $room:ident, $bytes:expr, ($($given:ident),*) -> $result:ty;)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                // SAFETY: the program's call.
                unsafe {
                    if $bytes > $room {
                        __chk_fail();
                    }
                    $real($($given),*)
                }
            }
        )*
    };
}

fortified! {
    __wrap___read_chk => __wrap_read,
        (file: c_int, to: *mut c_void, bytes: usize, room: usize), room, bytes, (file, to, bytes) -> isize;
    __wrap___pread_chk => __wrap_pread, (file: c_int, to: *mut c_void, bytes: usize, offset: libc::off_t, room: usize),
        room, bytes, (file, to, bytes, offset) -> isize;
    __wrap___pread64_chk => __wrap_pread,
        (file: c_int, to: *mut c_void, bytes: usize, offset: libc::off_t, room: usize),
        room, bytes, (file, to, bytes, offset) -> isize;
    __wrap___recv_chk => __wrap_recv, (socket: c_int, to: *mut c_void, bytes: usize, room: usize, flags: c_int),
        room, bytes, (socket, to, bytes, flags) -> isize;
    __wrap___recvfrom_chk => dsm_sockets::__wrap_recvfrom,
        (socket: c_int, to: *mut c_void, bytes: usize, room: usize, flags: c_int, from: *mut libc::sockaddr,
            from_bytes: *mut libc::socklen_t),
        room, bytes, (socket, to, bytes, flags, from, from_bytes) -> isize;
    __wrap___fread_chk => __wrap_fread,
        (to: *mut c_void, room: usize, bytes: usize, count: usize, stream: *mut libc::FILE),
        room, bytes.saturating_mul(count), (to, bytes, count, stream) -> usize;
    __wrap___fread_unlocked_chk => __wrap_fread,
        (to: *mut c_void, room: usize, bytes: usize, count: usize, stream: *mut libc::FILE),
        room, bytes.saturating_mul(count), (to, bytes, count, stream) -> usize;
    __wrap___readlink_chk => dsm_files::__wrap_readlink,
        (path: *const c_char, to: *mut c_char, bytes: usize, room: usize), room, bytes, (path, to, bytes) -> isize;
    __wrap___readlinkat_chk => dsm_files::__wrap_readlinkat,
        (folder: c_int, path: *const c_char, to: *mut c_char, bytes: usize, room: usize),
        room, bytes, (folder, path, to, bytes) -> isize;
    __wrap___getcwd_chk => dsm_files::__wrap_getcwd,
        (to: *mut c_char, bytes: usize, room: usize), room, bytes, (to, bytes) -> *mut c_char;
    __wrap___poll_chk => dsm_waits::__wrap_poll,
        (descriptors: *mut libc::pollfd, count: libc::nfds_t, limit_ms: c_int, room: usize),
        room, count as usize * size_of::<libc::pollfd>(), (descriptors, count, limit_ms) -> c_int;
    __wrap___ppoll_chk => dsm_waits::__wrap_ppoll,
        (descriptors: *mut libc::pollfd, count: libc::nfds_t, limit: *const libc::timespec,
            mask: *const libc::sigset_t, room: usize),
        room, count as usize * size_of::<libc::pollfd>(), (descriptors, count, limit, mask) -> c_int;
    __wrap___getgroups_chk => dsm_waits::__wrap_getgroups,
        (count: c_int, to: *mut libc::gid_t, room: usize),
        room, count.max(0) as usize * size_of::<libc::gid_t>(), (count, to) -> c_int;
}

/// open(2) of programs that are compiled so: it makes no file, and has no mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's call.
    unsafe { dsm_files::__wrap_open(path, flags, 0) }
}

/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___open64_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's call.
    unsafe { dsm_files::__wrap_open(path, flags, 0) }
}

/// The same beside a folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's call.
    unsafe { dsm_files::__wrap_openat(folder, path, flags, 0) }
}

/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap___openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's call.
    unsafe { dsm_files::__wrap_openat(folder, path, flags, 0) }
}

/// Pieces of memory that a program gives; none where the kernel refuses their number.
///
/// # Safety
/// Pieces of that number stand at the pointer.
unsafe fn pieces<'a>(pieces: *const libc::iovec, count: usize) -> &'a [libc::iovec] {
    if pieces.is_null() || count > libc::UIO_MAXIOV as usize {
        return &[];
    }
    load(pieces.cast(), count * size_of::<libc::iovec>());
    // SAFETY: our contract.
    unsafe { core::slice::from_raw_parts(pieces, count) }
}

/// Pieces as the kernel is to reach them: a copy where they are shared memory, or stand in it.
fn places<'a>(
    pieces: &'a [libc::iovec],
    place: impl Fn(*mut c_void, usize) -> *mut c_void,
) -> Cow<'a, [libc::iovec]> {
    let mut found = Cow::Borrowed(pieces);
    if load(pieces.as_ptr().cast(), size_of_val(pieces)) != pieces.as_ptr().cast() {
        found.to_mut();
    }
    for (number, piece) in pieces.iter().enumerate() {
        let place = place(piece.iov_base, piece.iov_len);
        if place != piece.iov_base {
            found.to_mut()[number].iov_base = place;
        }
    }
    found
}

/// A call loads from these pieces.
fn load_all(pieces: &[libc::iovec]) -> Cow<'_, [libc::iovec]> {
    places(pieces, |base, bytes| load(base, bytes).cast_mut())
}

/// A call may store to these pieces.
fn store_all(pieces: &[libc::iovec]) -> Cow<'_, [libc::iovec]> {
    places(pieces, store)
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
                let placed = $before(all);
                let first = if all.is_empty() { given } else { placed.as_ptr() };
                // SAFETY: the program's call.
                let moved = unsafe { $real(descriptor, first, count, $($argument),*) };
                present::end_call();
                $after(all, moved);
                moved
            }
        )*
    };
}

in_pieces! {
    __wrap_writev => libc::writev, load_all, |_, _| (), ();
    __wrap_pwritev => libc::pwritev, load_all, |_, _| (), (offset: libc::off_t);
    __wrap_pwritev2 => libc::pwritev2, load_all, |_, _| (), (offset: libc::off_t, flags: c_int);
    __wrap_pwritev64v2 => libc::pwritev2, load_all, |_, _| (), (offset: libc::off_t, flags: c_int);
    __wrap_preadv2 => libc::preadv2, store_all, stored_all, (offset: libc::off_t, flags: c_int);
    __wrap_preadv64v2 => libc::preadv2, store_all, stored_all, (offset: libc::off_t, flags: c_int);
    __wrap_pwritev64 => libc::pwritev, load_all, |_, _| (), (offset: libc::off_t);
    __wrap_readv => libc::readv, store_all, stored_all, ();
    __wrap_preadv => libc::preadv, store_all, stored_all, (offset: libc::off_t);
    __wrap_preadv64 => libc::preadv, store_all, stored_all, (offset: libc::off_t);
}

/// The parts of a message that a call of the system looks at, as it does. None: no message.
///
/// # Safety
/// The program's message, if it is one.
unsafe fn parts_of<'a>(message: *const libc::msghdr) -> Option<(libc::msghdr, &'a [libc::iovec])> {
    load(message.cast(), size_of::<libc::msghdr>());
    // SAFETY: our contract; its pieces are as many as it says.
    unsafe {
        let message = *message.as_ref()?;
        Some((message, pieces(message.msg_iov, message.msg_iovlen)))
    }
}

/// The pieces of a message in the place of those that it has; it has some.
fn put_pieces(message: &mut libc::msghdr, places: &[libc::iovec]) {
    if !places.is_empty() {
        message.msg_iov = places.as_ptr().cast_mut();
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
    let Some((mut head, all)) = (unsafe { parts_of(message) }) else {
        // SAFETY: the program's call.
        return unsafe { libc::sendmsg(descriptor, message, flags) };
    };
    head.msg_name = load(head.msg_name, head.msg_namelen as usize).cast_mut();
    head.msg_control = load(head.msg_control, head.msg_controllen).cast_mut();
    let places = load_all(all);
    put_pieces(&mut head, &places);
    // SAFETY: the program's call, by other addresses of the same memory.
    let sent = unsafe { libc::sendmsg(descriptor, &head, flags) };
    present::end_call();
    sent
}

/// See the C library. The kernel stores to the message itself, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_recvmsg(
    descriptor: c_int,
    message: *mut libc::msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the program's message; its lengths are those of before the call.
    let Some((given, all)) = (unsafe { parts_of(message) }) else {
        // SAFETY: the program's call.
        return unsafe { libc::recvmsg(descriptor, message, flags) };
    };
    let mut head = given;
    head.msg_name = store(given.msg_name, given.msg_namelen as usize);
    head.msg_control = store(given.msg_control, given.msg_controllen);
    let places = store_all(all);
    put_pieces(&mut head, &places);
    let message_place = store(message.cast(), size_of::<libc::msghdr>()).cast::<libc::msghdr>();
    // SAFETY: the program's call, by other addresses of the same memory.
    let received = unsafe { libc::recvmsg(descriptor, &mut head, flags) };
    present::end_call();
    if received >= 0 {
        // SAFETY: the program's message, which it may be stored to.
        unsafe {
            (*message_place).msg_namelen = head.msg_namelen;
            (*message_place).msg_controllen = head.msg_controllen;
            (*message_place).msg_flags = head.msg_flags;
        }
        present::stored(message.addr(), size_of::<libc::msghdr>());
        present::stored(given.msg_name.addr(), given.msg_namelen.min(head.msg_namelen) as usize);
        present::stored(given.msg_control.addr(), given.msg_controllen.min(head.msg_controllen));
        stored_all(all, received);
    }
    received
}

/// Whether a message, its pieces or what these lead to is shared memory.
///
/// # Safety
/// The program's messages.
unsafe fn are_shared(messages: *const libc::mmsghdr, count: usize) -> bool {
    // SAFETY: our contract.
    let is_shared = |message: *const libc::mmsghdr| match unsafe { parts_of(message.cast()) } {
        None => false,
        Some((head, all)) => [head.msg_name, head.msg_iov.cast(), head.msg_control]
            .into_iter()
            .chain(all.iter().map(|piece| piece.iov_base))
            .any(|place| present::is_shared(place.addr())),
    };
    present::is_shared(messages.addr()) || (0..count).any(|number| is_shared(messages.wrapping_add(number)))
}

/// The most messages of a call; the kernel takes no more.
const MESSAGES_MAX: usize = libc::UIO_MAXIOV as usize;

/// sendmmsg(2): shared memory goes message by message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_sendmmsg(
    descriptor: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let messages_count = (count as usize).min(MESSAGES_MAX);
    // SAFETY: the program's call and messages.
    unsafe {
        if !are_shared(messages, messages_count) {
            return libc::sendmmsg(descriptor, messages, count, flags as _);
        }
        for number in 0..messages_count {
            let message = messages.add(number);
            let sent = __wrap_sendmsg(descriptor, message.cast(), flags);
            let Ok(sent) = c_uint::try_from(sent) else {
                return if number > 0 { number as c_int } else { -1 };
            };
            set_length(message, sent);
        }
    }
    messages_count as c_int
}

/// recvmmsg(2): shared memory comes message by message. The limit is looked at behind each, as by the kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_recvmmsg(
    descriptor: c_int,
    messages: *mut libc::mmsghdr,
    count: c_uint,
    flags: c_int,
    limit: *mut libc::timespec,
) -> c_int {
    let messages_count = (count as usize).min(MESSAGES_MAX);
    // SAFETY: the program's call and messages.
    unsafe {
        if !are_shared(messages, messages_count) && !present::is_shared(limit.addr()) {
            return libc::recvmmsg(descriptor, messages, count, flags as _, limit);
        }
        let until = limit.as_ref().map(|limit| {
            let limit = Duration::new(limit.tv_sec.max(0) as u64, limit.tv_nsec.clamp(0, 999_999_999) as u32);
            Instant::now().checked_add(limit)
        });
        let mut rest_flags = flags & !libc::MSG_WAITFORONE;
        for number in 0..messages_count {
            let message = messages.add(number);
            let received = __wrap_recvmsg(descriptor, message.cast(), rest_flags);
            let Ok(received) = c_uint::try_from(received) else {
                return if number > 0 { number as c_int } else { -1 };
            };
            set_length(message, received);
            if flags & libc::MSG_WAITFORONE != 0 {
                rest_flags |= libc::MSG_DONTWAIT;
            }
            let Some(until) = until.flatten() else { continue };
            let rest = until.saturating_duration_since(Instant::now());
            set_limit(limit, rest);
            if rest.is_zero() {
                return number as c_int + 1;
            }
        }
    }
    messages_count as c_int
}

/// Says how much of a limit is left, as the kernel does.
///
/// # Safety
/// The program's limit.
unsafe fn set_limit(limit: *mut libc::timespec, rest: Duration) {
    let to = store(limit.cast(), size_of::<libc::timespec>()).cast::<libc::timespec>();
    let rest = libc::timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
    // SAFETY: our contract.
    unsafe { to.write(rest) };
    present::end_call();
    present::stored(limit.addr(), size_of::<libc::timespec>());
}

/// Says in a message of several how long it was.
///
/// # Safety
/// The program's message.
unsafe fn set_length(message: *mut libc::mmsghdr, bytes: c_uint) {
    // SAFETY: our contract.
    let place = unsafe { &raw mut (*message).msg_len };
    let to = store(place.cast(), size_of::<c_uint>()).cast::<c_uint>();
    // SAFETY: as above.
    unsafe { to.write(bytes) };
    present::stored(place.addr(), size_of::<c_uint>());
}

/// vmsplice(2): pieces go into a pipe, or come out of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_vmsplice(
    pipe: c_int,
    given: *const libc::iovec,
    count: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: the program's pieces and call.
    unsafe {
        let all = pieces(given, count);
        let is_source = libc::fcntl(pipe, libc::F_GETFL) & libc::O_ACCMODE == libc::O_RDONLY;
        let placed = if is_source { store_all(all) } else { load_all(all) };
        let first = if all.is_empty() { given } else { placed.as_ptr() };
        let moved = libc::vmsplice(pipe, first, count, flags);
        present::end_call();
        if is_source {
            stored_all(all, moved);
        }
        moved
    }
}

/// Memory of this process and of another one. Of the latter the kernel takes what is there.
macro_rules! between_processes {
    ($($name:ident => $real:path, $before:ident, $after:expr;)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                process: libc::pid_t, given: *const libc::iovec, count: libc::c_ulong,
                remote: *const libc::iovec, remote_count: libc::c_ulong, flags: libc::c_ulong,
            ) -> isize {
                // SAFETY: the program's pieces.
                let (all, others) = unsafe { (pieces(given, count as usize), pieces(remote, remote_count as usize)) };
                let (placed, others_placed) = ($before(all), places(others, |base, _| base));
                let first = if all.is_empty() { given } else { placed.as_ptr() };
                let first_other = if others.is_empty() { remote } else { others_placed.as_ptr() };
                // SAFETY: the program's call.
                let moved = unsafe { $real(process, first, count, first_other, remote_count, flags) };
                present::end_call();
                $after(all, moved);
                moved
            }
        )*
    };
}

between_processes! {
    __wrap_process_vm_readv => libc::process_vm_readv, store_all, stored_all;
    __wrap_process_vm_writev => libc::process_vm_writev, load_all, |_, _| ();
}
