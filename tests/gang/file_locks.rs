//! A job whose turn ends while a rank has a lock of a file: it gives the lock back first, or it is said.

use std::path::PathBuf;

use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::{LIMIT, Running, await_that};
use crate::log;
use crate::turns::Turns;

/// A program of the tests of files, and a folder for its files.
fn compiled(scratch: &Scratch, name: &str) -> PathBuf {
    compile(&format!("tests/files/programs/{name}.c"), scratch.path())
}

/// Job 1 runs this; job 2 takes turns with it. None where no cgroup can be made.
#[track_caller]
fn beside_another(cluster: &Cluster, words: &[&str]) -> Option<[Running; 2]> {
    let first = cluster.start(&[&["run", "-N", "1", "-n", "2"], words].concat());
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let second = cluster.start(&["run", "-N", "1", "-n", "2", "sh", "-c", "while :; do :; done"]);
    await_that("it runs", || cluster.job(2).contains("\"running\""));
    // Its front end, its starter, its ranks.
    [&first, &second]
        .iter()
        .for_each(|job| await_that("its ranks are there", || job.mark.processes().len() >= 4));
    Turns::of(&[&first, &second])?.await_more(10, LIMIT);
    Some([first, second])
}

fn count(cluster: &Cluster, what: &str) -> usize {
    log::read(cluster).iter().filter(|turn| turn.job == 1 && turn.what == what).count()
}

#[test]
fn gang_file_locks_are_given_back_before_a_freeze() {
    let cluster = Cluster::up("gang-file-locks", 1, &["--slice", "20", "--slots", "2"]);
    let scratch = Scratch::new("gang-file-locks-files");
    let (program, file) = (compiled(&scratch, "wrong"), scratch.path().join("data"));
    let words = [&*program.to_string_lossy(), &*file.to_string_lossy(), "endless", "0"].map(str::to_owned);
    let Some(_jobs) = beside_another(&cluster, &words.each_ref().map(String::as_str)) else { return };
    await_that("freezes have waited for locks", || count(&cluster, "unlock") >= 3);
}

#[test]
fn gang_file_lock_that_a_frozen_rank_keeps_is_said() {
    let cluster = Cluster::up("gang-file-lock-kept", 1, &["--slice", "20", "--slots", "2"]);
    let scratch = Scratch::new("gang-file-lock-kept-files");
    let program = compiled(&scratch, "held");
    let (file, mark) = (scratch.path().join("data"), scratch.path().join("in"));
    let words = [&program, &file, &mark].map(|path| path.to_string_lossy().into_owned());
    // A job of which all ranks sleep is not frozen.
    let words = [&words[0], &words[1], &words[2], "computes"];
    let Some(_jobs) = beside_another(&cluster, &words) else { return };
    await_that("it is frozen with its lock", || count(&cluster, "locked") >= 3);
    let log = std::fs::read_to_string(cluster.folder.join("node0.log")).expect("its log");
    let line = "job 1 is frozen while a rank accesses a file that it has locked: \
                who wants the same range waits for its next turn";
    assert_eq!(log.matches(line).count(), 1, "{log}");
}
