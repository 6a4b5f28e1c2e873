//! Gangs that sleep everywhere, slices, and those who neither receive nor stop.

use std::io::Write;

use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::{RANK, Running, await_that};
use crate::traffic::Traffic;
use crate::turns::Turns;

/// One of our C programs as a job of all nodes; it runs when this returns.
#[track_caller]
fn start(cluster: &Cluster, scratch: &Scratch, name: &str, ranks: &str) -> Running {
    let program = compile(&format!("tests/gang/programs/{name}.c"), scratch.path());
    let mut job = cluster.start(&["run", "-N", "2", "-n", ranks, &program.to_string_lossy()]);
    job.await_line(&format!("{name}: up"));
    job
}

#[test]
fn s22_a_gang_that_waits_everywhere_is_found_idle_and_gives_up_its_slice() {
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

#[test]
fn a_gang_that_sleeps_is_found_idle_however_short_the_slices_are() {
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
fn a_gang_is_found_idle_for_one_that_shares_only_some_of_its_nodes() {
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
fn a_gang_that_waits_for_a_question_answers_while_another_has_the_cores() {
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
    let group = || Turns::of(&[&busy]).expect("cgroups can be made");
    await_that("the other works", || busy.mark.processes().len() >= 3 && !group().is_frozen_anywhere(0));
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

#[test]
fn s24_the_slice_is_a_setting_and_others_are_refused() {
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

#[test]
fn who_floods_a_rank_that_never_receives_stops_nobody_and_can_be_killed() {
    let up: &[&str] =
        if rustix::process::geteuid().is_root() { &["--slice", "5", "--netns"] } else { &["--slice", "5"] };
    let cluster = Cluster::up("gang-flood", 2, up);
    let scratch = Scratch::new("gang-flood-programs");
    let flood = start(&cluster, &scratch, "flood", "4");
    let traffic = Traffic::new("gang-flood");
    let other = traffic.start(&cluster, 5, 2, 4, None);
    if let Some(mut turns) = Turns::of(&[&flood, &other]) {
        turns.await_more(20, crate::harness::LIMIT);
    }
    // The tree goes on: everything can be asked, from any node, and what is asked for is done.
    let rows = tutti_tests::run(&mut cluster.command_on(1, &["nodes"]), crate::harness::LIMIT);
    assert_eq!(rows.expect_success().stdout.lines().count(), 3);
    cluster.run(&["run", "-N", "2", "-n", "4", RANK, "exchange"]).expect_success();
    cluster.tutti(&["suspend", "1"]).expect_success();
    cluster.tutti(&["resume", "1"]).expect_success();
    traffic.end(vec![other]);
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(flood.end().0, 137);
}
