//! The race rule of the write protocol (MPI/MBCF 2.2.6), pure: which message may be written straight to which
//! receive.
//!
//! A receiver may *tell* a receive to its sender: "a message that matches this may be written to this
//! address". Receiver and sender then decide at the same time, so they must come to the same end:
//!
//! - Every message has an envelope in the pair's ring, in send order, written ones too; only the receiver
//!   matches, in that order.
//! - A receive is advertised only if no earlier receive that is pending and not advertised could take the
//!   same message ([`overlap`]). So what the receiver will match a message with is the first of the
//!   advertised ones, or something later.
//! - A request carries `seen`: how far the receiver had read the sender's ring. The sender replays its later
//!   envelopes against it: the first that matches and is not assigned yet has taken the request, if it
//!   crossed it on the way. Such a request is stale; the message arrives in the ordinary way, once.
//! - A message takes the first request that it matches, written or not.
//!
//! The sender's memory of envelopes is bounded ([`Limits`]). A request that needs more is *uncertain*: it is
//! not used, nor is a later one until the receiver says (`pending_from`) that all uncertain ones are matched.

use std::collections::VecDeque;

use crate::abi::MPI_ANY_TAG;

/// How much a sender remembers.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Envelopes.
    history: usize,
    /// Sends without any request after which the sender stops to remember. Few: a sender without requests
    /// pays for each, and a request that crosses no message needs no memory.
    sends_without_request: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { history: 256, sends_without_request: 64 }
    }
}

/// A receive, as its sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdvertisedReceive {
    /// Number of the receive: 1, 2, ... for each ordered pair, in posting order.
    pub number: u64,
    /// Context of the communicator.
    pub context: u32,
    /// Tag, or MPI_ANY_TAG.
    pub tag: i32,
    /// Bytes that it has room for.
    pub capacity: usize,
    /// Address of its buffer in the receiver; 0: its message comes through the bulk ring.
    pub address: u64,
    /// Position in the sender's ring up to which the receiver had read.
    pub seen: u64,
    /// The receiver has found the bulk ring faster for such messages.
    pub prefers_ring: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    position: u64,
    context: u32,
    tag: i32,
    /// The request that it took, or 0. If that one was taken back, its message has gone to another receive or
    /// to none.
    taken: u64,
}

/// Knowledge of a sender about one receiver's advertised receives.
#[derive(Debug)]
pub(super) struct RtrSender {
    /// Not taken yet, by number.
    requests: VecDeque<AdvertisedReceive>,
    /// The last envelopes.
    history: VecDeque<Sent>,
    /// All envelopes behind this position are in `history`; meaningless unless `remembers`.
    known_from: u64,
    remembers: bool,
    /// No request up to this number is used, except those in `requests`.
    uncertain_upto: u64,
    sends_without_request: u32,
    limits: Limits,
}

impl Default for RtrSender {
    /// State before anything is sent or advertised.
    fn default() -> Self {
        RtrSender {
            requests: VecDeque::new(),
            history: VecDeque::new(),
            known_from: 0,
            remembers: true,
            uncertain_upto: 0,
            sends_without_request: 0,
            limits: Limits::default(),
        }
    }
}

/// Fate of a request that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Waits for its message.
    Usable,
    /// A message that was sent before it came has taken it.
    Stale,
    /// Cannot be judged, so it is not used.
    Uncertain,
}

/// Whether some message could match both of two receives of one source.
#[inline]
pub(super) fn overlap(context: u32, tag: i32, other_context: u32, other_tag: i32) -> bool {
    context == other_context && (tag == other_tag || tag == MPI_ANY_TAG || other_tag == MPI_ANY_TAG)
}

impl RtrSender {
    /// The same, which remembers however long no request comes.
    pub(super) fn lasting() -> Self {
        let limits = Limits { sends_without_request: u32::MAX, ..Limits::default() };
        RtrSender { limits, ..RtrSender::default() }
    }

