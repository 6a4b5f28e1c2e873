//! The controller's daemon dies, and the one that follows on its node knows nothing: as `tuttid` does it.
//!
//! ```text
//!  dies --> jobs go on as they were; nobody is placed, begun, suspended or switched
//!  follows: alone in its tree, numbers far above the old ones, files of the jobs that waited (let in after [`HOLD_NS`])
//!  each node comes when it likes; the first one says what numbers there are; it has a place in the tree from then on
//!   '--> says which jobs run on it --> taken over: submitted where they run; they begin when all their nodes are here
//!                                                  '--> killed if that has not come after [`HOLD_NS`], or a part is gone
//! ```

use super::{World, agent, config};
use crate::controller::Controller;
use crate::demand::{Demand, Place};
use crate::scheduler::{Config, JobState, Scheduler};
use crate::sim::calendar::Event;
use crate::tree::Tree;
use crate::types::{Generation, JobId, NodeId, Version};

/// How long a new controller waits for the nodes of a job, and with the jobs that waited.
const HOLD_NS: u64 = 1_000_000_000;
/// Silence after which a node may run what it has alone.
const SILENT_NS: u64 = 500_000_000;

/// Memory of jobs and of the change of controllers that the daemons, not the scheduler, have.
#[derive(Debug, Default)]
pub(in crate::sim) struct Succession {
    /// Since when there is no controller.
    since_ns: Option<u64>,
    /// The first generation of the controller that there is.
    pub(in crate::sim) first: Generation,
    /// Demand of each job; and where it runs, if it does.
    pub(in crate::sim) jobs: std::collections::BTreeMap<JobId, Known>,
}

/// A job as the daemons know it.
#[derive(Debug)]
pub(in crate::sim) struct Known {
    pub(in crate::sim) demand: Demand,
    pub(in crate::sim) nodes: Vec<(NodeId, u32)>,
    /// The controller in force found it running: whether it has begun again.
    adopted: Option<bool>,
}

impl Known {
    pub(in crate::sim) fn new(demand: Demand) -> Self {
        Known { demand, nodes: Vec::new(), adopted: None }
    }

    /// Demand of the job for the nodes where it is.
    fn demand_there(&self) -> Demand {
        Demand { place: Place::Given(self.nodes.clone()), oversubscribe: true, ..self.demand.clone() }
    }
}

impl World {
    /// Whether there is no controller.
    pub(in crate::sim) fn is_headless(&self) -> bool {
        self.failover.since_ns.is_some()
    }

    /// The node has its place in the tree of the controller in force.
    pub(in crate::sim) fn is_admitted(&self, node: NodeId) -> bool {
        !self.is_headless() && self.controller.tree().is_here(node)
    }

    /// The controller's daemon dies.
    pub(in crate::sim) fn kill_controller(&mut self) -> bool {
        if self.is_headless() {
            return false;
        }
        self.report.heads += 1;
        self.failover.since_ns = Some(self.now_ns);
        self.end_daemon(NodeId::CONTROLLER);
        let back_ns = self.now_ns + self.random.between((1_000_000, 1_000_000_000));
        self.push(back_ns, Event::ControllerBack);
        true
    }

