//! Waits inside the library: poll, share the core, sleep; alone or beside other threads of this process.
//!
//! A waiting thread gives the lock back between polls, so every thread can enter. Of several that wait one
//! polls and the others sleep (`tutti_shm::waits`); each leaves with its sleep the function by which the one
//! that polls sees that the wait is over. The last that is awake spends its time as [`crate::wait`] says, and
//! sleeps until a peer rings. Whoever polls does so for all interfaces.

use std::ptr::NonNull;
use std::time::Duration;

use tutti_shm::endpoint::Endpoint;
pub use tutti_shm::waits::RestEnd;
use tutti_shm::waits::{self, Host, Waits};

use crate::rank::{LOCK, LockedRank};
use crate::service_state;
use crate::sleep::{Describe, Function, SleepReport, Test};
use crate::wait::{self, Backoff, Waiter};

/// Action of an interface for a thread that has found nothing, before the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// No action; the usual follows.
    Usual,
    /// Time passed by the interface itself: the thread looks again.
    Look,
    /// The thread sleeps for so long at most.
    Rest(Duration),
}

/// A thread's view of an interface, which it has locked, when it waits.
///
/// # Safety
/// The state stays where it is until the process ends, and only who holds the process lock reaches it.
pub unsafe trait Waiting {
    /// State that tests look at.
    type State;
    /// Goal of a thread that waits.
    type Goal<'a>: Copy;
    /// The lock that the thread holds.
    fn rank(&mut self) -> &mut LockedRank;
    /// The interface's state.
    fn state(&mut self) -> NonNull<Self::State>;
    /// Makes progress. `hint` is the world rank waited for. Returns whether anything moved.
    fn progress(&mut self, hint: Option<usize>) -> bool;
    /// Describes a wait to an onlooker.
    fn describe(state: &Self::State, goal: Self::Goal<'_>, report: &mut SleepReport);
    /// The thread has nothing to do for now.
    fn idle(&mut self, goal: Self::Goal<'_>, backoff: Backoff) -> Idle {
        let _ = (goal, backoff);
        Idle::Usual
    }
}

/// Makes progress until `ready` gives something. `hint` is the world rank waited for; `goal` says what for,
/// to an onlooker.
#[inline]
pub fn wait<W: Waiting, T>(
    host: &mut W,
    hint: Option<usize>,
    goal: W::Goal<'_>,
    mut ready: impl FnMut(&mut W::State) -> Option<T>,
) -> T {
    // SAFETY: the state, which we have locked (contract of `Waiting`).
    if let Some(value) = ready(unsafe { host.state().as_mut() }) {
        return value;
    }
    let mut value = None;
    wait_until(host, hint, goal, |state| {
        value = ready(state);
        value.is_some()
    });
    value.expect("a wait is over when there is something")
}

/// Makes progress until the wait `is_over`.
#[inline(never)]
pub fn wait_until<W: Waiting>(
    host: &mut W,
    hint: Option<usize>,
    goal: W::Goal<'_>,
    mut is_over: impl FnMut(&mut W::State) -> bool,
) {
    host.rank().begin_wait();
    let mut waiter = Waiter::default();
    loop {
        if host.progress(hint) {
            waiter.reset();
        }
        // SAFETY: the state, which we have locked (contract of `Waiting`).
        if is_over(unsafe { host.state().as_mut() }) {
            return host.rank().end_wait();
        }
        let backoff = waiter.idle(&host.rank().core_sharing);
        if (backoff != Backoff::Poll || LOCK.is_needed())
            && idle(host, backoff, &mut waiter, goal, &mut is_over) == RestEnd::Over
        {
            host.rank().is_waiting = false;
            return;
        }
    }
}

/// Lets other threads, other ranks, or the core rest, since there is nothing to do for now.
fn idle<W: Waiting>(
    host: &mut W,
    backoff: Backoff,
    waiter: &mut Waiter,
    goal: W::Goal<'_>,
    is_over: &mut dyn FnMut(&mut W::State) -> bool,
) -> RestEnd {
    let rank = host.rank();
    if rank.is_shared() && rank.progress_all() {
        waiter.reset();
    }
    if rank.waits.has_sleepers() {
        waits::wake_completed(rank);
    }
    let is_alone = rank.waits.awake() == 1;
    match host.idle(goal, backoff) {
        Idle::Usual => {}
        Idle::Look => return RestEnd::Look,
        Idle::Rest(at_most) => return rest(host, waiter, Some(at_most), goal, is_over),
    }
    match backoff {
        Backoff::Poll => host.rank().in_between(core::hint::spin_loop),
        Backoff::Yield if is_alone => host.rank().offer_core(),
        Backoff::Yield | Backoff::Sleep => return rest(host, waiter, None, goal, is_over),
    }
    RestEnd::Look
}

/// Sleeps, for so long at most if nobody else is awake.
#[cold]
fn rest<W: Waiting>(
    host: &mut W,
    waiter: &mut Waiter,
    at_most: Option<Duration>,
    goal: W::Goal<'_>,
    is_over: &mut dyn FnMut(&mut W::State) -> bool,
) -> RestEnd {
    let (mut state, described) = (host.state(), host.state());
    // SAFETY: contract of `Waiting`: the state stays, and whoever calls these functions has the lock.
    let mut is_over = || is_over(unsafe { state.as_mut() });
    // SAFETY: as above.
    let describe = |report: &mut SleepReport| W::describe(unsafe { described.as_ref() }, goal, report);
    let rested = host.rank().rest(&mut is_over, &describe, at_most);
    waiter.reset();
    rested
}

impl LockedRank {
    #[inline(always)]
    fn begin_wait(&mut self) {
        self.is_waiting = true;
        waits::begin(self);
    }

