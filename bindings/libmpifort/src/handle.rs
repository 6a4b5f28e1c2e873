//! Handles: an INTEGER in Fortran, a pointer in C.

use crate::abi::*;
use crate::c;
use core::ffi::c_int;

/// Handles below this are predefined: the same number in both languages (MPI 20.3).
const PREDEFINED_END: usize = 0x1000;

/// A type of handle of C.
pub(crate) trait Handle: Copy {
    /// Bits of the handle.
    fn number(self) -> usize;
    /// The handle with these bits.
    fn of(number: usize) -> Self;
    /// Handle of an integer, as the C library says.
    fn from_int(integer: c_int) -> Self;
    /// The integer of it.
    fn to_int(self) -> c_int;
}

macro_rules! handles {
    ($($class:ident $from:ident $to:ident)*) => { $(
        impl Handle for $class {
            #[inline(always)]
            fn number(self) -> usize {
                self.0
            }
            #[inline(always)]
            fn of(number: usize) -> Self {
                $class(number)
            }
            fn from_int(integer: c_int) -> Self {
                // SAFETY: any integer is allowed.
                unsafe { c::$from(integer) }
            }
            fn to_int(self) -> c_int {
                // SAFETY: any handle is allowed.
                unsafe { c::$to(self) }
            }
        }
    )* };
}

handles! {
    MPI_Comm MPI_Comm_fromint MPI_Comm_toint
    MPI_Datatype MPI_Type_fromint MPI_Type_toint
    MPI_Errhandler MPI_Errhandler_fromint MPI_Errhandler_toint
    MPI_File MPI_File_fromint MPI_File_toint
    MPI_Group MPI_Group_fromint MPI_Group_toint
    MPI_Info MPI_Info_fromint MPI_Info_toint
    MPI_Message MPI_Message_fromint MPI_Message_toint
    MPI_Op MPI_Op_fromint MPI_Op_toint
    MPI_Request MPI_Request_fromint MPI_Request_toint
    MPI_Session MPI_Session_fromint MPI_Session_toint
    MPI_Win MPI_Win_fromint MPI_Win_toint
}

/// The handle of an INTEGER.
#[inline(always)]
pub(crate) fn handle<T: Handle>(integer: c_int) -> T {
    let number = integer as u32 as usize;
    if number < PREDEFINED_END { T::of(number) } else { T::from_int(integer) }
}

/// The INTEGER of a handle.
#[inline(always)]
pub(crate) fn integer<T: Handle>(handle: T) -> c_int {
    if handle.number() < PREDEFINED_END { handle.number() as c_int } else { handle.to_int() }
}

/// Handle before C has written it.
#[inline(always)]
pub(crate) fn absent<T: Handle>() -> T {
    T::of(usize::MAX)
}

/// Gives a handle, if C has written it.
#[inline(always)]
pub(crate) unsafe fn put<T: Handle>(place: *mut c_int, handle: T) {
    if handle.number() != usize::MAX {
        // SAFETY: the caller gives the place of an INTEGER.
        unsafe { *place = integer(handle) }
    }
}

/// The key that C has for one of Fortran.
#[inline(always)]
pub(crate) fn key_of_c(key: c_int) -> c_int {
    key
}

/// The number or address that C takes for the copy callback that copies.
pub(crate) fn duplicate_of_c() -> usize {
    MPI_COMM_DUP_FN
}

/// Whether it is another name of MPI_CONVERSION_FN_NULL.
pub(crate) fn is_another_no_conversion(_function: usize) -> bool {
    false
}

/// As many need no memory of their own.
const FEW: usize = 32;

/// Handles of C beside those of Fortran.
pub(crate) struct Handles<T> {
    place: *mut c_int,
    count: usize,
    few: [usize; FEW],
    many: Vec<usize>,
    class: core::marker::PhantomData<T>,
}

impl<T: Handle> Handles<T> {
    /// `count` handles at `place`; their values count if `reads`.
    #[inline]
    pub(crate) unsafe fn new(place: *mut c_int, count: i64, reads: bool) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        let mut handles = Handles {
            place,
            count,
            few: [usize::MAX; FEW],
            many: Vec::new(),
            class: core::marker::PhantomData,
        };
        if count > FEW {
            handles.many = vec![usize::MAX; count];
        }
        if reads {
            let into = handles.slice();
            for (at, number) in into.iter_mut().enumerate().take(count) {
                // SAFETY: the caller's array has so many elements.
                *number = handle::<T>(unsafe { *place.add(at) }).number();
            }
        }
        handles
    }

    #[inline]
    fn slice(&mut self) -> &mut [usize] {
        if self.count > FEW { &mut self.many } else { &mut self.few }
    }

    /// Where C finds them.
    #[inline]
    pub(crate) fn address(&mut self) -> *mut T {
        self.slice().as_mut_ptr().cast()
    }

    /// Gives those that C has written.
    #[inline]
    pub(crate) unsafe fn put(mut self) {
        let (place, count) = (self.place, self.count);
        for (at, number) in self.slice().iter().enumerate().take(count) {
            // SAFETY: the caller's array has so many elements.
            unsafe { put(place.add(at), T::of(*number)) };
        }
    }
}
