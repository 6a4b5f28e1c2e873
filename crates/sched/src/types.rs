//! Names and numbers that every part of the scheduler uses.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A job of the cluster. The controller hands the numbers out and uses none twice.
    JobId(u64)
);
number!(
    /// A node of the cluster. A node that comes back keeps its number.
    NodeId(u32)
);
number!(
    /// The number of a gang switch: the newest one holds, older ones are never executed.
    Generation(u64)
);
number!(
    /// The number of a state of the matrix: which jobs stand in which row.
    Version(u64)
);
number!(
    /// The number of a state of the control tree: which nodes are in it and which count.
    Membership(u64)
);

impl NodeId {
    /// The node that schedules, unless it is lost.
    pub const CONTROLLER: NodeId = NodeId(0);
}

impl Generation {
    /// The generation after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Generation(self.0 + 1)
    }
}

impl Version {
    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Version(self.0 + 1)
    }
}

impl Membership {
    /// The membership after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Membership(self.0 + 1)
    }
}

/// How long the jobs of a row run before the next row's turn, unless the keeper says otherwise.
pub const SLICE_DEFAULT_NS: u64 = 100_000_000;

/// An amount of memory, as people write it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        match (0..4).rev().find(|unit| self.0 >= 1 << (10 * (unit + 1))) {
            None => write!(f, "{} bytes", self.0),
            Some(unit) => {
                let tenths = (u128::from(self.0) * 10) >> (10 * (unit + 1));
                match (tenths / 10, tenths % 10) {
                    (whole, 0) => write!(f, "{whole} {}", units[unit]),
                    (whole, tenth) => write!(f, "{whole}.{tenth} {}", units[unit]),
                }
            }
        }
    }
}

/// Slots that a node can have.
pub const SLOTS_MAX: u32 = 512;

/// A set of slots of one node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Slots([u64; 8]);

impl Slots {
    /// No slot.
    pub const NONE: Slots = Slots([0; 8]);

    /// The slots 0 to `count`, without `count`.
    ///
    /// # Panics
    /// Panics if `count` is more than [`SLOTS_MAX`].
    #[must_use]
    pub fn first(count: u32) -> Self {
        assert!(count <= SLOTS_MAX, "a node has at most {SLOTS_MAX} slots, not {count}");
        let mut words = [0; 8];
        for (word, low) in words.iter_mut().zip((0..).step_by(64)) {
            *word = match count.saturating_sub(low) {
                0 => 0,
                n if n >= 64 => u64::MAX,
                n => (1 << n) - 1,
            };
        }
        Slots(words)
    }

    /// How many slots.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 8]
    }

    /// True if no slot is in both.
    #[must_use]
    pub fn is_disjoint(&self, other: &Slots) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & b == 0)
    }

    /// True if `slot` is in the set.
    #[must_use]
    pub fn contains(&self, slot: u32) -> bool {
        slot < SLOTS_MAX && self.0[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    /// The slots of both.
    #[must_use]
    pub fn with(&self, other: &Slots) -> Slots {
        Slots(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    /// The slots of this one that are not in `other`.
    #[must_use]
    pub fn without(&self, other: &Slots) -> Slots {
        Slots(std::array::from_fn(|i| self.0[i] & !other.0[i]))
    }

    /// The `count` lowest of these slots; all, if there are no more.
    #[must_use]
    pub fn lowest(&self, count: u32) -> Slots {
        let mut rest = count;
        let mut words = [0; 8];
        for (to, &from) in words.iter_mut().zip(&self.0) {
            let mut left = from;
            while rest > 0 && left != 0 {
                *to |= left & left.wrapping_neg();
                left &= left - 1;
                rest -= 1;
            }
        }
        Slots(words)
    }

    /// The slots, lowest first: rank i of a job's ranks on a node is bound to the i-th.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..SLOTS_MAX).filter(|&slot| self.contains(slot))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_formatted_with_one_decimal() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((8 << 30) - 1, "7.9 GiB"),
            (8 << 30, "8 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn slots_are_a_set_of_up_to_512() {
        for count in [0, 1, 63, 64, 65, 511, 512] {
            let all = Slots::first(count);
            assert_eq!((all.count(), all.iter().count() as u32), (count, count));
            assert_eq!(all.lowest(3).iter().collect::<Vec<_>>(), (0..count.min(3)).collect::<Vec<_>>());
            assert!(all.without(&all).is_empty() && all.with(&all) == all);
        }
        let high = Slots::first(130).without(&Slots::first(60)).lowest(10);
        assert_eq!(high.iter().collect::<Vec<_>>(), (60..70).collect::<Vec<_>>());
        assert!(high.is_disjoint(&Slots::first(60)) && !high.is_disjoint(&Slots::first(61)));
    }
}
