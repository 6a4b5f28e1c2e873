//! Peers on other nodes: the same messages as inside a node, over the records and bulk messages of a channel.
//!
//! | record | from | after the head | meaning |
//! |---|---|---|---|
//! | EAGER | sender | data | a whole small message |
//! | STREAM | sender | the first data | an eager message of several records; the rest follows in PARTs |
//! | PART | sender | data | the next of the message that is streaming |
//! | RTS | sender | - | a large or synchronous message |
//! | CTS | receiver | - | matched: send it in bulk under the name in `word` |
//! | DONE | receiver | - | matched, and there is nothing to send |
//! | CREDIT | receiver | - | nothing new but the credit in `word` |
//! | CANCEL | sender | - | an announced message is dropped if no receive has taken it |
//! | CANCELLED | receiver | - | it is dropped |
//!
//! Records arrive once and in order, so the parts of a message need no number, and matching sees messages in the order of
//! sending. The data of an announced message go from the sender's buffer into datagrams and from there into the receiver's:
//! nothing else copies them.
//!
//! What waits for room in a FIFO is the backlog; what waits for a free place among the bulk messages, `to_accept` and
//! `to_send`. All of it goes on in [`Engine::progress_remote`]. What happens on arrival stands in [`super::remote_arrival`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tutti_channel::{BulkError, Event, SendError, Source};
use tutti_datatype::Buffer;
use tutti_runtime::net::{DATAGRAM_BYTES_MAX, Net, Traffic};
use tutti_shm::envelope::{CANCEL, CREDIT, HEAD_BYTES, Head, PART, SIGNED_HEAD_BYTES};

use super::matching::Unexpected;
use super::numbered::Numbered;
use super::remote_arrival::{Arrivals, deliver};
use super::{
    CTS, Counters, EAGER, EAGER_CREDIT_BYTES, EAGER_OVERHEAD_BYTES, Engine, Message, Mode, RTS, STREAM,
    Started, finish, finish_receive,
};
use crate::check;
use crate::handle::Slab;
use crate::request::{Request, RequestKind};
use crate::service;

/// Messages up to this many bytes are sent without asking: asking costs a round trip, some 20 us.
const EAGER_BYTES_MAX: usize = 64 << 10;
/// A small message that follows another one to the same rank within this time, without a look at the network in between, waits
/// for more to come: a system call costs as much as fifty messages.
const GATHER: Duration = Duration::from_micros(10);
/// How often a wait for a rank of this node looks at the socket: an empty look costs 0.3 us (F13).
const LOOK: Duration = Duration::from_micros(20);
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// Everything that concerns ranks of other nodes.
#[derive(Debug)]
pub struct Remote {
    net: Net,
    state: State,
    polls: u32,
    polled: Instant,
    /// Looks at the socket, counted.
    looks: u64,
    /// Records wait in a FIFO that could be sent.
    unsent: bool,
}

/// What the engine knows of them besides the channel.
#[derive(Debug)]
pub(super) struct State {
    /// By world rank; those of this node are never used.
    pub peers: Vec<Peer>,
    /// Matched messages that are to be accepted in bulk.
    pub to_accept: VecDeque<Accept>,
    /// Cleared messages that are to be sent in bulk.
    pub to_send: VecDeque<Cts>,
    /// Peers with a backlog, each once.
    busy: Vec<usize>,
    record_data_max: usize,
}

/// What the engine keeps for a rank of another node.
#[derive(Debug, Default)]
pub(super) struct Peer {
    backlog: VecDeque<Outgoing>,
    /// Requests of the announced sends.
    pub rendezvous: Numbered<u32>,

    /// The message that is streaming in.
    pub inbound: Option<Inbound>,
    /// Number of the next message that streams in.
    pub next_inbound: u32,
    next_message: u32,
    /// When a small message last left at once, and how many looks there had been.
    left: Option<(u64, Instant)>,
    eager_sent: u64,
    pub eager_known_released: u64,
    eager_released: u64,
    eager_published: u64,
}

