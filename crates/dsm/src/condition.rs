//! Condition variables: CONDVARWAIT gives a lock back, sleeps, and takes it again. Made of what there is: a
//! list of waiters in shared memory, a lock that guards it, and a pause for each rank.
//!
//! | word | what it holds | writer |
//! |---|---|---|
//! | the variable, in shared memory | its mark, and where the last waiter is | who holds its guard |
//! | waiter: before | where the one before it is | the same |
//! | waiter: rank | whose it is | that rank, once |
//!
//! ```text
//! wait       guard: put the own waiter into the list; give the lock back; wait for the own pause; clear it;
//!            take the lock
//! signal     guard: take the oldest out; set its pause
//! broadcast  guard: take all out; set the pause of each
//! ```
//!
//! A waiter stands in one list, and its pause is set once for each time that it is taken out, so no signal
//! is lost, and none comes twice. Variables share guards: nothing waits while it holds one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::arena::BASE;
use crate::object::{self, GUARDS, Kind, NUMBER_BITS, NUMBER_MASK};
use crate::process::{self, Stage};
use crate::site::Site;
use crate::{failure, globals, present};

/// Bytes of a waiter: the one before it, and its rank.
const WAITER_BYTES: u64 = 16;
const RANK: usize = 8;
/// No waiter. Others are the offset of their bytes in the arena, and 1.
const NONE: u64 = 0;

/// Address of the waiter of this rank; 0: it has not waited yet. The thread that may touch the arena uses it.
static OWN: AtomicUsize = AtomicUsize::new(0);

/// CONDVARWAIT: gives the lock back, and takes it again when the variable at the address has been signalled.
pub fn wait(variable: usize, lock: u64, site: Site<'_>) {
    let number = object::number(lock, Kind::Lock, "CONDVARWAIT with a lock", site);
    let (me, is_running) = process::with(|running| (running.me() as u64, running.stage != Stage::Replaying));
    if !is_running {
        return;
    }
    let waiter = own_waiter(me, site);
    with_list(variable, "CONDVARWAIT", site, |last| {
        present::store_word(waiter, last);
        1 + (waiter - BASE) as u64
    });
    object::unlock_number(number, site);
    let pause = pause_of(me);
    object::wait_flag(pause, site);
    object::clear_flag(pause, site);
    object::lock_number(number, site);
}

/// CONDVARSIGNAL: the rank that has waited longest goes on.
pub fn signal(variable: usize, site: Site<'_>) {
    let mut oldest = None;
    with_list(variable, "CONDVARSIGNAL", site, |last| {
        let waiters = waiters(last);
        oldest = waiters.last().copied();
        match waiters.len() {
            0 | 1 => NONE,
            count => {
                present::store_word(waiters[count - 2], NONE);
                last
            }
        }
    });
    wake(oldest.as_slice(), site);
}

/// CONDVARBCAST: all that wait go on.
pub fn broadcast(variable: usize, site: Site<'_>) {
    let mut all = Vec::new();
    with_list(variable, "CONDVARBCAST", site, |last| {
        all = waiters(last);
        NONE
    });
    wake(&all, site);
}

/// Changes the list of a variable: from its last waiter to its next last one. Nothing in a rank that replays.
fn with_list(variable: usize, name: &str, site: Site<'_>, change: impl FnOnce(u64) -> u64) {
    let (is_running, bytes, ranks) = process::with(|running| {
        (running.stage != Stage::Replaying, running.view.bytes, running.ranks() as u64)
    });
    if !is_running {
        return;
    }
    if globals::offset_of(variable, bytes).is_none() {
        failure::end(format_args!(
            "{site}: {name} of a condition variable in private memory: others see it in shared memory alone"
        ));
    }
    let guard = 3 * ranks + guard_of(variable);
    object::lock_number(guard, site);
    let word = present::load_word(variable);
    let last = object::number(word, Kind::Condition, name, site);
    let next = change(last);
    if next != last {
        present::store_word(variable, (Kind::Condition as u64) << NUMBER_BITS | next & NUMBER_MASK);
    }
    object::unlock_number(guard, site);
}

/// Variables of a list of structures lie at even distances: the upper bits of the product differ.
fn guard_of(variable: usize) -> u64 {
    (variable as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - GUARDS.ilog2())
}

fn pause_of(rank: u64) -> u64 {
    2 * process::with(|running| running.ranks() as u64) + rank
}

/// Addresses of waiters, from the last one on.
fn waiters(last: u64) -> Vec<usize> {
    let at = |waiter: u64| (waiter != NONE).then(|| BASE + (waiter - 1) as usize);
    std::iter::successors(at(last), |waiter| at(present::load_word(*waiter))).collect()
}

fn wake(waiters: &[usize], site: Site<'_>) {
    for waiter in waiters {
        object::set_flag(pause_of(present::load_word(waiter + RANK)), site);
    }
}

fn own_waiter(me: u64, site: Site<'_>) -> usize {
    let found = OWN.load(Relaxed);
    if found != 0 {
        return found;
    }
    let made = object::allocate(WAITER_BYTES, site);
    present::store_word(made + RANK, me);
    OWN.store(made, Relaxed);
    made
}
