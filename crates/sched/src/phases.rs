//! Arbiter of the parallel slots of a node, among jobs that share them (`--phases`).
//!
//! Jobs of a group stand in one row, on one node. Their serial phases run side by side; of their parallel
//! phases (regions) one runs at a time. Pure: no clock, no floating point; the switch thread drives it.
//!
//! | state | means | leaves it by |
//! |---|---|---|
//! | [`State::Out`] | no region, no grant | a request |
//! | [`State::Wants`] | waits at the beginning of a region | a grant; it gives up |
//! | [`State::Holds`] | has the slots, in a region or not | it is found outside of a region when somebody wants |
//! | [`State::Overdue`] | the same, while somebody has wanted them for longer than its lease | the same; revocation |
//! | [`State::Revoked`] | its part is frozen in the midst of a region; it stands in the queue | a grant |
//!
//! **Who is next**: the least granted time, divided by weight. Nobody comes with more credit than a lease, or
//! with more debt than two. Who has waited for a lease of each job and one more goes before
//! all.
//!
//! **Leases.** A lease begins when another job wants the slots; without one it lasts for ever. Who holds for
//! twice its lease while others want is revoked: its part is frozen whole, and gets slices of one lease like
//! anybody's turn, until it is found outside of a region in time. A yield counts only
//! [`Rules::yield_min_ns`] after the grant (the rate limit of the SR8000's scheduler).
//!
//! A grant is about speed, never about correctness: who gives up waiting goes on without one.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use crate::types::JobId;

/// Time for which a job may hold the slots while others want them, unless it says otherwise.
pub const LEASE_NS: u64 = 3_000_000;
/// The lease where programs give no hints: the quantum of shared slots.
pub const QUANTUM_NS: u64 = 100_000_000;
/// Beyond what is due a wait for the slots lasts no longer than this.
pub const GRACE_NS: u64 = 20_000_000;
/// Jobs in a group, at most.
pub const JOBS_MAX: usize = 64;

/// How jobs with phases share a node: the three policies of the SR8000's scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Phases {
    /// Time slicing: the job has the node alone in its turns.
    Time,
    /// Slots are shared; who has them keeps them for a quantum.
    Shared,
    /// Slots are shared; the end of a region gives them back, but not before so many us after the grant.
    Hints {
        /// The rate limit.
        yield_min_us: u32,
    },
}

impl Phases {
    /// Whether the job shares a row with others of its kind.
    #[must_use]
    pub fn shares(self) -> bool {
        self != Phases::Time
    }

    /// Rules that the policy means for the arbiter.
    #[must_use]
    pub fn rules(self) -> Rules {
        match self {
            Phases::Time | Phases::Shared => Rules { lease_ns: QUANTUM_NS, yield_min_ns: QUANTUM_NS },
            Phases::Hints { yield_min_us } => {
                let yield_min_ns = u64::from(yield_min_us) * 1000;
                Rules { lease_ns: LEASE_NS.max(yield_min_ns), yield_min_ns }.checked()
            }
        }
    }
}

impl std::str::FromStr for Phases {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "time, shared, hints or hints:US (1 to 100000 us between two yields)";
        match text {
            "time" => Ok(Phases::Time),
            "shared" => Ok(Phases::Shared),
            "hints" => Ok(Phases::Hints { yield_min_us: 0 }),
            _ => {
                let us = text.strip_prefix("hints:").and_then(|us| us.parse().ok());
                let us = us.filter(|us| (1..=QUANTUM_NS / 1000).contains(&u64::from(*us)));
                us.map(|yield_min_us| Phases::Hints { yield_min_us }).ok_or(wrong)
            }
        }
    }
}

/// Rules that a job has agreed to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Time for which it may hold the slots while others want them: 0.1 ms to [`QUANTUM_NS`].
    pub lease_ns: u64,
    /// A yield counts so long after the grant; at most the lease.
    pub yield_min_ns: u64,
}

impl Rules {
    /// The same within bounds, whatever somebody has written there.
    #[must_use]
    pub fn checked(self) -> Self {
        let lease_ns = self.lease_ns.clamp(100_000, QUANTUM_NS);
        Rules { lease_ns, yield_min_ns: self.yield_min_ns.min(lease_ns) }
    }
}

/// Where a job is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The job has no grant and wants none.
    Out,
    /// The job waits for the slots.
    Wants,
    /// The job has the slots.
    Holds,
    /// The job has had the slots for longer than its lease, and another wants them.
    Overdue,
    /// The slots were taken from the job in the midst of a region; it is frozen.
    Revoked,
}

/// Work to be done, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The job has so many others beside it; 0: it need not ask.
    Others(JobId, u32),
    /// The slots are the job's.
    Grant(JobId),
    /// Others want the slots that the job has, or no longer. If it is in no region then, say so by
    /// [`Arbiter::handle_idle`].
    Contended(JobId, bool),
    /// The slots are no longer the job's: it has no region.
    Take(JobId),
    /// The same, in the midst of a region: freeze its part whole.
    Freeze(JobId),
    /// Let the job run again: it has been granted the slots, or need not wait for them.
    Thaw(JobId),
}

