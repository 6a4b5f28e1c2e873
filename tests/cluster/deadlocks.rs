//! Every kind of deadlock is named with its ranks, on one node and on several, in turns too
//! (`../gang/programs/deadlocks.c` makes them). Jobs that only look dead (`healthy.c`) are left alone.

use std::collections::BTreeSet;
use std::fs::File;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Signal, kill_process};

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{Running, await_that};
use crate::steered::Steered;

const FOR_EVER: &str = "the ranks wait for each other for ever: ";
const RANKS: u32 = 4;
/// Starters look every half a second, and once more.
const LOOKS: Duration = Duration::from_millis(2_000);

/// Deadlocks of the program, each with the ranks that must be named and all that never go on.
const KINDS: [Kind; 9] = [
    ("sends", &[0, 1], &[0, 1]),
    ("collectives", &[0], &[0, 1, 2, 3]),
    ("wildcard", &[0, 1], &[0, 1]),
    ("left", &[0, 2], &[0, 2]),
    ("pair", &[0, 1], &[0, 1]),
    ("signal", &[0, 1], &[0, 1]),
    ("signaled", &[0, 1], &[0, 1]),
    ("function", &[0], &[0, 1]),
    ("put", &[0, 1], &[0, 1, 2, 3]),
];

type Kind = (&'static str, &'static [u32], &'static [u32]);

/// The ranks of which a report says what they wait for.
fn named(report: &str) -> BTreeSet<u32> {
    let (_, waits) = report.split_once(FOR_EVER).unwrap_or_else(|| panic!("no deadlock: {report}"));
    let waits = waits.lines().next().unwrap_or_default();
    if let Some(of_the_left) = waits.strip_prefix("ranks ") {
        // ranks 0, 2 wait for ranks that have left, or never were there
        let ranks = of_the_left.split_once(" wait ").map_or("", |(ranks, _)| ranks);
        return ranks.split(", ").filter_map(|rank| rank.parse().ok()).collect();
    }
    waits.split("; ").filter_map(|wait| wait.strip_prefix("rank ")?.split(' ').next()?.parse().ok()).collect()
}

/// The job, when all of its ranks wait for the file.
#[track_caller]
fn started(cluster: &Cluster, program: &Steered, nodes: &str, kind: &str) -> Running {
    let words = ["run", "--on-deadlock", "end", "-N", nodes, "-n", "4"];
    let mut job = cluster.start(&program.words(&words, kind));
    (0..RANKS).for_each(|_| job.await_line("deadlocks: up"));
    job
}

#[track_caller]
fn assert_named(job: Running, (kind, needed, stuck): Kind, nodes: &str) {
    let (status, stderr) = job.end();
    assert_eq!(status, 35, "{kind} on {nodes} nodes: {stderr}");
    let (named, set) = (named(&stderr), |ranks: &[u32]| ranks.iter().copied().collect());
    let is_right = named.is_superset(&set(needed)) && named.is_subset(&set(stuck));
    assert!(is_right, "{kind} on {nodes} nodes: {stderr}");
}

/// All kinds on these numbers of nodes; says how long each took, from the last message to the job's end.
#[track_caller]
fn all_are_named(name: &str, nodes: &[&str], more: &[&str]) {
    let cluster = Cluster::up(name, 4, more);
    let program = Steered::of(name, "deadlocks.c");
    for kind in KINDS {
        for nodes in nodes {
            let job = started(&cluster, &program, nodes, kind.0);
            let began = Instant::now();
            program.touch("go");
            assert_named(job, kind, nodes);
            println!("{} on {nodes} nodes: {:.2} s", kind.0, began.elapsed().as_secs_f64());
            program.remove("go");
        }
    }
}

// Paper: S22
#[test]
fn deadlocks_of_every_kind_are_named_on_one_node_and_on_several() {
    all_are_named("deadlocks", &["1", "2", "4"], &[]);
}

#[test]
fn deadlocks_of_every_kind_are_named_under_forced_switches_of_5_ms() {
    all_are_named("deadlocks-switched", &["1", "2", "4"], &["--slice", "5", "--force-switch"]);
}

/// A job on virtual nodes that no daemon knows.
fn virtual_nodes(program: &Steered, nodes: &str, ranks: &str, kind: &str) -> Running {
    let words = ["--virtual-nodes", nodes, "--on-deadlock", "end", "-n", ranks];
    Running::start(&program.words(&words, kind))
}

#[test]
fn deadlocks_of_every_kind_are_named_on_virtual_nodes_without_a_daemon() {
    let program = Steered::of("deadlocks-virtual", "deadlocks.c");
    for (kind, nodes) in KINDS.iter().flat_map(|kind| ["2", "4"].map(|nodes| (*kind, nodes))) {
        let mut job = virtual_nodes(&program, nodes, "4", kind.0);
        (0..RANKS).for_each(|_| job.await_line("deadlocks: up"));
        program.touch("go");
        assert_named(job, kind, nodes);
        program.remove("go");
    }
}

#[test]
fn deadlocks_are_not_seen_on_virtual_nodes_without_a_daemon_that_only_look_dead() {
    let program = Steered::of("healthy-virtual", "healthy.c");
    program.touch("lock");
    let lock = File::options().write(true).open(program.folder().join("lock")).expect("a file");
    // A lock of this description, which excludes those of processes.
    fcntl_lock(&lock, FlockOperation::LockExclusive).expect("nobody else has it");
    let jobs = HEALTHY.map(|kind| (kind, virtual_nodes(&program, "2", "2", kind)));
    // Two snapshots and more: here time is what is tested.
    std::thread::sleep(3 * LOOKS);
    program.touch("go");
    drop(lock);
    for (kind, job) in jobs {
        assert_eq!(job.end(), (0, String::new()), "{kind}");
    }
}

#[test]
fn deadlocks_of_a_job_that_was_suspended_are_named() {
    let cluster = Cluster::up("deadlocks-suspended", 2, &[]);
    let program = Steered::of("deadlocks-suspended", "deadlocks.c");
    for (number, nodes) in ["1", "2"].into_iter().enumerate() {
        let job = started(&cluster, &program, nodes, KINDS[0].0);
        let id = (number + 1).to_string();
        cluster.tutti(&["suspend", &id]).expect_success();
        await_that("it is suspended", || cluster.tutti(&["ps"]).stdout.contains(" suspended "));
        // It comes to its deadlock when it is resumed.
        program.touch("go");
        cluster.tutti(&["resume", &id]).expect_success();
        assert_named(job, KINDS[0], nodes);
        program.remove("go");
    }
}

const HEALTHY: [&str; 11] =
    ["timer", "poll", "lock", "child", "thread", "request", "signal", "signaled", "put", "rput", "behind"];

/// Jobs that only look dead, on one node and on two, for so long, while a daemon is stopped and continued and
/// another one is killed and replaced, again and again. None is ever said to be in a deadlock.
#[track_caller]
fn none_is_named(name: &str, time: Duration) {
    let cluster = Cluster::up(name, 2, &SLOWLY_LOST);
    let program = Steered::of(name, "healthy.c");
    program.touch("lock");
    let lock = File::options().write(true).open(program.folder().join("lock")).expect("a file");
    // A lock of this description, which excludes those of processes.
    fcntl_lock(&lock, FlockOperation::LockExclusive).expect("nobody else has it");
    // Submitted: a front end ends with the daemon of its node.
    let jobs: Vec<String> =
        HEALTHY.iter().flat_map(|kind| ["1", "2"].map(|nodes| format!("{kind} on {nodes} nodes"))).collect();
    for job in &jobs {
        let words: Vec<&str> = job.split(' ').collect();
        let options =
            ["submit", "--no-gang", "--on-deadlock", "end", "-o", "/dev/null", "-N", words[2], "-n", "2"];
        cluster.tutti(&program.words(&options, words[0])).expect_success();
    }
    await_that("all run", || cluster.tutti(&["ps"]).stdout.matches(" running ").count() == jobs.len());
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < time {
        kill_process(cluster.daemon(1), Signal::STOP).expect("it lives");
        // Longer than the starters take to name a deadlock: here time is what is tested.
        std::thread::sleep(LOOKS);
        kill_process(cluster.daemon(1), Signal::CONT).expect("it lives");
        cluster.replace(rounds % 2);
        await_that("both nodes are there", || cluster.tutti(&["nodes"]).stdout.matches(" up ").count() == 2);
        let list = cluster.tutti(&["ps"]).stdout;
        assert!(!list.contains("deadlock"), "{list}");
        rounds += 1;
    }
    program.touch("go");
    drop(lock);
    for (number, job) in (1..).zip(&jobs) {
        await_that("it is over", || cluster.job(number).contains("\"state\": \"over\""));
        let status = cluster.job(number);
        assert!(status.contains("\"status\": 0"), "{job}: {status}");
    }
    println!("{rounds} rounds without a false alarm");
}

#[test]
fn deadlocks_are_not_seen_in_jobs_that_only_look_dead() {
    none_is_named("healthy", 2 * LOOKS);
}

#[test]
#[ignore = "make soak-cluster"]
fn deadlocks_are_not_seen_in_jobs_that_only_look_dead_soak() {
    let seconds = std::env::var("TUTTI_HEALTHY_SECONDS").ok().and_then(|text| text.parse().ok());
    none_is_named("healthy-soak", Duration::from_secs(seconds.unwrap_or(600)));
}
