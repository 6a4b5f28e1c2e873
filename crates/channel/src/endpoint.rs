//! An [`Endpoint`]: all channels of one rank to the ranks of its job on other nodes.
//!
//! The owner calls, in any order and from one thread at a time:
//! - [`try_send`](Endpoint::try_send), [`accept_bulk`](Endpoint::accept_bulk),
//!   [`send_bulk`](Endpoint::send_bulk) when the program sends; [`handle_room`](Endpoint::handle_room) when a
//!   sink that was full has room again;
//! - [`handle_datagram`](Endpoint::handle_datagram) for each datagram that arrives;
//! - [`handle_timeout`](Endpoint::handle_timeout) when [`poll_timeout`](Endpoint::poll_timeout) has passed;
//! - after any of these [`poll_transmit`](Endpoint::poll_transmit) until it gives nothing, and
//!   [`poll_event`](Endpoint::poll_event) likewise.
//!
//! It never blocks, allocates nothing after it is made, and does nothing by itself: an endpoint whose rank is
//! frozen is silent.

mod control;
mod messages;
mod receive;
mod rests;
mod state;
mod transmit;

use std::collections::VecDeque;

use crate::bulk::{Incoming, Outgoing};
use crate::config::{Config, ConfigError, PEERS_MAX};
use crate::counters::Counters;
use crate::credit::Shares;
use crate::flow::Flow;
use crate::pieces::Pieces;
use crate::ports::FlowMemory;
use crate::timers::NEVER;
use crate::types::{BulkId, Identity, Now, Rank, Seq};

/// Ranks have smaller numbers.
pub const RANKS_MAX: u32 = 1 << 20;

/// With no more flows than this the next deadline is always exact; with more it is brought up to date when it
/// has passed.
const EXACT_DEADLINES: usize = 32;

/// A datagram, or a burst of them to one rank, that the owner is to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Whom it is for.
    pub to: Rank,
    /// Bytes written into the buffer.
    pub bytes: usize,
    /// Bytes of each datagram in the buffer; the last may be shorter. Equal to `bytes` when there is one
    /// datagram.
    pub segment_bytes: usize,
    /// The tag of a bulk message: then the buffer holds heads of fragments only, and behind each belong the
    /// bytes of the message that [`fragment_place`](crate::packet::fragment_place) says of it, from where the
    /// source has them now.
    pub lies_in: Option<u64>,
}

/// Guess at the next datagrams: fragments of one message, one behind the other, all missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// As given to [`accept_bulk`](Endpoint::accept_bulk).
    pub tag: u64,
    /// Where in the message the first of them begins.
    pub offset: u64,
    /// Bytes of all of them.
    pub bytes: usize,
}

/// A place in the stream of records to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(Seq);

/// Event that the owner wants to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A bulk message has arrived whole at `to`; its bytes are no longer needed.
    BulkSent {
        /// Receiver of the message.
        to: Rank,
        /// As given to [`send_bulk`](Endpoint::send_bulk).
        tag: u64,
    },
    /// A bulk message is complete.
    BulkReceived {
        /// Sender of the message.
        from: Rank,
        /// As given to [`accept_bulk`](Endpoint::accept_bulk).
        tag: u64,
    },
    /// The receiver knows no such message; nothing more of it is sent.
    BulkRefused {
        /// Rank that refused it.
        to: Rank,
        /// As given to [`send_bulk`](Endpoint::send_bulk).
        tag: u64,
    },
    /// A rank has left for good; `unread` records to it were never taken.
    PeerExited {
        /// Rank that has left.
        rank: Rank,
        /// Records that it did not take.
        unread: u32,
    },
}

/// Why a record is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The rank is not one to which this endpoint may send.
    #[error("rank {0} is outside the partition of this job")]
    OutsidePartition(u32),
    /// The send FIFO is full. Try again when acknowledgements have come.
    #[error("the send FIFO is full")]
    Full,
    /// The record does not fit in a datagram.
    #[error("a record of {found} bytes: at most {most} fit in a datagram")]
    TooLong {
        /// Bytes of the record.
        found: usize,
        /// [`Config::record_bytes_max`].
        most: usize,
    },
    /// The rank has left.
    #[error("rank {0} has left")]
    Exited(u32),
}

