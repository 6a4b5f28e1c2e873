//! Why a launch has failed, as a line for the user.

use std::io;

use tutti_channel::PEERS_MAX;
use tutti_os::{Failure, Step};
use tutti_protocol::ports::Ports;
use tutti_shm::layout::LOCAL_RANKS_MAX;
use tutti_shm::peers::BadPeers;
use tutti_shm::segment::SegmentError;

use crate::environment::ZeroByte;

/// Why a job does not start. Each is one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// More ranks than the node takes.
    #[error("{ranks} ranks are more than the {LOCAL_RANKS_MAX} that one node takes")]
    TooManyRanks {
        /// Number of ranks that was asked for.
        ranks: u64,
    },
    /// More ranks on other nodes than one of this node can talk to.
    #[error("{far} ranks on other nodes are more than the {PEERS_MAX} to which a rank can talk")]
    TooManyFar {
        /// Number of ranks that there is room for on other nodes.
        far: u64,
    },
    /// More ranks expected than the node takes.
    #[error("--universe {ranks}: one node takes {LOCAL_RANKS_MAX} ranks")]
    Universe {
        /// Number of ranks that was asked for.
        ranks: u32,
    },
    /// The limit of open descriptors is too low.
    #[error(
        "{ranks} ranks need {needed} open descriptors, the limit is {limit}: raise it (ulimit -n) or start fewer ranks"
    )]
    Descriptors {
        /// Number of ranks that was asked for.
        ranks: u64,
        /// Descriptors that they need.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The user wants no more ranks than cores.
    #[error("{ranks} ranks are more than the {cores} cores of this job, and --nooversubscribe was given")]
    Oversubscribed {
        /// Number of ranks that was asked for.
        ranks: u64,
        /// Cores that there are.
        cores: usize,
    },
    /// No shared memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The kernel refuses a process.
    #[error("cannot start rank {rank} of {ranks}: {source}{hint}")]
    Fork {
        /// Which rank.
        rank: u32,
        /// Of how many.
        ranks: u64,
        /// The kernel's answer.
        source: io::Error,
        /// Advice on what the user can do.
        hint: &'static str,
    },
    /// The kernel refuses something else.
    #[error("cannot {action}: {source}")]
    System {
        /// Action that was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The front end's table does not fit the job.
    #[error(transparent)]
    Peers(#[from] BadPeers),
    /// None of the keeper's ports is free.
    #[error(
        "all UDP ports {ports} of {address} are taken: the range that the keeper gives ranks here (--ports) is too small"
    )]
    Ports {
        /// The node's address.
        address: std::net::IpAddr,
        /// The range.
        ports: Ports,
    },
    /// No socket on the node's address.
    #[error("cannot open a UDP socket on {address}: {source}")]
    Socket {
        /// The node's address.
        address: std::net::IpAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A text from the front end with a zero byte.
    #[error(transparent)]
    ZeroByte(#[from] ZeroByte),
}

pub(super) fn failed<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> LaunchError {
    move |source| LaunchError::System { action, source: source.into() }
}

/// Advice for the user about a process that is refused.
pub(super) fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EAGAIN) => "; the limit of processes is reached (ulimit -u, or pids.max of the cgroup)",
        _ => "",
    }
}

/// Line about a child that could not become its program.
pub fn failure_text(name: &str, failure: &Failure) -> String {
    let reason = io::Error::from_raw_os_error(failure.errno);
    match (failure.step, failure.errno) {
        (Step::Execute, libc::ENOENT) => {
            format!("cannot execute {name}: the file, or the interpreter it names, does not exist")
        }
        (Step::Execute, libc::ENOEXEC) => format!(
            "cannot execute {name}: it is not a program for this machine (a script needs a first line such as #!/bin/sh)"
        ),
        (Step::Execute, libc::EACCES) => format!("cannot execute {name}: permission denied"),
        (Step::Execute, libc::E2BIG) => {
            format!("cannot execute {name}: its arguments and environment are too long")
        }
        (Step::Execute, _) => format!("cannot execute {name}: {reason}"),
        (Step::Directory, _) => {
            format!("cannot change to the working directory of rank {}: {reason}", failure.rank)
        }
        (Step::Prepare, _) => format!("cannot prepare rank {}: {reason}", failure.rank),
    }
}

/// The exit status that a shell gives in that case.
pub fn failure_status(failure: &Failure) -> u8 {
    match (failure.step, failure.errno) {
        (Step::Execute, libc::ENOENT) => 127,
        (Step::Execute, _) => 126,
        _ => 1,
    }
}
