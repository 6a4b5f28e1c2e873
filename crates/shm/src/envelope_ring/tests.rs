//! One-process tests of the envelope ring: order, wrap, fullness, and payload that looks like headers.

use super::*;

fn ring(count: usize) -> (Producer, Consumer, Box<(Vec<Line>, Consumed)>) {
    let lines = (0..count).map(|_| Line { words: Default::default() }).collect::<Vec<_>>();
    let mut memory = Box::new((lines, Consumed { lines: AtomicU64::new(0) }));
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

/// Deterministic, so a failure can be repeated.
fn next(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

#[test]
fn every_message_arrives_once_in_order_with_its_data() {
    for seed in 1..200 {
        let mut random = seed * 0x9e37_79b9;
        let (mut producer, mut consumer, _memory) = ring([4, 8, 64][seed as usize % 3]);
        let (mut sent, mut received) = (0, 0);
        let mut sizes = std::collections::VecDeque::new();
        for _ in 0..2000 {
            if next(&mut random).is_multiple_of(2) {
                let bytes = next(&mut random) as usize % (producer.inline_bytes_max() + 1);
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

#[test]
fn payload_that_looks_like_a_header_is_never_taken_for_one() {
    let (mut producer, mut consumer, _memory) = ring(16);
    let fake = (0..25).flat_map(|i: u64| (2 | 1 << 16 | i << 32).to_ne_bytes()).collect::<Vec<u8>>();
    for n in 0..1000 {
        let bytes = [200, 0, 100, 40][n as usize % 4];
        assert!(producer.try_push(&message(n, 0).0, &fake[..bytes]));
        let found = consumer.peek().expect("just sent");
        assert_eq!(found.envelope, message(n, 0).0);
        found.consume();
        consumer.publish();
        assert!(consumer.peek().is_none(), "old payload was taken for message {n}");
    }
}

#[test]
fn a_full_ring_refuses_and_takes_again_after_consumption() {
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
