//! Temporary memory of collective operations.
//!
//! Large pieces are kept for the next operation: fresh memory costs a page fault for every 4 KiB, as much as
//! the copy into it.

use std::cell::RefCell;
use std::mem::MaybeUninit;

/// Temporary memory, aligned for every element type.
#[derive(Debug)]
pub(crate) struct Memory(Vec<MaybeUninit<Unit>>);

/// The alignment.
#[derive(Debug)]
#[repr(C, align(16))]
struct Unit([u8; 16]);

/// Pieces from this size on are kept.
const KEPT_UNITS_MIN: usize = (64 << 10) / size_of::<Unit>();
/// Units of all pieces that a thread keeps, at most: 16 MiB.
const KEPT_UNITS_MAX: usize = (16 << 20) / size_of::<Unit>();

thread_local! {
    static KEPT: RefCell<Vec<Vec<MaybeUninit<Unit>>>> = const { RefCell::new(Vec::new()) };
}

impl Memory {
    /// Memory of `bytes` bytes, without meaningful content.
    pub(crate) fn new(bytes: usize) -> Self {
        let units = bytes.div_ceil(size_of::<Unit>());
        let mut memory = kept(units).unwrap_or_else(|| Vec::with_capacity(units));
        // SAFETY: the capacity is there, and these elements need no content.
        unsafe { memory.set_len(units) };
        Memory(memory)
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.0.len() * size_of::<Unit>()
    }

    /// Where they are.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// A kept piece that is large enough and not wasted on this.
fn kept(units: usize) -> Option<Vec<MaybeUninit<Unit>>> {
    if units < KEPT_UNITS_MIN {
        return None;
    }
    KEPT.try_with(|kept| {
        let mut kept = kept.try_borrow_mut().ok()?;
        let fits = |piece: &Vec<MaybeUninit<Unit>>| (units..=units * 2).contains(&piece.capacity());
        let position = kept.iter().position(fits)?;
        Some(kept.swap_remove(position))
    })
    .ok()?
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.0.capacity() < KEPT_UNITS_MIN {
            return;
        }
        let memory = std::mem::take(&mut self.0);
        // At the end of a thread there is nothing to keep it in, and it is freed.
        let _ = KEPT.try_with(|kept| {
            if let Ok(mut kept) = kept.try_borrow_mut() {
                let all: usize = kept.iter().map(Vec::capacity).sum();
                if all + memory.capacity() <= KEPT_UNITS_MAX {
                    kept.push(memory);
                } else if memory.capacity() <= KEPT_UNITS_MAX {
                    kept.clear();
                    kept.push(memory);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_memory_is_reused_and_bounded() {
        let first = Memory::new(1 << 20).address();
        assert_eq!(Memory::new((1 << 20) - 100).address(), first);
        for _ in 0..3 {
            drop((Memory::new(7 << 20), Memory::new(7 << 20), Memory::new(7 << 20)));
            let all: usize = KEPT.with_borrow(|kept| kept.iter().map(Vec::capacity).sum());
            assert!(all <= KEPT_UNITS_MAX);
        }
    }
}
