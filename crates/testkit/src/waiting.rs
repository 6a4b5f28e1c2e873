//! Waiting for events that announce themselves nowhere, always with a deadline.

use std::thread;
use std::time::{Duration, Instant};

/// Every wait of the whole-system tests ends here.
pub const LIMIT: Duration = Duration::from_secs(40);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

/// Waits for an event.
///
/// # Panics
/// With `what` was awaited, at the limit.
#[track_caller]
pub fn await_that(what: &str, is_so: impl FnMut() -> bool) {
    assert!(comes_true(is_so), "it was awaited that {what}");
}

/// The same, for a test that has more to report than what was awaited.
#[must_use]
pub fn comes_true(mut is_so: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !is_so() {
        if start.elapsed() > LIMIT {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}
