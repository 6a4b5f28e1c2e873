//! The event loop.

mod failover;
mod faults;
mod scarcity;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::calendar::{Entry, Event};
use super::coverage::{Kind, Phase};
use super::node::{Node, Process};
use super::options::{Options, Report};
use crate::agent::{Agent, Output};
use crate::controller::{Controller, Notice};
use crate::demand::Demand;
use crate::gang::{Arrival, JobChange, Timing};
use crate::message::{Down, Mode, Order, Stage};
use crate::scheduler::rotation::credit_ns;
use crate::scheduler::{Config, Event as Placed, JobState, Scheduler};
use crate::tree::Tree;
use crate::types::{Generation, JobId, NodeId};
use failover::{Known, Succession};
use faults::Mood;
use scarcity::Scarcity;
use tutti_testkit::Random;

/// No run has a tenth as many events.
const EVENTS_MAX: u64 = 20_000_000;

/// A simulated cluster.
#[derive(Debug)]
pub struct World {
    pub(super) options: Options,
    pub(super) random: Random,
    pub(super) now_ns: u64,
    queue: BinaryHeap<Entry>,
    pushed: u64,
    /// Links that there have been.
    pub(super) dialled: u64,
    pub(super) controller: Controller,
    pub(super) nodes: Vec<Node>,
    /// When the last message of a link arrives.
    links: BTreeMap<(NodeId, NodeId), u64>,
    controller_timer_ns: Option<u64>,
    pub(super) next_job: u64,
    /// The rows that the controller ordered, by generation.
    pub(super) rows: BTreeMap<Generation, Vec<JobId>>,
    /// The generation in which each job came into the row.
    pub(super) came: BTreeMap<JobId, Generation>,
    pub(super) moods: BTreeMap<JobId, Mood>,
    pub(super) suspended: BTreeSet<JobId>,
    /// Faults that wait for a job to come to a step.
    pub(super) ambushes: Vec<(Kind, Phase)>,
    pub(super) failover: Succession,
    /// Until when the wire is slow.
    pub(super) slow_wire_until_ns: u64,
    pub(super) faulty: bool,
    /// Jobs wait for others and lend them their turns.
    lends: bool,
    /// GPUs and reservations, if there are any.
    scarcity: Option<Scarcity>,
    pub(super) report: Report,
    /// When each node's part was said to be thawed in the newest switch; for measurements.
    pub(super) thawed: Vec<u64>,
    /// When the controller heard of each stage first in this generation.
    pub(super) reached_at: BTreeMap<(Generation, Stage), u64>,
    pub(super) switched_ns: u64,
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "the failing run: TUTTI_SIM_SEED={} at {} ns, {:?}",
                self.options.seed, self.now_ns, self.options
            );
        }
    }
}

