//! Large messages by single copies between the memories of the two ranks ([`tutti_rma`]), and the choice of
//! the way.
//!
//! ```text
//! announced  -> the sender waits, on another core?   ring faster: CTS, bulk ring
//!                                                    else COOP: both copy pieces (`Together`)
//!               else the receiver alone, then FIN; becomes `Together` for the rest when the sender comes in
//! written    -> `Together` from the start: the sender knows the address; the receiver helps if it is there
//! ```
//!
//! Who cannot copy says so in the joint's words, and both go over to the bulk ring for the whole message.

use std::time::Instant;

use tutti_rma::copy::{Copy, Cut, Side, Step};
use tutti_rma::{Memory, Remote};
use tutti_shm::envelope_ring::Envelope;
use tutti_shm::sync::Ordering;

use super::lanes::{Block, Lane, SingleCopy, State};
use super::message::finish_receive;
use super::pace::Way;
use super::peer::Outgoing;
use super::streams::{Sink, Stream};
use super::{Engine, steps};
use tutti_shm::envelope::{COOP, CTS, FIN};

/// How long a receiver looks whether the sender comes into the library before it copies by itself: less than
/// half a microsecond, which the faster way makes up for. A message that has waited behind another has
/// waited.
const PATIENCE_POLLS: u32 = 30;
/// Copies of a lane that are finished before others are looked at.
const COPIES_PER_TURN: usize = 64;
/// Less is not worth waking the other for.
const REST_BYTES_MIN: usize = 256 << 10;

enum Moved {
    Nothing,
    Piece,
    /// Done with it here; a receiver's answer to the sender, if it is owed one.
    Finished(Option<u8>),
    /// The whole message goes through the bulk ring.
    Broken,
}

impl Engine {
    /// A copy begins, behind the others of its lane.
    pub(super) fn add_copy(&mut self, peer: usize, lane: Lane, copy: SingleCopy) {
        let copies = &mut self.peers[peer].copies;
        copies[lane].push_back(copy);
        if !std::mem::replace(&mut copies.is_listed, true) {
            self.copying.push(peer);
        }
    }

    /// Goes on with single copies. What comes goes first, and who reads does not write: its own messages then
    /// come to lie in the cache of the core that will use them. Who has nothing to read helps its receivers.
    pub(super) fn advance_copies(&mut self) -> bool {
        let bytes = self.counters.copied_bytes;
        let mut moved = false;
        for position in 0..self.copying.len() {
            for lane in Lane::IN {
                moved |= self.advance_lane(self.copying[position], lane, true);
            }
        }
        let helps = self.counters.copied_bytes == bytes;
        let mut position = 0;
        while let Some(&peer) = self.copying.get(position) {
            for lane in Lane::OUT {
                moved |= self.advance_lane(peer, lane, helps);
            }
            let copies = &mut self.peers[peer].copies;
            if copies.is_empty() {
                copies.is_listed = false;
                self.copying.swap_remove(position);
            } else {
                position += 1;
            }
        }
        moved
    }

    /// Finishes copies of a lane, up to one that is not over; of that one piece at most, and none unless
    /// `copies`.
    fn advance_lane(&mut self, peer: usize, lane: Lane, copies: bool) -> bool {
        let mut moved = false;
        for _ in 0..COPIES_PER_TURN {
            if self.peers[peer].copies[lane].is_empty() {
                break;
            }
            steps::count(1);
            match self.advance_copy(peer, lane, copies) {
                Moved::Nothing => break,
                Moved::Piece => return true,
                Moved::Finished(answer) => self.finish_copy(peer, lane, answer),
                Moved::Broken => self.stream_instead(peer, lane),
            }
            moved = true;
        }
        moved
    }

    /// The copy that its lane is at.
    fn first(&mut self, peer: usize, lane: Lane) -> &mut SingleCopy {
        self.peers[peer].copies[lane].front_mut().expect("the caller has looked")
    }

    fn advance_copy(&mut self, peer: usize, lane: Lane, copies: bool) -> Moved {
        match self.first(peer, lane).state {
            State::Undecided { address, arrived } => self.decide(peer, address, arrived),
            State::Alone { address, offset } => self.copy_alone(peer, address, offset),
            State::Together { .. } => self.copy_together(peer, lane, copies),
        }
    }

    /// The receiver of an announced message chooses the way.
    fn decide(&mut self, peer: usize, address: u64, arrived: u32) -> Moved {
        let index = self.first(peer, Lane::RendezvousIn).request;
        let request = self.requests.get(index);
        let wanted = request.bytes.min(request.buffer.bytes);
        if wanted == 0 {
            return Moved::Finished(Some(FIN));
        }
        if !self.peers[peer].single_copy_works || address == 0 || request.buffer.map.is_some() {
            return Moved::Finished(Some(CTS));
        }
        if self.is_apart_and_waiting(peer) {
            let (way, since) = self.choose_way(peer, wanted);
            if way == Way::Ring {
                self.first(peer, Lane::RendezvousIn).since = since;
                return Moved::Finished(Some(CTS));
            }
            return self.join(peer, address, 0);
        }
        if !self.oversubscribed && self.polls.wrapping_sub(arrived) < PATIENCE_POLLS {
            return Moved::Nothing;
        }
        self.first(peer, Lane::RendezvousIn).state = State::Alone { address, offset: 0 };
        self.copy_alone(peer, address, 0)
    }

