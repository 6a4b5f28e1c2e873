//! What happens when a daemon dies.

use rustix::process::{Signal, kill_process};

use crate::Cluster;
use crate::harness::{RANK, await_that};

#[test]
fn a_lost_node_ends_its_jobs_with_one_line_and_no_others() {
    let cluster = Cluster::up("cluster-lost", 4, &["--lost-after", "1"]);
    // By load: the first two nodes get the first job, the other two the second.
    let lost = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let other = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("the other runs", || cluster.job(2).contains("\"running\""));
    kill_process(cluster.daemon(1), Signal::KILL).expect("it lives");
    let (status, said) = lost.end();
    assert_eq!(
        said,
        "tutti run: node node1 does not answer any more, its ranks are lost; the job is ended\n"
    );
    assert_eq!(status, 1);
    assert!(cluster.job(2).contains("\"running\""));
    other.signal(Signal::TERM);
    assert_eq!(other.end().0, 143);
    let rows = cluster.tutti(&["nodes"]).expect_success().stdout;
    assert_eq!(rows.lines().filter(|line| line.contains(" lost ")).count(), 1, "{rows}");
    cluster.run(&["run", "-N", "3", "-n", "6", RANK, "exchange"]).expect_success();
}
