//! Signals to `mpiexec` are signals to the job.

use std::process::Command;

use rustix::process::Signal;
use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, program};

use crate::harness::{RANK, Running, await_that, run, state_of};

#[test]
fn signals_that_end_are_forwarded() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)]
    {
        let mut job = Running::start(&["-n", "2", RANK, "attach", "0:say=here", "hang"]);
        job.await_line("here");
        job.signal(signal);
        let (code, stderr) = job.end();
        assert_eq!(code, status, "{stderr}");
        assert_eq!(stderr, "", "after {signal:?}");
    }
}

#[test]
fn signals_of_a_new_rank_are_default() {
    for options in [&[][..], &["--virtual-nodes", "2"]] {
        let words = ["-n", "2", "grep", "-Ehow", "Sig(Blk|Ign):.*", "/proc/self/status"];
        let ran = run(program("mpiexec").args(options).args(words)).expect_success();
        let sets = ran.stdout.lines().filter_map(|line| line.split_whitespace().nth(1));
        // From 32 on they are the C library's own.
        let sets = sets.map(|set| u64::from_str_radix(set, 16).expect("a set") & 0x7fff_ffff);
        assert_eq!(sets.collect::<Vec<_>>(), [0; 4], "{ran}");
    }
}

#[test]
fn sigterm_lets_a_rank_clean_up() {
    let script = "trap 'echo cleaned; exit 0' TERM; echo here; while :; do sleep 0.05; done";
    let mut job = Running::start(&["-n", "1", "sh", "-c", script]);
    job.await_line("here");
    job.signal(Signal::TERM);
    job.await_line("cleaned");
    assert_eq!(job.end().0, 0);
}

#[test]
fn sigterm_ignored_is_followed_by_kill() {
    let mut job =
        Running::start(&["-n", "2", "sh", "-c", "trap '' INT TERM; echo here; while :; do sleep 0.05; done"]);
    job.await_line("here");
    job.signal(Signal::INT);
    let (code, stderr) = job.end();
    assert_eq!(code, 130, "{stderr}");
}

/// Ranks get TERM and time as in the cluster, without `--kill-after` too.
#[test]
fn time_limit_gives_ranks_time_to_clean_up() {
    let quick = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done";
    // Long enough for a shell to begin, on a crowded machine too.
    let ran = run(program("mpiexec").args(["--time", "5s", "-n", "2", "sh", "-c", quick]));
    assert_eq!((ran.code(), &*ran.stdout), (124, "cleaned\ncleaned\n"), "{ran}");
    assert!(ran.stderr.contains("did not finish within 5 seconds"), "{ran}");
}

/// Longer than ranks have without the option; and what ends no job ends it never here.
#[test]
fn kill_after_gives_ranks_time_to_clean_up() {
    let slow = "trap 'sleep 2; echo cleaned; exit 0' TERM; echo here; while :; do sleep 0.05; done";
    let mut job = Running::start(&["--kill-after", "1h", "-n", "1", "sh", "-c", slow]);
    job.await_line("here");
    job.signal(Signal::TERM);
    job.await_line("cleaned");
    assert_eq!(job.end().0, 0);
    let quick = "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.05; done";
    let words = ["--timeout", "1", "--kill-after", "60", "-n", "2", "sh", "-c", quick];
    let ran = run(program("mpiexec").args(words));
    assert_eq!((ran.code(), &*ran.stdout), (124, "cleaned\ncleaned\n"), "{ran}");
    assert!(ran.stderr.contains("did not finish within 1 second"), "{ran}");
    let deaf = "trap '' TERM; while :; do sleep 0.05; done";
    let ran = run(program("mpiexec").args([
        "--timeout",
        "0.1",
        "--kill-after",
        "0.1",
        "-n",
        "1",
        "sh",
        "-c",
        deaf,
    ]));
    assert_eq!(ran.code(), 124, "{ran}");
    for wrong in ["0", "-1", "soon", ""] {
        let ran = run(program("mpiexec").args(["--kill-after", wrong, "-n", "1", "true"]));
        assert_eq!((ran.code(), ran.stderr.lines().count()), (2, 1), "{ran}");
    }
}

#[test]
fn sigusr_signals_are_forwarded() {
    let script =
        "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo here; while :; do sleep 0.05; done";
    let mut job = Running::start(&["-n", "1", "sh", "-c", script]);
    job.await_line("here");
    job.signal(Signal::USR1);
    job.await_line("one");
    job.signal(Signal::USR2);
    job.await_line("two");
    assert_eq!(job.end().0, 0);
}

#[test]
fn sigstop_of_mpiexec_stops_the_job() {
    stops_and_goes_on(program("mpiexec"), "stop");
}

#[test]
fn sigstop_of_mpiexec_stops_the_job_without_cgroups() {
    match crate::harness::without_cgroups() {
        Some(command) => stops_and_goes_on(command, "stop-without-cgroups"),
        None => skip(Need::MountNamespace, "no mount namespaces here"),
    }
}

fn stops_and_goes_on(mut mpiexec: Command, name: &str) {
    let scratch = Scratch::new(name);
    let beat = scratch.path().join("beat");
    // A beating heart in a session of its own: no process group reaches it.
    let script = format!(
        "echo here; exec setsid -w sh -c 'while :; do echo x >>{}; sleep 0.01; done'",
        beat.display()
    );
    let mut job = Running::start_command(mpiexec.args(["-n", "1", "sh", "-c", &script]));
    job.await_line("here");
    let beats = || std::fs::metadata(&beat).map_or(0, |file| file.len());
    await_that("the heart beats", || beats() > 0);
    job.signal(Signal::TSTP);
    await_that("mpiexec is stopped", || state_of(job.pid()) == Some('T'));
    let mut before = beats();
    await_that("the heart stands still", || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        beats() == std::mem::replace(&mut before, beats())
    });
    job.signal(Signal::CONT);
    await_that("the heart beats again", || beats() > before);
    // A signal that ends implies that a stopped job goes on.
    job.signal(Signal::TSTP);
    await_that("mpiexec is stopped again", || state_of(job.pid()) == Some('T'));
    job.signal(Signal::TERM);
    job.signal(Signal::CONT);
    assert_eq!(job.end().0, 143);
}

#[test]
fn nohup_job_survives_sighup() {
    let scratch = Scratch::new("nohup");
    let go = scratch.path().join("go");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program("mpiexec").get_program());
    command.args(["-n", "1", RANK, "say=here", &format!("await={}", go.display()), "say=over"]);
    let mut job = Running::start_command(&mut command);
    job.await_line("here");
    job.signal(Signal::HUP);
    std::fs::write(&go, "").expect("a file");
    job.await_line("over");
    assert_eq!(job.end().0, 0);
}
