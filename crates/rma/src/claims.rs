//! Claims on requests of a rank of another node: this rank applies them, or its starter while it stands
//! still.
//!
//! Requests of a pair are counted on both sides. A word for each rank that asks says how many of its requests
//! have been applied, and whether the next one is being applied now. Whoever applies one claims it first, so
//! it is applied once, in its order, whatever else comes of its record.
//!
//! | word | meaning | next |
//! |---|---|---|
//! | 2n | n requests have been applied | whoever applies request n stores 2n + 1 (compare and swap) |
//! | 2n + 1 | request n is being applied | who has claimed it stores 2n + 2 |

use std::sync::atomic::{AtomicU64, Ordering::*};

use tutti_shm::opened::Opened;

/// Looks at a request that the starter applies before it is taken for dead.
const LOOKS: u32 = 1 << 22;

/// The words of a rank, in memory that its starter maps too.
#[derive(Clone, Copy, Debug)]
pub struct Claims(Opened);

impl Claims {
    /// Bytes of the words for so many ranks that may ask.
    pub fn bytes(ranks: usize) -> usize {
        ranks * size_of::<AtomicU64>()
    }

    /// The words in this memory, one for each rank as far as it reaches.
    pub fn new(memory: Opened) -> Self {
        Claims(memory)
    }

    fn word(&self, from: usize) -> Option<&AtomicU64> {
        self.0.atomic_u64(from.checked_mul(size_of::<AtomicU64>())?)
    }

    /// Stores that so many requests of a rank have been applied.
    pub fn set(&self, from: usize, applied: u64) {
        if let Some(word) = self.word(from) {
            word.store(2 * applied, Release);
        }
    }

    /// The rank itself is about to apply a request, by its number; false if the starter has.
    #[inline]
    pub fn begin(&self, from: usize, number: u64) -> bool {
        let Some(word) = self.word(from) else { return true };
        if word.compare_exchange(2 * number, 2 * number + 1, AcqRel, Acquire).is_ok() {
            return true;
        }
        self.begin_late(word, number)
    }

    #[cold]
    fn begin_late(&self, word: &AtomicU64, number: u64) -> bool {
        for _ in 0..LOOKS {
            if word.load(Acquire) > 2 * number + 1 {
                return false;
            }
            std::thread::yield_now();
        }
        // The starter has died inside: nobody knows whether the request was applied.
        true
    }

    /// The starter wants to apply a request; false if it has been applied, is being applied, or others come
    /// before it.
    pub fn try_begin(&self, from: usize, number: u64) -> bool {
        let Some(doubled) = number.checked_mul(2) else { return false };
        self.word(from)
            .is_some_and(|word| word.compare_exchange(doubled, doubled + 1, AcqRel, Relaxed).is_ok())
    }

    /// Ends a request that has been applied. Who was taken for dead while it applied one, and ends it late,
    /// changes nothing of what has been claimed since.
    #[inline]
    pub fn end(&self, from: usize, number: u64) {
        if let Some(word) = self.word(from) {
            let _ = word.compare_exchange(2 * number + 1, 2 * number + 2, Release, Relaxed);
        }
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::ptr::NonNull;

    use super::*;

    #[test]
    fn claims_give_each_request_to_one_and_in_order() {
        let mut words = [0_u64; 2];
        // SAFETY: the array outlives the claims.
        let claims = Claims::new(unsafe { Opened::new(NonNull::from(&mut words).cast(), 16) });
        claims.set(1, 7);
        assert!(!claims.try_begin(1, 8), "one comes before it");
        assert!(claims.try_begin(1, 7));
        assert!(!claims.try_begin(1, 7), "it is being applied");
        claims.end(1, 7);
        assert!(!claims.begin(1, 7), "the starter has applied it");
        assert!(claims.begin(1, 8));
        assert!(!claims.try_begin(1, 8), "the rank stands still inside");
        claims.end(1, 8);
        assert!(claims.begin(0, 0) && !claims.try_begin(2, 0), "a rank without a word has no starter");
        assert!(claims.begin(2, 99));
    }

    #[test]
    fn claims_that_end_late_change_nothing_of_later_ones() {
        let mut word = 0_u64;
        // SAFETY: the word outlives the claims.
        let claims = Claims::new(unsafe { Opened::new(NonNull::from(&mut word).cast(), 8) });
        claims.set(0, 3);
        assert!(claims.try_begin(0, 3));
        // The rank has waited long enough for its starter, and goes on.
        claims.end(0, 3);
        assert!(claims.begin(0, 4));
        claims.end(0, 3);
        assert!(!claims.try_begin(0, 4) && !claims.try_begin(0, 3), "request 4 is being applied");
        claims.end(0, 4);
        claims.end(0, 3);
        assert!(!claims.try_begin(0, 4) && claims.try_begin(0, 5));
    }
}
