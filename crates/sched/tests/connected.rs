//! Jobs that are connected to each other run in the same turns, where their slots allow, and nobody pays for
//! it.

use tutti_sched::{Config, Demand, Event, JobId, NodeId, Place, Policy, Scheduler};
use tutti_testkit::Random;

const MS: u64 = 1_000_000;

fn scheduler(nodes: u32, slots: u32, policy: Policy) -> Scheduler {
    let config = Config { slice_ns: 10 * MS, policy, ..Config::default() };
    let mut scheduler = Scheduler::new(config).unwrap();
    (0..nodes).for_each(|node| scheduler.handle_node(0, NodeId(node), slots, 0));
    scheduler
}

fn begin(scheduler: &mut Scheduler, now_ns: u64, job: u64, place: &[(u32, u32)], weight: u32) {
    let place = Place::Given(place.iter().map(|(node, ranks)| (NodeId(*node), *ranks)).collect());
    scheduler.submit(now_ns, JobId(job), &Demand { weight, ..Demand::at(place) }).unwrap();
    while let Some(Event::Placed(job, _)) = scheduler.poll_event() {
        scheduler.begin(now_ns, job);
    }
}

/// The rows that have run until then, each once; all is frozen at once.
fn run_until(scheduler: &mut Scheduler, now_ns: &mut u64, end_ns: u64) -> Vec<Vec<u64>> {
    let mut rows: Vec<Vec<u64>> = Vec::new();
    while *now_ns < end_ns {
        let before = scheduler.running().to_vec();
        if let Some(switch) = scheduler.next_row(*now_ns) {
            before.into_iter().for_each(|job| scheduler.handle_frozen(*now_ns, job, switch.generation));
            let row: Vec<u64> = scheduler.running().iter().map(|job| job.0).collect();
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        *now_ns += MS;
    }
    rows.sort();
    rows
}

fn connect(scheduler: &mut Scheduler, now_ns: u64, one: u64, other: u64, connected: bool) {
    scheduler.set_connected(now_ns, JobId(one), JobId(other), connected);
}

/// Jobs 1 and 4 are on one node, 2 and 3 on the other; first come, first served puts 1 with 2, and 3 with 4.
fn crossed(policy: Policy) -> Scheduler {
    let mut scheduler = scheduler(2, 1, policy);
    for (job, node) in [(1, 0), (2, 1), (3, 1), (4, 0)] {
        begin(&mut scheduler, 0, job, &[(node, 1)], 100);
    }
    scheduler
}

#[test]
fn connected_jobs_share_their_turns_and_strangers_change_places() {
    let (mut scheduler, mut now_ns) = (crossed(Policy::RoundRobin), 0);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 200 * MS), [[1, 2], [3, 4]]);
    connect(&mut scheduler, now_ns, 3, 1, true);
    // What runs has its slice.
    run_until(&mut scheduler, &mut now_ns, 300 * MS);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 500 * MS), [[1, 3], [2, 4]]);
    // They stay together when others come, go, are suspended, and end.
    begin(&mut scheduler, now_ns, 5, &[(0, 1)], 100);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 800 * MS), [vec![1, 3], vec![2, 4], vec![2, 5]]);
    scheduler.suspend(now_ns, JobId(3));
    run_until(&mut scheduler, &mut now_ns, 1_500 * MS);
    scheduler.resume(now_ns, JobId(3));
    run_until(&mut scheduler, &mut now_ns, 3_000 * MS);
    let rows = run_until(&mut scheduler, &mut now_ns, 3_500 * MS);
    assert!(rows.iter().all(|row| row.contains(&1) == row.contains(&3)), "{rows:?}");
    assert!(rows.len() <= 3 && (1..=5).all(|job| rows.iter().any(|row| row.contains(&job))), "{rows:?}");
    scheduler.end(now_ns, JobId(2));
    run_until(&mut scheduler, &mut now_ns, 3_600 * MS);
    let rows = run_until(&mut scheduler, &mut now_ns, 4_000 * MS);
    assert_eq!(rows, [vec![1, 3], vec![4], vec![5]]);
    // Alone job 3 fills holes again.
    connect(&mut scheduler, now_ns, 1, 3, false);
    run_until(&mut scheduler, &mut now_ns, 5_500 * MS);
    let rows = run_until(&mut scheduler, &mut now_ns, 6_000 * MS);
    assert_eq!(rows, [vec![1, 3], vec![3, 4], vec![3, 5]]);
}

#[test]
fn connected_jobs_of_one_queue_share_a_row_of_the_tree() {
    let mut scheduler = scheduler(2, 2, Policy::Dqt);
    for (job, place) in [(1, [(0, 1), (1, 1)]), (2, [(0, 1), (1, 1)]), (3, [(0, 1), (1, 1)])] {
        begin(&mut scheduler, 0, job, &place, 100);
    }
    let mut now_ns = 0;
    connect(&mut scheduler, now_ns, 3, 1, true);
    run_until(&mut scheduler, &mut now_ns, 100 * MS);
    let rows = run_until(&mut scheduler, &mut now_ns, 500 * MS);
    assert!(rows.iter().all(|row| row.contains(&1) == row.contains(&3)), "{rows:?}");
}

#[test]
fn connected_jobs_of_the_halves_of_a_partition_have_the_same_turns_by_the_tree() {
    let (mut scheduler, mut now_ns) = (crossed(Policy::Dqt), 0);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 200 * MS), [[1, 2], [3, 4]]);
    connect(&mut scheduler, now_ns, 3, 1, true);
    run_until(&mut scheduler, &mut now_ns, 1_200 * MS);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 1_500 * MS), [[1, 3], [2, 4]]);
    connect(&mut scheduler, now_ns, 1, 3, false);
    run_until(&mut scheduler, &mut now_ns, 2_700 * MS);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 3_000 * MS), [[1, 2], [3, 4]]);
}

