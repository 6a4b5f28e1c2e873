//! Jobs that take long to freeze: they keep their share, and nobody takes back more than the credit at once.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tutti_sched::{Config, Demand, Event, JobId, NodeId, Scheduler};

const MS: u64 = 1_000_000;
const CREDIT_NS: u64 = 1000 * MS;

/// One slot, jobs of these weights; who leaves the row is frozen after so long.
struct Bench {
    scheduler: Scheduler,
    now_ns: u64,
    jobs: Vec<JobId>,
    /// When FROZEN of a job comes, and of which generation.
    freezing: BTreeMap<JobId, (u64, tutti_sched::Generation)>,
}

impl Bench {
    fn new(slice_ns: u64, weights: &[u32]) -> Self {
        let mut scheduler = Scheduler::new(Config { slice_ns, ..Config::default() }).unwrap();
        scheduler.handle_node(0, NodeId(0), 1, 0);
        let jobs: Vec<JobId> = (1..=weights.len() as u64).map(JobId).collect();
        for (&job, &weight) in jobs.iter().zip(weights) {
            scheduler.submit(0, job, &Demand { weight, ..Demand::any(1, 1) }).unwrap();
        }
        while let Some(Event::Placed(job, _)) = scheduler.poll_event() {
            scheduler.begin(0, job);
        }
        Bench { scheduler, now_ns: 0, jobs, freezing: BTreeMap::new() }
    }

    /// Switches what is due now.
    fn turn(&mut self, freeze_ns: &mut impl FnMut() -> u64) {
        let due = self.freezing.extract_if(.., |_, (at_ns, _)| *at_ns <= self.now_ns);
        for (job, (_, generation)) in due {
            self.scheduler.handle_frozen(self.now_ns, job, generation);
        }
        let before = self.scheduler.running().to_vec();
        if let Some(switch) = self.scheduler.next_row(self.now_ns) {
            for job in before.into_iter().filter(|job| !self.scheduler.running().contains(job)) {
                self.freezing.insert(job, (self.now_ns + freeze_ns(), switch.generation));
            }
        }
    }

    /// Lives until then.
    fn run_until(&mut self, end_ns: u64, mut freeze_ns: impl FnMut() -> u64) {
        while self.now_ns < end_ns {
            self.turn(&mut freeze_ns);
            let frozen_ns = self.freezing.values().map(|(at_ns, _)| *at_ns).min();
            let next_ns = self.scheduler.next_at_ns().into_iter().chain(frozen_ns).min();
            self.now_ns = next_ns.map_or(end_ns, |next_ns| next_ns.clamp(self.now_ns + 1, end_ns));
        }
        self.turn(&mut freeze_ns);
    }

    fn service(&self, job: JobId) -> u64 {
        self.scheduler.account(job).unwrap().service_ns
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// The credit holds what the heaviest is owed for one freeze of the others, so no slice is too short for
    /// the weights to show.
    #[test]
    fn credit_weights_are_shares_despite_slow_freezing(
        slice_ms in 5_u64..200,
        freezes_ms in proptest::collection::vec(0_u64..150, 1..20),
        weights in proptest::collection::vec(100_u32..400, 2..5),
    ) {
        const END_NS: u64 = 100_000 * MS;
        let mut bench = Bench::new(slice_ms * MS, &weights);
        let mut freezes_ms = freezes_ms.iter().cycle();
        bench.run_until(END_NS, || freezes_ms.next().expect("it has no end") * MS);
        let all = u64::from(weights.iter().sum::<u32>());
        // Who is switched out last owes the others a round, of stretches as long as a freeze, or as a slice.
        let round_ns = 4 * weights.len() as u64 * slice_ms.max(150) * MS;
        for (&job, &weight) in bench.jobs.iter().zip(&weights) {
            let (had_ns, due_ns) = (bench.service(job), END_NS / all * u64::from(weight));
            prop_assert!(
                had_ns.abs_diff(due_ns) <= round_ns,
                "weight {} of {:?} had {} ms instead of {}", weight, weights, had_ns / MS, due_ns / MS
            );
        }
    }

    #[test]
    fn credit_of_a_late_job_is_bounded(
        slice_ms in 5_u64..300,
        stuck_ms in 2_000_u64..600_000,
        weights in proptest::collection::vec(100_u32..400, 2..5),
    ) {
        let (slice_ns, stuck_ns) = (slice_ms * MS, stuck_ms * MS);
        let mut bench = Bench::new(slice_ns, &weights);
        // The first job to leave is stuck, nobody else.
        let mut first = Some(stuck_ns);
        bench.run_until(slice_ns + stuck_ns, || first.take().unwrap_or(0));
        let job = bench.jobs[0];
        let before_ns = bench.service(job);
        prop_assert!(before_ns <= slice_ns, "it was not stuck");
        let window_ns = 3 * CREDIT_NS.max(10 * slice_ns);
        bench.run_until(slice_ns + stuck_ns + window_ns, || 0);
        let (had_ns, all) = (bench.service(job) - before_ns, u64::from(weights.iter().sum::<u32>()));
        let credit_ns = CREDIT_NS.max(10 * slice_ns);
        let due_ns = window_ns / all * u64::from(weights[0]);
        prop_assert!(had_ns <= due_ns + credit_ns + 4 * slice_ns, "{} ms of {}", had_ns / MS, window_ns / MS);
        prop_assert!(had_ns + 4 * slice_ns >= due_ns, "it has its share again: {} ms", had_ns / MS);
    }
}
