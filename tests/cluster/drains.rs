//! Nodes that are drained: what runs there goes on, what comes goes elsewhere or waits.

use std::os::unix::process::CommandExt;

use serde_json::Value;
use tutti_testkit::{Need, skip};

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{LIMIT, await_that};

/// The row of a job.
fn row(cluster: &Cluster, job: u32) -> Value {
    let rows: Value = serde_json::from_str(&cluster.job(job)).unwrap_or_default();
    rows[0].clone()
}

#[track_caller]
fn await_state(cluster: &Cluster, job: u32, state: &str) {
    await_that(&format!("job {job} is {state}"), || row(cluster, job)["state"] == state);
}

#[track_caller]
fn await_reason(cluster: &Cluster, job: u32, why: &str) {
    await_that(&format!("job {job} waits: {why}"), || row(cluster, job)["waits"] == why);
}

/// The states of all nodes, by name: they join in any order.
fn states(cluster: &Cluster) -> Vec<String> {
    let rows = cluster.tutti(&["nodes"]).stdout;
    let columns: Vec<_> = rows.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    let of_nodes = columns.iter().filter(|words| words[0].parse::<u32>().is_ok());
    let mut states: Vec<_> = of_nodes.map(|words| (words[1], words[2].to_owned())).collect();
    states.sort();
    states.into_iter().map(|(_, state)| state).collect()
}

fn submit(cluster: &Cluster, words: &[&str]) {
    cluster.tutti(&[&["submit", "-o", "none"], words].concat()).expect_success();
}

const NEEDS: &str = "it needs 1 node, 0 are not drained (tutti nodes)";

#[test]
fn drained_node_keeps_its_jobs_and_gets_none() {
    let cluster = Cluster::up("drain", 3, &[&["--slots", "1"], &SLOWLY_LOST[..]].concat());
    submit(&cluster, &["--host", "node1", "-n", "1", "sleep", "1000"]);
    await_state(&cluster, 1, "running");
    let ran = cluster.tutti(&["drain", "node1", "--why", "a bad \u{1b}[31mdisk"]).expect_success();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
    assert_eq!(states(&cluster), ["up", "draining", "up"]);
    submit(&cluster, &["-N", "2", "-n", "2", "sleep", "1000"]);
    await_state(&cluster, 2, "running");
    let nodes = &row(&cluster, 2)["nodes"];
    assert!(!nodes.to_string().contains("node1"), "{nodes}");
    submit(&cluster, &["--host", "node1", "-n", "1", "true"]);
    await_reason(&cluster, 3, NEEDS);
    submit(&cluster, &["-N", "3", "-n", "3", "true"]);
    await_reason(&cluster, 4, "it needs 3 nodes, 2 are not drained (tutti nodes)");
    let user = own_name();
    let is_said = || {
        let said = cluster.tutti(&["nodes"]).stdout;
        let line = said.lines().last().unwrap_or_default().to_owned();
        line.starts_with("node1 is drained since ") && line.ends_with(&format!(" by {user}: a bad  [31mdisk"))
    };
    assert!(is_said(), "{}", cluster.tutti(&["nodes"]));
    // The next controller knows it, and so does one whose file was left half written.
    std::fs::write(cluster.state_folder_of(0).join("node0.drained.new"), "{\"node2\":").expect("our folder");
    cluster.replace(0);
    await_that("all nodes are back", || states(&cluster) == ["up", "draining", "up"]);
    assert!(is_said(), "{}", cluster.tutti(&["nodes"]));
    await_reason(&cluster, 3, NEEDS);
    await_state(&cluster, 1, "running");
    let nodes: Value =
        serde_json::from_str(&cluster.tutti(&["nodes", "--json"]).stdout).expect("JSON of nodes");
    for node in nodes.as_array().expect("nodes") {
        let why = if node["name"] == "node1" { "a bad  [31mdisk".into() } else { Value::Null };
        assert_eq!(node["drained"]["why"], why, "{nodes}");
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    await_that("nothing is left there", || states(&cluster) == ["up", "drained", "up"]);
    cluster.tutti(&["undrain", "node1"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "3", "4"]).code(), 0);
    assert_eq!(states(&cluster), ["up", "up", "up"]);
}

/// The name of this user, as commands print it.
fn own_name() -> String {
    let ran = tutti_tests::run(std::process::Command::new("id").arg("-un"), LIMIT);
    ran.expect_success().stdout.trim().to_owned()
}

#[test]
fn drain_of_what_is_none_is_one_line() {
    let cluster = Cluster::up("drain-refused", 2, &SLOWLY_LOST);
    let refused = |words: &[&str], line: &str| {
        let ran = cluster.tutti(words);
        assert_eq!((ran.code(), ran.stderr.as_str()), (1, format!("tutti {}: {line}\n", words[0]).as_str()));
    };
    let unknown = "nowhere is not a node of this cluster; its nodes are node0 node1";
    refused(&["drain", "nowhere", "--why", "x"], unknown);
    refused(&["undrain", "nowhere"], unknown);
    refused(&["undrain", "node1"], "node1 is not drained");
    refused(&["drain", "node1", "--why", " "], "say why the node is drained: --why TEXT");
    let ran = cluster.tutti(&["drain", "node1"]);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (2, 1), "{ran}");
    assert_eq!(states(&cluster), ["up", "up"]);
    // Of several those that are nodes; a long reason is cut; a new one replaces the old one.
    let ran = cluster.tutti(&["drain", "node0", "nowhere", "node1", "--why", &"x".repeat(5000)]);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert_eq!(states(&cluster), ["drained", "drained"]);
    assert!(cluster.tutti(&["nodes"]).stdout.ends_with(&format!(": {}\n", "x".repeat(200))));
    cluster.tutti(&["drain", "node1", "--why", "again"]).expect_success();
    assert!(cluster.tutti(&["nodes"]).stdout.ends_with(": again\n"));
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can be another user");
        return;
    }
    for words in [&["drain", "node1", "--why", "mine"][..], &["undrain", "node1"]] {
        let ran = tutti_tests::run(cluster.command(words).uid(54321).gid(54321), LIMIT);
        let line = "only the owner of the daemons may drain nodes";
        assert_eq!((ran.code(), ran.stderr.as_str()), (1, format!("tutti {}: {line}\n", words[0]).as_str()));
    }
    assert_eq!(states(&cluster), ["drained", "drained"]);
}
