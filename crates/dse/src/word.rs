//! One word in the memory of an element, which several may change.

use core::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tutti_shmem::element::Swapped;
use tutti_shmem::memory;
use tutti_shmem::nodes::{Far, update};

/// A word: its address in the memory of this element, and whose is meant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    pub(crate) function: &'static str,
    pub(crate) address: usize,
    pub(crate) element: usize,
}

impl Word {
    fn change<R>(self, here: impl FnOnce(&AtomicU64) -> R, there: impl FnOnce(Far) -> R) -> R {
        let address = std::ptr::with_exposed_provenance::<u8>(self.address);
        let pe = self.element as c_int;
        match memory::element(self.function, "word", address, size_of::<u64>(), pe) {
            Ok(at) => {
                // SAFETY: the word is mapped, aligned, and changed by atomics alone.
                let found = here(unsafe { AtomicU64::from_ptr(at.cast()) });
                memory::notify(pe);
                found
            }
            Err(far) => there(far),
        }
    }

    pub(crate) fn load(self) -> u64 {
        let there = |far: Far| far.change(self.function, u64::ELEMENT, update::FETCH, 0_u64, true);
        self.change(|word| word.load(SeqCst), there)
    }

    /// The word is changed when this returns.
    pub(crate) fn set(self, value: u64) {
        let there = |far: Far| far.change(self.function, u64::ELEMENT, update::SET, value, true);
        self.change(|word| word.swap(value, SeqCst), there);
    }

    /// The word is changed when this returns.
    pub(crate) fn add(self, value: u64) {
        let there = |far: Far| far.change(self.function, u64::ELEMENT, update::ADD, value, true);
        self.change(|word| word.fetch_add(value, SeqCst), there);
    }
}