    #[inline(always)]
    fn end_wait(&mut self) {
        self.is_waiting = false;
        waits::end(self);
    }

    /// Makes progress in all interfaces. Returns whether anything moved.
    #[cold]
    pub(crate) fn progress_all(&mut self) -> bool {
        let mut moved = false;
        for interface in self.interfaces() {
            moved |= interface.progress(self);
        }
        moved
    }

    /// Lets other ranks have the core, and other threads the lock.
    pub fn offer_core(&mut self) {
        self.core_sharing.before_yield();
        self.in_between(wait::yield_core);
        self.core_sharing.after_yield();
    }

    /// Gives the core away as [`wait::CoreSharing::looked`] says, between two calls that do not wait.
    #[inline(always)]
    pub fn back_off(&mut self, backoff: Backoff) {
        if backoff != Backoff::Poll {
            self.give_core(backoff);
        }
    }

    #[cold]
    fn give_core(&mut self, backoff: Backoff) {
        match backoff {
            Backoff::Sleep => self.in_between(|| std::thread::sleep(wait::NAP)),
            Backoff::Yield | Backoff::Poll => self.offer_core(),
        }
    }

    /// Does something without the lock, between two polls: nobody needs to be told of anything.
    pub fn in_between(&mut self, action: impl FnOnce()) {
        LOCK.release();
        action();
        LOCK.acquire();
    }

    fn rest(
        &mut self,
        is_over: &mut Function<'_>,
        describe: &Describe<'_>,
        at_most: Option<Duration>,
    ) -> RestEnd {
        let (is_over, describe): (*mut Function<'_>, *const Describe<'_>) = (is_over, describe);
        // SAFETY: only the lifetimes change; nobody has the test any more when `waits::rest` returns.
        let test = unsafe {
            Test {
                is_over: std::mem::transmute::<*mut Function<'_>, *mut Function<'static>>(is_over),
                describe: std::mem::transmute::<*const Describe<'_>, *const Describe<'static>>(describe),
            }
        };
        let rested = waits::rest(self, test, at_most);
        self.take_back_asleep();
        rested
    }

    /// Gives the lock to other threads, and tells those that sleep what has become of their waits.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        if LOCK.is_needed() {
            if self.waits.has_sleepers() {
                self.wake_sleepers();
            }
            LOCK.release();
        }
    }

    #[cold]
    fn wake_sleepers(&mut self) {
        waits::wake_completed(self);
        if self.interfaces().any(|interface| interface.has_background()) {
            // It may go on, and only a thread that waits goes on with it.
            waits::wake_poller(self);
        }
    }

    /// Gives the lock back after a look that has changed nothing: whoever sleeps goes on sleeping.
    pub fn leave_quietly(self) {
        LOCK.release();
        std::mem::forget(self);
    }

    /// Runs `action`, which may take long, without the lock. If this thread waits, another one that waits
    /// looks meanwhile.
    pub fn unlocked<T>(&mut self, action: impl FnOnce() -> T) -> T {
        let is_waiting = self.is_waiting;
        if is_waiting {
            self.end_wait();
        }
        self.give_back();
        let value = action();
        LOCK.acquire();
        if is_waiting {
            self.begin_wait();
        }
        value
    }
}

// SAFETY: the endpoint lies in the segment, which stays mapped until the process ends; the waits are part of
// the rank's state, which only the holder of the lock reaches. A test works on the state of its interface and
// on what belongs to a call that sleeps. Where the lock is not needed there is one thread, so no test is
// called by another.
unsafe impl Host for LockedRank {
    type Test = Test;

    #[inline(always)]
    fn waits(&mut self) -> &mut Waits<Test> {
        &mut self.waits
    }

    #[inline(always)]
    fn endpoint(&self) -> NonNull<Endpoint> {
        self.endpoint
    }

    fn progress(&mut self) -> bool {
        self.progress_all()
    }

    fn is_over(&mut self, test: Test) -> bool {
        // SAFETY: the function is a variable of a call that rests (our contract as a host), and nobody else
        // runs it: we have the lock.
        unsafe { (*test.is_over)() }
    }

    fn before_sleep(&mut self, test: Option<Test>) {
        for interface in self.interfaces() {
            interface.publish();
        }
        service_state::poke();
        match test {
            // SAFETY: the function is a variable of our caller, which is about to rest.
            Some(test) => self.report_sleep(Some(unsafe { &*test.describe })),
            None => self.report_sleep(None),
        }
    }

    fn release(&mut self) {
        LOCK.release();
    }

    fn acquire(&mut self) {
        LOCK.acquire();
    }
}
