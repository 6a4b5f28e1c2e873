//! The messages that no receive has asked for, by sender, in order of arrival.
//!
//! Places never move and a chunk of them never goes, so an onlooker finds each message whatever this process
//! is doing when it is frozen (`tutti_shm::unexpected`): places begin with what it reads. The order of a
//! sender's messages is a list through them. A search that has come far builds an index of its sender's
//! messages ([`index`]).

mod index;

use std::sync::atomic::Ordering;

use tutti_shm::envelope::{EAGER, RTS, STREAM};
use tutti_shm::unexpected::{ChunkHead, Entry, Mark, Root};

use super::steps;
use super::unexpected_message::{Body, INDEXED_MIN, Name, Unexpected, WALK_MAX, matches};
use crate::handle::NONE;
use index::{Entry as IndexEntry, UnexpectedIndex};

/// Places of a chunk.
const PLACES: usize = 64;

#[derive(Debug)]
#[repr(C)]
struct Chunk {
    head: ChunkHead,
    places: [Place; PLACES],
}

#[derive(Debug)]
#[repr(C)]
struct Place {
    mark: Mark,
    /// Next message of the sender, or next free place.
    next: u32,
    before: u32,
    message: Option<Unexpected>,
}

#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

/// All of them.
#[derive(Debug)]
pub(super) struct UnexpectedQueue {
    root: Box<Root>,
    chunks: Vec<Box<Chunk>>,
    free: u32,
    queues: Vec<Queue>,
    /// Number of the last that came.
    number: u64,
    count: usize,
    /// Indexes of long queues, by sender; empty until one was needed.
    indexes: Vec<Option<Box<UnexpectedIndex>>>,
}

impl UnexpectedQueue {
    /// Of no sender yet.
    pub(super) fn new(ranks: usize) -> Self {
        UnexpectedQueue {
            root: Box::default(),
            chunks: Vec::new(),
            free: NONE,
            queues: vec![Queue { first: NONE, last: NONE }; ranks],
            number: 0,
            count: 0,
            indexes: Vec::new(),
        }
    }

    /// Makes room for more senders.
    pub(super) fn add_senders(&mut self, ranks: usize) {
        self.queues.resize(ranks, Queue { first: NONE, last: NONE });
        // They are built anew when they are needed.
        self.indexes.clear();
    }

    /// Where an onlooker begins.
    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Senders.
    pub(super) fn senders(&self) -> usize {
        self.queues.len()
    }

    /// Whether there is none of a sender.
    #[inline(always)]
    pub(super) fn is_empty(&self, from: usize) -> bool {
        self.queues[from].first == NONE
    }

    /// The place of the oldest of a sender.
    #[inline(always)]
    pub(super) fn first(&self, from: usize) -> Option<u32> {
        let first = self.queues[from].first;
        (first != NONE).then_some(first)
    }

    /// The message at a place.
    #[inline(always)]
    pub(super) fn get(&self, at: u32) -> &Unexpected {
        self.place(at).message.as_ref().expect("a place in a list has a message")
    }

    /// The messages of a sender with their places, oldest first.
    pub(super) fn of(&self, from: usize) -> impl Iterator<Item = (u32, &Unexpected)> {
        let mut at = self.queues[from].first;
        std::iter::from_fn(move || {
            let found = (at != NONE).then(|| (at, self.get(at)))?;
            at = self.place(at).next;
            Some(found)
        })
    }

    /// Whether a receive takes the oldest message of a sender.
    #[inline(always)]
    pub(super) fn find_first(&self, from: usize, context: u32, tag: i32) -> First {
        match self.first(from) {
            None => First::Missing,
            Some(first) if is_for(self.get(first), context, tag) => First::Matches(first),
            Some(_) => First::Differs,
        }
    }

    /// The place of the oldest message of a sender that a receive takes.
    #[inline(always)]
    pub(super) fn find(&mut self, from: usize, context: u32, tag: i32) -> Option<u32> {
        match self.find_first(from, context, tag) {
            First::Missing => None,
            First::Matches(first) => Some(first),
            First::Differs => self.find_behind(from, context, tag),
        }
    }

    #[inline(never)]
    fn find_behind(&mut self, from: usize, context: u32, tag: i32) -> Option<u32> {
        if self.is_indexed(from) {
            return self.find_indexed(from, context, tag);
        }
        match self.walk(from, |message| is_for(message, context, tag)) {
            Walk::Found(at) => Some(at),
            Walk::Ended => None,
            Walk::Long => {
                self.build_index(from);
                self.find_indexed(from, context, tag)
            }
        }
    }

    /// The place of the message of a sender that has this name.
    pub(super) fn find_named(&mut self, from: usize, name: Name) -> Option<u32> {
        let is_it = |body: &Body| body.name() == Some(name);
        if !self.is_indexed(from) {
            match self.walk(from, |message| is_it(&message.body)) {
                Walk::Found(at) => return Some(at),
                Walk::Ended => return None,
                Walk::Long => self.build_index(from),
            }
        }
        let found = self.indexes[from].as_ref()?.find_named(name, |entry| self.is_there(entry))?;
        is_it(&self.get(found).body).then_some(found)
    }

