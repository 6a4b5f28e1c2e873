//! Programs of which no rank can go on.

use crate::is_found;

#[track_caller]
fn found(case: &str, lines: &[&str]) {
    let lines: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
    let first = "tutti: check: deadlock: no rank can go on";
    let all: Vec<&str> = std::iter::once(first).chain(lines.iter().map(String::as_str)).collect();
    is_found("deadlocks", case, 3, &all);
}

#[test]
fn a_ring_of_receives_is_found() {
    let lines = [
        "rank 0: waiting in MPI_Recv: for a message from rank 1 with tag 5 on MPI_COMM_WORLD",
        "rank 1: waiting in MPI_Recv: for a message from rank 2 with tag 5 on MPI_COMM_WORLD",
        "rank 2: waiting in MPI_Recv: for a message from rank 0 with tag 5 on MPI_COMM_WORLD",
    ];
    found("ring", &lines);
}

#[test]
fn a_ring_of_synchronous_sends_is_found() {
    let lines = [
        "rank 0: waiting in MPI_Ssend: for rank 1 to receive 1 x MPI_INT with tag 5 on MPI_COMM_WORLD",
        "rank 1: waiting in MPI_Ssend: for rank 2 to receive 1 x MPI_INT with tag 5 on MPI_COMM_WORLD",
        "rank 2: waiting in MPI_Ssend: for rank 0 to receive 1 x MPI_INT with tag 5 on MPI_COMM_WORLD",
    ];
    found("sends", &lines);
}

#[test]
fn a_rank_that_is_missing_in_a_collective_call_is_named() {
    let lines = [
        "rank 0: waiting in MPI_Recv: for a message from any rank with any tag on MPI_COMM_WORLD",
        "ranks 1, 2: waiting in MPI_Barrier: for rank 0 in the collective call on MPI_COMM_WORLD",
    ];
    found("collective", &lines);
}

#[test]
fn a_wait_for_a_tag_that_nobody_sends_is_found_when_the_others_finalize() {
    let lines = [
        "ranks 0, 2: waiting in MPI_Finalize: for rank 1 in the collective call on MPI_COMM_WORLD",
        "rank 1: waiting in MPI_Wait: for a message from rank 0 with tag 2 on MPI_COMM_WORLD",
    ];
    found("tag", &lines);
}
