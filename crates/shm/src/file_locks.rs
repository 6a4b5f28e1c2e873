//! Words between the starter and ranks before it suspends them: no rank is to take a lock of a
//! file with it ([`crate::report`], locks of files). Ranks may write anything into the segment, so nothing
//! here is more than a hint.

use crate::report::Report;
use crate::segment::Segment;

impl Segment {
    /// Whether the ranks of this node get locks of files.
    pub fn close_file_locks(&self, closed: bool) {
        self.reports().for_each(|report| report.close_file_locks(closed));
    }

    /// World ranks of this node that have a lock of a file.
    pub fn file_lock_holders(&self) -> Vec<usize> {
        let numbers = self.present_numbers().iter();
        numbers
            .zip(self.reports())
            .filter(|(_, report)| report.has_file_locks())
            .map(|(rank, _)| rank)
            .collect()
    }

    fn reports(&self) -> impl Iterator<Item = &Report> {
        (0..self.present() as usize).map(|rank| self.words_of(rank).1)
    }
}
