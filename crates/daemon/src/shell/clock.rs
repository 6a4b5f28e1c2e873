//! What the clock says.

use std::time::{SystemTime, UNIX_EPOCH};

/// In ms since 1970.
pub(super) fn now_ms() -> u64 {
    now_us() / 1000
}

/// In us since 1970.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
