//! The way to ranks of other nodes: a channel endpoint over a datagram transport, and its flows in the
//! segment.
//!
//! Whoever makes progress polls it ([`Net::receive`], [`Net::transmit`]); nothing here waits. Time is read
//! once per call.

mod silence;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;

use tutti_channel::packet::{FRAGMENT_BYTES_BEFORE, fragment_place};
use tutti_channel::{
    BulkError, BulkId, Charges, Config, Endpoint, Event, Expected, Identity, Incarnation, Key, Mark, Now,
    Rank, SendError, Sink, Source, Transmit, WORDS,
};
use tutti_rma::device::Access;
use tutti_shm::flow::FLOW_WORDS;
use tutti_shm::sync::Ordering;
use tutti_shm::ticket::Notice;
use tutti_transport::udp::Udp;
use tutti_transport::{Arrival, Budget, Made, Outgoing, Places, Transport};

use crate::clock::{Clock, monotonic_ns};
use crate::flow::SegmentFlow;
use crate::job::Job;
use crate::polite::Politeness;
use silence::{PEER_SILENCE_NS, Refusals, Refused, SILENCE_NS, Silence};

/// Datagrams are not longer than this, however much the path takes: what is lost is lost whole.
pub const DATAGRAM_BYTES_MAX: usize = 8 << 10;
/// Datagrams taken in one call before others are looked at.
const RECEIVES_PER_TURN: usize = 8;
/// Bounds of one call that sends: so many bursts, and none behind so many bytes.
const TRANSMITS_MAX: usize = 16;
const GATHERED_BYTES: usize = 4 << 10;
/// Bytes that the kernel takes as one message: the longest UDP datagram over IPv6.
const RUN_BYTES_MAX: usize = 65535 - 48;
/// Datagrams of one burst.
const BURST_MAX: usize = 64;
/// Datagrams offered to the transport in one call: two bursts, since a run that is cut in two is two messages
/// for the kernel.
const BATCH_MAX: usize = 2 * BURST_MAX;

const _: () = assert!(WORDS <= FLOW_WORDS);

/// A sink that may tell where data of bulk messages belong, so that the kernel puts them there.
///
/// # Safety
/// What [`Memory::place`] gives is valid for reading and writing `bytes` until the message is complete, and
/// holds nothing that anybody relies on.
pub unsafe trait Memory: Sink {
    /// Where the bytes at `offset` of the message accepted with `tag` belong, if they lie in one piece.
    fn place(&mut self, tag: u64, offset: u64, bytes: usize) -> Option<NonNull<u8>> {
        let _ = (tag, offset, bytes);
        None
    }
}

/// A rank's way to the ranks of other nodes.
pub struct Net {
    endpoint: Endpoint<SegmentFlow>,
    transport: Box<dyn Transport>,
    clock: Clock,
    /// Buffer into which the endpoint writes its datagrams.
    burst: Box<[u8]>,
    /// For [`Net::keep_rest`].
    spare: Box<[u8]>,
    /// Datagrams in `burst`, one behind the other, and how many of them the socket has taken.
    planned: Vec<Transmit>,
    gone: usize,
    silence: Silence,
    refusals: Refusals,
    /// Addresses of all ranks' nodes, by rank.
    hosts: Vec<IpAddr>,
    politeness: Politeness,
    #[cfg(feature = "testing")]
    record_forger: Option<crate::record_forger::RecordForger>,
}

/// Counts of a rank's datagrams, by what has become of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Handed out by the endpoint.
    pub out: u64,
    /// Arrived and taken in.
    pub taken: u64,
    /// Arrived, and refused by the endpoint: not a packet of this job and rank.
    pub refused: u64,
    /// Arrived from an address that is no rank's.
    pub unknown_senders: u64,
    /// Arrived when the receive buffer was full.
    pub dropped: u64,
    /// Handed out after a silence, to ask what has arrived.
    pub probes: u64,
    /// Forged packets and wrong records, sent besides by a library built for tests.
    pub forged: u64,
    /// Data packets that came a second time.
    pub duplicates: u64,
    /// Data packets that came before others that were due.
    pub gaps: u64,
    /// Faults made on purpose on its own datagrams (`TUTTI_FAULTS`).
    pub made: Made,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net").field("planned", &self.planned).finish_non_exhaustive()
    }
}

