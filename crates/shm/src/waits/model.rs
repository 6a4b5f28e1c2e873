//! Loom: threads of a process that wait, a peer, and a thread that ends another's wait. A wake-up that is
//! lost is a thread that sleeps for ever, which loom reports as a deadlock.

use std::sync::Arc;

use loom::sync::{Mutex, MutexGuard};

use super::*;
use crate::doorbell::ring_if_sleeping;
use crate::model::explore;

/// Memory that peers publish: a word for each thread that waits.
#[derive(Default)]
struct Shared {
    endpoint: Endpoint,
    words: [AtomicU32; 2],
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waits: Waits<usize>,
    /// Which words have been taken in.
    taken: [bool; 2],
}

struct Thread<'a> {
    shared: &'a Shared,
    state: Option<MutexGuard<'a, State>>,
}

impl Thread<'_> {
    fn state(&mut self) -> &mut State {
        self.state.as_mut().expect("the lock is ours")
    }
}

// SAFETY: the endpoint lives as long as the threads; the state is behind the mutex; a test is a number.
unsafe impl Host for Thread<'_> {
    type Test = usize;
    fn waits(&mut self) -> &mut Waits<usize> {
        &mut self.state().waits
    }
    fn endpoint(&self) -> NonNull<Endpoint> {
        NonNull::from(&self.shared.endpoint)
    }
    fn progress(&mut self) -> bool {
        let mut moved = false;
        for i in 0..2 {
            if self.shared.words[i].load(Ordering::Acquire) == 1 && !self.state().taken[i] {
                self.state().taken[i] = true;
                moved = true;
            }
        }
        moved
    }
    fn is_over(&mut self, test: usize) -> bool {
        self.state().taken[test]
    }
    fn before_sleep(&mut self, _: Option<usize>) {}
    fn release(&mut self) {
        self.state = None;
    }
    fn acquire(&mut self) {
        self.state = Some(self.shared.state.lock().unwrap());
    }
}

/// As the MPI library waits, without patience.
fn wait(shared: &Shared, word: usize) {
    let mut thread = Thread { shared, state: Some(shared.state.lock().unwrap()) };
    begin(&mut thread);
    loop {
        thread.progress();
        if thread.is_over(word) {
            break end(&mut thread);
        }
        if rest(&mut thread, word, Limit::None) == RestEnd::Over {
            break;
        }
    }
}

fn publish(shared: &Shared, word: usize) {
    shared.words[word].store(1, Ordering::Release);
    ring_if_sleeping(&shared.endpoint);
}

fn spawn(shared: &Arc<Shared>, action: fn(&Shared)) -> loom::thread::JoinHandle<()> {
    let shared = shared.clone();
    loom::thread::spawn(move || action(&shared))
}

fn is_idle(shared: &Shared) -> bool {
    let state = shared.state.lock().unwrap();
    state.waits.waiting() == 0 && !state.waits.has_sleepers()
}

#[test]
fn waits_model_wakes_two_threads() {
    explore("two waits, one peer", Some(3), || {
        let shared = Arc::new(Shared::default());
        let other = spawn(&shared, |shared| wait(shared, 1));
        let peer = spawn(&shared, |shared| {
            publish(shared, 1);
            publish(shared, 0);
        });
        wait(&shared, 0);
        other.join().unwrap();
        peer.join().unwrap();
        assert!(is_idle(&shared));
    });
}

#[test]
fn waits_model_leaving_thread_hands_over_polling() {
    explore("two waits one after the other", Some(2), || {
        let shared = Arc::new(Shared::default());
        let other = spawn(&shared, |shared| wait(shared, 1));
        let peer = spawn(&shared, |shared| publish(shared, 0));
        wait(&shared, 0);
        publish(&shared, 1);
        other.join().unwrap();
        peer.join().unwrap();
        assert!(is_idle(&shared));
    });
}

/// A thread that does not wait ends the wait of another: a message to itself.
fn complete(shared: &Shared, word: usize) {
    let mut thread = Thread { shared, state: Some(shared.state.lock().unwrap()) };
    thread.state().taken[word] = true;
    if thread.waits().has_sleepers() {
        wake_completed(&mut thread);
    }
}

#[test]
fn waits_model_thread_completes_the_wait_of_another() {
    explore("one wait ended from inside, one by a peer", Some(2), || {
        let shared = Arc::new(Shared::default());
        let other = spawn(&shared, |shared| wait(shared, 1));
        let third = spawn(&shared, |shared| {
            complete(shared, 1);
            publish(shared, 0);
        });
        wait(&shared, 0);
        other.join().unwrap();
        third.join().unwrap();
        assert!(is_idle(&shared));
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn waits_model_needs_the_announcement_of_the_leaver() {
    explore("nobody announces again", Some(3), || {
        let shared = Arc::new(Shared::default());
        let other = spawn(&shared, |shared| wait(shared, 1));
        {
            let mut thread = Thread { shared: &shared, state: Some(shared.state.lock().unwrap()) };
            begin(&mut thread);
            thread.waits().waiting -= 1;
        }
        publish(&shared, 1);
        other.join().unwrap();
    });
}
