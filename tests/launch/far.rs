//! The way to other nodes: what is wrong with it, or with what a program gives it, is the user's line.

use std::process::{Command, Stdio};

use tutti_testkit::{Need, has_command, skip};
use tutti_tests::{Scratch, compile, program};

use crate::harness::{Running, await_that, mpiexec_path, run};

#[test]
fn missing_way_to_other_nodes_is_named_for_any_number_of_ranks() {
    let made = Command::new("unshare").args(["--net", "true"]).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return skip(Need::NetworkNamespace, "unshare --net is refused");
    }
    let scratch = Scratch::new("launch-no-way");
    let path = compile("tests/mpi/programs/start.c", scratch.path());
    for ranks in ["2", "4", "7"] {
        let mut command = Command::new("unshare");
        command.env("TUTTI_DAEMON", "none").arg("--net").arg(mpiexec_path());
        let ran = run(command.args(["--virtual-nodes", "2", "-n", ranks]).arg(&path));
        assert!(ran.code() != 0, "{ranks}: {ran}");
        assert!(ran.stderr.contains("cannot be opened: 127."), "the node is named: {ranks}: {ran}");
        assert!(ran.stderr.contains("Network is unreachable"), "{ranks}: {ran}");
    }
}

#[test]
fn bad_memory_of_a_message_between_nodes_is_the_user_s_line() {
    let scratch = Scratch::new("launch-bad-pointer");
    let path = compile("tests/launch/programs/bad_pointer.c", scratch.path());
    for (what, why) in [("receive", "MPI_Recv"), ("send", "MPI_Send"), ("close", "closed descriptors")] {
        let mut mpiexec = program("mpiexec");
        let ran =
            run(mpiexec.args(["--virtual-nodes", "2", "-n", "2", "--timeout", "20"]).arg(&path).arg(what));
        assert!(ran.code() != 0 && !ran.stderr.contains("broken invariant"), "{what}: {ran}");
        assert!(ran.stderr.contains(why) && ran.code() < 128, "{what}: {ran}");
    }
}

/// A firewall that is closed while the job runs, or a node that goes: of this nothing tells but silence.
#[test]
fn way_to_another_node_that_is_cut_is_named_within_seconds() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "nodes with networks of their own are made by root");
    }
    if !has_command(Need::Ip, "ip") {
        return;
    }
    let scratch = Scratch::new("launch-cut");
    let path = compile("tests/launch/programs/goes_silent.c", scratch.path());
    let ways = ["refuse", "blackhole", "heard", "drop"].map(|way| {
        let said = scratch.path().join(way);
        let mut shell = Command::new("bash");
        shell.env("TUTTI_DAEMON", "none").env("SAID", &said);
        shell.args(["-c", "exec \"$@\" 2>\"$SAID\"", "bash"]).arg(mpiexec_path());
        let mut job = Running::start_command(shell.args(["--netns", "2", "-n", "2"]).arg(&path).arg(way));
        job.await_line("cut");
        (job, said, way)
    });
    for (job, said, way) in ways {
        let text = || std::fs::read_to_string(&said).expect("what it said");
        // A node that cannot send knows why and to whom; one that hears nothing knows whom it has asked.
        let wanted = match way {
            "drop" => "nothing has come from rank 0 of another node (10.213.0.",
            "blackhole" => ": Invalid argument; a firewall or a route",
            _ => ": Permission denied; a firewall or a route",
        };
        await_that("the user is told", || text().contains(wanted));
        assert!(way == "drop" || text().contains("has refused to send to rank 0 on 10.213.0."), "{}", text());
        assert!(way == "heard" || text().lines().count() == 1, "{way}: {}", text());
        job.signal(rustix::process::Signal::KILL);
        job.end();
    }
}
