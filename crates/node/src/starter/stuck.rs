//! Whether the ranks of a job wait for each other for ever: the starter looks from time to time, and says so once (DESIGN 7: "the daemon says
//! who waits for whom; report and deschedule, never kill").
//!
//! ```text
//! every second: bells of all ranks, all asleep? -> view -> bells again, the same? -> the same a second before? -> deadlock()? -> one line
//! ```
//!
//! Nobody is stopped for the look. A rank that is asleep before and after it with the same bell was never woken in between, so what is seen is
//! of one moment. Only a job of one node is judged here: of others no node sees all ranks (`tutti snapshot` does).

use super::Starter;
use crate::snapshot::{Snapshot, view};
use crate::wire::Report;

/// Between two looks: each costs a job that runs a few loads.
const LOOK_NS: u64 = 1_000_000_000;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Watch {
    look_ns: u64,
    /// The bells of all ranks when all that have not left were asleep.
    bells: Option<Vec<u32>>,
}

impl Watch {
    /// Begins to look.
    pub(super) fn from(now_ns: u64) -> Self {
        Watch { look_ns: now_ns + LOOK_NS, bells: None }
    }

    /// When to look next.
    pub(super) fn look_ns(&self) -> u64 {
        self.look_ns
    }
}

impl Starter {
    pub(super) fn handle_watch_time(&mut self, now_ns: u64) {
        let Some(watch) = self.watch.as_mut().filter(|watch| now_ns >= watch.look_ns) else { return };
        watch.look_ns = now_ns + LOOK_NS;
        let Some(segment) = &self.parts.segment else { return };
        let ranks = segment.geometry().local_ranks as usize;
        let bells = || -> Option<Vec<u32>> { (0..ranks).map(|rank| segment.stillness(rank)).collect() };
        let now = bells();
        if now.is_none() || std::mem::replace(&mut watch.bells, now.clone()) != now {
            return;
        }
        let snapshot = Snapshot {
            job: 0,
            command: String::new(),
            ranks: ranks as u64,
            taken_ms: 0,
            nodes: vec![view(segment, 0)],
        };
        let found = snapshot.deadlock().filter(|_| bells() == now);
        if let Some(deadlock) = found {
            self.watch = None;
            let text = format!("the ranks wait for each other for ever: {}", deadlock.sentence());
            self.report(&Report::Warning(text));
        }
    }
}
