//! A flooder in a row of several jobs on a narrow link: it has its part of the time, and the others theirs.

use std::collections::BTreeMap;

use tutti_sched::market::{JobUse, NodeUse, Wanted};
use tutti_sched::{Config, Demand, Event, Holder, JobId, NodeId, Scheduler};

const SLICE_NS: u64 = 100_000_000;
/// Bytes that the link takes in a slice.
const LINK: u64 = 10_000;
/// A node reports after so many slices.
const REPORT: u64 = 10;

struct Narrow {
    scheduler: Scheduler,
    now_ns: u64,
    /// Bytes that each wants to send in a slice.
    wants: BTreeMap<JobId, u64>,
    sent: BTreeMap<JobId, u64>,
    /// Slices that each has had.
    had: BTreeMap<JobId, u64>,
    demand: u64,
    slices: u64,
}

impl Narrow {
    /// A node with a slot for each.
    fn new(wants: &[u64], slots: u32) -> Self {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        scheduler.handle_node(0, NodeId(0), slots, 0);
        for job in 1..=wants.len() as u64 {
            let owner = tutti_sched::shares::Owner { user: job as u32, ..Default::default() };
            scheduler
                .submit(
                    0,
                    JobId(job),
                    &Demand { holder: Holder { owner, within: None }, ..Demand::any(1, 1) },
                )
                .unwrap();
            while let Some(Event::Placed(job, _)) = scheduler.poll_event() {
                scheduler.begin(0, job);
            }
        }
        let wants: BTreeMap<_, _> = wants.iter().zip(1..).map(|(bytes, job)| (JobId(job), *bytes)).collect();
        let none: BTreeMap<_, _> = wants.keys().map(|job| (*job, 0)).collect();
        Narrow { scheduler, now_ns: 0, wants, sent: none.clone(), had: none, demand: 0, slices: 0 }
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 10 {
            let before = self.scheduler.running().to_vec();
            if let Some(switch) = self.scheduler.next_row(self.now_ns) {
                before.into_iter().for_each(|job| {
                    self.scheduler.handle_frozen(self.now_ns, job, switch.generation);
                });
            }
            let running = self.scheduler.running().to_vec();
            let all: u64 = running.iter().map(|job| self.wants[job]).sum();
            for job in &running {
                *self.had.get_mut(job).unwrap() += 1;
                // What there is is divided by what is wanted.
                *self.sent.get_mut(job).unwrap() += self.wants[job] * LINK.min(all) / all.max(1);
            }
            self.demand += all;
            self.now_ns += SLICE_NS;
            self.slices += 1;
            if self.slices.is_multiple_of(REPORT) {
                self.report();
            }
        }
    }

    fn report(&mut self) {
        let jobs: Vec<JobUse> = self
            .sent
            .iter_mut()
            .map(|(job, sent)| JobUse { job: *job, sent_bytes: std::mem::take(sent), ..JobUse::default() })
            .collect();
        let found = NodeUse {
            passed_ms: REPORT * SLICE_NS / 1_000_000,
            network: Wanted { demand: std::mem::take(&mut self.demand), supply: LINK * REPORT },
            sent_bytes: jobs.iter().map(|used| used.sent_bytes).sum(),
            is_counted: true,
            jobs,
            ..NodeUse::default()
        };
        self.scheduler.handle_use(self.now_ns, NodeId(0), &found);
    }

    /// In thousandths of all slices.
    fn part(&self, job: u64) -> u64 {
        self.had[&JobId(job)] * 1000 / self.slices
    }
}

/// The promise: one of four in a row sends all that it can.
#[test]
fn flooder_of_four_in_a_row_has_30_percent_and_the_others_keep_95() {
    for flood in [4 * LINK, 20 * LINK, 100 * LINK] {
        let mut narrow = Narrow::new(&[flood, LINK / 5, LINK / 5, LINK / 5], 4);
        narrow.run(600);
        let parts = [1, 2, 3, 4].map(|job| narrow.part(job));
        assert!((200..=300).contains(&parts[0]), "{parts:?}");
        assert!(parts[1..].iter().all(|part| *part >= 950), "{parts:?}");
    }
}

#[test]
fn flooder_is_left_alone_where_there_is_enough() {
    let mut narrow = Narrow::new(&[LINK / 2, LINK / 10, LINK / 10, LINK / 10], 4);
    narrow.run(60);
    assert!((1..=4).all(|job| narrow.part(job) == 1000), "{:?}", narrow.had);
}

#[test]
fn flooder_alone_in_its_row_is_not_left_out() {
    let mut narrow = Narrow::new(&[10 * LINK], 1);
    narrow.run(60);
    assert_eq!(narrow.part(1), 1000);
    // Two rows: they never meet on the wire.
    let mut narrow = Narrow::new(&[10 * LINK, LINK / 10], 1);
    narrow.run(60);
    // It pays for the network, as users do, and stays in its row.
    assert!(narrow.part(1) >= 100 && narrow.scheduler.left_out().is_empty(), "{:?}", narrow.had);
}

#[test]
fn flooder_comes_back_when_its_mates_are_gone() {
    let mut narrow = Narrow::new(&[10 * LINK, LINK / 5], 2);
    narrow.run(2);
    while narrow.scheduler.left_out().is_empty() {
        assert!(narrow.now_ns < 60_000_000_000, "it floods");
        narrow.run(1);
    }
    narrow.scheduler.end(narrow.now_ns, JobId(2));
    narrow.wants.remove(&JobId(2));
    narrow.run(1);
    assert_eq!(narrow.scheduler.running(), [JobId(1)]);
}

/// Waits last no more than a little over 30 s, whoever floods, and no sum is lost.
#[test]
fn flooders_starve_no_job() {
    for seed in 0..1000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let jobs = 2 + random(6);
        let wants: Vec<u64> =
            (0..jobs).map(|_| [0, LINK / 10, LINK, 100 * LINK][random(4) as usize]).collect();
        let mut narrow = Narrow::new(&wants, 1 + random(4) as u32);
        let mut last: BTreeMap<JobId, (u64, u64)> = narrow.had.keys().map(|job| (*job, (0, 0))).collect();
        for second in 1..=90 {
            narrow.run(1);
            for (job, (had, when)) in &mut last {
                if narrow.had[job] > *had {
                    (*had, *when) = (narrow.had[job], second);
                }
                assert!(second - *when <= 32, "seed {seed}: {job} has waited since {when} s, {wants:?}");
            }
        }
    }
}
