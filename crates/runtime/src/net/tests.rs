//! Tests of datagrams that a full socket has not taken.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use tutti_channel::packet::{Body, parse};
use tutti_channel::{Config, Taken};
use tutti_transport::{Counters, Datagram};

use tutti_shm::flow::FlowWords;

use super::*;

const FRAGMENTS: usize = 16;
const BURST: usize = 8;

/// Datagrams that have been sent, and for how many more there is room.
#[derive(Default)]
struct Wire {
    sent: Vec<(u32, Vec<u8>)>,
    room: usize,
}

struct FullSocket {
    wire: Arc<Mutex<Wire>>,
    budget: Budget,
}

impl Transport for FullSocket {
    fn peers(&self) -> usize {
        3
    }

    fn datagram_bytes_max(&self) -> usize {
        DATAGRAM_BYTES_MAX
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn send(&mut self, batch: &[Outgoing<'_>]) -> io::Result<usize> {
        let mut wire = self.wire.lock().unwrap();
        let taken = batch.len().min(wire.room);
        wire.room -= taken;
        wire.sent.extend(batch[..taken].iter().map(|one| (one.peer, [one.head, one.body].concat())));
        Ok(taken)
    }

    fn receive(&mut self, _take: &mut dyn FnMut(Datagram<'_>)) -> io::Result<usize> {
        Ok(0)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A program whose messages to rank n hold n; over, they hold nothing any more.
struct Program {
    bytes: Vec<Vec<u8>>,
}

impl Source for Program {
    fn read(&mut self, _tag: u64, _offset: u64, _into: &mut [u8]) {
        panic!("the messages lie in one piece");
    }

    fn slice(&self, tag: u64, offset: u64, bytes: usize) -> Option<&[u8]> {
        self.bytes[tag as usize].get(offset as usize..)?.get(..bytes)
    }
}

impl Sink for Program {
    fn record(&mut self, _from: Rank, _record: &[u8]) -> Taken {
        Taken::Full
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {}
}

/// Words and FIFO of a flow, which stay for ever.
fn flow() -> SegmentFlow {
    let words: &'static mut FlowWords = Box::leak(Box::default());
    let fifo = Box::leak(vec![0_u8; 64 << 10].into_boxed_slice());
    let at = NonNull::new(fifo.as_mut_ptr()).expect("memory that is there");
    // SAFETY: leaked, and given to nobody else.
    unsafe { SegmentFlow::new(NonNull::from(words), at, fifo.len()) }
}

/// Two bursts are planned in one call, as the heads of a burst are short; with their data they are longer
/// than one burst and the single datagrams before it. Whatever the socket had room for, the rest leaves when
/// it has room again, although the messages are over by then.
#[test]
fn net_full_socket_send_is_finished_later() {
    for room in [0, 1, BURST - 1, BURST, BURST + 3, FRAGMENTS - 1] {
        let wire = Arc::new(Mutex::new(Wire { room, ..Wire::default() }));
        let config = Config {
            datagram_bytes: 1448,
            burst_datagrams: BURST,
            receive_buffer_bytes: 16 << 20,
            ..Config::default()
        };
        let identity = Identity { key: Key(1), incarnation: Incarnation(0), rank: Rank(0) };
        let flows = [1, 2].map(|rank| (Rank(rank), flow()));
        let clock = Clock::default();
        let endpoint = Endpoint::new(identity, config, now(&clock), flows).unwrap();
        let transport = FullSocket { wire: Arc::clone(&wire), budget: Budget::simple(16 << 20, 100) };
        let mut net = Net::new(endpoint, Box::new(transport), clock, Vec::new());
        let bytes = net.endpoint.config().fragment_bytes() * BURST;
        let mut program = Program { bytes: [0, 1, 2].map(|rank| vec![rank; bytes]).to_vec() };
        for to in [1, 2] {
            net.send_bulk(to, 5, bytes, to as u64).unwrap();
        }
        net.transmit(&mut program);
        assert_eq!(wire.lock().unwrap().sent.len(), room);
        // The messages are over: their memory is the program's again.
        program.bytes.iter_mut().for_each(Vec::clear);
        wire.lock().unwrap().room = usize::MAX;
        net.transmit(&mut program);
        let sent = std::mem::take(&mut wire.lock().unwrap().sent);
        assert_eq!(sent.len(), FRAGMENTS, "with room for {room} at first");
        for (count, (to, datagram)) in sent.iter().enumerate() {
            let (header, body) = parse(datagram).unwrap();
            let Body::Fragment { offset, bytes, .. } = body else { panic!("{header:?}") };
            assert_eq!((*to as usize, header.to.0), (1 + count / BURST, *to));
            assert_eq!(offset as usize, count % BURST * net.endpoint.config().fragment_bytes());
            assert!(bytes.iter().all(|byte| *byte == *to as u8), "datagram {count} holds something else");
        }
        assert!(net.planned.is_empty());
    }
}
