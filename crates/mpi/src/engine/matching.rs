//! Matching (MPI 3.5): posted receives and unexpected messages, per source, with one more queue for receives
//! from any source.
//!
//! Posting numbers decide between the two queues. Messages of one source are kept in order of arrival, which
//! is the order of sending; between sources MPI demands no order, and a wildcard looks at them in turn.
//!
//! Queues are lists, which is cheapest as long as a search ends early. One that has passed [`WALK_MAX`]
//! entries builds an index of its queue ([`posted_index`], [`super::unexpected`]), so that n pending
//! operations cost n times one in whatever order they meet.

mod posted_index;
#[cfg(test)]
mod tests;

use std::ops::Range;

use tutti_shm::unexpected::Root;

use super::rtr::overlap;
use super::steps;
use super::unexpected::{First, UnexpectedQueue};
use super::unexpected_message::{Body, INDEXED_MIN, Name, Unexpected, WALK_MAX, matches, small_matches};
use crate::abi::{MPI_ANY_SOURCE, MPI_Message};
use crate::handle::{Kind, NONE, Slab};
use crate::request::Request;
use posted_index::PostedIndex;

/// Message that a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// World rank of the sender.
    pub source: u32,
    /// Tag.
    pub tag: i32,
    /// Bytes of the message.
    pub bytes: usize,
}

/// Pending receives that are looked at before another one is advertised; with more before it, it is not.
const EARLIER_MAX: usize = 128;

/// A queue's requests in order.
struct Walk<'a> {
    requests: &'a Slab<Request>,
    at: u32,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Request;

    fn next(&mut self) -> Option<&'a Request> {
        if self.at == NONE {
            return None;
        }
        let request = self.requests.get(self.at);
        self.at = request.next;
        Some(request)
    }
}

/// A list of requests through their `next`.
#[derive(Clone, Copy, Debug)]
struct Queue {
    first: u32,
    last: u32,
}

impl Queue {
    #[inline(always)]
    fn append(&mut self, requests: &mut Slab<Request>, index: u32) {
        let last = std::mem::replace(&mut self.last, index);
        if self.first == NONE {
            self.first = index;
        } else {
            requests.get_mut(last).next = index;
        }
    }
}

const EMPTY: Queue = Queue { first: NONE, last: NONE };

/// Both sides of matching.
#[derive(Debug)]
pub(super) struct Matching {
    posted: Vec<Queue>,
    any: Queue,
    unexpected: UnexpectedQueue,
    next_posted: u64,
    /// Messages taken out of matching by a matched probe, with their sources.
    extracted: Slab<(usize, Unexpected)>,
    /// Source at which the next wildcard search begins.
    turn: usize,
    /// Indexes of long posted queues, by source, that of `any` last; empty until one was needed.
    posted_indexes: Vec<Option<Box<PostedIndex>>>,
}

impl Matching {
    pub(super) fn new(ranks: usize) -> Self {
        Matching {
            posted: vec![EMPTY; ranks],
            any: EMPTY,
            unexpected: UnexpectedQueue::new(ranks),
            next_posted: 0,
            extracted: Slab::new(Kind::Message),
            turn: 0,
            posted_indexes: Vec::new(),
        }
    }

    /// Makes room for more sources.
    pub(super) fn grow(&mut self, ranks: usize) {
        // Guests have numbers behind the room for ranks.
        if ranks <= self.posted.len() {
            return;
        }
        self.posted.resize(ranks, EMPTY);
        self.unexpected.add_senders(ranks);
        // The index of receives from any source is the last one. They are built anew when they are needed.
        self.posted_indexes.clear();
    }

    /// Whether no receive is posted that a message of this source could match, and none of its messages
    /// waits.
    #[inline(always)]
    pub(super) fn is_idle(&self, from: usize) -> bool {
        self.posted[from].first == NONE && self.any.first == NONE && self.unexpected.is_empty(from)
    }

    /// The source at which a wildcard looks next; the one behind it is next then.
    #[inline(always)]
    pub(super) fn next_in_turn(&mut self) -> usize {
        let source = if self.turn < self.posted.len() { self.turn } else { 0 };
        self.turn = source + 1;
        source
    }

