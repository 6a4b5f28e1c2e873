//! Sleep and wake without lost wake-ups (DESIGN 4, rule 3; F27).
//!
//! ```text
//! waker                         sleeper
//! publish something             b = bell; sleeping = 1
//! fence SeqCst                  fence SeqCst
//! sleeping == 1 ?               anything published? -> sleeping = 0, go on
//!   bell += 1; futex wake       futex wait while bell == b; sleeping = 0
//! ```
//!
//! Either the waker sees `sleeping`, or the sleeper sees what was published. A bell rung between the sleeper's look and
//! its wait changes the word, so the wait returns at once. The futex is not private: ranks are processes.

use crate::endpoint::Endpoint;
use crate::sync::{Ordering, fence};

/// Wakes the owner of `endpoint` if it sleeps. Called after publishing something for it.
#[inline(always)]
pub fn ring_if_sleeping(endpoint: &Endpoint) {
    fence(Ordering::SeqCst);
    if endpoint.sleeping.load(Ordering::Relaxed) != 0 {
        ring(endpoint);
    }
}

/// As [`ring_if_sleeping`], for a waker that has published by a sequentially consistent read-modify-write, which stands for the fence;
/// so one publication can wake many.
#[inline(always)]
pub fn ring_after_swap(endpoint: &Endpoint) {
    if endpoint.sleeping.load(Ordering::SeqCst) != 0 {
        ring(endpoint);
    }
}

#[cold]
fn ring(endpoint: &Endpoint) {
    endpoint.bell.fetch_add(1, Ordering::Release);
    futex::wake_all(&endpoint.bell);
}

/// Sleeps until the bell is rung, unless `nothing_there` finds something after the intention to sleep has been published.
/// May return early; the caller looks again. Only the endpoint's owner calls it.
pub fn sleep_unless(endpoint: &Endpoint, nothing_there: impl FnOnce() -> bool) {
    let bell = endpoint.bell.load(Ordering::Acquire);
    endpoint.sleeping.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if nothing_there() {
        futex::wait(&endpoint.bell, bell);
    }
    endpoint.sleeping.store(0, Ordering::Relaxed);
}

#[cfg(not(loom))]
mod futex {
    use crate::sync::AtomicU32;

    pub fn wait(word: &AtomicU32, seen: u32) {
        // SAFETY: the word is alive; without a time-out the other arguments are ignored.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                std::ptr::null::<libc::timespec>(),
            )
        };
    }

    pub fn wake_all(word: &AtomicU32) {
        // SAFETY: the word is alive.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}

/// Under loom the kernel's queue is a mutex and a condition: as the kernel does, a waiter looks at the word and joins the
/// queue in one step. A lost wake-up is a thread that waits for ever, which loom reports as a deadlock.
#[cfg(loom)]
mod futex {
    use loom::sync::{Condvar, Mutex};

    use crate::sync::{AtomicU32, Ordering};

    struct Queue {
        lock: Mutex<()>,
        woken: Condvar,
    }

    loom::lazy_static! {
        static ref QUEUE: Queue = Queue { lock: Mutex::new(()), woken: Condvar::new() };
    }

    pub fn wait(word: &AtomicU32, seen: u32) {
        let mut guard = QUEUE.lock.lock().unwrap();
        while word.load(Ordering::Relaxed) == seen {
            guard = QUEUE.woken.wait(guard).unwrap();
        }
    }

    pub fn wake_all(_word: &AtomicU32) {
        let _guard = QUEUE.lock.lock().unwrap();
        QUEUE.woken.notify_all();
    }
}

#[cfg(all(test, loom))]
mod model;
