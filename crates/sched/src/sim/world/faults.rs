//! Faults, and what jobs do by themselves.

use super::{World, agent};
use crate::demand::Demand;
use crate::gang::{Arrival, JobChange};
use crate::scheduler::JobState;
use crate::sim::calendar::Event;
use crate::sim::coverage::{KINDS, Kind};
use crate::sim::node::Real;
use crate::tree::Tree;
use crate::types::{JobId, NodeId};

/// How long after a daemon has come back it hears of its jobs, at most.
const STARTER_BACK_NS: u64 = 200_000_000;

/// Whether a job sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) struct Mood {
    asleep_until_ns: u64,
}

impl Mood {
    pub(in crate::sim) fn is_awake(self, now_ns: u64) -> bool {
        now_ns >= self.asleep_until_ns
    }
}

impl World {
    pub(in crate::sim) fn handle_fault(&mut self, event: &Event) {
        match *event {
            Event::Fault => self.next_fault(),
            // Whoever says it says it to nobody, or to one that does not know the node.
            Event::LossSeen { node } if !self.is_admitted(node) => {}
            Event::NodeBack { .. } | Event::DaemonBack { .. } if self.is_headless() => {
                // It waits for a controller.
                let again_ns = self.now_ns + self.random.between((1_000_000, 100_000_000));
                self.push(again_ns, event.clone());
            }
            Event::LossSeen { node } => {
                for job in self.controller.handle_node_lost(self.now_ns, node) {
                    self.check_gone(job);
                }
                self.poll_controller();
                self.spread_list();
            }
            Event::NodeBack { node } => {
                self.nodes[node.0 as usize].here = true;
                self.blur(node);
                self.start_daemon(node);
                self.handle_admit(node);
            }
            Event::DaemonBack { node } => {
                if self.nodes[node.0 as usize].here {
                    self.start_daemon(node);
                }
            }
            Event::StarterBack { node, incarnation, .. }
                if self.nodes[node.0 as usize].incarnation != incarnation => {}
            Event::StarterBack { .. } if self.is_headless() => {
                // Nobody says on which slots.
                self.push(self.now_ns + 50_000_000, event.clone());
            }
            Event::StarterBack { node, job, .. } => {
                self.learn_job(node, job);
                self.begin_adopted();
                self.poll_controller();
            }
            _ => unreachable!("{event:?} is no fault"),
        }
    }

    fn next_fault(&mut self) {
        if !self.faulty {
            return;
        }
        let next_ns = self.now_ns + self.random.between((1, 2 * self.options.fault_every_ns));
        self.push(next_ns, Event::Fault);
        self.report.faults += 1;
        self.reserve_something();
        if self.is_headless() && self.random.chance(500) {
            // Most of what follows would do nothing.
            return self.strike_somewhere();
        }
        match self.random.below(19) {
            0 => self.slow_wire_until_ns = self.now_ns + self.random.between((1_000_000, 100_000_000)),
            1 => {
                let until_ns = self.now_ns + self.random.between((1_000_000, 500_000_000));
                let node = self.some_node();
                self.nodes[node.0 as usize].slow_until_ns = until_ns;
            }
            2 | 3 => self.lay_ambush(Kind::Kill),
            4 | 5 => self.suspend_something(),
            6 => self.resume_something(),
            7 => self.lay_ambush(Kind::Loss),
            8 => self.lay_ambush(Kind::Restart),
            9 => self.lay_ambush(Kind::Cut),
            14 => self.lay_ambush(Kind::Datagrams),
            15 => self.lay_ambush(Kind::Stop),
            16 => self.strike_somewhere(),
            17 => self.lay_ambush(Kind::Controller),
            11 => self.join_a_node(),
            10 => {
                let weight = self.random.between((50, 200)) as u32;
                if let Some(job) = self.some_job().filter(|_| !self.is_headless()) {
                    self.controller
                        .scheduler_mut()
                        .set_weight(self.now_ns, job, weight)
                        .expect("it is in range");
                    self.poll_controller();
                }
            }
            12 => self.connect_something(),
            _ => self.submit_something(),
        }
    }

    fn connect_something(&mut self) {
        if let Some((one, other)) = self.some_job().zip(self.some_job()).filter(|_| !self.is_headless()) {
            let connected = self.random.chance(700);
            self.controller.scheduler_mut().set_connected(self.now_ns, one, other, connected);
            self.poll_controller();
        }
    }

    pub(in crate::sim) fn submit_something(&mut self) {
        let most = self.nodes.len() as u64;
        let wide = self.random.chance(300);
        let nodes = if wide { most } else { self.random.between((1, most)) } as u32;
        let ranks = nodes * self.random.between((1, u64::from(self.options.slots))) as u32;
        let exclusive = most > 3 && self.random.chance(30);
        let weight = self.random.between((50, 200)) as u32;
        if self.controller.scheduler().jobs().count() < self.options.jobs_max as usize {
            let demand = self.dressed(Demand { weight, exclusive, ..Demand::any(nodes, ranks) });
            _ = self.submit(&demand);
        }
    }

