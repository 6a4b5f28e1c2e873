//! Loom: every interleaving of one sender and one receiver, within a bound on preemptions where the model is large.

use std::sync::Arc;

use super::*;
use crate::model::explore;

/// A ring's memory; both ends keep it alive.
pub(crate) struct Memory {
    lines: Vec<Line>,
    consumed: Consumed,
}

impl Memory {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let lines = (0..count).map(|_| Line::default()).collect();
        Arc::new(Memory { lines, consumed: Consumed::default() })
    }

    /// Both ends, as if `start` lines had been written and consumed: but for the cleared word where the next message
    /// begins, the ring is full of old headers.
    pub(crate) fn ends(self: &Arc<Self>, start: u64) -> (Producer, Consumer) {
        let (first, consumed) = (NonNull::from(&self.lines[0]), NonNull::from(&self.consumed));
        let count = self.lines.len();
        // SAFETY: the threads of a model keep the memory alive as long as the ends; each end is made once.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(first, count, consumed), Consumer::new(first, count, consumed)) };
        self.consumed.lines.store(start, Ordering::Relaxed);
        for line in &self.lines {
            line.words[0].store(2 | 1 << 16, Ordering::Relaxed);
        }
        self.lines[start as usize % count].words[0].store(0, Ordering::Relaxed);
        (producer.written, producer.known_consumed) = (start, start);
        (consumer.read, consumer.published) = (start, start);
        // The sequence wraps during the model.
        (producer.sequence, consumer.sequence) = (u32::MAX, u32::MAX);
        (producer, consumer)
    }
}

pub(crate) fn envelope(n: u64) -> Envelope {
    Envelope { kind: 2, flags: n as u8, context: n as u32, tag: -(n as i32), length: n + 50 }
}

/// Inline data in which every word looks like the header that might stand there.
fn disguised(n: u64, words: usize) -> Vec<u8> {
    (0..words as u64).flat_map(|i| (2 | n << 8 | 1 << 16 | (n + i) << 32).to_ne_bytes()).collect()
}

/// Sends `messages` of `words(n)` inline words through a ring of `count` lines that begins at line `start`.
fn stream(
    name: &str,
    preemptions: Option<usize>,
    count: usize,
    start: u64,
    messages: u64,
    words: fn(u64) -> usize,
) {
    explore(name, preemptions, move || {
        let memory = Memory::new(count);
        let (mut producer, mut consumer) = memory.ends(start);
        let kept = memory.clone();
        let sender = loom::thread::spawn(move || {
            for n in 0..messages {
                while !producer.try_push(&envelope(n), &disguised(n, words(n))) {
                    loom::thread::yield_now();
                }
            }
            drop(kept);
        });
        let mut received = 0;
        while received < messages {
            let Some(message) = consumer.peek() else {
                loom::thread::yield_now();
                continue;
            };
            assert_eq!(message.envelope, envelope(received));
            let mut data = vec![0; words(received) * 8];
            message.read_inline(&mut data);
            assert_eq!(data, disguised(received, words(received)));
            message.consume();
            received += 1;
        }
        assert!(consumer.peek().is_none(), "more came than was sent");
        sender.join().unwrap();
        assert!(consumer.peek().is_none(), "more came than was sent");
    });
}

#[test]
fn no_interleaving_loses_repeats_or_tears_a_message() {
    stream("one line each, ring of 4, wraps", None, 4, 2, 3, |_| 1);
    stream("one line each, ring of 4, wraps and is full", Some(3), 4, 2, 5, |_| 1);
}

#[test]
fn messages_of_two_lines_survive_the_pad_and_a_full_ring() {
    stream("two lines, pad, ring of 8, full", Some(3), 8, 7, 4, |_| 6);
}

#[test]
fn messages_of_one_and_two_lines_alternate() {
    stream("one and two lines, ring of 8", Some(3), 8, 4, 4, |n| if n % 2 == 0 { 7 } else { 1 });
}
