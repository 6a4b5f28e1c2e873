//! `tutti_wait_until` and `tutti_progress`.

use core::ffi::c_int;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use tutti_runtime::rank;
use tutti_runtime::word_wait::{self, Partner};

/// What a call gives back: done.
pub const OK: c_int = 0;
/// An argument is wrong.
pub const INVALID: c_int = -1;
/// Nothing has been started yet, or all has ended.
pub const NOT_RUNNING: c_int = -2;

/// Whether `found` compares with `value` as a number of `tutti_comparison` says; none of another number.
fn holds(comparison: c_int, found: i64, value: i64) -> Option<bool> {
    Some(match comparison {
        1 => found == value,
        2 => found != value,
        3 => found > value,
        4 => found >= value,
        5 => found < value,
        6 => found <= value,
        _ => return None,
    })
}

/// Waits until the word at `flag` compares with `value`. `partner`: who is to change it: a rank of the own
/// job from 0 on, -1 for any, -2 - j for the ranks of job j.
///
/// # Safety
/// The word is there during the call, and changed by whole stores of 8 bytes.
pub unsafe fn wait_until(flag: *const i64, comparison: c_int, value: i64, partner: i64) -> c_int {
    if flag.is_null() || !flag.is_aligned() || holds(comparison, 0, 0).is_none() {
        return INVALID;
    }
    // SAFETY: our contract.
    let word = unsafe { AtomicI64::from_ptr(flag.cast_mut()) };
    let is_over = || holds(comparison, word.load(SeqCst), value) == Some(true);
    if is_over() {
        return OK;
    }
    let Some(is_rank) = rank::enter().map(|rank| rank.job.is_present(partner as usize)) else {
        return NOT_RUNNING;
    };
    let partner = match partner {
        -1 => Partner::Any,
        0.. if is_rank => Partner::Rank(partner as usize),
        0.. => return INVALID,
        _ => Partner::Job((-2 - partner) as u64),
    };
    word_wait::until_by(partner, flag.addr(), is_over);
    OK
}

/// Says how far this rank is, for mates that wait for it, and how far behind them one may be before they stop
/// to spin for it.
pub fn progress(steps: u64, patience: u64) -> c_int {
    let Some(mut rank) = rank::enter() else { return NOT_RUNNING };
    rank.publish_progress(steps, patience);
    OK
}
