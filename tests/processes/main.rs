//! The promises of chapter 11 about groups that have no communicator yet: ports, joins and published names of
//! one job; what is not built is refused. Everything runs from `target/dist`.

use std::path::Path;
use std::time::Duration;

use tutti_tests::{Ran, Scratch, compile, program, run};

/// Nothing here takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(100);

#[track_caller]
fn run_ranks(program_file: &Path, ranks: u32, nodes: u32, arguments: &[&str], checks: bool) -> Ran {
    let mut mpiexec = program("mpiexec");
    if nodes > 1 {
        mpiexec.args(["--virtual-nodes", &nodes.to_string()]);
    }
    mpiexec.args(["-n", &ranks.to_string()]).arg(program_file).args(arguments);
    if checks {
        mpiexec.env("TUTTI_CHECK", "1");
    }
    run(&mut mpiexec, LIMIT)
}

#[test]
fn ports_and_joins_connect_groups_of_a_job() {
    let scratch = Scratch::new("processes-ports");
    let ports = compile("tests/processes/programs/ports.c", scratch.path());
    for (ranks, nodes) in [(2, 1), (3, 1), (5, 1), (2, 2), (4, 2)] {
        let ran = run_ranks(&ports, ranks, nodes, &[], false).expect_success();
        assert_eq!(ran.stdout, "ports are right\n", "{ranks} ranks on {nodes} nodes: {ran}");
    }
    let ran = run_ranks(&ports, 3, 1, &[], true).expect_success();
    assert_eq!(ran.stderr, "", "the checker has something to say: {ran}");
}

#[test]
fn port_accept_that_no_group_connects_to_is_a_deadlock() {
    let scratch = Scratch::new("processes-silent");
    let ports = compile("tests/processes/programs/ports.c", scratch.path());
    let ran = run_ranks(&ports, 2, 1, &["silent"], true);
    assert!(!ran.status.success() && ran.stderr.contains("deadlock"), "{ran}");
}

#[test]
fn names_are_published_for_all_ranks_of_a_job() {
    let scratch = Scratch::new("processes-names");
    let names = compile("tests/processes/programs/names.c", scratch.path());
    for (ranks, nodes, checks) in [(2, 1, false), (5, 1, false), (2, 2, false), (5, 2, false), (3, 3, true)] {
        let ran = run_ranks(&names, ranks, nodes, &[], checks).expect_success();
        assert_eq!(ran.stdout, "names are right\n", "{ranks} ranks on {nodes} nodes: {ran}");
        assert_eq!(ran.stderr, "", "{ranks} ranks on {nodes} nodes: {ran}");
    }
}

#[test]
fn names_are_looked_up_while_rank_0_computes() {
    let scratch = Scratch::new("processes-names-computing");
    let names = compile("tests/processes/programs/names.c", scratch.path());
    for nodes in [1, 2] {
        let file = scratch.path().join(format!("looked-up-{nodes}"));
        let ran = run_ranks(&names, 2, nodes, &[file.to_str().expect("a path of text")], false);
        assert_eq!(ran.expect_success().stdout, "names are right\n", "{nodes} nodes");
    }
}

#[test]
fn names_of_a_job_whose_rank_0_has_left_are_an_error_and_no_wait() {
    let scratch = Scratch::new("processes-names-late");
    let names = compile("tests/processes/programs/names.c", scratch.path());
    for nodes in [1, 2] {
        let ran = run_ranks(&names, 2, nodes, &["late"], false).expect_success();
        assert_eq!(ran.stdout, "names are late\n", "{nodes} nodes: {ran}");
    }
}

#[test]
fn spawn_is_refused_in_one_line() {
    let scratch = Scratch::new("processes-spawn");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let ran = run_ranks(&spawn, 1, 1, &[], false).expect_success();
    assert_eq!(ran.stdout, "spawn is refused\n", "{ran}");
}
