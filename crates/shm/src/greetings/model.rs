//! Loom: a rank sleeps until it has the first message of one that it has not met; and the counter-example.

use std::sync::Arc;

use super::*;
use crate::doorbell::{ring_if_sleeping, sleep_if};
use crate::endpoint::Endpoint;
use crate::model::explore;
use crate::sync::AtomicU32;

struct Shared {
    endpoint: Endpoint,
    greetings: Greetings,
    /// The ring of the two: a message or none.
    ring: AtomicU32,
}

const PLACE: usize = 1;

fn first_message(name: &str, greets_first: bool) {
    explore(name, None, move || {
        let shared = Arc::new(Shared {
            endpoint: Endpoint::default(),
            greetings: Greetings { words: std::array::from_fn(|_| AtomicU64::new(0)) },
            ring: AtomicU32::new(0),
        });
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            if greets_first {
                theirs.greetings.greet(PLACE);
            }
            theirs.ring.store(1, Ordering::Release);
            ring_if_sleeping(&theirs.endpoint);
            if !greets_first {
                theirs.greetings.greet(PLACE);
            }
        });
        let (mut greeted, mut has_met, mut has_message) = (Greeted { seen: vec![0] }, false, false);
        let mut look = || {
            has_met |= greeted.take(&shared.greetings, 64) == Some(PLACE);
            has_message |= has_met && shared.ring.load(Ordering::Acquire) != 0;
            has_message
        };
        while !look() {
            sleep_if(&shared.endpoint, || !look());
        }
        sender.join().unwrap();
    });
}

#[test]
fn greetings_model_first_message_of_a_rank_that_was_not_met_ends_a_sleep() {
    first_message("greeted", true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn greetings_model_needs_the_greeting_before_the_bell() {
    first_message("greeted too late", false);
}
