//! Waiting for a word of this PE's memory that another PE changes.
//!
//! A put rings nobody, so a thread that has spun and yielded as [`tutti_runtime::wait`] says sleeps for a
//! millisecond at most, then looks again. It makes progress with messages meanwhile.

use std::ptr::NonNull;
use std::time::Duration;

use tutti_mpi::process::{self, Guard};
use tutti_runtime::rank::LockedRank;
use tutti_runtime::sleep::SleepReport;
use tutti_runtime::wait::{Backoff, Waiter};
use tutti_runtime::waiting::{self, Idle, Waiting};
use tutti_shm::report::Wait;

/// Looks at the word before the process lock is taken: a line comes from another core within 0.1 us.
const FIRST_LOOKS: u32 = 200;
/// Looks between two looks for messages.
const LOOKS_PER_POLL: u32 = 50;
/// How long a change may pass unnoticed.
const SLEEP: Duration = Duration::from_millis(1);

struct Flag {
    guard: Guard,
}

// SAFETY: there is no state.
unsafe impl Waiting for Flag {
    type State = ();
    type Goal<'a> = ();

    fn rank(&mut self) -> &mut LockedRank {
        &mut self.guard.rank
    }

    fn state(&mut self) -> NonNull<()> {
        NonNull::dangling()
    }

    fn progress(&mut self, hint: Option<usize>) -> bool {
        self.guard.progress(hint)
    }

    fn describe((): &(), (): (), report: &mut SleepReport) {
        report.put_alternative(|report| report.put(Wait::other(0, false)));
    }

    fn idle(&mut self, (): (), backoff: Backoff, _: &mut Waiter) -> Idle {
        if backoff == Backoff::Sleep { Idle::Rest(SLEEP) } else { Idle::Usual }
    }
}

/// Waits until the word `is_over`.
#[inline(always)]
pub fn until(mut is_over: impl FnMut() -> bool) {
    if !is_over() {
        until_slowly(&mut is_over);
    }
}

#[inline(never)]
fn until_slowly(is_over: &mut dyn FnMut() -> bool) {
    let Some(mut flag) = process::enter().map(|guard| Flag { guard }) else {
        // MPI has ended before OpenSHMEM: nothing is left to do but to look.
        while !is_over() {
            std::thread::sleep(SLEEP);
        }
        return;
    };
    let looks = if flag.guard.rank.core_sharing.shares_core() { 1 } else { LOOKS_PER_POLL };
    let mut is_over = || {
        (0..looks).any(|_| {
            let over = is_over();
            if !over {
                core::hint::spin_loop();
            }
            over
        })
    };
    if looks > 1 && (0..FIRST_LOOKS / LOOKS_PER_POLL).any(|_| is_over()) {
        return;
    }
    waiting::wait_until(&mut flag, None, (), |()| is_over());
}
