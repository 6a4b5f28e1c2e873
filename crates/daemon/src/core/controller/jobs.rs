//! The table of the jobs: which there are, which are to be judged, and what numbers the next ones have.

use std::collections::{BTreeMap, BTreeSet};

use tutti_protocol::users::refusal::Reason;

use super::job::JobRecord;
use super::relations::Relations;
use crate::core::clocks::Clocks;
use crate::core::fair::fair_share;
use crate::members::{Members, NodeId};
use crate::message::{Account, Answer, JobId, Launch, User};

/// Numbers that jobs draw themselves end here.
const JOB_MAX: u64 = 1 << 53;
/// A job that is over is listed for so long, within [`OVER_BYTES_MAX`].
const OVER_MS: u64 = 300_000;
/// Jobs of a user that are over for longer and still listed.
const OVER_MAX: usize = 1000;
/// Jobs of all users that are over and still listed. Whoever has most of them loses its oldest first.
const OVER_ALL_MAX: usize = 4000;
/// Memory of all jobs that are over. Whoever has most of it loses its oldest jobs first.
const OVER_BYTES_MAX: usize = 10 << 20;
/// Numbers of jobs that may take part later.
const RESERVED_MAX: usize = 4096;
/// Time in which a new controller takes over jobs that it does not know.
const ADOPT_MS: u64 = 60_000;
/// A new controller that is asked for a second time waits this long with a submission, in units of the time
/// after which a node is lost: its predecessor may have accepted it, and a node will say so.
pub(super) const SETTLE_LOST: u64 = 2;

/// The jobs of the cluster.
#[derive(Debug)]
pub(super) struct Jobs {
    /// Jobs of which nodes may have something, or that wait. What is done at each event and each tick looks
    /// at these alone, however many are over.
    pub(super) records: BTreeMap<JobId, JobRecord>,
    /// Jobs that are over and that only lists show: nodes may forget them. The places of a tree whose keys
    /// only grow are half empty, so each is no larger than it must be.
    pub(super) past: BTreeMap<JobId, Box<JobRecord>>,
    /// Of the jobs to each other, as their records say them.
    pub(super) relations: Relations,
    /// Jobs to be judged although none of their parts has said anything.
    pub(super) pending: BTreeSet<JobId>,
    /// Whether jobs that wait for other reasons than the scheduler's are to be looked at anew.
    pub(super) retries: bool,
    next_job: u64,
    /// Until when jobs that wait since an earlier controller are held, and those that come meanwhile; none:
    /// none is.
    held_until_ms: Option<u64>,
    /// Numbers of jobs that have begun and do not take part yet, and whose they are.
    reserved: BTreeMap<u64, u32>,
    started_at_ms: u64,
    /// The time of the clock when jobs were looked at last.
    looked_ms: u64,
    /// Set when jobs have ended since it was looked which ones are to be forgotten.
    has_new_ends: bool,
    /// First job of this incarnation: earlier ones that are not known are an earlier controller's.
    first_job: u64,
}

impl Jobs {
    pub(super) fn new(first_job: u64, now_ms: u64) -> Self {
        let first_job = first_job.max(1);
        Jobs {
            records: BTreeMap::new(),
            past: BTreeMap::new(),
            relations: Relations::default(),
            pending: BTreeSet::new(),
            retries: false,
            next_job: first_job,
            held_until_ms: None,
            reserved: BTreeMap::new(),
            started_at_ms: now_ms,
            looked_ms: 0,
            has_new_ends: false,
            first_job,
        }
    }

