//! The promises of remote invocation (`tutti_call.h`, `tutti.hpp`) inside a job. Each program in `programs/`
//! checks one subject and prints "name: ok".

mod services;
mod unused;
mod wrong;

use std::path::{Path, PathBuf};
use std::time::Duration;
use tutti_testkit::{Need, has_command, has_command_for_part};
use tutti_tests::{Scratch, program, root, run};

/// Limit of which nothing here takes a tenth, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Ways to run a program: inside a node and on virtual nodes.
const WAYS: [&[&str]; 6] = [
    &["-n", "1"],
    &["-n", "2"],
    &["-n", "4"],
    &["-n", "8"],
    &["-n", "4", "--virtual-nodes", "2"],
    &["-n", "8", "--virtual-nodes", "4"],
];

/// A program of the source tree, compiled by a wrapper of ours.
#[track_caller]
fn compile(wrapper: &str, options: &[&str], source: &str, folder: &Path) -> PathBuf {
    let source = root().join(source);
    let path = folder.join(source.file_stem().expect("a file"));
    let mut compiler = program(wrapper);
    compiler.arg("-O1").args(options).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]);
    run(compiler.arg(&path).arg(&source).arg("-ltutti"), LIMIT).expect_success();
    path
}

/// Runs a program in all [`WAYS`]; it prints "SUBJECT: ok" once.
#[track_caller]
fn keeps_its_promises(compiled: &Path, subject: &str) {
    for way in WAYS {
        let ran = run(program("mpiexec").args(way).arg(compiled), LIMIT).expect_success();
        assert_eq!(ran.stdout, format!("{subject}: ok\n"), "{way:?}: {ran}");
    }
}

#[test]
fn calls_are_answered_in_order_within_their_credit() {
    let scratch = Scratch::new("cxx-calls");
    let compiled = compile("mpicc", &["-std=c11"], "tests/cxx/programs/calls.c", scratch.path());
    keeps_its_promises(&compiled, "calls");
}

// Paper: C28
#[test]
fn tasks_and_invocations_keep_their_promises() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-tasks");
    let compiled = compile("tutticxx", &[], "tests/cxx/programs/tasks.cpp", scratch.path());
    keeps_its_promises(&compiled, "tasks");
}

// Paper: C28
#[test]
fn values_quick_functions_and_collectives_keep_their_promises() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-values");
    let compiled = compile("tutticxx", &[], "tests/cxx/programs/values.cpp", scratch.path());
    keeps_its_promises(&compiled, "values");
}

#[test]
fn global_pointers_reach_objects_of_other_ranks() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-memory");
    let compiled = compile("tutticxx", &[], "tests/cxx/programs/memory.cpp", scratch.path());
    keeps_its_promises(&compiled, "memory");
}

/// The second job has as many ranks, and objects of its own at the places that the pointers name.
#[test]
fn global_pointers_of_another_job_are_refused() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-another-job");
    let compiled = compile("tutticxx", &[], "tests/cxx/programs/another_job.cpp", scratch.path());
    for (at, way) in WAYS.into_iter().enumerate() {
        let path = scratch.path().join(at.to_string());
        for what in ["keep", "use"] {
            let mut mpiexec = program("mpiexec");
            let ran = run(mpiexec.args(way).arg(&compiled).arg(what).arg(&path), LIMIT).expect_success();
            assert_eq!(ran.stdout, "another job: ok\n", "{way:?}: {ran}");
        }
    }
}

/// Tasks that wait are 200 bytes at most each, with both compilers, and waiting allocates nothing.
#[test]
fn tasks_that_wait_by_the_million_have_bounded_memory() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-many");
    for name in ["c++", "clang++-19"].into_iter().filter(|name| has_command_for_part(Need::Cxx, name)) {
        let compiled = scratch.path().join(name);
        let mut compiler = program("tutticxx");
        compiler.env("TUTTI_CXX", name).args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o"]);
        run(compiler.arg(&compiled).arg(root().join("tests/cxx/programs/many.cpp")), LIMIT).expect_success();
        let ran = run(program("mpiexec").args(["-n", "1"]).arg(&compiled), LIMIT).expect_success();
        assert!(ran.stdout.ends_with("many: ok\n"), "{name}: {ran}");
        println!("{name}: {}", ran.stdout);
    }
}

