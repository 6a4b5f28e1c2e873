//! The symbols of DSE; `bindings/native/tutti_dse.h` declares them.

use core::ffi::{CStr, c_char, c_int, c_void};

use tutti_dse::element::{self, exclusion, relay, topology};
use tutti_dse::fault::{self, status};
use tutti_dse::{access, process};

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_init(global_bytes: usize) -> c_int {
    status(element::init(global_bytes))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_finish() -> c_int {
    status(element::finish())
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_barrier() -> c_int {
    status(element::barrier())
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_confirm() -> c_int {
    status(access::confirm())
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_topology(kind: c_int, columns: c_int) -> c_int {
    status(relay::choose(kind, columns))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_start(element: c_int, function: c_int, argument: i64) -> c_int {
    status(process::start(element, function, argument))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn tutti_dse_start_program(
    element: c_int,
    words: *const *const c_char,
) -> c_int {
    let mut found: Vec<&[u8]> = Vec::new();
    // SAFETY: the user gives a list of strings with a null behind the last; a null list has none.
    while let Some(word) = unsafe { words.as_ref().and_then(|_| words.add(found.len()).read().as_ref()) } {
        // SAFETY: as above.
        found.push(unsafe { CStr::from_ptr(word) }.to_bytes());
    }
    status(process::start_program(element, &found))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dse_hops() -> c_int {
    relay::hops().map_or(-1, |hops| hops as c_int)
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_dismiss(element: c_int) -> c_int {
    status(process::dismiss(element))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_end(element: c_int) -> c_int {
    status(process::end(element))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_serve_beside() -> c_int {
    status(process::serve_beside())
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_is_ended() -> c_int {
    process::is_ended().map_or(-1, c_int::from)
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_serve() -> c_int {
    status(process::serve())
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_lock(lock: c_int) -> c_int {
    status(exclusion::lock(lock))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_unlock(lock: c_int) -> c_int {
    status(exclusion::unlock(lock))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_semaphore_set(semaphore: c_int, value: u32) -> c_int {
    status(exclusion::semaphore_set(semaphore, value))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_semaphore_wait(semaphore: c_int) -> c_int {
    status(exclusion::semaphore_wait(semaphore))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn tutti_dse_semaphore_post(semaphore: c_int) -> c_int {
    status(exclusion::semaphore_post(semaphore))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dse_element() -> c_int {
    element::running("element").map_or(-1, |elements| elements.me as c_int)
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dse_elements() -> c_int {
    element::running("elements").map_or(-1, |elements| elements.count as c_int)
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dse_read(element: c_int, at: usize, to: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: as the user's.
    status(unsafe { access::read(element, at, to, bytes) })
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dse_write(
    element: c_int,
    at: usize,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: as the user's.
    status(unsafe { access::write(element, at, from, bytes) })
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dse_write_confirmed(
    element: c_int,
    at: usize,
    from: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: as the user's.
    status(unsafe { access::write(element, at, from, bytes) }.and_then(|()| access::confirm()))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dse_register(function: Option<process::Function>) -> c_int {
    function.map_or(-1, process::register)
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dse_wait(element: c_int, value: *mut i64) -> c_int {
    status(process::wait(element).map(|found| {
        if !value.is_null() {
            // SAFETY: the user gives a place for it.
            unsafe { value.write(found) };
        }
    }))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_dse_next_hop(to: c_int, next: *mut c_int, hops: *mut c_int) -> c_int {
    status(topology::next_hop(to).map(|found| {
        for (place, number) in [(next, found.0), (hops, found.1)] {
            if !place.is_null() {
                // SAFETY: the user gives a place for it.
                unsafe { place.write(number) };
            }
        }
    }))
}

/// See `tutti_dse.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_dse_text() -> *const c_char {
    fault::text()
}
