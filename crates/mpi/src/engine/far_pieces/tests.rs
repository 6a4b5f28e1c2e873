//! Partitions between two engines over UDP on the loopback interface. No service thread runs, so what is held
//! back is said by the tests, and goes when the sender looks.

use std::sync::atomic::{AtomicBool, Ordering};

use tutti_testkit::Random;

use super::super::remote_tests::pair;
use super::*;
use crate::abi::{MPI_ERR_ARG, MPI_Request, MPI_SUCCESS};
use crate::handle::NONE;
use crate::request::partition::{Matching, Side};

const CONTEXT: u32 = 5;
const FIRST: u32 = 70;

fn bytes(count: usize, seed: u8) -> Vec<u8> {
    (0..count).map(|i| (i * 7 + i / 251) as u8 ^ seed).collect()
}

/// Side of a message: its request and its data.
struct End {
    request: MPI_Request,
    index: u32,
    data: Vec<u8>,
}

impl End {
    fn new(engine: &mut Engine, side: Side, peer: u32, partitions: usize, data: Vec<u8>) -> Self {
        let buffer = Buffer::contiguous(data.as_ptr().cast_mut(), data.len());
        let matching = Matching { context: CONTEXT, tag: 9, rank: peer as i32, side };
        let request = engine.keep_partitioned(Partitioned::new(Some(peer), matching, buffer, partitions));
        let index = engine.requests.index(request.0).expect("it is kept");
        End { request, index, data }
    }

    fn sender(engine: &mut Engine, partitions: usize, each: usize) -> Self {
        let end = End::new(engine, Side::sender(FIRST), 1, partitions, bytes(partitions * each, 3));
        engine.start_partitioned(end.index).expect("it is inactive");
        end
    }

    /// Receiver in `theirs` partitions of what its sender has in others, of `each` bytes.
    fn receiver(engine: &mut Engine, theirs: usize, partitions: usize, each: usize) -> Self {
        let data = vec![0; partitions * each];
        let end = End::new(engine, Side::Receiver(None), 0, theirs, data);
        engine.introduce_partitions(end.request, [FIRST, partitions as u32, each as u32, 0, 0, 0]);
        engine.start_partitioned(end.index).expect("it is inactive");
        end
    }

    /// Declares one ready; what is held back already goes on to be.
    fn ready(&self, engine: &mut Engine, partition: usize) {
        if !engine.try_declare_next(self.request, partition as i32) {
            engine.declare_ready(self.request, partition as i32, partition as i32).expect("it is not ready");
            engine.send_ready(self.request);
        }
    }

    /// Declares one ready that follows others soon.
    fn ready_soon(&self, engine: &mut Engine, partition: usize) {
        engine.declare_ready(self.request, partition as i32, partition as i32).expect("it is not ready");
        engine.hold_back(self.index);
    }

    fn has_arrived(&self, engine: &Engine, partition: usize) -> bool {
        engine.partitioned(self.index).expect("it is one").has_arrived(partition, &engine.requests)
    }

    fn finish(&self, engine: &mut Engine) {
        while !engine.is_done(self.index) {
            progress(engine);
        }
        assert_eq!(engine.take_partitioned(self.index).error, MPI_SUCCESS);
    }
}

fn progress(engine: &mut Engine) {
    engine.progress(None);
    while let Some(done) = engine.requests.take_awaited() {
        engine.go_on_with_pieces(done);
    }
}

#[test]
fn far_partitions_that_follow_each_other_are_few_messages() {
    const PARTITIONS: usize = 10_000;
    pair(
        |engine| {
            let send = End::sender(engine, PARTITIONS, 8);
            let mut at = 0;
            while at < PARTITIONS {
                let before = engine.counters.messages;
                send.ready_soon(engine, at);
                at += 1;
                while at < PARTITIONS && engine.counters.messages == before {
                    send.ready(engine, at);
                    at += 1;
                }
            }
            send.finish(engine);
            let messages = engine.counters.messages as usize;
            // A record, which says what follows, and the data.
            assert_eq!(messages, 2 * (PARTITIONS * 8).div_ceil(SEND_BYTES));
        },
        |engine| {
            let receive = End::receiver(engine, 7, PARTITIONS, 8);
            receive.finish(engine);
            assert!(receive.data == bytes(PARTITIONS * 8, 3));
        },
    );
}

#[test]
fn far_partitions_that_are_held_back_go_with_the_next_look_of_their_sender() {
    let has_come = AtomicBool::new(false);
    pair(
        |engine| {
            let send = End::sender(engine, 100, 8);
            send.ready_soon(engine, 0);
            (1..10).for_each(|partition| send.ready(engine, partition));
            assert!(engine.owes() && !engine.is_flushed() && engine.counters.messages == 0);
            while !has_come.load(Ordering::Acquire) {
                engine.progress(None);
            }
            assert!(engine.counters.messages == 1);
            send.ready_soon(engine, 10);
            (11..100).for_each(|partition| send.ready(engine, partition));
            send.finish(engine);
        },
        |engine| {
            let receive = End::receiver(engine, 100, 100, 8);
            while !receive.has_arrived(engine, 9) {
                progress(engine);
            }
            assert!(!receive.has_arrived(engine, 10) && receive.data[..80] == bytes(80, 3));
            has_come.store(true, Ordering::Release);
            receive.finish(engine);
            assert!(receive.data == bytes(800, 3));
        },
    );
}

