//! Use of this node's memory and network by jobs, as the kernel counts it for their cgroups, for the
//! controller's prices ([`tutti_sched::market`]); and whether the network is congested, for the board.
//!
//! ```text
//! ranks run: begin --> a counter in each cgroup --> once a second: measure --> Event::Use, board
//! ```
//!
//! Nothing that a rank says enters a price; what it says of its messages is shown. Bytes are counted by a
//! program in the kernel, which needs root's daemon; it is tried out at the start. Where that cannot be had
//! jobs have sent nothing, so nobody pays.

use std::collections::HashMap;
use std::sync::Arc;

use rustix::process::Pid;
use tutti_os::TrafficCounter;
use tutti_os::cgroup::{JobGroup, counts_traffic};
use tutti_os::load::{self, Load, Traffic};
use tutti_sched::market::{JOBS_MAX, JobUse, NodeUse, Wanted};
use tutti_shm::call_counts::CallCounts;

use crate::gang::{LocalRanks, now_ns, page};
use crate::message::JobId;

/// Between two reports.
const REPORT_MS: u64 = 1000;
/// Jobs that end between two reports, at most: more than a node begins.
const ENDED_MAX: usize = 4096;
/// A network that loses more than one packet in so many is congested.
const LOST_MAX: u64 = 32;
/// Time for which what is said on the board holds.
const CONGESTED_NS: u64 = 2_000_000_000;
/// Memory above so many hundredths is scarce.
const MEMORY_PERCENT: u64 = 90;
/// Part of the time, in hundredths of a percent: memory for which somebody waits for longer is scarce too.
const PRESSURE_MAX: u64 = 1000;

/// A job's counters.
#[derive(Debug)]
struct Meter {
    groups: Vec<Arc<JobGroup>>,
    counters: Vec<TrafficCounter>,
    before_bytes: u64,
    ranks: u32,
    before_us: Option<u64>,
    messages: Messages,
    /// Account of its user.
    account: u32,
}

/// Messages that the ranks of a job have sent, as they say.
#[derive(Debug)]
struct Messages {
    user: u32,
    starters: Vec<u32>,
    /// Words of the ranks of each starter, opened when they are first wanted.
    counts: Option<Vec<CallCounts>>,
}

impl Messages {
    fn sum(&mut self) -> u64 {
        let (user, starters) = (self.user, &self.starters);
        let counts = self.counts.get_or_insert_with(|| {
            let pids = starters.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
            pids.filter_map(|starter| page::call_counts(starter, user)).collect()
        });
        counts.iter().map(|counts| counts.sum().messages).fold(0, u64::wrapping_add)
    }
}

impl Meter {
    /// Bytes since the last time.
    fn take(&mut self) -> u64 {
        let sent = self.counters.iter().filter_map(|counter| counter.sent_bytes().ok());
        let sent_bytes: u64 = sent.sum();
        sent_bytes.saturating_sub(std::mem::replace(&mut self.before_bytes, sent_bytes))
    }

    /// Time of processors since the last time, and its ranks; 0 of them where it is not known.
    fn take_worked(&mut self) -> (u64, u32) {
        let worked: Option<u64> = self.groups.iter().map(|group| group.worked_us()).sum();
        let worked = worked.filter(|_| !self.groups.is_empty());
        match (worked, std::mem::replace(&mut self.before_us, worked)) {
            (Some(now_us), Some(before_us)) => (now_us.saturating_sub(before_us), self.ranks),
            _ => (0, 0),
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.groups.iter().filter_map(|group| group.memory_bytes()).sum()
    }
}

/// Use of a job since the last report, by ranks that have ended: its counters are gone.
#[derive(Debug)]
struct Ended {
    job: JobId,
    account: u32,
    sent_bytes: u64,
}

impl Ended {
    fn of((job, mut meter): (JobId, Meter)) -> Self {
        Ended { job, account: meter.account, sent_bytes: meter.take() }
    }
}

/// Counters of the jobs that run here.
#[derive(Debug)]
pub(super) struct Meters {
    machine: load::Meter,
    is_counted: bool,
    jobs: HashMap<JobId, Meter>,
    /// Jobs that are not here any more, and are to be in one more report.
    ended: Vec<Ended>,
    /// Counts of the network at the last report, and when that was.
    before: Option<(Traffic, u64)>,
}

impl Meters {
    /// Tries out whether the kernel counts for us.
    pub(super) fn open() -> Self {
        let is_counted = rustix::process::geteuid().is_root() && counts_traffic();
        if !is_counted {
            tracing::info!("what jobs send is not counted here: nobody is charged for the network");
        }
        Meters {
            is_counted,
            machine: load::Meter::new(),
            jobs: HashMap::new(),
            ended: Vec::new(),
            before: None,
        }
    }

