//! Stops a job by signals, where no cgroup can be made: all that descends from its starter gets SIGSTOP.
//!
//! ```text
//! sweep: look at all descendants -> who runs gets SIGSTOP and is noted -> again, until nobody new runs (somebody may just have forked)
//! thaw:  SIGCONT to those noted, and to nobody else
//!
//! up to FEW processes and threads: the switch thread sweeps and thaws itself
//! more (a crowd):                  wish (stop or go, its number) -> errand: a thread of usual priority obeys the newest wish -> done (its number)
//! ```
//!
//! - Who is inside vfork cannot stop before its child has begun a program. If the child is stopped, both
//!   stand still.
//! - Who was stopped already (by a user, a debugger) is not noted, and stays as he is.
//! - A noted process is known by when it began, and signalled by its pidfd: a number that the kernel gives to
//!   somebody else is nobody's news.
//! - Somebody else's SIGCONT lets a process escape; while the job stands still it is swept again, every
//!   [`GUARD_NS`], a crowd more rarely.
//! - Processes of another user than the job's are left alone: who is a rank the job says itself, and root
//!   could stop anybody.
//! - The switch thread waits for no lock: where the errand is under way, it leaves its wish. A wish is obeyed
//!   also if it comes in the middle of the one before.
//! - If the daemon stops right here, the starter sends SIGCONT to all (`tutti_starter`).
//!
//! What it cannot do: a SIGSTOP that a user sends to one whom we have stopped already is lost with our
//! SIGCONT; parents that ask for stops of their children hear of ours. A crowd stands still when it has been
//! gone through, which takes as long as it is large.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tutti_os::descendants;
use tutti_os::stat::Stat;
use tutti_os::stat::{are_all_stopped, owner};

use super::cgroup_freezer::{ASLEEP_PART, Activity, THREADS_MAX};
use super::clock::now_ns;
use super::freeze_progress::FreezeProgress;
use super::worker::{Errand, Task, Worker};

/// Passes of a sweep: a program that forks faster than it is stopped is looked at again later.
const PASSES_MAX: u32 = 8;
/// Processes and threads of a job that the switch thread goes through itself: 2 ms at most.
const FEW: usize = 48;
/// Between two sweeps of a job that is being stopped, at first; then twice as long each time. Dearer than a
/// look at a cgroup.
const POLL_NS: u64 = 200_000;
/// Between two looks for somebody who has escaped.
const GUARD_NS: u64 = 20_000_000;
/// A crowd is looked at for them no more than this part of the time.
const GUARD_PART: u64 = 20;
/// Between two looks at who works: dearer than a look at a cgroup.
const ACTIVITY_NS: u64 = 20_000_000;

/// Processes that were stopped, and when each began: pids are used again, and descriptors for so many there
/// are not.
type Stopped = HashMap<Pid, u64>;

/// Processes of a job that are stopped, for whichever thread stops them.
#[derive(Debug)]
struct Crowd {
    starter: Pid,
    /// When it began: what has its number later has nothing to do with the job.
    since: Option<u64>,
    user: u32,
    /// Twice the number of the newest wish, and one more to stop. Writer: the switch thread.
    wanted: AtomicU64,
    /// The newest wish that was obeyed. Writer: the errand.
    done: AtomicU64,
    /// An errand is left that has not begun.
    left: AtomicBool,
    /// How many there were at the last sweep, and how long it took, in ns. Writer: the errand.
    count: AtomicUsize,
    took_ns: AtomicU64,
    stopped: Mutex<Stopped>,
}

impl Errand for Crowd {
    fn obey(&self) {
        self.left.store(false, Ordering::SeqCst);
        let mut stopped = self.lock();
        loop {
            let wanted = self.wanted.load(Ordering::SeqCst);
            let is_new = || self.wanted.load(Ordering::SeqCst) != wanted;
            let began_ns = now_ns();
            let is_done = if wanted & 1 == 1 {
                let all = || {
                    let all = if self.has_starter() { descendants::all_of(self.starter) } else { Vec::new() };
                    self.count.store(all.len(), Ordering::Relaxed);
                    Some(all)
                };
                let progress = self.sweep(&mut stopped, all, is_new);
                self.took_ns.store(now_ns().saturating_sub(began_ns), Ordering::Relaxed);
                progress == Some(true)
            } else {
                let_go(&mut stopped);
                true
            };
            if is_done {
                self.done.store(wanted, Ordering::SeqCst);
            }
            if !is_new() {
                return;
            }
        }
    }
}

