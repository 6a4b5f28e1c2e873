//! The service thread of a rank whose job spans nodes (DESIGN 3, F5): while the program computes, or all of its threads sleep,
//! it looks after the network, so that retransmission, acknowledgements and large messages go on.
//!
//! ```text
//! PARKED (futex, 1 ms at a time) --nobody has looked since, or poked--> SERVING (ppoll on the socket, then progress)
//!        <----------------- a thread of the program has looked ---------------'
//! ```
//!
//! A thread of the program that waits looks at the socket itself, which is faster; [`looked`] says so, and the service
//! thread keeps away. A thread that is about to sleep [`poke`]s it, after its last look. A thread that lets small messages wait for
//! others ([`will_look`]) may go away and compute: the service thread naps a little and sends what still waits. Who stops where: the words below
//! are hints; every look and every datagram is handled under the process lock.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::process;
use tutti_shm::waits;

/// How long the program may go without a look at the network before the service thread takes over.
const TICK: Duration = Duration::from_millis(1);
/// It looks at the timers at least this often: a send by the program may have set an earlier one.
const LOOK_MAX: Duration = Duration::from_millis(10);
/// How long messages may wait for others, if nobody looks before.
const NAP: Duration = Duration::from_micros(50);

/// Looks at the network by threads of the program. Written under the process lock.
static LOOKS: AtomicU64 = AtomicU64::new(0);
/// Changed by each poke; the futex of the parked thread.
static POKES: AtomicU32 = AtomicU32::new(0);
static PARKED: AtomicBool = AtomicBool::new(false);
/// Messages wait to be sent soon. Written under the process lock.
static SOON: AtomicBool = AtomicBool::new(false);

/// A thread of the program has looked at the network. The caller holds the process lock.
#[inline]
pub fn looked() {
    LOOKS.store(LOOKS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// Nobody will look at the network for now. Called behind the last look, with the process lock held.
#[cold]
pub fn poke() {
    POKES.fetch_add(1, Ordering::SeqCst);
    if PARKED.load(Ordering::SeqCst) {
        wake();
    }
}

/// Whether the service thread will send within some 0.1 ms what waits; at the latest at its next tick. The caller holds the
/// process lock.
#[inline]
pub fn will_look() -> bool {
    SOON.load(Ordering::Relaxed) || wake_soon()
}

#[cold]
fn wake_soon() -> bool {
    let parked = PARKED.load(Ordering::SeqCst);
    if parked {
        SOON.store(true, Ordering::SeqCst);
        wake();
    }
    parked
}

fn wake() {
    // SAFETY: the word is static; a wake of one waiter takes no other argument.
    unsafe {
        libc::syscall(libc::SYS_futex, POKES.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1);
    }
}

/// Starts the thread; `socket` is a duplicate of the rank's socket.
///
/// # Errors
/// When there can be no more threads.
pub fn start(socket: OwnedFd) -> std::io::Result<()> {
    with_signals_blocked(|| {
        std::thread::Builder::new().name("tutti-net".into()).stack_size(256 << 10).spawn(move || run(&socket))
    })
    .map(drop)
}

fn run(socket: &OwnedFd) {
    loop {
        let pokes = POKES.load(Ordering::SeqCst);
        let looks = LOOKS.load(Ordering::Relaxed);
        park(pokes);
        if SOON.load(Ordering::SeqCst) {
            std::thread::sleep(NAP);
            if look(true).is_none() {
                return;
            }
            if POKES.load(Ordering::SeqCst) == pokes {
                continue;
            }
        }
        let poked = POKES.load(Ordering::SeqCst) != pokes;
        let looks = if poked { LOOKS.load(Ordering::Relaxed) } else { looks };
        while LOOKS.load(Ordering::Relaxed) == looks {
            let Some(patience) = look(false) else { return };
            await_datagram(socket, patience);
        }
        if process::phase() == process::AFTER {
            return;
        }
    }
}

/// Looks at the network, or only if something waits to be sent; gives how long there is nothing to do, `None` after Finalize.
fn look(if_unsent: bool) -> Option<Duration> {
    let mut guard = process::enter()?;
    SOON.store(false, Ordering::SeqCst);
    // What is taken in now may be what a sleeper waits for.
    let were_asleep = guard.take_back_asleep();
    let moved = (guard.engine.has_unsent() || !if_unsent) && guard.engine.poll_remote();
    let patience = guard.engine.network_timeout().map_or(LOOK_MAX, |timeout| timeout.min(LOOK_MAX));
    if moved && guard.waits.has_sleepers() {
        waits::call_those_who_are_through(&mut guard);
    }
    if were_asleep && guard.waits.has_sleepers() && guard.waits.awake() == 0 {
        guard.say_asleep(None);
    }
    if moved {
        guard.leave();
    } else {
        guard.leave_quietly();
    }
    Some(patience)
}

/// Sleeps for a tick, or until poked after `pokes` was read.
fn park(pokes: u32) {
    let tick = libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(TICK.subsec_nanos() as i32) };
    PARKED.store(true, Ordering::SeqCst);
    // SAFETY: the word is static, the time-out valid during the call; a poke in between has changed the word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            POKES.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            pokes,
            &raw const tick,
        );
    }
    PARKED.store(false, Ordering::SeqCst);
}

fn await_datagram(socket: &OwnedFd, patience: Duration) {
    let mut watched = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let patience = libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(patience.subsec_nanos() as i32) };
    // SAFETY: the structures are valid during the call; early returns do no harm.
    unsafe { libc::ppoll(&mut watched, 1, &patience, std::ptr::null()) };
}

/// A thread started by `action` takes no signal of the program's.
fn with_signals_blocked<T>(action: impl FnOnce() -> T) -> T {
    // SAFETY: zeroed is a valid signal set; the sets are valid during the calls, which change this thread's mask and back.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let value = action();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        value
    }
}
