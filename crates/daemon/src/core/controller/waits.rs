//! Wait of a job that has no nodes yet: for what it waits, and what the scheduler has been asked.
//!
//! ```text
//! new, or found again --no condition is left--> submit --Placed--> it has its nodes
//!        ^                                        |
//!        '---- withdraw: held, put off, or another reservation; its words count after handle_withdrawn
//! ```
//!
//! Used by the controller's queue and by [`super::job`]. The scheduler is asked for a job by
//! [`Waits::submit`] alone.

use std::collections::BTreeMap;

use tutti_protocol::users::HeldBy;
use tutti_protocol::wait_kind::WaitKind;
use tutti_sched::Demand;
use tutti_sched::shares::Owner;

use crate::message::JobId;

/// Conditions for which a job waits.
#[derive(Debug)]
pub(super) struct Waits {
    demand: Demand,
    /// The scheduler is not asked for it before this time: nodes may know better.
    held_until_ms: Option<u64>,
    /// The scheduler has been asked for it.
    submitted: bool,
    /// Jobs that it waits for and that are over.
    over: BTreeMap<JobId, Outcome>,
    /// Why it waits, and the kind of that.
    why: Option<(WaitKind, String)>,
    /// Whether its user has been notified that it waits.
    reported: bool,
    /// Since when it is held, and by which user.
    user_hold: Option<HeldBy>,
    /// Withdrawals that the scheduler must answer before what it says of the job means anything.
    withdrawing: u32,
}

impl Waits {
    /// Of a job for which the scheduler is not asked before `held_until_ms`, and of whose conditions these
    /// jobs are over.
    pub(super) fn new(
        demand: Demand,
        held_until_ms: Option<u64>,
        over: BTreeMap<JobId, Outcome>,
        user_hold: Option<HeldBy>,
    ) -> Self {
        Waits {
            demand,
            held_until_ms,
            submitted: false,
            over,
            why: None,
            reported: false,
            user_hold,
            withdrawing: 0,
        }
    }

    pub(super) fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Weighs it otherwise beside other jobs: the scheduler may find nodes for it.
    pub(super) fn set_weight(&mut self, weight: u32) {
        self.demand.weight = weight;
        self.why = None;
    }

    /// Lasts for so long at most; none: for ever. The scheduler may be asked once more with this.
    pub(super) fn set_lasts(&mut self, lasts_ns: Option<u64>) {
        self.demand.set_lasts(lasts_ns);
    }

    /// Until when the scheduler is not asked for it, since nodes may know better.
    pub(super) fn held_until_ms(&self) -> Option<u64> {
        self.held_until_ms
    }

    /// Ends the time in which nodes may know better. `true`: it has just passed.
    pub(super) fn poll_held(&mut self, now_ms: u64) -> bool {
        self.held_until_ms.take_if(|until_ms| now_ms >= *until_ms).is_some()
    }

    /// Whether the scheduler has been asked for it.
    pub(super) fn is_submitted(&self) -> bool {
        self.submitted
    }

    /// Whether the scheduler has been asked for it, and what it says is newer than that.
    pub(super) fn is_asked(&self) -> bool {
        self.submitted && self.withdrawing == 0
    }

    /// The demand for which the scheduler is asked. `lasts_ns`: for how long, none: for ever. `reservation`:
    /// its number.
    pub(super) fn submit(&mut self, owner: Owner, lasts_ns: Option<u64>, reservation: Option<u32>) -> Demand {
        self.demand.holder.owner = owner;
        self.demand.set_lasts(lasts_ns);
        self.demand.set_reservation(reservation);
        self.submitted = true;
        self.demand.clone()
    }

    /// Takes the job back from the scheduler. `true`: that has been asked for it, and is to be told.
    pub(super) fn withdraw(&mut self) -> bool {
        let was_submitted = std::mem::take(&mut self.submitted);
        if was_submitted {
            self.why = None;
            self.withdrawing += 1;
        }
        was_submitted
    }

    /// The scheduler has taken it back.
    pub(super) fn handle_withdrawn(&mut self) {
        self.withdrawing = self.withdrawing.saturating_sub(1);
    }

