//! The promises of the C face: the symbols of the library, the header, the compiler wrappers, and how
//! programs, tools and build systems find them. Everything runs from `target/dist`.

mod header;
mod interchange;
mod loading;
mod symbols;
mod wrappers;

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tutti_tests::{Ran, dist, program, root, run};

/// Compilers on a busy machine are slow; nothing here takes a tenth of it.
const LIMIT: Duration = Duration::from_secs(100);

/// A C file of these tests.
fn source(name: &str) -> std::path::PathBuf {
    root().join("tests/bindings/c").join(name)
}

/// A library of the installation tree.
fn library(name: &str) -> std::path::PathBuf {
    dist().join("lib").join(name)
}

/// Runs a wrapper of the installation tree on `arguments` in `folder`, without the variables that would
/// change its compiler.
#[track_caller]
fn wrapper(name: &str, folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = program(name);
    for variable in ["TUTTI_CC", "MPICH_CC", "OMPI_CC", "TUTTI_CXX", "MPICH_CXX", "OMPI_CXX"] {
        command.env_remove(variable);
    }
    run(command.args(arguments).current_dir(folder), LIMIT)
}

/// Output of a program that must end well.
#[track_caller]
fn output(command: &mut Command) -> String {
    run(command, LIMIT).expect_success().stdout
}