impl Crowd {
    fn lock(&self) -> MutexGuard<'_, Stopped> {
        // Whatever is in it is stopped.
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_starter(&self) -> bool {
        self.since.is_some() && Stat::of(self.starter).map(|stat| stat.since) == self.since
    }

    /// Stops who runs; `true` when nobody does any more, none when there are too many or something else is
    /// wished.
    fn sweep(
        &self,
        stopped: &mut Stopped,
        all: impl Fn() -> Option<Vec<Pid>>,
        is_over: impl Fn() -> bool,
    ) -> Option<bool> {
        for _ in 0..PASSES_MAX {
            let (mut fresh, mut moves) = (false, false);
            let all = all()?;
            for &pid in &all {
                if is_over() {
                    return None;
                }
                let Some(stat) = Stat::of(pid) else { continue };
                // Threads go on where the main one has ended.
                let is_still = if stat.is_led_by_the_dead() {
                    are_all_stopped(pid)
                } else {
                    stat.is_stopped() || stat.is_dead()
                };
                if is_still || owner(pid) != Some(self.user) {
                    continue;
                }
                if descendants::is_server(&stat, pid, self.starter) {
                    // Other jobs' clients of the job's regions are answered.
                    continue;
                }
                // Before it is noted it may go on with a signal that somebody else has sent.
                if stopped.get(&pid) == Some(&stat.since) && descendants::is_held_by_child(&stat, pid, &all) {
                    continue;
                }
                moves = true;
                // What has its number by now may be nobody of ours: it is, if it still descends from the
                // starter at the next pass.
                if stopped.get(&pid) == Some(&stat.since) {
                    send(pid, stat.since, Signal::STOP);
                    continue;
                }
                fresh = true;
                if send(pid, stat.since, Signal::STOP) {
                    stopped.insert(pid, stat.since);
                }
            }
            if !fresh {
                return Some(!moves);
            }
        }
        Some(false)
    }
}

/// Lets those go on who were stopped, and nobody else.
fn let_go(stopped: &mut Stopped) {
    for (pid, since) in stopped.drain() {
        send(pid, since, Signal::CONT);
    }
}

/// A signal for this process, and for nobody who has its number by now.
fn send(pid: Pid, since: u64, signal: Signal) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    Stat::of(pid).is_some_and(|stat| stat.since == since) && pidfd_send_signal(&process, signal).is_ok()
}

#[derive(Debug)]
pub(super) struct Stopper {
    crowd: Arc<Crowd>,
    worker: Worker,
    /// Whether there were more than [`FEW`] when they were last to be stopped.
    is_crowd: bool,
    /// When somebody last looked who works, and what they had worked by then, in ns.
    seen: Option<(u64, u64)>,
    asleep: bool,
    progress: FreezeProgress,
    guard_ns: u64,
}

impl Stopper {
    /// For this user's job that descends from this starter.
    pub(super) fn new(starter: Pid, user: u32, worker: Worker) -> Self {
        let crowd = Crowd {
            starter,
            since: Stat::of(starter).map(|stat| stat.since),
            user,
            wanted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            left: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            took_ns: AtomicU64::new(0),
            stopped: Mutex::default(),
        };
        Stopper {
            crowd: Arc::new(crowd),
            worker,
            is_crowd: false,
            seen: None,
            asleep: false,
            progress: FreezeProgress::default(),
            guard_ns: 0,
        }
    }

    pub(super) fn freeze(&mut self, now_ns: u64) {
        self.progress.request(now_ns, POLL_NS);
        self.asleep = false;
        self.wanted(true);
        // It may have become smaller.
        self.is_crowd &= self.crowd.count.load(Ordering::Relaxed) > FEW;
        self.sweep();
    }

    pub(super) fn thaw(&mut self, now_ns: u64) {
        self.progress.end();
        if let Some((then_ns, _)) = &mut self.seen {
            *then_ns = (*then_ns + now_ns.saturating_sub(self.progress.requested_ns())).min(now_ns);
        }
        self.wanted(false);
        if !self.is_crowd
            && let Some(mut stopped) = self.try_lock()
        {
            return let_go(&mut stopped);
        }
        self.leave();
    }

