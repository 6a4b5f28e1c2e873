//! Losses of the policies: a seeded mix of jobs on the scheduler alone, every switch free and at once.
//!
//! Lost capacity is what no job has of the slots while there are jobs. In the tree a job of 5 nodes takes a
//! partition of 8: what nobody uses of that is **internal** fragmentation; the rest, columns of a row into
//! which no job fits, is **external**.

use std::collections::BTreeMap;

use crate::demand::Demand;
use crate::matrix::Policy;
use crate::scheduler::{Config, Event, JobState, Scheduler};
use crate::types::{JobId, NodeId};
use tutti_testkit::Random;

/// A mix of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// All follows from it.
    pub seed: u64,
    /// Nodes, of one slot each.
    pub nodes: u32,
    /// Jobs.
    pub jobs: u32,
    /// Mean time between two submissions.
    pub every_ns: u64,
    /// How many in a thousand ask for a power of two of nodes; the others for any number.
    pub powers_permille: u64,
    /// How they are placed.
    pub policy: Policy,
    /// Whether holes are filled.
    pub fill_holes: bool,
}

/// Outcome of a mix. Capacities in thousandths of all slots, over the time in which some job was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Had by jobs.
    pub used: u64,
    /// Lost inside of partitions.
    pub internal: u64,
    /// Lost beside them.
    pub external: u64,
    /// Until the last job ended.
    pub makespan_ns: u64,
    /// Mean of (end - submission) / (time it needs alone), in hundredths.
    pub slowdown: u64,
    /// Rows, at most.
    pub rows: u64,
}

/// A job of the mix.
struct Load {
    at_ns: u64,
    needs_ns: u64,
    demand: Demand,
}

/// Runs the mix.
///
/// # Panics
/// Panics if a job never ends.
#[must_use]
pub fn run(mix: Mix) -> Lost {
    let config = Config { policy: mix.policy, fill_holes: mix.fill_holes, rows_max: 64, ..Config::default() };
    let mut scheduler = Scheduler::new(config).expect("the configuration makes sense");
    for node in 0..mix.nodes {
        scheduler.handle_node(0, NodeId(node), 1, 0);
    }
    let mut loads = draw(mix).into_iter().zip(1..).peekable();
    let mut needs: BTreeMap<JobId, (u64, u64)> = BTreeMap::new();
    let (mut now_ns, mut busy_ns, mut slowdown) = (0, 0, 0.0);
    let (mut used, mut internal, mut rows) = (0_u128, 0_u128, 0);
    loop {
        while let Some((load, number)) = loads.next_if(|(load, _)| load.at_ns <= now_ns) {
            scheduler.submit(now_ns, JobId(number), &load.demand).expect("it fits the machine");
            needs.insert(JobId(number), (load.needs_ns, now_ns));
        }
        while let Some(Event::Placed(job, _)) = scheduler.poll_event() {
            scheduler.begin(now_ns, job);
        }
        turn(&mut scheduler, now_ns);
        rows = rows.max(scheduler.plan().rows.len() as u64);
        let arrival_ns = loads.peek().map(|(load, _)| load.at_ns);
        let ends_ns = scheduler.running().iter().map(|&job| now_ns + left(&scheduler, &needs, job)).min();
        let Some(next_ns) = arrival_ns.into_iter().chain(ends_ns).chain(scheduler.next_at_ns()).min() else {
            break;
        };
        assert!(next_ns < 1 << 60, "the mix ends");
        let passed_ns = next_ns.max(now_ns) - now_ns;
        if !needs.is_empty() {
            busy_ns += passed_ns;
            used += u128::from(passed_ns) * u128::from(scheduler.slots_in_use().1);
            internal += u128::from(passed_ns) * u128::from(rounded_off(mix, &scheduler));
        }
        now_ns += passed_ns;
        turn(&mut scheduler, now_ns);
        let done: Vec<_> =
            scheduler.running().iter().copied().filter(|&job| left(&scheduler, &needs, job) == 0).collect();
        for job in done {
            let (needed_ns, since_ns) = needs.remove(&job).expect("it ran");
            slowdown += (now_ns - since_ns) as f64 / needed_ns as f64;
            scheduler.end(now_ns, job);
        }
    }
    let all = u128::from(busy_ns) * u128::from(mix.nodes);
    let share = |part: u128| (part * 1000 / all.max(1)) as u64;
    Lost {
        used: share(used),
        internal: share(internal),
        external: 1000 - share(used) - share(internal),
        makespan_ns: now_ns,
        slowdown: (slowdown * 100.0 / f64::from(mix.jobs)) as u64,
        rows,
    }
}

/// Sizes: a third single nodes, the others up to the whole machine, small ones more often; times from 0.1 to
/// 20 s, short ones more often.
fn draw(mix: Mix) -> Vec<Load> {
    let mut random = Random::new(mix.seed);
    let mut at_ns = 0;
    let levels = u64::from(mix.nodes.ilog2());
    let mut draw_one = || {
        at_ns += random.below(2 * mix.every_ns);
        let level = random.below(levels + 1);
        let nodes = if random.chance(mix.powers_permille) {
            1 << level
        } else {
            random.between((1, (1 << level).max(2))).min(u64::from(mix.nodes))
        } as u32;
        let needs_ns = 100_000_000 << random.below(8);
        let needs_ns = random.between((needs_ns / 2, needs_ns * 3 / 2));
        Load { at_ns, needs_ns, demand: Demand::any(nodes, nodes) }
    };
    (0..mix.jobs).map(|_| draw_one()).collect()
}

/// Time that the job still needs.
fn left(scheduler: &Scheduler, needs: &BTreeMap<JobId, (u64, u64)>, job: JobId) -> u64 {
    let had_ns = scheduler.account(job).map_or(0, |account| account.service_ns);
    needs[&job].0.saturating_sub(had_ns)
}

/// Switches what is due; everything is frozen at once.
fn turn(scheduler: &mut Scheduler, now_ns: u64) {
    loop {
        let before = scheduler.running().to_vec();
        let Some(switch) = scheduler.next_row(now_ns) else { return };
        for job in before {
            scheduler.handle_frozen(now_ns, job, switch.generation);
        }
    }
}

/// Nodes of the running jobs' partitions that nobody uses.
fn rounded_off(mix: Mix, scheduler: &Scheduler) -> u64 {
    if mix.policy == Policy::RoundRobin {
        return 0;
    }
    let mut held = vec![false; mix.nodes.next_power_of_two() as usize];
    let mut used = held.clone();
    for &job in scheduler.running() {
        if scheduler.state(job) != Some(JobState::Active) {
            continue;
        }
        let nodes: Vec<_> =
            scheduler.parts(job).unwrap_or_default().iter().map(|part| part.node.0 as usize).collect();
        let first = nodes.iter().min().copied().unwrap_or(0);
        let width = nodes.len().next_power_of_two();
        let first = first / width * width;
        held[first..first + width].fill(true);
        for node in nodes {
            used[node] = true;
        }
    }
    held.iter().zip(&used).filter(|(held, used)| **held && !**used).count() as u64
}
