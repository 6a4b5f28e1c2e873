//! State by which the service thread and the threads of the program inform each other. Who writes which word
//! stands at each; [`crate::service`] says what they mean together.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Looks at the network by threads of the program. Written under the process lock.
pub(crate) static LOOKS: AtomicU64 = AtomicU64::new(0);
/// Changed by each poke; the futex of the parked thread.
pub(crate) static POKES: AtomicU32 = AtomicU32::new(0);
pub(crate) static PARKED: AtomicBool = AtomicBool::new(false);
/// Messages wait to be sent soon. Written under the process lock.
pub(crate) static SOON: AtomicBool = AtomicBool::new(false);
/// The service thread sleeps, or is about to, until a datagram or the bell wakes it. Written under the
/// process lock.
pub(crate) static ASLEEP: AtomicBool = AtomicBool::new(false);
/// Whether this rank's memory is open to ranks of other nodes. Written under the process lock.
pub(crate) static OPEN: AtomicBool = AtomicBool::new(false);
/// Operations on it so far. Written under the process lock.
pub(crate) static APPLIED: AtomicU64 = AtomicU64::new(0);
/// An eventfd.
pub(crate) static BELL: OnceLock<OwnedFd> = OnceLock::new();

/// A thread of the program has looked at the network. The caller holds the process lock.
#[inline]
pub fn polled() {
    LOOKS.store(LOOKS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    sent();
}

/// A thread has sent something, has something to send, or has left. The caller holds the process lock.
#[inline]
pub fn sent() {
    if ASLEEP.load(Ordering::Relaxed) {
        ring();
    }
}

/// From now on ranks of other nodes work on this rank's memory by records of an interface of its own. The
/// caller holds the process lock.
pub fn open() {
    note_open(true);
}

/// Whether ranks of other nodes may work on this rank's memory. The caller holds the process lock.
pub(crate) fn note_open(is_open: bool) {
    OPEN.store(is_open, Ordering::Relaxed);
    // The thread may be parked, for a tick at most.
    poke();
}

/// One has worked on it. The caller holds the process lock.
pub fn note_applied() {
    APPLIED.store(APPLIED.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

#[cold]
fn ring() {
    ASLEEP.store(false, Ordering::Relaxed);
    if let Some(bell) = BELL.get() {
        // SAFETY: eight bytes that live during the call. A bell that is full rings as it is.
        unsafe { libc::write(bell.as_raw_fd(), 1_u64.to_ne_bytes().as_ptr().cast(), 8) };
    }
}

/// Tells the service thread that nobody will look at the network for now. Called behind the last look, with
/// the process lock held.
#[cold]
pub fn poke() {
    POKES.fetch_add(1, Ordering::SeqCst);
    if PARKED.load(Ordering::SeqCst) {
        wake();
    }
}

/// Whether the service thread will send within some 0.1 ms what waits; at the latest at its next tick. While
/// it serves it does so for the sake of operations on remote memory alone. The caller holds the process lock.
#[inline]
pub fn will_poll() -> bool {
    SOON.load(Ordering::Relaxed) || wake_soon(OPEN.load(Ordering::Relaxed))
}

/// The same for what is held back for a next look, also while the thread serves: a program that has computed
/// may go on to, and many things at a time are worth a ring. The caller holds the process lock.
#[inline]
pub fn will_advance() -> bool {
    SOON.load(Ordering::Relaxed) || wake_soon(true)
}

#[cold]
fn wake_soon(rings: bool) -> bool {
    if PARKED.load(Ordering::SeqCst) {
        SOON.store(true, Ordering::SeqCst);
        wake();
    } else if rings && BELL.get().is_some() {
        // It serves, and may be about to park: then it sends at its next tick.
        SOON.store(true, Ordering::SeqCst);
        ring();
    } else {
        return false;
    }
    true
}

fn wake() {
    // SAFETY: the word is static; a wake of one waiter takes no other argument.
    unsafe {
        libc::syscall(libc::SYS_futex, POKES.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}
