//! A snapshot: the state of all channels of a job at one moment, at which all its ranks are frozen.
//!
//! ```text
//! starter of each node: freeze -> view() -> sent upwards ... all nodes have sent -> thaw          (whoever asks: the controller of the cluster)
//! Snapshot = the views of all nodes -> in_flight(), deadlock(), text(); or a file (file)
//! ```
//!
//! No node needs to wait for another: what a frozen rank has published does not change, and at one moment all
//! are frozen. The format of the file is in docs/user/snapshots.md.

mod deadlock;
mod file;
mod flight;
mod graph;
mod held;
mod locks;
mod reduction;
mod stall;
mod state;
mod termination;
mod text;
mod view;
mod waits;

pub use deadlock::{DEADLOCK_ENDED, Deadlock, DeadlockNotice, Link, absent_peer, arrows};
pub use file::{FileError, read, write};
pub use flight::{InFlight, Place};
pub use stall::Stall;
pub use state::{
    Alternative, BulkIn, Doing, Flow, Message, RankView, Snapshot, VIEWS_BYTES_MAX, View, Wait, What,
};
pub use termination::has_terminated;
pub use view::{rank_view, view};
