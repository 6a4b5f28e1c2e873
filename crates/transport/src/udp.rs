//! UDP, polled by the rank itself. The starter makes the socket ([`open`]), the rank attaches it to the table
//! of its peers ([`Udp::attach`]).
//!
//! A run of datagrams of one length to one peer goes through the kernel as one message (GSO, UDP_SEGMENT),
//! and arrives as one where the path allows it (GRO). Where the kernel refuses GSO, datagrams go one by one,
//! and it is tried again after a while.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::budget::{self, Budget};
use crate::os::{self, Address, Key, Lot, MESSAGES_MAX, PlacedReceiver, Receiver, Sender};
use crate::{Arrival, Counters, Datagram, Outgoing, Places, Transport};

/// Size of the receive buffer of a socket, in bytes of the kernel's account: as much is asked for.
pub const RECEIVE_BYTES: usize = 16 << 20;
/// Segments of one message, at most: the kernel's UDP_MAX_SEGMENTS, on kernels before 6.9 too.
const SEGMENTS_MAX: usize = 64;
/// A longer datagram is of no use where a run of them travels as one message anyway, and its loss costs more.
const DATAGRAM_BYTES_MAX: usize = 16 << 10;
/// Bytes of a datagram that every link takes, if need be in pieces.
const LINK_BYTES_MIN: usize = 512;
/// How long runs are not tried when one was refused: at first, and after many refusals.
const REFUSED_FOR_MIN: Duration = Duration::from_millis(100);
const REFUSED_FOR_MAX: Duration = Duration::from_secs(60);
/// Messages received by one call: their buffers stay in the cache.
const RECEIVED_MAX: usize = 8;

/// Opens the socket of a rank on an address of this node, with as much receive buffer as may be had up to
/// [`RECEIVE_BYTES`]; the kernel chooses the port.
///
/// # Errors
/// When the address is not of this node, or the kernel gives no socket.
pub fn open(address: IpAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    prepare(UdpSocket::bind((address, 0))?)
}

