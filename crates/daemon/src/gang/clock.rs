//! The clock of the switch thread.

use rustix::time::{ClockId, clock_gettime};

/// The time by which turns are recorded.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
