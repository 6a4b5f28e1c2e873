//! The service thread of a rank whose job spans nodes. While the program computes, or all of its threads
//! sleep, it looks after the network, so that retransmission, acknowledgements and large messages go on.
//!
//! ```text
//! PARKED (futex, 1 ms at a time) --nobody has looked since, or poked--> SERVING (ppoll on the socket, then progress)
//!   ^ ^----------------- a thread of the program has looked --------------' |
//!   |                                                        nothing is under way for 10 ms
//!   |                                                                       v
//!   '------ a thread of the program looks, and rings -------------- ASLEEP (ppoll on the socket and the bell)
//! ```
//!
//! A thread of the program that waits looks at the socket itself, which is faster;
//! [`crate::service_state::polled`] says so, and the service thread keeps away. A thread that is about to
//! sleep [`crate::service_state::poke`]s it, after its last look. A thread that lets small messages wait for
//! others ([`crate::service_state::will_poll`]) may go away and compute: the service thread naps a little and
//! sends what still waits. While it serves, operations on remote memory ring for that. One that sends
//! ([`crate::service_state::sent`]) while the service thread is asleep has set a timer that it does not know
//! of, and rings. Who stops where: its words are hints, but for `ASLEEP` and the bell, without which nobody
//! would look; every look and every datagram is handled under the process lock.
//!
//! Where this rank's memory is open to other nodes it parks by ticks of 0.2 ms while operations come: one
//! that finds the program gone to compute waits for two of them at most. It never serves beside a program
//! that looks: each datagram would wake it, on the core of somebody who works.
//!
//! While the program sleeps in a wait, the thread is in its place ([`Substitute`]): behind each datagram it
//! polls for as long as a rank that waits does, and then sleeps.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_shm::waits;

use crate::attach::AttachError;
use crate::background;
use crate::rank::{self, Rank};
use crate::remote_memory;
use crate::service_state::{APPLIED, ASLEEP, BELL, LOOKS, OPEN, PARKED, POKES, SOON};
use crate::wait::SPIN;

/// How long the program may go without a look at the network before the service thread takes over.
const TICK: Duration = Duration::from_millis(1);
/// Longest time between looks of the thread at the timers; after so long with nothing to do it sleeps.
const LOOK_MAX: Duration = Duration::from_millis(10);
/// The same where ranks of other nodes have worked on this rank's memory within [`RECENT`].
const TICK_RECENT: Duration = Duration::from_micros(200);
const RECENT: Duration = Duration::from_millis(20);
/// How often it looks whether a lock has come free for which a rank of another node waits.
const LOCK_LOOK: Duration = Duration::from_micros(100);
/// How often the clock is read while the thread polls instead of a sleeper.
const POLLS_PER_CLOCK: u32 = 16;
/// How long messages may wait for others, if nobody looks before.
const NAP: Duration = Duration::from_micros(50);

/// Starts the service thread of a rank, if there is a network and it does not run yet.
///
/// # Errors
/// When there can be no more descriptors or threads.
pub fn start(rank: &Rank) -> Result<(), AttachError> {
    let Some(router) = &rank.router else { return Ok(()) };
    let socket = router.borrow().duplicate_socket().map_err(AttachError::Network)?;
    start_with(socket).map_err(AttachError::Network)
}

/// Starts the thread, if it does not run yet; `socket` is a duplicate of the rank's socket. The caller holds
/// the process lock.
///
/// # Errors
/// When there can be no more descriptors or threads.
fn start_with(socket: OwnedFd) -> std::io::Result<()> {
    if BELL.get().is_some() {
        return Ok(());
    }
    let bell = make_bell()?;
    let rung = bell.as_raw_fd();
    let started = background::spawn("tutti-net", move || run(&socket, rung));
    if started.is_ok() {
        // The caller holds the lock, so nobody has had anything to ring for.
        let _ = BELL.set(bell);
    }
    started
}

/// Whether the thread has been started.
pub fn is_running() -> bool {
    BELL.get().is_some()
}

