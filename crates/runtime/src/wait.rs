//! How a rank waits: spin while that can help, then yield, then sleep.
//!
//! | ranks | spin | yield | sleep |
//! |---|---|---|---|
//! | at most the cores | about 50 us: a wake-up across cores costs 17 us in a VM | until about 1 ms | then |
//! | more than the cores | not at all: 200 polls first cost 60 % | about 100 times | then |
//! | the same, but the others sleep | some microseconds before each yield | about 100 times | then |
//!
//! A call that does not wait (`MPI_Test`) gives the core away too, when it and those before it have found
//! nothing [`VAIN_LOOKS`] times: where there are more ranks than cores it yields. Elsewhere it naps, if the
//! kernel has taken the core from this rank meanwhile: somebody of another job or machine is bound to it, who
//! may be of another cgroup, and a yield would not reach it.
//!
//! Whether the others sleep, wherever they do, is told by the kernel: it counts when a process had to hand on
//! its core. A rank whose last [`QUIET_YIELDS`] yields changed nothing has its core to itself, until one
//! yield does; see [`CoreSharing`].

use std::time::{Duration, Instant};

/// How long a rank polls on a core of its own before it yields.
pub(crate) const SPIN: Duration = Duration::from_micros(50);
const YIELD: Duration = Duration::from_millis(1);
const YIELDS_OVERSUBSCRIBED: u32 = 100;
/// Yields without a switch of processes after which a rank takes its core for its own.
const QUIET_YIELDS: u32 = 16;
/// Polls between two yields on a core of one's own.
const POLLS_PER_YIELD: u32 = 400;
/// Looks in vain, of calls that do not wait, after which a rank thinks of others.
pub const VAIN_LOOKS: u32 = 128;
/// Naps after the kernel has taken the core from a rank that looks in vain: no more are needed to learn
/// whether it will do so again.
const NAPS: u32 = 32;
/// How long one is.
pub(crate) const NAP: Duration = Duration::from_micros(50);
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// Whether this rank shares its core, as far as its own yields tell. One per process.
#[derive(Debug)]
pub struct CoreSharing {
    oversubscribed: bool,
    shares_core: bool,
    /// Yields since the kernel's count was looked at.
    yields: u32,
    /// Calls that do not wait and have found nothing, one after the other.
    vain_looks: u32,
    /// Naps that are left.
    naps: u32,
    /// The count then, and the thread that it is of.
    switches: (usize, i64),
}

impl CoreSharing {
    /// Of a rank in a job that has more ranks than cores, or not.
    pub fn new(oversubscribed: bool) -> Self {
        CoreSharing {
            oversubscribed,
            shares_core: oversubscribed,
            yields: 0,
            vain_looks: 0,
            naps: 0,
            switches: (0, 0),
        }
    }

    /// Whether somebody else may be waiting for this core.
    #[inline(always)]
    pub fn shares_core(&self) -> bool {
        self.shares_core
    }

    /// A call that does not wait has looked for something. What is due before the next one: a program that
    /// tests again and again for what a process without a core shall do would keep that one from doing it.
    #[inline(always)]
    pub fn looked(&mut self, moved: bool) -> Backoff {
        self.vain_looks = if moved { 0 } else { self.vain_looks + 1 };
        if self.vain_looks < VAIN_LOOKS { Backoff::Poll } else { self.looked_in_vain() }
    }

    /// The same of [`VAIN_LOOKS`] that have found nothing.
    #[cold]
    pub fn looked_in_vain(&mut self) -> Backoff {
        self.vain_looks = 0;
        if self.oversubscribed {
            return Backoff::Yield;
        }
        let now = switches();
        let was_taken = now.0 == self.switches.0 && now.1 != self.switches.1;
        self.switches = now;
        self.naps = if was_taken { NAPS } else { self.naps.saturating_sub(1) };
        if self.naps > 0 { Backoff::Sleep } else { Backoff::Poll }
    }

