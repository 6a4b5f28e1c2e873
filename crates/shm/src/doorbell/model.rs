//! Loom: a sleeper and its waker. Each promise stands beside its counter-example: the same exchange with the
//! one step left out that keeps the promise, which loom must refuse. So it is known that loom sees what these
//! tests are about.

use std::sync::Arc;

use super::*;
use crate::envelope_ring::model::{Memory, envelope};
use crate::model::explore;
use crate::sync::AtomicU32;

/// One rank sleeps until another has stored a word; `wake` is what the waker does then.
fn one_word(name: &str, wake: fn(&Endpoint), sleep: fn(&Endpoint, &AtomicU32)) {
    explore(name, None, move || {
        let shared = Arc::new((Endpoint::default(), AtomicU32::new(0)));
        let theirs = shared.clone();
        let waker = loom::thread::spawn(move || {
            theirs.1.store(1, Ordering::Release);
            wake(&theirs.0);
        });
        while shared.1.load(Ordering::Acquire) == 0 {
            sleep(&shared.0, &shared.1);
        }
        waker.join().unwrap();
    });
}

fn sleep(endpoint: &Endpoint, word: &AtomicU32) {
    sleep_if(endpoint, || word.load(Ordering::Acquire) == 0);
}

#[test]
fn doorbell_model_wakes_a_sleeper() {
    one_word("doorbell", ring_if_sleeping, sleep);
}

#[test]
#[should_panic(expected = "deadlock")]
fn doorbell_model_needs_the_wakers_fence() {
    let wake = |endpoint: &Endpoint| {
        let intention = endpoint.sleeping.load(Ordering::Relaxed);
        if intention != 0 {
            ring(endpoint, intention);
        }
    };
    one_word("no fence of the waker", wake, sleep);
}

#[test]
#[should_panic(expected = "deadlock")]
fn doorbell_model_needs_the_sleepers_fence() {
    one_word("no fence of the sleeper", ring_if_sleeping, |endpoint, word| {
        let bell = endpoint.bell.load(Ordering::Acquire);
        endpoint.sleeping.store(bell + 1, Ordering::Relaxed);
        if word.load(Ordering::Acquire) == 0 {
            futex::wait(&endpoint.bell, bell, None);
        }
        endpoint.sleeping.store(0, Ordering::Relaxed);
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn doorbell_model_needs_the_counter_read_before_the_check() {
    one_word("bell read late", ring_if_sleeping, |endpoint, word| {
        endpoint.sleeping.store(endpoint.bell.load(Ordering::Acquire) + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if word.load(Ordering::Acquire) == 0 {
            let bell = endpoint.bell.load(Ordering::Acquire);
            futex::wait(&endpoint.bell, bell, None);
        }
        endpoint.sleeping.store(0, Ordering::Relaxed);
    });
}

#[test]
fn doorbell_model_two_wakers_one_sleeper() {
    explore("two wakers", Some(3), || {
        let shared = Arc::new((Endpoint::default(), [AtomicU32::new(0), AtomicU32::new(0)]));
        let wakers = [0, 1].map(|i| {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                shared.1[i].store(1, Ordering::Release);
                ring_if_sleeping(&shared.0);
            })
        });
        for word in &shared.1 {
            while word.load(Ordering::Acquire) == 0 {
                sleep_if(&shared.0, || word.load(Ordering::Acquire) == 0);
            }
        }
        for waker in wakers {
            waker.join().unwrap();
        }
    });
}

#[test]
fn doorbell_model_two_sleeping_ranks_exchange_messages() {
    explore("ping-pong, both sleep", Some(3), || {
        let shared = Arc::new(([Endpoint::default(), Endpoint::default()], [Memory::new(4), Memory::new(4)]));
        let ((mut to_1, mut from_0), (mut to_0, mut from_1)) = (shared.1[0].ends(0), shared.1[1].ends(0));
        let theirs = shared.clone();
        let other = loom::thread::spawn(move || {
            for n in 0..2 {
                receive(&theirs.0[1], &mut from_0, n);
                assert!(to_0.try_push(&envelope(n), &[]));
                ring_if_sleeping(&theirs.0[0]);
            }
        });
        for n in 0..2 {
            assert!(to_1.try_push(&envelope(n), &[]));
            ring_if_sleeping(&shared.0[1]);
            receive(&shared.0[0], &mut from_1, n);
        }
        other.join().unwrap();
    });
}

fn receive(me: &Endpoint, from: &mut crate::envelope_ring::Consumer, n: u64) {
    loop {
        if let Some(message) = from.peek() {
            assert_eq!(message.envelope, envelope(n));
            return message.consume();
        }
        sleep_if(me, || !from.is_ready());
    }
}

/// A sender that sleeps when the ring is full, a receiver that sleeps when it is empty and counts lazily
/// (every second line of 16). `bell_for_room` is whether the receiver keeps the ring's rule.
fn stream_with_sleep(name: &str, preemptions: usize, bell_for_room: bool) {
    explore(name, Some(preemptions), move || {
        let shared = Arc::new(([Endpoint::default(), Endpoint::default()], Memory::new(16)));
        let (mut producer, mut consumer) = shared.1.ends(0);
        let mut sent = 0;
        while producer.try_push(&envelope(sent), &[]) {
            sent += 1;
        }
        let messages = sent + 3;
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            while sent < messages {
                if producer.try_push(&envelope(sent), &[]) {
                    sent += 1;
                    ring_if_sleeping(&theirs.0[1]);
                } else {
                    sleep_if(&theirs.0[0], || !producer.has_room_for(0));
                }
            }
        });
        let mut received = 0;
        while received < messages {
            while let Some(message) = consumer.peek() {
                assert_eq!(message.envelope, envelope(received));
                message.consume();
                received += 1;
            }
            if consumer.take_owed_bell() && bell_for_room {
                ring_if_sleeping(&shared.0[0]);
            }
            if received < messages {
                sleep_if(&shared.0[1], || !consumer.is_ready());
            }
        }
        sender.join().unwrap();
    });
}

#[test]
fn doorbell_model_wakes_a_sender_that_waits_for_room() {
    stream_with_sleep("full ring, both sleep, lazy count", 2, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn doorbell_model_needs_the_wakeup_for_room() {
    stream_with_sleep("full ring, no bell for room", 2, false);
}
