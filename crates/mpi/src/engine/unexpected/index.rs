//! The unexpected messages of one sender by what matches them: built when a search has come far, dropped when
//! few are left.
//!
//! An entry says where a message was and its number. It holds as long as a message of this number stands
//! there, so that nothing that leaves the queue must be reported here. What is new has greater numbers than
//! the index has seen.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use super::super::numbered::Spread;
use super::super::steps;
use super::super::unexpected_message::Name;
use crate::abi::MPI_ANY_TAG;

/// Entries that may be stale before the index is built anew, besides as many as it had.
const STALE_MAX: usize = 128;

/// Where a message was, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Number of the message in the order of arrival.
    pub number: u64,
    /// Place of the message.
    pub at: u32,
}

/// The messages of one sender.
#[derive(Debug, Default)]
pub(super) struct UnexpectedIndex {
    /// By context and tag, and by context and MPI_ANY_TAG, in order of arrival.
    by_key: HashMap<(u32, i32), VecDeque<Entry>, BuildHasherDefault<Spread>>,
    /// By name.
    by_name: HashMap<Name, Entry, BuildHasherDefault<Spread>>,
    /// Number of the newest.
    newest: u64,
    added: usize,
    built_of: usize,
}

impl UnexpectedIndex {
    /// Of these messages, oldest first: context, tag, name.
    pub(super) fn new(messages: impl Iterator<Item = (Entry, u32, i32, Option<Name>)>) -> Self {
        let mut index = UnexpectedIndex::default();
        messages.for_each(|(entry, context, tag, name)| index.add(entry, context, tag, name));
        index.built_of = index.added;
        index
    }

    /// How many messages it has, some of which may be gone.
    pub(super) fn len(&self) -> usize {
        self.added
    }

    /// Number of the newest message that it knows.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether most entries may be of messages that are gone.
    pub(super) fn is_stale(&self) -> bool {
        self.added > 2 * self.built_of + STALE_MAX
    }

    /// Adds a message that is newer than all others.
    pub(super) fn add(&mut self, entry: Entry, context: u32, tag: i32, name: Option<Name>) {
        steps::count(1);
        self.by_key.entry((context, tag)).or_default().push_back(entry);
        self.by_key.entry((context, MPI_ANY_TAG)).or_default().push_back(entry);
        if let Some(name) = name {
            self.by_name.insert(name, entry);
        }
        self.newest = entry.number;
        self.added += 1;
    }

    /// The place of the oldest message that a receive takes; `is_there` says whether an entry holds.
    pub(super) fn find(&mut self, context: u32, tag: i32, is_there: impl Fn(Entry) -> bool) -> Option<u32> {
        let entries = self.by_key.get_mut(&(context, tag))?;
        while let Some(&entry) = entries.front() {
            steps::count(1);
            if is_there(entry) {
                return Some(entry.at);
            }
            entries.pop_front();
        }
        self.by_key.remove(&(context, tag));
        None
    }

    /// The place of the message of this name.
    pub(super) fn find_named(&self, name: Name, is_there: impl Fn(Entry) -> bool) -> Option<u32> {
        steps::count(1);
        self.by_name.get(&name).filter(|entry| is_there(**entry)).map(|entry| entry.at)
    }
}