    fn some_job(&mut self) -> Option<JobId> {
        let jobs: Vec<_> = self.controller.scheduler().jobs().collect();
        self.random.pick(&jobs)
    }

    fn some_node(&mut self) -> NodeId {
        NodeId(self.random.below(self.nodes.len() as u64) as u32)
    }

    /// Strikes some job on some node, whatever they are at: also who waits, is suspended, or has no job.
    fn strike_somewhere(&mut self) {
        let (node, kind) = (self.some_node(), self.random.pick(&KINDS).expect("there are some"));
        if let Some(job) = self.some_job() {
            self.strike(node, job, kind);
        }
    }

    pub(in crate::sim) fn kill_job(&mut self, job: JobId) -> bool {
        if self.is_headless() || self.controller.scheduler().state(job).is_none() {
            return false;
        }
        self.report.kills += 1;
        self.report.kills_suspended += u64::from(self.suspended.contains(&job));
        self.controller.kill(self.now_ns, job);
        self.poll_controller();
        self.check_gone(job);
        true
    }

    fn suspend_something(&mut self) {
        if !self.is_headless()
            && let Some(job) = self.some_job()
            && self.controller.scheduler().state(job) == Some(JobState::Active)
        {
            self.suspended.insert(job);
            self.controller.suspend(self.now_ns, job);
            self.poll_controller();
        }
    }

    fn resume_something(&mut self) {
        let suspended: Vec<_> = self.suspended.iter().copied().collect();
        if let Some(job) = self.random.pick(&suspended).filter(|_| !self.is_headless()) {
            self.suspended.remove(&job);
            self.controller.resume(self.now_ns, job);
            self.poll_controller();
        }
    }

    pub(in crate::sim) fn lose(&mut self, node: NodeId) -> bool {
        let known = &mut self.nodes[node.0 as usize];
        if node.0 == 0 || !known.here {
            return false;
        }
        self.report.losses += 1;
        (known.here, known.agent) = (false, None);
        known.incarnation += 1;
        known.processes.clear();
        self.break_links(node);
        let seen_ns = self.now_ns + self.random.between((1_000_000, 200_000_000));
        let back_ns = seen_ns + self.random.between((1_000_000, 1_000_000_000));
        self.push(seen_ns, Event::LossSeen { node });
        self.push(back_ns, Event::NodeBack { node });
        true
    }

    pub(in crate::sim) fn restart(&mut self, node: NodeId) -> bool {
        let known = &mut self.nodes[node.0 as usize];
        if node.0 == 0 || !known.here || known.agent.is_none() {
            return false;
        }
        self.report.restarts += 1;
        self.end_daemon(node);
        let back_ns = self.now_ns + self.random.between((1_000_000, 300_000_000));
        self.push(back_ns, Event::DaemonBack { node });
        true
    }

    /// The daemon of a node ends, its jobs go on.
    pub(in crate::sim) fn end_daemon(&mut self, node: NodeId) {
        let known = &mut self.nodes[node.0 as usize];
        known.agent = None;
        known.incarnation += 1;
        known.stopped_until_ns = 0;
        // The starters thaw their jobs: nobody stays frozen for ever.
        for process in known.processes.values_mut() {
            (process.real, process.known) = (Real::Runs, false);
            process.set_runs(self.now_ns, true);
            process.epoch += 1;
            process.copies = None;
        }
        self.break_links(node);
    }

    pub(in crate::sim) fn start_daemon(&mut self, node: NodeId) {
        // It has a list of the nodes, and no state of the tree.
        let tree = Tree::new(self.options.arity, self.controller.tree().nodes().max(node.0 + 1));
        let at = node.0 as usize;
        self.nodes[at].agent = Some(agent(&self.options, node, tree));
        self.nodes[at].incarnation += 1;
        self.nodes[at].timer_ns = None;
        self.nodes[at].fuzzy_until_ns = self.nodes[at].fuzzy_until_ns.max(self.now_ns + 500_000_000);
        let now_ns = self.now_ns;
        self.with_any(node, |agent| agent.handle_contact(now_ns));
        let (jobs, incarnation) = (self.ordered_jobs(), self.nodes[at].incarnation);
        for job in jobs {
            // What is in force may come before it, or after it.
            let back_ns = now_ns + self.random.below(2) * self.random.below(STARTER_BACK_NS);
            self.push(back_ns, Event::StarterBack { node, incarnation, job });
        }
        self.dial(node, 5_000_000);
    }

