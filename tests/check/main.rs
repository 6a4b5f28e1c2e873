//! The promises of TUTTI_CHECK: each mistake of a program is found, said in one block with rank, function,
//! communicator and the line-up of all ranks, and ends the job; of right programs nothing is said. Everything
//! runs from `target/dist`.

mod collectives;
mod deadlocks;
mod leftovers;
mod messages;
mod right_programs;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tutti_tests::{Ran, Scratch, compile, program, run, without_hints};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Exit status of a job that the checker ends.
const STATUS: i32 = 3;
/// The last line of a finding that ends the job.
const ENDED: &str = "    the job is ended; TUTTI_CHECK=warn would only say this";

/// Runs a case of a compiled program under a mode of the checker.
#[track_caller]
fn checked(mode: &str, ranks: u32, program_path: &Path, arguments: &[&str]) -> Ran {
    run(&mut checking(mode, ranks, program_path, arguments), LIMIT)
}

fn checking(mode: &str, ranks: u32, program_path: &Path, arguments: &[&str]) -> Command {
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", &ranks.to_string()]).arg(program_path).args(arguments).env("TUTTI_CHECK", mode);
    mpiexec
}

/// On one node, and with every rank on a node of its own, where `subject` is not about one node alone.
fn places(subject: &str) -> &'static [&'static str] {
    if subject == "deadlocks" { &["shm"] } else { &["shm", "udp"] }
}

/// Findings of the checker, without hints and what mpiexec says of the end. Addresses are replaced, for they
/// differ from run to run.
fn said(ran: &Ran) -> Vec<String> {
    let lines = without_hints(&ran.stderr).into_iter().filter(|line| !line.starts_with("mpiexec: "));
    lines
        .map(|line| {
            let words = line.split(' ');
            let words = words.map(|word| if word.starts_with("0x") { "ADDRESS" } else { word });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect()
}

/// A case of a program is found to be wrong in exactly these words, on one node and between nodes, and the
/// job ends.
#[track_caller]
fn is_found(subject: &str, case: &str, ranks: u32, expected: &[&str]) {
    let scratch = Scratch::new(&format!("check-{subject}-{case}"));
    let compiled = compile(&format!("tests/check/programs/{subject}.c"), scratch.path());
    let expected: Vec<&str> = expected.iter().copied().chain([ENDED]).collect();
    for place in places(subject) {
        let ran = run(checking("1", ranks, &compiled, &[case]).env("TUTTI_TRANSPORT", place), LIMIT);
        assert_eq!(said(&ran), expected, "{place}: {ran}");
        assert_eq!(ran.code(), STATUS, "{place}: {ran}");
        assert!(!ran.stdout.contains("went on to the end"), "{place}: {ran}");
    }
}

/// A case of a program is remarked on in exactly these words, and the program goes on to its end.
#[track_caller]
fn is_remarked(mode: &str, subject: &str, case: &str, ranks: u32, expected: &[&str]) {
    let scratch = Scratch::new(&format!("check-{subject}-{case}-{mode}"));
    let compiled = compile(&format!("tests/check/programs/{subject}.c"), scratch.path());
    for place in places(subject) {
        let mut mpiexec = checking(mode, ranks, &compiled, &[case]);
        let ran = run(mpiexec.env("TUTTI_TRANSPORT", place), LIMIT).expect_success();
        assert_eq!(said(&ran), expected, "{place}: {ran}");
        assert!(ran.stdout.contains("went on to the end"), "{place}: {ran}");
    }
}

#[test]
fn checker_invalid_mode_is_one_line() {
    let scratch = Scratch::new("check-modes");
    let compiled = compile("tests/check/programs/messages.c", scratch.path());
    for (mode, line) in
        [("maybe", "tutti: TUTTI_CHECK is \"maybe\", expected 1, warn or 0; nothing is checked\n"), ("0", "")]
    {
        let ran = checked(mode, 2, &compiled, &["types"]).expect_success();
        assert_eq!((ran.stderr.as_str(), ran.stdout.contains("went on to the end")), (line, true), "{ran}");
    }
}

#[test]
fn checker_mode_mismatch_is_one_line() {
    let scratch = Scratch::new("check-differ");
    let compiled = compile("tests/check/programs/messages.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "1"]).arg(&compiled).arg("types");
    mpiexec.args([":", "-n", "2", "env", "TUTTI_CHECK=1"]).arg(&compiled).arg("types");
    let ran = run(mpiexec.env_remove("TUTTI_CHECK"), LIMIT).expect_success();
    let line = "tutti: check: TUTTI_CHECK is not the same on all ranks (different from rank 1 on rank 0); nothing is checked";
    assert_eq!(said(&ran), [line], "{ran}");
}
