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
    /// The word as memory of this process, or how it is reached.
    fn find(&self) -> Result<&AtomicU64, Far> {
        let address = std::ptr::with_exposed_provenance::<u8>(self.address);
        let at = memory::element(self.function, "word", address, size_of::<u64>(), self.element as c_int)?;
        // SAFETY: the word is mapped, aligned, and changed by atomics alone.
        Ok(unsafe { AtomicU64::from_ptr(at.cast()) })
    }

    fn change(self, here: impl FnOnce(&AtomicU64) -> u64, there: impl FnOnce(Far) -> u64) {
        match self.find() {
            Ok(word) => {
                here(word);
                memory::notify(self.element as c_int);
            }
            Err(far) => {
                there(far);
            }
        }
    }

    /// Rings none: an element that waits for its own word would wake itself.
    pub(crate) fn load(self) -> u64 {
        match self.find() {
            Ok(word) => word.load(SeqCst),
            Err(far) => far.change(self.function, u64::ELEMENT, update::FETCH, 0_u64, true),
        }
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
