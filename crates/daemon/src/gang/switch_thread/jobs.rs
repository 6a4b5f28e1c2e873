//! Jobs on the node of the switch thread: it tells the agent of them, stops them and lets them go on, looks
//! who sleeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_os::cgroup::JobGroup;
use tutti_sched::agent::Agent;
use tutti_sched::gang::{Action, Arrival, JobChange};
use tutti_sched::{Generation, JobId, NodeId, Part, Slots};

use super::contexts::Questions;
use super::{IDLE_NS, Node, SwitchThread};
use crate::gang::clock::now_ns;
use crate::gang::command::{LocalRanks, SwitchEvent};
use crate::gang::fetcher::{Handover, Pages};
use crate::gang::job_freezer::{JobFreezer, Load};
use crate::gang::worker::Task;
use tutti_protocol::turns::TurnKind;
use tutti_protocol::users::FreezeMethod;
use tutti_protocol::wire::ContextStep;

/// A slice that is over for so long has no end: who waited for it sleeps, or is gone.
const OVERDUE_NS: u64 = 5_000_000;
/// A job that works hard is looked at half as often each time, down to one look in so many, and no more
/// rarely than this: if it falls asleep, others lose that much, once.
const RARELY: u64 = 16;
const POLL_NS_MAX: u64 = 100_000_000;
/// Time for which the freezer of who has left is not looked at, where nobody waits for it; of a shorter
/// slice, half of it. Whoever shared a core with the switch thread comes to stand still when the kernel gives
/// him that core the next time: mostly within 4 ms.
const DEFERRED_NS: u64 = 5_000_000;
/// Not even at the end of a slice more often than this.
const DEFERRED_NS_MIN: u64 = 200_000;
/// Between two looks at who works, where one of several jobs dozes: so soon after it has used up what it may
/// work it stands still.
const POLL_EXEMPT_NS: u64 = 5_000_000;
/// The same where none does: half of what makes a gang idle. Each look takes a rank's core for a moment.
const POLL_NS: u64 = IDLE_NS / 2;
/// The same where there is one, for which somebody may be waiting on other nodes.
const POLL_ALONE_NS: u64 = 50_000_000;

/// A job as this node knows it.
#[derive(Debug, Default)]
pub(super) struct Job {
    /// User who answers for the job, if ranks of it run here.
    pub(super) user: u32,
    pub(super) nodes: Vec<NodeId>,
    /// The agent knows of it.
    pub(super) known: bool,
    pub(super) parts: Vec<Part>,
    pub(super) freezer: Option<JobFreezer>,
    /// Ranks of the job here, if each has a core of its own, and their cgroup.
    pub(super) bound: Option<(Arc<LocalRanks>, Arc<JobGroup>)>,
    /// Whether the job runs here, and the agent knows.
    pub(super) is_here: bool,
    /// Questions about its channels.
    questions: Questions,
    /// Whether it was said that the job did not freeze.
    pub(super) stuck: bool,
    /// Whether the job does not fill, as the main loop has said.
    pub(super) put_out: bool,
    /// Whether it was said that the job was frozen with a lock of a file.
    pub(super) kept_lock: bool,
    /// Whether it was said that the job has many processes.
    pub(super) crowd: bool,
    /// When it was last looked at, or thawed; it has not been looked at since it was thawed.
    polled_ns: u64,
    unpolled: bool,
    /// Pauses after which the job is looked at.
    pauses: u64,
    /// Whether the job worked hard when it was last looked at; and for how many slices it has not been since.
    is_heavy: bool,
    skipped: u64,
    /// When it was last looked at.
    sampled_ns: u64,
}

impl Job {
    /// When it is looked at again.
    pub(super) fn poll_ns(&self, pause_ns: u64) -> u64 {
        self.polled_ns + (pause_ns * self.pauses.max(1)).min(POLL_NS_MAX)
    }

