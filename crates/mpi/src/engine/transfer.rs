//! How large messages move: out through the bulk ring ([`Stream`]), in through it ([`Sink`]), or by a single copy from the
//! sender's memory ([`Pull`]).

use std::time::Instant;

use tutti_runtime::cma;
use tutti_shm::bulk_ring::Chunk;
use tutti_shm::layout::BULK_SLOT_BYTES;
use tutti_shm::sync::Ordering;

use super::pace::Way;
use super::peer::{Launched, Outgoing};
use super::{CLEAR, DONE, Engine, finish_receive};

/// A message on its way out through the bulk ring.
#[derive(Debug)]
pub struct Stream {
    /// Its number.
    pub message: u32,
    /// Its request, which holds the data.
    pub request: u32,
    /// Bytes that are in the ring or gone.
    pub offset: usize,
}

/// A message on its way in through the bulk ring.
#[derive(Debug)]
pub struct Sink {
    /// Its number, given by the sender.
    message: u32,
    /// Bytes of the whole message.
    bytes: usize,
    /// Bytes that have arrived.
    arrived: usize,
    target: Target,
    /// Whether the message was sent without asking, so that its credit is to be given back.
    eager: bool,
    /// When it was asked for, if the time it takes is to be learnt.
    since: Option<Instant>,
}

#[derive(Debug)]
enum Target {
    /// The buffer of a receive.
    Receive(u32),
    /// Memory of ours, until a receive comes.
    Held(Vec<u8>),
}

impl Sink {
    /// The sink of an eager message that no receive has taken.
    pub fn new(message: u32, bytes: usize) -> Self {
        Sink { message, bytes, arrived: 0, target: Target::Held(Vec::new()), eager: true, since: None }
    }
}

/// A matched message that the receiver is to fetch.
#[derive(Debug)]
pub struct Pull {
    from: usize,
    message: u32,
    /// Address of the data in the sender; 0 when they have gaps.
    address: u64,
    request: u32,
    offset: usize,
    /// Polls left in which the sender may begin to wait.
    patience: u32,
    /// When the first piece was copied, if the time it takes is to be learnt.
    since: Option<Instant>,
}

/// How long a receiver looks whether the sender comes into the library before it copies by itself: less than half a
/// microsecond, which the faster way makes up for.
const PATIENCE_POLLS: u32 = 30;

impl Pull {
    /// A pull that has not begun.
    pub fn new(from: usize, message: u32, address: u64, request: u32) -> Self {
        Pull { from, message, address, request, offset: 0, patience: PATIENCE_POLLS, since: None }
    }
}

impl Engine {
    /// Puts into the rings to one peer what they can take: the backlog, then the streams.
    pub(super) fn push_out(&mut self, to: usize) -> bool {
        let moved = self.push_backlog(to) | self.push_streams(to);
        if moved {
            self.job.ring(to);
        }
        moved
    }

    fn push_backlog(&mut self, to: usize) -> bool {
        let mut moved = false;
        while let Some(outgoing) = self.peers[to].backlog.pop_front() {
            match outgoing {
                Outgoing::Control { envelope, message } => {
                    if !self.peers[to].push_control(&envelope, message) {
                        self.peers[to].backlog.push_front(outgoing);
                        break;
                    }
                }
                Outgoing::Send { request, mode } => {
                    let (peer, pending) = (&mut self.peers[to], self.requests.get(request));
                    match peer.launch(pending.context, pending.tag, &pending.buffer, mode) {
                        Launched::Full => {
                            peer.backlog.push_front(outgoing);
                            break;
                        }
                        Launched::Eager => {
                            self.counters.eager += 1;
                            self.finish(request);
                        }
                        Launched::Streaming(message) => {
                            self.counters.streamed += 1;
                            peer.streams.push_back(Stream { message, request, offset: 0 });
                        }
                        Launched::Announced(message) => {
                            self.counters.announced += 1;
                            peer.announced.push((message, request));
                        }
                    }
                }
            }
            moved = true;
        }
        moved
    }

    fn push_streams(&mut self, to: usize) -> bool {
        let mut moved = false;
        while let Some(stream) = self.peers[to].streams.front() {
            let (message, request, mut offset) = (stream.message, stream.request, stream.offset);
            let buffer = &self.requests.get(request).buffer;
            let ring = &mut self.peers[to].rings.bulk_out;
            while offset < buffer.bytes {
                let Some(slot) = ring.free_slot() else { break };
                let bytes = BULK_SLOT_BYTES.min(buffer.bytes - offset);
                // SAFETY: the user keeps a send buffer valid until the send is done (MPI 3.7); the slot is ours until the
                // commit and BULK_SLOT_BYTES long.
                unsafe { buffer.load(offset, slot.as_ptr(), bytes) };
                ring.commit(Chunk { message, bytes });
                offset += bytes;
                moved = true;
            }
            if offset < buffer.bytes {
                self.peers[to].streams.front_mut().expect("just looked at").offset = offset;
                break;
            }
            self.peers[to].streams.pop_front();
            self.finish(request);
            moved = true;
        }
        moved
    }

