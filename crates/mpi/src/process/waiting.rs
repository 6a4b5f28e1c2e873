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

use super::{Guard, Process, with_state};
use crate::check;
use crate::check_mode;
use crate::collective::schedule::Schedule;
use crate::engine::Engine;
use crate::error::Result;
use crate::events;
use crate::progress::Progress;
use crate::request::Outcome;
use crate::wait_goal::{self, Goal};

/// Time after which a thread that waits for something other than a rank looks again: that rings no bell.
const OUTSIDE_NAP: Duration = Duration::from_millis(1);

impl Progress for Guard {
    #[inline(always)]
    fn engine(&self) -> &Engine {
        &self.engine
    }

    #[inline(always)]
    fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    #[inline(always)]
    fn rank(&mut self) -> &mut LockedRank {
        &mut self.rank
    }

    #[inline]
    fn wait<T>(
        &mut self,
        hint: Option<usize>,
        goal: Goal<'_>,
        mut ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T {
        waiting::wait(self, hint, goal, |process: &mut Process| ready(&mut process.engine))
    }

    #[cold]
    fn watch(&mut self, goal: Goal<'_>, ready: impl Fn() -> bool) {
        if !ready() {
            waiting::wait_until(self, None, goal, |_| ready());
        }
    }

    #[inline(always)]
    fn progress(&mut self, hint: Option<usize>) -> bool {
        let moved = self.engine.progress(hint);
        if self.engine.requests.has_awaited() {
            crate::collective::run::advance_schedules(self);
        }
        moved
    }

    #[inline(always)]
    fn look(&mut self) {
        let moved = Progress::progress(self, None);
        let backoff = self.rank.core_sharing.looked(moved);
        self.rank.back_off(backoff);
    }

    fn meet_new_ranks(&mut self) {
        if self.engine.meet_new_ranks() {
            self.rank.core_sharing = CoreSharing::new(self.engine.job.is_oversubscribed());
        }
        let ended = self.engine.job.ended();
        if ended != std::mem::replace(&mut self.engine.seen_ended, ended) {
            crate::comm::calls::forget_left_ranks(self);
        }
    }

    #[inline(always)]
    fn finish_request(&mut self, index: u32) -> Outcome {
        let request = self.engine.requests.get(index);
        let hint = usize::try_from(request.peer).ok();
        self.await_done(index, hint, Goal::Request(index));
        crate::compound::take_request(self, index)
    }

    fn run(&mut self, schedule: &mut Schedule) -> Result<()> {
        crate::collective::run::run_schedule(self, schedule)
    }

    fn launch(&mut self, schedule: Schedule) -> u32 {
        crate::collective::run::launch_schedule(self, schedule)
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
        Progress::progress(self, hint)
    }

    fn describe(process: &Process, goal: Goal<'_>, report: &mut SleepReport) {
        wait_goal::describe(process, goal, report);
    }

    fn idle(&mut self, goal: Goal<'_>, backoff: Backoff) -> Idle {
        if backoff != Backoff::Poll {
            // One of them may be what is waited for.
            self.meet_new_ranks();
            // What has named a rank that is gone may have ended since: others may need its place.
            if backoff == Backoff::Sleep && self.engine.keeps_left_ranks {
                crate::comm::calls::forget_left_ranks(self);
            }
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
        if check_mode::is_on() { check::deadlock::idle(self.inspect(), backoff) } else { Idle::Usual }
    }
}

/// MPI, beside the other interfaces of the process.
#[derive(Debug)]
pub(crate) struct Mpi;

impl Interface for Mpi {
    fn progress(&self, rank: &mut LockedRank) -> bool {
        // SAFETY: the rank is locked, and used again only when this call has ended.
        let rank = unsafe { rank.lend() };
        let guard = Guard { process: with_state(std::ptr::from_mut), rank: ManuallyDrop::into_inner(rank) };
        let mut guard = ManuallyDrop::new(guard);
        let moved = Progress::progress(&mut *guard, None);
        // A later rank that begins or ends rings no bell before a sleep is announced, and this is the look
        // behind that.
        let has_news = guard.engine.has_news_of_ranks();
        if has_news {
            guard.meet_new_ranks();
        }
        moved || has_news
    }

    fn publish(&self) {
        with_state(|process| process.engine.publish_all());
    }

    fn describe_background(&self, report: &mut SleepReport) {
        with_state(|process| wait_goal::describe_background(process, report));
    }

    fn has_background(&self) -> bool {
        with_state(|process| !process.colls.schedules.is_empty() || process.engine.requests.has_awaited())
    }
}

/// Lends MPI's records and bulk messages to whoever polls the network.
pub(crate) fn lend_client(use_client: &mut dyn FnMut(&mut dyn Client)) {
    with_state(|process| process.engine.lend_client(use_client));
}
