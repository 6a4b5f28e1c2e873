//! The ranges of memory that a rank has attached to a window (`MPI_Win_attach`), in a table that all ranks of
//! its node read.
//!
//! ```text
//! | version | count | address, bytes | address, bytes | ... by address; they do not overlap
//!                                       ... | address | address | how many ranges of no bytes
//! ```
//!
//! Ranges of no bytes stand apart, from the end on, and only their rank knows of them: they are detached as
//! others are. Its rank alone writes. The version is odd while it changes the table; a reader that finds an
//! odd one, or another one afterwards, looks again.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Ranges that a table has room for.
pub const RANGES_MAX: usize = (1 << 15) - 1;
/// Bytes of a table. Pages come on first use.
pub const TABLE_BYTES: usize = (EMPTY_COUNT + 1) * size_of::<u64>();
const HEAD_WORDS: usize = 2;
/// Word of the number of empty ranges; their addresses stand before it.
const EMPTY_COUNT: usize = HEAD_WORDS + 2 * RANGES_MAX + 1;

/// A range of a rank's memory, by its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Address of the first byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
}

impl Attached {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// Why a range is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The table has no more room.
    Full,
    /// Another range has some of the same bytes.
    Overlaps(Attached),
}

/// The table of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Table(NonNull<AtomicU64>);

// SAFETY: the words are atomics in memory that outlives the value (the constructor's contract).
unsafe impl Send for Table {}

impl Table {
    /// The table at `at`.
    ///
    /// # Safety
    /// There are [`TABLE_BYTES`] bytes, zeroed before the first use, aligned to 8 and valid for the life of
    /// the value. One process alone attaches and detaches.
    pub unsafe fn new(at: NonNull<u8>) -> Self {
        Table(at.cast())
    }

    /// The range that has all of these bytes; several that follow one another without a gap are one.
    pub fn find(&self, address: u64, bytes: u64) -> Option<Attached> {
        let end = address.checked_add(bytes)?;
        loop {
            let version = self.word(0).load(Ordering::Acquire);
            let found = self.last_at_or_before(address).map(|index| self.joined(index, end));
            fence(Ordering::Acquire);
            if version.is_multiple_of(2) && self.word(0).load(Ordering::Relaxed) == version {
                return found.filter(|range| end <= range.end());
            }
            std::hint::spin_loop();
        }
    }

    /// A range with those that follow it without a gap, as far as `end` needs them.
    fn joined(&self, index: usize, end: u64) -> Attached {
        let mut range = self.range(index);
        for next in index + 1..self.count() {
            let next = self.range(next);
            if range.end() >= end || next.address != range.end() {
                break;
            }
            range.bytes += next.bytes;
        }
        range
    }

    /// Adds a range. One of no bytes overlaps none, and may be there several times.
    ///
    /// # Errors
    /// When there is no room, or another range overlaps it.
    pub fn attach(&self, range: Attached) -> Result<(), Refusal> {
        let count = self.count();
        if range.bytes == 0 {
            return self.attach_empty(range.address);
        }
        let before = self.last_at_or_before(range.address);
        let place = before.map_or(0, |index| index + 1);
        let is_clear = |other: Attached| other.end() <= range.address || range.end() <= other.address;
        for index in before.into_iter().chain((place < count).then_some(place)) {
            let other = self.range(index);
            if !is_clear(other) {
                return Err(Refusal::Overlaps(other));
            }
        }
        if !self.has_room(2) {
            return Err(Refusal::Full);
        }
        self.change(|| {
            for index in (place..count).rev() {
                self.set(index + 1, self.range(index));
            }
            self.set(place, range);
            self.word(1).store(count as u64 + 1, Ordering::Relaxed);
        });
        Ok(())
    }

