//! Refusals of other ranks that are kept by region until their initiator asks ([`Refusals::take`]): the first
//! of each region, and so many of each rank.

use std::collections::HashMap;

use crate::wire::{NO_REGION, Name, Refusal};

/// Refusals of one rank that are kept by region.
pub(super) const OF_RANK_MAX: usize = 1024;

/// All that are kept.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    kept: HashMap<(usize, Name), Refusal>,
    /// Number of those of a rank.
    of_rank: HashMap<usize, usize>,
}

impl Refusals {
    /// Keeps a refusal of a rank. One that refuses what nobody asked for fills no memory: there is one for
    /// all the rest.
    pub(super) fn keep(&mut self, from: usize, region: Name, refusal: Refusal) {
        let count = self.of_rank.entry(from).or_default();
        let region = if *count < OF_RANK_MAX { region } else { NO_REGION };
        self.kept.entry((from, region)).or_insert_with(|| {
            *count += 1;
            refusal
        });
    }

    /// Takes out that of a region, or else that of all the rest.
    pub(super) fn take(&mut self, from: usize, region: Name) -> Option<Refusal> {
        if self.kept.is_empty() {
            return None;
        }
        let found = self.kept.remove(&(from, region)).or_else(|| self.kept.remove(&(from, NO_REGION)))?;
        if let Some(count) = self.of_rank.get_mut(&from) {
            *count = count.saturating_sub(1);
        }
        Some(found)
    }

    /// Drops those of a rank.
    pub(super) fn forget(&mut self, rank: usize) {
        self.kept.retain(|(from, _), _| *from != rank);
        self.of_rank.remove(&rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(id: u32) -> Name {
        Name { id, generation: 0 }
    }

    #[test]
    fn refusals_of_a_flooding_rank_are_bounded_and_those_taken_make_room() {
        let mut refusals = Refusals::default();
        (0..3 * OF_RANK_MAX as u32).for_each(|id| refusals.keep(1, name(id), Refusal::OutOfRange));
        assert_eq!(refusals.kept.len(), OF_RANK_MAX + 1, "one is for all the rest");
        assert_eq!(refusals.take(1, name(2 * OF_RANK_MAX as u32)), Some(Refusal::OutOfRange));
        assert_eq!(refusals.take(1, name(2 * OF_RANK_MAX as u32)), None, "that was the one of the rest");
        assert_eq!(refusals.take(1, name(0)), Some(Refusal::OutOfRange));
        refusals.keep(1, name(9000), Refusal::NoRight);
        assert_eq!(refusals.take(1, name(9000)), Some(Refusal::NoRight));
    }

    #[test]
    fn refusals_keep_the_first_of_a_region() {
        let mut refusals = Refusals::default();
        refusals.keep(1, name(3), Refusal::NoRight);
        refusals.keep(1, name(3), Refusal::OutOfRange);
        assert_eq!((refusals.take(1, name(3)), refusals.take(1, name(3))), (Some(Refusal::NoRight), None));
    }

    #[test]
    fn refusals_of_a_forgotten_rank_are_gone_and_those_of_others_stay() {
        let mut refusals = Refusals::default();
        (0..OF_RANK_MAX as u32).for_each(|id| refusals.keep(1, name(id), Refusal::OutOfRange));
        refusals.keep(2, name(5), Refusal::NoRight);
        refusals.forget(1);
        assert_eq!(refusals.take(1, name(5)), None);
        assert_eq!(refusals.take(2, name(5)), Some(Refusal::NoRight));
        refusals.keep(1, name(6), Refusal::OutOfRange);
        assert_eq!(refusals.take(1, name(6)), Some(Refusal::OutOfRange), "the next of that number has room");
    }
}
