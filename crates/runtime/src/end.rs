//! The end of the job by this process: MPI_Abort, an error that nobody handles, shmem_global_exit.
//!
//! ```text
//! arm the clock -> flush what the program has printed -> tell the starter -> _exit
//!                     (1 s)  ------------------------->  the same, by the clock's signal
//! ```
//!
//! What the program has printed is in buffers of its language. It goes out first, since the starter kills all
//! ranks as soon as it knows. Another thread may hold the lock of a stream for ever (it writes to a pipe that
//! nobody reads), and this function may have been called from a signal handler that has interrupted anything:
//! so nothing here needs the process lock or the heap, and a clock ends it whatever it waits for. Exit
//! handlers do not run: those of libraries would work on what other threads still use.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::SeqCst};

use tutti_shm::ticket::Notice;

use crate::stdio;

/// The clock ticks so often, not once, so that a time in which the job is frozen does not count.
const TICK_MICROSECONDS: libc::suseconds_t = 50_000;
/// After so many ticks the process ends, flushed or not.
const TICKS_MAX: u32 = 18;

/// The connection to the starter, and the process that it is of; -1: none.
static CONNECTION: AtomicI32 = AtomicI32::new(-1);
static OWNER: AtomicI32 = AtomicI32::new(-1);
/// A thread is ending the job.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Notice of that thread to the starter, if any, and the exit status.
static MESSAGE: [AtomicU32; Notice::BYTES / 4] = [const { AtomicU32::new(0) }; Notice::BYTES / 4];
static HAS_MESSAGE: AtomicBool = AtomicBool::new(false);
static STATUS: AtomicI32 = AtomicI32::new(1);
static TICKS: AtomicU32 = AtomicU32::new(0);

/// From now on this process can end its job by this connection.
pub(crate) fn set_connection(connection: BorrowedFd<'_>) {
    // SAFETY: a number is asked for.
    OWNER.store(unsafe { libc::getpid() }, SeqCst);
    CONNECTION.store(connection.as_raw_fd(), SeqCst);
}

/// Forgets the connection: this process is in the job no more, so that its end is its own.
pub(crate) fn forget_connection() {
    CONNECTION.store(-1, SeqCst);
}

/// Ends the job, if this process is in one, and the process with a status.
pub fn end(notice: Notice, status: c_int) -> ! {
    if IS_ENDING.swap(true, SeqCst) {
        // Another thread does it, or this one, which a signal has interrupted in it: the clock ends both.
        await_clock();
    }
    for (word, bytes) in MESSAGE.iter().zip(notice.encode().chunks_exact(4)) {
        word.store(u32::from_ne_bytes(bytes.try_into().expect("four bytes")), SeqCst);
    }
    HAS_MESSAGE.store(true, SeqCst);
    flush_and_finish(status)
}

/// Ends the process with a status: its job has ended otherwise.
pub(crate) fn exit(status: c_int) -> ! {
    if IS_ENDING.swap(true, SeqCst) {
        await_clock();
    }
    flush_and_finish(status)
}

fn flush_and_finish(status: c_int) -> ! {
    STATUS.store(status, SeqCst);
    start_clock();
    flush();
    finish(0)
}

/// Flushes what the program has printed, within a second; before the process ends by a signal of its own.
pub fn flush_before_death(status: c_int) {
    if !IS_ENDING.swap(true, SeqCst) {
        STATUS.store(status, SeqCst);
        start_clock();
        flush();
        stop_clock();
    }
}

/// Tells the starter and leaves. Also from the handler of the clock, where nothing may wait.
fn finish(flags: c_int) -> ! {
    let mut bytes = [0_u8; Notice::BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(4).zip(&MESSAGE) {
        bytes.copy_from_slice(&word.load(SeqCst).to_ne_bytes());
    }
    let connection = CONNECTION.load(SeqCst);
    // SAFETY: system calls on memory of ours. A forked child is not in the job: the connection is its
    // parent's.
    unsafe {
        if HAS_MESSAGE.load(SeqCst) && connection >= 0 && OWNER.load(SeqCst) == libc::getpid() {
            libc::send(connection, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL | flags);
        }
        libc::_exit(STATUS.load(SeqCst))
    }
}

extern "C" fn handle_tick(_: c_int) {
    if TICKS.fetch_add(1, SeqCst) >= TICKS_MAX {
        finish(libc::MSG_DONTWAIT);
    }
}

fn set_clock(microseconds: libc::suseconds_t) {
    let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let times = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: the value is ours.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &times, std::ptr::null_mut()) };
}