    /// The same at the end of a slice: at who has always worked hard, now and then.
    fn poll_rarely(&mut self, now_ns: u64, id: JobId, agent: &mut Agent) {
        let skipped = self.is_heavy && self.skipped + 1 < RARELY && now_ns < self.sampled_ns + POLL_NS_MAX;
        self.skipped = if skipped { self.skipped + 1 } else { 0 };
        if !skipped {
            self.check(now_ns, id, agent);
        }
    }

    /// Questions about its channels.
    pub(super) fn questions(&mut self) -> &mut Questions {
        &mut self.questions
    }

    /// Begins to look at the job, from this moment on.
    pub(super) fn begin_look(&mut self, now_ns: u64) {
        (self.polled_ns, self.pauses) = (now_ns, 1);
    }

    /// Whether the job, in the turn of another one, does not sleep, or that cannot be seen yet.
    pub(super) fn looks_awake(&mut self, now_ns: u64) -> bool {
        let freezer = self.freezer.as_mut().filter(|freezer| freezer.lent_since_ns().is_some());
        freezer.is_some_and(|freezer| freezer.try_load(now_ns) != Some(Load::Idle))
    }

    /// Tells the agent that it does not sleep, whatever its processes do.
    fn keep_awake(&mut self, now_ns: u64, id: JobId, agent: &mut Agent) {
        (self.polled_ns, self.unpolled, self.pauses) = (now_ns, false, 1);
        agent.handle_change(now_ns, id, JobChange::Awake);
    }

    /// Tells the agent whether it sleeps.
    fn check(&mut self, now_ns: u64, id: JobId, agent: &mut Agent) {
        (self.polled_ns, self.unpolled) = (now_ns, false);
        let Some(load) = self.freezer.as_mut().and_then(|freezer| freezer.try_load(now_ns)) else {
            // Who is only about to be thawed does what he did before. Anybody else seems to sleep, and the
            // next look tells.
            if self.freezer.as_ref().is_none_or(|freezer| !freezer.is_held()) {
                (self.is_heavy, self.pauses) = (false, 1);
            }
            return;
        };
        self.sampled_ns = now_ns;
        self.is_heavy = load == Load::Heavy;
        self.pauses = if self.is_heavy { (self.pauses.max(1) * 2).min(RARELY) } else { 1 };
        let change = if load == Load::Idle { JobChange::Asleep } else { JobChange::Awake };
        agent.handle_change(now_ns, id, change);
    }
}

/// A round of looks that takes longer is followed by a rest of so many times as long.
const LONG_POLL_NS: u64 = 200_000;
const PAUSE_PART: u64 = 20;

/// Slice of the switch in force, of which jobs are told.
#[derive(Debug, Default)]
pub(super) struct Slice {
    pub(super) generation: Generation,
    /// 0: nobody waits for it.
    pub(super) end_ns: u64,
    /// Whether jobs that run have not been told yet.
    pub(super) is_new: bool,
}

impl SwitchThread {
    /// The agent is told what is known of a job by now.
    pub(super) fn announce_job(&mut self, now_ns: u64, id: JobId) {
        let (Some(node), Some(job)) = (&mut self.node, self.jobs.get_mut(&id)) else { return };
        if job.nodes.is_empty() {
            return;
        }
        let part = job
            .parts
            .iter()
            .find(|part| part.node == node.me)
            .filter(|_| job.freezer.is_some() && !job.is_here);
        if let Some(part) = part {
            job.is_here = true;
            job.known = true;
            let slots = if part.slots.is_empty() { Slots::first(1) } else { part.slots };
            if let Some((is_here, group)) = &job.bound {
                self.worker.put(Task::Bind(id, slots, Arc::clone(is_here), Arc::clone(group)));
            }
            node.agent.handle_job(now_ns, id, &job.nodes, Some((slots, Arrival::Running)));
        } else if !job.known {
            job.known = true;
            node.agent.handle_job(now_ns, id, &job.nodes, None);
        }
    }

