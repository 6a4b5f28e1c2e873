//! The symbols of remote invocation; `bindings/native/tutti_call.h` declares them.
//! Bodies of one expression stand in `bindings/native/bodies.txt`.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use tutti_call::failure::fail;
use tutti_call::function::{Descriptor, Reply};
use tutti_call::process::{self, Answer, Progress, Sums};
use tutti_call::status::{INVALID, OK};

include!(concat!(env!("OUT_DIR"), "/call_exports.rs"));

fn status(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(OK)
}

fn number(result: Result<usize, c_int>) -> c_int {
    result.map_or_else(|status| status, |number| number as c_int)
}

/// Bytes of the program; none where null is given for some.
///
/// # Safety
/// Valid during the call.
pub(crate) unsafe fn slice<'a>(data: *const c_void, bytes: usize) -> Option<&'a [u8]> {
    match NonNull::new(data.cast_mut().cast::<u8>()) {
        // SAFETY: our contract.
        Some(data) => Some(unsafe { std::slice::from_raw_parts(data.as_ptr(), bytes) }),
        None if bytes == 0 => Some(&[]),
        None => None,
    }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_call_send(
    rank: c_int,
    function: *const Descriptor,
    flags: c_int,
    arguments: *const c_void,
    bytes: usize,
    result_bytes: usize,
    answer: *mut Answer,
) -> c_int {
    // SAFETY: as the user's.
    unsafe {
        let Some(arguments) = slice(arguments, bytes) else { return INVALID };
        status(process::send(rank, function, flags, arguments, result_bytes, NonNull::new(answer)))
    }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_call_answer(
    reply: Reply,
    code: c_int,
    data: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: as the user's.
    let Some(data) = (unsafe { slice(data, bytes) }) else { return INVALID };
    status(process::answer(reply, code, data))
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub extern "C" fn tutti_call_progress(wait: c_int) -> c_int {
    let how = match wait {
        -1 => Progress::Keep,
        0 => Progress::Look,
        1 => Progress::Wait,
        _ => return INVALID,
    };
    number(process::progress(how))
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_call_arrived(sums: *mut Sums) -> c_int {
    match process::arrived() {
        Ok(found) => {
            if let Some(sums) = NonNull::new(sums).filter(|sums| sums.is_aligned()) {
                // SAFETY: as the user's.
                unsafe { sums.write(found) };
            }
            OK
        }
        Err(status) => status,
    }
}

/// See `tutti_call.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_call_fail(line: *const c_char) {
    let line = match line.is_null() {
        true => "the program has ended the job".into(),
        // SAFETY: as the user's.
        false => unsafe { CStr::from_ptr(line) }.to_string_lossy(),
    };
    fail(format_args!("{line}"))
}
