//! Channels between nodes: PM's protocol for a lossy datagram network.
//!
//! An [`Endpoint`] is everything of one rank. It performs no system call, reads no clock and starts no
//! thread: events go in by `handle_*`, actions come out by `poll_*`, so that a seeded simulator (`sim`) can
//! try every order of events.
//!
//! - **Stream**: records of up to a datagram, in order, exactly once ([`Endpoint::try_send`],
//!   [`Sink::record`]). A record is kept until it is acknowledged, and acknowledged only when it is
//!   published; a sink that has no room refuses, which stops nobody else.
//! - **Bulk**: messages of up to 2^40 bytes, stored where they belong ([`Endpoint::accept_bulk`],
//!   [`Endpoint::send_bulk`], [`Source`], [`Sink::fragment`]).
//! - **Long datagrams that vanish** on a path where short ones do not are noticed, and travel in pieces.
//! - **Stoppable anywhere**: the words of [`FlowWord`] say at every instruction what is in flight, without a
//!   look at the network ([`cut`]); a packet is claimed before it exists.
//!
//! SPECIFICATION.md says which test holds which promise.

#![forbid(unsafe_code)]

mod bulk;
mod config;
pub mod context;
mod counters;
mod credit;
pub mod cut;
mod endpoint;
mod exited;
mod fifo;
mod flow;
pub mod packet;
mod path;
mod pieces;
mod ports;
mod save;
#[cfg(any(test, feature = "testing"))]
pub mod sim;
mod steady;
mod stream;
mod timers;
mod types;
mod window;

pub use bulk::BULK_BYTES_MAX;
pub use config::{Charges, Config, ConfigError, PEERS_MAX};
pub use counters::{Counters, DROP_REASONS, Drop, FlowState};
pub use endpoint::{BulkError, Endpoint, Event, Expected, Mark, RANKS_MAX, SendError, Transmit};
pub use exited::ExitedRank;
pub use ports::{FlowMemory, FlowWord, PlainMemory, Sink, Source, Taken, WORDS};
pub use save::{RestoreError, crc32};
pub use steady::{SteadyResponder, SteadyTest};
pub use types::{BulkId, Generation, Identity, Incarnation, Key, Now, Rank, Seq};
