//! Mistakes of a program with shared memory, found at run time (`TUTTI_DSM_CHECK=1`).
//!
//! ```text
//! data race    a home knows for each byte who stored it last, and in which interval. A store by another rank that
//!              has not seen that interval is ordered with it by nothing.
//! same value   such a store of what the byte holds already: many programs have all processes store a result that
//!              each has computed. A counter without a lock looks the same, so it is named too.
//! lost store   a copy whose stores are noted has a twin besides: a byte that differs and is in no note would not
//!              go home.
//! ```
//!
//! Each rank is a node of its own then, so all stores come to homes as differences. The home's own are
//! compared with twins as those of others are: one of a value that another rank's store has brought there in
//! the same interval shows in no twin.

use std::collections::BTreeMap;
use std::fmt;
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
    /// Whether the other one stores what the first has stored.
    pub is_same: bool,
}

impl fmt::Display for Race {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second, offset) = (self.first.rank, self.second.rank, self.offset);
        if self.is_same {
            write!(
                to,
                "rank {first} and rank {second} store the same value to byte {offset} of shared memory with no lock, \
                 barrier or pause between: wrong where it follows from what was there, as a count does"
            )
        } else {
            write!(
                to,
                "data race: rank {first} and rank {second} store to byte {offset} of shared memory with no lock, \
                 barrier or pause between"
            )
        }
    }
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
    /// could know of the other. `is_same` says of a byte whether it held the same before. A race of other
    /// values comes before one of the same.
    pub fn note(
        &mut self,
        unit: u32,
        bytes: Range<usize>,
        stamp: Stamp,
        seen: &VectorTime,
        is_same: impl Fn(usize) -> bool,
    ) -> Option<Race> {
        let mut found = None;
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
                let race = Race { offset, first: other, second: stamp, is_same: is_same(at) };
                if !race.is_same {
                    return Some(race);
                }
                found.get_or_insert(race);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_finds_stores_that_nothing_orders() {
        let mut check = Check::default();
        let stamp = |rank, interval| Stamp { rank, interval, site: 0 };
        let mut note = |bytes, stamp, seen: [u32; 2]| {
            check.note(3, bytes, stamp, &VectorTime::from_entries(seen.to_vec()), |at| at == 5)
        };
        assert_eq!(note(0..8, stamp(0, 1), [0, 0]), None);
        assert_eq!(note(8..16, stamp(1, 1), [0, 0]), None, "other bytes");
        assert_eq!(note(4..6, stamp(1, 2), [1, 1]), None, "it has seen the interval");
        let offset = |byte: u64| 3 * 4096 + byte;
        let same = Race { offset: offset(5), first: stamp(1, 2), second: stamp(0, 2), is_same: true };
        assert_eq!(note(5..9, stamp(0, 2), [1, 1]), Some(same));
        assert_eq!(note(9..10, stamp(0, 2), [1, 1]), None, "it has seen the interval");
    }

    #[test]
    fn check_names_races_of_other_values_before_those_of_the_same() {
        let mut check = Check::default();
        let stamp = |rank| Stamp { rank, interval: 1, site: 0 };
        let seen = VectorTime::from_entries(vec![0, 0]);
        assert_eq!(check.note(0, 0..8, stamp(0), &seen, |_| false), None);
        let race = check.note(0, 2..8, stamp(1), &seen, |at| at < 6);
        assert_eq!(race, Some(Race { offset: 6, first: stamp(0), second: stamp(1), is_same: false }));
    }
}
