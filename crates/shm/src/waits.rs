//! Waits in several threads of one process: while one polls, the others sleep.
//!
//! | a thread that waits is | it | it is woken by |
//! |---|---|---|
//! | awake | polls, and gives the lock back between polls | - |
//! | the sentry, one at most | sleeps until the rank's bell is rung | a peer; a thread that finds its wait over |
//! | seated | sleeps on a word of its own | a thread that finds its wait over, or that leaves without a sentry behind it; its own clock |
//!
//! A thread calls [`begin`], looks, and [`rest`]s when it has found nothing for long enough, until it finds
//! something and calls [`end`]. Who is awake while another rests tells it when its wait is over
//! ([`wake_completed`]), and so does every thread that leaves the library. All of this happens under the lock
//! of the process, but for the sleeps.
//!
//! The invariant: when somebody waits, a thread is awake, or the sentry's intention to sleep stands in the
//! endpoint, announced before the last look. So whoever is awake last announces it again, for the sentry, and
//! looks ([`end`], [`rest`]); and the peers need not ring while somebody is awake. A sentry whose intention
//! was taken back and announced again sleeps on: the bell that it waits for is still the same, or it has been
//! woken.

use std::ptr::NonNull;
use std::time::Duration;

use crate::doorbell::{self, futex};
use crate::endpoint::Endpoint;
use crate::sync::{AtomicU32, Ordering};

/// The threads of a process that wait.
#[derive(Debug)]
pub struct Waits<T> {
    waiting: u32,
    sleepers: Vec<Sleeper<T>>,
}

#[derive(Debug)]
struct Sleeper<T> {
    seat: NonNull<AtomicU32>,
    is_poller: bool,
    test: T,
}

// SAFETY: the seat is an atomic, which its thread does not leave while it stands here (see `wake`).
unsafe impl<T: Send> Send for Sleeper<T> {}

/// The word of a seat: its thread sleeps.
const ASLEEP: u32 = 0;
/// Word of a seat: its thread is to look itself.
const LOOK: u32 = 1;
/// Word of a seat: the wait of its thread is over.
const OVER: u32 = 2;

/// How a rest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestEnd {
    /// The thread looks again.
    Look,
    /// Returned when the wait is over; [`end`] is not called.
    Over,
}

/// How long a rest may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit: until there is something.
    None,
    /// Time at most if nobody else is awake.
    Sentry(Duration),
    /// Time at most, whoever is awake: then there is something to do that no other thread does.
    Always(Duration),
}

/// A thread's view of its process, which it has locked.
///
/// # Safety
/// `endpoint` stays valid, and the content of `waits` is the same for all threads and reached only between
/// `acquire` and `release`, which exclude each other. A test that is handed to [`rest`] can be looked at by
/// any thread that has the lock, until `rest` returns.
pub unsafe trait Host {
    /// How it is known that a wait is over.
    type Test: Copy;
    /// All waits of the process.
    fn waits(&mut self) -> &mut Waits<Self::Test>;
    /// Endpoint of the process.
    fn endpoint(&self) -> NonNull<Endpoint>;
    /// Takes in what peers have published; whether there was anything.
    fn progress(&mut self) -> bool;
    /// Whether a wait is over. Does not give the lock back. Not called again once it has said so.
    fn is_over(&mut self, test: Self::Test) -> bool;
    /// Announces that nobody will look until the bell rings. Called behind the last look; `test`: of the
    /// calling thread, if it is one that waits.
    fn before_sleep(&mut self, test: Option<Self::Test>);
    /// Gives the lock back.
    fn release(&mut self);
    /// Takes it.
    fn acquire(&mut self);
}

impl<T> Waits<T> {
    /// Creates it with no thread that waits.
    pub const fn new() -> Self {
        Waits { waiting: 0, sleepers: Vec::new() }
    }

    /// Threads that wait.
    #[inline(always)]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Threads that wait and do not sleep.
    #[inline(always)]
    pub fn awake(&self) -> u32 {
        self.waiting - self.sleepers.len() as u32
    }

    /// Whether a thread sleeps.
    #[inline(always)]
    pub fn has_sleepers(&self) -> bool {
        !self.sleepers.is_empty()
    }

    /// The tests of the threads that sleep.
    pub fn tests(&self) -> impl Iterator<Item = T>
    where
        T: Copy,
    {
        self.sleepers.iter().map(|sleeper| sleeper.test)
    }

    fn has_poller(&self) -> bool {
        self.sleepers.iter().any(|sleeper| sleeper.is_poller)
    }
}

impl<T> Default for Waits<T> {
    fn default() -> Self {
        Self::new()
    }
}

fn endpoint<'a, H: Host>(host: &H) -> &'a Endpoint {
    // SAFETY: valid as long as the host's process (contract of `Host`).
    unsafe { host.endpoint().as_ref() }
}

/// The calling thread begins to wait: it is awake.
#[inline(always)]
pub fn begin<H: Host>(host: &mut H) {
    let waits = host.waits();
    waits.waiting += 1;
    if waits.waiting == 1 {
        endpoint(host).waiting.store(1, Ordering::Relaxed);
    } else if waits.awake() == 1 {
        // Whatever the sentry sleeps for is taken in by this thread.
        doorbell::cancel_sleep(endpoint(host));
    }
}

/// The calling thread, which is awake, waits no longer.
#[inline(always)]
pub fn end<H: Host>(host: &mut H) {
    let waits = host.waits();
    waits.waiting -= 1;
    if waits.waiting == 0 {
        endpoint(host).waiting.store(0, Ordering::Relaxed);
    } else if waits.awake() == 0 {
        leave_sleepers(host);
    }
}

