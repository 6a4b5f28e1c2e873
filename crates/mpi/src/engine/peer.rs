//! State of the engine for one peer: rings, what could not be sent yet, what streams out and in.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::ops::{Index, IndexMut};
use std::ptr::NonNull;

use tutti_datatype::Buffer;
use tutti_rma::copy::Cut;
use tutti_runtime::job::{Job, Rings};
use tutti_shm::envelope_ring::Envelope;
use tutti_shm::greetings::{Greeted, Greetings};
use tutti_shm::numbers::Numbers;

use super::backlog::Backlog;
use super::lanes::Lanes;
use super::message::{
    EAGER_CREDIT_BYTES, EAGER_OVERHEAD_BYTES, INLINE_BYTES_MAX, LOCAL_EAGER_BYTES_MAX, Message, Mode,
};
use super::numbered::Numbered;
use super::pace::Pace;
use super::rtr::{RtrReceiver, RtrSender};
use super::streams::{Sink, Stream};
use crate::check_mode;
use tutti_shm::envelope::{EAGER, RTS, STREAM, WRITE};

/// The peers of this node, by world rank. Each is there from its first use on, or from its greeting: so
/// memory and looks are spent on those alone that this rank has to do with.
#[derive(Debug)]
pub(super) struct Peers {
    job: Job,
    numbers: Numbers,
    /// By their places on the node.
    list: Vec<OnceCell<Box<Peer>>>,
    /// World ranks of those that are there.
    met: RefCell<Vec<usize>>,
    own_greetings: NonNull<Greetings>,
    greeted: Greeted,
}

impl Peers {
    /// The ranks of the node that are in the job now; nobody has been met yet. Made once in a process.
    pub(super) fn new(job: &Job) -> Self {
        let mut peers = Peers {
            numbers: job.present_ranks(),
            list: Vec::new(),
            met: RefCell::default(),
            own_greetings: NonNull::from(job.greetings(job.rank())),
            greeted: Greeted::default(),
            job: job.clone(),
        };
        peers.grow(peers.numbers);
        peers
    }

    /// Adds ranks of this node that are new.
    pub(super) fn grow(&mut self, ranks: Numbers) {
        self.list.resize_with(ranks.len(), OnceCell::new);
        self.greeted.grow(ranks.len());
        self.numbers = ranks;
    }

    /// World ranks of the peers.
    #[inline(always)]
    pub(super) fn ranks(&self) -> Numbers {
        self.numbers
    }

    /// Whether a rank is one of them.
    #[inline(always)]
    pub(super) fn has(&self, rank: usize) -> bool {
        self.numbers.contains(rank)
    }

    /// Whether a rank of the node has been met.
    #[inline(always)]
    pub(super) fn has_met(&self, rank: usize) -> bool {
        self.list[self.numbers.index_of(rank)].get().is_some()
    }

    /// How many have been met, those among them that have greeted.
    #[inline(always)]
    pub(super) fn meet(&mut self) -> usize {
        // SAFETY: in the segment, which stays mapped as long as the job that we have.
        if self.greeted.has_news(unsafe { self.own_greetings.as_ref() }) {
            self.meet_greeters();
        }
        self.met.get_mut().len()
    }

    #[cold]
    fn meet_greeters(&mut self) {
        let greetings = self.job.greetings(self.job.rank());
        while let Some(place) = self.greeted.take(greetings, self.list.len()) {
            self.list[place].get_or_init(|| meet(&self.job, &self.met, self.numbers.rank_at(place)));
        }
    }

    /// World rank of one that has been met.
    #[inline(always)]
    pub(super) fn met(&mut self, number: usize) -> usize {
        self.met.get_mut()[number]
    }

    /// The one of a world rank, if it is one of them.
    #[inline(always)]
    pub(super) fn find_mut(&mut self, rank: usize) -> Option<&mut Peer> {
        let place = self.list.get_mut(self.numbers.index_of(rank))?;
        if place.get().is_none() {
            let _ = place.set(meet(&self.job, &self.met, rank));
        }
        place.get_mut().map(|peer| &mut **peer)
    }

    /// Gives one other rings: its rank is another process from now on.
    pub(super) fn renew(&mut self, rank: usize, rings: Rings) {
        self[rank] = Peer::new(rings);
    }

    /// Peers that have been met.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.list.iter().filter_map(|peer| peer.get()).map(|peer| &**peer)
    }
}

