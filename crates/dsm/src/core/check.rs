//! Mistakes of a program with shared memory, found at run time (`TUTTI_DSM_CHECK=1`).
//!
//! ```text
//! data race    a home knows for each byte who stored it last, and in which interval. A store by another rank that
//!              has not seen that interval is ordered with it by nothing.
//! lost store   a copy whose stores are noted has a twin besides: a byte that differs and is in no note would not
//!              go home.
//! ```
//!
//! Each rank is a node of its own then, so all stores come to homes as differences. The home's own are
//! compared with twins as those of others are.

use std::collections::BTreeMap;
use std::ops::Range;

use super::time::VectorTime;
use super::unit::UNIT_BYTES;

/// Store of a rank, as far as it is known where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The rank.
    pub rank: usize,
    /// The interval in which it stored.
    pub interval: u32,
    /// The place of the instruction in the program that stored to the unit first; 0: not known.
    pub site: u64,
}

/// Two stores to a byte that nothing orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The byte, in the arena.
    pub offset: u64,
    /// The store that came first.
    pub first: Stamp,
    /// The other one.
    pub second: Stamp,
}

/// Stores to the units of a home.
#[derive(Debug, Default)]
pub struct Check {
    stamps: Vec<Stamp>,
    /// By unit and byte: 1 + the number of its last stamp.
    last: BTreeMap<u32, Box<[u32]>>,
}

impl Check {
    /// A rank that has seen so much has stored to bytes of a unit; the race when another has too, and neither
    /// could know of the other.
    pub fn note(&mut self, unit: u32, bytes: Range<usize>, stamp: Stamp, seen: &VectorTime) -> Option<Race> {
        if self.stamps.last() != Some(&stamp) {
            self.stamps.push(stamp);
        }
        let number = self.stamps.len() as u32;
        let last = self.last.entry(unit).or_insert_with(|| vec![0; UNIT_BYTES].into());
        for at in bytes {
            let before = std::mem::replace(&mut last[at], number);
            let Some(other) = before.checked_sub(1).map(|place| self.stamps[place as usize]) else {
                continue;
            };
            if other.rank != stamp.rank && seen.of(other.rank) < other.interval {
                let offset = unit as u64 * UNIT_BYTES as u64 + at as u64;
                return Some(Race { offset, first: other, second: stamp });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_stores_that_nothing_orders() {
        let mut check = Check::default();
        let stamp = |rank, interval| Stamp { rank, interval, site: 0 };
        let seen = |entries: [u32; 2]| VectorTime::from_entries(entries.to_vec());
        assert_eq!(check.note(3, 0..8, stamp(0, 1), &seen([0, 0])), None);
        assert_eq!(check.note(3, 8..16, stamp(1, 1), &seen([0, 0])), None, "other bytes");
        assert_eq!(check.note(3, 4..6, stamp(1, 2), &seen([1, 1])), None, "it has seen the interval");
        let race = check.note(3, 5..9, stamp(0, 2), &seen([1, 1]));
        let expected = Race { offset: 3 * 4096 + 5, first: stamp(1, 2), second: stamp(0, 2) };
        assert_eq!(race, Some(expected));
    }
}
