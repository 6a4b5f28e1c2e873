//! Whether anything of the job works on this node (`--on-idle suspend=TIME`). Only for jobs whose user asks.
//!
//! ```text
//! every window (a tenth of TIME, 0.25 to 10 s): what all processes have worked, and who waits for a disk
//!     it is suspended      -> what was counted is void; no longer idle
//!     others have its turn -> the window goes on
//!     a window with work   -> the count begins anew; no longer idle
//!     windows of TIME      -> Idle(true)
//! ```
//!
//! A process that waits for a message sleeps after a while and wakes up now and then, so a window counts as
//! one without work if all processes together have had at most a tick each, or a hundredth of a core, and
//! none has had more than one tick above that. Many that sleep do not hide one that computes, or that gets
//! few ticks since others want the cores. Time in which the job was frozen for others counts for nothing. A
//! process that waits for a file works. A part that waits for parallel slots, or is inside a region, is never
//! idle.

use std::collections::BTreeMap;

use rustix::process::{Pid, getpid};
use tutti_os::cgroup::Cgroup;
use tutti_os::descendants;
use tutti_os::stat::Stat;
use tutti_protocol::wire::Report;

use super::Starter;
use crate::readiness::now_ns;

/// Bounds of a window.
const WINDOW_NS: (u64, u64) = (250_000_000, 10_000_000_000);
/// Clock ticks of the kernel's accounts are so long (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;
/// A process may work one part in so many of a window.
const WORK_PART: u64 = 100;
/// A job with more processes and threads than this is never idle: nobody looks at them all.
const PROCESSES_MAX: usize = 1 << 12;

/// A process's times in programs and in the kernel are rounded apart.
const ROUNDED_TICKS: u64 = 1;

/// Measurement at the end of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    at_ns: u64,
    /// Time that the job has stood still for others by then.
    frozen_ns: u64,
    /// Work of each of the job's processes, in ticks, by its pid and when it was started.
    ticks: BTreeMap<(i32, u64), u64>,
    /// One waits for a disk, or for parallel slots; or there are too many to look at.
    is_busy: bool,
}

/// Watch over the job's idleness, with what was seen so far.
#[derive(Debug)]
pub(super) struct IdleWatch {
    limit_ns: u64,
    due_ns: u64,
    last: Option<Sample>,
    idle_ns: u64,
    is_reported: bool,
}

impl IdleWatch {
    /// Begins to look at a job that is idle after so long.
    pub(super) fn from(limit_ms: u64, now_ns: u64) -> Self {
        let limit_ns = limit_ms.saturating_mul(1_000_000);
        let mut watch = IdleWatch { limit_ns, due_ns: 0, last: None, idle_ns: 0, is_reported: false };
        watch.due_ns = now_ns + watch.window_ns();
        watch
    }

    /// When to look next.
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    fn window_ns(&self) -> u64 {
        (self.limit_ns / 10).clamp(WINDOW_NS.0, WINDOW_NS.1)
    }

    /// A window is over; none: the job is suspended. What is to be reported, if that is new.
    fn take(&mut self, sample: Option<Sample>, now_ns: u64) -> Option<bool> {
        self.due_ns = now_ns + self.window_ns();
        let before = std::mem::replace(&mut self.last, sample);
        let counted_ns = before.zip(self.last.as_ref()).map_or(0, |(before, now)| now.idle_since(&before));
        self.idle_ns = if counted_ns > 0 { self.idle_ns + counted_ns } else { 0 };
        let is_idle = self.idle_ns >= self.limit_ns;
        (std::mem::replace(&mut self.is_reported, is_idle) != is_idle).then_some(is_idle)
    }
}

impl Sample {
    /// How long nothing has worked since that one; 0: something has.
    fn idle_since(&self, before: &Sample) -> u64 {
        let frozen_ns = self.frozen_ns.saturating_sub(before.frozen_ns);
        let passed_ns = (self.at_ns - before.at_ns).saturating_sub(frozen_ns);
        let each = (passed_ns / TICK_NS / WORK_PART).max(1);
        let worked = self.ticks.iter().map(|(process, ticks)| {
            // One that is new has begun with nothing.
            ticks.saturating_sub(before.ticks.get(process).copied().unwrap_or(0))
        });
        let (all, most) = worked.fold((0, 0), |(all, most): (u64, u64), one| (all + one, most.max(one)));
        let works = self.is_busy || all > each * self.ticks.len() as u64 || most > each + ROUNDED_TICKS;
        if works { 0 } else { passed_ns }
    }
}

impl Starter {
    pub(super) fn handle_idle_time(&mut self, now_ns: u64) {
        if self.idle.as_ref().is_none_or(|idle| now_ns < idle.due_ns) {
            return;
        }
        // Of who stands still nothing is known; who is suspended has begun anew.
        let sample = if self.frozen { None } else { self.sample() };
        let Some(idle) = &mut self.idle else { return };
        if sample.is_none() {
            idle.due_ns = now_ns + idle.window_ns();
            return;
        }
        if let Some(idle) = idle.take(sample, now_ns) {
            self.report(&Report::Idle(idle));
        }
    }

