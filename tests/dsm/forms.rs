//! Programs of `examples/shared` in their other forms, with messages and on threads: the results of all forms
//! are equal to the last bit.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_tests::{Scratch, compile_with, root, run};

use super::{LIMIT, PROGRAMS, compile_twin, digest, launch};

/// A form with messages, and its arguments; SOR compares its grid with that of one process.
const MESSAGES: [(&str, &[&str]); 4] = [
    ("examples/shared/lu_mpi.c", &["-n160", "-b16"]),
    ("examples/shared/radix_mpi.c", &["-n30000", "-r256"]),
    ("examples/shared/sor_mpi.c", &["100", "6", "check"]),
    ("examples/shared/queue_mpi.c", &["60"]),
];

/// The form on threads, by the compiler alone.
fn compile_threads(source: &str, scratch: &Scratch) -> PathBuf {
    let name = Path::new(source).file_name().expect("a file").to_str().expect("text");
    let compiled = scratch.path().join(format!("{}-threads", name.split('.').next().unwrap_or(name)));
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-pedantic", "-Werror", "-pthread", "-I"]);
    command.arg(root().join("examples/shared/threads")).arg("-o").arg(&compiled);
    if source.ends_with(".in") {
        command.args(["-x", "c", "-include", "tutti/parmacs.h"]);
    }
    run(command.arg(root().join(source)), LIMIT).expect_success();
    compiled
}

fn words(arguments: &[&str], processes: u32) -> Vec<String> {
    arguments.iter().map(|word| word.replace('%', &processes.to_string())).collect()
}

#[test]
fn dsm_forms_with_messages_and_on_threads_give_the_same_results() {
    let scratch = Scratch::new("dsm-forms");
    for ((source, arguments), (with_messages, its_arguments)) in PROGRAMS.into_iter().zip(MESSAGES) {
        let shared = compile_twin(source, &scratch);
        let one = words(arguments, 1);
        let one: Vec<&str> = one.iter().map(String::as_str).collect();
        let expected = digest(launch(&shared, 1, 1, &one));
        let messages = compile_with("mpicc", with_messages, scratch.path());
        for (ranks, nodes) in [(1, 1), (3, 1), (4, 2)] {
            let found = digest(launch(&messages, ranks, nodes, its_arguments));
            assert_eq!(found, expected, "{with_messages} on {ranks} ranks of {nodes} nodes");
        }
        let threads = compile_threads(source, &scratch);
        for count in [1, 3] {
            let found = digest(run(Command::new(&threads).args(words(arguments, count)), LIMIT));
            assert_eq!(found, expected, "{source} on {count} threads");
        }
    }
}

#[test]
fn dsm_forms_with_messages_refuse_arguments_that_they_cannot_take() {
    let scratch = Scratch::new("dsm-forms-wrong");
    for (source, arguments) in [
        ("examples/shared/lu_mpi.c", &["-n100", "-b16"][..]),
        ("examples/shared/radix_mpi.c", &["-r1000"]),
        ("examples/shared/sor_mpi.c", &["3", "1"]),
        ("examples/shared/queue_mpi.c", &["0"]),
    ] {
        let compiled = compile_with("mpicc", source, scratch.path());
        let ran = launch(&compiled, 2, 1, arguments);
        assert!(!ran.status.success() && ran.stderr.matches("usage: ").count() == 1, "{source}: {ran}");
    }
}