#[derive(Debug)]
enum Outgoing {
    Control(Head),
    Send {
        request: u32,
        mode: Mode,
    },
    /// An eager message of several records, of which so many bytes are in the FIFO.
    Rest {
        request: u32,
        offset: usize,
    },
}

/// An eager message of several records on its way in.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Its name among the unexpected messages.
    pub number: u32,
    pub bytes: usize,
    pub arrived: usize,
    pub target: Target,
}

#[derive(Debug)]
pub(super) enum Target {
    /// The buffer of a receive.
    Receive(u32),
    /// Memory of ours, until a receive comes.
    Held(Vec<u8>),
}

/// A matched message that is to come in bulk.
#[derive(Debug)]
pub(super) struct Accept {
    pub from: usize,
    pub number: u32,
    pub request: u32,
    pub bytes: usize,
}

/// A message that its receiver has cleared.
#[derive(Debug)]
pub(super) struct Cts {
    pub to: usize,
    pub name: u64,
    pub request: u32,
}

impl State {
    fn new(ranks: usize, record_bytes_max: usize) -> Self {
        State {
            peers: (0..ranks).map(|_| Peer::default()).collect(),
            to_accept: VecDeque::new(),
            to_send: VecDeque::new(),
            busy: Vec::new(),
            record_data_max: record_bytes_max - if check::is_on() { SIGNED_HEAD_BYTES } else { HEAD_BYTES },
        }
    }

    fn put_off(&mut self, to: usize, outgoing: Outgoing) {
        if self.peers[to].backlog.is_empty() {
            self.busy.push(to);
        }
        self.peers[to].backlog.push_back(outgoing);
    }

    /// Sends a record without data, in order with everything else.
    pub fn send_control(&mut self, to: usize, head: Head) {
        self.put_off(to, Outgoing::Control(head));
    }

    /// An eager message of `from` has reached a receive's buffer.
    pub fn release_credit(&mut self, from: usize, bytes: usize) {
        let peer = &mut self.peers[from];
        peer.eager_released += bytes as u64 + EAGER_OVERHEAD_BYTES;
        // Every record carries the count. Alone it costs a datagram, in front of an answer that would have carried it too, so it goes
        // seldom: a sender without credit announces.
        if peer.eager_released - peer.eager_published >= EAGER_CREDIT_BYTES / 2 {
            let word = peer.eager_released;
            peer.eager_published = word;
            self.send_control(from, Head { kind: CREDIT, word, ..Head::default() });
        }
    }
}

impl Peer {
    fn has_credit(&self, bytes: usize) -> bool {
        let after = self.eager_sent + bytes as u64 + EAGER_OVERHEAD_BYTES;
        after <= self.eager_known_released + EAGER_CREDIT_BYTES
    }

    fn charge(&mut self, bytes: usize) {
        self.eager_sent += bytes as u64 + EAGER_OVERHEAD_BYTES;
    }

    /// The count of released bytes, to be sent with a record.
    fn released(&mut self) -> u64 {
        self.eager_published = self.eager_released;
        self.eager_released
    }
}

impl Remote {
    /// The way to the ranks of other nodes, in a job of so many ranks.
    pub fn new(net: Net, ranks: usize) -> Self {
        let state = State::new(ranks, net.record_bytes_max());
        Remote { net, state, polls: 0, polled: Instant::now(), looks: 0, unsent: false }
    }

    /// Whether a send waits for its receive.
    pub fn is_rendezvous(&self, to: usize, message: u32, request: u32) -> bool {
        self.state.peers[to].rendezvous.get(message) == Some(&request)
    }

