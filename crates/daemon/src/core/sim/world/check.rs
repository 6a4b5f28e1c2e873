//! Checks of what must hold: while jobs run, and when all is quiet.

use std::collections::{BTreeMap, BTreeSet};

use tutti_protocol::users::watch::Changes;
use tutti_protocol::wire::Report;

use super::World;
use super::machines::Machine;
use crate::core::Core;
use crate::core::sim::scheduling::{MEMORY_BYTES, Scheduling};
use crate::core::sim::starter::Fate;
use crate::core::sim::users::Client;
use crate::message::{JobId, JobRow, Launch, NodeRow, Terms};

impl World {
    pub(in crate::core::sim) fn all_ended_well(&self) -> bool {
        self.all_can_end_well() && self.clients.iter().all(|client| client.end == Some(0))
    }

    /// No job would fail by itself.
    pub(in crate::core::sim) fn all_can_end_well(&self) -> bool {
        self.fates.values().all(|(fate, _)| *fate == Fate::Ends)
    }

    /// A part of some job has begun on the node.
    pub(in crate::core::sim) fn has_begun_on(&self, node: usize) -> bool {
        self.started.keys().any(|(_, at)| *at == node)
    }

    /// The controller knows that a job is over, and has ended well.
    pub(in crate::core::sim) fn is_known_over(&self, job: JobId) -> bool {
        let core = self.machines[0].core.as_ref();
        let controller = core.and_then(|core| core.subsystems.controller.as_ref());
        controller.is_some_and(|controller| controller.is_complete(job))
    }

    /// Trouble with the output of a job, as the controller knows it.
    pub(in crate::core::sim) fn output_trouble(&self, job: JobId) -> Option<String> {
        let core = self.machines[0].core.as_ref()?;
        core.subsystems.controller.as_ref()?.output_trouble(job)
    }

    /// The daemon of a node.
    pub(in crate::core::sim) fn core(&mut self, node: usize) -> &mut Core {
        self.machines[node].core.as_mut().expect("it lives")
    }

    pub(in crate::core::sim) fn has_daemon(&self, node: usize) -> bool {
        self.machines[node].core.is_some()
    }

    pub(in crate::core::sim) fn clients_text(&self) -> String {
        format!("{:?}\n{}", self.clients, self.picture())
    }

    /// Lines that a front end was told for its user.
    pub(in crate::core::sim) fn lines(&self, client: usize) -> Vec<String> {
        let text = |line: &Report| match line {
            Report::Warning(text) | Report::Refused(text) => text.clone(),
            other => format!("{other:?}"),
        };
        self.clients[client].lines.iter().map(text).collect()
    }

    pub(in crate::core::sim) fn has_ended(&self, client: usize) -> bool {
        self.clients[client].end.is_some()
    }

    /// Whether nothing is left to do.
    pub(in crate::core::sim) fn is_quiet(&self) -> bool {
        let is_done = |client: &Client| client.gone || client.released;
        self.machines.iter().all(|machine| {
            let sees_all = |core: &Core| core.nodes_alive() == self.machines.len();
            machine.starters.is_empty()
                && machine.core.as_ref().is_some_and(|core| sees_all(core) && core.leftovers().is_empty())
        }) && self.clients.iter().all(is_done)
    }

    /// Checks that an exclusive job has no company, and that memory is not given out twice. While everybody
    /// hears of everybody: who is cut off may run what the controller holds for lost.
    pub(super) fn check_exclusive(&self, node: usize, launch: &Launch) {
        if self.troubled {
            return;
        }
        let alive = self.machines[node].starters.iter().filter(|(_, starter)| !starter.is_dead());
        let others: Vec<Terms> = alive.map(|(job, _)| self.launches[job].terms).collect();
        let is_alone =
            others.is_empty() || !launch.terms.exclusive && others.iter().all(|other| !other.exclusive);
        assert!(is_alone, "{:?} beside {others:?} on node {node}", launch.terms);
        let memory_bytes = others.iter().map(|other| other.memory_bytes).sum::<u64>();
        assert!(
            memory_bytes + launch.terms.memory_bytes <= MEMORY_BYTES,
            "{:?} beside {others:?}",
            launch.terms
        );
    }

