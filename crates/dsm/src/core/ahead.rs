//! Places of stores through an index, as a copy of the loop without its stores has found them ahead of it
//! (docs/internals/dsm.md): for `a[r[d]++] = v` each element `r[d]` with what it held first and how often it
//! was seen, for `r[d] = v` the elements.

use std::ops::Range;

/// Elements between the lowest and the highest one of a site, at most: each needs memory.
const ELEMENTS_MAX: usize = 1 << 20;

/// Element that says where stores go.
#[derive(Clone, Copy, Debug, Default)]
struct Element {
    /// The index that it held at first.
    first: i64,
    seen: u64,
}

/// A store of the loop.
#[derive(Debug)]
struct Site {
    /// Bytes of an element.
    bytes: usize,
    /// Memory to which stores append by the elements, and the bytes of each store.
    target: Option<(usize, usize)>,
    /// The address of the first element of the list.
    low: usize,
    elements: Vec<Element>,
}

impl Site {
    fn tell(&mut self, slot: usize, first: i64) -> Option<()> {
        if self.elements.is_empty() {
            self.low = slot;
        }
        if slot < self.low {
            let missing = (self.low - slot).div_ceil(self.bytes);
            let more = missing.max(self.elements.len()).min(self.low / self.bytes);
            if missing > more || self.elements.len() + more > ELEMENTS_MAX {
                return None;
            }
            self.elements.splice(0..0, std::iter::repeat_n(Element::default(), more));
            self.low -= more * self.bytes;
        }
        let distance = slot - self.low;
        let place = distance / self.bytes;
        if place * self.bytes != distance || place >= ELEMENTS_MAX {
            return None;
        }
        if place >= self.elements.len() {
            self.elements.resize(place + 1, Element::default());
        }
        let element = &mut self.elements[place];
        if element.seen == 0 {
            element.first = first;
        }
        element.seen += 1;
        Some(())
    }

    /// Addresses of the elements that were seen, as runs.
    fn slots(&self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (place, _) in self.elements.iter().enumerate().filter(|(_, element)| element.seen > 0) {
            let begin = self.low + place * self.bytes;
            match runs.last_mut() {
                Some(run) if run.end == begin => run.end += self.bytes,
                _ => runs.push(begin..begin + self.bytes),
            }
        }
        runs
    }