    /// How far a send or a receive has come by records: each way there is one message at a time.
    pub fn moved_bytes(&self, peer: usize, request: u32) -> Option<usize> {
        let peer = &self.state.peers[peer];
        let sent = match peer.backlog.front() {
            Some(Outgoing::Rest { request: send, offset }) if *send == request => Some(*offset),
            _ => None,
        };
        let is_into =
            |inbound: &&Inbound| matches!(inbound.target, Target::Receive(receive) if receive == request);
        let inbound = peer.inbound.as_ref().filter(is_into);
        sent.or_else(|| inbound.map(|inbound| inbound.arrived))
    }

    /// Whether something waits for room, or for a place among the bulk messages.
    pub fn owes(&self) -> bool {
        let State { busy, to_accept, to_send, .. } = &self.state;
        !to_accept.is_empty() || !to_send.is_empty() || !busy.is_empty()
    }

    /// Whether nothing is owed to other nodes.
    pub fn is_flushed(&self) -> bool {
        let owes = |peer: &Peer| !peer.backlog.is_empty() || !peer.rendezvous.is_empty();
        self.net.is_quiet() && self.state.to_send.is_empty() && !self.state.peers.iter().any(owes)
    }

    /// Whether the socket is to be looked at: always when the wait is for another node, else now and then.
    #[inline]
    fn is_due(&mut self, for_local: bool) -> bool {
        if !for_local {
            return true;
        }
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return false;
        }
        let now = Instant::now();
        let due = now.duration_since(self.polled) >= LOOK;
        if due {
            self.polled = now;
        }
        due
    }

    /// Puts a small message into the FIFO, if nothing waits before it and there is room and credit.
    fn try_eager(&mut self, message: &Message) -> bool {
        let to = message.to as usize;
        let bytes = message.buffer.bytes;
        let peer = &mut self.state.peers[to];
        if message.mode != Mode::Standard
            || bytes > self.state.record_data_max
            || !peer.backlog.is_empty()
            || !peer.has_credit(bytes)
        {
            return false;
        }
        let head = Head {
            kind: EAGER,
            context: message.context,
            tag: message.tag,
            length: bytes as u64,
            word: peer.released(),
            ..Head::default()
        };
        let sent = send_record(&mut self.net, to, &head, &message.buffer, 0, bytes);
        if sent {
            peer.charge(bytes);
        }
        sent
    }

    /// Whether this send is announced, and nothing else of it is under way.
    fn has_rendezvous(&self, to: usize, message: u32, request: u32) -> bool {
        self.state.peers[to].backlog.is_empty() && self.is_rendezvous(to, message, request)
    }

    /// Whether a small message in the FIFO to a rank may wait for others to go with it. The first of a burst goes at once, and
    /// a rank that has heard something since may be awaited.
    fn may_wait(&mut self, to: usize) -> bool {
        let now = Instant::now();
        let peer = &mut self.state.peers[to];
        let follows =
            peer.left.is_some_and(|(looks, at)| looks == self.looks && now.duration_since(at) < GATHER);
        self.unsent = follows && service::will_poll();
        if !self.unsent {
            peer.left = Some((self.looks, now));
        }
        self.unsent
    }

    /// Puts into the FIFOs what they take.
    fn push_out(&mut self, requests: &mut Slab<Request>, counters: &mut Counters) {
        let mut position = 0;
        while let Some(&to) = self.state.busy.get(position) {
            while let Some(outgoing) = self.state.peers[to].backlog.pop_front() {
                if let Some(again) = self.push_one(to, outgoing, requests, counters) {
                    self.state.peers[to].backlog.push_front(again);
                    break;
                }
            }
            if self.state.peers[to].backlog.is_empty() {
                self.state.busy.swap_remove(position);
            } else {
                position += 1;
            }
        }
    }

    /// Sends one thing of the backlog, or gives back what is left of it when the FIFO is full.
    fn push_one(
        &mut self,
        to: usize,
        outgoing: Outgoing,
        requests: &mut Slab<Request>,
        counters: &mut Counters,
    ) -> Option<Outgoing> {
        match outgoing {
            Outgoing::Control(head) => {
                let sent = send_record(&mut self.net, to, &head, &Buffer::empty(), 0, 0);
                (!sent).then_some(Outgoing::Control(head))
            }
            Outgoing::Send { request, mode } => self.launch(to, request, mode, requests, counters),
            Outgoing::Rest { request, mut offset } => {
                let buffer = &requests.get(request).buffer;
                let head = Head { kind: PART, ..Head::default() };
                while offset < buffer.bytes {
                    let bytes = self.state.record_data_max.min(buffer.bytes - offset);
                    if !send_record(&mut self.net, to, &head, buffer, offset, bytes) {
                        return Some(Outgoing::Rest { request, offset });
                    }
                    offset += bytes;
                }
                finish(requests, request);
                None
            }
        }
    }

    /// Starts a message in the way that fits it.
    fn launch(
        &mut self,
        to: usize,
        request: u32,
        mode: Mode,
        requests: &mut Slab<Request>,
        counters: &mut Counters,
    ) -> Option<Outgoing> {
        let pending = requests.get(request);
        let bytes = pending.buffer.bytes;
        let peer = &mut self.state.peers[to];
        let asks = mode == Mode::Synchronous || bytes > EAGER_BYTES_MAX || !peer.has_credit(bytes);
        let first = if asks { 0 } else { bytes.min(self.state.record_data_max) };
        let head = Head {
            kind: if asks {
                RTS
            } else if first == bytes {
                EAGER
            } else {
                STREAM
            },
            context: pending.context,
            tag: pending.tag,
            number: peer.next_message,
            length: bytes as u64,
            word: peer.released(),
            signature: pending.buffer.word().0,
        };
        if !send_record(&mut self.net, to, &head, &pending.buffer, 0, first) {
            return Some(Outgoing::Send { request, mode });
        }
        peer.next_message = peer.next_message.wrapping_add(1);
        if asks {
            counters.rendezvous += 1;
            peer.rendezvous.push(head.number, request);
            requests.get_mut(request).posted = u64::from(head.number);
            return None;
        }
        peer.charge(bytes);
        if first == bytes {
            counters.eager += 1;
            finish(requests, request);
            return None;
        }
        counters.streamed += 1;
        let rest = Outgoing::Rest { request, offset: first };
        self.push_one(to, rest, requests, counters)
    }

    /// Accepts and sends in bulk as far as there are places.
    fn push_bulk(&mut self, requests: &mut Slab<Request>) {
        while let Some(accept) = self.state.to_accept.front() {
            match self.net.accept_bulk(accept.from, accept.bytes, u64::from(accept.request)) {
                Ok(word) => {
                    let (from, number) = (accept.from, accept.number);
                    self.state.send_control(from, Head { kind: CTS, number, word, ..Head::default() });
                }
                Err(BulkError::Full) => break,
                Err(error) => panic!("a message of rank {} cannot be accepted: {error}", accept.from),
            }
            self.state.to_accept.pop_front();
        }
        while let Some(clear) = self.state.to_send.front() {
            let bytes = requests.get(clear.request).buffer.bytes;
            match self.net.send_bulk(clear.to, clear.name, bytes, u64::from(clear.request)) {
                Ok(()) => {}
                Err(BulkError::Full) => break,
                Err(error) => panic!("a message cannot be sent to rank {}: {error}", clear.to),
            }
            self.state.to_send.pop_front();
        }
    }

    /// Finishes what the channel has finished.
    fn take_events(&mut self, requests: &mut Slab<Request>) -> bool {
        let mut moved = false;
        while let Some(event) = self.net.poll_event() {
            moved = true;
            match event {
                Event::BulkSent { tag, .. } => finish(requests, tag as u32),
                Event::BulkReceived { tag, .. } => finish_receive(requests, tag as u32),
                Event::BulkRefused { to, .. } => panic!("rank {} refuses a message that it cleared", to.0),
                // It has left MPI_Finalize: whatever it did not take, nobody waits for.
                Event::PeerExited { .. } => {}
            }
        }
        moved
    }
}

