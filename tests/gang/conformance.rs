//! The conformance programs of MPI, and those of windows and OpenSHMEM, mean the same when their job is
//! switched every 5 ms.

use tutti_tests::{CONFORMANCE, Scratch, compile, compile_with};

use crate::harness::LIMIT;
use crate::{Cluster, log};

/// The last program runs again and again until the log has so many: on a quick machine all of them are
/// through in some slices of 5 ms.
const THAWS: usize = 400;
/// Each program of remote memory again and again until it has had so many.
const THAWS_OF_EACH: usize = 100;
/// At most so often.
const RUNS_MAX: usize = 200;

#[track_caller]
fn pass(name: &str, up: &[&str], beside: bool) {
    let cluster = Cluster::up(name, 2, up);
    let scratch = Scratch::new(&format!("{name}-files"));
    let busy =
        beside.then(|| cluster.start(&["run", "-N", "2", "-n", "2", "sh", "-c", "while :; do :; done"]));
    for name in CONFORMANCE {
        let program = compile(&format!("tests/mpi/programs/{name}.c"), scratch.path());
        let ran = cluster.run(&["run", "-N", "2", "-n", "3", &program.to_string_lossy()]).expect_success();
        assert!(ran.stdout.contains(&format!("{name}: ok\n")), "{ran}");
    }
    let random = compile("tests/point_to_point/programs/random.c", scratch.path());
    let (program, seed) = (random.to_string_lossy(), tutti_testkit::seed().to_string());
    let words = ["run", "-N", "2", "-n", "3", &program, &seed, "12"];
    let mut runs = 0;
    while runs == 0 || log::thaws(&cluster) < THAWS {
        assert!(runs < RUNS_MAX, "{} thaws in {runs} runs: is nothing switched?", log::thaws(&cluster));
        tutti_tests::run(&mut cluster.command(&words), LIMIT).expect_success();
        runs += 1;
    }
    println!("{} thaws", log::thaws(&cluster));
    if let Some(busy) = busy {
        cluster.tutti(&["kill", "1"]).expect_success();
        assert_eq!(busy.end().0, 137);
    }
}

#[test]
fn conformance_programs_pass_under_forced_switches_of_5_ms() {
    pass("gang-forced", &["--slice", "5", "--force-switch"], false);
}

#[test]
fn conformance_programs_pass_under_forced_strict_switches_of_5_ms() {
    pass("gang-forced-strict", &["--slice", "5", "--force-switch", "--strict"], false);
}

#[test]
fn conformance_programs_pass_beside_another_job_under_strict_switches() {
    pass("gang-beside", &["--slice", "5", "--strict"], true);
}

/// A program of remote memory: its wrapper, its source, its arguments, what it says.
type OfMemory = (&'static str, &'static str, &'static [&'static str], &'static str);

/// In which all kinds of operations are under way at any moment, to ranks of the same node and of another.
const OF_MEMORY: [OfMemory; 6] = [
    ("mpicc", "tests/windows/c/operations.c", &["11", "1"], "operations: all right\n"),
    ("mpicc", "tests/windows/c/long.c", &["11", "2"], "long: all right\n"),
    ("mpicc", "tests/windows/c/patience.c", &["200"], "patience: all right\n"),
    ("oshcc", "tests/shmem/programs/atomics.c", &["2000"], "atomics: ok\n"),
    ("oshcc", "tests/shmem/programs/locks.c", &["200"], "locks: ok\n"),
    ("oshcc", "tests/shmem/programs/waits.c", &[], "waits: ok\n"),
];

#[track_caller]
fn memory_passes(name: &str, up: &[&str]) {
    let cluster = Cluster::up(name, 2, up);
    let mut thaws = 0;
    for (number, (wrapper, source, arguments, said)) in OF_MEMORY.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("{name}-{number}"));
        let program = compile_with(wrapper, source, scratch.path());
        let program = program.to_string_lossy();
        let words = [&["run", "-N", "2", "-n", "4", &*program][..], arguments].concat();
        let mut runs = 0;
        while runs == 0 || log::thaws(&cluster) < thaws + THAWS_OF_EACH {
            assert!(runs < RUNS_MAX, "{source}: {} thaws: is nothing switched?", log::thaws(&cluster));
            let ran = crate::harness::run(cluster.command(&words).env("TEST_NODES", "2")).expect_success();
            assert!(ran.stdout.contains(said), "{source}: {ran}");
            runs += 1;
        }
        thaws = log::thaws(&cluster);
        println!("{source}: {thaws} thaws, {runs} runs");
    }
}

#[test]
fn remote_memory_programs_pass_under_forced_switches_of_5_ms() {
    memory_passes("gang-memory-forced", &["--slice", "5", "--force-switch"]);
}

#[test]
fn remote_memory_programs_pass_under_forced_strict_switches_of_5_ms() {
    memory_passes("gang-memory-strict", &["--slice", "5", "--force-switch", "--strict"]);
}
