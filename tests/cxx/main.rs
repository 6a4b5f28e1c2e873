//! The promises of remote invocation (`tutti_call.h`, `tutti.hpp`) inside a job. Each program in `programs/`
//! checks one subject and prints "name: ok".

use std::path::{Path, PathBuf};
use std::time::Duration;
use tutti_tests::{Scratch, program, root, run};

/// Nothing here takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Ways to run a program: inside a node and on virtual nodes.
const WAYS: [&[&str]; 4] = [&["-n", "1"], &["-n", "2"], &["-n", "4"], &["-n", "4", "--virtual-nodes", "2"]];

/// A program of the source tree, compiled by a wrapper of ours.
#[track_caller]
fn compile(wrapper: &str, options: &[&str], source: &str, folder: &Path) -> PathBuf {
    let source = root().join(source);
    let path = folder.join(source.file_stem().expect("a file"));
    let mut compiler = program(wrapper);
    compiler.args(options).args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]);
    run(compiler.arg(&path).arg(&source).arg("-ltutti"), LIMIT).expect_success();
    path
}

/// Runs a program in all [`WAYS`]; it prints "SUBJECT: ok" once.
#[track_caller]
fn keeps_its_promises(compiled: &Path, subject: &str) {
    for way in WAYS {
        let ran = run(program("mpiexec").args(way).arg(compiled), LIMIT).expect_success();
        assert_eq!(ran.stdout, format!("{subject}: ok\n"), "{way:?}: {ran}");
    }
}

#[test]
fn calls_are_answered_in_order_within_their_credit() {
    let scratch = Scratch::new("cxx-calls");
    let compiled = compile("mpicc", &["-std=c11"], "tests/cxx/programs/calls.c", scratch.path());
    keeps_its_promises(&compiled, "calls");
}
