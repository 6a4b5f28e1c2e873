//! The scheduler of the controller: takes jobs, gives them nodes and rows, and says when which row runs.
//!
//! A job's way, and the calls that lead along it:
//!
//! ```text
//!  submit --> Waiting --(room: Event::Placed)--> Placed --begin--> Active <--suspend/resume--> Suspended
//!                |                                  |                |                             |
//!                '------------- end ----------------+----------------+-----------------------------'
//! ```
//!
//! - **Placed**: nodes and slots are the job's own; the caller launches it there (its ranks come frozen) and
//!   calls [`Scheduler::begin`].
//! - **Active**: it stands in the matrix. [`Scheduler::next_row`] gives the rows their turns.
//! - **Suspended**: it stands in no row; its memory is still charged to its nodes.
//! - A job is **left out** of the rows, and keeps its credit, while a node of it is expelled, or while it
//!   should run and is not yet frozen everywhere after its last slice. Who has flooded the network is left
//!   out too, without credit.
//! - Waiting jobs are served first come, first served, but a job that fits passes one that does not, at most
//!   [`Config::bypass_max`] times; after that it claims the nodes that it needs, and is passed on other nodes
//!   only (`queue`). One for which too few nodes are up is passed by all. One that runs already
//!   ([`Scheduler::submit_running`]) passes all, and only waits for its turns.
//! - A job that takes no turns ([`Demand::gang`]) stays **Placed** to its end.
//!
//! What the nodes must know is in [`Scheduler::plan`], whose version changes only when rows change.

mod queue;
pub(crate) mod rotation;

use std::collections::{BTreeMap, VecDeque};

use crate::demand::{Demand, Part, SubmitError, WEIGHT_MAX};
use crate::machine::Machine;
use crate::market::Market;
use crate::matrix::{Matrix, Policy};
use crate::message::{Mode, Plan, Switch};
use crate::reserved::Reservation;
use crate::scheduler::queue::{Claim, Waiting};
use crate::scheduler::rotation::{Account, Freeze, Turn};
use crate::types::{Generation, JobId, NodeId, SLICE_DEFAULT_NS, Slots, Version};

/// The shortest and the longest slice.
pub const SLICE_NS: std::ops::RangeInclusive<u64> = 5_000_000..=3_600_000_000_000;

/// How to schedule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// How long a row runs: 5 ms to an hour.
    pub slice_ns: u64,
    /// How jobs are placed.
    pub policy: Policy,
    /// How rows are switched.
    pub mode: Mode,
    /// Jobs run in other rows too where their columns are free.
    pub fill_holes: bool,
    /// Switch at the end of every slice, to the same row if there is no other (the paper's experiments).
    pub force_switch: bool,
    /// An idle job gets a short look at least this often: what is frozen cannot say that a timer has run out.
    /// 0 is never.
    pub idle_recheck_ns: u64,
    /// How often a waiting job is passed by later ones on the nodes that it needs.
    pub bypass_max: u32,
    /// Rows of the matrix; a job that would need one more waits.
    pub rows_max: usize,
    /// Jobs that wait.
    pub waiting_max: usize,
    /// The generation of the last switch that any node has seen, when a controller takes over.
    pub generation: Generation,
    /// The version of the last plan that any node has seen, when a controller takes over.
    pub version: Version,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            slice_ns: SLICE_DEFAULT_NS,
            policy: Policy::RoundRobin,
            mode: Mode::Overlapped,
            fill_holes: true,
            force_switch: false,
            idle_recheck_ns: 1_000_000_000,
            bypass_max: 16,
            rows_max: 256,
            waiting_max: 100_000,
            generation: Generation(0),
            version: Version(0),
        }
    }
}

/// A configuration that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The slice is out of range.
    #[error("a slice is 5 ms to an hour, not {slice_ns} ns")]
    Slice {
        /// Slice that was asked for.
        slice_ns: u64,
    },
    /// The matrix has no row.
    #[error("a matrix needs at least one row")]
    NoRows,
}

/// Event that the caller is to know of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The job has nodes: launch it there, frozen, and call [`Scheduler::begin`].
    Placed(JobId, Vec<Part>),
}

/// Where a job is on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobState {
    /// The job waits for nodes or memory.
    Waiting,
    /// The job has nodes and is being launched.
    Placed,
    /// The job takes its turns.
    Active,
    /// The job is suspended.
    Suspended,
    /// A node of it is lost, or it is being killed.
    Dying,
}