impl Net {
    /// Opens the way to the ranks that are not of this node; none when there are none. Called once for a job.
    ///
    /// # Errors
    /// When the socket is none, or the numbers of the job do not fit together.
    pub fn open(job: &Job) -> io::Result<Option<Self>> {
        let Some(network) = job.network() else { return Ok(None) };
        let peers = &network.peers;
        let mut udp = Udp::attach(network.socket.try_clone()?, peers.addresses())?;
        udp.remark_to(remark);
        udp.check_ways().map_err(io::Error::other)?;
        let mut others = (0..job.ranks()).filter(|rank| !job.local_ranks().contains(*rank));
        if let (Some(other), None) = (others.next(), others.next()) {
            udp.settle_on(other as u32)?;
        }
        #[cfg(not(feature = "testing"))]
        let transport: Box<dyn Transport> = Box::new(udp);
        #[cfg(feature = "testing")]
        let transport = crate::forger::with_faults(udp, job.rank())?;
        let config = config(transport.budget(), peers.datagram_bytes(), job.fifo_bytes());
        let here = *job.local_ranks();
        let flows = (0..job.ranks())
            .filter(|rank| !here.contains(*rank))
            // SAFETY: once for each rank, since this is called once; the engine keeps the value beside the
            // job.
            .map(|rank| (Rank(rank as u32), unsafe { job.flow(rank) }));
        let identity =
            Identity { key: Key(peers.key()), incarnation: Incarnation(0), rank: Rank(job.rank() as u32) };
        let mut endpoint =
            Endpoint::new(identity, config, now(job.clock()), flows).map_err(io::Error::other)?;
        if job.has_later_far() {
            for rank in (0..job.ranks()).filter(|rank| !here.contains(*rank)) {
                // Nothing is under way yet.
                endpoint.renew(Rank(rank as u32), job.begin_far(rank));
            }
        }
        let hosts = peers.addresses().iter().map(SocketAddr::ip).collect();
        let net = Net::new(endpoint, transport, job.clock().clone(), hosts);
        #[cfg(feature = "testing")]
        let net =
            Net { record_forger: crate::record_forger::RecordForger::from_environment(job.rank()), ..net };
        Ok(Some(net))
    }

    fn new(
        endpoint: Endpoint<SegmentFlow>,
        transport: Box<dyn Transport>,
        clock: Clock,
        hosts: Vec<IpAddr>,
    ) -> Self {
        let config = endpoint.config();
        // What is planned, also when the data are put with the heads: single datagrams, and a burst behind
        // them.
        let burst_bytes = (TRANSMITS_MAX + config.burst_datagrams) * config.datagram_bytes;
        let burst = vec![0; burst_bytes].into_boxed_slice();
        Net {
            endpoint,
            transport,
            clock,
            spare: burst.clone(),
            burst,
            planned: Vec::with_capacity(TRANSMITS_MAX),
            gone: 0,
            silence: Silence::default(),
            refusals: Refusals::default(),
            hosts,
            politeness: Politeness::of_environment(),
            #[cfg(feature = "testing")]
            record_forger: None,
        }
    }

    /// The process of a rank has ended; the flow to the next one begins anew ([`Endpoint::renew`]).
    pub fn renew(&mut self, rank: usize, processes: u32) -> bool {
        self.endpoint.renew(Rank(rank as u32), processes)
    }

    /// Bytes of the longest record.
    pub fn record_bytes_max(&self) -> usize {
        self.endpoint.config().record_bytes_max()
    }