impl Engine {
    /// Starts a send to a rank of another node.
    pub(super) fn send_to_node(&mut self, message: Message) -> Started {
        let to = message.to as usize;
        let remote = self.remote.as_deref_mut().expect("a rank of another node is known by its network");
        if !check::is_on() && remote.try_eager(&message) {
            self.counters.eager += 1;
            if !remote.may_wait(to) {
                self.transmit();
            }
            return Started::Done;
        }
        let mut request =
            Request::new(RequestKind::Send, message.buffer, message.context, to as i32, message.tag);
        request.bytes = request.buffer.bytes;
        let index = self.requests.insert(request);
        remote.state.put_off(to, Outgoing::Send { request: index, mode: message.mode });
        remote.push_out(&mut self.requests, &mut self.counters);
        // Of a burst of announcements all but the first go together, as small messages do.
        let message = self.requests.get(index).posted as u32;
        if !remote.has_rendezvous(to, message, index) || !remote.may_wait(to) {
            self.transmit();
        }
        // A checked send stays until the program has completed it.
        if self.requests.get(index).done && !check::is_on() {
            self.requests.remove(index);
            return Started::Done;
        }
        Started::Pending(index)
    }

    /// Withdraws a send to another node that is not matched yet; its receiver is asked, if it knows of it.
    pub(super) fn cancel_send_to_node(&mut self, to: usize, number: u32, index: u32) {
        let remote = self.remote.as_deref_mut().expect("a rank of another node is known by its network");
        let peer = &mut remote.state.peers[to];
        let waits = |one: &Outgoing| matches!(one, Outgoing::Send { request, .. } if *request == index);
        if let Some(position) = peer.backlog.iter().position(waits) {
            peer.backlog.remove(position);
            if peer.backlog.is_empty() {
                remote.state.busy.retain(|busy| *busy != to);
            }
            self.finish_cancelled(index);
        } else if remote.is_rendezvous(to, number, index) {
            remote.state.send_control(to, Head { kind: CANCEL, number, ..Head::default() });
            remote.push_out(&mut self.requests, &mut self.counters);
            self.transmit();
        }
    }