#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) demand: Demand,
    pub(crate) state: JobState,
    /// Whether it was suspended before it began.
    suspended_early: bool,
    /// A node of it is expelled.
    stalled: bool,
    /// When it was placed.
    placed_ns: u64,
    /// Where it is at home, as of the last [`Scheduler::refresh`]; none: in no row.
    pub(crate) home: Option<Home>,
    pub(crate) turn: Turn,
}

/// The row for which a job claims its part of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    /// Of the version in force.
    pub(crate) row: u32,
    /// Slots that the job has there.
    pub(crate) slots: u64,
}

/// The scheduler of a cluster.
#[derive(Clone, Debug)]
pub struct Scheduler {
    pub(crate) config: Config,
    pub(crate) machine: Machine,
    pub(crate) matrix: Matrix,
    /// When connected jobs were last brought together.
    pub(crate) united_ns: Option<u64>,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    queue: VecDeque<Waiting>,
    /// Nodes that jobs in the queue keep for themselves, as of the last look at it.
    claims: Vec<Claim>,
    expelled: Vec<NodeId>,
    events: VecDeque<Event>,
    pub(crate) rotation: crate::scheduler::rotation::Rotation,
    pub(crate) fair: crate::scheduler::rotation::Fair,
    pub(crate) market: Market,
}

