//! Requests and partitioned messages.

use crate::{LIMIT, conforms, mpiexec};
use tutti_tests::{Scratch, compile, program, run};

// Paper: M13
#[test]
fn wildcards_match_in_order() {
    conforms("wildcards", &[2, 4]);
}

// Paper: M14
#[test]
fn send_modes_work_blocking_nonblocking_and_persistent() {
    conforms("send_modes", &[2, 3]);
}

#[test]
fn request_get_status_and_freed_handles_work() {
    conforms("requests", &[2, 3]);
}

#[test]
fn partitioned_transfers_work_with_different_partitions() {
    conforms("partitioned", &[1, 2, 3]);
    between_nodes("partitioned");
}

#[test]
fn cancelled_sends_complete_and_never_arrive() {
    conforms("cancelled_sends", &[1, 2, 3]);
    between_nodes("cancelled_sends");
}

#[test]
fn freed_handles_stay_valid_for_operations_that_have_not_ended() {
    conforms("freed_handles", &[1, 2, 3]);
    between_nodes("freed_handles");
    let scratch = Scratch::new("mpi-freed-handles-checked");
    let compiled = compile("tests/mpi/programs/freed_handles.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.env("TUTTI_CHECK", "1").args(["-n", "3"]).arg(&compiled);
    let ran = run(&mut mpiexec, LIMIT).expect_success();
    assert!(ran.stdout.contains("freed_handles: ok\n") && !ran.stderr.contains("never freed"), "{ran}");
}

#[test]
fn request_errors_are_raised_on_the_communicator_of_the_request() {
    conforms("request_errors", &[2, 3]);
    between_nodes("request_errors");
}

/// A conformance program keeps its promises on two nodes, too.
#[track_caller]
fn between_nodes(name: &str) {
    let scratch = Scratch::new(&format!("mpi-{name}-udp"));
    let compiled = compile(&format!("tests/mpi/programs/{name}.c"), scratch.path());
    let options = ["-n", "2", "--virtual-nodes", "2"];
    let ran = run(program("mpiexec").args(options).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains(&format!("{name}: ok\n")), "{ran}");
}

/// Of each kind there can be 2^20.
#[test]
fn objects_that_are_never_freed_end_the_job_with_a_line() {
    let scratch = Scratch::new("mpi-fills");
    let program = compile("tests/mpi/programs/fills.c", scratch.path());
    let ran = mpiexec(1, &program, &[]);
    let is_said =
        ran.stderr.contains(" has 1048576 info objects (MPI_Info) at once, and there can be no more");
    assert!(ran.code() != 0 && ran.stdout.is_empty() && is_said, "{ran}");
    assert!(!ran.stderr.contains("broken invariant"), "{ran}");
}