fn make_bell() -> std::io::Result<OwnedFd> {
    // SAFETY: it takes no pointer; what it gives is a descriptor of our own.
    let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    // SAFETY: as above.
    (bell >= 0).then(|| unsafe { OwnedFd::from_raw_fd(bell) }).ok_or_else(std::io::Error::last_os_error)
}

/// How long there is nothing to do, unless something comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backoff {
    /// More may come at once.
    Poll,
    /// A timer may be set.
    Until(Duration),
    /// Wait without end: nothing is under way.
    Endless,
}

/// How long the thread parks: less while ranks of other nodes work on this rank's memory.
#[derive(Debug)]
struct Ticks {
    applied: u64,
    at: Option<Instant>,
}

impl Ticks {
    fn next(&mut self) -> Duration {
        if !OPEN.load(Ordering::Relaxed) {
            return TICK;
        }
        let applied = APPLIED.load(Ordering::Relaxed);
        if applied != self.applied {
            (self.applied, self.at) = (applied, Some(Instant::now()));
        }
        if self.at.is_some_and(|at| at.elapsed() < RECENT) { TICK_RECENT } else { TICK }
    }
}

/// The thread in place of the program's thread, which sleeps in a wait.
#[derive(Debug, Default)]
struct Substitute {
    /// Since when nothing has come.
    idle_since: Option<Instant>,
    polls: u32,
    /// Whether the report that the rank sleeps was taken back, and is to be made again.
    took_back: bool,
}

impl Substitute {
    /// Whether the thread polls on, as long as the sleeper itself would: something has come that has not
    /// ended the sleep, and more may follow at once. Only where the program sleeps and its core is free.
    fn polls_on(&mut self, core_is_free: bool, moved: bool) -> bool {
        if !core_is_free {
            self.idle_since = None;
        } else if moved {
            (self.idle_since, self.polls) = (Some(Instant::now()), 0);
        } else if self.idle_since.is_some() {
            self.polls += 1;
            let looks = self.polls.is_multiple_of(POLLS_PER_CLOCK);
            self.idle_since = self.idle_since.filter(|since| !looks || since.elapsed() < SPIN);
        }
        self.idle_since.is_some()
    }
}

fn run(socket: &OwnedFd, bell: RawFd) {
    let mut pokes = POKES.load(Ordering::SeqCst);
    let mut ticks = Ticks { applied: 0, at: None };
    let mut substitute = Substitute::default();
    loop {
        let mut looks = LOOKS.load(Ordering::Relaxed);
        // Who has rung for what waits to be sent must not wait for a tick.
        if !SOON.load(Ordering::SeqCst) {
            park(pokes, ticks.next());
        }
        if SOON.load(Ordering::SeqCst) {
            std::thread::sleep(NAP);
            if poll(true, false, &mut substitute).is_none() {
                return;
            }
            if POKES.load(Ordering::SeqCst) == pokes {
                continue;
            }
        }
        let mut is_calm = false;
        loop {
            // Who pokes looks no more, whatever he has done before.
            let poked = POKES.load(Ordering::SeqCst);
            if poked != pokes {
                (pokes, looks) = (poked, LOOKS.load(Ordering::Relaxed));
            } else if LOOKS.load(Ordering::Relaxed) != looks {
                break;
            }
            let Some(backoff) = poll(false, is_calm, &mut substitute) else { return };
            if backoff == Backoff::Poll {
                std::hint::spin_loop();
                continue;
            }
            let woken_by = await_datagram(socket, bell, backoff);
            is_calm = woken_by == WokenBy::Time && backoff == Backoff::Until(LOOK_MAX);
            if woken_by == WokenBy::Bell && SOON.load(Ordering::SeqCst) {
                std::thread::sleep(NAP);
            }
        }
        if rank::has_left() {
            return;
        }
    }
}

