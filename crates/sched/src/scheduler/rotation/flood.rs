//! Measured use of memory and network: users pay for it, and who floods a network is left out of its
//! row ([`crate::market`]).
//!
//! ```text
//! a report of a node whose network is scarce --> debt --(a slice or more, its row is next)--> left out
//!   left out --(its row has run for as long without it, or it can no longer)--> in its row again
//! ```
//!
//! Only its own row is better off without it: in a row of one job there is nothing to do. So time is paid
//! while a mate of its row runs. It is left out and comes back at the end of a slice, never inside one.

use std::collections::BTreeMap;

use crate::market::{FLOOD_NS_MAX, JOBS_MAX, NodePrices, NodeUse, flood_ns, of_part_milli};
use crate::scheduler::{JobState, Scheduler};
use crate::types::{JobId, NodeId};

/// Longest time for which a job is left out at once, however seldom its row has a turn.
const LEFT_OUT_NS_MAX: u64 = 25_000_000_000;

/// Debt of a job for having flooded the network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flood {
    /// Time for which its row is to run without it.
    owed_ns: u64,
    /// Amount that it sent when it last ran for as long as its mates, in thousandths of its part.
    of_part_milli: u64,
    /// Set while it is left out: the mate whose time counts, and since when.
    left_out: Option<(JobId, u64)>,
}

impl Flood {
    pub(super) fn is_left_out(&self) -> bool {
        self.left_out.is_some()
    }
}

/// Time for which is remembered what a job makes of its slots.
const BUSY_MS: u64 = 60_000;

impl Scheduler {
    /// A node has measured what jobs have had of its memory and its network.
    pub fn handle_use(&mut self, now_ns: u64, node: NodeId, found: &NodeUse) {
        self.charge(now_ns);
        let (jobs, ledger) = (&self.jobs, &mut self.fair.ledger);
        let owner = |job| jobs.get(&job).map(|record| record.demand.holder.owner.user);
        let slots = (self.machine.slots_of(node), self.machine.slots());
        self.market.handle_use(node, found, owner, slots, |charge| {
            ledger.charge(charge.user, charge.ns, charge.part, charge.whole);
        });
        let mut rates = BTreeMap::new();
        for used in found.jobs.iter().take(JOBS_MAX) {
            let Some(record) = self.jobs.get_mut(&used.job) else { continue };
            let ran_ns = self.market.ran_ns(node, used.job, record.turn.account.service_ns);
            let ran_ms = found.passed_ms.min(ran_ns / 1_000_000);
            let slot_us = |ms: u64| ms.saturating_mul(1000).saturating_mul(used.ranks.into());
            let window_us = BUSY_MS.saturating_mul(1000).saturating_mul(record.demand.place.ranks());
            record.turn.account.busy.add(used.worked_us, slot_us(ran_ms), window_us);
            // In a second of its own time: others of its row may have run for longer.
            let rate = (u128::from(used.sent_bytes) * 1000).checked_div(ran_ms.into()).unwrap_or(0);
            rates.insert(used.job, (u64::try_from(rate).unwrap_or(u64::MAX), ran_ms));
        }
        if self.market.is_congested(node) {
            self.judge_floods(&rates);
        }
    }

