//! Variables of C as shared memory (`tutticc --globals=shared`).

use std::path::{Path, PathBuf};

use tutti_tests::{Scratch, program, run};

use super::LIMIT;

const SOURCE: &str = "tests/dsm/programs/globals.c";

/// The program, compiled with more options.
fn compile_shared(name: &str, options: &[&str], scratch: &Scratch) -> PathBuf {
    let compiled = scratch.path().join(name);
    let mut command = program("tutticc");
    command
        .args(["--globals=shared", "-std=gnu11", "-g", "-O2", "-Wall", "-Wextra", "-Werror"])
        .args(options);
    command.arg(tutti_tests::root().join(SOURCE)).arg("-o").arg(&compiled);
    run(&mut command, LIMIT).expect_success();
    compiled
}

/// The program on so many ranks and nodes, in an environment.
#[track_caller]
fn result_is_right(compiled: &Path, ranks: u32, nodes: u32, environment: &[(&str, &str)]) {
    let mut command = program("mpiexec");
    command.envs(environment.iter().copied());
    command.args(["-n", &ranks.to_string(), "--virtual-nodes", &nodes.to_string()]).arg(compiled);
    let ran = run(command.arg(ranks.to_string()), LIMIT).expect_success();
    let counter = 6 + 20 * ranks;
    assert_eq!(ran.stdout, format!("globals: counter {counter}, 0 failures\n"), "{ranks} on {nodes}: {ran}");
    assert!(!ran.stderr.contains("has changed variables"), "{ran}");
}

#[test]
fn dsm_variables_of_c_are_shared_where_the_program_is_linked_so() {
    let scratch = Scratch::new("dsm-globals");
    for (name, options) in
        [("any", &[][..]), ("twin", &["--dsm=twin"]), ("gcc", &["-cc=gcc", "--dsm=twin", "-fcommon"])]
    {
        let compiled = compile_shared(name, options, &scratch);
        for (ranks, nodes) in [(1, 1), (3, 1), (2, 2), (4, 4), (4, 2)] {
            result_is_right(&compiled, ranks, nodes, &[]);
        }
        result_is_right(&compiled, 4, 2, &[("TUTTI_DSM_BACKEND", "mprotect")]);
        result_is_right(&compiled, 2, 2, &[("TUTTI_DSM_CHECK", "1")]);
        result_is_right(&compiled, 3, 3, &[("TUTTI_DSM_COPIES", "64K")]);
    }
}

#[test]
fn dsm_shared_variables_are_right_though_datagrams_are_lost() {
    let scratch = Scratch::new("dsm-globals-lost");
    let compiled = compile_shared("lost", &[], &scratch);
    let library = tutti_tests::testing_library();
    let library = library.to_str().expect("a path in UTF-8");
    result_is_right(&compiled, 4, 2, &[("LD_PRELOAD", library), ("TUTTI_FAULTS", "loss=1%,dup=1%")]);
}

/// The program in a checked job, which does something without a lock; on as many nodes as ranks.
fn run_wrong(ranks: &str, wrong: &str) -> tutti_tests::Ran {
    let scratch = Scratch::new(&format!("dsm-globals-{wrong}"));
    let compiled = compile_shared(wrong, &[], &scratch);
    let mut command = program("mpiexec");
    command.env("TUTTI_DSM_CHECK", "1").args(["-n", ranks, "--virtual-nodes", ranks]).arg(compiled);
    run(command.args([ranks, wrong]).arg(scratch.path().join("stored")), LIMIT)
}

#[test]
fn dsm_check_finds_races_on_shared_variables() {
    for wrong in ["race", "late"] {
        let ran = run_wrong("2", wrong);
        assert!(
            !ran.status.success() && ran.stderr.matches("data race: rank ").count() == 1,
            "{wrong}: {ran}"
        );
        assert!(ran.stderr.contains("globals.c:"), "{wrong}: {ran}");
    }
}

#[test]
fn dsm_check_names_stores_of_the_same_value_and_goes_on() {
    let ran = run_wrong("3", "same").expect_success();
    assert_eq!(ran.stdout, "globals: counter 66, 0 failures\n", "{ran}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let [line] = lines[..] else { panic!("one line: {ran}") };
    assert!(line.contains("store the same value to byte") && line.contains("globals.c:"), "{ran}");
}

#[test]
fn dsm_variables_are_not_shared_where_they_have_other_addresses_on_each_rank() {
    let scratch = Scratch::new("dsm-globals-pie");
    for (option, what) in
        [("-pie", "which -pie and -shared do not give"), ("--globals=all", "shared and private are known")]
    {
        let mut command = program("tutticc");
        command.args(["--globals=shared", option]).arg(tutti_tests::root().join(SOURCE));
        let ran = run(command.arg("-o").arg(scratch.path().join("none")), LIMIT);
        assert!(!ran.status.success() && ran.stderr.contains(what), "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
}