    /// A job that waits for others starts behind them; one that wants them to have ended well, never behind
    /// one that has not.
    pub(super) fn check_order(&self, job: JobId, launch: &Launch) {
        for after in &launch.batch.after {
            let runs = |machine: &Machine| {
                machine.starters.get(&after.job).is_some_and(|starter| !starter.is_dead())
            };
            let is_early = self.machines.iter().any(runs) && (self.strict_order || !self.troubled);
            assert!(!is_early, "job {job} starts before {after:?} is over");
            let fate = self.fates.get(&after.job).map(|(fate, _)| *fate);
            let has_failed = matches!(fate, Some(Fate::Fails(_) | Fate::Refused));
            assert!(!after.ok || !has_failed, "job {job} starts behind {after:?}, which {fate:?}");
        }
    }

    /// Whether a user's program has its answer, or none will come.
    pub(in crate::core::sim) fn is_finished(&self, client: usize) -> bool {
        self.clients[client].answered || self.clients[client].released || self.clients[client].gone
    }

    /// Changes, as a user's program gets them.
    pub(in crate::core::sim) fn take_changes(&mut self, client: usize) -> Option<Changes> {
        self.clients[client].changes.take()
    }

    /// Rows of nodes, as a user's program has them.
    pub(in crate::core::sim) fn nodes(&self, client: usize) -> Option<&[NodeRow]> {
        self.clients[client].nodes.as_deref()
    }

    /// Rows of jobs that a user's program has been told.
    pub(in crate::core::sim) fn rows(&self, client: usize) -> Option<&[JobRow]> {
        self.clients[client].rows.as_deref()
    }

    /// Tasks of an array that have begun somewhere.
    pub(in crate::core::sim) fn tasks_started(&self, array: JobId) -> Vec<u32> {
        let tasks = self.launches.values().filter_map(|launch| launch.batch.array_task());
        tasks.filter(|task| task.array == array).map(|task| task.task).collect()
    }

    /// Tasks of an array with ranks, by their numbers.
    fn tasks_alive(&self, array: JobId) -> BTreeSet<u32> {
        let alive = self.machines.iter().flat_map(|machine| &machine.starters);
        let alive = alive.filter(|(_, starter)| !starter.is_dead()).map(|(job, _)| &self.launches[job]);
        let tasks = alive.filter_map(|launch| launch.batch.array_task());
        tasks.filter(|task| task.array == array).map(|task| task.task).collect()
    }

    /// No more tasks of an array have ranks than may at once.
    pub(super) fn check_array(&self, launch: &Launch) {
        let Some((task, at_once)) = launch.batch.array_task().zip(self.at_once) else { return };
        let mut alive = self.tasks_alive(task.array);
        alive.insert(task.task);
        assert!(alive.len() <= at_once, "tasks {alive:?} of job {} at once", task.array);
    }

    /// Why a user's program was refused what it wants.
    pub(in crate::core::sim) fn refusal(&self, client: usize) -> Option<&str> {
        self.clients[client].refusal.as_deref()
    }

    pub(in crate::core::sim) fn is_answered(&self, client: usize) -> bool {
        self.clients[client].answered
    }

    pub(in crate::core::sim) fn job_of(&self, client: usize) -> Option<JobId> {
        self.clients[client].job
    }

    /// A part of this job has begun somewhere.
    pub(in crate::core::sim) fn has_started(&self, job: JobId) -> bool {
        self.launches.contains_key(&job)
    }

    /// Nodes on which parts of this job have begun.
    pub(in crate::core::sim) fn nodes_of(&self, job: JobId) -> Vec<usize> {
        self.started.keys().filter(|(other, _)| *other == job).map(|(_, node)| *node).collect()
    }

