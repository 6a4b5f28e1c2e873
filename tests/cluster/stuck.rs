//! Jobs on several nodes whose ranks wait for each other for ever say so by themselves, and no others do.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_tests::{Scratch, compile};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::Cluster;
use crate::harness::{Running, await_that, comes_true, state_of};
use crate::on_demand::Laptop;
use crate::steered::Steered;

/// The starters look every half a second: so long a job goes on of which nothing must be said.
const LOOKS: Duration = Duration::from_millis(4_500);

fn ring(ranks: u32) -> String {
    let next =
        |rank: u32| format!("rank {rank} receives from rank {}, tag 7, MPI_COMM_WORLD", (rank + 1) % ranks);
    let ring: Vec<String> = (0..ranks).map(next).collect();
    format!("the ranks wait for each other for ever: {}", ring.join("; "))
}

#[track_caller]
fn started(cluster: &Cluster, program: &Steered, what: &str) -> Running {
    let mut job = cluster.start(&program.words(&["run", "-N", "2", "-n", "4"], what));
    (0..4).for_each(|_| job.await_line("snapshot: up"));
    job
}

#[test]
fn deadlock_over_two_nodes_is_reported_once_and_listed() {
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let program = Steered::new("stuck-nodes");
    let job = started(&cluster, &program, "ring");
    let line = ring(4);
    await_that("it is known", || cluster.job(1).contains(&format!("\"deadlock\": \"{line}\"")));
    let list = cluster.tutti(&["ps"]).stdout;
    assert!(list.contains(" deadlock ") && list.contains(&format!("job 1: {line}\n")), "{list}");
    let why = cluster.tutti(&["why", "1"]).stdout;
    assert!(
        why.starts_with(&format!("job 1 can never go on: {line}\njob 1 is a cycle: rank 0 -> ")),
        "{why}"
    );
    let cycle = "cycle    rank 0 -> rank 1 -> rank 2 -> rank 3 -> rank 0\n";
    let status = cluster.tutti(&["status", "1"]).stdout;
    assert!(status.contains("\nstate    deadlock\n"), "{status}");
    assert!(status.contains(&format!("deadlock {line}\n{cycle}")), "{status}");
    // It runs, it can be looked at, and the looks of others change nothing.
    for _ in 0..3 {
        // Who sleeps wakes up now and then, to ask for messages that may be lost: a look may find him so.
        await_that("it is seen", || {
            cluster.tutti(&["snapshot", "1"]).expect_success().stdout.contains("deadlock of 4 ranks")
        });
        // A duration is what is tested: the starters look every half a second, so each has looked in between.
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(cluster.job(1).contains("\"running\"") && cluster.job(1).contains(&line));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end(), (137, format!("tutti run: {line}\n")));
    assert!(cluster.job(1).contains("\"deadlock\": null"));
}

#[test]
fn exit_without_init_is_named_when_a_rank_of_another_node_waits() {
    let cluster = Cluster::up("stuck-never-comes", 2, &[]);
    let scratch = Scratch::new("stuck-never-comes-program");
    let path = compile("tests/launch/programs/never_comes.c", scratch.path());
    let path = path.to_str().expect("a path of ours");
    for words in [&[][..], &["receive"]] {
        let ran = cluster.run(&[&["run", "-N", "2", "-n", "2", path], words].concat());
        assert_eq!(ran.code(), 1, "{words:?}: {ran}");
        let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("tutti run: ")).collect();
        assert_eq!(lines.len(), 1, "{words:?}: {ran}");
        assert!(lines[0].contains("rank 1 (pid "), "{ran}");
        assert!(lines[0].contains("exited without calling MPI_Init"), "{ran}");
    }
    let path = compile("tests/launch/programs/leaves_rightly.c", scratch.path());
    let path = path.to_str().expect("a path of ours");
    let ran = cluster.run(&["run", "-N", "2", "-n", "2", path, "part", ":", "-n", "2", "true"]);
    assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""), "{ran}");
}

