//! Messages whose types do not match, and buffers that two operations use.

use crate::{is_found, is_remarked};

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
