//! Functions of the C library that begin programs, calls of the system by their numbers, and requests that go
//! on behind their call. `tutticc` puts these in their place (`--wrap`), in the program's own objects.
//!
//! | call | shared memory in it |
//! |---|---|
//! | exec and posix_spawn | names, arguments and environment are copied |
//! | syscall | as the function of that name takes it; without one, one line and the end when the kernel refuses |
//! | aio | one line, and the end: a thread of the C library would touch it |

use core::ffi::{CStr, c_char, c_int, c_long, c_uint};
use std::ffi::CString;

use tutti_dsm::{executor, keep, present};

use crate::dsm_arguments::{loaded, placing, stored, text};
use crate::{dsm_calls, dsm_files, dsm_keep, dsm_sockets, dsm_waits};

placing! { if |result| result >= 0;
    __wrap_fputs => libc::fputs, (from: *const c_char = text(from), stream: *mut libc::FILE) -> c_int;
    __wrap_fputs_unlocked => libc::fputs, (from: *const c_char = text(from), stream: *mut libc::FILE) -> c_int;
    __wrap_puts => libc::puts, (from: *const c_char = text(from)) -> c_int;
}

/// Texts up to a null pointer, as the kernel is to get them.
struct Texts {
    pointers: Vec<*const c_char>,
    _copies: Vec<CString>,
}

impl Texts {
    /// None: no part of them is shared memory.
    ///
    /// # Safety
    /// The program's texts, or null.
    unsafe fn of(given: *const *const c_char) -> Option<Self> {
        if given.is_null() {
            return None;
        }
        // SAFETY: our contract.
        let given_pointers = (0..).map(|number| unsafe { given.add(number).read() });
        let all = given_pointers.take_while(|pointer| !pointer.is_null());
        // Without shared memory nothing is allocated: behind vfork, and in handlers, that may not be.
        let has_shared = all.clone().any(|pointer| present::is_shared(pointer.addr()));
        if !has_shared && !present::is_shared(given.addr()) {
            return None;
        }
        let mut copies = Vec::new();
        let mut pointers = Vec::new();
        for pointer in all {
            if present::is_shared(pointer.addr()) {
                // SAFETY: our contract.
                let copy = unsafe { CStr::from_ptr(pointer) }.to_owned();
                pointers.push(copy.as_ptr());
                copies.push(copy);
            } else {
                pointers.push(pointer);
            }
        }
        pointers.push(core::ptr::null());
        Some(Texts { pointers, _copies: copies })
    }
}

/// The copy of texts, or the program's own.
fn place_of(texts: Option<&Texts>, given: *const *const c_char) -> *const *const c_char {
    texts.map_or(given, |texts| texts.pointers.as_ptr())
}

/// Functions that put another program in the place of this process.
macro_rules! executing {
    ($($name:ident => $real:path, ($($first:ident: $kind:ty $(= $placed:expr)?),*), $arguments:ident
        $(, $environment:ident)?;)*
    ) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                $($first: $kind,)* $arguments: *const *const c_char $(, $environment: *const *const c_char)?
            ) -> c_int {
                // SAFETY: the program's texts and call, by other addresses of the same memory.
                unsafe {
                    let copied = Texts::of($arguments);
                    $(let $environment = (Texts::of($environment), $environment);)?
                    $real(
                        $(crate::dsm_arguments::place_of!($first $(, $placed)?).value(),)*
                        place_of(copied.as_ref(), $arguments)
                        $(, place_of($environment.0.as_ref(), $environment.1))?
                    )
                }
            }
        )*
    };
}

executing! {
    __wrap_execv => libc::execv, (path: *const c_char = text(path)), arguments;
    __wrap_execvp => libc::execvp, (path: *const c_char = text(path)), arguments;
    __wrap_execve => libc::execve, (path: *const c_char = text(path)), arguments, environment;
    __wrap_execvpe => libc::execvpe, (path: *const c_char = text(path)), arguments, environment;
    __wrap_fexecve => libc::fexecve, (file: c_int), arguments, environment;
}

/// Functions that begin another program beside this one.
macro_rules! spawning {
    ($($name:ident => $real:path;)*) => {
        $(
            /// See the C library. The child has no shared memory: it gets copies, and another view.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(
                child: *mut libc::pid_t,
                path: *const c_char,
                actions: *const libc::posix_spawn_file_actions_t,
                attributes: *const libc::posix_spawnattr_t,
                arguments: *const *mut c_char,
                environment: *const *mut c_char,
            ) -> c_int {
                // SAFETY: the program's texts and call, by other addresses of the same memory.
                unsafe {
                    let copied = [Texts::of(arguments.cast()), Texts::of(environment.cast())];
                    let number = stored(child, 1);
                    let error = $real(
                        number.value(),
                        text(path).value(),
                        loaded(actions, 1).value(),
                        loaded(attributes, 1).value(),
                        place_of(copied[0].as_ref(), arguments.cast()).cast(),
                        place_of(copied[1].as_ref(), environment.cast()).cast(),
                    );
                    if error == 0 {
                        number.note_stored(0);
                    }
                    error
                }
            }
        )*
    };
}

spawning! {
    __wrap_posix_spawn => libc::posix_spawn;
    __wrap_posix_spawnp => libc::posix_spawnp;
}

/// A pointer that came as a number.
fn pointer<T>(word: c_long) -> *mut T {
    core::ptr::with_exposed_provenance_mut(word as usize)
}

