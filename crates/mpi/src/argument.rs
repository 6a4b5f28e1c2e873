//! Arguments that are addresses: places for results, arrays, texts. A null pointer is an error of the call,
//! not a crash.

use core::ffi::{CStr, c_char, c_int};

use crate::abi::*;
use crate::error::{Error, Result, check};
use crate::request::Outcome;
use crate::type_arguments::Number;

/// A result of a call, which is written to a place of type `T`.
pub trait Output<T> {
    /// Writes it.
    ///
    /// # Safety
    /// `place` is valid for writing; that of a status may be MPI_STATUS_IGNORE.
    unsafe fn write(self, place: *mut T);
}

impl<T> Output<T> for T {
    #[inline(always)]
    unsafe fn write(self, place: *mut T) {
        // SAFETY: our contract.
        unsafe { place.write(self) }
    }
}

impl Output<c_int> for bool {
    #[inline(always)]
    unsafe fn write(self, place: *mut c_int) {
        // SAFETY: our contract.
        unsafe { place.write(c_int::from(self)) }
    }
}

/// A number that C counts with `int`: of ranks, dimensions, names.
impl Output<c_int> for usize {
    #[inline(always)]
    unsafe fn write(self, place: *mut c_int) {
        // SAFETY: our contract.
        unsafe { place.write(self as c_int) }
    }
}

/// A count, or MPI_UNDEFINED when it does not fit.
impl<T: Number> Output<T> for i128 {
    #[inline(always)]
    unsafe fn write(self, place: *mut T) {
        // SAFETY: our contract.
        unsafe { place.write(T::narrow(self)) }
    }
}

impl Output<MPI_Status> for Outcome {
    #[inline(always)]
    unsafe fn write(self, place: *mut MPI_Status) {
        // SAFETY: our contract.
        unsafe { Outcome::write(&self, place) }
    }
}

/// Writes a result of a call.
///
/// # Safety
/// As [`Output::write`].
#[inline(always)]
pub unsafe fn write<T>(place: *mut T, value: impl Output<T>) {
    // SAFETY: our contract.
    unsafe { value.write(place) }
}

/// Writes as many numbers as there is room for.
///
/// # Errors
/// MPI_ERR_ARG when the room is negative, or when there is some and `to` is a null pointer.
///
/// # Safety
/// `to` is null or has room for `room` numbers.
pub unsafe fn fill(
    to: *mut c_int,
    room: c_int,
    values: impl IntoIterator<Item = c_int, IntoIter: ExactSizeIterator>,
    name: &str,
) -> Result<()> {
    check(room >= 0, MPI_ERR_ARG, || format!("the room for {name} is {room}, expected 0 or more"))?;
    let values = values.into_iter();
    let count = values.len().min(room as usize);
    if to.is_null() && count > 0 {
        return Err(null(name));
    }
    for (i, value) in values.take(count).enumerate() {
        // SAFETY: our contract.
        unsafe { to.add(i).write(value) };
    }
    Ok(())
}

/// Writes a result to the place that the argument `name` gives for it.
///
/// # Errors
/// MPI_ERR_ARG when the place is a null pointer.
///
/// # Safety
/// `place` is null or valid for writing.
#[inline(always)]
pub unsafe fn put<T>(place: *mut T, name: &str, value: T) -> Result<()> {
    if place.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, so valid by our contract.
    unsafe { place.write(value) };
    Ok(())
}

/// The value that stands where the argument `name` points.
///
/// # Errors
/// MPI_ERR_ARG when the place is a null pointer.
///
/// # Safety
/// `place` is null or valid for reading.
#[inline(always)]
pub unsafe fn get<T: Copy>(place: *const T, name: &str) -> Result<T> {
    if place.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, so valid by our contract.
    Ok(unsafe { place.read() })
}

/// An array argument of `count` elements.
///
/// # Errors
/// MPI_ERR_ARG when the count is negative, or when it is not zero and the array a null pointer.
///
/// # Safety
/// `array` is null or holds `count` elements for as long as the result is used.
pub unsafe fn array<'a, T>(array: *const T, count: c_int, name: &str) -> Result<&'a [T]> {
    check(count >= 0, MPI_ERR_ARG, || format!("the length of {name} is {count}, expected 0 or more"))?;
    if count == 0 {
        return Ok(&[]);
    }
    if array.is_null() {
        return Err(null(name));
    }
    // SAFETY: our contract.
    Ok(unsafe { std::slice::from_raw_parts(array, count as usize) })
}

/// A text argument, without its final zero.
///
/// # Errors
/// MPI_ERR_ARG when it is a null pointer.
///
/// # Safety
/// `text` is null or ends with a zero byte, and stays as it is for as long as the result is used.
pub unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a [u8]> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: our contract.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Writes a text of at most `room` bytes with its final zero, and its length; what does not fit is cut off.
///
/// # Errors
/// MPI_ERR_ARG when one of the places is a null pointer.
///
/// # Safety
/// `to` is null or has room for `room` bytes; `length` is null or valid for writing.
pub unsafe fn put_text(
    bytes: impl AsRef<[u8]>,
    to: *mut c_char,
    room: usize,
    length: *mut c_int,
    name: &str,
) -> Result<()> {
    if to.is_null() {
        return Err(null(name));
    }
    let bytes = bytes.as_ref();
    let count = bytes.len().min(room - 1);
    // SAFETY: our contract; `count + 1 <= room`.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, count);
        to.add(count).write(0);
        put(length, "resultlen", count as c_int)
    }
}

/// The error of an argument that is a null pointer.
#[cold]
pub fn null(name: &str) -> Error {
    Error::new(MPI_ERR_ARG, format_args!("{name} is a null pointer"))
}