    /// Whether no right receiver would tell one more.
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= TOLD_MAX as usize
    }

    /// Remembers little from now on.
    #[cfg(test)]
    pub(super) fn limit(&mut self) {
        self.limits.history = 3;
    }

    /// Requests that wait for their messages.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.requests.len()
    }

    /// The receiver takes one request back, and waits until it hears that this is done.
    pub(super) fn withdraw(&mut self, number: u64) {
        self.requests.retain(|request| request.number != number);
    }

    /// Whether [`RtrSender::record`] must see the envelopes that are sent.
    #[inline(always)]
    pub(super) fn remembers(&self) -> bool {
        self.remembers
    }

    /// A request has arrived. All requests before `pending_from` are matched; those up to `void_upto` are
    /// taken back; `position` is that of the sender's ring.
    pub(super) fn handle_request(
        &mut self,
        request: AdvertisedReceive,
        pending_from: u64,
        void_upto: u64,
        position: u64,
    ) -> Arrived {
        if !self.remembers {
            (self.remembers, self.known_from) = (true, position);
        }
        self.sends_without_request = 0;
        self.requests.retain(|known| known.number >= pending_from && known.number > void_upto);
        while self.history.front().is_some_and(|sent| sent.position <= request.seen) {
            self.history.pop_front();
        }
        if request.number <= void_upto {
            return Arrived::Stale;
        }
        if request.seen < self.known_from || pending_from <= self.uncertain_upto {
            self.uncertain_upto = request.number;
            return Arrived::Uncertain;
        }
        let crossed = self.history.iter_mut().find(|sent| {
            (sent.taken == 0 || sent.taken <= void_upto) && request.takes(sent.context, sent.tag)
        });
        match crossed {
            Some(sent) => {
                sent.taken = request.number;
                Arrived::Stale
            }
            None => {
                self.requests.push_back(request);
                Arrived::Usable
            }
        }
    }

    /// The request that the next message of such an envelope takes.
    pub(super) fn find(&self, context: u32, tag: i32) -> Option<&AdvertisedReceive> {
        self.requests.iter().find(|request| request.takes(context, tag))
    }

    /// A message's envelope was put into the ring, which is now at `position`: it takes its request, if there
    /// is one.
    pub(super) fn record(&mut self, position: u64, context: u32, tag: i32) {
        let found = self.requests.iter().position(|request| request.takes(context, tag));
        let taken = found.and_then(|found| self.requests.remove(found)).map_or(0, |request| request.number);
        self.remember(Sent { position, context, tag, taken });
    }

    /// The receiver has taken back all requests up to this number.
    pub(super) fn void(&mut self, upto: u64) {
        self.requests.retain(|request| request.number > upto);
    }

    fn remember(&mut self, sent: Sent) {
        self.sends_without_request = self.sends_without_request.saturating_add(1);
        if self.sends_without_request > self.limits.sends_without_request && self.requests.is_empty() {
            self.remembers = false;
            self.history.clear();
            return;
        }
        if self.history.len() == self.limits.history {
            let forgotten = self.history.pop_front().expect("it is full");
            self.known_from = forgotten.position;
        }
        self.history.push_back(sent);
    }
}

impl AdvertisedReceive {
    fn takes(&self, context: u32, tag: i32) -> bool {
        self.context == context && (self.tag == tag || self.tag == MPI_ANY_TAG)
    }
}

/// Receives that may be advertised to one sender and not matched yet, at most.
const TOLD_MAX: u32 = 64;

/// Knowledge of a receiver about the receives that it has advertised to one sender.
#[derive(Debug, Default)]
pub(super) struct RtrReceiver {
    last: u64,
    void_upto: u64,
    pending: u32,
    /// An advertised receive got a message that was too small to be written: telling waits for a large one.
    disappointed: bool,
    /// Large messages for which receives are not advertised.
    crossing: u8,
}

/// Large messages, in either direction, that cross nothing until a crossing is forgotten.
const CROSSINGS: u8 = 8;

impl RtrReceiver {
    /// Whether another receive may be advertised.
    pub(super) fn has_room(&self) -> bool {
        self.pending < TOLD_MAX && !self.disappointed
    }

    /// Whether large messages of the two ranks crossed lately.
    pub(super) fn crosses(&self) -> bool {
        self.crossing > 0
    }

    /// A large message goes to the rank or has come from it, and one of the other direction is on its way, or
    /// not.
    pub(super) fn note(&mut self, crosses: bool) {
        self.crossing = if crosses { CROSSINGS } else { self.crossing.saturating_sub(1) };
    }

    /// The number of the next advertised receive.
    pub(super) fn upcoming(&self) -> u64 {
        self.last + 1
    }

    /// A receive was advertised under this number.
    pub(super) fn add(&mut self, number: u64) {
        (self.last, self.pending) = (number, self.pending + 1);
    }

    /// Whether a receive with this number (0: never advertised) is known to the sender.
    pub(super) fn is_advertised(&self, number: u64) -> bool {
        number > self.void_upto
    }

    /// A receive that was advertised under this number has got its message; `large` if one that is worth to
    /// be written.
    pub(super) fn matched(&mut self, number: u64, large: bool) {
        if self.is_advertised(number) {
            self.pending -= 1;
        }
        self.disappointed = !large;
    }

    /// An advertised receive is withdrawn, and its sender knows.
    pub(super) fn withdrawn(&mut self) {
        self.pending -= 1;
    }

    /// A large message has come to a receive that was not advertised.
    pub(super) fn encourage(&mut self) {
        self.disappointed = false;
    }

    /// Takes back all that was advertised, and returns the number up to which that is.
    pub(super) fn void_all(&mut self) -> u64 {
        (self.void_upto, self.pending) = (self.last, 0);
        self.last
    }
}

#[cfg(test)]
mod model;
