//! Prices of memory and of the network on each node, and who pays them.
//!
//! Pure: no clock, no floating point. [`Market`] is told what each node has measured ([`NodeUse`]) and says
//! what it costs. The scheduler of the controller has it.
//!
//! **The rule.**
//! 1. The price of something on a node is demand over supply, smoothed over ten seconds.
//! 2. Up to 1 it costs nothing. Above, who has a part of it pays that part of the time that passes, times the
//!    price, times the node's part of all slots. It counts as use beside that of the processors
//!    ([`crate::shares`]).
//! 3. A part is what the kernel has counted for the job's cgroup. What it counts for no job (daemons, file
//!    systems, logins) is in the whole, and nobody pays for it.
//! 4. Nobody pays where jobs of one user alone take part.
//! 5. A job that has ended pays for what it has had since the report before: many short ones cost as much as
//!    a long one.
//!
//! **Floods.** Jobs that stand in one row share their slices, so no weight is between them. Who has sent more
//! than his part of what the jobs of his row have sent, while the network of a node was scarce, is left out
//! for whole slices ([`flood_ns`]): until he has had his part of the time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::types::{JobId, NodeId};

/// Prices are smoothed over so long.
const SMOOTHED_MS: u64 = 10_000;
/// A price of 1.
pub const PRICE_UNIT: u64 = 1000;
/// No price is above this one.
pub const PRICE_MAX: u64 = 10 * PRICE_UNIT;
/// Jobs of a node that a report names, at most.
pub const JOBS_MAX: usize = 1024;
/// Part up to which a job is no flooder: what it has sent, in thousandths of its part.
const FLOOD_MILLI: u64 = 1250;
/// A flooder is left out for no longer than this at once.
pub const FLOOD_NS_MAX: u64 = 20_000_000_000;

/// Demand and supply: bytes, or bytes in a second. No supply: not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// Amount that is wanted.
    pub demand: u64,
    /// Amount that there is.
    pub supply: u64,
}

/// Use of a node by a job, as the kernel counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct JobUse {
    /// The job.
    pub job: JobId,
    /// Bytes that it has sent to other machines since the last report.
    pub sent_bytes: u64,
    /// Memory that it has now; 0: not counted.
    pub memory_bytes: u64,
    /// Time of processors that it has had since the last report.
    #[serde(default)]
    pub worked_us: u64,
    /// Ranks of the job here; 0: the time of its processors is not known.
    #[serde(default)]
    pub ranks: u32,
    /// Messages that its ranks here have sent since they began, as they say themselves: it is shown, and
    /// nobody pays for it.
    #[serde(default)]
    pub messages: u64,
    /// Account of the job's user, where the controller may not know the job any more: it has ended.
    #[serde(default)]
    pub account: Option<u32>,
}

/// Measurements of a node since its last report.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeUse {
    /// Since when.
    pub passed_ms: u64,
    /// Of its network, bytes in a second.
    pub network: Wanted,
    /// Of its memory, bytes.
    pub memory: Wanted,
    /// Bytes that all of it has sent.
    pub sent_bytes: u64,
    /// Whether the node's kernel counts what jobs send.
    pub is_counted: bool,
    /// Jobs that are counted.
    pub jobs: Vec<JobUse>,
}

/// Prices on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodePrices {
    /// The node.
    pub node: NodeId,
    /// Of its network, bytes in a second, as measured last.
    pub network: Wanted,
    /// Price of the network, in parts of [`PRICE_UNIT`].
    pub network_price: u64,
    /// Of its memory, bytes, as measured last.
    pub memory: Wanted,
    /// Price of the memory, in parts of [`PRICE_UNIT`].
    pub memory_price: u64,
    /// Bytes in a second that no job has sent, smoothed: nobody pays for them.
    pub unclaimed: u64,
    /// Memory in use that is no job's.
    pub unclaimed_memory: u64,
    /// Whether the node's kernel counts what jobs send.
    pub is_counted: bool,
}

