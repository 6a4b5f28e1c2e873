//! Log of turns, as the controller writes it.

use std::collections::{BTreeMap, BTreeSet};

use crate::Cluster;
use crate::harness::{LIMIT, Running, await_that};
use crate::turns::Turns;

/// A turn in the log. Its times are of the machine's monotonic clock, in us: all nodes have the same.
#[derive(Clone, Debug)]
pub struct Turn {
    pub node: String,
    pub what: String,
    pub generation: u64,
    pub job: u64,
    pub from_us: u64,
    pub to_us: u64,
}

/// The turns of each node in order.
pub fn read(cluster: &Cluster) -> Vec<Turn> {
    let text = std::fs::read_to_string(cluster.folder.join("turns.jsonl")).unwrap_or_default();
    let mut turns = Vec::new();
    // A line that is being written is looked at next time.
    for line in text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        let node = line["node"].as_str().expect("a node");
        let clock_us = line["clock_us"].as_u64().expect("a time");
        for turn in line["turns"].as_array().expect("turns") {
            let number = |at: usize| turn[at].as_u64().expect("a number");
            let from_us = clock_us + number(1);
            turns.push(Turn {
                node: node.to_owned(),
                what: turn[0].as_str().expect("what").to_owned(),
                generation: number(2),
                job: number(3),
                from_us,
                to_us: from_us + number(4),
            });
        }
    }
    turns
}

/// How often, by the log, a job has been let go on a node.
pub fn thaws(cluster: &Cluster) -> usize {
    thaws_since(cluster, 0)
}

/// Number of thaws after this moment of the monotonic clock.
pub fn thaws_since(cluster: &Cluster, since_us: u64) -> usize {
    read(cluster).iter().filter(|turn| turn.what == "thaw" && turn.from_us >= since_us).count()
}

/// Two jobs on so many nodes that have taken turns; none where no cgroup can be made.
#[track_caller]
pub fn two_jobs(cluster: &Cluster, nodes: u32, ranks: u32) -> Option<[Running; 2]> {
    let (count, all) = (nodes.to_string(), ranks.to_string());
    let jobs = [1, 2].map(|job| {
        let running = cluster.start(&["run", "-N", &count, "-n", &all, "sh", "-c", "while :; do :; done"]);
        await_that("it runs", || cluster.job(job).contains("\"running\""));
        // Its front end, its starters, its ranks.
        let due = (1 + nodes + ranks) as usize;
        await_that("its processes are there", || running.mark.processes().len() >= due);
        running
    });
    Turns::of(&[&jobs[0], &jobs[1]])?.await_more(30, LIMIT);
    Some(jobs)
}

/// Generations in which a job may still be on its way to one of its nodes.
const ARRIVING: usize = 10;

/// By generation and node: which jobs were thawed there.
type Thawed = BTreeMap<u64, BTreeMap<String, BTreeSet<u64>>>;

// Paper: S20, R3
#[test]
fn gang_nodes_run_the_same_job_in_every_generation() {
    let cluster = Cluster::up("gang-same", 2, &["--slice", "5", "--slots", "2"]);
    let Some(_jobs) = two_jobs(&cluster, 2, 4) else { return };
    // A node that a crowded machine keeps from its switch for a slice has missed it; of 100 in a row hardly
    // one is missed as soon as it is not.
    await_that("both nodes have been in 98 of 100 generations, with the same job", || {
        let mut thawed = Thawed::new();
        for turn in read(&cluster).into_iter().filter(|turn| turn.what == "thaw") {
            thawed.entry(turn.generation).or_default().entry(turn.node).or_default().insert(turn.job);
        }
        let both = |nodes: &BTreeMap<_, _>| nodes.len() == 2;
        // At the end nodes have told of their turns for different times.
        let last = thawed.values().rposition(both).unwrap_or(0);
        let in_both = thawed.into_iter().take(last).skip(ARRIVING).map(|(generation, nodes)| {
            if both(&nodes) {
                assert_eq!(nodes["node0"], nodes["node1"], "generation {generation}");
            }
            both(&nodes)
        });
        let in_both: Vec<bool> = in_both.collect();
        in_both.windows(100).any(|some| some.iter().filter(|is| **is).count() >= 98)
    });
}
