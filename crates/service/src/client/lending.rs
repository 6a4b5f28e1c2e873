//! A client in a job lends the job of its service the rest of its own turns while it waits: by the word of
//! this node's daemon, which hears from here when it does.
//!
//! Most calls are answered before that is worth a word. Where no daemon is, or this process or the service is
//! in no job that takes turns, nobody hears: it is tried again now and then, as a daemon may be started anew.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use tutti_shm::published::far;

use crate::now_ns;

/// Calls that are answered within this time lend nothing.
const QUICK_NS: u64 = 100_000;
/// Whom nobody hears asks again after so long.
const AGAIN_NS: u64 = 1_000_000_000;

/// Words to the daemon.
#[derive(Debug)]
pub(super) enum Lending {
    /// Time before which nobody hears it.
    Unheard { until_ns: u64 },
    /// Connection with the daemon that hears whether this process waits.
    Heard { daemon: UnixStream, waits: bool },
}

impl Default for Lending {
    fn default() -> Self {
        Lending::Unheard { until_ns: 0 }
    }
}

impl Lending {
    /// Begins to wait for the service at the other end.
    pub(super) fn begin(&mut self, service: BorrowedFd<'_>) {
        if let Lending::Unheard { until_ns } = *self
            && now_ns() >= until_ns
        {
            *self = match far::lend(service) {
                Some(daemon) => Lending::Heard { daemon, waits: false },
                None => Lending::unheard(),
            };
        }
        self.say(true);
    }

    /// Ends the wait.
    pub(super) fn end(&mut self) {
        self.say(false);
    }

    /// When a client that begins to wait now is to say so; none: it has.
    pub(super) fn begins_ns(&self) -> Option<u64> {
        let soon_ns = now_ns().saturating_add(QUICK_NS);
        match *self {
            Lending::Unheard { until_ns } => Some(until_ns.max(soon_ns)),
            Lending::Heard { waits, .. } => (!waits).then_some(soon_ns),
        }
    }

    /// The connection with the daemon, on which nothing ever comes but its end.
    pub(super) fn daemon(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Lending::Unheard { .. } => None,
            Lending::Heard { daemon, .. } => Some(daemon.as_fd()),
        }
    }

    /// The daemon has ended, or does not want to hear.
    pub(super) fn lose(&mut self) {
        *self = Lending::unheard();
    }

    fn unheard() -> Self {
        Lending::Unheard { until_ns: now_ns().saturating_add(AGAIN_NS) }
    }

    fn say(&mut self, now_waits: bool) {
        if let Lending::Heard { daemon, waits } = self
            && *waits != now_waits
        {
            *waits = now_waits;
            if daemon.write_all(&[u8::from(now_waits)]).is_err() {
                *self = Lending::unheard();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn lending_sends_each_change_once_and_rests_without_a_daemon() {
        let (daemon, mut hears) = UnixStream::pair().unwrap();
        let (service, _server) = UnixStream::pair().unwrap();
        let mut lending = Lending::Heard { daemon, waits: false };
        for _ in 0..2 {
            assert!(lending.begins_ns().is_some());
            lending.begin(service.as_fd());
            assert_eq!(lending.begins_ns(), None);
            lending.end();
            lending.end();
        }
        let mut said = [9; 4];
        hears.read_exact(&mut said).unwrap();
        assert_eq!(said, [1, 0, 1, 0]);
        drop(hears);
        lending.begin(service.as_fd());
        assert!(matches!(lending, Lending::Unheard { until_ns } if lending.begins_ns() >= Some(until_ns)));
    }
}
