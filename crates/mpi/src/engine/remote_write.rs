//! The write protocol inside a node: receives are advertised to their senders, and messages written to them.
//! The rule stands in [`super::rtr`].
//!
//! ```text
//! receiver                                    sender
//! posts, nothing waits: RTR  ------------->  keeps it, or finds that a message has crossed it (stale)
//!                                             a large message matches: claims it, WRITE, then both copy (`copies`),
//! takes WRITE: it must match that receive <-  or the data follow through the bulk ring
//! ```
//!
//! To cancel an advertised receive the receiver takes back all that it has advertised to this sender
//! (`void`), then looks what the sender claims: of the two words, each written by one side and followed by a
//! fence, at least one is seen. A sender that sees the receive taken back sends in the ordinary way; a
//! receiver that sees it claimed lets it go on.

use tutti_datatype::SignatureWord;
use tutti_rma::copy::{Copy, Cut, Side};
use tutti_rma::{Memory, Remote};
use tutti_shm::envelope_ring::Envelope;

use super::lanes::{Block, Lane, SingleCopy, State};
use super::message::LOCAL_EAGER_BYTES_MAX;
use super::pace::Way;
use super::peer::Written;
use super::rtr::{AdvertisedReceive, Arrived};
use super::streams::{Sink, Stream};
use super::{ENVELOPES_PER_TURN, Engine};
use crate::abi::MPI_ANY_SOURCE;
use crate::check_mode;
use tutti_shm::envelope::RTR;

/// Flag of RTR: the bulk ring has been faster.
const PREFERS_RING: u8 = 1;
/// Passes over the inbox that take everything that was in it before.
const TURNS: usize = tutti_shm::envelope_ring::LINES_MAX / ENVELOPES_PER_TURN + 1;

impl Engine {
    /// Whether a receive of so many bytes from a rank would be advertised to it.
    #[inline(always)]
    pub fn would_advertise(&self, from: usize, capacity: usize) -> bool {
        (capacity > LOCAL_EAGER_BYTES_MAX || self.tells_small())
            && self.write_protocol
            && self.may_advertise_to(from, capacity)
    }

    #[inline(never)]
    fn may_advertise_to(&self, from: usize, capacity: usize) -> bool {
        if from != self.me && !self.peers.has(from) {
            return self.may_advertise_far(from, capacity);
        }
        // Ranks that share cores take turns anyway, so an answer saves nothing, and one copy by the receiver
        // alone is faster (docs/benchmarks/2026-11-22.md).
        let is_small = capacity <= LOCAL_EAGER_BYTES_MAX;
        if self.oversubscribed || from == self.me || is_small {
            return false;
        }
        let advertising = &self.peers[from].advertising;
        let crosses = advertising.crosses() || self.sends_much_to(from);
        !crosses && advertising.has_room()
    }

    /// A large message is about to be sent to a rank: it may cross one that comes from there.
    pub(super) fn note_send(&mut self, to: usize) {
        let crosses = self.receives_much_from(to);
        self.peers[to].advertising.note(crosses);
    }

    /// A large message has come from a rank: it may cross one that goes there.
    pub(super) fn note_arrival(&mut self, from: usize) {
        let crosses = self.sends_much_to(from);
        self.peers[from].advertising.note(crosses);
    }

    /// Before a large receive is posted: what has arrived comes first.
    #[cold]
    pub(super) fn probe_before_rtr(&mut self, from: usize) {
        if !self.peers.has(from) {
            self.progress_remote(false);
            return;
        }
        if self.peers[from].rings.inbox.is_ready() {
            self.take_envelopes(from);
        }
    }

    /// Tells a receive that was just posted to its sender, if the rule allows it.
    #[cold]
    pub(super) fn send_rtr(&mut self, index: u32) {
        let request = self.requests.get(index);
        let from = request.peer as usize;
        if !self.peers.has(from) {
            return self.send_far_rtr(index);
        }
        // Data with gaps come through the bulk ring, and so do all that are checked. Where nothing is checked
        // an answer before them costs little beside that.
        let has_map = request.buffer.map.is_some();
        if has_map && !check_mode::is_on() {
            return;
        }
        let advertising = &self.peers[from].advertising;
        let Some(first_advertised) =
            self.matching.may_advertise(&self.requests, index, |rtr| advertising.is_advertised(rtr))
        else {
            return;
        };
        let request = self.requests.get(index);
        let capacity = request.buffer.bytes;
        let alone = first_advertised.is_none();
        let pace = &mut self.peers[from].pace;
        let way = match alone {
            _ if has_map => Way::Ring,
            true => pace.choose(capacity),
            false => pace.best(capacity),
        };
        let flags = if way == Way::Ring { PREFERS_RING } else { 0 };
        let envelope = Envelope {
            kind: RTR,
            flags,
            context: request.context,
            tag: request.tag,
            length: capacity as u64,
        };
        let address = if has_map { 0 } else { request.buffer.at as u64 };
        let peer = &mut self.peers[from];
        let number = peer.advertising.upcoming();
        let seen = peer.rings.inbox.position();
        let arguments = [number, first_advertised.unwrap_or(number), address, seen, 0];
        if peer.backlog.is_empty() && peer.push_control(&envelope, &arguments) {
            peer.advertising.add(number);
            self.requests.get_mut(index).rtr = number;
            // Nobody is woken for this: the sender looks here before it sends anything large.
            self.counters.rtr += 1;
        }
    }

