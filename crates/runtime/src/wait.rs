//! How a rank waits (DESIGN 6): spin while that can help, then yield, then sleep.
//!
//! | ranks | spin | yield | sleep |
//! |---|---|---|---|
//! | at most the cores | about 50 us: a wake-up across cores costs 17 us in a VM | until about 1 ms | then |
//! | more than the cores | not at all: 200 polls first cost 60 % | about 100 times | then |

use std::time::{Duration, Instant};

use tutti_shm::doorbell;

use crate::job::Job;

const SPIN: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_millis(1);
const YIELDS_OVERSUBSCRIBED: u32 = 100;
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// The patience of one wait. Made when the wait begins, told of every fruitless poll.
#[derive(Debug)]
pub struct Waiter {
    polls: u32,
    began: Option<Instant>,
    oversubscribed: bool,
}

/// What to do after a fruitless poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Poll again at once.
    Poll,
    /// The processor was offered to others; poll again.
    Yielded,
    /// Sleep is due: publish what the peers wait for, then [`Waiter::sleep_unless`].
    Sleep,
}

impl Waiter {
    /// A wait begins.
    #[inline(always)]
    pub fn new(oversubscribed: bool) -> Self {
        Waiter { polls: 0, began: None, oversubscribed }
    }

    /// Something was found: patience begins anew.
    #[inline(always)]
    pub fn reset(&mut self) {
        self.polls = 0;
        self.began = None;
    }

    /// Nothing was found: spends a little time.
    #[inline(always)]
    pub fn idle(&mut self) -> Patience {
        self.polls += 1;
        if !self.oversubscribed && !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return Patience::Poll;
        }
        self.idle_slowly()
    }

    #[cold]
    fn idle_slowly(&mut self) -> Patience {
        if self.oversubscribed {
            if self.polls > YIELDS_OVERSUBSCRIBED {
                return Patience::Sleep;
            }
        } else {
            let waited = self.began.get_or_insert_with(Instant::now).elapsed();
            if waited < SPIN {
                // Rarely: a pause costs 40 cycles or more, and the answer may come meanwhile.
                core::hint::spin_loop();
                return Patience::Poll;
            }
            if waited > YIELD {
                return Patience::Sleep;
            }
        }
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
        Patience::Yielded
    }

    /// Sleeps until a peer rings, unless `nothing_there` finds something after the intention is published.
    #[cold]
    pub fn sleep_unless(&mut self, job: &Job, nothing_there: impl FnOnce() -> bool) {
        doorbell::sleep_unless(job.endpoint(job.rank()), nothing_there);
        self.reset();
    }
}
