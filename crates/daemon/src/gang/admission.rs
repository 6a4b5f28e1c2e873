//! Jobs on their way to their nodes and into the matrix: what the main loop of the controller asks the
//! scheduler for, and what it is told.
//!
//! ```text
//! main loop                          here
//!  Submit (waits) ------------------> queue --room--> Placed (job, nodes) --> launches it there
//!                                       '----------> Waits (job, why), each time that the reason is another
//!  Begin: its ranks run everywhere --> it takes its turns; its slots go down the tree
//!  Submit (runs already), Begin -----> its turn among those that wait is the first; nobody is notified
//!  Over ----------------------------> its nodes and its memory are free
//! ```
//!
//! The scheduler alone says where a job runs; the main loop knows it only from Placed. If a node is lost
//! between the two the main loop submits it anew. The simulator of the daemons' core drives this as the
//! switch thread does.

use std::collections::{BTreeMap, VecDeque};

use tutti_sched::{Account, Demand, Event, JobId, JobState, NodeId, Part, Reservation, Scheduler, Wait};

use super::command::{ServedJob, SwitchEvent};

/// Time of a job's slots that has to be seen before it is said how busy they are, in us.
const BUSY_SEEN_US: u64 = 5_000_000;

/// Jobs at the head of the queue of which it is said why they wait.
const REASONS_MAX: usize = 64;

/// Reservations as the scheduler has them, from what the main loop says of them.
pub(crate) fn reservations(now_ns: u64, told: Vec<(u32, Vec<NodeId>, u64)>) -> Vec<Reservation> {
    let all = told.into_iter().map(|(number, nodes, in_ms)| {
        let from_ns = now_ns.saturating_add(in_ms.saturating_mul(1_000_000));
        Reservation { number, nodes, from_ns }
    });
    all.collect()
}

/// Answer of the admission: a word for the main loop, or a job that begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// For the main loop.
    Emit(SwitchEvent),
    /// The job takes its turns from now on, on these slots.
    Begin(JobId, Vec<Part>),
}

#[derive(Debug, Default)]
struct Entry {
    /// Whether the job's ranks run on all its nodes.
    begun: bool,
    /// Demand of the job, if it ran before it was submitted.
    runs: Option<Demand>,
    waits: Option<Wait>,
}

/// Jobs that the scheduler has, and what the main loop knows of them.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    jobs: BTreeMap<JobId, Entry>,
    verdicts: VecDeque<Verdict>,
    /// Reasons may be others than those that were told.
    changed: bool,
}

impl Admission {
    /// A job wants nodes, or runs already on those that are given.
    pub(crate) fn submit(
        &mut self,
        now_ns: u64,
        scheduler: &mut Scheduler,
        job: JobId,
        demand: &Demand,
        runs: bool,
    ) {
        if scheduler.state(job).is_some() {
            return;
        }
        self.changed = true;
        let entry = self.jobs.entry(job).or_default();
        if runs {
            entry.runs = Some(demand.clone());
            // A node of it may not be back yet: it is tried again when its ranks are known to run.
            let _ = scheduler.submit_running(now_ns, job, demand);
        } else if let Err(error) = scheduler.submit(now_ns, job, demand) {
            self.jobs.remove(&job);
            self.verdicts.push_back(Verdict::Emit(SwitchEvent::Refused(job, error)));
        }
    }

    /// Notes that the job's ranks run on all its nodes, and begins its turns if it has its place.
    pub(crate) fn begin(&mut self, now_ns: u64, scheduler: &mut Scheduler, job: JobId) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        entry.begun = true;
        if scheduler.state(job).is_none()
            && let Some(demand) = &entry.runs
            && let Err(error) = scheduler.submit_running(now_ns, job, demand)
        {
            let text = format!("job {job} is not gang-scheduled: {error}");
            self.verdicts.push_back(Verdict::Emit(SwitchEvent::LogLine(text)));
        }
        self.enter(now_ns, scheduler, job);
    }

    /// Whether the job ran before this controller knew of it.
    pub(crate) fn is_found(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|entry| entry.runs.is_some())
    }

    /// Forgets a job of which nothing runs any more. The scheduler has been notified.
    pub(crate) fn end(&mut self, job: JobId) {
        self.changed |= self.jobs.remove(&job).is_some();
    }

    /// A job that waited wants no nodes any more. The scheduler has been notified. It may have placed the job
    /// before: that is said first.
    pub(crate) fn withdraw(&mut self, now_ns: u64, scheduler: &mut Scheduler, job: JobId) {
        self.take_placed(now_ns, scheduler);
        self.end(job);
        self.verdicts.push_back(Verdict::Emit(SwitchEvent::Withdrawn(job)));
    }

    /// Nodes have come or gone.
    pub(crate) fn nodes_changed(&mut self) {
        self.changed = true;
    }

    /// Returns the next verdict on what has been told.
    pub(crate) fn poll(&mut self, now_ns: u64, scheduler: &mut Scheduler) -> Option<Verdict> {
        self.take_placed(now_ns, scheduler);
        if std::mem::take(&mut self.changed) {
            for job in scheduler.queue().take(REASONS_MAX) {
                let (entry, why) = (self.jobs.entry(job).or_default(), scheduler.why_waits(job));
                if entry.waits != why
                    && let Some(why) = why
                {
                    entry.waits = Some(why);
                    self.verdicts.push_back(Verdict::Emit(SwitchEvent::Waits(job, why)));
                }
            }
        }
        self.verdicts.pop_front()
    }

    /// Jobs that have got their places since the last look.
    fn take_placed(&mut self, now_ns: u64, scheduler: &mut Scheduler) {
        while let Some(Event::Placed(job, parts)) = scheduler.poll_event() {
            self.changed = true;
            let Some(entry) = self.jobs.get_mut(&job) else { continue };
            entry.waits = None;
            if entry.begun {
                self.enter(now_ns, scheduler, job);
            } else if entry.runs.is_none() {
                let nodes = parts.iter().map(|part| (part.node, part.ranks)).collect();
                self.verdicts.push_back(Verdict::Emit(SwitchEvent::Placed(job, nodes)));
            }
        }
    }

    /// The job begins, if it has its place and has not begun.
    fn enter(&mut self, now_ns: u64, scheduler: &mut Scheduler, job: JobId) {
        if scheduler.state(job) != Some(JobState::Placed) {
            return;
        }
        scheduler.begin(now_ns, job);
        if scheduler.state(job) == Some(JobState::Placed) {
            // It takes no turns.
            return;
        }
        let parts = scheduler.parts(job).map(<[Part]>::to_vec).unwrap_or_default();
        self.verdicts.push_back(Verdict::Begin(job, parts));
    }

    /// The slices that jobs have had, and their weights beside the others.
    pub(crate) fn served(&self, scheduler: &Scheduler) -> impl Iterator<Item = ServedJob> {
        let served = |job: &JobId| {
            let account = scheduler.account(*job)?;
            let busy_permille = account.busy.permille(BUSY_SEEN_US);
            let Account { turns, effective_milli, service_ns, .. } = account;
            let served_ms = service_ns / 1_000_000;
            Some(ServedJob { job: *job, turns, effective_milli, busy_permille, served_ms })
        };
        self.jobs.keys().filter_map(served)
    }
}

