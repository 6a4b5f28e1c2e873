//! Machines: daemons that are started, die and are started anew, the starters that they leave behind, and the
//! clocks that both see.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tutti_protocol::reservation::Reservation;
use tutti_protocol::wire::{Job, Kind, Report};

use super::{DISK_MS, Next, World};
use crate::core::Core;
use crate::core::clocks::Clocks;
use crate::core::config::{Config, KnownNodes, TICK_MS};
use crate::core::event::{Event, StarterEnd};
use crate::core::journal::Journal;
use crate::core::record::{Queued, StarterRecord};
use crate::core::sim::scheduling::{MEMORY_BYTES, Scheduling};
use crate::core::sim::starter::{Fate, Starter};
use crate::core::sim::writer::Writer;
use crate::ids::LinkId;
use crate::members::{About, NodeId};
use crate::message::{JobId, Launch};

/// Silence after which a node is lost.
const LOST_MS: u64 = 2_000;
/// Jobs on several nodes wait so long for a controller that is lost: longer than any daemon is away in runs
/// of faults.
pub(in crate::core::sim) const KEEP_MS: u64 = 30_000;
/// Reading of a clock when all begins.
const START_MS: u64 = 1_700_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) core: Option<Core>,
    pub(super) incarnation: u64,
    /// Actions after which it is killed, and the most ms after which another is started.
    pub(super) dies_after: Option<(u64, u64)>,
    /// Time by which its clock is ahead of ours.
    pub(super) ahead_ms: i64,
    pub(super) starters: BTreeMap<JobId, Starter>,
    pub(super) files: BTreeMap<JobId, StarterRecord>,
    /// Files of jobs that wait for nodes, and those that are being written; none: not wanted any more.
    pub(super) queued: BTreeMap<JobId, Queued>,
    pub(super) filing: VecDeque<(JobId, Option<Queued>)>,
    /// Journals of output files, the writers, and what is in the files.
    pub(super) journals: BTreeMap<JobId, Journal>,
    pub(super) writers: BTreeMap<JobId, Writer>,
    pub(super) disk: BTreeMap<JobId, Vec<Vec<u8>>>,
    /// On the controller: the file of the numbers of nodes.
    pub(super) numbers: BTreeMap<String, NodeId>,
    /// On the controller: its list of reservations, and the one that is being written.
    pub(super) reservations: Vec<Reservation>,
    pub(super) keeping: Option<Vec<Reservation>>,
    /// On the controller.
    pub(super) scheduling: Option<Scheduling>,
}

impl Machine {
    /// The next file is there.
    pub(super) fn write_file(&mut self) {
        if let Some((job, queued)) = self.filing.pop_front() {
            self.queued.extend(queued.map(|queued| (job, queued)));
        }
    }

    /// The list of reservations that is being written is there; `false`: there is none.
    pub(super) fn keep_reservations(&mut self) -> bool {
        let new = self.keeping.take();
        let is_new = new.is_some();
        self.reservations = new.unwrap_or_else(|| std::mem::take(&mut self.reservations));
        is_new
    }

    /// No file of the job is there, or comes.
    pub(super) fn remove_file(&mut self, job: JobId) {
        self.queued.remove(&job);
        let filing = self.filing.iter_mut().filter(|(other, _)| *other == job);
        filing.for_each(|(_, queued)| *queued = None);
    }
}

impl World {
    pub(in crate::core::sim) fn clock(&self, node: usize) -> u64 {
        (START_MS + self.now_ms).saturating_add_signed(self.machines[node].ahead_ms)
    }

    /// Readings of its clocks: each machine was started at another time.
    pub(super) fn clocks(&self, node: usize) -> Clocks {
        Clocks { wall_ms: self.clock(node), boot_ms: 1_000_000 * (node as u64 + 1) + self.now_ms }
    }

    /// The clock of a node is set.
    pub(in crate::core::sim) fn set_clock(&mut self, node: usize, ahead_ms: i64) {
        self.machines[node].ahead_ms = ahead_ms;
    }

    pub(in crate::core::sim) fn jump_a_clock(&mut self) {
        let node = self.random.below(self.machines.len() as u64) as usize;
        let jump = self.random.below(7_200_000) as i64 - 3_600_000;
        self.machines[node].ahead_ms += jump;
    }