    /// Jobs that go on running hear of a new slice. Who is thawed has heard before.
    pub(super) fn publish_slice(&mut self) {
        let Some(node) = &self.node else { return };
        if std::mem::take(&mut self.slice.is_new) {
            for (id, job) in self.jobs.iter_mut().filter(|(id, _)| node.agent.switch().is_thawed(**id)) {
                job.freezer.iter_mut().for_each(|freezer| self.slice.publish_turn(node, *id, freezer));
            }
        }
    }

    /// Handles the pages of a job's starters here, which have been found.
    pub(super) fn handle_pages(&mut self, now_ns: u64, id: JobId, pages: &Handover) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (Some(Pages { told, shares }), Some(freezer)) = (pages.take(), &mut job.freezer) else { return };
        freezer.tell(told);
        let Some(node) = &self.node else { return };
        let runs = node.agent.switch().is_thawed(id);
        if runs {
            self.slice.publish_turn(node, id, freezer);
        }
        if let Some(shares) = shares {
            self.phases.adopt(now_ns, id, shares, runs);
        }
    }

    pub(super) fn execute(&mut self, action: &Action) {
        let Some(node) = &mut self.node else { return };
        match action {
            Action::Freeze(id) => {
                self.phases.set_runs(now_ns(), *id, false);
                let fills = may_fill(&self.jobs, *id);
                let Some(job) = self.jobs.get_mut(id) else { return };
                let began_ns = now_ns();
                // Its slice was shorter than the time between two looks.
                if job.unpolled && self.poll_pause.is_over(began_ns) {
                    job.poll_rarely(began_ns, *id, &mut node.agent);
                    self.poll_pause.begin(began_ns, now_ns());
                }
                let Some(freezer) = &mut job.freezer else { return };
                if fills && node.agent.switch().may_exempt(*id) {
                    freezer.fill();
                    (job.polled_ns, job.pauses) = (began_ns, 1);
                    node.agent.handle_change(began_ns, *id, JobChange::Exempt);
                    // It counts as one that may run outside its turns, so that nobody is asked when it may.
                    if job.put_out {
                        freezer.freeze(began_ns);
                        job.keep_awake(began_ns, *id, &mut node.agent);
                    }
                } else if node.agent.switch().may_exempt(*id)
                    && !self.phases.waits(*id)
                    && freezer.try_exempt()
                {
                    (job.polled_ns, job.pauses) = (began_ns, 1);
                    self.recorder.put(TurnKind::Freeze, *id, began_ns, began_ns);
                    node.agent.handle_change(began_ns, *id, JobChange::Exempt);
                } else {
                    freezer.freeze(began_ns);
                }
            }
            Action::Lend(job) => self.lend(*job),
            Action::Return(job) => self.take_back(*job),
            Action::Thaw(id) => {
                if let Some(job) = self.jobs.get_mut(id)
                    && let Some(freezer) = &mut job.freezer
                {
                    let began_ns = now_ns();
                    self.slice.publish_turn(node, *id, freezer);
                    if let Some(since_ns) = freezer.lent_since_ns() {
                        self.recorder.put(TurnKind::Lent, *id, since_ns, began_ns);
                    }
                    freezer.thaw();
                    (job.polled_ns, job.unpolled) = (began_ns, true);
                    if !job.is_heavy {
                        job.pauses = 1;
                    }
                    self.recorder.put(TurnKind::Thaw, *id, began_ns, now_ns());
                }
                self.phases.set_runs(now_ns(), *id, true);
                let now_ns = now_ns();
                node.agent.handle_change(now_ns, *id, JobChange::Thawed);
                if node.agent.switch().is_strict() {
                    return;
                }
                // Who comes has the cores: that those who leave by signals have left is looked for at
                // leisure.
                let pause_ns = (self.slice.left_ns(now_ns) / 2).clamp(DEFERRED_NS_MIN, DEFERRED_NS);
                let leaving = self.jobs.iter_mut().filter(|(other, _)| *other != id);
                leaving
                    .filter_map(|(_, job)| job.freezer.as_mut())
                    .filter(|freezer| freezer.method() == FreezeMethod::Signals)
                    .for_each(|freezer| freezer.defer(now_ns, pause_ns));
            }
            Action::TestSteady(job) => self.ask_starter(*job, ContextStep::Test),
            Action::Save(job) => self.ask_starter(*job, ContextStep::Save),
            Action::Restore(job) => self.ask_starter(*job, ContextStep::Restore),
            Action::Unanswered(job) => self.give_up_question(*job),
            Action::Stuck(job) => {
                // Once a job: on a machine that others keep busy it may happen at every switch.
                if let Some(entry) = self.jobs.get_mut(job).filter(|entry| !entry.stuck) {
                    entry.stuck = true;
                    let why = "it is in a long system call, or others keep the cores busy";
                    (self.emit)(SwitchEvent::UserLine(
                        entry.user,
                        format!("job {job} takes more than 1 s to freeze: {why}"),
                    ));
                }
            }
            Action::Bind(job, slots) => {
                if let Some((is_here, group)) = self.jobs.get(job).and_then(|job| job.bound.as_ref()) {
                    let (is_here, group) = (Arc::clone(is_here), Arc::clone(group));
                    self.worker.put(Task::Bind(*job, *slots, is_here, group));
                }
                (self.emit)(SwitchEvent::Moved(*job));
            }
            // Jobs are killed by the main loop's orders.
            Action::Kill(_) => {}
            Action::Forward(_) | Action::Reached(..) | Action::Woken(_) | Action::Here(_) => {}
        }
    }

    /// `true`: a job has been found to stand still, or has just been told to where that is enough.
    pub(super) fn confirm(&mut self, now_ns: u64, which: impl Fn(&JobFreezer) -> bool) -> bool {
        let Some(node) = &mut self.node else { return false };
        let mut any = false;
        for (id, job) in &mut self.jobs {
            let Some(freezer) = job.freezer.as_mut().filter(|freezer| which(freezer)) else { continue };
            let was_assumed = freezer.is_assumed();
            if freezer.is_unchecked()
                && node.agent.switch().may_assume_frozen(*id)
                && freezer.try_assume(now_ns)
            {
                any = true;
                self.recorder.put(TurnKind::Freeze, *id, freezer.requested_ns(), freezer.requested_ns());
                node.agent.handle_change(now_ns, *id, JobChange::FreezeRequested);
            } else if freezer.try_confirm(now_ns) {
                any = true;
                if !was_assumed {
                    let (requested_ns, took_ns) = (freezer.requested_ns(), freezer.took_ns(self::now_ns()));
                    self.recorder.put(TurnKind::Freeze, *id, requested_ns, requested_ns + took_ns);
                }
                node.agent.handle_change(now_ns, *id, JobChange::Frozen);
            }
        }
        any
    }

    /// Looks at the freezers that have not said frozen, and at who works.
    pub(super) fn check(&mut self, now_ns: u64) {
        self.confirm(now_ns, |freezer| freezer.is_due(now_ns));
        if !self.poll_pause.is_over(now_ns) {
            return;
        }
        let lenders = self.lenders(now_ns);
        share_dozing(&mut self.jobs);
        let Some(node) = &mut self.node else { return };
        if let Some(pause_ns) = poll_interval_ns(&self.jobs, node) {
            let due = |job: &Job| job.is_here && now_ns >= job.poll_ns(pause_ns);
            for (id, job) in self.jobs.iter_mut().filter(|(_, job)| due(job)) {
                // Who stands still shows nothing.
                if node.agent.switch().is_thawed(*id)
                    || job.freezer.as_ref().is_some_and(JobFreezer::is_exempt)
                {
                    // Who waits for slots, was taken them, or has lent them, is not idle.
                    match self.phases.waits(*id) || lenders.contains(id) {
                        true => job.keep_awake(now_ns, *id, &mut node.agent),
                        false => job.check(now_ns, *id, &mut node.agent),
                    }
                }
            }
            self.poll_pause.begin(now_ns, self::now_ns());
        }
    }
}

