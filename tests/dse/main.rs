//! The promises of DSE's model (`tutti_dse.h`): D2 to D6, D9, D11 of its paper, inside a node and on virtual
//! nodes. Between machines: `tests/machines`.

mod apart;

use std::path::{Path, PathBuf};
use std::time::Duration;
use tutti_tests::{Scratch, program, root, run};

/// Limit for a program: none takes a tenth of it, even on a busy machine.
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

/// Kernel and process of an element in one process, and as two.
const KERNELS: [&str; 2] = ["one", "apart"];

/// Runs a program that prints `NAME: ok`, in both configurations.
#[track_caller]
fn promises_are_kept(name: &str, runs: &[(&str, &str)]) {
    let scratch = Scratch::new(&format!("dse-{name}-{}-{}", runs[0].0, runs[0].1));
    let compiled = compile(&format!("tests/dse/programs/{name}.c"), scratch.path());
    for kernel in KERNELS {
        for (number, nodes) in runs {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSE_KERNEL", kernel).args(["-n", number, "--virtual-nodes", nodes]);
            let ran = run(command.arg(&compiled), LIMIT).expect_success();
            assert!(ran.stdout.contains(&format!("{name}: ok\n")), "{kernel}: {ran}");
        }
    }
}

// Paper: D1, D2, D3, D4, D5, D6
#[test]
fn dse_elements_keep_their_promises_inside_a_node() {
    promises_are_kept("elements", &[("1", "1"), ("2", "1"), ("4", "1")]);
}

// Paper: D2, D3, D4, D6
#[test]
fn dse_elements_keep_their_promises_between_virtual_nodes() {
    promises_are_kept("elements", &[("2", "2"), ("4", "2")]);
}

// Paper: D5, D9
#[test]
fn dse_topologies_route_and_programs_give_their_status_inside_a_node() {
    promises_are_kept("routes", &[("1", "1"), ("2", "1"), ("5", "1")]);
}

// Paper: D5
#[test]
fn dse_topologies_route_and_programs_give_their_status_between_virtual_nodes() {
    promises_are_kept("routes", &[("4", "2"), ("3", "3")]);
}

// Paper: D5
#[test]
fn dse_processes_run_on_elements_that_compute_and_are_ended_from_elsewhere() {
    promises_are_kept("beside", &[("1", "1"), ("3", "1"), ("2", "2"), ("3", "2")]);
}

// Paper: D5, D6
#[test]
fn dse_locks_and_semaphores_exclude_a_function_and_the_program_beside_it() {
    promises_are_kept("exclusion", &[("1", "1"), ("2", "1"), ("3", "1"), ("2", "2")]);
}

/// The program of the paper computes what one element computes alone.
// Paper: D11
#[test]
fn dse_relaxation_is_that_of_one_element() {
    let scratch = Scratch::new("dse-sor");
    let compiled = compile("examples/sor.c", scratch.path());
    for (number, nodes) in [("1", "1"), ("4", "1"), ("3", "3")] {
        for kernel in KERNELS {
            let mut command = program("mpiexec");
            command.env("TUTTI_DSE_KERNEL", kernel).args(["-n", number, "--virtual-nodes", nodes]);
            let ran = run(command.arg(&compiled).args(["48", "20"]), LIMIT).expect_success();
            assert!(ran.stdout.contains("verified\n"), "{kernel}: {ran}");
        }
    }
}

/// The status of a job that `--on-deadlock end` has ended.
const DEADLOCK: i32 = 35;

#[test]
fn dse_locks_and_semaphores_that_no_element_gives_are_a_deadlock() {
    let scratch = Scratch::new("dse-stuck");
    let compiled = compile("tests/dse/programs/stuck.c", scratch.path());
    for (wait, kernel) in [("lock", "one"), ("semaphore", "one"), ("lock", "apart"), ("semaphore", "apart")] {
        let mut command = program("mpiexec");
        command.env("TUTTI_DSE_KERNEL", kernel);
        command.args(["-n", "2", "--on-deadlock", "end"]).arg(&compiled).arg(wait);
        let ran = run(&mut command, LIMIT);
        assert_eq!(ran.status.code(), Some(DEADLOCK), "{ran}");
        assert!(
            ran.stderr.contains("waits for a word of its memory that another rank is to change"),
            "{ran}"
        );
    }
}