    /// A receive of the peer is advertised to us.
    pub(super) fn take_rtr(&mut self, from: usize, envelope: &Envelope, arguments: [u64; 5]) {
        let [number, pending_from, address, seen, _] = arguments;
        let receive = AdvertisedReceive {
            number,
            context: envelope.context,
            tag: envelope.tag,
            capacity: envelope.length as usize,
            address,
            seen,
            prefers_ring: envelope.flags & PREFERS_RING != 0,
        };
        let peer = &mut self.peers[from];
        let (void, position) = (peer.rings.void_by_peer(), peer.rings.out.position());
        match peer.rtr.handle_request(receive, pending_from, void, position) {
            Arrived::Usable => {}
            Arrived::Stale => self.counters.stale += 1,
            Arrived::Uncertain => self.counters.uncertain += 1,
        }
    }

    /// Sends a message to the advertised receive that it matches; `None` when there is none or the message is
    /// small, else whether the ring had room.
    pub(super) fn write_to_advertised(&mut self, to: usize, index: u32) -> Option<bool> {
        let request = self.requests.get(index);
        let (context, tag, bytes) = (request.context, request.tag, request.buffer.bytes);
        if bytes <= LOCAL_EAGER_BYTES_MAX || !self.peers[to].rtr.remembers() {
            return None;
        }
        let rtr = self.claim_advertised(to, context, tag)?;
        let apart = self.is_apart_and_waiting(to);
        let request = self.requests.get(index);
        let copies = self.peers[to].single_copy_works && request.buffer.map.is_none() && rtr.address != 0;
        let cut = (copies && !(apart && rtr.prefers_ring)).then(|| {
            let wanted = bytes.min(rtr.capacity);
            if apart && !self.receives_much_from(to) { Cut::together(wanted) } else { Cut::alone(wanted) }
        });
        let buffer = &request.buffer;
        let remote_write = Written { context, tag, buffer, receive: rtr.number, cut };
        let Some((message, number)) = self.peers[to].push_written(&remote_write) else { return Some(false) };
        self.counters.remote_write += 1;
        self.counters.written_bytes += bytes as u64;
        match cut {
            None => self.peers[to].streams.push_back(Stream::new(message, index)),
            Some(cut) => {
                // SAFETY: the user keeps a send buffer valid until the send is done (MPI 3.7).
                let own = unsafe { Memory::new(buffer.at, bytes) };
                let remote = Remote { process: self.job.process_of(to), address: rtr.address };
                let copy = Copy { side: Side::Sender, number, cut, own, remote };
                let state = State::Together { copy, block: Block::Written, opened: false };
                let copy = SingleCopy { request: index, message, state, since: None };
                self.add_copy(to, Lane::WrittenOut, copy);
            }
        }
        Some(true)
    }

    /// The advertised receive that the next message takes, claimed so that its receiver does not take it
    /// back.
    fn claim_advertised(&mut self, to: usize, context: u32, tag: i32) -> Option<AdvertisedReceive> {
        let peer = &mut self.peers[to];
        loop {
            let rtr = *peer.rtr.find(context, tag)?;
            let void = peer.rings.claim(rtr.number);
            if rtr.number > void {
                return Some(rtr);
            }
            peer.rtr.void(void);
        }
    }

    /// Whether large messages of a rank are on their way to us.
    fn receives_much_from(&self, from: usize) -> bool {
        !self.peers[from].sinks.is_empty()
            || self.has_pieces(from, Lane::RendezvousIn)
            || self.has_pieces(from, Lane::WrittenIn)
    }

    /// A message has come that is written to an advertised receive.
    pub(super) fn take_written(&mut self, from: usize, envelope: &Envelope, arguments: [u64; 5]) {
        let [message, address, receive, number, word] = arguments;
        let found = self.matching.take_posted(&mut self.requests, from, envelope.context, envelope.tag);
        let index = found.filter(|&index| self.requests.get(index).rtr == receive).unwrap_or_else(|| {
            panic!("rank {from} writes to receive {receive}, but the message matches another one")
        });
        self.note_arrival(from);
        self.peers[from].advertising.matched(receive, true);
        let bytes = envelope.length as usize;
        let request = self.requests.get_mut(index);
        request.suspect_unless_taken(SignatureWord(word), bytes);
        (request.peer, request.tag, request.bytes) = (from as i32, envelope.tag, bytes);
        let (at, wanted) = (request.buffer.at, bytes.min(request.buffer.bytes));
        if envelope.flags == 0 {
            let since = (!self.receives_much_from(from)).then(std::time::Instant::now);
            self.peers[from].sinks.push(message as u32, Sink::matched(bytes, index, since));
            return;
        }
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
        let own = unsafe { Memory::new(at, wanted) };
        let copy = Copy {
            side: Side::Receiver,
            number: number as u32,
            cut: Cut { bytes: wanted, piece_log2: envelope.flags },
            own,
            remote: Remote { process: self.job.process_of(from), address },
        };
        let state = State::Together { copy, block: Block::Written, opened: false };
        let copy = SingleCopy { request: index, message: message as u32, state, since: None };
        self.add_copy(from, Lane::WrittenIn, copy);
    }

    /// Whether a receive that was advertised, and is not matched, can be withdrawn: not if its message is on
    /// the way.
    #[cold]
    pub(super) fn take_back(&mut self, index: u32) -> bool {
        let request = self.requests.get(index);
        let (from, rtr) = (request.peer, request.rtr);
        assert!(from != MPI_ANY_SOURCE, "a receive from any source was told");
        let from = from as usize;
        let peer = &mut self.peers[from];
        let void = peer.advertising.void_all();
        let claimed = peer.rings.void(void);
        // What the sender claimed before its last claim is in the ring.
        for _ in 0..TURNS {
            if self.peers[from].rings.inbox.is_ready() {
                self.take_envelopes(from);
            }
        }
        claimed != rtr
    }
}
