//! Matching (MPI 3.5): posted receives and unexpected messages, per source, with one more queue for receives from any source.
//!
//! Posting numbers decide between the two queues (F34). Messages of one source are kept in order of arrival, which is the order
//! of sending; between sources MPI demands no order, and a wildcard looks at them in turn.

use tutti_datatype::{Buffer, SignatureWord};
use tutti_shm::unexpected::Root;

use super::rtr::overlap;
use super::unexpected::UnexpectedQueue;
use crate::abi::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_Message};
use crate::handle::{Kind, NONE, Slab};
use crate::request::Request;

/// A message that no receive has taken yet.
#[derive(Debug)]
pub struct Unexpected {
    pub context: u32,
    pub tag: i32,
    /// Bytes of the whole message.
    pub bytes: usize,
    pub body: Body,
}

/// Where the data of an unexpected message are.
#[derive(Debug)]
pub enum Body {
    /// Here, few.
    Short([u8; SHORT_BYTES]),
    /// Here.
    Long(Box<[u8]>),
    /// On their way through the bulk ring, to the sink of this message number.
    Streaming(u32),
    /// In the sender's memory.
    Rendezvous { message: u32, address: u64 },
    /// In our own memory: a send to self, with its request.
    Local { request: u32, buffer: Buffer },
    /// With what the sender says of its data, while the program is being checked.
    Signed(SignatureWord, Box<Body>),
}

impl Body {
    /// Whether its data come under this message number.
    fn is_streaming(&self, number: u32) -> bool {
        match self {
            Body::Streaming(mine) => *mine == number,
            Body::Signed(_, body) => body.is_streaming(number),
            _ => false,
        }
    }

    /// All its data have come.
    fn complete(&mut self, data: Box<[u8]>) {
        match self {
            Body::Signed(_, body) => body.complete(data),
            body => *body = Body::Long(data),
        }
    }
}

/// Data that are kept without an allocation.
pub const SHORT_BYTES: usize = 40;

/// What a probe tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// World rank of the sender.
    pub source: u32,
    /// Tag.
    pub tag: i32,
    /// Bytes of the message.
    pub bytes: usize,
}

/// Pending receives that are looked at before another one is told; with more before it, it is not.
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

const EMPTY: Queue = Queue { first: NONE, last: NONE };

/// Both sides of matching.
#[derive(Debug)]
pub struct Matching {
    posted: Vec<Queue>,
    any: Queue,
    unexpected: UnexpectedQueue,
    next_posted: u64,
    /// Messages taken out of matching by a matched probe, with their sources.
    extracted: Slab<(usize, Unexpected)>,
    /// Source at which the next wildcard search begins.
    turn: usize,
}

impl Matching {
    pub fn new(ranks: usize) -> Self {
        Matching {
            posted: vec![EMPTY; ranks],
            any: EMPTY,
            unexpected: UnexpectedQueue::new(ranks),
            next_posted: 0,
            extracted: Slab::new(Kind::Message),
            turn: 0,
        }
    }

    /// Whether no receive is posted that a message of this source could match, and none of its messages waits.
    #[inline(always)]
    pub fn is_idle(&self, from: usize) -> bool {
        self.posted[from].first == NONE && self.any.first == NONE && self.unexpected.is_empty(from)
    }

    /// The source at which a wildcard looks next; the one behind it is next then.
    #[inline(always)]
    pub fn next_in_turn(&mut self) -> usize {
        let source = if self.turn < self.posted.len() { self.turn } else { 0 };
        self.turn = source + 1;
        source
    }

    /// Whether messages of this source wait.
    #[inline(always)]
    pub fn has_unexpected(&self, from: usize) -> bool {
        !self.unexpected.is_empty(from)
    }

    /// Gives the data of the oldest waiting message of a source to `take`, if it is the one asked for, short, and at most
    /// `capacity` bytes long. Returns its tag and bytes.
    #[inline(always)]
    pub fn take_first_short(
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
        if first.context != context || (first.tag != tag && tag != MPI_ANY_TAG) || first.bytes > capacity {
            return None;
        }
        let found = (first.tag, first.bytes);
        take(&data[..first.bytes]);
        self.unexpected.remove(from, at);
        Some(found)
    }

