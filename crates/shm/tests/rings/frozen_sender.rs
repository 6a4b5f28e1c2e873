//! The sender stands still at every single instruction of one send. At each of them the receiver's view is
//! "nothing" or "the whole right message", and it changes once.

use std::sync::atomic::Ordering;

use tutti_testkit::stepper::{Child, stop_here};

use tutti_testkit::Random;

use crate::memory::{
    INLINE_BYTES_MAX, Memory, Message, chunk_data, put_chunk, put_chunk_of, take, take_chunk,
};
use crate::script::SharedScript;

/// Observations of the receiver at the instructions of one operation.
struct Seen {
    instructions: u32,
    /// Instructions after which the view was another than before.
    changes: Vec<u32>,
    present: bool,
}

impl Seen {
    fn new() -> Self {
        Seen { instructions: 0, changes: Vec::new(), present: false }
    }

    fn look(&mut self, present: bool) {
        if present != self.present {
            self.changes.push(self.instructions);
            self.present = present;
        }
    }

    fn report(&self, name: &str) {
        println!("{name}: {} instructions, the message is there from {:?}", self.instructions, self.changes);
        assert!(self.instructions > 20, "only {} instructions were stepped", self.instructions);
        assert_eq!(self.changes.len(), 1, "{name}: the view changed at {:?}", self.changes);
        assert!(self.present);
    }
}

/// Steps through the sending of an envelope with `bytes` inline bytes, after `history` messages of one line.
fn step_envelope(name: &str, history: u64, bytes: usize) {
    let (memory, copy, script) = (Memory::new(), Memory::new(), SharedScript::new());
    let mut child = Child::fork_traced(|| {
        tutti_shm::distance::stop_measuring();
        let memory = memory.again();
        let (mut envelopes, _) = memory.senders(0);
        let push = |ring: &mut tutti_shm::envelope_ring::Producer, message: &Message| {
            assert!(ring.try_push(&message.envelope, &message.inline));
        };
        (0..history).for_each(|n| push(&mut envelopes, &Message::new(n, 8)));
        let message = Message::new(history, bytes);
        stop_here();
        let pushed = envelopes.try_push(&message.envelope, &message.inline);
        script.operations.store(1, Ordering::Release);
        assert!(pushed);
        stop_here();
        push(&mut envelopes, &Message::new(history + 1, 8));
    });
    child.wait_stopped();
    let (mut inbox, _) = memory.receivers(0);
    (0..history).for_each(|n| assert!(take(&mut inbox, n).is_some()));
    inbox.publish();
    let mut seen = Seen::new();
    while script.operations.load(Ordering::Acquire) == 0 {
        copy.copy_rings_of(&memory);
        let mut view = copy.consumer_here(&inbox);
        let found = take(&mut view, history);
        assert!(view.peek().is_none(), "something stands behind the message");
        assert!(found.is_none_or(|found| found == bytes));
        seen.look(found.is_some());
        child.step();
        seen.instructions += 1;
    }
    seen.report(name);
    assert_eq!(take(&mut inbox, history), Some(bytes), "the message itself, not a copy");
    child.go_on();
    child.wait_stopped();
    assert!(inbox.peek().is_none(), "the message came twice");
    child.go_on();
    child.expect_success();
    assert_eq!(take(&mut inbox, history + 1), Some(8), "the ring lives on");
}

#[test]
fn frozen_sender_publishes_a_small_envelope_at_one_instruction() {
    step_envelope("8 bytes", 0, 8);
    step_envelope("no bytes, last line of the ring", 15, 0);
}

#[test]
fn frozen_sender_publishes_a_long_envelope_at_one_instruction() {
    step_envelope("200 bytes", 1, 200);
    step_envelope("232 bytes, up to the end of the ring", 12, INLINE_BYTES_MAX);
}