    /// Whether messages of this source wait.
    #[inline(always)]
    pub(super) fn has_unexpected(&self, from: usize) -> bool {
        !self.unexpected.is_empty(from)
    }

    /// Gives the data of the oldest waiting message of a source to `take`, if it is the one asked for, short,
    /// and at most `capacity` bytes long. Returns its tag and bytes.
    #[inline(always)]
    pub(super) fn take_first_short(
        &mut self,
        from: usize,
        context: u32,
        tag: i32,
        capacity: usize,
        take: impl FnOnce(&[u8]),
    ) -> Option<(i32, usize)> {
        let at = self.unexpected.first(from)?;
        let first = self.unexpected.get(at);
        let Body::Short(data) = &first.body else { return None };
        if !small_matches((context, tag, capacity), (first.context, first.tag, first.bytes)) {
            return None;
        }
        let found = (first.tag, first.bytes);
        take(&data[..first.bytes]);
        self.unexpected.remove(from, at);
        Some(found)
    }

    /// The number of the next receive in the order of posting.
    #[inline(always)]
    pub(super) fn next_number(&mut self) -> u64 {
        self.next_posted += 1;
        self.next_posted
    }

    /// Appends a receive, with its number, to its queue.
    #[inline(always)]
    pub(super) fn post(&mut self, requests: &mut Slab<Request>, index: u32) {
        let number = self.next_number();
        let request = requests.get_mut(index);
        request.posted = number;
        let source = request.peer;
        self.append(requests, source, index);
    }

    /// Appends a receive from this source, which has its number already, to its queue.
    #[inline(always)]
    pub(super) fn append(&mut self, requests: &mut Slab<Request>, source: i32, index: u32) {
        if source == MPI_ANY_SOURCE {
            self.any.append(requests, index);
        } else {
            self.append_from(requests, source as usize, index);
        }
    }

    /// The same from a source that is a rank.
    #[inline(always)]
    pub(super) fn append_from(&mut self, requests: &mut Slab<Request>, source: usize, index: u32) {
        self.posted[source].append(requests, index);
    }

    /// The oldest receive posted for a source, if no receive from any source could come before it.
    #[inline(always)]
    pub(super) fn only_candidate(&self, from: usize) -> Option<u32> {
        let first = self.posted[from].first;
        (first != NONE && self.any.first == NONE).then_some(first)
    }

    /// The receive of [`Matching::only_candidate`] is matched; `next` is the one behind it.
    #[inline(always)]
    pub(super) fn take_candidate(&mut self, from: usize, next: u32) {
        let queue = &mut self.posted[from];
        queue.first = next;
        if next == NONE {
            queue.last = NONE;
        }
    }

    /// Takes the first posted receive that matches a message.
    #[inline(always)]
    pub(super) fn take_posted(
        &mut self,
        requests: &mut Slab<Request>,
        from: usize,
        context: u32,
        tag: i32,
    ) -> Option<u32> {
        let any = self.posted.len();
        let named = self.search(requests, from, self.posted[from], context, tag);
        let chosen_any = if self.any.first == NONE {
            None
        } else {
            self.search(requests, any, self.any, context, tag).filter(|(_, any)| {
                named.is_none_or(|(_, index)| requests.get(*any).posted < requests.get(index).posted)
            })
        };
        if let Some((before, index)) = chosen_any {
            unlink(requests, &mut self.any, before, index);
            if before != NONE {
                self.forget(any, requests.get(index).posted);
            }
            return Some(index);
        }
        let (before, index) = named?;
        unlink(requests, &mut self.posted[from], before, index);
        if before != NONE {
            self.forget(from, requests.get(index).posted);
        }
        Some(index)
    }

    /// The first posted receive that matches a message; it stays posted.
    pub(super) fn find_posted(
        &mut self,
        requests: &Slab<Request>,
        from: usize,
        context: u32,
        tag: i32,
    ) -> Option<u32> {
        let any = self.posted.len();
        let named = self.search(requests, from, self.posted[from], context, tag).map(|(_, index)| index);
        let any = self.search(requests, any, self.any, context, tag).map(|(_, index)| index);
        named.into_iter().chain(any).min_by_key(|index| requests.get(*index).posted)
    }

