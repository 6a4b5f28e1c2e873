//! The point-to-point engine: requests, matching, and the state machines that move bytes between ranks of a
//! node.
//!
//! Calls start operations ([`Engine::send`], [`Engine::receive`]); [`Engine::progress`] finishes them. Every
//! state machine can stop at any byte and go on later; none runs inside another's loop.
//!
//! Inside a node, through the rings:
//!
//! | kind | from | words behind the header | meaning |
//! |---|---|---|---|
//! | EAGER | sender | data | a whole small message |
//! | STREAM | sender | message number, 0, what the data are (while checking) | an eager message whose data come through the bulk ring |
//! | RTS | sender | message number, address or 0, as above | a large or synchronous message: the receiver decides how it comes; a small one brings its data behind the address, in place of what they are |
//! | CTS | receiver | message number | matched: stream it through the bulk ring |
//! | FIN | receiver | message number, how many more | matched and copied: the sends of this number and so many behind it are finished |
//! | COOP | receiver | message, address, offset, number of the copy | matched: copy these bytes with me |
//! | RTR | receiver | number, first pending, address or 0, position seen | a message that matches this may be written there |
//! | WRITE | sender | message, address, number of the receive, of the copy, what the data are | a message that is written to an advertised receive |
//! | CANCEL | sender | message number | MPI_Cancel of an announced message: dropped if no receive has taken it |
//! | CANCELLED | receiver | message number | it is dropped; without this answer the message goes on |
//!
//! ```text
//! RTS -> matched -> sender waits in the library, on another core? CTS and bulk ring, or COOP and both copy: what is
//!                        faster (`pace`); else the receiver copies from the sender's memory in pieces, then FIN
//! RTR -> matching large send -> WRITE, then the same two ways, without asking
//! ```
//!
//! Eager data that wait at the receiver are bounded by credit: a sender with `EAGER_CREDIT_BYTES` out
//! announces instead.

mod arrival;
mod backlog;
pub mod completion;
pub mod contexts;
mod copies;
mod counters;
pub(crate) mod device_memory;
mod far_pieces;
mod far_receives;
mod far_write;
pub mod fast_path;
mod guest_memory;
mod guests;
mod lanes;
mod matching;
pub mod message;
pub mod moved;
pub mod names;
pub(crate) mod numbered;
mod owned;
mod pace;
pub mod partitions;
mod peer;
mod piece_rings;
mod pieces;
mod remote;
mod remote_client;
mod remote_state;
#[cfg(test)]
mod remote_tests;
mod remote_write;
mod rtr;
mod stage;
pub mod steps;
mod streams;
mod transfer;
mod unexpected;
mod unexpected_message;
pub mod way;

#[cfg(test)]
mod many_tests;
#[cfg(test)]
mod pieces_tests;
#[cfg(test)]
mod protocol_tests;
#[cfg(test)]
mod record_tests;

use std::cell::RefCell;
use std::rc::Rc;

use tutti_runtime::job::Job;
use tutti_runtime::router::{Lend, Router};
use tutti_shm::envelope::CANCEL;
use tutti_shm::envelope_ring::Envelope;
use tutti_shm::sync::Ordering;

use crate::abi::*;
use crate::check_mode;
use crate::request::partition::pieces::PieceBook;
use crate::request::{Request, RequestKind, Requests, Started, WhenDone};
use contexts::Contexts;
use device_memory::SeenPages;
use guests::Guestbook;
use matching::Matching;
use peer::{Outgoing, Peers};
use remote_client::Remote;

use message::{LOCAL_EAGER_BYTES_MAX, Message};

pub use counters::Counters;
pub use guests::LOST;
pub use matching::Found;

/// Envelopes taken from one peer before the others are looked at.
const ENVELOPES_PER_TURN: usize = 64;
/// A wait for one peer looks at the others every so many polls.
const POLLS_PER_ROUND: u32 = 16;

/// The engine of this process.
#[derive(Debug)]
pub struct Engine {
    /// The job that this process belongs to.
    pub job: Job,
    /// Pending and finished operations.
    pub requests: Requests,
    /// Counts since Init.
    pub counters: Counters,
    peers: Peers,
    /// Peers on other nodes.
    remote: Option<Box<Remote>>,
    /// Processes of other launches, once this process may have some.
    guests: Option<Box<Guestbook>>,
    /// Contexts that this process leads.
    pub contexts: Contexts,
    matching: Matching,
    /// Partitions that travel together.
    pieces: PieceBook,
    /// Peers with copies, each once.
    copying: Vec<usize>,
    seen_pages: SeenPages,
    /// Receives are advertised to their senders.
    write_protocol: bool,
    oversubscribed: bool,
    /// Later ranks that had ended when this process last looked at them.
    pub seen_ended: u32,
    /// A rank that has left is kept for something that ends without a call to free it.
    pub keeps_left_ranks: bool,
    polls: u32,
    me: usize,
}