#[test]
fn deadlock_is_not_reported_while_a_rank_computes_or_reads() {
    let cluster = Cluster::up("stuck-wait", 2, &[]);
    let program = Steered::new("stuck-wait");
    let pipe = program.folder().join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let jobs = ["wait", "read"].map(|what| started(&cluster, &program, what));
    let looks = std::time::Instant::now();
    while looks.elapsed() < LOOKS {
        assert!(!cluster.tutti(&["ps"]).stdout.contains("deadlock"));
        std::thread::sleep(Duration::from_millis(100));
    }
    program.touch("go");
    std::fs::write(&pipe, "x").expect("a reader");
    jobs.into_iter().for_each(|job| assert_eq!(job.end(), (0, String::new())));
}

#[test]
fn deadlock_report_is_withdrawn_when_a_signal_ends_it() {
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let program = Steered::new("stuck-woken");
    let job = started(&cluster, &program, "woken");
    let line = ring(4);
    await_that("it is known", || cluster.job(1).contains(&line));
    cluster.tutti(&["signal", "USR1", "1"]).expect_success();
    await_that("it is taken back", || cluster.job(1).contains("\"deadlock\": null"));
    assert!(!cluster.tutti(&["ps"]).stdout.contains("deadlock"));
    program.touch("go");
    let goes_on = "a rank that waited for ever has been woken: the job continues";
    assert_eq!(job.end(), (0, format!("tutti run: {line}\ntutti run: {goes_on}\n")));
}

#[test]
fn deadlock_of_an_mpiexec_job_is_reported() {
    let laptop = Laptop::new("stuck-laptop");
    let program = Steered::new("stuck-laptop");
    for (number, before) in [&["-n", "3"][..], &["--virtual-nodes", "3", "-n", "3"]].into_iter().enumerate() {
        let mut job = Running::start_command(&mut laptop.command("mpiexec", &program.words(before, "ring")));
        (0..3).for_each(|_| job.await_line("snapshot: up"));
        let (line, status) = (ring(3), || laptop.tutti(&["ps", "--json"]).stdout);
        let is_known = comes_true(|| status().contains(&line));
        assert!(is_known, "{number}: {}", status());
        let id = (number + 1).to_string();
        laptop.tutti(&["kill", &id]).expect_success();
        assert_eq!(job.end(), (137, format!("mpiexec: {line}\n")));
    }
}

const ENDED: &str = "the job is ended (--on-deadlock end)";

/// The words of `run` with the option, behind its name.
fn with_policy<'a>(policy: &'a str, nodes: &'a str) -> [&'a str; 7] {
    ["run", "--on-deadlock", policy, "-N", nodes, "-n", "3"]
}

#[test]
fn on_deadlock_end_kills_a_job_of_the_cluster_with_status_35() {
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let program = Steered::new("on-deadlock-end");
    for (number, nodes) in ["1", "2"].into_iter().enumerate() {
        // Of one node its starter is the judge, of two the controller.
        let mut job = cluster.start(&program.words(&with_policy("end", nodes), "ring"));
        (0..3).for_each(|_| job.await_line("snapshot: up"));
        assert_eq!(job.end(), (35, format!("tutti run: {}\ntutti run: {ENDED}\n", ring(3))));
        let status = cluster.tutti(&["status", &(number + 1).to_string()]).stdout;
        assert!(status.contains("its ranks waited for each other for ever (--on-deadlock end)"), "{status}");
    }
}

#[test]
fn on_deadlock_suspend_stops_a_job_of_the_cluster_until_it_is_resumed() {
    let cluster = Cluster::up("on-deadlock-suspend", 2, &[]);
    let program = Steered::new("on-deadlock-suspend");
    let words = program.words(&with_policy("suspend", "2"), "woken");
    let submit: Vec<&str> = std::iter::once("submit").chain(words[1..].iter().map(|word| &**word)).collect();
    cluster.tutti(&submit).expect_success();
    await_that("it is suspended", || cluster.tutti(&["ps"]).stdout.contains(" suspended "));
    // What is left of the deadlock is its end: a signal wakes the ranks, and they go on.
    cluster.tutti(&["resume", "1"]).expect_success();
    cluster.tutti(&["signal", "USR1", "1"]).expect_success();
    program.touch("go");
    await_that("it is over", || cluster.job(1).contains("\"state\": \"over\""));
    assert!(cluster.job(1).contains("\"status\": 0"), "{}", cluster.job(1));
}

