//! Waits inside the library: poll, share the core, sleep; alone or beside other threads of this process.
//!
//! A waiting thread gives the lock back between polls, so every thread can enter. Of several that wait one
//! polls and the others sleep (`tutti_shm::waits`); each leaves with its sleep the function by which the one
//! that polls sees that the wait is over. The last that is awake spends its time as [`crate::wait`] says, and
//! sleeps until a peer rings. Whoever polls does so for all interfaces.

use std::ptr::NonNull;
use std::time::Duration;

pub use tutti_shm::waits::RestEnd;
use tutti_shm::waits::{self, Limit};

use crate::rank::{LOCK, LockedRank};
use crate::sleep::SleepReport;
use crate::wait::{Backoff, Waiter};

/// Action of an interface for a thread that has found nothing, before the usual.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// No action; the usual follows.
    Usual,
    /// Time passed by the interface itself: the thread looks again.
    Look,
    /// The thread sleeps, for so long at most if nobody else is awake.
    Rest(Duration),
    /// The usual follows; where that is a sleep it takes so long at most, whoever is awake.
    Until(Duration),
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
    let limit = match host.idle(goal, backoff) {
        Idle::Usual => Limit::None,
        Idle::Look => return RestEnd::Look,
        Idle::Rest(time) => return rest(host, waiter, Limit::Sentry(time), goal, is_over),
        Idle::Until(time) => Limit::Always(time),
    };
    match backoff {
        Backoff::Poll => host.rank().in_between(core::hint::spin_loop),
        Backoff::Yield if is_alone => host.rank().offer_core(),
        Backoff::Yield | Backoff::Sleep => return rest(host, waiter, limit, goal, is_over),
    }
    RestEnd::Look
}

/// Sleeps.
#[cold]
fn rest<W: Waiting>(
    host: &mut W,
    waiter: &mut Waiter,
    limit: Limit,
    goal: W::Goal<'_>,
    is_over: &mut dyn FnMut(&mut W::State) -> bool,
) -> RestEnd {
    let (mut state, described) = (host.state(), host.state());
    // SAFETY: contract of `Waiting`: the state stays, and whoever calls these functions has the lock.
    let mut is_over = || is_over(unsafe { state.as_mut() });
    // SAFETY: as above.
    let describe = |report: &mut SleepReport| W::describe(unsafe { described.as_ref() }, goal, report);
    let rested = host.rank().rest(&mut is_over, &describe, limit);
    waiter.reset();
    rested
}
