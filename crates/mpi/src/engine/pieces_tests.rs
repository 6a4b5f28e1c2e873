//! Partitioned messages between two engines in one process: what arrives, and what it costs, in messages and
//! in what is looked at (`steps`), not in time.

use tutti_datatype::Buffer;
use tutti_testkit::Random;

use super::protocol_tests::{World, world};
use super::*;
use crate::abi::{MPI_ERR_ARG, MPI_ERR_NO_MEM, MPI_ERR_TRUNCATE, MPI_Request, MPI_SUCCESS};
use crate::request::partition::ring::{End, RING_BYTES};
use crate::request::partition::{Matching, Partitioned, Side};

const CONTEXT: u32 = 5;
const FIRST: u32 = 70;
const A: usize = 0;
const B: usize = 1;

/// How small partitions travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Messages,
    Ring,
}

const BOTH: [Way; 2] = [Way::Messages, Way::Ring];

/// A message from rank 0 to rank 1, started on both sides.
struct Transfer {
    world: World,
    sent: Vec<u8>,
    received: Vec<u8>,
    send: MPI_Request,
    receive: MPI_Request,
}

fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect()
}

impl Transfer {
    /// Transfer of partitions of `each` bytes, taken as `theirs` partitions with room for `room` bytes.
    fn new(way: Way, partitions: usize, each: usize, theirs: usize, room: usize) -> Transfer {
        let mut world = world(2);
        let mut arena = world.1.arena(A as u32).expect("files may be as large as that");
        let (sent, mut received) = (bytes(partitions * each, 3), vec![0; room]);
        let matching = |side| Matching { context: CONTEXT, tag: 9, rank: 0, side };
        let out = Buffer::contiguous(sent.as_ptr().cast_mut(), sent.len());
        let into = Buffer::contiguous(received.as_mut_ptr(), received.len());
        let mut send = Partitioned::new(Some(B as u32), matching(Side::sender(FIRST)), out, partitions);
        let mut offset = 0;
        if way == Way::Ring && send.is_gathered() {
            assert!(world.0[A].take_ring(B as u32, FIRST).is_none() && world.0[A].may_make_ring(B as u32));
            let range = arena.allocate(RING_BYTES as u64).expect("it is empty");
            let memory = world.0[A].job.map(range).expect("a range of the arena");
            let ring = world.0[A].make_ring(B as u32, FIRST, memory);
            offset = ring.offset();
            send.pieces.ring = Some(Box::new(End::Out(ring)));
        }
        let receive = Partitioned::new(Some(A as u32), matching(Side::Receiver(None)), into, theirs);
        let (send, receive) = (world.0[A].keep_partitioned(send), world.0[B].keep_partitioned(receive));
        let (low, high) = (offset as u32, (offset >> 32) as u32);
        world.0[B].introduce_partitions(receive, [FIRST, partitions as u32, each as u32, 0, low, high]);
        let mut transfer = Transfer { world, sent, received, send, receive };
        transfer.start();
        transfer
    }

    fn start(&mut self) {
        for (rank, request) in [(A, self.send), (B, self.receive)] {
            let index = self.world.0[rank].requests.index(request.0).expect("it is kept");
            self.world.0[rank].start_partitioned(index).expect("it is inactive");
        }
    }

    fn ready(&mut self, low: i32, high: i32) {
        if low == high && self.world.0[A].try_declare_next(self.send, low) {
            return;
        }
        self.world.0[A].declare_ready(self.send, low, high).expect("these are not ready yet");
        self.world.0[A].send_ready(self.send);
    }