    /// Brings a message of another node and the receive that takes it together.
    pub(super) fn deliver_from_node(&mut self, from: usize, message: Unexpected, index: u32) {
        let remote = self.remote.as_deref_mut().expect("a message of another node has come over its network");
        deliver(&mut remote.state, &mut self.requests, from, message, index);
        self.advance_remote();
    }

    /// An unexpected eager message of a rank has reached a receive's buffer.
    pub(super) fn release_credit(&mut self, from: usize, bytes: usize) {
        if self.peers.has(from) {
            if from != self.me {
                self.peers[from].release_credit(bytes);
            }
        } else if let Some(remote) = self.remote.as_deref_mut() {
            remote.state.release_credit(from, bytes);
            service::sent();
        }
    }

    /// Moves whatever can be moved to and from other nodes. `for_local`: the caller waits for a rank of this node.
    #[inline]
    pub(super) fn progress_remote(&mut self, for_local: bool) -> bool {
        if self.remote.as_deref_mut().is_none_or(|remote| !remote.is_due(for_local)) {
            return false;
        }
        service::polled();
        self.poll_remote()
    }

    /// Looks at the socket and the timers.
    pub fn poll_remote(&mut self) -> bool {
        let Engine { remote, requests, matching, counters, .. } = self;
        let Some(remote) = remote.as_deref_mut() else { return false };
        remote.looks += 1;
        let moved =
            remote.net.receive(&mut Arrivals { state: &mut remote.state, requests, matching, counters });
        remote.net.handle_timeout();
        self.advance_remote() | moved
    }

