//! What the switch thread does with the jobs on its node: tells the agent of them, stops them and lets them go on, looks who sleeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_os::cgroup::JobGroup;
use tutti_sched::agent::Agent;
use tutti_sched::gang::{Action, Arrival};
use tutti_sched::{Generation, JobId, NodeId, Part, Slots};

use super::{IDLE_NS, Life, Node};
use crate::gang::brake::{Brake, Doing};
use crate::gang::errands::Errand;
use crate::gang::{FreezeMethod, Here, Said, now_ns};
use tutti_protocol::turns::TurnKind;

/// A slice that is over for so long has no end: who waited for it sleeps, or is gone.
const OVERDUE_NS: u64 = 5_000_000;
/// A job that works hard is looked at half as often each time, down to one look in so many, and no more rarely than this: if it falls asleep,
/// others lose that much, once.
const RARELY: u64 = 16;
const LOOK_NS_MAX: u64 = 100_000_000;
/// So long the freezer of who has left is not looked at, where nobody waits for it; of a shorter slice, for half of it. Whoever shared
/// a core with the switch thread comes to stand still when the kernel gives him that core the next time: mostly within 4 ms.
const CALM_NS: u64 = 5_000_000;
/// Not even at the end of a slice more often than this.
const CALM_NS_MIN: u64 = 200_000;
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
    pub(super) bound: Option<(Arc<Here>, Arc<JobGroup>)>,
    /// It runs here, and the agent knows.
    pub(super) here: bool,
    /// It was said that it did not freeze.
    pub(super) stuck: bool,
    /// It was said that it has many processes.
    pub(super) crowd: bool,
    /// When it was last looked at, or thawed; it has not been looked at since it was thawed.
    looked_ns: u64,
    unseen: bool,
    /// It is looked at when so many pauses have passed.
    pauses: u64,
    /// It worked hard when it was last looked at; and so many slices it has not been since.
    hard: bool,
    spared: u64,
    /// When it was last looked at.
    seen_ns: u64,
}

impl Job {
    /// When it is looked at again.
    pub(super) fn look_ns(&self, pause_ns: u64) -> u64 {
        self.looked_ns + (pause_ns * self.pauses.max(1)).min(LOOK_NS_MAX)
    }

    /// The same at the end of a slice: at who has always worked hard, now and then.
    fn look_rarely(&mut self, now_ns: u64, id: JobId, agent: &mut Agent) {
        let spared = self.hard && self.spared + 1 < RARELY && now_ns < self.seen_ns + LOOK_NS_MAX;
        self.spared = if spared { self.spared + 1 } else { 0 };
        if !spared {
            self.look(now_ns, id, agent);
        }
    }

    /// Tells the agent whether it sleeps.
    fn look(&mut self, now_ns: u64, id: JobId, agent: &mut Agent) {
        (self.looked_ns, self.unseen) = (now_ns, false);
        let Some(doing) = self.brake.as_mut().and_then(|brake| brake.try_doing(now_ns)) else {
            // Who is only about to be thawed does what he did before. Anybody else seems to sleep, and the next look tells.
            if self.brake.as_ref().is_none_or(|brake| !brake.is_still()) {
                (self.hard, self.pauses) = (false, 1);
            }
            return;
        };
        self.seen_ns = now_ns;
        self.hard = doing == Doing::WorksHard;
        self.pauses = if self.hard { (self.pauses.max(1) * 2).min(RARELY) } else { 1 };
        agent.handle_asleep(now_ns, id, doing == Doing::Sleeps);
    }
}

