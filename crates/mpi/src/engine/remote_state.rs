//! State of the engine for ranks of other nodes besides the channel: credit, what waits for room, what
//! streams in.

use std::collections::{HashMap, VecDeque};

use tutti_channel::{BulkError, SendError};
use tutti_datatype::Buffer;
use tutti_runtime::guests::Guests;
use tutti_runtime::net::DATAGRAM_BYTES_MAX;
use tutti_runtime::router::Outbox;
use tutti_runtime::wrong::Wrong;
use tutti_shm::envelope::{CONTEXTS_PER_COMM, CREDIT, EAGER, HEAD_BYTES, Head, SIGNED_HEAD_BYTES};
use tutti_shm::names::Names;

use super::backlog::Backlog;
use super::far_receives::{FarWrites, Offers};
use super::message::{EAGER_CREDIT_BYTES, EAGER_OVERHEAD_BYTES, Message, Mode, REMOTE_EAGER_BYTES_MAX};
use super::names::Questions;
use super::numbered::Numbered;
use crate::check_mode;

/// State of the engine for ranks of other nodes, besides the channel.
#[derive(Debug)]
pub(super) struct State {
    /// By world rank; those of this node are never used.
    pub peers: Vec<Peer>,
    /// Matched messages that are to be accepted in bulk.
    pub to_accept: VecDeque<Accept>,
    /// Cleared messages that are to be sent in bulk.
    pub to_send: VecDeque<Cts>,
    /// Peers with a backlog, each once.
    pub busy: Vec<usize>,
    /// Bytes of data in a record.
    pub record_data_max: usize,
    /// About published names.
    pub questions: Questions,
    /// First contexts of communicators for the processes of another launch, by what they are here and by
    /// the job. Empty without guests.
    pub contexts: HashMap<(u32, u64), u32>,
    /// Receives that are advertised to their senders.
    pub offers: Offers,
    /// Partitions that are held back ([`super::far_pieces`]).
    gathered: Gathered,
}

/// By what records and bulk messages leave: the network of the job, or the connections to guests.
pub(super) trait Outlet {
    /// Puts a record into the FIFO to a rank.
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError>;
    /// Makes room for a bulk message; its sender needs the name.
    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError>;
    /// Makes room for a bulk message that may never come; the same.
    fn offer_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError>;
    /// Confirms that the message of such room comes, and is of so many bytes; false: more of it is here
    /// already.
    fn confirm_bulk(&mut self, name: u64, bytes: usize) -> bool;
    /// Takes such room back.
    fn cancel_bulk(&mut self, name: u64);
    /// Begins to send a bulk message under the name that its receiver gave it.
    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Result<(), BulkError>;
}

impl Outlet for Outbox<'_> {
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        Outbox::try_send(self, to, head, body)
    }

    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        Outbox::accept_bulk(self, from, bytes, tag)
    }

    fn offer_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        Outbox::offer_bulk(self, from, bytes, tag)
    }

    fn confirm_bulk(&mut self, name: u64, bytes: usize) -> bool {
        Outbox::confirm_bulk(self, name, bytes)
    }

    fn cancel_bulk(&mut self, name: u64) {
        Outbox::cancel_bulk(self, name);
    }

    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Result<(), BulkError> {
        Outbox::send_bulk(self, to, name, bytes, tag)
    }
}

impl Outlet for Guests {
    fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        Guests::try_send(self, to, head, body)
    }

    fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        Ok(Guests::accept_bulk(self, from, bytes, tag))
    }

    // Nothing is advertised to guests.
    fn offer_bulk(&mut self, _from: usize, _bytes: usize, _tag: u64) -> Result<u64, BulkError> {
        Err(BulkError::Full)
    }

    fn confirm_bulk(&mut self, _name: u64, _bytes: usize) -> bool {
        false
    }

    fn cancel_bulk(&mut self, _name: u64) {}

    fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Result<(), BulkError> {
        Guests::send_bulk(self, to, name, bytes, tag);
        Ok(())
    }
}

/// Operations that hold partitions back.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Each once.
    pub(super) owners: Vec<u32>,
    /// Memory for the next piece to be sent.
    pub(super) memory: Box<[u8]>,
}

/// State of the engine for a rank of another node.
#[derive(Debug, Default)]
pub(super) struct Peer {
    /// Queue of what waits for room in the FIFO, in order.
    pub backlog: Backlog<Outgoing>,
    /// Requests of the announced sends.
    pub rendezvous: Numbered<u32>,
    /// The message that is streaming in.
    pub inbound: Option<Inbound>,
    /// Number of the next message that streams in.
    pub next_inbound: u32,
    /// Number of the next message to the rank.
    pub next_message: u32,
    /// The job of a guest; 0 for ranks of this one.
    pub job: u64,
    /// Whether the rank has left the job, and all that it has sent has been taken. Not for guests.
    pub has_exited: bool,
    /// Receives that came first.
    pub far: FarWrites,
    eager_sent: u64,
    eager_known_released: u64,
    /// Of the rank, by what its credit allows.
    eager_taken: u64,
    eager_released: u64,
    eager_published: u64,
}

