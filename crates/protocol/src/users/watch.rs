//! Changes of what there is, for readers that follow it: `tutti top`, `tutti ps --watch`, the page.
//!
//! ```text
//! reader (Picture)                                     controller (Ledger)
//!   Watch { since: none, selection }    ------------>
//!                                       <------------  Changes { at: r, whole: everything of the selection }
//!   Watch { since: r, selection }       ------------>
//!                                       <------------  Changes { at: s, what has changed or gone since r }
//! ```
//!
//! The controller keeps nothing of a reader: a reader says itself how far it has read ([`Since`]), and nobody
//! waits for one that is slow. It gets the newest state of what has changed, and how many states it has
//! missed in between. One that was away for so long that the ledger has forgotten what has gone, or that
//! knows another controller, gets everything.
//!
//! The ledger has of each item a digest and the revision of its last change, not the item. An item that is
//! handed out is compared once more ([`Ledger::put`]), so that what a reader has is always what the ledger
//! says of its revision. A controller of an earlier release refuses the request; readers ask for lists then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use tutti_sched::{JobId, NodeId};

use super::{JobRow, JobState, NodeRow, Place, Prices};
use crate::codec;
use crate::settings::Setting;

/// Items that have gone and are remembered.
const GONE_MAX: usize = 4096;
/// Entries of each list of a selection.
pub const SELECTED_MAX: usize = 256;

/// State that a reader has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Since {
    /// The ledger.
    pub epoch: u64,
    /// State of the ledger, from 1 on.
    pub revision: u64,
}

/// Kinds of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// Jobs that are not over.
    Jobs,
    /// Rows and slots of jobs, and time that they have had.
    Places,
    /// Nodes.
    Nodes,
    /// Use by users, and what is wanted.
    Prices,
    /// Configuration.
    Settings,
}

/// Items that a reader wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Kinds; empty: all.
    #[serde(default)]
    pub parts: Vec<Part>,
    /// Users of jobs, by number; empty: all.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// Jobs in these states; empty: in any.
    #[serde(default)]
    pub states: Vec<JobState>,
    /// Jobs with these names; empty: with any.
    #[serde(default)]
    pub names: Vec<String>,
}

impl Selection {
    /// Whether items of a kind are wanted.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Whether a job is wanted.
    #[must_use]
    pub fn takes(&self, row: &JobRow) -> bool {
        let is_state = self.states.is_empty() || self.states.contains(&row.state);
        let is_name = self.names.is_empty() || self.names.contains(&row.name);
        let is_user = self.uids.is_empty() || self.uids.contains(&row.uid);
        is_state && is_name && is_user
    }

    /// Whether its lists are short enough to be looked through for each job.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let lengths = [self.parts.len(), self.uids.len(), self.states.len(), self.names.len()];
        lengths.into_iter().all(|length| length <= SELECTED_MAX)
    }
}

/// Question of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// State that it has; none: nothing.
    #[serde(default)]
    pub since: Option<Since>,
    /// Items that it wants; the same each time.
    #[serde(default)]
    pub selection: Selection,
}

/// Key of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Key {
    /// A job.
    Job(JobId),
    /// Place of a job.
    Place(JobId),
    /// A node.
    Node(NodeId),
    /// Use by users, without the places.
    Prices,
    /// Configuration.
    Settings,
}

impl Key {
    /// Kind of the item.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Key::Job(_) => Part::Jobs,
            Key::Place(_) => Part::Places,
            Key::Node(_) => Part::Nodes,
            Key::Prices => Part::Prices,
            Key::Settings => Part::Settings,
        }
    }
}

/// Answer to a reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// State that the reader has with them.
    pub at: Since,
    /// State that they follow; none: they are everything, and what the reader had before counts no more.
    #[serde(default)]
    pub since: Option<Since>,
    /// States in between that the reader has not seen.
    #[serde(default)]
    pub missed: u64,
    /// Items that have gone, or are not of the selection any more.
    #[serde(default)]
    pub gone: Vec<Key>,
    /// Items that are new or different.
    #[serde(default)]
    pub items: Items,
}

