//! Coverage by faults: the kinds of faults, the phases of a switch, and how often each met each.

use crate::message::Mode;

/// Kind of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The job is killed.
    Kill,
    /// The node is lost, and back later.
    Loss,
    /// The node's daemon ends, and is started anew.
    Restart,
    /// The node is cut off: nothing comes to it or from it for a while.
    Cut,
    /// Datagrams that it sends are lost, and sent again.
    Datagrams,
    /// The node's daemon, or the freezer, stands still for a while.
    Stop,
    /// The controller's daemon ends, wherever the job is.
    Controller,
}

/// All kinds, each at its own index.
pub const KINDS: [Kind; 7] =
    [Kind::Kill, Kind::Loss, Kind::Restart, Kind::Cut, Kind::Datagrams, Kind::Stop, Kind::Controller];

/// The step of a switch that a job is in on a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The job is thawed, or is being.
    Runs,
    /// The job's freezer has been written to.
    Freezes,
    /// The job is frozen, and its channels are tested; strict only.
    Tests,
    /// The job is frozen and waits.
    Waits,
    /// The job's channels are saved; strict only.
    Saves,
    /// The job's channels are restored; strict only.
    Restores,
}

/// All steps, each at its own index.
pub const PHASES: [Phase; 6] =
    [Phase::Runs, Phase::Freezes, Phase::Tests, Phase::Waits, Phase::Saves, Phase::Restores];

/// How many faults of each kind met a job in each step: a row for each of [`KINDS`], a column for each of
/// [`PHASES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCoverage(pub [[u64; PHASES.len()]; KINDS.len()]);

impl FaultCoverage {
    /// Kinds and steps, of those that there are in this mode, which met less than so often.
    #[must_use]
    pub fn rare(&self, mode: Mode, least: u64) -> Vec<(Kind, Phase, u64)> {
        let phases = PHASES.into_iter().filter(|phase| phase.is_in(mode));
        let all =
            phases.flat_map(|phase| KINDS.map(|kind| (kind, phase, self.0[kind as usize][phase as usize])));
        all.filter(|(_, _, count)| *count < least).collect()
    }

    pub(super) fn add(&mut self, other: &FaultCoverage) {
        for (sum, number) in self.0.iter_mut().flatten().zip(other.0.iter().flatten()) {
            *sum += number;
        }
    }
}

impl std::fmt::Display for FaultCoverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:10}", "")?;
        PHASES.iter().try_for_each(|phase| write!(f, "{:>9}", format!("{phase:?}")))?;
        KINDS.iter().try_for_each(|kind| {
            write!(f, "\n{:10}", format!("{kind:?}"))?;
            self.0[*kind as usize].iter().try_for_each(|count| write!(f, "{count:>9}"))
        })
    }
}

impl Phase {
    pub(super) fn is_in(self, mode: Mode) -> bool {
        mode == Mode::Strict || !matches!(self, Phase::Tests | Phase::Saves | Phase::Restores)
    }

    /// At most so long after its beginning a fault strikes: it is mostly still under way.
    pub(super) fn lasts_ns(self, slice_ns: u64) -> u64 {
        match self {
            Phase::Runs | Phase::Waits => slice_ns / 2,
            Phase::Freezes | Phase::Tests => 60_000,
            Phase::Saves | Phase::Restores => 10_000,
        }
    }
}