    /// Ends the idleness, as the job is suspended: what was counted is void.
    pub(super) fn end_idleness(&mut self) {
        if let Some(idle) = self.idle.as_mut().and_then(|idle| idle.take(None, now_ns())) {
            self.report(&Report::Idle(idle));
        }
    }

    /// None: others have its turn, or its processes are stopped.
    fn sample(&self) -> Option<Sample> {
        let parts = &self.parts;
        if parts.cgroup.as_ref().and_then(Cgroup::is_frozen) == Some(true) {
            return None;
        }
        let frozen_ns = parts.pages.past_frozen_ns();
        let shares = parts.pages.has_slot_request();
        let mut sample = Sample { at_ns: now_ns(), frozen_ns, ticks: BTreeMap::new(), is_busy: shares };
        let Some(found) = descendants::some_of(getpid(), PROCESSES_MAX) else {
            return Some(Sample { is_busy: true, ..sample });
        };
        let mut is_stopped = false;
        for pid in found {
            let Some(stat) = Stat::of(pid) else { continue };
            sample.ticks.insert((pid.as_raw_nonzero().get(), stat.since), stat.worked);
            sample.is_busy |= waits_for_file(pid);
            is_stopped |= stat.is_stopped();
        }
        (!is_stopped).then_some(sample)
    }
}

/// A thread of the process waits for a disk.
fn waits_for_file(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| Stat::read(thread.path().join("stat")).is_some_and(|stat| stat.state == b'D'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Reports on windows of a second, in each of which two processes together work so many ticks, with the
    /// window's number.
    fn reported(windows: &[Option<(u64, bool)>], frozen_ns: u64) -> Vec<(usize, bool)> {
        let shared = |(worked, is_busy)| ([worked / 2, worked - worked / 2], is_busy);
        reported_of(&windows.iter().map(|window| window.map(shared)).collect::<Vec<_>>(), frozen_ns)
    }

    /// The same of processes of which each works so many ticks.
    fn reported_of<const PROCESSES: usize>(
        windows: &[Option<([u64; PROCESSES], bool)>],
        frozen_ns: u64,
    ) -> Vec<(usize, bool)> {
        let mut watch = IdleWatch::from(10_000, 0);
        assert_eq!(watch.due_ns(), SECOND_NS);
        let (mut ticks, mut reports) = ([0; PROCESSES], Vec::new());
        for (at, window) in windows.iter().enumerate() {
            let now_ns = at as u64 * SECOND_NS;
            let sample = window.map(|(worked, is_busy)| {
                ticks.iter_mut().zip(worked).for_each(|(ticks, worked)| *ticks += worked);
                let ticks = (1..).map(|pid| (pid, 7)).zip(ticks).collect();
                Sample { at_ns: now_ns, frozen_ns: at as u64 * frozen_ns, ticks, is_busy }
            });
            reports.extend(watch.take(sample, now_ns).map(|idle| (at, idle)));
        }
        reports
    }

    /// A hundredth of a core for each of so many is more than the one that computes can have.
    #[test]
    fn idle_is_not_reported_where_one_of_many_processes_computes() {
        let with = |ticks: u64| {
            let mut processes = [0; 120];
            processes[77] = ticks;
            reported_of(&[Some((processes, false)); 30], 0)
        };
        assert_eq!(with(2), [(10, true)], "it wakes up now and then, and its times are rounded");
        assert_eq!(with(3), []);
        assert_eq!(with(100), []);
    }

    #[test]
    fn idle_is_reported_after_the_time_without_work() {
        assert_eq!(reported(&[Some((0, false)); 30], 0), [(10, true)]);
        assert_eq!(reported(&[Some((2, false)); 30], 0), [(10, true)], "they wake up now and then");
        assert_eq!(reported(&[Some((3, false)); 30], 0), []);
        assert_eq!(reported(&[Some((0, true)); 30], 0), [], "a file is waited for");
        assert_eq!(reported(&[Some((0, false)); 30], SECOND_NS / 2), [(20, true)], "others had the cores");
        assert_eq!(reported(&[None; 30], 0), [], "it is suspended");
    }

    #[test]
    fn idle_ends_with_work_and_with_a_stop() {
        for stir in [None, Some((50, false)), Some((0, true))] {
            let mut windows = [Some((0, false)); 40];
            windows[15] = stir;
            let again = if stir.is_none() { 26 } else { 25 };
            assert_eq!(reported(&windows, 0), [(10, true), (15, false), (again, true)], "{stir:?}");
            windows[25] = stir;
            assert_eq!(reported(&windows, 0)[..2], [(10, true), (15, false)]);
        }
    }
}
