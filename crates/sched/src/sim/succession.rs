//! The head's daemon dies, and the one that follows on its node knows nothing: as `tuttid` does it.
//!
//! ```text
//!  dies --> jobs go on as they were; nobody is placed, begun, suspended or switched
//!  follows: alone in its tree, numbers far above the old ones, files of the jobs that waited (let in after [`HOLD_NS`])
//!  each node comes when it likes; the first one says what numbers there are; it has a place in the tree from then on
//!   '--> says which jobs run on it --> taken over: submitted where they run; they begin when all their nodes are here
//!                                                  '--> killed if that has not come after [`HOLD_NS`], or a part is gone
//! ```

use super::calendar::Event;
use super::world::{World, agent, config};
use crate::demand::{Demand, Place};
use crate::head::Head;
use crate::scheduler::{Config, JobState, Scheduler};
use crate::tree::Tree;
use crate::types::{Generation, JobId, NodeId, Version};

/// How long a new head waits for the nodes of a job, and with the jobs that waited.
const HOLD_NS: u64 = 1_000_000_000;
/// Who has heard nothing for so long may run what it has alone.
const SILENT_NS: u64 = 500_000_000;

/// What the daemons, not the scheduler, remember of jobs and of the change of heads.
#[derive(Debug, Default)]
pub(super) struct Succession {
    /// Since when there is no head.
    since_ns: Option<u64>,
    /// The first generation of the head that there is.
    pub(super) first: Generation,
    /// What was asked for each job; and where it runs, if it does.
    pub(super) jobs: std::collections::BTreeMap<JobId, Known>,
}

/// A job as the daemons know it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) demand: Demand,
    pub(super) nodes: Vec<(NodeId, u32)>,
    /// The head in force found it running: whether it has begun again.
    adopted: Option<bool>,
}

impl Known {
    pub(super) fn new(demand: Demand) -> Self {
        Known { demand, nodes: Vec::new(), adopted: None }
    }

    /// What it asks for where it is.
    fn demand_there(&self) -> Demand {
        Demand { place: Place::Given(self.nodes.clone()), oversubscribe: true, ..self.demand.clone() }
    }
}

impl World {
    /// There is no head.
    pub(super) fn is_headless(&self) -> bool {
        self.succession.since_ns.is_some()
    }

    /// The node has its place in the tree of the head in force.
    pub(super) fn is_admitted(&self, node: NodeId) -> bool {
        !self.is_headless() && self.head.tree().is_here(node)
    }

    /// The head's daemon dies.
    pub(super) fn kill_head(&mut self) -> bool {
        if self.is_headless() {
            return false;
        }
        self.report.heads += 1;
        self.succession.since_ns = Some(self.now_ns);
        self.end_daemon(NodeId::HEAD);
        let back_ns = self.now_ns + self.random.between((1_000_000, 1_000_000_000));
        self.push(back_ns, Event::HeadBack);
        true
    }

    /// The next one begins.
    pub(super) fn handle_head_back(&mut self) {
        let (now_ns, options) = (self.now_ns, self.options.clone());
        let away_ns = now_ns - self.succession.since_ns.take().expect("there is no head");
        // Its numbers are the microseconds of the clock, above all that there were.
        let old = self.head.scheduler();
        let first = old.generation().0.max(old.version().0) + 1_000_000;
        let numbers = Config { generation: Generation(first), version: Version(first), ..config(&options) };
        let mut scheduler = Scheduler::new(numbers).expect("the options make sense");
        scheduler.handle_node(now_ns, NodeId::HEAD, options.slots, 0);
        let tree = Tree::new(options.arity, 1);
        self.head = Head::new(scheduler, tree.clone());
        self.succession.first = Generation(first);
        self.succession.jobs.values_mut().for_each(|known| known.adopted = None);
        self.rows.insert(Generation(first), Vec::new());
        let node = &mut self.nodes[0];
        node.agent = Some(agent(&options, NodeId::HEAD, tree));
        node.life += 1;
        node.timer_ns = None;
        node.fuzzy_until_ns = node.fuzzy_until_ns.max(now_ns + 500_000_000);
        if away_ns >= SILENT_NS {
            for node in &mut self.nodes {
                node.fuzzy_until_ns = node.fuzzy_until_ns.max(now_ns + 1_000_000_000);
            }
        }
        let jobs: Vec<JobId> = self.succession.jobs.keys().copied().collect();
        for job in jobs {
            self.push(now_ns + HOLD_NS, Event::Unhold { job });
        }
        for node in (0..self.nodes.len() as u32).map(NodeId) {
            let comes_ns = now_ns + self.random.between((100_000, 300_000_000));
            self.push(comes_ns, Event::Admit { node });
        }
        self.poll_head();
    }

    /// Of a job that has never run there is a file; of one that has ended meanwhile nobody speaks any more.
    pub(super) fn handle_unhold(&mut self, job: JobId) {
        let is_new = !self.is_headless() && self.head.scheduler().state(job).is_none();
        let Some(known) = self.succession.jobs.get(&job).filter(|_| is_new) else { return };
        if !known.nodes.is_empty() {
            return self.look_whether_gone(job);
        }
        let demand = known.demand.clone();
        if self.head.scheduler_mut().submit(self.now_ns, job, &demand).is_err() {
            // Some nodes are not there: its user hears so.
            self.succession.jobs.remove(&job);
        }
        self.poll_head();
    }