/// Fate of a rank that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Rank with which something is under way.
    Kept,
    /// Rank of which nothing is here any more.
    Forgotten,
    /// The same, just now, of one of another node.
    ForgottenFar,
}

impl Engine {
    /// The engine of a process that has entered its job; made once.
    ///
    /// `lend` lends [`Engine::lend_client`] to whoever else polls the network in this process.
    pub fn new(job: Job, router: Option<Rc<RefCell<Router>>>, lend: Option<Lend>) -> Self {
        let peers = Peers::new(&job);
        let (oversubscribed, me) = (job.is_oversubscribed(), job.rank());
        let ranks = if job.is_whole() { peers.ranks().len() } else { job.ranks() };
        Engine {
            contexts: Contexts::new(),
            remote: router.map(|router| Box::new(Remote::new(router, &job, lend))),
            job,
            requests: Requests::default(),
            counters: Counters::default(),
            peers,
            guests: None,
            matching: Matching::new(ranks),
            pieces: PieceBook::default(),
            copying: Vec::new(),
            seen_pages: SeenPages::default(),
            write_protocol: std::env::var_os("TUTTI_WRITE_PROTOCOL").is_none_or(|value| value != "off"),
            oversubscribed,
            seen_ended: 0,
            keeps_left_ranks: false,
            polls: 0,
            me,
        }
    }

    /// Ranks may have been started since: from now on they are peers. Whether there are any.
    #[cold]
    pub fn meet_new_ranks(&mut self) -> bool {
        let ranks = self.job.present_ranks();
        if ranks.len() <= self.peers.ranks().len() {
            return false;
        }
        self.peers.grow(ranks);
        if self.job.is_whole() {
            self.matching.grow(ranks.len());
        }
        self.oversubscribed = self.job.is_oversubscribed();
        true
    }

    /// Whether later ranks have begun or ended that [`Self::meet_new_ranks`] and what follows it have not
    /// seen.
    pub fn has_news_of_ranks(&self) -> bool {
        self.job.ended() != self.seen_ended || self.job.present_ranks().len() > self.peers.ranks().len()
    }

    /// Later ranks that have left, and guests that are lost, which are not forgotten.
    pub fn left_ranks(&mut self) -> Vec<usize> {
        let here = self.peers.ranks().iter().filter(|rank| self.job.left(*rank).is_some());
        let far = self.remote.as_deref_mut().map_or(&[][..], |remote| remote.left_ranks(&self.job));
        let guests = self.guests.as_deref().map_or(&[][..], Guestbook::lost);
        here.chain(far.iter().copied()).chain(guests.iter().copied()).collect()
    }

    /// Forgets a rank that has left, unless something with it is under way; what it has sent and no receive
    /// has taken is dropped. The caller has nothing that names it, and tries again later if it is kept.
    pub fn try_forget(&mut self, rank: usize) -> Left {
        if self.is_guest(rank) {
            return self.try_forget_guest(rank);
        }
        if !self.peers.has(rank) {
            return self.try_forget_far(rank);
        }
        let Some(generation) = self.job.left(rank) else { return Left::Forgotten };
        let is_named = |request: &Request| !request.done && request.peer == rank as i32;
        let is_needed = self.requests.iter().any(|(_, request)| is_named(request))
            || !self.peers[rank].is_idle()
            || !self.matching.discard(rank);
        let is_used = self.peers[rank].rings.are_used();
        // Behind that look: what is in the rings is of the process that has left.
        if is_needed || self.job.left(rank) != Some(generation) {
            return Left::Kept;
        }
        // SAFETY: the peer's own rings are replaced by these, and nothing of it is under way.
        let rings = unsafe { self.job.forget(rank, generation, is_used) };
        self.peers.renew(rank, rings);
        Left::Forgotten
    }

