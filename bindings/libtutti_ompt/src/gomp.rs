//! Parallel regions of gcc's OpenMP, whose run time knows no tools: where this library is loaded before it
//! (`LD_PRELOAD`), these functions are called in place of libgomp's. Each begins a phase, calls the run
//! time's function of the same name, and ends the phase.
//!
//! Programs that gcc before 4.9 has compiled enter their regions by other functions, and tell nothing.

use core::ffi::{CStr, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tutti_shm::phases;

/// The part of the program that is a region.
type Body = unsafe extern "C" fn(*mut c_void);

/// The run time's function of this name, looked up once.
fn real(name: &CStr, known: &AtomicUsize) -> usize {
    match known.load(Relaxed) {
        0 => {
            let found = find(name);
            known.store(found, Relaxed);
            found
        }
        found => found,
    }
}

/// Looks it up behind this library, and in a run time that a part of the program has loaded for itself.
#[cold]
fn find(name: &CStr) -> usize {
    // SAFETY: names end with zero; a library that is opened here stays.
    let found = unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if next.is_null() {
            let library = libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY);
            if library.is_null() { next } else { libc::dlsym(library, name.as_ptr()) }
        } else {
            next
        }
    };
    if found.is_null() {
        let name = name.to_string_lossy();
        eprintln!("tutti: libtutti_ompt.so finds no {name}: preload it only for programs of gcc's OpenMP");
        std::process::abort();
    }
    found as usize
}

/// Defines functions that are regions.
macro_rules! regions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $value:ty)?;)*) => {$(
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(body: Body, data: *mut c_void, $($argument: $type),*) $(-> $value)? {
            type Function = unsafe extern "C" fn(Body, *mut c_void, $($type),*) $(-> $value)?;
            static REAL: AtomicUsize = AtomicUsize::new(0);
            let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
            let real = real(name.unwrap_or_default(), &REAL);
            // SAFETY: the run time's function of this name has this type (gcc's libgomp_g.h).
            let real: Function = unsafe { core::mem::transmute::<usize, Function>(real) };
            phases::begin();
            // SAFETY: what the program has given, and in its place.
            let value = unsafe { real(body, data, $($argument),*) };
            phases::end();
            value
        }
    )*};
}

regions! {
    GOMP_parallel(threads: c_uint, flags: c_uint);
    GOMP_parallel_reductions(threads: c_uint, flags: c_uint) -> c_uint;
    GOMP_parallel_sections(threads: c_uint, count: c_uint, flags: c_uint);
    GOMP_parallel_loop_static(threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long,
        flags: c_uint);
    GOMP_parallel_loop_dynamic(threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long,
        flags: c_uint);
    GOMP_parallel_loop_guided(threads: c_uint, start: c_long, end: c_long, step: c_long, chunk: c_long,
        flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic(threads: c_uint, start: c_long, end: c_long, step: c_long,
        chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided(threads: c_uint, start: c_long, end: c_long, step: c_long,
        chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime(threads: c_uint, start: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime(threads: c_uint, start: c_long, end: c_long, step: c_long,
        flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(threads: c_uint, start: c_long, end: c_long, step: c_long,
        flags: c_uint);
}
