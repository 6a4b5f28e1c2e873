//! Two nodes of one rank each, whose words this test writes as the ranks would.

use std::net::{IpAddr, Ipv4Addr};

use tutti_channel::FlowWord;
use tutti_shm::layout::Geometry;
use tutti_transport::udp;

use super::*;

/// A test may take so long.
const WITHIN_NS: u64 = 1_000_000_000;

/// A node of one rank, its segment and its socket.
struct Node {
    segment: Segment,
    sockets: Vec<OwnedFd>,
    address: SocketAddr,
}

impl Node {
    fn new(node: u32) -> Self {
        let geometry = Geometry {
            world_ranks: 2,
            local_ranks: 1,
            first_rank: node,
            node,
            nodes: 2,
            starter_pid: std::process::id(),
            ..Geometry::default()
        };
        let segment = Segment::create(geometry).unwrap();
        let (socket, address) = udp::open(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        Node { segment, sockets: vec![socket], address }
    }

    /// The rank publishes a word of its flow to rank `to`.
    fn publish(&self, to: usize, word: FlowWord, value: u64) {
        let at = self.segment.layout().flow_words_at(0, to) + 8 * word as usize;
        rustix::io::pwrite(self.segment.descriptor(), &value.to_ne_bytes(), at as u64).unwrap();
    }

    fn begin(&self, peers: &Peers, now_ns: u64) -> NetworkContext {
        let of = (&self.segment, peers, &self.sockets[..]);
        NetworkContext::begin(of, |_| true, 7, (now_ns, WITHIN_NS)).unwrap()
    }

    /// Bytes of the next datagram in the rank's socket.
    fn take(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; DATAGRAM_BYTES_MAX];
        let length = rustix::io::read(&self.sockets[0], &mut bytes).ok()?;
        bytes.truncate(length);
        Some(bytes)
    }
}

/// Rank 0 has sent records 3 to 6 and has 7 and 8 to send; rank 1 has taken those before `taken`.
fn nodes(taken: u64) -> (Node, Node, Peers) {
    let (here, there) = (Node::new(0), Node::new(1));
    for (word, value) in [(FlowWord::SndUna, 3), (FlowWord::SndHigh, 7), (FlowWord::SndNxt, 64 << 32 | 9)] {
        here.publish(1, word, value);
    }
    there.publish(0, FlowWord::RcvNxt, taken);
    let peers = Peers::new(99, 1448, vec![0, 1], 2, vec![here.address, there.address]).unwrap();
    (here, there, peers)
}

// Paper: S14, S15
#[test]
fn steady_test_asks_the_other_node_and_leaves_nothing_on_its_way() {
    let (here, there, peers) = nodes(5);
    let late = UdpSocket::from(here.sockets[0].try_clone().unwrap());
    late.send_to(&[1; 300], there.address).unwrap();
    let (mut asks, mut answers) = (here.begin(&peers, 0), there.begin(&peers, 0));
    assert_eq!(answers.advance(0), Some(true), "it has sent nothing");
    assert_eq!(asks.advance(0), None, "nobody has answered");
    answers.handle_readable(0, &there.segment);
    assert_eq!(there.take(), None, "what came for the frozen rank is dropped");
    asks.handle_readable(0, &here.segment);
    assert_eq!((asks.advance(1_000), asks.due_ns()), (Some(true), None));
    assert_eq!(asks.advance(2_000), None, "it is said once");
}

#[test]
fn steady_test_repeats_a_lost_probe_and_a_lost_answer() {
    let (here, there, peers) = nodes(7);
    let (mut asks, mut answers) = (here.begin(&peers, 0), there.begin(&peers, 0));
    let mut now_ns = 0;
    for lost in ["probe", "answer", "nothing"] {
        assert_eq!(asks.advance(now_ns), None);
        if lost == "probe" {
            assert_eq!(there.take().map(|probe| probe.len()), Some(HEADER_BYTES));
        }
        answers.handle_readable(0, &there.segment);
        if lost == "answer" {
            assert_eq!(here.take().map(|answer| answer.len()), Some(HEADER_BYTES));
        }
        asks.handle_readable(0, &here.segment);
        now_ns = asks.due_ns().map_or(now_ns, |due_ns| due_ns.max(now_ns));
        assert!(now_ns < WITHIN_NS);
    }
    assert_eq!(asks.advance(now_ns), Some(true));
}

#[test]
fn steady_test_of_a_node_that_does_not_answer_is_given_up() {
    let (here, there, peers) = nodes(5);
    let (mut asks, mut now_ns, mut probes) = (here.begin(&peers, 0), 0, 0);
    let is_steady = loop {
        if let Some(is_steady) = asks.advance(now_ns) {
            break is_steady;
        }
        while there.take().is_some() {
            probes += 1;
        }
        now_ns = asks.due_ns().expect("it is not over");
    };
    assert!(!is_steady && now_ns == WITHIN_NS);
    assert!((50..200).contains(&probes), "{probes} probes in a second");
}

// Paper: S17
#[test]
fn network_context_that_is_saved_is_equal_when_restored() {
    let (here, _there, peers) = nodes(5);
    let mut context = here.begin(&peers, 0);
    assert_eq!(context.difference(&here.segment), None, "nothing is saved");
    let fifo = here.segment.layout().fifo_at(0, 1) as u64;
    rustix::io::pwrite(here.segment.descriptor(), b"a record", fifo + 16).unwrap();
    assert!(context.save(&here.segment) > 64, "words and records");
    assert_eq!(context.difference(&here.segment), None);
    // Behind the last record nothing waits.
    rustix::io::pwrite(here.segment.descriptor(), b"no record", fifo + 64).unwrap();
    assert_eq!(context.difference(&here.segment), None);
    rustix::io::pwrite(here.segment.descriptor(), b"A", fifo + 16).unwrap();
    assert_eq!(context.difference(&here.segment), Some(Difference::Records { from: 0, to: 1 }));
    rustix::io::pwrite(here.segment.descriptor(), b"a", fifo + 16).unwrap();
    here.publish(1, FlowWord::SndHigh, 8);
    assert_eq!(context.difference(&here.segment), Some(Difference::Words { from: 0, to: 1 }));
}