    /// The next one begins.
    pub(in crate::sim) fn handle_controller_back(&mut self) {
        let (now_ns, options) = (self.now_ns, self.options.clone());
        let away_ns = now_ns - self.failover.since_ns.take().expect("there is no controller");
        // Its numbers are the microseconds of the clock, above all that there were.
        let old = self.controller.scheduler();
        let first = old.generation().0.max(old.version().0) + 1_000_000;
        let numbers = Config { generation: Generation(first), version: Version(first), ..config(&options) };
        let mut scheduler = Scheduler::new(numbers).expect("the options make sense");
        scheduler.handle_node(now_ns, NodeId::CONTROLLER, options.slots, 0);
        let tree = Tree::new(options.arity, 1);
        self.controller = Controller::new(scheduler, tree.clone());
        self.equip();
        self.failover.first = Generation(first);
        self.failover.jobs.values_mut().for_each(|known| known.adopted = None);
        self.rows.insert(Generation(first), Vec::new());
        let node = &mut self.nodes[0];
        node.agent = Some(agent(&options, NodeId::CONTROLLER, tree));
        node.incarnation += 1;
        node.timer_ns = None;
        node.fuzzy_until_ns = node.fuzzy_until_ns.max(now_ns + 500_000_000);
        if away_ns >= SILENT_NS {
            for node in &mut self.nodes {
                node.fuzzy_until_ns = node.fuzzy_until_ns.max(now_ns + 1_000_000_000);
            }
        }
        let jobs: Vec<JobId> = self.failover.jobs.keys().copied().collect();
        for job in jobs {
            self.push(now_ns + HOLD_NS, Event::Unhold { job });
        }
        for node in (0..self.nodes.len() as u32).map(NodeId) {
            let comes_ns = now_ns + self.random.between((100_000, 300_000_000));
            self.push(comes_ns, Event::Admit { node });
        }
        self.poll_controller();
    }

    /// Of a job that has never run there is a file; of one that has ended meanwhile nobody speaks any more.
    pub(in crate::sim) fn handle_unhold(&mut self, job: JobId) {
        let is_new = !self.is_headless() && self.controller.scheduler().state(job).is_none();
        let Some(known) = self.failover.jobs.get(&job).filter(|_| is_new) else { return };
        if !known.nodes.is_empty() {
            return self.check_gone(job);
        }
        let demand = known.demand.clone();
        if self.controller.scheduler_mut().submit(self.now_ns, job, &demand).is_err() {
            // Some nodes are not there: its user hears so.
            self.failover.jobs.remove(&job);
        }
        self.poll_controller();
    }

