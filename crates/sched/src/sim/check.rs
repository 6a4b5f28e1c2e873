//! Checks of what must hold.

use std::collections::BTreeMap;

use super::node::Real;
use super::world::World;
use crate::scheduler::JobState;
use crate::types::{Generation, JobId, NodeId};

impl World {
    /// Connected jobs that are at home in one row stand in the same rows.
    pub(super) fn check_connected(&mut self) {
        let matrix = &self.controller.scheduler().matrix;
        for (one, other) in matrix.connected().pairs() {
            let mut rows = matrix.rows().iter();
            let is_common = rows.clone().any(|row| row.home.contains(&one) && row.home.contains(&other));
            let is_apart =
                |row: &crate::matrix::PlannedRow| row.all.contains(&one) != row.all.contains(&other);
            self.report.common += u64::from(is_common);
            assert!(
                !is_common || !rows.any(is_apart),
                "jobs {one} and {other} are apart: {:?}",
                matrix.plan()
            );
        }
    }

    /// No two jobs of the row in force share a slot.
    pub(super) fn check_row(&self) {
        let scheduler = self.controller.scheduler();
        let mut taken = BTreeMap::new();
        for &job in scheduler.running() {
            for part in scheduler.parts(job).expect("a job of a row has its parts") {
                for slot in part.slots.iter() {
                    if let Some(other) = taken.insert((part.node, slot), job) {
                        panic!("job {other} and job {job} of a row share slot {slot} of node {}", part.node);
                    }
                }
            }
        }
    }

    /// A job is about to be thawed on a node.
    pub(super) fn check_thaw(&mut self, node: NodeId, job: JobId) {
        let known = &self.nodes[node.0 as usize];
        let agent = known.agent.as_ref().expect("its agent says so");
        let alone = agent.switch().is_alone();
        let executed = agent.switch().executed();
        if !alone {
            let executed = executed.expect("nobody is thawed before the first switch");
            let row = self.rows.get(&executed.generation).expect("the controller ordered it");
            assert!(row.contains(&job), "job {job} is thawed on node {node} in another's row {row:?}");
        }
        let process = known.processes.get(&job).expect("its processes are there");
        assert!(process.is_stopped(), "job {job} is thawed on node {node} while {:?}", process.real);
        assert!(!process.dying, "job {job} is thawed on node {node} while it dies");
        let strict = self.is_strict() && !alone;
        let mut overlap = false;
        for (other, neighbours) in known.processes.iter().filter(|(other, _)| **other != job) {
            if neighbours.dying || !neighbours.known || neighbours.slots.is_disjoint(&process.slots) {
                continue;
            }
            match neighbours.real {
                Real::Frozen => {}
                Real::Freezing { since_ns } => {
                    let waited_ns = self.now_ns - since_ns;
                    overlap = true;
                    assert!(
                        !strict,
                        "job {job} is thawed on node {node} {waited_ns} ns after job {other} was told to freeze"
                    );
                }
                Real::Runs => {
                    panic!("job {job} is thawed on node {node} while job {other} runs on its slots")
                }
            }
        }
        // A node that was cut off works through what has come meanwhile.
        if strict && self.is_checked(node) {
            self.check_run(node, job);
        }
        self.report.overlaps += u64::from(overlap);
    }

    /// A job is about to run in the turn of another one on a node: nobody but that one has its slots.
    pub(super) fn check_loan(&self, node: NodeId, job: JobId) {
        let known = &self.nodes[node.0 as usize];
        let process = known.processes.get(&job).expect("its processes are there");
        assert!(
            process.is_stopped() && !process.is_lent(),
            "job {job} is lent on node {node}: {:?}",
            process.real
        );
        assert!(!self.is_strict(), "job {job} is lent on node {node} in a strict switch");
        let runs = |other: &&JobId| {
            let there = &known.processes[*other];
            **other != job && there.real == Real::Runs && there.known && !there.dying
        };
        let beside = known.processes.keys().filter(runs);
        let in_the_way = beside.filter(|other| !known.processes[*other].slots.is_disjoint(&process.slots));
        assert!(in_the_way.count() <= 1, "job {job} is lent on node {node} the slots of two");
    }

