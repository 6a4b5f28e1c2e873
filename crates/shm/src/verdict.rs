//! What the starter tells ranks that are being checked: that all of them wait for each other for ever
//! ([`crate::report`], the checker). Ranks may write anything into the segment, so everything here is bounded
//! and total.

use crate::doorbell;
use crate::endpoint::FINALIZED;
use crate::segment::Segment;
use crate::sync::Ordering;

/// `check` in the report of a rank that checks nothing.
const UNCHECKED: u32 = 1;

impl Segment {
    /// Whether the ranks of this node are being checked: all say so, and alike.
    pub fn is_checked(&self) -> bool {
        let mode = |rank| self.words_of(rank).1.check.load(Ordering::Acquire);
        mode(0) > UNCHECKED && (1..self.ranks()).all(|rank| mode(rank) == mode(0))
    }

    /// Ranks of this node that have not left MPI_Finalize.
    pub fn remaining(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks()).filter(|rank| self.words_of(*rank).0.state.load(Ordering::Acquire) != FINALIZED)
    }

    /// Has the first of [`Self::remaining`] say that no rank can go on, and wakes it.
    pub fn announce_deadlock(&self) {
        if let Some(rank) = self.remaining().next() {
            let (endpoint, report) = self.words_of(rank);
            report.verdict.store(1, Ordering::Release);
            doorbell::wake(endpoint);
        }
    }

    fn ranks(&self) -> usize {
        self.present() as usize
    }
}
