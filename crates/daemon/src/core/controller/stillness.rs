//! Stillness of a job, as far as it is known: whether it is a deadlock, and who has said so.

use tutti_snapshot::{DeadlockNotice, Snapshot, Stall};

use crate::message::Answer;

/// Stillness of a job, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    pub(super) stall: Stall,
    /// Number of the hold of the last snapshot that was taken for this.
    pub(super) judged_hold: u64,
    /// Whether its starter has found the deadlock, and tells the user.
    pub(super) by_starter: bool,
    /// Whether what its user wants done with a job in a deadlock has been done.
    pub(super) acted: bool,
    /// The controller has told the user, and how many lines it has said.
    pub(super) reported: bool,
    pub(super) lines: usize,
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
