//! Waiting for a word of this rank's memory that others change by stores: OpenSHMEM, native regions.
//!
//! A thread looks, then spins and yields as [`crate::wait`] says, then sleeps until the storer rings
//! ([`tutti_shm::watch`]). While it sleeps it uses no time, so a gang whose ranks all wait is idle. It serves
//! the messages of its process meanwhile.
//!
//! | who may store | how long a sleep lasts at most |
//! |---|---|
//! | calls of this library in processes that have registered | until the store rings; 10 s and then longer, for mates that begin to store by themselves |
//! | besides, threads of the program, mates by their own instructions, operations of windows | 1 ms at first, twice as long each time, up to 16 ms |
//! | processes that the kernel refuses membarrier | 1 ms |

use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tutti_shm::board::JOB_FROZEN;
use tutti_shm::report::Wait;
use tutti_shm::sync::Ordering;
use tutti_shm::watch;

use crate::board;
use crate::job::Job;
use crate::rank::{self, LockedRank};
use crate::router::partner;
use crate::sleep::SleepReport;
use crate::wait::{Backoff, VAIN_LOOKS};
use crate::waiting::{self, Idle, Waiting};

/// Looks at the word before the process lock is taken: a line comes from another core within 0.1 us.
const FIRST_LOOKS: u32 = 200;
/// Looks between two looks for messages.
const LOOKS_PER_POLL: u32 = 50;
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(16);
/// A store rings; a mate that begins to store by itself while we fall asleep does not. Twice as long each
/// time: whoever searches for deadlocks sees each end of a sleep.
const REST_NOTICED: Duration = Duration::from_secs(10);
const REST_NOTICED_MAX: Duration = Duration::from_secs(600);

/// Parties that store to the word besides calls of this library, as far as the caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storers {
    /// Mates alone that have said so ([`store_unnoticed`]).
    Calls,
    /// Anybody.
    Anybody,
    /// Calls of processes that have not all registered with the kernel.
    Unfenced,
}

/// Party that is to change the word (SSS-CORE, SS-Wait): of one that does not run, or is far behind, nothing
/// is to be expected soon, so a thread neither spins nor yields for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partner {
    /// Somebody.
    Any,
    /// A rank of the own job.
    Rank(usize),
    /// The ranks of another job of this node: the board says whether it stands still.
    Job(u64),
}

/// Memory that is changed by calls of this library alone, or as `Storers` says: beginning and end.
static NOTICED: Mutex<Vec<(usize, usize, Storers)>> = Mutex::new(Vec::new());

/// Waits by address ([`until_by`]) for words in this memory rely on these storers.
pub fn add_memory(base: usize, bytes: usize, storers: Storers) {
    if HAS_WINDOW.load(Ordering::Relaxed) {
        // A window of before may have it.
        IS_IN_WINDOW.store(true, Ordering::Relaxed);
    }
    NOTICED.lock().unwrap_or_else(PoisonError::into_inner).push((base, base + bytes, storers));
}

/// The memory at this address is given back.
pub fn remove_memory(base: usize) {
    NOTICED.lock().unwrap_or_else(PoisonError::into_inner).retain(|(begin, _, _)| *begin != base);
}

/// Whether memory of the program is in a window, and whether such memory as above is: operations of windows
/// ring nobody.
static HAS_WINDOW: AtomicBool = AtomicBool::new(false);
static IS_IN_WINDOW: AtomicBool = AtomicBool::new(false);

/// Memory of the program is in a window from now on: waits for words in it rely on nobody.
pub fn note_window(base: usize, bytes: usize) {
    HAS_WINDOW.store(true, Ordering::Relaxed);
    let end = base.saturating_add(bytes);
    let noticed = NOTICED.lock().unwrap_or_else(PoisonError::into_inner);
    if noticed.iter().any(|(begin, behind, _)| *begin < end && base < *behind) {
        IS_IN_WINDOW.store(true, Ordering::Relaxed);
    }
}

/// Looks in vain of calls that do not wait.
static VAIN: AtomicU32 = AtomicU32::new(0);

