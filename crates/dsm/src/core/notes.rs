//! Notes: which bytes of the arena the program has said that it stores, in this interval. Compiled code makes
//! them (docs/internals/dsm.md); bytes that are noted twice count once, and neighbours join.
//!
//! A bit for each byte. Memory for the bits comes from outside: an arena is much larger than what is used.

use std::ops::Range;

use super::unit::UNIT_BYTES;

/// Bits of a word.
const WORD_BITS: usize = u64::BITS as usize;
/// Words of a unit.
const UNIT_WORDS: usize = UNIT_BYTES / WORD_BITS;

/// Words of bits that an arena of so many bytes needs.
pub const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES) * UNIT_WORDS
}

/// The notes of this interval.
#[derive(Debug)]
pub struct Notes<W> {
    words: W,
    /// Units that have got notes since all were dropped, and whether a unit has some now.
    units: Vec<u32>,
    has_notes: Vec<bool>,
}

impl<W: AsRef<[u64]> + AsMut<[u64]>> Notes<W> {
    /// No notes, with words that are all zero: [`words_of`] many.
    pub fn new(words: W) -> Self {
        let count = words.as_ref().len() / UNIT_WORDS;
        Notes { words, units: Vec::with_capacity(count), has_notes: vec![false; count] }
    }

    /// Adds a range of the arena; what lies beyond its end is left out.
    pub fn add(&mut self, range: Range<usize>) {
        let words = self.words.as_mut();
        let end = range.end.min(words.len() * WORD_BITS);
        if range.start >= end {
            return;
        }
        let (first, last) = (range.start / WORD_BITS, (end - 1) / WORD_BITS);
        let head = u64::MAX << (range.start % WORD_BITS);
        let tail = u64::MAX >> (WORD_BITS - 1 - (end - 1) % WORD_BITS);
        if first == last {
            words[first] |= head & tail;
        } else {
            words[first] |= head;
            words[first + 1..last].fill(u64::MAX);
            words[last] |= tail;
        }
        for unit in range.start / UNIT_BYTES..=(end - 1) / UNIT_BYTES {
            if !std::mem::replace(&mut self.has_notes[unit], true) {
                self.units.push(unit as u32);
            }
        }
    }

    /// Whether a byte of the arena is noted.
    pub fn contains(&self, offset: usize) -> bool {
        let word = self.words.as_ref().get(offset / WORD_BITS);
        word.is_some_and(|word| word >> (offset % WORD_BITS) & 1 != 0)
    }

    /// The first run of noted bytes of a unit from `from` on; none when there is none.
    pub fn next(&self, unit: u32, from: usize) -> Option<Range<usize>> {
        if !self.has_notes[unit as usize] {
            return None;
        }
        let begin = self.first_where(unit, from, true)?;
        let end = self.first_where(unit, begin, false).unwrap_or(UNIT_BYTES);
        Some(begin..end)
    }

    /// The first byte of a unit from `from` on that is noted, or not.
    fn first_where(&self, unit: u32, from: usize, noted: bool) -> Option<usize> {
        let words = &self.words.as_ref()[unit as usize * UNIT_WORDS..][..UNIT_WORDS];
        let mut mask = u64::MAX << (from % WORD_BITS);
        for (place, word) in words.iter().enumerate().skip(from / WORD_BITS) {
            let found = if noted { *word } else { !*word } & mask;
            if found != 0 {
                return Some(place * WORD_BITS + found.trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Drops the notes of a unit.
    pub fn drop_unit(&mut self, unit: u32) {
        if std::mem::replace(&mut self.has_notes[unit as usize], false) {
            self.words.as_mut()[unit as usize * UNIT_WORDS..][..UNIT_WORDS].fill(0);
        }
    }

    /// Drops all notes; how many units had any.
    pub fn drop_all(&mut self) -> usize {
        let mut count = 0;
        while let Some(unit) = self.units.pop() {
            count += usize::from(self.has_notes[unit as usize]);
            self.drop_unit(unit);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_testkit::random::Random;

    #[test]
    fn notes_give_back_exactly_the_bytes_that_were_added() {
        let mut random = Random::new(tutti_testkit::random::seed());
        let bytes = 3 * UNIT_BYTES;
        for _ in 0..200 {
            let mut notes = Notes::new(vec![0; words_of(bytes)]);
            let mut expected = vec![false; bytes];
            for _ in 0..random.below(20) {
                let begin = random.below(bytes as u64) as usize;
                let length = if random.chance(500) { random.below(9) } else { random.below(6000) } as usize;
                let end = (begin + length).min(bytes);
                notes.add(begin..begin + length);
                expected[begin..end].fill(true);
            }
            let mut found = vec![false; bytes];
            for unit in 0..3 {
                let mut from = 0;
                while let Some(run) = notes.next(unit, from) {
                    assert!(!run.is_empty() && run.start >= from, "{run:?} from {from}");
                    from = run.end;
                    let base = unit as usize * UNIT_BYTES;
                    found[base + run.start..base + run.end].fill(true);
                }
            }
            assert_eq!(found, expected);
            assert!((0..bytes).all(|offset| notes.contains(offset) == expected[offset]));
            notes.drop_unit(1);
            assert_eq!(notes.next(1, 0), None);
            notes.drop_all();
            assert!((0..3).all(|unit| notes.next(unit, 0).is_none()));
        }
    }

    #[test]
    fn notes_beyond_the_arena_are_left_out() {
        let mut notes = Notes::new(vec![0; words_of(UNIT_BYTES)]);
        notes.add(UNIT_BYTES - 1..UNIT_BYTES + 5);
        notes.add(UNIT_BYTES..UNIT_BYTES + 5);
        assert_eq!(notes.next(0, 0), Some(UNIT_BYTES - 1..UNIT_BYTES));
        assert_eq!(notes.drop_all(), 1);
    }
}