    /// Takes what the bulk ring from one peer holds.
    pub(super) fn drain_bulk(&mut self, from: usize) -> bool {
        let mut moved = false;
        while let Some((chunk, slot)) = self.peers[from].rings.bulk_in.peek() {
            let peer = &mut self.peers[from];
            // A chunk may overtake its envelope; it waits in its slot until the envelope has been taken.
            let Some(position) = peer.sinks.iter().position(|sink| sink.message == chunk.message) else {
                break;
            };
            let sink = &mut peer.sinks[position];
            assert!(
                chunk.bytes <= sink.bytes - sink.arrived,
                "message {} is longer than its envelope says",
                chunk.message
            );
            // SAFETY: the slot is full and ours until we advance; a receive's buffer is valid until the receive is done.
            unsafe {
                match &mut sink.target {
                    Target::Receive(index) => {
                        self.requests.get(*index).buffer.store(sink.arrived, slot.as_ptr(), chunk.bytes);
                    }
                    Target::Held(data) => {
                        data.extend_from_slice(std::slice::from_raw_parts(slot.as_ptr(), chunk.bytes));
                    }
                }
            }
            sink.arrived += chunk.bytes;
            let complete = sink.arrived == sink.bytes;
            peer.rings.bulk_in.advance();
            moved = true;
            if complete {
                self.complete_sink(from, position);
            }
        }
        if moved {
            self.job.ring(from);
        }
        moved
    }

    fn complete_sink(&mut self, from: usize, position: usize) {
        let sink = self.peers[from].sinks.swap_remove(position);
        match sink.target {
            Target::Receive(index) => {
                let peer = &mut self.peers[from];
                if sink.eager {
                    peer.release_credit(sink.bytes);
                }
                if let Some(since) = sink.since {
                    peer.pace.learn(Way::Ring, sink.bytes, since.elapsed());
                }
                finish_receive(&mut self.requests, index);
            }
            Target::Held(data) => self.matching.complete_stream(from, sink.message, data.into_boxed_slice()),
        }
    }

    /// A receive takes a message that is streaming in: what is here goes to its buffer, the rest follows directly.
    pub(super) fn redirect_sink(&mut self, from: usize, number: u32, index: u32) {
        let sink = self.peers[from]
            .sinks
            .iter_mut()
            .find(|sink| sink.message == number)
            .expect("a streaming message has a sink until it is complete");
        let Target::Held(data) = std::mem::replace(&mut sink.target, Target::Receive(index)) else {
            panic!("message {number} was matched twice");
        };
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
        unsafe { self.requests.get(index).buffer.store(0, data.as_ptr(), data.len()) };
    }

    /// Goes on with messages that are fetched from the sender's memory, one piece each.
    pub(super) fn pull(&mut self) -> bool {
        let mut moved = false;
        let mut position = 0;
        while position < self.pulls.len() {
            match self.pull_piece(position) {
                Pulled::Nothing => position += 1,
                Pulled::Piece => {
                    moved = true;
                    position += 1;
                }
                Pulled::Finished(answer) => {
                    moved = true;
                    let pull = self.pulls.swap_remove(position);
                    if answer == DONE {
                        if let Some(since) = pull.since {
                            self.peers[pull.from].pace.learn(Way::SingleCopy, pull.offset, since.elapsed());
                        }
                        finish_receive(&mut self.requests, pull.request);
                    } else {
                        let bytes = self.requests.get(pull.request).bytes;
                        let target = Target::Receive(pull.request);
                        let sink = Sink {
                            message: pull.message,
                            bytes,
                            arrived: 0,
                            target,
                            eager: false,
                            since: pull.since,
                        };
                        self.peers[pull.from].sinks.push(sink);
                    }
                    self.send_control(pull.from, answer, pull.message);
                }
            }
        }
        moved
    }

    fn pull_piece(&mut self, position: usize) -> Pulled {
        let pull = &mut self.pulls[position];
        let request = self.requests.get(pull.request);
        let wanted = request.bytes.min(request.buffer.bytes);
        if wanted == 0 {
            return Pulled::Finished(DONE);
        }
        if pull.offset == 0 {
            let single_copy = self.single_copy_works && pull.address != 0 && request.buffer.map.is_none();
            let sender_waits = self.job.endpoint(pull.from).waiting.load(Ordering::Relaxed) != 0;
            if !single_copy {
                return Pulled::Finished(CLEAR);
            }
            let apart = !request.mutual && !self.oversubscribed;
            if sender_waits && apart && pull.since.is_none() {
                // Both ways can be gone, so the time is worth something.
                pull.since = Some(Instant::now());
                if self.peers[pull.from].pace.choose(wanted) == Way::Ring {
                    return Pulled::Finished(CLEAR);
                }
                pull.patience = 0;
            }
            if pull.patience > 0 && apart {
                pull.patience -= 1;
                return Pulled::Nothing;
            }
        }
        let pid = self.job.endpoint(pull.from).pid.load(Ordering::Relaxed);
        // SAFETY: the user keeps a receive buffer valid until the receive is done; offset < wanted <= its length.
        let copied = unsafe {
            cma::read(
                pid,
                pull.address + pull.offset as u64,
                request.buffer.at.add(pull.offset),
                wanted - pull.offset,
            )
        };
        match copied {
            Ok(bytes) => {
                pull.offset += bytes;
                self.counters.pulled_bytes += bytes as u64;
                if pull.offset == wanted { Pulled::Finished(DONE) } else { Pulled::Piece }
            }
            Err(_) => {
                // Not allowed here, or memory that cannot be read that way: the sender streams the whole message. An address
                // that is really bad ends the sender with SIGSEGV, as it would have ended a copy of its own.
                self.single_copy_works = false;
                (pull.offset, pull.since) = (0, None);
                Pulled::Finished(CLEAR)
            }
        }
    }
}

enum Pulled {
    Nothing,
    Piece,
    /// The sender is to be told this.
    Finished(u8),
}
