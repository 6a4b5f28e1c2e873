//! The ledger of shares as the rotation keeps it: who is charged for what, and when weights are others.

use std::collections::BTreeSet;

use crate::scheduler::{Job, Scheduler};
use crate::shares::{Claim, Ledger, Owner, Standing};
use crate::types::{JobId, Version};

/// Weights are looked at anew so often, and whenever the rows change.
const SETTLE_NS: u64 = 1_000_000_000;
/// Time within which whoever could run has a turn, where the rows have room for it.
const PATIENCE_NS: u64 = 30_000_000_000;
/// Demand is smoothed over so many looks.
const SMOOTHED: u64 = 10;

/// How long a job waits at most: with many rows or long slices, two rounds.
pub(super) fn patience_ns(slice_ns: u64, rows: usize) -> u64 {
    PATIENCE_NS.max(slice_ns.saturating_mul(2 * rows as u64))
}

/// Demand and supply of slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Processor {
    /// Slots of jobs that can run, in thousandths, over the last ten seconds.
    pub wanted_milli: u64,
    /// Slots of all nodes.
    pub slots: u64,
}

/// Shares of users.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fair {
    pub(super) ledger: Ledger,
    settled_ns: u64,
    /// The rows of the last look.
    version: Option<Version>,
    /// Jobs of several users can run.
    several: bool,
    processor: Processor,
}

impl Fair {
    /// Time has passed in which nothing has changed.
    pub(super) fn skip(&mut self, passed_ns: u64) {
        self.settled_ns += passed_ns;
    }

    /// Marks the weights as out of date: something has changed that they follow from.
    pub(crate) fn expire(&mut self) {
        self.version = None;
    }
}

impl Scheduler {
    /// Half of what somebody has used is forgotten after so long; 0: the past does not count.
    pub fn set_half_life(&mut self, half_life_ns: u64) {
        self.fair.ledger.set_half_life(half_life_ns);
        self.fair.expire();
    }

    /// Restores what users had used so long ago, under an earlier controller: see [`Self::used`].
    pub fn restore_use(&mut self, now_ns: u64, used: &[(u32, u64)], age_ns: u64) {
        self.charge(now_ns);
        // Before it nothing was there to be forgotten.
        self.fair.settled_ns = self.fair.settled_ns.max(now_ns);
        self.fair.ledger.restore(used, age_ns);
        self.fair.expire();
    }

    /// Use of all users, those without jobs too, in ns of a whole row.
    pub fn used(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.fair.ledger.used()
    }

    /// The shares of a job's user are others.
    pub fn set_owner(&mut self, job: JobId, owner: Owner) {
        if let Some(record) = self.jobs.get_mut(&job) {
            record.demand.holder.owner = owner;
            self.fair.expire();
        }
    }

    /// How users with jobs that can run stand.
    #[must_use]
    pub fn standings(&self) -> &[Standing] {
        self.fair.ledger.standings()
    }

    /// Demand and supply of slots.
    #[must_use]
    pub fn processor(&self) -> Processor {
        self.fair.processor
    }

