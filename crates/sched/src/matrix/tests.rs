use tutti_testkit::{Random, mix, seed};

use super::*;
use crate::demand::{Demand, Place};
use crate::scheduler::{Config, Event, Scheduler};
use crate::types::NodeId;

/// A scheduler with drawn nodes and jobs: of several nodes, heavy and light, fillers, connected, suspended,
/// with steps.
fn drawn(random: &mut Random) -> Scheduler {
    let policy = if random.chance(500) { Policy::RoundRobin } else { Policy::Dqt };
    let mut scheduler = Scheduler::new(Config { policy, ..Config::default() }).expect("a configuration");
    let nodes = 1 + random.below(4) as u32;
    (0..nodes).for_each(|node| scheduler.handle_node(0, NodeId(node), 1 + random.below(5) as u32, 0));
    let count = 1 + random.below(40);
    for job in (1..=count).map(JobId) {
        let ranks = 1 + random.below(4) as u32;
        let mut demand = match random.below(3) {
            0 => Demand::at(Place::Given(vec![(NodeId(random.below(u64::from(nodes)) as u32), ranks)])),
            _ => Demand::any(1 + random.below(u64::from(nodes)) as u32, ranks * nodes),
        };
        demand.weight = [1, 100, 100, 300][random.below(4) as usize];
        demand.fill = random.chance(100);
        demand.exclusive = random.chance(20);
        let owner = JobId(1 + random.below(job.0));
        let owner_parts = scheduler.parts(owner).filter(|_| owner < job && random.chance(150));
        if let Some(parts) = owner_parts {
            let place = Place::Given(parts.iter().map(|part| (part.node, part.ranks)).collect());
            demand = Demand { weight: demand.weight, ..Demand::at(place) };
            demand.holder.within = Some(owner);
        }
        let _ = scheduler.submit(0, job, &demand);
        while let Some(Event::Placed(job, _)) = scheduler.poll_event() {
            scheduler.begin(0, job);
        }
    }
    for _ in 0..random.below(8) {
        let [one, other] = [0, 0].map(|_| JobId(1 + random.below(count)));
        match random.below(3) {
            0 => scheduler.suspend(0, one),
            1 => scheduler.end(0, one),
            _ => scheduler.set_connected(0, one, other, true),
        }
    }
    let _ = scheduler.next_row(10_000_000_000);
    scheduler
}

/// The rule, word by word: in each row all are looked at.
fn fill_by_looking_at_all(matrix: &Matrix, rows: &mut [PlannedRow]) {
    let weight = |jobs: &[JobId]| jobs.iter().map(|job| u64::from(matrix.residents[job].weight)).max();
    let part = |jobs: &[JobId]| 1_000_000 / weight(jobs).unwrap_or(1).max(1);
    let is_filler = |jobs: &[JobId]| jobs.iter().all(|job| matrix.residents[job].fill);
    let groups = rows.iter().flat_map(|row| matrix.bundles(&row.home));
    let mut shares: Vec<(bool, u64, Vec<JobId>)> =
        groups.map(|jobs| (is_filler(&jobs), part(&jobs), jobs)).collect();
    for row in rows {
        let mut space = Row::new(0, u32::MAX);
        matrix.owners(&row.all).for_each(|parts| space.take(parts));
        shares.sort();
        for (_, share, jobs) in &mut shares {
            if !row.all.contains(&jobs[0]) && matrix.owners(jobs).all(|parts| space.is_free(parts)) {
                matrix.owners(jobs).for_each(|parts| space.take(parts));
                row.all.extend_from_slice(jobs);
                *share += part(jobs);
            }
        }
    }
}

#[test]
fn matrix_fills_holes_as_if_all_jobs_were_looked_at_for_each_row() {
    let (base, mut filled, mut full) = (seed(), 0, 0);
    for number in 0..400 {
        let random = &mut Random::new(mix(base.wrapping_add(number)));
        let scheduler = drawn(random);
        let mut bare = scheduler.matrix.clone();
        bare.fill_holes = false;
        let mut expected = bare.assemble(&scheduler.machine);
        let before: usize = expected.iter().map(|row| row.all.len()).sum();
        if expected.len() > 1 {
            fill_by_looking_at_all(&bare, &mut expected);
        }
        expected.iter_mut().for_each(|row| row.all.sort_unstable());
        let found = scheduler.matrix.assemble(&scheduler.machine);
        let jobs = |rows: &[PlannedRow]| {
            rows.iter().map(|row| (row.home.clone(), row.all.clone())).collect::<Vec<_>>()
        };
        assert_eq!(jobs(&found), jobs(&expected), "seed {base}, run {number}");
        let after: usize = found.iter().map(|row| row.all.len()).sum();
        filled += usize::from(after > before);
        full += usize::from(after == before && found.len() > 1);
    }
    assert!(filled > 50 && full > 20, "{filled} with holes that are filled, {full} without");
}
