//! The board: what `tutti board` and programs see of nodes and jobs.

use std::time::Duration;

use tutti_tests::{Scratch, program, root, run};

use crate::Cluster;
use crate::harness::await_that;

fn board(cluster: &Cluster) -> serde_json::Value {
    let shown = cluster.tutti(&["board", "--json"]).expect_success();
    serde_json::from_str(&shown.stdout).expect("it is JSON")
}

// Paper: C15, C16
#[test]
fn board_shows_all_nodes_and_the_jobs_here() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    await_that("all nodes are on the board", || {
        let board = board(&cluster);
        let nodes = board["nodes"].as_array().expect("nodes");
        nodes.len() == 3 && nodes.iter().all(|node| node["state"] == "up" && node["cores"] != 0)
    });
    let scratch = Scratch::new("board-files");
    let path = scratch.path().join("board");
    let mut compiler = program("mpicc");
    compiler.arg("-o").arg(&path).arg(root().join("tests/native/programs/board.c")).arg("-ltutti");
    run(&mut compiler, Duration::from_secs(60)).expect_success();
    let ran = cluster.run(&["run", "-N", "2", "-n", "4", &path.to_string_lossy(), "daemon"]).expect_success();
    assert!(ran.stdout.contains("board: ok\n"), "{ran}");
    await_that("no job is there any more", || board(&cluster)["jobs"].as_array().is_some_and(Vec::is_empty));
    let table = cluster.tutti(&["board"]).expect_success();
    assert!(table.stdout.starts_with("NODE  STATE") && table.stdout.lines().count() == 4, "{table}");
}

/// The jobs that have the processors of a node, as the board of node 0 says.
fn running(cluster: &Cluster, node: usize) -> Vec<u64> {
    let board = board(cluster);
    let named =
        board["nodes"][node]["running"].as_array().map(|jobs| jobs.iter().filter_map(|job| job.as_u64()));
    named.into_iter().flatten().collect()
}

// Paper: C16
#[test]
fn board_names_the_job_on_the_processors_of_another_node() {
    let cluster = Cluster::up("board-running", 3, &["--slots", "1"]);
    // Ranks that compute: those that sleep need no turns.
    let start = || cluster.start(&["run", "-N", "3", "-n", "3", "sh", "-c", "while :; do :; done"]);
    let first = start();
    await_that("node 0 knows that node 2 has the first job", || running(&cluster, 2) == [1]);
    let second = start();
    // One slot a node: they take turns, and no node has both but in the moment of a switch.
    await_that("node 0 sees the second one alone on node 1", || running(&cluster, 1) == [2]);
    await_that("node 0 sees the first one alone on node 1", || running(&cluster, 1) == [1]);
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(first.end().0, 137);
    await_that("the first one has gone from node 2", || running(&cluster, 2) == [2]);
    let table = cluster.tutti(&["board"]).expect_success();
    assert!(table.stdout.lines().next().is_some_and(|head| head.contains(" RUNNING ")), "{table}");
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(second.end().0, 137);
    await_that("no node has a job", || (0..3).all(|node| running(&cluster, node).is_empty()));
}