    fn wanted(&self, stop: bool) {
        let number = (self.crowd.wanted.load(Ordering::Relaxed) >> 1) + 1;
        self.crowd.wanted.store(number << 1 | u64::from(stop), Ordering::SeqCst);
    }

    /// Locks the list of who was stopped, if no errand is under way or left.
    fn try_lock(&self) -> Option<MutexGuard<'_, Stopped>> {
        let stopped = self.crowd.stopped.try_lock().ok()?;
        (!self.crowd.left.load(Ordering::SeqCst)).then_some(stopped)
    }

    /// Another thread obeys the wish.
    fn leave(&self) {
        if !self.crowd.left.swap(true, Ordering::SeqCst) {
            self.worker.put(Task::Crowd(Arc::clone(&self.crowd) as _));
        }
    }

    /// `true`: all of them stand still by now.
    fn sweep(&mut self) -> bool {
        if !self.is_crowd {
            let few = || match self.crowd.has_starter() {
                true => descendants::some_of(self.crowd.starter, FEW),
                false => Some(Vec::new()),
            };
            let own = self.try_lock().map(|mut stopped| self.crowd.sweep(&mut stopped, few, || false));
            match own {
                Some(Some(progress)) => return progress,
                Some(None) => self.is_crowd = true,
                None => {}
            }
        }
        let is_done = self.crowd.done.load(Ordering::SeqCst) == self.crowd.wanted.load(Ordering::Relaxed);
        if !is_done {
            self.leave();
        }
        is_done
    }

    /// Whether there are more than the switch thread goes through.
    pub(super) fn is_crowd(&self) -> bool {
        self.is_crowd
    }

    pub(super) fn progress(&self) -> &FreezeProgress {
        &self.progress
    }

    /// Puts off the look, since nobody waits until all stand still: that is looked for after so long.
    pub(super) fn defer(&mut self, now_ns: u64, pause_ns: u64) {
        self.progress.defer(now_ns, pause_ns);
    }

    /// `true`: all of it has just been found to stand still.
    pub(super) fn try_confirm(&mut self, now_ns: u64) -> bool {
        if !self.progress.is_requested() {
            if self.progress.is_confirmed() && now_ns >= self.guard_ns {
                self.guard_ns = self.next_guard_ns(now_ns);
                if self.is_crowd {
                    self.leave();
                } else {
                    self.sweep();
                }
            }
            return false;
        }
        if self.sweep() {
            self.progress.confirm();
            self.guard_ns = self.next_guard_ns(now_ns);
        } else {
            self.progress.put_off(now_ns);
        }
        self.progress.is_confirmed()
    }

    fn next_guard_ns(&self, now_ns: u64) -> u64 {
        let took_ns = if self.is_crowd { self.crowd.took_ns.load(Ordering::Relaxed) } else { 0 };
        now_ns.saturating_add(GUARD_NS.max(took_ns.saturating_mul(GUARD_PART)))
    }

    /// All its threads sleep, as far as is known.
    pub(super) fn is_asleep(&self) -> bool {
        self.asleep
    }

    /// Measures the work of the job's processes since the last look; none: it stands still, or there is
    /// nothing to compare with.
    pub(super) fn try_activity(&mut self, now_ns: u64) -> Option<Activity> {
        if self.progress.is_held() {
            return None;
        }
        let (then_ns, then_worked_ns) = match self.seen {
            Some((then_ns, _)) if now_ns < then_ns + ACTIVITY_NS => return None,
            Some(seen) => seen,
            None => (now_ns, 0),
        };
        let (mut worked_ns, mut count, mut asleep) = (0, 0, true);
        // Looking at all of very many would take the time of others.
        let Some(all) = descendants::some_of(self.crowd.starter, THREADS_MAX) else {
            self.asleep = false;
            return Some(Activity { asleep: false, worked_ns: u64::MAX, wanted_ns: u64::MAX, passed_ns: 0 });
        };
        for pid in all {
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
        }
        let first = self.seen.replace((now_ns, worked_ns)).is_none();
        let passed_ns = now_ns.saturating_sub(then_ns);
        // Who has ended takes his time with him.
        let worked_ns = worked_ns.saturating_sub(then_worked_ns);
        self.asleep = !first && asleep && worked_ns <= passed_ns / ASLEEP_PART * count;
        (!first).then_some(Activity { asleep: self.asleep, worked_ns, wanted_ns: worked_ns, passed_ns })
    }
}

#[cfg(test)]
mod tests;
