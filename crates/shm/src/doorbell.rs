//! Sleep and wake without lost wake-ups.
//!
//! ```text
//! waker                             sleeper
//! publish something                 b = bell; sleeping = b + 1
//! fence SeqCst                      fence SeqCst
//! s = sleeping; s != 0 ?            anything published? -> sleeping = 0, go on
//!   bell is s - 1 ? -> bell += 2,   futex wait while bell == b; sleeping = 0
//!   futex wake
//! ```
//!
//! Either the waker sees `sleeping`, or the sleeper sees what was published. A bell rung between the
//! sleeper's look and its wait changes the word, so the wait returns at once. The futex is not private: ranks
//! are processes.
//!
//! The bell is even, so an intention is never 0. It names the bell that it waits for: of many wakers the
//! first rings, and the others, who come before the sleeper has run, spare the system call. One who finds the
//! bell rung already has seen an intention that is over or being ended; the sleeper looks at everything again
//! before its next sleep, behind a fence that comes after this waker's, so it sees what this waker published.

use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::sync::{Ordering, fence};

/// Wakes the owner of `endpoint` if it sleeps. Called after publishing something for it.
#[inline(always)]
pub fn ring_if_sleeping(endpoint: &Endpoint) {
    fence(Ordering::SeqCst);
    let intention = endpoint.sleeping.load(Ordering::Relaxed);
    if intention != 0 {
        ring(endpoint, intention);
    }
}

/// As [`ring_if_sleeping`], for a waker that has published by a sequentially consistent read-modify-write,
/// which stands for the fence; so one publication can wake many. (C++20, atomics.order: the swap precedes
/// this load and, when it reads an older intention, the load precedes the sleeper's fence; so the sleeper's
/// look sees the swap.)
#[inline(always)]
pub fn ring_after_swap(endpoint: &Endpoint) {
    let intention = endpoint.sleeping.load(Ordering::SeqCst);
    if intention != 0 {
        ring(endpoint, intention);
    }
}

#[cold]
fn ring(endpoint: &Endpoint, intention: u32) {
    let bell = intention.wrapping_sub(1);
    let rung = bell.wrapping_add(2);
    if endpoint.bell.load(Ordering::Relaxed) == bell
        && endpoint.bell.compare_exchange(bell, rung, Ordering::Release, Ordering::Relaxed).is_ok()
    {
        futex::wake_all(&endpoint.bell);
    }
}

/// Sleeps until the bell is rung, unless `found_nothing` finds something after the intention to sleep has
/// been published. May return early; the caller looks again. Only the endpoint's owner calls it.
pub fn sleep_if(endpoint: &Endpoint, found_nothing: impl FnOnce() -> bool) {
    let bell = prepare_sleep(endpoint);
    if found_nothing() {
        await_bell(endpoint, bell, None);
    }
    cancel_sleep(endpoint);
}

/// The first step of a sleep: says that a thread of the owner is about to sleep, or sleeps already. What was
/// published before is seen by whoever looks after this; what is published later rings the bell. Returns the
/// bell to wait for.
pub fn prepare_sleep(endpoint: &Endpoint) -> u32 {
    let bell = endpoint.bell.load(Ordering::Acquire);
    endpoint.sleeping.store(bell.wrapping_add(1), Ordering::Relaxed);
    fence(Ordering::SeqCst);
    bell
}

/// The second step, after a look that has found nothing: sleeps unless the bell has been rung since.
pub fn await_bell(endpoint: &Endpoint, bell: u32, at_most: Option<Duration>) {
    futex::wait(&endpoint.bell, bell, at_most);
}

/// Takes back an announced sleep: somebody looks, so nobody needs to ring any more.
pub fn cancel_sleep(endpoint: &Endpoint) {
    endpoint.sleeping.store(0, Ordering::Relaxed);
}

/// Wakes the thread that sleeps until the bell is rung, whatever was announced. For threads of the same
/// process.
pub fn wake(endpoint: &Endpoint) {
    endpoint.bell.fetch_add(2, Ordering::Release);
    futex::wake_all(&endpoint.bell);
}

#[cfg(not(loom))]
pub(crate) mod futex {
    use std::time::Duration;

    use crate::sync::AtomicU32;

    /// Sleeps while the word is as it was seen, and for so long at most.
    pub(crate) fn wait(word: &AtomicU32, seen: u32, at_most: Option<Duration>) {
        let time = at_most.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos().into(),
        });
        // SAFETY: the word and the time are alive; the other arguments are ignored.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            )
        };
    }

    pub(crate) fn wake_all(word: &AtomicU32) {
        // SAFETY: the word is alive.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Wakes so many: one who is not to work for as long as somebody else likes has a bound.
    pub(crate) fn wake(word: &AtomicU32, most: usize) {
        // SAFETY: the word is alive.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, most as i32) };
    }
}

/// Under loom the kernel's queue is a mutex and a condition: as the kernel does, a waiter looks at the word
/// and joins the queue in one step. A lost wake-up is a thread that waits for ever, which loom reports as a
/// deadlock.
#[cfg(loom)]
pub(crate) mod futex {
    use loom::sync::{Condvar, Mutex};

    use std::time::Duration;

    use crate::sync::{AtomicU32, Ordering};

    struct Queue {
        lock: Mutex<()>,
        woken: Condvar,
    }

    loom::lazy_static! {
        static ref QUEUE: Queue = Queue { lock: Mutex::new(()), woken: Condvar::new() };
    }

    pub(crate) fn wait(word: &AtomicU32, seen: u32, _at_most: Option<Duration>) {
        let mut guard = QUEUE.lock.lock().unwrap();
        while word.load(Ordering::Relaxed) == seen {
            guard = QUEUE.woken.wait(guard).unwrap();
        }
    }

    pub(crate) fn wake_all(_word: &AtomicU32) {
        let _guard = QUEUE.lock.lock().unwrap();
        QUEUE.woken.notify_all();
    }
}

#[cfg(all(test, loom))]
mod model;
