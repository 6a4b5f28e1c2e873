//! Launches that a job is connected to, as its starters say.
//!
//! Judged when parts have said something. The controller makes pairs of those that name each other
//! ([`super::super::connections`]).

use std::collections::{BTreeMap, BTreeSet};

use crate::members::NodeId;
use crate::message::{PartState, Phase};

/// Lines in the log of events that a job's connections have, at most: it may connect and part all the time.
const LINES_MAX: u32 = 100;

/// Launches that a job is connected to.
#[derive(Debug)]
pub(in crate::core::controller) struct Connected {
    /// Public number of the job's own launch.
    own: u64,
    /// Public numbers of the others.
    others: BTreeSet<u64>,
    /// Lines that the log has of them.
    lines: u32,
}

impl Connected {
    /// None yet, of the launch with this public number.
    pub(super) fn new(own: u64) -> Self {
        Connected { own, others: BTreeSet::new(), lines: 0 }
    }

    /// Takes in what the parts say, if it `counts`. `true`: the job is connected to others than before.
    pub(super) fn judge(&mut self, states: Option<&BTreeMap<NodeId, PartState>>, counts: bool) -> bool {
        let of_part = |part: &&PartState| counts && part.phase < Phase::Left;
        let parts = states.into_iter().flat_map(BTreeMap::values).filter(of_part);
        let others = parts.flat_map(|part| part.connected.iter().copied()).collect();
        std::mem::replace(&mut self.others, others) != self.others
    }

    /// Public number by which others name the job.
    pub(in crate::core::controller) fn own(&self) -> u64 {
        self.own
    }

    /// Public numbers of those that the job names.
    pub(in crate::core::controller) fn others(&self) -> impl Iterator<Item = u64> {
        self.others.iter().copied()
    }

    /// Whether the job names this other one.
    pub(in crate::core::controller) fn has(&self, other: &Connected) -> bool {
        self.others.contains(&other.own)
    }

    /// Whether there is room for one more line in the log, which is then taken.
    pub(in crate::core::controller) fn take_line(&mut self) -> bool {
        self.lines = self.lines.saturating_add(1);
        self.lines <= LINES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(phase: Phase, connected: &[u64]) -> BTreeMap<NodeId, PartState> {
        let mut part = PartState::of_version(1);
        (part.phase, part.connected) = (phase, connected.to_vec());
        BTreeMap::from([(NodeId(0), part)])
    }

    #[test]
    fn connected_changes_are_found_and_gone_parts_say_nothing() {
        let (mut one, other) = (Connected::new(1), Connected::new(2));
        let running = states(Phase::Running, &[2]);
        assert!(one.judge(Some(&running), true) && one.has(&other));
        assert!(!one.judge(Some(&running), true));
        assert!(one.judge(Some(&states(Phase::Left, &[2])), true) && !one.has(&other));
        assert!(!one.judge(Some(&running), false) && one.others().count() == 0);
    }

    #[test]
    fn connected_lines_are_bounded() {
        let mut connected = Connected::new(1);
        assert_eq!((0..2 * LINES_MAX).filter(|_| connected.take_line()).count(), LINES_MAX as usize);
    }
}
