//! Waiting for words of this PE, and looking at them.

use core::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::comparison::Comparison;
use crate::element::{Awaited, bytes_of};
use crate::memory;

/// Values that words are compared with: one for all, or one for each.
pub trait Values<T>: Copy {
    /// The value for a word.
    ///
    /// # Safety
    /// `index` is below the number of values.
    unsafe fn at(self, index: usize) -> T;
}

impl<T: Awaited> Values<T> for T {
    #[inline(always)]
    unsafe fn at(self, _: usize) -> T {
        self
    }
}

impl<T: Awaited> Values<T> for *mut T {
    #[inline(always)]
    unsafe fn at(self, index: usize) -> T {
        // SAFETY: our contract.
        unsafe { *self.add(index) }
    }
}

/// Where the next search for any word begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Words that a call looks at.
#[derive(Debug)]
pub struct Words<T, V> {
    words: *const T,
    count: usize,
    /// Where it is not 0, the word does not count.
    status: *const c_int,
    comparison: Comparison,
    values: V,
}

impl<T: Awaited, V: Values<T>> Words<T, V> {
    /// The words of a call of a function.
    ///
    /// # Safety
    /// So many words, and as many flags and values where they are given.
    pub unsafe fn new(
        function: &str,
        words: *const T,
        count: usize,
        status: *const c_int,
        cmp: c_int,
        values: V,
    ) -> Self {
        let me = memory::pes(function).me as c_int;
        if count > 0 {
            let bytes = bytes_of::<T>(count);
            memory::place(function, "ivars", words.cast(), bytes, me);
        }
        Words { words, count, status, comparison: Comparison::new(function, cmp), values }
    }

    fn counts(&self, index: usize) -> bool {
        // SAFETY: the contract of `new`.
        self.status.is_null() || unsafe { *self.status.add(index) } == 0
    }

    fn holds(&self, index: usize) -> bool {
        // SAFETY: the contract of `new`.
        unsafe { self.comparison.holds(T::load(self.words.add(index)), self.values.at(index)) }
    }

    fn counting(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.count).filter(|index| self.counts(*index))
    }

    fn all(&self) -> bool {
        self.counting().all(|index| self.holds(index))
    }

    /// Calls begin behind what the last one has found, so that no word is passed over for ever.
    fn any(&self) -> Option<usize> {
        let begin = NEXT.load(Relaxed);
        let begin = if begin < self.count { begin } else { 0 };
        let mut indices = (begin..self.count).chain(0..begin).filter(|index| self.counts(*index));
        let found = indices.find(|index| self.holds(*index))?;
        NEXT.store(found + 1, Relaxed);
        Some(found)
    }

    /// # Safety
    /// `indices` has room for all of them.
    unsafe fn some(&self, indices: *mut usize) -> usize {
        let mut found = 0;
        for index in self.counting().filter(|index| self.holds(*index)) {
            // SAFETY: our contract.
            unsafe { indices.add(found).write(index) };
            found += 1;
        }
        found
    }

    /// Whether all that count compare as wanted.
    pub fn test_all(&self) -> bool {
        self.all() || memory::look_again(|| self.all())
    }

    /// The index of one that compares as wanted, or `SIZE_MAX`.
    pub fn test_any(&self) -> usize {
        let mut found = self.any();
        if found.is_none() {
            memory::look_again(|| {
                found = self.any();
                found.is_some()
            });
        }
        found.unwrap_or(usize::MAX)
    }

    /// Writes the indices of those that compare as wanted; returns how many.
    ///
    /// # Safety
    /// `indices` has room for all of them.
    pub unsafe fn test_some(&self, indices: *mut usize) -> usize {
        // SAFETY: our contract.
        let some = || unsafe { self.some(indices) };
        let mut found = some();
        if found == 0 {
            memory::look_again(|| {
                found = some();
                found > 0
            });
        }
        found
    }

    /// Waits until all that count compare as wanted.
    pub fn wait_all(&self) {
        for index in self.counting() {
            memory::wait_until(|| self.holds(index));
        }
    }

    /// Waits until one of those that count compares as wanted; its index, or `SIZE_MAX` if none counts.
    pub fn wait_any(&self) -> usize {
        if self.counting().next().is_none() {
            return usize::MAX;
        }
        let mut found = None;
        memory::wait_until(|| {
            found = self.any();
            found.is_some()
        });
        found.unwrap_or(usize::MAX)
    }

    /// The same, as soon as there is one; 0 if none counts.
    ///
    /// # Safety
    /// `indices` has room for all of them.
    pub unsafe fn wait_some(&self, indices: *mut usize) -> usize {
        if self.counting().next().is_none() {
            return 0;
        }
        let mut found = 0;
        memory::wait_until(|| {
            // SAFETY: our contract.
            found = unsafe { self.some(indices) };
            found > 0
        });
        found
    }
}

/// Waits until a word of this PE compares as wanted.
#[inline]
pub unsafe fn wait_until<T: Awaited>(ivar: *mut T, cmp: c_int, cmp_value: T) {
    let me = memory::pes("wait_until").me as c_int;
    memory::place("wait_until", "ivar", ivar.cast(), size_of::<T>(), me);
    let comparison = Comparison::new("wait_until", cmp);
    // SAFETY: just checked.
    memory::wait_until(|| comparison.holds(unsafe { T::load(ivar) }, cmp_value));
}

/// Whether a word of this PE compares as wanted.
#[inline]
pub unsafe fn test<T: Awaited>(ivar: *mut T, cmp: c_int, cmp_value: T) -> c_int {
    let me = memory::pes("test").me as c_int;
    memory::place("test", "ivar", ivar.cast(), size_of::<T>(), me);
    let comparison = Comparison::new("test", cmp);
    // SAFETY: just checked.
    let holds = || comparison.holds(unsafe { T::load(ivar) }, cmp_value);
    c_int::from(holds() || memory::look_again(holds))
}