    /// The disk of a node has the next file of a job that waits, refuses it, or takes it later.
    pub(super) fn write_file(&mut self, node: usize, incarnation: u64) {
        let machine = &mut self.machines[node];
        let first = machine.filing.front().map(|(job, _)| *job);
        let Some(job) = first.filter(|_| machine.incarnation == incarnation) else { return };
        if self.slow_files.contains(&job) {
            return self.later(DISK_MS, Next::Files(node, incarnation));
        }
        let filed = if self.refused_files.contains(&job) {
            machine.filing.pop_front();
            Err("no space left on device".to_owned())
        } else {
            machine.write_file();
            Ok(())
        };
        self.deliver(node, Event::Filed(job, filed));
    }

    /// Configuration of a daemon that finds these starters.
    pub(in crate::core::sim) fn config(
        &self,
        node: usize,
        incarnation: u64,
        starters: Vec<(JobId, StarterRecord)>,
    ) -> Config {
        let address = |port: usize| SocketAddr::from(([127, 0, 0, 1], port as u16 + 1));
        let machine = &self.machines[node];
        Config {
            about: About {
                name: format!("node{node}"),
                control: address(node),
                data: "127.0.0.1".parse().unwrap(),
                slots: 4,
                memory_bytes: MEMORY_BYTES,
                limits_memory: false,
                freezes: false,
                incarnation,
                preferred: Default::default(),
                machine: String::new(),
                release: String::new(),
                offered_gpus: Default::default(),
            },
            controller: (node > 0).then(|| address(0)),
            arity: self.arity,
            lost_ms: LOST_MS,
            keep_ms: KEEP_MS,
            owner: 1,
            first_job: self.last_job + 1,
            before: (machine.incarnation > 0).then_some(machine.incarnation),
            starters,
            journals: machine.journals.iter().map(|(job, journal)| (*job, journal.clone())).collect(),
            queued: machine.queued.iter().map(|(job, queued)| (*job, queued.clone())).collect(),
            known_nodes: KnownNodes {
                numbers: machine.numbers.clone(),
                reservations: machine.reservations.clone(),
                ..KnownNodes::default()
            },
            used: Default::default(),
            policy: Default::default(),
            loaded: Default::default(),
            settings: Vec::new(),
            user_name: |_| None,
            group_name: |_| None,
        }
    }

    pub(super) fn start_daemon(&mut self, node: usize) {
        if self.machines[node].core.is_some() {
            return;
        }
        let incarnation = self.number();
        let machine = &self.machines[node];
        let alive = |job: &JobId| machine.starters.contains_key(job);
        let record: Vec<(JobId, StarterRecord)> = (machine.files.iter())
            .map(|(job, record)| (*job, StarterRecord { alive: alive(job), ..record.clone() }))
            .collect();
        let back: Vec<JobId> = machine.starters.keys().copied().collect();
        let config = self.config(node, incarnation, record);
        let clocks = self.clocks(node);
        let machine = &mut self.machines[node];
        machine.scheduling = (node == 0).then(Scheduling::new);
        (machine.incarnation, machine.core) = (incarnation, Some(Core::new(config, clocks)));
        for job in back {
            self.later(600, Next::Reattach(node, job));
        }
        self.later(TICK_MS, Next::Tick(node, incarnation));
        self.act(node);
    }

    /// Some daemon is killed, perhaps in the middle of what it does next, and perhaps some of its starters
    /// with it.
    pub(in crate::core::sim) fn kill_a_daemon(&mut self, including_controller: bool) {
        self.troubled = true;
        let first = u64::from(!including_controller);
        let node = (first + self.random.below(self.machines.len() as u64 - first)) as usize;
        if self.machines[node].core.is_none() {
            return;
        }
        if self.random.below(3) == 0 {
            self.machines[node].dies_after = Some((self.random.below(12), 2_000));
            return;
        }
        let most_ms = if self.random.below(2) == 0 { 800 } else { 9_000 };
        self.replace_daemon(node, most_ms);
        let random = &mut self.random;
        self.machines[node].starters.retain(|_, _| random.below(4) > 0);
    }

    /// The daemon of a node dies when it has done so many more things; another is started in so many ms at
    /// most.
    pub(in crate::core::sim) fn replace_daemon_after(&mut self, node: usize, actions: u64, most_ms: u64) {
        self.machines[node].dies_after = Some((actions, most_ms));
    }