    pub(super) fn get(&self, id: JobId) -> Option<&JobRecord> {
        self.records.get(&id).or_else(|| self.past.get(&id).map(Box::as_ref))
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut JobRecord> {
        self.records.get_mut(&id).or_else(|| self.past.get_mut(&id).map(Box::as_mut))
    }

    /// Number and record of each job, by number.
    pub(super) fn all(&self) -> Vec<(JobId, &JobRecord)> {
        let mut all: Vec<_> = self.each().collect();
        // Two rows that are in order each.
        all.sort_by_key(|(id, _)| *id);
        all
    }

    fn each(&self) -> impl Iterator<Item = (JobId, &JobRecord)> {
        let past = self.past.iter().map(|(id, job)| (*id, job.as_ref()));
        self.records.iter().map(|(id, job)| (*id, job)).chain(past)
    }

    /// The same of those that are not over, or whose output is not written.
    pub(super) fn open(&self) -> impl Iterator<Item = (JobId, &JobRecord)> {
        self.records.iter().filter(|(_, job)| !job.is_done()).map(|(id, job)| (*id, job))
    }

    /// A new job, or one of an earlier controller, whose number is not given again.
    pub(super) fn insert(&mut self, id: JobId, job: JobRecord) {
        self.next_job = self.next_job.max(id.0 + 1);
        self.take(id);
        self.relations.insert(id, &job.launch);
        self.records.insert(id, job);
    }

    fn take(&mut self, id: JobId) -> Option<JobRecord> {
        let job = self.records.remove(&id).or_else(|| self.past.remove(&id).map(|job| *job))?;
        self.relations.remove(id, &job.launch);
        Some(job)
    }

    /// Gives a job that waits another launch.
    pub(super) fn set_launch(&mut self, id: JobId, launch: Launch) {
        let Some(job) = self.records.get_mut(&id) else { return };
        self.relations.remove(id, &job.launch);
        self.relations.insert(id, &launch);
        job.set_launch(launch);
    }

    /// The job is as if it had never been; those that it was to wait for may be forgotten.
    pub(super) fn remove(&mut self, id: JobId) {
        let removed = self.take(id);
        self.pending.extend(removed.iter().flat_map(JobRecord::named_before));
    }

    /// The number that the next new job gets.
    pub(super) fn next_id(&self) -> JobId {
        JobId(self.next_job)
    }

    /// A number for a job of this user's that is about to begin. The oldest of them are forgotten.
    pub(super) fn reserve(&mut self, uid: u32) -> JobId {
        let number = self.next_job;
        self.next_job += 1;
        self.reserved.insert(number, uid);
        if self.reserved.len() > RESERVED_MAX {
            self.reserved.pop_first();
        }
        JobId(number)
    }

    /// Whether this number was reserved for a job of the user, which has it now.
    pub(super) fn take_reserved(&mut self, number: u64, uid: u32) -> bool {
        self.reserved.get(&number) == Some(&uid) && self.reserved.remove(&number).is_some()
    }

    /// The number of a new job that has drawn this one from the series of its user: another one, where that
    /// is taken or none.
    pub(super) fn id_of(&self, drawn: Option<u64>) -> JobId {
        let is_free = |id: &JobId| (1..=JOB_MAX).contains(&id.0) && self.get(*id).is_none();
        drawn.map(JobId).filter(is_free).unwrap_or(self.next_id())
    }

    /// Begins the numbers of this controller behind this job, which waited and is an earlier controller's.
    pub(super) fn begin_behind(&mut self, id: JobId) {
        self.next_job = self.next_job.max(id.0 + 1);
        self.first_job = self.first_job.max(id.0 + 1);
    }

    /// Line about a job that is not known.
    pub(super) fn unknown(&self, id: JobId) -> String {
        if self.was_given(id) {
            format!("job {id} is over and no longer known here; `tutti status {id}` shows what the log has")
        } else {
            format!("there is no job {id}")
        }
    }

    /// Refusal of what is asked about a job that is not known.
    pub(super) fn refuse_unknown(&self, id: JobId) -> Answer {
        let text = self.unknown(id);
        if self.was_given(id) { Answer::Because(Reason::Forgotten, text) } else { Answer::Refused(text) }
    }

    /// Whether a job has got this number.
    fn was_given(&self, id: JobId) -> bool {
        id < self.next_id()
    }

    /// The user's own job, or why he may do nothing to it.
    ///
    /// # Errors
    /// When there is none, or it is another's: a text for the user. `may`: whether he may have the job of
    /// that user.
    pub(super) fn check_owner(&self, id: JobId, may: impl Fn(User) -> bool) -> Result<(), Answer> {
        match self.get(id) {
            None => Err(self.refuse_unknown(id)),
            Some(job) if !may(job.launch.user) => {
                Err(Answer::Because(Reason::OtherUser, format!("job {id} is another user's")))
            }
            Some(_) => Ok(()),
        }
    }

    /// Nodes may tell of jobs that are not known: a job of an earlier controller is taken over.
    pub(super) fn may_adopt(&self, id: JobId, now_ms: u64) -> bool {
        !self.is_past_adoption(now_ms) && id.0 < self.first_job
    }

    /// No node tells any more of a job that is not known.
    pub(super) fn is_past_adoption(&self, now_ms: u64) -> bool {
        now_ms >= self.started_at_ms + ADOPT_MS
    }

    /// Whether all that nodes know of jobs that an earlier controller gave a number is known here.
    pub(super) fn is_settled(&self, now_ms: u64, lost_ms: u64) -> bool {
        now_ms >= self.started_at_ms + SETTLE_LOST * lost_ms
    }

    /// The job that a submission of a user has become; of an array that of the whole.
    pub(super) fn of_submission(&self, uid: u32, number: u64) -> Option<JobId> {
        let is_it =
            |job: &JobRecord| job.launch.user.uid == uid && job.launch.batch.sending().number == number;
        let found = self.each().find(|(_, job)| number != 0 && is_it(job));
        found.map(|(id, job)| job.launch.batch.array_task().map_or(id, |task| task.array))
    }

    /// Nodes may yet tell of this job, which is not known.
    pub(super) fn may_learn(&self, id: JobId, now_ms: u64, lost_ms: u64) -> bool {
        id.0 < self.first_job && !self.is_settled(now_ms, lost_ms)
    }

    /// Judges those whose place another job was to take.
    pub(super) fn judge_requeued(&mut self) {
        let requeued = self.records.iter().filter(|(_, job)| job.end.is_requeued() && !job.is_done());
        self.pending.extend(requeued.map(|(id, _)| *id));
    }

    /// Jobs that the scheduler has not been asked for are looked at anew, all of them once.
    pub(super) fn retry_waiting(&mut self) {
        self.retries = true;
    }

    /// Holds jobs until this time.
    pub(super) fn hold_until(&mut self, until_ms: u64) {
        self.held_until_ms = Some(until_ms);
    }

    /// Until when a job that comes is held.
    pub(super) fn held_until_ms(&self) -> Option<u64> {
        self.held_until_ms
    }

    /// Releases jobs that have been held long enough and whose files are written; gives them, in the order in
    /// which they came.
    pub(super) fn release_held(&mut self, now_ms: u64, is_written: impl Fn(JobId) -> bool) -> Vec<JobId> {
        if self.held_until_ms.is_none_or(|until_ms| now_ms < until_ms) {
            return Vec::new();
        }
        let (mut due, mut is_one_held) = (Vec::new(), false);
        for (id, job) in self.records.iter_mut().filter(|(_, job)| !job.is_over()) {
            let Some(queued) = job.queued.as_mut().filter(|queued| queued.held_until_ms().is_some()) else {
                continue;
            };
            if !is_written(*id) {
                is_one_held = true;
            } else if queued.poll_held(now_ms) {
                due.push(*id);
            }
        }
        self.held_until_ms = self.held_until_ms.filter(|_| is_one_held);
        due
    }

    /// Some job is not over, or waits to be judged.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.records.is_empty()
    }

