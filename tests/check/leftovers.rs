//! What a program leaves behind at MPI_Finalize.

use crate::is_remarked;

const FIRST: &str = "tutti: check: left behind at MPI_Finalize";

#[test]
fn messages_that_nobody_received_are_counted() {
    let line = "    rank 1: 4 messages from rank 0 on MPI_COMM_WORLD never received (the first with tag 40, 40 bytes)";
    is_remarked("1", "leftovers", "messages", 4, &[FIRST, line]);
}

#[test]
fn requests_that_nobody_completed_are_counted_by_the_function_that_made_them() {
    let lines = [
        FIRST,
        "    rank 0: 1 request of MPI_Isend never completed by a wait or test",
        "    rank 1: 1 request of MPI_Irecv still pending",
        "    ranks 2, 3: 1 request of MPI_Recv_init not freed (a persistent request)",
    ];
    is_remarked("1", "leftovers", "requests", 4, &lines);
}

#[test]
fn handles_that_nobody_freed_are_counted_by_the_function_that_made_them() {
    let lines = [
        FIRST,
        "    ranks 0-3: 1 communicator made by MPI_Comm_dup never freed",
        "    ranks 0-3: 1 datatype made by MPI_Type_contiguous never freed",
        "    ranks 0-3: 1 group made by MPI_Comm_group never freed",
    ];
    is_remarked("1", "leftovers", "handles", 4, &lines);
}

#[test]
fn nothing_is_said_of_a_program_that_leaves_nothing() {
    is_remarked("1", "leftovers", "nothing", 4, &[]);
}
