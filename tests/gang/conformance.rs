//! The conformance programs of MPI mean the same when their job is switched every 5 ms.

use tutti_tests::{CONFORMANCE, Scratch, compile};

use crate::harness::LIMIT;
use crate::{Cluster, log};

/// The last program runs again and again until the log has so many: on a quick machine all of them are
/// through in some slices of 5 ms.
const THAWS: usize = 400;
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