    /// The number of the next receive in the order of posting.
    #[inline(always)]
    pub fn next_number(&mut self) -> u64 {
        self.next_posted += 1;
        self.next_posted
    }

    /// Appends a receive, with its number, to its queue.
    #[inline(always)]
    pub fn post(&mut self, requests: &mut Slab<Request>, index: u32) {
        let number = self.next_number();
        let request = requests.get_mut(index);
        request.posted = number;
        let source = request.peer;
        self.append(requests, source, index);
    }

    /// Appends a receive from this source, which has its number already, to its queue.
    #[inline(always)]
    pub fn append(&mut self, requests: &mut Slab<Request>, source: i32, index: u32) {
        let queue = if source == MPI_ANY_SOURCE { &mut self.any } else { &mut self.posted[source as usize] };
        let last = std::mem::replace(&mut queue.last, index);
        if queue.first == NONE {
            queue.first = index;
        } else {
            requests.get_mut(last).next = index;
        }
    }

    /// The oldest receive posted for a source, if no receive from any source could come before it.
    #[inline(always)]
    pub fn only_candidate(&self, from: usize) -> Option<u32> {
        let first = self.posted[from].first;
        (first != NONE && self.any.first == NONE).then_some(first)
    }

    /// The receive of [`Matching::only_candidate`] is matched; `next` is the one behind it.
    #[inline(always)]
    pub fn take_candidate(&mut self, from: usize, next: u32) {
        let queue = &mut self.posted[from];
        queue.first = next;
        if next == NONE {
            queue.last = NONE;
        }
    }

    /// Takes the first posted receive that matches a message.
    #[inline(always)]
    pub fn take_posted(
        &mut self,
        requests: &mut Slab<Request>,
        from: usize,
        context: u32,
        tag: i32,
    ) -> Option<u32> {
        let named = search(requests, self.posted[from], context, tag);
        let chosen_any = if self.any.first == NONE {
            None
        } else {
            search(requests, self.any, context, tag).filter(|(_, any)| {
                named.is_none_or(|(_, index)| requests.get(*any).posted < requests.get(index).posted)
            })
        };
        if let Some((before, index)) = chosen_any {
            unlink(requests, &mut self.any, before, index);
            return Some(index);
        }
        let (before, index) = named?;
        unlink(requests, &mut self.posted[from], before, index);
        Some(index)
    }