/// A round of looks that takes longer is followed by a rest of so many times as long.
const LONG_LOOK_NS: u64 = 200_000;
const REST_PART: u64 = 20;

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
            if let Some((here, group)) = &job.bound {
                self.errands.put(Errand::Bind(id, slots, Arc::clone(here), Arc::clone(group)));
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
            Action::Freeze(id) => {
                let Some(job) = self.jobs.get_mut(id) else { return };
                let began_ns = now_ns();
                // Its slice was shorter than the time between two looks.
                if job.unseen && self.rest.is_over(began_ns) {
                    job.look_rarely(began_ns, *id, &mut node.agent);
                    self.rest.begin(began_ns, now_ns());
                }
                let Some(brake) = &mut job.brake else { return };
                if node.agent.switch().may_exempt(*id) && brake.try_doze() {
                    (job.looked_ns, job.pauses) = (began_ns, 1);
                    self.recorder.put(TurnKind::Freeze, *id, began_ns, began_ns);
                    node.agent.handle_exempt(began_ns, *id);
                } else {
                    brake.freeze(began_ns);
                }
            }
            Action::Thaw(id) => {
                if let Some(job) = self.jobs.get_mut(id)
                    && let Some(brake) = &mut job.brake
                {
                    let began_ns = now_ns();
                    self.slice.tell(node, *id, brake);
                    brake.thaw();
                    (job.looked_ns, job.unseen) = (began_ns, true);
                    if !job.hard {
                        job.pauses = 1;
                    }
                    self.recorder.put(TurnKind::Thaw, *id, began_ns, now_ns());
                }
                let now_ns = now_ns();
                node.agent.handle_thawed(now_ns, *id);
                if node.agent.switch().is_strict() {
                    return;
                }
                // Who comes has the cores: that those who leave by signals have left is looked for at leisure.
                let pause_ns = (self.slice.left_ns(now_ns) / 2).clamp(CALM_NS_MIN, CALM_NS);
                let leaving = self.jobs.iter_mut().filter(|(other, _)| *other != id);
                leaving
                    .filter_map(|(_, job)| job.brake.as_mut())
                    .filter(|brake| brake.means() == FreezeMethod::Signals)
                    .for_each(|brake| brake.calm(now_ns, pause_ns));
            }
            // What is in the channels stays where it is, the job's own memory: there is nothing to copy (DESIGN 5).
            Action::Save(job) | Action::Restore(job) => {
                let now_ns = now_ns();
                if let Action::Save(_) = action {
                    self.recorder.put(TurnKind::Save, *job, now_ns, now_ns);
                    node.agent.handle_saved(now_ns, *job);
                } else {
                    self.recorder.put(TurnKind::Restore, *job, now_ns, now_ns);
                    node.agent.handle_restored(now_ns, *job);
                }
            }
            Action::Stuck(job) => {
                // Once a job: on a machine that others keep busy it may happen at every switch.
                if let Some(entry) = self.jobs.get_mut(job).filter(|entry| !entry.stuck) {
                    entry.stuck = true;
                    let why = "it is in a long system call, or others keep the cores busy";
                    (self.say)(Said::Line(format!("job {job} takes more than 1 s to freeze: {why}")));
                }
            }
            Action::Bind(job, slots) => {
                if let Some((here, group)) = self.jobs.get(job).and_then(|job| job.bound.as_ref()) {
                    let (here, group) = (Arc::clone(here), Arc::clone(group));
                    self.errands.put(Errand::Bind(*job, *slots, here, group));
                }
            }
            // Jobs are killed by the main loop's orders.
            Action::Kill(_) => {}
            Action::Forward(_) | Action::Reached(..) | Action::Woken(_) | Action::Here(_) => {}
        }
    }

    /// `true`: a job has been found to stand still, or has just been told to where that is enough.
    pub(super) fn confirm(&mut self, now_ns: u64, which: impl Fn(&Brake) -> bool) -> bool {
        let Some(node) = &mut self.node else { return false };
        let mut any = false;
        for (id, job) in &mut self.jobs {
            let Some(brake) = job.brake.as_mut().filter(|brake| which(brake)) else { continue };
            if brake.is_fresh() && node.agent.switch().may_assume_frozen(*id) && brake.try_trust(now_ns) {
                any = true;
                self.recorder.put(TurnKind::Freeze, *id, brake.asked_ns(), brake.asked_ns());
                node.agent.handle_freeze_requested(now_ns, *id);
            } else if brake.try_confirm(now_ns) {
                any = true;
                if !brake.is_trusted() {
                    let (asked_ns, took_ns) = (brake.asked_ns(), brake.took_ns(self::now_ns()));
                    self.recorder.put(TurnKind::Freeze, *id, asked_ns, asked_ns + took_ns);
                }
                node.agent.handle_frozen(now_ns, *id);
            }
        }
        any
    }

    /// Looks at the freezers that have not said frozen, and at who works.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.confirm(now_ns, |brake| !brake.is_trusted() || now_ns >= brake.look_ns());
        let Some(node) = &mut self.node else { return };
        if !self.rest.is_over(now_ns) {
            return;
        }
        if let Some(pause_ns) = look_pause_ns(&self.jobs, node) {
            let due = |job: &Job| job.here && now_ns >= job.look_ns(pause_ns);
            for (id, job) in self.jobs.iter_mut().filter(|(_, job)| due(job)) {
                // Who stands still shows nothing.
                if node.agent.switch().is_thawed(*id) || job.brake.as_ref().is_some_and(Brake::dozes) {
                    job.look(now_ns, *id, &mut node.agent);
                }
            }
            self.rest.begin(now_ns, self::now_ns());
        }
    }
}

