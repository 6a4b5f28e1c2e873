//! Which other launches the ranks of this node are connected to (MPI_Comm_connect, MPI_Comm_join): the
//! scheduler brings both to the same turns.
//!
//! Ranks say what they like, as often as they like. So a rank counts with so many launches, a node with so
//! many, and the front end hears of changes once in a while.

use std::collections::{BTreeMap, BTreeSet};

use tutti_protocol::wire::CONNECTED_MAX;
use tutti_shm::ticket::Connection;

/// Between two reports.
const REPORT_NS: u64 = 500_000_000;

/// Connections with other launches, as ranks have told them.
#[derive(Debug, Default)]
pub struct Connections {
    /// Public numbers of launches, by rank, counted on this node.
    of_ranks: BTreeMap<u32, BTreeSet<u64>>,
    reported: Vec<u64>,
    /// Whether something has been said since.
    is_new: bool,
    next_ns: u64,
}

impl Connections {
    /// A rank says whether it is connected to a launch. What is too much does not count.
    pub fn handle(&mut self, rank: u32, connection: Connection) {
        let jobs = self.of_ranks.entry(rank).or_default();
        self.is_new |= match connection.is_open {
            true => jobs.len() < CONNECTED_MAX && jobs.insert(connection.job),
            false => jobs.remove(&connection.job),
        };
        if jobs.is_empty() {
            self.of_ranks.remove(&rank);
        }
    }

    /// The rank has ended.
    pub fn forget(&mut self, rank: u32) {
        self.is_new |= self.of_ranks.remove(&rank).is_some();
    }

    /// When there may be something to report.
    pub fn due_ns(&self) -> Option<u64> {
        self.is_new.then_some(self.next_ns)
    }

    /// The launches that the node is connected to, if that is to be reported now.
    pub fn poll(&mut self, now_ns: u64) -> Option<Vec<u64>> {
        if self.due_ns().is_none_or(|due_ns| now_ns < due_ns) {
            return None;
        }
        self.is_new = false;
        let all: BTreeSet<u64> = self.of_ranks.values().flatten().copied().collect();
        let all: Vec<u64> = all.into_iter().take(CONNECTED_MAX).collect();
        if all == self.reported {
            return None;
        }
        self.next_ns = now_ns + REPORT_NS;
        self.reported.clone_from(&all);
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(job: u64, is_open: bool) -> Connection {
        Connection { job, is_open }
    }

    #[test]
    fn connections_are_reported_once_in_a_while() {
        let mut connections = Connections::default();
        assert_eq!(connections.poll(0), None);
        connections.handle(0, said(7, true));
        connections.handle(1, said(7, true));
        connections.handle(1, said(5, true));
        assert_eq!(connections.poll(1), Some(vec![5, 7]));
        connections.handle(1, said(7, false));
        assert_eq!(
            (connections.poll(2), connections.poll(1 + REPORT_NS)),
            (None, None),
            "rank 0 is connected"
        );
        connections.forget(0);
        connections.handle(1, said(5, false));
        connections.handle(1, said(5, true));
        assert_eq!(connections.due_ns(), Some(1 + REPORT_NS));
        assert_eq!(connections.poll(1 + REPORT_NS), Some(vec![5]));
        connections.forget(1);
        assert_eq!(connections.poll(2 + REPORT_NS), None, "too early");
        assert_eq!(connections.poll(1 + 2 * REPORT_NS), Some(vec![]));
    }

    #[test]
    fn connections_of_a_rank_that_claims_too_many_are_bounded() {
        let mut connections = Connections::default();
        for rank in 0..100 {
            (1..10_000).for_each(|job| connections.handle(rank, said(u64::from(rank) * 10_000 + job, true)));
        }
        assert!(connections.of_ranks.values().all(|jobs| jobs.len() == CONNECTED_MAX));
        assert_eq!(connections.poll(0).map(|jobs| jobs.len()), Some(CONNECTED_MAX));
        (0..100).for_each(|rank| connections.forget(rank));
        assert!(connections.of_ranks.is_empty());
    }
}