    /// First request of a queue that takes a message: its predecessor and itself. `which` is the number of
    /// the queue's index.
    #[inline(always)]
    fn search(
        &mut self,
        requests: &Slab<Request>,
        which: usize,
        queue: Queue,
        context: u32,
        tag: i32,
    ) -> Option<(u32, u32)> {
        if queue.first == NONE {
            return None;
        }
        let first = requests.get(queue.first);
        if takes(first, context, tag) {
            return Some((NONE, queue.first));
        }
        if first.next == NONE {
            return None;
        }
        self.search_behind(requests, which, queue.first, context, tag)
    }

    /// The same behind the first one.
    #[inline(never)]
    fn search_behind(
        &mut self,
        requests: &Slab<Request>,
        which: usize,
        first: u32,
        context: u32,
        tag: i32,
    ) -> Option<(u32, u32)> {
        if let Some(index) = self.posted_index(requests, which, first) {
            return index.find(context, tag);
        }
        let (mut before, mut index) = (first, requests.get(first).next);
        for _ in 0..WALK_MAX {
            if index == NONE {
                return None;
            }
            steps::count(1);
            let request = requests.get(index);
            if takes(request, context, tag) {
                return Some((before, index));
            }
            (before, index) = (index, request.next);
        }
        self.build_posted_index(requests, which, first).find(context, tag)
    }

    /// The index of a queue that begins so, if it has one and is still long.
    fn posted_index(
        &mut self,
        requests: &Slab<Request>,
        which: usize,
        first: u32,
    ) -> Option<&mut PostedIndex> {
        let slot = self.posted_indexes.get_mut(which)?;
        slot.as_mut()?.update(requests, first);
        if slot.as_ref().is_some_and(|index| index.len() < INDEXED_MIN) {
            *slot = None;
        }
        slot.as_deref_mut()
    }

    #[cold]
    fn build_posted_index(&mut self, requests: &Slab<Request>, which: usize, first: u32) -> &mut PostedIndex {
        if self.posted_indexes.is_empty() {
            self.posted_indexes.resize_with(self.posted.len() + 1, || None);
        }
        let index = self.posted_indexes[which].insert(Box::default());
        index.update(requests, first);
        index
    }

    /// A receive has left its queue from the middle.
    #[inline(never)]
    fn forget(&mut self, which: usize, number: u64) {
        if let Some(Some(index)) = self.posted_indexes.get_mut(which) {
            index.forget(number);
        }
    }

    /// Whether the receive that was posted last may be advertised to its sender: not if an earlier one that
    /// the sender does not know of could take the same message. Gives the number of the first pending receive
    /// that was advertised to this sender.
    pub(super) fn may_advertise(
        &self,
        requests: &Slab<Request>,
        index: u32,
        is_advertised: impl Fn(u64) -> bool,
    ) -> Option<Option<u64>> {
        let new = requests.get(index);
        let overlaps = |other: &Request| overlap(new.context, new.tag, other.context, other.tag);
        let mut first_advertised = None;
        let mut at = self.posted[new.peer as usize].first;
        for _ in 0..EARLIER_MAX {
            if at == index {
                let any = Walk { requests, at: self.any.first };
                return (!any
                    .take(EARLIER_MAX + 1)
                    .enumerate()
                    .any(|(n, other)| n == EARLIER_MAX || overlaps(other)))
                .then_some(first_advertised);
            }
            let earlier = requests.get(at);
            if is_advertised(earlier.rtr) {
                first_advertised = first_advertised.or(Some(earlier.rtr));
            } else if overlaps(earlier) {
                return None;
            }
            at = earlier.next;
        }
        None
    }

    /// Keeps a message that matched nothing.
    pub(super) fn keep(&mut self, from: usize, message: Unexpected) {
        self.unexpected.push(from, message);
    }

