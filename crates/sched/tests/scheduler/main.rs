//! The scheduler by itself: every FROZEN comes at once, time goes on by slices.

mod absent;
mod placement;
mod random;
mod reserved;
mod turns;

use std::collections::BTreeMap;

use tutti_sched::{
    Config, Demand, Event, JobId, JobState, NodeId, Place, Plan, Scheduler, Slots, SubmitError, Switch,
};

const SLICE_NS: u64 = 100_000_000;

/// A scheduler with its time; jobs begin as soon as they are placed.
struct Bench {
    scheduler: Scheduler,
    now_ns: u64,
    switches: Vec<Switch>,
    next_job: u64,
}

impl Bench {
    fn new(nodes: u32, slots: u32, config: Config) -> Self {
        let mut scheduler = Scheduler::new(config).unwrap();
        for node in 0..nodes {
            scheduler.handle_node(0, NodeId(node), slots, 1000);
        }
        Bench { scheduler, now_ns: 0, switches: Vec::new(), next_job: 1 }
    }

    fn plain(nodes: u32, slots: u32) -> Self {
        Bench::new(nodes, slots, Config::default())
    }

    fn submit(&mut self, demand: &Demand) -> JobId {
        self.try_submit(demand).unwrap()
    }

    fn try_submit(&mut self, demand: &Demand) -> Result<JobId, SubmitError> {
        let job = JobId(self.next_job);
        self.next_job += 1;
        self.scheduler.submit(self.now_ns, job, demand)?;
        self.begin_placed();
        Ok(job)
    }

    fn begin_placed(&mut self) {
        while let Some(Event::Placed(job, _)) = self.scheduler.poll_event() {
            self.scheduler.begin(self.now_ns, job);
        }
    }

    fn end(&mut self, job: JobId) {
        self.scheduler.end(self.now_ns, job);
        self.begin_placed();
    }

    /// Switches what is due, and has it frozen at once.
    fn turn(&mut self) {
        for _ in 0..3 {
            let before = self.scheduler.running().to_vec();
            let Some(switch) = self.scheduler.next_row(self.now_ns) else { break };
            let plan = self.scheduler.plan();
            assert_eq!(plan.version, switch.version, "the plan in force has the row");
            let row = plan.rows.get(switch.row as usize).cloned().unwrap_or_default();
            assert_eq!(row, self.scheduler.running());
            self.switches.push(switch);
            for job in before {
                if !self.scheduler.running().contains(&job) {
                    self.scheduler.handle_frozen(self.now_ns, job, switch.generation);
                }
            }
        }
    }

    fn run(&mut self, slices: u64) {
        for _ in 0..slices {
            self.turn();
            self.now_ns += SLICE_NS;
        }
        self.turn();
    }

    fn service(&self, job: JobId) -> u64 {
        self.scheduler.account(job).unwrap().service_ns
    }

    fn plan(&mut self) -> Plan {
        self.turn();
        self.scheduler.plan()
    }

    fn nodes(&self, job: JobId) -> Vec<u32> {
        let mut nodes: Vec<_> = self.scheduler.parts(job).unwrap().iter().map(|part| part.node.0).collect();
        nodes.sort_unstable();
        nodes
    }

    /// Checks what must hold of every plan.
    fn check(&mut self) {
        let plan = self.plan();
        for row in &plan.rows {
            let mut taken: BTreeMap<NodeId, Slots> = BTreeMap::new();
            for &job in row {
                assert_eq!(self.scheduler.state(job), Some(JobState::Active), "{job} in a row");
                for part in self.scheduler.parts(job).unwrap() {
                    let here = taken.entry(part.node).or_default();
                    assert!(here.is_disjoint(&part.slots), "a slot of node {} twice in {row:?}", part.node);
                    *here = here.with(&part.slots);
                }
            }
        }
        for job in self.scheduler.jobs() {
            if self.scheduler.state(job) == Some(JobState::Active) {
                assert!(plan.rows.iter().any(|row| row.contains(&job)), "{job} is in no row of {plan:?}");
            }
        }
    }
}

fn given(parts: &[(u32, u32)]) -> Demand {
    Demand::at(Place::Given(parts.iter().map(|&(node, ranks)| (NodeId(node), ranks)).collect()))
}
