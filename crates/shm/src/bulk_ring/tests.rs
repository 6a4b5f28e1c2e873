//! One-process tests of the bulk ring: order, laps, fullness, and data that look like descriptors.

use tutti_testkit::Random;

use super::*;

const SLOT_LINES: usize = 16;
const SLOT_BYTES: usize = SLOT_LINES * LINE_BYTES;

#[repr(C, align(64))]
struct Memory {
    descriptors: Descriptors,
    emptied: Emptied,
    slots: [Slot; SLOTS * SLOT_LINES],
}

fn ring() -> (Producer, Consumer, Box<Memory>) {
    let slots = std::array::from_fn(|_| Slot([0; LINE_BYTES]));
    let mut memory =
        Box::new(Memory { descriptors: Descriptors::default(), emptied: Emptied::default(), slots });
    let parts = parts(&mut memory);
    // SAFETY: the boxed memory is zeroed, outlives the ends in every test, and each end is made once.
    unsafe { (Producer::new(parts), Consumer::new(parts), memory) }
}

fn parts(memory: &mut Memory) -> Parts {
    Parts {
        descriptors: NonNull::from(&mut memory.descriptors),
        emptied: NonNull::from(&mut memory.emptied),
        slots: NonNull::from(&mut memory.slots).cast(),
        slot_lines: SLOT_LINES,
    }
}

/// Data whose every word is the descriptor that a later chunk in this slot could have.
fn disguised(n: u64, bytes: usize) -> Vec<u8> {
    let words = (1..).flat_map(|i| (lap(n + i * SLOTS as u64) | 8 << 8 | (n + i) << 32).to_ne_bytes());
    words.take(bytes).collect()
}

#[must_use]
fn put(ring: &mut Producer, n: u64, bytes: usize) -> bool {
    let Some(slot) = ring.free_slot() else { return false };
    // SAFETY: a free slot is ours, and `bytes` is at most its size.
    unsafe { std::ptr::copy_nonoverlapping(disguised(n, bytes).as_ptr(), slot.as_ptr(), bytes) };
    ring.commit(Chunk { message: n as u32, bytes });
    true
}

fn take(ring: &mut Consumer) -> Option<(Chunk, Vec<u8>)> {
    let (chunk, slot) = ring.peek()?;
    // SAFETY: a full slot holds so many bytes until we advance.
    let data = unsafe { std::slice::from_raw_parts(slot.as_ptr(), chunk.bytes) }.to_vec();
    ring.advance();
    Some((chunk, data))
}

#[test]
fn bulk_ring_delivers_chunks_once_in_order() {
    // Longer than 255 laps, after which the lap numbers begin again.
    const CHUNKS: u64 = 300 * SLOTS as u64;
    for seed in 1..20 {
        let mut random = Random::new(seed);
        let (mut producer, mut consumer, _memory) = ring();
        let mut sizes = std::collections::VecDeque::new();
        let (mut sent, mut received) = (0, 0);
        while received < CHUNKS {
            if random.number().is_multiple_of(2) {
                let bytes = 1 + random.number() as usize % SLOT_BYTES;
                let put = put(&mut producer, sent, bytes);
                assert_eq!(put, sizes.len() < SLOTS, "seed {seed}: {} chunks in the ring", sizes.len());
                if put {
                    sizes.push_back(bytes);
                    sent += 1;
                }
            } else if let Some((chunk, data)) = take(&mut consumer) {
                let bytes = sizes.pop_front().expect("something was sent");
                assert_eq!(chunk, Chunk { message: received as u32, bytes }, "seed {seed}");
                assert_eq!(data, disguised(received, bytes), "seed {seed}");
                received += 1;
            } else {
                assert!(sizes.is_empty(), "seed {seed}: {} chunks vanished", sizes.len());
            }
        }
    }
}

#[test]
fn bulk_ring_full_refuses_until_a_slot_is_free() {
    let (mut producer, mut consumer, _memory) = ring();
    let mut sent = 0;
    while put(&mut producer, sent, 1) {
        sent += 1;
    }
    assert_eq!(sent, SLOTS as u64);
    assert_eq!(take(&mut consumer).expect("full").0, Chunk { message: 0, bytes: 1 });
    assert!(put(&mut producer, sent, SLOT_BYTES) && !put(&mut producer, sent + 1, 1));
}

#[test]
fn bulk_ring_empty_takes_a_short_message() {
    for slot_lines in [32, 34, 64, 136, 272] {
        let mut slots: Vec<Slot> = (0..SLOTS * slot_lines).map(|_| Slot([0; LINE_BYTES])).collect();
        let (mut descriptors, mut emptied) = (Descriptors::default(), Emptied::default());
        let parts = Parts {
            descriptors: NonNull::from(&mut descriptors),
            emptied: NonNull::from(&mut emptied),
            slots: NonNull::from(&mut slots[0]),
            slot_lines,
        };
        // SAFETY: the memory is zeroed and outlives the end, which is the only one.
        let mut producer = unsafe { Producer::new(parts) };
        let mut left = SHORT_BYTES_MAX;
        while left > 0 {
            assert!(producer.free_slot().is_some(), "{left} bytes are left, slots of {slot_lines} lines");
            let bytes = producer.piece_bytes(left);
            producer.commit(Chunk { message: 0, bytes });
            left -= bytes;
        }
    }
}

#[test]
fn bulk_ring_owes_one_wakeup_for_freed_slots() {
    let (mut producer, mut consumer, _memory) = ring();
    assert!(put(&mut producer, 0, 1) && put(&mut producer, 1, 1));
    assert!(!consumer.take_owed_bell());
    assert!(take(&mut consumer).is_some() && take(&mut consumer).is_some());
    assert!(consumer.take_owed_bell() && !consumer.take_owed_bell());
}

#[test]
fn bulk_ring_ends_can_be_rebuilt_from_shared_memory() {
    let (mut producer, mut consumer, memory) = ring();
    for n in 0..11 {
        assert!(put(&mut producer, n, 5));
        assert!(n >= 9 || take(&mut consumer).is_some());
    }
    // SAFETY: plain memory, read while nobody writes.
    let mut copy = Box::new(unsafe { std::ptr::read(&*memory) });
    let parts = parts(&mut copy);
    // SAFETY: the copy is a copy of their ring and outlives them.
    let (mut there, mut here) = unsafe { (producer.on_copy(parts), consumer.on_copy(parts)) };
    assert!(put(&mut there, 11, 5));
    for end in [&mut here, &mut consumer] {
        assert_eq!(take(end).expect("the ninth").0.message, 9);
        assert_eq!(take(end).expect("the tenth").0.message, 10);
    }
    assert_eq!(take(&mut here).expect("sent on the copy").0.message, 11);
    assert!(take(&mut consumer).is_none(), "what happens on a copy stays there");
}
