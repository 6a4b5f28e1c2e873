use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Both sides look at what the other one has stored, without a fence of the storer: one of them must see it.
#[test]
fn watch_barrier_orders_a_store_and_a_look_of_another_thread() {
    const ROUNDS: u64 = 2000;
    if !register() {
        return eprintln!("skipped: the kernel refuses membarrier");
    }
    let words = Arc::new([const { AtomicU64::new(0) }; 4]);
    let theirs = words.clone();
    let storer = std::thread::spawn(move || {
        (1..=ROUNDS)
            .filter(|round| {
                while theirs[2].load(Ordering::Acquire) < *round {
                    std::hint::spin_loop();
                }
                theirs[0].store(*round, Ordering::Relaxed);
                std::sync::atomic::compiler_fence(Ordering::SeqCst);
                let seen = theirs[1].load(Ordering::Relaxed) == *round;
                theirs[3].store(*round, Ordering::Release);
                !seen
            })
            .collect::<Vec<u64>>()
    });
    let mut missed = Vec::new();
    for round in 1..=ROUNDS {
        words[2].store(round, Ordering::Release);
        words[1].store(round, Ordering::Relaxed);
        assert!(barrier());
        if words[0].load(Ordering::Relaxed) != round {
            missed.push(round);
        }
        while words[3].load(Ordering::Acquire) != round {
            std::hint::spin_loop();
        }
    }
    let both = storer.join().unwrap().into_iter().filter(|round| missed.contains(round)).count();
    assert_eq!(both, 0, "rounds in which both have missed the other");
}

#[test]
fn watch_store_wakes_a_thread_that_sleeps() {
    if !register() {
        return eprintln!("skipped: the kernel refuses membarrier");
    }
    let shared = Arc::new((Endpoint::default(), AtomicU64::new(0)));
    let theirs = shared.clone();
    let storer = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        while theirs.0.sleeping.load(Ordering::Relaxed) == 0 {
            assert!(Instant::now() < deadline, "nobody sleeps");
            std::thread::yield_now();
        }
        theirs.1.store(7, Ordering::Relaxed);
        notify(&theirs.0);
    });
    begin(&shared.0, || assert!(barrier()));
    while shared.1.load(Ordering::Relaxed) == 0 {
        doorbell::sleep_if(&shared.0, || shared.1.load(Ordering::Relaxed) == 0);
    }
    end(&shared.0);
    storer.join().unwrap();
    assert_eq!(shared.0.watching.load(Ordering::Relaxed), 0);
}
