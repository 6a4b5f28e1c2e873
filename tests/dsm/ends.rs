//! Processes that end or die while others need them, and memory and locks that are gone: a line that says
//! why, and the end of the job.

use std::path::Path;
use std::process::Command;

use tutti_tests::{Ran, Scratch, program, run};

use super::{LIMIT, compile, compile_twin};

fn launch(compiled: &Path, nodes: u32, what: &str) -> Ran {
    let mut command = program("mpiexec");
    command.args(["-n", "2", "--virtual-nodes", &nodes.to_string()]).arg(compiled).arg(what);
    run(&mut command, LIMIT)
}

/// The job has ended with a status, and one line says this.
#[track_caller]
fn expect_one_line(ran: &Ran, expected: &str) {
    let lines = ran.stderr.lines().filter(|line| line.contains(expected)).count();
    assert!(!ran.status.success() && !ran.stdout.contains("nothing was said"), "{expected}: {ran}");
    assert_eq!(lines, 1, "{expected}: {ran}");
}

#[test]
fn dsm_process_that_ends_or_dies_while_others_wait_ends_the_job_with_a_line() {
    let scratch = Scratch::new("dsm-ends");
    let compiled = compile("tests/dsm/programs/ends.c", &scratch);
    for nodes in [1, 2] {
        let expected =
            " of 2 ranks for ever: 1 of 2 ranks have returned from the function that CREATE was given";
        // A created process, and main, which waits for the other one then.
        for what in ["returns", "main-returns"] {
            expect_one_line(&launch(&compiled, nodes, what), expected);
        }
        expect_one_line(&launch(&compiled, nodes, "killed"), " was killed by signal 9");
        expect_one_line(&launch(&compiled, nodes, "null"), " was killed by signal 11");
    }
}

#[test]
fn dsm_lock_that_is_made_again_while_held_is_not_the_one_that_is_held() {
    let scratch = Scratch::new("dsm-made-again");
    let compiled = compile("tests/dsm/programs/ends.c", &scratch);
    for (nodes, expected) in [(1, ", which is free"), (2, ", which it does not hold")] {
        expect_one_line(&launch(&compiled, nodes, "made-again"), expected);
    }
}

/// On one node memory that was given back stays as it is.
#[test]
fn dsm_access_to_pages_that_were_given_back_ends_the_job_with_a_line() {
    let scratch = Scratch::new("dsm-freed");
    let source = "tests/dsm/programs/ends.c";
    for compiled in [compile_twin(source, &scratch), compile(source, &scratch)] {
        for what in ["freed", "freed-own", "destroyed"] {
            expect_one_line(&launch(&compiled, 2, what), " of shared memory, which is in no block: ");
        }
        for nodes in [1, 2] {
            let ran = launch(&compiled, nodes, "again").expect_success();
            assert_eq!(ran.stdout, "ends: right\n", "{ran}");
        }
    }
}

#[test]
fn dsm_ranks_with_different_programs_are_refused() {
    let scratch = Scratch::new("dsm-different");
    let [one, other] =
        ["examples/shared/sor.c", "examples/shared/queue.c"].map(|path| compile(path, &scratch));
    for nodes in ["1", "2"] {
        let mut command: Command = program("mpiexec");
        command.args(["--virtual-nodes", nodes, "-n", "1"]).arg(&one).args([":", "-n", "1"]).arg(&other);
        expect_one_line(
            &run(&mut command, LIMIT),
            "rank 1 has another program than rank 0: all ranks must run the same file",
        );
    }
}
