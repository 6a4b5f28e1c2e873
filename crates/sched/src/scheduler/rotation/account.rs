//! Account of each job, what it has had and is owed: its virtual time, its credit, whether it sleeps.

use super::flood::Flood;
use crate::scheduler::{JobState, Scheduler};
use crate::shares::WEIGHT_UNIT;
use crate::types::{Generation, JobId};

/// How many slices a job that was left out can have to its credit, or so long, whichever is more: how long a
/// machine takes to freeze somebody has nothing to do with the slice, and what falls beyond the credit hides
/// the weights.
const CREDIT_SLICES: u64 = 10;
/// See [`CREDIT_SLICES`].
const CREDIT_NS: u64 = 1_000_000_000;

/// How long a job that was left out may run before the others when it is back.
pub(crate) fn credit_ns(slice_ns: u64) -> u64 {
    CREDIT_NS.max(CREDIT_SLICES * slice_ns)
}

/// Account of what a job has had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// Time in which it was to run, idle time left out.
    pub service_ns: u64,
    /// The same over its weight (100 is the unit): what the rotation goes by.
    pub virtual_ns: u64,
    /// How often it was switched in.
    pub slices: u64,
    /// Slices that began with it in the row, also if it had the one before.
    pub turns: u64,
    /// How often it was left out because it was not frozen yet.
    pub left_out: u64,
    /// Weight of the job.
    pub weight: u32,
    /// Effective weight beside the others, in thousandths.
    pub effective_milli: u64,
    /// Use that the job makes of its slots.
    pub busy: Busy,
}

/// How much of the time of its slots a job uses, over the last minute or two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Busy {
    worked_us: u64,
    had_us: u64,
}

impl Busy {
    /// Adds work of `worked_us` in `had_us` of its slots' time. Half is forgotten when `window_us` are full.
    pub(super) fn add(&mut self, worked_us: u64, had_us: u64, window_us: u64) {
        // Beyond its turns it does not count: it starts and ends there, or fills.
        self.worked_us += worked_us.min(had_us);
        self.had_us += had_us;
        if self.had_us > window_us {
            (self.worked_us, self.had_us) = (self.worked_us / 2, self.had_us / 2);
        }
    }

    /// In thousandths; none while less than so much time of slots has been seen.
    #[must_use]
    pub fn permille(&self, seen_us: u64) -> Option<u32> {
        let is_known = self.had_us > 0 && self.had_us >= seen_us;
        is_known.then(|| (u128::from(self.worked_us) * 1000 / u128::from(self.had_us)) as u32)
    }
}

/// How a job that does not run stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freeze {
    Frozen,
    /// The job left the row in this generation; FROZEN has not come.
    Leaving(Generation),
}

/// A job's part in the rotation.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) weight: u32,
    /// Effective weight beside the others, in thousandths.
    pub(super) effective_milli: u64,
    /// Since when it could run and does not.
    pub(super) waits_since_ns: Option<u64>,
    pub(super) account: Account,
    pub(crate) freeze: Freeze,
    /// When it left the row last.
    pub(crate) left_ns: u64,
    /// Left out of the rows until it is frozen.
    pub(crate) held: bool,
    /// Since when it sleeps everywhere.
    pub(super) idle_since_ns: Option<u64>,
    /// The generation that switched it in last.
    pub(super) since: Generation,
    /// Debt of the job for having flooded the network.
    pub(super) flood: Flood,
}

impl Turn {
    pub(crate) fn new(weight: u32) -> Self {
        let account = Account::default();
        Turn {
            weight,
            effective_milli: u64::from(weight) * WEIGHT_UNIT,
            waits_since_ns: None,
            account,
            freeze: Freeze::Frozen,
            left_ns: 0,
            held: false,
            idle_since_ns: None,
            since: Generation(0),
            flood: Flood::default(),
        }
    }

    /// Whether the job is left out of its row for a while, because it has flooded the network.
    pub(crate) fn is_left_out(&self) -> bool {
        self.flood.is_left_out()
    }

    pub(crate) fn account(&self) -> Account {
        Account { weight: self.weight, effective_milli: self.effective_milli, ..self.account }
    }

    /// Another weight is declared.
    pub(crate) fn set_weight(&mut self, weight: u32) {
        self.weight = weight;
        self.effective_milli = u64::from(weight) * WEIGHT_UNIT;
    }

    /// Begins to compete at this virtual time at the earliest.
    pub(crate) fn join(&mut self, clock_ns: u64) {
        self.account.virtual_ns = self.account.virtual_ns.max(clock_ns);
        self.idle_since_ns = None;
    }

    pub(crate) fn virtual_ns(&self) -> u64 {
        self.account.virtual_ns
    }

    fn scaled(&self, ns: u64) -> u64 {
        (u128::from(ns) * 100 * u128::from(WEIGHT_UNIT) / u128::from(self.effective_milli)) as u64
    }
}

