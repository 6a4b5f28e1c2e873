//! What the switch thread does with the jobs on its node: tells the agent of them, stops them and lets them go on, looks who sleeps.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tutti_sched::gang::{Action, Arrival};
use tutti_sched::{Generation, JobId, NodeId, Part, Slots};

use super::{IDLE_NS, Life, Node};
use crate::gang::brake::Brake;
use crate::gang::turns::What;
use crate::gang::{Said, now_ns};

/// Between two looks at who works, where one of several jobs dozes: so soon after it has used up what it may work it stands still.
const LOOK_DOZING_NS: u64 = 5_000_000;
/// The same where none does: half of what makes a gang idle. Each look takes a rank's core for a moment.
const LOOK_NS: u64 = IDLE_NS / 2;
/// The same where there is one, for which somebody may be waiting on other nodes.
const LOOK_ALONE_NS: u64 = 50_000_000;

/// A job as this node knows it.
#[derive(Debug, Default)]
pub(super) struct Job {
    pub(super) nodes: Vec<NodeId>,
    /// The agent knows of it.
    pub(super) known: bool,
    pub(super) parts: Vec<Part>,
    pub(super) brake: Option<Brake>,
    /// Its ranks here, if each has a core of its own, and their cgroup.
    pub(super) bound: Option<(Vec<u32>, PathBuf)>,
    /// It runs here, and the agent knows.
    pub(super) here: bool,
    /// It was said that it did not freeze.
    pub(super) stuck: bool,
}

/// What jobs are told of the switch in force.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) generation: Generation,
    /// 0: nobody waits for it.
    pub(super) end_ns: u64,
    /// Those that run have not been told yet.
    pub(super) is_new: bool,
}

impl Life {
    /// The agent is told what is known of a job by now.
    pub(super) fn settle(&mut self, now_ns: u64, id: JobId) {
        let (Some(node), Some(job)) = (&mut self.node, self.jobs.get_mut(&id)) else { return };
        if job.nodes.is_empty() {
            return;
        }
        let part =
            job.parts.iter().find(|part| part.node == node.me).filter(|_| job.brake.is_some() && !job.here);
        if let Some(part) = part {
            job.here = true;
            job.known = true;
            let slots = if part.slots.is_empty() { Slots::first(1) } else { part.slots };
            if let Some((ranks, group)) = &job.bound {
                self.cores.bind(&slots, ranks, group);
            }
            node.agent.handle_job(now_ns, id, &job.nodes, Some((slots, Arrival::Running)));
        } else if !job.known {
            job.known = true;
            node.agent.handle_job(now_ns, id, &job.nodes, None);
        }
    }

    /// Jobs that go on running hear of a new slice. Who is thawed has heard before.
    pub(super) fn tell_slice(&mut self) {
        let Some(node) = &self.node else { return };
        if std::mem::take(&mut self.slice.is_new) {
            for (id, job) in self.jobs.iter().filter(|(id, _)| node.agent.switch().is_thawed(**id)) {
                job.brake.iter().for_each(|brake| self.slice.tell(node, *id, brake));
            }
        }
    }

    pub(super) fn act(&mut self, action: &Action) {
        let Some(node) = &mut self.node else { return };
        match action {
            Action::Freeze(job) => {
                let Some(brake) = self.jobs.get_mut(job).and_then(|job| job.brake.as_mut()) else { return };
                let began_ns = now_ns();
                if node.agent.switch().may_doze(*job) && brake.try_doze() {
                    self.look_ns = self.look_ns.min(began_ns + LOOK_DOZING_NS);
                    self.recorder.put(What::Freeze, *job, began_ns, began_ns);
                    node.agent.handle_frozen(began_ns, *job);
                } else {
                    brake.freeze(began_ns);
                }
            }
            Action::Thaw(job) => {
                if let Some(brake) = self.jobs.get_mut(job).and_then(|job| job.brake.as_mut()) {
                    let began_ns = now_ns();
                    self.slice.tell(node, *job, brake);
                    brake.thaw();
                    self.recorder.put(What::Thaw, *job, began_ns, now_ns());
                }
                node.agent.handle_thawed(now_ns(), *job);
            }
            // What is in the channels stays where it is, the job's own memory: there is nothing to copy (DESIGN 5).
            Action::Save(job) => node.agent.handle_saved(now_ns(), *job),
            Action::Restore(job) => node.agent.handle_restored(now_ns(), *job),
            Action::Stuck(job) => {
                // Once a job: on a machine that others keep busy it may happen at every switch.
                if let Some(entry) = self.jobs.get_mut(job).filter(|entry| !entry.stuck) {
                    entry.stuck = true;
                    let why = "it is in a long system call, or others keep the cores busy";
                    (self.say)(Said::Line(format!("job {job} takes more than 1 s to freeze: {why}")));
                }
            }
            Action::Bind(job, slots) => {
                if let Some((ranks, group)) = self.jobs.get(job).and_then(|job| job.bound.as_ref()) {
                    self.cores.bind(slots, ranks, group);
                }
            }
            // Jobs are killed by the main loop's orders.
            Action::Kill(_) => {}
            Action::Forward(_) | Action::Reached(..) | Action::Woken(_) | Action::Here(_) => {}
        }
    }

    /// Looks at the freezers that have not said frozen, and at who works.
    pub(super) fn look(&mut self, now_ns: u64) {
        let Some(node) = &mut self.node else { return };
        for (id, job) in &mut self.jobs {
            if let Some(brake) = &mut job.brake
                && brake.try_confirm(now_ns)
            {
                self.recorder.put(What::Freeze, *id, brake.asked_ns(), self::now_ns());
                node.agent.handle_frozen(now_ns, *id);
            }
        }
        if let Some(pause_ns) = look_pause_ns(&self.jobs, node)
            && now_ns >= self.look_ns
        {
            self.look_ns = now_ns + pause_ns;
            for (id, job) in self.jobs.iter_mut().filter(|(_, job)| job.here) {
                let Some(brake) = &mut job.brake else { continue };
                if let Some(asleep) = brake.try_activity(now_ns) {
                    node.agent.handle_asleep(now_ns, *id, asleep);
                }
            }
        }
    }
}

impl Slice {
    fn tell(&self, node: &Node, job: JobId, brake: &Brake) {
        let switch = node.agent.switch();
        let ends = switch.gives_way(job) && !switch.is_alone();
        brake.tell(self.generation.0, if ends { self.end_ns } else { 0 });
    }
}

/// Between two looks at who works; none: nobody waits for anybody to be idle.
pub(super) fn look_pause_ns(jobs: &BTreeMap<JobId, Job>, node: &Node) -> Option<u64> {
    match jobs.values().filter(|job| job.here).count() {
        0 => None,
        1 if node.agent.tree().nodes() == 1 => None,
        1 => Some(LOOK_ALONE_NS),
        _ if jobs.values().filter_map(|job| job.brake.as_ref()).any(Brake::dozes) => Some(LOOK_DOZING_NS),
        _ => Some(LOOK_NS),
    }
}