    /// The way for a message from a rank, and when it began, if nothing else comes from there: then the time
    /// is worth something.
    pub(super) fn choose_way(&mut self, peer: usize, bytes: usize) -> (Way, Option<Instant>) {
        let there = &mut self.peers[peer];
        let busy = there.copies.receives() > 1;
        if busy || !there.sinks.is_empty() || there.cooperating {
            return (there.pace.best(bytes), None);
        }
        (there.pace.choose(bytes), Some(Instant::now()))
    }

    /// Whether the other rank waits in the library, on a core of its own, so that it serves what we ask at
    /// once.
    pub(super) fn is_apart_and_waiting(&self, peer: usize) -> bool {
        !self.oversubscribed && self.job.endpoint(peer).waiting.load(Ordering::Relaxed) != 0
    }

    /// Whether large messages of ours are on their way to a rank: then it has its own copies to make.
    pub(super) fn sends_much_to(&self, peer: usize) -> bool {
        let there = &self.peers[peer];
        !there.rendezvous.is_empty()
            || !there.streams.is_empty()
            || self.has_pieces(peer, Lane::RendezvousOut)
            || self.has_pieces(peer, Lane::WrittenOut)
    }

    /// Whether pieces of a lane's copies are not taken yet. When all are, they will soon be found complete,
    /// and their rank is free.
    pub(super) fn has_pieces(&self, peer: usize, lane: Lane) -> bool {
        let there = &self.peers[peer];
        // Pieces are taken in order: what the last message has no more of, no other has.
        let Some(last) = there.copies[lane].back() else { return false };
        let State::Together { copy, block, .. } = &last.state else { return true };
        let joint = match copy.side {
            Side::Sender => &there.rings.joints_out[*block as usize],
            Side::Receiver => &there.rings.joints_in[*block as usize],
        };
        joint.has_pieces(copy.number, copy.cut.pieces())
    }

    /// Asks the sender of an announced message to copy the rest with us; waits while an earlier one has the
    /// joint.
    fn join(&mut self, peer: usize, address: u64, offset: usize) -> Moved {
        let SingleCopy { request: index, message, .. } = *self.first(peer, Lane::RendezvousIn);
        let mutual = self.requests.get(index).mutual || self.sends_much_to(peer);
        let request = self.requests.get(index);
        let there = &mut self.peers[peer];
        if there.cooperating {
            return Moved::Nothing;
        }
        there.cooperating = true;
        there.next_coop = there.next_coop.wrapping_add(1);
        let number = there.next_coop;
        there.rings.joints_in[Block::Rendezvous as usize].open(number);
        let rest = request.bytes.min(request.buffer.bytes) - offset;
        let cut = if mutual { Cut::alone(rest) } else { Cut::together(rest) };
        let at = request.buffer.at.wrapping_add(offset);
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
        let own = unsafe { Memory::new(at, rest) };
        let remote = Remote { process: self.job.process_of(peer), address: address + offset as u64 };
        let copy = Copy { side: Side::Receiver, number, cut, own, remote };
        self.first(peer, Lane::RendezvousIn).state =
            State::Together { copy, block: Block::Rendezvous, opened: true };
        let envelope =
            Envelope { kind: COOP, flags: cut.piece_log2, length: rest as u64, ..Envelope::default() };
        let arguments = [u64::from(message), at as u64, offset as u64, u64::from(number), 0];
        self.peers[peer].backlog.push_back(Outgoing::Control { envelope, arguments });
        self.push_out(peer);
        Moved::Piece
    }

    /// The receiver of an announced message asks this sender to help.
    pub(super) fn take_coop(&mut self, from: usize, envelope: &Envelope, arguments: [u64; 5]) {
        let [message, address, offset, number, _] = arguments;
        let request = self.take_rts(from, message as u32);
        let (offset, bytes) = (offset as usize, envelope.length as usize);
        let buffer = &self.requests.get(request).buffer;
        assert!(
            offset + bytes <= buffer.bytes,
            "rank {from} joins {bytes} bytes at {offset} of {}",
            buffer.bytes
        );
        // SAFETY: the user keeps a send buffer valid until the send is done (MPI 3.7); the range lies inside.
        let own = unsafe { Memory::new(buffer.at.add(offset), bytes) };
        let copy = Copy {
            side: Side::Sender,
            number: number as u32,
            cut: Cut { bytes, piece_log2: envelope.flags },
            own,
            remote: Remote { process: self.job.process_of(from), address },
        };
        let state = State::Together { copy, block: Block::Rendezvous, opened: false };
        let copy = SingleCopy { request, message: message as u32, state, since: None };
        self.add_copy(from, Lane::RendezvousOut, copy);
    }