fn storers_of(address: usize) -> Storers {
    let noticed = NOTICED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = noticed.iter().find(|(begin, end, _)| (*begin..*end).contains(&address));
    found.map_or(Storers::Anybody, |(_, _, storers)| *storers)
}

/// End of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The word is as it is waited for.
    Over,
    /// The word does not compare, and the wait would sleep.
    NotYet,
    /// The word does not compare, and nothing is to be expected soon: the partner sleeps, stands still, or is
    /// far behind.
    Away,
}

struct WordWait {
    rank: LockedRank,
    partner: Partner,
    /// Where a wait that does not sleep says how it ends.
    ends: Option<Rc<Cell<Option<Waited>>>>,
    storers: Storers,
    is_watching: bool,
    rest: Duration,
    rest_noticed: Duration,
}

// SAFETY: there is no state.
unsafe impl Waiting for WordWait {
    type State = ();
    type Goal<'a> = Storers;

    fn rank(&mut self) -> &mut LockedRank {
        &mut self.rank
    }

    fn state(&mut self) -> NonNull<()> {
        NonNull::dangling()
    }

    fn progress(&mut self, _: Option<usize>) -> bool {
        self.rank.progress_all()
    }

    fn describe((): &(), storers: Storers, report: &mut SleepReport) {
        // A thread of the program may change what only calls do not.
        let wait = if storers == Storers::Calls { Wait::word() } else { Wait::other(0, false) };
        report.put_alternative(|report| report.put(wait));
    }

    fn idle(&mut self, _: Storers, backoff: Backoff) -> Idle {
        let is_alone = self.rank.waits.awake() == 1;
        if let Some(ends) = self.ends.as_ref().filter(|_| backoff != Backoff::Poll) {
            if self.is_partner_away() {
                ends.set(Some(Waited::Away));
            } else if backoff == Backoff::Sleep || !is_alone {
                ends.set(Some(Waited::NotYet));
            }
            return if ends.get().is_some() { Idle::Look } else { Idle::Usual };
        }
        if backoff == Backoff::Poll || (backoff == Backoff::Yield && is_alone && !self.is_partner_away()) {
            return Idle::Usual;
        }
        // A rest follows.
        if self.storers == Storers::Unfenced {
            return Idle::Rest(REST_MIN);
        }
        if !self.is_watching {
            self.is_watching = true;
            let mut is_fenced = true;
            watch::begin(self.rank.own_endpoint(), || is_fenced = watch::barrier());
            if !is_fenced {
                self.storers = Storers::Unfenced;
            }
            // A store before the barrier has rung nobody.
            return Idle::Look;
        }
        if self.storers == Storers::Calls && !has_unnoticed_stores(&self.rank.job) {
            let rest = self.rest_noticed;
            self.rest_noticed = (rest * 2).min(REST_NOTICED_MAX);
            return Idle::Rest(rest);
        }
        let rest = self.rest;
        self.rest = (rest * 2).min(REST_MAX);
        Idle::Rest(rest)
    }
}

/// Waits until the word `is_over`.
#[inline(always)]
pub fn until(storers: Storers, mut is_over: impl FnMut() -> bool) {
    if !is_over() {
        until_slowly(storers, Partner::Any, None, &mut is_over);
    }
}

/// Waits until the word at an address `is_over`, which a partner is to change.
pub fn until_by(partner: Partner, address: usize, mut is_over: impl FnMut() -> bool) {
    if !is_over() {
        let storers = if let Partner::Job(_) = partner { Storers::Anybody } else { storers_of(address) };
        until_slowly(storers, partner, None, &mut is_over);
    }
}

/// A call that does not wait has found a word other than wanted: now and then the core is given away
/// ([`crate::wait`]).
#[inline(always)]
pub fn looked_in_vain() {
    // A count that is lost where threads meet does not matter.
    let looks = VAIN.load(Ordering::Relaxed).wrapping_add(1);
    VAIN.store(looks, Ordering::Relaxed);
    if looks.is_multiple_of(VAIN_LOOKS) {
        give_core();
    }
}

