//! Which jobs stand behind others, are steps of others, or have taken the place of others: by the other one.
//!
//! The table ([`super::jobs::Jobs`]) keeps this beside its records, so what the end of a job means for others
//! costs the same however many thousand there are that it means nothing for. Whether a job that stands behind
//! another still waits its record says.

use std::collections::BTreeSet;

use crate::message::{JobId, Launch};

/// Pairs of jobs: the one that is referred to, and the one that refers to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Relations {
    /// Named by the batch terms of the second one.
    behind: Pairs,
    /// Owner, and step.
    steps: Pairs,
    /// First of those that were requeued, and one that has taken its place.
    restarts: Pairs,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Pairs(BTreeSet<(JobId, JobId)>);

impl Pairs {
    fn remove(&mut self, pairs: &[(JobId, JobId)]) {
        for pair in pairs {
            self.0.remove(pair);
        }
    }

    fn of(&self, first: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.0.range((first, JobId(0))..=(first, JobId(u64::MAX))).map(|(_, second)| *second)
    }
}

impl Relations {
    /// The table has this job from now on.
    pub(super) fn insert(&mut self, id: JobId, launch: &Launch) {
        let [behind, steps, restarts] = pairs(id, launch);
        self.behind.0.extend(behind);
        self.steps.0.extend(steps);
        self.restarts.0.extend(restarts);
    }

    /// The table has the job no more, or with another launch.
    pub(super) fn remove(&mut self, id: JobId, launch: &Launch) {
        let [behind, steps, restarts] = pairs(id, launch);
        self.behind.remove(&behind);
        self.steps.remove(&steps);
        self.restarts.remove(&restarts);
    }

    /// Jobs that are to start behind this one, or have.
    pub(super) fn behind(&self, id: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.behind.of(id)
    }

    /// Steps of a job, by number.
    pub(super) fn steps(&self, owner: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.steps.of(owner)
    }

    /// Jobs that have taken the place of this first one, by number.
    pub(super) fn restarts(&self, first: JobId) -> impl Iterator<Item = JobId> + '_ {
        self.restarts.of(first)
    }
}

fn pairs(id: JobId, launch: &Launch) -> [Vec<(JobId, JobId)>; 3] {
    let behind = launch.batch.after.iter().map(|after| (after.job, id)).collect();
    let step = launch.steps.owner.map(|owner| (owner, id)).into_iter().collect();
    let restart = launch.batch.restart().map(|restart| (restart.first, id)).into_iter().collect();
    [behind, step, restart]
}
