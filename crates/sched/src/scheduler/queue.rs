//! The queue: who waits for nodes, and who is served next.
//!
//! Jobs are served in their order, and one that fits passes those before it. A job that has been passed often
//! enough **claims** the nodes on which it can come soonest, as many as it needs:
//!
//! ```text
//! passed --(bypass_max times)--> claims nodes --(those on them end)--> placed
//!                                   '- a later job: elsewhere, or where it ends before those on them do
//! ```
//!
//! So it starts when who is on its nodes has ended, and all others are served on the rest. A user has one
//! claim at a time, however many wide jobs of his wait. A claim that waits for its user's own jobs holds up
//! no jobs but his: otherwise two jobs of his would stop everybody.
//!
//! A job that ran under an earlier controller, and whose nodes are not all back, claims those that are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::demand::{Demand, Place};
use crate::machine::{Held, Machine};
use crate::scheduler::{Event, JobState, Scheduler};
use crate::types::{JobId, NodeId};
use crate::wait::Wait;

/// Demands for which there was no room, as of one look at the queue: more are tried each.
const REFUSED_MAX: usize = 64;

/// A job in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) job: JobId,
    pub(super) passed: u32,
    /// Whether the job runs already.
    pub(super) runs: bool,
}

/// Nodes that a job keeps for itself until it is placed.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    job: JobId,
    /// Whether the job runs already.
    runs: bool,
    user: u32,
    nodes: Vec<NodeId>,
    /// When all jobs that are there have ended by their time limits; the largest: one has no limit, and may
    /// end at once.
    until_ns: u64,
    bars: Bars,
}

/// Jobs that a claim holds up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bars {
    All,
    /// Jobs of its user alone: it waits for others of his.
    Own,
    /// Jobs that want GPUs.
    Gpus,
    /// Exclusive jobs.
    Exclusive,
}

impl Claim {
    /// Whether it keeps its nodes from a job that would end then, if it began now.
    fn holds_up(&self, demand: &Demand, end_ns: Option<u64>) -> bool {
        let is_barred = match self.bars {
            Bars::All => true,
            Bars::Own => demand.holder.owner.user == self.user,
            Bars::Gpus => demand.gpus() > 0 || demand.exclusive,
            Bars::Exclusive => demand.exclusive,
        };
        let is_known = self.until_ns < u64::MAX;
        is_barred && !(is_known && end_ns.is_some_and(|end_ns| end_ns <= self.until_ns))
    }
}