    /// True if what is done on this node is compared with all others: of a large cluster some nodes, and none
    /// that nobody waits for.
    fn is_checked(&self, node: NodeId) -> bool {
        let counts =
            self.nodes[node.0 as usize].is_settled(self.now_ns) && self.controller.tree().counts(node);
        // What an earlier controller has ordered may still be on its way.
        let is_new = self.executed(node) > self.failover.first || self.failover.first == Generation(0);
        counts && is_new && (self.nodes.len() < 100 || node.0 % 50 == 1)
    }

    /// Strict: RUN comes when the channels are loaded on all nodes that count.
    fn check_run(&self, at: NodeId, job: JobId) {
        let generation = self.came[&job];
        for node in self.counting(job) {
            let process = &self.nodes[node.0 as usize].processes[&job];
            assert!(
                process.restored >= Some(generation),
                "job {job} runs before node {node} has restored it"
            );
            if self.executed(node) > self.executed(at) {
                // It has heard of the next switch, which may have bound others anew.
                continue;
            }
            let slots = process.slots;
            let neighbours = &self.nodes[node.0 as usize].processes;
            for (other, there) in neighbours.iter().filter(|(other, _)| **other != job) {
                // Who ran for an earlier controller is frozen where he is, and nobody waits for all of him.
                let is_controllers = self.came.get(other).is_some_and(|came| *came > self.failover.first);
                let blocks =
                    is_controllers && there.known && !there.dying && !there.slots.is_disjoint(&slots);
                let stands = there.real == Real::Frozen || !blocks;
                assert!(stands, "job {job} runs before job {other} has left its slots on node {node}");
            }
        }
    }

    /// Strict: SAVE comes when all parts on nodes that count are frozen.
    pub(super) fn check_save(&self, node: NodeId, job: JobId) {
        if !self.is_checked(node) {
            return;
        }
        for node in self.counting(job) {
            let real = self.nodes[node.0 as usize].processes[&job].real;
            assert!(real == Real::Frozen, "job {job} is saved while node {node} has it {real:?}");
        }
        self.check_steady(job);
    }

    /// Strict: a part whose channels were found steady has not run since, so it has sent nothing. One on
    /// another node may have, where this node was late: its test says what it has sent.
    fn check_steady(&self, job: JobId) {
        for node in self.counting(job) {
            let part = &self.nodes[node.0 as usize].processes[&job];
            let has_run = part.steady_ns().is_some_and(|steady_ns| part.thawed_ns() > steady_ns);
            assert!(!has_run, "job {job} is steady on node {node}, and has run since");
        }
    }

    /// The controller has FROZEN of the job.
    pub(super) fn check_frozen_everywhere(&self, job: JobId) {
        for node in self.counting(job) {
            let process = &self.nodes[node.0 as usize].processes[&job];
            let real = process.real;
            assert!(
                process.is_stopped() || process.returns(),
                "FROZEN of job {job} has come while node {node} has it {real:?}"
            );
        }
    }

    /// The nodes with processes of the job whose word counts.
    fn counting(&self, job: JobId) -> Vec<NodeId> {
        let nodes = (0..self.nodes.len() as u32).map(NodeId).filter(|&node| {
            let known = &self.nodes[node.0 as usize];
            known.processes.contains_key(&job)
                && known.is_settled(self.now_ns)
                && self.controller.tree().counts(node)
                && !known.processes[&job].dying
        });
        nodes.collect()
    }