    fn attach_empty(&self, address: u64) -> Result<(), Refusal> {
        if !self.has_room(1) {
            return Err(Refusal::Full);
        }
        let empty = self.empty_count();
        self.word(EMPTY_COUNT - 1 - empty).store(address, Ordering::Relaxed);
        self.word(EMPTY_COUNT).store(empty as u64 + 1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes the range that begins at an address, of several one that has bytes; false when none does.
    pub fn detach(&self, address: u64) -> bool {
        let count = self.count();
        let begins = |place: &usize| self.range(*place).address == address;
        let Some(place) = self.last_at_or_before(address).filter(begins) else {
            return self.detach_empty(address);
        };
        self.change(|| {
            for index in place + 1..count {
                self.set(index - 1, self.range(index));
            }
            self.word(1).store(count as u64 - 1, Ordering::Relaxed);
        });
        true
    }

    fn detach_empty(&self, address: u64) -> bool {
        let empty = self.empty_count();
        let words = EMPTY_COUNT - empty..EMPTY_COUNT;
        let Some(place) = words.clone().find(|word| self.word(*word).load(Ordering::Relaxed) == address)
        else {
            return false;
        };
        let last = self.word(words.start).load(Ordering::Relaxed);
        self.word(place).store(last, Ordering::Relaxed);
        self.word(EMPTY_COUNT).store(empty as u64 - 1, Ordering::Relaxed);
        true
    }

    /// Whether so many words are free.
    fn has_room(&self, words: usize) -> bool {
        HEAD_WORDS + 2 * self.count() + words <= EMPTY_COUNT - self.empty_count()
    }

    fn empty_count(&self) -> usize {
        (self.word(EMPTY_COUNT).load(Ordering::Relaxed) as usize).min(EMPTY_COUNT - HEAD_WORDS)
    }

    /// Ranges in it that have bytes.
    pub fn count(&self) -> usize {
        (self.word(1).load(Ordering::Relaxed) as usize).min(RANGES_MAX)
    }

    fn change(&self, change: impl FnOnce()) {
        let version = self.word(0).load(Ordering::Relaxed);
        self.word(0).store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        change();
        self.word(0).store(version + 2, Ordering::Release);
    }

    fn last_at_or_before(&self, address: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.range(middle).address <= address { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    fn range(&self, index: usize) -> Attached {
        let word = |which| self.word(HEAD_WORDS + 2 * index + which).load(Ordering::Relaxed);
        Attached { address: word(0), bytes: word(1) }
    }

    fn set(&self, index: usize, range: Attached) {
        self.word(HEAD_WORDS + 2 * index).store(range.address, Ordering::Relaxed);
        self.word(HEAD_WORDS + 2 * index + 1).store(range.bytes, Ordering::Relaxed);
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < TABLE_BYTES / size_of::<u64>(), "word {index} of a table of ranges");
        // SAFETY: inside the table (the constructor's contract).
        unsafe { self.0.add(index).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> (Vec<u64>, Table) {
        let mut words = vec![0_u64; TABLE_BYTES / size_of::<u64>()];
        // SAFETY: so many zeroed words, which the caller keeps beside the table.
        let table = unsafe { Table::new(NonNull::from(&mut words[0]).cast()) };
        (words, table)
    }

    #[test]
    fn attached_ranges_are_found_by_any_of_their_bytes() {
        let (_words, table) = table();
        assert_eq!(table.find(0, 0), None);
        for index in [5_u64, 1, 3, 2, 4] {
            table.attach(Attached { address: index * 100, bytes: 50 }).unwrap();
        }
        for index in 1..=5 {
            let range = Attached { address: index * 100, bytes: 50 };
            assert_eq!(table.find(index * 100, 50), Some(range));
            assert_eq!(table.find(index * 100 + 49, 1), Some(range));
            assert_eq!(table.find(index * 100 + 50, 1), None);
            assert_eq!(table.find(index * 100 + 10, 41), None, "beyond its end");
        }
        assert_eq!(table.find(99, 2), None);
        assert_eq!(table.find(u64::MAX, 2), None);
        assert!(table.detach(300) && !table.detach(300) && !table.detach(201));
        assert_eq!((table.find(300, 1), table.count()), (None, 4));
        assert_eq!(table.find(449, 1), Some(Attached { address: 400, bytes: 50 }));
    }

    #[test]
    fn attached_ranges_without_a_gap_are_one() {
        let (_words, table) = table();
        for (address, bytes) in [(100, 50), (150, 10), (160, 40), (201, 9)] {
            table.attach(Attached { address, bytes }).unwrap();
        }
        assert_eq!(table.find(120, 80), Some(Attached { address: 100, bytes: 100 }));
        assert_eq!(table.find(155, 10), Some(Attached { address: 150, bytes: 50 }));
        assert_eq!((table.find(120, 81), table.find(199, 3)), (None, None));
        assert_eq!(table.find(100, 10), Some(Attached { address: 100, bytes: 50 }));
    }

    #[test]
    fn attached_ranges_that_overlap_are_refused() {
        let (_words, table) = table();
        let old = Attached { address: 100, bytes: 50 };
        table.attach(old).unwrap();
        for (address, bytes) in [(100, 1), (149, 10), (60, 41), (0, 1000), (120, 5)] {
            assert_eq!(table.attach(Attached { address, bytes }), Err(Refusal::Overlaps(old)));
        }
        table.attach(Attached { address: 150, bytes: 1 }).unwrap();
        table.attach(Attached { address: 99, bytes: 1 }).unwrap();
        assert_eq!(table.count(), 3);
    }

    #[test]
    fn attached_table_that_is_full_refuses() {
        let (_words, table) = table();
        for index in 0..RANGES_MAX as u64 {
            table.attach(Attached { address: index * 2, bytes: 1 }).unwrap();
        }
        assert_eq!(table.attach(Attached { address: 1, bytes: 1 }), Err(Refusal::Full));
        assert!(table.detach(0));
        table.attach(Attached { address: 1, bytes: 1 }).unwrap();
    }

    #[test]
    fn attached_ranges_of_no_bytes_are_detached_as_others_are() {
        let (_words, table) = table();
        table.attach(Attached { address: 100, bytes: 10 }).unwrap();
        for address in [0, 100, 105, 105, 200] {
            table.attach(Attached { address, bytes: 0 }).unwrap();
        }
        assert_eq!((table.count(), table.find(100, 10)), (1, Some(Attached { address: 100, bytes: 10 })));
        assert!(table.find(200, 1).is_none() && !table.detach(50));
        for address in [105, 100, 200, 105, 100, 0] {
            assert!(table.detach(address), "{address}");
        }
        assert!([0, 100, 105, 200].iter().all(|address| !table.detach(*address)));
        let all = (0..).take_while(|address| table.attach(Attached { address: *address, bytes: 0 }).is_ok());
        assert!(all.count() >= RANGES_MAX);
        assert_eq!(table.attach(Attached { address: 1, bytes: 1 }), Err(Refusal::Full));
        assert!(
            table.detach(7) && table.detach(8) && table.attach(Attached { address: 1, bytes: 1 }).is_ok()
        );
    }

    #[test]
    fn attached_ranges_are_read_whole_while_they_change() {
        let (_words, table) = table();
        table.attach(Attached { address: 1000, bytes: 10 }).unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                for _ in 0..20_000 {
                    let found = table.find(1005, 1);
                    assert_eq!(found, Some(Attached { address: 1000, bytes: 10 }));
                }
            });
            while !reader.is_finished() {
                table.attach(Attached { address: 10, bytes: 10 }).unwrap();
                assert!(table.detach(10));
            }
        });
    }
}