    /// The socket, for a thread that waits for datagrams.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn duplicate_socket(&self) -> io::Result<OwnedFd> {
        self.transport
            .descriptor()
            .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?
            .try_clone_to_owned()
    }

    /// Puts a record into the FIFO to a rank; [`Net::transmit`] sends it.
    ///
    /// # Errors
    /// Those of [`Endpoint::try_send`].
    #[inline]
    pub fn try_send(&mut self, to: usize, head: &[u8], body: &[u8]) -> Result<(), SendError> {
        self.endpoint.try_send(Rank(to as u32), head, body)?;
        #[cfg(feature = "testing")]
        self.forge_records(to, head, body);
        Ok(())
    }

    /// Puts wrong records behind one, as far as there is room.
    #[cfg(feature = "testing")]
    fn forge_records(&mut self, to: usize, head: &[u8], body: &[u8]) {
        let Some(forger) = &mut self.record_forger else { return };
        for _ in 0..forger.follow(to, head, body) {
            forger.forge(to);
            let sent = self.endpoint.try_send(Rank(to as u32), &forger.record, &[]);
            forger.sent += u64::from(sent.is_ok());
        }
    }

    /// Where the records to a rank end that are in the FIFO now.
    #[inline]
    pub fn completion(&self, to: usize) -> Option<Mark> {
        self.endpoint.completion(Rank(to as u32))
    }

    /// Whether a rank has taken all records before a mark, or will take no more.
    #[inline]
    pub fn is_complete(&self, to: usize, mark: Mark) -> bool {
        self.endpoint.is_complete(Rank(to as u32), mark)
    }

    /// Has a rank acknowledge the records to it at once.
    #[inline]
    pub fn ask_now(&mut self, to: usize) {
        self.endpoint.ask_now(Rank(to as u32));
    }

    /// Makes room for a bulk message; its sender needs the name.
    ///
    /// # Errors
    /// Those of [`Endpoint::accept_bulk`].
    pub fn accept_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        self.endpoint.accept_bulk(Rank(from as u32), bytes as u64, tag).map(BulkId::to_bits)
    }

    /// Makes room for a bulk message that may never come.
    ///
    /// # Errors
    /// As of [`Endpoint::offer_bulk`].
    pub fn offer_bulk(&mut self, from: usize, bytes: usize, tag: u64) -> Result<u64, BulkError> {
        self.endpoint.offer_bulk(Rank(from as u32), bytes as u64, tag).map(BulkId::to_bits)
    }

    /// The message for which there is room comes, and is of so many bytes; false: more is here already.
    pub fn confirm_bulk(&mut self, name: u64, bytes: usize) -> bool {
        self.endpoint.confirm_bulk(BulkId::from_bits(name), bytes as u64)
    }

    /// Takes the room back: no message comes.
    pub fn cancel_bulk(&mut self, name: u64) {
        self.endpoint.cancel_bulk(BulkId::from_bits(name));
    }

    /// Begins to send a bulk message under the name that its receiver gave it.
    ///
    /// # Errors
    /// Those of [`Endpoint::send_bulk`]. While the message waits for a network that is congested there is
    /// no room either.
    pub fn send_bulk(&mut self, to: usize, name: u64, bytes: usize, tag: u64) -> Result<(), BulkError> {
        if self.politeness.must_wait(monotonic_ns) {
            return Err(BulkError::Full);
        }
        self.endpoint.send_bulk(Rank(to as u32), BulkId::from_bits(name), bytes as u64, tag)
    }

    /// Takes what has arrived. Returns whether there was anything.
    pub fn receive(&mut self, sink: &mut impl Memory) -> bool {
        let Net { endpoint, transport, clock, .. } = self;
        let mut moved = false;
        for _ in 0..RECEIVES_PER_TURN {
            let mut at = None;
            let taken = match expected(endpoint, sink) {
                None => transport.receive(&mut |datagram| {
                    let now = *at.get_or_insert_with(|| now(clock));
                    // What is refused is counted by the endpoint, and not ours to answer.
                    let _ = endpoint.handle_datagram(now, datagram.bytes, sink);
                }),
                Some((expected, places)) => {
                    let each_bytes = endpoint.config().fragment_bytes() as u64;
                    transport.receive_placed(&places, &mut |arrival| {
                        let now = *at.get_or_insert_with(|| now(clock));
                        match arrival {
                            Arrival::Placed { head, data, index, .. } => {
                                let offset = expected.offset + index as u64 * each_bytes;
                                endpoint.handle_placed(now, head, data, expected.tag, offset)
                            }
                            Arrival::Whole(datagram) => {
                                endpoint.handle_datagram(now, datagram.bytes, sink).is_ok()
                            }
                        }
                    })
                }
            };
            match taken {
                Ok(0) => break,
                Ok(_) => moved = true,
                Err(error) => end_refused(self.endpoint.identity().rank, Way::In, &error),
            }
        }
        if moved && self.endpoint.counters().paths_narrowed > 0 {
            remark(format_args!(
                "the network takes shorter datagrams than the nodes have agreed on, and does not report longer ones: these travel in \
                 pieces, which is slower"
            ));
        }
        moved
    }

    /// Takes an event from the endpoint.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    /// Lets timers fire that are due.
    pub fn handle_timeout(&mut self) {
        if self.endpoint.poll_timeout().is_some() {
            self.endpoint.handle_timeout(now(&self.clock));
            self.watch_silence();
        }
    }

    /// Says once that nothing comes back, whatever is asked: from anywhere since the start, or from one rank;
    /// and once that the kernel lets nothing out, which is the reason where it is known.
    fn watch_silence(&mut self) {
        let counters = self.endpoint.counters();
        let own = self.endpoint.identity().rank.0;
        // A process that has ended refuses, too, and is named by its starter.
        let refusal =
            self.transport.refusal().filter(|(_, error)| error.kind() != io::ErrorKind::ConnectionRefused);
        if let Some((peer, error)) = refusal
            && self.refusals.have_lasted(
                now(&self.clock).ns,
                Refused {
                    peer,
                    count: self.transport.counters().refused,
                    progress: self.endpoint.progress_of(Rank(peer)),
                },
            )
        {
            let host = self.hosts[peer as usize];
            return remark(format_args!(
                "rank {own}: for {} s this node's kernel has refused to send to rank {peer} on {host}: {error}; a firewall or a route of \
                 this node forbids it (nft list ruleset, ip route get {host})",
                SILENCE_NS / 1_000_000_000
            ));
        }
        if self.silence.has_lasted(now(&self.clock).ns, counters.datagrams_in, counters.probes) {
            remark(format_args!(
                "rank {}: nothing has come from other nodes for {} s, whatever they were asked: their ranks have not called MPI_Init yet, \
                 or a firewall drops UDP between the nodes",
                own,
                SILENCE_NS / 1_000_000_000
            ));
        } else if !self.refusals.is_named()
            && let Some(peer) = self.endpoint.silent_peer(now(&self.clock), PEER_SILENCE_NS)
        {
            remark(format_args!(
                "rank {own}: nothing has come from rank {} of another node ({}) for {} s, whatever it was asked: it has not called \
                 MPI_Init yet, it is stopped, its node is away, or a firewall drops UDP between the nodes",
                peer.0,
                self.hosts[peer.0 as usize],
                PEER_SILENCE_NS / 1_000_000_000
            ));
        }
    }

    /// Nanoseconds until a timer is due; none when there is no timer.
    pub fn timeout_ns(&self) -> Option<u64> {
        let timer_ns = self.endpoint.poll_timeout().map(|at| at.saturating_sub(now(&self.clock).ns));
        let look_ns = self.politeness.look_ns();
        timer_ns.into_iter().chain(look_ns).min()
    }

    /// No timer is set, and everything that could be sent has gone to the socket.
    pub fn is_clear(&self) -> bool {
        self.planned.is_empty()
            && self.endpoint.poll_timeout().is_none()
            && self.politeness.look_ns().is_none()
    }

    /// Sends what is to be sent, as far as the socket takes it.
    pub fn transmit(&mut self, source: &mut impl Source) {
        while !self.planned.is_empty() || self.plan(source) {
            if !self.send_planned(source) {
                break;
            }
        }
    }

    /// Asks the endpoint what to send: several small things go in one call, a long one is not kept waiting
    /// for others.
    fn plan(&mut self, source: &mut impl Source) -> bool {
        let now = now(&self.clock);
        let (mut used, mut datagrams) = (0, 0);
        while used < GATHERED_BYTES && datagrams < TRANSMITS_MAX {
            let Some(transmit) = self.endpoint.poll_transmit(now, source, &mut self.burst[used..]) else {
                break;
            };
            used += transmit.bytes;
            datagrams += transmit.bytes.div_ceil(transmit.segment_bytes);
            self.planned.push(transmit);
        }
        !self.planned.is_empty()
    }

    /// Offers what is planned and not gone to the socket; whether all of it is gone.
    fn send_planned(&mut self, source: &impl Source) -> bool {
        loop {
            let (mut batch, mut count) = ([Outgoing { peer: 0, head: &[], body: &[] }; BATCH_MAX], 0);
            let rest = datagrams(&self.planned, &self.burst, source).skip(self.gone);
            for (slot, datagram) in batch.iter_mut().zip(rest) {
                *slot = datagram;
                count += 1;
            }
            match self.transport.send(&batch[..count]) {
                Ok(sent) if sent < count => {
                    self.gone += sent;
                    self.keep_rest(source);
                    return false;
                }
                Ok(sent) if sent == BATCH_MAX => self.gone += sent,
                Ok(_) => {
                    self.planned.clear();
                    self.gone = 0;
                    return true;
                }
                Err(error) => end_refused(self.endpoint.identity().rank, Way::Out, &error),
            }
        }
    }

    /// Copies the datagrams that the socket has not taken, since they must not depend on the program's memory
    /// any more: by the time there is room, the message of one may have arrived by other datagrams, and be
    /// forgotten.
    #[cold]
    fn keep_rest(&mut self, source: &impl Source) {
        if self.planned.iter().all(|transmit| transmit.lies_in.is_none()) {
            return;
        }
        let (mut kept, mut used) = (Vec::with_capacity(self.planned.capacity()), 0);
        for datagram in datagrams(&self.planned, &self.burst, source).skip(self.gone) {
            let (to, bytes) = (Rank(datagram.peer), datagram.bytes());
            let (head, body) = self.spare[used..used + bytes].split_at_mut(datagram.head.len());
            head.copy_from_slice(datagram.head);
            body.copy_from_slice(datagram.body);
            kept.push(Transmit { to, bytes, segment_bytes: bytes, lies_in: None });
            used += bytes;
        }
        std::mem::swap(&mut self.burst, &mut self.spare);
        (self.planned, self.gone) = (kept, 0);
    }

    /// From now on the kernel says when datagrams came, or not any more.
    pub fn stamp_arrivals(&mut self, is_wanted: bool) {
        self.transport.stamp_arrivals(is_wanted);
    }

    fn forged_records(&self) -> u64 {
        #[cfg(feature = "testing")]
        return self.record_forger.as_ref().map_or(0, |forger| forger.sent);
        #[cfg(not(feature = "testing"))]
        0
    }

    /// Counts of this rank's datagrams.
    pub fn traffic(&self) -> Traffic {
        let (endpoint, transport) = (self.endpoint.counters(), self.transport.counters());
        Traffic {
            out: endpoint.datagrams_out,
            taken: endpoint.datagrams_in,
            refused: endpoint.dropped.iter().sum(),
            unknown_senders: transport.unknown_senders,
            dropped: transport.dropped,
            probes: endpoint.probes,
            forged: transport.made.forged + self.forged_records(),
            duplicates: endpoint.duplicates,
            gaps: endpoint.gaps,
            made: transport.made,
        }
    }

    /// Whether everything sent has been acknowledged, and everything received too.
    pub fn is_quiet(&self) -> bool {
        self.is_clear() && self.endpoint.is_flushed()
    }
}

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