#[derive(Clone, Copy, Debug)]
struct Member {
    rules: Rules,
    weight: u32,
    state: State,
    /// Since when it is in this state, but Overdue counts on from the grant.
    since_ns: u64,
    /// Since when others want what it has.
    wanted_ns: Option<u64>,
    /// Granted time, divided by weight.
    granted: u64,
    /// Whether it was revoked, and has not yielded in time since.
    sliced: bool,
    /// Whether it runs: its row has its turn.
    runs: bool,
    /// Whether it has been notified that others want the slots.
    contended: bool,
}

impl Member {
    fn has(&self) -> bool {
        matches!(self.state, State::Holds | State::Overdue)
    }

    fn waits(&self) -> bool {
        matches!(self.state, State::Wants | State::Revoked)
    }

    fn enter(&mut self, now_ns: u64, state: State) {
        (self.state, self.since_ns, self.wanted_ns) = (state, now_ns, None);
    }

    /// Begin of its lease: the grant, or when another began to want the slots.
    fn lease_began_ns(&self) -> u64 {
        self.since_ns.max(self.wanted_ns.unwrap_or(0))
    }

    /// Time from the begin of its lease to its revocation.
    fn revoked_after_ns(&self) -> u64 {
        self.rules.lease_ns * if self.sliced { 1 } else { 2 }
    }

    fn charge(&mut self, now_ns: u64) {
        let held_ns = now_ns.saturating_sub(self.since_ns);
        self.granted += held_ns * 100 / u64::from(self.weight.max(1));
    }
}

/// The arbiter of one node.
#[derive(Clone, Debug, Default)]
pub struct Arbiter {
    members: BTreeMap<JobId, Member>,
    out: VecDeque<Action>,
}

impl Arbiter {
    /// The job shares slots on this node from now on; false: there are too many.
    pub fn join(&mut self, now_ns: u64, job: JobId, rules: Rules, weight: u32) -> bool {
        if self.members.len() >= JOBS_MAX || self.members.contains_key(&job) {
            return false;
        }
        let granted = self.members.values().map(|member| member.granted).min().unwrap_or(0);
        let member = Member {
            rules: rules.checked(),
            weight,
            state: State::Out,
            since_ns: now_ns,
            wanted_ns: None,
            granted,
            sliced: false,
            runs: true,
            contended: false,
        };
        self.members.insert(job, member);
        self.tell_others();
        true
    }

    /// Removes the job, of which nothing is left here.
    pub fn leave(&mut self, now_ns: u64, job: JobId) {
        if self.members.remove(&job).is_some() {
            self.tell_others();
            self.settle(now_ns);
        }
    }

    /// The job's row has its turn, or no longer: who stands still holds nothing up.
    pub fn set_runs(&mut self, now_ns: u64, job: JobId, runs: bool) {
        let taken = self.holder().is_some_and(|holder| holder != job);
        let Some(member) = self.members.get_mut(&job).filter(|member| member.runs != runs) else { return };
        member.runs = runs;
        if runs && member.has() && taken {
            // Another has them by now: it goes on without until its region ends.
            (member.contended, member.sliced) = (false, false);
            member.enter(now_ns, State::Wants);
            self.out.push_back(Action::Take(job));
        }
        if !runs && member.has() {
            member.charge(now_ns);
            member.since_ns = now_ns;
        } else if runs && member.state == State::Revoked {
            // The turn has thawed it.
            member.enter(now_ns, State::Wants);
        } else if runs && member.state != State::Out {
            // The lease goes on; what it stood still is not counted.
            member.since_ns = now_ns;
        }
        self.tell_others();
        self.settle(now_ns);
    }

    /// A process of the job is at the beginning of a region and has no grant.
    pub fn handle_request(&mut self, now_ns: u64, job: JobId) {
        let floor = self.members.values().filter(|member| member.state != State::Out);
        let floor = floor.map(|member| member.granted).min();
        let Some(member) = self.members.get_mut(&job).filter(|member| member.state == State::Out) else {
            return;
        };
        member.enter(now_ns, State::Wants);
        if let Some(floor) = floor {
            // Neither credit of days nor debt: nobody holds for longer than two leases.
            let lease = member.rules.lease_ns;
            member.granted = member.granted.clamp(floor.saturating_sub(lease), floor + 2 * lease);
        }
        self.settle(now_ns);
    }