impl Scheduler {
    /// The jobs that wait for nodes, in the order in which they are served; not those that run already.
    pub fn queue(&self) -> impl Iterator<Item = JobId> + '_ {
        self.queue.iter().filter(|waiting| !waiting.runs).map(|waiting| waiting.job)
    }

    /// How many jobs wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Why the job waits; none if it does not.
    #[must_use]
    pub fn why_waits(&self, job: JobId) -> Option<Wait> {
        let at = self.queue.iter().position(|waiting| waiting.job == job)?;
        let demand = &self.jobs[&job].demand;
        let is_before = |other: JobId| self.queue.iter().take(at).any(|waiting| waiting.job == other);
        let end_ns = self.end_if_begun_ns(demand);
        // Of the nodes that it keeps the job could have some.
        let concerns = |claim: &&Claim| claim.nodes.iter().any(|node| self.machine.could_come(*node, demand));
        let mut claims =
            self.claims.iter().filter(|claim| !claim.runs && claim.holds_up(demand, end_ns)).filter(concerns);
        let behind = claims.find(|claim| is_before(claim.job)).map(|claim| Wait::QueuedBehind(claim.job));
        self.machine.why_not(demand).or(behind).or(Some(Wait::Room))
    }

    /// Places those who wait and fit.
    pub(super) fn serve_queue(&mut self) {
        let mut claims = Vec::new();
        let mut refused: Vec<Demand> = Vec::new();
        let mut at = 0;
        while at < self.queue.len() {
            let waiting = self.queue[at];
            let is_refused = {
                let demand = &self.jobs[&waiting.job].demand;
                !waiting.runs && refused.iter().any(|other| other.asks_like(demand))
            };
            if !is_refused && self.try_place(waiting, &claims) {
                self.queue.remove(at);
                refused.clear();
                let bypass_max = self.config.bypass_max;
                let mut is_new = false;
                for waiting in self.queue.iter_mut().take(at) {
                    waiting.passed += 1;
                    is_new |= waiting.passed == bypass_max;
                }
                if is_new {
                    // It claims its nodes before the next one is served.
                    claims.clear();
                    at = 0;
                }
                continue;
            }
            let demand = &self.jobs[&waiting.job].demand;
            if !is_refused && !waiting.runs && refused.len() < REFUSED_MAX {
                refused.push(demand.clone());
            }
            if let Some(claim) = self.claim(waiting, &claims) {
                claims.push(claim);
            }
            at += 1;
        }
        self.machine.hold(std::iter::empty());
        self.claims = claims;
    }

    /// Gives a job its nodes, if they are free and nobody has claimed them.
    fn try_place(&mut self, Waiting { job, runs, .. }: Waiting, claims: &[Claim]) -> bool {
        if !runs {
            self.hold_claimed(job, claims);
        }
        let demand = &self.jobs[&job].demand;
        let machine = match runs {
            true if demand.awaits_lost() => Cow::Owned(self.machine.emptied()),
            true => self.machine.undrained(),
            false => Cow::Borrowed(&self.machine),
        };
        if !self.matrix.place(&machine, job, demand, runs) {
            return false;
        }
        self.machine.charge(job, demand, &self.matrix.residents[&job].parts);
        let parts = self.matrix.residents[&job].parts.clone();
        let now_ns = self.now_ns();
        let record = self.jobs.get_mut(&job).expect("it waits");
        (record.state, record.placed_ns) = (JobState::Placed, now_ns);
        self.events.push_back(Event::Placed(job, parts));
        true
    }

    /// Keeps the nodes from the job that others have claimed.
    fn hold_claimed(&mut self, job: JobId, claims: &[Claim]) {
        let demand = &self.jobs[&job].demand;
        let end_ns = self.end_if_begun_ns(demand);
        let holding = claims.iter().filter(|claim| claim.holds_up(demand, end_ns));
        self.machine.hold(holding.flat_map(|claim| &claim.nodes));
    }

    fn end_if_begun_ns(&self, demand: &Demand) -> Option<u64> {
        Some(self.now_ns().saturating_add(demand.lasts_ns()?))
    }

    pub(super) fn is_step(&self, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|record| record.demand.holder.within.is_some())
    }

    /// Nodes that the job claims beside earlier claims; none: it is passed by all.
    fn claim(&mut self, waiting: Waiting, claims: &[Claim]) -> Option<Claim> {
        let Waiting { job, passed, runs } = waiting;
        let demand = &self.jobs[&job].demand;
        let user = demand.holder.owner.user;
        let may_claim = if runs {
            demand.awaits_lost()
        } else {
            passed >= self.config.bypass_max && !claims.iter().any(|claim| !claim.runs && claim.user == user)
        };
        if !may_claim || self.is_step(job) {
            return None;
        }
        if runs {
            let bars = if demand.exclusive { Bars::All } else { Bars::Exclusive };
            let Place::Given(parts) = &demand.place else { return None };
            let is_known = |node: &NodeId| self.machine.node(*node).is_some();
            let nodes = parts.iter().map(|part| part.0).filter(is_known).collect();
            return Some(Claim { job, runs, user, nodes, until_ns: u64::MAX, bars });
        }
        self.hold_claimed(job, claims);
        let demand = &self.jobs[&job].demand;
        // It must be placeable when others have ended: for lost, drained and reserved nodes nobody waits
        // with it.
        let open = self.machine.open_to(demand);
        open.settle(demand).ok()?;
        let why = self.machine.why_not(demand);
        let own = self.held_by(user);
        let (mut nodes, is_kept_by_own) = match &demand.place {
            Place::Given(parts) if parts.iter().any(|part| open.is_held(part.0)) => return None,
            Place::Given(parts) => {
                let nodes: Vec<NodeId> = parts.iter().map(|part| part.0).collect();
                let is_kept = nodes.iter().any(|node| is_kept(&open, *node, demand, &own));
                (nodes, is_kept)
            }
            _ => {
                let last = self.claims.iter().find(|claim| claim.job == job);
                soonest(&open, demand, &own, last.map_or(&[], |claim| &claim.nodes))?
            }
        };
        // For a row, or a whole partition, it may need any of those that it has not named.
        let waits_for_row = why.is_none() && nodes.iter().all(|node| self.machine.admits(*node, demand));
        let is_named = matches!(demand.place, Place::Given(_));
        if !is_named && (waits_for_row || self.matrix.has_partitions() && !demand.exclusive) {
            nodes = (0..open.len()).map(NodeId).filter(|node| !open.is_held(*node)).collect();
        }
        let until_ns = self.all_end_ns(&nodes);
        let bars = match why {
            _ if is_kept_by_own => Bars::Own,
            Some(Wait::Gpus { .. }) if !demand.exclusive && demand.memory_bytes == 0 => Bars::Gpus,
            _ => Bars::All,
        };
        Some(Claim { job, runs, user, nodes, until_ns, bars })
    }

    /// Amount that a user's jobs have of each node.
    fn held_by(&self, user: u32) -> BTreeMap<NodeId, Held> {
        let mut held = BTreeMap::<NodeId, Held>::new();
        for (job, resident) in &self.matrix.residents {
            let Some(record) = self.jobs.get(job) else { continue };
            if record.demand.holder.owner.user != user || resident.within.is_some() {
                continue;
            }
            for part in &resident.parts {
                let of_node = held.entry(part.node).or_default();
                of_node.jobs += 1;
                of_node.bytes += self.machine.charged_bytes(*job, part.node);
                of_node.gpus += record.demand.gpus();
                of_node.exclusive |= record.demand.exclusive;
            }
        }
        held
    }

    /// When all jobs on these nodes have ended, by their time limits.
    fn all_end_ns(&self, nodes: &[NodeId]) -> u64 {
        let is_there = |node: &NodeId| nodes.contains(node);
        let there = self.matrix.residents.iter().filter(|(_, resident)| {
            resident.within.is_none() && resident.parts.iter().any(|part| is_there(&part.node))
        });
        let end_ns = |job: &JobId| {
            let record = self.jobs.get(job)?;
            Some(record.placed_ns.saturating_add(record.demand.lasts_ns()?))
        };
        there.map(|(job, _)| end_ns(job).unwrap_or(u64::MAX)).max().unwrap_or(0)
    }
}

