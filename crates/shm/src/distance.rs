//! How far the core of the other rank is: whether a line that it has written comes quickly.
//!
//! Near cores share a cache; a line that one has written reaches the other in some 50 ns. Between far ones (another
//! chiplet or socket) it takes 130 ns and more, longer than from memory. In a virtual machine that changes from one second
//! to the next, so it is measured all the time: now and then, with data that are read anyway.

use std::time::Instant;

/// A line that takes longer comes from a far core.
const FAR_NS: u64 = 90;
/// So many samples more of the other kind make a change: one may have been disturbed.
const SURE: i8 = 2;

/// What is known of one other core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Distance {
    is_far: bool,
    votes: i8,
}

impl Distance {
    /// Whether it is far; near until the first samples.
    #[inline(always)]
    pub fn is_far(&self) -> bool {
        self.is_far
    }

    /// Measures by a line that the other core has written last and this one has not read since.
    ///
    /// # Safety
    /// The byte is valid for reading.
    #[inline(never)]
    pub unsafe fn measure(&mut self, byte: *const u8) {
        // The clock orders what stands between two readings of it; what a reading takes is measured too.
        let begin = Instant::now();
        let before = Instant::now();
        // SAFETY: our contract.
        unsafe { byte.read_volatile() };
        let took = before.elapsed();
        self.learn(took.saturating_sub(before - begin).as_nanos() as u64);
    }

    fn learn(&mut self, line_ns: u64) {
        let vote = if line_ns > FAR_NS { 1 } else { -1 };
        self.votes = (self.votes + vote).clamp(-SURE, SURE);
        if self.votes.abs() == SURE {
            self.is_far = self.votes > 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_needs_more_than_one_sample() {
        let mut distance = Distance::default();
        let mut after = |samples: &[u64]| {
            samples.iter().for_each(|&line_ns| distance.learn(line_ns));
            distance.is_far()
        };
        assert!(!after(&[140]) && after(&[140]), "two slow lines");
        assert!(after(&[50, 140, 50, 50, 140, 140]), "a few quick ones among slow ones");
        assert!(!after(&[50, 50, 50, 50]), "near again");
        assert!(!after(&[9000, 50, 9000, 50]), "now and then disturbed");
    }
}