    fn progress(&mut self, rank: usize) -> bool {
        let engine = &mut self.world.0[rank];
        let mut moved = engine.progress(None);
        while let Some(done) = engine.requests.take_awaited() {
            engine.go_on_with_pieces(done);
            moved = true;
        }
        moved
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            while self.progress(A) | self.progress(B) {}
            // A receiver waits some polls for a sender that may come in.
            (0..100).for_each(|_| _ = self.progress(A) | self.progress(B));
        }
    }

    fn is_done(&self, rank: usize) -> bool {
        let request = if rank == A { self.send } else { self.receive };
        let engine = &self.world.0[rank];
        engine.is_done(engine.requests.index(request.0).expect("it is kept"))
    }

    fn has_arrived(&mut self, partition: usize) -> bool {
        if self.is_found(partition as i32) {
            return true;
        }
        let engine = &mut self.world.0[B];
        let index = engine.requests.index(self.receive.0).expect("it is kept");
        engine.read_ring_now(index);
        let made = engine.partitioned(index).expect("it is one");
        made.has_arrived(partition, &engine.requests)
    }

    /// Whether a partition is found without progress.
    fn is_found(&mut self, partition: i32) -> bool {
        self.world.0[B].try_find_arrived(self.receive, partition)
    }

    /// Completes both sides, which are done; gives the receiver's outcome.
    fn complete(&mut self) -> i32 {
        assert!(self.is_done(A) && self.is_done(B), "{} {}", self.is_done(A), self.is_done(B));
        let [_, error] = [(A, self.send), (B, self.receive)].map(|(rank, request)| {
            let engine = &mut self.world.0[rank];
            let index = engine.requests.index(request.0).expect("it is kept");
            engine.take_partitioned(index).error
        });
        error
    }

    /// Completes the receive, which is done, and starts it again.
    fn restart_receive(&mut self) {
        let engine = &mut self.world.0[B];
        let index = engine.requests.index(self.receive.0).expect("it is kept");
        assert_eq!(engine.take_partitioned(index).error, MPI_SUCCESS);
        engine.start_partitioned(index).expect("it is inactive");
        self.settle();
    }

    fn pending(&self) -> usize {
        self.world.0.iter().map(|engine| engine.requests.iter().count()).sum()
    }
}

#[test]
fn partitions_ready_at_once_are_two_messages_however_many_there_are() {
    for (way, partitions) in BOTH.into_iter().flat_map(|way| [10, 100, 1000, 100_000].map(|n| (way, n))) {
        let mut transfer = Transfer::new(way, partitions, 8, partitions, 8 * partitions);
        for _ in 0..3 {
            let before = transfer.world.0[A].counters.messages;
            let looked_at = steps::of(|| {
                transfer.ready(0, partitions as i32 - 1);
                transfer.settle();
            });
            let messages = transfer.world.0[A].counters.messages - before;
            assert!(messages <= 2, "{messages} messages for {partitions} partitions");
            assert!(looked_at <= 50, "{looked_at} looks for {partitions} partitions");
            assert_eq!(transfer.complete(), MPI_SUCCESS);
            assert!(transfer.received == transfer.sent, "{partitions} partitions");
            transfer.received.fill(0);
            transfer.start();
        }
    }
}

#[test]
fn partitions_ready_one_by_one_are_looked_at_as_often_however_many_there_are() {
    let cost = |way: Way, partitions: usize, stride: usize| {
        let mut transfer = Transfer::new(way, partitions, 8, partitions, 8 * partitions);
        steps::of(|| {
            for offset in 0..stride {
                for partition in (offset..partitions).step_by(stride) {
                    transfer.ready(partition as i32, partition as i32);
                    if partition % 50 == 0 {
                        transfer.progress(B);
                    }
                }
            }
            transfer.settle();
            assert_eq!(transfer.complete(), MPI_SUCCESS);
            assert!(transfer.received == transfer.sent);
        })
    };
    for (way, stride) in BOTH.into_iter().flat_map(|way| [1, 2, 7].map(|stride| (way, stride))) {
        let (few, many) = (cost(way, 500, stride), cost(way, 4000, stride));
        assert!(many <= 16 * few, "500 partitions take {few} steps, 4000 take {many}");
        assert!(few <= 500 * 100, "500 partitions take {few} steps");
    }
}

#[test]
fn a_slow_receiver_gets_few_long_pieces() {
    const PARTITIONS: i32 = 50_000;
    for (way, most) in [(Way::Messages, PARTITIONS as u64 / 10), (Way::Ring, 1)] {
        let mut transfer = Transfer::new(way, PARTITIONS as usize, 8, 10, 8 * PARTITIONS as usize);
        (0..PARTITIONS).for_each(|partition| transfer.ready(partition, partition));
        assert!(!transfer.is_done(A), "there is room for all");
        transfer.settle();
        let messages = transfer.world.0[A].counters.messages;
        assert!(messages <= most, "{messages} messages");
        assert_eq!(transfer.complete(), MPI_SUCCESS);
        assert!(transfer.received == transfer.sent);
    }
}

