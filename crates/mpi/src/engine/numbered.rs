//! Table of what waits for an answer of a peer, by the number of its message: announced sends, messages on
//! their way through the bulk ring.
//!
//! A few are looked through, which is cheapest; many have an index, so that each costs the same however many
//! there are.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::steps;

/// Number of values that are looked through before there is an index.
const SHORT: usize = 16;

/// Values by number, in no order.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    list: Vec<(u32, T)>,
    /// Where in `list` a number is; empty unless `is_indexed`.
    places: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    is_indexed: bool,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { list: Vec::new(), places: HashMap::default(), is_indexed: false }
    }
}

impl<T> Numbered<T> {
    /// Whether there is nothing.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds a value under a number that is not in use.
    #[inline]
    pub(crate) fn push(&mut self, number: u32, value: T) {
        self.list.push((number, value));
        if self.is_indexed {
            self.places.insert(number, self.list.len() as u32 - 1);
        } else if self.list.len() > SHORT {
            self.build_index();
        }
    }

    #[cold]
    fn build_index(&mut self) {
        self.is_indexed = true;
        self.places.extend(self.list.iter().zip(0..).map(|((number, _), place)| (*number, place)));
    }

    #[inline]
    fn place(&self, number: u32) -> Option<usize> {
        if self.is_indexed {
            steps::count(1);
            return self.places.get(&number).map(|place| *place as usize);
        }
        self.list.iter().inspect(|_| steps::count(1)).position(|(other, _)| *other == number)
    }

    /// The value under a number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&T> {
        self.place(number).map(|place| &self.list[place].1)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.place(number).map(|place| &mut self.list[place].1)
    }

    /// Takes the value under a number.
    #[inline]
    pub(crate) fn take(&mut self, number: u32) -> Option<T> {
        let place = self.place(number)?;
        let (_, value) = self.list.swap_remove(place);
        if self.is_indexed {
            self.places.remove(&number);
            match self.list.get(place) {
                Some((moved, _)) => *self.places.get_mut(moved).expect("all are indexed") = place as u32,
                None => self.is_indexed = !self.list.is_empty(),
            }
        }
        Some(value)
    }
}

/// Spreads numbers that count up: they come from ranks of the same job, so none is chosen to collide.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline(always)]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(29) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline(always)]
    fn write_i32(&mut self, number: i32) {
        self.write_u32(number.cast_unsigned());
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbered_values_are_found_and_taken_as_in_a_map(
            operations in prop::collection::vec((0..3_u8, 0..80_u32), 0..600),
        ) {
            let (mut numbered, mut model) = (Numbered::default(), BTreeMap::new());
            for (operation, number) in operations {
                if operation > 0 && !model.contains_key(&number) {
                    numbered.push(number, number * 2);
                    model.insert(number, number * 2);
                } else if operation == 0 {
                    prop_assert_eq!(numbered.take(number), model.remove(&number));
                } else {
                    prop_assert_eq!(numbered.get(number), model.get(&number));
                    prop_assert_eq!(numbered.get_mut(number), model.get_mut(&number));
                }
                prop_assert_eq!(numbered.is_empty(), model.is_empty());
                prop_assert!((0..80).all(|number| numbered.get(number) == model.get(&number)));
            }
        }
    }
}
