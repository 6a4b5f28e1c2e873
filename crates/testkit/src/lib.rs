//! What the tests of all crates share. A `[dev-dependencies]` entry, never part of what is installed.
//!
//! - [`skip()`]: a test that cannot run on this machine says so, and is counted as skipped instead of passed.
#![forbid(unsafe_code)]

pub mod skip;

pub use skip::{Need, skip, skip_part};