#[test]
fn frozen_sender_publishes_a_padded_envelope_at_one_instruction() {
    step_envelope("100 bytes behind a pad of one line", 15, 100);
    step_envelope("232 bytes behind a pad of three lines", 13, INLINE_BYTES_MAX);
}

#[test]
fn frozen_sender_publishes_a_bulk_chunk_at_one_instruction() {
    // Of 1024 bytes, then of one byte in the second lap.
    for history in [0, 9] {
        let (memory, copy, script) = (Memory::new(), Memory::new(), SharedScript::new());
        let mut child = Child::fork_traced(|| {
            tutti_shm::distance::stop_measuring();
            let memory = memory.again();
            let (_, mut bulk) = memory.senders(0);
            for n in 0..history {
                while !put_chunk(&mut bulk, n) {
                    std::thread::yield_now();
                }
            }
            let data = chunk_data(history).collect::<Vec<_>>();
            stop_here();
            let put = put_chunk_of(&mut bulk, history, &data);
            script.operations.store(1, Ordering::Release);
            assert!(put);
        });
        let (_, mut bulk_in) = memory.receivers(0);
        let mut seen = Seen::new();
        for n in 0..history {
            while !take_chunk(&mut bulk_in, n) {
                std::thread::yield_now();
            }
        }
        child.wait_stopped();
        while script.operations.load(Ordering::Acquire) == 0 {
            copy.copy_rings_of(&memory);
            let mut view = copy.bulk_consumer_here(&bulk_in);
            let found = take_chunk(&mut view, history);
            assert!(view.peek().is_none(), "something stands behind the chunk");
            seen.look(found);
            child.step();
            seen.instructions += 1;
        }
        seen.report(&format!("chunk {history}"));
        assert!(take_chunk(&mut bulk_in, history), "the chunk itself, not a copy");
        child.go_on();
        child.expect_success();
        assert!(bulk_in.peek().is_none(), "the chunk came twice");
    }
}

#[test]
fn frozen_sender_never_blocks_the_receiver() {
    const MESSAGES: u64 = 40;
    let (memory, script) = (Memory::new(), SharedScript::new());
    let mut random = Random::new(tutti_testkit::seed());
    let sizes = (0..MESSAGES).map(|_| random.below(INLINE_BYTES_MAX as u64 + 1) as usize).collect::<Vec<_>>();
    let mut child = Child::fork_traced(|| {
        tutti_shm::distance::stop_measuring();
        let memory = memory.again();
        let (mut envelopes, mut bulk) = memory.senders(0);
        let messages = (0..).zip(&sizes).map(|(n, bytes)| Message::new(n, *bytes)).collect::<Vec<_>>();
        let chunks = (0..MESSAGES).map(|n| chunk_data(n).collect::<Vec<_>>()).collect::<Vec<_>>();
        stop_here();
        for (n, (message, chunk)) in (0..).zip(messages.iter().zip(&chunks)) {
            while !envelopes.try_push(&message.envelope, &message.inline) {}
            while !put_chunk_of(&mut bulk, n, chunk) {}
        }
        script.operations.store(1, Ordering::Release);
    });
    child.wait_stopped();
    let ((mut inbox, mut bulk_in), mut instructions, mut received, mut chunks) =
        (memory.receivers(0), 0, 0, 0);
    while script.operations.load(Ordering::Acquire) == 0 {
        child.step();
        instructions += 1;
        if random.below(50) == 0 {
            received += u64::from(take(&mut inbox, received).is_some());
            chunks += u64::from(take_chunk(&mut bulk_in, chunks));
        }
    }
    child.go_on();
    child.expect_success();
    let early = received;
    while take(&mut inbox, received).is_some() {
        received += 1;
    }
    while take_chunk(&mut bulk_in, chunks) {
        chunks += 1;
    }
    println!("{instructions} instructions, {early} messages received meanwhile");
    assert_eq!((received, chunks), (MESSAGES, MESSAGES));
    assert!(inbox.peek().is_none() && bulk_in.peek().is_none(), "more came than was sent");
}
