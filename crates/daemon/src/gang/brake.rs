//! How a job is stopped and let go: its cgroup, or signals where there is none.

use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::process::Pid;

use super::freezer::Freezer;
use super::stopper::Stopper;

#[derive(Debug)]
pub(super) enum Brake {
    Cgroup(Freezer),
    Signals(Stopper),
}

impl Brake {
    /// Of a job of this user whose cgroup would be there, and whose ranks on this node are these.
    pub(super) fn of(cgroup: Option<&Path>, ranks: &[u32], user: u32) -> Option<Self> {
        let freezer = cgroup.and_then(|path| Freezer::open(path).ok()).map(Brake::Cgroup);
        freezer.or_else(|| {
            let mut pids = ranks.iter().filter_map(|pid| Pid::from_raw(*pid as i32));
            pids.find_map(|rank| Stopper::of_rank(rank, user)).map(Brake::Signals)
        })
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        match self {
            Brake::Cgroup(freezer) => freezer.freeze(now_ns),
            Brake::Signals(stopper) => stopper.freeze(now_ns),
        }
    }

    pub(super) fn thaw(&mut self) {
        match self {
            Brake::Cgroup(freezer) => freezer.thaw(),
            Brake::Signals(stopper) => stopper.thaw(),
        }
    }

    /// It has been told to freeze and has not said that it has.
    pub(super) fn is_freezing(&self) -> bool {
        match self {
            Brake::Cgroup(freezer) => freezer.is_freezing(),
            Brake::Signals(stopper) => stopper.is_freezing(),
        }
    }

    /// When it was last told to freeze.
    pub(super) fn asked_ns(&self) -> u64 {
        match self {
            Brake::Cgroup(freezer) => freezer.asked_ns(),
            Brake::Signals(stopper) => stopper.asked_ns(),
        }
    }

    /// When to look again.
    pub(super) fn look_ns(&self) -> u64 {
        match self {
            Brake::Cgroup(freezer) => freezer.look_ns(),
            Brake::Signals(stopper) => stopper.look_ns(),
        }
    }

    /// What tells, late, of a change, if anything does.
    pub(super) fn events(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Brake::Cgroup(freezer) => Some(freezer.events()),
            Brake::Signals(_) => None,
        }
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        match self {
            Brake::Cgroup(freezer) => freezer.try_confirm(now_ns),
            Brake::Signals(stopper) => stopper.try_confirm(now_ns),
        }
    }

    /// Whether its processes have slept since the last look; none: it stands still, or nobody knows.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<bool> {
        match self {
            Brake::Cgroup(freezer) => freezer.try_activity(now_ns),
            Brake::Signals(stopper) => stopper.try_activity(now_ns),
        }
    }
}
