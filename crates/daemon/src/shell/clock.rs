//! Readings of the clocks.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::core::clocks::Clocks;

/// For the core.
pub(super) fn now() -> Clocks {
    Clocks { wall_ms: now_ms(), boot_ms: boot_ms() }
}

/// In ms since the machine was started: no clock that is set changes it.
pub(super) fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// In ms since 1970.
pub(super) fn now_ms() -> u64 {
    now_us() / 1000
}

/// In us since 1970.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
