//! The parallel slots of this node, among jobs that share them ([`tutti_sched::phases`]): what the switch
//! thread hears of them, tells them, and does with who keeps what others want.
//!
//! Their pages other threads touch: rings come from [`super::bell`], words go by [`super::proxy`].
//! Nobody keeps the switch thread busy, or waiting.

use std::collections::{BTreeMap, VecDeque};

use tutti_sched::JobId;
use tutti_sched::phases::{Action, Arbiter, Rules, State};
use tutti_shm::phases::Agreement;

use super::bell::Bell;
use super::proxy::Granted;

/// Time that a proxy has to end the lines of dead processes before a lease that is over counts as overstayed.
const DEAD_NS: u64 = 500_000;

/// A job is to stand still, or to go on, inside its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) job: JobId,
    pub(super) held: bool,
}

/// A job that shares, as it is found.
#[derive(Debug)]
pub(super) struct Shares {
    /// A claim of its user's.
    pub(super) agreed: Agreement,
    pub(super) grants: Granted,
    pub(super) bell: Bell,
}

#[derive(Debug)]
struct Shared {
    grants: Granted,
    bell: Bell,
    /// Whether nobody has been notified yet that the job overstays.
    unreported: bool,
}

/// All jobs here that share.
#[derive(Debug, Default)]
pub(super) struct Phases {
    arbiter: Arbiter,
    jobs: BTreeMap<JobId, Shared>,
    holds: VecDeque<Hold>,
    /// For what was due then nothing is done before that moment.
    asked: Option<(JobId, u64)>,
    patient_until_ns: u64,
}

impl Phases {
    /// The ranks of a job that shares run here; `runs`: it is its turn.
    pub(super) fn adopt(&mut self, now_ns: u64, job: JobId, shares: Shares, runs: bool) {
        self.leave(now_ns, job);
        let Shares { agreed, grants, bell } = shares;
        let rules = Rules { lease_ns: agreed.lease_ns, yield_min_ns: agreed.yield_min_ns };
        if self.arbiter.join(now_ns, job, rules, agreed.weight.clamp(1, tutti_sched::WEIGHT_MAX)) {
            self.jobs.insert(job, Shared { grants, bell, unreported: true });
            self.settle();
            if runs {
                self.set_runs(now_ns, job, true);
            }
        }
    }

    /// Takes out a job of which nothing is left here.
    pub(super) fn leave(&mut self, now_ns: u64, job: JobId) {
        if let Some(shared) = self.jobs.remove(&job) {
            shared.grants.release();
            self.arbiter.leave(now_ns, job);
            self.holds.retain(|hold| hold.job != job);
            self.settle();
        }
    }

    /// The job's turn begins or ends.
    pub(super) fn set_runs(&mut self, now_ns: u64, job: JobId, runs: bool) {
        if self.jobs.contains_key(&job) {
            // A hold that has not been done yet is not to undo what the turn does.
            self.holds.retain(|hold| hold.job != job);
            self.arbiter.set_runs(now_ns, job, runs);
            self.settle();
        }
    }

    /// Whether the job waits for slots: its sleep is not idleness.
    pub(super) fn waits(&self, job: JobId) -> bool {
        self.arbiter.waits(job)
    }

    /// Looks who has rung, and what is due.
    pub(super) fn handle_time(&mut self, now_ns: u64) {
        if self.jobs.is_empty() {
            return;
        }
        let rung: Vec<(JobId, bool)> =
            self.jobs.iter().filter_map(|(job, one)| Some((*job, one.bell.take()?))).collect();
        for (job, is_inside) in rung {
            self.look(now_ns, job, is_inside);
        }
        if let Some(due_ns) = self.arbiter.poll_timeout().filter(|due_ns| now_ns >= *due_ns) {
            // Its lease may have been a dead process's: then its bell rings.
            if let Some(holder) = self.arbiter.holder()
                && self.asked != Some((holder, due_ns))
            {
                self.jobs[&holder].grants.end_dead();
                (self.asked, self.patient_until_ns) = (Some((holder, due_ns)), now_ns + DEAD_NS);
            }
            if now_ns < self.patient_until_ns {
                return;
            }
            self.arbiter.handle_time(now_ns);
            self.settle();
        }
    }

    /// Returns the next job that the switch thread is to hold or to let go.
    pub(super) fn poll_hold(&mut self) -> Option<Hold> {
        self.holds.pop_front()
    }

    /// True once a job.
    pub(super) fn has_overstayed_first(&mut self, job: JobId) -> bool {
        self.jobs.get_mut(&job).is_some_and(|one| std::mem::take(&mut one.unreported))
    }

    /// When to look again.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        self.arbiter.poll_timeout().map(|due_ns| due_ns.max(self.patient_until_ns))
    }

    /// Tells the arbiter what the lines of a job say.
    fn look(&mut self, now_ns: u64, job: JobId, is_inside: bool) {
        let has = matches!(self.arbiter.state(job), Some(State::Holds | State::Overdue));
        match (is_inside, has) {
            (true, true) => {}
            (true, false) => self.arbiter.handle_request(now_ns, job),
            (false, _) => self.arbiter.handle_idle(now_ns, job),
        }
        self.settle();
    }

    /// Does what the arbiter says.
    fn settle(&mut self) {
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
                Action::Contended(_, contended) => one.grants.set_contended(contended),
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
