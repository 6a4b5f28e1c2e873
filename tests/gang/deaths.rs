//! Deaths while jobs take turns: of daemons, starters, ranks, front ends, at any moment. Nobody stays frozen,
//! jobs that are not hit go on, and their messages are right.

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::Random;

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{Running, await_that};
use crate::log::{read, two_jobs};
use crate::traffic::Traffic;
use crate::turns::{Turns, groups};

/// Some moment within two slices: between the steps of a switch, in the middle of one, in a turn.
fn pause(random: &mut Random) {
    std::thread::sleep(std::time::Duration::from_micros(random.below(10_000)));
}

/// Job that ends with its test, where no daemon ends it any more.
struct Left<'a>(&'a Running);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        let frozen = groups(self.0);
        // Frozen ones too.
        frozen.iter().for_each(|group| _ = std::fs::write(group.join("cgroup.kill"), "1"));
    }
}

#[test]
fn frozen_jobs_are_thawed_when_a_daemon_is_killed() {
    // The jobs' front ends end when the controller has lost the node.
    let cluster = Cluster::up("gang-orphans", 2, &["--slice", "5", "--lost-after", "6", "--keep-for", "1"]);
    let words = ["run", "-N", "1", "-host", "node1", "-n", "2", "sh", "-c", "while :; do :; done"];
    let jobs: Vec<_> = (1..=2)
        .map(|job| {
            let running = cluster.start(&words);
            await_that("it runs", || cluster.job(job).contains("\"running\""));
            await_that("it is there", || running.mark.processes().len() >= 3);
            running
        })
        .collect();
    let Some(mut turns) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
    turns.await_more(10, crate::harness::LIMIT);
    let orphans: Vec<_> = jobs.iter().map(Left).collect();
    kill_process(cluster.daemon(1), Signal::KILL).expect("it lives");
    await_that("both run", || !turns.is_frozen_anywhere(0) && !turns.is_frozen_anywhere(1));
    drop(orphans);
    jobs.iter().for_each(|job| job.mark.assert_nothing_left());
}

/// The daemons of the jobs' nodes live, and one of them has a parent that does: nobody tells them who is to
/// run.
#[test]
fn frozen_jobs_are_thawed_when_the_controller_is_killed() {
    let up = ["--arity", "1", "--slots", "1", "--slice", "20", "--lost-after", "2", "--keep-for", "2"];
    let cluster = Cluster::up("gang-headless", 3, &up);
    let words = ["submit", "-N", "2", "-n", "2", "-host", "node1,node2", "sh", "-c", "while :; do :; done"];
    let jobs: Vec<_> = (1..=2)
        .map(|job| {
            let running = cluster.start(&words);
            await_that("it runs", || cluster.job(job).contains("\"running\""));
            running
        })
        .collect();
    let Some(mut turns) = Turns::of(&[&jobs[0], &jobs[1]]) else { return };
    turns.await_more(4, crate::harness::LIMIT);
    let orphans: Vec<_> = jobs.iter().map(Left).collect();
    let daemons = [1, 2].map(|node| cluster.daemon(node));
    kill_process(cluster.daemon(0), Signal::KILL).expect("it lives");
    await_that("both end on both nodes", || jobs.iter().all(|job| job.mark.processes().is_empty()));
    for (node, daemon) in (1..).zip(daemons) {
        assert!(rustix::process::test_kill_process(daemon).is_ok(), "the daemon of node{node} lives");
        let log = std::fs::read_to_string(cluster.folder.join(format!("node{node}.log"))).expect("its log");
        let said = log.lines().filter(|line| line.contains("has had no message from the controller for"));
        assert_eq!(said.count(), 2, "{log}");
    }
    drop(orphans);
}

/// A daemon that is new hears what the controller has ordered and what jobs are here in some order, and its
/// parent is not the controller.
#[test]
fn strict_switch_resumes_after_a_daemon_restart() {
    let up = ["--arity", "1", "--slice", "20", "--strict"];
    let cluster = Cluster::up("gang-strict-restart", 3, &[&up[..], &SLOWLY_LOST[..]].concat());
    let words = ["run", "-N", "1", "-host", "node2", "-n", "2", "sh", "-c", "while :; do :; done"];
    let jobs: Vec<_> = (1..=2)
        .map(|job| {
            let running = cluster.start(&words);
            await_that("it runs", || cluster.job(job).contains("\"running\""));
            await_that("it is there", || running.mark.processes().len() >= 3);
            running
        })
        .collect();
    // Each for itself: where a switch never ends one of them may go on.
    let all: Option<Vec<_>> = jobs.iter().map(|job| Turns::of(&[job])).collect();
    let Some(mut all) = all else { return };
    for _ in 0..5 {
        all.iter_mut().for_each(|turns| turns.await_more(3, crate::harness::LIMIT));
        cluster.replace(2);
    }
    all.iter_mut().for_each(|turns| turns.await_more(3, crate::harness::LIMIT));
    cluster.tutti(&["kill", "1", "2"]).expect_success();
    jobs.into_iter().for_each(|job| assert_eq!(job.end().0, 137));
}