    /// What was counted by now, the job's turns included.
    pub fn counted(&self) -> Counters {
        let rtr = self.job.clock().turns();
        Counters { thaws: rtr.thaw_count, frozen_us: rtr.frozen_ns_total / 1000, ..self.counters }
    }

    /// What has become of this rank's datagrams, if it has a network.
    pub fn traffic(&self) -> Option<Traffic> {
        Some(self.remote.as_deref()?.net.traffic())
    }

    /// Whether small messages wait for others to go with them.
    pub fn has_unsent(&self) -> bool {
        self.remote.as_deref().is_some_and(|remote| remote.unsent)
    }

    /// How long until a timer of the network is due, if there is one.
    pub fn network_timeout(&self) -> Option<Duration> {
        self.remote.as_deref()?.net.timeout_ns().map(Duration::from_nanos)
    }

    /// Nothing waits for the socket, and no timer is set: whatever comes next comes from others or from the program.
    pub fn is_network_clear(&self) -> bool {
        self.remote.as_deref().is_none_or(|remote| remote.net.is_clear())
    }

    /// Does what arrivals and events have made possible, and sends.
    fn advance_remote(&mut self) -> bool {
        let Some(remote) = self.remote.as_deref_mut() else { return false };
        let moved = remote.take_events(&mut self.requests);
        remote.push_bulk(&mut self.requests);
        remote.push_out(&mut self.requests, &mut self.counters);
        self.transmit();
        moved
    }

    fn transmit(&mut self) {
        let Engine { remote, requests, .. } = self;
        if let Some(remote) = remote.as_deref_mut() {
            remote.unsent = false;
            remote.net.transmit(&mut Outbound { requests });
            service::sent();
        }
    }
}

/// The data of bulk messages, read when they are put into datagrams.
struct Outbound<'a> {
    requests: &'a Slab<Request>,
}

impl Source for Outbound<'_> {
    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        let buffer = &self.requests.get(tag as u32).buffer;
        // SAFETY: the user keeps a send buffer valid until the send is done (MPI 3.7); the channel asks for bytes of the message.
        unsafe { buffer.load(offset as usize, into.as_mut_ptr(), into.len()) };
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        let buffer = &self.requests.get(tag as u32).buffer;
        // SAFETY: as above, and nobody writes there: the send is not done while the channel asks.
        (buffer.map.is_none())
            .then(|| unsafe { std::slice::from_raw_parts(buffer.at.add(offset as usize), bytes) })
    }
}

/// Puts a record with bytes of a message into the FIFO; false when it is full.
fn send_record(net: &mut Net, to: usize, head: &Head, buffer: &Buffer, offset: usize, bytes: usize) -> bool {
    let (encoded, head_bytes) = (head.encode(), head.bytes());
    let head = &encoded[..head_bytes];
    let sent = if buffer.map.is_none() {
        // SAFETY: the user keeps a send buffer valid until the send is done; the bytes lie inside; an empty one may be null.
        let body = unsafe {
            if bytes == 0 { &[][..] } else { std::slice::from_raw_parts(buffer.at.add(offset), bytes) }
        };
        net.try_send(to, head, body)
    } else {
        let mut packed = [0; RECORD_BYTES_MAX];
        // SAFETY: as above; a record is not longer than the array.
        unsafe { buffer.load(offset, packed[..bytes].as_mut_ptr(), bytes) };
        net.try_send(to, head, &packed[..bytes])
    };
    match sent {
        Ok(()) => true,
        Err(SendError::Full) => false,
        // Its message would never be received; the program that sends it is wrong, but so it may end.
        Err(SendError::Exited(_)) => true,
        Err(error) => panic!("a record to rank {to} is refused: {error}"),
    }
}

/// Bytes of data in a record, at most: those of the longest datagram.
const RECORD_BYTES_MAX: usize = DATAGRAM_BYTES_MAX;
