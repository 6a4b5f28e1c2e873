//! Assignment of parts of a file to ranks in a collective call (two-phase access); pure.
//!
//! ```text
//! file    |  domain of aggregator 0      |  domain of aggregator 1      |
//!         | window of round 0 | round 1  | window of round 0 | round 1  |
//! ```
//!
//! The part of the file that all ranks together access is cut into one domain for each aggregator, and each
//! domain into windows, one for each round. Borders are multiples of the alignment.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tutti_datatype::view::RunList;

use super::hints::Choice;

/// Part of the file that a rank accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset of its first byte.
    pub first: i64,
    /// Offset behind its last byte.
    pub end: i64,
    /// Bytes of its data; the offsets mean nothing when there are none.
    pub bytes: u64,
    /// In so many pieces.
    pub runs: u64,
}

impl Extent {
    /// Whether some of it may lie in `[begin, end)`.
    pub fn touches(&self, begin: i64, end: i64) -> bool {
        self.bytes > 0 && self.first < end && begin < self.end
    }
}

/// Pieces from this size on are as fast without others around them.
const LARGE_RUN_BYTES: u64 = 32 << 10;
/// If less than this part of the file between first and last byte is accessed, most windows would be empty.
const SPARSE: u64 = 64;

/// How the file is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domains {
    begin: i64,
    end: i64,
    share: i64,
    window: i64,
}

impl Domains {
    /// Cuts the file, unless each rank had better access it alone. All ranks give the same arguments.
    pub fn new(
        extents: &[Extent],
        choice: Choice,
        aggregators: usize,
        window_bytes: u32,
        alignment: u32,
    ) -> Option<Domains> {
        let used = || extents.iter().filter(|extent| extent.bytes > 0);
        let begin = used().map(|extent| extent.first).min()?;
        let end = used().map(|extent| extent.end).max()?;
        let bytes = used().fold(0_u64, |sum, extent| sum.saturating_add(extent.bytes));
        let runs: u64 = used().map(|extent| extent.runs).sum();
        let is_large = used().all(|extent| extent.runs == 1) || bytes / runs >= LARGE_RUN_BYTES;
        let is_sparse = bytes < (end - begin) as u64 / SPARSE;
        if choice == Choice::Disable || is_sparse || (choice == Choice::Automatic && is_large) {
            return None;
        }
        let alignment = i64::from(alignment);
        let begin = begin - begin % alignment;
        let up = |bytes: i64| {
            bytes.div_euclid(alignment).saturating_add(i64::from(bytes % alignment > 0)) * alignment
        };
        let share = up((end - begin + aggregators as i64 - 1) / aggregators as i64);
        Some(Domains { begin, end, share, window: up(window_bytes.into()).min(share) })
    }

    /// How many rounds there are.
    pub fn rounds(&self) -> i64 {
        (self.share + self.window - 1) / self.window
    }

    /// Bytes of a window, at most.
    pub fn window_bytes(&self) -> usize {
        self.window as usize
    }

    /// Part that an aggregator accesses in a round; none when nothing is left.
    pub fn window(&self, aggregator: usize, round: i64) -> Option<(i64, i64)> {
        let domain = self.begin.checked_add(self.share.checked_mul(aggregator as i64)?)?;
        let begin = domain + self.window * round;
        let end = begin.saturating_add(self.window).min(domain.saturating_add(self.share)).min(self.end);
        (begin < end).then_some((begin, end))
    }
}

/// Calls `visit` with offset and bytes of each stretch of the file that the lists cover, in order, until it
/// gives false.
pub fn cover(lists: &[RunList], visit: &mut dyn FnMut(i64, u64) -> bool) {
    let mut runs: Vec<_> =
        lists.iter().map(|list| list.entries().iter().flat_map(|runs| runs.each())).collect();
    let mut next: BinaryHeap<Reverse<(i64, u64, usize)>> = BinaryHeap::new();
    for (index, runs) in runs.iter_mut().enumerate() {
        if let Some((offset, bytes)) = runs.next() {
            next.push(Reverse((offset, bytes, index)));
        }
    }
    let mut stretch: Option<(i64, i64)> = None;
    while let Some(mut top) = next.peek_mut() {
        let Reverse((offset, bytes, index)) = *top;
        match runs[index].next() {
            Some((offset, bytes)) => {
                *top = Reverse((offset, bytes, index));
                drop(top);
            }
            None => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
        let end = offset + bytes as i64;
        match &mut stretch {
            Some((_, last)) if offset <= *last => *last = (*last).max(end),
            _ => {
                if let Some((begin, last)) = stretch.replace((offset, end))
                    && !visit(begin, (last - begin) as u64)
                {
                    return;
                }
            }
        }
    }
    if let Some((begin, last)) = stretch {
        visit(begin, (last - begin) as u64);
    }
}

#[cfg(test)]
mod tests {
    use tutti_datatype::view::Runs;

    use super::*;

    fn extent(first: i64, end: i64, bytes: u64, runs: u64) -> Extent {
        Extent { first, end, bytes, runs }
    }

    #[test]
    fn domains_windows_cover_the_file_once() {
        for (first, end, aggregators, window, alignment) in [
            (0, 100_000, 1, 4096, 4096),
            (5000, 987_654, 3, 10_000, 4096),
            (77, 78, 4, 4096, 1),
            (3, 70_000, 7, 4096, 1000),
        ] {
            let extents = [extent(first, end, (end - first) as u64, 1000), extent(0, 0, 0, 0)];
            let domains = Domains::new(&extents, Choice::Enable, aggregators, window, alignment).unwrap();
            let mut windows = Vec::new();
            for aggregator in 0..aggregators {
                windows.extend((0..domains.rounds()).filter_map(|round| domains.window(aggregator, round)));
            }
            assert!(windows.iter().all(|(begin, end)| (end - begin) as usize <= domains.window_bytes()));
            assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0), "{windows:?}");
            assert!(windows[0].0 <= first && windows[windows.len() - 1].1 == end, "{windows:?}");
        }
    }

    #[test]
    fn domains_leave_large_and_sparse_accesses_alone() {
        let small = [extent(0, 1000, 500, 50), extent(10, 1010, 500, 50)];
        let new = |extents: &[Extent], choice| Domains::new(extents, choice, 2, 4096, 1);
        assert!(new(&small, Choice::Automatic).is_some());
        assert!(new(&small, Choice::Disable).is_none());
        let whole = [extent(0, 500, 500, 1), extent(500, 1000, 500, 1)];
        assert!(new(&whole, Choice::Automatic).is_none() && new(&whole, Choice::Enable).is_some());
        assert!(new(&[extent(0, 1 << 40, 1 << 20, 1 << 18)], Choice::Automatic).is_none());
        assert!(new(&[extent(0, 8 << 20, 4 << 20, 4)], Choice::Automatic).is_none());
        assert!(new(&[extent(0, 0, 0, 0)], Choice::Enable).is_none());
    }

    #[test]
    fn domains_cover_joins_what_touches() {
        let runs = |offset, bytes, stride, count| Runs { offset, bytes, stride, count };
        let lists = [
            RunList::from(vec![runs(0, 4, 8, 10), runs(200, 10, 0, 1)]),
            RunList::from(vec![runs(4, 4, 8, 9), runs(205, 1, 0, 1), runs(300, 1, 0, 1)]),
            RunList::default(),
        ];
        let mut found = Vec::new();
        cover(&lists, &mut |offset, bytes| {
            found.push((offset, bytes));
            true
        });
        assert_eq!(found, [(0, 76), (200, 10), (300, 1)]);
    }
}