/// Why a bulk message is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// The rank is not one of this endpoint's peers.
    #[error("rank {0} is outside the partition of this job")]
    OutsidePartition(u32),
    /// As many messages are under way as [`Config`] allows. Try again after the next event.
    #[error("too many bulk messages at a time")]
    Full,
    /// Longer than a bulk message can be.
    #[error("a message of {found} bytes: at most {most} are possible")]
    TooLong {
        /// Bytes of the message.
        found: u64,
        /// The limit with this size of datagrams.
        most: u64,
    },
    /// The rank has left.
    #[error("rank {0} has left")]
    Exited(u32),
}

/// Events for [`Endpoint::poll_event`]. A table's place is free again when its event has been fetched, so
/// the queue is bounded by the tables.
#[derive(Clone, Copy, Debug)]
enum Pending {
    Sent { slot: u16, to: Rank, tag: u64 },
    Refused { slot: u16, to: Rank, tag: u64 },
    Received { slot: u16, from: Rank, tag: u64 },
    Exited { rank: Rank, unread: u32 },
}

/// An acknowledgement of a bulk message that has to be sent.
#[derive(Clone, Copy, Debug)]
enum BulkReply {
    /// The state of a message that is not complete.
    State(u16),
    /// The message is complete, perhaps since long.
    Done { flow: u16, id: BulkId, echo: u32 },
    /// The message was never accepted.
    Refused { flow: u16, id: BulkId, echo: u32 },
}

/// All channels of one rank. `M` is the memory of a flow.
#[derive(Clone, Debug)]
pub struct Endpoint<M> {
    identity: Identity,
    config: Config,
    flows: Vec<Flow<M>>,
    /// Flow of a rank; [`NO_FLOW`]: outside the partition.
    flow_of: Vec<u16>,
    shares: Shares,
    /// Flows that may have something to send, each at most once.
    ready: VecDeque<u16>,
    outgoing: Vec<Outgoing>,
    outgoing_free: Vec<u16>,
    incoming: Vec<Incoming>,
    incoming_free: Vec<u16>,
    /// Messages on their way in, in the order in which they were accepted.
    accepted: VecDeque<u16>,
    /// The message of the last fragment that was stored.
    stored: u16,
    replies: VecDeque<BulkReply>,
    pending: VecDeque<Pending>,
    pieces: Pieces,
    /// A datagram that is to be cut.
    whole: Box<[u8]>,
    /// Deadline of each flow, and a time before which none is due.
    deadlines: Vec<u64>,
    next_deadline: u64,
    /// Since when the other side of each flow has said nothing, though it was asked; [`NEVER`]: it answers.
    silent_since: Vec<u64>,
    last_ns: u64,
    thaw_count: u32,
    counters: Counters,
}

const NO_FLOW: u16 = u16::MAX;
const _: () = assert!(PEERS_MAX <= NO_FLOW as usize);

impl<M: FlowMemory> Endpoint<M> {
    /// An endpoint that may talk to `peers`, the ranks of its job on other nodes, and to nobody else.
    ///
    /// # Errors
    /// A number of the configuration is out of range, a FIFO does not fit, or a peer stands twice.
    pub fn new(
        identity: Identity,
        config: Config,
        now: Now,
        peers: impl IntoIterator<Item = (Rank, M)>,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let peers: Vec<_> = peers.into_iter().collect();
        let credit = Shares::least_bytes(&config, peers.len());
        let mut flow_of: Vec<u16> = Vec::new();
        let mut flows = Vec::with_capacity(peers.len());
        for (rank, memory) in peers {
            config.check_fifo(memory.fifo().len())?;
            let at = rank.0 as usize;
            let is_new = flow_of.get(at).is_none_or(|flow| *flow == NO_FLOW);
            if rank.0 >= RANKS_MAX || rank == identity.rank || !is_new {
                return Err(ConfigError::Peer(rank.0));
            }
            if flows.len() >= PEERS_MAX {
                return Err(ConfigError::Peers);
            }
            flow_of.resize(flow_of.len().max(at + 1), NO_FLOW);
            flow_of[at] = flows.len() as u16;
            flows.push(Flow::new((rank, identity.incarnation), memory, &config, credit));
        }
        let (out_max, in_max) = (config.bulk_out_max as usize, config.bulk_in_max as usize);
        Ok(Endpoint {
            identity,
            config,
            shares: Shares::new(&config, flows.len()),
            ready: VecDeque::with_capacity(flows.len()),
            outgoing: vec![Outgoing::idle(); out_max],
            outgoing_free: (0..out_max as u16).rev().collect(),
            incoming: vec![Incoming::free(0); in_max],
            incoming_free: (0..in_max as u16).rev().collect(),
            accepted: VecDeque::with_capacity(in_max),
            stored: 0,
            replies: VecDeque::with_capacity(2 * in_max),
            pending: VecDeque::with_capacity(out_max + in_max + flows.len()),
            pieces: Pieces::new(config.datagram_bytes),
            whole: vec![0; config.datagram_bytes].into_boxed_slice(),
            deadlines: vec![NEVER; flows.len()],
            silent_since: vec![NEVER; flows.len()],
            next_deadline: NEVER,
            last_ns: now.ns,
            thaw_count: now.thaw_count,
            counters: Counters::default(),
            flows,
            flow_of,
        })
    }

