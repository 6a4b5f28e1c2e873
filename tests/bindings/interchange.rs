//! Binaries of the MPI-5 ABI go both ways: what MPICH's `mpicc_abi` compiled runs on our library, and ours on
//! MPICH's.
//!
//! Where MPICH cannot be had, the tests say so in one line and pass.

use std::process::Command;

use super::{LIMIT, library};
use tutti_tests::peers::mpich;
use tutti_tests::{Scratch, compile, program, root, run};

#[test]
fn abi_program_of_mpich_runs_on_tutti() {
    let Some(mpich) = mpich() else { return };
    let scratch = Scratch::new("theirs-on-ours");
    let ring = scratch.path().join("ring");
    let mut mpicc = Command::new(mpich.join("bin/mpicc_abi"));
    run(mpicc.arg("-o").arg(&ring).arg(root().join("examples/ring.c")), LIMIT).expect_success();
    // Its RUNPATH leads to MPICH's library; LD_LIBRARY_PATH, which goes first, to ours.
    let ours = library("libmpi_abi.so.1");
    let folder = ours.parent().expect("a library stands in a folder");
    let mut mpiexec = program("mpiexec");
    let ran =
        run(mpiexec.env("LD_LIBRARY_PATH", folder).args(["-n", "2"]).arg(&ring), LIMIT).expect_success();
    assert!(ran.stdout.contains("over 2 ranks: token 1000, as expected"), "{ran}");
}

#[test]
fn abi_program_of_tutti_runs_on_mpich() {
    let Some(mpich) = mpich() else { return };
    let scratch = Scratch::new("ours-on-theirs");
    let ring = compile("examples/ring.c", scratch.path());
    let mut mpiexec = Command::new(mpich.join("bin/mpiexec"));
    let ran = run(mpiexec.env("LD_LIBRARY_PATH", mpich.join("lib")).args(["-n", "2"]).arg(&ring), LIMIT)
        .expect_success();
    assert!(ran.stdout.contains("over 2 ranks: token 1000, as expected"), "{ran}");
}