    /// Checks what must hold when all is quiet.
    pub(in crate::core::sim) fn check_end(&self) {
        for (node, machine) in self.machines.iter().enumerate() {
            let core = machine.core.as_ref().expect("there is peace");
            let left = core.leftovers();
            assert!(
                left.is_empty(),
                "node {node} ({:?}) still has {left:#?}\n{}",
                core.node(),
                self.picture()
            );
            core.check_relations();
            let starters: Vec<_> = machine.starters.values().collect();
            assert!(starters.is_empty(), "node {node} still runs {starters:#?}");
            assert!(machine.queued.is_empty(), "node {node} still queues {:?}", machine.queued.keys());
            let scheduled = machine.scheduling.as_ref().map_or_else(Vec::new, Scheduling::leftovers);
            assert!(scheduled.is_empty(), "{scheduled:?}");
            assert!(machine.files.is_empty(), "node {node} still keeps {:?}", machine.files.keys());
            assert_eq!(core.nodes_alive(), self.machines.len(), "as node {node} sees it\n{}", self.picture());
        }
        let keys: BTreeSet<u64> = self.launches.values().map(|launch| launch.key).collect();
        assert_eq!(keys.len(), self.launches.len(), "two jobs have one key");
        let numbers: BTreeSet<_> =
            self.machines.iter().filter_map(|machine| machine.core.as_ref()?.node()).collect();
        assert_eq!(numbers.len(), self.machines.len(), "two nodes have one number");
        self.clients.iter().for_each(|client| self.check_client(client));
        self.check_files();
    }

    fn check_client(&self, client: &Client) {
        if client.gone {
            return;
        }
        assert!(client.released && client.answered, "{client:?} waits for ever\n{}", self.picture());
        let Some(job) = client.job.filter(|_| client.runs) else { return };
        assert!(client.end.is_some(), "no end of {client:?}");
        assert!(client.started <= 1, "started twice: {client:?}");
        let says = |part| {
            client.lines.iter().any(
                |line| matches!(line, Report::Warning(text) | Report::Refused(text) if text.contains(part)),
            )
        };
        let reported_twice = says("does not answer any more") && says("were lost with its daemon");
        assert!(self.controller_died || !reported_twice, "{client:?}");
        // Who is told that the job has ended well, and nothing else, has all of its output.
        if client.end == Some(0) && !says("lost") {
            let parts = self.lines.iter().filter(|((of, _), _)| *of == job);
            let expected: BTreeMap<u32, u64> = parts
                .flat_map(|(_, (ranks, lines))| ranks.clone().map(|rank| (rank as u32, *lines)))
                .filter(|(_, lines)| *lines > 0)
                .collect();
            assert_eq!(*client.output(), expected, "{client:?} of job {job}\n{}", self.picture());
        }
        if self.troubled {
            return;
        }
        // One that was killed while it waited has none.
        let fate = self.fates.get(&job);
        let waits = |line: &&Report| matches!(line, Report::Warning(text) if text.contains(" waits: "));
        let lines: Vec<&Report> = client.lines.iter().filter(|line| !waits(line)).collect();
        assert!(lines.len() <= 1 && client.lines.len() <= 2, "{client:?} of a job that {fate:?}");
        if let Some(Report::Ended(ended)) = lines.first() {
            assert_eq!(client.end, Some(ended.cause.status()), "{client:?} of a job that {fate:?}");
        }
        if client.end == Some(0) {
            let launch = &self.launches[&job];
            let ranks = client.output().len() as u64;
            assert!(ranks <= launch.job.ranks(), "{client:?}");
        }
    }

    /// Where things stand, for who has to find out.
    fn picture(&self) -> String {
        let node = |machine: &Machine| match &machine.core {
            None => "dead\n".to_owned(),
            Some(core) => format!("{:?}: {}\n", core.node(), core.links_text()),
        };
        self.machines.iter().map(node).collect()
    }
}
