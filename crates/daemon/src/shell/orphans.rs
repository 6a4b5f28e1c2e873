//! Processes that the kernel gives to the daemon: it is the subreaper of what its starters leave behind when
//! they die.
//!
//! ```text
//! SIGCHLD -> at most every PAUSE: all children -> ours (a starter, until somebody has its status): left alone
//!                                              -> any other: killed if it lives, its status taken when it is dead
//! ```
//!
//! While a starter lives it adopts what its ranks leave, and ends it. So what the daemon adopts belongs to a
//! part whose starter is dead, and that part is over. What happens if it stops right here: the next look
//! finds the same children.
//!
//! A starter's status is taken by whoever holds its `Child`. It is one of [`Wards`] from its start, in the
//! thread that starts all, until then; looks are in that thread too, so no child of ours is ever taken for
//! somebody else's.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal, waitid,
};
use tutti_os::descendants;
use tutti_os::stat::Stat;

/// Between two looks: orphans may die by the thousand, and each says so.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// So many looks before the daemon ends.
pub(super) const LAST_LOOKS: u32 = 100;

/// Children whose status somebody takes.
#[derive(Clone, Debug)]
pub(super) struct Wards {
    pids: Arc<Mutex<HashSet<u32>>>,
    /// All that we adopt is what our starters leave.
    kills: bool,
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
        self.pids().insert(pid);
    }

    /// Its status has been taken: the number is anybody's.
    pub(super) fn remove(&self, pid: u32) {
        self.pids().remove(&pid);
    }

    fn pids(&self) -> MutexGuard<'_, HashSet<u32>> {
        // Nothing that could panic is done with it.
        self.pids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills adopted children that live, and takes the status of dead ones. `true`: some were killed, and are
    /// to be looked at again.
    pub(super) fn end_orphans(&self) -> bool {
        let mut any = false;
        for pid in descendants::children_of(getpid()) {
            if self.pids().contains(&(pid.as_raw_nonzero().get() as u32)) {
                continue;
            }
            match Stat::of(pid) {
                Some(stat) if stat.is_dead() => {
                    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
                }
                Some(_) if self.kills => {
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