    /// Starts a send.
    #[inline]
    pub fn send(&mut self, message: Message) -> Started {
        self.counters.messages += 1;
        self.counters.bytes += message.buffer.bytes as u64;
        let to = message.to as usize;
        if to == self.me {
            let started = self.send_to_self(message);
            return self.unless_vain(started);
        }
        if !self.peers.has(to) {
            let started = self.send_to_node(message);
            return self.unless_vain(started);
        }
        let peer = &mut self.peers[to];
        if peer.backlog.is_empty() && peer.try_eager(&message) {
            self.counters.eager += 1;
            self.job.ring(to);
            return Started::Done;
        }
        let started = self.send_slowly(message);
        self.unless_vain(started)
    }

    /// Whatever does not fit into the envelope ring at once.
    fn send_slowly(&mut self, message: Message) -> Started {
        let to = message.to as usize;
        let mut request =
            Request::new(RequestKind::Send, message.buffer.clone(), message.context, to as i32, message.tag);
        request.bytes = message.buffer.bytes;
        let index = self.requests.insert(request);
        if message.buffer.bytes > LOCAL_EAGER_BYTES_MAX {
            if self.peers[to].rings.inbox.is_ready() {
                // Its receive may have been advertised meanwhile.
                self.take_envelopes(to);
            }
            self.note_send(to);
        }
        let ticket = self.peers[to].backlog.push_back(Outgoing::Send { request: index, mode: message.mode });
        self.requests.get_mut(index).posted = ticket;
        self.push_out(to);
        // A checked send stays until the program has completed it.
        if self.requests.get(index).done && !check_mode::is_on() {
            self.requests.remove(index);
            return Started::Done;
        }
        Started::Pending(index)
    }

    /// Starts a receive; `request` is a receive that is not done. Returns its index.
    #[inline]
    pub fn receive(&mut self, request: Request) -> u32 {
        let tells = request.peer >= 0 && self.would_advertise(request.peer as usize, request.buffer.bytes);
        if tells {
            self.probe_before_rtr(request.peer as usize);
        }
        let index = self.requests.insert(request);
        match self.matching.take_unexpected(self.requests.get(index)) {
            None if self.may_have_guests() && self.waits_in_vain(index) => self.fail_receive(index),
            None => {
                self.matching.post(&mut self.requests, index);
                if tells {
                    self.send_rtr(index);
                }
            }
            Some((from, found)) => self.deliver_unexpected(from, found, index),
        }
        index
    }

    /// Withdraws an operation that is not matched yet; anything else goes on. A send whose receiver knows of
    /// it asks it.
    pub fn cancel(&mut self, index: u32) {
        let request = self.requests.get(index);
        match request.kind {
            _ if request.done => {}
            RequestKind::Receive => self.cancel_receive(index),
            RequestKind::Send => self.cancel_send(index),
            _ => {}
        }
    }

    fn cancel_send(&mut self, index: u32) {
        let request = self.requests.get(index);
        let (to, posted) = (request.peer as usize, request.posted);
        let number = posted as u32;
        if to == self.me {
            if self.matching.withdraw_local(to, index) {
                self.finish_cancelled(index);
            }
            return;
        }
        if !self.peers.has(to) {
            self.cancel_send_to_node(to, posted, index);
            return;
        }
        let peer = &mut self.peers[to];
        let waits = |one: &Outgoing| matches!(one, Outgoing::Send { request, .. } if *request == index);
        if peer.backlog.withdraw(posted, waits) {
            self.finish_cancelled(index);
        } else if peer.rendezvous.get(number) == Some(&index) {
            self.send_control(to, CANCEL, number);
        }
    }

    /// A send that nobody will receive is done.
    fn finish_cancelled(&mut self, index: u32) {
        self.requests.get_mut(index).cancelled = true;
        self.finish(index);
    }

    fn cancel_receive(&mut self, index: u32) {
        let request = self.requests.get(index);
        if request.rtr != 0 && self.matching.is_posted(&self.requests, index) {
            if !self.peers.has(request.peer as usize) {
                return self.cancel_advertised_far(index);
            }
            if !self.take_back(index) {
                return;
            }
        }
        if self.matching.withdraw(&mut self.requests, index) {
            self.requests.get_mut(index).cancelled = true;
            self.finish(index);
        }
    }

    /// Takes a message out of matching for a later receive (3.8.2); returns what it is and its number in the
    /// keep.
    pub fn extract(&mut self, context: u32, source: i32, tag: i32) -> Option<(Found, MPI_Message)> {
        self.matching.extract(context, source, tag)
    }

    /// The message that a handle of [`Engine::extract`] names.
    pub fn find_extracted(&self, handle: MPI_Message) -> Option<u32> {
        self.matching.find_extracted(handle)
    }

