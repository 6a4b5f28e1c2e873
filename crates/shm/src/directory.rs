//! The regions that a rank has opened, as mates of its node look them up before they work on one.
//!
//! ```text
//! | head | a line for each rank of the node | a line for each region |      64 bytes each
//! ```
//!
//! | word | writer |
//! |---|---|
//! | head: 1 + the highest number of a region so far; where its claims lie, and how long they are | the owner |
//! | head: 1 + number of the region that the starter works on, or 0 | the starter |
//! | a rank's line: 1 + number of the region that it works on, or 0 | that rank |
//! | a region's line: generation, rights, kind, where it lies | the owner; the generation last |
//!
//! A generation is odd while the region is open. A mate stores what it is about to work on, then looks at the
//! generation. The owner stores another one, then waits for mates that still work on the region: whoever
//! comes later finds it closed. A mate that is frozen meanwhile has its owner frozen with it.

use std::sync::atomic::{AtomicU64, Ordering::*, fence};

use crate::LINE_BYTES;
use crate::arena::Range;
use crate::opened::Opened;

/// Among [`Line::rights`]: the region is a queue whose messages start a function of its rank.
pub const SIGNAL: u64 = 1 << 32;
/// Regions that a rank may have open at once.
pub const REGIONS_MAX: usize = 4096;

/// A rank's directory, as this process sees it.
#[derive(Clone, Copy, Debug)]
pub struct Directory {
    memory: Opened,
    ranks: usize,
}

/// Description of an open region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Rights of others: bits of the interface, all below [`SIGNAL`], and that one.
    pub rights: u64,
    /// The range of the node's arena in which it lies.
    pub range: Range,
    /// Where it begins in there.
    pub begin: u64,
    /// Length of the region.
    pub bytes: u64,
}

/// A mate that works on a region; the region stays open until this is dropped.
#[derive(Debug)]
pub struct Visit<'a> {
    word: &'a AtomicU64,
    /// The region.
    pub line: Line,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.word.store(0, Release);
    }
}

/// Where the lines of regions begin, on a node of so many ranks.
/// Words of the head.
mod head {
    pub(super) const REGIONS: usize = 0;
    pub(super) const CLAIMS_OFFSET: usize = 1;
    pub(super) const CLAIMS_BYTES: usize = 2;
    pub(super) const STARTER: usize = 3;
}

const fn first_line(ranks: usize) -> usize {
    1 + ranks
}

/// The regions that are open in a directory, by its bytes from the first region's line on; others may write
/// anything there.
pub(crate) fn open_lines(bytes: &[u8]) -> impl Iterator<Item = Line> {
    let lines = bytes.as_chunks::<LINE_BYTES>().0.iter();
    lines.filter_map(|line| {
        let word = |at: usize| line[8 * at..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let range = Range { offset: word(2), bytes: word(3) };
        (word(0) % 2 == 1).then_some(Line { rights: word(1), range, begin: word(4), bytes: word(5) })
    })
}

/// Offset of the first region's line in a directory of a node of so many ranks.
pub(crate) const fn lines_at(ranks: usize) -> usize {
    first_line(ranks) * LINE_BYTES
}

impl Directory {
    /// Bytes of a directory on a node of so many ranks.
    pub fn bytes(ranks: usize) -> usize {
        (1 + ranks + REGIONS_MAX) * LINE_BYTES
    }

    /// Zeroed memory as a directory; none if it is too short.
    pub fn new(memory: Opened, ranks: usize) -> Option<Self> {
        (memory.bytes() >= Directory::bytes(ranks)).then_some(Directory { memory, ranks })
    }

    fn word(&self, line: usize, word: usize) -> &AtomicU64 {
        self.memory.atomic_u64(line * LINE_BYTES + word * 8).expect("the memory has so many lines")
    }

    fn line(&self, region: usize) -> usize {
        first_line(self.ranks) + region
    }

    /// The owner opens a region under a number that is free; its generation.
    ///
    /// # Panics
    /// When there is no such number.
    pub fn open(&self, region: usize, line: Line) -> u64 {
        assert!(region < REGIONS_MAX, "region {region} of {REGIONS_MAX}");
        let at = self.line(region);
        let words = [line.rights, line.range.offset, line.range.bytes, line.begin, line.bytes];
        for (word, value) in words.into_iter().enumerate() {
            self.word(at, 1 + word).store(value, Relaxed);
        }
        let regions = self.word(0, head::REGIONS);
        regions.store(regions.load(Relaxed).max(region as u64 + 1), Relaxed);
        let generation = (self.word(at, 0).load(Relaxed) + 1) | 1;
        self.word(at, 0).store(generation, Release);
        generation
    }

    /// The owner closes a region, if it is open; whether it was. Mates may still be inside.
    pub fn close(&self, region: usize, generation: u64) -> bool {
        if region >= REGIONS_MAX {
            return false;
        }
        let word = self.word(self.line(region), 0);
        let is_open = generation % 2 == 1 && word.load(Relaxed) == generation;
        if is_open {
            word.store(generation + 1, SeqCst);
            fence(SeqCst);
        }
        is_open
    }

    /// Whether a mate still works on a region that was closed.
    pub fn is_visited(&self, region: usize) -> bool {
        let mates = (0..self.ranks).map(|rank| self.word(1 + rank, 0));
        mates.chain([self.word(0, head::STARTER)]).any(|word| word.load(Acquire) == region as u64 + 1)
    }

    /// The owner says where the words lie by which its starter may apply requests.
    pub fn set_claims(&self, claims: Range) {
        self.word(0, head::CLAIMS_OFFSET).store(claims.offset, Relaxed);
        self.word(0, head::CLAIMS_BYTES).store(claims.bytes, Release);
    }

    /// Where they lie, if there are some.
    pub fn claims(&self) -> Option<Range> {
        let bytes = self.word(0, head::CLAIMS_BYTES).load(Acquire);
        let offset = self.word(0, head::CLAIMS_OFFSET).load(Relaxed);
        (bytes > 0).then_some(Range { offset, bytes })
    }

    /// The mate of number `rank` on its node works on a region from now on; none if it is not open.
    #[inline]
    pub fn visit(&self, rank: usize, region: usize, generation: u64) -> Option<Visit<'_>> {
        if rank >= self.ranks {
            return None;
        }
        self.visit_by(self.word(1 + rank, 0), region, generation)
    }

    /// The same for the starter of the node.
    pub fn visit_as_starter(&self, region: usize, generation: u64) -> Option<Visit<'_>> {
        self.visit_by(self.word(0, head::STARTER), region, generation)
    }

    #[inline]
    fn visit_by<'a>(&'a self, own: &'a AtomicU64, region: usize, generation: u64) -> Option<Visit<'a>> {
        if region >= REGIONS_MAX {
            return None;
        }
        own.store(region as u64 + 1, Relaxed);
        fence(SeqCst);
        let at = self.line(region);
        let found = self.word(at, 0).load(Acquire);
        let load = |word| self.word(at, word).load(Relaxed);
        let line = Line {
            rights: load(1),
            range: Range { offset: load(2), bytes: load(3) },
            begin: load(4),
            bytes: load(5),
        };
        let visit = Visit { word: own, line };
        (found == generation && generation % 2 == 1).then_some(visit)
    }
}

#[cfg(test)]
mod tests;