/// Two halves further down, and one that has fewer rows than the other.
#[test]
fn connected_jobs_of_distant_parts_have_the_same_turns_by_the_tree() {
    let mut scheduler = scheduler(4, 1, Policy::Dqt);
    for (job, node) in [(1, 0), (2, 0), (3, 0), (4, 2), (5, 3), (6, 3)] {
        begin(&mut scheduler, 0, job, &[(node, 1)], 100);
    }
    let mut now_ns = 0;
    connect(&mut scheduler, now_ns, 3, 6, true);
    run_until(&mut scheduler, &mut now_ns, 100 * MS);
    let rows = scheduler.plan().rows;
    let home = rows.iter().filter(|row| row.contains(&JobId(3)));
    assert_eq!(rows.len(), 3, "no more than before: {rows:?}");
    assert!(home.clone().count() > 0 && home.clone().all(|row| row.contains(&JobId(6))), "{rows:?}");
}

/// All of a queue's rows are run, and then those of the halves of its partition.
#[test]
fn connected_jobs_of_a_partition_and_of_one_inside_have_turns_of_their_own_by_the_tree() {
    let mut scheduler = scheduler(2, 2, Policy::Dqt);
    begin(&mut scheduler, 0, 1, &[(0, 1), (1, 1)], 100);
    begin(&mut scheduler, 0, 2, &[(0, 2)], 100);
    let mut now_ns = 0;
    connect(&mut scheduler, now_ns, 1, 2, true);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 1_500 * MS), [[1], [2]]);
}

/// A light job beside a heavy one costs nobody anything; two heavy ones in two rows would.
#[test]
fn connected_jobs_of_the_tree_take_nothing_from_the_shares_of_others() {
    let mut scheduler = scheduler(2, 1, Policy::Dqt);
    for (job, node, weight) in [(1, 0, 100), (2, 1, 100), (3, 1, 300), (4, 0, 300)] {
        begin(&mut scheduler, 0, job, &[(node, 1)], weight);
    }
    let mut now_ns = 0;
    connect(&mut scheduler, now_ns, 1, 3, true);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 1_500 * MS), [[1, 2], [3, 4]]);
}

#[test]
fn connected_jobs_on_the_same_slots_run_in_turns_as_before() {
    let mut scheduler = scheduler(2, 1, Policy::RoundRobin);
    begin(&mut scheduler, 0, 1, &[(0, 1)], 100);
    begin(&mut scheduler, 0, 2, &[(0, 1), (1, 1)], 100);
    let mut now_ns = 0;
    connect(&mut scheduler, now_ns, 1, 2, true);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 500 * MS), [[1], [2]]);
}

/// Jobs 3 and 4 would have half of the time instead of three quarters, if both were not in one row.
#[test]
fn connected_jobs_take_nothing_from_the_shares_of_others() {
    let mut scheduler = scheduler(2, 1, Policy::RoundRobin);
    for (job, node, weight) in [(1, 0, 100), (2, 1, 100), (3, 1, 300), (4, 0, 300)] {
        begin(&mut scheduler, 0, job, &[(node, 1)], weight);
    }
    let mut now_ns = 0;
    connect(&mut scheduler, now_ns, 1, 3, true);
    assert_eq!(run_until(&mut scheduler, &mut now_ns, 1_000 * MS), [[1, 2], [3, 4]]);
}

/// Jobs that connect and part all the time change the rows once a second at most.
#[test]
fn connected_jobs_are_brought_together_once_a_second_at_most() {
    let (mut scheduler, mut now_ns) = (crossed(Policy::RoundRobin), 0);
    run_until(&mut scheduler, &mut now_ns, 100 * MS);
    let before = scheduler.version().0;
    while now_ns < 5_000 * MS {
        let together = now_ns / (10 * MS) % 4;
        for other in [2, 3] {
            connect(&mut scheduler, now_ns, 1, other, together == other);
        }
        let next_ns = now_ns + 10 * MS;
        run_until(&mut scheduler, &mut now_ns, next_ns);
    }
    let changes = scheduler.version().0 - before;
    assert!(changes <= 6, "{changes} changes in 5 s");
}

#[test]
fn connected_jobs_never_need_more_rows() {
    for seed in 1..200 {
        let mut random = Random::new(seed);
        let (nodes, slots) = (1 + random.below(4) as u32, 1 + random.below(4) as u32);
        let mut scheduler = scheduler(nodes, slots, Policy::RoundRobin);
        let jobs = 2 + random.below(10);
        for job in 1..=jobs {
            let mut ranks = |_: u32| 1 + random.below(u64::from(slots)) as u32;
            let place: Vec<(u32, u32)> =
                (0..nodes).map(|node| (node, ranks(node))).filter(|(_, ranks)| ranks % 2 == 1).collect();
            let place = if place.is_empty() { vec![(0, 1)] } else { place };
            begin(&mut scheduler, 0, job, &place, 100);
        }
        let mut now_ns = 0;
        run_until(&mut scheduler, &mut now_ns, 50 * MS);
        for round in 0..6 {
            let rows = scheduler.plan().rows.len();
            let (one, other) = (1 + random.below(jobs), 1 + random.below(jobs));
            connect(&mut scheduler, now_ns, one, other, true);
            let next_ns = now_ns + 1_500 * MS;
            run_until(&mut scheduler, &mut now_ns, next_ns);
            let plan = scheduler.plan().rows;
            assert!(plan.len() <= rows, "seed {seed}, round {round}: {rows} rows, then {plan:?}");
        }
    }
}