    /// Since when it is held, and by which user.
    pub(super) fn user_hold(&self) -> Option<HeldBy> {
        self.user_hold
    }

    /// A user holds it, or releases it. `true`: the scheduler has been asked for it, and is to be told.
    pub(super) fn change_hold(&mut self, hold: Option<HeldBy>) -> bool {
        (self.user_hold, self.why) = (hold, None);
        self.withdraw()
    }

    /// Why it waits, as far as that is known.
    pub(super) fn why(&self) -> Option<&(WaitKind, String)> {
        self.why.as_ref()
    }

    /// Records why it waits. `true`: that is another reason than before.
    pub(super) fn set_why(&mut self, kind: WaitKind, text: &str) -> bool {
        let is_new = self.why.as_ref().is_none_or(|(_, known)| known != text);
        self.why = Some((kind, text.to_owned()));
        is_new
    }

    /// Whether its user is to be notified that it waits: once.
    pub(super) fn poll_report(&mut self) -> bool {
        !std::mem::replace(&mut self.reported, true)
    }

    /// How the jobs have ended that it was to wait for and that are over.
    pub(super) fn over(&self) -> &BTreeMap<JobId, Outcome> {
        &self.over
    }

    /// Records that a job is over that it was to wait for; its file does not say so yet.
    pub(super) fn record_over(&mut self, job: JobId, status: Option<u8>) {
        self.over.insert(job, Outcome { status, filed: false });
    }

    /// Records that its file says of this job that it is over.
    pub(super) fn record_filed(&mut self, job: JobId) {
        if let Some(outcome) = self.over.get_mut(&job) {
            outcome.filed = true;
        }
    }

    /// Jobs that are over and of which its file does not say so.
    pub(super) fn unfiled(&self) -> Vec<JobId> {
        self.over.iter().filter(|(_, outcome)| !outcome.filed).map(|(job, _)| *job).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_sched::Place;

    fn waits(held_until_ms: Option<u64>) -> Waits {
        Waits::new(Demand::at(Place::Fewest { ranks: 1 }), held_until_ms, BTreeMap::new(), None)
    }

    #[test]
    fn waits_hear_the_scheduler_only_after_each_withdrawal() {
        let mut waits = waits(None);
        assert!(!waits.is_asked() && !waits.withdraw());
        waits.submit(Owner::default(), None, None);
        assert!(waits.is_asked());
        assert!(waits.change_hold(Some(HeldBy { since_ms: 1, uid: 7 })) && !waits.is_submitted());
        assert!(!waits.change_hold(None));
        waits.submit(Owner::default(), None, None);
        assert!(waits.is_submitted() && !waits.is_asked());
        assert!(waits.withdraw());
        waits.submit(Owner::default(), None, None);
        waits.handle_withdrawn();
        assert!(!waits.is_asked());
        waits.handle_withdrawn();
        assert!(waits.is_asked());
    }

    #[test]
    fn waits_tell_their_user_once_and_know_a_new_reason() {
        let mut waits = waits(None);
        assert!(waits.set_why(WaitKind::Held, "held") && waits.poll_report());
        assert!(!waits.set_why(WaitKind::Held, "held") && !waits.poll_report());
        assert!(waits.set_why(WaitKind::Resources, "no room") && !waits.poll_report());
        assert_eq!(waits.why(), Some(&(WaitKind::Resources, "no room".to_owned())));
    }

    #[test]
    fn waits_for_nodes_that_may_know_better_end_once() {
        let mut waits = waits(Some(100));
        assert!(!waits.poll_held(99) && waits.held_until_ms().is_some());
        assert!(waits.poll_held(100) && !waits.poll_held(101));
    }

    #[test]
    fn waits_have_outcomes_that_are_to_be_filed() {
        let mut waits = waits(None);
        waits.record_over(JobId(3), Some(0));
        waits.record_over(JobId(4), None);
        waits.record_filed(JobId(3));
        waits.record_filed(JobId(9));
        assert_eq!(waits.unfiled(), [JobId(4)]);
        assert_eq!(waits.over().len(), 2);
    }
}
