//! Orphans of a job whose starter its user has killed: nothing is left behind.

use rustix::process::{Pid, Signal, kill_process};
use tutti_os::stat::Stat;
use tutti_tests::{comes_true, state_of};

use crate::Machine;
use crate::harness::{RANK, await_that};

/// Processes of one job, each in a session of its own.
const STRAYS: usize = 600;

/// Processes that are a process's children, zombies too.
pub fn children(pid: Pid) -> Vec<String> {
    let tasks =
        std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).expect("it lives").flatten();
    let texts = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    texts.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn orphans_of_a_job_whose_starter_is_killed_end_and_leave_no_zombies() {
    let Some(machine) = Machine::up("hostile-orphans", 1, 1, &[]) else { return };
    let (daemon, uid) = (machine.daemon(0), machine.uid(0));
    let rank = machine.users.reachable(RANK.as_ref());
    let rank = rank.to_str().expect("a path of text");
    let strays = format!("strays={STRAYS}");
    let mut job = machine.start(0, &["run", "-n", "1", rank, &strays, "say=all are there", "hang"]);
    job.await_line("all are there");
    assert!(machine.users.processes(uid).len() >= STRAYS);
    let pid = machine.row(1)["pids"][0][1][0].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
    let starter = Pid::from_raw(Stat::of(pid.expect("a rank")).expect("it lives").parent).expect("a pid");
    let killed = machine.as_user(0, |_| kill_process(starter, Signal::KILL));
    killed.expect("it is its user's");
    machine.await_state(1, "over");
    let (status, said) = job.end();
    assert!(
        status == 1 && said.contains("the starter died (signal: 9 (SIGKILL)); the job is ended"),
        "{said}"
    );
    let is_clean = comes_true(|| machine.users.processes(uid).is_empty() && children(daemon).is_empty());
    let left: Vec<_> = machine.users.processes(uid).into_iter().map(state_of).collect();
    assert!(is_clean, "of the user {left:?}, of the daemon {:?}", children(daemon));
    // The daemon still takes the status of its own.
    let ran = machine.tutti(0, &["run", "-n", "2", "sh", "-c", "exit 7"]);
    assert_eq!(ran.code(), 7, "{ran}");
    await_that("no child is left", || children(daemon).is_empty());
}
