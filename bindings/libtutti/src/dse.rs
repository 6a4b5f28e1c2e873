//! The symbols of DSE; `bindings/native/tutti_dse.h` declares them.
//! Bodies of one expression stand in `bindings/native/bodies.txt`.

use core::ffi::{CStr, c_char, c_int, c_void};

use tutti_dse::element::{self, exclusion, relay, topology};
use tutti_dse::fault::{self, status};
use tutti_dse::{access, process};

include!(concat!(env!("OUT_DIR"), "/dse_exports.rs"));

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