#[cfg(test)]
mod tests {
    use tutti_sched::{Config, Place};

    use super::*;

    fn bench(nodes: u32) -> (Admission, Scheduler) {
        let mut scheduler = Scheduler::new(Config::default()).unwrap();
        (0..nodes).for_each(|node| scheduler.handle_node(0, NodeId(node), 2, 1000));
        (Admission::default(), scheduler)
    }

    fn all(admission: &mut Admission, scheduler: &mut Scheduler) -> Vec<Verdict> {
        std::iter::from_fn(|| admission.poll(0, scheduler)).collect()
    }

    #[test]
    fn admission_places_once_and_explains_waiting() {
        let (mut admission, mut scheduler) = bench(1);
        let demand = Demand { memory_bytes: 600, ..Demand::any(1, 1) };
        let [first, other] = [JobId(1), JobId(2)];
        admission.submit(0, &mut scheduler, first, &demand, false);
        // Asked twice.
        admission.submit(0, &mut scheduler, first, &demand, false);
        admission.submit(0, &mut scheduler, other, &demand, false);
        let said = all(&mut admission, &mut scheduler);
        assert_eq!(said[0], Verdict::Emit(SwitchEvent::Placed(first, vec![(NodeId(0), 1)])));
        assert!(
            matches!(said[1], Verdict::Emit(SwitchEvent::Waits(job, Wait::Memory { .. })) if job == other)
        );
        assert_eq!(said.len(), 2);
        admission.begin(0, &mut scheduler, first);
        assert!(
            matches!(&all(&mut admission, &mut scheduler)[..], [Verdict::Begin(job, _)] if *job == first)
        );
        scheduler.end(0, first);
        admission.end(first);
        assert_eq!(
            all(&mut admission, &mut scheduler),
            [Verdict::Emit(SwitchEvent::Placed(other, vec![(NodeId(0), 1)]))]
        );
    }

    /// Nodes that were chosen before the job was taken back and given again are none of the second time.
    #[test]
    fn admission_voids_earlier_answers_before_it_answers_a_withdrawal() {
        let (mut admission, mut scheduler) = bench(1);
        let (job, demand) = (JobId(1), Demand::any(1, 1));
        admission.submit(0, &mut scheduler, job, &demand, false);
        scheduler.end(0, job);
        admission.withdraw(0, &mut scheduler, job);
        admission.submit(0, &mut scheduler, job, &demand, false);
        let placed = Verdict::Emit(SwitchEvent::Placed(job, vec![(NodeId(0), 1)]));
        let withdrawn = Verdict::Emit(SwitchEvent::Withdrawn(job));
        assert_eq!(all(&mut admission, &mut scheduler), [placed.clone(), withdrawn, placed]);
    }

    #[test]
    fn admission_retries_a_running_job_when_its_nodes_return() {
        let (mut admission, mut scheduler) = bench(1);
        let demand = Demand::at(Place::Given(vec![(NodeId(0), 1), (NodeId(1), 1)]));
        admission.submit(0, &mut scheduler, JobId(1), &demand, true);
        assert_eq!(all(&mut admission, &mut scheduler), []);
        scheduler.handle_node(0, NodeId(1), 2, 0);
        admission.begin(0, &mut scheduler, JobId(1));
        let said = all(&mut admission, &mut scheduler);
        assert!(matches!(&said[..], [Verdict::Begin(_, parts)] if parts.len() == 2), "{said:?}");
    }
}