#[test]
fn a_sender_is_not_done_before_its_pieces_are_followed_up() {
    const PARTITIONS: i32 = 20_000;
    let mut transfer = Transfer::new(Way::Messages, PARTITIONS as usize, 8, 10, 8 * PARTITIONS as usize);
    for partition in 0..PARTITIONS {
        transfer.ready(partition, partition);
        if partition % 500 == 0 {
            transfer.progress(B);
        }
        if partition % 20 == 0 {
            // Another thread moves what can be moved, and this one does not yet follow up.
            transfer.world.0[A].progress(None);
        }
        if partition % 700 == 0
            && let Some(done) = transfer.world.0[A].requests.take_awaited()
        {
            transfer.world.0[A].go_on_with_pieces(done);
        }
    }
    for _ in 0..100_000 {
        transfer.progress(B);
        transfer.world.0[A].progress(None);
        if transfer.is_done(A) {
            break;
        }
        if let Some(done) = transfer.world.0[A].requests.take_awaited() {
            transfer.world.0[A].go_on_with_pieces(done);
        }
    }
    assert!(transfer.is_done(A) && !transfer.world.0[A].requests.has_awaited());
    assert!(transfer.world.0[A].pieces.owners.is_empty());
    transfer.settle();
    assert_eq!(transfer.complete(), MPI_SUCCESS);
    assert!(transfer.received == transfer.sent);
}

#[test]
fn a_partition_arrives_when_all_that_overlap_it_have() {
    for way in BOTH {
        let mut transfer = Transfer::new(way, 6, 4, 4, 24);
        transfer.ready(0, 0);
        transfer.settle();
        assert_eq!([0, 1, 2, 3].map(|partition| transfer.has_arrived(partition)), [false; 4]);
        transfer.ready(1, 1);
        transfer.ready(5, 5);
        transfer.settle();
        assert_eq!([0, 1, 2, 3].map(|i| transfer.has_arrived(i)), [true, false, false, false]);
        transfer.ready(3, 4);
        transfer.settle();
        assert_eq!([0, 1, 2, 3].map(|i| transfer.has_arrived(i)), [true, false, true, true]);
        assert!(!transfer.is_done(A) && !transfer.is_done(B));
        transfer.ready(2, 2);
        transfer.settle();
        assert_eq!(transfer.complete(), MPI_SUCCESS);
        assert!(transfer.received == transfer.sent);
    }
}

#[test]
fn partitions_in_any_order_and_size_arrive_whatever_the_receiver_does() {
    let mut random = Random::new(tutti_testkit::seed());
    for round in 0..120 {
        let way = BOTH[round % 2];
        let partitions = 1 + random.below(300) as usize;
        let each = [0, 1, 8, 100, 700, 2040, 2041, 5000][random.below(8) as usize];
        let theirs = 1 + random.below(40) as usize;
        let mut transfer = Transfer::new(way, partitions, each, theirs, partitions * each);
        transfer.world.0[B].peers[A].single_copy_works = random.chance(500);
        for _ in 0..2 {
            let mut left: Vec<(i32, i32)> = Vec::new();
            let mut at = 0;
            while at < partitions {
                let end = (at + 1 + random.below(40) as usize).min(partitions);
                left.push((at as i32, end as i32 - 1));
                at = end;
            }
            while !left.is_empty() {
                let (low, high) = left.swap_remove(random.below(left.len() as u64) as usize);
                transfer.ready(low, high);
                if random.chance(300) {
                    transfer.progress(A);
                    transfer.progress(B);
                }
            }
            transfer.settle();
            assert_eq!(transfer.complete(), MPI_SUCCESS, "{partitions} of {each} bytes");
            assert!(transfer.received == transfer.sent, "{partitions} of {each} bytes");
            transfer.received.fill(0);
            transfer.start();
        }
    }
}

#[test]
fn a_receiver_without_room_gets_what_fits_and_an_error() {
    let cases = [(100, 8, 404), (3, 8, 20), (1000, 8, 4000)];
    for (way, (partitions, each, room)) in BOTH.into_iter().flat_map(|way| cases.map(|case| (way, case))) {
        let mut transfer = Transfer::new(way, partitions, each, 4, room);
        transfer.ready(0, partitions as i32 - 1);
        transfer.settle();
        assert_eq!(transfer.complete(), MPI_ERR_TRUNCATE, "{partitions} of {each} bytes");
        assert!(transfer.received == transfer.sent[..room], "{partitions} of {each} bytes");
        assert_eq!(transfer.pending(), 2);
    }
}