/// The first use of a peer: it is notified, before anything is sent.
#[cold]
fn meet(job: &Job, met: &RefCell<Vec<usize>>, rank: usize) -> Box<Peer> {
    if rank != job.rank() {
        job.greetings(rank).greet(job.local_ranks().index_of(job.rank()));
    }
    met.borrow_mut().push(rank);
    // SAFETY: called once for each peer; the rings stay inside the engine, which has the job that they belong
    // to.
    Box::new(Peer::new(unsafe { job.rings(rank) }))
}

impl Index<usize> for Peers {
    type Output = Peer;

    #[inline(always)]
    fn index(&self, rank: usize) -> &Peer {
        self.list[self.numbers.index_of(rank)].get_or_init(|| meet(&self.job, &self.met, rank))
    }
}

impl IndexMut<usize> for Peers {
    #[inline(always)]
    fn index_mut(&mut self, rank: usize) -> &mut Peer {
        self.find_mut(rank).expect("a rank of this node")
    }
}

/// Everything that concerns one peer.
#[derive(Debug)]
pub(super) struct Peer {
    /// The rings in both directions.
    pub rings: Rings,
    /// Queue of what waits for room in the envelope ring, in order.
    pub backlog: Backlog<Outgoing>,
    /// Messages on their way out through the bulk ring, in order.
    pub streams: VecDeque<Stream>,
    /// Messages on their way in through the bulk ring, one after the other.
    pub sinks: Numbered<Sink>,
    /// Which of `sinks` got data last.
    pub arriving: u32,
    /// Requests of the announced sends that wait for CTS, COOP or FIN.
    pub rendezvous: Numbered<u32>,
    /// Single copies between the memories of the two ranks.
    pub copies: Lanes,
    /// How fast its large messages come.
    pub pace: Pace,
    /// False once the kernel has refused a copy between this rank and the peer.
    pub single_copy_works: bool,
    /// Whether the peer has asked for an announced message as a stream.
    pub streamed: bool,
    /// A written message to the peer has the joint.
    pub writing: bool,
    /// An announced message of the peer has the joint.
    pub cooperating: bool,
    /// Number of the last announced message of the peer that both copy.
    pub next_coop: u32,
    /// Joints that are of no use any more: of messages to the peer, of messages from it.
    pub broken_out: [bool; 2],
    /// See `broken_out`.
    pub broken_in: [bool; 2],
    /// Receives that the peer has advertised to us.
    pub rtr: RtrSender,
    /// Receives that we have advertised to the peer.
    pub advertising: RtrReceiver,
    next_written: u32,
    next_message: u32,
    inline_bytes_max: usize,
    eager_sent: u64,
    /// Up to where `eager_sent` may go, as far as is known.
    eager_sent_max: u64,
    eager_released: u64,
    /// From where on `eager_released` is sent to the peer.
    eager_told_from: u64,
}

/// Entry that waits for room in the envelope ring.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A control message about a message of the peer.
    Control {
        /// Header of the control message.
        envelope: Envelope,
        /// The words behind it.
        arguments: [u64; 5],
    },
    /// A send that has not started.
    Send {
        /// Request of the send.
        request: u32,
        /// Completion mode of the send.
        mode: Mode,
    },
}

/// A message to an advertised receive.
#[derive(Debug)]
pub(super) struct Written<'a> {
    /// Context of the communicator.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Data.
    pub buffer: &'a Buffer,
    /// Number of the advertised receive.
    pub receive: u64,
    /// How it is cut for copying, unless it is streamed.
    pub cut: Option<Cut>,
}

/// How a message has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launched {
    /// No room; nothing was sent.
    Full,
    /// The data are in the ring.
    Eager,
    /// The envelope is in the ring; the data of this message number follow through the bulk ring.
    Streaming(u32),
    /// The receiver decides.
    Rendezvous(u32),
}

impl Peer {
    /// Whether nothing is under way in either direction.
    pub(super) fn is_idle(&self) -> bool {
        self.backlog.is_empty()
            && self.streams.is_empty()
            && self.sinks.is_empty()
            && self.rendezvous.is_empty()
            && self.copies.is_empty()
            && !self.writing
            && !self.cooperating
    }

