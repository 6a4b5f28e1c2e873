//! The receiver stands still at every single instruction of one receive, with a full ring. At each of them
//! the sender, on a copy, sends all it can: it gets room at one instruction, and until then the message being
//! received is untouched.

use std::sync::atomic::Ordering;

use tutti_shm::envelope_ring::{Envelope, Producer};
use tutti_testkit::stepper::{Child, stop_here};

use tutti_testkit::Random;

use crate::memory::{
    CHUNK_BYTES_MAX, INLINE_BYTES_MAX, LINES, Memory, Message, chunk_bytes, chunk_data, put_chunk, take,
    take_chunk,
};
use crate::script::SharedScript;

/// When the sender got room, over the instructions of one receive.
#[derive(Default)]
struct Room {
    instructions: u32,
    changes: Vec<u32>,
    has_room: bool,
}

impl Room {
    fn look(&mut self, has_room: bool) -> bool {
        if has_room != self.has_room {
            self.changes.push(self.instructions);
            self.has_room = has_room;
        }
        has_room
    }

    fn report(&self, name: &str) {
        println!("{name}: {} instructions, room is given at {:?}", self.instructions, self.changes);
        assert!(self.instructions > 20, "only {} instructions were stepped", self.instructions);
        assert_eq!(self.changes.len(), 1, "{name}: room changed at {:?}", self.changes);
        assert!(self.has_room);
    }
}

fn push(ring: &mut Producer, n: u64, bytes: usize) -> bool {
    let message = Message::new(n, bytes);
    ring.try_push(&message.envelope, &message.inline)
}

/// Steps through the receiving of an envelope with `bytes` inline bytes, after `history` messages of one
/// line.
fn step_envelope(name: &str, history: u64, bytes: usize) {
    let (memory, copy, script) = (Memory::new(), Memory::new(), SharedScript::new());
    let (mut out, _) = memory.senders(0);
    (0..history).for_each(|n| assert!(push(&mut out, n, 8)));
    // What the receiver would see from where it stands before and after: it exists on copies only.
    copy.copy_rings_of(&memory);
    let mut before = copy.consumer_here(&memory.receivers(0).0);
    (0..history).for_each(|n| assert!(take(&mut before, n).is_some()));

    let mut child = Child::fork_traced(|| {
        tutti_shm::distance::stop_measuring();
        let memory = memory.again();
        let (mut inbox, _) = memory.receivers(0);
        (0..history).for_each(|n| assert!(take(&mut inbox, n).is_some()));
        inbox.publish();
        // SAFETY: the parent reads the data after `operations` says so; they are large enough.
        let data = unsafe { &mut (&mut *script.data.get())[..bytes] };
        stop_here();
        let message = inbox.peek().expect("it was sent");
        message.read_inline(data);
        message.consume();
        inbox.publish();
        script.operations.store(1, Ordering::Release);
    });
    child.wait_stopped();
    assert!(push(&mut out, history, bytes));
    let mut sent = history + 1;
    while push(&mut out, sent, 8) {
        sent += 1;
    }
    copy.copy_rings_of(&memory);
    let mut after = copy.consumer_here(&before);
    assert_eq!(take(&mut after, history), Some(bytes));

    let mut room = Room::default();
    while script.operations.load(Ordering::Acquire) == 0 {
        copy.copy_rings_of(&memory);
        let mut sender = copy.producer_here(&out);
        let mut more = sent;
        while push(&mut sender, more, 8) {
            more += 1;
        }
        let has_room = room.look(more > sent);
        let mut view = copy.consumer_here(if has_room { &after } else { &before });
        for n in history + u64::from(has_room)..more {
            assert!(take(&mut view, n).is_some(), "{n} of {more} is missing at {}", room.instructions);
        }
        assert!(view.peek().is_none());
        child.step();
        room.instructions += 1;
    }
    room.report(name);
    // SAFETY: the child has said that it is done with the data.
    assert_eq!(unsafe { &(&*script.data.get())[..bytes] }, Message::new(history, bytes).inline);
    child.go_on();
    child.expect_success();
}

#[test]
fn frozen_receiver_frees_a_small_envelope_at_one_instruction() {
    step_envelope("8 bytes", 0, 8);
    step_envelope("40 bytes in the last line", LINES as u64 - 1, 40);
}

#[test]
fn frozen_receiver_frees_a_long_envelope_at_one_instruction() {
    step_envelope("200 bytes", 3, 200);
    step_envelope("232 bytes", 12, INLINE_BYTES_MAX);
}

