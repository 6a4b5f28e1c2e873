//! Reads and writes of global memory.

use core::ffi::{c_int, c_void};

use tutti_shmem::memory;

use crate::element::running;
use crate::element::topology;
use crate::fault::{Code, refuse};

fn place(
    function: &'static str,
    element: c_int,
    at: usize,
    own: *const c_void,
    bytes: usize,
) -> Result<*mut u8, Code> {
    let elements = running(function)?;
    let there = elements.index(function, element)?;
    topology::check(function, &elements, there)?;
    let place = elements.global(function, at, bytes)?;
    if own.is_null() && bytes > 0 {
        return Err(refuse(Code::Invalid, function, format_args!("the address of {bytes} bytes is null")));
    }
    Ok(place)
}

/// Reads global memory of an element.
///
/// # Safety
/// `to` is valid for writing so many bytes.
pub unsafe fn read(element: c_int, at: usize, to: *mut c_void, bytes: usize) -> Result<(), Code> {
    let from = place("read", element, at, to, bytes)?;
    if bytes > 0 {
        // SAFETY: our contract; the place was checked.
        unsafe { memory::get("read", to.cast(), from, bytes, element) };
    }
    Ok(())
}

/// Writes global memory of an element. When it returns, `from` may be changed; the bytes are there at the
/// next confirmation.
///
/// # Safety
/// `from` is valid for so many bytes.
pub unsafe fn write(element: c_int, at: usize, from: *const c_void, bytes: usize) -> Result<(), Code> {
    let to = place("write", element, at, from, bytes)?;
    if bytes > 0 {
        // SAFETY: our contract; the place was checked.
        unsafe { memory::put("write", to, from.cast(), bytes, element) };
    }
    Ok(())
}

/// All writes of this element so far are done.
pub fn confirm() -> Result<(), Code> {
    running("confirm")?;
    memory::quiet("confirm");
    Ok(())
}
