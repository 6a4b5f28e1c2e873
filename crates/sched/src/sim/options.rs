//! Options of a simulation, and the report of its run.

use super::costs::Costs;
use super::coverage::FaultCoverage;
use crate::matrix::Policy;
use crate::message::Mode;
use tutti_testkit::Random;

/// Options of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// All that happens follows from it.
    pub seed: u64,
    /// How many nodes.
    pub nodes: u32,
    /// Slots of each.
    pub slots: u32,
    /// Children of a node of the tree.
    pub arity: u32,
    /// The slice.
    pub slice_ns: u64,
    /// Overlapped or strict.
    pub mode: Mode,
    /// How jobs are placed.
    pub policy: Policy,
    /// Switch also with one row.
    pub force_switch: bool,
    /// Costs of operations.
    pub costs: Costs,
    /// The mean time between two faults; 0 is no faults.
    pub fault_every_ns: u64,
    /// How long there are faults.
    pub faults_ns: u64,
    /// Jobs to begin with.
    pub jobs: u32,
    /// Jobs at a time, at most.
    pub jobs_max: u32,
    /// Jobs sleep now and then.
    pub moods: bool,
    /// The controller dies too. When the next one comes every node is another state of the tree for all: too
    /// much for thousands.
    pub heads_die: bool,
}

impl Options {
    /// A cluster that follows from the seed: 1 to 40 nodes, both modes and policies, all faults.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7475_7474_6921);
        Options {
            seed,
            nodes: random.between((1, 40)) as u32,
            slots: random.between((1, 4)) as u32,
            arity: random.between((1, 6)) as u32,
            slice_ns: random.between((5, 40)) * 1_000_000,
            mode: if random.chance(500) { Mode::Strict } else { Mode::Overlapped },
            policy: if random.chance(500) { Policy::Dqt } else { Policy::RoundRobin },
            force_switch: random.chance(200),
            costs: Costs::default(),
            fault_every_ns: random.between((10, 200)) * 1_000_000,
            faults_ns: 3_000_000_000,
            jobs: random.between((1, 8)) as u32,
            jobs_max: 12,
            moods: random.chance(500),
            heads_die: true,
        }
    }
}

/// Report of what happened in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events in all.
    pub events: u64,
    /// Switches that the controller ordered.
    pub switches: u64,
    /// Times that a job was thawed on a node.
    pub thaws: u64,
    /// Faults of all kinds.
    pub faults: u64,
    /// Nodes lost.
    pub losses: u64,
    /// Nodes that joined.
    pub membership: u64,
    /// Daemons restarted.
    pub restarts: u64,
    /// Controllers that died.
    pub heads: u64,
    /// Jobs that the next controller took over, and that went on.
    pub adopted: u64,
    /// Nodes cut off for a while.
    pub cuts: u64,
    /// Freezers that took half a second or more.
    pub stuck: u64,
    /// Daemons that stood still for a while.
    pub stops: u64,
    /// Jobs killed.
    pub kills: u64,
    /// Of those, suspended ones.
    pub kills_suspended: u64,
    /// Looks at connected jobs that are at home in one row.
    pub common: u64,
    /// Faults by kind and by the step of a switch that they met.
    pub fault_coverage: FaultCoverage,
    /// Nodes expelled from the slice plan.
    pub expelled: u64,
    /// Thaws after the bounded wait, beside a job not frozen yet.
    pub overlaps: u64,
    /// Jobs that were complete in FROZEN.
    pub frozen: u64,
    /// Jobs that went idle.
    pub idle: u64,
    /// Jobs left out because they were not frozen yet.
    pub left_out: u64,
    loans: u64,
    /// Steady state tests that found a part's channels steady, and those that were given up or not answered.
    tests: (u64, u64),
    /// Jobs with GPUs, and jobs in reservations, that got their nodes.
    scarce: (u64, u64),
}

impl Report {
    /// Times that a job ran in the turn of another one on a node.
    #[must_use]
    pub fn loans(&self) -> u64 {
        self.loans
    }

    /// Jobs with GPUs, and jobs in reservations, that got their nodes.
    #[must_use]
    pub fn scarce(&self) -> (u64, u64) {
        self.scarce
    }

    /// Steady state tests of a part that ended well, and those that were given up or not answered.
    #[must_use]
    pub fn tests(&self) -> (u64, u64) {
        self.tests
    }

    pub(super) fn count_test(&mut self, is_steady: bool) {
        *(if is_steady { &mut self.tests.0 } else { &mut self.tests.1 }) += 1;
    }

    pub(super) fn count_scarce(&mut self, has_gpus: bool, is_reserved: bool) {
        self.scarce.0 += u64::from(has_gpus);
        self.scarce.1 += u64::from(is_reserved);
    }

    pub(super) fn count_loan(&mut self) {
        self.loans += 1;
    }
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.events += other.events;
        self.switches += other.switches;
        self.thaws += other.thaws;
        self.faults += other.faults;
        self.losses += other.losses;
        self.membership += other.membership;
        self.restarts += other.restarts;
        self.heads += other.heads;
        self.adopted += other.adopted;
        self.cuts += other.cuts;
        self.stuck += other.stuck;
        self.stops += other.stops;
        self.kills += other.kills;
        self.kills_suspended += other.kills_suspended;
        self.common += other.common;
        self.fault_coverage.add(&other.fault_coverage);
        self.expelled += other.expelled;
        self.overlaps += other.overlaps;
        self.frozen += other.frozen;
        self.idle += other.idle;
        self.left_out += other.left_out;
        self.loans += other.loans;
        self.tests.0 += other.tests.0;
        self.tests.1 += other.tests.1;
        self.scarce.0 += other.scarce.0;
        self.scarce.1 += other.scarce.1;
    }
}