/// The kernel refuses the socket, by a mistake of the program: a line, and the end of the job.
#[cold]
fn end_refused(rank: Rank, way: Way, error: &io::Error) -> ! {
    let rank = rank.0;
    let action = match way {
        Way::In => "receive from",
        Way::Out => "send to",
    };
    match error.raw_os_error() {
        Some(libc::EFAULT) => {
            let access = if way == Way::In { Access::Write } else { Access::Read };
            crate::bad_memory::say_refused(
                rank as usize,
                access,
                format_args!("cannot {action} another node: {error}"),
            );
        }
        Some(libc::EBADF | libc::ENOTSOCK | libc::ENOTCONN | libc::EDESTADDRREQ) => {
            crate::log::line(format_args!(
                "rank {rank} cannot {action} another node: the program has closed descriptors that are not its own (closefrom, a loop over close): {error}"
            ));
        }
        _ => crate::log::line(format_args!("rank {rank} cannot {action} another node: {error}")),
    }
    crate::end::end(Notice::Fatal(1), 1)
}

/// Remarks on what is wrong with the network, once.
#[cold]
fn remark(words: std::fmt::Arguments<'_>) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        crate::log::line(words);
    }
}

/// Part of a bulk message that is expected, and where it belongs.
fn expected(endpoint: &Endpoint<SegmentFlow>, sink: &mut impl Memory) -> Option<(Expected, Places)> {
    let expected = endpoint.expected()?;
    let at = sink.place(expected.tag, expected.offset, expected.bytes)?;
    let each_bytes = endpoint.config().fragment_bytes();
    // SAFETY: contract of `Memory`: a receive buffer that stays while the places are used, that is until the
    // next event; none of these bytes has been received yet.
    Some((expected, unsafe { Places::new(at, expected.bytes, FRAGMENT_BYTES_BEFORE, each_bytes) }))
}