    /// The daemon of a node has been started anew: as an origin it knows nothing of its jobs, and hears
    /// everything again.
    pub(super) fn renew_origin(&mut self, node: NodeId) {
        for (id, job) in self.records.iter_mut().filter(|(_, job)| job.launch.origin == node) {
            job.reports.begin_anew();
            self.pending.insert(*id);
        }
    }

    /// A node is gone, with all that ran on it.
    pub(super) fn lose_node(&mut self, node: NodeId, name: &str) {
        for (id, job) in &mut self.records {
            self.pending.insert(*id);
            job.lose_node(node, name);
        }
    }

    /// A job that is over is kept by its nodes until its origin has everything, or is lost itself, and the
    /// files of those that wait for it say so.
    pub(super) fn forget_if_received(&mut self, id: JobId, members: &Members, now_ms: u64, keep_ms: u64) {
        let is_awaited = self.is_awaited_by_others(id);
        let Some(job) = self.records.get_mut(&id).filter(|job| job.is_over()) else { return };
        if !job.reports.are_received() {
            let is_lost = !members.is_alive(job.launch.origin)
                // Nodes are still coming back to a controller that has just begun.
                && !job.is_adopted()
                && !job.waits_for_origin(now_ms, keep_ms);
            if !is_lost {
                return;
            }
            job.lose_origin(&members.name(job.launch.origin));
            // Should it come back, it ends with what it has.
            job.report_end(Vec::new());
        }
        if !is_awaited && let Some(mut job) = self.records.remove(&id) {
            job.order.forget = true;
            job.shed();
            self.past.insert(id, Box::new(job));
        }
    }

