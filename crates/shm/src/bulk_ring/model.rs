//! Loom: every interleaving of one sender and one receiver. The slots are cells, so two ends in one slot are
//! noticed.

use std::sync::Arc;

use super::*;
use crate::model::explore;

#[derive(Default)]
struct Memory {
    descriptors: Descriptors,
    emptied: Emptied,
    slots: [Slot; SLOTS],
}

fn put(slot: NonNull<u8>, value: u64) {
    // SAFETY: under loom a slot's pointer leads to a `Slot`, alive as long as the model.
    unsafe { slot.cast::<Slot>().as_ref() }.0.with_mut(|word| unsafe { *word = value });
}

fn get(slot: NonNull<u8>) -> u64 {
    // SAFETY: as in `put`.
    unsafe { slot.cast::<Slot>().as_ref() }.0.with(|word| unsafe { *word })
}

/// Streams `chunks` through a ring that has been used `start` times.
fn stream(name: &str, preemptions: Option<usize>, start: u64, chunks: u64) {
    explore(name, preemptions, move || {
        let memory = Arc::new(Memory::default());
        memory.emptied.slots.store(start << 1, Ordering::Relaxed);
        let parts = Parts {
            descriptors: NonNull::from(&memory.descriptors),
            emptied: NonNull::from(&memory.emptied),
            slots: NonNull::from(&memory.slots[0]),
            slot_lines: 1,
        };
        let mut producer = Producer { parts, filled: start, known_emptied: start, piece_bytes: PIECE_BYTES };
        let mut consumer = Consumer { emptied: start, rung_at: start, ..unsafe { Consumer::new(parts) } };
        let kept = memory.clone();
        let sender = loom::thread::spawn(move || {
            for n in 0..chunks {
                let slot = loop {
                    match producer.free_slot() {
                        Some(slot) => break slot,
                        None => loom::thread::yield_now(),
                    }
                };
                put(slot, n + 100);
                producer.commit(Chunk { message: n as u32, bytes: n as usize + 1 });
            }
            drop(kept);
        });
        let mut received = 0;
        while received < chunks {
            let Some((chunk, slot)) = consumer.peek() else {
                loom::thread::yield_now();
                continue;
            };
            assert_eq!(chunk, Chunk { message: received as u32, bytes: received as usize + 1 });
            assert_eq!(get(slot), received + 100);
            consumer.advance();
            received += 1;
        }
        sender.join().unwrap();
        assert!(consumer.peek().is_none(), "more came than was sent");
    });
}

#[test]
fn bulk_ring_model_delivers_every_chunk_once_whole() {
    stream("bulk, two slots used twice, full", None, 0, 3);
    stream("bulk, two slots used three times", Some(3), 0, 6);
}

#[test]
fn bulk_ring_model_lap_counter_wraps() {
    stream("bulk, lap 254, 255, 1", Some(3), 253 * SLOTS as u64 + 1, 5);
}
