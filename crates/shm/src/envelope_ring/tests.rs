//! One-process tests of the envelope ring: order, wrap, fullness, and payload that looks like headers.

use std::ptr::NonNull;

use tutti_testkit::Random;

use super::*;

fn ring(count: usize) -> (Producer, Consumer, Box<(Vec<Line>, Consumed)>) {
    let lines = (0..count).map(|_| Line { words: Default::default() }).collect::<Vec<_>>();
    let mut memory = Box::new((lines, Consumed::default()));
    let first = NonNull::new(memory.0.as_mut_ptr()).unwrap();
    let consumed = NonNull::from(&mut memory.1);
    // SAFETY: the boxed memory is zeroed, outlives the ends in every test, and each end is made once.
    unsafe { (Producer::new(first, count, consumed), Consumer::new(first, count, consumed), memory) }
}

fn message(n: u64, bytes: usize) -> (Envelope, Vec<u8>) {
    let envelope = Envelope {
        kind: 2 + (n % 200) as u8,
        flags: n as u8,
        context: n as u32,
        tag: -(n as i32),
        length: bytes as u64,
    };
    (envelope, (0..bytes).map(|i| (n as usize + i) as u8).collect())
}

#[test]
fn envelope_ring_delivers_messages_once_in_order() {
    for seed in 1..200 {
        let mut random = Random::new(seed);
        let (mut producer, mut consumer, _memory) = ring([4, 8, 64][seed as usize % 3]);
        let (mut sent, mut received) = (0, 0);
        let mut sizes = std::collections::VecDeque::new();
        for _ in 0..2000 {
            if random.number().is_multiple_of(2) {
                let bytes = random.number() as usize % (producer.inline_bytes_max() + 1);
                let (envelope, data) = message(sent, bytes);
                if producer.try_push(&envelope, &data) {
                    sizes.push_back(bytes);
                    sent += 1;
                }
            } else if let Some(found) = consumer.peek() {
                let bytes = sizes.pop_front().expect("something was sent");
                let (envelope, data) = message(received, bytes);
                let mut out = vec![0; bytes];
                found.read_inline(&mut out);
                assert_eq!((found.envelope, out), (envelope, data), "seed {seed}");
                found.consume();
                received += 1;
            } else {
                consumer.publish();
                assert!(sizes.is_empty(), "seed {seed}: {} messages vanished", sizes.len());
            }
        }
    }
}

/// Every word of the payload is a header whose number is due within the next turn of the ring.
#[test]
fn envelope_ring_payload_is_never_taken_for_a_header() {
    for seed in 1..100 {
        let mut random = Random::new(seed);
        let (mut producer, mut consumer, _memory) = ring(16);
        for n in 0..1000 {
            // In turns messages of any size and, for more than a turn of the ring, of one line.
            let bytes_max = if n / 40 % 2 == 0 { producer.inline_bytes_max() } else { 40 };
            let bytes = random.number() as usize % (bytes_max + 1);
            let fake = |_| {
                let due = u64::from(producer.sequence) + random.number() % 20;
                (2 | 1 << 16 | due << 32).to_ne_bytes()
            };
            let inline = (0..45).flat_map(fake).collect::<Vec<u8>>();
            assert!(producer.try_push(&message(n, 0).0, &inline[..bytes]));
            let found = consumer.peek().expect("just sent");
            assert_eq!(found.envelope, message(n, 0).0);
            found.consume();
            assert!(consumer.peek().is_none(), "seed {seed}: old payload was taken for message {n}");
        }
    }
}

/// A line that only pads cover must not keep a header until its number is due again.
#[test]
fn envelope_ring_stale_header_is_never_taken_for_a_new_one() {
    let (mut producer, mut consumer, _memory) = ring(16);
    let mut sent = 0;
    let mut pass = |producer: &mut Producer, consumer: &mut Consumer, bytes| {
        assert!(producer.try_push(&message(sent, 0).0, &vec![0; bytes]));
        consumer.peek().expect("just sent").consume();
        sent += 1;
    };
    // Numbers 1 to 16 in lines 0 to 15; then 13 lines, a pad over the last three, and a message in lines 0 to
    // 3.
    for bytes in [0; 29].into_iter().chain([200]) {
        pass(&mut producer, &mut consumer, bytes);
    }
    // All but 2^32 messages later, eleven before the number that line 15 had in the first turn.
    (producer.sequence, consumer.sequence) = (5, 5);
    for _ in 0..11 {
        pass(&mut producer, &mut consumer, 0);
    }
    assert_eq!((consumer.read % 16, consumer.sequence), (15, 16));
    assert!(!consumer.is_ready() && consumer.peek().is_none(), "a header of long ago was taken");
}

