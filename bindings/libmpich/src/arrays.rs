//! Arrays of handles and of integers.

use crate::handle::{self, Handle};
use core::ffi::c_int;

/// As many need no memory of their own.
const FEW: usize = 64;

/// Handles of ours beside those of the caller.
pub(crate) struct Handles<T: Handle> {
    place: *mut T::Theirs,
    count: usize,
    few: [usize; FEW],
    many: Vec<usize>,
}

impl<T: Handle> Handles<T> {
    /// `count` handles at `place`; their values count if `reads`.
    #[inline]
    pub(crate) unsafe fn new(place: *mut T::Theirs, count: i64, reads: bool) -> Self {
        let count = if place.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
        let mut handles = Handles { place, count, few: [usize::MAX; FEW], many: Vec::new() };
        if count > FEW {
            handles.many = vec![usize::MAX; count];
        }
        if reads {
            for (at, number) in handles.slice().iter_mut().enumerate().take(count) {
                // SAFETY: the caller's array has so many elements.
                *number = handle::ours::<T>(unsafe { *place.add(at) }).number();
            }
        }
        handles
    }

    #[inline]
    fn slice(&mut self) -> &mut [usize] {
        if self.count > FEW { &mut self.many } else { &mut self.few }
    }

    /// Where ours finds them; null stays null.
    #[inline]
    pub(crate) fn address(&mut self) -> *mut T {
        if self.place.is_null() { core::ptr::null_mut() } else { self.slice().as_mut_ptr().cast() }
    }

    /// Gives those that ours has written.
    #[inline]
    pub(crate) unsafe fn put(mut self) {
        let (place, count) = (self.place, self.count);
        for (at, number) in self.slice().iter().enumerate().take(count) {
            if *number != usize::MAX && *number != handle::NO_HANDLE {
                // SAFETY: the caller's array has so many elements.
                unsafe { *place.add(at) = T::of(*number).theirs() };
            }
        }
    }
}

/// Integers that a call reads.
pub(crate) struct Integers {
    is_null: bool,
    values: Vec<c_int>,
}

impl Integers {
    /// `count` integers at `place`, each made ours.
    pub(crate) unsafe fn new(place: *const c_int, count: c_int, to_ours: impl Fn(c_int) -> c_int) -> Self {
        let count = if place.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
        // SAFETY: the caller's array has so many elements.
        let values = (0..count).map(|at| to_ours(unsafe { *place.add(at) })).collect();
        Integers { is_null: place.is_null(), values }
    }

    /// Where ours finds them; null stays null.
    pub(crate) fn address(&self) -> *const c_int {
        if self.is_null { core::ptr::null() } else { self.values.as_ptr() }
    }
}
