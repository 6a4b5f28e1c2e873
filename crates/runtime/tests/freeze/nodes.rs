//! Two nodes of one rank each on this machine: segments, sockets and the table of peers, as two starters
//! would make them; and a network in the test's hands, since it holds both sockets.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use tutti_channel::WORDS;
use tutti_channel::cut::FlowWords;
use tutti_runtime::attach::{Network, Place};
use tutti_runtime::job::Job;
use tutti_runtime::net::Net;
use tutti_shm::layout::Geometry;
use tutti_shm::peers::Peers;
use tutti_shm::segment::Segment;
use tutti_testkit::Random;
use tutti_transport::udp;

/// More than a datagram has.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Datagrams kept back at a time.
const HELD_MAX: usize = 4;

/// The job, seen from outside.
pub(crate) struct Nodes {
    segments: [Segment; 2],
    sockets: [UdpSocket; 2],
    peers: Peers,
    /// Datagrams kept back, and for whom.
    held: Vec<(usize, Vec<u8>)>,
    /// Datagrams lost, sent again and kept back.
    pub faults: [u32; 3],
}

impl Nodes {
    pub(crate) fn new() -> Self {
        let open = || udp::open(Ipv4Addr::LOCALHOST.into()).expect("a socket on the loopback");
        let made: [(OwnedFd, SocketAddr); 2] = [open(), open()];
        let addresses = made.iter().map(|(_, address)| *address).collect();
        let segment = |node| {
            let geometry = Geometry {
                world_ranks: 2,
                local_ranks: 1,
                first_rank: node,
                node,
                cores: 2,
                ..Geometry::default()
            };
            Segment::create(geometry).expect("a segment")
        };
        Nodes {
            segments: [segment(0), segment(1)],
            sockets: made.map(|(socket, _)| UdpSocket::from(socket)),
            peers: Peers::new(0x5eed, 8192, vec![0, 1], 2, addresses).expect("two nodes of one rank"),
            held: Vec::new(),
            faults: [0; 3],
        }
    }

    /// Enters the job as `rank` and opens its way to the other. Once for each rank, in the process that is
    /// the rank.
    pub(crate) fn enter(&self, rank: usize) -> (Job, Net) {
        let descriptor = self.segments[rank].descriptor().try_clone_to_owned().expect("dup");
        let socket = self.sockets[rank].try_clone().expect("dup").into();
        let job = Job::enter(Place {
            segment: Segment::open(descriptor).expect("our own segment"),
            page: None,
            local_rank: 0,
            network: Some(Network { peers: self.peers.clone(), socket }),
            starter: None,
            remark: None,
            spawned: None,
        });
        let net = Net::open(&job).expect("a way").expect("two nodes");
        (job, net)
    }

    /// Words that `rank` has published of its flow to the other.
    pub(crate) fn words(&self, rank: usize) -> FlowWords {
        let words = self.segments[rank].flow_words(0, 1 - rank);
        FlowWords::from(*words.first_chunk::<WORDS>().expect("a flow has at least these words"))
    }

    /// Where the last record of the FIFO of `rank` ends in it.
    pub(crate) fn end_offset(&self, rank: usize) -> u32 {
        (self.segments[rank].flow_words(0, 1 - rank)[tutti_channel::FlowWord::SndNxt as usize] >> 32) as u32
    }

    /// The send FIFO of `rank`, which must stand still as long as the slice is used.
    pub(crate) fn fifo(&self, rank: usize) -> &[u8] {
        let layout = self.segments[rank].layout();
        let begin = self.segments[rank].at::<u8>(layout.fifo_at(0, 1 - rank));
        // SAFETY: the layout says that so many bytes lie there; its only writer stands still.
        unsafe { std::slice::from_raw_parts(begin.as_ptr(), layout.fifo_bytes) }
    }

    /// Now and then loses, doubles or keeps back the next datagram that has arrived at `rank`, or lets a late
    /// one come.
    pub(crate) fn disturb(&mut self, rank: usize, random: &mut Random) {
        let mut bytes = vec![0; DATAGRAM_BYTES];
        let arrived = &self.sockets[rank];
        match random.below(16) {
            0 => self.faults[0] += u32::from(arrived.recv(&mut bytes).is_ok()),
            1 => {
                if let Ok(length) = arrived.peek(&mut bytes) {
                    self.deliver(rank, &bytes[..length]);
                    self.faults[1] += 1;
                }
            }
            2 if self.held.len() < HELD_MAX => {
                if let Ok(length) = arrived.recv(&mut bytes) {
                    bytes.truncate(length);
                    self.held.push((rank, bytes));
                    self.faults[2] += 1;
                }
            }
            3 if !self.held.is_empty() => {
                let (to, bytes) = self.held.swap_remove(random.below(self.held.len() as u64) as usize);
                self.deliver(to, &bytes);
            }
            _ => {}
        }
    }

    /// A datagram arrives at `rank`, as from the other: both sockets are connected.
    fn deliver(&self, rank: usize, datagram: &[u8]) {
        let sent = self.sockets[1 - rank].send(datagram).expect("the loopback takes it");
        assert_eq!(sent, datagram.len());
    }
}