/// Another compiler lays out coroutines and calls in its own way.
#[test]
fn tasks_and_values_keep_their_promises_with_clang() {
    if !has_command(Need::Cxx, "clang++-19") {
        return;
    }
    let scratch = Scratch::new("cxx-clang");
    for subject in ["tasks", "values"] {
        let source = root().join(format!("tests/cxx/programs/{subject}.cpp"));
        let compiled = scratch.path().join(subject);
        let mut compiler = program("tutticxx");
        compiler.env("TUTTI_CXX", "clang++-19").args(["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        run(compiler.arg("-o").arg(&compiled).arg(source), LIMIT).expect_success();
        for way in [WAYS[1], WAYS[4]] {
            let ran = run(program("mpiexec").args(way).arg(&compiled), LIMIT).expect_success();
            assert_eq!(ran.stdout, format!("{subject}: ok\n"), "{way:?}: {ran}");
        }
    }
}

// Paper: C28
#[test]
fn work_stealing_counts_each_node_of_a_tree_once() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-steal");
    let compiled = compile("tutticxx", &[], "examples/steal.cpp", scratch.path());
    for way in WAYS {
        let ran = run(program("mpiexec").args(way).arg(&compiled).arg("12"), LIMIT).expect_success();
        assert!(ran.stdout.starts_with("326441 nodes, "), "{way:?}: {ran}");
    }
}

/// Without optimization a compiler keeps each call of a coroutine on the stack.
#[test]
fn tasks_go_on_without_optimization() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-tasks-plain");
    let compiled = compile("tutticxx", &["-O0"], "tests/cxx/programs/tasks.cpp", scratch.path());
    let ran = run(program("mpiexec").args(["-n", "2"]).arg(compiled), LIMIT).expect_success();
    assert_eq!(ran.stdout, "tasks: ok\n", "{ran}");
}

/// Runs where datagrams are lost, come twice and out of order: each function runs once.
// Paper: C28
#[test]
fn invocations_are_exact_where_datagrams_are_lost() {
    let scratch = Scratch::new("cxx-faults");
    let mut programs =
        vec![("calls", compile("mpicc", &["-std=c11"], "tests/cxx/programs/calls.c", scratch.path()))];
    if has_command_for_part(Need::Cxx, "c++") {
        for subject in ["tasks", "values", "memory"] {
            let source = format!("tests/cxx/programs/{subject}.cpp");
            programs.push((subject, compile("tutticxx", &[], &source, scratch.path())));
        }
    }
    for (subject, compiled) in programs {
        let mut mpiexec = program("mpiexec");
        mpiexec.env("TUTTI_TRANSPORT", "udp").env("LD_PRELOAD", tutti_tests::testing_library());
        mpiexec.env("TUTTI_FAULTS", format!("loss=2%,dup=1%,reorder=3%,seed={}", tutti_testkit::seed()));
        let ran = run(mpiexec.args(["-n", "3"]).arg(&compiled), LIMIT).expect_success();
        assert_eq!(ran.stdout, format!("{subject}: ok\n"), "{ran}");
    }
}

// Paper: C28
#[test]
fn hash_map_over_all_ranks_is_right() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-hashmap");
    let compiled = compile("tutticxx", &[], "examples/hashmap.cpp", scratch.path());
    for way in WAYS {
        let ran = run(program("mpiexec").args(way).arg(&compiled).arg("2000"), LIMIT).expect_success();
        assert_eq!(ran.stdout, format!("2000 keys on {} ranks: right\n", way[1]), "{way:?}: {ran}");
    }
}

