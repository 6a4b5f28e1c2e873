//! Jobs take turns: all ranks of one job together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
use tutti_testkit::{Need, skip};

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{Running, await_that, cgroup_of};

/// The cgroup of a running job, which its daemon freezes; none where no cgroup can be made.
pub fn cgroup(job: &Running) -> Option<PathBuf> {
    await_that("its ranks work", || job.mark.processes().iter().any(|pid| is_loop(*pid)));
    cgroups(job).into_iter().next()
}

/// Cgroups of a job on all its nodes.
pub fn cgroups(job: &Running) -> Vec<PathBuf> {
    let ranks = job.mark.processes().into_iter().filter(|pid| is_loop(*pid));
    let found: BTreeSet<PathBuf> = ranks.filter_map(cgroup_of_job).collect();
    found.into_iter().collect()
}

/// Cgroup of the job of a process on its node; none where there are none.
pub fn cgroup_of_job(rank: Pid) -> Option<PathBuf> {
    let is_it =
        |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tutti-job-"));
    cgroup_of(rank)?.ancestors().find(is_it).map(PathBuf::from)
}

pub fn is_loop(pid: Pid) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|line| line.starts_with(b"sh\0-c\0while"))
}

pub fn is_frozen(cgroup: &std::path::Path) -> bool {
    std::fs::read_to_string(cgroup.join("cgroup.events")).is_ok_and(|text| text.contains("frozen 1"))
}

// Paper: S20
#[test]
fn gang_two_jobs_on_the_same_nodes_take_turns() {
    let Some(cluster) = Cluster::on_machines(2, &["--slice", "20"]) else { return };
    let words = ["run", "-N", "2", "-n", "4", "sh", "-c", "while :; do :; done"];
    let one = cluster.start(&words);
    await_that("it is job 1", || cluster.job(1).contains("\"running\""));
    let other = cluster.start(&words);
    let (Some(first), Some(second)) = (cgroup(&one), cgroup(&other)) else {
        skip(Need::Cgroup, "no cgroup can be made here");
        return;
    };
    for _ in 0..5 {
        await_that("the second stands still while the first runs", || {
            is_frozen(&second) && !is_frozen(&first)
        });
        await_that("the first stands still while the second runs", || {
            is_frozen(&first) && !is_frozen(&second)
        });
    }
    // Who is suspended takes no turns, who is alone runs all the time, and what is frozen can be killed.
    cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("the second runs alone", || !is_frozen(&second));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(one.end().0, 137);
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(other.end().0, 137);
}

#[test]
fn gang_deep_tree_job_resumes_after_suspend() {
    let Some(cluster) = Cluster::on_machines(3, &["--arity", "1", "--slice", "20"]) else { return };
    let job = cluster.start(&["run", "-N", "3", "-n", "3", "sh", "-c", "while :; do :; done"]);
    let Some(group) = cgroup(&job) else {
        skip(Need::Cgroup, "no cgroup can be made here");
        return;
    };
    for _ in 0..2 {
        cluster.tutti(&["suspend", "1"]).expect_success();
        await_that("it stands still", || is_frozen(&group));
        cluster.tutti(&["resume", "1"]).expect_success();
        await_that("it goes on", || !is_frozen(&group));
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
}

#[test]
fn gang_part_that_ends_early_does_not_block_its_job() {
    let Some(cluster) = Cluster::on_machines(2, &["--slots", "1", "--slice", "20"]) else { return };
    let forever = cluster.start(&["run", "-N", "2", "-n", "2", "sh", "-c", "while :; do :; done"]);
    await_that("it is job 1", || cluster.job(1).contains("\"running\""));
    // The first rank ends at once, the other one after some slices.
    let script = "n=$((PMI_RANK * 60000)); while [ $n -gt 0 ]; do n=$((n - 1)); done; echo end $PMI_RANK";
    let ran = cluster.run(&["run", "-N", "2", "-n", "2", "sh", "-c", script]).expect_success();
    assert_eq!(ran.stdout.lines().count(), 2, "{ran}");
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(forever.end().0, 137);
}

#[test]
fn gang_turns_continue_after_daemon_restarts() {
    let Some(cluster) = Cluster::on_machines(2, &[&SLOWLY_LOST, &["--slice", "20"][..]].concat()) else {
        return;
    };
    // Nobody waits for them: a front end ends with the daemon that it asks.
    let words = ["submit", "-N", "2", "-n", "4", "sh", "-c", "while :; do :; done"];
    let jobs = [cluster.start(&words), cluster.start(&words)];
    let (Some(first), Some(second)) = (cgroup(&jobs[0]), cgroup(&jobs[1])) else {
        skip(Need::Cgroup, "no cgroup can be made here");
        return;
    };
    for node in [1, 0, 1, 0] {
        for _ in 0..3 {
            await_that("the first runs alone", || is_frozen(&second) && !is_frozen(&first));
            await_that("the second runs alone", || is_frozen(&first) && !is_frozen(&second));
        }
        cluster.replace(node);
        await_that("the cluster is whole and knows both", || {
            let rows = cluster.tutti(&["nodes"]).stdout;
            let running = |job| cluster.job(job).contains("\"running\"");
            rows.lines().count() == 3 && !rows.contains(" lost ") && running(1) && running(2)
        });
    }
    await_that("the first runs alone", || is_frozen(&second) && !is_frozen(&first));
    await_that("the second runs alone", || is_frozen(&first) && !is_frozen(&second));
    cluster.tutti(&["kill", "1", "2"]).expect_success();
    jobs.into_iter().for_each(|job| job.mark.assert_nothing_left());
}
