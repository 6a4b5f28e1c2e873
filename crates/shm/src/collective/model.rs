//! Loom: the rule by which slots of a collective block are used again, in the two shapes that operations
//! have.

use std::sync::Arc;

use super::*;
use crate::model::explore;
use crate::sync::Ordering;

type Block = [Member; 2];

fn write(member: &Member, slot: usize, operation: u64, value: u64) {
    let slot = &member.slots[slot];
    slot.inline[0].store(value, Ordering::Relaxed);
    slot.inline[1].store(value + 1, Ordering::Relaxed);
    slot.sequence.store(operation, Ordering::Release);
}

fn read(member: &Member, slot: usize, operation: u64) -> (u64, u64) {
    let slot = &member.slots[slot];
    while slot.sequence.load(Ordering::Acquire) != operation {
        loom::thread::yield_now();
    }
    (slot.inline[0].load(Ordering::Relaxed), slot.inline[1].load(Ordering::Relaxed))
}

fn wait_for(word: &AtomicU64, operation: u64) {
    while word.load(Ordering::Acquire) < operation {
        loom::thread::yield_now();
    }
}

/// Everybody reads everybody, `slot_of(k)` is the slot of operation `k`.
fn everybody(name: &str, slot_of: fn(u64) -> usize) {
    explore(name, Some(3), move || {
        let block: Arc<Block> = Arc::default();
        let member = move |block: Arc<Block>, me: usize| {
            for k in 1..=4 {
                write(&block[me], slot_of(k), k, 10 * k + me as u64);
                let other = 10 * k + 1 - me as u64;
                assert_eq!(read(&block[1 - me], slot_of(k), k), (other, other + 1));
            }
        };
        let theirs = block.clone();
        let other = loom::thread::spawn(move || member(theirs, 1));
        member(block, 0);
        other.join().unwrap();
    });
}

#[test]
fn collective_model_slot_is_free_after_the_next_operation_of_a_reader() {
    everybody("allreduce, two slots", |k| k as usize & 1);
}

#[test]
#[should_panic]
fn collective_model_one_slot_is_too_few() {
    everybody("allreduce, one slot", |_| 0);
}

/// Two members leave a block while a third process waits for a free one, takes it, and tells a fourth of it.
#[test]
fn collective_model_block_reuse_continues_the_sequence() {
    explore("a block changes hands", Some(3), || {
        let block: Arc<(BlockHeader, FlagLine, AtomicU32)> = Arc::default();
        assert!(block.0.try_take(2));
        let leavers = [0, 1].map(|me| {
            let block = block.clone();
            loom::thread::spawn(move || {
                if me == 0 {
                    block.1.sequence.store(7, Ordering::Release);
                }
                block.0.leave(7);
            })
        });
        let theirs = block.clone();
        let told = loom::thread::spawn(move || {
            while theirs.2.load(Ordering::Acquire) == 0 {
                loom::thread::yield_now();
            }
            assert_eq!(theirs.0.base.load(Ordering::Relaxed), 7);
            assert_eq!(
                theirs.1.sequence.load(Ordering::Relaxed),
                7,
                "what was left in the block is known as old"
            );
        });
        while !block.0.try_take(3) {
            loom::thread::yield_now();
        }
        assert_eq!((block.0.base.load(Ordering::Relaxed), block.0.members.load(Ordering::Relaxed)), (7, 3));
        block.2.store(1, Ordering::Release);
        told.join().unwrap();
        for leaver in leavers {
            leaver.join().unwrap();
        }
    });
}

/// One writes, the other reads and says when it is done; `lag` is how far the writer may run ahead.
fn one_to_all(name: &str, lag: u64) {
    explore(name, Some(3), move || {
        let block: Arc<Block> = Arc::default();
        let theirs = block.clone();
        let reader = loom::thread::spawn(move || {
            for k in 1..=4 {
                assert_eq!(read(&theirs[0], k as usize & 1, k), (10 * k, 10 * k + 1));
                theirs[1].done.sequence.store(k, Ordering::Release);
            }
        });
        for k in 1..=4_u64 {
            wait_for(&block[1].done.sequence, k.saturating_sub(lag));
            write(&block[0], k as usize & 1, k, 10 * k);
        }
        reader.join().unwrap();
    });
}

#[test]
fn collective_model_writer_waits_for_all_readers() {
    one_to_all("broadcast, two ahead", 2);
}

#[test]
#[should_panic]
fn collective_model_three_operations_ahead_is_too_far() {
    one_to_all("broadcast, three ahead", 3);
}
