//! Conditions for which a job waits that has no nodes yet.

use std::collections::BTreeMap;

use tutti_protocol::users::HeldBy;
use tutti_protocol::wait_kind::WaitKind;
use tutti_sched::Demand;

use crate::message::JobId;

/// Conditions for which a job waits.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) demand: Demand,
    /// The scheduler is not asked for it before this time: nodes may know better.
    pub(super) held_until_ms: Option<u64>,
    /// The scheduler has been asked for it.
    pub(super) submitted: bool,
    /// Jobs that it waits for and that are over.
    pub(super) over: BTreeMap<JobId, Outcome>,
    /// Why it waits, and the kind of that.
    pub(super) why: Option<(WaitKind, String)>,
    /// Whether its user has been told that it waits.
    pub(super) reported: bool,
    /// Since when it is held, and by which user.
    pub(super) user_hold: Option<HeldBy>,
    /// Withdrawals that the scheduler must answer before what it says of the job means anything.
    pub(super) withdrawing: u32,
}

impl Waits {
    pub(super) fn new(demand: Demand, held_until_ms: Option<u64>) -> Self {
        Waits {
            demand,
            held_until_ms,
            submitted: false,
            over: BTreeMap::new(),
            why: None,
            reported: false,
            user_hold: None,
            withdrawing: 0,
        }
    }

    /// Whether the scheduler has been asked for it, and what it says is newer than that.
    pub(super) fn is_asked(&self) -> bool {
        self.submitted && self.withdrawing == 0
    }
}

/// How a job has ended that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Exit status; none: nobody knows.
    pub(super) status: Option<u8>,
    /// Whether it is in the file of the other.
    pub(super) filed: bool,
}