    /// Whether the receive that was posted last may be told to its sender: not if an earlier one that the sender does not know
    /// of could take the same message. Gives the number of the first pending receive that was told to this sender.
    pub fn may_advertise(
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
    pub fn keep(&mut self, from: usize, message: Unexpected) {
        self.unexpected.push(from, message);
    }

    /// Takes the message that a new receive matches.
    #[inline(always)]
    pub fn take_unexpected(&mut self, receive: &Request) -> Option<(usize, Unexpected)> {
        let (source, context, tag) = (receive.peer, receive.context, receive.tag);
        if source != MPI_ANY_SOURCE {
            let from = source as usize;
            let at = position(&self.unexpected, from, context, tag)?;
            return Some((from, self.unexpected.remove(from, at)));
        }
        let (from, at) = self.find(context, source, tag)?;
        self.turn = from + 1;
        Some((from, self.unexpected.remove(from, at)))
    }

    /// Looks without taking.
    pub fn probe(&self, context: u32, source: i32, tag: i32) -> Option<Found> {
        let (from, at) = self.find(context, source, tag)?;
        let message = self.unexpected.get(at);
        Some(Found { source: from as u32, tag: message.tag, bytes: message.bytes })
    }

    /// The stream of an unexpected message is complete.
    pub fn complete_stream(&mut self, from: usize, number: u32, data: Box<[u8]>) {
        let mut unexpected = self.unexpected.of(from);
        let found = unexpected.find(|(_, message)| message.body.is_streaming(number)).map(|(at, _)| at);
        drop(unexpected);
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
    pub fn is_posted(&self, requests: &Slab<Request>, index: u32) -> bool {
        let source = requests.get(index).peer;
        let queue = if source == MPI_ANY_SOURCE { &self.any } else { &self.posted[source as usize] };
        // What leaves a queue has no next.
        queue.last == index || requests.get(index).next != NONE
    }

    /// Takes a posted receive back; false when it is matched already.
    pub fn withdraw(&mut self, requests: &mut Slab<Request>, index: u32) -> bool {
        let source = requests.get(index).peer;
        let queue = if source == MPI_ANY_SOURCE { &mut self.any } else { &mut self.posted[source as usize] };
        let (mut before, mut at) = (NONE, queue.first);
        while at != NONE && at != index {
            (before, at) = (at, requests.get(at).next);
        }
        if at == NONE {
            return false;
        }
        unlink(requests, queue, before, index);
        true
    }

    /// Takes a message out for a receive that will name it.
    pub fn extract(&mut self, context: u32, source: i32, tag: i32) -> Option<(Found, MPI_Message)> {
        let (from, at) = self.find(context, source, tag)?;
        let message = self.unexpected.remove(from, at);
        let found = Found { source: from as u32, tag: message.tag, bytes: message.bytes };
        let index = self.extracted.insert((from, message));
        Some((found, MPI_Message(self.extracted.handle(index))))
    }

    /// Drops the message of a sender that is announced under a number, unless a receive or a matched probe has taken it.
    pub fn withdraw_announced(&mut self, from: usize, number: u32) -> bool {
        let is_it = |body: &Body| matches!(body, Body::Rendezvous { message, .. } if *message == number);
        self.withdraw_message(from, is_it)
    }

    /// The same of a message to this process itself, by its send.
    pub fn withdraw_local(&mut self, me: usize, send: u32) -> bool {
        self.withdraw_message(me, |body| matches!(body, Body::Local { request, .. } if *request == send))
    }

    fn withdraw_message(&mut self, from: usize, is_it: impl Fn(&Body) -> bool) -> bool {
        let inner = |message: &Unexpected| match &message.body {
            Body::Signed(_, body) => is_it(body),
            body => is_it(body),
        };
        let found = self.unexpected.of(from).find(|(_, message)| inner(message)).map(|(at, _)| at);
        if let Some(at) = found {
            self.unexpected.remove(from, at);
        }
        found.is_some()
    }

    /// The extracted message that a handle names.
    pub fn find_extracted(&self, handle: MPI_Message) -> Option<u32> {
        self.extracted.index(handle.0)
    }

    /// How many messages are extracted and not received.
    pub fn extracted(&self) -> usize {
        self.extracted.len()
    }

    /// The messages that no receive has taken, with their sources.
    pub fn unexpected(&self) -> impl Iterator<Item = (usize, &Unexpected)> {
        (0..self.unexpected.senders())
            .flat_map(|from| self.unexpected.of(from).map(move |(_, message)| (from, message)))
    }

    /// How many messages no receive has taken.
    pub fn unexpected_count(&self) -> usize {
        self.unexpected.count()
    }

    /// Where an onlooker finds them.
    pub fn unexpected_root(&self) -> &Root {
        self.unexpected.root()
    }

    /// Gives an extracted message to its receive.
    pub fn take_extracted(&mut self, index: u32) -> (usize, Unexpected) {
        self.extracted.remove(index)
    }

    /// The sender of a message, and its place.
    fn find(&self, context: u32, source: i32, tag: i32) -> Option<(usize, u32)> {
        if source != MPI_ANY_SOURCE {
            return Some((source as usize, position(&self.unexpected, source as usize, context, tag)?));
        }
        let ranks = self.unexpected.senders();
        (0..ranks)
            .map(|i| (self.turn + i) % ranks)
            .find_map(|from| Some((from, position(&self.unexpected, from, context, tag)?)))
    }
}

#[inline(always)]
fn position(keep: &UnexpectedQueue, from: usize, context: u32, tag: i32) -> Option<u32> {
    let is_it = |m: &Unexpected| m.context == context && (tag == m.tag || tag == MPI_ANY_TAG);
    keep.of(from).find(|(_, message)| is_it(message)).map(|(at, _)| at)
}

/// First request of a queue that takes a message: its predecessor and itself.
#[inline(always)]
fn search(requests: &Slab<Request>, queue: Queue, context: u32, tag: i32) -> Option<(u32, u32)> {
    let (mut before, mut index) = (NONE, queue.first);
    while index != NONE {
        let request = requests.get(index);
        if request.context == context && (request.tag == tag || request.tag == MPI_ANY_TAG) {
            return Some((before, index));
        }
        (before, index) = (index, request.next);
    }
    None
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
