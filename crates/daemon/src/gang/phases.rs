//! The parallel slots of this node, among jobs that share them ([`tutti_sched::phases`]): what the switch
//! thread reads on their pages, tells them, and does with who keeps what others want.
//!
//! A rank rings a pipe of its job's. We have opened its reading end anew, so its flags are ours; a rank that
//! reads it or fills it harms its own job alone. After [`RINGS_MAX`] rings in [`WINDOW_NS`] a bell is left
//! out of the poll until that time is over: nobody keeps the switch thread busy.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::Pid;
use tutti_sched::JobId;
use tutti_sched::phases::{Action, Arbiter, Rules, State};
use tutti_shm::phases::Grants;

use super::command::LocalRanks;
use super::page;

/// See the head of the module.
const RINGS_MAX: u32 = 100;
/// See the head of the module.
const WINDOW_NS: u64 = 2_000_000;

/// A job is to stand still, or to go on, inside its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) job: JobId,
    pub(super) held: bool,
}

#[derive(Debug)]
struct Shared {
    grants: Grants,
    bell: OwnedFd,
    /// Rings since then.
    rings: u32,
    since_ns: u64,
    /// Nobody has been told yet that it overstays.
    unreported: bool,
}

impl Shared {
    /// It has rung too often: not before then again.
    fn quiet_until_ns(&self, now_ns: u64) -> Option<u64> {
        let until_ns = self.since_ns + WINDOW_NS;
        (self.rings >= RINGS_MAX && now_ns < until_ns).then_some(until_ns)
    }

    /// Whether it has rung; what it has written is thrown away.
    fn take_rings(&mut self, now_ns: u64) -> bool {
        if self.quiet_until_ns(now_ns).is_some() {
            return false;
        }
        if now_ns >= self.since_ns + WINDOW_NS {
            (self.rings, self.since_ns) = (0, now_ns);
        }
        let has_rung = rustix::io::read(&self.bell, &mut [0; 1024]).is_ok_and(|bytes| bytes > 0);
        self.rings += u32::from(has_rung);
        has_rung
    }
}

/// All jobs here that share.
#[derive(Debug, Default)]
pub(super) struct Phases {
    arbiter: Arbiter,
    jobs: BTreeMap<JobId, Shared>,
    holds: VecDeque<Hold>,
}

impl Phases {
    /// The ranks of a job run here. Nothing, if it does not share.
    pub(super) fn adopt(&mut self, now_ns: u64, job: JobId, ranks: &LocalRanks) {
        self.leave(now_ns, job);
        let [starter] = ranks.starters[..] else { return };
        let Some(starter) = Pid::from_raw(starter as i32) else { return };
        let Some((grants, bell)) = page::adopt_phases(starter, ranks.user) else { return };
        let agreed = grants.agreement();
        let rules = Rules { lease_ns: agreed.lease_ns, yield_min_ns: agreed.yield_min_ns };
        if self.arbiter.join(now_ns, job, rules, agreed.weight.clamp(1, tutti_sched::WEIGHT_MAX)) {
            let shared = Shared { grants, bell, rings: 0, since_ns: now_ns, unreported: true };
            self.jobs.insert(job, shared);
            self.settle(now_ns);
        }
    }

    /// Nothing of the job is left here.
    pub(super) fn leave(&mut self, now_ns: u64, job: JobId) {
        if self.jobs.remove(&job).is_some() {
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
        for job in self
            .jobs
            .iter_mut()
            .filter_map(|(job, one)| one.take_rings(now_ns).then_some(*job))
            .collect::<Vec<_>>()
        {
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

    /// The bells that are listened to; none where a job is alone.
    pub(super) fn bells(&self, now_ns: u64) -> impl Iterator<Item = BorrowedFd<'_>> {
        let several = self.jobs.len() > 1;
        let heard = self.jobs.values().filter(move |one| several && one.quiet_until_ns(now_ns).is_none());
        heard.map(|one| one.bell.as_fd())
    }

    /// When to look again.
    pub(super) fn timeout_ns(&self, now_ns: u64) -> Option<u64> {
        let quiet = self.jobs.values().filter_map(|one| one.quiet_until_ns(now_ns)).min();
        [quiet, self.arbiter.poll_timeout()].into_iter().flatten().min()
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