    /// A peer that nothing was exchanged with.
    pub(super) fn new(rings: Rings) -> Self {
        // A checked message says what it is, for which an envelope with data has no place.
        let inline_bytes_max =
            if check_mode::is_on() { 0 } else { rings.out.inline_bytes_max().min(INLINE_BYTES_MAX) };
        Peer {
            rings,
            backlog: Backlog::default(),
            streams: VecDeque::new(),
            sinks: Numbered::default(),
            arriving: 0,
            rendezvous: Numbered::default(),
            copies: Lanes::default(),
            pace: Pace::default(),
            single_copy_works: true,
            streamed: false,
            writing: false,
            cooperating: false,
            next_coop: 0,
            broken_out: [false; 2],
            broken_in: [false; 2],
            rtr: RtrSender::default(),
            advertising: RtrReceiver::default(),
            next_written: 0,
            next_message: 0,
            inline_bytes_max,
            eager_sent: 0,
            eager_sent_max: EAGER_CREDIT_BYTES,
            eager_released: 0,
            eager_told_from: EAGER_CREDIT_BYTES / 8,
        }
    }

    /// Whether more than the inbox must be looked at.
    #[inline(always)]
    pub(super) fn is_busy(&self) -> bool {
        !self.sinks.is_empty() || !self.streams.is_empty() || !self.backlog.is_empty()
    }

    /// Whether messages to this peer are not in its rings yet.
    pub(super) fn owes(&self) -> bool {
        !self.streams.is_empty()
            || !self.backlog.is_empty()
            || !self.rendezvous.is_empty()
            || self.copies.has_sends()
    }

    /// Sends a small standard message at once, if ring and credit have room.
    #[inline(always)]
    pub(super) fn try_eager(&mut self, message: &Message) -> bool {
        message.mode == Mode::Standard
            && message.buffer.bytes <= self.inline_bytes_max
            && self.has_credit(message.buffer.bytes)
            && self.push_eager(message.context, message.tag, &message.buffer)
    }

    /// Starts a message in the way that fits it.
    pub(super) fn launch(&mut self, context: u32, tag: i32, buffer: &Buffer, mode: Mode) -> Launched {
        let asks = mode == Mode::Synchronous
            || buffer.bytes > LOCAL_EAGER_BYTES_MAX
            || !self.has_credit(buffer.bytes);
        if !asks && buffer.bytes <= self.inline_bytes_max {
            return if self.push_eager(context, tag, buffer) { Launched::Eager } else { Launched::Full };
        }
        let message = self.next_message;
        let kind = if asks { RTS } else { STREAM };
        let carries = asks && CARRIED_AT + buffer.bytes <= self.inline_bytes_max;
        let flags = if carries { CARRIES } else { 0 };
        let envelope = Envelope { kind, flags, context, tag, length: buffer.bytes as u64 };
        let address = if buffer.map.is_none() { buffer.at as u64 } else { 0 };
        let arguments = [u64::from(message), address, buffer.word().0, 0, 0];
        let pushed = if carries {
            self.push_with_data(&envelope, &words(&arguments)[..CARRIED_AT], buffer)
        } else {
            self.rings.out.try_push(&envelope, &words(&arguments))
        };
        if !pushed {
            return Launched::Full;
        }
        self.next_message = message.wrapping_add(1);
        self.record(context, tag);
        if asks {
            Launched::Rendezvous(message)
        } else {
            self.charge(buffer.bytes);
            Launched::Streaming(message)
        }
    }

    /// Announces a message together with its data, if the ring has room.
    #[inline(never)]
    fn push_with_data(&mut self, envelope: &Envelope, arguments: &[u8], buffer: &Buffer) -> bool {
        // SAFETY: the user's memory is valid (MPI's rule for send buffers); what is written are the arguments
        // and the data.
        unsafe {
            self.rings.out.try_push_with(envelope, arguments.len() + buffer.bytes, |to| {
                to.copy_from_nonoverlapping(arguments.as_ptr(), arguments.len());
                buffer.load(0, to.add(arguments.len()), buffer.bytes);
            })
        }
    }

    /// Sends a control message, if the ring has room.
    pub(super) fn push_control(&mut self, envelope: &Envelope, arguments: &[u64; 5]) -> bool {
        self.rings.out.try_push(envelope, &words(arguments))
    }

