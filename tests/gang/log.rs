//! What the head's log of turns says.

use std::collections::{BTreeMap, BTreeSet};

use crate::Cluster;
use crate::harness::{LIMIT, Running, await_that};
use crate::turns::Turns;

/// A turn in the log.
struct Turn {
    node: String,
    what: String,
    generation: u64,
    job: u64,
}

fn read(cluster: &Cluster) -> Vec<Turn> {
    let text = std::fs::read_to_string(cluster.folder.join("turns.jsonl")).unwrap_or_default();
    let mut turns = Vec::new();
    // A line that is being written is looked at next time.
    for line in text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
        let node = line["node"].as_str().expect("a node");
        for turn in line["turns"].as_array().expect("turns") {
            turns.push(Turn {
                node: node.to_owned(),
                what: turn[0].as_str().expect("what").to_owned(),
                generation: turn[2].as_u64().expect("a generation"),
                job: turn[3].as_u64().expect("a job"),
            });
        }
    }
    turns
}

/// How often, by the log, a job has been let go on a node.
pub fn thaws(cluster: &Cluster) -> usize {
    read(cluster).iter().filter(|turn| turn.what == "thaw").count()
}

/// Two jobs on two nodes that have taken turns; none where no cgroup can be made.
#[track_caller]
fn two_jobs(cluster: &Cluster) -> Option<[Running; 2]> {
    let jobs = [1, 2].map(|job| {
        let running = cluster.start(&["run", "-N", "2", "-n", "4", "sh", "-c", "while :; do :; done"]);
        await_that("it runs", || cluster.job(job).contains("\"running\""));
        await_that("its processes are there", || running.mark.processes().len() >= 7);
        running
    });
    Turns::of(&[&jobs[0], &jobs[1]])?.await_more(30, LIMIT);
    Some(jobs)
}

#[test]
fn s20_in_no_generation_do_two_nodes_run_different_jobs() {
    let cluster = Cluster::up("gang-same", 2, &["--slice", "5", "--slots", "2"]);
    let Some(_jobs) = two_jobs(&cluster) else { return };
    let mut common = 0;
    await_that("the log has the turns of both nodes", || {
        let mut thawed: BTreeMap<u64, BTreeMap<String, BTreeSet<u64>>> = BTreeMap::new();
        for turn in read(&cluster).into_iter().filter(|turn| turn.what == "thaw") {
            thawed.entry(turn.generation).or_default().entry(turn.node).or_default().insert(turn.job);
        }
        let both = thawed.iter().filter(|(_, nodes)| nodes.len() == 2);
        common = both.clone().count();
        for (generation, nodes) in both {
            assert_eq!(nodes["node0"], nodes["node1"], "generation {generation}");
        }
        common >= 20
    });
    println!("{common} generations");
}

#[test]
fn s23_the_parts_of_a_strict_switch_are_measured() {
    let cluster = Cluster::up("gang-parts", 2, &["--slice", "5", "--slots", "2", "--strict"]);
    let Some(_jobs) = two_jobs(&cluster) else { return };
    await_that("each node has measured freezing and thawing, the head the barriers too", || {
        let turns = read(&cluster);
        let is_there = |node: &str, due: &[&str]| {
            due.iter().all(|part| turns.iter().any(|turn| turn.node == node && turn.what == *part))
        };
        is_there("node1", &["switch", "freeze", "thaw"])
            && is_there("node0", &["switch", "freeze", "thaw", "frozen", "saved", "restored"])
    });
}