#[test]
fn far_partitions_that_are_held_back_go_with_the_next_message_to_another_node() {
    pair(
        |engine| {
            let send = End::sender(engine, 100, 8);
            send.ready_soon(engine, 0);
            (1..10).for_each(|partition| send.ready(engine, partition));
            let message = Message {
                to: 1,
                context: CONTEXT + 1,
                tag: 0,
                buffer: Buffer::empty(),
                mode: Mode::Standard,
            };
            engine.send(message);
            assert!(engine.counters.messages == 2);
            (10..100).for_each(|partition| send.ready(engine, partition));
            send.finish(engine);
        },
        |engine| {
            let receive = End::receiver(engine, 100, 100, 8);
            receive.finish(engine);
            assert!(receive.data == bytes(800, 3));
            assert!(engine.probe(CONTEXT + 1, 0, 0).is_some());
        },
    );
}

#[test]
fn far_partitions_that_are_held_back_go_when_their_send_is_freed() {
    pair(
        |engine| {
            let send = End::sender(engine, 100, 8);
            send.ready_soon(engine, 0);
            (1..10).for_each(|partition| send.ready(engine, partition));
            engine.release_partitioned(send.index);
            assert!(engine.counters.messages == 1 && engine.requests.iter().count() == 0);
            // Its data stay until they have left.
            while !engine.is_flushed() {
                engine.progress(None);
            }
        },
        |engine| {
            let receive = End::receiver(engine, 100, 100, 8);
            while !receive.has_arrived(engine, 9) {
                progress(engine);
            }
            assert!(!receive.has_arrived(engine, 10) && receive.data[..80] == bytes(80, 3));
        },
    );
}

#[test]
fn far_partitions_that_there_are_not_are_refused_while_others_are_held_back() {
    pair(
        |engine| {
            let send = End::sender(engine, 100, 8);
            send.ready_soon(engine, 50);
            (51..100).for_each(|partition| send.ready(engine, partition));
            for (wrong, named) in [(100, "expected 0 to 99"), (99, "ready already"), (-1, "expected 0 to 99")]
            {
                assert!(!engine.try_declare_next(send.request, wrong));
                let error = engine.declare_ready(send.request, wrong, wrong).expect_err("it is wrong");
                assert!(error.class == MPI_ERR_ARG && error.text.contains(named), "{}", error.text);
            }
            (0..50).for_each(|partition| send.ready(engine, partition));
            send.finish(engine);
        },
        |engine| {
            let receive = End::receiver(engine, 100, 100, 8);
            receive.finish(engine);
            assert!(receive.data == bytes(800, 3));
        },
    );
}

#[test]
fn far_partitions_beyond_the_credit_of_their_sender_arrive() {
    const PARTITIONS: usize = 60_000;
    let is_out = AtomicBool::new(false);
    pair(
        |engine| {
            let send = End::sender(engine, PARTITIONS, 8);
            for partition in 0..PARTITIONS - 1 {
                match partition % 500 {
                    // Nobody takes anything: what has no credit is announced.
                    0 if engine.partitioned(send.index).is_some_and(|made| made.pieces.awaited == NONE) => {
                        send.ready_soon(engine, partition);
                    }
                    _ => send.ready(engine, partition),
                }
            }
            assert!(engine.counters.bytes < 8 * PARTITIONS as u64 - 1000, "there is credit for all");
            is_out.store(true, Ordering::Release);
            send.ready(engine, PARTITIONS - 1);
            send.finish(engine);
        },
        |engine| {
            while !is_out.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            let receive = End::receiver(engine, PARTITIONS, PARTITIONS, 8);
            receive.finish(engine);
            assert!(receive.data == bytes(PARTITIONS * 8, 3));
        },
    );
}

#[test]
fn far_partitions_in_any_order_and_size_arrive_whatever_is_held_back() {
    let seed = tutti_testkit::seed();
    for round in 0..40 {
        let mut shape = Random::new(seed + round);
        let partitions = 1 + shape.below(600) as usize;
        let each = [0, 1, 8, 100, 700, 2040][shape.below(6) as usize];
        let theirs = 1 + shape.below(40) as usize;
        pair(
            |engine| {
                let mut random = Random::new(seed ^ round);
                let send = End::sender(engine, partitions, each);
                for start in 0..2 {
                    let mut left: Vec<usize> = (0..partitions).rev().collect();
                    while let Some(&next) = left.last() {
                        let partition = match random.chance(100) {
                            true => left.swap_remove(random.below(left.len() as u64) as usize),
                            false => left.pop().unwrap_or(next),
                        };
                        let awaits = |made: &Partitioned| made.pieces.awaited != NONE;
                        let holds_back = random.chance(500)
                            && left.len() > 1
                            && !engine.partitioned(send.index).is_some_and(awaits);
                        match holds_back {
                            true => send.ready_soon(engine, partition),
                            false => send.ready(engine, partition),
                        }
                        if random.chance(20) {
                            progress(engine);
                        }
                    }
                    send.finish(engine);
                    if start == 0 {
                        engine.start_partitioned(send.index).expect("it is inactive");
                    }
                }
            },
            |engine| {
                let mut receive = End::receiver(engine, theirs, partitions, each);
                for start in 0..2 {
                    receive.finish(engine);
                    assert!(receive.data == bytes(partitions * each, 3), "{partitions} of {each} bytes");
                    if start == 0 {
                        receive.data.fill(0);
                        engine.start_partitioned(receive.index).expect("it is inactive");
                    }
                }
            },
        );
    }
}
