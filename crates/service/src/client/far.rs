//! The way to a service of another node: by the word of this node's daemon.

use core::ffi::c_int;
use std::io;
use std::time::Duration;

use tutti_shm::published::far::{Given, Pass, Wanted, ask_daemon_within, enter_within};
use tutti_shm::published::{SERVICE, Status};

use super::{Link, near};
use crate::now_ns;
use crate::status::*;
use crate::stream::Stream;

/// A service that has not answered is asked again after so long.
const PAUSE: Duration = Duration::from_millis(20);
/// The kernel's time for an answer may be over a little before the deadline.
const SLACK_NS: u64 = 20_000_000;

/// A connection to a service of a node, which need not be another one. A service that stands still is waited
/// for.
pub(super) fn reach(uid: u32, name: &str, node: &str, deadline_ns: u64) -> Result<Link, c_int> {
    let wanted = Wanted { owner: uid, name: format!("{SERVICE}{name}"), node: node.to_owned() };
    loop {
        let limit = Duration::from_nanos(deadline_ns.saturating_sub(now_ns()));
        let tried = match ask_daemon_within(&wanted, limit) {
            Ok(Given::Here) => return near(uid, name),
            Ok(Given::There { address, pass, .. }) => enter(address, &pass, limit),
            Ok(Given::Refused(status)) => Err(of(status)),
            Ok(Given::Place(_)) | Err(_) => Err(Some(DAEMON)),
        };
        match tried {
            Ok(link) => return Ok(link),
            // A daemon that has not answered in time is there all the same.
            Err(Some(DAEMON)) if now_ns().saturating_add(SLACK_NS) >= deadline_ns => return Err(DEADLINE),
            Err(Some(status)) => return Err(status),
            Err(None) if now_ns() >= deadline_ns => return Err(DEADLINE),
            Err(None) => std::thread::sleep(PAUSE.min(limit)),
        }
    }
}

/// Meaning of a refusal here; none: later it may be another one.
fn of(status: Status) -> Option<c_int> {
    match status {
        Status::Region => Some(NO_SERVICE),
        Status::Right => Some(RIGHT),
        Status::Memory => Some(BUSY),
        Status::Node => Some(NODE),
        Status::Busy => None,
        _ => Some(REFUSED),
    }
}

fn enter(address: std::net::SocketAddr, pass: &Pass, limit: Duration) -> Result<Link, Option<c_int>> {
    match enter_within(address, pass, limit) {
        Ok((socket, theirs_ns)) => {
            rustix::io::ioctl_fionbio(&socket, true).map_err(|_| Some(MEMORY))?;
            let ahead_ns = i64::try_from(i128::from(theirs_ns) - i128::from(now_ns()));
            // A service that says rubbish of its clock has deadlines of rubbish.
            Ok(Link::Far(Stream::new(socket), ahead_ns.unwrap_or(0)))
        }
        Err(error) => Err(match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => Some(RIGHT),
            io::ErrorKind::OutOfMemory => Some(MEMORY),
            // The pass is too old, as it has waited for its turn; or the service has ended since, which the
            // daemon knows next time.
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::WouldBlock
            | io::ErrorKind::TimedOut => None,
            _ => Some(NODE),
        }),
    }
}
