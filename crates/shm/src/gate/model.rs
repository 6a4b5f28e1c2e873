//! Loom: every interleaving of single changes and long ones, on memory that is a cell, so that two at once
//! are noticed.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::*;
use crate::model::explore;

const SLOTS: u32 = 3;

/// A gate and what it guards: a word that entrants change by an atomic and closers by plain accesses.
struct Memory {
    stripes: [Stripe; STRIPES],
    entered: Entered,
    inside: [Inside; SLOTS as usize],
    /// Closers write it; entrants read it inside.
    plain: UnsafeCell<u32>,
    single: AtomicU32,
}

// SAFETY: loom checks every access to the cell.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new() -> Self {
        Memory {
            stripes: Default::default(),
            entered: Entered::default(),
            inside: Default::default(),
            plain: UnsafeCell::new(0),
            single: AtomicU32::new(0),
        }
    }

    fn gate(&self, slot: u32) -> Gate {
        Gate {
            stripes: NonNull::from(&self.stripes[0]),
            entered: NonNull::from(&self.entered),
            inside: NonNull::from(&self.inside[0]),
            slots: SLOTS,
            slot,
        }
    }
}

fn change_one(gate: &Gate, memory: &Memory) {
    gate.enter(0);
    // SAFETY: loom reports a closer that writes at the same time.
    memory.plain.with(|cell| unsafe { std::ptr::read_volatile(cell) });
    memory.single.fetch_add(1, Ordering::Relaxed);
    gate.leave();
}

fn change_many(gate: &Gate, memory: &Memory) {
    gate.close(0);
    change_closed(gate, memory);
}

fn change_few(gate: &Gate, memory: &Memory) {
    if gate.try_close(0) { change_closed(gate, memory) } else { change_one(gate, memory) }
}

fn change_closed(gate: &Gate, memory: &Memory) {
    // SAFETY: loom reports anybody who is here at the same time.
    memory.plain.with_mut(|cell| unsafe { *cell += 1 });
    let seen = memory.single.load(Ordering::Relaxed);
    memory.single.store(seen + 1, Ordering::Relaxed);
    gate.open(0);
}

fn run(name: &'static str, preemptions: usize, changes: [fn(&Gate, &Memory); 2]) {
    explore(name, Some(preemptions), move || {
        let memory = Arc::new(Memory::new());
        let threads: Vec<_> = (0..2)
            .map(|slot| {
                let memory = memory.clone();
                loom::thread::spawn(move || {
                    changes[slot as usize](&memory.gate(slot), &memory);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(memory.single.load(Ordering::Relaxed), 2, "no change is lost");
    });
}

#[test]
fn gate_model_keeps_single_and_long_changes_apart() {
    run("gate: enter and close", 3, [change_one, change_many]);
}

#[test]
fn gate_model_lets_one_closer_in_at_a_time() {
    run("gate: close and close", 3, [change_many, change_many]);
}

#[test]
fn gate_model_keeps_a_closer_that_does_not_wait_apart() {
    run("gate: enter and try to close", 3, [change_one, change_few]);
    run("gate: try to close, twice", 3, [change_few, change_few]);
    run("gate: close and try to close", 3, [change_many, change_few]);
}

/// Without the look at `closed` behind the exchange two would be inside.
#[test]
#[should_panic(expected = "no change is lost")]
fn gate_model_notices_an_entrant_that_does_not_look() {
    explore("gate: negative control", Some(3), || {
        let memory = Arc::new(Memory::new());
        let other = memory.clone();
        let careless = loom::thread::spawn(move || {
            other.single.fetch_add(1, Ordering::Relaxed);
        });
        let gate = memory.gate(1);
        gate.close(0);
        let seen = memory.single.load(Ordering::Relaxed);
        memory.single.store(seen + 1, Ordering::Relaxed);
        gate.open(0);
        careless.join().unwrap();
        assert_eq!(memory.single.load(Ordering::Relaxed), 2, "no change is lost");
    });
}
