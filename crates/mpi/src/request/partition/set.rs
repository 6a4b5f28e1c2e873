//! Sets of partitions. Those that are ready or have arrived mostly lie side by side, so a set is the list of
//! its runs: marking a run costs the same however long it is.
//!
//! The last run is kept apart from the others: the set of partitions that are ready and not sent has one for
//! a moment, again and again, and needs no memory for it.

use core::ops::Range;
use std::collections::BTreeMap;

use crate::engine::steps;

/// Partitions of one message.
#[derive(Debug, Default)]
pub(crate) struct PartitionSet {
    /// The last run. Partitions mostly get ready in order, one by one: then there is no other, and marking
    /// one changes a number. Empty if the set is.
    last: Range<u32>,
    /// Runs before it, none of which touches another: first, and the one behind the last.
    before: BTreeMap<u32, u32>,
    /// How many partitions there are in all of them.
    count: usize,
}

impl PartitionSet {
    pub(crate) fn clear(&mut self) {
        self.last = 0..0;
        self.before.clear();
        self.count = 0;
    }

    /// How many partitions it has.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether this one follows its last run, and so is not in it.
    #[inline(always)]
    pub(crate) fn is_next(&self, partition: u32) -> bool {
        partition == self.last.end
    }

    /// Whether its last run has this one.
    #[inline(always)]
    pub(crate) fn has_in_last(&self, partition: u32) -> bool {
        steps::count(1);
        self.last.contains(&partition)
    }

    /// Adds the one that follows its last run ([`PartitionSet::is_next`]).
    #[inline(always)]
    pub(crate) fn insert_next(&mut self) {
        steps::count(1);
        self.last.end += 1;
        self.count += 1;
    }

    /// The first partitions of the set that lie side by side.
    #[inline]
    pub(crate) fn first_run(&self) -> Option<Range<u32>> {
        let before = self.before.first_key_value().map(|(&start, &end)| start..end);
        before.or_else(|| (self.count > 0).then(|| self.last.clone()))
    }

    /// The first of these partitions that it has.
    #[inline]
    pub(crate) fn first_of(&self, range: &Range<u32>) -> Option<u32> {
        if range.start >= self.last.end || range.is_empty() {
            return None;
        }
        let in_last = || (self.last.start < range.end).then(|| range.start.max(self.last.start));
        self.first_before(range).or_else(in_last)
    }

    fn first_before(&self, range: &Range<u32>) -> Option<u32> {
        let (&start, &end) = self.before.range(..range.end).next_back()?;
        if end <= range.start {
            return None;
        }
        if start <= range.start {
            return Some(range.start);
        }
        // Runs before that one are rare here: the caller is about to say that the user is wrong.
        let before = self.before.range(..start).rev().take_while(|(_, end)| **end > range.start);
        Some(before.last().map_or(start, |(&first, _)| first.max(range.start)))
    }

    /// Adds partitions of which it has none.
    #[inline]
    pub(crate) fn insert(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        steps::count(1);
        self.count += range.len();
        match () {
            () if self.last.is_empty() => self.last = range,
            () if range.start == self.last.end => self.last.end = range.end,
            () => self.insert_elsewhere(range),
        }
    }

    fn insert_elsewhere(&mut self, range: Range<u32>) {
        if range.start > self.last.end {
            self.before.insert(self.last.start, self.last.end);
            self.last = range;
            return;
        }
        let touches_last = range.end == self.last.start;
        let behind = self.before.remove(&range.end).unwrap_or(range.end);
        let run_before =
            self.before.range_mut(..range.start).next_back().filter(|(_, end)| **end == range.start);
        match run_before {
            Some((&start, _)) if touches_last => {
                self.before.remove(&start);
                self.last.start = start;
            }
            Some((_, end)) => *end = behind,
            None if touches_last => self.last.start = range.start,
            None => {
                self.before.insert(range.start, behind);
            }
        }
    }

    /// Whether it has all of these partitions.
    #[inline]
    pub(crate) fn covers(&self, range: &Range<u32>) -> bool {
        steps::count(1);
        let is_in_last = self.last.start <= range.start && range.end <= self.last.end;
        range.is_empty()
            || is_in_last
            || self.before.range(..=range.start).next_back().is_some_and(|(_, end)| *end >= range.end)
    }

    /// Takes its first partitions that lie side by side.
    #[inline]
    pub(crate) fn take_run(&mut self) -> Option<Range<u32>> {
        if self.count == 0 {
            return None;
        }
        steps::count(1);
        let run = match self.before.is_empty() {
            true => std::mem::replace(&mut self.last, 0..0),
            false => self.before.pop_first().map(|(start, end)| start..end)?,
        };
        self.count -= run.len();
        Some(run)
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
                        match range.len() == 1 && set.is_next(range.start) {
                            true => set.insert_next(),
                            false => set.insert(range),
                        }
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
