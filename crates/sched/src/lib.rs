//! Who runs where and when.
//!
//! No system call, no clock, no thread: events go in by `handle_*` with the time, actions come out by `poll_*`, so that a seeded
//! simulator can run thousands of nodes and every fault.

#![forbid(unsafe_code)]

pub mod barrier;
pub mod gang;
mod message;
mod tree;
mod types;

pub use message::{Members, Mode, Order, Plan, Report, STAGES, Stage, Switch};
pub use tree::Tree;
pub use types::{Generation, JobId, Membership, NodeId, SLOTS_MAX, Slots, Version};