    /// No process of the job is in a region or at the beginning of one.
    pub fn handle_idle(&mut self, now_ns: u64, job: JobId) {
        let wanted = self.is_wanted(job);
        let Some(member) = self.members.get_mut(&job) else { return };
        match member.state {
            State::Wants => member.enter(now_ns, State::Out),
            State::Holds | State::Overdue => {
                member.sliced = false;
                let counts_ns = member.since_ns.saturating_add(member.rules.yield_min_ns);
                // R12: without a requester a yield changes nothing. R13: one that comes early neither.
                if !wanted || now_ns < counts_ns {
                    return;
                }
                member.charge(now_ns);
                member.enter(now_ns, State::Out);
                member.contended = false;
                self.out.extend([Action::Contended(job, false), Action::Take(job)]);
            }
            State::Out | State::Revoked => return,
        }
        self.settle(now_ns);
    }

    /// Time has passed.
    pub fn handle_time(&mut self, now_ns: u64) {
        self.settle(now_ns);
    }

    /// Takes the next action, if any.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.out.pop_front()
    }

    /// When [`Self::handle_time`] is to be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        let (job, member) = self.members.iter().find(|(_, member)| member.has() && member.runs)?;
        if !self.is_wanted(*job) {
            return None;
        }
        let lease_ns = match member.state {
            State::Holds => member.rules.lease_ns,
            _ => member.revoked_after_ns(),
        };
        let counts = (!member.contended).then(|| member.since_ns.saturating_add(member.rules.yield_min_ns));
        [Some(member.lease_began_ns().saturating_add(lease_ns)), counts].into_iter().flatten().min()
    }

    /// Where the job is.
    #[must_use]
    pub fn state(&self, job: JobId) -> Option<State> {
        self.members.get(&job).map(|member| member.state)
    }

    /// The job waits for slots, so it is not idle (C18).
    #[must_use]
    pub fn waits(&self, job: JobId) -> bool {
        self.members.get(&job).is_some_and(Member::waits)
    }

    /// Holder of the slots.
    #[must_use]
    pub fn holder(&self) -> Option<JobId> {
        self.members.iter().find(|(_, member)| member.has() && member.runs).map(|(job, _)| *job)
    }

    /// Longest wait, after which the job goes on without a grant: one lease of each job, one more, and
    /// [`GRACE_NS`].
    #[must_use]
    pub fn patience_ns(&self) -> u64 {
        let leases = self.members.values().filter(|member| member.runs).map(|member| member.rules.lease_ns);
        let most = leases.clone().max().unwrap_or(LEASE_NS);
        (leases.count() as u64 + 1) * most + GRACE_NS
    }

    /// Whether somebody else wants the slots.
    fn is_wanted(&self, job: JobId) -> bool {
        self.members.iter().any(|(other, member)| *other != job && member.runs && member.waits())
    }

    fn tell_others(&mut self) {
        let running = self.members.values().filter(|member| member.runs).count() as u32;
        let others = running.saturating_sub(1);
        self.out.extend(self.members.keys().map(|job| Action::Others(*job, others)));
    }

    fn settle(&mut self, now_ns: u64) {
        if let Some(job) = self.holder() {
            self.press(now_ns, job);
        }
        if self.holder().is_some() {
            return;
        }
        let Some(next) = self.next(now_ns) else { return };
        let member = self.members.get_mut(&next).expect("it is a member");
        let was_frozen = member.state == State::Revoked;
        member.enter(now_ns, State::Holds);
        member.contended = false;
        self.out.push_back(Action::Grant(next));
        if was_frozen {
            self.out.push_back(Action::Thaw(next));
        }
        self.press(now_ns, next);
    }

    /// The holder hears that others want, and is taken the slots when it is time.
    fn press(&mut self, now_ns: u64, job: JobId) {
        let wanted = self.is_wanted(job);
        let member = self.members.get_mut(&job).expect("it is a member");
        let held_ns = now_ns.saturating_sub(member.since_ns);
        member.wanted_ns = wanted.then(|| member.wanted_ns.unwrap_or(now_ns));
        let leased_ns = now_ns.saturating_sub(member.lease_began_ns());
        let contended = wanted && held_ns >= member.rules.yield_min_ns;
        if contended != member.contended {
            member.contended = contended;
            self.out.push_back(Action::Contended(job, contended));
        }
        member.state = match wanted && leased_ns >= member.rules.lease_ns {
            true => State::Overdue,
            false => State::Holds,
        };
        if wanted && leased_ns >= member.revoked_after_ns() {
            member.charge(now_ns);
            member.enter(now_ns, State::Revoked);
            (member.sliced, member.contended) = (true, false);
            self.out.extend([Action::Contended(job, false), Action::Freeze(job)]);
        }
    }

    /// Job that gets the slots next.
    fn next(&self, now_ns: u64) -> Option<JobId> {
        let waiting = self.members.iter().filter(|(_, member)| member.runs && member.waits());
        let patience_ns = self.patience_ns() - GRACE_NS;
        let key = |member: &Member| {
            let late = now_ns.saturating_sub(member.since_ns) >= patience_ns;
            // Late ones by their age, before all others by what they have had.
            if late { (0, member.since_ns) } else { (1, member.granted) }
        };
        waiting.min_by_key(|(job, member)| (key(member), **job)).map(|(job, _)| *job)
    }
}

#[cfg(test)]
mod tests;