/// Charge to a user: a part of some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Charge {
    /// User who is charged.
    pub user: u32,
    /// Time of which a part is charged.
    pub ns: u64,
    /// Part of it that is charged,
    pub part: u64,
    /// of this whole.
    pub whole: u64,
}

/// A node as the market knows it.
#[derive(Clone, Debug, Default)]
struct Place {
    network: Priced,
    memory: Priced,
    unclaimed: u64,
    unclaimed_memory: u64,
    is_counted: bool,
    /// Bytes in a second that jobs send, smoothed.
    jobs: BTreeMap<JobId, u64>,
    /// The service that jobs had had at the last report.
    served_ns: BTreeMap<JobId, u64>,
}

/// Resource that has a price.
#[derive(Clone, Copy, Debug, Default)]
struct Priced {
    last: Wanted,
    /// Smoothed; none: nothing has been measured yet.
    price: Option<u64>,
}

/// Prices of all nodes.
#[derive(Clone, Debug, Default)]
pub struct Market {
    places: BTreeMap<NodeId, Place>,
}

impl Wanted {
    /// Demand over supply, in parts of [`PRICE_UNIT`]; 0: what there is is not known.
    #[must_use]
    pub fn price(&self) -> u64 {
        if self.supply == 0 {
            return 0;
        }
        let price = u128::from(self.demand) * u128::from(PRICE_UNIT) / u128::from(self.supply);
        (price as u64).min(PRICE_MAX)
    }
}

impl Priced {
    fn measure(&mut self, now: Wanted, passed_ms: u64) {
        self.last = now;
        let price = now.price();
        self.price = Some(self.price.map_or(price, |before| smoothed(before, price, passed_ms)));
    }

    fn price(&self) -> u64 {
        self.price.unwrap_or(0)
    }
}

fn smoothed(before: u64, now: u64, passed_ms: u64) -> u64 {
    let new = u128::from(passed_ms.min(SMOOTHED_MS));
    let old = u128::from(SMOOTHED_MS) - new;
    ((u128::from(before) * old + u128::from(now) * new) / u128::from(SMOOTHED_MS)) as u64
}

fn in_second(bytes: u64, passed_ms: u64) -> u64 {
    (u128::from(bytes) * 1000 / u128::from(passed_ms.max(1))) as u64
}

impl Market {
    /// A node has measured; `charge` is told what follows for users. `owner` says whose a job is, `slots` how
    /// many the node has, of how many in all.
    pub fn handle_use(
        &mut self,
        node: NodeId,
        found: &NodeUse,
        owner: impl Fn(JobId) -> Option<u32>,
        (slots, all_slots): (u64, u64),
        mut charge: impl FnMut(Charge),
    ) {
        let passed_ms = found.passed_ms;
        let place = self.places.entry(node).or_default();
        let jobs = &found.jobs[..found.jobs.len().min(JOBS_MAX)];
        place.network.measure(found.network, passed_ms);
        place.memory.measure(found.memory, passed_ms);
        place.is_counted = found.is_counted;
        place.jobs.retain(|job, _| jobs.iter().any(|used| used.job == *job));
        place.served_ns.retain(|job, _| place.jobs.contains_key(job));
        for used in jobs {
            let rate = in_second(used.sent_bytes, passed_ms);
            let before = place.jobs.entry(used.job).or_insert(0);
            // Who has just sent something takes part for a while.
            *before = smoothed(*before, rate, passed_ms).max(u64::from(rate > 0));
        }
        let owner = |used: &JobUse| owner(used.job).or(used.account);
        let sum = |of: fn(&JobUse) -> u64| jobs.iter().fold(0, |sum: u64, used| sum.saturating_add(of(used)));
        let (sent, memory) = (sum(|used| used.sent_bytes), sum(|used| used.memory_bytes));
        let unclaimed = in_second(found.sent_bytes.saturating_sub(sent), passed_ms);
        place.unclaimed = smoothed(place.unclaimed, unclaimed, passed_ms);
        place.unclaimed_memory = found.memory.demand.saturating_sub(memory);

        let Place { network, memory: of_memory, jobs: senders, .. } = place;
        let ns_of = |price: u64| {
            let ns = u128::from(passed_ms.min(SMOOTHED_MS)) * 1_000_000 * u128::from(price);
            let of_node = u128::from(PRICE_UNIT) * u128::from(all_slots.max(1));
            u64::try_from(ns * u128::from(slots) / of_node).unwrap_or(u64::MAX)
        };
        let mut bill =
            |price: u64, whole: u64, part: &dyn Fn(&JobUse) -> u64, takes: &dyn Fn(&JobUse) -> bool| {
                if price <= PRICE_UNIT || whole == 0 {
                    return;
                }
                let mut users = jobs.iter().filter(|used| takes(used)).filter_map(&owner);
                let Some(first) = users.next() else { return };
                if users.all(|user| user == first) {
                    return;
                }
                for used in jobs.iter().filter(|used| part(used) > 0) {
                    let Some(user) = owner(used) else { continue };
                    charge(Charge { user, ns: ns_of(price), part: part(used), whole });
                }
            };
        let sends = |used: &JobUse| senders.get(&used.job).is_some_and(|rate| *rate > 0);
        bill(network.price(), found.sent_bytes.max(sent), &|used| used.sent_bytes, &sends);
        let whole = found.memory.demand.max(memory);
        bill(of_memory.price(), whole, &|used| used.memory_bytes, &|used| used.memory_bytes > 0);
    }