    /// Drops the messages of a source that no receive has taken. False, and nothing is dropped, if a matched
    /// probe has taken one.
    pub(super) fn discard(&mut self, from: usize) -> bool {
        if self.extracted.iter().any(|(_, (source, _))| *source == from) {
            return false;
        }
        while let Some(at) = self.unexpected.first(from) {
            self.unexpected.remove(from, at);
        }
        true
    }

    /// Takes the messages of these contexts and sources that no receive has taken, with their sources, those
    /// of each in order.
    pub(super) fn take_messages(
        &mut self,
        contexts: Range<u32>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Vec<(usize, Unexpected)> {
        let mut taken = Vec::new();
        for from in (0..self.unexpected.senders()).filter(|from| is_wanted(*from)) {
            let messages = self.unexpected.of(from);
            let places = messages.filter(|(_, message)| contexts.contains(&message.context));
            for at in places.map(|(at, _)| at).collect::<Vec<_>>() {
                taken.push((from, self.unexpected.remove(from, at)));
            }
        }
        taken
    }

    /// Takes the message that a new receive matches.
    #[inline(always)]
    pub(super) fn take_unexpected(&mut self, receive: &Request) -> Option<(usize, Unexpected)> {
        let (source, context, tag) = (receive.peer, receive.context, receive.tag);
        if source != MPI_ANY_SOURCE {
            let from = source as usize;
            let at = self.unexpected.find(from, context, tag)?;
            return Some((from, self.unexpected.remove(from, at)));
        }
        let (from, at) = self.find(context, source, tag)?;
        self.turn = from + 1;
        Some((from, self.unexpected.remove(from, at)))
    }

    /// Looks without taking.
    pub(super) fn probe(&mut self, context: u32, source: i32, tag: i32) -> Option<Found> {
        let (from, at) = self.find(context, source, tag)?;
        let message = self.unexpected.get(at);
        Some(Found { source: from as u32, tag: message.tag, bytes: message.bytes })
    }

    /// The stream of an unexpected message is complete.
    pub(super) fn complete_stream(&mut self, from: usize, number: u32, data: Box<[u8]>) {
        let found = self.unexpected.find_named(from, Name::Stream(number));
        if let Some(at) = found {
            return self.unexpected.complete(at, |body| body.complete(data));
        }
        let mut extracted = self.extracted.iter_mut().map(|(_, (source, message))| (*source, message));
        let (_, message) = extracted
            .find(|(source, message)| *source == from && message.body.is_streaming(number))
            .expect("a sink without a receive belongs to an unexpected message");
        message.body.complete(data);
    }

    /// Whether a receive waits for its message.
    pub(super) fn is_posted(&self, requests: &Slab<Request>, index: u32) -> bool {
        let source = requests.get(index).peer;
        let queue = if source == MPI_ANY_SOURCE { &self.any } else { &self.posted[source as usize] };
        // What leaves a queue has no next.
        queue.last == index || requests.get(index).next != NONE
    }

    /// Takes a posted receive back; false when it is matched already.
    pub(super) fn withdraw(&mut self, requests: &mut Slab<Request>, index: u32) -> bool {
        if !self.is_posted(requests, index) {
            return false;
        }
        let (source, number) = (requests.get(index).peer, requests.get(index).posted);
        let is_any = source == MPI_ANY_SOURCE;
        let which = if is_any { self.posted.len() } else { source as usize };
        let first = if is_any { self.any.first } else { self.posted[which].first };
        let before = self.predecessor(requests, which, first, index);
        let queue = if is_any { &mut self.any } else { &mut self.posted[which] };
        unlink(requests, queue, before, index);
        self.forget(which, number);
        true
    }

    /// The receive in front of another one of a queue.
    fn predecessor(&mut self, requests: &Slab<Request>, which: usize, first: u32, index: u32) -> u32 {
        let number = requests.get(index).posted;
        if let Some(posted) = self.posted_index(requests, which, first) {
            return posted.predecessor(number);
        }
        let (mut before, mut at) = (NONE, first);
        for _ in 0..WALK_MAX {
            steps::count(1);
            if at == index {
                return before;
            }
            (before, at) = (at, requests.get(at).next);
        }
        self.build_posted_index(requests, which, first).predecessor(number)
    }

    /// Takes a message out for a receive that will name it.
    pub(super) fn extract(&mut self, context: u32, source: i32, tag: i32) -> Option<(Found, MPI_Message)> {
        let (from, at) = self.find(context, source, tag)?;
        let message = self.unexpected.remove(from, at);
        let found = Found { source: from as u32, tag: message.tag, bytes: message.bytes };
        let index = self.extracted.insert((from, message));
        Some((found, MPI_Message(self.extracted.handle(index))))
    }

    /// Drops the message of a sender that is announced under a number, unless a receive or a matched probe
    /// has taken it.
    pub(super) fn withdraw_announced(&mut self, from: usize, number: u32) -> bool {
        self.withdraw_message(from, Name::Announced(number))
    }

    /// The same of a message to this process itself, by its send.
    pub(super) fn withdraw_local(&mut self, me: usize, send: u32) -> bool {
        self.withdraw_message(me, Name::Local(send))
    }

    fn withdraw_message(&mut self, from: usize, name: Name) -> bool {
        let found = self.unexpected.find_named(from, name);
        if let Some(at) = found {
            self.unexpected.remove(from, at);
        }
        found.is_some()
    }

    /// The extracted message that a handle names.
    pub(super) fn find_extracted(&self, handle: MPI_Message) -> Option<u32> {
        self.extracted.index(handle.0)
    }

    /// How many messages are extracted and not received.
    pub(super) fn extracted(&self) -> usize {
        self.extracted.len()
    }

    /// The messages that no receive has taken, with their sources.
    pub(super) fn unexpected(&self) -> impl Iterator<Item = (usize, &Unexpected)> {
        (0..self.unexpected.senders())
            .flat_map(|from| self.unexpected.of(from).map(move |(_, message)| (from, message)))
    }

    /// How many receives have no message yet.
    pub(super) fn posted_count(&self, requests: &Slab<Request>) -> usize {
        let queues = self.posted.iter().chain([&self.any]);
        queues.map(|queue| Walk { requests, at: queue.first }.count()).sum()
    }

    /// How many messages no receive has taken.
    pub(super) fn unexpected_count(&self) -> usize {
        self.unexpected.count()
    }

    /// Where an onlooker finds them.
    pub(super) fn unexpected_root(&self) -> &Root {
        self.unexpected.root()
    }

    /// Gives an extracted message to its receive.
    pub(super) fn take_extracted(&mut self, index: u32) -> (usize, Unexpected) {
        self.extracted.remove(index)
    }

    /// The sender of a message, and its place.
    fn find(&mut self, context: u32, source: i32, tag: i32) -> Option<(usize, u32)> {
        if source != MPI_ANY_SOURCE {
            return Some((source as usize, self.unexpected.find(source as usize, context, tag)?));
        }
        let ranks = self.unexpected.senders();
        let mut from = self.turn;
        for seen in 0..ranks {
            from = if from < ranks { from } else { 0 };
            match self.unexpected.find_first(from, context, tag) {
                First::Matches(at) => return Some((from, at)),
                First::Differs => return self.find_behind(from, ranks - seen, context, tag),
                First::Missing => from += 1,
            }
        }
        None
    }

    /// The same from this sender on, of so many, when its first message is another one.
    #[inline(never)]
    fn find_behind(&mut self, from: usize, left: usize, context: u32, tag: i32) -> Option<(usize, u32)> {
        let ranks = self.unexpected.senders();
        (from..from + left)
            .map(|from| if from < ranks { from } else { from - ranks })
            .find_map(|from| Some((from, self.unexpected.find(from, context, tag)?)))
    }
}

#[inline(always)]
fn takes(request: &Request, context: u32, tag: i32) -> bool {
    matches((request.context, request.tag), (context, tag))
}

#[inline(always)]
fn unlink(requests: &mut Slab<Request>, queue: &mut Queue, before: u32, index: u32) {
    let next = std::mem::replace(&mut requests.get_mut(index).next, NONE);
    if before == NONE {
        queue.first = next;
    } else {
        requests.get_mut(before).next = next;
    }
    if queue.last == index {
        queue.last = before;
    }
}