    /// The first message of a sender that is asked for, unless it is far behind.
    fn walk(&self, from: usize, is_it: impl Fn(&Unexpected) -> bool) -> Walk {
        let mut messages = self.of(from).inspect(|_| steps::count(1));
        let found = messages.by_ref().take(WALK_MAX).find(|(_, message)| is_it(message));
        match found {
            Some((at, _)) => Walk::Found(at),
            None if messages.next().is_none() => Walk::Ended,
            None => Walk::Long,
        }
    }

    fn find_indexed(&mut self, from: usize, context: u32, tag: i32) -> Option<u32> {
        let mut index = self.indexes[from].take()?;
        let found = index.find(context, tag, |entry| self.is_there(entry));
        self.indexes[from] = Some(index);
        found
    }

    /// Whether a message that an index knows waits yet.
    fn is_there(&self, entry: IndexEntry) -> bool {
        self.place(entry.at).mark.number.load(Ordering::Relaxed) == entry.number
    }

    /// Whether a sender's messages have an index, which is up to date then.
    fn is_indexed(&mut self, from: usize) -> bool {
        if self.count < INDEXED_MIN {
            self.indexes.clear();
        }
        let Some(mut index) = self.indexes.get_mut(from).and_then(Option::take) else { return false };
        let mut added = Vec::new();
        let mut at = self.queues[from].last;
        while at != NONE && self.entry(at).0.number > index.newest() {
            added.push(at);
            at = self.place(at).before;
        }
        for at in added.into_iter().rev() {
            let (entry, context, tag, message) = self.entry(at);
            index.add(entry, context, tag, message);
        }
        if index.is_stale() {
            *index = UnexpectedIndex::new(self.of(from).map(|(at, _)| self.entry(at)));
        }
        let is_long = index.len() >= INDEXED_MIN;
        if is_long {
            self.indexes[from] = Some(index);
        }
        is_long
    }

    #[cold]
    fn build_index(&mut self, from: usize) {
        let index = UnexpectedIndex::new(self.of(from).map(|(at, _)| self.entry(at)));
        if self.indexes.is_empty() {
            self.indexes.resize_with(self.queues.len(), || None);
        }
        self.indexes[from] = Some(Box::new(index));
    }

    /// How many senders have an index.
    #[cfg(test)]
    pub(super) fn indexes(&self) -> usize {
        self.indexes.iter().flatten().count()
    }

    /// Entry of an index for the message at a place, with its context, tag and what its sender calls it.
    fn entry(&self, at: u32) -> (IndexEntry, u32, i32, Option<Name>) {
        let (place, message) = (self.place(at), self.get(at));
        let number = place.mark.number.load(Ordering::Relaxed);
        (IndexEntry { number, at }, message.context, message.tag, message.body.name())
    }

    /// Keeps a message behind the others of its sender.
    pub(super) fn push(&mut self, from: usize, message: Unexpected) {
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
        let before = self.queues[from].last;
        self.number += 1;
        self.count += 1;
        let number = self.number;
        let place = self.place_mut(at);
        let next_free = std::mem::replace(&mut place.next, NONE);
        place.before = before;
        let message = place.message.insert(message);
        let (kind, data, here) = whereabouts(&message.body, message.bytes);
        let Unexpected { context, tag, bytes, .. } = *message;
        let from_rank = from as u32;
        place.mark.set(&Entry {
            number,
            bytes: bytes as u64,
            data,
            here,
            from: from_rank,
            kind,
            context,
            tag,
        });
        self.free = next_free;
        match before {
            NONE => self.queues[from].first = at,
            before => self.place_mut(before).next = at,
        }
        self.queues[from].last = at;
    }

    /// Takes the message at a place of this sender's.
    #[inline(always)]
    pub(super) fn remove(&mut self, from: usize, at: u32) -> Unexpected {
        let free = self.free;
        let place = self.place_mut(at);
        place.mark.clear();
        let message = place.message.take().expect("a place in a list has a message");
        let (before, next) = (place.before, std::mem::replace(&mut place.next, free));
        self.free = at;
        self.count -= 1;
        match before {
            NONE => self.queues[from].first = next,
            before => self.place_mut(before).next = next,
        }
        match next {
            NONE => self.queues[from].last = before,
            next => self.place_mut(next).before = before,
        }
        message
    }

    /// All data of the message at a place have come; `complete` puts them there, if they are its.
    pub(super) fn complete(&mut self, at: u32, complete: impl FnOnce(&mut Body)) {
        let place = self.place_mut(at);
        let message = place.message.as_mut().expect("a place in a list has a message");
        complete(&mut message.body);
        let (kind, data, _) = whereabouts(&message.body, message.bytes);
        place.mark.complete(data, kind);
    }

    #[inline(always)]
    fn place(&self, at: u32) -> &Place {
        &self.chunks[at as usize / PLACES].places[at as usize % PLACES]
    }

