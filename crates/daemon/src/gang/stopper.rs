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
//! - Processes of another user than the job's are left alone: who is a rank the job says itself, and root could stop anybody.
//! - If the daemon stops right here, the starter sends SIGCONT to all (`tutti_node::starter`).
//!
//! What it cannot do: a SIGSTOP that a user sends to one whom we have stopped already is lost with our SIGCONT; parents that ask for stops
//! of their children hear of ours.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tutti_node::descendants;
use tutti_node::page::{owner, starter_of};
use tutti_node::stat::Stat;

use super::freezer::{ASLEEP_PART, Activity, THREADS_MAX};
use super::standstill::Standstill;

/// Passes of a sweep: a program that forks faster than it is stopped is looked at again later.
const PASSES_MAX: u32 = 8;
/// Between two sweeps of a job that is being stopped, at first; then twice as long each time. Dearer than a look at a cgroup.
const LOOK_NS: u64 = 200_000;
/// Between two looks for somebody who has escaped.
const GUARD_NS: u64 = 20_000_000;
/// Between two looks at who works: dearer than a look at a cgroup.
const ACTIVITY_NS: u64 = 20_000_000;

#[derive(Debug)]
pub(super) struct Stopper {
    starter: Pid,
    user: u32,
    /// When somebody last looked who works, and what they had worked by then, in ns.
    seen: Option<(u64, u64)>,
    asleep: bool,
    stopped: HashMap<Pid, OwnedFd>,
    still: Standstill,
    guard_ns: u64,
}

impl Stopper {
    /// For this user's job of which this process is a rank: its parent is the starter. None when it is dead, or another user's.
    pub(super) fn of_rank(rank: Pid, user: u32) -> Option<Self> {
        Some(Stopper {
            starter: starter_of(rank, user)?,
            user,
            seen: None,
            asleep: false,
            stopped: HashMap::new(),
            still: Standstill::default(),
            guard_ns: 0,
        })
    }

    pub(super) fn starter(&self) -> Pid {
        self.starter
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        self.still.ask(now_ns, LOOK_NS);
        self.asleep = false;
        self.sweep();
    }

    pub(super) fn thaw(&mut self, now_ns: u64) {
        self.still.end();
        if let Some((then_ns, _)) = &mut self.seen {
            *then_ns = (*then_ns + now_ns.saturating_sub(self.still.asked_ns())).min(now_ns);
        }
        for pidfd in std::mem::take(&mut self.stopped).values() {
            let _ = pidfd_send_signal(pidfd, Signal::CONT);
        }
    }

    pub(super) fn still(&self) -> &Standstill {
        &self.still
    }

    /// Nobody waits until all stand still: that is looked for after so long.
    pub(super) fn calm(&mut self, now_ns: u64, pause_ns: u64) {
        self.still.calm(now_ns, pause_ns);
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        if !self.still.is_asked() {
            if self.still.is_confirmed() && now_ns >= self.guard_ns {
                self.guard_ns = now_ns + GUARD_NS;
                self.sweep();
            }
            return false;
        }
        if self.sweep() {
            self.still.confirm();
            self.guard_ns = now_ns + GUARD_NS;
        } else {
            self.still.put_off(now_ns);
        }
        self.still.is_confirmed()
    }

    /// All its threads sleep, as far as is known.
    pub(super) fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// What its processes have done since the last look; none: it stands still, or there is nothing to compare with.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<Activity> {
        if self.still.is_still() {
            return None;
        }
        let (then_ns, then_worked_ns) = match self.seen {
            Some((then_ns, _)) if now_ns < then_ns + ACTIVITY_NS => return None,
            Some(seen) => seen,
            None => (now_ns, 0),
        };
        let (mut worked_ns, mut count, mut asleep) = (0, 0, true);
        for pid in descendants::all_of(self.starter) {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) else {
                continue;
            };
            for thread in threads.flatten() {
                let Some(stat) = Stat::read(thread.path().join("stat")) else { continue };
                asleep &= !stat.is_busy();
                let spent = std::fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                worked_ns += spent.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
                count += 1;
            }
            // Looking at all of them would take the time of others.
            if count > THREADS_MAX as u64 {
                self.asleep = false;
                return Some(Activity {
                    asleep: false,
                    worked_ns: u64::MAX,
                    wanted_ns: u64::MAX,
                    passed_ns: 0,
                });
            }
        }
        let first = self.seen.replace((now_ns, worked_ns)).is_none();
        let passed_ns = now_ns.saturating_sub(then_ns);
        // Who has ended takes his time with him.
        let worked_ns = worked_ns.saturating_sub(then_worked_ns);
        self.asleep = !first && asleep && worked_ns <= passed_ns / ASLEEP_PART * count;
        (!first).then_some(Activity { asleep: self.asleep, worked_ns, wanted_ns: worked_ns, passed_ns })
    }

    /// Stops who runs; `true` when nobody does any more.
    fn sweep(&mut self) -> bool {
        for _ in 0..PASSES_MAX {
            let (mut fresh, mut moves) = (false, false);
            for pid in descendants::all_of(self.starter) {
                let Some(stat) = Stat::of(pid) else { continue };
                if stat.is_stopped() || stat.is_dead() || owner(pid) != Some(self.user) {
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
                    if owner(pid) == Some(self.user) && pidfd_send_signal(&pidfd, Signal::STOP).is_ok() {
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

#[cfg(test)]
mod tests;
