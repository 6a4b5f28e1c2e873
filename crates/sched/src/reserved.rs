//! Nodes that are reserved for a time: only jobs of the reservation begin there, and no other job begins that
//! could still run when it begins.
//!
//! Whose jobs those are, and until when a reservation lasts, the caller knows: it names those that are not
//! over ([`crate::Scheduler::reserve`]), each time that one comes or goes.

use crate::demand::Demand;
use crate::types::NodeId;

/// A reservation that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Number by which jobs of it name it.
    pub number: u32,
    /// Nodes of it, of which some may not be here.
    pub nodes: Vec<NodeId>,
    /// When it begins, or has begun.
    pub from_ns: u64,
}

/// All of them, and the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reserved {
    all: Vec<Reservation>,
    now_ns: u64,
}

impl Reserved {
    pub(crate) fn set(&mut self, all: Vec<Reservation>) {
        self.all = all;
    }

    pub(crate) fn set_now(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The reservation that keeps a job from beginning on a node now; none: none does.
    pub(crate) fn obstacle(&self, node: NodeId, demand: &Demand) -> Option<u32> {
        if let Some(own) = demand.reservation() {
            let is_in = |one: &&Reservation| {
                one.number == own && one.from_ns <= self.now_ns && one.nodes.contains(&node)
            };
            if !self.all.iter().any(|one| is_in(&one)) {
                return Some(own);
            }
        }
        let end_ns = demand.lasts_ns().map_or(u64::MAX, |lasts_ns| self.now_ns.saturating_add(lasts_ns));
        let is_other = |one: &&Reservation| {
            demand.reservation() != Some(one.number) && one.from_ns < end_ns && one.nodes.contains(&node)
        };
        self.all.iter().find(is_other).map(|one| one.number)
    }
}