/// Items as they are now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Items {
    /// Jobs.
    #[serde(default)]
    pub jobs: Vec<JobRow>,
    /// Places.
    #[serde(default)]
    pub places: Vec<Place>,
    /// Nodes.
    #[serde(default)]
    pub nodes: Vec<NodeRow>,
    /// Use, without the places.
    #[serde(default)]
    pub prices: Option<Box<Prices>>,
    /// Configuration.
    #[serde(default)]
    pub settings: Option<Vec<Setting>>,
}

impl Changes {
    /// Whether nothing is different.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.since.is_some() && self.gone.is_empty() && self.items == Items::default()
    }
}

/// Digest of an item. Two items that differ have the same one with a chance of 1 in 2^64.
#[must_use]
pub fn digest<T: Serialize + ?Sized>(item: &T) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&codec::encode(item));
    hasher.finish()
}

/// Last change of an item.
#[derive(Clone, Copy, Debug)]
struct Entry {
    digest: u64,
    revision: u64,
}

/// Keys that a reader is to be told of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// State that the reader has, and that counts; none: everything is new to it.
    pub since: Option<Since>,
    /// States between that one and the newest.
    pub missed: u64,
    /// Items that are new or different.
    pub changed: Vec<Key>,
    /// Items that have gone.
    pub gone: Vec<Key>,
}

/// Changes of all items, by revision.
#[derive(Debug, Default)]
pub struct Ledger {
    epoch: u64,
    revision: u64,
    entries: BTreeMap<Key, Entry>,
    /// Items that have gone, with the revision, oldest first.
    gone: VecDeque<(u64, Key)>,
    /// Of what has gone up to this revision nothing is known.
    forgotten: u64,
}

impl Ledger {
    /// Empty ledger; no two that a reader can meet have the same epoch.
    #[must_use]
    pub fn new(epoch: u64) -> Self {
        Ledger { epoch, ..Ledger::default() }
    }

    /// The newest state.
    #[must_use]
    pub fn at(&self) -> Since {
        Since { epoch: self.epoch, revision: self.revision }
    }

    /// Notes all that there is; what is missing has gone.
    pub fn replace(&mut self, items: impl IntoIterator<Item = (Key, u64)>) {
        let revision = self.revision + 1;
        let mut before = std::mem::take(&mut self.entries);
        for (key, digest) in items {
            let entry = before.remove(&key).filter(|entry| entry.digest == digest);
            let entry = entry.unwrap_or(Entry { digest, revision });
            self.revision = self.revision.max(entry.revision);
            self.entries.insert(key, entry);
        }
        for key in before.into_keys() {
            self.revision = revision;
            self.note_gone(key);
        }
    }

    /// Notes an item that is handed out; none: it has gone.
    pub fn put(&mut self, key: Key, digest: Option<u64>) {
        match digest {
            Some(digest) if self.entries.get(&key).is_some_and(|entry| entry.digest == digest) => {}
            Some(digest) => {
                self.revision += 1;
                self.entries.insert(key, Entry { digest, revision: self.revision });
            }
            None if self.entries.remove(&key).is_some() => {
                self.revision += 1;
                self.note_gone(key);
            }
            None => {}
        }
    }

    fn note_gone(&mut self, key: Key) {
        self.gone.push_back((self.revision, key));
        while self.gone.len() > GONE_MAX {
            let oldest = self.gone.pop_front();
            self.forgotten = oldest.map_or(self.forgotten, |(revision, _)| revision);
        }
    }

    /// Forgets what has gone.
    #[cfg(test)]
    fn forget(&mut self) {
        self.gone.clear();
        self.forgotten = self.revision;
    }