    /// Announces a message that is written to an advertised receive or streamed to it at once; `cut` is that
    /// of the copy, none for the stream. Returns the number of the message and that of its copy; `None` when
    /// the ring is full.
    pub(super) fn push_written(&mut self, remote_write: &Written) -> Option<(u32, u32)> {
        let Written { context, tag, buffer, receive, cut } = remote_write;
        let (message, number) = (self.next_message, self.next_written.wrapping_add(1));
        let (kind, flags) = (WRITE, cut.map_or(0, |cut| cut.piece_log2));
        let envelope = Envelope { kind, flags, context: *context, tag: *tag, length: buffer.bytes as u64 };
        let word = buffer.word().0;
        let arguments = [u64::from(message), buffer.at as u64, *receive, u64::from(number), word];
        if !self.rings.out.try_push(&envelope, &words(&arguments)) {
            return None;
        }
        self.next_message = message.wrapping_add(1);
        if cut.is_some() {
            self.next_written = number;
        }
        self.record(*context, *tag);
        Some((message, number))
    }

    /// The envelope of a message was put into the ring.
    #[inline(always)]
    fn record(&mut self, context: u32, tag: i32) {
        if self.rtr.remembers() {
            self.rtr.record(self.rings.out.position(), context, tag);
        }
    }

    /// Sends a small contiguous message, if ring and credit have room.
    #[inline(always)]
    pub(super) fn push_small(&mut self, context: u32, tag: i32, at: *const u8, bytes: usize) -> bool {
        if bytes > self.inline_bytes_max || !self.has_credit(bytes) {
            return false;
        }
        let envelope = Envelope { kind: EAGER, flags: 0, context, tag, length: bytes as u64 };
        // SAFETY: the user's memory is valid for the length of the message (MPI's rule for send buffers); an
        // empty message may have a null address, which a slice may not.
        let data = unsafe { if bytes == 0 { &[][..] } else { std::slice::from_raw_parts(at, bytes) } };
        let pushed = self.rings.out.try_push(&envelope, data);
        if pushed {
            self.record(context, tag);
            self.charge(bytes);
        }
        pushed
    }

    #[inline(always)]
    fn push_eager(&mut self, context: u32, tag: i32, buffer: &Buffer) -> bool {
        if buffer.map.is_none() {
            return self.push_small(context, tag, buffer.at, buffer.bytes);
        }
        let envelope = Envelope { kind: EAGER, flags: 0, context, tag, length: buffer.bytes as u64 };
        let pushed = self.push_packed(&envelope, buffer);
        if pushed {
            self.record(context, tag);
            self.charge(buffer.bytes);
        }
        pushed
    }

    #[inline(never)]
    fn push_packed(&mut self, envelope: &Envelope, buffer: &Buffer) -> bool {
        // SAFETY: the user's memory is valid (MPI's rule for send buffers); the message has as many bytes as
        // it says.
        unsafe { self.rings.out.try_push_with(envelope, buffer.bytes, |to| buffer.load(0, to, buffer.bytes)) }
    }

    #[inline(always)]
    fn has_credit(&mut self, bytes: usize) -> bool {
        let after = self.eager_sent + bytes as u64 + EAGER_OVERHEAD_BYTES;
        after <= self.eager_sent_max || {
            self.eager_sent_max = self.rings.released_by_peer() + EAGER_CREDIT_BYTES;
            after <= self.eager_sent_max
        }
    }

    #[inline(always)]
    fn charge(&mut self, bytes: usize) {
        self.eager_sent += bytes as u64 + EAGER_OVERHEAD_BYTES;
    }

    /// An eager message of the peer has reached a receive's buffer.
    #[inline(always)]
    pub(super) fn release_credit(&mut self, bytes: usize) {
        self.eager_released += bytes as u64 + EAGER_OVERHEAD_BYTES;
        // The sender announces when it sees no credit, so it never waits for this; telling it seldom saves
        // cache traffic.
        if self.eager_released >= self.eager_told_from {
            self.eager_told_from = self.eager_released + EAGER_CREDIT_BYTES / 8;
            self.rings.release_to_peer(self.eager_released);
        }
    }
}

/// Flag of an announcement: the data are behind its first arguments.
pub(super) const CARRIES: u8 = 1;
/// Bytes of the arguments before them: number and address.
pub(super) const CARRIED_AT: usize = size_of::<[u64; 2]>();

/// Arguments of a control message as its inline data; with the header they fill one line.
fn words(arguments: &[u64; 5]) -> [u8; 40] {
    let mut bytes = [0; 40];
    for (word, argument) in bytes.chunks_exact_mut(8).zip(arguments) {
        word.copy_from_slice(&argument.to_ne_bytes());
    }
    bytes
}
