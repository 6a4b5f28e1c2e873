//! Gangs that sleep everywhere, slices, and those who neither receive nor stop.

use std::io::Write;

use tutti_tests::{Scratch, compile, compile_with};

use crate::Cluster;
use crate::harness::{RANK, Running, await_that};
use crate::traffic::Traffic;
use crate::turns::{Turns, groups};

/// C program of ours as a job of all nodes; it runs when this returns.
#[track_caller]
fn start(cluster: &Cluster, scratch: &Scratch, name: &str, ranks: &str) -> Running {
    let program = compile(&format!("tests/gang/programs/{name}.c"), scratch.path());
    let mut job = cluster.start(&["run", "-N", "2", "-n", ranks, &program.to_string_lossy()]);
    job.await_line(&format!("{name}: up"));
    job
}

#[test]
fn idle_gang_is_found_and_gives_up_its_slice() {
    // Its slice is an hour: whoever runs beside it runs because it was found idle.
    let cluster = Cluster::up("gang-idle", 2, &["--slice", "3600000"]);
    let scratch = Scratch::new("gang-idle-files");
    let still = start(&cluster, &scratch, "still", "4");
    let Some(turns) = Turns::of(&[&still]) else { return };
    cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
    let busy = cluster.start(&["run", "-N", "2", "-n", "2", "sh", "-c", "while :; do :; done"]);
    await_that("the other works", || busy.mark.processes().len() >= 2);
    assert!(!turns.is_frozen_anywhere(0), "who sleeps is left as it is, so that it can wake up");
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(still.end().0, 137);
    cluster.tutti(&["kill", "3"]).expect_success();
    assert_eq!(busy.end().0, 137);
}

/// PEs that wait for a word sleep until it is stored, so their gang is idle.
#[test]
fn idle_gang_of_openshmem_waits_is_found() {
    let cluster = Cluster::up("gang-idle-shmem", 1, &["--slice", "3600000"]);
    let scratch = Scratch::new("gang-idle-shmem-files");
    let program = compile_with("oshcc", "tests/gang/programs/still_shmem.c", scratch.path());
    let mut still = cluster.start(&["run", "-n", "2", &program.to_string_lossy()]);
    still.await_line("still_shmem: up");
    if Turns::of(&[&still]).is_none() {
        return;
    }
    cluster.run(&["run", "-n", "2", "true"]).expect_success();
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(still.end().0, 137);
}

#[test]
fn idle_gang_is_found_with_short_slices() {
    for slice in ["5", "10"] {
        let cluster = Cluster::up("gang-idle-short", 1, &["--slice", slice, "--slots", "2"]);
        let sleeper = cluster.start(&["run", "-n", "2", "sleep", "600"]);
        await_that("it sleeps", || sleeper.mark.processes().len() >= 2);
        let busy = cluster.start(&["run", "-n", "2", "sh", "-c", "while :; do :; done"]);
        await_that("the other works", || busy.mark.processes().len() >= 3);
        let Some(turns) = Turns::of(&[&sleeper, &busy]) else { return };
        // By turns it would stand still at every second look.
        let runs = || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            !turns.is_frozen_anywhere(1)
        };
        await_that("the other has all the time", || (0..100).all(|_| runs()));
        for (job, number) in [(sleeper, "1"), (busy, "2")] {
            cluster.tutti(&["kill", number]).expect_success();
            assert_eq!(job.end().0, 137);
        }
    }
}

#[test]
fn idle_gang_yields_to_a_job_on_some_of_its_nodes() {
    let cluster = Cluster::up("gang-idle-apart", 2, &["--slice", "3600000", "--slots", "1"]);
    let scratch = Scratch::new("gang-idle-apart-files");
    let still = start(&cluster, &scratch, "still", "2");
    if Turns::of(&[&still]).is_none() {
        return;
    }
    await_that("both nodes say by what it takes turns", || {
        let job = cluster.job(1);
        let means = job.split_once("\"held_by\"").map_or("", |(_, means)| means);
        means.contains("\"node0\"") && means.contains("\"node1\"")
    });
    // The other node has one job only, and nobody there waits for it.
    cluster.run(&["run", "-N", "1", "-n", "1", "true"]).expect_success();
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(still.end().0, 137);
}