    /// A job has ended: older ones may be to be forgotten.
    pub(super) fn note_end(&mut self) {
        self.has_new_ends = true;
    }

    /// A user's jobs push out its own, and not another's as long as that one has fewer. One that has ended
    /// lately stays as long as there is memory for it.
    fn forget_oldest(&mut self, wall_ms: u64) {
        let mut over: BTreeMap<Account, Vec<(JobId, usize, bool)>> = BTreeMap::new();
        for (id, job) in &self.past {
            let is_fresh = job.ended_ms().is_none_or(|ended_ms| wall_ms < ended_ms + OVER_MS);
            over.entry(job.launch.user.account()).or_default().push((*id, job.held_bytes(), is_fresh));
        }
        let most = fair_share(over.values().map(Vec::len), OVER_ALL_MAX).min(OVER_MAX);
        let bytes = over.values().map(|jobs| jobs.iter().map(|(_, bytes, _)| bytes).sum());
        let most_bytes = fair_share(bytes, OVER_BYTES_MAX);
        for jobs in over.values() {
            let (mut count, mut held) = (0, 0);
            for (id, bytes, is_fresh) in jobs.iter().rev() {
                (count, held) = (count + 1, held + bytes);
                if held > most_bytes || count > most && !is_fresh {
                    self.take(*id);
                }
            }
        }
    }

    /// Nodes of jobs of an earlier controller that were to come back and have not.
    pub(super) fn take_absent(&mut self, members: &Members, now_ms: u64) -> BTreeSet<NodeId> {
        let mut absent = BTreeSet::new();
        for job in self.records.values_mut() {
            if job.poll_adopted(now_ms) {
                let places = job.launch.places().into_iter().map(|(node, _)| node);
                let nodes = places.chain(job.launch.nodes.iter().copied()).chain([job.launch.origin]);
                absent.extend(nodes.filter(|node| !members.is_alive(*node)));
            }
        }
        absent
    }

    /// The jobs that are to be judged since time has passed.
    pub(super) fn take_due(&mut self, now_ms: u64, now: Clocks) -> BTreeSet<JobId> {
        let wall_ms = now.wall_ms;
        let since_ms = std::mem::replace(&mut self.looked_ms, wall_ms);
        // Once for all that have ended since: thousands may end at once.
        if std::mem::take(&mut self.has_new_ends) {
            self.forget_oldest(wall_ms);
        }
        // The scheduler is asked for those whose time to begin has come.
        self.retries |= self.records.values().any(|job| job.is_begin_due(since_ms, wall_ms));
        let mut ids = std::mem::take(&mut self.pending);
        let due = self.records.iter().filter(|(_, job)| job.is_due(now_ms, now.boot_ms));
        ids.extend(due.map(|(id, _)| *id));
        ids
    }
}

#[cfg(test)]
impl Jobs {
    /// Checks that those jobs are past which nodes may forget, and that nothing more becomes of them.
    pub(super) fn check_past(&self) {
        assert!(self.records.values().all(|job| !job.order.forget));
        assert!(self.past.values().all(|job| job.order.forget && job.is_done()));
    }
}
