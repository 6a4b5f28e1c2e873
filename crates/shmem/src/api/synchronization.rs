//! Waiting for words of this PE, and looking at them.

use core::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::comparison::Comparison;
use crate::element::{Awaited, bytes_of};
use crate::memory;

/// Values that words are compared with: one for all, or one for each.
pub trait Values<T>: Copy {
    /// Form of the name of a function that takes such values.
    const FORM: usize;
    /// The value for a word.
    ///
    /// # Safety
    /// `index` is below the number of values.
    unsafe fn at(self, index: usize) -> T;
}

impl<T: Awaited> Values<T> for T {
    const FORM: usize = 0;
    #[inline(always)]
    unsafe fn at(self, _: usize) -> T {
        self
    }
}

impl<T: Awaited> Values<T> for *mut T {
    const FORM: usize = 1;
    #[inline(always)]
    unsafe fn at(self, index: usize) -> T {
        // SAFETY: our contract.
        unsafe { *self.add(index) }
    }
}

/// Where the next search for any word begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Words that a call looks at.
struct Words<T, V> {
    words: *const T,
    count: usize,
    /// Where it is not 0, the word does not count.
    status: *const c_int,
    comparison: Comparison,
    values: V,
}

impl<T: Awaited, V: Values<T>> Words<T, V> {
    /// `names`: of the function with one value, and with one for each word.
    ///
    /// # Safety
    /// So many words, and as many flags and values where they are given.
    unsafe fn new(
        names: [&str; 2],
        words: *const T,
        count: usize,
        status: *const c_int,
        cmp: c_int,
        values: V,
    ) -> Self {
        let function = names[V::FORM];
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
    /// There is room for all indices.
    unsafe fn some(&self, indices: *mut usize) -> usize {
        let mut found = 0;
        for index in self.counting().filter(|index| self.holds(*index)) {
            // SAFETY: our contract.
            unsafe { indices.add(found).write(index) };
            found += 1;
        }
        found
    }

    fn test_all(&self) -> bool {
        self.all() || memory::look_again(|| self.all())
    }

    fn test_any(&self) -> usize {
        let mut found = self.any();
        if found.is_none() {
            memory::look_again(|| {
                found = self.any();
                found.is_some()
            });
        }
        found.unwrap_or(usize::MAX)
    }

    /// # Safety
    /// As for [`Words::some`].
    unsafe fn test_some(&self, indices: *mut usize) -> usize {
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

    fn wait_all(&self) {
        for index in self.counting() {
            memory::wait_until(|| self.holds(index));
        }
    }

    fn wait_any(&self) -> usize {
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

    /// # Safety
    /// As for [`Words::some`].
    unsafe fn wait_some(&self, indices: *mut usize) -> usize {
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

/// Waits until a word of this PE is another than `cmp_value`.
pub unsafe fn wait<T: Awaited>(ivar: *mut T, cmp_value: T) {
    // SAFETY: as the user's.
    unsafe { wait_until(ivar, 2, cmp_value) }
}

/// The same for a `long`.
pub unsafe fn wait_long(ivar: *mut c_long, cmp_value: c_long) {
    // SAFETY: as the user's.
    unsafe { wait_until(ivar, 2, cmp_value) }
}

/// Waits until all words that count compare as wanted. A word counts if `status` is null or 0 at its place.
/// With `_vector` in the name each is compared with a value of its own.
pub unsafe fn wait_until_all<T: Awaited>(
    ivars: *mut T,
    nelems: usize,
    status: *const c_int,
    cmp: c_int,
    cmp_value: impl Values<T>,
) {
    let names = ["wait_until_all", "wait_until_all_vector"];
    // SAFETY: the user gives so many words, flags and values.
    unsafe { Words::new(names, ivars, nelems, status, cmp, cmp_value).wait_all() }
}

/// Waits until one of the words that count compares as wanted; its index, or `SIZE_MAX` if none counts. With
/// `_vector` in the name each is compared with a value of its own.
pub unsafe fn wait_until_any<T: Awaited>(
    ivars: *mut T,
    nelems: usize,
    status: *const c_int,
    cmp: c_int,
    cmp_value: impl Values<T>,
) -> usize {
    let names = ["wait_until_any", "wait_until_any_vector"];
    // SAFETY: the user gives so many words, flags and values.
    unsafe { Words::new(names, ivars, nelems, status, cmp, cmp_value).wait_any() }
}

/// Waits until words that count compare as wanted; writes their indices, returns how many. With `_vector` in
/// the name each is compared with a value of its own.
pub unsafe fn wait_until_some<T: Awaited>(
    ivars: *mut T,
    nelems: usize,
    indices: *mut usize,
    status: *const c_int,
    cmp: c_int,
    cmp_value: impl Values<T>,
) -> usize {
    let names = ["wait_until_some", "wait_until_some_vector"];
    // SAFETY: the user gives so many words, flags and values, and room for the indices.
    unsafe { Words::new(names, ivars, nelems, status, cmp, cmp_value).wait_some(indices) }
}

/// Whether all words that count compare as wanted, with `_vector` in the name each with a value of its own.
pub unsafe fn test_all<T: Awaited>(
    ivars: *mut T,
    nelems: usize,
    status: *const c_int,
    cmp: c_int,
    cmp_value: impl Values<T>,
) -> c_int {
    let names = ["test_all", "test_all_vector"];
    // SAFETY: the user gives so many words, flags and values.
    unsafe { c_int::from(Words::new(names, ivars, nelems, status, cmp, cmp_value).test_all()) }
}

/// The index of a word that compares as wanted, with `_vector` in the name with a value of its own, or
/// `SIZE_MAX`.
pub unsafe fn test_any<T: Awaited>(
    ivars: *mut T,
    nelems: usize,
    status: *const c_int,
    cmp: c_int,
    cmp_value: impl Values<T>,
) -> usize {
    let names = ["test_any", "test_any_vector"];
    // SAFETY: the user gives so many words, flags and values.
    unsafe { Words::new(names, ivars, nelems, status, cmp, cmp_value).test_any() }
}

/// Writes the indices of words that compare as wanted; returns how many. With `_vector` in the name each is
/// compared with a value of its own.
pub unsafe fn test_some<T: Awaited>(
    ivars: *mut T,
    nelems: usize,
    indices: *mut usize,
    status: *const c_int,
    cmp: c_int,
    cmp_value: impl Values<T>,
) -> usize {
    let names = ["test_some", "test_some_vector"];
    // SAFETY: the user gives so many words, flags and values, and room for the indices.
    unsafe { Words::new(names, ivars, nelems, status, cmp, cmp_value).test_some(indices) }
}
