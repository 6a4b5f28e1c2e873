//! Services (`tutti_service.h`): functions that a process offers by a name to other processes of its node, in
//! a job or not.
//!
//! ```text
//! server   open: an abstract socket by user and name; add: functions by their signatures
//! client   open: connects, looks whose socket it is, asks for the signatures
//! client   call: number, deadline, arguments     -> its connection
//! server   serve: takes one packet of each client after another, runs the function, answers
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`frame`] | packets; pure |
//! | [`handles`] | numbers of both for C |
//! | [`server`] | a service and its connections |
//! | [`client`] | a connection to one |
//!
//! Each client has a connection of its own, and what it sends concerns that one alone: a packet that is none
//! closes it. The kernel says who is at its other end (SO_PEERCRED, SO_PEERGROUPS). Nothing here needs MPI.

pub mod client;
pub mod frame;
pub mod handles;
pub mod server;

/// Name of the abstract socket of a service of a user.
fn socket_name(uid: u32, name: &str) -> String {
    format!("tutti-service/{uid}/{name}")
}

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
