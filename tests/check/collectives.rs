//! Collective calls that do not match.

use crate::{is_found, is_remarked};

const WORLD: &str = "on MPI_COMM_WORLD, its collective call";

#[track_caller]
fn found(case: &str, what: &str, number: u32, lines: &[&str]) {
    let first = format!("tutti: check: collective calls with {what} {WORLD} {number}");
    let lines: Vec<String> = lines.iter().map(|line| format!("    {line}")).collect();
    let all: Vec<&str> = std::iter::once(first.as_str()).chain(lines.iter().map(String::as_str)).collect();
    is_found("collectives", case, 4, &all);
}

#[test]
fn checker_finds_different_collective_functions() {
    let lines = ["ranks 0, 2, 3: MPI_Bcast(1 x MPI_INT, root 0)", "rank 1: MPI_Barrier"];
    found("functions", "different functions", 1, &lines);
    let lines = ["rank 0: MPI_Ibarrier", "ranks 1-3: MPI_Ibcast(1 x MPI_INT, root 0)"];
    found("nonblocking", "different functions", 1, &lines);
    found("creation", "different functions", 1, &["rank 0: MPI_Comm_dup", "ranks 1-3: MPI_Barrier"]);
    found("finalize", "different functions", 1, &["rank 0: MPI_Finalize", "ranks 1-3: MPI_Barrier"]);
}

#[test]
fn checker_finds_different_roots() {
    let lines =
        ["ranks 0, 1, 3: MPI_Bcast(3 x MPI_DOUBLE, root 0)", "rank 2: MPI_Bcast(3 x MPI_DOUBLE, root 2)"];
    found("roots", "different roots", 1, &lines);
    let lines = ["ranks 0, 2: MPI_Bcast(1 x MPI_INT, root 0)", "ranks 1, 3: MPI_Bcast(1 x MPI_INT, root 1)"];
    found("second", "different roots", 2, &lines);
}

#[test]
fn checker_finds_different_operations() {
    let lines =
        ["rank 0: MPI_Allreduce(1 x MPI_INT, MPI_SUM)", "ranks 1-3: MPI_Allreduce(1 x MPI_INT, MPI_MAX)"];
    found("operations", "different reduction operations", 1, &lines);
}

#[test]
fn checker_finds_mismatched_counts_and_types() {
    let lines = [
        "ranks 0-2: MPI_Bcast(4 x MPI_INT, root 0)",
        "rank 3: MPI_Bcast(5 x MPI_INT, root 0)",
        "rank 0 sends 4 x 32-bit integer (MPI_INT) to rank 3, which expects 5 x 32-bit integer (MPI_INT)",
    ];
    found("counts", "counts or types that do not match", 1, &lines);
    let lines = [
        "ranks 0, 2, 3: MPI_Reduce(1 x MPI_LONG, MPI_SUM, root 0)",
        "rank 1: MPI_Reduce(1 x MPI_DOUBLE, MPI_SUM, root 0)",
    ];
    found("types", "different counts or types", 1, &lines);
    let lines = [
        "rank 0: MPI_Gather(sends 1 x MPI_INT, receives 1 x MPI_INT from each, root 0)",
        "ranks 1, 3: MPI_Gather(sends 1 x MPI_INT, root 0)",
        "rank 2: MPI_Gather(sends 2 x MPI_INT, root 0)",
        "rank 2 sends 2 x 32-bit integer (MPI_INT) to rank 0, which expects 1 x 32-bit integer (MPI_INT)",
    ];
    found("pieces", "counts or types that do not match", 1, &lines);
}

#[test]
fn checker_finds_in_place_on_some_ranks_only() {
    let what = "MPI_IN_PLACE on some ranks only";
    let lines = [
        "ranks 0, 2, 3: MPI_Allreduce(1 x MPI_INT, MPI_SUM)",
        "rank 1: MPI_Allreduce(1 x MPI_INT, MPI_SUM, in place)",
    ];
    found("in_place_allreduce", what, 1, &lines);
    let lines = [
        "ranks 0, 2, 3: MPI_Allgather(sends 1 x MPI_INT, receives 1 x MPI_INT from each)",
        "rank 1: MPI_Allgather(sends 1 x MPI_INT (in place), receives 1 x MPI_INT from each)",
    ];
    found("in_place_allgather", what, 1, &lines);
    let lines = [
        "ranks 0, 2, 3: MPI_Alltoall(sends 1 x MPI_INT to each, receives 1 x MPI_INT from each)",
        "rank 1: MPI_Alltoall(sends 1 x MPI_INT to each (in place), receives 1 x MPI_INT from each)",
    ];
    found("in_place_alltoall", what, 1, &lines);
    let lines = [
        "ranks 0, 2, 3: MPI_Reduce_scatter_block(4 x MPI_INT, MPI_SUM)",
        "rank 1: MPI_Reduce_scatter_block(4 x MPI_INT, MPI_SUM, in place)",
    ];
    found("in_place_block", what, 1, &lines);
    is_remarked("1", "collectives", "in_place_allowed", 4, &[]);
}

#[test]
fn checker_names_communicators_and_world_ranks() {
    let lines = [
        "tutti: check: collective calls with different roots on half, its collective call 1",
        "    rank 0: MPI_Bcast(1 x MPI_INT, root 0)",
        "    ranks 1, 2: MPI_Bcast(1 x MPI_INT, root 1)",
        "    (world ranks of the members: [1, 2, 3])",
    ];
    is_found("collectives", "subset", 4, &lines);
}

#[test]
fn reductions_beyond_the_standard_are_remarked_once_in_one_line() {
    let line = "tutti: check: MPI_SUM on MPI_CHAR is beyond the MPI standard; not every library has it";
    is_remarked("1", "collectives", "characters", 4, &[line]);
}

#[test]
fn errors_that_world_gets_instead_of_self_are_remarked_once_in_one_line() {
    let line = "tutti: check: rank 0: the handler of MPI_COMM_WORLD has an error of MPI_Type_size, which names no object; \
                since MPI-4.0 that is MPI_COMM_SELF's, and not every library asks both";
    is_remarked("1", "collectives", "handler", 4, &[line]);
}

#[test]
fn checker_finds_memory_that_is_in_both_buffers() {
    let lines = [
        "tutti: check: overlapping buffers on rank 0: 4 bytes of sendbuf are in recvbuf too",
        "    MPI_Allreduce on MPI_COMM_SELF, where one memory for both is said by MPI_IN_PLACE",
    ];
    is_found("collectives", "aliased", 4, &lines);
    let lines = [
        "tutti: check: overlapping buffers on rank 0: 4 bytes of sendbuf are in recvbuf too",
        "    MPI_Alltoall on MPI_COMM_SELF, where one memory for both is said by MPI_IN_PLACE",
    ];
    is_found("collectives", "aliased_pieces", 4, &lines);
}
