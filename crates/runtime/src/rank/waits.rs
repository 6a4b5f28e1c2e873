//! Waits of the threads that are inside the library: how one lets go of the lock, sleeps, and wakes others.
//! When it does, [`crate::waiting`] decides.

use std::ptr::NonNull;

use tutti_shm::endpoint::Endpoint;
use tutti_shm::waits::{self, Host, Limit, RestEnd, Waits};

use super::{LOCK, LockedRank};
use crate::service_state;
use crate::sleep::{Describe, Function, Test};
use crate::wait::{self, Backoff};

impl LockedRank {
    #[inline(always)]
    pub(crate) fn begin_wait(&mut self) {
        self.is_waiting = true;
        waits::begin(self);
    }

    #[inline(always)]
    pub(crate) fn end_wait(&mut self) {
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

    /// Sleeps until the wait is over or there may be news, or the limit is reached.
    pub(crate) fn rest(
        &mut self,
        is_over: &mut Function<'_>,
        describe: &Describe<'_>,
        limit: Limit,
    ) -> RestEnd {
        let (is_over, describe): (*mut Function<'_>, *const Describe<'_>) = (is_over, describe);
        // SAFETY: only the lifetimes change; nobody has the test any more when `waits::rest` returns.
        let test = unsafe {
            Test {
                is_over: std::mem::transmute::<*mut Function<'_>, *mut Function<'static>>(is_over),
                describe: std::mem::transmute::<*const Describe<'_>, *const Describe<'static>>(describe),
            }
        };
        let rested = waits::rest(self, test, limit);
        self.take_back_asleep();
        rested
    }

    /// Gives the lock to other threads, and tells those that sleep what has become of their waits.
    #[inline(always)]
    pub(crate) fn give_back(&mut self) {
        if LOCK.is_noted() {
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
// on what belongs to a call that sleeps. Where the lock is not needed one thread calls at a time, so no test
// is called by another.
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
