use std::sync::atomic::{AtomicU64, Ordering};

use super::*;

#[repr(C, align(64))]
#[derive(Clone)]
struct Line([u8; LINE_BYTES]);

/// The words of a gate, aligned to a line; all bytes are zero, padding too.
struct Words(Vec<Line>);

impl Words {
    fn new(slots: u32) -> Self {
        Words(vec![Line([0; LINE_BYTES]); bytes(slots) / LINE_BYTES])
    }

    fn gate(&self, slots: u32, slot: u32) -> Gate {
        let at = NonNull::from(&self.0[0]).cast();
        // SAFETY: there are so many lines, zeroed, which outlive the gates of a test; each slot has one
        // thread.
        unsafe { Gate::new(at, slots, slot) }
    }
}

#[test]
fn gate_bytes_hold_stripes_map_and_slots() {
    assert_eq!(bytes(1), (16 + 1 + 1) * 64);
    assert_eq!(bytes(512), (16 + 1 + 512) * 64);
    assert_eq!(bytes(513), (16 + 2 + 513) * 64);
}

#[test]
fn gate_stripes_follow_units() {
    let unit = UNIT_BYTES as u64;
    assert_eq!([0, unit - 1, unit, 15 * unit, 16 * unit].map(stripe_of), [0, 0, 1, 15, 0]);
}

/// Threads add single ones and long runs to the same elements: nothing is lost.
#[test]
fn gate_loses_no_update_of_single_and_long_changes() {
    const ROUNDS: u64 = 3_000;
    const THREADS: u32 = 4;
    let words = Words::new(600);
    let elements: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            // Slots of both lines of the map.
            let gate = words.gate(600, thread * 150 + 100);
            let elements = &elements;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    if thread % 2 == 0 || round % 3 == 0 {
                        gate.enter(5);
                        elements[round as usize % 64].fetch_add(1, Ordering::Relaxed);
                        gate.leave();
                    } else {
                        gate.close(5);
                        // Plain loads and stores, as a vector loop does.
                        for element in elements {
                            element.store(element.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                        }
                        gate.open(5);
                    }
                }
            });
        }
    });
    let long = 2 * (ROUNDS - ROUNDS.div_ceil(3));
    let single = 2 * ROUNDS + 2 * ROUNDS.div_ceil(3);
    let sum: u64 = elements.iter().map(|element| element.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, long * 64 + single);
}

#[test]
fn gate_closed_on_one_stripe_lets_others_in() {
    let words = Words::new(2);
    let (closer, other) = (words.gate(2, 0), words.gate(2, 1));
    closer.close(3);
    other.enter(4);
    other.leave();
    closer.open(3);
    other.enter(3);
    other.leave();
}

#[test]
fn gate_try_close_fails_on_a_closed_stripe() {
    let words = Words::new(2);
    let (closer, other) = (words.gate(2, 0), words.gate(2, 1));
    closer.close(3);
    assert!(!other.try_close(3));
    closer.open(3);
    assert!(other.try_close(3));
    assert!(!closer.try_close(3) && closer.try_close(4));
    other.open(3);
    closer.open(4);
}

#[test]
#[should_panic(expected = "slot 1 closes stripe 2 twice")]
fn gate_closed_twice_by_one_slot_is_refused() {
    let words = Words::new(2);
    let gate = words.gate(2, 1);
    gate.close(2);
    gate.close(2);
}

/// Sleepers before a closed gate are woken when it opens.
#[test]
fn gate_opened_wakes_sleepers() {
    let words = Words::new(2);
    let (closer, other) = (words.gate(2, 0), words.gate(2, 1));
    closer.close(0);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            other.enter(0);
            other.leave();
        });
        // Until it sleeps: the word says so.
        while closer.stripe(0).sleeping.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        closer.open(0);
        waiter.join().unwrap();
    });
}
