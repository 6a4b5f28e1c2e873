//! MPI as an interface of the process: what its calls do while they wait ([`tutti_runtime::waiting`]), and
//! what it does while others wait.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::Duration;

use tutti_runtime::rank::{Interface, LockedRank};
use tutti_runtime::router::Client;
use tutti_runtime::sleep::SleepReport;
use tutti_runtime::wait::{Backoff, CoreSharing};
use tutti_runtime::waiting::{self, Idle, Waiting};

use crate::check;
use crate::check_mode;
use crate::events;
use crate::process::{self, Guard, Process};
use crate::wait_goal::{self, Goal};

/// What is no rank rings no bell: a thread that waits for it looks again after so long.
const OUTSIDE_NAP: Duration = Duration::from_millis(1);

impl Guard {
    /// Makes progress until `ready` gives something. `hint` is the world rank waited for; `goal` says what
    /// for, to an onlooker.
    #[inline]
    pub fn wait<T>(
        &mut self,
        hint: Option<usize>,
        goal: Goal<'_>,
        ready: impl FnMut(&mut Process) -> Option<T>,
    ) -> T {
        waiting::wait(self, hint, goal, ready)
    }

    /// Makes progress until a flag in shared memory that others set is `ready`. Whoever sets it rings this
    /// rank.
    #[cold]
    pub fn watch(&mut self, goal: Goal<'_>, ready: impl Fn() -> bool) {
        if !ready() {
            waiting::wait_until(self, None, goal, |_| ready());
        }
    }

    /// Makes progress with messages and with collective operations. Returns whether anything moved.
    #[inline(always)]
    pub fn progress(&mut self, hint: Option<usize>) -> bool {
        let moved = self.engine.progress(hint);
        if self.engine.requests.has_awaited() {
            self.advance_schedules();
        }
        moved
    }

    /// Makes progress for a call that does not wait. A program that calls it again and again in vain lets the
    /// other ranks of its core do what it looks for.
    #[inline(always)]
    pub fn look(&mut self) {
        let moved = self.progress(None);
        if self.rank.core_sharing.looked(moved) {
            self.offer_core();
        }
    }

    #[cold]
    fn offer_core(&mut self) {
        self.rank.offer_core();
    }

    /// Ranks that have been started since are peers from now on, and need cores too.
    pub fn meet_new_ranks(&mut self) {
        if self.engine.meet_new_ranks() {
            self.rank.core_sharing = CoreSharing::new(self.engine.job.is_oversubscribed());
        }
        let ended = self.engine.job.ended();
        if ended != std::mem::replace(&mut self.engine.seen_ended, ended) {
            self.forget_left_ranks();
        }
    }

    /// Leaves the library: as dropping the guard, in place.
    #[inline(always)]
    pub fn leave(self) {
        drop(self);
    }

    /// Runs `action`, which may take long, without the lock. If this thread waits, another one that waits
    /// looks meanwhile.
    pub fn unlocked<T>(&mut self, action: impl FnOnce() -> T) -> T {
        self.rank.unlocked(action)
    }
}

// SAFETY: the process's state is static, and reached under the process lock.
unsafe impl Waiting for Guard {
    type State = Process;
    type Goal<'a> = Goal<'a>;

    #[inline(always)]
    fn rank(&mut self) -> &mut LockedRank {
        &mut self.rank
    }

    #[inline(always)]
    fn state(&mut self) -> NonNull<Process> {
        NonNull::from(&mut **self)
    }

    #[inline(always)]
    fn progress(&mut self, hint: Option<usize>) -> bool {
        Guard::progress(self, hint)
    }

    fn describe(process: &Process, goal: Goal<'_>, report: &mut SleepReport) {
        wait_goal::describe(process, goal, report);
    }

    fn idle(&mut self, goal: Goal<'_>, backoff: Backoff) -> Idle {
        if backoff != Backoff::Poll {
            // One of them may be what is waited for.
            self.meet_new_ranks();
            events::note_turns(|| {
                let counted = self.engine.counted();
                (counted.thaws, counted.frozen_us)
            });
        }
        if backoff == Backoff::Sleep && self.engine.may_have_guests() && self.engine.end_vain_sends() {
            return Idle::Rest(OUTSIDE_NAP);
        }
        if backoff == Backoff::Sleep && (matches!(goal, Goal::Outside(_)) || self.engine.wants_look()) {
            return Idle::Rest(OUTSIDE_NAP);
        }
        if check_mode::is_on() { check::deadlock::idle(self, backoff) } else { Idle::Usual }
    }
}

/// MPI, beside the other interfaces of the process.
#[derive(Debug)]
pub(crate) struct Mpi;

impl Interface for Mpi {
    fn progress(&self, rank: &mut LockedRank) -> bool {
        // SAFETY: the rank is locked, and used again only when this call has ended.
        let rank = unsafe { rank.lend() };
        let guard = Guard::borrow(ManuallyDrop::into_inner(rank));
        ManuallyDrop::new(guard).progress(None)
    }

    fn publish(&self) {
        process::with_state(|process| process.engine.publish_all());
    }

    fn describe_background(&self, report: &mut SleepReport) {
        process::with_state(|process| wait_goal::describe_background(process, report));
    }

    fn has_background(&self) -> bool {
        process::with_state(|process| !process.colls.schedules.is_empty())
    }
}

/// Lends MPI's records and bulk messages to whoever polls the network.
pub(crate) fn lend_client(use_client: &mut dyn FnMut(&mut dyn Client)) {
    process::with_state(|process| process.engine.lend_client(use_client));
}
