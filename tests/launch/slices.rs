//! Time slices of ranks: one that is woken runs at once, also where others keep its core busy.

use std::process::Command;

use tutti_tests::{Scratch, compile, program};

use crate::harness::run;

/// The threads of a rank that has others in its node, and of one that has a network too.
#[test]
fn slices_of_a_rank_are_short_and_its_niceness_stays() {
    let scratch = Scratch::new("launch-slices");
    let slices = compile("tests/launch/programs/slices.c", scratch.path());
    for (nodes, threads) in [("1", "1"), ("2", "2")] {
        let mpiexec = program("mpiexec").get_program().to_owned();
        let mut nice = Command::new("nice");
        nice.env("TUTTI_DAEMON", "none").args(["-n", "3"]).arg(mpiexec);
        nice.args(["--virtual-nodes", nodes, "-n", "2"]).arg(&slices).arg(threads);
        let ran = run(&mut nice).expect_success();
        assert_eq!(ran.stdout, "nice 3: slices\n".repeat(2), "{nodes} nodes: {ran}");
    }
}
