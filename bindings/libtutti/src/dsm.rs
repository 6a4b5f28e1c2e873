//! The symbols of shared memory; `bindings/dsm/parmacs.h` declares them, and those with `__wrap_` are what
//! `tutticc` puts in the place of functions of the C library.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::ptr::NonNull;

use tutti_dsm::create;
use tutti_dsm::note::{CheckedRange, OpenRange};
use tutti_dsm::object::{self, Kind};
use tutti_dsm::pages::PageRun;
use tutti_dsm::site::Site;
use tutti_dsm::start::Mode;
use tutti_dsm::{checked, condition, executor, globals, note, pages, replay, start};

use crate::dsm_arguments::text;

/// The line that a macro stands in.
///
/// # Safety
/// The file is a string that stays during the call.
unsafe fn site<'a>(file: *const c_char, line: c_uint) -> Site<'a> {
    // SAFETY: our contract.
    let file = unsafe { CStr::from_ptr(file) }.to_str().unwrap_or("?");
    Site { file, line }
}

/// Start of a program that the first `tutticc` linked: pages are compared.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_begin() {
    start::begin(Ok(Mode::Twin { noting: 0 }));
}

/// Start of a program that a `tutticc` without checks of loads linked. The open range is the calling
/// thread's.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_begin_noted(open: NonNull<OpenRange>) {
    start::begin(Ok(Mode::Noted(open)));
}

/// Start of a program whose `tutticc` did not say how long its open range is: as long as [`CheckedRange`].
///
/// # Safety
/// There are so many bytes of modes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dsm_begin_as(
    range: NonNull<CheckedRange>,
    modes: *const u8,
    objects: usize,
    are_all: c_int,
) {
    // SAFETY: our contract.
    unsafe { tutti_dsm_begin_sized(range.cast(), size_of::<CheckedRange>(), modes, objects, are_all) };
}

/// See `parmacs_start.c`. Each noting object has left a byte: 1, or 2 where it checks its loads too.
///
/// # Safety
/// The open range is the calling thread's, of so many bytes; there are so many bytes of modes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dsm_begin_sized(
    open: NonNull<OpenRange>,
    open_bytes: usize,
    modes: *const u8,
    objects: usize,
    are_all: c_int,
) {
    let modes: &[u8] = match objects {
        0 => &[],
        // SAFETY: our contract.
        _ => unsafe { core::slice::from_raw_parts(modes, objects) },
    };
    start::begin(Mode::of_program(open, open_bytes, modes, are_all != 0));
}

/// See `parmacs_start.c`: variables of C between two addresses are shared memory.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_share_globals(begin: *const c_void, end: *const c_void) {
    globals::want(begin.addr(), end.addr());
}

/// Loads of so many bytes follow, from code at an address, which has not found that all of it is here.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_load_from(address: *const c_void, bytes: usize, site: *const c_void) {
    checked::load(address.addr(), bytes, site.addr());
}

/// Stores follow, which are noted.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_store_from(address: *mut c_void, bytes: usize, site: *const c_void) {
    checked::store(address.addr(), bytes, site.addr());
}

/// Loads of rows follow, whose beginnings are a stride apart.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_load_rows_from(
    address: *const c_void,
    bytes: usize,
    stride: isize,
    rows: usize,
    site: *const c_void,
) {
    checked::load_rows(address.addr(), bytes, stride, rows, site.addr());
}

/// Stores to rows follow, which are noted.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_store_rows_from(
    address: *mut c_void,
    bytes: usize,
    stride: isize,
    rows: usize,
    site: *const c_void,
) {
    checked::store_rows(address.addr(), bytes, stride, rows, site.addr());
}

/// A call of a function follows that checks no loads.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_cover() {
    executor::cover();
}

/// A store of so many bytes follows; compiled code calls it for addresses with the arena's tag.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_note(address: *mut c_void, bytes: usize) {
    note::add(address.addr(), bytes);
}

/// Stores to rows of so many bytes follow, whose beginnings are a stride apart.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_note_rows(address: *mut c_void, bytes: usize, stride: isize, rows: usize) {
    note::add_rows(address.addr(), bytes, stride, rows);
}

/// A loop follows that runs ahead of another one and tells what that will store (compiler/rcop/indexed.cpp).
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_ahead_begin() {
    note::begin_ahead();
}

/// A store of the loop: its element has so many bytes; with a base it appends there, so many bytes at once.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_ahead_site(slot_bytes: usize, base: usize, bytes: usize) {
    note::add_site(slot_bytes, base, bytes);
}

/// Memory that says where the stores go.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_ahead_load(first: *const c_void, last: *const c_void, bytes: usize) {
    note::add_load(first.addr(), last.addr(), bytes);
}

/// A store that will come.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_ahead_store(site: usize, slot: *const c_void, index: i64) {
    note::tell_ahead(site, slot.addr(), index);
}

/// The end of the loop; 1 when all its stores are noted.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_ahead_end() -> c_int {
    c_int::from(checked::end_ahead(0))
}

/// A call of a function follows that makes no notes.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_rearm() {
    executor::rearm();
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_make(kind: c_int, file: *const c_char, line: c_uint) -> u64 {
    let kind = match kind {
        1 => Kind::Lock,
        2 => Kind::Barrier,
        4 => Kind::Condition,
        _ => Kind::Flag,
    };
    // SAFETY: the macros give a string.
    object::make(kind, unsafe { site(file, line) })
}

