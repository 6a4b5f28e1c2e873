//! Counts of a rank, as they are printed.

use std::sync::atomic::Ordering::Relaxed;

use tutti_runtime::rank;

use super::{SIGNALS, Sending, State, state};
use crate::permissions::Backend;
use crate::sites::Costs;
use crate::{nap, note};

/// Number of counts of a rank.
pub(crate) const COUNTS: usize = 32;
/// Counts of a rank, in the order of their names (`crate::statistics`).
pub(crate) type All = [u64; COUNTS];

/// Costs of the program's instructions.
pub(crate) fn costs() -> Vec<Costs> {
    let Some(_rank) = rank::enter() else { return Vec::new() };
    // SAFETY: the lock is ours.
    unsafe { state() }.map_or_else(Vec::new, |state| state.arena.sites.costs().to_vec())
}

impl State {
    fn named(&self) -> [(&'static str, u64); COUNTS] {
        let datagrams = self.router.borrow().traffic().out;
        let Sending { records, bytes } = self.sent;
        let (used, calls) = self.arena.permission_calls();
        let calls_of = |backend| if used == backend { calls } else { 0 };
        let sent = [
            ("signals", SIGNALS.load(Relaxed)),
            ("userfaultfd_calls", calls_of(Backend::Userfaultfd)),
            ("mprotect_calls", calls_of(Backend::Mprotect)),
            ("naps", nap::count()),
            ("records", records),
            ("bytes", bytes),
            ("datagrams", datagrams),
        ];
        let mut all = note::counters().named().into_iter().chain(self.member.counters().named()).chain(sent);
        std::array::from_fn(|_| all.next().expect("a count for each place"))
    }
}

/// Counts of this rank with their names, and those of the parallel part of its program alone.
pub(crate) fn counted() -> Option<([&'static str; COUNTS], All, All)> {
    let _rank = rank::enter()?;
    // SAFETY: the lock is ours.
    let state = unsafe { state() }?;
    let named = state.named();
    let (names, now) = (named.map(|(name, _)| name), named.map(|(_, count)| count));
    let [first, last] = state.part;
    let last = last.unwrap_or(now);
    let part = first.map_or([0; COUNTS], |first| std::array::from_fn(|place| last[place] - first[place]));
    Some((names, now, part))
}

/// The parallel part of the program begins here, or ends.
pub(crate) fn mark_part(is_end: bool) {
    let Some(_rank) = rank::enter() else { return };
    // SAFETY: the lock is ours.
    if let Some(state) = unsafe { state() } {
        state.part[usize::from(is_end)] = Some(state.named().map(|(_, count)| count));
    }
}