/// A user may stop the starter of a job: then nobody answers for its channels, which others do not wait for.
#[test]
fn strict_switch_does_not_wait_for_a_stopped_starter() {
    let cluster = Cluster::up("gang-strict-mute", 2, &["--slice", "20", "--slots", "1", "--strict"]);
    let Some(jobs) = two_jobs(&cluster, 2, 2) else { return };
    let starter = jobs[0].mark.processes().into_iter().find(|pid| is_named(pid, "tutti-starter"));
    let starter = starter.expect("a job has starters");
    let Some(mut turns) = Turns::of(&[&jobs[1]]) else { return };
    kill_process(starter, Signal::STOP).expect("it lives");
    turns.await_more(30, crate::harness::LIMIT);
    kill_process(starter, Signal::CONT).expect("it lives");
    let tested = |node: &str| {
        let log = read(&cluster);
        log.iter().filter(|turn| turn.what == "steady" && turn.job == 1 && turn.node == node).count()
    };
    let before = ["node0", "node1"].map(tested);
    await_that("its channels are tested again on both nodes", || {
        ["node0", "node1"].map(tested).iter().zip(before).all(|(now, before)| *now >= before + 3)
    });
    cluster.tutti(&["kill", "1", "2"]).expect_success();
    jobs.into_iter().for_each(|job| assert_eq!(job.end().0, 137));
}

/// Fault of a job.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A rank is killed.
    Rank,
    /// A starter is killed.
    Starter,
    /// Job killed by its number.
    Job,
    /// Front end of the job ordered to end.
    Terminated,
    /// Front end of the job killed.
    FrontEnd,
    /// Job at a standstill for a while, then a rank is killed.
    Suspended,
}

const FAULTS: [Fault; 6] =
    [Fault::Rank, Fault::Starter, Fault::Job, Fault::Terminated, Fault::FrontEnd, Fault::Suspended];

fn is_named(pid: &Pid, name: &str) -> bool {
    let file = format!("/proc/{}/comm", pid.as_raw_nonzero());
    std::fs::read_to_string(file).is_ok_and(|comm| comm.trim_end() == name)
}

#[track_caller]
fn strike(cluster: &Cluster, job: Running, number: u32, fault: Fault, random: &mut Random) {
    let number = number.to_string();
    let processes = job.mark.processes();
    let kill_one = |name: &str, random: &mut Random| {
        let named: Vec<_> = processes.iter().filter(|pid| is_named(pid, name)).collect();
        let pid = *named[random.below(named.len() as u64) as usize];
        pause(random);
        kill_process(pid, Signal::KILL).expect("it lives");
    };
    match fault {
        Fault::Rank => kill_one("traffic", random),
        Fault::Starter => kill_one("tutti-starter", random),
        Fault::Job => {
            pause(random);
            cluster.tutti(&["kill", &number]).expect_success();
        }
        Fault::Terminated => {
            pause(random);
            job.signal(Signal::TERM);
        }
        Fault::FrontEnd => {
            pause(random);
            job.signal(Signal::KILL);
        }
        Fault::Suspended => {
            cluster.tutti(&["suspend", &number]).expect_success();
            kill_one("traffic", random);
        }
    }
    let left = groups(&job);
    let (status, said) = job.end();
    let expected = match fault {
        Fault::Rank | Fault::Suspended | Fault::Job | Fault::FrontEnd => 137,
        Fault::Starter => 1,
        Fault::Terminated => 143,
    };
    assert_eq!(status, expected, "{fault:?}: {said}");
    assert!(said.lines().count() <= 1, "{fault:?}: {said}");
    await_that("its cgroups are gone", || left.iter().all(|group| !group.exists()));
}

/// Each fault hits a job while it takes turns with another one, at a random moment; the other one does not
/// notice.
#[track_caller]
fn survives(name: &str, up: &[&str]) {
    let cluster = Cluster::up(name, 2, &[&["--slice", "5"], up].concat());
    let (traffic, hit) = (Traffic::new(name), Traffic::new(&format!("{name}-hit")));
    let bystander = traffic.start(&cluster, 1, 2, 4, None);
    let seed = tutti_testkit::seed();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    for (job, fault) in FAULTS.into_iter().enumerate() {
        let running = hit.start(&cluster, 2, 2, 4, None);
        let Some(mut turns) = Turns::of(&[&bystander, &running]) else { return };
        turns.await_more(4, crate::harness::LIMIT);
        strike(&cluster, running, job as u32 + 2, fault, &mut random);
    }
    traffic.end(vec![bystander]);
}

#[test]
fn strict_switch_job_death_in_any_phase_harms_no_other_job() {
    survives("gang-faults-strict", &["--strict"]);
}

#[test]
fn overlapped_switch_job_death_in_any_phase_harms_no_other_job() {
    survives("gang-faults", &[]);
}
