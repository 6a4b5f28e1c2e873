//! Output of a program before it ends its job: it reaches the user, wherever the end was called from and
//! whatever other threads do.

use std::path::Path;
use std::process::Command;

use tutti_testkit::{Need, has_command, skip_part};
use tutti_tests::{Ran, Scratch, compile, compile_with, program};

use crate::harness::run;

/// Without the flush a third of the runs lost the line.
const RUNS: usize = 8;

/// A job that waited for what never comes would be over the limit of [`run`].
fn ends(path: &Path, words: &[&str], file: &Path) -> (Ran, String) {
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2"]).arg(path).args(&words[..1]).arg(file).args(&words[1..]);
    let ran = run(&mut mpiexec);
    (ran, std::fs::read_to_string(file).unwrap_or_default())
}

#[test]
fn output_before_the_end_of_the_job_is_not_lost() {
    let scratch = Scratch::new("launch-last-words");
    let file = scratch.path().join("file");
    let mpi = compile("tests/launch/programs/last_words.c", scratch.path());
    let shmem = compile_with("oshcc", "tests/launch/programs/last_words_shmem.c", scratch.path());
    for _ in 0..RUNS {
        for how in ["abort", "fatal", "errors-abort", "handler"] {
            let (ran, text) = ends(&mpi, &[how], &file);
            assert_eq!(
                (ran.stdout.as_str(), text.as_str()),
                ("the reason\n", "to the file\n"),
                "{how}: {ran}"
            );
            assert!(ran.code() != 0, "{how}: {ran}");
        }
        let ran = run(program("oshrun").args(["-n", "2"]).arg(&shmem));
        assert_eq!((ran.stdout.as_str(), ran.code()), ("the reason\n", 5), "{ran}");
    }
}

/// The launcher refers to a line, which may come by another way than its own, and stands behind it.
#[test]
fn launcher_s_line_stands_behind_that_of_the_rank() {
    let scratch = Scratch::new("launch-last-line");
    let file = scratch.path().join("file");
    let mpi = compile("tests/launch/programs/last_words.c", scratch.path());
    for _ in 0..RUNS {
        let mut mpiexec = program("mpiexec");
        let ran = run(mpiexec.args(["--virtual-nodes", "2", "-n", "2"]).arg(&mpi).arg("fatal").arg(&file));
        let lines: Vec<&str> = ran.stderr.lines().collect();
        let last = lines.last().copied().unwrap_or_default();
        assert!(lines.len() > 1 && last.ends_with("its own line says why"), "{ran}");
    }
}

#[test]
fn abort_in_a_handler_of_signals_ends_the_job() {
    let scratch = Scratch::new("launch-abort-handler");
    let file = scratch.path().join("file");
    let mpi = compile("tests/launch/programs/last_words.c", scratch.path());
    // The signal comes while a stream's lock is being taken in one of some ten runs.
    for how in [&["handler-in-receive"][..], &["handler-in-printf"; RUNS]].concat() {
        let (ran, text) = ends(&mpi, &[how], &file);
        assert_eq!((ran.stdout.as_str(), text.as_str()), ("the reason\n", "to the file\n"), "{how}: {ran}");
        assert_eq!(ran.code(), 6, "{how}: {ran}");
    }
}

#[test]
fn abort_waits_for_no_lock_that_another_thread_holds() {
    let scratch = Scratch::new("launch-abort-lock");
    let file = scratch.path().join("file");
    let mpi = compile("tests/launch/programs/last_words.c", scratch.path());
    for how in ["abort", "fatal", "handler-in-receive"] {
        // What other streams have is not lost with it.
        let (ran, text) = ends(&mpi, &[how, "hold"], &file);
        assert_eq!(text, "to the file\n", "{how}: {ran}");
        assert!(ran.code() != 0, "{how}: {ran}");
    }
}

#[test]
fn abort_loses_no_output_of_fortran_and_cpp() {
    let scratch = Scratch::new("launch-last-words-languages");
    let file = scratch.path().join("file");
    for (wrapper, compiler, source) in
        [("mpifort", "gfortran", "last_words.f90"), ("mpicxx", "g++", "last_words.cc")]
    {
        let found = Command::new(compiler).arg("--version").output();
        if !found.is_ok_and(|asked| asked.status.success()) {
            skip_part(Need::Fortran, format!("{compiler} is not installed"));
            continue;
        }
        let path = scratch.path().join(wrapper);
        let source = tutti_tests::root().join("tests/launch/programs").join(source);
        run(program(wrapper).arg("-o").arg(&path).arg(source)).expect_success();
        let ran = run(program("mpiexec").args(["-n", "2"]).arg(&path).arg(&file));
        assert_eq!((ran.stdout.as_str(), ran.code()), ("the reason\n", 6), "{wrapper}: {ran}");
        if wrapper == "mpifort" {
            assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), "to the unit\n", "{ran}");
        }
    }
}

/// Such a program has streams of C++ that were never constructed.
#[test]
fn abort_of_a_cpp_program_without_streams_gives_its_status() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("launch-last-words-without-streams");
    let path = scratch.path().join("program");
    let source = tutti_tests::root().join("tests/launch/programs/last_words_without_streams.cc");
    run(program("mpicxx").arg("-o").arg(&path).arg(source)).expect_success();
    let ran = run(program("mpiexec").args(["-n", "1"]).arg(&path));
    assert_eq!((ran.stdout.as_str(), ran.code()), ("the reason\n", 6), "{ran}");
}
