//! Scheduling: who runs where and when.
//!
//! No system call, no clock, no thread: events go in by `handle_*` with the time, actions come out by
//! `poll_*`, so that a seeded simulator can run thousands of nodes and every fault.
//!
//! | part | who has it | what it does |
//! |---|---|---|
//! | [`Scheduler`] | the controller | takes jobs, gives them nodes and rows of the matrix, says when which row runs |
//! | [`controller::Controller`] | the controller | sends the orders down, in strict mode step by step, and hears the reports |
//! | [`agent::Agent`] | every node | the two that follow, put together: what a daemon drives |
//! | [`gang::NodeSwitch`] | every node | executes SWITCH: freezes, waits, thaws |
//! | [`barrier::Merger`] | every node | merges reports on their way up |
//! | [`shares::Ledger`] | the controller | what users have used, and what weight their jobs have for it |
//! | [`market::Market`] | the controller | what memory and network cost on each node, and who pays |
//! | [`phases::Arbiter`] | every node | which of the jobs that share parallel slots has them |
//! | [`replay`] | `tutti simulate` | plays a workload on the scheduler, whole rounds at once |
//! | [`Tree`] | every node | who is whose parent |

#![forbid(unsafe_code)]

pub mod agent;
pub mod barrier;
mod connected;
pub mod controller;
mod demand;
mod dqt;
pub mod fill_trial;
pub mod gang;
mod machine;
pub mod market;
mod matrix;
mod message;
pub mod phases;
pub mod replay;
mod reserved;
mod scheduler;
pub mod shares;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
mod space;
pub mod tree;
mod types;
mod wait;

pub use demand::{Demand, Holder, Part, Place, RANKS_MAX, SubmitError, WEIGHT_DEFAULT, WEIGHT_MAX};
pub use machine::could_hold;
pub use matrix::Policy;
pub use message::{Down, Members, Mode, Moved, Order, Plan, Report, STAGES, Stage, Switch};
pub use reserved::Reservation;
pub use scheduler::rotation::Processor;
pub use scheduler::rotation::{Account, Busy, Window};
pub use scheduler::{Config, ConfigError, Event, JobState, SLICE_NS, Scheduler};
pub use tree::Tree;
pub use types::{Bytes, Generation, JobId, Membership, NodeId, SLICE_DEFAULT_NS, SLOTS_MAX, Slots, Version};
pub use wait::Wait;