impl Scheduler {
    /// As many rounds as given have passed, each like the one in which these jobs have gained that much
    /// virtual time and service. For [`crate::replay`]: no job sleeps.
    pub(crate) fn skip_rounds(&mut self, rounds: u64, period_ns: u64, gained: &[(JobId, u64, u64)]) {
        let passed_ns = rounds * period_ns;
        for &(job, virtual_ns, served_ns) in gained {
            let Some(record) = self.jobs.get_mut(&job) else { continue };
            let turn = &mut record.turn;
            turn.account.virtual_ns += rounds * virtual_ns;
            turn.account.service_ns += rounds * served_ns;
            turn.left_ns += passed_ns;
            turn.waits_since_ns = turn.waits_since_ns.map(|since_ns| since_ns + passed_ns);
        }
        // All gain alike, so the least of them does too.
        self.rotation.clock_ns += rounds * gained.first().map_or(0, |gain| gain.1);
        self.rotation.charged_ns += passed_ns;
        self.rotation.slice_end_ns += passed_ns;
        self.fair.skip(passed_ns);
    }

    /// Freezes these jobs, which have left the row, at once: for [`crate::replay`].
    pub(crate) fn freeze_at_once(&mut self, jobs: &[JobId]) {
        for job in jobs {
            if let Some(record) = self.jobs.get_mut(job)
                && self.rotation.running.binary_search(job).is_err()
            {
                record.turn.freeze = Freeze::Frozen;
            }
        }
    }

    /// FROZEN of the whole job has come, as of `generation`.
    pub fn handle_frozen(&mut self, now_ns: u64, job: JobId, generation: Generation) {
        self.charge(now_ns);
        let clock_ns = self.virtual_time();
        let Some(record) = self.jobs.get_mut(&job) else { return };
        if let Freeze::Leaving(left) = record.turn.freeze
            && generation >= left
        {
            let turn = &mut record.turn;
            (turn.freeze, turn.held) = (Freeze::Frozen, false);
            // Its credit is bounded: a job that was stuck for minutes does not take minutes from the others.
            let least_ns = clock_ns.saturating_sub(turn.scaled(credit_ns(self.config.slice_ns)));
            turn.account.virtual_ns = turn.account.virtual_ns.max(least_ns);
            self.settle_activity(job);
        }
    }

    /// All ranks of the job have been asleep for a millisecond, as of `generation`.
    pub fn handle_idle(&mut self, now_ns: u64, job: JobId, generation: Generation) {
        self.charge(now_ns);
        let runs = self.rotation.running.contains(&job);
        if let Some(record) = self.jobs.get_mut(&job)
            && (runs || record.turn.freeze == Freeze::Frozen)
            && generation >= record.turn.since
        {
            record.turn.idle_since_ns = record.turn.idle_since_ns.or(Some(now_ns));
        }
    }

    /// A rank of an idle job is awake.
    pub fn handle_woken(&mut self, now_ns: u64, job: JobId) {
        self.charge(now_ns);
        let level = self.virtual_time();
        if let Some(record) = self.jobs.get_mut(&job)
            && record.turn.idle_since_ns.is_some()
        {
            record.turn.join(level);
        }
    }

    /// All jobs count as awake until it is said anew that they sleep: whoever was to say that one is awake
    /// may be gone.
    pub(crate) fn forget_idle(&mut self) {
        let level = self.virtual_time();
        for record in self.jobs.values_mut().filter(|record| record.turn.idle_since_ns.is_some()) {
            record.turn.join(level);
        }
    }

    /// Puts the time since the last call on the accounts of those that run.
    pub(crate) fn charge(&mut self, now_ns: u64) {
        self.machine.reserved.set_now(now_ns);
        let passed_ns = now_ns.saturating_sub(self.rotation.charged_ns);
        self.rotation.charged_ns = self.rotation.charged_ns.max(now_ns);
        if passed_ns == 0 || self.rotation.paused_ns.is_some() {
            return;
        }
        self.charge_shares(passed_ns);
        self.pay_floods(passed_ns);
        let clock_ns = self.virtual_time();
        for job in &self.rotation.running {
            let Some(record) = self.jobs.get_mut(job) else { continue };
            let turn = &mut record.turn;
            if turn.idle_since_ns.is_some() {
                continue;
            }
            turn.account.service_ns += passed_ns;
            let before_ns = turn.account.virtual_ns;
            let ahead_ns = clock_ns + turn.scaled(self.config.slice_ns);
            turn.account.virtual_ns = (before_ns + turn.scaled(passed_ns)).min(ahead_ns).max(before_ns);
        }
    }

    /// The least virtual time of those that can run; it never goes back.
    pub(crate) fn virtual_time(&mut self) -> u64 {
        // Fillers count only where there is nobody else: they wait without being owed anything.
        let mut least = None;
        for (job, record) in &self.jobs {
            let found = (record.demand.fill, record.turn.account.virtual_ns);
            // Most are no candidates, and need no look into the matrix.
            if record.state == JobState::Active
                // What stands in all rows competes with none.
                && record.home.is_some()
                && least.is_none_or(|least| found < least)
                && record.turn.idle_since_ns.is_none()
                && self.is_able(*job, &record.turn)
                && self.may_continue(*job)
            {
                least = Some(found);
            }
        }
        self.rotation.clock_ns = self.rotation.clock_ns.max(least.map_or(0, |(_, least_ns)| least_ns));
        self.rotation.clock_ns
    }
}
