//! The promises of the MPI functions. Each program in `programs/` checks one subject on its own and prints
//! "name: ok"; a test here runs it with `mpiexec` on several numbers of ranks.

mod bad_memory;
mod communicators;
mod counters;
mod datatypes;
mod device_memory;
mod differential;
mod messages;
mod nulls;
mod start;
mod wrong_arguments;

use std::path::Path;
use std::time::Duration;
use tutti_tests::{Ran, Scratch, compile, program, run};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a compiled program on so many ranks.
#[track_caller]
fn mpiexec(ranks: u32, program_path: &Path, arguments: &[&str]) -> Ran {
    run(program("mpiexec").args(["-n", &ranks.to_string()]).arg(program_path).args(arguments), LIMIT)
}

/// A conformance program keeps its promises on each of these numbers of ranks; gives what each run printed.
#[track_caller]
fn conforms(name: &str, ranks: &[u32]) -> Vec<String> {
    let scratch = Scratch::new(&format!("mpi-{name}"));
    let compiled = compile(&format!("tests/mpi/programs/{name}.c"), scratch.path());
    let one = |&ranks: &u32| {
        let ran = mpiexec(ranks, &compiled, &[]).expect_success();
        assert!(ran.stdout.contains(&format!("{name}: ok\n")), "on {ranks} ranks: {ran}");
        ran.stdout
    };
    ranks.iter().map(one).collect()
}
