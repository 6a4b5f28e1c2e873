//! Costs of invocations where nobody uses them: instructions of sends, receives and puts.

use std::path::Path;
use std::process::Command;

use tutti_testkit::{Need, has_command};
use tutti_tests::{Scratch, program, root, run};

use super::LIMIT;

/// Instructions that each rank has executed inside `measured`, as callgrind counts them.
#[track_caller]
fn instructions(compiled: &Path) -> [u64; 2] {
    let mut mpiexec = program("mpiexec");
    mpiexec.args([
        "-n",
        "2",
        "--bind-to",
        "none",
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
    ]);
    mpiexec.arg("--toggle-collect=measured").arg(compiled);
    let ran = run(&mut mpiexec, LIMIT * 3).expect_success();
    assert_eq!(ran.stdout, "unused: ok\n", "{ran}");
    let counts = ran.stderr.lines().filter_map(|line| line.split_once("Collected : "));
    let mut counts: Vec<u64> = counts.map(|(_, count)| count.trim().parse().expect("a number")).collect();
    // Rank 0 sends and puts, which is more than rank 1's receives.
    counts.sort_unstable();
    counts.try_into().unwrap_or_else(|counts| panic!("{counts:?} of two ranks: {ran}"))
}

/// Within half of a percent of a program of C that has nothing to do with them.
#[test]
fn unused_invocations_cost_sends_receives_and_puts_nothing() {
    if !has_command(Need::Valgrind, "valgrind") || !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-unused");
    let source = root().join("tests/cxx/programs/unused.c");
    let compile = |wrapper: &str, options: &[&str], name: &str| {
        let compiled = scratch.path().join(name);
        let mut compiler: Command = program(wrapper);
        run(compiler.args(["-O2", "-o"]).arg(&compiled).args(options).arg(&source), LIMIT).expect_success();
        compiled
    };
    let alone = instructions(&compile("mpicc", &["-DALONE"], "alone"));
    let beside = instructions(&compile("tutticxx", &["-x", "c++"], "beside"));
    println!("with the header {beside:?} instructions, alone {alone:?}");
    for (found, expected) in beside.into_iter().zip(alone) {
        assert!(found.abs_diff(expected) * 200 <= expected, "{found} instructions, alone {expected}");
    }
}
