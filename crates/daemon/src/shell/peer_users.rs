//! Whom the kernel names for the other end of a local socket, and whose account that is.
//!
//! A user may have more uids than one: a range of `/etc/subuid` that `newuidmap` gives it in a namespace of
//! users of its own. It has them from its keeper, and one share: its jobs under all of them have what the
//! account has together.
//!
//! | a peer | its account |
//! |---|---|
//! | is in a namespace of users inside of ours, which a user has made | that user, by the kernel's word |
//! | has a uid of a range in `/etc/subuid`, wherever it is | the account of that range |
//! | has neither | its own uid |
//!
//! Namespaces that root has made are the keeper's, and so are their users. Called by the loop for each
//! connection: `/etc/subuid` is read when it is another file than before.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::net::UnixStream;
use tutti_os::namespace_owner;
use tutti_os::stat::{Stat, owner};
use tutti_shm::users::{is_one_user, is_own_user};

use crate::accounts::{self, group_of, number_of};
use crate::message::{Account, User};

/// The machine's own list of uids that belong to other accounts.
const RANGES: &str = "/etc/subuid";
/// Accounts are inside of accounts so deep at most.
const NESTED_MAX: u32 = 8;

/// The accounts of uids that are none.
#[derive(Debug, Default)]
pub(super) struct PeerUsers {
    /// Version of the list when it was read.
    version: Option<(u64, i64, i64, u64)>,
    ranges: Vec<(Range<u64>, u32)>,
}

impl PeerUsers {
    /// The user at the other end, and its process where that is seen from here.
    ///
    /// # Errors
    /// When the kernel does not tell, or its number may be any user's.
    pub(super) fn identify(&mut self, stream: &UnixStream) -> io::Result<(User, Option<Pid>)> {
        let peer = stream.peer_cred()?;
        let pid = peer.pid().and_then(Pid::from_raw);
        if !is_one_user(peer.uid()) && !is_own_user(peer.uid(), peer.pid().unwrap_or(0)) {
            return Err(io::Error::other(format!(
                "user {} has no number in this daemon's namespace of users, so that it may be anybody",
                peer.uid()
            )));
        }
        let maker = pid.filter(|_| peer.uid() != 0).and_then(namespace_owner).filter(|maker| *maker != 0);
        let owner = self.account_of(maker.unwrap_or(peer.uid()));
        let owner =
            (owner != peer.uid()).then(|| Account { uid: owner, gid: group_of(owner).unwrap_or(peer.gid()) });
        Ok((User { owner, ..User::new(peer.uid(), peer.gid()) }, pid))
    }

    /// The account whose uid this is.
    fn account_of(&mut self, uid: u32) -> u32 {
        self.refresh();
        let owner = |uid: u32| {
            let ranges = self.ranges.iter();
            ranges.filter(|(range, _)| range.contains(&u64::from(uid))).map(|(_, owner)| *owner).next()
        };
        let mut account = uid;
        for _ in 0..NESTED_MAX {
            match owner(account).filter(|owner| *owner != account && *owner != 0) {
                Some(owner) => account = owner,
                None => break,
            }
        }
        account
    }

    fn refresh(&mut self) {
        let found = std::fs::metadata(RANGES).ok();
        let version = found.map(|found| (found.ino(), found.mtime(), found.mtime_nsec(), found.len()));
        if std::mem::replace(&mut self.version, version) != version {
            self.ranges = parse(&accounts::list(RANGES).unwrap_or_default(), number_of);
        }
    }
}

/// `NAME:FIRST:COUNT`, a line each; a number is a name too.
fn parse(list: &str, number_of: impl Fn(&str) -> Option<u32>) -> Vec<(Range<u64>, u32)> {
    let range = |line: &str| {
        let mut fields = line.trim().split(':');
        let owner = fields.next().filter(|name| !name.is_empty())?;
        let (first, count): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let owner = number_of(owner).or_else(|| owner.parse().ok())?;
        let first = u64::from(first);
        Some((first..first + u64::from(count), owner))
    };
    list.lines().filter_map(range).collect()
}

/// The process that has connected, and no other one that has its number later.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerProcess {
    pid: Pid,
    uid: u32,
    /// When it was started, in clock ticks since boot.
    since: u64,
}

impl PeerProcess {
    /// The process at the other end, of this user. None: it has ended, or is not seen from here.
    pub(super) fn of(stream: &UnixStream, pid: Option<Pid>, uid: u32) -> Option<Self> {
        let pidfd = tutti_os::peer_pidfd(stream.as_fd(), pid?, uid).ok()?;
        let process = PeerProcess { pid: pid?, uid, since: Stat::of(pid?)?.since };
        // While it lives its number is its own.
        let is_alive = tutti_os::look(&mut [PollFd::new(&pidfd, PollFlags::IN)]) == Ok(0);
        is_alive.then_some(process)
    }

    /// Returns the number of the process, and when it was started.
    pub(super) fn number(&self) -> (u32, u64) {
        (self.pid.as_raw_nonzero().get() as u32, self.since)
    }

    /// Whether the process stands still; none: it is gone.
    pub(super) fn is_stopped(&self) -> Option<bool> {
        self.is_it().map(|stat| stat.is_stopped())
    }

    /// Lets it go on, if it is still there and that user's.
    pub(super) fn resume(&self) {
        let Ok(pidfd) = pidfd_open(self.pid, PidfdFlags::empty()) else { return };
        // What the descriptor is of was there before this look.
        if self.is_it().is_some() && owner(self.pid) == Some(self.uid) {
            let _ = pidfd_send_signal(&pidfd, Signal::CONT);
        }
    }

    fn is_it(&self) -> Option<Stat> {
        Stat::of(self.pid).filter(|stat| stat.since == self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subordinate_uids_are_their_accounts() {
        let list = "alice:100000:65536\n1001:165536:10\nbroken\n:1:2\nbob:x:3\nnobody-here:5:6\n\
            dock:300000:4294967295\nalice:400000:1\n";
        let number =
            |name: &str| ["alice", "dock"].iter().position(|known| *known == name).map(|at| at as u32 + 1000);
        let mut users = PeerUsers { version: None, ranges: parse(list, number) };
        users.refresh();
        users.ranges = parse(list, number);
        let accounts =
            [99_999, 100_000, 165_535, 165_545, 165_546, 300_000, u32::MAX].map(|uid| users.account_of(uid));
        assert_eq!(accounts, [99_999, 1000, 1000, 1001, 165_546, 1001, 1001]);
    }

    #[test]
    fn subordinate_uids_of_subordinate_accounts_come_to_an_end() {
        let mut users = PeerUsers::default();
        users.refresh();
        users.ranges = vec![(10..20, 30), (30..40, 10), (50..60, 0), (70..80, 75)];
        for uid in [10, 30, 50, 75] {
            users.account_of(uid);
        }
        assert_eq!((users.account_of(50), users.account_of(71)), (50, 75), "root's are the keeper's");
    }

    #[test]
    fn process_that_has_connected_is_resumed_and_no_other_with_its_number() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let uid = rustix::process::geteuid().as_raw();
        let process = PeerProcess { pid, uid, since: Stat::of(pid).unwrap().since };
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        tutti_testkit::await_that("it is stopped", || process.is_stopped() == Some(true));
        let earlier = PeerProcess { since: process.since - 1, ..process };
        let others = PeerProcess { uid: uid + 1, ..process };
        [earlier, others].iter().for_each(PeerProcess::resume);
        assert_eq!((earlier.is_stopped(), process.is_stopped()), (None, Some(true)));
        process.resume();
        tutti_testkit::await_that("it runs", || process.is_stopped() == Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
