//! The way to other nodes: what is wrong with it, or with what a program gives it, is the user's line.

use std::process::{Command, Stdio};

use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, compile, program};

use crate::harness::{mpiexec_path, run};

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
        let is_signal = ran.code() == 139;
        assert!(is_signal || ran.stderr.contains(why), "{what}: {ran}");
    }
}