/// Entry that waits for room in a FIFO.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A record without data.
    Control(Head),
    /// A record of few data that no request has.
    Record(Box<(Head, Vec<u8>)>),
    /// A send that has not started.
    Send { request: u32, mode: Mode },
    /// An eager message of several records, of which so many bytes are in the FIFO.
    Rest { request: u32, offset: usize },
}

/// An eager message of several records on its way in.
#[derive(Debug)]
pub(super) struct Inbound {
    /// Name of the message among the unexpected ones.
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
    /// Of the message that have a place in its receive.
    pub bytes: usize,
}

impl State {
    /// State before any exchange, in a job of so many ranks.
    pub(super) fn new(ranks: usize, record_bytes_max: usize, names: Names) -> Self {
        State {
            peers: (0..ranks).map(|_| Peer::default()).collect(),
            to_accept: VecDeque::new(),
            to_send: VecDeque::new(),
            busy: Vec::new(),
            record_data_max: record_bytes_max
                - if check_mode::is_on() { SIGNED_HEAD_BYTES } else { HEAD_BYTES },
            questions: Questions::new(names),
            contexts: HashMap::new(),
            offers: Offers::default(),
            gathered: Gathered::default(),
        }
    }

    /// Partitions that are held back.
    #[inline]
    pub(super) fn gathered(&mut self) -> &mut Gathered {
        &mut self.gathered
    }

    /// A rank has ended, and no request has anything to do with it: nothing of it is kept.
    pub(super) fn forget(&mut self, rank: usize) {
        self.peers[rank] = Peer::default();
        self.busy.retain(|busy| *busy != rank);
        self.to_accept.retain(|accept| accept.from != rank);
        self.to_send.retain(|clear| clear.to != rank);
    }

    /// Translates a context of this process to that at the receiver of a message.
    #[inline]
    pub(super) fn context_at(&self, to: usize, context: u32) -> u32 {
        let job = self.peers[to].job;
        if job == 0 { context } else { self.context_at_guest(job, context) }
    }

    fn context_at_guest(&self, job: u64, context: u32) -> u32 {
        let first = context / CONTEXTS_PER_COMM * CONTEXTS_PER_COMM;
        // That of MPI_COMM_SELF is the same for all processes: there roots meet that have no communicator.
        if first == CONTEXTS_PER_COMM {
            return context;
        }
        let theirs = self.contexts.get(&(first, job));
        let theirs = theirs.unwrap_or_else(|| panic!("a message to another launch with context {context}"));
        theirs + (context - first)
    }

    /// Puts something behind what waits for room to a rank; gives its ticket there.
    pub(super) fn put_off(&mut self, to: usize, outgoing: Outgoing) -> u64 {
        if self.peers[to].backlog.is_empty() {
            self.busy.push(to);
        }
        self.peers[to].backlog.push_back(outgoing)
    }

    /// Sends a record without data, in order with everything else.
    pub(super) fn send_control(&mut self, to: usize, head: Head) {
        self.put_off(to, Outgoing::Control(head));
    }

    /// An eager message of `from` has reached a receive's buffer.
    pub(super) fn release_credit(&mut self, from: usize, bytes: usize) {
        let peer = &mut self.peers[from];
        peer.eager_released += bytes as u64 + EAGER_OVERHEAD_BYTES;
        // Every record carries the count. Alone it costs a datagram, in front of an answer that would have
        // carried it too, so it goes seldom: a sender without credit announces.
        if peer.eager_released - peer.eager_published >= EAGER_CREDIT_BYTES / 2 {
            let word = peer.eager_released;
            peer.eager_published = word;
            self.send_control(from, Head { kind: CREDIT, word, ..Head::default() });
        }
    }
}

impl Peer {
    /// A guest of this job, with which nothing was exchanged.
    pub(super) fn of_job(job: u64) -> Self {
        Peer { job, ..Peer::default() }
    }

    /// Whether so many bytes may be sent eagerly.
    pub(super) fn has_credit(&self, bytes: usize) -> bool {
        let after = self.eager_sent + bytes as u64 + EAGER_OVERHEAD_BYTES;
        after <= self.eager_known_released + EAGER_CREDIT_BYTES
    }

    /// Whether a message is sent when its receiver has asked for it, unless its receive was advertised.
    pub(super) fn asks(&self, bytes: usize, mode: Mode) -> bool {
        mode == Mode::Synchronous || bytes > REMOTE_EAGER_BYTES_MAX || !self.has_credit(bytes)
    }