#[test]
fn idle_gang_answers_while_exempt() {
    let cluster = Cluster::up("gang-answers", 1, &["--slice", "3600000", "--slots", "2"]);
    let scratch = Scratch::new("gang-answers-pipe");
    let pipe = scratch.path().join("questions");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .expect("a pipe");
    let mut ask = std::fs::OpenOptions::new().read(true).write(true).open(&pipe).expect("the pipe");
    let mut asked = cluster.start(&["run", "-n", "1", "cat", &pipe.to_string_lossy()]);
    ask.write_all(b"is it there\n").expect("the pipe");
    asked.await_line("is it there");
    let Some(turns) = Turns::of(&[&asked]) else { return };
    // It has the cores for an hour: nobody else has a turn.
    let busy = cluster.start(&["run", "-n", "2", "sh", "-c", "while :; do :; done"]);
    // Its processes are there before they are in their cgroup.
    let is_in_group = || busy.mark.processes().len() >= 3 && !groups(&busy).is_empty();
    await_that("the other has begun", is_in_group);
    let group = Turns::of(&[&busy]).expect("it is in one");
    await_that("the other works", || !group.is_frozen_anywhere(0));
    for question in 0..20 {
        let line = format!("question {question}");
        writeln!(ask, "{line}").expect("the pipe");
        asked.await_line(&line);
    }
    // It sleeps again; whoever suspends it means it.
    cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("it stands still", || turns.is_frozen(0));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(asked.end().0, 137);
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(busy.end().0, 137);
}

// Paper: S24
#[test]
fn slice_option_is_checked() {
    let cluster = Cluster::up("gang-slice", 1, &["--slice", "3600000"]);
    let words = ["run", "-n", "2", "sh", "-c", "while :; do :; done"];
    let one = cluster.start(&words);
    await_that("it is job 1", || cluster.job(1).contains("\"running\""));
    let other = cluster.start(&words);
    await_that("it is job 2", || cluster.job(2).contains("\"running\""));
    await_that("both are there", || one.mark.processes().len() >= 3 && other.mark.processes().len() >= 3);
    let Some(turns) = Turns::of(&[&one, &other]) else { return };
    await_that("the second waits for its turn", || turns.is_frozen(1));
    assert!(!turns.is_frozen(0), "its hour is not over");
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(one.end().0, 137);
    await_that("the second runs when the first has ended", || !turns.is_frozen(1));
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(other.end().0, 137);
    for slice in ["4.9", "3600001", "-1"] {
        let refused = Cluster::try_up("gang-slice-refused", &["--slice", slice]);
        assert_ne!(refused.code(), 0, "{slice}");
    }
}

/// A flood, and how many of its last messages were begun and taken.
struct Flood {
    job: Running,
    scratch: Scratch,
}

impl Flood {
    /// Starts a flood, and waits until it finds that neither a rank of its own node nor one of another takes
    /// any more.
    #[track_caller]
    fn start(cluster: &Cluster) -> Self {
        let scratch = Scratch::new("gang-flood-programs");
        let program = compile("tests/gang/programs/flood.c", scratch.path());
        let (program, counts) = (program.to_string_lossy(), scratch.path().join("counts"));
        let mut job = cluster.start(&["run", "-N", "2", "-n", "4", &program, &counts.to_string_lossy()]);
        job.await_line("flood: up");
        let line = job.seen().iter().find_map(|line| line.strip_prefix("flood: taken ")).expect("a line");
        println!("taken: {line}");
        // What stops it is that room is used up: the places of a ring inside a node, the credit of 256 KiB
        // between nodes.
        let taken: Vec<u64> = line.split(' ').map(|taken| taken.parse().expect("a number")).collect();
        let [near, far] = taken[..] else { panic!("{line}") };
        assert!((2..10_000).contains(&near) && (100..10_000).contains(&far), "{line}");
        Flood { job, scratch }
    }

    fn counts(&self) -> [u64; 2] {
        let bytes = std::fs::read(self.scratch.path().join("counts")).unwrap_or_default();
        let at = |at: usize| {
            bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight")))
        };
        [at(0), at(8)]
    }

    /// Whether the flood has begun to send one more message, which is not taken.
    fn is_jammed(&self) -> bool {
        let [begun, taken] = self.counts();
        begun == taken + 1
    }
}

// Paper: S9
#[test]
fn flooding_sender_stalls_no_other_job() {
    let up: &[&str] =
        if rustix::process::geteuid().is_root() { &["--slice", "5", "--netns"] } else { &["--slice", "5"] };
    let cluster = Cluster::up("gang-flood", 2, up);
    let flood = Flood::start(&cluster);
    let traffic = Traffic::new("gang-flood");
    let others: Vec<_> = [5, 6].map(|job| traffic.start(&cluster, job, 2, 4, None)).into();
    await_that("the flood is jammed", || flood.is_jammed());
    let jam = flood.counts();
    // Who is jammed sleeps; the others switch.
    if let Some(mut turns) = Turns::of(&[&others[0], &others[1]]) {
        turns.await_more(100, crate::harness::LIMIT);
    }
    // The tree goes on: everything can be asked, from any node, and what is asked for is done.
    let rows = tutti_tests::run(&mut cluster.command_on(1, &["nodes"]), crate::harness::LIMIT);
    assert_eq!(rows.expect_success().stdout.lines().count(), 3);
    cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
    cluster.tutti(&["suspend", "1"]).expect_success();
    cluster.tutti(&["resume", "1"]).expect_success();
    // The others' messages arrive while not one of the flood's does.
    traffic.end(others);
    assert!(flood.is_jammed() && flood.counts() == jam, "{jam:?}, then {:?}", flood.counts());
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(flood.job.end().0, 137);
}