#[cold]
fn give_core() {
    if let Some(mut rank) = rank::enter() {
        let backoff = rank.core_sharing.looked_in_vain();
        rank.back_off(backoff);
    }
}

/// Waits like [`until_by`] for as long as that does not sleep, and a partner is not away.
pub fn until_away(partner: Partner, address: usize, mut is_over: impl FnMut() -> bool) -> Waited {
    if is_over() {
        return Waited::Over;
    }
    let ends = Rc::new(Cell::new(None));
    let (own, mut has_held) = (ends.clone(), false);
    until_slowly(storers_of(address), partner, Some(ends.clone()), &mut || {
        has_held = is_over();
        has_held || own.get().is_some()
    });
    if has_held { Waited::Over } else { ends.get().unwrap_or(Waited::Over) }
}

#[inline(never)]
fn until_slowly(
    storers: Storers,
    partner: Partner,
    ends: Option<Rc<Cell<Option<Waited>>>>,
    is_over: &mut dyn FnMut() -> bool,
) {
    let in_window = storers == Storers::Calls && IS_IN_WINDOW.load(Ordering::Relaxed);
    let storers = if in_window { Storers::Anybody } else { storers };
    let Some(rank) = rank::enter() else {
        // The job has been left: nothing is there to ring.
        while !is_over() {
            std::thread::sleep(REST_MIN);
        }
        return;
    };
    let mut wait = WordWait {
        rank,
        partner,
        ends,
        storers,
        is_watching: false,
        rest: REST_MIN,
        rest_noticed: REST_NOTICED,
    };
    if let Some(ends) = &wait.ends
        && wait.is_partner_away()
    {
        return ends.set(Some(Waited::Away));
    }
    let looks = if wait.rank.core_sharing.shares_core() { 1 } else { LOOKS_PER_POLL };
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
    waiting::wait_until(&mut wait, None, storers, |()| is_over());
    if wait.is_watching {
        watch::end(wait.rank.own_endpoint());
    }
}

impl WordWait {
    /// The partner sleeps, stands still, or is far behind.
    fn is_partner_away(&self) -> bool {
        match self.partner {
            Partner::Any => false,
            Partner::Rank(mate) if self.rank.job.local_ranks().contains(mate) => {
                is_behind(&self.rank.job, mate)
            }
            Partner::Rank(mate) => partner::is_away(mate, least_steps(&self.rank.job)),
            Partner::Job(job) => {
                let line = board::of_node().and_then(|board| board.job(job));
                line.is_some_and(|line| line.state == JOB_FROZEN)
            }
        }
    }
}

/// From now on this rank may store to its mates' memory by its own instructions, which ring nobody: mates
/// that wait look from time to time.
pub fn store_unnoticed(job: &Job) {
    let flag = &job.endpoint(job.rank()).stores_unnoticed;
    if flag.swap(1, Ordering::SeqCst) == 0 {
        for mate in job.present_ranks().iter() {
            job.ring_after_swap(mate);
        }
    }
}

/// How far this rank is, and how far behind a mate may be before no thread of it spins for that mate.
pub fn publish_progress(job: &Job, steps: u64, patience: u64) {
    let own = job.endpoint(job.rank());
    own.patience.store(patience, Ordering::Relaxed);
    own.progress.store(steps, Ordering::Release);
}

/// A mate of this node sleeps, or has made fewer steps than this rank, by more than its patience.
fn is_behind(job: &Job, mate: usize) -> bool {
    let other = job.endpoint(mate);
    let steps = other.progress.load(Ordering::Relaxed);
    other.sleeping.load(Ordering::Relaxed) != 0 || steps < least_steps(job)
}

/// The fewest steps that a rank has made which is not far behind this one.
fn least_steps(job: &Job) -> u64 {
    let own = job.endpoint(job.rank());
    own.progress.load(Ordering::Relaxed).saturating_sub(own.patience.load(Ordering::Relaxed))
}

fn has_unnoticed_stores(job: &Job) -> bool {
    let stores = |mate| job.endpoint(mate).stores_unnoticed.load(Ordering::Relaxed) != 0;
    job.present_ranks().iter().any(stores)
}
