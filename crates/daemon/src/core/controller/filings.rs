//! The files of jobs that wait, on their way to the disk, and what is to follow when they are there.

use std::collections::{BTreeMap, VecDeque};

use super::answers::Requester;
use crate::message::JobId;

/// Step that follows when the file of a job is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filing {
    /// The job is new: its user gets its number.
    New(Requester),
    /// A change by the job's user, who hears that it is so.
    Changed(Requester),
    /// A new task of this array, whose file comes behind those of all its tasks.
    Task(JobId),
    /// An array, and these of its tasks are over.
    Outcomes(Vec<JobId>),
    /// A change, after which no answer is sent.
    Noted,
    /// The end of this job, for which it waits: that one may be forgotten.
    Over(JobId),
    /// The job takes the place of this one; its user hears its number.
    Again(JobId, Option<Requester>),
}

impl Filing {
    fn requester(&self) -> Option<Requester> {
        match self {
            Filing::New(requester) | Filing::Changed(requester) => Some(*requester),
            Filing::Again(_, requester) => *requester,
            Filing::Noted | Filing::Over(_) | Filing::Task(_) | Filing::Outcomes(_) => None,
        }
    }
}

/// Jobs whose files are being written, each as often as it is.
#[derive(Debug, Default)]
pub(super) struct Filings {
    filings: BTreeMap<JobId, VecDeque<Filing>>,
    /// Arrays of which a task cannot be kept, and why.
    failures: BTreeMap<JobId, String>,
    /// By job: the one that is to take its place when its file is there.
    again: BTreeMap<JobId, JobId>,
}

impl Filings {
    pub(super) fn push(&mut self, id: JobId, filing: Filing) {
        if let Filing::Again(old, _) = filing {
            self.again.insert(old, id);
        }
        self.filings.entry(id).or_default().push_back(filing);
    }

    /// A file of a job is written: the oldest of those on their way.
    pub(super) fn pop(&mut self, id: JobId) -> Option<Filing> {
        let filings = self.filings.get_mut(&id)?;
        let filing = filings.pop_front();
        if filings.is_empty() {
            self.filings.remove(&id);
        }
        if let Some(Filing::Again(old, _)) = filing
            && self.again.get(&old) == Some(&id)
        {
            self.again.remove(&old);
        }
        filing
    }

    /// A task of an array cannot be kept.
    pub(super) fn fail(&mut self, array: JobId, why: String) {
        self.failures.entry(array).or_insert(why);
    }

    /// Why a task of the array cannot be kept.
    pub(super) fn take_failure(&mut self, array: JobId) -> Option<String> {
        self.failures.remove(&array)
    }

    /// The file of an array is on its way that says which of its tasks are over.
    pub(super) fn has_outcomes(&self, array: JobId) -> bool {
        let filings = self.filings.get(&array);
        filings.is_some_and(|filings| filings.iter().any(|filing| matches!(filing, Filing::Outcomes(_))))
    }

    /// A file of the job is on its way.
    pub(super) fn has(&self, id: JobId) -> bool {
        self.filings.contains_key(&id)
    }

    /// The job is new, and its first file is on its way.
    pub(super) fn has_new(&self, id: JobId) -> bool {
        let is_new = |filing: &Filing| matches!(filing, Filing::New(_) | Filing::Again(..));
        self.filings.get(&id).is_some_and(|filings| filings.iter().any(is_new))
    }

    /// The file of a job is on its way that takes the place of this one.
    pub(super) fn has_again(&self, old: JobId) -> bool {
        self.again.contains_key(&old)
    }

    /// The job whose place this one is to take when its file is there.
    pub(super) fn again_of(&self, new: JobId) -> Option<JobId> {
        self.again.iter().find(|(_, id)| **id == new).map(|(old, _)| *old)
    }

    /// The job that is to take the place of this one when its file is there: it takes the place no more.
    pub(super) fn give_up_again(&mut self, old: JobId) -> Option<JobId> {
        self.again.remove(&old)
    }

    /// Whether this question is answered when a file is written.
    pub(super) fn answers(&self, requester: Requester) -> bool {
        self.filings.values().flatten().any(|filing| filing.requester() == Some(requester))
    }
}
