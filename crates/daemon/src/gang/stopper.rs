//! Stops a job by signals, where no cgroup can be made: all that descends from its starter gets SIGSTOP.
//!
//! ```text
//! sweep: look at all descendants -> who runs gets SIGSTOP and is noted -> again, until nobody new runs (somebody may just have forked)
//! thaw:  SIGCONT to those noted, and to nobody else
//! ```
//!
//! - Who was stopped already (by a user, a debugger) is not noted, and stays as he is.
//! - A noted process is held by its pidfd: a number that the kernel gives to somebody else is nobody's news.
//! - Somebody else's SIGCONT lets a process escape; while the job stands still it is swept again, every [`GUARD_NS`].
//! - If the daemon stops right here, the starter sends SIGCONT to all (`tutti_node::starter`).
//!
//! What it cannot do: a SIGSTOP that a user sends to one whom we have stopped already is lost with our SIGCONT; parents that ask for stops
//! of their children hear of ours; whether the job sleeps is not known, so it keeps its slices.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tutti_node::descendants;

use super::freezer::{LOOK_NS, LOOK_NS_MAX};

/// Passes of a sweep: a program that forks faster than it is stopped is looked at again later.
const PASSES_MAX: u32 = 8;
/// Between two looks for somebody who has escaped.
const GUARD_NS: u64 = 20_000_000;

#[derive(Debug)]
pub(super) struct Stopper {
    starter: Pid,
    stopped: HashMap<Pid, OwnedFd>,
    freezing: bool,
    frozen: bool,
    asked_ns: u64,
    look_ns: u64,
    pause_ns: u64,
    guard_ns: u64,
}

impl Stopper {
    /// For the job of which this process is a rank: its parent is the starter. None when it is dead.
    pub(super) fn of_rank(rank: Pid) -> Option<Self> {
        let starter = Pid::from_raw(about(rank)?.1)?;
        Some(Stopper {
            starter,
            stopped: HashMap::new(),
            freezing: false,
            frozen: false,
            asked_ns: 0,
            look_ns: 0,
            pause_ns: LOOK_NS,
            guard_ns: 0,
        })
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        (self.freezing, self.frozen) = (true, false);
        (self.asked_ns, self.pause_ns, self.look_ns) = (now_ns, LOOK_NS, now_ns + LOOK_NS);
        self.sweep();
    }

    pub(super) fn thaw(&mut self) {
        (self.freezing, self.frozen) = (false, false);
        for pidfd in std::mem::take(&mut self.stopped).values() {
            let _ = pidfd_send_signal(pidfd, Signal::CONT);
        }
    }

    pub(super) fn is_freezing(&self) -> bool {
        self.freezing
    }

    pub(super) fn asked_ns(&self) -> u64 {
        self.asked_ns
    }

    pub(super) fn look_ns(&self) -> u64 {
        self.look_ns
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        if !self.freezing {
            if self.frozen && now_ns >= self.guard_ns {
                self.guard_ns = now_ns + GUARD_NS;
                self.sweep();
            }
            return false;
        }
        if self.sweep() {
            (self.freezing, self.frozen, self.guard_ns) = (false, true, now_ns + GUARD_NS);
        } else if now_ns >= self.look_ns {
            self.pause_ns = (self.pause_ns * 2).min(LOOK_NS_MAX);
            self.look_ns = now_ns + self.pause_ns;
        }
        self.frozen
    }

    /// Stops who runs; `true` when nobody does any more.
    fn sweep(&mut self) -> bool {
        for _ in 0..PASSES_MAX {
            let (mut fresh, mut moves) = (false, false);
            for pid in descendants::all_of(self.starter) {
                let Some((state, _)) = about(pid) else { continue };
                if b"TtZXx".contains(&state) {
                    continue;
                }
                moves = true;
                if let Some(pidfd) = self.stopped.get(&pid)
                    && pidfd_send_signal(pidfd, Signal::STOP).is_ok()
                {
                    continue;
                }
                // What has its number by now may be nobody of ours: it is, if it still descends from the starter at the next pass.
                if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
                    fresh = true;
                    if about(pid).is_some() && pidfd_send_signal(&pidfd, Signal::STOP).is_ok() {
                        self.stopped.insert(pid, pidfd);
                    }
                }
            }
            if !fresh {
                return !moves;
            }
        }
        false
    }
}

/// State and parent of a process; none when there is none.
fn about(pid: Pid) -> Option<(u8, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // 17 (name) S 1 ...: the name may hold anything, the last parenthesis ends it.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((*fields.next()?.as_bytes().first()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests;
