//! Requests and partitioned messages.

use crate::{LIMIT, conforms};
use tutti_tests::{Scratch, compile, program, run};

#[test]
fn wildcards_match_in_order() {
    conforms("wildcards", &[2, 4]);
}

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
}

#[test]
fn request_errors_are_raised_on_the_communicator_of_the_request() {
    conforms("request_errors", &[2, 3]);
    let scratch = Scratch::new("mpi-request-errors-udp");
    let compiled = compile("tests/mpi/programs/request_errors.c", scratch.path());
    let options = ["-n", "2", "--virtual-nodes", "2"];
    let ran = run(program("mpiexec").args(options).arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("request_errors: ok\n"), "{ran}");
}