fn start_clock() {
    // SAFETY: zeroed is a value of these plain structures, which are filled here; the handler makes calls
    // that are allowed in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle_tick as extern "C" fn(c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
    }
    let_tick();
    set_clock(TICK_MICROSECONDS);
}

fn stop_clock() {
    set_clock(0);
}

/// The clock's signal reaches this thread, whatever it had blocked.
fn let_tick() {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}

fn await_clock() -> ! {
    let_tick();
    loop {
        // SAFETY: it waits for a signal.
        unsafe { libc::pause() };
    }
}

/// A function of a language's library that flushes a stream, or all of them, and the object that it is given.
type Flush = unsafe extern "C" fn(*const c_void);

/// Buffers of languages that are not those of C: the function, and the object that it works on, if any. A
/// program that does not use the language has no such symbol.
const OTHERS: [(&CStr, Option<&CStr>); 5] = [
    // All units of gfortran.
    (c"_gfortran_flush_i4", None),
    // std::cout, std::clog, std::wcout of libstdc++: they have buffers after sync_with_stdio(false).
    (c"_ZNSo5flushEv", Some(c"_ZSt4cout")),
    (c"_ZNSo5flushEv", Some(c"_ZSt4clog")),
    (c"_ZNSt13basic_ostreamIwSt11char_traitsIwEE5flushEv", Some(c"_ZSt5wcout")),
    // std::cout of libc++.
    (c"_ZNSt3__113basic_ostreamIcNS_11char_traitsIcEEE5flushEv", Some(c"_ZNSt3__14coutE")),
];

/// Functions of glibc that walk the streams: lock the list, its first place, the place behind it, the one
/// behind the last, a place's stream, unlock.
const WALK: [&CStr; 6] = [
    c"_IO_list_lock",
    c"_IO_iter_begin",
    c"_IO_iter_next",
    c"_IO_iter_end",
    c"_IO_iter_file",
    c"_IO_list_unlock",
];

/// Flushes each stream whose lock is free or this thread's.
///
/// `fflush(NULL)` waits for the first stream that is held, and what stands behind it is lost with the clock.
/// The thread that a signal has interrupted may hold one that it can never release: the lock is taken before
/// its owner is written down.
///
/// # Safety
///
/// The clock runs.
unsafe fn flush_free_streams() {
    let functions = WALK.map(symbol);
    if functions.iter().any(|function| function.is_null()) {
        return;
    }
    let [lock, first, next, end, stream, unlock] = functions;
    // SAFETY: the functions have these types (glibc's libioP.h); the list is locked while it is walked.
    unsafe {
        let lock = std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(lock);
        let unlock = std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(unlock);
        let first = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(first);
        let end = std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *mut c_void>(end);
        let next = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> *mut c_void>(next);
        let stream =
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> *mut libc::FILE>(stream);
        lock();
        let mut place = first();
        while place != end() {
            stdio::flush_if_free(stream(place));
            place = next(place);
        }
        unlock();
    }
}

/// Streams that are free first: behind one that another thread holds nothing may be waiting that could go.
fn flush() {
    // SAFETY: flushing is allowed at any time, and the clock runs; the streams are those of the C library.
    unsafe {
        stdio::flush_printed();
        flush_free_streams();
        for (function, object) in OTHERS {
            let function = symbol(function);
            let object = object.map(symbol);
            if !function.is_null() && object.is_none_or(|object| is_constructed(object)) {
                let flush = std::mem::transmute::<*mut c_void, Flush>(function);
                flush(object.unwrap_or(std::ptr::null_mut()));
            }
        }
        libc::fflush(std::ptr::null_mut());
    }
}

/// Whether there is such an object of C++, and its constructor has run: until then it is zero. libstdc++
/// before version 13 leaves its streams so in a program that does not include `<iostream>`.
///
/// # Safety
///
/// `object` is null or begins with a word.
unsafe fn is_constructed(object: *const c_void) -> bool {
    // SAFETY: as the caller says.
    !object.is_null() && unsafe { object.cast::<usize>().read_volatile() } != 0
}

fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: a name that ends with a zero byte.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast::<c_char>()) }
}