/// Jobs of a user that doze share what they may work.
fn share_dozing(jobs: &mut BTreeMap<JobId, Job>) {
    // No memory is taken: users are few beside jobs, and are gone through in the order of theirs.
    let is_dozing = |job: &Job| job.freezer.as_ref().is_some_and(JobFreezer::is_dozing);
    let mut done = None;
    loop {
        let users = jobs.values().filter(|job| is_dozing(job)).map(|job| job.user);
        let Some(user) = users.filter(|user| done.is_none_or(|done| *user > done)).min() else { return };
        let dozing = jobs.values().filter(|job| job.user == user && is_dozing(job)).count() as u64;
        for job in jobs.values_mut().filter(|job| job.user == user) {
            job.freezer.iter_mut().for_each(|freezer| freezer.set_dozing(dozing));
        }
        done = Some(user);
    }
}

/// The job may run while others have its slots: the kernel puts it behind all of them.
fn may_fill(jobs: &BTreeMap<JobId, Job>, id: JobId) -> bool {
    let Some(filler) = jobs.get(&id).and_then(|job| job.freezer.as_ref()) else { return false };
    let mut others = jobs.iter().filter(|(other, _)| **other != id);
    filler.is_behind()
        && others.all(|(_, job)| job.freezer.as_ref().is_none_or(|other| filler.may_fill_beside(other)))
}

