//! Where there is no memory left around the daemon and all jobs, it is not the daemon that is ended for it.

use rustix::process::Pid;
use tutti_testkit::{Need, skip};
use tutti_tests::{LIMIT, run};

use crate::Machine;
use crate::harness::await_that;

/// Users: the attacked one, and the attacker.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Memory of all together beyond that at first.
const ROOM_BYTES: u64 = 96 << 20;

/// How willingly the kernel ends a process for want of memory.
fn score(pid: Pid) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()));
    text.expect("it lives").trim().parse().expect("a number")
}

#[test]
fn daemon_is_ended_for_want_of_memory_after_the_jobs_of_users() {
    let Some(machine) = Machine::up("hostile-oom-score", 1, 2, &[]) else { return };
    let mut job = machine.start(HOSTILE, &["run", "-n", "2", "sh", "-c", "echo up; exec sleep 3600"]);
    job.await_line("up");
    let own = score(rustix::process::getpid());
    let mut lowers = std::process::Command::new("sh");
    lowers.args(["-c", "echo -900 > /proc/self/oom_score_adj"]);
    // The kernel lets not every root lower it: in some containers, it stays that of its session.
    let wanted = if run(&mut lowers, LIMIT).status.success() { -900 } else { own };
    assert_eq!(score(machine.daemon(0)), wanted, "the daemon is among the last, if it may");
    let processes = machine.users.processes(machine.uid(HOSTILE));
    assert!(processes.len() >= 3, "a starter and its ranks: {processes:?}");
    let scores: Vec<i32> = processes.into_iter().map(score).collect();
    assert!(scores.iter().all(|score| *score == own), "each has that of its session, {own}: {scores:?}");
    let script = "for s in -1 -900 -1000; do echo $s > /proc/self/oom_score_adj && echo got $s; done; exit 0";
    let ran = machine.tutti(HOSTILE, &["run", "-n", "1", "sh", "-c", script]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (0, ""), "nor do they get another: {ran}");
    job.signal(rustix::process::Signal::TERM);
    job.end();
}

#[test]
fn daemon_outlives_a_job_that_takes_all_memory_around_it() {
    let Some(machine) = Machine::up_within_groups("hostile-oom", 1, 2, &[]) else { return };
    let Some(limit) = machine.groups.as_ref().and_then(|groups| groups.memory_limit()) else {
        return skip(Need::Memory, "the kernel has no controller of memory for us");
    };
    let daemon = machine.daemon(0);
    let mut honest = machine.start(HONEST, &["run", "-n", "2", "sh", "-c", "echo up; exec sleep 3600"]);
    honest.await_line("up");
    let usage = ["memory.usage_in_bytes", "memory.current"].map(|file| limit.with_file_name(file));
    let usage = usage.iter().find_map(|file| std::fs::read_to_string(file).ok()).expect("its use");
    let usage: u64 = usage.trim().parse().expect("a number");
    std::fs::write(&limit, (usage + ROOM_BYTES).to_string()).expect("it is ours");
    // One that takes more than there is; again and again, and many at once.
    let takes = "for i in 1 2 3; do head -c 400M /dev/zero | tail -c 300M >/dev/null; echo $?; done";
    for _ in 0..2 {
        let ran = machine.tutti(HOSTILE, &["run", "-n", "1", "sh", "-c", takes]);
        let is_killed = ran.stdout.contains("137") || ran.code() == 137;
        assert!(is_killed, "the kernel ended what took it: {ran}");
        machine.tutti(HONEST, &["ps"]).expect_success();
    }
    assert_eq!(machine.daemon(0), daemon, "the daemon has lived through it");
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    assert_eq!(machine.row(1)["state"], "running", "{}", machine.row(1));
    honest.signal(rustix::process::Signal::TERM);
    honest.end();
    await_that("all jobs are over", || machine.jobs().is_empty());
}
