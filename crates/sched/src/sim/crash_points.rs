//! Faults that wait for their moment: each strikes when some job comes to a given step of a switch on some
//! node, so that every kind of fault meets every step often. How often is counted ([`FaultCoverage`]).

use super::calendar::Event;
use super::node::Real;
use super::world::World;
use crate::types::{JobId, NodeId};

use super::coverage::{Kind, PHASES, Phase};

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