/// All who wait sleep from now on.
#[cold]
fn leave_sleepers<H: Host>(host: &mut H) {
    if host.waits().has_poller() {
        doorbell::prepare_sleep(endpoint(host));
        let moved = host.progress();
        wake_completed(host);
        if moved {
            // There may be more.
            wake_poller(host);
        } else {
            host.before_sleep(None);
        }
    } else {
        wake_one(host);
    }
}

/// Sleeps until the wait is over, or there is something to look at. The calling thread is awake and has found
/// nothing.
#[cold]
pub fn rest<H: Host>(host: &mut H, test: H::Test, limit: Limit) -> RestEnd {
    let mut bell = None;
    if host.waits().awake() == 1 {
        bell = Some(doorbell::prepare_sleep(endpoint(host)));
        if host.progress() || wake_completed(host) {
            doorbell::cancel_sleep(endpoint(host));
            return RestEnd::Look;
        }
        if host.is_over(test) {
            doorbell::cancel_sleep(endpoint(host));
            end(host);
            return RestEnd::Over;
        }
        host.before_sleep(Some(test));
    }
    let seat = AtomicU32::new(ASLEEP);
    let bell = bell.filter(|_| !host.waits().has_poller());
    host.waits().sleepers.push(Sleeper { seat: NonNull::from(&seat), is_poller: bell.is_some(), test });
    let own = endpoint(host);
    host.release();
    match (bell, limit) {
        (Some(bell), Limit::None) => doorbell::await_bell(own, bell, None),
        (Some(bell), Limit::Sentry(time) | Limit::Always(time)) => {
            doorbell::await_bell(own, bell, Some(time));
        }
        (None, Limit::Always(time)) => futex::wait(&seat, ASLEEP, Some(time)),
        (None, Limit::None | Limit::Sentry(_)) => {
            while seat.load(Ordering::Acquire) == ASLEEP {
                futex::wait(&seat, ASLEEP, None);
            }
        }
    }
    host.acquire();
    match seat.load(Ordering::Acquire) {
        ASLEEP => {
            // The bell has been rung, or the time is over. Otherwise another may be the sentry by now.
            let sleepers = &mut host.waits().sleepers;
            sleepers.retain(|sleeper| sleeper.seat != NonNull::from(&seat));
            doorbell::cancel_sleep(own);
            RestEnd::Look
        }
        LOOK => RestEnd::Look,
        _ => RestEnd::Over,
    }
}

/// Wakes every thread whose wait is over; whether there was one. Called by whoever may have ended another's
/// wait, before it gives the lock back.
#[cold]
pub fn wake_completed<H: Host>(host: &mut H) -> bool {
    let mut sleepers = std::mem::take(&mut host.waits().sleepers);
    let before = sleepers.len();
    let mut completed = 0;
    sleepers.retain(|sleeper| {
        let is_over = host.is_over(sleeper.test);
        if is_over {
            completed += 1;
            wake(endpoint(host), sleeper, OVER);
        }
        !is_over
    });
    debug_assert!(host.waits().sleepers.is_empty() && before >= completed);
    let waits = host.waits();
    waits.sleepers = sleepers;
    waits.waiting -= completed as u32;
    if completed > 0 {
        if waits.waiting == 0 {
            endpoint(host).waiting.store(0, Ordering::Relaxed);
        } else if waits.awake() == 0 && !waits.has_poller() {
            wake_one(host);
        }
    }
    completed > 0
}

/// Has the sentry look, if nobody is awake.
#[cold]
pub fn wake_poller<H: Host>(host: &mut H) {
    let waits = host.waits();
    if waits.awake() > 0 {
        return;
    }
    if let Some(index) = waits.sleepers.iter().position(|sleeper| sleeper.is_poller) {
        let poller = waits.sleepers.swap_remove(index);
        wake(endpoint(host), &poller, LOOK);
    }
}

/// Has a seated thread look.
fn wake_one<H: Host>(host: &mut H) {
    let sleeper = host.waits().sleepers.remove(0);
    wake(endpoint(host), &sleeper, LOOK);
}

fn wake<T>(endpoint: &Endpoint, sleeper: &Sleeper<T>, word: u32) {
    // SAFETY: the seat is a variable of `rest`, which returns only after it has taken the lock that our
    // caller holds.
    let seat = unsafe { sleeper.seat.as_ref() };
    seat.store(word, Ordering::Release);
    if sleeper.is_poller {
        doorbell::cancel_sleep(endpoint);
        doorbell::wake(endpoint);
    } else {
        futex::wake_all(seat);
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Process {
        endpoint: Endpoint,
        waits: Waits<()>,
    }

    // SAFETY: there is one thread; the endpoint lives as long as the value.
    unsafe impl Host for Process {
        type Test = ();
        fn waits(&mut self) -> &mut Waits<()> {
            &mut self.waits
        }
        fn endpoint(&self) -> NonNull<Endpoint> {
            NonNull::from(&self.endpoint)
        }
        fn progress(&mut self) -> bool {
            false
        }
        fn is_over(&mut self, (): ()) -> bool {
            false
        }
        fn before_sleep(&mut self, _: Option<()>) {}
        fn release(&mut self) {}
        fn acquire(&mut self) {}
    }

    #[test]
    fn waits_thread_with_something_to_do_looks_when_it_is_time_though_another_is_awake() {
        let mut process = Process::default();
        for _ in 0..2 {
            begin(&mut process);
        }
        for awake in [2, 1] {
            assert_eq!(process.waits.awake(), awake);
            let rested = rest(&mut process, (), Limit::Always(Duration::from_millis(1)));
            assert_eq!((rested, process.waits.awake()), (RestEnd::Look, awake));
            end(&mut process);
        }
        assert_eq!(process.waits.waiting(), 0);
    }
}
