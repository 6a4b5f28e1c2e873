//! The promises of files (MPI chapter 14), on one node and on two virtual ones. Everything runs from
//! `target/dist`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_tests::{Ran, Scratch, compile, program, run};

/// Nothing here takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(100);

fn compiled(scratch: &Scratch, name: &str) -> PathBuf {
    compile(&format!("tests/files/programs/{name}.c"), scratch.path())
}

/// Runs a program on a file of the scratch folder; `nodes` are virtual ones, if more than one.
#[track_caller]
fn run_ranks(program_file: &Path, ranks: u32, nodes: u32, arguments: &[&Path], checks: bool) -> Ran {
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

/// A program that ends with "NAME are right", on these numbers of ranks and nodes.
#[track_caller]
fn is_right(name: &str, places: &[(u32, u32)]) {
    let scratch = Scratch::new(&format!("files-{name}"));
    let compiled = compiled(&scratch, name);
    let file = scratch.path().join("data");
    for &(ranks, nodes) in places {
        let ran = run_ranks(&compiled, ranks, nodes, &[&file], false).expect_success();
        assert_eq!(ran.stdout, format!("{name} are right\n"), "{ranks} ranks on {nodes} nodes: {ran}");
        assert!(!file.exists(), "{ranks} ranks on {nodes} nodes leave their file behind");
    }
    let ran = run_ranks(&compiled, 2, 1, &[&file], true).expect_success();
    assert_eq!(ran.stderr, "", "the checker has something to say: {ran}");
}

#[test]
fn file_views_of_any_datatype_show_the_same_bytes_to_every_access() {
    is_right("views", &[(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2)]);
}

#[test]
fn file_accesses_of_every_kind_move_the_right_data() {
    is_right("kinds", &[(1, 1), (2, 1), (3, 1), (2, 2), (4, 2)]);
}
