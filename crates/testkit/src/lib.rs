//! Tools that the tests of all crates share. A `[dev-dependencies]` entry, never part of what is installed:
//! simulators and faults on purpose use it behind the feature `testing` of their crates, which only tests
//! switch on.
//!
//! | module | what |
//! |---|---|
//! | [`mod@skip`] | a test that cannot run on this machine says so, and is counted as skipped instead of passed |
//! | [`random`] | one seeded generator; the seed of a run |
//! | [`nearly`] | frames that are nearly right, for readers of what others send |
//! | [`waiting`] | waiting for an event, with a deadline |
//! | [`scratch`] | a folder that is gone when the test is |
//! | `lab` | machines of namespaces that share nothing but a cable (feature `lab`) |
//! | `papers` | the papers' items, and the tests that show them (feature `papers`) |
//! | [`stepper`], [`cgroup`] | a child process that stops at every instruction, or is frozen |
#![deny(unsafe_code)]

pub mod cgroup;
#[cfg(feature = "lab")]
pub mod lab;
pub mod nearly;
#[cfg(feature = "papers")]
pub mod papers;
pub mod random;
pub mod scratch;
pub mod skip;
#[allow(unsafe_code)]
pub mod stepper;
pub mod waiting;

pub use random::{Random, mix, seed};
pub use scratch::Scratch;
pub use skip::{Need, has_command, has_command_for_part, skip, skip_part};
pub use waiting::{LIMIT, await_that, comes_true};
