//! How a call waits: it makes progress until it finds what it waits for.
//!
//! Between two polls a thread gives the process lock back. When another thread waits too, one of them goes on polling and the others
//! sleep (`tutti_shm::waits`); each leaves with its sleep the function by which the one that polls sees that the wait is over. The last that is
//! awake spends its time as `tutti_runtime::wait` says, and sleeps until a peer rings.

use std::ptr::NonNull;
use std::time::Duration;

use tutti_runtime::wait::{self, Backoff, Waiter};
use tutti_shm::endpoint::Endpoint;
use tutti_shm::waits::{self, Host, RestEnd, Waits};

use crate::check;
use crate::process::{Guard, LOCK, Process};
use crate::service;
use crate::wait_goal::Goal;

/// Says whether a wait is over, to the thread that polls meanwhile, and what for it is. It is not called again when it has said so.
#[derive(Clone, Copy, Debug)]
pub struct Test {
    is_over: *mut Function<'static>,
    goal: Goal<'static>,
}

type Function<'a> = dyn FnMut(&mut Process) -> bool + 'a;

impl Guard {
    /// Makes progress until `ready` gives something. `hint` is the world rank waited for; `goal` says what for, to an onlooker.
    #[inline]
    pub fn wait<T>(
        &mut self,
        hint: Option<usize>,
        goal: Goal<'_>,
        mut ready: impl FnMut(&mut Process) -> Option<T>,
    ) -> T {
        if let Some(value) = ready(self) {
            return value;
        }
        let mut value = None;
        self.wait_until(hint, goal, |process| {
            value = ready(process);
            value.is_some()
        });
        value.expect("a wait is over when there is something")
    }

    /// Makes progress until a flag in shared memory that others set is `ready`. Whoever sets it rings this rank.
    #[cold]
    pub fn watch(&mut self, goal: Goal<'_>, ready: impl Fn() -> bool) {
        if !ready() {
            self.wait_until(None, goal, |_| ready());
        }
    }

    #[inline]
    fn wait_until(
        &mut self,
        hint: Option<usize>,
        goal: Goal<'_>,
        mut is_over: impl FnMut(&mut Process) -> bool,
    ) {
        self.begin_wait();
        let mut waiter = Waiter::default();
        loop {
            if self.progress(hint) {
                waiter.reset();
            }
            if is_over(self) {
                return self.end_wait();
            }
            let backoff = waiter.idle(&self.core_sharing);
            if (backoff != Backoff::Poll || LOCK.is_needed())
                && self.idle(backoff, &mut waiter, goal, &mut is_over) == RestEnd::Over
            {
                self.is_waiting = false;
                return;
            }
        }
    }

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

    /// Makes progress with messages and with collective operations. Returns whether anything moved.
    #[inline(always)]
    pub fn progress(&mut self, hint: Option<usize>) -> bool {
        let moved = self.engine.progress(hint);
        if !self.schedules.is_empty() {
            self.advance_schedules();
        }
        moved
    }

    /// Nothing to do for now: lets other threads, other ranks, or the core rest.
    fn idle(
        &mut self,
        backoff: Backoff,
        waiter: &mut Waiter,
        goal: Goal<'_>,
        is_over: &mut Function<'_>,
    ) -> RestEnd {
        if self.waits.has_sleepers() {
            waits::wake_completed(self);
        }
        let is_alone = self.waits.awake() == 1;
        match backoff {
            _ if check::is_on() => return check::deadlock::idle(self, backoff, waiter, goal, is_over),
            Backoff::Poll => self.in_between(core::hint::spin_loop),
            Backoff::Yield if is_alone => self.offer_core(),
            Backoff::Yield | Backoff::Sleep => return self.rest(waiter, None, goal, is_over),
        }
        RestEnd::Look
    }

    /// Lets other ranks have the core, and other threads the lock.
    pub fn offer_core(&mut self) {
        self.core_sharing.before_yield();
        self.in_between(wait::yield_core);
        self.core_sharing.after_yield();
    }

    /// Does something without the lock, between two polls: nobody needs to be told of anything.
    pub fn in_between(&mut self, action: impl FnOnce()) {
        LOCK.release();
        action();
        LOCK.acquire();
    }

    /// Sleeps, for so long at most if nobody else is awake.
    #[cold]
    pub fn rest(
        &mut self,
        waiter: &mut Waiter,
        at_most: Option<Duration>,
        goal: Goal<'_>,
        is_over: &mut Function<'_>,
    ) -> RestEnd {
        let is_over: *mut Function<'_> = is_over;
        // SAFETY: only the lifetimes change; nobody has the test any more when `waits::rest` returns.
        let test = unsafe {
            Test {
                is_over: std::mem::transmute::<*mut Function<'_>, *mut Function<'static>>(is_over),
                goal: std::mem::transmute::<Goal<'_>, Goal<'static>>(goal),
            }
        };
        let rested = waits::rest(self, test, at_most);
        self.take_back_asleep();
        waiter.reset();
        rested
    }

    /// Gives the lock to other threads, and tells those that sleep what has become of their waits.
    #[inline(always)]
    fn give_back(&mut self) {
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
        if !self.schedules.is_empty() {
            // They may go on, and only a thread that waits goes on with them.
            waits::wake_poller(self);
        }
    }

    /// Leaves the library: as dropping the guard, in place.
    #[inline(always)]
    pub fn leave(mut self) {
        self.give_back();
        std::mem::forget(self);
    }

    /// Leaves the library after a look that has changed nothing: whoever sleeps goes on sleeping.
    pub fn leave_quietly(self) {
        LOCK.release();
        std::mem::forget(self);
    }

    /// Runs `action`, which may take long, without the lock. If this thread waits, another one that waits looks meanwhile.
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

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Process {
    /// What the threads that sleep wait for.
    pub fn goals_of_sleepers(&self) -> impl Iterator<Item = Goal<'_>> {
        self.waits.tests().map(|test| test.goal)
    }
}

// SAFETY: the endpoint lies in the segment, which stays mapped until the process ends; the waits are part of the process's state,
// which only the holder of the lock reaches. A test works on that state and on what belongs to a call that sleeps. Where the lock is
// not needed there is one thread (thread levels below MPI_THREAD_MULTIPLE), so no test is called by another.
unsafe impl Host for Guard {
    type Test = Test;

    #[inline(always)]
    fn waits(&mut self) -> &mut Waits<Test> {
        &mut self.waits
    }

    #[inline(always)]
    fn endpoint(&self) -> NonNull<Endpoint> {
        let job = &self.engine.job;
        NonNull::from(job.endpoint(job.rank()))
    }

    fn progress(&mut self) -> bool {
        Guard::progress(self, None)
    }

    fn is_over(&mut self, test: Test) -> bool {
        // SAFETY: the function is a variable of a call that rests (our contract as a host), and nobody else runs it: we have the lock.
        unsafe { (*test.is_over)(self) }
    }

    fn before_sleep(&mut self, test: Option<Test>) {
        self.engine.publish_all();
        service::poke();
        self.report_sleep(test.map(|test| test.goal));
    }

    fn release(&mut self) {
        LOCK.release();
    }

    fn acquire(&mut self) {
        LOCK.acquire();
    }
}
