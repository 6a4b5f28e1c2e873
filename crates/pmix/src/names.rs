//! Names that processes have published, for the others of their job. All servers of a job have the same,
//! since they get what changes it in one order ([`crate::machine`]).

use serde::{Deserialize, Serialize};

use crate::spaces::Process;

/// Entries that are published at once, at most.
const ENTRIES_MAX: usize = 16 << 10;

/// A value as libpmix has it: the kind, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Kind of the PMIx standard (`PMIX_STRING` and so on).
    pub kind: u16,
    /// A string without its zero, the bytes of a byte object, or the words of a number.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// The processes that may see an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Range {
    /// Processes of the node.
    Node,
    /// Processes of the namespace.
    Space,
    /// The process itself.
    Process,
    /// All of the job.
    Job,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    key: String,
    value: Value,
    owner: Process,
    node: u32,
    range: Range,
    /// Whether it goes with the first process that reads it.
    is_read_once: bool,
}

/// A wish of a process to have these keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lookup {
    /// The process.
    pub asker: Process,
    /// Keys that the process looks up.
    pub keys: Vec<String>,
    /// Number of keys for which it waits until they are there; 0: it does not wait.
    pub wanted: u32,
}

/// Entry that a process finds: a key, its value, and who has published it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The key.
    pub key: String,
    /// Value of the key.
    pub value: Value,
    /// The process that has published it.
    pub owner: Process,
}

/// All entries, and who waits for some.
#[derive(Debug, Default)]
pub struct Names {
    entries: Vec<Entry>,
    /// Of which node, its number there, and what it wants.
    waiting: Vec<(u32, u64, Lookup)>,
}

impl Entry {
    fn is_for(&self, asker: &Process, node: u32) -> bool {
        match self.range {
            Range::Job => true,
            Range::Node => self.node == node,
            Range::Space => self.owner.space == asker.space,
            Range::Process => self.owner == *asker,
        }
    }
}

impl Names {
    /// Publishes entries, all or none; `false`: a process that may see one would see another of that key, or
    /// there are too many.
    pub fn publish(
        &mut self,
        node: u32,
        owner: &Process,
        range: Range,
        is_read_once: bool,
        new: Vec<(String, Value)>,
    ) -> bool {
        let is_taken = |key: &str| self.entries.iter().any(|old| old.key == key && old.is_for(owner, node));
        let is_full = self.entries.len() + new.len() > ENTRIES_MAX;
        if is_full || new.iter().any(|(key, _)| is_taken(key)) {
            return false;
        }
        let entry = |(key, value)| Entry { key, value, owner: owner.clone(), node, range, is_read_once };
        self.entries.extend(new.into_iter().map(entry));
        true
    }

    /// Takes entries of a process back; no keys: all. Whether there were any.
    pub fn unpublish(&mut self, owner: &Process, keys: &[String]) -> bool {
        let before = self.entries.len();
        self.entries.retain(|old| old.owner != *owner || !(keys.is_empty() || keys.contains(&old.key)));
        self.entries.len() < before
    }

    /// A process wants keys; none: it waits, until [`Self::poll_waiting`] or [`Self::give_up`] gives it.
    pub fn lookup(&mut self, node: u32, number: u64, lookup: Lookup) -> Option<Vec<Found>> {
        let found = self.take(node, &lookup);
        if found.is_none() {
            self.waiting.push((node, number, lookup));
        }
        found
    }

    /// Wait that is over, since what it wants is there: of which node, its number there.
    pub fn poll_waiting(&mut self) -> Option<(u32, u64, Vec<Found>)> {
        for at in 0..self.waiting.len() {
            let (node, number, lookup) = self.waiting[at].clone();
            if let Some(found) = self.take(node, &lookup) {
                self.waiting.remove(at);
                return Some((node, number, found));
            }
        }
        None
    }

