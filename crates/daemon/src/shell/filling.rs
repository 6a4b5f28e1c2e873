//! Costs of fillers for the gangs of this node: by the calls of MPI that the gangs' ranks make, in windows
//! with and without a filler ([`tutti_sched::fill_trial`]).
//!
//! ```text
//! ranks run: begin --> timeout_ms --> handle_time: calls and time of each gang --> Command::MayFill
//!                                                                              '-> Event::PutOut, a log line
//! ```
//!
//! What is counted the job says itself, in its own memory. A job that lies has fillers put out, or not,
//! beside itself. Who makes no calls of Tutti's MPI is not measured, and counts as unhurt if it is the
//! filler's own user's.

use std::collections::BTreeMap;

use rustix::process::Pid;
use tutti_sched::fill_trial::{PutOut, Sample, Trials, Verdict, WINDOW_MS};
use tutti_shm::call_counts::CallCounts;
use tutti_shm::daemon_page::Page;

use crate::gang::{Filling, LocalRanks, now_ns, page};
use crate::message::JobId;

/// A gang that ran for less than this part of a window is not measured in it.
const RAN_PART: u64 = 3;

/// A job that fillers may run beside.
#[derive(Debug)]
struct Gang {
    user: u32,
    starters: Vec<u32>,
    /// Opened when it is first wanted; none: it cannot be measured.
    gauge: Option<Gauge>,
    is_opened: bool,
}

#[derive(Debug)]
struct Gauge {
    page: Page,
    counts: Vec<CallCounts>,
    /// Count at the end of the last window.
    before: Option<Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    at_ns: u64,
    frozen_ns: u64,
    calls: u64,
}

/// The trials of this node's fillers.
#[derive(Debug, Default)]
pub(super) struct FillTrials {
    trials: Trials,
    gangs: BTreeMap<JobId, Gang>,
}

/// Change that is to be passed on.
#[derive(Debug)]
pub(super) enum Filled {
    /// The switch thread is notified.
    MayFill(JobId, bool),
    /// The controller and the log are notified.
    PutOut(JobId, Option<PutOut>),
}

impl FillTrials {
    /// The ranks of a job run here.
    pub(super) fn begin(&mut self, job: JobId, ranks: &LocalRanks) {
        let now_ms = monotonic_ms();
        match ranks.place {
            Filling::Behind => self.trials.add_filler(now_ms, job, ranks.user),
            Filling::Unable => {}
            Filling::Before | Filling::Beside => {
                let (user, starters) = (ranks.user, ranks.starters.clone());
                self.gangs.insert(job, Gang { user, starters, gauge: None, is_opened: false });
                self.trials.add_gang(now_ms, job, user);
            }
        }
    }

    /// A job has other slots here.
    pub(super) fn handle_moved(&mut self, job: JobId) {
        self.trials.handle_moved(monotonic_ms(), job);
    }

    /// Forgets a job of which nothing is left here.
    pub(super) fn end(&mut self, job: JobId) {
        self.trials.remove(monotonic_ms(), job);
        self.gangs.remove(&job);
    }

    /// After so long [`Self::handle_time`] is to be called.
    pub(super) fn wait_ms(&self) -> u64 {
        self.trials.timeout_ms().map_or(u64::MAX, |at_ms| at_ms.saturating_sub(monotonic_ms()))
    }

    /// Time has passed.
    pub(super) fn handle_time(&mut self) {
        let now_ms = monotonic_ms();
        if self.trials.timeout_ms().is_none_or(|at_ms| now_ms < at_ms) {
            return;
        }
        let was_trying = self.trials.is_trying();
        let samples: Vec<Sample> =
            self.gangs.iter_mut().filter_map(|(job, gang)| gang.take_sample(*job)).collect();
        // A trial begins with a whole window.
        self.trials.handle_time(now_ms, if was_trying { &samples } else { &[] });
    }

    /// Returns the next change that is to be passed on.
    pub(super) fn poll(&mut self) -> Option<Filled> {
        if let Some((job, may_fill)) = self.trials.poll_change() {
            return Some(Filled::MayFill(job, may_fill));
        }
        let (job, verdict) = self.trials.poll_verdict()?;
        Some(Filled::PutOut(job, if let Verdict::PutOut(put_out) = verdict { Some(put_out) } else { None }))
    }
}

fn monotonic_ms() -> u64 {
    now_ns() / 1_000_000
}

impl Gang {
    /// Measures the gang's work since the last time; none: it cannot be measured, or did not run for long
    /// enough.
    fn take_sample(&mut self, gang: JobId) -> Option<Sample> {
        if !std::mem::replace(&mut self.is_opened, true) {
            self.gauge = Gauge::open(self.user, &self.starters);
        }
        let gauge = self.gauge.as_mut()?;
        let now = gauge.count();
        let before = gauge.before.replace(now)?;
        let passed_ns = now.at_ns.saturating_sub(before.at_ns);
        let cost = passed_ns.saturating_sub(now.frozen_ns.saturating_sub(before.frozen_ns));
        // One window, not what lies between two trials.
        let is_window = passed_ns < 2 * WINDOW_MS * 1_000_000 && cost >= WINDOW_MS * 1_000_000 / RAN_PART;
        is_window.then(|| Sample { gang, work: now.calls.saturating_sub(before.calls), cost })
    }
}

impl Gauge {
    fn open(user: u32, starters: &[u32]) -> Option<Self> {
        let starters = || starters.iter().filter_map(|starter| Pid::from_raw(i32::try_from(*starter).ok()?));
        let page = page::read(starters().next()?, user)?;
        let counts: Option<Vec<CallCounts>> =
            starters().map(|starter| page::call_counts(starter, user)).collect();
        Some(Gauge { page, counts: counts?, before: None })
    }

    fn count(&self) -> Count {
        let at_ns = now_ns();
        let calls = self.counts.iter().map(|counts| counts.sum().calls).fold(0, u64::wrapping_add);
        Count { at_ns, frozen_ns: self.page.frozen_ns(at_ns), calls }
    }
}