#[test]
fn partitions_are_declared_ready_once() {
    for way in BOTH {
        let mut transfer = Transfer::new(way, 10, 8, 10, 80);
        transfer.ready(3, 5);
        let [none, twice] = ["expected 0 to 9", "has been declared ready already"];
        for (low, high, named) in [
            (5, 5, format!("partition 5 {twice}")),
            (0, 9, format!("partition 3 {twice}")),
            (4, 9, format!("partition 4 {twice}")),
            (10, 10, format!("partition is 10, {none}")),
            (8, 11, format!("partition is 11, {none}")),
            (-1, 0, format!("partition is -1, {none}")),
        ] {
            assert!(low != high || !transfer.world.0[A].try_declare_next(transfer.send, low));
            let declared = transfer.world.0[A].declare_ready(transfer.send, low, high);
            let error = declared.expect_err("one is wrong");
            assert_eq!((error.class, &*error.text), (MPI_ERR_ARG, named.as_str()));
        }
        transfer.ready(0, 2);
        transfer.ready(6, 9);
        transfer.settle();
        assert_eq!(transfer.complete(), MPI_SUCCESS);
    }
}

#[test]
fn what_is_freed_while_pieces_wait_goes_on_and_goes() {
    const PARTITIONS: usize = 20_000;
    for way in BOTH {
        let mut transfer = Transfer::new(way, PARTITIONS, 8, PARTITIONS, 8 * PARTITIONS);
        (0..PARTITIONS as i32).for_each(|partition| transfer.ready(partition, partition));
        for (rank, request) in [(A, transfer.send), (B, transfer.receive)] {
            let index = transfer.world.0[rank].requests.index(request.0).expect("it is kept");
            transfer.world.0[rank].release_partitioned(index);
        }
        transfer.settle();
        assert!(transfer.received == transfer.sent);
        assert_eq!(transfer.pending(), 0);
        let again = transfer.world.0[A].take_ring(B as u32, FIRST + 1);
        assert_eq!(again.is_some(), way == Way::Ring);
    }
}

#[test]
fn a_ring_is_given_to_another_send_when_it_is_empty() {
    let mut transfer = Transfer::new(Way::Ring, 100, 8, 100, 800);
    (0..100).for_each(|partition| transfer.ready(partition, partition));
    assert!(transfer.is_done(A) && !transfer.is_done(B));
    let engine = &mut transfer.world.0[A];
    let index = engine.requests.index(transfer.send.0).expect("it is kept");
    engine.take_partitioned(index);
    engine.release_partitioned(index);
    assert!(engine.take_ring(B as u32, FIRST + 1).is_none(), "its receiver has not read it");
    transfer.settle();
    assert!(transfer.is_done(B) && transfer.received == transfer.sent);
    assert!(transfer.world.0[A].take_ring(A as u32, FIRST + 1).is_none(), "another rank reads it");
    assert!(transfer.world.0[A].take_ring(B as u32, FIRST + 1).is_some());
}

#[test]
fn partitions_of_the_next_start_wait_for_the_receivers_next_start() {
    for way in BOTH {
        let mut transfer = Transfer::new(way, 100, 8, 100, 800);
        (0..100).for_each(|partition| transfer.ready(partition, partition));
        let engine = &mut transfer.world.0[A];
        let index = engine.requests.index(transfer.send.0).expect("it is kept");
        engine.take_partitioned(index);
        engine.start_partitioned(index).expect("it is inactive");
        let first = transfer.sent.clone();
        transfer.sent.fill(9);
        transfer.ready(50, 99);
        transfer.ready(0, 49);
        transfer.settle();
        assert!(transfer.is_done(B) && transfer.received == first, "{way:?}");
        transfer.restart_receive();
        assert_eq!(transfer.complete(), MPI_SUCCESS);
        assert!(transfer.received == transfer.sent, "{way:?}");
    }
}

#[test]
fn a_receive_whose_ring_cannot_be_mapped_says_so() {
    let mut transfer = Transfer::new(Way::Messages, 20, 8, 20, 160);
    let engine = &mut transfer.world.0[B];
    let matching = Matching { context: CONTEXT, tag: 10, rank: 0, side: Side::Receiver(None) };
    let into = Buffer::contiguous(transfer.received.as_mut_ptr(), 160);
    let lost = engine.keep_partitioned(Partitioned::new(Some(A as u32), matching, into, 20));
    // Behind the end of the arena.
    engine.introduce_partitions(lost, [FIRST + 1, 20, 8, 0, 0, 1 << 30]);
    let index = engine.requests.index(lost.0).expect("it is kept");
    for _ in 0..2 {
        engine.start_partitioned(index).expect("it is inactive");
        assert!(engine.is_done(index));
        let failure = engine.failure(index).expect("it has failed");
        assert_eq!(failure.class, MPI_ERR_NO_MEM);
        assert!(failure.text.contains("ulimit -v"), "{}", failure.text);
        assert_eq!(engine.take_partitioned(index).error, MPI_ERR_NO_MEM);
    }
}

