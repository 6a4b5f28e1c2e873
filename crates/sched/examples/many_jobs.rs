//! Prints what a turn costs the daemon of a node on which many jobs take turns: its scheduler and its switch,
//! without the kernel: `cargo run --release -p tutti-sched --example many_jobs`.

use std::time::Instant;

use tutti_sched::agent::{Agent, Output};
use tutti_sched::controller::Controller;
use tutti_sched::gang::{Action, Arrival, JobChange, Timing};
use tutti_sched::{Config, Demand, Event, JobId, NodeId, Scheduler, Tree};

const SLICE_NS: u64 = 20_000_000;
const SLOTS: u32 = 4;
const TURNS: u64 = 500;
const ME: NodeId = NodeId(0);

fn main() {
    println!("one node of {SLOTS} slots, jobs of one rank, us of processor time for a turn");
    println!(" jobs | turns | all that must be done | looks at all jobs | rows put together anew");
    for jobs in [40, 100, 400, 1000] {
        let mut node = Node::with_jobs(jobs);
        let (turn_us, look_us) = node.run();
        let refresh_us = node.refresh();
        println!("{jobs:5} | {TURNS:5} | {turn_us:21.1} | {look_us:17.1} | {refresh_us:22.1}");
    }
}

/// A controller and the node that it is on.
struct Node {
    controller: Controller,
    agent: Agent,
    now_ns: u64,
    jobs: u64,
}

impl Node {
    fn with_jobs(jobs: u64) -> Self {
        let config = Config { slice_ns: SLICE_NS, rows_max: jobs as usize, ..Config::default() };
        let mut scheduler = Scheduler::new(config).expect("a configuration");
        scheduler.handle_node(0, ME, SLOTS, 0);
        let mut agent = Agent::new(ME, Tree::new(1, 4), Timing::default(), 10 * SLICE_NS, 64);
        for job in (1..=jobs).map(JobId) {
            scheduler.submit(0, job, &Demand::any(1, 1)).expect("there is a row for it");
            while let Some(Event::Placed(job, parts)) = scheduler.poll_event() {
                scheduler.begin(0, job);
                agent.handle_job(0, job, &[ME], Some((parts[0].slots, Arrival::Running)));
            }
        }
        Node { controller: Controller::new(scheduler, Tree::new(1, 4)), agent, now_ns: 1, jobs }
    }

    /// Turns, with all jobs at work: what one costs, and what it costs to ask of each job whether it runs.
    fn run(&mut self) -> (f64, f64) {
        self.settle();
        let (mut turns, mut looks, began) = (0, 0.0, Instant::now());
        while turns < TURNS {
            let look = Instant::now();
            let thawed = (1..=self.jobs).filter(|job| self.agent.switch().is_thawed(JobId(*job))).count();
            assert!(thawed <= SLOTS as usize, "{thawed} jobs run");
            looks += look.elapsed().as_secs_f64();
            let next_ns = self.controller.poll_timeout().into_iter().chain(self.agent.poll_timeout()).min();
            self.now_ns = next_ns.unwrap_or(0).max(self.now_ns + 1);
            turns += self.settle();
        }
        let per_turn = |seconds: f64| seconds * 1e6 / turns as f64;
        (per_turn(began.elapsed().as_secs_f64() - looks), per_turn(looks))
    }

    /// Carries out all that follows; the switches among it.
    fn settle(&mut self) -> u64 {
        let (now_ns, mut switches) = (self.now_ns, 0);
        self.agent.handle_time(now_ns);
        loop {
            match self.agent.poll_output() {
                Some(Output::Parent(report)) => self.controller.handle_report(now_ns, report),
                Some(Output::Do(Action::Freeze(job))) => {
                    self.agent.handle_change(now_ns, job, JobChange::Frozen);
                }
                Some(Output::Do(Action::Thaw(job))) => {
                    self.agent.handle_change(now_ns, job, JobChange::Thawed);
                }
                Some(_) => {}
                None => match self.controller.poll_down(now_ns) {
                    Some(down) => {
                        let before = self.agent.switch().executed();
                        self.agent.handle_down(now_ns, down);
                        switches += u64::from(self.agent.switch().executed() != before);
                    }
                    None => return switches,
                },
            }
        }
    }

    /// Measures what it costs that a job comes to the rows, or leaves them.
    fn refresh(&mut self) -> f64 {
        let began = Instant::now();
        const TIMES: u64 = 20;
        for time in 0..TIMES {
            let job = JobId(1 + time * 7 % self.jobs);
            self.controller.suspend(self.now_ns, job);
            self.settle();
            self.controller.resume(self.now_ns, job);
            self.settle();
        }
        began.elapsed().as_secs_f64() * 1e6 / (2 * TIMES) as f64
    }
}
