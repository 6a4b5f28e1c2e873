//! Functions of the C library that hand names of files, and places for what is known of files, to the kernel.
//! `tutticc` puts these in their place (`--wrap`), in the program's own objects.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use tutti_dsm::present;

use crate::dsm_arguments::{Placed, counted, filled, loaded, placing, stored, text};

placing! { if |result| result >= 0;
    __wrap_open => libc::open, (path: *const c_char = text(path), flags: c_int, mode: c_uint) -> c_int;
    __wrap_open64 => libc::open, (path: *const c_char = text(path), flags: c_int, mode: c_uint) -> c_int;
    __wrap_openat => libc::openat,
        (folder: c_int, path: *const c_char = text(path), flags: c_int, mode: c_uint) -> c_int;
    __wrap_openat64 => libc::openat,
        (folder: c_int, path: *const c_char = text(path), flags: c_int, mode: c_uint) -> c_int;
    __wrap_creat => libc::creat, (path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_creat64 => libc::creat, (path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_stat => libc::stat, (path: *const c_char = text(path), to: *mut libc::stat = stored(to, 1)) -> c_int;
    __wrap_stat64 => libc::stat, (path: *const c_char = text(path), to: *mut libc::stat = stored(to, 1)) -> c_int;
    __wrap_lstat => libc::lstat, (path: *const c_char = text(path), to: *mut libc::stat = stored(to, 1)) -> c_int;
    __wrap_lstat64 => libc::lstat, (path: *const c_char = text(path), to: *mut libc::stat = stored(to, 1)) -> c_int;
    __wrap_fstat => libc::fstat, (file: c_int, to: *mut libc::stat = stored(to, 1)) -> c_int;
    __wrap_fstat64 => libc::fstat, (file: c_int, to: *mut libc::stat = stored(to, 1)) -> c_int;
    __wrap_fstatat => libc::fstatat,
        (folder: c_int, path: *const c_char = text(path), to: *mut libc::stat = stored(to, 1), flags: c_int) -> c_int;
    __wrap_fstatat64 => libc::fstatat,
        (folder: c_int, path: *const c_char = text(path), to: *mut libc::stat = stored(to, 1), flags: c_int) -> c_int;
    __wrap_statfs => libc::statfs,
        (path: *const c_char = text(path), to: *mut libc::statfs = stored(to, 1)) -> c_int;
    __wrap_statfs64 => libc::statfs,
        (path: *const c_char = text(path), to: *mut libc::statfs = stored(to, 1)) -> c_int;
    __wrap_fstatfs => libc::fstatfs, (file: c_int, to: *mut libc::statfs = stored(to, 1)) -> c_int;
    __wrap_fstatfs64 => libc::fstatfs, (file: c_int, to: *mut libc::statfs = stored(to, 1)) -> c_int;
    __wrap_statvfs => libc::statvfs,
        (path: *const c_char = text(path), to: *mut libc::statvfs = stored(to, 1)) -> c_int;
    __wrap_statvfs64 => libc::statvfs,
        (path: *const c_char = text(path), to: *mut libc::statvfs = stored(to, 1)) -> c_int;
    __wrap_access => libc::access, (path: *const c_char = text(path), mode: c_int) -> c_int;
    __wrap_faccessat => libc::faccessat,
        (folder: c_int, path: *const c_char = text(path), mode: c_int, flags: c_int) -> c_int;
    __wrap_chdir => libc::chdir, (path: *const c_char = text(path)) -> c_int;
    __wrap_mkdir => libc::mkdir, (path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_mkdirat => libc::mkdirat,
        (folder: c_int, path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_rmdir => libc::rmdir, (path: *const c_char = text(path)) -> c_int;
    __wrap_unlink => libc::unlink, (path: *const c_char = text(path)) -> c_int;
    __wrap_unlinkat => libc::unlinkat, (folder: c_int, path: *const c_char = text(path), flags: c_int) -> c_int;
    __wrap_remove => libc::remove, (path: *const c_char = text(path)) -> c_int;
    __wrap_rename => libc::rename, (from: *const c_char = text(from), to: *const c_char = text(to)) -> c_int;
    __wrap_renameat => libc::renameat, (from_folder: c_int, from: *const c_char = text(from),
        to_folder: c_int, to: *const c_char = text(to)) -> c_int;
    __wrap_link => libc::link, (from: *const c_char = text(from), to: *const c_char = text(to)) -> c_int;
    __wrap_symlink => libc::symlink, (from: *const c_char = text(from), to: *const c_char = text(to)) -> c_int;
    __wrap_chmod => libc::chmod, (path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_fchmodat => libc::fchmodat,
        (folder: c_int, path: *const c_char = text(path), mode: libc::mode_t, flags: c_int) -> c_int;
    __wrap_chown => libc::chown,
        (path: *const c_char = text(path), user: libc::uid_t, group: libc::gid_t) -> c_int;
    __wrap_lchown => libc::lchown,
        (path: *const c_char = text(path), user: libc::uid_t, group: libc::gid_t) -> c_int;
    __wrap_truncate => libc::truncate, (path: *const c_char = text(path), bytes: libc::off_t) -> c_int;
    __wrap_truncate64 => libc::truncate, (path: *const c_char = text(path), bytes: libc::off_t) -> c_int;
    __wrap_mkfifo => libc::mkfifo, (path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_mknod => libc::mknod,
        (path: *const c_char = text(path), mode: libc::mode_t, device: libc::dev_t) -> c_int;
    __wrap_utime => libc::utime,
        (path: *const c_char = text(path), times: *const libc::utimbuf = loaded(times, 1)) -> c_int;
    __wrap_utimes => libc::utimes,
        (path: *const c_char = text(path), times: *const libc::timeval = loaded(times, 2)) -> c_int;
    __wrap_utimensat => libc::utimensat, (folder: c_int, path: *const c_char = text(path),
        times: *const libc::timespec = loaded(times, 2), flags: c_int) -> c_int;
    __wrap_futimens => libc::futimens, (file: c_int, times: *const libc::timespec = loaded(times, 2)) -> c_int;
    __wrap_readlink => libc::readlink,
        (path: *const c_char = text(path), to: *mut c_char = counted(to, bytes), bytes: usize) -> isize;
    __wrap_readlinkat => libc::readlinkat, (folder: c_int, path: *const c_char = text(path),
        to: *mut c_char = counted(to, bytes), bytes: usize) -> isize;
    __wrap_getxattr => libc::getxattr, (path: *const c_char = text(path), name: *const c_char = text(name),
        to: *mut c_void = filled(to, bytes), bytes: usize) -> isize;
    __wrap_fgetxattr => libc::fgetxattr, (file: c_int, name: *const c_char = text(name),
        to: *mut c_void = filled(to, bytes), bytes: usize) -> isize;
    __wrap_setxattr => libc::setxattr, (path: *const c_char = text(path), name: *const c_char = text(name),
        from: *const c_void = loaded(from.cast::<u8>(), bytes).cast(), bytes: usize, flags: c_int) -> c_int;
    __wrap_lgetxattr => libc::lgetxattr, (path: *const c_char = text(path), name: *const c_char = text(name),
        to: *mut c_void = filled(to, bytes), bytes: usize) -> isize;
    __wrap_lsetxattr => libc::lsetxattr, (path: *const c_char = text(path), name: *const c_char = text(name),
        from: *const c_void = loaded(from.cast::<u8>(), bytes).cast(), bytes: usize, flags: c_int) -> c_int;
    __wrap_fsetxattr => libc::fsetxattr, (file: c_int, name: *const c_char = text(name),
        from: *const c_void = loaded(from.cast::<u8>(), bytes).cast(), bytes: usize, flags: c_int) -> c_int;
    __wrap_listxattr => libc::listxattr,
        (path: *const c_char = text(path), to: *mut c_char = counted(to, bytes), bytes: usize) -> isize;
    __wrap_llistxattr => libc::llistxattr,
        (path: *const c_char = text(path), to: *mut c_char = counted(to, bytes), bytes: usize) -> isize;
    __wrap_flistxattr => libc::flistxattr,
        (file: c_int, to: *mut c_char = counted(to, bytes), bytes: usize) -> isize;
    __wrap_removexattr => libc::removexattr,
        (path: *const c_char = text(path), name: *const c_char = text(name)) -> c_int;
    __wrap_lremovexattr => libc::lremovexattr,
        (path: *const c_char = text(path), name: *const c_char = text(name)) -> c_int;
    __wrap_fremovexattr => libc::fremovexattr, (file: c_int, name: *const c_char = text(name)) -> c_int;
    __wrap_statx => libc::statx, (folder: c_int, path: *const c_char = text(path), flags: c_int, mask: c_uint,
        to: *mut libc::statx = stored(to, 1)) -> c_int;
    __wrap_linkat => libc::linkat, (from_folder: c_int, from: *const c_char = text(from), to_folder: c_int,
        to: *const c_char = text(to), flags: c_int) -> c_int;
    __wrap_symlinkat => libc::symlinkat,
        (from: *const c_char = text(from), folder: c_int, to: *const c_char = text(to)) -> c_int;
    __wrap_renameat2 => libc::renameat2, (from_folder: c_int, from: *const c_char = text(from),
        to_folder: c_int, to: *const c_char = text(to), flags: c_uint) -> c_int;
    __wrap_mkfifoat => libc::mkfifoat,
        (folder: c_int, path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_mknodat => libc::mknodat, (folder: c_int, path: *const c_char = text(path), mode: libc::mode_t,
        device: libc::dev_t) -> c_int;
    __wrap_fchownat => libc::fchownat, (folder: c_int, path: *const c_char = text(path), user: libc::uid_t,
        group: libc::gid_t, flags: c_int) -> c_int;
    __wrap_lchmod => lchmod, (path: *const c_char = text(path), mode: libc::mode_t) -> c_int;
    __wrap_scandir => scandir, (path: *const c_char = text(path), list: *mut c_void, choose: *const c_void,
        compare: *const c_void) -> c_int;
    __wrap_scandir64 => scandir, (path: *const c_char = text(path), list: *mut c_void, choose: *const c_void,
        compare: *const c_void) -> c_int;
    __wrap_ftw => ftw, (path: *const c_char = text(path), visit: *const c_void, depth: c_int) -> c_int;
    __wrap_ftw64 => ftw, (path: *const c_char = text(path), visit: *const c_void, depth: c_int) -> c_int;
    __wrap_nftw => nftw,
        (path: *const c_char = text(path), visit: *const c_void, depth: c_int, flags: c_int) -> c_int;
    __wrap_nftw64 => nftw,
        (path: *const c_char = text(path), visit: *const c_void, depth: c_int, flags: c_int) -> c_int;
    __wrap_glob => glob, (pattern: *const c_char = text(pattern), flags: c_int, error: *const c_void,
        found: *mut c_void) -> c_int;
    __wrap_glob64 => glob, (pattern: *const c_char = text(pattern), flags: c_int, error: *const c_void,
        found: *mut c_void) -> c_int;
    __wrap_chroot => libc::chroot, (path: *const c_char = text(path)) -> c_int;
    __wrap_pathconf => libc::pathconf, (path: *const c_char = text(path), name: c_int) -> c_long;
    __wrap_eaccess => libc::eaccess, (path: *const c_char = text(path), mode: c_int) -> c_int;
    __wrap_euidaccess => libc::euidaccess, (path: *const c_char = text(path), mode: c_int) -> c_int;
    __wrap_lutimes => libc::lutimes,
        (path: *const c_char = text(path), times: *const libc::timeval = loaded(times, 2)) -> c_int;
    __wrap_futimes => libc::futimes, (file: c_int, times: *const libc::timeval = loaded(times, 2)) -> c_int;
    __wrap_futimesat => futimesat, (folder: c_int, path: *const c_char = text(path),
        times: *const libc::timeval = loaded(times, 2)) -> c_int;
    __wrap_getdents64 => getdents64, (folder: c_int, to: *mut c_void = filled(to, bytes), bytes: usize) -> isize;
    __wrap_shm_open => libc::shm_open,
        (name: *const c_char = text(name), flags: c_int, mode: libc::mode_t) -> c_int;
    __wrap_shm_unlink => libc::shm_unlink, (name: *const c_char = text(name)) -> c_int;
    __wrap_inotify_add_watch => libc::inotify_add_watch,
        (queue: c_int, path: *const c_char = text(path), events: u32) -> c_int;
    __wrap_name_to_handle_at => libc::name_to_handle_at, (folder: c_int, path: *const c_char = text(path),
        to: *mut libc::file_handle = handle(to), mount: *mut c_int = stored(mount, 1), flags: c_int) -> c_int;
    __wrap_open_by_handle_at => libc::open_by_handle_at,
        (folder: c_int, from: *mut libc::file_handle = known_handle(from), flags: c_int) -> c_int;
    __wrap_memfd_create => libc::memfd_create, (name: *const c_char = text(name), flags: c_uint) -> c_int;
    __wrap_system => libc::system, (command: *const c_char = text(command)) -> c_int;
    __wrap_pipe => libc::pipe, (ends: *mut c_int = stored(ends, 2)) -> c_int;
    __wrap_pipe2 => libc::pipe2, (ends: *mut c_int = stored(ends, 2), flags: c_int) -> c_int;
    __wrap_sendfile => libc::sendfile,
        (to: c_int, from: c_int, offset: *mut libc::off_t = stored(offset, 1), bytes: usize) -> isize;
    __wrap_sendfile64 => libc::sendfile,
        (to: c_int, from: c_int, offset: *mut libc::off_t = stored(offset, 1), bytes: usize) -> isize;
    __wrap_copy_file_range => libc::copy_file_range,
        (from: c_int, from_offset: *mut libc::off64_t = stored(from_offset, 1), to: c_int,
            to_offset: *mut libc::off64_t = stored(to_offset, 1), bytes: usize, flags: c_uint) -> isize;
    __wrap_splice => libc::splice,
        (from: c_int, from_offset: *mut libc::loff_t = stored(from_offset, 1), to: c_int,
            to_offset: *mut libc::loff_t = stored(to_offset, 1), bytes: usize, flags: c_uint) -> isize;
    __wrap_getrandom => libc::getrandom,
        (to: *mut c_void = filled(to, bytes), bytes: usize, flags: c_uint) -> isize;
    __wrap_getentropy => libc::getentropy,
        (to: *mut c_void = stored(to.cast::<u8>(), bytes).cast(), bytes: usize) -> c_int;
    __wrap_msgsnd => libc::msgsnd, (queue: c_int, from: *const c_void = message(from, bytes), bytes: usize,
        flags: c_int) -> c_int;
    __wrap_semop => libc::semop, (set: c_int,
        operations: *mut libc::sembuf = loaded(operations.cast_const(), count).cast_mut(),
        count: usize) -> c_int;
}

unsafe extern "C" {
    fn futimesat(folder: c_int, path: *const c_char, times: *const libc::timeval) -> c_int;
    fn lchmod(path: *const c_char, mode: libc::mode_t) -> c_int;
    fn scandir(
        path: *const c_char,
        list: *mut c_void,
        choose: *const c_void,
        compare: *const c_void,
    ) -> c_int;
    fn ftw(path: *const c_char, visit: *const c_void, depth: c_int) -> c_int;
    fn nftw(path: *const c_char, visit: *const c_void, depth: c_int, flags: c_int) -> c_int;
    fn glob(pattern: *const c_char, flags: c_int, error: *const c_void, found: *mut c_void) -> c_int;
    fn getdents64(folder: c_int, to: *mut c_void, bytes: usize) -> isize;
}

placing! { if |stream| !stream.is_null();
    __wrap_opendir => libc::opendir, (path: *const c_char = text(path)) -> *mut libc::DIR;
    __wrap_popen => libc::popen,
        (command: *const c_char = text(command), kind: *const c_char = text(kind)) -> *mut libc::FILE;
    __wrap_freopen => libc::freopen, (path: *const c_char = text(path), mode: *const c_char = text(mode),
        stream: *mut libc::FILE) -> *mut libc::FILE;
    __wrap_freopen64 => libc::freopen, (path: *const c_char = text(path), mode: *const c_char = text(mode),
        stream: *mut libc::FILE) -> *mut libc::FILE;
}

/// A message of a queue: a number, then so many bytes.
fn message(place: *const c_void, bytes: usize) -> Placed<*const c_void> {
    loaded(place.cast::<u8>(), bytes.saturating_add(size_of::<c_long>())).cast()
}

/// msgrcv(2): the result counts what comes behind the number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_msgrcv(
    queue: c_int,
    to: *mut c_void,
    bytes: usize,
    kind: c_long,
    flags: c_int,
) -> isize {
    let place = stored(to.cast::<u8>(), bytes.saturating_add(size_of::<c_long>()));
    // SAFETY: the program's call, by another address of the same memory.
    let received = unsafe { libc::msgrcv(queue, place.value().cast(), bytes, kind, flags) };
    if let Ok(received) = usize::try_from(received) {
        present::stored(to.addr(), received + size_of::<c_long>());
    }
    received
}

/// getcwd(3): with a place of the program's it stores a text there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_getcwd(to: *mut c_char, bytes: usize) -> *mut c_char {
    let place = counted(to, bytes);
    // SAFETY: the program's call, by another address of the same memory; the text that it leaves has an end.
    unsafe {
        let found = libc::getcwd(place.value(), bytes);
        if to.is_null() || found.is_null() {
            return found;
        }
        place.note_stored(libc::strlen(found) + 1);
    }
    to
}

/// Calls that make a file from a template, whose last letters they change.
macro_rules! from_template {
    ($($name:ident => $real:path, ($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(template: *mut c_char, $($argument: $kind),*) -> c_int {
                // SAFETY: the program's text and call, by another address of the same memory.
                unsafe {
                    let bytes = if template.is_null() { 0 } else { libc::strlen(template) + 1 };
                    let place = stored(template, bytes);
                    let file = $real(place.value(), $($argument),*);
                    if file >= 0 {
                        place.note_stored(0);
                    }
                    file
                }
            }
        )*
    };
}

from_template! {
    __wrap_mkstemp => libc::mkstemp, ();
    __wrap_mkstemp64 => libc::mkstemp, ();
    __wrap_mkostemp => libc::mkostemp, (flags: c_int);
    __wrap_mkostemp64 => libc::mkostemp, (flags: c_int);
    __wrap_mkstemps => libc::mkstemps, (behind: c_int);
    __wrap_mkstemps64 => libc::mkstemps, (behind: c_int);
    __wrap_mkostemps => libc::mkostemps, (behind: c_int, flags: c_int);
    __wrap_mkostemps64 => libc::mkostemps, (behind: c_int, flags: c_int);
}

/// ttyname_r(3): a text that is as long as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ttyname_r(terminal: c_int, to: *mut c_char, bytes: usize) -> c_int {
    let place = counted(to, bytes);
    // SAFETY: the program's call, by another address of the same memory; the text that it leaves has an end.
    unsafe {
        let error = libc::ttyname_r(terminal, place.value(), bytes);
        if error == 0 {
            place.note_stored(libc::strlen(place.value()) + 1);
        }
        error
    }
}

/// eventfd_read(3): a read of one number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_eventfd_read(file: c_int, to: *mut libc::eventfd_t) -> c_int {
    // SAFETY: the program's call.
    let read = unsafe { crate::dsm_calls::__wrap_read(file, to.cast(), size_of::<libc::eventfd_t>()) };
    if read == size_of::<libc::eventfd_t>() as isize { 0 } else { -1 }
}

/// arc4random_buf(3): bytes of getrandom, which gives 256 at once without an interruption.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_arc4random_buf(to: *mut c_void, bytes: usize) {
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(256);
        // SAFETY: the program's memory.
        let got = unsafe { __wrap_getrandom(to.byte_add(at), part, 0) };
        // The kernel is asked until it has entropy, as the C library does; one without the call ends it.
        // SAFETY: the place is this thread's.
        if got < 0 && !matches!(unsafe { *libc::__errno_location() }, libc::EINTR | libc::EAGAIN) {
            std::process::abort();
        }
        at += usize::try_from(got).unwrap_or(0);
    }
}

/// A handle of a file that a call loads.
///
/// # Safety
/// The length can be read, or there is none.
unsafe fn known_handle(place: *mut libc::file_handle) -> Placed<*mut libc::file_handle> {
    // SAFETY: our contract.
    let bytes = unsafe { handle_bytes(place) };
    loaded(place.cast_const().cast::<u8>(), bytes).cast_mut().cast()
}

/// A handle of a file, which says before how long it may be.
///
/// # Safety
/// The length can be read, or there is none.
unsafe fn handle(place: *mut libc::file_handle) -> Placed<*mut libc::file_handle> {
    // SAFETY: our contract.
    stored(place.cast::<u8>(), unsafe { handle_bytes(place) }).cast()
}

/// Bytes of a handle with its head.
///
/// # Safety
/// The length can be read, or there is none.
unsafe fn handle_bytes(place: *const libc::file_handle) -> usize {
    let head = size_of::<[c_int; 2]>();
    loaded(place.cast::<u8>(), head);
    // SAFETY: our contract.
    let bytes = unsafe { place.as_ref() }.map_or(0, |handle| handle.handle_bytes as usize);
    head + bytes.min(libc::MAX_HANDLE_SZ as usize)
}

/// mkdtemp(3): the template that it was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mkdtemp(template: *mut c_char) -> *mut c_char {
    // SAFETY: the program's text and call, by another address of the same memory.
    unsafe {
        let bytes = if template.is_null() { 0 } else { libc::strlen(template) + 1 };
        let place = stored(template, bytes);
        if libc::mkdtemp(place.value()).is_null() {
            return core::ptr::null_mut();
        }
        place.note_stored(0);
    }
    template
}

/// fcntl(2): locks are described in memory; other commands take a number, or the address of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fcntl(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    let place = match command {
        libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW => stored(argument.cast::<libc::flock>(), 1).cast(),
        libc::F_OFD_GETLK | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            stored(argument.cast::<libc::flock>(), 1).cast()
        }
        _ => crate::dsm_arguments::plain(argument),
    };
    // SAFETY: the program's call, by another address of the same memory.
    unsafe {
        let result = libc::fcntl(file, command, place.value());
        // The others leave the lock as it is.
        if result >= 0 && matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
            place.note_stored(0);
        }
        result
    }
}