impl World {
    /// A cluster in which nothing has happened.
    ///
    /// # Panics
    /// Panics if the options make no cluster.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut scheduler = Scheduler::new(config(&options)).expect("the options make sense");
        for node in 0..options.nodes {
            scheduler.handle_node(0, NodeId(node), options.slots, 0);
        }
        let tree = Tree::new(options.arity, options.nodes);
        let nodes = (0..options.nodes).map(NodeId).map(|node| Node {
            link: tree.parent(node).map(|parent| (parent, 0)),
            ..Node::new(agent(&options, node, tree.clone()))
        });
        World {
            nodes: nodes.collect(),
            random: Random::new(options.seed),
            now_ns: 0,
            queue: BinaryHeap::new(),
            pushed: 0,
            dialled: 0,
            controller: Controller::new(scheduler, tree),
            links: BTreeMap::new(),
            controller_timer_ns: None,
            next_job: 1,
            rows: BTreeMap::new(),
            came: BTreeMap::new(),
            moods: BTreeMap::new(),
            suspended: BTreeSet::new(),
            ambushes: Vec::new(),
            failover: Succession::default(),
            slow_wire_until_ns: 0,
            faulty: options.fault_every_ns > 0,
            lends: false,
            scarcity: None,
            report: Report::default(),
            thawed: vec![0; options.nodes as usize],
            reached_at: BTreeMap::new(),
            switched_ns: 0,
            options,
        }
    }

    /// The same; jobs wait for services of others and lend them their turns.
    #[must_use]
    pub fn lending(mut self) -> Self {
        self.lends = true;
        self
    }

    /// Runs with faults, then without, and looks whether all is well.
    pub fn run(mut self) -> Report {
        for _ in 0..self.options.jobs {
            self.submit_something();
        }
        self.push(1_000_000, Event::Heartbeat);
        let wishful = if self.lends { self.options.nodes } else { 0 };
        for node in (0..wishful).map(NodeId) {
            self.push(2_000_000, Event::Wish { node, wish: None });
        }
        if self.faulty {
            self.push(self.options.fault_every_ns, Event::Fault);
        }
        self.run_until(self.options.faults_ns);
        self.end_faults();
        self.end_reservations();
        self.run_until(self.now_ns + 2_000_000_000);
        // Nobody is lost any more; somebody is to be there when all is well again.
        for _ in self.controller.scheduler().jobs().count()..self.options.jobs as usize {
            self.submit_something();
        }
        // Whoever was stuck, late or lost comes back in this time, and has had what he is owed.
        let outstanding_ns =
            self.controller.scheduler().jobs().count() as u64 * credit_ns(self.options.slice_ns);
        self.run_until(self.now_ns + 3_000_000_000 + outstanding_ns);
        self.check_the_end();
        self.report
    }

    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.pushed += 1;
        self.queue.push(Entry { at_ns, number: self.pushed, event });
    }

    /// Lets time go on until `end_ns`.
    pub fn run_until(&mut self, end_ns: u64) {
        self.poll_controller();
        while self.queue.peek().is_some_and(|entry| entry.at_ns <= end_ns) {
            let entry = self.queue.pop().expect("it was there");
            assert!(entry.at_ns >= self.now_ns, "time goes on");
            self.now_ns = entry.at_ns;
            self.report.events += 1;
            assert!(self.report.events < EVENTS_MAX, "the run goes round in circles");
            self.handle(entry.event);
        }
        self.now_ns = end_ns;
    }

    /// Node whose daemon has to be on its feet for this.
    fn needs(&self, event: &Event) -> Option<NodeId> {
        match *event {
            Event::Down { to: node, .. } | Event::Up { link: (node, _), .. } => Some(node),
            Event::Saved { node, .. } | Event::Restored { node, .. } | Event::Tested { node, .. } => {
                Some(node)
            }
            Event::Counts { node, .. } | Event::FreezeRequested { node, .. } => Some(node),
            Event::Timer { node } | Event::List { node } => Some(node),
            _ => None,
        }
    }

    pub(super) fn handle(&mut self, event: Event) {
        let now_ns = self.now_ns;
        let stopped_ns = self.needs(&event).map_or(0, |node| self.nodes[node.0 as usize].stopped_until_ns);
        if stopped_ns > now_ns {
            if let Event::Timer { node } = event {
                self.nodes[node.0 as usize].timer_ns = Some(stopped_ns);
            }
            return self.push(stopped_ns, event);
        }
        match event {
            Event::Down { to, link, down } if self.nodes[to.0 as usize].link == Some(link) => {
                self.with_any(to, |agent| agent.handle_down(now_ns, down));
            }
            Event::Up { from, link, report } if self.nodes[from.0 as usize].link == Some(link) => {
                self.with_any(link.0, |agent| agent.handle_report(now_ns, from, report));
            }
            Event::Down { .. } | Event::Up { .. } => {}
            Event::Freezer { node, job, epoch, frozen } => self.handle_freezer(node, job, epoch, frozen),
            Event::Counts { node, job, epoch } => self.handle_counts(node, job, epoch),
            Event::Tested { node, job, epoch, begun_ns } => self.handle_tested(node, job, epoch, begun_ns),
            Event::Saved { node, job } => {
                self.end_copy(node, job);
                self.with_any(node, |agent| agent.handle_change(now_ns, job, JobChange::Saved));
            }
            Event::Restored { node, job, generation } => {
                if let Some(process) = self.nodes[node.0 as usize].processes.get_mut(&job) {
                    process.restored = process.restored.max(Some(generation));
                }
                self.end_copy(node, job);
                self.with_any(node, |agent| agent.handle_change(now_ns, job, JobChange::Restored));
            }
            Event::FreezeRequested { node, job, epoch, frozen } => {
                self.handle_freeze_requested(node, job, epoch, frozen)
            }
            Event::Strike { node, job, kind } => self.strike(node, job, kind),
            Event::Dead { node, job } => self.handle_dead(node, job),
            Event::Timer { node } => {
                if self.nodes[node.0 as usize].timer_ns == Some(now_ns) {
                    self.nodes[node.0 as usize].timer_ns = None;
                    self.with_any(node, |agent| agent.handle_time(now_ns));
                }
            }
            Event::Controller => {
                if self.controller_timer_ns == Some(now_ns) {
                    self.controller_timer_ns = None;
                    self.poll_controller();
                }
            }
            Event::Launched { .. } if self.is_headless() => {}
            Event::Launched { job } if self.begin_if_adopted(job) => {}
            Event::Launched { job } => {
                self.controller.scheduler_mut().begin(now_ns, job);
                self.poll_controller();
            }
            Event::ControllerBack => self.handle_controller_back(),
            Event::Admit { node } => self.handle_admit(node),
            Event::AdoptEnd { job } => self.handle_adopt_end(job),
            Event::Unhold { job } => self.handle_unhold(job),
            Event::Heartbeat => self.handle_heartbeat(),
            Event::Fault
            | Event::LossSeen { .. }
            | Event::NodeBack { .. }
            | Event::DaemonBack { .. }
            | Event::StarterBack { .. } => self.handle_fault(&event),
            Event::List { node } => self.handle_list(node),
            Event::Dial { node, incarnation } => self.handle_dial(node, incarnation),
            Event::Mood { job } => self.handle_mood(job),
            Event::Wish { node, wish } => self.handle_wish(node, wish),
        }
    }

    /// Tells the agent of a node something, and does what it says.
    pub(super) fn with_any(&mut self, node: NodeId, tell: impl FnOnce(&mut Agent)) {
        let Some(agent) = &mut self.nodes[node.0 as usize].agent else { return };
        tell(agent);
        self.settle(node);
    }

    fn settle(&mut self, node: NodeId) {
        let at = node.0 as usize;
        let controller = self.controller.tree().controller();
        while let Some(output) = self.nodes[at].agent.as_mut().and_then(Agent::poll_output) {
            match output {
                Output::Welcome(_) => {}
                Output::Child(to, down) => {
                    // What cannot be said, since there is no link, is said when there is one.
                    if let Some(link) = self.nodes[to.0 as usize].link.filter(|link| link.0 == node) {
                        let arrives_ns = self.send(node, to);
                        self.push(arrives_ns, Event::Down { to, link, down });
                    }
                }
                Output::Parent(report) if node == controller => self.handle_at_controller(report),
                Output::Parent(report) => {
                    if let Some(link) = self.nodes[at].link {
                        let arrives_ns = self.send(node, link.0);
                        self.push(arrives_ns, Event::Up { from: node, link, report });
                    }
                }
                Output::Do(action) => self.act(node, &action),
            }
        }
        let due_ns = self.nodes[at].agent.as_ref().and_then(Agent::poll_timeout);
        if let Some(due_ns) = due_ns.map(|due_ns| due_ns.max(self.now_ns))
            && self.nodes[at].timer_ns != Some(due_ns)
        {
            self.nodes[at].timer_ns = Some(due_ns);
            self.push(due_ns, Event::Timer { node });
        }
        if node == controller {
            self.poll_controller();
        }
    }

    /// Puts a message on a link; says when it arrives.
    fn send(&mut self, from: NodeId, to: NodeId) -> u64 {
        let costs = self.options.costs;
        let sender = &mut self.nodes[from.0 as usize];
        sender.busy_ns = sender.busy_ns.max(self.now_ns) + costs.send_ns;
        let cut_ns = sender.cut_until_ns;
        let mut latency_ns = costs.hop_ns(&mut self.random);
        if self.now_ns < self.slow_wire_until_ns {
            latency_ns *= self.random.between((1, 200));
        }
        if self.nodes[from.0 as usize].losing > 0 {
            self.nodes[from.0 as usize].losing -= 1;
            // Said again after 10 and 20 ms, and 40 ms later over the link (the daemon's `lanes`).
            latency_ns += self.random.pick(&[10_000_000, 30_000_000, 70_000_000]).expect("one of three");
        }
        let cut_ns = cut_ns.max(self.nodes[to.0 as usize].cut_until_ns);
        let arrives_ns = (self.nodes[from.0 as usize].busy_ns + latency_ns).max(cut_ns);
        let last_ns = self.links.entry((from, to)).or_insert(0);
        // In order on each link.
        *last_ns = arrives_ns.max(*last_ns + 1);
        *last_ns
    }

    fn handle_at_controller(&mut self, report: crate::message::Report) {
        let before = match report {
            crate::message::Report::Reached { job, stage, generation, .. } => {
                self.reached_at.entry((generation, stage)).or_insert(self.now_ns);
                self.report.idle += u64::from(stage == Stage::Idle);
                Some((job, self.controller.scheduler().is_frozen(job)))
            }
            _ => None,
        };
        self.controller.handle_report(self.now_ns, report);
        if let Some((job, false)) = before
            && self.controller.scheduler().is_frozen(job)
        {
            self.report.frozen += 1;
            self.check_frozen_everywhere(job);
        }
    }

    /// Sends down what the controller says.
    pub(super) fn poll_controller(&mut self) {
        if self.is_headless() {
            return;
        }
        while let Some(notice) = self.controller.poll_notice(self.now_ns) {
            self.report.expelled += u64::from(matches!(notice, Notice::Expelled(_)));
        }
        while let Some(Placed::Placed(job, parts)) = self.controller.scheduler_mut().poll_event() {
            if !self.begin_if_adopted(job) {
                self.launch(job, &parts);
            }
        }
        let node = self.controller.tree().controller();
        while let Some(down) = self.controller.poll_down(self.now_ns) {
            if let Down::Order(Order::Switch(switch)) = &down
                && !self.rows.contains_key(&switch.generation)
            {
                self.report.switches += 1;
                self.switched_ns = self.now_ns;
                let row = self.controller.scheduler().running().to_vec();
                let before = self.rows.last_key_value().map(|(_, row)| row.clone()).unwrap_or_default();
                let coming = row.iter().filter(|job| !before.contains(job));
                self.came.extend(coming.map(|&job| (job, switch.generation)));
                self.rows.insert(switch.generation, row);
                // Who was cut off works through what was ordered meanwhile.
                while self.rows.len() > 10_000 {
                    self.rows.pop_first();
                }
                self.check_row();
                self.check_connected();
            }
            let now_ns = self.now_ns;
            self.with_any(node, |agent| agent.handle_down(now_ns, down));
        }
        let due_ns = self.controller.poll_timeout().map(|due_ns| due_ns.max(self.now_ns + 1));
        if let Some(due_ns) = due_ns
            && self.controller_timer_ns != Some(due_ns)
        {
            self.controller_timer_ns = Some(due_ns);
            self.push(due_ns, Event::Controller);
        }
    }

    /// Submits a job; says whether it was taken.
    pub fn submit(&mut self, demand: &Demand) -> Option<JobId> {
        if self.is_headless() {
            return None;
        }
        let job = JobId(self.next_job);
        self.controller.scheduler_mut().submit(self.now_ns, job, demand).ok()?;
        self.failover.jobs.insert(job, Known::new(demand.clone()));
        self.next_job += 1;
        self.poll_controller();
        Some(job)
    }

    /// Forks the ranks of a job on all its nodes, frozen.
    fn launch(&mut self, job: JobId, parts: &[crate::demand::Part]) {
        self.check_scarcity(job, parts);
        for part in parts {
            let node = &mut self.nodes[part.node.0 as usize];
            node.processes.insert(job, Process::new(part.slots));
        }
        let nodes: Vec<_> = parts.iter().map(|part| part.node).collect();
        let known = self.failover.jobs.get_mut(&job).expect("it was submitted");
        known.nodes = parts.iter().map(|part| (part.node, part.ranks)).collect();
        for at in 0..self.nodes.len() as u32 {
            self.introduce(NodeId(at), job, &nodes, Arrival::Frozen);
        }
        let launched_ns = self.now_ns + 3_000_000;
        self.push(launched_ns, Event::Launched { job });
        if self.options.moods {
            let first_ns = self.now_ns + self.random.between((10_000_000, 500_000_000));
            self.push(first_ns, Event::Mood { job });
        }
    }

    /// Tells a daemon of a job.
    pub(super) fn introduce(&mut self, node: NodeId, job: JobId, nodes: &[NodeId], arrival: Arrival) {
        let known = &mut self.nodes[node.0 as usize];
        let has_agent = known.agent.is_some();
        let slots = known.processes.get_mut(&job).map(|process| {
            process.known |= has_agent;
            process.slots
        });
        let now_ns = self.now_ns;
        let here = slots.map(|slots| (slots, arrival));
        self.with_any(node, |agent| agent.handle_job(now_ns, job, nodes, here));
    }

    fn handle_dead(&mut self, node: NodeId, job: JobId) {
        self.nodes[node.0 as usize].processes.remove(&job);
        let now_ns = self.now_ns;
        self.with_any(node, |agent| agent.handle_job_ended_here(now_ns, job));
        self.check_gone(job);
    }

    /// If nothing of the job is left, all hear of it.
    pub(super) fn check_gone(&mut self, job: JobId) {
        let known = self.failover.jobs.get(&job).is_some_and(|known| !known.nodes.is_empty())
            || self.controller.scheduler().state(job).is_some();
        if !known || self.is_headless() || self.nodes.iter().any(|node| node.processes.contains_key(&job)) {
            return;
        }
        let now_ns = self.now_ns;
        self.report.left_out +=
            self.controller.scheduler().account(job).map_or(0, |account| account.left_out);
        self.controller.handle_job_ended(now_ns, job);
        for at in 0..self.nodes.len() as u32 {
            self.with_any(NodeId(at), |agent| agent.handle_job_ended(now_ns, job));
        }
        self.moods.remove(&job);
        self.suspended.remove(&job);
        self.failover.jobs.remove(&job);
        self.poll_controller();
    }

    /// Everybody whose way to the controller is open hears of it.
    fn handle_heartbeat(&mut self) {
        let now_ns = self.now_ns;
        let next_ns = now_ns + 250_000_000;
        self.push(next_ns, Event::Heartbeat);
        for at in 0..self.nodes.len() as u32 {
            let mut up = Some(NodeId(at));
            let mut open = true;
            while let Some(node) = up {
                let known = &self.nodes[node.0 as usize];
                open &= known.agent.is_some() && now_ns >= known.cut_until_ns;
                open &= known.link.is_some() || node == self.controller.tree().controller();
                up = known.parent();
            }
            if open {
                self.with_any(NodeId(at), |agent| agent.handle_contact(now_ns));
            }
        }
    }

    /// The jobs that are to run.
    pub(super) fn active_jobs(&self) -> Vec<JobId> {
        let scheduler = self.controller.scheduler();
        scheduler.jobs().filter(|&job| scheduler.state(job) == Some(JobState::Active)).collect()
    }

    /// The generation that a node acts by.
    pub(super) fn executed(&self, node: NodeId) -> Generation {
        let agent = self.nodes[node.0 as usize].agent.as_ref();
        agent.and_then(|agent| agent.switch().executed()).map_or(Generation(0), |switch| switch.generation)
    }

    /// True if the switch in force is a strict one.
    pub(super) fn is_strict(&self) -> bool {
        self.options.mode == Mode::Strict
    }
}

/// The settings of a controller.
pub(super) fn config(options: &Options) -> Config {
    Config {
        slice_ns: options.slice_ns,
        policy: options.policy,
        mode: options.mode,
        force_switch: options.force_switch,
        idle_recheck_ns: 300_000_000,
        ..Config::default()
    }
}

/// How long an answer about channels is waited for: half as long as for a late node.
pub(super) fn channel_ns(slice_ns: u64) -> u64 {
    5 * slice_ns
}

/// The agent of a node. Nobody waits long here: ten slices are late.
pub(super) fn agent(options: &Options, node: NodeId, tree: Tree) -> Agent {
    let late_ns = 10 * options.slice_ns;
    let timing = Timing {
        stuck_ns: late_ns,
        silence_ns: if node == tree.controller() { 0 } else { 1_000_000_000 },
        alone_slice_ns: options.slice_ns,
        channel_ns: channel_ns(options.slice_ns),
        ..Timing::default()
    };
    Agent::new(node, tree, timing, late_ns, 16)
}