    /// A daemon hears of a job: from its neighbours, and from the starter if it is here.
    fn learn_job(&mut self, node: NodeId, job: JobId) {
        let process = self.nodes[node.0 as usize].processes.get(&job);
        let runs = process.is_none_or(|process| process.real != Real::Frozen);
        let arrival = if runs { Arrival::Running } else { Arrival::Frozen };
        if let Some(nodes) = self.ordered_on(job) {
            self.introduce(node, job, &nodes, arrival);
        }
    }

    pub(in crate::sim) fn cut(&mut self, node: NodeId) -> bool {
        if node.0 == 0 {
            return false;
        }
        self.report.cuts += 1;
        let until_ns = self.now_ns + self.random.between((1_000_000, 3_000_000_000));
        let known = &mut self.nodes[node.0 as usize];
        known.cut_until_ns = known.cut_until_ns.max(until_ns);
        self.blur(node);
        true
    }

    /// All below a node that is cut off hear nothing either, and work through what has come meanwhile when it
    /// is not any more.
    fn blur(&mut self, node: NodeId) {
        let until_ns = self.nodes[node.0 as usize].cut_until_ns;
        if until_ns >= self.now_ns {
            self.blur_below(node, until_ns);
        }
    }

    /// For a second after this time what runs on the node and below may be other than the controller thinks.
    pub(in crate::sim) fn blur_below(&mut self, node: NodeId, until_ns: u64) {
        for at in 0..self.nodes.len() as u32 {
            if self.controller.tree().next_hop(node, NodeId(at)).is_some() || NodeId(at) == node {
                let known = &mut self.nodes[at as usize];
                known.fuzzy_until_ns = known.fuzzy_until_ns.max(until_ns + 1_000_000_000);
            }
        }
    }

    /// From now on nothing goes wrong, and whoever sleeps wakes.
    pub(in crate::sim) fn end_faults(&mut self) {
        self.faulty = false;
        self.ambushes.clear();
        self.options.moods = false;
        self.slow_wire_until_ns = 0;
        let jobs: Vec<_> = self.moods.keys().copied().collect();
        for job in jobs {
            self.wake(job);
        }
        self.moods.clear();
    }

    /// A job falls asleep, or wakes up.
    pub(in crate::sim) fn handle_mood(&mut self, job: JobId) {
        if !self.options.moods || !self.failover.jobs.contains_key(&job) {
            return;
        }
        let next_ns = self.now_ns + self.random.between((1_000_000, 400_000_000));
        self.push(next_ns, Event::Mood { job });
        let mood = self.moods.get(&job).copied();
        let runs =
            self.nodes.iter().filter_map(|node| node.processes.get(&job)).all(|part| part.real == Real::Runs);
        if let Some(mood) = mood {
            // Input comes, which is seen at once; or a timer runs out, which is seen when it runs.
            if self.random.chance(500) || mood.is_awake(self.now_ns) && runs {
                self.wake(job);
            }
        } else if runs {
            let asleep_until_ns = self.now_ns + self.random.between((1_000_000, 800_000_000));
            self.moods.insert(job, Mood { asleep_until_ns });
            self.send_all(job, true);
        }
    }

    /// A process of a job here begins to wait for another job, or ends.
    pub(in crate::sim) fn handle_wish(&mut self, node: NodeId, wish: Option<(JobId, JobId)>) {
        let now_ns = self.now_ns;
        if let Some((lender, borrower)) = wish {
            return self.with_any(node, |agent| {
                agent.handle_wish(now_ns, lender, borrower, false);
            });
        }
        let pause_ns = self.random.between((100_000, 20_000_000));
        self.push(now_ns + pause_ns, Event::Wish { node, wish: None });
        let here: Vec<_> = self.nodes[node.0 as usize].processes.keys().copied().collect();
        let wish = self.random.pick(&here).zip(self.random.pick(&here));
        let Some((lender, borrower)) = wish else { return };
        let mut is_heard = false;
        self.with_any(node, |agent| is_heard = agent.handle_wish(now_ns, lender, borrower, true));
        if is_heard {
            let lasts_ns = self.random.between((10_000, 60_000_000));
            self.push(now_ns + lasts_ns, Event::Wish { node, wish: Some((lender, borrower)) });
        }
    }

    fn wake(&mut self, job: JobId) {
        self.moods.remove(&job);
        self.send_all(job, false);
    }

    fn send_all(&mut self, job: JobId, asleep: bool) {
        let now_ns = self.now_ns;
        for at in 0..self.nodes.len() as u32 {
            if self.nodes[at as usize].processes.contains_key(&job) {
                let change = if asleep { JobChange::Asleep } else { JobChange::Awake };
                self.with_any(NodeId(at), |agent| agent.handle_change(now_ns, job, change));
            }
        }
    }
}
