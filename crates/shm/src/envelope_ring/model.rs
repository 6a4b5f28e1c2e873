//! Loom: every interleaving of one sender and one receiver, within a bound on preemptions where the model is
//! large.

use std::ptr::NonNull;
use std::sync::Arc;

use super::consumer::lazy;
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

    /// Both ends, as if `start` lines had been written and consumed, and the sequence about to begin again.
    pub(crate) fn ends(self: &Arc<Self>, start: u64) -> (Producer, Consumer) {
        let (first, consumed) = (NonNull::from(&self.lines[0]), NonNull::from(&self.consumed));
        let count = self.lines.len();
        // SAFETY: the threads of a model keep the memory alive as long as the ends; each end is made once.
        let (mut producer, mut consumer) =
            unsafe { (Producer::new(first, count, consumed), Consumer::new(first, count, consumed)) };
        self.consumed.lines.store(start, Ordering::Relaxed);
        (producer.written, producer.room_until) = (start, start + count as u64);
        (consumer.read, consumer.published, consumer.publish_from) = (start, start, start + lazy(count));
        (producer.sequence, consumer.sequence) = (u32::MAX - 3, u32::MAX - 3);
        (producer, consumer)
    }
}

pub(crate) fn envelope(n: u64) -> Envelope {
    Envelope { kind: 2, flags: n as u8, context: n as u32, tag: -(n as i32), length: n + 50 }
}

/// Inline data whose every word is the header that is due `ahead` numbers after `sequence`.
fn disguised(sequence: u32, ahead: u32, words: usize) -> Vec<u8> {
    let due = (0..ahead).fold(sequence, |sequence, _| next_sequence(sequence));
    (0..words as u64).flat_map(|i| (2 | 1 << 16 | i << 8 | u64::from(due) << 32).to_ne_bytes()).collect()
}

/// A run of messages through a ring.
struct Run {
    name: &'static str,
    preemptions: Option<usize>,
    /// Lines of the ring.
    count: usize,
    /// Line at which the run begins.
    start: u64,
    /// Messages of two lines that are sent and received before both ends run together, so that the ring holds
    /// old payload.
    before: u64,
    messages: u64,
    /// Inline words of the `n`-th message.
    words: fn(u64) -> usize,
    /// How far ahead payload looks like a header: to the time when the receiver comes to its line again.
    ahead: u32,
}

impl Run {
    fn explore(self) {
        explore(self.name, self.preemptions, move || self.once());
    }

    fn once(&self) {
        let &Run { count, start, before, messages, words, ahead, .. } = self;
        let memory = Memory::new(count);
        let (mut producer, mut consumer) = memory.ends(start);
        for n in 0..before {
            let inline = disguised(producer.sequence, ahead, 6);
            assert!(producer.try_push(&envelope(n), &inline));
            consumer.peek().expect("just sent").consume();
        }
        consumer.publish();
        let kept = memory.clone();
        let sender = loom::thread::spawn(move || {
            for n in 0..messages {
                while !producer.try_push(&envelope(n), &disguised(n as u32, ahead, words(n))) {
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
            assert_eq!(data, disguised(received as u32, ahead, words(received)));
            message.consume();
            received += 1;
        }
        assert!(consumer.peek().is_none(), "more came than was sent");
        sender.join().unwrap();
        assert!(consumer.peek().is_none(), "more came than was sent");
    }
}

#[test]
fn envelope_ring_model_delivers_every_message_once_whole() {
    let run = Run {
        name: "one line each, ring of 4, wraps",
        preemptions: None,
        count: 4,
        start: 2,
        before: 0,
        messages: 3,
        words: |_| 1,
        ahead: 0,
    };
    run.explore();
    let name = "one line each, ring of 4, wraps and is full";
    Run { name, preemptions: Some(4), count: 4, start: 2, before: 0, messages: 5, words: |_| 1, ahead: 0 }
        .explore();
}

#[test]
fn envelope_ring_model_two_line_messages_survive_padding() {
    let name = "two lines, pad, ring of 8, full";
    Run { name, preemptions: Some(4), count: 8, start: 7, before: 0, messages: 4, words: |_| 6, ahead: 0 }
        .explore();
}

#[test]
fn envelope_ring_model_old_payload_is_never_a_header() {
    // Headers in lines 1, 3, 5 and payload in 2, 4, 6; then a pad in line 7 and headers in 0, 2, 4: five
    // numbers later.
    let name = "two lines over old payload, ring of 8";
    Run { name, preemptions: None, count: 8, start: 1, before: 3, messages: 3, words: |_| 6, ahead: 5 }
        .explore();
}

#[test]
fn envelope_ring_model_mixes_one_and_two_line_messages() {
    let words = |n| if n % 2 == 0 { 7 } else { 1 };
    let name = "one and two lines, ring of 8";
    Run { name, preemptions: None, count: 8, start: 4, before: 0, messages: 4, words, ahead: 0 }.explore();
}