/// Looks at the network, or only if something waits to be sent; gives how long there is nothing to do, `None`
/// after the rank has left. Who is calm, since nothing has come for [`LOOK_MAX`], may sleep.
fn poll(if_unsent: bool, is_calm: bool, substitute: &mut Substitute) -> Option<Backoff> {
    let mut rank = rank::enter()?;
    SOON.store(false, Ordering::SeqCst);
    ASLEEP.store(false, Ordering::Relaxed);
    let router = rank.router.clone()?;
    // What is taken in now may be what a sleeper waits for.
    substitute.took_back |= rank.take_back_asleep();
    // Who waits until nothing is under way any more (Finalize) waits for timers too.
    let is_due = router.borrow().timeout().is_some_and(|timeout| timeout.is_zero());
    let has_unsent = router.borrow().has_unsent() || router.borrow().is_gathering();
    let moved = (has_unsent || !if_unsent) && router.borrow_mut().poll();
    let may_sleep = is_calm && !moved;
    if (moved || is_due || may_sleep) && rank.waits.has_sleepers() {
        waits::wake_completed(&mut rank);
    }
    let all_sleep = rank.waits.has_sleepers() && rank.waits.awake() == 0;
    let polls_on = substitute.polls_on(all_sleep && !rank.core_sharing.shares_core(), moved);
    if !polls_on && std::mem::take(&mut substitute.took_back) && all_sleep {
        rank.report_sleep(None);
    }
    // A wait may have handed over more, now that there is room.
    if router.borrow().has_unsent() {
        router.borrow_mut().send_unsent();
    }
    // Nobody rings for a rank of another node that waits for a lock.
    let look_max = if remote_memory::has_waiting() { LOCK_LOOK } else { LOOK_MAX };
    // Behind everything that could have sent something.
    let backoff = if polls_on {
        Backoff::Poll
    } else if may_sleep && router.borrow().is_clear() && look_max == LOOK_MAX {
        Backoff::Endless
    } else {
        Backoff::Until(router.borrow().timeout().map_or(look_max, |timeout| timeout.min(look_max)))
    };
    ASLEEP.store(backoff == Backoff::Endless, Ordering::Relaxed);
    // Its count is no atomic: it goes while the lock is held.
    drop(router);
    if !moved {
        rank.leave_quietly();
    }
    Some(backoff)
}

/// Sleeps for a tick, or until poked after `pokes` was read.
fn park(pokes: u32, tick: Duration) {
    let tick = libc::timespec { tv_sec: 0, tv_nsec: libc::c_long::from(tick.subsec_nanos() as i32) };
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

/// Cause of the end of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WokenBy {
    Datagram,
    Bell,
    Time,
}

/// Sleeps until a datagram comes, the bell rings or the time is over.
fn await_datagram(socket: &OwnedFd, bell: RawFd, backoff: Backoff) -> WokenBy {
    let watch = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut watched = [watch(socket.as_raw_fd()), watch(bell)];
    let time = match backoff {
        Backoff::Poll => Some(libc::timespec { tv_sec: 0, tv_nsec: 0 }),
        Backoff::Until(time) => Some(libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() }),
        Backoff::Endless => None,
    };
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the structures are valid during the call; early returns do no harm.
    unsafe { libc::ppoll(watched.as_mut_ptr(), 2, time, std::ptr::null()) };
    let [has_datagram, is_rung] = watched.map(|watched| watched.revents != 0);
    if is_rung {
        // SAFETY: the eight bytes live during the call.
        unsafe { libc::read(bell, [0_u8; 8].as_mut_ptr().cast(), 8) };
    }
    match (has_datagram, is_rung) {
        (true, _) => WokenBy::Datagram,
        (false, true) => WokenBy::Bell,
        (false, false) => WokenBy::Time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_polls_on_for_a_sleeper_that_has_a_core() {
        let mut substitute = Substitute::default();
        assert!(!substitute.polls_on(true, false), "nothing has come");
        assert!(!substitute.polls_on(false, true), "the core is somebody's");
        assert!(!substitute.polls_on(true, false), "nothing has come since");
        let began = Instant::now();
        assert!(substitute.polls_on(true, true));
        while substitute.polls_on(true, false) {
            assert!(began.elapsed() < Duration::from_secs(40), "it does not end");
        }
        assert!(began.elapsed() >= SPIN);
        assert!(!substitute.polls_on(true, false), "it has ended");
        assert!(substitute.polls_on(true, true), "something came again");
        assert!(!substitute.polls_on(false, false), "the program works again");
    }
}