/// The same where offsets have 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fcntl64(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program's call.
    unsafe { __wrap_fcntl(file, command, argument) }
}

/// ioctl(2): the number of a request says how many bytes its argument has, but for old ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_ioctl(file: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int {
    const WRITTEN_BY_KERNEL: libc::c_ulong = 2;
    const OLD: libc::c_ulong = 0;
    /// Requests about terminals, of the modes that the kernel keeps.
    const MODES: libc::c_ulong = libc::TCGETS;
    const SET_MODES: core::ops::RangeInclusive<libc::c_ulong> = libc::TCSETS..=libc::TCSETSF;
    const MODES_BYTES: usize = 36;
    /// Requests about an interface of the network; those that ask are odd, but for two.
    const INTERFACES: core::ops::RangeInclusive<libc::c_ulong> = libc::SIOCGIFFLAGS..=0x8942;
    const OF_NAME: libc::c_ulong = 0x8910;
    const OF_QUEUE: libc::c_ulong = 0x8942;
    let (bytes, is_stored) = match request {
        libc::FIONREAD | libc::TIOCOUTQ | libc::TIOCGPGRP | libc::TIOCGSID | libc::TIOCMGET => {
            (size_of::<c_int>(), true)
        }
        libc::FIONBIO | libc::FIOASYNC | libc::TIOCSPGRP => (size_of::<c_int>(), false),
        MODES => (MODES_BYTES, true),
        _ if SET_MODES.contains(&request) => (MODES_BYTES, false),
        OF_NAME => (size_of::<libc::ifreq>(), true),
        _ if INTERFACES.contains(&request) => {
            (size_of::<libc::ifreq>(), request & 1 == 1 || request == OF_QUEUE)
        }
        libc::TIOCGWINSZ => (size_of::<libc::winsize>(), true),
        libc::TIOCSWINSZ => (size_of::<libc::winsize>(), false),
        _ if request >> 30 == OLD => (0, false),
        _ => ((request >> 16 & 0x3fff) as usize, request >> 30 & WRITTEN_BY_KERNEL != 0),
    };
    let place = if bytes == 0 {
        crate::dsm_arguments::plain(argument)
    } else {
        stored(argument.cast::<u8>(), bytes).cast()
    };
    // SAFETY: the program's call, by another address of the same memory.
    unsafe {
        let result = libc::ioctl(file, request, place.value());
        if result >= 0 && is_stored {
            place.note_stored(0);
        }
        result
    }
}

/// Buffers of streams stay the C library's own where a program gives shared memory: the library would hand it
/// to the kernel at any time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_setvbuf(
    stream: *mut libc::FILE,
    buffer: *mut c_char,
    mode: c_int,
    bytes: usize,
) -> c_int {
    let buffer = if present::is_shared(buffer.addr()) { core::ptr::null_mut() } else { buffer };
    // SAFETY: the program's call.
    unsafe { libc::setvbuf(stream, buffer, mode, bytes) }
}

/// The same with a buffer of a length that is fixed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_setbuf(stream: *mut libc::FILE, buffer: *mut c_char) {
    if !present::is_shared(buffer.addr()) {
        // SAFETY: the program's call.
        unsafe { libc::setbuf(stream, buffer) };
    }
}

unsafe extern "C" {
    fn setbuffer(stream: *mut libc::FILE, buffer: *mut c_char, bytes: usize);
}

/// The same with a buffer of any length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_setbuffer(stream: *mut libc::FILE, buffer: *mut c_char, bytes: usize) {
    if !present::is_shared(buffer.addr()) {
        // SAFETY: the program's call.
        unsafe { setbuffer(stream, buffer, bytes) };
    }
}
