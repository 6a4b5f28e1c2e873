//! One compiled program, two libraries: our conformance programs print the same on ours and on MPICH 5.0.2's
//! `libmpi_abi.so.1`.
//!
//! What MPICH does otherwise is named in the sources, behind `is_tutti()`. `wrong_arguments` is left out: its
//! errors are our promise, MPICH crashes on some. `collectives` runs in its `common` mode: MPICH fails where
//! ranks name equal data by different types (its `gaps.h`). Where MPICH cannot be had, a test says so in one
//! line and passes.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tutti_tests::peers::mpich;
use tutti_tests::{Scratch, compile, program, run, try_run};

use crate::LIMIT;

/// MPICH hangs now and then (`sessions` on 3 ranks of 2 cores, once in many runs), or fails in MPI_Init on a
/// busy machine: it is asked again.
const MPICH_LIMIT: Duration = Duration::from_secs(20);
const MPICH_TRIES: usize = 4;

/// MPICH's ranks spin where they wait, for whole slices of the kernel where there are more of them than
/// cores: they are to sleep instead, and to leave alone those collective operations of theirs that cannot.
const MPICH_SHARES_CORES: [(&str, &str); 2] =
    [("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1"), ("MPIR_CVAR_POSIX_NUM_COLLS_THRESHOLD", "1000000000")];

/// Output of each rank of a program, each into a file: MPICH's mpiexec mixes the lines of several ranks.
fn printed(
    mut mpiexec: Command,
    ranks: u32,
    compiled: &Path,
    arguments: &[&str],
    into: &Path,
    tries: usize,
) -> Vec<String> {
    let file = |rank: &str| into.join(format!("{ranks}.{rank}"));
    mpiexec
        .arg("-outfile-pattern")
        .arg(file("%r"))
        .args(["-n", &ranks.to_string()])
        .arg(compiled)
        .args(arguments);
    let ended =
        (1..tries).find_map(|_| try_run(&mut mpiexec, MPICH_LIMIT).ok().filter(|ran| ran.status.success()));
    ended.unwrap_or_else(|| run(&mut mpiexec, LIMIT)).expect_success();
    (0..ranks).map(|rank| std::fs::read_to_string(file(&rank.to_string())).unwrap_or_default()).collect()
}

/// A program prints the same on both libraries, on each of these numbers of ranks.
#[track_caller]
fn same(source: &str, ranks: &[u32], arguments: &[&str]) {
    let Some(mpich) = mpich() else { return };
    let scratch = Scratch::new(&format!("differential-{}", source.replace('/', "-")));
    let compiled = compile(source, scratch.path());
    for &ranks in ranks {
        let folder = |name| {
            let folder = scratch.path().join(name);
            std::fs::create_dir_all(&folder).expect("a folder for what ranks print");
            folder
        };
        let ours = printed(program("mpiexec"), ranks, &compiled, arguments, &folder("ours"), 1);
        assert!(ours.iter().any(|text| !text.is_empty()), "{source} says nothing on {ranks} ranks");
        let mut theirs = Command::new(mpich.join("bin/mpiexec"));
        theirs.env("LD_LIBRARY_PATH", mpich.join("lib")).envs(MPICH_SHARES_CORES);
        let theirs = printed(theirs, ranks, &compiled, arguments, &folder("theirs"), MPICH_TRIES);
        assert_eq!(ours, theirs, "{source} on {ranks} ranks");
    }
}

/// The same for one of the programs of this folder.
#[track_caller]
fn same_here(name: &str, ranks: &[u32]) {
    same(&format!("tests/mpi/programs/{name}.c"), ranks, &[]);
}

#[test]
fn communicators_and_groups_print_the_same_on_mpich() {
    for name in ["communicators", "groups", "intercommunicators", "topologies", "sessions"] {
        same_here(name, &[1, 2, 3]);
    }
}

#[test]
fn attributes_errors_and_info_objects_print_the_same_on_mpich() {
    for name in ["attributes", "error_handlers", "info", "platform"] {
        same_here(name, &[1, 2, 3]);
    }
}

#[test]
fn datatypes_print_the_same_on_mpich() {
    for name in ["types_bounds", "types_contents", "types_errors"] {
        same_here(name, &[1, 2]);
    }
    for name in ["types_pack", "types_transfer"] {
        same_here(name, &[2, 3]);
    }
}

#[test]
fn messages_print_the_same_on_mpich() {
    same_here("requests", &[2, 3]);
    same_here("partitioned", &[1, 2]);
    same_here("wildcards", &[2, 3]);
    same_here("send_modes", &[2]);
    same("tests/point_to_point/programs/modes.c", &[2, 3], &[]);
    same("tests/point_to_point/programs/threads.c", &[2], &[]);
    same("tests/point_to_point/programs/random.c", &[1, 2, 3], &["20261121", "3"]);
}

#[test]
fn collectives_print_the_same_on_mpich() {
    same("tests/collectives/c/collectives.c", &[1, 2, 3, 4], &["2", "20", "common"]);
    same("tests/collectives/c/collectives.c", &[2], &["3", "40", "common"]);
}

#[test]
fn collectives_of_neighbours_print_the_same_on_mpich() {
    same("tests/collectives/c/neighbours.c", &[1, 2, 3, 4], &["there"]);
}
