//! The parallel slots of this node, among jobs that share them ([`tutti_sched::phases`]): what the switch
//! thread reads on their pages, tells them, and does with who keeps what others want.
//!
//! Who has rung other threads hear ([`super::bell`]): nobody keeps the switch thread busy.

use std::collections::{BTreeMap, VecDeque};

use tutti_sched::JobId;
use tutti_sched::phases::{Action, Arbiter, Rules, State};
use tutti_shm::phases::Grants;

use super::bell::Bell;
use super::lent::Lent;

/// A job is to stand still, or to go on, inside its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) job: JobId,
    pub(super) held: bool,
}

#[derive(Debug)]
struct Shared {
    grants: Lent<Grants>,
    bell: Bell,
    /// Nobody has been told yet that it overstays.
    unreported: bool,
}

/// All jobs here that share.
#[derive(Debug, Default)]
pub(super) struct Phases {
    arbiter: Arbiter,
    jobs: BTreeMap<JobId, Shared>,
    holds: VecDeque<Hold>,
}

impl Phases {
    /// The ranks of a job that shares run here; `runs`: it is its turn.
    pub(super) fn adopt(&mut self, now_ns: u64, job: JobId, grants: Lent<Grants>, bell: Bell, runs: bool) {
        self.leave(now_ns, job);
        let agreed = grants.agreement();
        let rules = Rules { lease_ns: agreed.lease_ns, yield_min_ns: agreed.yield_min_ns };
        if self.arbiter.join(now_ns, job, rules, agreed.weight.clamp(1, tutti_sched::WEIGHT_MAX)) {
            self.jobs.insert(job, Shared { grants, bell, unreported: true });
            self.settle(now_ns);
            if runs {
                self.set_runs(now_ns, job, true);
            }
        }
    }

    /// Nothing of the job is left here.
    pub(super) fn leave(&mut self, now_ns: u64, job: JobId) {
        if let Some(mut shared) = self.jobs.remove(&job) {
            shared.grants.release();
            self.arbiter.leave(now_ns, job);
            self.holds.retain(|hold| hold.job != job);
            self.settle(now_ns);
        }
    }

    /// The job's turn begins or ends.
    pub(super) fn set_runs(&mut self, now_ns: u64, job: JobId, runs: bool) {
        if self.jobs.contains_key(&job) {
            // A hold that has not been done yet is not to undo what the turn does.
            self.holds.retain(|hold| hold.job != job);
            self.arbiter.set_runs(now_ns, job, runs);
            self.settle(now_ns);
        }
    }

    /// It waits for slots: its sleep is not idleness.
    pub(super) fn waits(&self, job: JobId) -> bool {
        self.arbiter.waits(job)
    }

    /// Looks who has rung, and what is due.
    pub(super) fn handle_time(&mut self, now_ns: u64) {
        if self.jobs.is_empty() {
            return;
        }
        let rung: Vec<JobId> =
            self.jobs.iter().filter_map(|(job, one)| one.bell.take().then_some(*job)).collect();
        for job in rung {
            self.look(now_ns, job);
        }
        if self.arbiter.poll_timeout().is_some_and(|due_ns| now_ns >= due_ns) {
            // Its lease may have been a dead process's.
            if let Some(holder) = self.arbiter.holder() {
                self.jobs[&holder].grants.end_dead();
                self.look(now_ns, holder);
            }
            self.arbiter.handle_time(now_ns);
            self.settle(now_ns);
        }
    }

    /// What the switch thread is to hold or to let go.
    pub(super) fn poll_hold(&mut self) -> Option<Hold> {
        self.holds.pop_front()
    }

    /// True once a job.
    pub(super) fn has_overstayed_first(&mut self, job: JobId) -> bool {
        self.jobs.get_mut(&job).is_some_and(|one| std::mem::take(&mut one.unreported))
    }

    /// When to look again.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        self.arbiter.poll_timeout()
    }

    /// What the lines of a job say.
    fn look(&mut self, now_ns: u64, job: JobId) {
        let Some(one) = self.jobs.get(&job) else { return };
        let has = matches!(self.arbiter.state(job), Some(State::Holds | State::Overdue));
        match (one.grants.is_inside(), has) {
            (true, true) => {}
            (true, false) => self.arbiter.handle_request(now_ns, job),
            (false, _) => self.arbiter.handle_idle(now_ns, job),
        }
        self.settle(now_ns);
    }

    /// Does what the arbiter says.
    fn settle(&mut self, now_ns: u64) {
        while let Some(action) = self.arbiter.poll_action() {
            let patience_ns = self.arbiter.patience_ns();
            let (Action::Others(job, _)
            | Action::Grant(job)
            | Action::Contended(job, _)
            | Action::Take(job)
            | Action::Freeze(job)
            | Action::Thaw(job)) = action;
            let Some(one) = self.jobs.get_mut(&job) else { continue };
            match action {
                Action::Others(_, others) => one.grants.set_others(others, patience_ns),
                Action::Grant(_) => one.grants.set_granted(true),
                Action::Contended(_, contended) => {
                    one.grants.set_contended(contended);
                    if contended && !one.grants.is_inside() {
                        self.arbiter.handle_idle(now_ns, job);
                    }
                }
                Action::Take(_) => {
                    one.grants.set_granted(false);
                    // One that has begun a region just now rings when it has seen that it may not.
                }
                Action::Freeze(_) => {
                    one.grants.set_granted(false);
                    self.holds.push_back(Hold { job, held: true });
                }
                Action::Thaw(_) => self.holds.push_back(Hold { job, held: false }),
            }
        }
    }
}
