//! Loom: one sender and one receiver, each of which sleeps when it has to wait. The words of records are
//! cells, so two ends at one word are noticed; a lost wake-up is a deadlock.

use std::sync::Arc;

use super::*;
use crate::doorbell::{ring_if_sleeping, sleep_if};
use crate::endpoint::Endpoint;
use crate::model::explore;

/// Words of a record.
const RECORD: usize = 2;
/// Two records, and a word that none fits into.
const ROOM: usize = 5;
const OPERATION: u32 = 7;

#[derive(Default)]
struct Shared {
    head: Head,
    words: [Word; ROOM],
    sender: Endpoint,
    receiver: Endpoint,
}

impl Shared {
    fn parts(&self) -> Parts {
        // SAFETY: the memory stays as long as the model.
        unsafe { Parts::new(NonNull::from(&self.head), NonNull::from(&self.words[0]), ROOM) }
    }
}

fn word(place: NonNull<Word>, at: usize) -> &'static Word {
    // SAFETY: inside the ring, alive as long as the model.
    unsafe { place.add(at).as_ref() }
}

/// Steps on which the promises depend.
#[derive(Clone, Copy)]
struct Steps {
    rings_at_the_end: bool,
    publishes_before_it_rings: bool,
}

const ALL: Steps = Steps { rings_at_the_end: true, publishes_before_it_rings: true };

fn write(producer: &mut Producer, shared: &Shared, number: u64) {
    loop {
        if let Some(place) = producer.place(RECORD) {
            word(place, 0).0.with_mut(|word| unsafe { *word = number + 1 });
            word(place, 1).0.with_mut(|word| unsafe { *word = number + 100 });
            producer.commit(RECORD);
            return;
        }
        producer.call();
        ring_if_sleeping(&shared.receiver);
        sleep_if(&shared.sender, || producer.place(RECORD).is_none());
    }
}

/// Takes what is there; the number of the next record.
fn read(consumer: &mut Consumer, shared: &Shared, mut next: u64, steps: Steps) -> u64 {
    let before = next;
    while let Some((place, words)) = consumer.peek() {
        assert!(words >= RECORD, "{words} words");
        assert_eq!(word(place, 0).0.with(|word| unsafe { *word }), next + 1);
        assert_eq!(word(place, 1).0.with(|word| unsafe { *word }), next + 100);
        consumer.take(RECORD);
        next += 1;
    }
    if next > before && steps.publishes_before_it_rings {
        consumer.publish();
        ring_if_sleeping(&shared.sender);
    } else if next > before {
        ring_if_sleeping(&shared.sender);
        consumer.publish();
    }
    next
}

/// Sends so many records to a receiver that waits for all, or asks for each.
fn send(name: &str, preemptions: Option<usize>, records: u64, asks: bool, steps: Steps) {
    explore(name, preemptions, move || {
        let shared = Arc::new(Shared::default());
        let mut producer = Producer::new(shared.parts());
        assert!(producer.try_assign(OPERATION));
        let mut consumer = Consumer::new(shared.parts(), OPERATION);
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            for number in 0..records {
                write(&mut producer, &theirs, number);
            }
            producer.call();
            if steps.rings_at_the_end {
                ring_if_sleeping(&theirs.receiver);
            }
            producer
        });
        let mut next = read(&mut consumer, &shared, 0, steps);
        while next < records {
            if asks {
                loom::thread::yield_now();
                next = read(&mut consumer, &shared, next, steps);
                continue;
            }
            let mut is_called = false;
            sleep_if(&shared.receiver, || {
                is_called = consumer.is_called();
                !is_called
            });
            if is_called || consumer.is_called() {
                next = read(&mut consumer, &shared, next, steps);
            }
        }
        let mut producer = sender.join().unwrap();
        assert!(consumer.peek().is_none(), "more came than was sent");
        assert!(producer.try_assign(OPERATION + 1), "something is left");
    });
}

#[test]
fn piece_ring_model_wakes_a_receiver_that_waits_for_all() {
    send("pieces, waits for all, no wait for room", None, 2, false, ALL);
    send("pieces, waits for all, ring full", Some(3), 3, false, ALL);
}

#[test]
fn piece_ring_model_shows_whole_records_to_a_receiver_that_asks() {
    send("pieces, asks", Some(3), 4, true, ALL);
}

#[test]
#[should_panic(expected = "deadlock")]
fn piece_ring_model_needs_the_last_ring() {
    send("no ring at the end", Some(3), 2, false, Steps { rings_at_the_end: false, ..ALL });
}

#[test]
#[should_panic(expected = "deadlock")]
fn piece_ring_model_needs_room_published_before_the_ring() {
    send("room published late", Some(3), 3, false, Steps { publishes_before_it_rings: false, ..ALL });
}
