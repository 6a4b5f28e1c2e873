//! The posted receives of one long queue by what they match: built when a search has come far, dropped when
//! the queue is short again.
//!
//! The queue itself stays as it is, and the index is brought up to date before each use. So the fast path,
//! which appends a receive and takes the first one, needs not know of it: what is gone at the front has a
//! smaller number than the first, what is new stands behind the last. Only a receive that leaves from the
//! middle must be [forgotten](PostedIndex::forget).

use std::collections::BTreeMap;

use super::super::steps;
use crate::abi::MPI_ANY_TAG;
use crate::handle::{NONE, Slab};
use crate::request::Request;

/// Key of a receive: what it matches, and its number in the order of posting.
type Key = (u32, i32, u64);

/// The receives of one queue.
#[derive(Debug, Default)]
pub(super) struct PostedIndex {
    /// By number, which is their order: place and what they match.
    by_number: BTreeMap<u64, (u32, u32, i32)>,
    /// By context, tag and number: place.
    by_key: BTreeMap<Key, u32>,
}

impl PostedIndex {
    /// How many receives there are.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Takes in what has happened at both ends of the queue, whose first receive this is.
    pub(super) fn update(&mut self, requests: &Slab<Request>, first: u32) {
        let first_number = if first == NONE { u64::MAX } else { requests.get(first).posted };
        while let Some(entry) = self.by_number.first_entry().filter(|entry| *entry.key() < first_number) {
            steps::count(1);
            let (number, (_, context, tag)) = entry.remove_entry();
            self.by_key.remove(&(context, tag, number));
        }
        let mut at = match self.by_number.last_key_value() {
            Some((_, (last, ..))) => requests.get(*last).next,
            None => first,
        };
        while at != NONE {
            steps::count(1);
            let request = requests.get(at);
            let Request { context, tag, posted, .. } = *request;
            self.by_number.insert(posted, (at, context, tag));
            self.by_key.insert((context, tag, posted), at);
            at = request.next;
        }
    }

    /// The first receive that takes a message: its predecessor in the queue and itself.
    pub(super) fn find(&self, context: u32, tag: i32) -> Option<(u32, u32)> {
        steps::count(1);
        let first = |tag| {
            let mut of_key = self.by_key.range((context, tag, 0)..=(context, tag, u64::MAX));
            of_key.next().map(|((_, _, number), at)| (*number, *at))
        };
        let found = match (first(tag), first(MPI_ANY_TAG)) {
            (Some(named), Some(any)) => Some(named.min(any)),
            (named, any) => named.or(any),
        };
        found.map(|(number, at)| (self.predecessor(number), at))
    }

    /// The receive in front of the one with this number, if there is one.
    pub(super) fn predecessor(&self, number: u64) -> u32 {
        self.by_number.range(..number).next_back().map_or(NONE, |(_, (at, ..))| *at)
    }

    /// The receive with this number has left the queue.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some((_, context, tag)) = self.by_number.remove(&number) {
            self.by_key.remove(&(context, tag, number));
        }
    }
}
