//! Scarcity in simulations that have it: GPUs of the nodes, and nodes that are reserved for a
//! time. Drawn from numbers of its own, so that other runs of a seed stay what they are.
//!
//! | invariant | when |
//! |---|---|
//! | jobs with ranks on a node, frozen and suspended ones too, have no more GPUs than it has | a job gets its nodes |
//! | a job gets no node that is reserved for others before it is over for sure | the same |

use std::collections::BTreeMap;

use super::World;
use crate::demand::{Demand, Part, Place};
use crate::reserved::Reservation;
use crate::types::{JobId, NodeId};
use tutti_testkit::Random;

/// GPUs and reservations of a run.
#[derive(Debug)]
pub(super) struct Scarcity {
    random: Random,
    /// GPUs of each node.
    gpus: u32,
    /// Reservations, each with its end.
    reservations: Vec<(Reservation, u64)>,
    /// Reservations of which the scheduler was notified last.
    told: Vec<Reservation>,
    made: u32,
}

impl Scarcity {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6770_7573);
        let gpus = random.between((1, 3)) as u32;
        Scarcity { random, gpus, reservations: Vec::new(), told: Vec::new(), made: 0 }
    }

    /// The demand with GPUs, a time limit, a reservation, or none of them.
    fn dress(&mut self, demand: Demand) -> Demand {
        let random = &mut self.random;
        let gpus = if random.chance(600) { random.between((1, u64::from(self.gpus))) as u32 } else { 0 };
        let lasts_ns = random.chance(500).then(|| random.between((10_000_000, 3_000_000_000)));
        let is_of_one = random.chance(500);
        let numbers: Vec<u32> = self.reservations.iter().map(|(one, _)| one.number).collect();
        let reservation = random.pick(&numbers).filter(|_| is_of_one);
        // A wide one would need more than is reserved.
        let place =
            if reservation.is_some() { Place::Any { nodes: 1, ranks: 1 } } else { demand.place.clone() };
        Demand { place, time_max_ns: lasts_ns, of_reservation: reservation, ..demand.with_gpus(gpus) }
    }

    /// Makes a reservation now and then, and forgets those that are over.
    fn pass(&mut self, now_ns: u64, nodes: u32) {
        self.reservations.retain(|(_, until_ns)| *until_ns > now_ns);
        let random = &mut self.random;
        if random.chance(300) {
            let chosen = (0..nodes).map(NodeId).filter(|_| random.chance(400)).collect();
            let from_ns = now_ns + random.below(300_000_000);
            let until_ns = from_ns + random.between((1_000_000, 1_000_000_000));
            self.made += 1;
            self.reservations.push((Reservation { number: self.made, nodes: chosen, from_ns }, until_ns));
        }
    }

    fn all(&self) -> Vec<Reservation> {
        self.reservations.iter().map(|(one, _)| one.clone()).collect()
    }
}

impl World {
    /// The same; nodes have GPUs, jobs want some, and nodes are reserved now and then.
    #[must_use]
    pub fn scarce(mut self) -> Self {
        self.scarcity = Some(Scarcity::new(self.options.seed));
        self.equip();
        self
    }

    /// Tells the scheduler what the nodes have, and which are reserved.
    pub(super) fn equip(&mut self) {
        let (now_ns, nodes) = (self.now_ns, self.nodes.len() as u32);
        let Some(scarcity) = &mut self.scarcity else { return };
        let scheduler = self.controller.scheduler_mut();
        scarcity.told = scarcity.all();
        scheduler.reserve(now_ns, scarcity.told.clone());
        (0..nodes).for_each(|node| scheduler.handle_gpus(now_ns, NodeId(node), scarcity.gpus));
    }

    /// Time has passed: reservations come and go.
    pub(super) fn reserve_something(&mut self) {
        let (now_ns, nodes) = (self.now_ns, self.nodes.len() as u32);
        let Some(scarcity) = &mut self.scarcity else { return };
        scarcity.pass(now_ns, nodes);
        if !self.is_headless() {
            self.equip();
            self.poll_controller();
        }
    }

    /// All reservations are over.
    pub(super) fn end_reservations(&mut self) {
        if let Some(scarcity) = &mut self.scarcity {
            scarcity.reservations.clear();
            self.equip();
            self.poll_controller();
        }
    }

    /// A demand of this run.
    pub(super) fn dressed(&mut self, demand: Demand) -> Demand {
        match &mut self.scarcity {
            Some(scarcity) => scarcity.dress(demand),
            None => demand,
        }
    }

    /// A job has got these nodes.
    pub(super) fn check_scarcity(&mut self, job: JobId, parts: &[Part]) {
        let Some(scarcity) = &self.scarcity else { return };
        let demand_of = |job: &JobId| self.failover.jobs.get(job).map(|known| &known.demand);
        let demand = demand_of(&job).expect("it was submitted");
        let end_ns = demand.lasts_ns().map_or(u64::MAX, |lasts_ns| self.now_ns + lasts_ns);
        for part in parts {
            let there = scarcity.told.iter().filter(|one| one.nodes.contains(&part.node));
            let (own, others): (Vec<_>, Vec<_>) =
                there.partition(|one| demand.reservation() == Some(one.number));
            let is_in_time = own.iter().any(|one| one.from_ns <= self.now_ns);
            assert!(
                demand.reservation().is_none() || is_in_time,
                "job {job} gets node {} outside of its reservation",
                part.node
            );
            let in_the_way = others.iter().find(|one| one.from_ns < end_ns);
            assert!(in_the_way.is_none(), "job {job} gets node {} in the way of {in_the_way:?}", part.node);
        }
        let mut had: BTreeMap<NodeId, u32> = BTreeMap::new();
        let scheduler = self.controller.scheduler();
        let known = scheduler.jobs().filter_map(|job| Some((demand_of(&job)?, scheduler.parts(job)?)));
        for (demand, parts) in known {
            parts.iter().for_each(|part| *had.entry(part.node).or_default() += demand.gpus());
        }
        if !self.options.heads_die {
            // Ranks that are there have their GPUs, whatever the scheduler knows of them.
            for (node, at) in self.nodes.iter().zip(0..) {
                let real: u32 = node.processes.keys().filter_map(demand_of).map(Demand::gpus).sum();
                let had = had.entry(NodeId(at)).or_default();
                *had = real.max(*had);
            }
        }
        for part in parts {
            let had = had[&part.node];
            assert!(had <= scarcity.gpus, "{had} of {} GPUs of node {} are taken", scarcity.gpus, part.node);
        }
        self.report.count_scarce(demand.gpus() > 0, demand.reservation().is_some());
    }
}
