//! Stillness of a job, as far as it is known: whether it is a deadlock, and who has said so.

use tutti_snapshot::{DeadlockNotice, Snapshot, Stall};

use crate::message::Answer;

/// Lines that the controller says of this in the incarnation of a job, at most.
const LINES_MAX: usize = 8;

/// Stillness of a job, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    stall: Stall,
    /// Number of the hold of the last snapshot that was taken for this.
    judged_hold: u64,
    /// Whether its starter has found the deadlock, and tells the user.
    by_starter: bool,
    /// Whether what its user wants done with a job in a deadlock has been done.
    acted: bool,
    /// Whether the controller has told the user, and how many lines it has said.
    reported: bool,
    lines: usize,
}

impl Stuck {
    /// The deadlock, if its ranks wait for each other for ever.
    pub(super) fn deadlock(&self) -> Option<&DeadlockNotice> {
        self.stall.deadlock()
    }

    /// A snapshot is to be tried.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.stall.is_due(now_ms)
    }

    /// Takes in how often each part has become still, and the deadlock that a starter has found by itself.
    pub(super) fn record(&mut self, numbers: Vec<u64>, own: Option<DeadlockNotice>) {
        let is_own = own.is_some();
        if self.stall.record(numbers, own) {
            self.by_starter = is_own;
        }
    }

    /// A snapshot is tried.
    pub(super) fn begin(&mut self) {
        self.stall.begin();
    }

    /// The hold at which all ranks had ended their work; none: they may go on.
    pub(super) fn terminated(&self) -> Option<u64> {
        self.stall.has_terminated().then_some(self.judged_hold)
    }

    /// Whether there is a deadlock for which nothing was done yet.
    pub(super) fn poll_deadlock(&mut self) -> bool {
        let is_there = self.deadlock().is_some();
        !std::mem::replace(&mut self.acted, is_there) && is_there
    }

    /// The deadlock of which no starter tells the user.
    pub(super) fn untold(&self) -> Option<&DeadlockNotice> {
        self.deadlock().filter(|_| !self.by_starter)
    }

    /// Whether the user was told otherwise last.
    pub(super) fn poll_untold(&mut self) -> bool {
        let is_there = self.untold().is_some();
        std::mem::replace(&mut self.reported, is_there) != is_there
    }

    /// Whether there is room for one more line to the user, which is then taken.
    pub(super) fn take_line(&mut self) -> bool {
        self.lines += 1;
        self.lines <= LINES_MAX
    }

    /// The snapshot that was taken for this, with the number of its hold.
    pub(super) fn handle_snapshot(&mut self, answer: &Answer, hold: u64, now_ms: u64) {
        self.judged_hold = hold;
        // Its views are as long as their ranks need, whoever speaks in the place of starters
        // (`View::bytes_max`).
        let snapshot: Option<Snapshot> = match answer {
            Answer::Snapshot(text) => serde_json::from_str(text).ok(),
            _ => None,
        };
        self.stall.handle_snapshot(snapshot.as_ref(), now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlock() -> DeadlockNotice {
        DeadlockNotice { line: "ranks 0 and 1 wait for each other".into(), cycle: [0, 1][..].into() }
    }

    #[test]
    fn stillness_acts_once_for_each_deadlock() {
        let mut stuck = Stuck::default();
        assert!(!stuck.poll_deadlock());
        stuck.record(vec![1], Some(deadlock()));
        assert_eq!((stuck.poll_deadlock(), stuck.poll_deadlock()), (true, false));
        stuck.record(Vec::new(), None);
        assert!(!stuck.poll_deadlock() && stuck.deadlock().is_none());
        stuck.record(vec![2], Some(deadlock()));
        assert!(stuck.poll_deadlock());
    }

    #[test]
    fn stillness_of_a_starter_is_reported_once() {
        let mut stuck = Stuck::default();
        stuck.record(vec![1], Some(deadlock()));
        assert!(stuck.deadlock().is_some() && stuck.untold().is_none() && !stuck.poll_untold());
    }

    #[test]
    fn stillness_prints_a_bounded_number_of_lines() {
        let mut stuck = Stuck::default();
        assert_eq!((0..3 * LINES_MAX).filter(|_| stuck.take_line()).count(), LINES_MAX);
    }
}
