//! Knowledge of a node about stores: the write notices that it has, and which of them it has acted on.

use crate::core::interval::{Log, Part};
use crate::core::page::Pages;
use crate::core::time::VectorTime;
use crate::core::unit::Run;

/// Write notices, and the times that this node has seen.
#[derive(Debug)]
pub(super) struct Knowledge {
    me: usize,
    log: Log,
    seen: VectorTime,
    /// The time of the last barrier of all nodes: all have seen it when they meet again.
    met: VectorTime,
}

impl Knowledge {
    pub(super) fn new(me: usize, nodes: usize) -> Self {
        let time = VectorTime::zero(nodes);
        Knowledge { me, log: Log::new(nodes), seen: time.clone(), met: time }
    }

    /// Sends so many numbers of notices at once, at most.
    #[cfg(test)]
    pub(super) fn limit_sent(&mut self, numbers: usize) {
        self.log.limit_sent(numbers);
    }

    /// Number of the node.
    pub(super) fn me(&self) -> usize {
        self.me
    }

    /// Time that this node has seen.
    pub(super) fn seen(&self) -> &VectorTime {
        &self.seen
    }

    /// The number that the interval under way will have.
    pub(super) fn interval(&self) -> u32 {
        self.seen.of(self.me) + 1
    }

    /// The interval ends; it has written these units.
    pub(super) fn close(&mut self, runs: Vec<Run>) {
        let number = self.log.append(self.me, runs);
        self.seen.set(self.me, number);
    }

    /// Notices that a node lacks that has seen `from` and is to see `upto`.
    pub(super) fn since(&self, from: &VectorTime, upto: &VectorTime) -> Vec<Part> {
        self.log.since(from, upto)
    }

    /// Takes in notices of others.
    pub(super) fn merge(&mut self, parts: Vec<Part>) {
        self.log.merge(parts);
    }

    /// Copies that others have written up to a time: ascending. None: notices are lacking, so all may be
    /// stale.
    pub(super) fn stale(&self, upto: &VectorTime, pages: &Pages) -> Option<Vec<u32>> {
        let mut drops = Vec::new();
        for node in (0..upto.entries().len()).filter(|node| *node != self.me) {
            for number in self.seen.of(node) + 1..=upto.of(node) {
                drops.extend(self.log.units(node, number)?.iter().flat_map(|run| run.units()));
            }
        }
        drops.sort_unstable();
        drops.dedup();
        drops.retain(|&unit| pages.is_noticed_copy(unit));
        Some(drops)
    }

    /// Gives each run of units that a node has written since all nodes have met, up to a time: the node, the
    /// run. False: some notices are lacking.
    pub(super) fn visit_since_met(&self, upto: &VectorTime, mut visit: impl FnMut(usize, Run)) -> bool {
        let visited = |node| self.log.visit(node, self.met.of(node), upto.of(node), |run| visit(node, run));
        (0..upto.entries().len()).all(visited)
    }

    /// Stale copies are gone: this node has seen a time. When all nodes have met, what all had seen before is
    /// forgotten.
    pub(super) fn acquire(&mut self, time: &VectorTime, is_full: bool) {
        self.seen.join(time);
        if is_full {
            self.log.forget(&self.met);
            self.met = self.seen.clone();
        }
    }
}
