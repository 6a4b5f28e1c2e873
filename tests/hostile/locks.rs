//! Locks of a user on what root's daemons have made: a lock says there that somebody needs it.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};

use crate::Machine;
use crate::harness::await_that;

const HONEST: usize = 0;
const HOSTILE: usize = 1;

/// The daemon and all processes of the job are killed, and the next daemon removes what they have left.
#[test]
fn cgroups_of_a_job_cannot_be_locked_by_another_user_and_are_swept() {
    let Some(machine) = Machine::up_within_groups("hostile-locks", 1, 2, &[]) else { return };
    let Some(groups) = &machine.groups else { return };
    let job = machine.submit(HONEST, &["-o", "none", "-n", "1", "sleep", "1000"]);
    machine.await_state(job, "running");
    let gone = machine.cluster.kill_daemon(0);
    let mut made = [groups.jobs_of_both(), groups.users()].concat();
    let inside = |path: &std::path::Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let mut at = 0;
    while at < made.len() {
        made.extend(inside(&made[at]));
        at += 1;
    }
    assert!(made.len() > 2, "{made:?}");
    let locked = machine.as_user(HOSTILE, |_| {
        let open = made.iter().filter_map(|path| File::open(path).ok());
        open.filter(|file| flock(file, FlockOperation::NonBlockingLockShared).is_ok()).collect::<Vec<_>>()
    });
    for pid in machine.users.processes(machine.uid(HONEST)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    gone.start();
    await_that("the next daemon has removed them", || {
        groups.jobs_of_both().is_empty() && groups.users().is_empty()
    });
    assert_eq!(locked.len(), 0, "none of them can be opened");
}