    /// Memory to which the stores append: a run for each element. None: an element would overflow.
    fn appended(&self) -> Option<Vec<Range<usize>>> {
        let Some((base, bytes)) = self.target else { return Some(Vec::new()) };
        // A short element is a sign or none: half of its range is both.
        let limit = i64::MAX >> (64 - 8 * self.bytes.min(8));
        let run = |element: &Element| {
            let end = element.first.checked_add_unsigned(element.seen).filter(|end| *end <= limit)?;
            let at = |index: i64| {
                let offset = i128::from(index) * bytes as i128;
                usize::try_from(base as i128 + offset).ok()
            };
            (element.first >= 0).then_some(())?;
            Some(at(element.first)?..at(end)?)
        };
        self.elements.iter().filter(|element| element.seen > 0).map(run).collect()
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Look ahead of one loop.
#[derive(Debug, Default)]
pub struct Ahead {
    sites: Vec<Site>,
    /// Memory that the loop loads to find places.
    loads: Vec<Range<usize>>,
    is_lost: bool,
}

impl Ahead {
    /// A store whose element has so many bytes; it appends behind a base by elements of so many bytes, or
    /// stores to the element itself.
    pub fn add_site(&mut self, bytes: usize, target: Option<(usize, usize)>) {
        self.sites.push(Site { bytes, target, low: 0, elements: Vec::new() });
    }

    /// Memory that is loaded to find places: from one address to another one, either way.
    pub fn add_load(&mut self, first: usize, last: usize, bytes: usize) {
        self.loads.push(first.min(last)..first.max(last).saturating_add(bytes));
    }

    /// A store was found.
    pub fn tell(&mut self, site: usize, slot: usize, first: i64) {
        if !self.is_lost {
            self.is_lost = self.sites.get_mut(site).and_then(|site| site.tell(slot, first)).is_none();
        }
    }

    /// All bytes that the loop will store; none when that is not certain: a store of the loop might change
    /// what its places come from.
    pub fn end(&self) -> Option<Vec<Range<usize>>> {
        if self.is_lost {
            return None;
        }
        let mut stored = Vec::new();
        let slots: Vec<_> = self.sites.iter().map(Site::slots).collect();
        for (number, site) in self.sites.iter().enumerate() {
            stored.extend(site.appended()?);
            if site.target.is_none() || slots[number].is_empty() {
                continue;
            }
            // What says where the site appends is changed by itself alone.
            let own = slots[number][0].start..slots[number].last()?.end;
            let others = slots.iter().enumerate().filter(|(other, _)| *other != number);
            if others.flat_map(|(_, slots)| slots).any(|slot| overlap(slot, &own)) {
                return None;
            }
            self.sites
                .iter()
                .try_fold(false, |found, other| {
                    Some(found || other.appended()?.iter().any(|run| overlap(run, &own)))
                })
                .filter(|found| !found)?;
        }
        stored.extend(slots.into_iter().flatten());
        let is_apart = |load: &Range<usize>| !stored.iter().any(|run| overlap(run, load));
        self.loads.iter().all(is_apart).then_some(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_testkit::random::Random;

    /// A loop `to[r[d]++] = v` on a memory of bytes, and the bytes that it stores.
    #[test]
    fn ahead_names_exactly_what_a_loop_appends() {
        let mut random = Random::new(tutti_testkit::random::seed());
        for _ in 0..200 {
            let digits = random.between((1, 20)) as usize;
            let mut places: Vec<i64> = (0..digits).map(|digit| 100 * digit as i64).collect();
            let (table, base) = (1 << 20, 5000);
            let mut ahead = Ahead::default();
            ahead.add_site(8, Some((base, 4)));
            let mut stored = vec![false; 1 << 14];
            let mut seen = vec![false; digits];
            let begin = places.clone();
            for _ in 0..random.below(60) {
                let digit = random.below(digits as u64) as usize;
                ahead.tell(0, table + 8 * digit, begin[digit]);
                let place = base + 4 * places[digit] as usize;
                stored[place..place + 4].fill(true);
                (seen[digit], places[digit]) = (true, places[digit] + 1);
            }
            let mut found = vec![false; stored.len()];
            for run in ahead.end().expect("nothing overlaps") {
                if run.start < table {
                    found[run].fill(true);
                } else {
                    (run.start..run.end).for_each(|at| assert!(seen[(at - table) / 8]));
                }
            }
            assert_eq!(found, stored);
        }
    }

    #[test]
    fn ahead_gives_up_where_stores_may_change_its_places() {
        let looking = |loads: [usize; 2], base, slot| {
            let mut ahead = Ahead::default();
            ahead.add_site(8, Some((base, 4)));
            ahead.add_load(loads[0], loads[1], 4);
            ahead.tell(0, slot, 3);
            ahead.end()
        };
        let right = Some(vec![1012..1016, 2000..2008]);
        assert_eq!(looking([3000, 4000], 1000, 2000), right);
        assert_eq!(looking([3000, 1016], 1000, 2000), None, "a run down over what is appended");
        assert_eq!(looking([500, 1008], 1000, 2000), right);
        assert_eq!(looking([500, 1009], 1000, 2000), None, "its last byte");
        assert_eq!(looking([3000, 4000], 1990, 2000), None, "the table itself is stored to");
        assert_eq!(looking([2004, 2004], 1000, 2000), None, "the table says which table");
    }

    #[test]
    fn ahead_gives_up_on_elements_far_apart_or_crooked_or_full() {
        let two = |slots: [usize; 2], first| {
            let mut ahead = Ahead::default();
            ahead.add_site(4, Some((1 << 40, 4)));
            slots.into_iter().for_each(|slot| ahead.tell(0, slot, first));
            ahead.end().map(|runs| runs.len())
        };
        assert_eq!(two([1 << 30, (1 << 30) - 40], 0), Some(4));
        assert_eq!(two([1 << 30, (1 << 30) + 42], 0), None);
        assert_eq!(two([1 << 30, (1 << 30) + (1 << 23)], 0), None);
        assert_eq!(two([1 << 30, 1 << 20], 0), None);
        assert_eq!(two([1 << 30, 1 << 30], i64::from(i32::MAX) - 1), None);
        assert_eq!(two([1 << 30, 1 << 30], -1), None);
    }
}