    /// The ranks of a job run here.
    pub(super) fn begin(&mut self, job: JobId, found: &LocalRanks) {
        // Of a job that begins anew the last second counts too. Its cgroups may be the same: they have one
        // counter at a time.
        self.ended.extend(self.jobs.remove_entry(&job).map(Ended::of));
        let (groups, ranks) = (&found.groups, found.pids.len() as u32);
        let mut counters = Vec::new();
        if self.is_counted {
            let attach = |group: &Arc<JobGroup>| {
                group.count_traffic().inspect_err(|error| {
                    tracing::warn!("job {job}: what it sends is not counted: {error}");
                })
            };
            counters.extend(groups.iter().filter_map(|group| attach(group).ok()));
        }
        let messages = Messages { user: found.user, starters: found.starters.clone(), counts: None };
        let (groups, before_bytes, before_us, account) = (groups.clone(), 0, None, found.account);
        let meter = Meter { groups, counters, before_bytes, ranks, before_us, messages, account };
        self.jobs.insert(job, meter);
    }

    /// Once a second, while there are jobs: what they have had since the last time, and until when the
    /// network counts as congested. `memory_bytes` says what a job has, where its part's group counts it;
    /// none: the job is not here any more. What that has sent since the last report is in this one, since
    /// whoever has many short jobs has as much as with a long one.
    pub(super) fn measure(
        &mut self,
        now_ms: u64,
        memory_bytes: impl Fn(JobId) -> Option<Option<u64>>,
    ) -> Option<(NodeUse, u64)> {
        self.ended.extend(self.jobs.extract_if(|job, _| memory_bytes(*job).is_none()).map(Ended::of));
        // Without others nobody pays.
        let first = self.ended.first().map(|ended| ended.account);
        if self.jobs.is_empty() && self.ended.iter().all(|ended| Some(ended.account) == first) {
            (self.before, self.ended) = (None, Vec::new());
            return None;
        }
        self.ended.truncate(ENDED_MAX);
        let Some((before, before_ms)) = self.before else {
            self.before = Some((self.machine.measure().traffic, now_ms));
            return None;
        };
        // A clock that was set back begins anew.
        let passed_ms = now_ms.saturating_sub(before_ms);
        if passed_ms < REPORT_MS && now_ms >= before_ms {
            return None;
        }
        let load = self.machine.measure();
        self.before = Some((load.traffic, now_ms));
        if passed_ms < REPORT_MS {
            return None;
        }
        let mut jobs = Vec::new();
        for (job, meter) in &mut self.jobs {
            let (worked_us, ranks) = meter.take_worked();
            jobs.push(JobUse {
                job: *job,
                worked_us,
                ranks,
                messages: meter.messages.sum(),
                sent_bytes: meter.take(),
                memory_bytes: memory_bytes(*job).flatten().unwrap_or_else(|| meter.memory_bytes()),
                account: Some(meter.account),
            });
        }
        for Ended { job, account, sent_bytes } in self.ended.drain(..) {
            let account = Some(account);
            match jobs.iter_mut().find(|used| used.job == job && used.account == account) {
                Some(used) => used.sent_bytes += sent_bytes,
                None => jobs.push(JobUse { job, sent_bytes, account, ..JobUse::default() }),
            }
        }
        let (network, sent_bytes) = network(before, load.traffic, passed_ms);
        let is_congested = network.demand > network.supply && network.supply > 0;
        let until_ns = if is_congested { now_ns() + CONGESTED_NS } else { 0 };
        let (memory, is_counted) = (memory(&load), self.is_counted);
        let jobs = largest(jobs, JOBS_MAX);
        Some((NodeUse { passed_ms, network, memory, sent_bytes, is_counted, jobs }, until_ns))
    }
}

/// The jobs that have had most, so many: of bytes sent, of memory and of processors each its part. A user
/// with thousands of small jobs hides no large one behind them.
fn largest(jobs: Vec<JobUse>, most: usize) -> Vec<JobUse> {
    if jobs.len() <= most {
        return jobs;
    }
    let kinds: [fn(&JobUse) -> u64; 3] = [|job| job.sent_bytes, |job| job.memory_bytes, |job| job.worked_us];
    let (mut left, mut kept) = (jobs, Vec::with_capacity(most));
    for (number, kind) in kinds.into_iter().enumerate() {
        left.sort_by_key(|job| std::cmp::Reverse((kind(job), job.job)));
        let part = (most - kept.len()) / (kinds.len() - number);
        kept.extend(left.drain(..part));
    }
    kept
}

/// Bytes in a second that were wanted of the network and that it took, and the bytes that were sent. While it
/// takes all, nobody knows how much more it would take.
fn network(before: Traffic, now: Traffic, passed_ms: u64) -> (Wanted, u64) {
    let sent_bytes = now.bytes_out.saturating_sub(before.bytes_out);
    let packets = now.packets_out.saturating_sub(before.packets_out);
    let lost = now.lost_out.saturating_sub(before.lost_out);
    let in_second =
        |bytes: u128| u64::try_from(bytes * 1000 / u128::from(passed_ms.max(1))).unwrap_or(u64::MAX);
    let sent = u128::from(sent_bytes);
    if lost.saturating_mul(LOST_MAX) <= packets {
        return (Wanted { demand: in_second(sent), supply: 0 }, sent_bytes);
    }
    // A packet that was lost stands for those that had to wait: who is refused sends less.
    let mean = sent / u128::from(packets.max(1));
    let demand = sent + u128::from(lost) * u128::from(LOST_MAX) * mean.max(1);
    (Wanted { demand: in_second(demand), supply: in_second(sent).max(1) }, sent_bytes)
}

/// Bytes of memory in use, and how many may be before it is scarce.
fn memory(load: &Load) -> Wanted {
    let supply = load.memory_bytes / 100 * MEMORY_PERCENT;
    let used = load.memory_bytes.saturating_sub(load.memory_available_bytes);
    // Somebody waits for memory, whatever the counts say.
    let demand = if load.memory_pressure > PRESSURE_MAX { used.max(2 * supply) } else { used };
    Wanted { demand, supply }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_scarce_where_more_than_one_packet_in_32_is_lost() {
        let before = Traffic { bytes_out: 5, packets_out: 7, lost_out: 9, ..Traffic::default() };
        let after = |lost: u64| Traffic {
            bytes_out: 5 + 320_000,
            packets_out: 7 + 320,
            lost_out: 9 + lost,
            ..Traffic::default()
        };
        let (wanted, sent_bytes) = network(before, after(10), 500);
        assert_eq!((wanted, sent_bytes), (Wanted { demand: 640_000, supply: 0 }, 320_000));
        let (wanted, _) = network(before, after(11), 500);
        assert!(wanted.demand > 2 * wanted.supply && wanted.supply == 640_000, "{wanted:?}");
        // A card that is gone, and one that takes nothing.
        assert_eq!(network(before, Traffic::default(), 500).1, 0);
        let none = network(before, Traffic { lost_out: 10, ..before }, 500).0;
        assert!(none.demand > none.supply, "{none:?}");
    }

    #[test]
    fn memory_is_scarce_above_nine_tenths_or_where_somebody_waits() {
        let load = |available, memory_pressure| Load {
            memory_bytes: 1000,
            memory_available_bytes: available,
            memory_pressure,
            ..Load::default()
        };
        let price = |load: Load| memory(&load).price();
        assert_eq!([price(load(100, 0)), price(load(10, 0)), price(load(900, 1001))], [1000, 1100, 2000]);
    }

    #[test]
    fn uses_of_jobs_that_have_ended_are_in_one_more_report_with_their_account() {
        let ranks = |account| LocalRanks {
            user: account,
            account,
            groups: Vec::new(),
            pids: vec![1],
            starters: Vec::new(),
            bound: false,
            place: Default::default(),
        };
        let mut meters = Meters {
            machine: load::Meter::new(),
            is_counted: false,
            jobs: HashMap::new(),
            ended: Vec::new(),
            before: None,
        };
        meters.begin(JobId(1), &ranks(7));
        assert!(meters.measure(1000, |_| Some(None)).is_none(), "from here on it is counted");
        // Begun and ended between two reports, and looked at when none is due.
        meters.begin(JobId(2), &ranks(8));
        let is_here = |job: JobId| (job == JobId(1)).then_some(None);
        assert!(meters.measure(1500, is_here).is_none());
        let mut reported = |now_ms| {
            let (found, _) = meters.measure(now_ms, is_here).expect("a report is due");
            found.jobs.iter().map(|used| (used.job.0, used.account)).collect::<Vec<_>>()
        };
        assert_eq!(reported(2000), [(1, Some(7)), (2, Some(8))]);
        assert_eq!(reported(3000), [(1, Some(7))]);
        // One that begins anew under its number is one line, also while its former ranks are counted.
        meters.begin(JobId(1), &ranks(7));
        assert_eq!(meters.ended.len(), 1);
        meters.ended[0].sent_bytes = 5;
        let mut reported = |now_ms, here: &[u64]| {
            let is_here = |job: JobId| here.contains(&job.0).then_some(None);
            let found = meters.measure(now_ms, is_here)?.0.jobs;
            Some(found.iter().map(|used| (used.job.0, used.account, used.sent_bytes)).collect::<Vec<_>>())
        };
        assert_eq!(reported(4000, &[1]), Some(vec![(1, Some(7), 5)]));
        // Jobs of two users have had what the other wanted, though none is left.
        meters.begin(JobId(3), &ranks(8));
        let mut reported = |now_ms| {
            let found = meters.measure(now_ms, |_| None)?.0.jobs;
            let mut found: Vec<_> = found.iter().map(|used| (used.job.0, used.account)).collect();
            found.sort();
            Some(found)
        };
        assert_eq!(reported(4500), None);
        assert_eq!(reported(5000), Some(vec![(1, Some(7)), (3, Some(8))]));
        assert_eq!(reported(6000), None);
        // Of one user alone nothing is kept.
        meters.begin(JobId(4), &ranks(7));
        assert!(meters.measure(7000, |_| None).is_none() && meters.ended.is_empty());
    }

    #[test]
    fn uses_of_the_largest_jobs_are_reported_whatever_their_number() {
        let job = |number: u64| JobUse { job: JobId(number), ..JobUse::default() };
        let mut jobs: Vec<JobUse> = (0..5000).map(job).collect();
        jobs[3000].sent_bytes = 1 << 30;
        jobs[4000].memory_bytes = 1 << 30;
        jobs[4999].worked_us = 900_000;
        let found = largest(jobs.clone(), JOBS_MAX);
        assert_eq!(found.len(), JOBS_MAX);
        for large in [3000, 4000, 4999] {
            assert_eq!(found.iter().filter(|used| used.job == JobId(large)).count(), 1, "job {large}");
        }
        jobs.truncate(7);
        assert_eq!(largest(jobs.clone(), JOBS_MAX), jobs);
    }
}