impl SwitchThread {
    /// A filler or a job beside fillers has come, and they cannot be put behind it: said once for each.
    pub(super) fn why_not_fill(&self, id: JobId) -> Option<String> {
        let freezer =
            |job: &Job| job.freezer.as_ref().map(|freezer| (freezer.is_behind(), freezer.is_before()));
        let (is_behind, is_before) = freezer(self.jobs.get(&id)?)?;
        let others = || self.jobs.iter().filter(|(other, _)| **other != id);
        let beside =
            others().find(|(_, job)| freezer(job).is_some_and(|(behind, before)| !behind && !before));
        let fills = others().any(|(_, job)| freezer(job).is_some_and(|(behind, _)| behind));
        let (filler, gang) = match beside {
            Some((gang, _)) if is_behind => (format!("job {id} fills"), gang),
            _ if fills && !is_behind && !is_before => ("fillers fill".to_owned(), &id),
            _ => return None,
        };
        Some(format!(
            "{filler} nothing beside job {gang}, whose processes are outside of the daemon's cgroup"
        ))
    }

    /// Another job has come that fillers are not behind: those that fill stand still.
    pub(super) fn end_filling(&mut self, now_ns: u64) {
        let fills = |job: &Job| job.freezer.as_ref().is_some_and(JobFreezer::is_filling);
        let filling: Vec<JobId> = self.jobs.iter().filter(|(_, job)| fills(job)).map(|(id, _)| *id).collect();
        for id in filling {
            let fills = may_fill(&self.jobs, id);
            let (Some(node), Some(job)) = (&mut self.node, self.jobs.get_mut(&id)) else { return };
            if let Some(freezer) = job.freezer.as_mut().filter(|_| !fills) {
                freezer.freeze_blocking(now_ns);
                job.keep_awake(now_ns, id, &mut node.agent);
            }
        }
    }
}