#[test]
fn a_receiver_that_waits_for_all_reads_when_it_is_called() {
    const PARTITIONS: i32 = 1000;
    let mut transfer = Transfer::new(Way::Ring, PARTITIONS as usize, 8, PARTITIONS as usize, 8000);
    let reads = (0..PARTITIONS - 1).filter(|&partition| {
        transfer.ready(partition, partition);
        transfer.progress(B)
    });
    // 16,000 bytes with those of records, a call every 4,096.
    assert_eq!(reads.count(), 3);
    assert!(transfer.has_arrived(PARTITIONS as usize - 2) && !transfer.is_done(B));
    transfer.ready(PARTITIONS - 1, PARTITIONS - 1);
    assert!(transfer.is_done(A) && transfer.progress(B) && transfer.is_done(B));
    assert_eq!(transfer.complete(), MPI_SUCCESS);
    assert!(transfer.received == transfer.sent);
}

#[test]
fn a_receiver_is_rung_each_time_the_ring_gets_full() {
    const PARTITIONS: i32 = 10_000;
    let mut transfer = Transfer::new(Way::Ring, PARTITIONS as usize, 8, PARTITIONS as usize, 80_000);
    let mut next = 0;
    for time in 0..3 {
        let bell = tutti_shm::doorbell::prepare_sleep(transfer.world.0[B].job.endpoint(B));
        while transfer.world.0[A].try_declare_next(transfer.send, next) {
            next += 1;
        }
        transfer.ready(next, next);
        next += 1;
        let endpoint = transfer.world.0[B].job.endpoint(B);
        assert_ne!(endpoint.bell.load(std::sync::atomic::Ordering::Relaxed), bell, "time {time}");
        tutti_shm::doorbell::cancel_sleep(endpoint);
        assert!(transfer.has_arrived(next as usize - 2));
        // What has found no room goes before its sender looks at the ring by itself.
        transfer.ready(next, next);
        next += 1;
    }
    transfer.ready(next, PARTITIONS - 1);
    transfer.settle();
    assert_eq!(transfer.complete(), MPI_SUCCESS);
    assert!(transfer.received == transfer.sent);
}

/// All but the last record of a start, behind which there is more to do.
#[test]
fn partitions_in_a_ring_are_found_without_progress() {
    const EACH: usize = 8;
    let mut transfer = Transfer::new(Way::Ring, 100, EACH, 100, 100 * EACH);
    for round in 0..3 {
        transfer.received.fill(0);
        for i in 0..99 {
            assert!(!transfer.is_found(i), "round {round}: partition {i} is not ready");
            transfer.ready(i, i);
            assert!(transfer.is_found(i) && transfer.is_found(i), "round {round}: partition {i}");
            let end = (i as usize + 1) * EACH;
            assert_eq!(transfer.received[..end], transfer.sent[..end]);
        }
        for beyond in [-1, 100, i32::MAX, i32::MIN] {
            assert!(!transfer.is_found(beyond), "there is no partition {beyond}");
        }
        transfer.ready(99, 99);
        assert!(!transfer.is_found(99) && transfer.has_arrived(99));
        transfer.settle();
        assert_eq!(transfer.complete(), MPI_SUCCESS);
        assert_eq!(transfer.received, transfer.sent);
        assert!(!transfer.is_found(0), "an operation that is not started is left to the general way");
        transfer.start();
    }
}

/// Partitions of the receiver are halves and triples of the sender's; what gets ready first is the end.
#[test]
fn partitions_in_a_ring_are_found_whatever_the_sender_has() {
    for theirs in [15, 60, 10] {
        let mut transfer = Transfer::new(Way::Ring, 30, 16, theirs, 30 * 16);
        for i in (0..30).rev() {
            transfer.ready(i, i);
            let begin = (i as usize) * 16;
            for own in 0..theirs {
                let is_there = own * 30 / theirs >= i as usize;
                assert_eq!(transfer.has_arrived(own), is_there, "partition {own} of {theirs} behind {i}");
            }
            assert_eq!(transfer.received[begin..], transfer.sent[begin..]);
        }
        transfer.settle();
        assert_eq!(transfer.complete(), MPI_SUCCESS);
    }
}
