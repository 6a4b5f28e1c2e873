//! Steps of jobs: jobs that run inside of another one's slots (`mpiexec` in a script that has an allocation).
//!
//! The job that owns the slots stands in the layout, its steps do not: they are put into each row that it
//! stands in, whether it takes its turns itself or sleeps. So they run when it would, and all of them at
//! once. A step has the slots of its job that no other step has, as far as there are any.

use std::collections::BTreeMap;

use crate::demand::{Demand, Part, Place};
use crate::space::{Resident, Residents};
use crate::types::{JobId, NodeId};

/// The parts that a step of a job gets; none: its job is not on one of the nodes.
pub(super) fn choose(residents: &Residents, owner: &Resident, demand: &Demand) -> Option<Vec<Part>> {
    let Place::Given(wanted) = &demand.place else { return None };
    let others: Vec<_> = residents.values().filter(|other| other.within == demand.holder.within).collect();
    wanted.iter().map(|wanted| part(&others, owner, *wanted)).collect()
}

/// The part of a step on a node beside those others.
fn part(others: &[&Resident], owner: &Resident, (node, ranks): (NodeId, u32)) -> Option<Part> {
    let whole = owner.parts.iter().find(|part| part.node == node)?.slots;
    let parts = others.iter().flat_map(|other| &other.parts).filter(|part| part.node == node);
    let free = parts.fold(whole, |free, part| free.without(&part.slots));
    let own = free.lowest(ranks);
    let more = whole.without(&own).lowest(ranks - own.count());
    Some(Part { node, ranks, slots: own.with(&more), shared: false })
}

/// The steps of each job that has some.
pub(super) fn by_owner(residents: &Residents) -> BTreeMap<JobId, Vec<JobId>> {
    let mut steps: BTreeMap<JobId, Vec<JobId>> = BTreeMap::new();
    for (&job, resident) in residents {
        if let Some(owner) = resident.within.filter(|_| !resident.exclusive) {
            steps.entry(owner).or_default().push(job);
        }
    }
    steps
}

/// Jobs may have been moved to other slots: their steps come along.
pub(super) fn follow(residents: &mut Residents) {
    let stray = |(_, step): &(&JobId, &Resident)| {
        let owner = step.within.and_then(|owner| residents.get(&owner));
        owner.is_some_and(|owner| !step.parts.iter().all(|part| is_inside(owner, part)))
    };
    let strays: Vec<JobId> = residents.iter().filter(stray).map(|(job, _)| *job).collect();
    for (at, job) in strays.iter().enumerate() {
        let step = &residents[job];
        let Some(owner) = step.within.and_then(|owner| residents.get(&owner)) else { continue };
        let is_settled = |other: &JobId| !strays[at..].contains(other);
        let others =
            residents.iter().filter(|(other, there)| there.within == step.within && is_settled(other));
        let others: Vec<_> = others.map(|(_, other)| other).collect();
        let wanted = step.parts.iter().map(|old| (old.node, old.ranks));
        let parts = wanted.map(|wanted| part(&others, owner, wanted)).collect();
        residents.entry(*job).and_modify(|step| step.move_to(parts));
    }
}

fn is_inside(owner: &Resident, part: &Part) -> bool {
    let whole = owner.parts.iter().find(|whole| whole.node == part.node);
    whole.is_some_and(|whole| part.slots.without(&whole.slots).is_empty())
}
