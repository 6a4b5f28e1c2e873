//! Handles: the same integer in both languages, but for a file, which is a pointer in C.

use crate::abi::*;
use crate::{c, modules};
use core::ffi::{c_int, c_void};

/// An integer that is no handle.
const NO_HANDLE: c_int = c_int::MIN + 1;

/// A type of handle of C.
pub(crate) trait Handle: Copy {
    /// Bits of the handle.
    fn number(self) -> usize;
    /// The handle with these bits.
    fn of(number: usize) -> Self;
    /// Handle of an integer.
    fn from_int(integer: c_int) -> Self;
    /// The integer of it.
    fn to_int(self) -> c_int;
}

macro_rules! handles {
    ($($class:ident)*) => { $(
        impl Handle for $class {
            #[inline(always)]
            fn number(self) -> usize {
                self.0 as u32 as usize
            }
            #[inline(always)]
            fn of(number: usize) -> Self {
                $class(number as u32 as c_int)
            }
            #[inline(always)]
            fn from_int(integer: c_int) -> Self {
                $class(integer)
            }
            #[inline(always)]
            fn to_int(self) -> c_int {
                self.0
            }
        }
    )* };
}

handles! {
    MPI_Comm MPI_Datatype MPI_Errhandler MPI_Group MPI_Info MPI_Message MPI_Op MPI_Request MPI_Session MPI_Win
}

/// A file that C has not written.
const NO_FILE: usize = usize::MAX;

impl Handle for MPI_File {
    fn number(self) -> usize {
        self.0
    }
    fn of(number: usize) -> Self {
        MPI_File(number)
    }
    fn from_int(integer: c_int) -> Self {
        match integer {
            NO_HANDLE => MPI_File(NO_FILE),
            // SAFETY: any integer is allowed.
            _ => unsafe { c::MPI_File_fromint(integer) },
        }
    }
    fn to_int(self) -> c_int {
        match self.0 {
            NO_FILE => NO_HANDLE,
            // SAFETY: any handle is allowed.
            _ => unsafe { c::MPI_File_toint(self) },
        }
    }
}

/// The handle of an INTEGER.
#[inline(always)]
pub(crate) fn handle<T: Handle>(integer: c_int) -> T {
    T::from_int(integer)
}

/// The INTEGER of a handle.
#[inline(always)]
pub(crate) fn integer<T: Handle>(handle: T) -> c_int {
    handle.to_int()
}

/// Handle before C has written it.
#[inline(always)]
pub(crate) fn absent<T: Handle>() -> T {
    T::from_int(NO_HANDLE)
}

/// Gives a handle, if C has written it.
#[inline(always)]
pub(crate) unsafe fn put<T: Handle>(place: *mut c_int, handle: T) {
    let integer = handle.to_int();
    if integer != NO_HANDLE {
        // SAFETY: the caller gives the place of an INTEGER.
        unsafe { *place = integer }
    }
}

/// An array of handles, which C takes as it is.
pub(crate) struct Handles<T>(*mut T);

impl<T: Handle> Handles<T> {
    /// Handles at `place`.
    #[inline(always)]
    pub(crate) unsafe fn new(place: *mut c_int, _count: i64, _reads: bool) -> Self {
        const { assert!(size_of::<T>() == size_of::<c_int>()) }
        Handles(place.cast())
    }

    /// Where C finds them.
    #[inline(always)]
    pub(crate) fn address(&mut self) -> *mut T {
        self.0
    }

    /// Does nothing: C has written them in their place.
    #[inline(always)]
    pub(crate) unsafe fn put(self) {}
}

/// The key that C has for one of Fortran: predefined ones are one lower.
pub(crate) fn key_of_c(key: c_int) -> c_int {
    const PREDEFINED: [c_int; 12] = [
        MPI_TAG_UB,
        MPI_HOST,
        MPI_IO,
        MPI_WTIME_IS_GLOBAL,
        MPI_UNIVERSE_SIZE,
        MPI_LASTUSEDCODE,
        MPI_APPNUM,
        MPI_WIN_BASE,
        MPI_WIN_SIZE,
        MPI_WIN_DISP_UNIT,
        MPI_WIN_CREATE_FLAVOR,
        MPI_WIN_MODEL,
    ];
    if PREDEFINED.contains(&(key - 1)) { key - 1 } else { key }
}

/// The number or address that C takes for the copy callback that copies.
pub(crate) fn duplicate_of_c() -> usize {
    unsafe extern "C-unwind" {
        fn MPIR_Dup_fn(
            object: c_int,
            key: c_int,
            extra_state: *mut c_void,
            value: *mut c_void,
            place: *mut c_void,
            flag: *mut c_int,
        ) -> c_int;
    }
    MPIR_Dup_fn as *const () as usize
}

/// Whether it is another name of MPI_CONVERSION_FN_NULL.
pub(crate) fn is_another_no_conversion(function: usize) -> bool {
    modules::NO_CONVERSIONS.iter().any(|other| *other as *const () as usize == function)
}