/// How long nobody is looked at: looks take as long as there are jobs, and processes in them, and the switch thread goes before everybody.
#[derive(Debug, Default)]
pub(super) struct Rest {
    until_ns: u64,
}

impl Rest {
    /// A look has taken so long, until now: one that was long is paid for.
    fn begin(&mut self, began_ns: u64, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(began_ns);
        if took_ns > LONG_LOOK_NS {
            self.until_ns = now_ns.saturating_add(took_ns.saturating_mul(REST_PART));
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }

    /// A look that is due then is not before.
    pub(super) fn put_off(&self, look_ns: u64) -> u64 {
        look_ns.max(self.until_ns)
    }
}

impl Slice {
    /// When it has no end any more.
    pub(super) fn overdue_ns(&self) -> Option<u64> {
        (self.end_ns > 0).then(|| self.end_ns.saturating_add(OVERDUE_NS))
    }

    /// Time has passed.
    pub(super) fn handle_time(&mut self, now_ns: u64) {
        if self.overdue_ns().is_some_and(|overdue_ns| now_ns >= overdue_ns) {
            (self.end_ns, self.is_new) = (0, true);
        }
    }

    /// How long it still lasts; for ever, if nobody waits for its end.
    fn left_ns(&self, now_ns: u64) -> u64 {
        if self.end_ns == 0 { u64::MAX } else { self.end_ns.saturating_sub(now_ns) }
    }

    fn tell(&self, node: &Node, job: JobId, brake: &Brake) {
        let switch = node.agent.switch();
        let ends = switch.must_yield(job) && !switch.is_alone();
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

#[cfg(test)]
mod tests {
    use crate::gang::errands::Errands;
    use tutti_sched::Tree;
    use tutti_sched::gang::Timing;

    use super::*;

    /// The agent says that a job goes on before its freezer has been written to. A look in between would find nothing, and looks would
    /// begin anew with every slice.
    #[test]
    fn switch_thread_keeps_activity_across_a_freeze() {
        let folder = std::env::temp_dir().join(format!("tutti-job-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["cgroup.freeze", "cgroup.events"] {
            std::fs::write(folder.join(name), "frozen 1\n").unwrap();
        }
        let mut agent = Agent::new(NodeId(0), Tree::new(1, 1), Timing::default(), 1_000_000_000, 1);
        let group = JobGroup::new(std::fs::File::open(&folder).unwrap().into()).unwrap();
        let here = Here { groups: vec![Arc::new(group)], ..Here::default() };
        let brake = Brake::of(&here, &Errands::start().unwrap().0);
        let mut job = Job { brake, hard: true, pauses: 8, ..Job::default() };
        let brake = job.brake.as_mut().expect("it has the files of a cgroup");
        brake.freeze(0);
        assert!(brake.try_confirm(1_000) && brake.is_still());
        job.look(2_000, JobId(1), &mut agent);
        assert_eq!((job.hard, job.pauses), (true, 8));
        job.brake.as_mut().expect("it is there").thaw();
        job.look(3_000, JobId(1), &mut agent);
        assert_eq!((job.hard, job.pauses), (false, 1), "nothing is known of it, and it could be");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
