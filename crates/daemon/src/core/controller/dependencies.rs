//! Jobs that start when others are over (`--after`), or have ended well (`--after-ok`).
//!
//! ```text
//! filed --others are over--> the scheduler is asked for it
//!         \--one that had to end well has not--> over, status 1, one line
//! ```
//!
//! The file of a job that waits names those that it waits for, and of which it is known that they are over. A
//! job that is over is forgotten by its nodes only when that is in the files of all that wait for it
//! ([`Controller::is_awaited_by_others`]). So a controller that is started anew has it from the file or from
//! the nodes, and if neither knows the job, nothing of it is left to wait for: then `--after` is fulfilled,
//! `--after-ok` is not, since nobody knows how it ended.

use std::collections::BTreeMap;

use tutti_protocol::wire::Report;

use super::job::JobRecord;
use super::{ADOPT_MS, Controller, Filing};
use crate::core::Core;
use crate::message::{After, JobId};

/// Jobs that a line names.
const NAMED_MAX: usize = 4;

/// How a job has ended that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Its status; none: nobody knows.
    pub(super) status: Option<u8>,
    /// It is in the file of the other.
    pub(super) filed: bool,
}

impl JobRecord {
    /// Those that are not over.
    fn awaited(&self) -> impl Iterator<Item = &After> {
        let over = self.queued.as_ref().map(|queued| &queued.over);
        let after = self.launch.batch.after.iter();
        after.filter(move |after| over.is_some_and(|over| !over.contains_key(&after.job)))
    }

    /// Those that it was to wait for.
    pub(super) fn named_before(&self) -> impl Iterator<Item = JobId> {
        self.launch.batch.after.iter().map(|after| after.job)
    }

    /// For whom it waits, if it does.
    pub(super) fn waits_for(&self) -> Option<String> {
        let named = |after: &After| match after.ok {
            true => format!("job {} has ended with status 0", after.job),
            false => format!("job {} is over", after.job),
        };
        let names: Vec<String> = self.awaited().take(NAMED_MAX).map(named).collect();
        let more = self.awaited().count().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!names.is_empty()).then(|| format!("until {}{more}", names.join(", ")))
    }

    /// Others are not over; what its user has not been told of that.
    pub(super) fn take_waiting_text(&mut self) -> Option<String> {
        let why = self.waits_for()?;
        let queued = self.queued.as_mut()?;
        (!std::mem::replace(&mut queued.reported, true)).then_some(why)
    }

    /// One that had to end well has not: which, and how it ended.
    pub(super) fn failed_dependency(&self) -> Option<(JobId, Option<u8>)> {
        let queued = self.queued.as_ref().filter(|_| !self.is_ending())?;
        self.launch.batch.after.iter().filter(|after| after.ok).find_map(|after| {
            let outcome = queued.over.get(&after.job)?;
            (outcome.status != Some(0)).then_some((after.job, outcome.status))
        })
    }

    /// It ends if one that had to end well has not.
    pub(super) fn judge_dependencies(&mut self) {
        let Some((job, status)) = self.failed_dependency() else { return };
        let text = match status {
            Some(status) => format!("dependency failed: job {job} has ended with status {status}"),
            None => format!("dependency failed: nothing is known of job {job} any more"),
        };
        self.report(Report::Refused(text));
        self.end_by(None, 1);
    }
}

impl Controller {
    /// Those of them that are over.
    pub(super) fn outcomes(&self, after: &[After]) -> BTreeMap<JobId, Outcome> {
        let over = after.iter().filter_map(|after| {
            let job = self.jobs.get(&after.job).filter(|job| job.is_done())?;
            Some((after.job, Outcome { status: Some(job.status), filed: true }))
        });
        over.collect()
    }

    /// Jobs that wait for this one.
    fn dependents(&self, id: JobId) -> impl Iterator<Item = (JobId, Option<&Outcome>)> {
        let waiting = self.jobs.iter().filter(|(_, job)| !job.is_ending());
        waiting.filter_map(move |(dependent, job)| {
            let queued = job.queued.as_ref()?;
            let is_it = job.launch.batch.after.iter().any(|after| after.job == id);
            is_it.then(|| (*dependent, queued.over.get(&id)))
        })
    }

    /// The file of some job does not yet say that this one is over.
    pub(super) fn is_awaited_by_others(&self, id: JobId) -> bool {
        self.dependents(id).any(|(_, outcome)| outcome.is_none_or(|outcome| !outcome.filed))
    }
}

impl Core {
    /// A job is over: those that wait for it may start, and those that it has waited for may be forgotten.
    pub(super) fn release_dependents(&mut self, id: JobId) {
        let Some(controller) = &mut self.controller else { return };
        let status = controller.jobs.get(&id).map(|job| job.status);
        let before: Vec<JobId> = controller.jobs.get(&id).iter().flat_map(|job| job.named_before()).collect();
        controller.pending.extend(before);
        self.record_over(id, status);
    }

    fn record_over(&mut self, id: JobId, status: Option<u8>) {
        let Some(controller) = &mut self.controller else { return };
        let dependents = controller.dependents(id).filter(|(_, outcome)| outcome.is_none());
        let dependents: Vec<JobId> = dependents.map(|(dependent, _)| dependent).collect();
        for dependent in dependents {
            let Some(controller) = &mut self.controller else { return };
            controller.pending.insert(dependent);
            if let Some(queued) = controller.jobs.get_mut(&dependent).and_then(|job| job.queued.as_mut()) {
                queued.over.insert(id, Outcome { status, filed: false });
            }
            self.file(dependent, Filing::Over(id));
        }
    }

    /// The file of a job says that another one is over, or cannot be written.
    pub(super) fn record_filed(&mut self, id: JobId, over: JobId) {
        let Some(controller) = &mut self.controller else { return };
        let queued = controller.jobs.get_mut(&id).and_then(|job| job.queued.as_mut());
        if let Some(outcome) = queued.and_then(|queued| queued.over.get_mut(&over)) {
            outcome.filed = true;
        }
        controller.pending.insert(over);
    }

    /// Jobs start whose others are over. When no node can tell any more of a job that this controller does
    /// not know, it is over.
    pub(super) fn settle_dependencies(&mut self) {
        let Some(controller) = &mut self.controller else { return };
        let is_settled = self.now_ms >= controller.started_at_ms + ADOPT_MS;
        if is_settled && !std::mem::replace(&mut controller.settled, true) {
            let unknown = |after: &After| !controller.jobs.contains_key(&after.job);
            let lost = controller.jobs.values().flat_map(JobRecord::awaited).filter(|after| unknown(after));
            let lost: Vec<JobId> = lost.map(|after| after.job).collect();
            lost.into_iter().for_each(|id| self.record_over(id, None));
        }
        let Some(controller) = &self.controller else { return };
        let ready = controller.pending.iter().filter(|id| {
            let job = controller.jobs.get(id);
            job.is_some_and(|job| job.queued.as_ref().is_some_and(|queued| !queued.submitted))
        });
        let ready: Vec<JobId> = ready.copied().collect();
        for id in ready {
            self.try_to_schedule(id);
        }
    }
}