    /// The faults are over and all that was late has come.
    pub(super) fn check_the_end(&mut self) {
        let expelled = self.report.expelled;
        let known: Vec<_> = self.controller.scheduler().jobs().collect();
        for (node, at) in self.nodes.iter().zip(0..) {
            let agent = node.agent.as_ref().filter(|_| node.here).expect("every node is back");
            assert_eq!(agent.tree(), self.controller.tree(), "the tree as node {at} knows it");
            assert_eq!(node.parent(), self.controller.tree().parent(NodeId(at)), "the link of node {at}");
            for job in node.processes.keys() {
                assert!(known.contains(job), "job {job} is lost: the controller does not know it");
            }
        }
        for &job in &known {
            let scheduler = self.controller.scheduler();
            let state = scheduler.state(job).expect("it is known");
            assert!(state != JobState::Dying, "job {job} has been dying for seconds");
            assert!(state != JobState::Placed, "job {job} has not begun for seconds");
            if state == JobState::Waiting {
                continue;
            }
            for part in scheduler.parts(job).expect("it has its place") {
                let there = self.nodes[part.node.0 as usize].processes.get(&job);
                let there =
                    there.unwrap_or_else(|| panic!("job {job} has lost its processes on node {}", part.node));
                // Who does not run is bound when it does.
                if state == JobState::Active {
                    assert_eq!(there.slots, part.slots, "the slots of job {job} on node {}", part.node);
                }
            }
        }
        assert!(self.controller.tree().members().expelled.is_empty(), "nobody is late any more");
        self.check_shares();
        assert_eq!(self.report.expelled, expelled, "nobody has been late any more");
    }

    /// Every active job gets its share, on all its nodes, and about the same on each.
    fn check_shares(&mut self) {
        let jobs = self.active_jobs();
        let scheduler = self.controller.scheduler();
        let weights: BTreeMap<_, _> = jobs
            .iter()
            .map(|&job| (job, u64::from(scheduler.account(job).expect("it is known").weight)))
            .collect();
        let plan = scheduler.plan();
        let heaviest = |row: &Vec<JobId>| row.iter().map(|job| weights.get(job).copied().unwrap_or(0)).max();
        let total: u64 = plan.rows.iter().filter_map(heaviest).sum::<u64>().max(1);
        let least = weights.values().copied().min().unwrap_or(1);
        let round_ns = total.div_ceil(least) * self.options.slice_ns;
        let window_ns = 4 * round_ns + 4 * self.options.slice_ns;
        let before = self.ran(&self.controller.scheduler().jobs().collect::<Vec<_>>());
        let switches = self.report.switches;
        self.run_until(self.now_ns + window_ns);
        let switched = self.report.switches - switches;
        let after = self.ran(&self.controller.scheduler().jobs().collect::<Vec<_>>());
        // What a switch may cost each time: every hop slow, the bounded wait, and in strict mode five ways
        // over the tree and what starters are asked.
        let asked_ns = if self.is_strict() { 4_000_000 } else { 0 };
        let switch_ns = 5 * u64::from(2 * self.controller.tree().height() + 3) * 100_000 + 500_000 + asked_ns;
        let lost_ns = (switched + 2) * switch_ns;
        for (job, parts) in &after {
            let ran: Vec<_> = parts
                .iter()
                .map(|(node, ran_ns)| ran_ns - before[job].get(node).copied().unwrap_or(0))
                .collect();
            let (min, max) = (ran.iter().min().copied().unwrap_or(0), ran.iter().max().copied().unwrap_or(0));
            if self.suspended.contains(job) {
                assert_eq!(max, 0, "job {job} is suspended and runs");
                continue;
            }
            let Some(weight) = weights.get(job) else { continue };
            assert!(min > 0, "job {job} does not run on all its nodes: {ran:?}");
            assert!(max - min <= lost_ns, "job {job} is no gang: {min} to {max} ns in {switched} switches");
            let due_ns = window_ns * weight / total;
            assert!(
                min + 2 * round_ns + lost_ns >= due_ns,
                "job {job} of weight {weight} of {total} has had {min} of {due_ns} ns; {plan:?}"
            );
        }
    }

    /// How long each part of the jobs has run.
    fn ran(&self, jobs: &[JobId]) -> BTreeMap<JobId, BTreeMap<NodeId, u64>> {
        let of = |job: JobId| {
            let nodes = self.nodes.iter().zip(0..);
            nodes
                .filter_map(|(node, at)| Some((NodeId(at), node.processes.get(&job)?.ran_until(self.now_ns))))
                .collect::<BTreeMap<_, _>>()
        };
        jobs.iter().map(|&job| (job, of(job))).filter(|(_, parts)| !parts.is_empty()).collect()
    }
}
