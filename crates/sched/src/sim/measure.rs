//! How long a switch takes, by the number of nodes.

use super::costs::Costs;
use super::options::Options;
use super::world::World;
use crate::demand::Demand;
use crate::matrix::Policy;
use crate::message::{Mode, Stage};

/// Switches between two jobs that are on all nodes, without faults. Means over the switches, from the
/// controller's decision on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchTime {
    /// Nodes.
    pub nodes: u32,
    /// Hops from the controller to the deepest.
    pub height: u32,
    /// Until the last node runs the next job.
    pub last_ns: u64,
    /// Between the first node and the last (co-scheduling skew).
    pub skew_ns: u64,
    /// Until the controller has heard FROZEN of all.
    pub frozen_ns: u64,
    /// Until the controller has heard SAVED of all; strict only.
    pub saved_ns: u64,
    /// Until the controller has heard RESTORED of all; strict only.
    pub restored_ns: u64,
    /// Events that it took to simulate.
    pub events: u64,
}

/// Measures `switches` switches.
///
/// # Panics
/// Panics if the two jobs do not take turns.
#[must_use]
pub fn switch_time(nodes: u32, arity: u32, mode: Mode, costs: Costs, switches: u32, seed: u64) -> SwitchTime {
    const SLICE_NS: u64 = 100_000_000;
    let options = Options {
        seed,
        nodes,
        slots: 1,
        arity,
        slice_ns: SLICE_NS,
        mode,
        policy: Policy::RoundRobin,
        force_switch: false,
        costs,
        fault_every_ns: 0,
        faults_ns: 0,
        jobs: 0,
        jobs_max: 2,
        moods: false,
        heads_die: false,
    };
    let mut world = World::new(options);
    for _ in 0..2 {
        world.submit(&Demand::any(nodes, nodes)).expect("there is room");
    }
    // Half a slice from the switches.
    world.run_until(SLICE_NS * 3 / 2);
    let mut sum = SwitchTime { nodes, height: world.controller.tree().height(), ..SwitchTime::default() };
    for _ in 0..switches {
        let before = world.report.switches;
        world.run_until(world.now_ns + SLICE_NS);
        assert_eq!(world.report.switches, before + 1, "one switch a slice");
        let began_ns = world.switched_ns;
        let last_ns = world.thawed.iter().max().copied().unwrap_or(0);
        let first_ns = world.thawed.iter().min().copied().unwrap_or(0);
        assert!(first_ns >= began_ns, "every node has thawed the next job");
        let generation = world.controller.scheduler().generation();
        let reached_at =
            |stage| world.reached_at.get(&(generation, stage)).map_or(0, |at_ns| at_ns - began_ns);
        sum.last_ns += last_ns - began_ns;
        sum.skew_ns += last_ns - first_ns;
        sum.frozen_ns += reached_at(Stage::Frozen);
        sum.saved_ns += reached_at(Stage::Saved);
        sum.restored_ns += reached_at(Stage::Restored);
    }
    let mean = |sum_ns: u64| sum_ns / u64::from(switches);
    SwitchTime {
        last_ns: mean(sum.last_ns),
        skew_ns: mean(sum.skew_ns),
        frozen_ns: mean(sum.frozen_ns),
        saved_ns: mean(sum.saved_ns),
        restored_ns: mean(sum.restored_ns),
        events: world.report.events,
        ..sum
    }
}
