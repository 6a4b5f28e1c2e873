//! Gangs where no cgroup can be made: their processes are stopped by signals.

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::{Need, skip};

use crate::Cluster;
use crate::harness::{RANK, Running, await_that, state_of};
use crate::traffic::Traffic;

#[track_caller]
fn up(name: &str, nodes: u32, more: &[&str]) -> Option<Cluster> {
    let cluster = Cluster::up_without_cgroups(name, nodes, more);
    if cluster.is_none() {
        skip(Need::MountNamespace, "no mount namespaces here");
    }
    cluster
}

/// Processes of a job that loop.
fn loops(job: &Running) -> Vec<Pid> {
    let is_loop = |pid: &Pid| {
        std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
            .is_ok_and(|line| line.starts_with(b"sh\0-c\0while"))
    };
    job.mark.processes().into_iter().filter(is_loop).collect()
}

fn is_stopped(pids: &[Pid]) -> bool {
    pids.iter().all(|pid| state_of(*pid) == Some('T'))
}

fn runs(pids: &[Pid]) -> bool {
    pids.iter().all(|pid| state_of(*pid) == Some('R'))
}

/// Two jobs of two ranks each that loop, and their ranks.
#[track_caller]
fn two_jobs(cluster: &Cluster) -> [(Running, Vec<Pid>); 2] {
    [1, 2].map(|number| {
        let job = cluster.start(&["run", "-N", "2", "-n", "4", "sh", "-c", "while :; do :; done"]);
        await_that("it runs", || cluster.job(number).contains("\"running\""));
        await_that("its ranks work", || loops(&job).len() == 4);
        let pids = loops(&job);
        (job, pids)
    })
}

#[test]
fn signals_switch_jobs_without_cgroups() {
    let Some(cluster) = up("gang-signals", 2, &["--slice", "5"]) else { return };
    let traffic = Traffic::new("gang-signals");
    let jobs: Vec<_> = (1..=2).map(|job| traffic.start(&cluster, job, 2, 4, None)).collect();
    let ranks: Vec<Vec<Pid>> = jobs.iter().map(ranks_of).collect();
    for _ in 0..50 {
        await_that("the second stands still", || is_stopped(&ranks[1]));
        await_that("the first stands still", || is_stopped(&ranks[0]));
    }
    cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
    traffic.end(jobs);
}

/// PMIx servers of the jobs are stopped with them, which is no fault of the jobs.
#[test]
fn signals_switch_jobs_of_open_mpi_without_cgroups() {
    let Some(traffic) = Traffic::of_open_mpi("gang-signals-open-mpi") else { return };
    let Some(cluster) = up("gang-signals-open-mpi", 2, &["--slice", "100"]) else { return };
    let jobs: Vec<_> = (1..=2).map(|job| traffic.start(&cluster, job, 2, 4, None)).collect();
    let ranks: Vec<Vec<Pid>> = jobs.iter().map(ranks_of).collect();
    for _ in 0..30 {
        await_that("the second stands still", || is_stopped(&ranks[1]));
        await_that("the first stands still", || is_stopped(&ranks[0]));
    }
    traffic.end(jobs);
}

#[test]
fn signals_idle_gang_is_found_without_cgroups() {
    // Its slice is an hour: whoever runs beside it runs because it was found idle.
    let Some(cluster) = up("gang-signals-idle", 2, &["--slice", "3600000"]) else { return };
    let still = cluster.start(&["run", "-N", "2", "-n", "2", "sleep", "3600"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(still.end().0, 137);
}

fn ranks_of(job: &Running) -> Vec<Pid> {
    let named = |pid: &Pid| {
        std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
            .is_ok_and(|comm| comm == "traffic\n")
    };
    job.mark.processes().into_iter().filter(named).collect()
}

#[test]
fn signals_keep_processes_stopped_by_a_user() {
    let Some(cluster) = up("gang-stopped", 2, &["--slice", "20"]) else { return };
    let [(one, first), (other, second)] = two_jobs(&cluster);
    // A user's SIGSTOP that comes in the process's own turn stays. One that comes in the other's turn, or
    // while the turn changes, is one with the switch's and ends with it: then the user stops it again.
    let is_kept = |turns| {
        (0..turns).all(|_| {
            await_that("the second runs", || runs(&second) && is_stopped(&first));
            await_that("the first runs, but for the one", || runs(&first[1..]) && is_stopped(&second));
            state_of(first[0]) == Some('T')
        })
    };
    let stop_in_its_turn = || {
        await_that("the first runs", || runs(&first[1..]) && is_stopped(&second));
        kill_process(first[0], Signal::STOP).expect("it lives");
        is_kept(1)
    };
    assert!((0..20).any(|_| stop_in_its_turn()), "a SIGSTOP in its own turn never stays");
    assert!(is_kept(5), "a user has stopped it");
    cluster.tutti(&["suspend", "2"]).expect_success();
    await_that("it stands still, the other runs", || is_stopped(&second) && runs(&first[1..]));
    cluster.tutti(&["resume", "2"]).expect_success();
    await_that("it runs again", || runs(&second));
    for (number, job) in [("1", one), ("2", other)] {
        cluster.tutti(&["kill", number]).expect_success();
        assert_eq!(job.end().0, 137);
    }
}

#[test]
fn signals_stopped_jobs_continue_when_a_daemon_is_killed() {
    let Some(cluster) = up("gang-signals-lost", 2, &["--slice", "5", "--lost-after", "30"]) else { return };
    let [(one, first), (other, second)] = two_jobs(&cluster);
    await_that("they take turns", || is_stopped(&first));
    await_that("they take turns", || is_stopped(&second));
    kill_process(cluster.daemon(0), Signal::KILL).expect("it lives");
    kill_process(cluster.daemon(1), Signal::KILL).expect("it lives");
    await_that("all run", || first.iter().chain(&second).all(|pid| state_of(*pid) != Some('T')));
    for job in [one, other] {
        job.mark.processes().into_iter().for_each(|pid| _ = kill_process(pid, Signal::KILL));
        job.mark.assert_nothing_left();
    }
}