/// Whether what a user has there himself keeps his job from the node.
fn is_kept(machine: &Machine, node: NodeId, demand: &Demand, own: &BTreeMap<NodeId, Held>) -> bool {
    let held = own.get(&node).copied().unwrap_or_default();
    !machine.has_room_beside(node, demand, &held)
}

/// As many nodes as the job needs, those on which it can come soonest, and whether some of them are kept from
/// it by its user's own jobs. It stays with those that it had claimed at the last look, rather than go to and
/// fro as others pass it.
fn soonest(
    machine: &Machine,
    demand: &Demand,
    own: &BTreeMap<NodeId, Held>,
    last: &[NodeId],
) -> Option<(Vec<NodeId>, bool)> {
    let split = demand.place.split()?;
    let is_able = |node: &NodeId| {
        !machine.is_held(*node)
            && machine.could_admit(*node, demand)
            && machine.ranks_most(*node, demand) >= split.low.max(1)
    };
    let key = |node: NodeId| {
        let is_kept = is_kept(machine, node, demand, own);
        (is_kept, !machine.admits(node, demand), !last.contains(&node), machine.residents(node), node)
    };
    let mut able: Vec<_> = (0..machine.len()).map(NodeId).filter(is_able).map(key).collect();
    able.sort_unstable();
    // Those that take one rank more first, where some have to.
    let (high, mut more) = (split.high, split.more as usize);
    let mut chosen = Vec::with_capacity(split.nodes as usize);
    able.retain(|&(is_kept, .., node)| {
        let takes = more > 0 && machine.ranks_most(node, demand) >= high;
        if takes {
            more -= 1;
            chosen.push((node, is_kept));
        }
        !takes
    });
    let rest = (split.nodes as usize).saturating_sub(chosen.len());
    chosen.extend(able.iter().take(rest).map(|&(is_kept, .., node)| (node, is_kept)));
    if more > 0 || chosen.len() < split.nodes as usize {
        return None;
    }
    let is_kept = chosen.iter().any(|(_, is_kept)| *is_kept);
    Some((chosen.into_iter().map(|(node, _)| node).collect(), is_kept))
}