#[test]
fn on_deadlock_end_kills_an_mpiexec_job_with_status_35() {
    let laptop = Laptop::new("on-deadlock-laptop");
    let program = Steered::new("on-deadlock-laptop");
    let choices = [&["-n", "3"][..], &["--no-gang", "-n", "3"], &["--virtual-nodes", "3", "-n", "3"]];
    for before in choices {
        let words = [&["--on-deadlock", "end"][..], before].concat();
        let job = Running::start_command(&mut laptop.command("mpiexec", &program.words(&words, "ring")));
        let (status, stderr) = job.end();
        assert_eq!(
            (status, &*stderr),
            (35, &*format!("mpiexec: {}\nmpiexec: {ENDED}\n", ring(3))),
            "{before:?}"
        );
    }
}

/// A pipe in this folder with a writer that has it open from the start. A job that is stopped inside an open
/// that waits for its other end leaves that open, so a writer that comes then waits until it is continued.
fn pipe_with_writer(folder: &Path) -> (PathBuf, File) {
    let pipe = folder.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
    let writer =
        File::options().read(true).write(true).open(&pipe).expect("a pipe opened for both never waits");
    (pipe, writer)
}

const IDLE: &str = "the job is suspended: nothing of it has worked (--on-idle suspend)";

// Paper: S22
#[test]
fn on_idle_suspends_a_job_of_the_cluster_until_it_is_resumed() {
    let cluster = Cluster::up("on-idle-suspend", 2, &[]);
    let program = Steered::new("on-idle-suspend");
    let (_, mut writer) = pipe_with_writer(program.folder());
    let words = ["run", "--on-idle", "suspend=2s", "-N", "2", "-n", "4"];
    let mut job = cluster.start(&program.words(&words, "read"));
    (0..4).for_each(|_| job.await_line("snapshot: up"));
    // Twice: who was resumed may be idle again.
    for _ in 0..2 {
        await_that("it is suspended", || cluster.tutti(&["ps"]).stdout.contains(" suspended "));
        let why = cluster.tutti(&["why", "1"]).stdout;
        assert!(why.contains("by --on-idle suspend: tutti resume 1 lets it go on"), "{why}");
        cluster.tutti(&["resume", "1"]).expect_success();
        await_that("it runs", || cluster.tutti(&["ps"]).stdout.contains(" running "));
    }
    writer.write_all(b"x").expect("room in the pipe");
    cluster.tutti(&["resume", "1"]);
    let (status, stderr) = job.end();
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.starts_with(&format!("tutti run: {IDLE}\n")), "{stderr}");
}

#[test]
fn on_idle_leaves_alone_who_computes_in_any_process() {
    let cluster = Cluster::up("on-idle-busy", 2, &[]);
    // One rank of four has a child that computes, by children of its own; all else sleeps.
    let script = "[ $PMI_RANK = 3 ] && (while :; do date; done) >/dev/null & sleep 1000";
    let words = ["run", "--on-idle", "suspend=2s", "-N", "2", "-n", "4", "sh", "-c", script];
    let job = cluster.start(&words);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    // A duration is what is tested. Ranks that end by themselves do not end at once: who is left is idle.
    let looks = std::time::Instant::now();
    while looks.elapsed() < LOOKS {
        assert!(cluster.job(1).contains("\"running\""), "{}", cluster.job(1));
        std::thread::sleep(Duration::from_millis(100));
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    // Who was suspended for a moment has a line of it.
    assert_eq!(job.end(), (137, String::new()));
}

#[test]
fn on_idle_suspends_an_mpiexec_job_until_it_is_continued() {
    let laptop = Laptop::new("on-idle-laptop");
    let scratch = tutti_tests::Scratch::new("on-idle-laptop-files");
    let (pipe, writer) = pipe_with_writer(scratch.path());
    let words = ["--on-idle", "suspend=1s", "-n", "1", "cat", pipe.to_str().expect("text")];
    let job = Running::start_command(&mut laptop.command("mpiexec", &words));
    let is_stopped = || state_of(job.pid()) == Some('T');
    await_that("it is stopped", is_stopped);
    job.signal(rustix::process::Signal::CONT);
    await_that("it goes on", || !is_stopped());
    await_that("it is stopped again", is_stopped);
    drop(writer);
    job.signal(rustix::process::Signal::CONT);
    let (status, stderr) = job.end();
    assert_eq!((status, stderr), (0, format!("mpiexec: {IDLE}\n").repeat(2)));
}