#[test]
fn envelope_ring_full_refuses_until_consumed() {
    let (mut producer, mut consumer, _memory) = ring(8);
    let mut sent = 0;
    while producer.try_push(&message(sent, 0).0, &[]) {
        sent += 1;
    }
    assert_eq!(sent, 7, "one line stays cleared");
    consumer.peek().expect("full").consume();
    consumer.publish();
    assert!(producer.try_push(&message(sent, 0).0, &[]));
}

/// The rule of the module text: the lazy count never keeps an emptied ring from taking a message.
#[test]
fn envelope_ring_empty_takes_any_message() {
    for count in [4, 8, 16, 32, 256] {
        for bytes in [0, 40, 41, 104] {
            for start in 0..count as u64 {
                let (mut producer, mut consumer, _memory) = ring(count);
                let mut sent = 0;
                while consumer.read < start {
                    assert!(producer.try_push(&message(sent, 0).0, &[]), "{count} lines, {start} consumed");
                    consumer.peek().expect("just sent").consume();
                    sent += 1;
                }
                let bytes = bytes.min(producer.inline_bytes_max());
                for bytes in [bytes, producer.inline_bytes_max()] {
                    assert!(producer.has_room_for(bytes), "{count} lines, {start} consumed, {bytes} bytes");
                    let (envelope, data) = message(sent, bytes);
                    assert!(
                        producer.try_push(&envelope, &data),
                        "{count} lines, {start} consumed, {bytes} bytes"
                    );
                    consumer.peek().expect("just sent").consume();
                    sent += 1;
                }
            }
        }
    }
}

#[test]
fn envelope_ring_has_room_exactly_when_push_succeeds() {
    for seed in 1..100 {
        let mut random = Random::new(seed);
        let (mut producer, mut consumer, _memory) = ring([4, 8, 16][seed as usize % 3]);
        for sent in 0..500 {
            let bytes = random.number() as usize % (producer.inline_bytes_max() + 1);
            let (envelope, data) = message(sent, bytes);
            let room = producer.has_room_for(bytes);
            assert_eq!(producer.try_push(&envelope, &data), room, "seed {seed}, message {sent}");
            while !random.number().is_multiple_of(3) {
                let Some(found) = consumer.peek() else { break };
                found.consume();
            }
        }
    }
}

#[test]
fn envelope_ring_owes_a_wakeup_after_publishing_room() {
    let (mut producer, mut consumer, _memory) = ring(32);
    for n in 0..4 {
        assert!(producer.try_push(&message(n, 0).0, &[]));
    }
    for n in 0..3 {
        consumer.peek().expect("sent").consume();
        assert!(!consumer.take_owed_bell(), "nothing was told after {n} of 4 lines");
    }
    consumer.peek().expect("sent").consume();
    assert!(consumer.take_owed_bell() && !consumer.take_owed_bell());
}

#[test]
fn envelope_ring_sequence_wraps() {
    let (mut producer, mut consumer, _memory) = ring(8);
    (producer.sequence, consumer.sequence) = (u32::MAX - 5, u32::MAX - 5);
    for n in 0..20 {
        // Every fourth message of two lines is preceded by a pad, which has a number too.
        let (envelope, data) = message(n, 60 * (n as usize % 2));
        assert!(producer.try_push(&envelope, &data));
        let found = consumer.peek().expect("just sent");
        assert_eq!(found.envelope, envelope);
        found.consume();
    }
}

#[test]
fn envelope_ring_observer_sees_unconsumed_messages() {
    for seed in 1..40 {
        let mut random = Random::new(seed);
        let (mut producer, mut consumer, memory) = ring([16, 64][seed as usize % 2]);
        let mut there = std::collections::VecDeque::new();
        for n in 0..2000 {
            let bytes = (random.number() % 200) as usize;
            let (envelope, data) = message(n, bytes.min(producer.inline_bytes_max()));
            if random.number().is_multiple_of(2) && producer.try_push(&envelope, &data) {
                there.push_back(envelope);
            } else if let Some(message) = consumer.peek() {
                message.consume();
                there.pop_front();
            }
            let seen: Vec<Envelope> = waiting(&memory.0, &memory.1).map(|untaken| untaken.envelope).collect();
            assert_eq!(seen, Vec::from(there.clone()), "seed {seed}, step {n}");
        }
    }
}

#[test]
fn envelope_ring_walk_of_any_memory_terminates() {
    let mut random = Random::new(7);
    for _ in 0..2000 {
        let lines: Vec<Line> = (0..16)
            .map(|_| Line { words: std::array::from_fn(|_| AtomicU64::new(random.number() & 0x3_0003_ffff)) })
            .collect();
        let consumed = Consumed::default();
        consumed.mark.store(random.number(), Ordering::Relaxed);
        consumed.due.store(random.number() as u32 % 4, Ordering::Relaxed);
        assert!(waiting(&lines, &consumed).count() <= 16);
    }
}
