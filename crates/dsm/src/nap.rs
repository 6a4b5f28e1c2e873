//! Short sleeps of a program while the network of its node is congested (`TUTTI_POLITE=1`): before each call
//! that may send. Compiled code comes here by its checks and by the functions that synchronise; other loads
//! and stores by their faults.
//!
//! The board says whether it is: one load. A sleep holds no lock, so this rank's home answers meanwhile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tutti_runtime::{board, polite};
use tutti_shm::board::Reader;

use crate::os;

/// One sleep.
const NAP: Duration = Duration::from_millis(1);
/// Sleeps before a call, at most: nobody waits for ever.
const NAPS_MAX: u32 = 10;

/// Sleeps so far.
static NAPS: AtomicU64 = AtomicU64::new(0);
/// The board that says it, where the user has asked for it.
static BOARD: OnceLock<Option<&Reader>> = OnceLock::new();

/// Looks for the board: a fault does not.
pub(crate) fn prepare() {
    let is_asked = std::env::var_os(polite::VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
    BOARD.get_or_init(|| is_asked.then(board::of_node).flatten());
}

/// Sleeps while the network is congested, but not for long.
pub(crate) fn while_congested() {
    if let Some(Some(board)) = BOARD.get() {
        let naps = nap(|| board.is_congested(os::monotonic_ns()), || std::thread::sleep(NAP));
        NAPS.fetch_add(naps.into(), Relaxed);
    }
}

/// Sleeps so far.
pub(crate) fn count() -> u64 {
    NAPS.load(Relaxed)
}

/// How often it has slept.
fn nap(is_congested: impl Fn() -> bool, mut sleep: impl FnMut()) -> u32 {
    let mut naps = 0;
    while naps < NAPS_MAX && is_congested() {
        sleep();
        naps += 1;
    }
    naps
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    // Paper: C25
    #[test]
    fn nap_of_shared_memory_lasts_while_the_network_is_congested_but_not_for_ever() {
        assert_eq!(nap(|| false, || unreachable!("no sleep without need")), 0);
        let rest = Cell::new(3);
        assert_eq!(nap(|| rest.get() > 0, || rest.set(rest.get() - 1)), 3);
        assert_eq!(nap(|| true, || {}), NAPS_MAX);
        while_congested();
        assert_eq!(count(), 0);
    }
}
