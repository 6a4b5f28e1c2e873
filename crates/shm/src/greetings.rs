//! Which ranks of a node have begun to exchange messages with a rank: it looks at the rings of those alone,
//! so the pages of all others are never touched.
//!
//! A rank greets another before it first looks at their rings or writes to them: it sets the bit of its place
//! on the node in the words of the other. Bits stay when a number gets another process ([`crate::reuse`]):
//! its mates have met the number, and do not greet again. It looks at a ring more than it must.
//!
//! ```text
//! greeter:  bit -> message -> fence -> sleeping? ring        sleeper: sleeping -> fence -> bits -> rings of those -> sleep
//! ```
//!
//! So whoever is about to sleep sees the bit, and with it the message, or is rung. What if it stops right
//! here: a bit without a message is an empty ring that is looked at.
//!
//! The words lie where the bulk data from a rank to itself would, of which there are none.

use crate::layout::LOCAL_RANKS_MAX;
use crate::sync::{AtomicU64, Ordering};

/// Words of a rank.
const WORDS: usize = LOCAL_RANKS_MAX as usize / 64;

/// Bits of those who have greeted a rank, by their places on the node. Writers: they, by atomic changes.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Greetings {
    words: [AtomicU64; WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Greetings>() <= crate::layout::BULK_SLOT_BYTES_MIN);

impl Greetings {
    /// Greets the rank, by the one at this place.
    pub fn greet(&self, by: usize) {
        self.words[by / 64].fetch_or(1 << (by % 64), Ordering::AcqRel);
    }
}

/// The greetings that a rank has taken in.
#[derive(Clone, Debug, Default)]
pub struct Greeted {
    seen: Vec<u64>,
}

impl Greeted {
    /// From now on ranks at so many places may greet.
    pub fn grow(&mut self, places: usize) {
        self.seen.resize(places.div_ceil(64), 0);
    }

    /// Whether there are new ones.
    #[inline(always)]
    pub fn has_news(&self, greetings: &Greetings) -> bool {
        self.seen.iter().zip(&greetings.words).any(|(seen, word)| word.load(Ordering::Relaxed) != *seen)
    }

    /// Takes a new one in, of a place below `places`.
    pub fn take(&mut self, greetings: &Greetings, places: usize) -> Option<usize> {
        for (at, (seen, word)) in self.seen.iter_mut().zip(&greetings.words).enumerate() {
            let new = word.load(Ordering::Acquire) & !*seen;
            let place = at * 64 + new.trailing_zeros() as usize;
            if new != 0 && place < places {
                *seen |= 1 << (place % 64);
                return Some(place);
            }
        }
        None
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn greetings_are_taken_once_and_only_below_the_places_that_are_known() {
        let greetings = Greetings { words: [const { AtomicU64::new(0) }; WORDS] };
        let mut greeted = Greeted::default();
        greeted.grow(70);
        assert!(!greeted.has_news(&greetings));
        for place in [3, 69, 3, 64, 100] {
            greetings.greet(place);
        }
        assert!(greeted.has_news(&greetings));
        let taken: Vec<usize> = std::iter::from_fn(|| greeted.take(&greetings, 70)).collect();
        assert_eq!(taken, [3, 64, 69]);
        // One that was started later, which its mate has not met.
        assert!(greeted.has_news(&greetings));
        greeted.grow(101);
        assert_eq!(greeted.take(&greetings, 101), Some(100));
        assert!(!greeted.has_news(&greetings));
    }
}