    /// A node has reached the controller, and says what runs on it.
    pub(in crate::sim) fn handle_admit(&mut self, node: NodeId) {
        if self.is_headless() {
            return;
        }
        let (now_ns, slots) = (self.now_ns, self.options.slots);
        if !self.is_admitted(node) {
            let known = &self.nodes[node.0 as usize];
            let silent_ns = known.cut_until_ns.max(known.stopped_until_ns);
            if !known.here || known.agent.is_none() || now_ns < silent_ns {
                let again_ns = now_ns + self.random.between((50_000_000, 200_000_000));
                return self.push(again_ns, Event::Admit { node });
            }
            // The first that comes knows what nodes there were.
            while (self.controller.tree().nodes() as usize) < self.nodes.len() {
                let other = self.controller.handle_join(now_ns, slots, 0);
                self.with_any(NodeId::CONTROLLER, |agent| agent.handle_nodes(now_ns, other.0 + 1));
                self.controller.handle_node_lost(now_ns, other);
            }
            self.controller.handle_node_back(now_ns, node, slots, 0);
            self.blur_below(node, 0);
            self.spread_list();
        }
        let jobs: Vec<JobId> = self.nodes[node.0 as usize].processes.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.adopt(job));
        self.begin_adopted();
        self.poll_controller();
    }

    /// The nodes of a job that the controller has ordered, or taken over: every daemon above or on them hears
    /// of it.
    pub(in crate::sim) fn ordered_on(&self, job: JobId) -> Option<Vec<NodeId>> {
        let known = self.failover.jobs.get(&job).filter(|known| !known.nodes.is_empty())?;
        let is_controllers = known.adopted.is_some() || self.controller.scheduler().state(job).is_some();
        is_controllers.then(|| known.nodes.iter().map(|(node, _)| *node).collect())
    }

    /// All such jobs.
    pub(in crate::sim) fn ordered_jobs(&self) -> Vec<JobId> {
        self.failover.jobs.keys().copied().filter(|&job| self.ordered_on(job).is_some()).collect()
    }

    fn adopt(&mut self, job: JobId) {
        let now_ns = self.now_ns;
        let Some(known) = self.failover.jobs.get_mut(&job) else { return };
        if known.adopted.is_some() || self.controller.scheduler().state(job).is_some() {
            return;
        }
        known.adopted = Some(false);
        let (demand, nodes) = (known.demand_there(), known.nodes.clone());
        // A node of it may not be here yet: it is tried again when all are.
        let _ = self.controller.scheduler_mut().submit_running(now_ns, job, &demand);
        let nodes: Vec<NodeId> = nodes.into_iter().map(|(node, _)| node).collect();
        for at in (0..self.nodes.len() as u32).map(NodeId) {
            self.with_any(at, |agent| agent.handle_job(now_ns, job, &nodes, None));
            let incarnation = self.nodes[at.0 as usize].incarnation;
            if self.nodes[at.0 as usize].processes.get(&job).is_some_and(|process| !process.known) {
                let back_ns = now_ns + self.random.below(100_000_000);
                self.push(back_ns, Event::StarterBack { node: at, incarnation, job });
            }
        }
        self.push(now_ns + HOLD_NS, Event::AdoptEnd { job });
        let is_dying =
            |node: &crate::sim::node::Node| node.processes.get(&job).is_some_and(|process| process.dying);
        if self.nodes.iter().any(is_dying) {
            self.end_adopted(job);
        }
    }

    /// Begins the adopted jobs that are whole.
    pub(in crate::sim) fn begin_adopted(&mut self) {
        let is_there = |node: NodeId, job: JobId| {
            let process = self.nodes[node.0 as usize].processes.get(&job);
            self.is_admitted(node) && process.is_some_and(|process| process.known && !process.dying)
        };
        let is_whole = |job: JobId, known: &Known| known.nodes.iter().all(|(node, _)| is_there(*node, job));
        let waits = self.failover.jobs.iter().filter(|(_, known)| known.adopted == Some(false));
        let whole: Vec<JobId> =
            waits.filter(|(job, known)| is_whole(**job, known)).map(|(job, _)| *job).collect();
        for job in whole {
            let known = self.failover.jobs.get_mut(&job).expect("it is known");
            known.adopted = Some(true);
            let demand = known.demand_there();
            if self.controller.scheduler().state(job).is_none() {
                let _ = self.controller.scheduler_mut().submit_running(self.now_ns, job, &demand);
            }
            self.begin_if_adopted(job);
        }
    }

    /// A job has its place; true if the controller found it running.
    pub(in crate::sim) fn begin_if_adopted(&mut self, job: JobId) -> bool {
        let Some(adopted) = self.failover.jobs.get(&job).and_then(|known| known.adopted) else {
            return false;
        };
        if adopted && self.controller.scheduler().state(job) == Some(JobState::Placed) {
            self.controller.scheduler_mut().begin(self.now_ns, job);
            self.report.adopted += 1;
            if self.suspended.contains(&job) {
                self.controller.suspend(self.now_ns, job);
            }
            self.controller.handle_found(job);
        }
        true
    }

    /// Ends the controller's wait for the nodes of the job, which has been long enough.
    pub(in crate::sim) fn handle_adopt_end(&mut self, job: JobId) {
        let adopted = self.failover.jobs.get(&job).and_then(|known| known.adopted);
        if !self.is_headless() && adopted == Some(false) {
            self.end_adopted(job);
        }
    }

    /// The job ends wherever it is: the daemons' orders say so, also where no switch thread knows it.
    fn end_adopted(&mut self, job: JobId) {
        self.controller.kill(self.now_ns, job);
        for at in (0..self.nodes.len() as u32).map(NodeId) {
            if self.nodes[at.0 as usize].processes.contains_key(&job) {
                let dead_ns = self.now_ns + self.random.between((23_000, 2_000_000));
                self.push(dead_ns, Event::Dead { node: at, job });
            }
        }
        self.check_gone(job);
    }
}