    /// A node has reached the head, and says what runs on it.
    pub(super) fn handle_admit(&mut self, node: NodeId) {
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
            while (self.head.tree().nodes() as usize) < self.nodes.len() {
                let other = self.head.handle_join(now_ns, slots, 0);
                self.with_any(NodeId::HEAD, |agent| agent.handle_nodes(now_ns, other.0 + 1));
                self.head.handle_node_lost(now_ns, other);
            }
            self.head.handle_node_back(now_ns, node, slots, 0);
            self.blur_below(node, 0);
            self.spread_list();
        }
        let jobs: Vec<JobId> = self.nodes[node.0 as usize].processes.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.adopt(job));
        self.begin_adopted();
        self.poll_head();
    }

    /// The nodes of a job that the head has ordered, or taken over: every daemon above or on them hears of it.
    pub(super) fn ordered_on(&self, job: JobId) -> Option<Vec<NodeId>> {
        let known = self.succession.jobs.get(&job).filter(|known| !known.nodes.is_empty())?;
        let is_heads = known.adopted.is_some() || self.head.scheduler().state(job).is_some();
        is_heads.then(|| known.nodes.iter().map(|(node, _)| *node).collect())
    }

    /// All such jobs.
    pub(super) fn ordered_jobs(&self) -> Vec<JobId> {
        self.succession.jobs.keys().copied().filter(|&job| self.ordered_on(job).is_some()).collect()
    }

    fn adopt(&mut self, job: JobId) {
        let now_ns = self.now_ns;
        let Some(known) = self.succession.jobs.get_mut(&job) else { return };
        if known.adopted.is_some() || self.head.scheduler().state(job).is_some() {
            return;
        }
        known.adopted = Some(false);
        let (demand, nodes) = (known.demand_there(), known.nodes.clone());
        // A node of it may not be here yet: it is tried again when all are.
        let _ = self.head.scheduler_mut().submit_running(now_ns, job, &demand);
        let nodes: Vec<NodeId> = nodes.into_iter().map(|(node, _)| node).collect();
        for at in (0..self.nodes.len() as u32).map(NodeId) {
            self.with_any(at, |agent| agent.handle_job(now_ns, job, &nodes, None));
            let life = self.nodes[at.0 as usize].life;
            if self.nodes[at.0 as usize].processes.get(&job).is_some_and(|process| !process.known) {
                let back_ns = now_ns + self.random.below(100_000_000);
                self.push(back_ns, Event::StarterBack { node: at, life, job });
            }
        }
        self.push(now_ns + HOLD_NS, Event::AdoptEnd { job });
        let is_dying =
            |node: &super::node::Node| node.processes.get(&job).is_some_and(|process| process.dying);
        if self.nodes.iter().any(is_dying) {
            self.end_adopted(job);
        }
    }

    /// Those begin that are whole.
    pub(super) fn begin_adopted(&mut self) {
        let is_there = |node: NodeId, job: JobId| {
            let process = self.nodes[node.0 as usize].processes.get(&job);
            self.is_admitted(node) && process.is_some_and(|process| process.known && !process.dying)
        };
        let is_whole = |job: JobId, known: &Known| known.nodes.iter().all(|(node, _)| is_there(*node, job));
        let waits = self.succession.jobs.iter().filter(|(_, known)| known.adopted == Some(false));
        let whole: Vec<JobId> =
            waits.filter(|(job, known)| is_whole(**job, known)).map(|(job, _)| *job).collect();
        for job in whole {
            let known = self.succession.jobs.get_mut(&job).expect("it is known");
            known.adopted = Some(true);
            let demand = known.demand_there();
            if self.head.scheduler().state(job).is_none() {
                let _ = self.head.scheduler_mut().submit_running(self.now_ns, job, &demand);
            }
            self.begin_if_adopted(job);
        }
    }

    /// A job has its place; true if the head found it running.
    pub(super) fn begin_if_adopted(&mut self, job: JobId) -> bool {
        let Some(adopted) = self.succession.jobs.get(&job).and_then(|known| known.adopted) else {
            return false;
        };
        if adopted && self.head.scheduler().state(job) == Some(JobState::Placed) {
            self.head.scheduler_mut().begin(self.now_ns, job);
            self.report.adopted += 1;
            if self.suspended.contains(&job) {
                self.head.suspend(self.now_ns, job);
            }
            self.head.handle_found(job);
        }
        true
    }

    /// It has waited long enough for the nodes of the job.
    pub(super) fn handle_adopt_end(&mut self, job: JobId) {
        let adopted = self.succession.jobs.get(&job).and_then(|known| known.adopted);
        if !self.is_headless() && adopted == Some(false) {
            self.end_adopted(job);
        }
    }

    /// The job ends wherever it is: the daemons' orders say so, also where no switch thread knows it.
    fn end_adopted(&mut self, job: JobId) {
        self.head.kill(self.now_ns, job);
        for at in (0..self.nodes.len() as u32).map(NodeId) {
            if self.nodes[at.0 as usize].processes.contains_key(&job) {
                let dead_ns = self.now_ns + self.random.between((23_000, 2_000_000));
                self.push(dead_ns, Event::Dead { node: at, job });
            }
        }
        self.look_whether_gone(job);
    }
}
