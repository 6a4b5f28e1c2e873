//! Connections to the control port that have not shown the cluster's key: of anybody who reaches it.
//!
//! ```text
//! connects -> has a place -> shows the key in time: a member, the place is free
//!                         -> another one needs the place: closed
//!                         -> neither: closed after HANDSHAKE
//! ```
//!
//! There are [`PLACES_MAX`] for ports that only root can use (below 1024), from which root's daemons connect,
//! and as many for all others: no user of a node takes a place from a daemon there, whose address it shares.
//! A new connection always has a place. If there is none it is that of the oldest one of the address that has
//! most: showing the key takes some ms, so whoever holds places with nothing to say loses them first.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Connections that have not shown the key, of each of the two kinds.
const PLACES_MAX: usize = 256;
/// Ports below are root's.
const PORT_OF_ALL: u16 = 1024;

#[derive(Debug)]
struct Pending<T> {
    number: u64,
    address: IpAddr,
    /// Handle that ends it.
    task: T,
}

/// Connections of one kind, the oldest first.
#[derive(Debug)]
struct Places<T> {
    all: VecDeque<Pending<T>>,
}

impl<T> Places<T> {
    /// Somebody new has a place; gives whoever has lost it.
    fn admit(&mut self, new: Pending<T>, most: usize) -> Option<Pending<T>> {
        let lost = (self.all.len() >= most).then(|| self.oldest_of_most()).flatten();
        self.all.push_back(new);
        lost
    }

    fn oldest_of_most(&mut self) -> Option<Pending<T>> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for pending in &self.all {
            *counts.entry(pending.address).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        let oldest = self.all.iter().position(|pending| counts[&pending.address] == most)?;
        self.all.remove(oldest)
    }

    fn remove(&mut self, number: u64) -> bool {
        let found = self.all.iter().position(|pending| pending.number == number);
        found.and_then(|at| self.all.remove(at)).is_some()
    }
}

#[derive(Debug)]
struct Kinds {
    roots: Places<AbortHandle>,
    others: Places<AbortHandle>,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Strangers(Arc<Mutex<Kinds>>);

impl Strangers {
    /// Makes the places, all of them free.
    pub(super) fn new() -> Self {
        let places = || Places { all: VecDeque::new() };
        Strangers(Arc::new(Mutex::new(Kinds { roots: places(), others: places() })))
    }

    /// Somebody has connected, whose task this is; true: another one is closed for it.
    pub(super) fn admit(&self, number: u64, from: SocketAddr, task: AbortHandle) -> bool {
        let mut kinds = self.kinds();
        let places = if from.port() < PORT_OF_ALL { &mut kinds.roots } else { &mut kinds.others };
        let lost = places.admit(Pending { number, address: from.ip().to_canonical(), task }, PLACES_MAX);
        lost.iter().for_each(|lost| lost.task.abort());
        lost.is_some()
    }

    /// Frees the place of a connection that has shown the key, or is gone. False: its place was another's
    /// already, and it is closed.
    pub(super) fn leave(&self, number: u64) -> bool {
        let mut kinds = self.kinds();
        kinds.roots.remove(number) || kinds.others.remove(number)
    }

    fn kinds(&self) -> MutexGuard<'_, Kinds> {
        // Nothing that could panic is done with it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_lose_their_places_oldest_first_and_only_to_others_of_their_kind() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut places = Places { all: VecDeque::new() };
        let mut admit = |number: u64, from: u8| {
            let lost = places.admit(Pending { number, address: address(from), task: () }, 4);
            (lost.map(|lost| lost.number), places.all.len())
        };
        // One address has all, and another comes.
        let first: Vec<_> = (0..4).map(|number| admit(number, 1)).collect();
        assert_eq!(first, [(None, 1), (None, 2), (None, 3), (None, 4)]);
        assert_eq!(admit(4, 2), (Some(0), 4));
        assert_eq!(admit(5, 2), (Some(1), 4));
        // Two have as many: the oldest of both, and then that of the one with most.
        assert_eq!(admit(6, 3), (Some(2), 4));
        assert_eq!(admit(7, 4), (Some(4), 4), "not the only one of its address");
        assert!(places.remove(3) && !places.remove(3) && !places.remove(0));
    }

    #[tokio::test]
    async fn strangers_from_ports_of_all_take_no_place_of_roots() {
        let strangers = Strangers::new();
        let from = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let task = || tokio::spawn(std::future::pending::<()>());
        let root = task();
        assert!(!strangers.admit(0, from(700), root.abort_handle()));
        let others: Vec<_> = (1..=PLACES_MAX as u64 + 3).map(|number| (number, task())).collect();
        let closed: Vec<u64> = others
            .iter()
            .filter(|(number, task)| strangers.admit(*number, from(40_000), task.abort_handle()))
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(closed, [PLACES_MAX as u64 + 1, PLACES_MAX as u64 + 2, PLACES_MAX as u64 + 3]);
        for (number, task) in others {
            let is_closed = number <= 3;
            assert_eq!(strangers.leave(number), !is_closed, "{number}");
            if is_closed {
                assert!(task.await.is_err_and(|error| error.is_cancelled()));
            } else {
                task.abort();
            }
        }
        assert!(strangers.leave(0) && !root.is_finished());
        root.abort();
    }
}
