//! Connections while the daemon has no descriptor left: they wait in their sockets' queues. The owner of the
//! daemon is let in by one that is kept for it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::UnixStream;
use tokio::time::Instant;

/// Time for which nobody is let in after there was no descriptor.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two lines that say so.
const LINE: Duration = Duration::from_secs(60);
/// Strangers who stand before the owner are let go, so many at once.
const LOOKED_AT_MAX: usize = 64;

/// All listening sockets of a daemon.
#[derive(Debug)]
pub(super) struct Doors {
    owner: u32,
    /// Given up for the owner where there is no other.
    spare: Option<File>,
    closed_until: Option<Instant>,
    /// When it was last said, and how often it has been so since.
    said: Option<Instant>,
    failures: u64,
}

impl Doors {
    pub(super) fn new(owner: u32) -> Self {
        Doors { owner, spare: spare(), closed_until: None, said: None, failures: 0 }
    }

    /// Whether anybody is let in now.
    pub(super) fn are_open(&mut self) -> bool {
        if self.closed_until.is_some_and(|until| Instant::now() >= until) {
            self.closed_until = None;
            self.spare = self.spare.take().or_else(spare);
        }
        self.closed_until.is_none()
    }

    /// When they open again.
    pub(super) fn closed_until(&self) -> Option<Instant> {
        self.closed_until
    }

    /// Handles that nobody could be let in. It is said now and then, with `what` had failed.
    pub(super) fn handle_failure(&mut self, what: &str, error: &io::Error) {
        let now = Instant::now();
        // A peer that was gone again costs nothing: the next one may fare better.
        if is_exhausted(error) {
            self.closed_until = Some(now + PAUSE);
        }
        self.failures += 1;
        if self.said.is_none_or(|said| now >= said + LINE) {
            self.said = Some(now);
            let times = std::mem::take(&mut self.failures);
            tracing::warn!("cannot take a connection {what}, {times} times: {error}");
        }
    }

    /// Lets in who stands before this socket, if it is the owner: the strangers before it are let go.
    pub(super) fn admit_owner(&mut self, listener: impl AsFd) -> Option<UnixStream> {
        for _ in 0..LOOKED_AT_MAX {
            drop(self.spare.take());
            let accepted = accept_with(&listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
            let stream: OwnedFd = accepted.ok()?;
            if socket_peercred(&stream).is_ok_and(|peer| peer.uid.as_raw() == self.owner) {
                return UnixStream::from_std(stream.into()).ok();
            }
            drop(stream);
            self.spare = spare();
        }
        None
    }
}

/// Whether there is no descriptor, or no memory for one.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// As many descriptors as the kernel lets the daemon have; how many that are. Each starter gets the limits of
/// its user's session.
pub(super) fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_close_where_there_is_no_descriptor_and_say_so_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let mut doors = Doors::new(0);
            doors.handle_failure("here", &io::Error::from(Errno::CONNABORTED));
            assert!(doors.are_open());
            for _ in 0..100 {
                doors.handle_failure("here", &io::Error::from(Errno::MFILE));
            }
            assert!(!doors.are_open() && doors.failures == 100, "said once");
            tokio::time::sleep_until(doors.closed_until().expect("they are closed")).await;
            assert!(doors.are_open() && doors.closed_until().is_none());
        });
    }
}
