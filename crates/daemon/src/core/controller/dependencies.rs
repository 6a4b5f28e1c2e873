//! Jobs that start when others are over (`--after`), have ended well (`--after-ok`) or not
//! (`--after-not-ok`).
//!
//! ```text
//! filed --others are over--> the scheduler is asked for it
//!         \--one has not ended as it had to--> over, status 1, one line
//! ```
//!
//! The file of a job that waits names those that it waits for, and of which it is known that they are over. A
//! job that is over is forgotten by its nodes only when that is in the files of all that wait for it
//! ([`Jobs::is_awaited_by_others`]). So a controller that is started anew has it from the file or from
//! the nodes, and if neither knows the job, nothing of it is left to wait for: then `--after` is fulfilled,
//! the others are not, since nobody knows how it ended.

use std::collections::BTreeMap;

use tutti_protocol::wire::Report;

use super::job::JobRecord;
use super::jobs::Jobs;
use super::waits::{Outcome, Waits};
use crate::message::{After, EndKind, JobId};

/// Jobs that a line names.
const NAMED_MAX: usize = 4;

impl JobRecord {
    /// Dependencies on jobs that are not over.
    fn awaited(&self) -> impl Iterator<Item = &After> {
        let over = self.queued.as_ref().map(Waits::over);
        let after = self.launch.batch.after.iter();
        after.filter(move |after| over.is_some_and(|over| !over.contains_key(&after.job)))
    }

    /// Jobs that it was to wait for.
    pub(super) fn named_before(&self) -> impl Iterator<Item = JobId> {
        self.launch.batch.after.iter().map(|after| after.job)
    }

    /// For whom it waits, if it does.
    pub(super) fn waits_for(&self) -> Option<String> {
        let named = |after: &After| match (after.ok, after.not_ok) {
            (true, _) => format!("job {} has ended with status 0", after.job),
            (_, true) => format!("job {} has ended with another status than 0", after.job),
            (false, false) => format!("job {} is over", after.job),
        };
        let names: Vec<String> = self.awaited().take(NAMED_MAX).map(named).collect();
        let more = self.awaited().count().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("until {}{more}", names.join(", ")))
    }

    /// At least one has not ended as it had to: which, and how it ended.
    pub(super) fn failed_dependency(&self) -> Option<(JobId, Option<u8>)> {
        let queued = self.queued.as_ref().filter(|_| !self.is_ending())?;
        self.launch.batch.after.iter().find_map(|after| {
            let outcome = queued.over().get(&after.job)?;
            let is_wrong = match outcome.status {
                None => after.ok || after.not_ok,
                Some(0) => after.not_ok,
                Some(_) => after.ok,
            };
            is_wrong.then_some((after.job, outcome.status))
        })
    }

    /// Ends if one has not ended as it had to.
    pub(super) fn judge_dependencies(&mut self) {
        let Some((job, status)) = self.failed_dependency() else { return };
        let text = match status {
            Some(status) => format!("dependency failed: job {job} has ended with status {status}"),
            None => format!("dependency failed: nothing is known of job {job} any more"),
        };
        self.end.mark(EndKind::Dependency);
        self.report(Report::Refused(text));
        self.end_by(None, 1);
    }
}

impl Jobs {
    /// Outcomes of those of the jobs that are over.
    pub(super) fn outcomes(&self, after: &[After]) -> BTreeMap<JobId, Outcome> {
        let over = after.iter().filter_map(|after| {
            let job = self.get(after.job).filter(|job| job.is_done())?;
            Some((after.job, Outcome { status: Some(job.end.status()), filed: true }))
        });
        over.collect()
    }

    /// Jobs that wait for this one.
    fn dependents(&self, id: JobId) -> impl Iterator<Item = (JobId, Option<&Outcome>)> {
        self.relations.behind(id).filter_map(move |dependent| {
            let job = self.get(dependent).filter(|job| !job.is_ending())?;
            let queued = job.queued.as_ref()?;
            Some((dependent, queued.over().get(&id)))
        })
    }

    /// The file of some job does not yet say that this one is over.
    pub(super) fn is_awaited_by_others(&self, id: JobId) -> bool {
        self.dependents(id).any(|(_, outcome)| outcome.is_none_or(|outcome| !outcome.filed))
    }

    /// A job is over: those that it has waited for may be forgotten. Gives those that wait for it, whose
    /// files are to say so.
    pub(super) fn release_dependents(&mut self, id: JobId) -> Vec<JobId> {
        let job = self.records.get(&id).or_else(|| self.past.get(&id).map(Box::as_ref));
        let (status, before) =
            (job.map(|job| job.end.status()), job.into_iter().flat_map(JobRecord::named_before));
        self.pending.extend(before);
        self.record_over(id, status)
    }

    /// Gives the jobs whose files are to say it.
    fn record_over(&mut self, id: JobId, status: Option<u8>) -> Vec<JobId> {
        let dependents = self.dependents(id).filter(|(_, outcome)| outcome.is_none());
        let dependents: Vec<JobId> = dependents.map(|(dependent, _)| dependent).collect();
        for dependent in &dependents {
            self.pending.insert(*dependent);
            if let Some(queued) = self.records.get_mut(dependent).and_then(|job| job.queued.as_mut()) {
                queued.record_over(id, status);
            }
        }
        dependents
    }

    /// The file of a job says that another one is over, or cannot be written.
    pub(super) fn record_filed(&mut self, id: JobId, over: JobId) {
        if let Some(queued) = self.records.get_mut(&id).and_then(|job| job.queued.as_mut()) {
            queued.record_filed(over);
        }
        self.pending.insert(over);
    }

    /// No node can tell any more of jobs that are not known: they are over. Gives them with those that wait
    /// for them, whose files are to say so.
    pub(super) fn give_up_unknown(&mut self) -> Vec<(JobId, Vec<JobId>)> {
        let unknown = |after: &&After| self.get(after.job).is_none();
        let lost = self.records.values().flat_map(JobRecord::awaited).filter(unknown);
        let lost: Vec<JobId> = lost.map(|after| after.job).collect();
        lost.into_iter().map(|id| (id, self.record_over(id, None))).collect()
    }

    /// Jobs that the scheduler has not been asked for: of those to be judged, or of all that are to be looked
    /// at anew. One that its user holds is looked at when it is released.
    pub(super) fn take_unsubmitted(&mut self) -> Vec<JobId> {
        let is_one = |job: &JobRecord| job.queued.as_ref().is_some_and(|queued| !queued.is_submitted());
        if std::mem::take(&mut self.retries) {
            let is_due = |id: &JobId, job: &JobRecord| job.user_hold().is_none() || self.pending.contains(id);
            let due = self.records.iter().filter(|(id, job)| is_one(job) && is_due(id, job));
            return due.map(|(id, _)| *id).collect();
        }
        let due = self.pending.iter().filter(|id| self.records.get(id).is_some_and(is_one));
        due.copied().collect()
    }
}
