//! Numbers and arrays of numbers in C, for both widths of counts.

use core::ffi::c_int;

use crate::abi::*;
use crate::error::{Result, check};

/// A type of counts, displacements or results in C.
pub trait Number: Copy + TryFrom<i128> {
    /// As a large count.
    fn wide(self) -> i64;

    /// Value for a result that this type cannot hold.
    const UNDEFINED: Self;

    /// A result, or MPI_UNDEFINED when it does not fit.
    fn narrow(value: i128) -> Self {
        Self::try_from(value).unwrap_or(Self::UNDEFINED)
    }
}

impl Number for c_int {
    fn wide(self) -> i64 {
        self.into()
    }

    const UNDEFINED: Self = MPI_UNDEFINED;
}

impl Number for MPI_Aint {
    fn wide(self) -> i64 {
        self as i64
    }

    const UNDEFINED: Self = MPI_UNDEFINED as MPI_Aint;
}

impl Number for MPI_Count {
    fn wide(self) -> i64 {
        self
    }

    const UNDEFINED: Self = MPI_UNDEFINED as MPI_Count;
}

/// An array of `count` numbers.
///
/// # Errors
/// MPI_ERR_COUNT when the count is negative, MPI_ERR_ARG when the array is missing.
///
/// # Safety
/// The array has `count` elements.
pub(crate) unsafe fn numbers<T: Number>(array: *const T, count: impl Number) -> Result<Vec<i64>> {
    // SAFETY: our contract.
    Ok(unsafe { slice(array, count)? }.iter().map(|number| number.wide()).collect())
}

/// An array of `ndims` numbers, at least one.
///
/// # Errors
/// MPI_ERR_ARG.
///
/// # Safety
/// The array has `ndims` elements.
pub(crate) unsafe fn dimensions<T: Number>(array: *const T, ndims: c_int) -> Result<Vec<i64>> {
    check(ndims >= 1, MPI_ERR_ARG, || format!("ndims is {ndims}, expected 1 or more"))?;
    // SAFETY: our contract.
    unsafe { numbers(array, ndims) }
}

/// An array of `count` elements as it is.
///
/// # Errors
/// As [`numbers`].
///
/// # Safety
/// As [`numbers`]; the result is not used after the call of the user has returned.
pub(crate) unsafe fn slice<'a, T>(array: *const T, count: impl Number) -> Result<&'a [T]> {
    let count = count.wide();
    check(count >= 0, MPI_ERR_COUNT, || format!("count is {count}, expected 0 or more"))?;
    if count == 0 {
        return Ok(&[]);
    }
    check(!array.is_null(), MPI_ERR_ARG, || {
        format!("an array is a null pointer, expected {count} elements")
    })?;
    // SAFETY: our contract.
    Ok(unsafe { std::slice::from_raw_parts(array, count as usize) })
}
