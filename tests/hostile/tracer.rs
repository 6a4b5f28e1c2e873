//! Tracers of processes of the same user get no descriptor of root's daemon from a starter.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Pid;
use tutti_tests::{LIMIT, run};

use crate::Machine;
use crate::harness::await_that;

/// The path of the starter's program in the tree that users have.
fn starter(machine: &Machine) -> std::path::PathBuf {
    machine.users.programs().join("libexec/tutti/tutti-starter")
}

/// Between exec and the first instruction a starter is as closed as behind it: the kernel makes it so, since
/// nobody but its owner may read the file.
#[test]
fn starter_is_closed_to_a_tracer_of_its_user_from_its_first_instruction() {
    let Some(machine) = Machine::up("hostile-tracer", 1, 1, &[]) else { return };
    let mode = std::fs::metadata(starter(&machine)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o711, "{}", starter(&machine).display());
    let seize = machine.compile("tests/hostile/programs/seize.c");
    let mut command = machine.users.foreign(machine.uid(0), &seize);
    let ran = run(command.arg(starter(&machine)), LIMIT).expect_success();
    assert_eq!(ran.stdout, "descriptor: refused\nlink: refused\nmemory: refused\n", "{ran}");
    // What the test would see of a program that may be read.
    let mut command = machine.users.foreign(machine.uid(0), &seize);
    let ran = run(command.arg("/bin/true"), LIMIT).expect_success();
    assert!(ran.stdout.starts_with("descriptor: possible\nlink: possible\n"), "{ran}");
}

/// One that runs has cgroups of root's open, and its user may not look into it; one without any may be
/// debugged by its user, whose own daemon looks into it.
#[test]
fn starter_with_descriptors_of_roots_daemon_is_closed_and_others_are_not() {
    let Some(machine) = Machine::up("hostile-tracer-runs", 1, 1, &[]) else { return };
    let job = machine.submit(0, &["-n", "1", "sleep", "1000"]);
    machine.await_state(job, "running");
    let uid = machine.uid(0);
    let starters = || -> Vec<Pid> {
        let is_one = |pid: &Pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            line.split(|byte| *byte == 0).next().is_some_and(|word| word.ends_with(b"/tutti-starter"))
        };
        machine.users.processes_by_status(uid).into_iter().filter(is_one).collect()
    };
    await_that("its starter is there", || !starters().is_empty());
    let may_look = |pid: Pid| {
        let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
        machine.as_user(0, |_| std::fs::read_dir(&path).is_ok_and(|entries| entries.count() > 0))
    };
    if machine.row(job)["held_by"].to_string().contains("cgroup") {
        assert!(starters().into_iter().all(|pid| !may_look(pid)), "a starter with root's cgroups is open");
    } else {
        tutti_testkit::skip_part(tutti_testkit::Need::Cgroup, "root's daemon gives starters nothing");
    }
    machine.tutti(0, &["kill", &job.to_string()]).expect_success();
    machine.await_state(job, "over");
    // A launch without a daemon.
    let mut alone = machine.users.command(uid, "mpiexec", &["-n", "1", "sleep", "1000"]);
    let alone = crate::harness::Running::start_command(alone.env("TUTTI_DAEMON", "none"));
    await_that("its starter is there, and open", || {
        let starters = starters();
        !starters.is_empty() && starters.into_iter().all(may_look)
    });
    alone.signal(rustix::process::Signal::INT);
    alone.end();
}