/// Calls that take an object.
macro_rules! calls {
    ($($name:ident: $body:path),* $(,)?) => {
        $(
            /// See `parmacs.h`.
            #[unsafe(no_mangle)]
            pub unsafe extern "C-unwind" fn $name(word: u64, file: *const c_char, line: c_uint) {
                // SAFETY: the macros give a string.
                $body(word, unsafe { site(file, line) });
            }
        )*
    };
}

calls! {
    tutti_dsm_lock: object::lock,
    tutti_dsm_unlock: object::unlock,
    tutti_dsm_set: object::set,
    tutti_dsm_clear: object::clear,
    tutti_dsm_wait: object::wait,
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_condition_wait(
    variable: *mut c_void,
    lock: u64,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the macros give a string.
    condition::wait(variable.addr(), lock, unsafe { site(file, line) });
}

/// See `parmacs.h`: one goes on, or all.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_condition_wake(
    variable: *mut c_void,
    are_all: c_int,
    file: *const c_char,
    line: c_uint,
) {
    let wake = if are_all == 0 { condition::signal } else { condition::broadcast };
    // SAFETY: the macros give a string.
    wake(variable.addr(), unsafe { site(file, line) });
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_barrier(
    word: u64,
    count: c_long,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the macros give a string.
    object::barrier(word, count, unsafe { site(file, line) });
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_malloc(
    bytes: usize,
    file: *const c_char,
    line: c_uint,
) -> *mut c_void {
    // SAFETY: the macros give a string.
    let address = object::allocate(bytes as u64, unsafe { site(file, line) });
    std::ptr::with_exposed_provenance_mut(address)
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_malloc_update(
    bytes: usize,
    file: *const c_char,
    line: c_uint,
) -> *mut c_void {
    // SAFETY: the macros give a string.
    let address = object::allocate_updated(bytes as u64, unsafe { site(file, line) });
    std::ptr::with_exposed_provenance_mut(address)
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_free(address: *mut c_void, file: *const c_char, line: c_uint) {
    // SAFETY: the macros give a string.
    object::free(address.addr(), unsafe { site(file, line) });
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_pages(
    operation: c_int,
    runs: *mut PageRun,
    count: usize,
    attributes: c_uint,
    file: *const c_char,
    line: c_uint,
) {
    let runs: &mut [PageRun] = match count {
        0 => &mut [],
        // SAFETY: the program gives so many.
        _ => unsafe { core::slice::from_raw_parts_mut(runs, count) },
    };
    // SAFETY: the macros give a string.
    pages::operate(operation, runs, attributes, unsafe { site(file, line) });
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_create(
    function: extern "C-unwind" fn(),
    count: c_long,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the macros give a string.
    create::create(|| function(), count, unsafe { site(file, line) });
}

/// See `parmacs.h`: one more process, whose function gets an argument.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_create_with(
    function: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    file: *const c_char,
    line: c_uint,
) {
    // SAFETY: the macros give a string.
    create::create(|| function(argument), 0, unsafe { site(file, line) });
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_process(file: *const c_char, line: c_uint) -> c_int {
    // SAFETY: the macros give a string.
    create::number(unsafe { site(file, line) }) as c_int
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dsm_wait_for_end(file: *const c_char, line: c_uint) {
    // SAFETY: the macros give a string.
    create::wait_for_end(unsafe { site(file, line) });
}

/// See `parmacs.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dsm_clock() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros() as u64)
}

/// time(2), the same on all ranks before CREATE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_time(place: *mut libc::time_t) -> libc::time_t {
    // SAFETY: a null place is allowed.
    let [now, ..] = replay::value(|| [unsafe { libc::time(std::ptr::null_mut()) }, 0, 0]);
    if !place.is_null() {
        // SAFETY: the program gives a place for it.
        unsafe { place.write(now) };
    }
    now
}

/// getpid(2), the same on all ranks before CREATE.
#[unsafe(no_mangle)]
pub extern "C" fn __wrap_getpid() -> libc::pid_t {
    // SAFETY: no arguments.
    replay::value(|| [i64::from(unsafe { libc::getpid() }), 0, 0])[0] as libc::pid_t
}

/// gettimeofday(2), the same on all ranks before CREATE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_gettimeofday(time: *mut libc::timeval, zone: *mut c_void) -> c_int {
    let make = || {
        let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: the place is ours; the zone is the program's, or null.
        let result = unsafe { libc::gettimeofday(&mut now, zone.cast()) };
        [now.tv_sec, now.tv_usec, result.into()]
    };
    let [seconds, microseconds, result] = replay::value(make);
    if !time.is_null() {
        // SAFETY: the program gives a place for it.
        unsafe { time.write(libc::timeval { tv_sec: seconds, tv_usec: microseconds }) };
    }
    result as c_int
}

/// clock_gettime(2), the same on all ranks before CREATE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let make = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is ours.
        let result = unsafe { libc::clock_gettime(clock, &mut now) };
        [now.tv_sec, now.tv_nsec, result.into()]
    };
    let [seconds, nanoseconds, result] = replay::value(make);
    if !time.is_null() {
        // SAFETY: the program gives a place for it.
        unsafe { time.write(libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds }) };
    }
    result as c_int
}

/// fopen(3): before CREATE files are read by rank 0 for all, and written by rank 0 alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the program gives strings; the kernel gets other addresses of them.
    unsafe { replay::open(text(path).value(), text(mode).value()) }
}

/// The same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    // SAFETY: the program gives strings; the kernel gets other addresses of them.
    unsafe { replay::open(text(path).value(), text(mode).value()) }
}