impl SwitchThread {
    /// A filler may run outside its turns from now on, or not.
    pub(super) fn handle_may_fill(&mut self, now_ns: u64, id: JobId, may: bool) {
        let fills = may_fill(&self.jobs, id);
        let (Some(node), Some(job)) = (&mut self.node, self.jobs.get_mut(&id)) else { return };
        job.put_out = !may;
        let Some(freezer) = job.freezer.as_mut() else { return };
        let switch = node.agent.switch();
        if !may && freezer.is_filling() {
            freezer.freeze(now_ns);
            // Who stands still is not looked at: it wants its turns.
            job.keep_awake(now_ns, id, &mut node.agent);
        } else if may && fills && switch.is_frozen(id) && switch.may_exempt(id) {
            // Who was frozen otherwise begins to fill when its next turn is over.
            if switch.is_exempt(id) && !freezer.is_exempt() {
                freezer.thaw();
                freezer.fill();
                (job.polled_ns, job.pauses) = (now_ns, 1);
            }
        }
    }
}

/// How long nobody is looked at: looks take as long as there are jobs, and processes in them, and the switch
/// thread goes before everybody.
#[derive(Debug, Default)]
pub(super) struct PollPause {
    until_ns: u64,
}

impl PollPause {
    /// A look has taken so long, until now: one that was long is paid for.
    fn begin(&mut self, began_ns: u64, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(began_ns);
        if took_ns > LONG_POLL_NS {
            self.until_ns = now_ns.saturating_add(took_ns.saturating_mul(PAUSE_PART));
        }
    }

    fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns
    }

    /// A look that is due then is not before.
    pub(super) fn put_off(&self, poll_ns: u64) -> u64 {
        poll_ns.max(self.until_ns)
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

    pub(super) fn publish_turn(&self, node: &Node, job: JobId, freezer: &mut JobFreezer) {
        let switch = node.agent.switch();
        let endpoints = switch.must_yield(job) && !switch.is_alone();
        freezer.publish_turn(self.generation.0, if endpoints { self.end_ns } else { 0 });
    }
}

/// Between two looks at who works; none: nobody waits for anybody to be idle.
pub(super) fn poll_interval_ns(jobs: &BTreeMap<JobId, Job>, node: &Node) -> Option<u64> {
    match jobs.values().filter(|job| job.is_here).count() {
        0 => None,
        1 if node.agent.tree().nodes() == 1 => None,
        1 => Some(POLL_ALONE_NS),
        _ if jobs.values().filter_map(|job| job.freezer.as_ref()).any(JobFreezer::is_exempt) => {
            Some(POLL_EXEMPT_NS)
        }
        _ => Some(POLL_NS),
    }
}

#[cfg(test)]
mod tests {
    use crate::gang::worker::Worker;
    use tutti_sched::Tree;
    use tutti_sched::gang::Timing;

    use super::*;

    /// The agent says that a job goes on before its freezer has been written to. A look in between would find
    /// nothing, and looks would begin anew with every slice.
    #[test]
    fn switch_thread_keeps_activity_across_a_freeze() {
        let folder = std::env::temp_dir().join(format!("tutti-job-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["cgroup.freeze", "cgroup.events"] {
            std::fs::write(folder.join(name), "frozen 1\n").unwrap();
        }
        let mut agent = Agent::new(NodeId(0), Tree::new(1, 1), Timing::default(), 1_000_000_000, 1);
        let group = JobGroup::new(std::fs::File::open(&folder).unwrap().into()).unwrap();
        let is_here = LocalRanks { groups: vec![Arc::new(group)], ..LocalRanks::default() };
        let freezer = JobFreezer::of(&is_here, &Worker::start().unwrap().0);
        let mut job = Job { freezer, is_heavy: true, pauses: 8, ..Job::default() };
        let freezer = job.freezer.as_mut().expect("it has the files of a cgroup");
        freezer.freeze(0);
        assert!(freezer.try_confirm(1_000) && freezer.is_held());
        job.check(2_000, JobId(1), &mut agent);
        assert_eq!((job.is_heavy, job.pauses), (true, 8));
        job.freezer.as_mut().expect("it is there").thaw();
        job.check(3_000, JobId(1), &mut agent);
        assert_eq!((job.is_heavy, job.pauses), (false, 1), "nothing is known of it, and it could be");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
