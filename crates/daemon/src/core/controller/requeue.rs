//! Which job has taken the place of one that was requeued ([`super::job`]), and who waits for it.

use super::job::JobRecord;
use super::jobs::Jobs;
use crate::message::{JobId, Launch};

impl Jobs {
    /// The job that has taken the place of this one, or itself.
    pub(super) fn newest(&self, id: JobId) -> JobId {
        let restart = |job: &JobRecord| job.launch.batch.restart();
        let first = self.get(id).and_then(restart).map_or(id, |restart| restart.first);
        let of_first = self.relations.restarts(first).filter_map(|id| self.get(id));
        of_first.max_by_key(|job| restart(job).map(|restart| restart.count)).map_or(id, |job| job.id)
    }

    /// The job that waits to take the place of this one: an earlier controller died before it ended this one.
    pub(super) fn waiting_restart_of(&self, id: JobId) -> Option<JobId> {
        let is_it = |job: &&JobRecord| {
            job.queued.is_some() && !job.is_ending() && job.launch.batch.restart().is_some()
        };
        self.relations.behind(id).filter_map(|id| self.get(id)).find(is_it).map(|job| job.id)
    }

    /// Jobs that wait for this one wait for that one from now on. Gives them.
    pub(super) fn wait_for_other(&mut self, old: JobId, new: JobId) -> Vec<JobId> {
        let waits = |id: &JobId| self.get(*id).is_some_and(|job| job.queued.is_some() && !job.is_ending());
        let changed: Vec<JobId> = self.relations.behind(old).filter(|id| *id != new && waits(id)).collect();
        for id in &changed {
            let Some(job) = self.get(*id) else { continue };
            let mut launch = Launch::clone(&job.launch);
            let of_old = launch.batch.after.iter_mut().filter(|after| after.job == old);
            of_old.for_each(|after| after.job = new);
            self.set_launch(*id, launch);
        }
        changed
    }
}
