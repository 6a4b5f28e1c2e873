//! Jobs that are connected to each other: they wait for each other as ranks of one job do, so they are to run
//! in the same turns.
//!
//! The pairs are the caller's knowledge, and so is their bound. A **group** is all who are connected, through
//! others too, of those who stand in one row. A group moves between rows as one, and fills holes as one.

use std::collections::BTreeSet;

use crate::types::JobId;

/// Which jobs are connected.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connected {
    /// The lower number first.
    pairs: BTreeSet<(JobId, JobId)>,
}

impl Connected {
    /// Two jobs are connected, or no longer; whether that is new.
    pub(crate) fn set(&mut self, one: JobId, other: JobId, connected: bool) -> bool {
        let pair = (one.min(other), one.max(other));
        match connected {
            _ if one == other => false,
            true => self.pairs.insert(pair),
            false => self.pairs.remove(&pair),
        }
    }

    /// The job has ended.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.pairs.retain(|(one, other)| *one != job && *other != job);
    }

    /// Whether no jobs are connected.
    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// All pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (JobId, JobId)> + '_ {
        self.pairs.iter().copied()
    }

    /// The group of a job among those of a row, in their order, with the job itself.
    pub(crate) fn group(&self, job: JobId, row: &[JobId]) -> Vec<JobId> {
        if self.is_empty() {
            return vec![job];
        }
        let mut group = BTreeSet::from([job]);
        let mut open = vec![job];
        while let Some(job) = open.pop() {
            for &(one, other) in &self.pairs {
                let next = if one == job { other } else { one };
                if (one == job || other == job) && row.contains(&next) && group.insert(next) {
                    open.push(next);
                }
            }
        }
        row.iter().copied().filter(|job| group.contains(job)).collect()
    }

    /// The groups of a row, each in its order.
    pub(crate) fn groups(&self, row: &[JobId]) -> Vec<Vec<JobId>> {
        let mut rest = row.to_vec();
        let mut groups = Vec::new();
        while let Some(&job) = rest.first() {
            let group = self.group(job, &rest);
            rest.retain(|job| !group.contains(job));
            groups.push(group);
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connected_groups_are_of_one_row_and_in_its_order() {
        let jobs = [5, 1, 3, 2].map(JobId);
        let mut connected = Connected::default();
        assert_eq!(connected.groups(&jobs).len(), 4);
        assert!(connected.set(JobId(3), JobId(1), true) && !connected.set(JobId(1), JobId(3), true));
        assert!(connected.set(JobId(3), JobId(9), true) && connected.set(JobId(9), JobId(2), true));
        assert!(!connected.set(JobId(3), JobId(3), true), "nobody is connected to itself");
        let groups = [vec![JobId(5)], vec![JobId(1), JobId(3)], vec![JobId(2)]];
        assert_eq!(connected.groups(&jobs), groups, "job 9 stands elsewhere");
        assert!(connected.set(JobId(2), JobId(1), true));
        assert_eq!(connected.group(JobId(2), &jobs), [1, 3, 2].map(JobId));
        connected.forget(JobId(1));
        assert_eq!(connected.groups(&jobs).len(), 4);
    }
}
