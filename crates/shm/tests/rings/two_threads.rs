//! Both rings together between two threads that yield, spin and sleep at random.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tutti_shm::doorbell::{ring_after_swap, ring_if_sleeping, sleep_if};
use tutti_shm::endpoint::Endpoint;

use tutti_testkit::Random;

use crate::memory::{INLINE_BYTES_MAX, Memory, Message, put_chunk, take, take_chunk};

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
fn rings_deliver_in_order_between_slow_and_sleeping_threads() {
    let memory = Memory::new();
    let mut random = Random::new(tutti_testkit::seed());
    let mut their_random = random.clone();
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
                    sleep_if(memory.endpoint(0), || {
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
                sleep_if(memory.endpoint(1), || !inbox.is_ready() && bulk_in.peek().is_none());
            }
        }
        assert!(inbox.peek().is_none() && bulk_in.peek().is_none(), "more came than was sent");
    });
}

/// Many short races between one who publishes and rings and one who announces its sleep and looks: either the
/// bell is rung or the look has seen what was published. Nobody sleeps, so the races are tight and many.
fn race(name: &str, publish: fn(&AtomicU32, &Endpoint, u32)) {
    const ROUNDS: u32 = 2_000_000;
    let memory = Memory::new();
    let (word, endpoint) = (AtomicU32::new(0), memory.endpoint(0));
    // The round to be raced, and the last round that the waker has finished; the sleeper leads.
    let (start, finished) = (AtomicU32::new(0), AtomicU32::new(0));
    let await_round = |counter: &AtomicU32, round: u32| {
        let mut spins = 0_u32;
        while counter.load(Ordering::Acquire) < round {
            spins += 1;
            if spins.is_multiple_of(1000) {
                thread::yield_now();
            }
        }
    };
    let mut random = Random::new(tutti_testkit::seed());
    let mut their_random = random.clone();
    let (mut rung, mut seen, mut rounds, mut lost) = (0, 0, 0, false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                await_round(&start, round);
                if start.load(Ordering::Relaxed) == u32::MAX {
                    break;
                }
                nanoseconds(their_random.below(100));
                publish(&word, endpoint, round);
                finished.store(round, Ordering::Release);
            }
        });
        let (began, mut delay) = (Instant::now(), 200);
        // On a crowded machine the two seldom run at once; then there are fewer races.
        while !lost && rounds < ROUNDS && (rounds % 64 != 0 || began.elapsed() < Duration::from_secs(2)) {
            rounds += 1;
            let bell = endpoint.bell.load(Ordering::Relaxed);
            start.store(rounds, Ordering::Release);
            nanoseconds(delay + random.below(100));
            let mut saw = false;
            sleep_if(endpoint, || {
                saw = word.load(Ordering::Acquire) == rounds;
                // The intention stands until the waker has looked.
                await_round(&finished, rounds);
                false
            });
            let rang = endpoint.bell.load(Ordering::Relaxed) != bell;
            lost = !rang && !saw;
            // Both outcomes equally often: that is where the race is.
            delay = if rang { (delay + 5).min(2_000) } else { delay.saturating_sub(5) };
            rung += u32::from(rang);
            seen += u32::from(saw);
        }
        start.store(u32::MAX, Ordering::Release);
    });
    assert!(!lost, "{name}: in race {rounds} the sleeper would have slept for ever");
    println!("{name}: {rounds} races, bell rung in {rung}, word seen in {seen}");
}

/// Very short delays, some of them long enough.
fn nanoseconds(count: u64) {
    for step in 0..count {
        std::hint::black_box(step);
    }
}

#[test]
fn doorbell_is_noticed_by_a_thread_that_falls_asleep() {
    race("store and fence", |word, endpoint, round| {
        word.store(round, Ordering::Release);
        ring_if_sleeping(endpoint);
    });
    race("swap", |word, endpoint, round| {
        word.swap(round, Ordering::SeqCst);
        ring_after_swap(endpoint);
    });
}
