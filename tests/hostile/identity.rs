//! A job of a user under root's daemon is the user's, on every node.

use rustix::process::Signal;

use crate::Machine;
use crate::harness::await_that;

#[test]
fn users_jobs_under_root_daemon_run_as_their_users() {
    let Some(machine) = Machine::up("hostile-identity", 2, 2, &[]) else { return };
    for user in [0, 1] {
        let words = ["run", "-N", "2", "-n", "2", "sh", "-c", "echo $(id -u) $(id -g) $(id -G)"];
        let ran = machine.tutti(user, &words).expect_success();
        let uid = machine.uid(user);
        assert_eq!(ran.stdout, format!("{uid} {uid} {uid}\n").repeat(2), "{ran}");
    }
}

#[test]
fn users_jobs_cannot_be_controlled_by_another_user() {
    let Some(machine) = Machine::up("hostile-control", 1, 2, &[]) else { return };
    let job = machine.start(0, &["run", "-n", "1", "sleep", "1000"]);
    machine.await_state(1, "running");
    for words in [&["kill", "1"][..], &["suspend", "1"], &["signal", "KILL", "1"], &["attach", "1"]] {
        machine.users.refused(&mut machine.command(1, "tutti", words), "job 1 is another user's");
    }
    let ranks = job.mark.processes();
    assert!(!ranks.is_empty());
    let denied = machine
        .as_user(1, |_| ranks.iter().all(|pid| rustix::process::kill_process(*pid, Signal::KILL).is_err()));
    assert!(denied, "the kernel sees to it");
    assert_eq!(machine.row(1)["state"], "running");
    job.signal(Signal::TERM);
    assert_eq!(job.end().0, 143);
    await_that("nothing of the users' is left", || {
        machine.users.uids().iter().all(|uid| machine.users.processes(*uid).is_empty())
    });
}
