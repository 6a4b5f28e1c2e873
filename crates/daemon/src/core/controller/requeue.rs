//! Which job has taken the place of one that was requeued ([`super::job`]), and who waits for it.

use super::job::JobRecord;
use super::jobs::Jobs;
use crate::message::{JobId, Launch};

impl Jobs {
    /// The job that has taken the place of this one, or itself.
    pub(super) fn newest(&self, id: JobId) -> JobId {
        let restart = |job: &JobRecord| job.launch.batch.restart();
        let first = self.get(id).and_then(restart).map_or(id, |restart| restart.first);
        let is_of = |job: &&JobRecord| restart(job).is_some_and(|restart| restart.first == first);
        let of_first = self.records.values().filter(is_of);
        of_first.max_by_key(|job| restart(job).map(|restart| restart.count)).map_or(id, |job| job.id)
    }

    /// The job that waits to take the place of this one: an earlier controller died before it ended this one.
    pub(super) fn waiting_restart_of(&self, id: JobId) -> Option<JobId> {
        let is_it = |job: &&JobRecord| {
            let is_behind = job.launch.batch.after.iter().any(|after| after.job == id);
            job.queued.is_some() && !job.is_ending() && job.launch.batch.restart().is_some() && is_behind
        };
        self.records.values().find(is_it).map(|job| job.id)
    }

    /// Jobs that wait for this one wait for that one from now on. Gives them.
    pub(super) fn wait_for_other(&mut self, old: JobId, new: JobId) -> Vec<JobId> {
        let mut changed = Vec::new();
        let waiting = self.records.iter_mut().filter(|(id, job)| **id != new && job.queued.is_some());
        for (id, job) in waiting.filter(|(_, job)| !job.is_ending()) {
            if job.launch.batch.after.iter().any(|after| after.job == old) {
                let mut launch = Launch::clone(&job.launch);
                let of_old = launch.batch.after.iter_mut().filter(|after| after.job == old);
                of_old.for_each(|after| after.job = new);
                job.set_launch(launch);
                changed.push(*id);
            }
        }
        changed
    }
}
