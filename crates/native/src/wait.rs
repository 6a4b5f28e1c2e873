//! `tutti_wait_until`, `tutti_try_wait_until` and `tutti_progress`.

use core::ffi::c_int;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use tutti_runtime::rank;
use tutti_runtime::word_wait::{self, Partner, Waited};
use tutti_shm::published::holds;

use crate::status::{AWAY, INVALID, NOT_RUNNING, OK, PENDING};

/// A wait whose arguments are right.
struct Asked<'a> {
    word: &'a AtomicI64,
    comparison: u32,
    value: i64,
    partner: Partner,
}

impl Asked<'_> {
    /// The wait that was asked for; else what the call returns at once, [`OK`] where it is over.
    ///
    /// # Safety
    /// As that of [`wait_until`].
    unsafe fn of(flag: *const i64, comparison: c_int, value: i64, partner: i64) -> Result<Self, c_int> {
        let comparison = u32::try_from(comparison).unwrap_or_default();
        if flag.is_null() || !flag.is_aligned() || holds(comparison, 0, 0).is_none() {
            return Err(INVALID);
        }
        // SAFETY: our contract.
        let word = unsafe { AtomicI64::from_ptr(flag.cast_mut()) };
        if holds(comparison, word.load(SeqCst), value) == Some(true) {
            return Err(OK);
        }
        let is_rank = rank::enter().map(|rank| rank.job.is_present(partner as usize)).ok_or(NOT_RUNNING)?;
        let partner = match partner {
            -1 => Partner::Any,
            0.. if is_rank => Partner::Rank(partner as usize),
            0.. => return Err(INVALID),
            _ => Partner::Job((-2 - partner) as u64),
        };
        Ok(Asked { word, comparison, value, partner })
    }

    fn is_over(&self) -> bool {
        holds(self.comparison, self.word.load(SeqCst), self.value) == Some(true)
    }

    fn address(&self) -> usize {
        self.word.as_ptr().addr()
    }
}

/// Waits until the word at `flag` compares with `value`. `partner`: who is to change it: a rank of the own
/// job from 0 on, -1 for any, -2 - j for the ranks of job j.
///
/// # Safety
/// The word is there during the call, and changed by whole stores of 8 bytes.
pub unsafe fn wait_until(flag: *const i64, comparison: c_int, value: i64, partner: i64) -> c_int {
    // SAFETY: our contract.
    let asked = match unsafe { Asked::of(flag, comparison, value, partner) } {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    word_wait::until_by(asked.partner, asked.address(), || asked.is_over());
    OK
}

/// Waits as [`wait_until`] for as long as it would not sleep, and the partner is not away.
///
/// # Safety
/// As that of [`wait_until`].
pub unsafe fn try_wait_until(flag: *const i64, comparison: c_int, value: i64, partner: i64) -> c_int {
    // SAFETY: our contract.
    let asked = match unsafe { Asked::of(flag, comparison, value, partner) } {
        Ok(asked) => asked,
        Err(status) => return status,
    };
    match word_wait::until_away(asked.partner, asked.address(), || asked.is_over()) {
        Waited::Over => OK,
        Waited::NotYet => PENDING,
        Waited::Away => AWAY,
    }
}

/// Says how far this rank is, for mates that wait for it, and how far behind them one may be before they stop
/// to spin for it.
pub fn progress(steps: u64, patience: u64) -> c_int {
    let Some(rank) = rank::enter() else { return NOT_RUNNING };
    word_wait::publish_progress(&rank.job, steps, patience);
    OK
}
