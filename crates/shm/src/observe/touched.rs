//! Pages of a segment that exist: an onlooker who reads one that nobody has used would make it, and a large
//! node has millions of those.

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The parts of a range of a file that have pages, in order.
#[derive(Debug)]
pub(super) struct Touched(Vec<Range<usize>>);

impl Touched {
    /// Parts of this range, as the kernel says now; all of it where the kernel does not say.
    pub(super) fn of(file: BorrowedFd<'_>, range: Range<usize>) -> Self {
        let mut parts = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let begin = match seek(file, at, libc::SEEK_DATA) {
                Ok(begin) => begin,
                Err(libc::ENXIO) => break,
                Err(_) => at,
            };
            if begin >= range.end {
                break;
            }
            let end = seek(file, begin, libc::SEEK_HOLE).map_or(range.end, |end| end.min(range.end));
            parts.push(begin..end.max(begin + 1));
            at = end.max(begin + 1);
        }
        Touched(parts)
    }

    /// Whether there is a page with one of these bytes.
    pub(super) fn has(&self, bytes: Range<usize>) -> bool {
        let next = self.0.partition_point(|part| part.end <= bytes.start);
        self.0.get(next).is_some_and(|part| part.start < bytes.end)
    }
}

/// Begin of the next page, or the next hole; or the kernel's error. The position of the descriptor,
/// which it moves, is nobody's: segments are read at offsets.
fn seek(file: BorrowedFd<'_>, from: usize, whence: libc::c_int) -> Result<usize, libc::c_int> {
    // SAFETY: a system call that touches no memory.
    let at = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, whence) };
    usize::try_from(at).map_err(|_| std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Geometry;
    use crate::segment::Segment;

    #[test]
    fn touched_pages_are_those_that_were_written() {
        const PAGE: usize = 4096;
        let geometry = Geometry { world_ranks: 4, local_ranks: 4, cores: 2, ..Geometry::default() };
        let segment = Segment::create(geometry).unwrap();
        let (file, begin) = (segment.descriptor(), segment.layout().pair_at(0, 0));
        let pages = |from: usize, to: usize| begin + from * PAGE..begin + to * PAGE;
        assert!(!Touched::of(file, pages(0, 100)).has(pages(0, 100)));
        for at in [3 * PAGE, 4 * PAGE + 5, 50 * PAGE] {
            // SAFETY: a system call on a descriptor of ours, with a byte that is there.
            let written = unsafe {
                libc::pwrite(file.as_raw_fd(), [7_u8].as_ptr().cast(), 1, (begin + at) as libc::off_t)
            };
            assert_eq!(written, 1);
        }
        let seen = Touched::of(file, pages(0, 100));
        // The kernel may give more at once than we count by.
        assert!([3, 4, 50].iter().all(|page| seen.has(pages(*page, page + 1))), "{seen:?}");
        assert!(seen.has(pages(0, 100)) && !seen.has(pages(0, 0)));
        let part = Touched::of(file, pages(4, 50));
        assert!(part.has(pages(4, 5)) && !part.has(pages(50, 51)), "{part:?}");
    }
}
