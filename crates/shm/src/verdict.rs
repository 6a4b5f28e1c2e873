//! Verdicts that the starter tells ranks: those that are being checked, that all of them wait for each other
//! for ever ([`crate::report`], the checker); those that are armed, that the job has terminated
//! ([`crate::termination`]). Ranks may write anything into the segment, so everything here is bounded
//! and total.

use crate::doorbell;
use crate::endpoint::FINALIZED;
use crate::segment::Segment;
use crate::sync::Ordering;
use crate::termination::Termination;

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

    /// The number that each rank of this node is armed with.
    pub fn armed(&self) -> Vec<Option<u32>> {
        (0..self.ranks()).map(|rank| self.termination(rank).armed()).collect()
    }

    /// Signals the ranks of this node, each with the number that it was armed with when the job was judged.
    pub fn announce_terminated(&self, armed: &[Option<u32>]) {
        for (rank, number) in armed.iter().enumerate().take(self.ranks()) {
            if let Some(number) = number {
                self.termination(rank).signal(*number);
            }
        }
    }

    /// The words of a rank about termination; ranks are counted on this node.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn termination(&self, rank: usize) -> &Termination {
        &self.words_of(rank).1.termination
    }

    fn ranks(&self) -> usize {
        self.present() as usize
    }
}