    /// Keys of what has changed since a state.
    #[must_use]
    pub fn delta(&self, reader: Option<Since>) -> Delta {
        let counts = |since: &Since| {
            since.epoch == self.epoch && (self.forgotten..=self.revision).contains(&since.revision)
        };
        let since = reader.filter(counts);
        let from = since.map_or(0, |since| since.revision);
        let changed = self.entries.iter().filter(|(_, entry)| entry.revision > from);
        let changed = changed.map(|(key, _)| *key).collect();
        let gone = self.gone.iter().rev().take_while(|(revision, _)| since.is_some() && *revision > from);
        // One that is there again has changed.
        let gone: BTreeSet<Key> =
            gone.map(|(_, key)| *key).filter(|key| !self.entries.contains_key(key)).collect();
        let missed = match reader {
            Some(reader) if reader.epoch == self.epoch => self.revision.saturating_sub(reader.revision + 1),
            _ => 0,
        };
        Delta { since, missed, changed, gone: gone.into_iter().collect() }
    }
}

/// Answer in the making: items that are handed out are noted as they are now.
#[derive(Debug)]
pub struct Handed {
    since: Option<Since>,
    missed: u64,
    keys: Vec<Key>,
    gone: Vec<Key>,
}

impl Handed {
    /// Items for a reader; `digest_of` says how an item is now, none: it has gone.
    pub fn new(ledger: &mut Ledger, watch: &Watch, digest_of: impl Fn(Key) -> Option<u64>) -> Self {
        let Delta { since, missed, changed, mut gone } = ledger.delta(watch.since);
        let is_wanted = |key: &Key| watch.selection.has(key.part());
        gone.retain(is_wanted);
        let mut keys = Vec::new();
        for key in changed.into_iter().filter(is_wanted) {
            let digest = digest_of(key);
            ledger.put(key, digest);
            if digest.is_some() { keys.push(key) } else { gone.push(key) }
        }
        Handed { since, missed, keys, gone }
    }

    /// Keys of the items that are to be handed out, or named as not of the selection.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().copied()
    }

    /// The answer, with these items; `others` are not of the selection.
    #[must_use]
    pub fn changes(mut self, ledger: &Ledger, items: Items, others: Vec<Key>) -> Changes {
        self.gone.extend(others);
        if self.since.is_none() {
            self.gone.clear();
        }
        Changes { at: ledger.at(), since: self.since, missed: self.missed, gone: self.gone, items }
    }
}

/// State as a reader has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    at: Option<Since>,
    jobs: BTreeMap<JobId, JobRow>,
    places: BTreeMap<JobId, Place>,
    nodes: BTreeMap<NodeId, NodeRow>,
    prices: Prices,
    settings: Vec<Setting>,
}

impl Picture {
    /// State that it has; none: nothing.
    #[must_use]
    pub fn since(&self) -> Option<Since> {
        self.at
    }

    /// Takes an answer. One that follows another state than this one's is not taken: the next one is to be
    /// everything.
    pub fn take(&mut self, changes: Changes) {
        let Changes { at, since, gone, items, .. } = changes;
        let is_next = since.is_none() || since == self.at;
        if since.is_none() || !is_next {
            *self = Picture::default();
        }
        if !is_next {
            return;
        }
        self.at = Some(at);
        for key in gone {
            match key {
                Key::Job(job) => drop(self.jobs.remove(&job)),
                Key::Place(job) => drop(self.places.remove(&job)),
                Key::Node(node) => drop(self.nodes.remove(&node)),
                Key::Prices => self.prices = Prices::default(),
                Key::Settings => self.settings.clear(),
            }
        }
        self.jobs.extend(items.jobs.into_iter().map(|row| (row.job, row)));
        self.places.extend(items.places.into_iter().map(|place| (place.job, place)));
        self.nodes.extend(items.nodes.into_iter().map(|row| (row.node, row)));
        items.prices.into_iter().for_each(|prices| self.prices = *prices);
        items.settings.into_iter().for_each(|settings| self.settings = settings);
    }

    /// Jobs by number.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRow> {
        self.jobs.values()
    }

    /// Nodes by number.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRow> {
        self.nodes.values()
    }

    /// Use by users, with the places of jobs.
    #[must_use]
    pub fn prices(&self) -> Prices {
        Prices { places: self.places.values().cloned().collect(), ..self.prices.clone() }
    }

    /// Configuration.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
}

#[cfg(test)]
mod tests;