    /// All of a node's starters die at once, with all that they have started.
    pub(in crate::core::sim) fn kill_all_starters(&mut self, node: usize) {
        self.machines[node].starters.clear();
    }

    /// The daemon of a node dies, and none of its starters; another is started in so many ms at most.
    pub(in crate::core::sim) fn replace_daemon(&mut self, node: usize, most_ms: u64) {
        self.troubled = true;
        self.controller_died |= node == 0;
        let machine = &mut self.machines[node];
        (machine.core, machine.dies_after) = (None, None);
        // The first of them was there, or refused, and perhaps all behind it, and nobody was notified.
        let most = if self.events.is_multiple_of(2) { 1 } else { usize::MAX };
        let mut left = if self.random.below(2) == 0 { most } else { 0 };
        while left > 0
            && let Some((job, _)) = machine.filing.front()
            && !self.slow_files.contains(job)
        {
            left -= 1;
            if self.refused_files.contains(job) {
                machine.filing.pop_front();
            } else {
                machine.write_file();
            }
        }
        machine.filing.clear();
        if machine.keeping.is_some() && self.random.below(2) == 0 {
            machine.keep_reservations();
        }
        machine.keeping = None;
        self.end_writers(node);
        let links: Vec<LinkId> =
            self.ends.iter().filter(|(_, end)| end.node == node).map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.close(link));
        for client in self.clients.iter_mut().filter(|client| client.node == node) {
            client.gone = true;
        }
        let (machine, started) = (&mut self.machines[node], &mut self.started);
        machine.starters.retain(|job, starter| {
            starter.connected = false;
            // What a starter is told leaves the daemon after all that it does at once: without a file nothing
            // was said.
            let was_sent = machine.files.contains_key(job);
            if !was_sent {
                started.remove(&(*job, node));
            }
            was_sent
        });
        self.later(most_ms, Next::Start(node));
    }

    /// The daemon of a node dies, and none follows for long.
    pub(in crate::core::sim) fn remove_daemon(&mut self, node: usize) {
        self.replace_daemon(node, 1);
        let start = self.nexts.iter().find(|(_, next)| matches!(next, Next::Start(at) if *at == node));
        let number = *start.expect("it was just to be started").0;
        self.nexts.insert(number, Next::Nothing);
    }

    /// A daemon that was removed is started anew.
    pub(in crate::core::sim) fn return_daemon(&mut self, node: usize) {
        self.start_daemon(node);
    }

    /// The number of a node, if its daemon lives and has one.
    pub(in crate::core::sim) fn number_of(&self, node: usize) -> Option<NodeId> {
        self.machines[node].core.as_ref().and_then(Core::node)
    }

    /// Somebody speaks in the place of a starter.
    pub(in crate::core::sim) fn send_as_starter(
        &mut self,
        node: usize,
        job: JobId,
        frame: (Kind, u32, Vec<u8>),
    ) {
        self.deliver(node, Event::Starter(job, vec![frame]));
    }

    /// Ranks of jobs, by node: those that run or stand still.
    pub(in crate::core::sim) fn parts_alive(&self, node: usize) -> Vec<JobId> {
        let alive = self.machines[node].starters.iter().filter(|(_, starter)| !starter.is_dead());
        alive.map(|(job, _)| *job).collect()
    }

    /// Jobs with a starter on a node, also one whose ranks have ended.
    pub(in crate::core::sim) fn parts_of(&self, node: usize) -> Vec<JobId> {
        self.machines[node].starters.keys().copied().collect()
    }

    /// The longest that a daemon waits for something to happen, in the next so many ms.
    pub(in crate::core::sim) fn longest_wait_ms(&mut self, node: usize, for_ms: u64) -> u64 {
        let end_ms = self.now_ms + for_ms;
        let mut longest_ms = 0;
        while self.now_ms < end_ms {
            self.run_until(self.now_ms + 10);
            let clock_ms = self.clock(node);
            longest_ms =
                longest_ms.max(self.machines[node].core.as_ref().map_or(0, |core| core.wait_ms(clock_ms)));
        }
        longest_ms
    }

    /// Jobs do not end by themselves before peace is made.
    pub(in crate::core::sim) fn let_jobs_hang(&mut self, jobs: std::ops::Range<u64>) {
        self.kept_hanging.extend(jobs.clone().map(JobId));
        self.fates.extend(jobs.map(|job| (JobId(job), (Fate::Hangs, 0))));
    }

    /// Jobs end well by themselves.
    pub(in crate::core::sim) fn let_jobs_end_well(&mut self, jobs: std::ops::Range<u64>) {
        self.fates.extend(jobs.map(|job| (JobId(job), (Fate::Ends, 0))));
    }

    /// A daemon starts a job's part on its node.
    pub(super) fn start(&mut self, node: usize, job: JobId, launch: &Launch, described: &Job) {
        let incarnation = self.machines[node].incarnation;
        assert_eq!(self.started.insert((job, node), 1), None, "job {job} twice on node {node}");
        self.launches.insert(job, launch.clone());
        let other = self.submitted.insert((launch.origin, launch.request_id), job);
        assert!(other.is_none_or(|other| other == job), "one question, jobs {other:?} and {job}");
        self.check_exclusive(node, launch);
        self.check_order(job, launch);
        self.check_array(launch);
        let (fate, lines) = self.fate(job, launch, node);
        if self.random.below(60) == 0 && !self.peace {
            let gone = Event::StarterGone(job, StarterEnd::Died("the starter died".into()));
            return self.later(50, Next::Core(node, incarnation, None, gone));
        }
        self.lines.insert((job, node), (described.local_ranks(), lines));
        self.machines[node].starters.insert(job, Starter::new(job.0, described, fate, lines));
        self.later(60, Next::Starter(node, job));
    }

    pub(super) fn step_starter(&mut self, node: usize, job: JobId) {
        let ends = self.peace && !self.kept_hanging.contains(&job);
        let Some(starter) = self.machines[node].starters.get_mut(&job) else { return };
        if ends && starter.fate == Fate::Hangs {
            starter.fate = Fate::Ends;
        }
        let was_there = !starter.is_over();
        starter.step(&mut self.random);
        let left_well = was_there && starter.is_over() && starter.left_well();
        let frames = starter.poll_frames();
        if left_well {
            // As long as one of its ranks may send, its sockets are open on all its nodes.
            let others = self.machines.iter().filter_map(|machine| machine.starters.get(&job));
            assert!(others.into_iter().all(Starter::is_dead), "node {node} leaves job {job}, others run");
        }
        self.later(60, Next::Starter(node, job));
        if !frames.is_empty() {
            self.deliver(node, Event::Starter(job, frames));
        }
    }

    /// A job that runs already: it stops and goes on, and ends well or by the death of its mpiexec. When its
    /// daemon dies it goes on without one.
    pub(super) fn enrol(&mut self, node: usize, job: JobId) {
        let incarnation = self.machines[node].incarnation;
        let ends_ms = 30 + self.random.below(3000);
        let stops = self.random.below(3) == 0;
        let dies = self.random.below(4) == 0;
        let mut say = |after_ms, report: &Report| {
            let frame = (Kind::Report, 0, serde_json::to_vec(report).unwrap());
            self.later(after_ms, Next::Core(node, incarnation, None, Event::Starter(job, vec![frame])));
        };
        say(5, &Report::Started { pids: vec![1], cores: vec![String::new()] });
        if stops {
            say(10, &Report::Stopped);
            say(20, &Report::Continued);
        }
        if !dies {
            say(ends_ms, &Report::End { status: 0 });
        }
        let gone = Event::StarterGone(job, StarterEnd::Died("its mpiexec has died".into()));
        self.later(ends_ms + 1, Next::Core(node, incarnation, None, gone));
    }

    pub(super) fn fate(&mut self, job: JobId, launch: &Launch, node: usize) -> (Fate, u64) {
        let random = &mut self.random;
        let lines = random.below(25);
        let (fate, _) = *self.fates.entry(job).or_insert_with(|| match random.below(10) {
            0 => (Fate::Fails(3 + random.below(100) as u8), 0),
            1 => (Fate::Hangs, 0),
            2 if random.below(3) == 0 => (Fate::Refused, 0),
            _ => (Fate::Ends, 0),
        });
        // One part fails, the others wait for it.
        let me = self.machines[node].core.as_ref().and_then(Core::node);
        let is_first = me == launch.nodes.first().copied();
        match fate {
            Fate::Fails(_) | Fate::Refused if !is_first => (Fate::Hangs, lines),
            fate => (fate, lines),
        }
    }
}