    /// Identity of the endpoint.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The numbers that it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters of the endpoint.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The ranks to which it may send.
    pub fn peers(&self) -> impl Iterator<Item = Rank> {
        self.flows.iter().map(|flow| flow.rank)
    }

    /// The memory of the flow to `rank`.
    pub fn memory(&self, rank: Rank) -> Option<&M> {
        self.flow(rank).map(|flow| &self.flows[flow].memory)
    }

    /// Puts a record, `head` and `body` in one, into the send FIFO to `to`. The send is finished when this
    /// returns.
    ///
    /// # Errors
    /// Nothing was sent.
    #[inline]
    pub fn try_send(&mut self, to: Rank, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        let Some(at) = self.flow(to) else { return Err(SendError::OutsidePartition(to.0)) };
        let (found, most) = (head.len() + body.len(), self.config.record_bytes_max());
        if found > most {
            return Err(SendError::TooLong { found, most });
        }
        let flow = &mut self.flows[at];
        if flow.exited {
            return Err(SendError::Exited(to.0));
        }
        if !flow.tx.push(&mut flow.memory, head, body) {
            return Err(SendError::Full);
        }
        self.counters.records_out += 1;
        self.mark(at);
        Ok(())
    }

    /// Where the records to `rank` end that are in the FIFO now; none where there is no such flow.
    #[inline]
    pub fn completion(&self, rank: Rank) -> Option<Mark> {
        self.flow(rank).map(|at| Mark(self.flows[at].tx.nxt))
    }

    /// Whether the sink of `rank` has taken all records before a mark of that flow, or will take no more.
    #[inline]
    pub fn is_complete(&self, rank: Rank, mark: Mark) -> bool {
        self.flow(rank).is_none_or(|at| {
            let flow = &self.flows[at];
            flow.exited || !flow.tx.una.is_before(mark.0)
        })
    }

    /// Asks `rank` to acknowledge at once what it takes: with the last record of the FIFO that is still to be
    /// sent, else by a packet of its own. Lost questions are not repeated; acknowledgements come all the
    /// same.
    #[inline]
    pub fn ask_now(&mut self, rank: Rank) {
        let Some(at) = self.flow(rank) else { return };
        let flow = &mut self.flows[at];
        if flow.tx.una != flow.tx.nxt && !flow.exited {
            flow.wants.ask = true;
            self.mark(at);
        }
    }

    /// The sink has room again for records of `from`, after it had refused one.
    pub fn handle_room(&mut self, from: Rank) {
        let Some(at) = self.flow(from) else { return };
        if std::mem::take(&mut self.flows[at].rx.full) {
            self.flows[at].wants.ack = true;
            self.mark(at);
        }
    }

    /// When [`handle_timeout`](Endpoint::handle_timeout) is due, in library time. It may find nothing to do
    /// where there are more than 32 flows: then a timer that was disarmed is found out only there.
    #[inline]
    pub fn poll_timeout(&self) -> Option<u64> {
        (self.next_deadline != NEVER).then_some(self.next_deadline)
    }