/// syscall(2): calls that are known here take shared memory; others end the job with a line when the kernel
/// refuses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    let words = [first, second, third, fourth, fifth, sixth];
    let shared = words.into_iter().map(|word| word as usize).find(|word| present::is_shared(*word));
    let Some(address) = shared else {
        // SAFETY: the program's call.
        return unsafe { libc::syscall(number, first, second, third, fourth, fifth, sixth) };
    };
    let (file, bytes) = (first as c_int, third as usize);
    // SAFETY: the program's call.
    unsafe {
        match number {
            libc::SYS_read => dsm_calls::__wrap_read(file, pointer(second), bytes) as c_long,
            libc::SYS_write => dsm_calls::__wrap_write(file, pointer(second), bytes) as c_long,
            libc::SYS_pread64 => dsm_calls::__wrap_pread(file, pointer(second), bytes, fourth) as c_long,
            libc::SYS_pwrite64 => dsm_calls::__wrap_pwrite(file, pointer(second), bytes, fourth) as c_long,
            libc::SYS_readv => dsm_calls::__wrap_readv(file, pointer(second), third as c_int) as c_long,
            libc::SYS_writev => dsm_calls::__wrap_writev(file, pointer(second), third as c_int) as c_long,
            libc::SYS_getrandom => {
                dsm_files::__wrap_getrandom(pointer(first), second as usize, third as c_uint) as c_long
            }
            libc::SYS_openat => c_long::from(dsm_files::__wrap_openat(
                file,
                pointer(second),
                third as c_int,
                fourth as c_uint,
            )),
            libc::SYS_getdents64 => dsm_files::__wrap_getdents64(file, pointer(second), bytes) as c_long,
            libc::SYS_fstat => c_long::from(dsm_files::__wrap_fstat(file, pointer(second))),
            libc::SYS_sendto => dsm_sockets::__wrap_sendto(
                file,
                pointer(second),
                bytes,
                fourth as c_int,
                pointer(fifth),
                sixth as libc::socklen_t,
            ) as c_long,
            libc::SYS_recvfrom => dsm_sockets::__wrap_recvfrom(
                file,
                pointer(second),
                bytes,
                fourth as c_int,
                pointer(fifth),
                pointer(sixth),
            ) as c_long,
            libc::SYS_clock_gettime => c_long::from(crate::dsm::__wrap_clock_gettime(file, pointer(second))),
            libc::SYS_nanosleep => c_long::from(dsm_waits::__wrap_nanosleep(pointer(first), pointer(second))),
            libc::SYS_sched_getaffinity => {
                // The kernel says how many bytes it has stored, the C library 0.
                let place = stored(pointer::<u8>(third), second as usize);
                let result = libc::syscall(number, first, second, place.value());
                if let Ok(bytes) = usize::try_from(result) {
                    present::stored(third as usize, bytes);
                }
                result
            }
            libc::SYS_prctl => c_long::from(dsm_waits::__wrap_prctl(
                file,
                second as usize,
                bytes,
                fourth as usize,
                fifth as usize,
            )),
            libc::SYS_futex if present::is_shared(first as usize) => {
                keep::refuse_of_threads(first as usize, "futex", "LOCK");
                libc::syscall(number, first, second, third, fourth, fifth, sixth)
            }
            libc::SYS_munmap => c_long::from(dsm_keep::__wrap_munmap(pointer(first), second as usize)),
            libc::SYS_mprotect => {
                c_long::from(dsm_keep::__wrap_mprotect(pointer(first), second as usize, third as c_int))
            }
            libc::SYS_madvise => {
                c_long::from(dsm_keep::__wrap_madvise(pointer(first), second as usize, third as c_int))
            }
            _ => {
                // Words behind those of the call are left over from others: the kernel knows whether it uses
                // one. What it would store without a note faults.
                executor::cover();
                executor::rearm();
                let result = libc::syscall(number, first, second, third, fourth, fifth, sixth);
                if result < 0 && *libc::__errno_location() == libc::EFAULT {
                    keep::refuse_call(number, address);
                }
                result
            }
        }
    }
}

/// Requests whose control block, or whose buffer, may be shared memory.
macro_rules! later {
    ($($name:ident => $real:path, $text:literal, $instead:literal;)*) => {
        $(
            /// See the C library.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(block: *mut libc::aiocb) -> c_int {
                // SAFETY: the program's request.
                unsafe {
                    refuse_later(block, $text, $instead);
                    $real(block)
                }
            }
        )*
    };
}

later! {
    __wrap_aio_read => libc::aio_read, "aio_read", "read";
    __wrap_aio_read64 => libc::aio_read, "aio_read", "read";
    __wrap_aio_write => libc::aio_write, "aio_write", "write";
    __wrap_aio_write64 => libc::aio_write, "aio_write", "write";
}

/// # Safety
/// The program's request, or null.
unsafe fn refuse_later(block: *const libc::aiocb, call: &str, instead: &str) {
    // SAFETY: our contract.
    let buffer = unsafe { block.as_ref() }.map_or(0, |block| block.aio_buf.addr());
    for address in [block.addr(), buffer] {
        keep::refuse_later(address, call, instead);
    }
}

/// lio_listio(3): each of its requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_lio_listio(
    mode: c_int,
    blocks: *const *mut libc::aiocb,
    count: c_int,
    event: *mut libc::sigevent,
) -> c_int {
    // SAFETY: the program's requests and call.
    unsafe {
        for number in 0..usize::try_from(count).unwrap_or(0) {
            refuse_later(blocks.add(number).read(), "lio_listio", "read or write");
        }
        libc::lio_listio(mode, blocks, count, event)
    }
}

/// The same where offsets have 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_lio_listio64(
    mode: c_int,
    blocks: *const *mut libc::aiocb,
    count: c_int,
    event: *mut libc::sigevent,
) -> c_int {
    // SAFETY: the program's requests and call.
    unsafe { __wrap_lio_listio(mode, blocks, count, event) }
}
