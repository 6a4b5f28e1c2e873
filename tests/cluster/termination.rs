//! A message-driven job over the nodes of a cluster is told that it has terminated
//! (`../native/programs/terminated.c`): by the controller, and through an `mpiexec` whose virtual nodes a
//! daemon has in turns. Inside a node and without a daemon: `tests/native`.

use std::path::PathBuf;

use tutti_tests::{Scratch, compile, run};

use crate::Cluster;
use crate::harness::LIMIT;
use crate::on_demand::Laptop;

fn compiled(scratch: &Scratch) -> PathBuf {
    compile("tests/native/programs/terminated.c", scratch.path())
}

// Paper: S22
#[test]
fn termination_of_a_job_over_nodes_reaches_all_ranks() {
    let scratch = Scratch::new("terminated-nodes-files");
    let program = compiled(&scratch);
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    for ranks in ["2", "4"] {
        let words = ["run", "-N", "2", "-n", ranks, program.to_str().expect("text"), "queue", "7"];
        let ran = cluster.tutti(&words);
        assert_eq!(ran.status.code(), Some(7), "{ranks} ranks: {ran}");
        assert!(
            ran.stdout.contains("terminated: ok\n") && !ran.stderr.contains("for ever"),
            "{ranks} ranks: {ran}"
        );
    }
}

// Paper: S22
#[test]
fn termination_of_virtual_nodes_that_take_turns_reaches_all_ranks() {
    let scratch = Scratch::new("terminated-virtual-files");
    let program = compiled(&scratch);
    let laptop = Laptop::new("terminated-virtual");
    // The ranks are awake for long enough that a daemon has the job before they wait.
    let words = ["--virtual-nodes", "2", "-n", "3", program.to_str().expect("text"), "busy", "7"];
    let ran = run(&mut laptop.command("mpiexec", &words), LIMIT);
    assert_eq!(ran.status.code(), Some(7), "{ran}");
    assert!(ran.stdout.contains("terminated: ok\n") && !ran.stderr.contains("for ever"), "{ran}");
    laptop.end_daemon();
}