    /// Prices of memory and network on each node.
    pub fn prices(&self) -> impl Iterator<Item = NodePrices> + '_ {
        self.market.prices()
    }

    /// Jobs that are left out of their rows because they have flooded the network.
    #[must_use]
    pub fn left_out(&self) -> &[JobId] {
        &self.rotation.left_out
    }

    /// Jobs of a row share its time: what each sends while it runs is compared with what its mates do. Who
    /// has run for a part of the time only is compared by the last time that it ran for all of it: without it
    /// its mates send more.
    fn judge_floods(&mut self, rates: &BTreeMap<JobId, (u64, u64)>) {
        for row in self.matrix.rows() {
            let of_row = || row.all.iter().filter_map(|job| rates.get(job));
            let longest_ms = of_row().map(|(_, ran_ms)| *ran_ms).max().unwrap_or(0);
            let all = of_row().fold(0_u64, |sum, (rate, _)| sum.saturating_add(*rate));
            let count = of_row().filter(|(rate, _)| *rate > 0).count() as u64;
            for job in &row.home {
                let (Some(record), Some(&(rate, ran_ms))) = (self.jobs.get_mut(job), rates.get(job)) else {
                    continue;
                };
                let flood = &mut record.turn.flood;
                let milli = of_part_milli(rate, all, count);
                if ran_ms * 10 >= longest_ms * 9 {
                    flood.of_part_milli = milli;
                }
                let debt_ns = flood_ns(milli.max(flood.of_part_milli), ran_ms);
                flood.owed_ns = (flood.owed_ns + debt_ns).min(FLOOD_NS_MAX);
            }
        }
    }

    /// Rows have run without those that are left out of them.
    pub(super) fn pay_floods(&mut self, passed_ns: u64) {
        for job in &self.rotation.left_out {
            let Some(record) = self.jobs.get_mut(job) else { continue };
            let flood = &mut record.turn.flood;
            if flood.left_out.is_some_and(|(mate, _)| self.rotation.running.binary_search(&mate).is_ok()) {
                flood.owed_ns = flood.owed_ns.saturating_sub(passed_ns);
            }
        }
    }

    /// Leaves out whoever of the row owes most, if it is a slice or more; `true`: the rows are others now.
    pub(super) fn leave_out_flood(&mut self, now_ns: u64, row: usize) -> bool {
        let all = &self.matrix.rows()[row].all;
        let owed_ns = |job: &JobId| self.jobs.get(job).map_or(0, |record| record.turn.flood.owed_ns);
        let Some(&worst) = all.iter().max_by_key(|job| owed_ns(job)) else { return false };
        let wants = |job: &JobId| {
            self.jobs
                .get(job)
                .is_some_and(|record| record.turn.idle_since_ns.is_none() && self.is_able(*job, &record.turn))
        };
        // Where no other one wants the row it would only stand still.
        let mate = all.iter().copied().find(|job| *job != worst && wants(job));
        let (Some(mate), true) = (mate, owed_ns(&worst) >= self.config.slice_ns) else { return false };
        if let Some(record) = self.jobs.get_mut(&worst) {
            record.turn.flood.left_out = Some((mate, now_ns));
        }
        self.rotation.left_out.push(worst);
        self.settle_activity(worst);
        self.refresh();
        true
    }

    /// Takes back jobs that have paid, or help nobody by standing still.
    pub(super) fn readmit_floods(&mut self, now_ns: u64) {
        let mut at = 0;
        while let Some(&job) = self.rotation.left_out.get(at) {
            if !self.may_readmit(now_ns, job) {
                at += 1;
                continue;
            }
            self.rotation.left_out.remove(at);
            // What it has missed it does not get back: it had its part before.
            let clock_ns = self.virtual_time();
            if let Some(record) = self.jobs.get_mut(&job) {
                record.turn.flood.left_out = None;
                record.turn.flood.owed_ns = 0;
                record.turn.join(clock_ns);
            }
            self.settle_activity(job);
            self.refresh();
        }
    }

    fn may_readmit(&self, now_ns: u64, job: JobId) -> bool {
        let Some(flood) = self.jobs.get(&job).map(|record| &record.turn.flood) else { return true };
        let Some((mate, since_ns)) = flood.left_out else { return true };
        let goes_on = |mate| {
            self.jobs
                .get(mate)
                .is_some_and(|record| record.state == JobState::Active && record.turn.idle_since_ns.is_none())
        };
        flood.owed_ns == 0 || !goes_on(&mate) || now_ns.saturating_sub(since_ns) >= LEFT_OUT_NS_MAX
    }
}
