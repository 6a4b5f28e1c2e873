//! What happens when a daemon dies.

use rustix::process::{Signal, kill_process};

use tutti_tests::Scratch;

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{RANK, Running, await_that, cgroup_of, state_of};

#[test]
fn a_lost_node_ends_its_jobs_with_one_line_and_no_others() {
    let cluster = Cluster::up("cluster-lost", 4, &["--lost-after", "4", "--keep-for", "1"]);
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

/// Lines that each rank of [`outlives`] writes before the daemon dies, and again after.
const LINES: usize = 600;

/// A job of all four nodes, asked for on the third, while the daemons of some of them are replaced.
#[track_caller]
fn outlives(name: &str, replaced: &[u32]) {
    let cluster = Cluster::up(name, 4, &[&SLOWLY_LOST, &["--arity", "2"][..]].concat());
    let scratch = Scratch::new(&format!("{name}-files"));
    let file = scratch.path().join("go");
    let (spray, go) = (format!("spray={LINES},100"), format!("await={}", file.display()));
    let words = ["run", "-N", "4", "-n", "8", "-l", RANK, "say=up", &spray, &go, &spray, "say=done"];
    let mut job = Running::start_command(&mut cluster.command_on(2, &words));
    (0..8).for_each(|rank| job.await_line(&format!("[{rank}] up")));
    for node in replaced {
        cluster.replace(*node);
    }
    await_that("the cluster is whole, and has its job", || {
        let rows = cluster.tutti(&["nodes"]).stdout;
        rows.lines().count() == 5 && !rows.contains(" lost ") && cluster.job(1).contains("\"running\"")
    });
    std::fs::write(&file, "").expect("a file");
    (0..8).for_each(|rank| job.await_line(&format!("[{rank}] done")));
    let (status, said, seen) = job.end_with_output();
    assert_eq!((status, said.as_str()), (0, ""));
    for rank in 0..8 {
        let start = format!("[{rank}] ");
        let lines = seen.iter().filter(|line| line.starts_with(&start)).count();
        assert_eq!(lines, 2 * LINES + 2, "rank {rank}");
    }
    await_that("it is over", || cluster.job(1).contains("\"over\""));
}

#[test]
fn a_job_outlives_the_daemon_of_a_leaf() {
    outlives("cluster-leaf", &[3]);
}

#[test]
fn a_job_outlives_the_daemon_of_an_inner_node() {
    outlives("cluster-inner", &[1]);
}

#[test]
fn a_job_outlives_the_head() {
    outlives("cluster-head", &[0]);
}

#[test]
fn a_job_outlives_all_daemons_but_its_home() {
    outlives("cluster-all", &[1, 0, 3]);
}

#[test]
fn a_job_whose_home_is_started_anew_goes_on_and_its_output_is_kept() {
    let cluster = Cluster::up("cluster-home", 2, &SLOWLY_LOST);
    let scratch = Scratch::new("cluster-home-files");
    let file = scratch.path().join("go");
    let go = format!("await={}", file.display());
    cluster.tutti(&["submit", "-N", "2", "-n", "4", RANK, &go, "spray=100,10"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.replace(0);
    await_that("it still runs", || cluster.job(1).contains("\"running\""));
    std::fs::write(&file, "").expect("a file");
    await_that("it is over", || cluster.job(1).contains("\"over\""));
    assert!(cluster.job(1).contains("\"status\": 0"), "{}", cluster.job(1));
    assert_eq!(cluster.tutti(&["logs", "1"]).expect_success().stdout.lines().count(), 400);
}

/// The daemon of the second node stands still, so that it cannot take its part of the job, and dies; the next one takes it.
#[track_caller]
fn begins_anew(name: &str, words: &[&str]) {
    let cluster = Cluster::up(name, 2, &SLOWLY_LOST);
    kill_process(cluster.daemon(1), Signal::STOP).expect("it lives");
    let job = cluster.start(&[&["run", "-H"], words].concat());
    await_that("it has its nodes", || cluster.job(1).contains("\"starting\""));
    cluster.replace(1);
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn a_job_whose_part_had_not_begun_when_its_daemon_died_begins_with_the_next_one() {
    begins_anew("cluster-unbegun-all", &["node0:2,node1:2", "-n", "4", RANK, "exchange"]);
    begins_anew("cluster-unbegun-one", &["node1:2", "-n", "2", RANK, "attach", "finalize"]);
}

#[test]
fn a_daemon_ends_what_a_dead_one_and_its_starter_have_left() {
    let cluster = Cluster::up("cluster-sweep", 2, &SLOWLY_LOST);
    let job = cluster.start(&["run", "-N", "2", "-n", "2", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let ranks: Vec<_> = job.mark.processes();
    let cgroups: Vec<_> = ranks.iter().filter_map(|pid| cgroup_of(*pid)).collect();
    let daemon = cluster.daemon(1);
    let is_its = |pid: &rustix::process::Pid| parent(*pid) == daemon && crate::jobs::is_starter(*pid);
    let starter = ranks.iter().copied().find(is_its).expect("its starter");
    kill_process(daemon, Signal::STOP).expect("it lives");
    kill_process(starter, Signal::KILL).expect("it lives");
    await_that("the starter is dead", || state_of(starter).is_none_or(|state| state == 'Z'));
    cluster.replace(1);
    let (status, said) = job.end();
    assert_eq!(said, "tutti run: the ranks on node node1 were lost with its daemon; the job is ended\n");
    assert_eq!(status, 1);
    await_that("its cgroups are gone", || cgroups.iter().all(|path| !path.exists()));
    await_that("nothing of it is kept", || {
        std::fs::read_dir(cluster.folder.join("node1.parts")).expect("its folder").count() == 0
    });
}

pub fn parent(pid: rustix::process::Pid) -> rustix::process::Pid {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let parent = text.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok()).unwrap_or(1);
    rustix::process::Pid::from_raw(parent).unwrap_or(pid)
}
