//! What a job waits for that has no nodes yet.

use std::collections::BTreeMap;

use tutti_sched::Demand;

use crate::message::JobId;

/// What a job waits for.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) demand: Demand,
    /// The scheduler is not asked for it before this time: nodes may know better.
    pub(super) held_until_ms: Option<u64>,
    /// The scheduler has been asked for it.
    pub(super) submitted: bool,
    /// Jobs that it waits for and that are over.
    pub(super) over: BTreeMap<JobId, Outcome>,
    /// Why it waits.
    pub(super) why: Option<String>,
    /// Its user has been told that it does.
    pub(super) reported: bool,
}

impl Waits {
    pub(super) fn new(demand: Demand, held_until_ms: Option<u64>) -> Self {
        Waits { demand, held_until_ms, submitted: false, over: BTreeMap::new(), why: None, reported: false }
    }
}

/// How a job has ended that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Its status; none: nobody knows.
    pub(super) status: Option<u8>,
    /// It is in the file of the other.
    pub(super) filed: bool,
}