    /// How long a job has run since the last time that this was asked of the node; by now it has had
    /// `served_ns` in all.
    pub(crate) fn ran_ns(&mut self, node: NodeId, job: JobId, served_ns: u64) -> u64 {
        let before = self.places.get_mut(&node).and_then(|place| place.served_ns.insert(job, served_ns));
        before.map_or(0, |before_ns| served_ns.saturating_sub(before_ns))
    }

    /// A node is gone.
    pub fn forget(&mut self, node: NodeId) {
        self.places.remove(&node);
    }

    /// Prices on all nodes that have said something, in ascending order.
    pub fn prices(&self) -> impl Iterator<Item = NodePrices> + '_ {
        self.places.iter().map(|(node, place)| NodePrices {
            node: *node,
            network: place.network.last,
            network_price: place.network.price(),
            memory: place.memory.last,
            memory_price: place.memory.price(),
            unclaimed: place.unclaimed,
            unclaimed_memory: place.unclaimed_memory,
            is_counted: place.is_counted,
        })
    }

    /// The network of the node was scarce when it was measured last.
    #[must_use]
    pub fn is_congested(&self, node: NodeId) -> bool {
        self.places.get(&node).is_some_and(|place| place.network.last.price() > PRICE_UNIT)
    }
}

/// Amount that a job sends, in thousandths of its part: it sends `own` bytes of the `all` that `jobs` jobs of
/// its row send together.
#[must_use]
pub fn of_part_milli(own: u64, all: u64, jobs: u64) -> u64 {
    if all == 0 || jobs < 2 {
        return 0;
    }
    let milli = u128::from(own.min(all)) * 1000 / u128::from(all) * u128::from(jobs);
    u64::try_from(milli).unwrap_or(u64::MAX)
}

/// For how long a job is left out that has sent so much of its part in `ran_ms` of a scarce network; 0: no
/// more than its part.
#[must_use]
pub fn flood_ns(of_part_milli: u64, ran_ms: u64) -> u64 {
    if of_part_milli <= FLOOD_MILLI {
        return 0;
    }
    let ns = u128::from(of_part_milli - 1000).saturating_mul(u128::from(ran_ms) * 1000);
    u64::try_from(ns).unwrap_or(u64::MAX).min(FLOOD_NS_MAX)
}

#[cfg(test)]
mod tests;
