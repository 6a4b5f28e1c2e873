//! The keys and values of a job, as far as this node knows them: what its own ranks have put, at once, and
//! what those of other nodes had put before the last barrier. What a rank has put is bounded.

use std::collections::{BTreeMap, BTreeSet};

/// Cost of a key beside its own bytes and those of its value.
const ENTRY_BYTES: usize = 128;

/// The node's copy.
#[derive(Debug)]
pub struct Store {
    entries: BTreeMap<Box<[u8]>, Entry>,
    /// Bytes that each rank of this node has put and that are still there.
    used: Vec<usize>,
    /// Of each, at most.
    limit: usize,
    /// Keys that have been put here since the last barrier.
    fresh: BTreeSet<Box<[u8]>>,
}

#[derive(Debug)]
struct Entry {
    value: Box<[u8]>,
    /// The rank of this node that has put it.
    owner: Option<u32>,
}

/// A rank has put more than its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Store {
    /// An empty one, for so many ranks of this node.
    pub fn new(ranks: usize, limit: usize) -> Self {
        Store { entries: BTreeMap::new(), used: vec![0; ranks], limit, fresh: BTreeSet::new() }
    }

    /// Keeps what is known from the beginning.
    pub fn preset(&mut self, key: &[u8], value: &[u8]) {
        self.entries.insert(key.into(), Entry { value: value.into(), owner: None });
    }

    /// A rank, counted on this node, puts a value. One that was there is replaced: a program may start MPI
    /// again.
    ///
    /// # Errors
    /// When the rank has no room for it.
    pub fn put(&mut self, rank: u32, key: &[u8], value: &[u8]) -> Result<(), Full> {
        let old = self.entries.get(key);
        let freed = old.filter(|entry| entry.owner == Some(rank)).map_or(0, |entry| cost(key, &entry.value));
        let used = self.used[rank as usize] - freed + cost(key, value);
        if used > self.limit {
            return Err(Full);
        }
        if let Some(Entry { value, owner: Some(other) }) = old.filter(|entry| entry.owner != Some(rank)) {
            self.used[*other as usize] -= cost(key, value);
        }
        self.used[rank as usize] = used;
        self.entries.insert(key.into(), Entry { value: value.into(), owner: Some(rank) });
        self.fresh.insert(key.into());
        Ok(())
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(key).map(|entry| &*entry.value)
    }

    /// Key and value at a place.
    pub fn at(&self, index: usize) -> Option<(&[u8], &[u8])> {
        self.entries.iter().nth(index).map(|(key, entry)| (&**key, &*entry.value))
    }

    /// Takes what has been put here since the last call, for the other nodes.
    pub fn take_fresh(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        for key in std::mem::take(&mut self.fresh) {
            if let Some(entry) = self.entries.get(&key) {
                for text in [&key, &entry.value] {
                    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    out.extend_from_slice(text);
                }
            }
        }
        out
    }

    /// Takes what all nodes have put, our own among it, in an order that is the same on all. `false`: these
    /// are no keys and values.
    #[must_use]
    pub fn merge(&mut self, puts: &[u8]) -> bool {
        let mut rest = puts;
        while !rest.is_empty() {
            let (Some(key), Some(value)) = (take_text(&mut rest), take_text(&mut rest)) else { return false };
            if self.get(key) == Some(value) {
                continue;
            }
            let old = self.entries.insert(key.into(), Entry { value: value.into(), owner: None });
            if let Some(Entry { value, owner: Some(owner) }) = old {
                self.used[owner as usize] -= cost(key, &value);
            }
        }
        true
    }
}

fn cost(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + ENTRY_BYTES
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (text, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pmi_store_quota_is_per_rank() {
        let mut store = Store::new(2, 1000);
        let mut number = 0;
        while store.put(0, format!("key{number}").as_bytes(), b"x").is_ok() {
            number += 1;
            assert!(number < 100, "no end");
        }
        assert_eq!(store.put(1, b"a", b"b"), Ok(()));
        // One of its own may be replaced, by a shorter one, as often as it likes.
        (0..1000).for_each(|_| assert_eq!(store.put(0, b"key0", b""), Ok(())));
        assert_eq!(store.put(1, b"c", &[b'x'; 1000]), Err(Full));
        // What another one replaces is not counted twice.
        assert_eq!(store.put(1, b"key1", b"y"), Ok(()));
        assert_eq!(store.put(0, b"new", b"x"), Ok(()));
    }

    #[test]
    fn pmi_store_is_shared_after_a_barrier() {
        let (mut here, mut there) = (Store::new(1, 1 << 20), Store::new(1, 1 << 20));
        here.put(0, b"a", b"1").unwrap();
        there.put(0, b"b", b"2").unwrap();
        assert_eq!(there.get(b"a"), None);
        let puts = [here.take_fresh(), there.take_fresh()].concat();
        assert!(here.merge(&puts) && there.merge(&puts));
        assert_eq!((here.get(b"b"), there.get(b"a")), (Some(&b"2"[..]), Some(&b"1"[..])));
        assert_eq!((here.at(0), here.at(2)), (Some((&b"a"[..], &b"1"[..])), None));
        here.put(0, b"a", b"3").unwrap();
        assert!(there.merge(&here.take_fresh()));
        assert_eq!(there.get(b"a"), Some(&b"3"[..]));
        assert!(here.take_fresh().is_empty());
    }

    proptest! {
        #[test]
        fn pmi_store_survives_any_bytes(puts in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Store::new(1, 1000).merge(&puts);
        }
    }
}
