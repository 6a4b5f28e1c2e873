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
    let cluster = Cluster::up("board", 3, &[]);
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
