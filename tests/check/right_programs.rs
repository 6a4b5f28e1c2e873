//! Of right programs nothing is said: the conformance programs run as they do elsewhere, under the checker.

use tutti_tests::{Scratch, compile};

use crate::{checked, said};

/// Runs a program of another subject on each of these numbers of ranks; it succeeds and the checker has
/// nothing to say.
#[track_caller]
fn is_right(source: &str, ranks: &[u32], arguments: &[&str]) {
    let name = source.rsplit('/').next().expect("a path has a last part").trim_end_matches(".c");
    let scratch = Scratch::new(&format!("check-right-{name}"));
    let compiled = compile(source, scratch.path());
    for &ranks in ranks {
        let ran = checked("1", ranks, &compiled, arguments).expect_success();
        assert_eq!(said(&ran), [""; 0], "{source} on {ranks} ranks: {ran}");
    }
}

#[test]
fn checker_accepts_correct_point_to_point() {
    is_right("tests/point_to_point/programs/modes.c", &[2, 3], &[]);
    is_right("tests/point_to_point/programs/threads.c", &[2], &[]);
    is_right("tests/point_to_point/programs/random.c", &[1, 2, 3], &["7", "10"]);
}

#[test]
fn checker_accepts_correct_collectives() {
    is_right("tests/collectives/c/collectives.c", &[1, 2, 4], &["7", "8"]);
    is_right("tests/collectives/c/neighbours.c", &[1, 2, 6], &[]);
}

#[test]
fn checker_accepts_correct_communicators_and_groups() {
    for name in ["communicators", "intercommunicators", "groups", "topologies", "sessions", "error_handlers"]
    {
        is_right(&format!("tests/mpi/programs/{name}.c"), &[1, 2, 4], &[]);
    }
}

#[test]
fn checker_accepts_correct_datatypes() {
    for (name, ranks) in [
        ("types_bounds", [1, 2]),
        ("types_contents", [1, 2]),
        ("types_transfer", [2, 3]),
        ("types_pack", [2, 4]),
        ("types_errors", [1, 2]),
    ] {
        is_right(&format!("tests/mpi/programs/{name}.c"), &ranks, &[]);
    }
}

#[test]
fn checker_finds_no_deadlock_in_waits_for_what_is_no_rank() {
    let scratch = Scratch::new("check-right-outside");
    let compiled = compile("tests/check/programs/outside.c", scratch.path());
    for how in ["one", "some", "all"] {
        let ran = checked("1", 3, &compiled, &[how]).expect_success();
        assert_eq!(said(&ran), [""; 0], "{how}: {ran}");
    }
}