    /// Receives an extracted message.
    pub fn receive_extracted(&mut self, message: u32, request: Request) -> u32 {
        let (from, found) = self.matching.take_extracted(message);
        let index = self.requests.insert(Request { context: found.context, ..request });
        self.deliver_unexpected(from, found, index);
        index
    }

    /// Messages of the user that no receive has taken: context, world rank of the sender, tag, bytes.
    pub fn unreceived(&self) -> Vec<(u32, u32, i32, usize)> {
        let messages = self.matching.unexpected();
        messages.map(|(from, m)| (m.context, from as u32, m.tag, m.bytes)).collect()
    }

    /// How many messages were taken out of matching and not received.
    pub fn extracted(&self) -> usize {
        self.matching.extracted()
    }

    /// Looks for a message that a receive with these arguments would take; wildcards allowed.
    pub fn probe(&mut self, context: u32, source: i32, tag: i32) -> Option<Found> {
        self.matching.probe(context, source, tag)
    }

    /// Moves whatever can be moved. `hint` is the peer that the caller waits for. Returns whether anything
    /// moved.
    #[inline]
    pub fn progress(&mut self, hint: Option<usize>) -> bool {
        self.polls = self.polls.wrapping_add(1);
        let mut moved = false;
        match hint {
            Some(peer) if !self.polls.is_multiple_of(POLLS_PER_ROUND) && self.peers.has(peer) => {
                moved |= self.poll(peer);
            }
            _ => {
                for number in 0..self.peers.meet() {
                    let peer = self.peers.met(number);
                    moved |= self.poll(peer);
                }
            }
        }
        if !self.copying.is_empty() {
            moved |= self.advance_copies();
        }
        if !self.pieces.looked_at.is_empty() {
            moved |= self.progress_rings();
        }
        if self.remote.is_some() {
            moved |= self.progress_remote(hint.is_some_and(|peer| self.peers.has(peer)));
        }
        if self.guests.is_some() {
            moved |= self.progress_guests();
        }
        moved
    }

    /// Takes the message of an awaited receive from this rank, if it is the rank's next one and the receive
    /// its oldest: its tag and bytes, and the request is the caller's to free. Otherwise moves what the rings
    /// with the rank hold; now and then, and for a rank that has none, all that can be moved.
    #[inline(always)]
    fn take_awaited(&mut self, index: u32, source: i32) -> Option<(i32, usize)> {
        self.polls = self.polls.wrapping_add(1);
        let from = source as u32 as usize;
        let Engine { peers, matching, requests, polls, .. } = self;
        if let Some(peer) = peers.find_mut(from)
            && !polls.is_multiple_of(POLLS_PER_ROUND)
            && !peer.is_busy()
            && matching.only_candidate(from) == Some(index)
            && let Some(taken) = peer.take_expected(from, index, matching, requests)
        {
            peer.rings.ring_if_owed();
            return Some(taken);
        }
        self.poll_thoroughly(from);
        None
    }

    /// The same where more is to be looked at than the next messages.
    #[inline(never)]
    fn poll_thoroughly(&mut self, from: usize) {
        if self.polls.is_multiple_of(POLLS_PER_ROUND) || !self.peers.has(from) {
            self.progress(None);
        } else {
            self.poll(from);
        }
    }

    /// One peer's rings, in both directions.
    #[inline(always)]
    fn poll(&mut self, from: usize) -> bool {
        let Engine { peers, matching, requests, .. } = self;
        let peer = &mut peers[from];
        let is_ready = peer.rings.inbox.is_ready();
        let mut needs_attention = false;
        if is_ready {
            for _ in 0..ENVELOPES_PER_TURN {
                let Some(index) = matching.only_candidate(from) else { break };
                if peer.take_expected(from, index, matching, requests).is_none() {
                    break;
                }
                requests.finish(index);
            }
            needs_attention = peer.rings.inbox.needs_attention();
        }
        let is_busy = peer.is_busy();
        let mut moved = is_ready;
        if needs_attention || is_busy {
            moved |= self.poll_slowly(from, needs_attention);
        }
        moved
    }

    /// Polls for what is no small message for the oldest receive, and for what is on its way.
    #[inline(never)]
    fn poll_slowly(&mut self, from: usize, needs_attention: bool) -> bool {
        if needs_attention {
            self.take_envelopes(from);
        }
        if !self.peers[from].is_busy() {
            return false;
        }
        let drained = self.drain_bulk(from);
        self.push_out(from) || drained
    }

