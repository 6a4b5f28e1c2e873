//! Leftovers of a program at MPI_Finalize, as the checker counts them.

use crate::is_remarked;

const FIRST: &str = "tutti: check: left behind at MPI_Finalize";

#[test]
fn checker_counts_unreceived_messages() {
    let line = "    rank 1: 4 messages from rank 0 on MPI_COMM_WORLD never received (the first with tag 40, 40 bytes)";
    is_remarked("1", "leftovers", "messages", 4, &[FIRST, line]);
}

#[test]
fn checker_counts_uncompleted_requests() {
    let lines = [
        FIRST,
        "    rank 0: 1 request of MPI_Isend never completed by a wait or test",
        "    rank 1: 1 request of MPI_Irecv still pending",
        "    ranks 2, 3: 1 request of MPI_Recv_init not freed (a persistent request)",
    ];
    is_remarked("1", "leftovers", "requests", 4, &lines);
}

#[test]
fn checker_counts_unfreed_handles() {
    let lines = [
        FIRST,
        "    ranks 0-3: 1 communicator made by MPI_Comm_dup never freed",
        "    ranks 0-3: 1 datatype made by MPI_Type_contiguous never freed",
        "    ranks 0-3: 1 group made by MPI_Comm_group never freed",
    ];
    is_remarked("1", "leftovers", "handles", 4, &lines);
}

#[test]
fn checker_is_silent_without_leftovers() {
    is_remarked("1", "leftovers", "nothing", 4, &[]);
}
