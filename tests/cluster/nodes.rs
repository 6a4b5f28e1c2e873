//! Nodes, their daemons, and who may join.

use tutti_tests::{Scratch, program};

use crate::Cluster;
use crate::harness::LIMIT;

#[test]
fn a_cluster_is_listed_with_its_tree() {
    let cluster = Cluster::up("cluster-nodes", 6, &["--arity", "2"]);
    let rows = cluster.tutti(&["nodes"]).expect_success().stdout;
    let parents: Vec<&str> =
        rows.lines().skip(1).map(|line| line.split_whitespace().nth(5).unwrap_or("")).collect();
    assert_eq!(parents, ["-", "0", "0", "1", "1", "2"], "{rows}");
    cluster.tutti(&["down"]).expect_success();
    assert!(cluster.tutti(&["nodes"]).stderr.starts_with("tutti nodes: no daemon answers at "));
}

#[test]
fn a_daemon_with_another_key_is_no_member() {
    let cluster = Cluster::up("cluster-key", 1, &[]);
    let scratch = Scratch::new("cluster-key-other");
    let key = scratch.path().join("other.key");
    tutti_tests::run(program("tutti").arg("keygen").arg(&key), LIMIT).expect_success();
    let log = std::fs::read_to_string(cluster.folder.join("node0.log")).expect("its log");
    let head = log.lines().next().and_then(|line| line.rsplit(' ').next()).expect("its address").to_owned();
    let mut stranger = program("tuttid");
    stranger.args(["--join", &head, "--listen", "127.0.0.1:0", "--name", "stranger", "--key"]).arg(&key);
    stranger.arg("--dir").arg(scratch.path().join("dir"));
    let mut stranger = stranger.stderr(std::process::Stdio::null()).spawn().expect("tuttid");
    crate::harness::await_that("the head refuses it", || {
        std::fs::read_to_string(cluster.folder.join("node0.log"))
            .is_ok_and(|log| log.contains("is no member of this cluster"))
    });
    stranger.kill().and_then(|()| stranger.wait()).expect("it was ours");
    assert!(!cluster.tutti(&["nodes"]).stdout.contains("stranger"));
}
