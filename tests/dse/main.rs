//! The promises of DSE's model (`tutti_dse.h`): D2 to D6, D9 of its paper, inside a node and between nodes.

use std::path::{Path, PathBuf};
use std::time::Duration;
use tutti_tests::{Scratch, program, root, run};

/// Nothing here takes a tenth of it, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn compile(source: &str, folder: &Path) -> PathBuf {
    let path = folder.join("program");
    let mut compiler = program("mpicc");
    compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&path);
    compiler.arg(root().join(source)).arg("-ltutti");
    run(&mut compiler, LIMIT).expect_success();
    path
}

#[track_caller]
fn elements_keep_their_promises(number: &str, nodes: Option<&str>) {
    let scratch = Scratch::new(&format!("dse-elements-{number}-{}", nodes.unwrap_or("1")));
    let compiled = compile("tests/dse/programs/elements.c", scratch.path());
    let mut command = program("mpiexec");
    command.args(["-n", number]);
    if let Some(nodes) = nodes {
        command.args(["--virtual-nodes", nodes]);
    }
    let ran = run(command.arg(&compiled), LIMIT).expect_success();
    assert!(ran.stdout.contains("elements: ok\n"), "{ran}");
}

#[test]
fn dse_elements_keep_their_promises_inside_a_node() {
    for number in ["1", "2", "4"] {
        elements_keep_their_promises(number, None);
    }
}

#[test]
fn dse_elements_keep_their_promises_between_nodes() {
    elements_keep_their_promises("2", Some("2"));
    elements_keep_their_promises("4", Some("2"));
}

/// The program of the paper computes what one element computes alone.
#[test]
fn dse_relaxation_is_that_of_one_element() {
    let scratch = Scratch::new("dse-sor");
    let compiled = compile("examples/sor.c", scratch.path());
    for (number, nodes) in [("1", "1"), ("4", "1"), ("3", "3")] {
        let mut command = program("mpiexec");
        command.args(["-n", number, "--virtual-nodes", nodes]).arg(&compiled).args(["48", "20"]);
        let ran = run(&mut command, LIMIT).expect_success();
        assert!(ran.stdout.contains("verified\n"), "{ran}");
    }
}

/// The status of a job that `--on-deadlock end` has ended.
const DEADLOCK: i32 = 35;

#[test]
fn dse_locks_and_semaphores_that_no_element_gives_are_a_deadlock() {
    let scratch = Scratch::new("dse-stuck");
    let compiled = compile("tests/dse/programs/stuck.c", scratch.path());
    for wait in ["lock", "semaphore"] {
        let mut command = program("mpiexec");
        command.args(["-n", "2", "--on-deadlock", "end"]).arg(&compiled).arg(wait);
        let ran = run(&mut command, LIMIT);
        assert_eq!(ran.status.code(), Some(DEADLOCK), "{ran}");
        assert!(
            ran.stderr.contains("waits for a word of its memory that another rank is to change"),
            "{ran}"
        );
    }
}