/// The datagrams of what is planned, whose bytes lie one behind the other in `burst`; the data of bulk
/// messages with the source.
fn datagrams<'a>(
    planned: &'a [Transmit],
    burst: &'a [u8],
    source: &'a impl Source,
) -> impl Iterator<Item = Outgoing<'a>> {
    let mut rest = burst;
    planned.iter().flat_map(move |transmit| {
        let (bytes, behind) = rest.split_at(transmit.bytes);
        rest = behind;
        bytes.chunks(transmit.segment_bytes).map(move |head| {
            let body = transmit.lies_in.map_or(&[][..], |tag| {
                let (offset, bytes) = fragment_place(head);
                source.slice(tag, offset, bytes).expect("a message that lies in one piece does to its end")
            });
            Outgoing { peer: transmit.to.0, head, body }
        })
    })
}

/// The numbers of the channels of a job. `datagram_bytes` is what its nodes have agreed on: fragments are
/// counted by it on both sides.
fn config(budget: &Budget, datagram_bytes: usize, fifo_bytes: usize) -> Config {
    let datagram_bytes = datagram_bytes.min(DATAGRAM_BYTES_MAX).min(fifo_bytes / 2);
    let charge = |bytes: usize| (bytes as u32, budget.charge_bytes(bytes) as u32);
    // A burst is one or several whole runs, none of them short.
    let run = (RUN_BYTES_MAX / datagram_bytes).clamp(1, BURST_MAX);
    Config {
        datagram_bytes,
        burst_datagrams: BURST_MAX / run * run,
        receive_buffer_bytes: u32::try_from(budget.receive_bytes()).unwrap_or(u32::MAX),
        charges: Charges { classes: [charge(64), charge(1472), charge(16384)] },
        ..Config::default()
    }
}

/// Library time, as channels want it: of the count of thaws they ask whether it has changed.
#[inline]
fn now(clock: &Clock) -> Now {
    let time = clock.now();
    Now { ns: time.ns, thaw_count: time.thaw_count as u32 }
}

#[cfg(test)]
mod tests;
