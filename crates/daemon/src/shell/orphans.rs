//! Processes that the kernel gives to the daemon: it is the subreaper of what its starters leave behind when
//! they die.
//!
//! ```text
//! SIGCHLD -> at most every PAUSE: all children -> ours (a starter, until somebody has its status): left alone
//!                                              -> ours, given up: its status taken when it is dead
//!                                              -> any other: killed if it lives, its status taken when it is dead
//! ```
//!
//! While a starter lives it adopts what its ranks leave, and ends it. So what the daemon adopts belongs to a
//! part whose starter is dead, and that part is over. What happens if it stops right here: the next look
//! finds the same children.
//!
//! A starter's status is taken by whoever holds its `Child`. It is one of [`Wards`] from its start, in the
//! thread that starts all, until then. One that is killed and does not die, since the kernel waits for a file
//! system of its user's, is given up after a while: nothing of the daemon's waits for it. Looks are in that
//! thread too, so no child of ours is ever taken for
//! somebody else's.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid,
};
use tutti_os::descendants;
use tutti_os::stat::Stat;

/// Between two looks: orphans may die by the thousand, and each says so.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Number of looks before the daemon ends.
pub(super) const LAST_LOOKS: u32 = 100;

/// Children whose status somebody takes.
#[derive(Clone, Debug)]
pub(super) struct Wards {
    pids: Arc<Mutex<Pids>>,
    /// All that we adopt is what our starters leave.
    kills: bool,
}

#[derive(Debug, Default)]
struct Pids {
    /// Children whose statuses are taken by others.
    awaited: HashSet<u32>,
    /// Children that were killed, and for which nobody waits any more.
    given_up: HashSet<u32>,
}

/// Time after which a process that was killed is dead, or is given up: the kernel may wait for a file system
/// of its user's for ever.
pub(super) const KILLED_MAX: Duration = Duration::from_secs(5);

/// Waits for the end of a process; `false`: it lives on.
pub(super) fn await_end_blocking(process: impl AsFd, most: Duration) -> bool {
    let end = Instant::now() + most;
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    loop {
        let rest = end.saturating_duration_since(Instant::now());
        let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
        match poll(&mut ended, Some(&rest)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => return ready != Ok(0),
        }
    }
}

impl Wards {
    /// Before any starter is there. Whoever has children already, from before it became this program, or is
    /// the first process of a container, may adopt what is no job's: its status is taken when it is dead, and
    /// it is left alone until then.
    pub(super) fn new() -> Self {
        let is_init = getpid() == Pid::INIT;
        Wards { pids: Arc::default(), kills: !is_init && descendants::children_of(getpid()).is_empty() }
    }

    /// Started by us.
    pub(super) fn add(&self, pid: u32) {
        self.pids().awaited.insert(pid);
    }

    /// Removes a child whose status has been taken: the number is anybody's.
    pub(super) fn remove(&self, pid: u32) {
        self.pids().awaited.remove(&pid);
    }

    /// Killed, and not dead: its status is taken here, whenever that is.
    pub(super) fn give_up(&self, pid: u32) {
        let mut pids = self.pids();
        pids.awaited.remove(&pid);
        pids.given_up.insert(pid);
    }

    fn pids(&self) -> MutexGuard<'_, Pids> {
        // Nothing that could panic is done with it.
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills adopted children that live, and takes the status of dead ones. `true`: some were killed, and are
    /// to be looked at again.
    pub(super) fn end_orphans(&self) -> bool {
        self.end_among(&descendants::children_of(getpid()))
    }

    /// The same with these children. A test has a child of its own; the process's belong to all tests that
    /// run in it.
    fn end_among(&self, children: &[Pid]) -> bool {
        let mut any = false;
        for &pid in children {
            let number = pid.as_raw_nonzero().get() as u32;
            if self.pids().awaited.contains(&number) {
                continue;
            }
            match Stat::of(pid) {
                Some(stat) if stat.is_dead() => {
                    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
                    self.pids().given_up.remove(&number);
                }
                Some(_) if self.kills && !self.pids().given_up.contains(&number) => {
                    any = true;
                    kill(pid);
                }
                _ => {}
            }
        }
        any
    }
}

/// Kills a child of ours. One that is nobody's any more, and whose number somebody else has, is no child.
fn kill(pid: Pid) {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if Stat::of(pid).is_some_and(|stat| stat.parent == getpid().as_raw_nonzero().get()) {
        let _ = pidfd_send_signal(&process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn child_that_does_not_die_is_given_up_and_its_status_taken_later() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let number = child.id();
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let wards = Wards { pids: Arc::default(), kills: true };
        wards.add(number);
        assert!(!await_end_blocking(&process, Duration::from_millis(1)), "it lives");
        wards.give_up(number);
        assert!(!wards.end_among(&[pid]), "it is not killed again and again");
        assert!(Stat::of(pid).is_some_and(|stat| !stat.is_dead()));
        pidfd_send_signal(&process, Signal::KILL).unwrap();
        assert!(await_end_blocking(&process, Duration::from_secs(60)));
        wards.end_among(&[pid]);
        assert_eq!(Stat::of(pid), None, "its status is taken");
        assert!(wards.pids().given_up.is_empty() && child.wait().is_err());
    }
}