/// Gives one line, while it runs: coroutines that a compiler lays out wrongly, ranks that wait for each other
/// by a call and in MPI, a main that returns while calls are under way.
#[test]
fn wrong_runs_give_one_line_and_compilers_with_faults_are_named() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-wrong-runs");
    for name in ["c++", "clang++-19"].into_iter().filter(|name| has_command_for_part(Need::Cxx, name)) {
        let compiled = scratch.path().join(name);
        let mut compiler = program("tutticxx");
        compiler.env("TUTTI_CXX", name).args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&compiled);
        run(compiler.arg(root().join("tests/cxx/programs/wrong_runs.cpp")), LIMIT).expect_success();
        let ran = run(program("mpiexec").args(["-n", "1"]).arg(&compiled).arg("layout"), LIMIT);
        let line = "tutti: this compiler lays out a coroutine wrongly: declare a variable in it before its first co_await\n";
        let is_refused = ran.code() == 1 && ran.stderr.matches(line).count() == 1;
        assert!(is_refused || ran.stdout == "layout: 1\n", "{name}: {ran}");
        println!("{name}: coroutines are laid out {}", if is_refused { "wrongly" } else { "right" });
    }
    let compiled = scratch.path().join("c++");
    let ran = run(program("mpiexec").args(["-n", "2"]).arg(&compiled).arg("returns"), LIMIT);
    assert!(ran.code() != 0 && ran.stderr.contains("exited without calling MPI_Finalize\n"), "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    let said = scratch.path().join("ring");
    let file = std::fs::File::create(&said).expect("a scratch file");
    let mut ring = program("mpiexec");
    let mut ring = ring.args(["-n", "2"]).arg(&compiled).arg("ring").stderr(file).spawn().expect("mpiexec");
    let read = || std::fs::read_to_string(&said).unwrap_or_default();
    tutti_testkit::await_that("the ring is named", || {
        read().contains("the ranks wait for each other for ever")
    });
    ring.kill().expect("our own child");
    ring.wait().expect("our own child");
    assert!(read().contains("rank 1 receives from rank 0, tag 0, MPI_COMM_WORLD"), "{}", read());
}

/// Gives one line, whoever is at fault: a post that throws, collectives that differ, ranks of different
/// programs.
#[test]
fn wrong_posts_end_the_job_with_one_line() {
    if !has_command(Need::Cxx, "c++") {
        return;
    }
    let scratch = Scratch::new("cxx-wrong-posts");
    let one = compile("tutticxx", &[], "tests/cxx/programs/wrong_posts.cpp", scratch.path());
    let two = scratch.path().join("other");
    std::fs::rename(&one, &two).expect("a scratch file");
    let one = compile("tutticxx", &["-DOTHER"], "tests/cxx/programs/wrong_posts.cpp", scratch.path());
    let ran = run(program("mpiexec").args(["-n", "2"]).arg(&one).arg("throw"), LIMIT);
    let line = "tutti: rank 1: a posted function has thrown std::logic_error wrong on purpose\n";
    assert_eq!(ran.code(), 1, "{ran}");
    assert_eq!(ran.stderr.matches(line).count(), 1, "{ran}");
    let ran = run(program("mpiexec").args(["-n", "2"]).arg(&one).arg("collectives"), LIMIT);
    assert_eq!(ran.code(), 1, "{ran}");
    let lines: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("tutti: ")).collect();
    let [line] = lines[..] else { panic!("one line: {ran}") };
    let end = ": all ranks call the same collectives in the same order";
    assert!(line.contains("reduce at wrong_posts.cpp:") && line.contains("broadcast at "), "{ran}");
    assert!(line.contains(" meets ") && line.ends_with(end), "{ran}");
    let mut mpiexec = program("mpiexec");
    let ran = run(mpiexec.args(["-n", "1"]).arg(&one).args([":", "-n", "1"]).arg(&two), LIMIT);
    let [path, other] = [&one, &two].map(|path| path.canonicalize().expect("it is there"));
    let [path, other] = [path.display(), other.display()];
    let line = format!(
        "tutti: rank 1, which runs {other}, has been sent a function by rank 0 that it does not have: they run different programs or libraries\n"
    );
    assert_eq!(ran.code(), 1, "{ran}");
    assert_eq!(ran.stderr.matches(&line).count(), 1, "{ran}");
    // Who waits for an answer is told both.
    let line = format!("tutti: the function is not known (rank 1): rank 1 runs {other}, and rank 0 {path}\n");
    assert_eq!(ran.stderr.matches(&line).count(), 1, "{ran}");
    assert!(!ran.stderr.contains("another error"), "{ran}");
}