    fn copy_alone(&mut self, peer: usize, address: u64, offset: usize) -> Moved {
        let index = self.first(peer, Lane::RendezvousIn).request;
        let request = self.requests.get(index);
        let wanted = request.bytes.min(request.buffer.bytes);
        if offset > 0
            && wanted - offset >= REST_BYTES_MIN
            && self.is_apart_and_waiting(peer)
            && !self.peers[peer].cooperating
        {
            return self.join(peer, address, offset);
        }
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
        let own = unsafe { Memory::new(request.buffer.at, wanted) };
        let remote = Remote { process: self.job.process_of(peer), address };
        match own.read_from(remote, offset, wanted - offset) {
            Ok(bytes) => {
                let offset = offset + bytes;
                self.counters.copied_bytes += bytes as u64;
                self.first(peer, Lane::RendezvousIn).state = State::Alone { address, offset };
                if offset == wanted { Moved::Finished(Some(FIN)) } else { Moved::Piece }
            }
            Err(_) => {
                // Not allowed here, or memory that cannot be read that way: the sender streams the whole
                // message. An address that is really bad ends the sender with SIGSEGV, as it would have ended
                // a copy of its own.
                // If it is a GPU's, a line says so instead: here, and where the sender hears CTS.
                self.refuse_device_memory(self.requests.get(index));
                self.peers[peer].single_copy_works = false;
                Moved::Finished(Some(CTS))
            }
        }
    }

    fn copy_together(&mut self, peer: usize, lane: Lane, copies: bool) -> Moved {
        let there = &mut self.peers[peer];
        let first = there.copies[lane].front_mut();
        let Some(SingleCopy { state: State::Together { copy, block, opened }, .. }) = first else {
            panic!("the caller has looked");
        };
        let opens = (*block == Block::Written) == (copy.side == Side::Sender);
        let joint = match copy.side {
            Side::Sender => &mut there.rings.joints_out[*block as usize],
            Side::Receiver => &mut there.rings.joints_in[*block as usize],
        };
        let broken = match copy.side {
            Side::Sender => &mut there.broken_out[*block as usize],
            Side::Receiver => &mut there.broken_in[*block as usize],
        };
        let mut opens_now = false;
        if opens && !*opened {
            if *broken {
                return Moved::Broken;
            }
            if there.writing {
                return Moved::Nothing;
            }
            joint.open(copy.number);
            (there.writing, *opened, opens_now) = (true, true, true);
        }
        let began = Instant::now();
        match if copies { copy.step(joint) } else { copy.check(joint) } {
            // A joint that is broken is never opened again.
            Step::Nothing if *broken => Moved::Broken,
            Step::Nothing => {
                if opens_now {
                    // The receiver may sleep, and can take the pieces alone.
                    self.job.ring(peer);
                }
                Moved::Nothing
            }
            Step::Copied(bytes) => {
                // Of several pieces the other copies as many at the same time.
                let shared = if copy.cut.pieces() > 1 { 2 } else { 1 };
                let took = began.elapsed().mul_f64(copy.cut.bytes as f64 / (shared * bytes) as f64);
                there.pace.learn(Way::SingleCopy, copy.cut.bytes, took);
                self.counters.copied_bytes += bytes as u64;
                self.job.ring(peer);
                Moved::Piece
            }
            Step::Complete => {
                if opens {
                    match block {
                        Block::Written => there.writing = false,
                        Block::Rendezvous => there.cooperating = false,
                    }
                }
                Moved::Finished(None)
            }
            Step::Broken => {
                *broken = true;
                there.single_copy_works = false;
                let request = self.first(peer, lane).request;
                self.refuse_device_memory(self.requests.get(request));
                self.job.ring(peer);
                Moved::Broken
            }
        }
    }

    /// Takes the first copy of a lane, which is over.
    fn take_first(&mut self, peer: usize, lane: Lane) -> SingleCopy {
        self.peers[peer].copies[lane].pop_front().expect("the caller has looked")
    }

    fn finish_copy(&mut self, peer: usize, lane: Lane, answer: Option<u8>) {
        if answer == Some(CTS) {
            return self.stream_instead(peer, lane);
        }
        let copy = self.take_first(peer, lane);
        if lane.is_out() {
            self.finish(copy.request);
        } else {
            finish_receive(&mut self.requests, copy.request);
        }
        if let Some(answer) = answer {
            self.send_control(peer, answer, copy.message);
        }
    }

    /// The message goes through the bulk ring, from its first byte. An announced one's sender is notified, if
    /// it does not know.
    fn stream_instead(&mut self, peer: usize, lane: Lane) {
        let copy = self.take_first(peer, lane);
        if lane.is_out() {
            let stream = Stream::new(copy.message, copy.request);
            self.peers[peer].streams.push_back(stream);
            self.push_out(peer);
            return;
        }
        let bytes = self.requests.get(copy.request).bytes;
        let sink = Sink::matched(bytes, copy.request, copy.since);
        self.peers[peer].sinks.push(copy.message, sink);
        if !matches!(copy.state, State::Together { .. }) {
            self.send_control(peer, CTS, copy.message);
        }
    }
}
