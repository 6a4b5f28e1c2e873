//! Fair shares: who has used much lately gets less while others want it, whether he has one job or sixteen.
//!
//! Pure: no clock, no floating point. [`Ledger`] is told what time passes and who has had it, and says what
//! weight each job has beside the others.
//!
//! **The rule.**
//! 1. Groups and users have declared shares. Those with a job that can run divide the time by them; the share
//!    of a group is divided among its users in the same way.
//! 2. **Use** is time in which others had to wait, decayed: half of it is forgotten after a half-life. Of a
//!    row each job has had the part that its slots are of the row's. Who is alone pays nothing.
//! 3. A user whose part of all use is above his share gets his share times (share / part), never below an
//!    eighth of it: [`FLOOR`].
//! 4. What a user gets is divided among his jobs that can run by their declared weights. Jobs of his that
//!    stand in one row run at once, and count once, as the heaviest of them.
//!
//! With one user all that is left is rule 4, and weights are what they were declared to be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::JobId;

/// A user keeps at least this part of his share: one in so many.
pub const FLOOR: u64 = 8;
/// The share of who has declared none.
pub const SHARE_DEFAULT: u32 = 100;
/// How long it takes until half of the use is forgotten, in ns.
pub const HALF_LIFE_NS: u64 = 600_000_000_000;
/// An effective weight is in so many parts of a declared one's unit.
pub const WEIGHT_UNIT: u64 = 1000;
/// Fractions have so many bits.
const BITS: u32 = 32;
const ONE: u128 = 1 << BITS;

/// Owner of a job, and what he may have beside others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// His share beside other users, or those of his group.
    pub share: u32,
    /// His group and its share, if it has one.
    pub group: Option<(u32, u32)>,
}

impl Default for Owner {
    fn default() -> Self {
        Owner { user: 0, share: SHARE_DEFAULT, group: None }
    }
}

/// A job that can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Which.
    pub job: JobId,
    /// Owner of the job.
    pub owner: Owner,
    /// Weight that the job declares.
    pub weight: u32,
    /// The row in which it is at home.
    pub row: u32,
    /// Weight that it has beside the others, in parts of [`WEIGHT_UNIT`]: filled in.
    pub effective: u64,
}

/// How a user stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Standing {
    /// User who stands so.
    pub user: u32,
    /// Decayed use, in ns of a whole row.
    pub used_ns: u64,
    /// His declared part of the time among those who want it, in millionths.
    pub share_ppm: u32,
    /// Part that he gets of it for what he has used, in millionths of all.
    pub effective_ppm: u32,
    /// His jobs that can run.
    pub jobs: u32,
}

/// Ledger of what everybody has used.
#[derive(Clone, Debug)]
pub struct Ledger {
    half_life_ns: u64,
    used_ns: BTreeMap<u32, u64>,
    standings: Vec<Standing>,
    /// Jobs of whom the last weights were, and in which order.
    claims: Vec<Claim>,
    totals: Totals,
}

/// Room for sums, kept from one time to the next.
#[derive(Clone, Debug, Default)]
struct Totals {
    /// By group, or user without one: share, and the sum of the shares of its users.
    tops: Vec<(Top, u32, u64)>,
    /// By user: owner, rows by weight.
    users: Vec<(Owner, u64, u32)>,
}

/// Party to the division of the whole: a group, or a user without one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Top {
    Group(u32),
    User(u32),
}

impl Top {
    fn of(owner: &Owner) -> (Self, u32) {
        match owner.group {
            Some((group, share)) => (Top::Group(group), share),
            None => (Top::User(owner.user), owner.share),
        }
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            half_life_ns: HALF_LIFE_NS,
            used_ns: BTreeMap::new(),
            standings: Vec::new(),
            claims: Vec::new(),
            totals: Totals::default(),
        }
    }
}

impl Ledger {
    /// Half of the use is forgotten after so long; 0: the past does not count.
    pub fn set_half_life(&mut self, half_life_ns: u64) {
        self.half_life_ns = half_life_ns;
        if half_life_ns == 0 {
            self.used_ns.clear();
        }
    }

    /// A user has had `part` of `whole` slots of a row for so long, and others have waited.
    pub fn charge(&mut self, user: u32, passed_ns: u64, part: u64, whole: u64) {
        if self.half_life_ns == 0 || whole == 0 {
            return;
        }
        let ns = u128::from(passed_ns) * u128::from(part) / u128::from(whole);
        let used_ns = self.used_ns.entry(user).or_default();
        *used_ns = used_ns.saturating_add(ns as u64);
    }

    /// Time has passed.
    pub fn decay(&mut self, passed_ns: u64) {
        if self.half_life_ns == 0 || self.used_ns.is_empty() {
            return;
        }
        let kept = half_to(passed_ns, self.half_life_ns);
        self.used_ns.retain(|_, used_ns| {
            *used_ns = ((u128::from(*used_ns) * kept) >> BITS) as u64;
            // Less than a microsecond is nothing.
            *used_ns >= 1000
        });
    }

    /// Use of everybody, in ns of a whole row, in ascending order of users.
    pub fn used(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.used_ns.iter().map(|(user, used_ns)| (*user, *used_ns))
    }

    /// Counts, too, what an earlier ledger has said in [`Self::used`] so long ago.
    pub fn restore(&mut self, used: &[(u32, u64)], age_ns: u64) {
        if self.half_life_ns == 0 {
            return;
        }
        let kept = half_to(age_ns, self.half_life_ns);
        for &(user, used_ns) in used {
            let restored_ns = ((u128::from(used_ns) * kept) >> BITS) as u64;
            let used_ns = self.used_ns.entry(user).or_default();
            *used_ns = used_ns.saturating_add(restored_ns);
        }
    }

