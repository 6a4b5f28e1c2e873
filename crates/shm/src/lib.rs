//! Shared memory between the ranks of a job on one node: the segment and its layout, the rings in it, sleep
//! and wake, and the ticket by which a rank proves who it is.
//!
//! The starter creates a segment with [`segment::Segment::create`] and hands it to each rank over the ticket
//! socket ([`ticket`]); the rank maps it and builds its view from [`layout::Layout`]. Nothing here knows MPI.
//!
//! The rules that every structure keeps stand in docs/internals/shared-memory.md.

pub mod arena;
#[cfg(not(loom))]
pub mod board;
pub mod bulk_ring;
#[cfg(not(loom))]
pub mod call_counts;
pub mod collective;
pub mod coop_copy;
pub mod daemon_page;
#[cfg(not(loom))]
pub mod directory;
pub mod distance;
pub mod doorbell;
pub mod endpoint;
pub mod envelope;
pub mod envelope_ring;
#[cfg(not(loom))]
pub mod file_locks;
pub mod flow;
pub mod gate;
pub mod greetings;
pub mod layout;
pub mod local_socket;
#[cfg(all(test, loom))]
mod model;
pub mod names;
pub mod numbers;
#[cfg(not(loom))]
pub mod observe;
pub mod opened;
pub mod peers;
#[cfg(not(loom))]
pub mod phases;
pub mod piece_ring;
#[cfg(not(loom))]
pub mod published;
#[cfg(any(test, not(loom)))]
pub mod queue;
pub mod report;
#[cfg(not(loom))]
pub mod reuse;
pub mod segment;
pub mod spawn;
pub mod stand_in;
pub mod sync;
pub mod team_barrier;
pub mod termination;
pub mod ticket;
pub mod unexpected;
#[cfg(not(loom))]
pub mod users;
#[cfg(not(loom))]
pub mod verdict;
pub mod waits;
pub mod watch;
pub mod window_lock;

/// Bytes of a cache line, the unit of all layouts.
pub const LINE_BYTES: usize = 64;