impl Scheduler {
    /// A scheduler without nodes and jobs.
    ///
    /// # Errors
    /// Says what is wrong with the configuration.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        if !SLICE_NS.contains(&config.slice_ns) {
            return Err(ConfigError::Slice { slice_ns: config.slice_ns });
        }
        if config.rows_max == 0 {
            return Err(ConfigError::NoRows);
        }
        Ok(Scheduler {
            machine: Machine::default(),
            matrix: Matrix::new(config.policy, config.fill_holes, config.rows_max, config.version),
            united_ns: None,
            jobs: BTreeMap::new(),
            queue: VecDeque::new(),
            claims: Vec::new(),
            expelled: Vec::new(),
            events: VecDeque::new(),
            rotation: crate::scheduler::rotation::Rotation::new(config.generation, config.version),
            fair: crate::scheduler::rotation::Fair::default(),
            market: Market::default(),
            config,
        })
    }

    /// A node is in the cluster (again), with so many slots and so much memory (0: not known).
    pub fn handle_node(&mut self, now_ns: u64, node: NodeId, slots: u32, memory_bytes: u64) {
        self.charge(now_ns);
        self.machine.set(node, slots, memory_bytes);
        self.serve_queue();
    }

    /// A node has so many GPUs; before the first time, none.
    pub fn handle_gpus(&mut self, now_ns: u64, node: NodeId, gpus: u32) {
        self.charge(now_ns);
        self.machine.set_gpus(node, gpus);
        self.serve_queue();
    }

    /// A node is lost. Returns the jobs that had a part on it: they are out of the matrix, and the caller
    /// kills them.
    pub fn handle_node_lost(&mut self, now_ns: u64, node: NodeId) -> Vec<JobId> {
        self.charge(now_ns);
        self.machine.lose(node);
        self.market.forget(node);
        self.expelled.retain(|&expelled| expelled != node);
        let jobs = self.jobs_on(node);
        for &job in &jobs {
            self.die(job);
        }
        // What a job has claimed that needs the node others may have.
        self.serve_queue();
        jobs
    }

    /// A node is late by more than ten slices: its jobs are left out until [`Self::handle_node_back`].
    pub fn handle_node_expelled(&mut self, now_ns: u64, node: NodeId) {
        self.charge(now_ns);
        if !self.expelled.contains(&node) {
            self.expelled.push(node);
            self.stall_jobs();
        }
    }

    /// An expelled node has caught up.
    pub fn handle_node_back(&mut self, now_ns: u64, node: NodeId) {
        self.charge(now_ns);
        self.expelled.retain(|&expelled| expelled != node);
        self.stall_jobs();
    }

    /// Jobs get no room on these nodes, of which some may not be here yet, and may on all others. Those that
    /// have some keep it, with room for their steps. A job that needs one of the nodes waits, and is passed
    /// by all.
    pub fn drain(&mut self, now_ns: u64, nodes: &[NodeId]) {
        self.charge(now_ns);
        self.machine.drain(nodes);
        self.serve_queue();
    }

    /// Takes the reservations that are not over. Jobs that have room keep it, with room for their steps. A
    /// job for which too few nodes are left is passed by all.
    pub fn reserve(&mut self, now_ns: u64, reservations: Vec<Reservation>) {
        self.charge(now_ns);
        self.machine.reserved.set(reservations);
        self.serve_queue();
    }

    /// A job that waits runs so long at most; none: for ever.
    pub fn set_lasts(&mut self, now_ns: u64, job: JobId, lasts_ns: Option<u64>) {
        self.charge(now_ns);
        if let Some(record) = self.jobs.get_mut(&job) {
            record.demand.set_lasts(lasts_ns);
            self.serve_queue();
        }
    }

    /// Takes a job. [`Event::Placed`] says when it has nodes: at once, if there is room.
    ///
    /// # Errors
    /// Refuses what the cluster could not hold if it were empty.
    pub fn submit(&mut self, now_ns: u64, job: JobId, demand: &Demand) -> Result<(), SubmitError> {
        if self.queue.len() >= self.config.waiting_max {
            return Err(SubmitError::QueueFull { waiting: self.queue.len() });
        }
        self.take(now_ns, job, demand, false)
    }

    /// Takes a job that runs already, on given nodes. It is placed before all that wait. One that awaits lost
    /// nodes ([`Demand::awaiting_lost`]) had its nodes under an earlier controller: it gets them when they
    /// are here, whatever is there by now.
    ///
    /// # Errors
    /// Refuses what the cluster could not hold if it were empty.
    pub fn submit_running(&mut self, now_ns: u64, job: JobId, demand: &Demand) -> Result<(), SubmitError> {
        self.take(now_ns, job, demand, true)
    }

    fn take(&mut self, now_ns: u64, job: JobId, demand: &Demand, runs: bool) -> Result<(), SubmitError> {
        if self.jobs.contains_key(&job) {
            return Err(SubmitError::JobTwice { job });
        }
        let within = demand.holder.within.is_some();
        // As few nodes as its ranks need of those that it may have now.
        let open = if runs { None } else { self.machine.open_to(demand).settle(demand).ok() };
        let demand = open.map_or_else(|| self.machine.settle_new(demand), Ok)?;
        self.charge(now_ns);
        let turn = Turn::new(demand.weight);
        let state = JobState::Waiting;
        let (suspended_early, stalled, placed_ns) = (false, false, 0);
        self.jobs.insert(job, Job { demand, state, suspended_early, stalled, placed_ns, home: None, turn });
        let waiting = Waiting { job, passed: 0, runs };
        if runs {
            self.queue.push_front(waiting);
        } else if within {
            // It has nodes: whoever waits for some may wait for its job to end.
            let is_before = |other: &Waiting| other.runs || self.is_step(other.job);
            let at = self.queue.iter().position(|other| !is_before(other)).unwrap_or(self.queue.len());
            self.queue.insert(at, waiting);
        } else {
            self.queue.push_back(waiting);
        }
        self.serve_queue();
        Ok(())
    }

    /// A placed job is there on all its nodes. One that takes no turns need not begin.
    pub fn begin(&mut self, now_ns: u64, job: JobId) {
        self.charge(now_ns);
        let clock_ns = self.virtual_time();
        let begins = |record: &&mut Job| record.state == JobState::Placed && record.demand.gang;
        let Some(record) = self.jobs.get_mut(&job).filter(begins) else { return };
        record.state = JobState::Active;
        record.turn.join(clock_ns.max(self.rotation.debt_ns(record.demand.holder.owner.user)));
        if std::mem::take(&mut record.suspended_early) {
            self.suspend(now_ns, job);
        } else {
            self.settle_activity(job);
        }
    }

    /// The job leaves the matrix until it is resumed. A waiting job waits on.
    pub fn suspend(&mut self, now_ns: u64, job: JobId) {
        self.charge(now_ns);
        let Some(record) = self.jobs.get_mut(&job) else { return };
        match record.state {
            JobState::Active => {
                record.state = JobState::Suspended;
                self.matrix.leave(&self.machine, job);
                self.settle_activity(job);
                self.serve_queue();
            }
            JobState::Waiting | JobState::Placed => record.suspended_early = true,
            JobState::Suspended | JobState::Dying => {}
        }
    }

    /// The job comes back to the matrix.
    pub fn resume(&mut self, now_ns: u64, job: JobId) {
        self.charge(now_ns);
        let clock_ns = self.virtual_time();
        let Some(record) = self.jobs.get_mut(&job) else { return };
        record.suspended_early = false;
        if record.state == JobState::Suspended {
            record.state = JobState::Active;
            record.turn.join(clock_ns);
            self.matrix.come_back(&self.machine, job);
            self.settle_activity(job);
        }
    }

    /// The job is being killed: it takes no more turns, its columns stay taken until [`Self::end`].
    pub fn kill(&mut self, now_ns: u64, job: JobId) {
        self.charge(now_ns);
        self.die(job);
    }

    /// Ends the job, of which nothing is left.
    pub fn end(&mut self, now_ns: u64, job: JobId) {
        self.charge(now_ns);
        self.rotation.forget(job);
        self.matrix.forget_connections(job);
        self.queue.retain(|waiting| waiting.job != job);
        let clock_ns = self.virtual_time();
        let Some(record) = self.jobs.remove(&job) else { return };
        self.rotation.keep_debt(record.demand.holder.owner.user, record.turn.virtual_ns(), clock_ns);
        if record.state == JobState::Suspended {
            // It stands in no row already.
            if let Some(resident) = self.matrix.residents.remove(&job) {
                self.machine.release(job, &record.demand, &resident.parts);
            }
        } else if let Some(resident) = self.matrix.remove(&self.machine, job) {
            self.machine.release(job, &record.demand, &resident.parts);
        }
        self.serve_queue();
    }

    /// Changes the job's share.
    ///
    /// # Errors
    /// Refuses a weight out of range.
    pub fn set_weight(&mut self, now_ns: u64, job: JobId, weight: u32) -> Result<(), SubmitError> {
        if !(1..=WEIGHT_MAX).contains(&weight) {
            return Err(SubmitError::Weight { requested: weight });
        }
        self.charge(now_ns);
        if let Some(record) = self.jobs.get_mut(&job) {
            record.demand.weight = weight;
            record.turn.set_weight(weight);
            self.fair.expire();
            self.matrix.set_weight(job, weight);
        }
        Ok(())
    }

    /// Two jobs are connected to each other, or no longer: they are brought to the same turns where their
    /// slots allow, and stay there together. It is forgotten when one of them ends. The caller bounds how
    /// many there are.
    pub fn set_connected(&mut self, now_ns: u64, one: JobId, other: JobId, connected: bool) {
        self.charge(now_ns);
        self.matrix.set_connected(one, other, connected);
    }

    /// A part of the job has been measured to use so much memory: the greater of this and what was declared
    /// is charged.
    pub fn handle_memory(&mut self, job: JobId, node: NodeId, bytes: u64) {
        let declared = self.jobs.get(&job).map_or(0, |record| record.demand.memory_bytes);
        // What a step uses is of what its job has declared.
        let owner = self.jobs.get(&job).and_then(|record| self.jobs.get(&record.demand.holder.within?));
        if owner.is_some_and(|owner| owner.demand.memory_bytes > 0) {
            return;
        }
        let has_part_there = self.parts(job).is_some_and(|parts| parts.iter().any(|part| part.node == node));
        if has_part_there {
            self.machine.charge_memory(job, node, bytes.max(declared));
            self.serve_queue();
        }
    }

    /// Takes the next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Where a job is on its way.
    #[must_use]
    pub fn state(&self, job: JobId) -> Option<JobState> {
        self.jobs.get(&job).map(|record| record.state)
    }

    /// The nodes and slots of a job that has been placed.
    #[must_use]
    pub fn parts(&self, job: JobId) -> Option<&[Part]> {
        self.matrix.residents.get(&job).map(|resident| resident.parts.as_slice())
    }

    /// The rows that the nodes are to know: to be sent down before the first switch of its version. Look at
    /// it after [`Self::next_row`].
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.matrix.plan()
    }

    /// The jobs of each row of the plan, by the row's number; ascending.
    pub fn rows(&self) -> impl Iterator<Item = (u32, JobId)> + '_ {
        let rows = (0..).zip(self.matrix.rows());
        rows.flat_map(|(at, row)| row.all.iter().map(move |&job| (at, job)))
    }

    /// The slots of the jobs that take turns, by job and node.
    pub fn slots(&self) -> impl Iterator<Item = (JobId, NodeId, Slots)> + '_ {
        let turns = self.matrix.residents.iter().filter(|(_, resident)| resident.gang);
        turns.flat_map(|(&job, resident)| resident.parts.iter().map(move |part| (job, part.node, part.slots)))
    }

    /// The version of [`Self::plan`].
    #[must_use]
    pub fn version(&self) -> Version {
        self.matrix.version()
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// Account of the job so far; up to the last call that told the time.
    #[must_use]
    pub fn account(&self, job: JobId) -> Option<Account> {
        self.jobs.get(&job).map(|record| record.turn.account())
    }

    /// Slots of all nodes that are here, and slots of those that the jobs now running hold.
    #[must_use]
    pub fn slots_in_use(&self) -> (u64, u64) {
        let held = self.rotation.running().iter().filter_map(|&job| self.parts(job)).flatten();
        (self.machine.slots(), held.map(|part| u64::from(part.slots.count())).sum())
    }

    /// The next switch, to this row of the version in force.
    pub(crate) fn switch_to(&mut self, row: u32) -> Switch {
        let generation = self.rotation.advance();
        let (version, mode) = (self.matrix.version(), self.config.mode);
        Switch { version, row, generation, at_ns: 0, mode, left_ns: 0 }
    }

    /// The job is left out of the rows, or no longer, because it is not frozen where it should be.
    pub(crate) fn settle_activity(&mut self, job: JobId) {
        let stalled = self.is_stalled(job);
        let Some(record) = self.jobs.get_mut(&job) else { return };
        if std::mem::replace(&mut record.stalled, stalled) && !stalled {
            // What it has missed it does not get back.
            let clock_ns = self.virtual_time();
            self.jobs.entry(job).and_modify(|record| record.turn.join(clock_ns));
        }
        let Some(record) = self.jobs.get(&job) else { return };
        let turn = &record.turn;
        let active = record.state == JobState::Active && !record.stalled && !turn.held && !turn.is_left_out();
        self.matrix.set_active(job, active);
    }

    /// Puts the rows together anew if something has changed, and notes at each job where it is at home: the
    /// rotation goes through the jobs, not through the rows.
    pub(crate) fn refresh(&mut self) {
        if !self.matrix.refresh(&self.machine) {
            return;
        }
        self.jobs.values_mut().for_each(|record| record.home = None);
        for (row, planned) in self.matrix.rows().iter().enumerate() {
            for job in &planned.home {
                let slots = self.matrix.residents.get(job).map_or(0, |resident| resident.slots);
                if let Some(record) = self.jobs.get_mut(job) {
                    debug_assert!(record.home.is_none(), "job {job} is at home in two rows");
                    record.home = Some(Home { row: row as u32, slots });
                }
            }
        }
    }

    fn jobs_on(&self, node: NodeId) -> Vec<JobId> {
        let residents = self.matrix.residents.iter();
        let there = residents.filter(|(_, resident)| resident.parts.iter().any(|part| part.node == node));
        there.map(|(&job, _)| job).collect()
    }

    /// Updates which jobs are left out, when the nodes that are expelled have changed.
    fn stall_jobs(&mut self) {
        let is_known = |job: &JobId| self.jobs.get(job).is_some_and(|record| record.stalled);
        let residents = self.matrix.residents.keys().copied();
        let changed: Vec<_> = residents.filter(|job| is_known(job) != self.is_stalled(*job)).collect();
        changed.into_iter().for_each(|job| self.settle_activity(job));
    }

    /// A part of the job is on a node that is expelled.
    fn is_stalled(&self, job: JobId) -> bool {
        let is_expelled = |part: &Part| self.expelled.contains(&part.node);
        !self.expelled.is_empty() && self.parts(job).unwrap_or_default().iter().any(is_expelled)
    }

    fn die(&mut self, job: JobId) {
        self.queue.retain(|waiting| waiting.job != job);
        let Some(record) = self.jobs.get_mut(&job) else { return };
        if record.state == JobState::Suspended {
            // So that there is one way out for all.
            self.matrix.come_back(&self.machine, job);
        }
        record.state = JobState::Dying;
        record.turn.freeze = Freeze::Frozen;
        self.rotation.forget(job);
        self.settle_activity(job);
    }
}
