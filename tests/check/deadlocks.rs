//! Programs of which no rank can go on.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::{Scratch, compile, program, run};

use crate::{LIMIT, is_found};

#[track_caller]
fn found(case: &str, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
    let first = "tutti: check: deadlock: no rank can go on";
    let all: Vec<&str> = std::iter::once(first).chain(lines.iter().map(String::as_str)).collect();
    is_found("deadlocks", case, 3, &all);
}

#[test]
fn checker_finds_a_ring_of_receives() {
    let lines = [
        "rank 0: waiting in MPI_Recv: for a message from rank 1 with tag 5 on MPI_COMM_WORLD",
        "rank 1: waiting in MPI_Recv: for a message from rank 2 with tag 5 on MPI_COMM_WORLD",
        "rank 2: waiting in MPI_Recv: for a message from rank 0 with tag 5 on MPI_COMM_WORLD",
    ];
    found("ring", &lines);
}

#[test]
fn checker_finds_a_ring_of_synchronous_sends() {
    let lines = [
        "rank 0: waiting in MPI_Ssend: for rank 1 to receive 1 x MPI_INT with tag 5 on MPI_COMM_WORLD",
        "rank 1: waiting in MPI_Ssend: for rank 2 to receive 1 x MPI_INT with tag 5 on MPI_COMM_WORLD",
        "rank 2: waiting in MPI_Ssend: for rank 0 to receive 1 x MPI_INT with tag 5 on MPI_COMM_WORLD",
    ];
    found("sends", &lines);
}

#[test]
fn checker_names_a_rank_missing_in_a_collective() {
    let lines = [
        "rank 0: waiting in MPI_Recv: for a message from any rank with any tag on MPI_COMM_WORLD",
        "ranks 1, 2: waiting in MPI_Barrier: for rank 0 in the collective call on MPI_COMM_WORLD",
    ];
    found("collective", &lines);
}

#[test]
fn checker_finds_a_wait_for_a_tag_never_sent() {
    let lines = [
        "ranks 0, 2: waiting in MPI_Finalize: for rank 1 in the collective call on MPI_COMM_WORLD",
        "rank 1: waiting in MPI_Wait: for a message from rank 0 with tag 2 on MPI_COMM_WORLD",
    ];
    found("tag", &lines);
}

/// Without the checker too: one line, and the job is left as it is.
#[test]
fn checker_reports_a_deadlock_and_leaves_the_job() {
    let scratch = Scratch::new("deadlocks-plain");
    let compiled = compile("tests/check/programs/deadlocks.c", scratch.path());
    let cases = [
        (
            "ring",
            "rank 0 receives from rank 1, tag 5, MPI_COMM_WORLD; rank 1 receives from rank 0, tag 5, MPI_COMM_WORLD",
        ),
        (
            "sends",
            "rank 0 sends to rank 1, tag 5, MPI_COMM_WORLD; rank 1 sends to rank 0, tag 5, MPI_COMM_WORLD",
        ),
        ("tag", "rank 1 waits for ranks that have left, or never were there"),
    ];
    // All at once: their starters look once a second.
    let jobs = cases.map(|(case, expected)| {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2"]).arg(&compiled).arg(case).stderr(Stdio::piped());
        (mpiexec.spawn().expect("mpiexec"), expected)
    });
    let seen = jobs.map(|(mut job, expected)| {
        let mut lines = BufReader::new(job.stderr.take().expect("a pipe")).lines();
        let line = lines.next().and_then(Result::ok);
        let goes_on = job.try_wait().expect("our child").is_none();
        let _ = kill_process(Pid::from_child(&job), Signal::INT);
        let ended = job.wait().expect("our child");
        (line, expected, goes_on, ended.signal(), lines.next().is_none())
    });
    for (line, expected, goes_on, signal, is_last) in seen {
        let expected = format!("mpiexec: the ranks wait for each other for ever: {expected}");
        assert_eq!(line, Some(expected));
        assert!(goes_on, "the job was left alone");
        assert_eq!(signal, Some(Signal::INT.as_raw()));
        assert!(is_last, "nothing more is said");
    }
}

/// Warnings come once, from the checker alone; the starter goes on looking.
#[test]
fn checker_warns_of_a_deadlock_once_and_leaves_the_job() {
    let scratch = Scratch::new("deadlocks-warn");
    let compiled = compile("tests/check/programs/deadlocks.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2", "--timeout", "8"]).arg(&compiled).arg("ring");
    let ran = run(mpiexec.env("TUTTI_CHECK", "warn"), LIMIT);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let expected = [
        "tutti: check: deadlock: no rank can go on",
        "    rank 0: waiting in MPI_Recv: for a message from rank 1 with tag 5 on MPI_COMM_WORLD",
        "    rank 1: waiting in MPI_Recv: for a message from rank 0 with tag 5 on MPI_COMM_WORLD",
    ];
    assert_eq!(lines.get(..3), Some(&expected[..]), "{ran}");
    assert!(lines[3..].iter().all(|line| !line.contains("wait for each other")), "{ran}");
    assert!(ran.code() != 0 && ran.stderr.matches("deadlock").count() == 1, "{ran}");
}

#[test]
fn checker_is_silent_while_a_rank_works() {
    let scratch = Scratch::new("deadlocks-late");
    let compiled = compile("tests/check/programs/deadlocks.c", scratch.path());
    let ran = run(program("mpiexec").args(["-n", "3"]).arg(compiled).arg("late"), LIMIT).expect_success();
    assert_eq!(ran.stderr, "");
}