    /// A rank that has said nothing for `for_ns` of library time, though an answer is awaited and it was
    /// asked again and again. None: all answer, or have left.
    #[must_use]
    pub fn silent_peer(&self, now: Now, for_ns: u64) -> Option<Rank> {
        let is_silent = |(since_ns, flow): &(&u64, &Flow<M>)| {
            **since_ns != NEVER
                && now.ns.saturating_sub(**since_ns) >= for_ns
                && flow.awaits()
                && !flow.exited
        };
        self.silent_since.iter().zip(&self.flows).find(is_silent).map(|(_, flow)| flow.rank)
    }

    /// A number that grows with what a rank has acknowledged and what has come from it; while it stays, the
    /// flow between both stands still. 0: there is none.
    #[must_use]
    pub fn progress_of(&self, rank: Rank) -> u64 {
        self.flow(rank).map_or(0, |at| {
            let flow = &self.flows[at];
            u64::from(flow.tx.una.0) << 32 | u64::from(flow.rx.nxt.0)
        })
    }

    /// Lets timers fire that are due.
    #[inline]
    pub fn handle_timeout(&mut self, now: Now) {
        self.observe(now);
        if now.ns < self.next_deadline {
            return;
        }
        for at in 0..self.flows.len() {
            if self.deadlines[at] <= now.ns {
                self.fire(at, now.ns);
            }
        }
        self.next_deadline = self.earliest_deadline();
    }

    #[inline]
    fn earliest_deadline(&self) -> u64 {
        self.deadlines.iter().copied().min().unwrap_or(NEVER)
    }

    /// The next thing that the owner should know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        Some(match self.pending.pop_front()? {
            Pending::Sent { slot, to, tag } => {
                self.outgoing_free.push(slot);
                Event::BulkSent { to, tag }
            }
            Pending::Refused { slot, to, tag } => {
                self.outgoing_free.push(slot);
                Event::BulkRefused { to, tag }
            }
            Pending::Received { slot, from, tag } => {
                self.incoming_free.push(slot);
                Event::BulkReceived { from, tag }
            }
            Pending::Exited { rank, unread } => Event::PeerExited { rank, unread },
        })
    }

    #[inline]
    fn flow(&self, rank: Rank) -> Option<usize> {
        match self.flow_of.get(rank.0 as usize) {
            Some(&flow) if flow != NO_FLOW => Some(usize::from(flow)),
            _ => None,
        }
    }

    /// The flow may have something to send.
    #[inline]
    fn mark(&mut self, at: usize) {
        if !self.flows[at].queued {
            self.flows[at].queued = true;
            self.ready.push_back(at as u16);
        }
    }

    /// Timers of the flow may have changed.
    #[inline]
    fn note_deadline(&mut self, at: usize) {
        let deadline = self.flows[at].deadline();
        let before = std::mem::replace(&mut self.deadlines[at], deadline);
        if deadline <= self.next_deadline {
            self.next_deadline = deadline;
        } else if before == self.next_deadline && self.deadlines.len() <= EXACT_DEADLINES {
            self.next_deadline = self.earliest_deadline();
        }
    }

    /// The time of a call. After a thaw, or when the clock went back, all timers start anew.
    #[inline]
    fn observe(&mut self, now: Now) {
        if now.thaw_count != self.thaw_count || now.ns < self.last_ns {
            self.rearm(now);
        }
        self.last_ns = now.ns;
    }

    #[cold]
    fn rearm(&mut self, now: Now) {
        self.thaw_count = now.thaw_count;
        self.next_deadline = NEVER;
        // Library time leaves out what the job stood still, so a silence lasts over it; over a clock that
        // went back it does not.
        for since_ns in self.silent_since.iter_mut().filter(|since_ns| **since_ns > now.ns) {
            *since_ns = NEVER;
        }
        for at in 0..self.flows.len() {
            self.flows[at].rearm(now.ns, &self.config);
            self.note_deadline(at);
        }
    }

    fn fire(&mut self, at: usize, now_ns: u64) {
        let flow = &mut self.flows[at];
        let fired = flow.fire(now_ns, &self.config);
        if fired.asks && self.silent_since[at] == NEVER {
            self.silent_since[at] = now_ns;
        }
        if fired.bulk_acks {
            self.queue_owed_bulk_acks(at);
        }
        if self.flows[at].wants.bulk_probe {
            self.want_bulk_probes(at);
        }
        self.mark(at);
        self.note_deadline(at);
    }
}