    /// Before sleeping: tells all peers what was consumed, so that nobody waits for room that is there.
    pub fn publish_all(&mut self) {
        for number in 0..self.peers.meet() {
            let to = self.peers.met(number);
            let inbox = &mut self.peers[to].rings.inbox;
            inbox.publish();
            if inbox.take_owed_bell() {
                self.job.ring(to);
            }
        }
    }

    /// Whether the data of a pending send or receive are under way, so that it ends without another call of
    /// the peer.
    pub fn is_matched(&self, index: u32) -> bool {
        let request = self.requests.get(index);
        let peer = usize::try_from(request.peer).ok();
        match (request.kind, peer) {
            (RequestKind::Receive, _) => !self.matching.is_posted(&self.requests, index),
            (RequestKind::Send, Some(to)) if self.peers.has(to) => {
                self.peers[to].rendezvous.get(request.posted as u32) != Some(&index)
            }
            (RequestKind::Send, Some(to)) if self.is_guest(to) => !self
                .guests
                .as_deref()
                .is_some_and(|book| book.is_rendezvous(to, request.posted as u32, index)),
            (RequestKind::Send, Some(to)) if to != self.me => !self
                .remote
                .as_deref()
                .is_some_and(|remote| remote.is_rendezvous(to, request.posted as u32, index)),
            // To itself.
            _ => false,
        }
    }

    /// Of a pending send how many of its bytes are in the bulk ring or in the FIFO to another node, of a
    /// receive how many have come by these; and of how many: of a receive that is not matched, those that it
    /// has room for.
    pub fn moved_bytes(&self, index: u32) -> (u64, u64) {
        let request = self.requests.get(index);
        let found = usize::try_from(request.peer).ok().and_then(|peer| {
            if self.peers.has(peer) {
                return self.peers[peer].moved_bytes(index);
            }
            if self.is_guest(peer) {
                return None;
            }
            self.remote.as_deref()?.moved_bytes(peer, index)
        });
        let has_message = request.kind == RequestKind::Send || self.is_matched(index);
        let whole = if has_message { request.bytes } else { request.buffer.bytes };
        (found.unwrap_or(0) as u64, whole as u64)
    }

    /// Where an onlooker finds the messages that no receive has asked for; `lock`: under which they are
    /// taken.
    pub fn expose_unexpected(&self, lock: &std::sync::atomic::AtomicU32) {
        let root = self.matching.unexpected_root();
        root.lock.store((&raw const *lock).addr() as u64, Ordering::Relaxed);
        let report = self.job.report(self.me);
        report.kept.store((&raw const *root).addr() as u64, Ordering::Release);
    }

    /// Receives that are posted and have no message yet.
    pub fn posted_count(&self) -> usize {
        self.matching.posted_count(&self.requests)
    }

    /// Messages that no receive has asked for.
    pub fn unasked(&self) -> u32 {
        self.matching.unexpected_count() as u32
    }

    /// Whether something for others has found no room yet, or is on its way piece by piece: the library may
    /// let them go on by itself.
    pub fn owes(&self) -> bool {
        !self.copying.is_empty()
            || self.has_unwritten_pieces()
            || self.peers.iter().any(|peer| !peer.backlog.is_empty() || !peer.streams.is_empty())
            || self.remote.as_deref().is_some_and(Remote::owes)
            || self.guests.as_deref().is_some_and(Guestbook::owes)
    }

    /// Whether this process still owes others something: messages that are not yet in their rings.
    pub fn is_flushed(&self) -> bool {
        self.peers.iter().all(|peer| !peer.owes())
            && !self.has_unwritten_pieces()
            && self.remote.as_deref().is_none_or(Remote::is_flushed)
            && self.guests.as_deref().is_none_or(Guestbook::is_flushed)
    }

    /// More ranks than cores.
    pub fn is_oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// The user lets go of a request; it goes when it is done.
    pub fn release(&mut self, index: u32) {
        let request = self.requests.get_mut(index);
        if request.done {
            self.requests.remove(index);
        } else {
            request.when_done = WhenDone::Free;
        }
    }

    /// Sends a control message, in order with everything else.
    fn send_control(&mut self, to: usize, kind: u8, message: u32) {
        self.send_control_of(to, kind, [u64::from(message), 0, 0, 0, 0]);
    }

    fn send_control_of(&mut self, to: usize, kind: u8, arguments: [u64; 5]) {
        let envelope = Envelope { kind, ..Envelope::default() };
        self.peers[to].backlog.push_back(Outgoing::Control { envelope, arguments });
        self.push_out(to);
    }

    #[inline]
    fn finish(&mut self, index: u32) {
        self.requests.finish(index);
    }
}
