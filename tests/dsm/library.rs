//! Calls of MPI and OpenSHMEM that are given shared memory whose pages are not here: on one node they are
//! right; between nodes they are, or the job ends.

use std::path::Path;

use tutti_tests::{Ran, Scratch, program, run};

use super::{LIMIT, compile_twin};

const ONE_TO_ONE: [&str; 4] = ["send", "isend", "type", "receive"];
const TOGETHER: [&str; 9] =
    ["bcast", "allreduce", "allgather", "put", "get", "accumulate", "window", "multicast", "shmem"];

fn launch(compiled: &Path, ranks: u32, nodes: u32, what: &str) -> Ran {
    let mut command = program("mpiexec");
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]);
    run(command.arg(compiled).arg(what), LIMIT)
}

#[test]
fn dsm_memory_in_calls_of_mpi_on_one_node_is_right() {
    let scratch = Scratch::new("dsm-library-node");
    let compiled = compile_twin("tests/dsm/programs/library.c", &scratch);
    for what in ONE_TO_ONE.into_iter().chain(TOGETHER) {
        let ran = launch(&compiled, 2, 1, what).expect_success();
        assert_eq!(ran.stdout, "library: 0 wrong\n", "{what}: {ran}");
    }
}

/// A copy by the library itself, in the program's thread or in one of its own, says that memory is shared.
/// Where the kernel copies it says that there is none.
#[test]
fn dsm_memory_in_calls_of_mpi_between_nodes_is_right_or_ends_the_job() {
    let scratch = Scratch::new("dsm-library-nodes");
    let compiled = compile_twin("tests/dsm/programs/library.c", &scratch);
    // Of four ranks two share a node, and call each other.
    let apart = ONE_TO_ONE.into_iter().chain(TOGETHER).map(|what| (2, what));
    for (ranks, what) in apart.chain(ONE_TO_ONE.map(|what| (4, what))) {
        let ran = launch(&compiled, ranks, 2, what);
        let says = |line: &&str| {
            line.contains(" that is not here: copy it to private memory first")
                || line.contains(" is not the program's: is its address or count wrong?")
        };
        let is_right = ran.status.success() && ran.stdout == "library: 0 wrong\n";
        let is_said = !ran.status.success() && ran.stderr.lines().any(|line| says(&line));
        assert!(is_right || is_said, "{what} on {ranks} ranks of 2 nodes: {ran}");
    }
}