/// The same on one of these ports. Others may take and free them at any time: each is tried once, from a
/// place that differs from process to process.
///
/// # Errors
/// As [`open`]; [`io::ErrorKind::AddrInUse`]: all of them are taken.
pub fn open_within(address: IpAddr, ports: RangeInclusive<u16>) -> io::Result<(OwnedFd, SocketAddr)> {
    let count = usize::from(ports.end().saturating_sub(*ports.start())) + 1;
    let first = std::process::id() as usize % count;
    for port in ports.clone().cycle().skip(first).take(count) {
        match UdpSocket::bind((address, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return prepare(result?),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

fn prepare(socket: UdpSocket) -> io::Result<(OwnedFd, SocketAddr)> {
    socket.set_nonblocking(true)?;
    let bound = socket.local_addr()?;
    // The kernel doubles what it is asked for.
    for (forced, plain) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)]
    {
        let half = RECEIVE_BYTES as libc::c_int / 2;
        // Without the privilege as much as the administrator allows; without that what everybody has.
        if os::set_option(socket.as_fd(), libc::SOL_SOCKET, forced, half).is_err() {
            let _ = os::set_option(socket.as_fd(), libc::SOL_SOCKET, plain, half);
        }
    }
    Ok((socket.into(), bound))
}

/// Bytes of a datagram that the link on which an address of this node stands takes in one piece; of one that
/// cannot be asked, what an Ethernet takes.
pub fn link_bytes(address: IpAddr) -> usize {
    let mtu = os::mtu_of(address).unwrap_or(1500);
    mtu.saturating_sub(header_bytes(address)).clamp(LINK_BYTES_MIN, budget::longest(address))
}

/// Of the network's and UDP's header.
fn header_bytes(address: IpAddr) -> usize {
    if address.is_ipv4() { 28 } else { 48 }
}

/// Whether the kernel takes runs of datagrams as one (GSO), and gives them so (GRO).
pub fn has_offloads() -> (bool, bool) {
    let Ok((socket, _)) = open(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)) else { return (false, false) };
    let takes = |option, value| os::set_option(socket.as_fd(), libc::SOL_UDP, option, value).is_ok();
    (takes(libc::UDP_SEGMENT, 1000), takes(libc::UDP_GRO, 1))
}

/// A rank's socket and the table of its peers.
#[derive(Debug)]
pub struct Udp {
    socket: OwnedFd,
    own: IpAddr,
    /// Of all peers, each once.
    hosts: Vec<IpAddr>,
    addresses: Vec<Address>,
    /// Sorted, for finding out who sent a datagram.
    sources: Vec<(Key, u32)>,
    /// Index into `sources` of the last sender.
    last_source: usize,
    budget: Budget,
    datagram_bytes_max: usize,
    /// Bytes of a message of several segments, at most.
    run_bytes_max: usize,
    runs: Runs,
    /// The only one, if there is only one.
    settled_on: Option<u32>,
    /// The last look found something.
    busy: bool,
    /// Host of each peer.
    hosts_of_peers: Vec<IpAddr>,
    /// Why the kernel has last refused a datagram that counts as lost, and whose it was.
    refusal: Option<(u32, i32)>,
    /// Where the user is warned of a path that has become narrower; once.
    remark: Option<fn(fmt::Arguments<'_>)>,
    sender: Sender,
    receiver: Receiver,
    placed: PlacedReceiver,
    counters: Counters,
}

impl Udp {
    /// Takes over a socket from [`open`]. `peers` are the addresses of all, in the order of their numbers.
    ///
    /// # Errors
    /// When the descriptor is no UDP socket.
    pub fn attach(socket: OwnedFd, peers: &[SocketAddr]) -> io::Result<Self> {
        let mut made = Udp::attach_plainly(socket, peers)?;
        // Older kernels: then each datagram comes by itself.
        let _ = os::set_option(made.socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1);
        made.runs = Runs::Whole { refused_for: REFUSED_FOR_MIN };
        if made.budget.held_bytes() > 0 {
            made.placed.hold(made.socket.as_fd(), made.budget.held_bytes());
        }
        Ok(made)
    }

    /// The same, but every datagram goes through the kernel by itself.
    ///
    /// # Errors
    /// When the descriptor is no UDP socket.
    pub fn attach_plainly(socket: OwnedFd, peers: &[SocketAddr]) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        let own = socket.local_addr()?;
        socket.set_nonblocking(true)?;
        let socket = OwnedFd::from(socket);
        let mut sources: Vec<(Key, u32)> =
            peers.iter().enumerate().map(|(peer, address)| (os::key_of(address), peer as u32)).collect();
        sources.sort_unstable();
        let longest = budget::longest(own.ip());
        let hosts_of_peers: Vec<IpAddr> = peers.iter().map(SocketAddr::ip).collect();
        let mut hosts = hosts_of_peers.clone();
        hosts.sort_unstable();
        hosts.dedup();
        let datagram_bytes_max = path_bytes(own.ip(), &hosts).unwrap_or(longest).min(DATAGRAM_BYTES_MAX);
        Ok(Udp {
            budget: Budget::measure(socket.as_fd(), own.ip()),
            socket,
            own: own.ip(),
            hosts,
            addresses: peers.iter().map(Address::from).collect(),
            sources,
            last_source: 0,
            datagram_bytes_max,
            run_bytes_max: longest,
            runs: Runs::Never,
            settled_on: None,
            busy: false,
            hosts_of_peers,
            refusal: None,
            remark: None,
            sender: Sender::new(),
            receiver: Receiver::new(RECEIVED_MAX),
            placed: PlacedReceiver::new(),
            counters: Counters::default(),
        })
    }

    /// From now on there is nobody but this peer: the kernel finds the way to it, and the socket of what
    /// comes from it, once and not for every datagram. That saves about 1.5 of 12.5 us of a round trip.
    /// Nothing comes from others any more.
    ///
    /// # Errors
    /// When there is no way to it.
    pub fn settle_on(&mut self, peer: u32) -> io::Result<()> {
        os::connect(self.socket.as_fd(), &self.addresses[peer as usize])?;
        self.settled_on = Some(peer);
        Ok(())
    }

    /// Whether there is a way to each peer's host.
    ///
    /// # Errors
    /// The first host without one, and the kernel's answer: ENETUNREACH where it knows none.
    pub fn check_ways(&self) -> Result<(), NoWay> {
        let check = |&host: &IpAddr| self.check_way(host).map_err(|error| NoWay { host, error });
        self.hosts.iter().try_for_each(check)
    }

    fn check_way(&self, host: IpAddr) -> io::Result<()> {
        let any: IpAddr = match self.own {
            IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        // Nothing is sent: the kernel looks for the way. A link-local address has none without its
        // interface, and is not asked for here.
        let is_of_link = matches!(host, IpAddr::V6(address) if address.is_unicast_link_local());
        if is_of_link || host.is_ipv4() != self.own.is_ipv4() {
            return Ok(());
        }
        UdpSocket::bind((any, 0))?.connect((host, 9))
    }

    /// Whom to tell, in one line, that the path to a peer has become narrower.
    pub fn remark_to(&mut self, say: fn(fmt::Arguments<'_>)) {
        self.remark = Some(say);
    }

    /// The kernel knows a narrower path than at the start: from now on it sends what is too long in pieces.
    #[cold]
    fn note_narrow_path(&mut self) {
        if let Some(say) = self.remark.take() {
            say(format_args!(
                "the network takes shorter datagrams than when the job started: longer ones travel in pieces, which is slower"
            ));
        }
    }

    /// Divides the beginning of a batch into lots; gives their number.
    fn plan(&self, batch: &[Outgoing<'_>], lots: &mut [Lot; MESSAGES_MAX]) -> usize {
        let mut first = 0;
        let mut planned = 0;
        while first < batch.len() && planned < MESSAGES_MAX {
            let count = if self.runs.are_complete() { self.run(&batch[first..]) } else { 1 };
            let segment_bytes = if count > 1 { batch[first].bytes() as u16 } else { 0 };
            lots[planned] = Lot { first, count, segment_bytes };
            first += count;
            planned += 1;
        }
        planned
    }

    /// How many datagrams at the beginning of a batch make one message: one peer, one length, the last may be
    /// shorter.
    fn run(&self, batch: &[Outgoing<'_>]) -> usize {
        let (peer, bytes) = (batch[0].peer, batch[0].bytes());
        let mut all_bytes = 0;
        for (index, datagram) in batch.iter().take(SEGMENTS_MAX).enumerate() {
            all_bytes += datagram.bytes();
            if datagram.peer != peer || datagram.bytes() > bytes || all_bytes > self.run_bytes_max {
                return index.max(1);
            }
            if datagram.bytes() < bytes {
                return index + 1;
            }
        }
        batch.len().min(SEGMENTS_MAX)
    }

    /// Judges a lot that the kernel refused.
    /// `bytes` has its first datagram, which is for `peer`.
    fn judge(&mut self, error: io::Error, lot: &Lot, bytes: usize, peer: u32) -> io::Result<Verdict> {
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Ok(Verdict::Later),
            // A device or a kernel that does not segment.
            Some(errno @ (libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::EMSGSIZE))
                if lot.segment_bytes > 0 =>
            {
                self.runs.note_refusal(Instant::now());
                if errno == libc::EMSGSIZE
                    || path_bytes(self.own, &self.hosts).is_some_and(|now| now < lot.segment_bytes.into())
                {
                    self.note_narrow_path();
                }
                Ok(Verdict::Again)
            }
            // The network's answer to an earlier one: what follows goes in pieces.
            Some(libc::EMSGSIZE) if bytes <= self.run_bytes_max => {
                self.note_narrow_path();
                Ok(Verdict::Lost)
            }
            Some(errno) if os::is_answer_of_network(errno) => {
                self.refusal = Some((peer, errno));
                Ok(Verdict::Lost)
            }
            // A route of the kind `blackhole`: it may be gone again soon, as one that forbids.
            Some(libc::EINVAL) if self.check_way(self.hosts_of_peers[peer as usize]).is_err() => {
                self.refusal = Some((peer, libc::EINVAL));
                Ok(Verdict::Lost)
            }
            _ => Err(error),
        }
    }

    /// Notes the result of a look at the socket: nothing where the network only answers to something
    /// that was sent: lost, as far as we are concerned.
    fn note_poll(&mut self, received: io::Result<usize>) -> io::Result<usize> {
        self.busy = received.is_ok();
        received.or_else(|error| match error.raw_os_error() {
            Some(libc::EAGAIN) => Ok(0),
            Some(libc::EMSGSIZE) => {
                self.note_narrow_path();
                Ok(0)
            }
            // A socket that is connected gets it here.
            Some(errno) if os::is_answer_of_network(errno) => {
                if let Some(peer) = self.settled_on {
                    self.refusal = Some((peer, errno));
                    self.counters.refused += 1;
                }
                Ok(0)
            }
            _ => Err(error),
        })
    }

    fn check(&self, batch: &[Outgoing<'_>]) {
        for datagram in batch {
            assert!(
                (datagram.peer as usize) < self.addresses.len(),
                "peer {} is not in the table",
                datagram.peer
            );
            assert!(datagram.bytes() > 0, "an empty datagram");
        }
    }
}

/// A host to which the kernel knows no way.
#[derive(Debug, thiserror::Error)]
#[error("{host}: {error}")]
pub struct NoWay {
    /// The host.
    pub host: IpAddr,
    /// The kernel's answer.
    pub error: io::Error,
}

/// Whether the kernel takes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runs {
    /// The kernel is not asked.
    Never,
    /// As far as is known; how long it is not asked when it refuses one.
    Whole { refused_for: Duration },
    /// The kernel has refused one. A link may have become narrower for a while, or a route leads over another
    /// device.
    Refused { until: Instant, refused_for: Duration },
}

impl Runs {
    #[inline]
    fn are_complete(self) -> bool {
        matches!(self, Runs::Whole { .. })
    }

    /// A refusal costs a system call and loses nothing, so one is risked now and then.
    #[inline]
    fn try_again(&mut self) {
        if let Runs::Refused { until, refused_for } = *self
            && Instant::now() >= until
        {
            *self = Runs::Whole { refused_for };
        }
    }

    #[cold]
    fn note_refusal(&mut self, now: Instant) {
        if let Runs::Whole { refused_for } = *self {
            *self = Runs::Refused {
                until: now + refused_for,
                refused_for: (2 * refused_for).min(REFUSED_FOR_MAX),
            };
        }
    }

    #[inline]
    fn note_success(&mut self) {
        if let Runs::Whole { refused_for } = self {
            *refused_for = REFUSED_FOR_MIN;
        }
    }
}

/// Verdict on a lot that the kernel refused.
enum Verdict {
    /// The kernel has no room now.
    Later,
    /// To be tried in another way.
    Again,
    /// The network does not take it.
    Lost,
}

impl Transport for Udp {
    fn peers(&self) -> usize {
        self.addresses.len()
    }

    fn datagram_bytes_max(&self) -> usize {
        self.datagram_bytes_max
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize> {
        self.check(batch);
        if batch.len() > 1 {
            self.runs.try_again();
        }
        let mut lots = [Lot { first: 0, count: 0, segment_bytes: 0 }; MESSAGES_MAX];
        let mut gone = 0;
        while gone < batch.len() {
            let rest = &batch[gone..];
            let planned = self.plan(rest, &mut lots);
            let addresses = if self.settled_on.is_some() { None } else { Some(&self.addresses[..]) };
            match self.sender.send(self.socket.as_fd(), &lots[..planned], rest, addresses) {
                Ok(sent) => {
                    let datagrams: usize = lots[..sent].iter().map(|lot| lot.count).sum();
                    if lots[..sent].iter().any(|lot| lot.segment_bytes > 0) {
                        self.runs.note_success();
                    }
                    self.counters.sent += datagrams as u64;
                    gone += datagrams;
                }
                Err(error) => match self.judge(error, &lots[0], rest[0].bytes(), rest[0].peer)? {
                    Verdict::Later => break,
                    Verdict::Again => {}
                    Verdict::Lost => {
                        self.counters.refused += lots[0].count as u64;
                        gone += lots[0].count;
                    }
                },
            }
        }
        Ok(gone)
    }

    fn refusal(&self) -> Option<(u32, io::Error)> {
        self.refusal.map(|(peer, errno)| (peer, io::Error::from_raw_os_error(errno)))
    }

    fn receive(&mut self, take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        if self.placed.is_holding() {
            return self.receive_placed(&Places::NOWHERE, &mut |arrival| match arrival {
                Arrival::Whole(datagram) => {
                    take(datagram);
                    true
                }
                Arrival::Placed { .. } => false,
            });
        }
        self.placed.let_go(self.socket.as_fd());
        // Where the last look found something there may be many; else a look costs the less the fewer it asks
        // for.
        let messages_max = if self.busy { RECEIVED_MAX } else { 1 };
        let received = self.receiver.receive(self.socket.as_fd(), messages_max);
        let messages = self.note_poll(received)?;
        let mut datagrams = 0;
        for index in 0..messages {
            let message = self.receiver.message(index);
            let known = find(&self.sources, &mut self.last_source, message.source);
            let (Some(peer), Some(bytes)) = (known, message.bytes) else {
                self.counters.unknown_senders += 1;
                continue;
            };
            for datagram in bytes.chunks(message.segment_bytes.max(1)) {
                take(Datagram { peer, bytes: datagram });
                datagrams += 1;
            }
        }
        self.counters.received += datagrams as u64;
        Ok(datagrams)
    }

    fn receive_placed(
        &mut self,
        places: &Places,
        take: &mut dyn FnMut(Arrival<'_>) -> bool,
    ) -> io::Result<usize> {
        let received = self.placed.receive(self.socket.as_fd(), places, &self.budget);
        if self.note_poll(received.map(|()| 1))? == 0 {
            return Ok(0);
        }
        let message = &mut self.placed;
        let known = find(&self.sources, &mut self.last_source, message.source());
        let (Some(peer), true) = (known, message.is_complete()) else {
            self.counters.unknown_senders += 1;
            return Ok(0);
        };
        let mut index = 0;
        while let Some((head, data)) = message.placed(index) {
            if !take(Arrival::Placed { peer, head, data, index }) {
                break;
            }
            index += 1;
        }
        let mut datagrams = index;
        for bytes in message.rest(index) {
            take(Arrival::Whole(Datagram { peer, bytes }));
            datagrams += 1;
        }
        self.counters.received += datagrams as u64;
        Ok(datagrams)
    }

    fn counters(&self) -> Counters {
        let dropped = os::memory(self.socket.as_fd()).map_or(0, |memory| u64::from(memory.dropped));
        Counters { dropped, ..self.counters }
    }

    fn stamp_arrivals(&mut self, is_wanted: bool) {
        // Where it cannot be had, the time of arrival is not known.
        let _ = os::set_option(self.socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, is_wanted.into());
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// Peer that has the address; mostly the same one's as before.
fn find(sources: &[(Key, u32)], last: &mut usize, source: Key) -> Option<u32> {
    if let Some((key, peer)) = sources.get(*last)
        && *key == source
    {
        return Some(*peer);
    }
    let at = sources.binary_search_by_key(&source, |(key, _)| *key).ok()?;
    *last = at;
    Some(sources[at].1)
}

/// Bytes of a datagram that travels to every peer in one piece; `None` when the kernel does not know a way to
/// any.
fn path_bytes(own: IpAddr, hosts: &[IpAddr]) -> Option<usize> {
    let (level, name) = match own {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = UdpSocket::bind((own, 0)).ok()?;
    let path = |host: &IpAddr| {
        // No datagram is sent by this; the kernel only looks for the way.
        socket.connect((*host, 9)).ok()?;
        let bytes = os::option(socket.as_fd(), level, name).ok()?;
        usize::try_from(bytes).ok()?.checked_sub(header_bytes(own))
    };
    hosts.iter().filter_map(path).min()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn alone() -> Udp {
        let (socket, address) = open(Ipv4Addr::LOCALHOST.into()).unwrap();
        Udp::attach(socket, &[address, address]).unwrap()
    }

    #[test]
    fn gso_runs_have_one_peer_and_one_length() {
        let udp = alone();
        let bytes = [0_u8; 4096];
        let to = |peer, length: usize| Outgoing { peer, head: &bytes[..1], body: &bytes[..length - 1] };
        let mut lots = [Lot { first: 0, count: 0, segment_bytes: 0 }; MESSAGES_MAX];
        let batch = [
            to(0, 100),
            to(0, 100),
            to(0, 50),
            to(0, 50),
            to(1, 50),
            to(1, 51),
            to(1, 51),
            to(1, 51),
            to(0, 1),
        ];
        let planned = udp.plan(&batch, &mut lots);
        let counts: Vec<(usize, u16)> =
            lots[..planned].iter().map(|lot| (lot.count, lot.segment_bytes)).collect();
        assert_eq!(counts, [(3, 100), (1, 0), (1, 0), (3, 51), (1, 0)]);
        let long = vec![to(0, 4096); 40];
        let planned = udp.plan(&long, &mut lots);
        assert_eq!(lots[..planned].iter().map(|lot| lot.count).collect::<Vec<_>>(), [15, 15, 10]);
        let many = vec![to(0, 2); 130];
        let planned = udp.plan(&many, &mut lots);
        assert_eq!(lots[..planned].iter().map(|lot| lot.count).collect::<Vec<_>>(), [64, 64, 2]);
    }

    #[test]
    fn gso_refusal_is_retried_with_backoff() {
        let mut udp = alone();
        let run = Lot { first: 0, count: 2, segment_bytes: 100 };
        let mut waits = Vec::new();
        for errno in [libc::EIO, libc::EINVAL].into_iter().cycle().take(12) {
            let before = Instant::now();
            let verdict = udp.judge(io::Error::from_raw_os_error(errno), &run, 100, 0);
            assert!(matches!(verdict, Ok(Verdict::Again)));
            let Runs::Refused { until, refused_for } = udp.runs else { panic!("{:?}", udp.runs) };
            waits.push((until - before).as_millis() / 100 * 100);
            udp.runs.try_again();
            assert!(!udp.runs.are_complete(), "it is asked again at once");
            udp.runs = Runs::Refused { until: before, refused_for };
            udp.runs.try_again();
            assert!(udp.runs.are_complete(), "it is never asked again");
        }
        assert_eq!(waits[..4], [100, 200, 400, 800]);
        assert_eq!(waits[10..], [60_000; 2]);
        udp.runs.note_success();
        assert_eq!(udp.runs, Runs::Whole { refused_for: REFUSED_FOR_MIN });
        let single = Lot { segment_bytes: 0, ..run };
        assert!(udp.judge(io::Error::from_raw_os_error(libc::EINVAL), &single, 100, 0).is_err());
        assert!(matches!(
            udp.judge(io::Error::from_raw_os_error(libc::EHOSTUNREACH), &single, 100, 0),
            Ok(Verdict::Lost)
        ));
    }

    #[test]
    fn path_mtu_drop_is_reported_once_and_nothing_fails() {
        static REMARKS: AtomicUsize = AtomicUsize::new(0);
        let mut udp = alone();
        udp.remark_to(|_| {
            REMARKS.fetch_add(1, Ordering::Relaxed);
        });
        let narrow = || io::Error::from_raw_os_error(libc::EMSGSIZE);
        let run = Lot { first: 0, count: 2, segment_bytes: 1472 };
        assert!(matches!(udp.judge(narrow(), &run, 1472, 0), Ok(Verdict::Again)));
        assert!(!udp.runs.are_complete());
        let single = Lot { segment_bytes: 0, count: 1, ..run };
        assert!(matches!(udp.judge(narrow(), &single, 1472, 0), Ok(Verdict::Lost)));
        assert!(matches!(udp.note_poll(Err(narrow())), Ok(0)));
        assert_eq!(REMARKS.load(Ordering::Relaxed), 1);
        // One that no network takes is an error of ours.
        assert!(udp.judge(narrow(), &single, 65_508, 0).is_err());
    }

    #[test]
    fn answers_of_the_network_count_as_lost_when_sent_and_when_received() {
        let single = Lot { first: 0, count: 1, segment_bytes: 0 };
        for errno in [
            libc::ECONNREFUSED,
            libc::EHOSTUNREACH,
            libc::ENETUNREACH,
            libc::EHOSTDOWN,
            libc::ENETDOWN,
            libc::ENONET,
            libc::ENOPROTOOPT,
            libc::EPROTO,
            libc::EPERM,
            libc::EACCES,
            libc::EADDRNOTAVAIL,
        ] {
            let error = || io::Error::from_raw_os_error(errno);
            let mut udp = alone();
            assert!(matches!(udp.judge(error(), &single, 100, 1), Ok(Verdict::Lost)), "{}", error());
            assert_eq!(udp.refusal, Some((1, errno)));
            let mut udp = alone();
            udp.settle_on(0).unwrap();
            assert!(matches!(udp.note_poll(Err(error())), Ok(0)), "{}", error());
            assert_eq!((udp.refusal, udp.counters.refused), (Some((0, errno)), 1));
        }
        assert!(alone().note_poll(Err(io::Error::from_raw_os_error(libc::EBADF))).is_err());
    }

    #[test]
    fn link_mtu_is_read_from_the_interface() {
        assert_eq!(link_bytes(Ipv4Addr::LOCALHOST.into()), 65_507);
        // Nobody's: what an Ethernet takes.
        assert_eq!(link_bytes([203, 0, 113, 77].into()), 1472);
        assert_eq!(link_bytes("2001:db8::77".parse().unwrap()), 1452);
    }

    #[test]
    fn gso_is_not_used_beyond_the_path_mtu() {
        let mut udp = alone();
        // The kernel refuses segments that do not fit the interface (EINVAL): the batch goes out all the
        // same.
        let bytes = vec![7_u8; 60_000];
        udp.run_bytes_max = 1 << 20;
        let one = Outgoing { peer: 0, head: &bytes, body: &[] };
        assert_eq!(udp.send(&[one, one]).unwrap(), 2);
        assert!(!udp.runs.are_complete());
        // Refused, and asked again after a while, for a run that it takes.
        let short = Outgoing { peer: 0, head: &bytes[..1000], body: &[] };
        udp.runs = Runs::Refused { until: Instant::now(), refused_for: REFUSED_FOR_MAX };
        assert_eq!(udp.send(&[short, short]).unwrap(), 2);
        assert_eq!(udp.runs, Runs::Whole { refused_for: REFUSED_FOR_MIN });
        let mut received = 0;
        while received < 4 {
            received +=
                udp.receive(&mut |datagram| assert!(matches!(datagram.bytes.len(), 60_000 | 1000))).unwrap();
        }
    }
}