    /// Is called before a yield ([`yield_core`]).
    pub fn before_yield(&mut self) {
        if self.oversubscribed && !self.shares_core {
            // What happened before says nothing, this yield will.
            self.switches = switches();
        }
    }

    /// Is called after it.
    pub fn after_yield(&mut self) {
        self.yields += 1;
        if self.oversubscribed && (!self.shares_core || self.yields >= QUIET_YIELDS) {
            let now = switches();
            self.shares_core = now != self.switches;
            (self.yields, self.switches) = (0, now);
        }
    }
}

/// Offers the core to others.
pub fn yield_core() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// How often the calling thread had to hand on its core although it could have gone on, with a number of the
/// thread.
fn switches() -> (usize, i64) {
    thread_local!(static THREAD: u8 = const { 0 });
    // SAFETY: zero is a value of this C structure.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: the structure is valid for writing.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
    (THREAD.with(|mark| std::ptr::from_ref(mark).addr()), usage.ru_nivcsw)
}

/// The patience of one wait. Made when the wait begins, told of every fruitless poll.
#[derive(Debug, Default)]
pub struct Waiter {
    polls: u32,
    yields: u32,
    began: Option<Instant>,
}

/// Action after a fruitless poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Poll again at once.
    Poll,
    /// The core is to be offered to others.
    Yield,
    /// Sleep is due.
    Sleep,
}

impl Waiter {
    /// Begins patience anew, since something was found.
    #[inline(always)]
    pub fn reset(&mut self) {
        *self = Waiter::default();
    }

    /// Spends a little time, since nothing was found.
    #[inline(always)]
    pub fn idle(&mut self, company: &CoreSharing) -> Backoff {
        self.polls += 1;
        if !company.shares_core && !self.polls.is_multiple_of(POLLS_PER_LOOK) {
            return Backoff::Poll;
        }
        self.idle_slowly(company)
    }

    #[cold]
    fn idle_slowly(&mut self, company: &CoreSharing) -> Backoff {
        if company.oversubscribed {
            if !company.shares_core && self.polls < POLLS_PER_YIELD {
                return Backoff::Poll;
            }
            self.polls = 0;
            self.yields += 1;
            if self.yields > YIELDS_OVERSUBSCRIBED {
                return Backoff::Sleep;
            }
        } else {
            let waited = self.began.get_or_insert_with(Instant::now).elapsed();
            if waited < SPIN {
                // Rarely: a pause costs 40 cycles or more, and the answer may come meanwhile.
                core::hint::spin_loop();
                return Backoff::Poll;
            }
            if waited > YIELD {
                return Backoff::Sleep;
            }
        }
        Backoff::Yield
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks in vain until something is due, of so many groups of looks at most.
    fn due(company: &mut CoreSharing, groups: u32) -> Backoff {
        let looks = groups * VAIN_LOOKS;
        (0..looks).map(|_| company.looked(false)).find(|due| *due != Backoff::Poll).unwrap_or(Backoff::Poll)
    }

    #[test]
    fn look_in_vain_yields_with_more_ranks_than_cores() {
        let mut company = CoreSharing::new(true);
        assert_eq!(due(&mut company, 1), Backoff::Yield);
        for _ in 0..10 * VAIN_LOOKS {
            assert_eq!(company.looked(true), Backoff::Poll, "what finds something goes on");
        }
    }

    #[test]
    fn look_in_vain_naps_once_the_kernel_has_taken_the_core() {
        let mut company = CoreSharing::new(false);
        assert_eq!(company.looked_in_vain(), Backoff::Poll, "the first one only notes the count");
        company.switches.1 -= 1;
        for _ in 0..NAPS {
            assert_eq!(company.looked_in_vain(), Backoff::Sleep);
        }
        // Another program may take the core meanwhile, then there are as many again.
        let ends = (0..1_000_000).any(|_| company.looked_in_vain() == Backoff::Poll);
        assert!(ends, "a rank that has its core for itself polls again");
    }
}
