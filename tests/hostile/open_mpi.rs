//! Programs of Open MPI in jobs of root's daemons: their PMIx server is a process of the user.

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::{Need, skip};
use tutti_tests::{LIMIT, Scratch, await_that, run};

use crate::machine::Machine;

/// The PMIx servers of a user.
fn servers(machine: &Machine, user: usize) -> Vec<Pid> {
    let name = |pid: &Pid| std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
    let all = machine.users.processes(machine.uid(user));
    all.into_iter().filter(|pid| name(pid).is_ok_and(|name| name.trim() == "tutti-pmix")).collect()
}

#[test]
fn open_mpi_jobs_of_users_have_servers_of_their_own() {
    let Some(open_mpi) = tutti_tests::peers::open_mpi() else { return };
    let Some(machine) = Machine::up("hostile-open-mpi", 2, 2, &[]) else { return };
    let library = open_mpi.join("lib/libmpi.so.40");
    let mut reads = machine.users.foreign(machine.uid(0), "test");
    if run(reads.arg("-r").arg(&library), LIMIT).code() != 0 {
        skip(Need::Setup, "Open MPI stands where users have no access");
        return;
    }
    let scratch = Scratch::new("hostile-open-mpi-program");
    let file = scratch.path().join("foreign");
    let source = tutti_tests::root().join("tests/foreign/c/foreign.c");
    let mut mpicc = std::process::Command::new(open_mpi.join("bin/mpicc"));
    run(mpicc.arg("-o").arg(&file).arg(source), LIMIT).expect_success();
    let file = machine.users.reachable(&file);
    let file = file.to_str().expect("UTF-8");
    let mut jobs = [0, 1].map(|user| {
        let mut job = machine.start(user, &["run", "-N", "2", "-n", "2", file, "wait"]);
        job.await_line("rank 0 of 2, 1 on its node, sum 1, last 1");
        assert_eq!(servers(&machine, user).len(), 2, "one on each node");
        Some(job)
    });
    // A user kills its own; the other's job goes on.
    kill_process(servers(&machine, 0)[0], Signal::KILL).expect("it runs");
    let (status, errors) = jobs[0].take().expect("it runs").end();
    assert_eq!(status, 1, "{errors}");
    let is_said = errors.lines().count() == 1 && errors.contains("the PMIx server (tutti-pmix, pid ");
    assert!(is_said, "{errors}");
    // A process that ends has its name until somebody takes its status.
    await_that("its servers are gone", || servers(&machine, 0).is_empty());
    assert_eq!(servers(&machine, 1).len(), 2, "the other job has its own");
    let job = jobs[1].take().expect("it runs");
    job.signal(Signal::TERM);
    assert_eq!(job.end().0, 143);
}
