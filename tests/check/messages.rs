//! Messages whose types do not match, and buffers that two operations use.

use tutti_testkit::{Need, skip_part};
use tutti_tests::{Scratch, compile, run};

use crate::{LIMIT, checking, is_found, is_remarked};

const FIRST: &str = "tutti: check: type signatures do not match on MPI_COMM_WORLD";

#[test]
fn checker_finds_a_receive_of_another_type() {
    let lines = [
        FIRST,
        "    rank 0 sent 4 x 32-bit integer (MPI_INT) with tag 7",
        "    rank 1 receives it as 4 x MPI_FLOAT in MPI_Recv",
    ];
    is_found("messages", "types", 2, &lines);
    is_remarked("warn", "messages", "types", 2, &lines);
}

#[test]
fn checker_names_the_call_that_posted_a_receive() {
    let lines = [
        FIRST,
        "    rank 0 sent 1000 x 64-bit floating point number (MPI_DOUBLE) with tag 3",
        "    rank 1 receives it as 1000 x MPI_LONG in MPI_Irecv (completed by MPI_Wait)",
    ];
    is_found("messages", "posted", 2, &lines);
}

#[test]
fn checker_finds_a_written_message_of_another_type() {
    let lines = [
        FIRST,
        "    rank 0 sent 20000 x 64-bit floating point number (MPI_DOUBLE) with tag 5",
        "    rank 1 receives it as 20000 x MPI_LONG in MPI_Irecv (completed by MPI_Wait)",
    ];
    is_found("messages", "written_otherwise", 2, &lines);
}

/// Messages to receives that came first are written while the program is checked, too, in a node and between
/// nodes.
// Paper: M4
#[test]
fn checked_messages_are_written_to_receives_that_came_first() {
    let scratch = Scratch::new("check-messages-written");
    let compiled = compile("tests/check/programs/messages.c", scratch.path());
    for place in ["shm", "udp"] {
        if place == "shm" && std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
            skip_part(Need::Cores, "ranks that share a core announce");
            continue;
        }
        let mut mpiexec = checking("1", 2, &compiled, &["written"]);
        mpiexec.env("TUTTI_TRANSPORT", place).env("TUTTI_STATS", "json");
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("went on to the end"), "{place}: {ran}");
        let lines =
            ran.stderr.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let jobs: Vec<_> = lines.map(|line| line["job"]["written"].clone()).collect();
        assert!(jobs.iter().any(|written| written.as_u64() == Some(3)), "{place}: {ran}");
    }
}

#[test]
fn checker_compares_the_order_of_basic_types() {
    let lines = [
        FIRST,
        "    rank 0 sent 12 bytes of several basic types with tag 1",
        "    rank 1 receives it as 2 x MPI_DOUBLE in MPI_Recv",
    ];
    is_found("messages", "structures", 2, &lines);
}

#[test]
fn checker_checks_messages_to_self() {
    let lines = [
        FIRST,
        "    rank 0 sent 1 x 32-bit integer (MPI_INT) with tag 2",
        "    rank 0 receives it as 1 x MPI_FLOAT in MPI_Sendrecv",
    ];
    is_found("messages", "self", 1, &lines);
}

#[test]
fn checker_finds_receives_into_the_same_memory() {
    let lines = [
        "tutti: check: overlapping buffers on rank 1: 4 bytes from address ADDRESS are in use by two operations",
        "    MPI_Irecv receives 5 x MPI_INT",
        "    MPI_Irecv, which is not complete, receives 6 x MPI_INT on MPI_COMM_WORLD",
    ];
    is_found("messages", "receives", 2, &lines);
}

#[test]
fn checker_finds_a_send_of_memory_being_received() {
    let lines = [
        "tutti: check: overlapping buffers on rank 1: 40 bytes from address ADDRESS are in use by two operations",
        "    MPI_Send sends 10 x MPI_INT",
        "    MPI_Irecv, which is not complete, receives 10 x MPI_INT on MPI_COMM_WORLD",
    ];
    is_found("messages", "send_of_receive", 2, &lines);
}
