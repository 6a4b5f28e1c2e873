//! The job is frozen: by a key, for a user, for a snapshot, and while it is not its turn.

use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::Starter;
use crate::readiness::now_ns;
use crate::regions::Regions;
use tutti_os::descendants;
use tutti_protocol::wire::Report;

/// A suspension waits so long for ranks that access files that they have locked. A call of the kernel moves
/// 4 MiB at most, which takes some milliseconds; the starter hears nobody meanwhile.
const FILE_LOCKS_NS: u64 = 20_000_000;
/// Between two looks at them.
const FILE_LOCKS_POLL: Duration = Duration::from_micros(500);

impl Starter {
    /// A key may have stopped rank 0 at its terminal. Where there is no cgroup, SIGSTOP is the daemon's way
    /// to end a turn.
    pub(super) fn poll_rank_stop(&mut self) {
        let watched = self.parts.terminal.is_some() && !self.frozen;
        let Some(pid) = self.parts.ranks.first_pid().filter(|_| watched) else { return };
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let Ok(Some(stopped)) = waitid(WaitId::Pid(pid), options) else { return };
        if self.parts.cgroup.is_some() || stopped.stopping_signal() != Some(libc::SIGSTOP) {
            self.report(&Report::Stopped);
        }
    }

    /// The job is suspended for a user. No rank takes a lock of a file with it, if it can be helped.
    pub(super) fn suspend(&mut self) {
        (self.suspended, self.owes_continue) = (true, false);
        self.close_file_locks();
        self.settle_freeze();
        self.end_idleness();
    }

    /// The job runs again; so does rank 0 where a key has stopped it.
    pub(super) fn resume(&mut self) {
        (self.suspended, self.owes_continue) = (false, true);
        self.settle_freeze();
        self.continue_rank();
    }

    /// Continues rank 0 as soon as it is frozen no more: before, SIGCONT would discard a key that stops it.
    fn continue_rank(&mut self) {
        if self.frozen || !std::mem::take(&mut self.owes_continue) {
            return;
        }
        if let Some(pid) = self.parts.ranks.first_pid().filter(|_| self.parts.terminal.is_some()) {
            let _ = kill_process_group(pid, Signal::CONT);
        }
    }

    /// No rank gets a lock of a file until the job is resumed. What they have they give back, unless that
    /// takes too long: then somebody may wait for them as long as the job is suspended, and it is said.
    fn close_file_locks(&mut self) {
        let Some(segment) = &self.parts.segment else { return };
        segment.close_file_locks(true);
        let end_ns = now_ns() + FILE_LOCKS_NS;
        let mut holders = segment.file_lock_holders();
        while !holders.is_empty() && now_ns() < end_ns {
            std::thread::sleep(FILE_LOCKS_POLL);
            holders = segment.file_lock_holders();
        }
        let Some(first) = holders.first() else { return };
        let others = match holders.len() - 1 {
            0 => String::new(),
            1 => " (and 1 more on its node)".into(),
            more => format!(" (and {more} more on its node)"),
        };
        self.report(&Report::Warning(format!(
            "the job is suspended while rank {first}{others} accesses a file that it has locked: who wants the \
             same range waits until the job is resumed"
        )));
    }

    /// A snapshot freezes the job no more: what a user and a key have wanted meanwhile is done.
    pub(super) fn settle_after_hold(&mut self) {
        self.settle_freeze();
        self.continue_rank();
        self.poll_rank_stop();
    }

    /// A daemon is gone: its turns are over.
    pub(super) fn end_turn(&mut self) {
        self.context = None;
        self.parts.pages.end_turn();
        match &self.parts.cgroup {
            Some(cgroup) => cgroup.thaw_outer(),
            None if self.frozen => {}
            None => descendants::signal_all(self.server(), Signal::CONT),
        }
    }

    /// The process that serves regions for other jobs goes on.
    fn server(&self) -> Option<Pid> {
        self.parts.regions.as_ref().map(Regions::pid)
    }

    /// The job is frozen while a user has suspended it, or for a snapshot.
    pub(super) fn settle_freeze(&mut self) {
        if let Some(segment) = self.parts.segment.as_ref().filter(|_| !self.suspended) {
            segment.close_file_locks(false);
        }
        self.freeze(self.suspended || self.hold.is_some());
    }

    fn freeze(&mut self, frozen: bool) {
        if frozen == self.frozen {
            return;
        }
        self.frozen = frozen;
        self.parts.pages.set_suspended(frozen);
        let by_cgroup = self.parts.cgroup.as_ref().is_some_and(|cgroup| cgroup.freeze(frozen));
        if !by_cgroup {
            descendants::signal_all(self.server(), if frozen { Signal::STOP } else { Signal::CONT });
        }
    }
}
