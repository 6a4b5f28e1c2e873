//! How large messages move through the bulk ring: out ([`Stream`]) and in ([`Sink`]). Other ways:
//! [`super::copies`].

use tutti_shm::bulk_ring::Chunk;

use super::Engine;
use super::device_memory;
use super::message::{Mode, finish_receive};
use super::pace::Way;
use super::peer::{Launched, Outgoing, Peer};
use super::streams::{Sink, Stream, Target};
use crate::events::{self, Event};

impl Peer {
    /// How far a send or a receive has come through the bulk ring: each way there is one message at a time.
    pub(super) fn moved_bytes(&self, request: u32) -> Option<usize> {
        let stream = self.streams.front().filter(|stream| stream.request == request);
        let is_into = |sink: &&Sink| matches!(sink.target, Target::Receive(receive) if receive == request);
        let sink = || self.sinks.get(self.arriving).filter(is_into).map(|sink| sink.arrived);
        stream.map(|stream| stream.offset).or_else(sink)
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
                Outgoing::Control { envelope, arguments } => {
                    if !self.peers[to].push_control(&envelope, &arguments) {
                        self.peers[to].backlog.push_front(outgoing);
                        break;
                    }
                }
                Outgoing::Send { request, mode } => {
                    if !self.launch(to, request, mode) {
                        self.peers[to].backlog.push_front(outgoing);
                        break;
                    }
                }
            }
            moved = true;
        }
        moved
    }

    /// Puts a send's envelope into the ring; false when there is no room.
    fn launch(&mut self, to: usize, request: u32, mode: Mode) -> bool {
        if let Some(launched) = self.write_to_advertised(to, request) {
            return launched;
        }
        let (peer, pending) = (&mut self.peers[to], self.requests.get(request));
        match peer.launch(pending.context, pending.tag, &pending.buffer, mode) {
            Launched::Full => return false,
            Launched::Eager => {
                self.counters.eager += 1;
                self.finish(request);
            }
            Launched::Streaming(message) => {
                self.counters.streamed += 1;
                peer.streams.push_back(Stream::new(message, request));
            }
            Launched::Rendezvous(message) => {
                self.counters.rendezvous += 1;
                events::raise(Event::Announced, || {
                    [to as u64, pending.tag as u64, pending.buffer.bytes as u64, 0]
                });
                peer.rendezvous.push(message, request);
                self.requests.get_mut(request).posted = u64::from(message);
            }
        }
        true
    }

    fn push_streams(&mut self, to: usize) -> bool {
        let mut moved = false;
        loop {
            let peer = &mut self.peers[to];
            let Some(stream) = peer.streams.front_mut() else { return moved };
            let request = stream.request;
            let sent = self.requests.get(request);
            if stream.offset == 0 {
                device_memory::look(&mut self.seen_pages, self.me, sent);
            }
            let buffer = &sent.buffer;
            let ring = &mut peer.rings.bulk_out;
            while stream.offset < buffer.bytes {
                let Some(slot) = ring.free_slot() else { return moved };
                let bytes = ring.piece_bytes(buffer.bytes - stream.offset);
                // SAFETY: the user keeps a send buffer valid until the send is done (MPI 3.7); the slot is
                // ours until the commit and long enough.
                let bytes = unsafe { stream.packed.load(buffer, stream.offset, slot.as_ptr(), bytes) };
                ring.commit(Chunk { message: stream.message, bytes });
                stream.offset += bytes;
                moved = true;
            }
            peer.streams.pop_front();
            self.finish(request);
            moved = true;
        }
    }

    /// Takes what the bulk ring from one peer holds.
    pub(super) fn drain_bulk(&mut self, from: usize) -> bool {
        let mut moved = false;
        while let Some((chunk, slot)) = self.peers[from].rings.bulk_in.peek() {
            let peer = &mut self.peers[from];
            // A chunk may overtake its envelope; it waits in its slot until the envelope has been taken.
            let Some(sink) = peer.sinks.get_mut(chunk.message) else { break };
            assert!(
                chunk.bytes <= sink.bytes - sink.arrived,
                "message {} is longer than its envelope says",
                chunk.message
            );
            // SAFETY: the slot is full and ours until we advance; a receive's buffer is valid until the
            // receive is done.
            unsafe {
                match &mut sink.target {
                    Target::Receive(index) => {
                        let receive = self.requests.get(*index);
                        if sink.arrived == 0 {
                            device_memory::look(&mut self.seen_pages, self.me, receive);
                        }
                        let (buffer, last) = (&receive.buffer, sink.arrived + chunk.bytes == sink.bytes);
                        sink.gathered.store(buffer, sink.arrived, slot.as_ptr(), chunk.bytes, last);
                    }
                    Target::Held(data) => {
                        data.extend_from_slice(std::slice::from_raw_parts(slot.as_ptr(), chunk.bytes));
                    }
                }
            }
            sink.arrived += chunk.bytes;
            let complete = sink.arrived == sink.bytes;
            peer.arriving = chunk.message;
            peer.rings.bulk_in.advance();
            moved = true;
            if complete {
                self.complete_sink(from, chunk.message);
            }
        }
        if moved {
            self.job.ring(from);
        }
        moved
    }

    fn complete_sink(&mut self, from: usize, number: u32) {
        let sink = self.peers[from].sinks.take(number).expect("it is there until it is complete");
        match sink.target {
            Target::Receive(index) => {
                let (peer, mut learnt) = (&mut self.peers[from], None);
                if sink.eager {
                    peer.release_credit(sink.bytes);
                }
                if let Some(since) = sink.since {
                    learnt = Some((sink.bytes, since.elapsed()));
                }
                if let Some((bytes, took)) = learnt {
                    self.peers[from].pace.learn(Way::Ring, bytes, took);
                }
                finish_receive(&mut self.requests, index);
            }
            Target::Held(data) => self.matching.complete_stream(from, number, data.into_boxed_slice()),
        }
    }

    /// A receive takes a message that is streaming in: what is here goes to its buffer, the rest follows
    /// directly.
    pub(super) fn redirect_sink(&mut self, from: usize, number: u32, index: u32) {
        let sink = self.peers[from].sinks.get_mut(number);
        let sink = sink.expect("a streaming message has a sink until it is complete");
        let Target::Held(data) = std::mem::replace(&mut sink.target, Target::Receive(index)) else {
            panic!("message {number} was matched twice");
        };
        let receive = self.requests.get(index);
        device_memory::look(&mut self.seen_pages, self.me, receive);
        // SAFETY: the user keeps a receive buffer valid until the receive is done (MPI 3.7).
        unsafe { receive.buffer.store(0, data.as_ptr(), data.len()) };
    }
}
