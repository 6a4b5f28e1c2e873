//! Services (`tutti_call.h`): functions that a process offers by a name to other processes of its node and of
//! its cluster, in a job or not.
//!
//! ```text
//! server   open: an abstract socket by user and name; add: functions by their signatures
//! client   open: connects, looks whose socket it is, asks for the signatures
//! client   call: number, deadline, arguments     -> its connection
//! server   serve: takes one packet of each client after another, runs the function, answers
//! ```
//!
//! A client of another node asks its daemon for the way, as for a published region
//! ([`tutti_shm::published::far`]): the service's own socket gets the daemon's word for the client, and gives
//! a pass, with which the client comes over TCP.
//!
//! | module | what it is |
//! |---|---|
//! | [`frame`] | packets; pure |
//! | `stream` | packets on a stream of bytes |
//! | [`handles`] | numbers of both for C |
//! | [`server`] | a service, its functions, the loop that serves |
//! | [`client`] | a connection to one |
//! | [`entrance`] | clients of other nodes, until they are clients |
//! | [`signature`] | types of arguments and results, as text, and values of them |
//! | [`foreign`] | the same for types of Rust |
//! | [`listing`] | all services of a node |
//!
//! Each client has a connection of its own, and what it sends concerns that one alone: a packet that is none
//! closes it. The kernel says who is at its other end (SO_PEERCRED, SO_PEERGROUPS), or the daemon of root or
//! of the service's own user says it. Nothing here needs MPI.

#![forbid(unsafe_code)]

pub mod client;
pub mod entrance;
pub mod foreign;
pub mod frame;
pub mod handles;
pub mod listing;
pub mod server;
pub mod signature;
pub mod status;
mod stream;

/// Time by CLOCK_MONOTONIC, which all processes of a node have in common.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Time by CLOCK_MONOTONIC at which a duration from now is over, in nanoseconds.
pub fn over_in(duration: std::time::Duration) -> u64 {
    now_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// Time left for a poll; zero when it is over.
fn left(deadline_ns: u64) -> rustix::event::Timespec {
    let left_ns = deadline_ns.saturating_sub(now_ns()).min(i64::MAX as u64);
    rustix::event::Timespec {
        tv_sec: (left_ns / 1_000_000_000) as i64,
        tv_nsec: (left_ns % 1_000_000_000) as i64,
    }
}
