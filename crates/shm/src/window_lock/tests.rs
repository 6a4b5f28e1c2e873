use super::*;

#[repr(align(64))]
struct Words([u8; 1024]);

fn lock(words: &mut Words, waiters: u32) -> WindowLock {
    assert!(bytes(waiters) <= words.0.len());
    // SAFETY: so many zeroed bytes, aligned, which outlive the lock of a test.
    unsafe { WindowLock::new(NonNull::from(&mut words.0).cast(), waiters) }
}

#[test]
fn window_lock_bytes_hold_an_owner_for_each_waiter() {
    assert_eq!([bytes(1), bytes(16), bytes(17), bytes(100)], [128, 128, 192, 64 + 512]);
}

#[test]
fn window_lock_grants_in_the_order_of_asking() {
    let mut words = Words([0; 1024]);
    let lock = lock(&mut words, 8);
    let tickets = [
        lock.ask(Mode::Shared, 0),
        lock.ask(Mode::Shared, 1),
        lock.ask(Mode::Exclusive, 2),
        lock.ask(Mode::Shared, 3),
        lock.ask(Mode::Shared, 4),
    ];
    let due = || tickets.map(|ticket| lock.is_due(ticket));
    assert_eq!(due(), [true, false, false, false, false]);
    let before = |ticket| {
        let mut owners = Vec::new();
        lock.visit_before(ticket, &mut |_, owner| owners.push(owner));
        owners
    };
    assert_eq!((before(tickets[0]), before(tickets[2])), (vec![], vec![1]));
    // Who enters shared lets the next one in, whose turn it may be.
    assert_eq!(lock.enter(tickets[0]), Some(1));
    assert_eq!(lock.enter(tickets[1]), Some(2));
    assert_eq!((before(tickets[2]), before(tickets[3])), (vec![0, 1], vec![2]), "both are inside");
    assert!(!lock.is_due(tickets[2]), "two are inside");
    assert_eq!(lock.release(tickets[1]), Some(2), "it has named the one that has left");
    assert_eq!((before(tickets[2]), before(tickets[3])), (vec![], vec![2]), "one of two is inside");
    assert!(!lock.is_due(tickets[2]), "one is inside");
    assert_eq!(lock.release(tickets[0]), Some(2));
    assert!(lock.is_due(tickets[2]) && !lock.is_due(tickets[3]));
    assert_eq!(lock.enter(tickets[2]), None);
    assert_eq!(lock.release(tickets[2]), Some(3));
    assert_eq!(lock.enter(tickets[3]), Some(4));
    assert_eq!(lock.enter(tickets[4]), None, "nobody else has asked");
    let last = lock.ask(Mode::Exclusive, 5);
    assert_eq!(before(last), [3, 4]);
    lock.release(tickets[3]);
    lock.release(tickets[4]);
    lock.enter(last);
    lock.release(last);
}

#[test]
fn window_lock_works_beyond_the_largest_ticket() {
    let mut words = Words([0; 1024]);
    let lock = lock(&mut words, 3);
    let counts = lock.counts();
    for count in [&counts.asked, &counts.entered, &counts.left, &counts.begun] {
        count.store(u32::MAX - 1, Ordering::Relaxed);
    }
    for round in 0..6 {
        let mode = if round % 2 == 0 { Mode::Shared } else { Mode::Exclusive };
        let ticket = lock.ask(mode, 0);
        lock.enter(ticket);
        lock.release(ticket);
    }
}

/// Threads change a plain counter under exclusive locks and check it under shared ones.
#[test]
fn window_lock_excludes_under_load() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let mut words = Words([0; 1024]);
    let lock = lock(&mut words, 4);
    let pair = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let pair = &pair;
            scope.spawn(move || {
                for round in 0..3_000_u64 {
                    let mode = if (round + thread) % 4 == 0 { Mode::Exclusive } else { Mode::Shared };
                    let ticket = lock.ask(mode, thread as u32);
                    while !lock.is_due(ticket) {
                        std::thread::yield_now();
                    }
                    lock.enter(ticket);
                    let [first, second] = [0, 1].map(|index: usize| pair[index].load(Ordering::Relaxed));
                    assert_eq!(first, second, "changed under a shared lock");
                    if mode == Mode::Exclusive {
                        pair[0].store(first + 1, Ordering::Relaxed);
                        pair[1].store(first + 1, Ordering::Relaxed);
                    }
                    lock.release(ticket);
                }
            });
        }
    });
    assert_eq!(pair[0].load(Ordering::Relaxed), 3_000);
}