    #[inline(always)]
    fn place_mut(&mut self, at: u32) -> &mut Place {
        &mut self.chunks[at as usize / PLACES].places[at as usize % PLACES]
    }

    #[cold]
    fn grow(&mut self) {
        let first = (self.chunks.len() * PLACES) as u32;
        let place = |at: usize| Place {
            mark: Mark::default(),
            next: if at + 1 < PLACES { first + at as u32 + 1 } else { NONE },
            before: NONE,
            message: None,
        };
        let head = ChunkHead { next: 0.into(), places: PLACES as u32, stride: size_of::<Place>() as u32 };
        let chunk = Box::new(Chunk { head, places: std::array::from_fn(place) });
        let address = (&raw const *chunk).addr() as u64;
        let link = self.chunks.last().map_or(&self.root.first, |last| &last.head.next);
        link.store(address, Ordering::Release);
        self.chunks.push(chunk);
        self.free = first;
    }
}

/// The oldest message of a sender.
pub(super) enum First {
    /// Absence of a message.
    Missing,
    /// Message that is asked for, at this place.
    Matches(u32),
    /// Message other than the one that is asked for.
    Differs,
}

/// Result of a search along a list.
enum Walk {
    Found(u32),
    Ended,
    /// More messages than are looked through.
    Long,
}

/// Whether a receive takes a message.
#[inline(always)]
fn is_for(message: &Unexpected, context: u32, tag: i32) -> bool {
    matches((context, tag), (message.context, message.tag))
}

/// By which kind of message it came, and where how many of its data are.
fn whereabouts(body: &Body, bytes: usize) -> (u8, u64, u64) {
    match body {
        Body::Short(data) => (EAGER, data.as_ptr().addr() as u64, bytes as u64),
        Body::Long(data) | Body::Moved(data) => (EAGER, data.as_ptr().addr() as u64, bytes as u64),
        Body::Streaming(_) => (STREAM, 0, 0),
        Body::Rendezvous { .. } | Body::Local { .. } => (RTS, 0, 0),
        Body::Signed(_, body) => whereabouts(body, bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn message(tag: i32) -> Unexpected {
        Unexpected { context: 0, tag, bytes: 0, body: Body::Streaming(tag as u32) }
    }

    /// Messages that an onlooker finds, in order of arrival: sender, tag, kind.
    fn seen(keep: &UnexpectedQueue) -> Vec<(u32, i32, u8)> {
        let mut found: Vec<(u64, u32, i32, u8)> = Vec::new();
        for place in keep.chunks.iter().flat_map(|chunk| &chunk.places) {
            let word = |word: &tutti_shm::sync::AtomicU64| word.load(Ordering::Relaxed);
            let (number, from_kind, matching) =
                (word(&place.mark.number), word(&place.mark.from_kind), word(&place.mark.matching));
            if number != 0 {
                found.push((number, from_kind as u32, (matching >> 32) as i32, (from_kind >> 32) as u8));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, from, tag, kind)| (from, tag, kind)).collect()
    }

    proptest! {
        #[test]
        fn unexpected_queue_is_ordered_per_sender_and_observable(
            steps in prop::collection::vec((0..3_usize, any::<bool>(), 0..5_usize), 1..400),
        ) {
            let mut keep = UnexpectedQueue::new(3);
            let mut model: Vec<VecDeque<(i32, u8)>> = vec![VecDeque::new(); 3];
            let mut order: Vec<(u32, i32)> = Vec::new();
            for (tag, (from, comes, which)) in steps.into_iter().enumerate() {
                let tag = tag as i32;
                let chosen = keep.of(from).nth(which).map(|(at, m)| (at, m.tag));
                if comes {
                    keep.push(from, message(tag));
                    model[from].push_back((tag, STREAM));
                    order.push((from as u32, tag));
                } else if let Some((at, found)) = chosen {
                    if which == 4 {
                        keep.complete(at, |body| *body = Body::Long(Box::new([])));
                        model[from][which].1 = EAGER;
                    } else {
                        prop_assert_eq!(keep.remove(from, at).tag, found);
                        prop_assert_eq!(model[from].remove(which).map(|(tag, _)| tag), Some(found));
                        order.retain(|(_, tag)| *tag != found);
                    }
                }
                for (from, queue) in model.iter().enumerate() {
                    prop_assert!(keep.of(from).map(|(_, m)| m.tag).eq(queue.iter().map(|(tag, _)| *tag)));
                    prop_assert_eq!(keep.is_empty(from), queue.is_empty());
                }
                prop_assert_eq!(keep.count(), order.len());
                let kind = |from: u32, tag: i32| model[from as usize].iter().find(|m| m.0 == tag).map(|m| m.1);
                let expected: Vec<_> =
                    order.iter().map(|&(from, tag)| (from, tag, kind(from, tag).unwrap_or(0))).collect();
                prop_assert_eq!(seen(&keep), expected);
            }
        }
    }
}
