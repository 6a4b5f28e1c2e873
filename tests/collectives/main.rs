//! The promises of the collective operations: right results for every operation, type, root and size, on
//! every communicator, however the ranks are late. Everything runs from `target/dist`.

use std::path::Path;
use std::time::Duration;

use tutti_tests::{Scratch, compile, program, run};

/// Many ranks on few busy cores are slow; nothing here takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(110);

/// A seed that changes from run to run, and is printed. TUTTI_TEST_SEED repeats a run.
fn seed() -> String {
    tutti_testkit::seed().to_string()
}

/// Runs the conformance program on so many ranks.
#[track_caller]
fn conforms(test: &str, ranks: usize, rounds: usize) {
    let scratch = Scratch::new(test);
    let collectives: &Path = &compile("tests/collectives/c/collectives.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", &ranks.to_string()]).arg(collectives).args([seed(), rounds.to_string()]);
    let ran = run(&mut mpiexec, LIMIT).expect_success();
    assert!(ran.stdout.contains("collectives: all right"), "{ran}");
}

#[test]
fn collective_wrong_arguments_give_the_standard_error_class() {
    let scratch = Scratch::new("collectives-wrong");
    let wrong = compile("tests/collectives/c/wrong_arguments.c", scratch.path());
    for ranks in ["1", "2", "3"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks]).arg(&wrong).env("TUTTI_TEXTS", "1");
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("wrong arguments: all right"), "{ran}");
    }
}

#[test]
fn neighbor_collectives_work_in_grids_and_graphs() {
    let scratch = Scratch::new("collectives-neighbours");
    let neighbours = compile("tests/collectives/c/neighbours.c", scratch.path());
    for ranks in ["1", "2", "3", "4", "6"] {
        let mut mpiexec = program("mpiexec");
        let ran = run(mpiexec.args(["-n", ranks]).arg(&neighbours), LIMIT).expect_success();
        assert!(ran.stdout.contains("neighbours: all right"), "{ran}");
    }
}

#[test]
fn nonblocking_collectives_never_match_blocking_ones() {
    let scratch = Scratch::new("collectives-started-beside");
    let started = compile("tests/collectives/c/started_beside.c", scratch.path());
    for options in [
        &["-n", "1"][..],
        &["-n", "3"],
        &["--virtual-nodes", "2", "-n", "3"],
        &["--virtual-nodes", "2", "-n", "2"],
    ] {
        let ran = run(program("mpiexec").args(options).arg(&started), LIMIT).expect_success();
        assert!(ran.stdout.contains("started beside waiting: all right"), "{ran}");
    }
}

#[test]
fn collectives_on_bottom_move_data_between_two_memories() {
    let scratch = Scratch::new("collectives-absolute");
    let absolute = compile("tests/collectives/c/absolute.c", scratch.path());
    for options in [&["-n", "1"][..], &["-n", "3"], &["--virtual-nodes", "2", "-n", "3"]] {
        let ran = run(program("mpiexec").args(options).arg(&absolute), LIMIT).expect_success();
        assert!(ran.stdout.contains("absolute: all right"), "{ran}");
    }
}

/// Results of the reductions, each with its bits, on ranks that stand so.
fn rounded_results(program_of_c: &Path, options: &[&str]) -> Vec<String> {
    let ran = run(program("mpiexec").args(options).arg(program_of_c), LIMIT).expect_success();
    assert!(ran.stdout.contains("rounded: all right"), "{ran}");
    ran.stdout.lines().map(str::to_owned).collect()
}

/// The results of so many ranks on one node are those on so many nodes.
#[track_caller]
fn rounded_everywhere_alike(ranks: &str, nodes: &[&str]) {
    let scratch = Scratch::new(&format!("collectives-rounded-{ranks}"));
    let rounded = compile("tests/collectives/c/rounded.c", scratch.path());
    let inside = rounded_results(&rounded, &["-n", ranks]);
    for nodes in nodes {
        let between = rounded_results(&rounded, &["-n", ranks, "--virtual-nodes", nodes]);
        assert_eq!(inside.len(), between.len());
        for (inside, between) in inside.iter().zip(&between) {
            assert_eq!(inside, between, "{ranks} ranks on one node and on {nodes}");
        }
    }
}

#[test]
fn rounded_reductions_of_few_ranks_do_not_depend_on_the_places_of_ranks() {
    rounded_everywhere_alike("2", &["2"]);
    rounded_everywhere_alike("3", &["2", "3"]);
    rounded_everywhere_alike("4", &["2", "4"]);
}

#[test]
fn rounded_reductions_of_many_ranks_do_not_depend_on_the_places_of_ranks() {
    rounded_everywhere_alike("5", &["5"]);
    rounded_everywhere_alike("6", &["4", "6"]);
    rounded_everywhere_alike("7", &["3", "7"]);
    rounded_everywhere_alike("8", &["8"]);
}

#[test]
fn collectives_large_work_without_process_vm() {
    let scratch = Scratch::new("collectives-refused");
    let refused = compile("tests/collectives/c/refused.c", scratch.path());
    for (ranks, when) in [("2", "first"), ("2", "later"), ("3", "first"), ("3", "later")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks]).arg(&refused).arg(when);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert!(ran.stdout.contains("refused: all right"), "{ran}");
    }
}

/// More communicators at a time than blocks; with `stopped` every rank is stopped now and then.
#[track_caller]
fn run_lifetimes(ranks: u32, rounds: u32, stopped: bool) {
    let scratch = Scratch::new(&format!("lifetimes-{ranks}-{stopped}"));
    let lifetimes = compile("tests/collectives/c/lifetimes.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", &ranks.to_string()]).arg(&lifetimes).args([seed(), rounds.to_string()]);
    let ran = run(mpiexec.args(stopped.then_some("stopped")), LIMIT).expect_success();
    assert!(ran.stdout.contains("lifetimes: all right"), "{ran}");
}

#[test]
fn collectives_work_on_short_lived_communicators() {
    for ranks in 1..=4 {
        run_lifetimes(ranks, 2000, false);
    }
}

#[test]
fn collectives_work_on_short_lived_communicators_with_stopped_ranks() {
    run_lifetimes(3, 1500, true);
    run_lifetimes(4, 1500, true);
}

#[test]
fn collectives_work_on_1_rank() {
    conforms("collectives-1", 1, 200);
}

#[test]
fn collectives_work_on_2_ranks() {
    conforms("collectives-2", 2, 300);
}

#[test]
fn collectives_work_on_3_ranks() {
    conforms("collectives-3", 3, 200);
}

#[test]
fn ranks_of_a_large_node_share_memory_with_those_alone_that_they_talk_with() {
    let scratch = Scratch::new("collectives-many");
    let many = compile("tests/collectives/c/many_ranks.c", scratch.path());
    let ran = run(program("mpiexec").args(["-n", "256"]).arg(many), LIMIT).expect_success();
    assert!(ran.stdout.contains("many_ranks: ok"), "{ran}");
}

#[test]
fn collectives_work_on_4_ranks() {
    conforms("collectives-4", 4, 200);
}

#[test]
fn collectives_work_on_5_ranks() {
    conforms("collectives-5", 5, 150);
}

#[test]
fn collectives_work_on_8_ranks() {
    conforms("collectives-8", 8, 100);
}
