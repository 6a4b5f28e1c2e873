//! Launches that are connected to each other get the same turns, for as long as they are.

use std::collections::BTreeSet;

use serde_json::Value;
use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::{Running, await_that};

/// Slices in which two jobs have begun alike.
const TURNS: usize = 10;

/// Jobs that a job is connected to.
fn connected(cluster: &Cluster, job: u32) -> Vec<u64> {
    let rows: Value = serde_json::from_str(&cluster.job(job)).expect("JSON");
    let row = if rows.is_array() { &rows[0] } else { &rows };
    let jobs = row["connected"].as_array().expect("a list of jobs");
    jobs.iter().map(|job| job.as_u64().expect("a number")).collect()
}

/// The generations in which a job was thawed on a node.
fn thaws(cluster: &Cluster, job: u64, node: &str) -> BTreeSet<u64> {
    let log = std::fs::read_to_string(cluster.folder.join("turns.jsonl")).unwrap_or_default();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_node = lines.filter(|line| line["node"] == node);
    let turns = of_node.flat_map(|line| line["turns"].as_array().cloned().unwrap_or_default());
    let of_job = turns.filter(|turn| turn[0] == "thaw" && turn[3] == job);
    of_job.filter_map(|turn| turn[2].as_u64()).collect()
}

/// Both were thawed by the same switches lately.
fn take_turns_together(cluster: &Cluster, one: (u64, &str), other: (u64, &str)) -> bool {
    let (one, other) = (thaws(cluster, one.0, one.1), thaws(cluster, other.0, other.1));
    let (Some(last), Some(last_other)) = (one.last(), other.last()) else { return false };
    let end = *last.min(last_other);
    let lately = |of: &BTreeSet<u64>| -> Vec<u64> { of.range(..=end).rev().take(TURNS).copied().collect() };
    let (one, other) = (lately(&one), lately(&other));
    one.len() == TURNS && one == other
}

/// First come, first served puts job 1 with job 2, and 3 with 4. Jobs 1 and 3 connect to each other.
#[test]
fn connected_launches_have_the_same_turns_until_they_part() {
    let scratch = Scratch::new("connected-files");
    let launches = compile("tests/processes/programs/launches.c", scratch.path());
    let cluster = Cluster::up("connected", 2, &["--slots", "1", "--slice", "20"]);
    let (launches, file) = (launches.to_str().expect("text"), scratch.path().join("port"));
    let file = file.to_str().expect("text");
    let page_file = scratch.path().join("turns.html");
    let page_file = page_file.to_str().expect("text");
    let start = |job: u32, node: &str, words: &[&str]| -> Running {
        let running = cluster.start(&[&["run", "-H", node, "-n", "1"], words].concat());
        await_that("the job runs", || cluster.job(job).contains("\"running\""));
        running
    };
    let busy = ["sh", "-c", "while :; do :; done"];
    let first = start(1, "node0", &[launches, "accept", file, "together"]);
    let others = [
        start(2, "node1", &busy),
        start(3, "node1", &[launches, "connect", file, "together"]),
        start(4, "node0", &busy),
    ];
    await_that("they are connected", || connected(&cluster, 1) == [3] && connected(&cluster, 3) == [1]);
    assert!(connected(&cluster, 2).is_empty() && connected(&cluster, 4).is_empty());
    let why = cluster.tutti(&["why", "1"]).stdout;
    assert!(why.contains("connected to job 3"), "{why}");
    let list = cluster.tutti(&["ps", "-l"]).stdout;
    let lines: Vec<&str> = list.lines().filter(|line| line.contains("connected")).collect();
    assert_eq!(lines, ["job 1 is connected to job 3", "job 3 is connected to job 1"], "{list}");
    let page = || {
        cluster.tutti(&["timeline", "--all", "-o", page_file]).expect_success();
        std::fs::read_to_string(page_file).expect("a page")
    };
    let text = page();
    assert!(text.contains("connected to job 3") && text.contains("connected to job 1"), "{text}");
    assert!(!text.contains("no longer connected"), "{text}");
    if crate::gangs::cgroup(&others[0]).is_some() {
        let (one, other) = ((1, "node0"), (3, "node1"));
        await_that("both are thawed together", || take_turns_together(&cluster, one, other));
    } else {
        skip(Need::Cgroup, "no cgroup can be made here");
    }
    std::fs::write(format!("{file}.part"), "").expect("a file in the scratch folder");
    await_that("they have parted", || connected(&cluster, 1).is_empty() && connected(&cluster, 3).is_empty());
    let text = page();
    for job in [1, 3] {
        assert!(text.contains(&format!("no longer connected to job {job}")), "{text}");
    }
    cluster.tutti(&["kill", "1", "2", "3", "4"]).expect_success();
    for running in others.into_iter().chain([first]) {
        assert_eq!(running.end().0, 137);
    }
}
