//! Sets of partitions. Those that are ready or have arrived mostly lie side by side, so a set is the list of
//! its runs: marking a run costs the same however long it is.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::engine::steps;

/// Partitions of one message.
#[derive(Debug, Default)]
pub(crate) struct PartitionSet {
    /// The runs, none of which touches another: first, and the one behind the last.
    runs: BTreeMap<u32, u32>,
    /// How many partitions there are in all of them.
    count: usize,
}

impl PartitionSet {
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.count = 0;
    }

    /// How many partitions it has.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The first of these partitions that it has.
    pub(crate) fn first_of(&self, range: &Range<u32>) -> Option<u32> {
        let (&start, &end) = self.runs.range(..range.end).next_back()?;
        if end <= range.start {
            return None;
        }
        if start <= range.start {
            return (!range.is_empty()).then_some(range.start);
        }
        // Runs before that one are rare here: the caller is about to say that the user is wrong.
        let before = self.runs.range(..start).rev().take_while(|(_, end)| **end > range.start);
        Some(before.last().map_or(start, |(&first, _)| first.max(range.start)))
    }

    /// Adds partitions of which it has none.
    pub(crate) fn insert(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        steps::count(1);
        self.count += range.len();
        let behind = self.runs.remove(&range.end).unwrap_or(range.end);
        if let Some((_, end)) = self.runs.range_mut(..range.start).next_back()
            && *end == range.start
        {
            *end = behind;
            return;
        }
        self.runs.insert(range.start, behind);
    }

    /// Whether it has all of these partitions.
    pub(crate) fn covers(&self, range: &Range<u32>) -> bool {
        steps::count(1);
        range.is_empty()
            || self.runs.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Takes its first partitions that lie side by side.
    pub(crate) fn take_run(&mut self) -> Option<Range<u32>> {
        let (start, end) = self.runs.pop_first()?;
        steps::count(1);
        self.count -= (end - start) as usize;
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use tutti_testkit::Random;

    use super::*;

    #[test]
    fn sets_agree_with_a_list_of_marks() {
        let mut random = Random::new(44);
        for _ in 0..50 {
            let (mut set, mut marks) = (PartitionSet::default(), vec![false; 40]);
            for _ in 0..60 {
                let start = random.below(40) as u32;
                let range = start..start + random.below(41 - u64::from(start)) as u32;
                let of = range.start as usize..range.end as usize;
                let first = marks[of.clone()].iter().position(|mark| *mark).map(|at| range.start + at as u32);
                assert_eq!(set.first_of(&range), first, "{range:?} of {marks:?}");
                assert_eq!(set.covers(&range), marks[of.clone()].iter().all(|mark| *mark));
                match first {
                    None => {
                        set.insert(range);
                        marks[of].fill(true);
                    }
                    Some(_) if random.below(3) == 0 => {
                        let start = marks.iter().position(|mark| *mark).expect("one is there");
                        let end = start + marks[start..].iter().take_while(|mark| **mark).count();
                        assert_eq!(set.take_run(), Some(start as u32..end as u32));
                        marks[start..end].fill(false);
                    }
                    Some(_) => {}
                }
                assert_eq!(set.count(), marks.iter().filter(|mark| **mark).count());
            }
        }
    }
}
