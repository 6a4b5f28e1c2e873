//! Both rings together between two threads that yield, spin and sleep at random.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tutti_shm::doorbell::{ring_after_swap, ring_if_sleeping, sleep_unless};

use crate::memory::{INLINE_BYTES_MAX, Memory, Message, Random, put_chunk, take, take_chunk};

const MESSAGES: u64 = 20_000;

/// Delays by nothing, a little or a turn of the scheduler.
fn dawdle(random: &mut Random) {
    match random.below(16) {
        0 => thread::yield_now(),
        1..4 => (0..random.below(200)).for_each(|_| core::hint::spin_loop()),
        _ => {}
    }
}

#[test]
fn both_rings_deliver_in_order_between_threads_that_dawdle_and_sleep() {
    let memory = Memory::new();
    let mut random = Random::seeded();
    let mut their_random = random;
    let (mut envelopes, mut bulk) = memory.senders(0);
    let (mut inbox, mut bulk_in) = memory.receivers(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut sent, mut chunks) = (0, 0);
            while sent < MESSAGES || chunks < MESSAGES {
                dawdle(&mut random);
                let bytes = random.below(INLINE_BYTES_MAX as u64 + 1) as usize;
                let message = Message::new(sent, bytes);
                let pushed = sent < MESSAGES && envelopes.try_push(&message.envelope, &message.inline);
                let filled = chunks < MESSAGES && random.below(2) == 0 && put_chunk(&mut bulk, chunks);
                sent += u64::from(pushed);
                chunks += u64::from(filled);
                if pushed || filled {
                    ring_if_sleeping(memory.endpoint(1));
                } else if random.below(4) == 0 {
                    sleep_unless(memory.endpoint(0), || {
                        let room = sent < MESSAGES && envelopes.has_room_for(bytes);
                        !room && (chunks == MESSAGES || bulk.free_slot().is_none())
                    });
                }
            }
        });
        let (mut received, mut chunks) = (0, 0);
        while received < MESSAGES || chunks < MESSAGES {
            dawdle(&mut their_random);
            let before = received + chunks;
            while their_random.below(8) != 0 && take(&mut inbox, received).is_some() {
                received += 1;
            }
            while their_random.below(8) != 0 && take_chunk(&mut bulk_in, chunks) {
                chunks += 1;
            }
            // Both are asked: an owed bell must not be forgotten because the other was owed too.
            if inbox.take_owed_bell() | bulk_in.take_owed_bell() {
                ring_if_sleeping(memory.endpoint(0));
            }
            if before == received + chunks {
                sleep_unless(memory.endpoint(1), || !inbox.is_ready() && bulk_in.peek().is_none());
            }
        }
        assert!(inbox.peek().is_none() && bulk_in.peek().is_none(), "more came than was sent");
    });
}

/// The shape of a collective operation: one sequentially consistent swap publishes, without a fence behind it.
#[test]
fn a_barrier_by_swaps_loses_no_wake_up_between_threads_that_sleep() {
    const ROUNDS: u32 = 20_000;
    let memory = Memory::new();
    let arrived = [AtomicU32::new(0), AtomicU32::new(0)];
    let random = Random::seeded();
    let rank = |me: usize| {
        let mut random = random;
        (0..=me).for_each(|_| _ = random.below(2));
        for round in 1..=ROUNDS {
            dawdle(&mut random);
            arrived[me].swap(round, Ordering::SeqCst);
            ring_after_swap(memory.endpoint(1 - me));
            let missing = || arrived[1 - me].load(Ordering::Acquire) < round;
            while missing() {
                sleep_unless(memory.endpoint(me), missing);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| rank(1));
        rank(0);
    });
}