#[test]
fn frozen_receiver_frees_a_bulk_slot_at_one_instruction() {
    // Of 1024 bytes, then of one byte in the second lap.
    for history in [0, 9] {
        let (memory, copy, script) = (Memory::new(), Memory::new(), SharedScript::new());
        let (_, mut out) = memory.senders(0);
        let mut child = Child::fork_traced(|| {
            tutti_shm::distance::stop_measuring();
            let memory = memory.again();
            let (_, mut bulk_in) = memory.receivers(0);
            for n in 0..history {
                while !take_chunk(&mut bulk_in, n) {
                    std::thread::yield_now();
                }
            }
            // SAFETY: the parent reads the data after `operations` says so; they are large enough.
            let data = unsafe { &mut (&mut *script.data.get())[..1024] };
            stop_here();
            let (chunk, slot) = bulk_in.peek().expect("it was sent");
            // SAFETY: a full slot holds so many bytes until we advance.
            let found = unsafe { std::slice::from_raw_parts(slot.as_ptr(), chunk.bytes) };
            data[..chunk.bytes].copy_from_slice(found);
            bulk_in.advance();
            script.operations.store(1, Ordering::Release);
        });
        let mut before = copy.bulk_consumer_here(&memory.receivers(0).1);
        for n in 0..history {
            while !put_chunk(&mut out, n) {
                std::thread::yield_now();
            }
            copy.copy_rings_of(&memory);
            assert!(take_chunk(&mut before, n));
        }
        child.wait_stopped();
        let mut sent = history;
        while put_chunk(&mut out, sent) {
            sent += 1;
        }
        copy.copy_rings_of(&memory);
        let mut after = copy.bulk_consumer_here(&before);
        assert!(take_chunk(&mut after, history));

        let mut room = Room::default();
        while script.operations.load(Ordering::Acquire) == 0 {
            copy.copy_rings_of(&memory);
            let mut sender = copy.bulk_producer_here(&out);
            let mut more = sent;
            while put_chunk(&mut sender, more) {
                more += 1;
            }
            let has_room = room.look(more > sent);
            let mut view = copy.bulk_consumer_here(if has_room { &after } else { &before });
            for n in history + u64::from(has_room)..more {
                assert!(take_chunk(&mut view, n), "{n} of {more} is missing at {}", room.instructions);
            }
            assert!(view.peek().is_none());
            child.step();
            room.instructions += 1;
        }
        room.report(&format!("chunk {history}"));
        // SAFETY: the child has said that it is done with the data.
        let data = unsafe { &(&*script.data.get())[..chunk_bytes(history)] };
        assert!(data.iter().copied().eq(chunk_data(history)));
        child.go_on();
        child.expect_success();
    }
}

#[test]
fn frozen_receiver_never_blocks_the_sender() {
    const MESSAGES: u64 = 40;
    let (memory, script) = (Memory::new(), SharedScript::new());
    let mut random = Random::new(tutti_testkit::seed());
    let mut child = Child::fork_traced(|| {
        tutti_shm::distance::stop_measuring();
        let memory = memory.again();
        let (mut inbox, mut bulk_in) = memory.receivers(0);
        // Read by single steps, judged afterwards.
        let mut found =
            vec![(Envelope::default(), [0; INLINE_BYTES_MAX], [0; CHUNK_BYTES_MAX]); MESSAGES as usize];
        stop_here();
        for (envelope, inline, data) in &mut found {
            loop {
                let Some(message) = inbox.peek() else { continue };
                *envelope = message.envelope;
                message.read_inline(&mut inline[..message.envelope.length as usize]);
                message.consume();
                break;
            }
            loop {
                let Some((chunk, slot)) = bulk_in.peek() else { continue };
                // SAFETY: a full slot holds so many bytes until we advance; a chunk is not longer than
                // `data`.
                unsafe { std::ptr::copy_nonoverlapping(slot.as_ptr(), data.as_mut_ptr(), chunk.bytes) };
                bulk_in.advance();
                break;
            }
        }
        script.operations.store(1, Ordering::Release);
        stop_here();
        assert!(inbox.peek().is_none() && bulk_in.peek().is_none(), "more came than was sent");
        for (n, (envelope, inline, data)) in (0..).zip(found) {
            let bytes = envelope.length as usize;
            assert_eq!(Message { envelope, inline: inline[..bytes].to_vec() }, Message::new(n, bytes));
            assert!(data[..chunk_bytes(n)].iter().copied().eq(chunk_data(n)), "chunk {n} is not whole");
        }
    });
    child.wait_stopped();
    let ((mut out, mut bulk), mut instructions, mut sent, mut chunks) = (memory.senders(0), 0, 0, 0);
    while script.operations.load(Ordering::Acquire) == 0 {
        child.step();
        instructions += 1;
        if random.below(50) == 0 {
            let message = Message::new(sent, random.below(INLINE_BYTES_MAX as u64 + 1) as usize);
            sent += u64::from(sent < MESSAGES && out.try_push(&message.envelope, &message.inline));
            chunks += u64::from(chunks < MESSAGES && put_chunk(&mut bulk, chunks));
        }
    }
    println!("{instructions} instructions");
    child.go_on();
    child.wait_stopped();
    child.go_on();
    child.expect_success();
}