    /// Gives each job its weight, if it is time for that.
    pub(super) fn settle_shares(&mut self) {
        let now_ns = self.rotation.charged_ns;
        let passed_ns = now_ns.saturating_sub(self.fair.settled_ns);
        let version = Some(self.matrix.version());
        if self.fair.version == version && passed_ns < SETTLE_NS {
            return;
        }
        let looks = (passed_ns / SETTLE_NS).min(SMOOTHED);
        self.fair.version = version;
        if looks > 0 {
            self.fair.ledger.decay(passed_ns);
            self.fair.settled_ns = now_ns;
        }
        let (fair, jobs) = (&mut self.fair, &mut self.jobs);
        fair.ledger.begin();
        let (mut wanted, mut first_user) = (0, None);
        fair.several = false;
        let homes = || {
            let homes = jobs.iter().filter(|(_, record)| record.turn.idle_since_ns.is_none());
            homes.filter_map(|(job, record)| Some((*job, record.home?, record)))
        };
        // Who only fills takes nothing from the share that his user's other jobs divide.
        let only_fillers = homes().all(|(.., record)| record.demand.fill);
        for (job, home, record) in homes().filter(|(.., record)| only_fillers || !record.demand.fill) {
            let (owner, weight) = (record.demand.holder.owner, record.turn.weight);
            fair.several |= *first_user.get_or_insert(owner.user) != owner.user;
            // A step is in the slots of its job.
            let within = record.demand.holder.within.and_then(|owner| jobs.get(&owner));
            let is_counted = |owner: &Job| owner.home.is_some() && owner.turn.idle_since_ns.is_none();
            wanted += if within.is_some_and(is_counted) { 0 } else { home.slots };
            fair.ledger.claim(Claim { job, owner, weight, row: home.row, effective: 0 });
        }
        for claim in fair.ledger.weigh() {
            if let Some(record) = jobs.get_mut(&claim.job) {
                record.turn.effective_milli = claim.effective;
                let waits = self.rotation.running.binary_search(&claim.job).is_err();
                let since_ns = record.turn.waits_since_ns.or(Some(now_ns));
                record.turn.waits_since_ns = since_ns.filter(|_| waits);
            }
        }
        // Who sleeps waits for nobody.
        for record in jobs.values_mut().filter(|record| record.turn.idle_since_ns.is_some()) {
            record.turn.waits_since_ns = None;
        }
        let before = fair.processor.wanted_milli;
        let smoothed = (before * (SMOOTHED - looks) + wanted * 1000 * looks) / SMOOTHED;
        fair.processor = Processor { wanted_milli: smoothed, slots: self.machine.slots() };
    }

    /// Users whose jobs run pay for the time in which jobs of others wait.
    pub(super) fn charge_shares(&mut self, passed_ns: u64) {
        if !self.fair.several {
            return;
        }
        let running = &self.rotation.running;
        let waits = |job: &JobId| running.binary_search(job).is_err() && self.may_continue(*job);
        // For a filler that waits nobody pays: it wants only what is left.
        let wants = |record: &Job| record.turn.idle_since_ns.is_none() && !record.demand.fill;
        let waiting = self.jobs.iter().filter(|(_, record)| wants(record));
        let mut waiting =
            waiting.filter(|(job, _)| waits(job)).map(|(_, record)| record.demand.holder.owner.user);
        let Some(one) = waiting.next() else { return };
        let is_several = waiting.any(|user| user != one);
        let is_awake = |record: &Job| record.turn.idle_since_ns.is_none();
        let wakes: BTreeSet<JobId> =
            running.iter().copied().filter(|job| self.jobs.get(job).is_some_and(is_awake)).collect();
        let active = running.iter().filter(|job| wakes.contains(job)).filter_map(|job| self.jobs.get(job));
        let stepping: BTreeSet<JobId> = active.filter_map(|record| record.demand.holder.within).collect();
        // A step is in the slots of its job: they count once, for who is awake.
        let slots = |job: &JobId| {
            let owner = self.jobs.get(job).and_then(|record| record.demand.holder.within);
            let is_in_another = owner.is_some_and(|owner| wakes.contains(&owner));
            let is_stepped = stepping.contains(job) && !wakes.contains(job);
            let resident = self.matrix.residents.get(job).filter(|_| !is_in_another && !is_stepped);
            resident.map_or(0, |resident| resident.slots)
        };
        let whole: u64 = running.iter().map(slots).sum();
        for job in running {
            let Some(record) = self.jobs.get(job) else { continue };
            let user = record.demand.holder.owner.user;
            if is_awake(record) && (is_several || user != one) {
                self.fair.ledger.charge(user, passed_ns, slots(job), whole);
            }
        }
    }
}
