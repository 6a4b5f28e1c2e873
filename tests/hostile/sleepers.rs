//! A job of thousands of processes takes the switch thread no more time than others.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tutti_tests::comes_true;

use crate::Machine;

/// Processes of the hostile job; it says so each time that it has so many more.
const SLEEPERS: usize = 3000;
const SAID: usize = 250;
/// Slices that the honest job has while the switch thread is watched.
const TURNS: u64 = 20;
/// The switch thread works for less than one part in so many of the time. The kernel freezes all processes of
/// a cgroup in its call.
const PART: u32 = 2;

/// CPU time of a daemon's switch thread.
fn switch_thread_time(daemon: Pid) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.as_raw_nonzero())).expect("it lives");
    let text = |path: &std::path::Path, name| std::fs::read_to_string(path.join(name)).unwrap_or_default();
    let mut tasks = tasks.flatten().map(|task| task.path());
    let switch = tasks.find(|path| text(path, "comm").trim() == "switch").expect("it has a switch thread");
    let worked = text(&switch, "schedstat");
    Duration::from_nanos(worked.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number"))
}

#[test]
fn sleepers_by_the_thousand_do_not_occupy_the_switch_thread() {
    let Some(machine) = Machine::up("hostile-sleepers", 1, 2, &["--slots", "1", "--slice", "50"]) else {
        return;
    };
    let script = format!(
        "mkfifo fifo; i=0; while [ $i -lt {SLEEPERS} ]; do (read line < fifo) & i=$((i + 1)); \
         [ $((i % {SAID})) -gt 0 ] || echo $i; done; wait"
    );
    let mut crowd = machine.start(0, &["run", "-n", "1", "sh", "-c", &script]);
    (1..=SLEEPERS / SAID).for_each(|times| crowd.await_line(&(times * SAID).to_string()));
    let honest = machine.start(1, &["run", "-n", "1", "sh", "-c", "while :; do :; done"]);
    machine.await_state(2, "running");
    let turns = || machine.row(2)["turns"].as_u64().unwrap_or(0);
    assert!(comes_true(|| turns() > 0), "it was awaited that the honest job has had a turn");
    let (first, began, worked) = (turns(), Instant::now(), switch_thread_time(machine.daemon(0)));
    let has_had = comes_true(|| turns() >= first + TURNS);
    let worked = switch_thread_time(machine.daemon(0)) - worked;
    let passed = began.elapsed();
    println!("{} turns in {passed:?}, of which the switch thread worked {worked:?}", turns() - first);
    assert!(has_had, "the honest job has had {} turns in {passed:?}", turns() - first);
    assert!(worked < passed / PART, "the switch thread worked {worked:?} of {passed:?}");
    honest.signal(Signal::TERM);
    assert_eq!(honest.end().0, 143);
    crowd.signal(Signal::TERM);
    assert_eq!(crowd.end().0, 143);
}
