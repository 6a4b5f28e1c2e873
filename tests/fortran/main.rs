//! The Fortran bindings: programs for `mpif.h`, `mpi` and `mpi_f08`, compiled by `mpifort` and run on two
//! ranks.

mod compilers;
mod kinds;
mod programs;
mod sections;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use tutti_testkit::{Need, has_command};
use tutti_tests::{Ran, Scratch, program, root, run};

/// Compilers on a busy machine are slow.
const LIMIT: Duration = Duration::from_secs(100);

/// Whether there is a compiler; without one the calling test is skipped.
fn has_compiler() -> bool {
    has_command(Need::Fortran, "gfortran")
}

/// `mpifort` without the variables that would change its compiler.
fn mpifort(scratch: &Scratch) -> Command {
    let mut command = program("mpifort");
    for name in ["FC", "TUTTI_FC", "MPIFORT_FC", "MPICH_FC", "MPICH_F90", "MPICH_F77", "OMPI_FC", "OMPI_F90"]
    {
        command.env_remove(name);
    }
    command.env_remove("OMPI_F77").current_dir(scratch.path());
    command
}

/// A source of these tests.
fn source(name: &str) -> PathBuf {
    root().join("tests/fortran/programs").join(name)
}

/// Compiles a program without a warning of the compiler and runs it on `ranks` ranks.
#[track_caller]
fn compile_and_run(scratch: &Scratch, name: &str, options: &[&str], ranks: &str) -> Ran {
    let mut compile = mpifort(scratch);
    compile.args(options).arg(source(name)).args(["-o", "program"]);
    let compiled = run(&mut compile, LIMIT).expect_success();
    assert_eq!(compiled.stderr, "", "{name}: {compiled}");
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", ranks, "./program"]).current_dir(scratch.path());
    run(&mut mpiexec, LIMIT)
}
