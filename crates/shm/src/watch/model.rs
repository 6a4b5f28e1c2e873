//! Loom: a thread that waits for a word, and one that stores it without a fence. The kernel's membarrier is a
//! full fence somewhere in the storer while the sleeper waits; each place where it can come is a model.

use std::sync::Arc;

use super::*;
use crate::model::explore;
use crate::sync::{AtomicU32, fence};

#[derive(Default)]
struct Shared {
    endpoint: Endpoint,
    word: AtomicU32,
    asked: AtomicU32,
    fenced: AtomicU32,
}

fn await_one(word: &AtomicU32) {
    while word.load(Ordering::Acquire) == 0 {
        loom::thread::yield_now();
    }
}

impl Shared {
    /// The kernel stops the storer here.
    fn interrupt(&self) {
        await_one(&self.asked);
        fence(Ordering::SeqCst);
        self.fenced.store(1, Ordering::Release);
    }

    fn barrier(&self) {
        fence(Ordering::SeqCst);
        self.asked.store(1, Ordering::Release);
        await_one(&self.fenced);
        fence(Ordering::SeqCst);
    }
}

/// `interrupted`: before the store, behind it, or behind the look; none: there is no barrier.
fn one_word(name: &str, interrupted: Option<u32>) {
    explore(name, Some(3), move || {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let storer = loom::thread::spawn(move || {
            let at = |place| {
                if interrupted == Some(place) {
                    theirs.interrupt();
                }
            };
            at(0);
            theirs.word.store(1, Ordering::Relaxed);
            at(1);
            let watching = theirs.endpoint.watching.load(Ordering::Relaxed);
            at(2);
            if watching != 0 {
                wake(&theirs.endpoint);
            }
        });
        begin(&shared.endpoint, || {
            if interrupted.is_some() {
                shared.barrier();
            }
        });
        while shared.word.load(Ordering::Relaxed) == 0 {
            doorbell::sleep_if(&shared.endpoint, || shared.word.load(Ordering::Relaxed) == 0);
        }
        end(&shared.endpoint);
        storer.join().unwrap();
    });
}

#[test]
fn watch_model_wakes_a_sleeper() {
    for place in 0..3 {
        one_word(&format!("watch, fence at {place}"), Some(place));
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn watch_model_needs_the_barrier() {
    one_word("no barrier", None);
}
