//! Parts of its process that an operation that may wait is given: the messages, the right to use the rank,
//! and waits that make progress. No owner needs to know the process for that, nor how progress is made.
//!
//! A wait gives the lock back between polls, so an operation has nothing of the process borrowed while it
//! waits: it takes its values out first, and its owner puts the result in afterwards.

use tutti_runtime::rank::LockedRank;

use crate::collective::schedule::Schedule;
use crate::engine::Engine;
use crate::error::Result;
use crate::request::Outcome;
use crate::wait_goal::Goal;

/// A call of the program, as far as an operation that may wait needs it.
pub trait Progress {
    /// Messages.
    fn engine(&self) -> &Engine;

    /// Messages, to be started and taken.
    fn engine_mut(&mut self) -> &mut Engine;

    /// State that all interfaces of the process share.
    fn rank(&mut self) -> &mut LockedRank;

    /// Makes progress until `ready` gives something. `hint` is the world rank waited for; `goal` says what
    /// for, to an onlooker.
    fn wait<T>(
        &mut self,
        hint: Option<usize>,
        goal: Goal<'_>,
        ready: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T;

    /// Makes progress until a flag in shared memory that others set is `ready`. Whoever sets it rings this
    /// rank.
    fn watch(&mut self, goal: Goal<'_>, ready: impl Fn() -> bool);

    /// Makes progress with messages and with collective operations. Returns whether anything moved.
    fn progress(&mut self, hint: Option<usize>) -> bool;

    /// Makes progress for a call that does not wait. A program that calls it again and again in vain lets the
    /// other ranks of its core do what it looks for.
    fn look(&mut self);

    /// Ranks that have been started since are peers from now on, and need cores too.
    fn meet_new_ranks(&mut self);

    /// Waits for a request and frees it.
    fn finish_request(&mut self, index: u32) -> Outcome;

    /// Runs a schedule to its end.
    ///
    /// # Errors
    /// MPI_ERR_TRUNCATE when a rank sent more than was expected.
    fn run(&mut self, schedule: &mut Schedule) -> Result<()>;

    /// Leaves a schedule with the process; returns the request that is done when the schedule is.
    fn launch(&mut self, schedule: Schedule) -> u32;

    /// Waits until a request of the user is done.
    #[inline(always)]
    fn await_done(&mut self, index: u32, hint: Option<usize>, goal: Goal<'_>) {
        self.wait(hint, goal, |engine| engine.is_done(index).then_some(()));
    }

    /// Runs `action`, which may take long, without the lock. If this thread waits, another one that waits
    /// looks meanwhile.
    fn unlocked<T>(&mut self, action: impl FnOnce() -> T) -> T {
        self.rank().unlocked(action)
    }

    /// Waits until `find` gives something about a message that no receive was posted for. It runs under the
    /// lock, maybe on another thread of this process: what it takes, no other wait takes.
    fn await_message<T>(
        &mut self,
        context: u32,
        source: i32,
        tag: i32,
        find: impl FnMut(&mut Engine) -> Option<T>,
    ) -> T {
        let hint = usize::try_from(source).ok();
        self.wait(hint, Goal::Message { context, source, tag }, find)
    }
}
