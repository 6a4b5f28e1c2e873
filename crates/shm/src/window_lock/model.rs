//! Loom: every interleaving of two that lock, with a cell under the lock, and sleep until they are rung.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::*;
use crate::doorbell::{await_bell, cancel_sleep, prepare_sleep, ring_after_swap};
use crate::endpoint::Endpoint;
use crate::model::explore;

struct Memory {
    counts: Counts,
    owners: [AtomicU32; 2],
    endpoints: [Endpoint; 2],
    guarded: UnsafeCell<u32>,
}

// SAFETY: loom checks every access to the cell.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

fn lock_once(memory: &Memory, rank: u32, mode: Mode, tries: bool) {
    let lock = WindowLock {
        counts: NonNull::from(&memory.counts),
        owners: NonNull::from(&memory.owners[0]),
        mask: 1,
    };
    let ring = |rank: Option<u32>| {
        rank.into_iter().for_each(|rank| ring_after_swap(&memory.endpoints[rank as usize]))
    };
    let own = &memory.endpoints[rank as usize];
    let (ticket, next) = match tries.then(|| lock.try_take(mode, rank)).flatten() {
        Some(taken) => taken,
        None => {
            let ticket = lock.ask(mode, rank);
            while !lock.is_due(ticket) {
                let bell = prepare_sleep(own);
                if !lock.is_due(ticket) {
                    await_bell(own, bell, None);
                }
                cancel_sleep(own);
            }
            (ticket, lock.enter(ticket))
        }
    };
    ring(next);
    match mode {
        // SAFETY: loom reports any other access at the same time.
        Mode::Exclusive => memory.guarded.with_mut(|cell| unsafe { *cell += 1 }),
        Mode::Shared => memory.guarded.with(|cell| {
            // SAFETY: loom reports a writer at the same time.
            let _ = unsafe { std::ptr::read_volatile(cell) };
        }),
    };
    ring(lock.release(ticket));
}

fn run(name: &'static str, modes: [Mode; 2], tries: bool) {
    explore(name, Some(3), move || {
        let memory = Arc::new(Memory {
            counts: Counts::default(),
            owners: Default::default(),
            endpoints: Default::default(),
            guarded: UnsafeCell::new(0),
        });
        let other = memory.clone();
        let thread = loom::thread::spawn(move || lock_once(&other, 1, modes[1], tries));
        lock_once(&memory, 0, modes[0], tries);
        thread.join().unwrap();
    });
}

#[test]
fn window_lock_model_exclusive_ones_exclude_each_other() {
    run("window lock: exclusive, exclusive", [Mode::Exclusive, Mode::Exclusive], false);
}

#[test]
fn window_lock_model_shared_excludes_exclusive() {
    run("window lock: shared, exclusive", [Mode::Shared, Mode::Exclusive], false);
}

#[test]
fn window_lock_model_shared_ones_enter_together() {
    run("window lock: shared, shared", [Mode::Shared, Mode::Shared], false);
}

#[test]
fn window_lock_model_free_exclusive_ones_exclude_each_other() {
    run("window lock: free, exclusive, exclusive", [Mode::Exclusive, Mode::Exclusive], true);
}

#[test]
fn window_lock_model_free_shared_excludes_exclusive() {
    run("window lock: free, shared, exclusive", [Mode::Shared, Mode::Exclusive], true);
}

#[test]
fn window_lock_model_free_shared_ones_enter_together() {
    run("window lock: free, shared, shared", [Mode::Shared, Mode::Shared], true);
}
