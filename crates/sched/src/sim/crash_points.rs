//! Faults that wait for their moment: each strikes when some job comes to a given step of a switch on some
//! node, so that every kind of fault meets every step often. How often is counted ([`FaultCoverage`]).

use super::calendar::Event;
use super::node::Real;
use super::world::World;
use crate::message::Mode;
use crate::types::{JobId, NodeId};

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The job is killed.
    Kill,
    /// The node is lost, and back later.
    Loss,
    /// Its daemon ends, and is started anew.
    Restart,
    /// Nothing comes to the node or from it for a while.
    Cut,
    /// Datagrams that it sends are lost, and sent again.
    Datagrams,
    /// Its daemon, or the freezer, stands still for a while.
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
    /// It is thawed, or is being.
    Runs,
    /// Its freezer has been written to.
    Freezes,
    /// It is frozen and waits.
    Waits,
    /// Its channels are saved; strict only.
    Saves,
    /// Its channels are restored; strict only.
    Restores,
}

/// All steps, each at its own index.
pub const PHASES: [Phase; 5] = [Phase::Runs, Phase::Freezes, Phase::Waits, Phase::Saves, Phase::Restores];

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
    fn is_in(self, mode: Mode) -> bool {
        mode == Mode::Strict || !matches!(self, Phase::Saves | Phase::Restores)
    }

    /// At most so long after its beginning a fault strikes: it is mostly still under way.
    fn lasts_ns(self, slice_ns: u64) -> u64 {
        match self {
            Phase::Runs | Phase::Waits => slice_ns / 2,
            Phase::Freezes => 60_000,
            Phase::Saves | Phase::Restores => 10_000,
        }
    }
}

impl World {
    /// A fault of this kind will come, in some step.
    pub(super) fn lay_ambush(&mut self, kind: Kind) {
        let mode = self.options.mode;
        let phases: Vec<_> = PHASES.into_iter().filter(|phase| phase.is_in(mode)).collect();
        let phase = self.random.pick(&phases).expect("there are some");
        self.ambushes.push((kind, phase));
    }

    /// A job has come to a step on a node: whoever waits for that strikes before it is over.
    pub(super) fn enter(&mut self, node: NodeId, job: JobId, phase: Phase) {
        if !self.faulty || self.ambushes.is_empty() {
            return;
        }
        let Some(at) = self.ambushes.iter().position(|(_, awaited)| *awaited == phase) else { return };
        // Not always where it happens first.
        if self.random.chance(100) {
            let (kind, _) = self.ambushes.swap_remove(at);
            let strikes_ns = self.now_ns + self.random.below(phase.lasts_ns(self.options.slice_ns));
            self.push(strikes_ns, Event::Strike { node, job, kind });
        }
    }

    pub(super) fn strike(&mut self, node: NodeId, job: JobId, kind: Kind) {
        if !self.faulty || kind == Kind::Controller && !self.options.heads_die {
            return;
        }
        let phase = self.phase(node, job);
        let has_struck = match kind {
            Kind::Kill => self.kill_job(job),
            Kind::Loss => self.lose(node),
            Kind::Restart => self.restart(node),
            Kind::Cut => self.cut(node),
            Kind::Datagrams => {
                self.nodes[node.0 as usize].losing = self.random.between((1, 20)) as u32;
                true
            }
            Kind::Stop => self.stop(node),
            Kind::Controller => self.kill_controller(),
        };
        match phase {
            Some(phase) if has_struck => self.report.fault_coverage.0[kind as usize][phase as usize] += 1,
            // Not here: somewhere else.
            Some(phase) => self.ambushes.push((kind, phase)),
            None => {}
        }
    }

    fn phase(&self, node: NodeId, job: JobId) -> Option<Phase> {
        let process = self.nodes[node.0 as usize].processes.get(&job)?;
        Some(match (process.real, process.copies) {
            (Real::Runs, _) => Phase::Runs,
            (Real::Freezing { .. }, _) => Phase::Freezes,
            (Real::Frozen, Some(phase)) => phase,
            (Real::Frozen, None) => Phase::Waits,
        })
    }

    /// The daemon of a node stands still for a while: what comes meanwhile it does afterwards.
    fn stop(&mut self, node: NodeId) -> bool {
        if node == self.controller.tree().controller() {
            return false;
        }
        let until_ns = self.now_ns + self.random.between((1_000_000, 2_000_000_000));
        let known = &mut self.nodes[node.0 as usize];
        known.stopped_until_ns = known.stopped_until_ns.max(until_ns);
        self.blur_below(node, until_ns);
        self.report.stops += 1;
        true
    }
}