    /// How users stand, as of the last [`Self::weigh`].
    #[must_use]
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// Says anew which jobs can run: to be called with each, then [`Self::weigh`].
    pub fn begin(&mut self) {
        self.claims.clear();
    }

    /// A job can run.
    pub fn claim(&mut self, claim: Claim) {
        self.claims.push(claim);
    }

    /// The weight of each.
    pub fn weigh(&mut self) -> &[Claim] {
        self.standings.clear();
        // Jobs of a user in a row stand beside each other, the heaviest first.
        let key = |claim: &Claim| (claim.owner.user, claim.row, u32::MAX - claim.weight, claim.job);
        self.claims.sort_unstable_by_key(key);
        self.sum_up();
        let alone = self.totals.users.len() <= 1;
        self.stand();
        if alone {
            for claim in &mut self.claims {
                claim.effective = u64::from(claim.weight) * WEIGHT_UNIT;
            }
            return &self.claims;
        }
        let rows: u128 = self.totals.users.iter().map(|(_, rows, _)| u128::from(*rows)).sum();
        let mut at = 0;
        for claim in &mut self.claims {
            while self.standings[at].user != claim.owner.user {
                at += 1;
            }
            let own_rows = u128::from(self.totals.users[at].1);
            let share = u128::from(self.standings[at].effective_ppm);
            let unit = u128::from(claim.weight) * u128::from(WEIGHT_UNIT);
            let effective = unit * share * rows / (own_rows * PPM).max(1);
            claim.effective = (effective as u64).max(1);
        }
        &self.claims
    }

    /// Sums up who wants time: the shares of groups and users, and the rows of each user.
    fn sum_up(&mut self) {
        let Totals { tops, users } = &mut self.totals;
        tops.clear();
        users.clear();
        let mut last_row = None;
        for claim in &self.claims {
            let is_new = users.last().is_none_or(|(owner, ..)| owner.user != claim.owner.user);
            if is_new {
                users.push((claim.owner, 0, 0));
                last_row = None;
                let (top, share) = Top::of(&claim.owner);
                match tops.iter_mut().find(|(known, ..)| *known == top) {
                    Some((.., sum)) => *sum += u64::from(claim.owner.share),
                    None => tops.push((top, share, u64::from(claim.owner.share))),
                }
            }
            let Some((_, rows, jobs)) = users.last_mut() else { continue };
            *jobs += 1;
            if last_row != Some(claim.row) {
                *rows += u64::from(claim.weight);
                last_row = Some(claim.row);
            }
        }
    }

    /// Works out what each user may have, and gets for what he has used.
    fn stand(&mut self) {
        let Totals { tops, users } = &self.totals;
        let all: u128 = tops.iter().map(|(_, share, _)| u128::from(*share)).sum();
        let used = |user: &u32| u128::from(self.used_ns.get(user).copied().unwrap_or(0));
        let used_by_all: u128 = users.iter().map(|(owner, ..)| used(&owner.user)).sum();
        for (owner, _, jobs) in users {
            let (top, top_share) = Top::of(owner);
            let of_top = tops.iter().find(|(known, ..)| *known == top).map_or(1, |(.., sum)| *sum);
            let of_all = all.max(1) * u128::from(of_top.max(1));
            let share = u128::from(top_share) * u128::from(owner.share) * ONE / of_all;
            let own = used(&owner.user);
            let fair = (used_by_all * share) >> BITS;
            let kept = if own > fair { (fair << BITS) / own } else { ONE };
            let effective = (share * kept.max(ONE / u128::from(FLOOR))) >> BITS;
            self.standings.push(Standing {
                user: owner.user,
                used_ns: own as u64,
                share_ppm: ((share * PPM) >> BITS) as u32,
                effective_ppm: ((effective * PPM) >> BITS).max(1) as u32,
                jobs: *jobs,
            });
        }
        // Of the whole again.
        let sum: u128 = self.standings.iter().map(|one| u128::from(one.effective_ppm)).sum();
        for one in &mut self.standings {
            let part = u128::from(one.effective_ppm) * PPM / sum.max(1);
            one.effective_ppm = (part as u32).max(1);
        }
    }
}

/// Millionths.
const PPM: u128 = 1_000_000;

/// 2 to the minus (`passed` / `half_life`), in [`BITS`] bits.
fn half_to(passed_ns: u64, half_life_ns: u64) -> u128 {
    let halves = passed_ns / half_life_ns;
    if halves >= u64::from(BITS) {
        return 0;
    }
    let rest = u128::from(passed_ns % half_life_ns);
    let bits = (rest << ROOTS.len()) / u128::from(half_life_ns);
    let root = |at: usize| (bits >> (ROOTS.len() - 1 - at)) & 1 == 1;
    let kept = (0..ROOTS.len()).filter(|at| root(*at)).fold(ONE, |kept, at| (kept * ROOTS[at]) >> BITS);
    kept >> halves
}

/// 2 to the minus 1/2, 1/4, 1/8 and so on, in [`BITS`] bits.
const ROOTS: [u128; 28] = [
    3_037_000_500,
    3_611_622_603,
    3_938_502_376,
    4_112_874_773,
    4_202_935_003,
    4_248_701_965,
    4_271_771_996,
    4_283_353_945,
    4_289_156_690,
    4_292_061_010,
    4_293_513_907,
    4_294_240_540,
    4_294_603_903,
    4_294_785_595,
    4_294_876_445,
    4_294_921_870,
    4_294_944_583,
    4_294_955_939,
    4_294_961_618,
    4_294_964_457,
    4_294_965_876,
    4_294_966_586,
    4_294_966_941,
    4_294_967_119,
    4_294_967_207,
    4_294_967_252,
    4_294_967_274,
    4_294_967_285,
];

#[cfg(test)]
mod tests;