    /// The rank has released so much of what was sent to it.
    pub(super) fn learn_released(&mut self, released: u64) -> Result<(), Wrong> {
        if released > self.eager_sent {
            return Err(Wrong::Credit);
        }
        self.eager_known_released = self.eager_known_released.max(released);
        Ok(())
    }

    /// The rank has sent so many bytes eagerly.
    pub(super) fn take_eager(&mut self, bytes: u64) -> Result<(), Wrong> {
        let after = self.eager_taken + bytes + EAGER_OVERHEAD_BYTES;
        if after > self.eager_released + EAGER_CREDIT_BYTES {
            return Err(Wrong::Credit);
        }
        self.eager_taken = after;
        Ok(())
    }

    /// The first record of a message of several: its data are held until a receive takes it. Gives its name
    /// among the unexpected messages.
    pub(super) fn open_inbound(&mut self, bytes: usize, data: &[u8]) -> u32 {
        let number = self.next_inbound;
        self.next_inbound = number.wrapping_add(1);
        let mut held = Vec::with_capacity(bytes);
        held.extend_from_slice(data);
        self.inbound = Some(Inbound { number, bytes, arrived: data.len(), target: Target::Held(held) });
        number
    }

    /// Counts so many bytes as sent eagerly.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.eager_sent += bytes as u64 + EAGER_OVERHEAD_BYTES;
    }

    /// The count of released bytes, to be sent with a record.
    pub(super) fn released(&mut self) -> u64 {
        self.eager_published = self.eager_released;
        self.eager_released
    }
}

impl State {
    /// Whether a send waits for its receive.
    pub(super) fn is_rendezvous(&self, to: usize, message: u32, request: u32) -> bool {
        self.peers[to].rendezvous.get(message) == Some(&request)
    }

    /// Whether this send is announced, and nothing else of it is under way.
    pub(super) fn has_rendezvous(&self, to: usize, message: u32, request: u32) -> bool {
        self.peers[to].backlog.is_empty() && self.is_rendezvous(to, message, request)
    }

    /// How far a send or a receive has come by records: each way there is one message at a time.
    pub(super) fn moved_bytes(&self, peer: usize, request: u32) -> Option<usize> {
        let peer = &self.peers[peer];
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
    pub(super) fn owes(&self) -> bool {
        let State { busy, to_accept, to_send, .. } = self;
        !to_accept.is_empty() || !to_send.is_empty() || !busy.is_empty() || !self.gathered.owners.is_empty()
    }

    /// Whether nothing is owed to other nodes but what the channel has.
    pub(super) fn is_flushed(&self) -> bool {
        // Who has left takes no announced message any more.
        let is_announced = |peer: &Peer| !peer.rendezvous.is_empty() && !peer.has_exited;
        let owes = |peer: &Peer| !peer.backlog.is_empty() || is_announced(peer);
        self.to_send.is_empty() && self.gathered.owners.is_empty() && !self.peers.iter().any(owes)
    }

    /// Puts a small message into the FIFO, if nothing waits before it and there is room and credit.
    pub(super) fn try_eager(&mut self, outbox: &mut impl Outlet, message: &Message) -> bool {
        let to = message.to as usize;
        let bytes = message.buffer.bytes;
        let context = self.context_at(to, message.context);
        let peer = &mut self.peers[to];
        if message.mode != Mode::Standard
            || bytes > self.record_data_max
            || !peer.backlog.is_empty()
            || !peer.has_credit(bytes)
        {
            return false;
        }
        let head = Head {
            kind: EAGER,
            context,
            tag: message.tag,
            length: bytes as u64,
            word: peer.released(),
            ..Head::default()
        };
        let sent = send_record(outbox, to, &head, &message.buffer, 0, bytes);
        if sent {
            peer.charge(bytes);
            peer.far.note_sent(context, message.tag);
        }
        sent
    }
}

/// Puts a record with bytes of a message into the FIFO; false when it is full.
pub(super) fn send_record(
    outbox: &mut impl Outlet,
    to: usize,
    head: &Head,
    buffer: &Buffer,
    offset: usize,
    bytes: usize,
) -> bool {
    let (encoded, head_bytes) = (head.encode(), head.bytes());
    let head = &encoded[..head_bytes];
    let sent = if buffer.map.is_none() {
        // SAFETY: the user keeps a send buffer valid until the send is done; the bytes lie inside; an empty
        // one may be null.
        let body = unsafe {
            if bytes == 0 { &[][..] } else { std::slice::from_raw_parts(buffer.at.add(offset), bytes) }
        };
        outbox.try_send(to, head, body)
    } else {
        let mut packed = [0; RECORD_BYTES_MAX];
        // SAFETY: as above; a record is not longer than the array.
        unsafe { buffer.load(offset, packed[..bytes].as_mut_ptr(), bytes) };
        outbox.try_send(to, head, &packed[..bytes])
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