    /// Ends the wait of a lookup; whether it waited.
    pub fn give_up(&mut self, node: u32, number: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|(of, one, _)| (*of, *one) != (node, number));
        self.waiting.len() < before
    }

    /// Processes of a namespace that is over have neither entries nor wishes.
    pub fn forget_space(&mut self, space: &str) {
        self.entries.retain(|entry| entry.owner.space != space);
        self.waiting.retain(|(_, _, lookup)| lookup.asker.space != space);
    }

    fn take(&mut self, node: u32, lookup: &Lookup) -> Option<Vec<Found>> {
        let is_it = |entry: &Entry, key: &str| entry.key == key && entry.is_for(&lookup.asker, node);
        let place = |key: &String| self.entries.iter().position(|entry| is_it(entry, key));
        let places: Vec<usize> = lookup.keys.iter().filter_map(place).collect();
        if places.len() < lookup.wanted as usize {
            return None;
        }
        let found = places.iter().map(|at| {
            let Entry { key, value, owner, .. } = self.entries[*at].clone();
            Found { key, value, owner }
        });
        let found = found.collect();
        let mut at = 0;
        self.entries.retain(|entry| {
            at += 1;
            !(entry.is_read_once && places.contains(&(at - 1)))
        });
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(space: &str, rank: u32) -> Process {
        Process { space: space.into(), rank }
    }

    fn entry(key: &str) -> (String, Value) {
        (key.into(), Value { kind: 3, bytes: key.into() })
    }

    fn lookup(asker: Process, keys: &[&str], wanted: u32) -> Lookup {
        Lookup { asker, keys: keys.iter().map(|key| (*key).into()).collect(), wanted }
    }

    fn keys(found: Option<Vec<Found>>) -> Option<Vec<String>> {
        found.map(|all| all.into_iter().map(|one| one.key).collect())
    }

    #[test]
    fn names_are_found_by_those_that_may_see_them() {
        let mut names = Names::default();
        let owner = process("job", 0);
        for (range, key) in
            [(Range::Job, "all"), (Range::Node, "node"), (Range::Space, "space"), (Range::Process, "own")]
        {
            assert!(names.publish(0, &owner, range, false, vec![entry(key)]));
        }
        let every = ["all", "node", "space", "own"];
        for (node, asker, expected) in [
            (0, process("job", 0), &every[..]),
            (0, process("job", 1), &every[..3]),
            (1, process("job", 2), &["all", "space"]),
            (0, process("job-1", 0), &["all", "node"]),
        ] {
            let found = keys(names.lookup(node, 1, lookup(asker.clone(), &every, 0)));
            assert_eq!(
                found.as_deref(),
                Some(&expected.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>()[..])
            );
        }
    }

    #[test]
    fn name_is_published_once_until_it_is_taken_back() {
        let mut names = Names::default();
        let (owner, other) = (process("job", 0), process("job", 1));
        assert!(names.publish(0, &owner, Range::Job, false, vec![entry("a"), entry("b")]));
        assert!(!names.publish(1, &other, Range::Job, false, vec![entry("c"), entry("b")]));
        assert_eq!(keys(names.lookup(0, 1, lookup(other.clone(), &["c"], 0))), Some(vec![]));
        assert!(!names.unpublish(&other, &["a".into()]));
        assert!(names.unpublish(&owner, &["a".into()]));
        assert!(names.publish(1, &other, Range::Job, false, vec![entry("a")]));
        assert!(names.unpublish(&owner, &[]) && !names.unpublish(&owner, &[]));
        names.forget_space("job");
        assert!(names.entries.is_empty());
    }

    #[test]
    fn name_that_is_waited_for_is_given_once_to_the_first() {
        let mut names = Names::default();
        let asker = process("job", 1);
        assert_eq!(names.lookup(1, 7, lookup(asker.clone(), &["a", "b"], 2)), None);
        assert_eq!(names.lookup(0, 7, lookup(asker.clone(), &["a"], 1)), None);
        assert_eq!(names.lookup(0, 8, lookup(asker.clone(), &["a"], 1)), None);
        assert!(names.publish(0, &process("job", 0), Range::Job, true, vec![entry("a")]));
        // The first that waits wants more than there is.
        assert_eq!(names.poll_waiting().map(|(node, number, _)| (node, number)), Some((0, 7)));
        assert_eq!(names.poll_waiting(), None);
        assert!(names.give_up(0, 8) && !names.give_up(0, 8));
        assert!(names.publish(0, &process("job", 0), Range::Job, true, vec![entry("a"), entry("b")]));
        let (node, number, found) = names.poll_waiting().expect("both are there");
        assert_eq!((node, number, keys(Some(found))), (1, 7, Some(vec!["a".into(), "b".into()])));
        assert!(names.entries.is_empty());
    }
}
