//! What a process finds at its start: MPI_APPNUM, MPI_UNIVERSE_SIZE, the initial error handler.

use std::process::Command;

use tutti_tests::{Scratch, compile, program, run};

use crate::LIMIT;

/// The lines of ranks, in their order.
fn lines(command: &mut Command) -> Vec<String> {
    let ran = run(command, LIMIT).expect_success();
    let mut lines: Vec<String> =
        ran.stdout.lines().filter(|line| line.starts_with("rank ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn attributes_appnum_and_universe_size_are_set() {
    let scratch = Scratch::new("mpi-start-programs");
    let start = &compile("tests/mpi/programs/start.c", scratch.path());
    let fatal = "fatal fatal mpi_errors_are_fatal";
    for nodes in [&[][..], &["--virtual-nodes", "2"]] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(nodes).args(["-n", "2"]).arg(start).args([":", "-n", "1"]).arg(start);
        let expected = [(0, 0), (1, 0), (2, 1)]
            .map(|(rank, number)| format!("rank {rank} of 3, program {number}, universe 3, {fatal}"));
        assert_eq!(lines(&mut mpiexec), expected, "{nodes:?}");
    }
    // Without mpiexec nobody has given it a number.
    assert_eq!(lines(&mut Command::new(start)), [format!("rank 0 of 1, universe 1, {fatal}")]);
    // A process that a rank starts is no rank, whatever it inherits.
    let below = format!("exec {} & wait; exec {0}", start.display());
    let found = lines(program("mpiexec").args(["-n", "1", "sh", "-c", &below]));
    assert_eq!(found.iter().filter(|line| line.contains("program 0")).count(), 1, "{found:?}");
}

#[test]
fn mpiexec_sets_the_initial_error_handler() {
    let scratch = Scratch::new("mpi-start-handler");
    let start = &compile("tests/mpi/programs/start.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-initial-errhandler", "mpi_errors_return", "-n", "1"]).arg(start).arg("return");
    mpiexec.args([":", "-n", "1", "-initial-errhandler", "mpi_errors_abort"]).arg(start);
    let expected = [
        "rank 0 of 2, program 0, universe 2, return return mpi_errors_return",
        "rank 1 of 2, program 1, universe 2, abort abort mpi_errors_abort",
    ];
    assert_eq!(lines(&mut mpiexec), expected);
    let ran = run(program("mpiexec").args(["-initial-errhandler", "mpi_errors", "true"]), LIMIT);
    assert_ne!(ran.code(), 0, "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    assert!(ran.stderr.contains("mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return"), "{ran}");
}
