//! The promises of point-to-point messages (MPI chapter 3): every message once, in order, with its data,
//! whatever its size, mode and the order of calls. Everything runs from `target/dist`.

use std::process::Command;
use std::time::Duration;

use tutti_tests::{Scratch, compile, compile_with, program, run};

/// Many ranks on few busy cores are slow; nothing here takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(110);

/// A seed that changes from run to run, and is printed. TUTTI_TEST_SEED repeats a run.
fn seed() -> String {
    tutti_testkit::seed().to_string()
}

#[track_caller]
fn passes(test: &str, name: &str, ranks: usize, args: &[&str], said: &str) {
    let scratch = Scratch::new(test);
    let compiled = compile(&format!("tests/point_to_point/programs/{name}.c"), scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", &ranks.to_string()]).arg(compiled).args(args);
    let ran = run(&mut mpiexec, LIMIT).expect_success();
    assert!(ran.stdout.contains(said), "{args:?}: {ran}");
}

#[track_caller]
fn random(ranks: usize) {
    let test = format!("random-{ranks}");
    passes(&test, "random", ranks, &[&seed(), "27"], &format!("27 rounds of 60 messages on {ranks} ranks"));
}

#[test]
fn random_messages_arrive_once_in_order_on_1_rank() {
    random(1);
}

#[test]
fn random_messages_arrive_once_in_order_on_2_ranks() {
    random(2);
}

#[test]
fn random_messages_arrive_once_in_order_on_3_ranks() {
    random(3);
}

#[test]
fn random_messages_arrive_once_in_order_on_8_ranks() {
    random(8);
}

/// The paper's transport, inside a node: every message once, in order, whatever the order of the calls of
/// both sides.
#[test]
fn messages_are_delivered_once_and_in_order() {
    passes("m3", "random", 4, &[&seed(), "27"], "27 rounds of 60 messages on 4 ranks");
}

// Paper: M14
#[test]
fn send_and_receive_modes_work() {
    passes("modes", "modes", 3, &[], "checks");
}

#[test]
fn thread_multiple_waits_are_independent() {
    passes("threads", "threads", 2, &[], "threads: all right");
}

#[test]
fn probe_by_several_threads_gives_a_message_to_one() {
    passes("probing-threads", "probing_threads", 2, &[], "probing threads: all right");
}

#[test]
fn test_in_a_loop_hands_the_core_to_the_rank_that_shares_it() {
    let scratch = Scratch::new("testing-one-core");
    let compiled = compile("tests/point_to_point/programs/testing_one_core.c", scratch.path());
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", "0"]).arg(program("mpiexec").get_program()).args(["-n", "2"]).arg(compiled);
    let ran = run(&mut taskset, LIMIT).expect_success();
    assert!(ran.stdout.contains("testing_one_core: ok"), "{ran}");
}

#[test]
fn test_in_a_loop_hands_the_core_to_other_programs_there() {
    let scratch = Scratch::new("testing-beside-others");
    let source = "tests/point_to_point/programs/testing_beside_others.c";
    let compiled = compile_with("oshcc", source, scratch.path());
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", "0"]).arg(program("mpiexec").get_program()).args(["-n", "1"]).arg(compiled);
    let ran = run(&mut taskset, LIMIT);
    assert!(ran.stdout.contains("testing_beside_others: ok"), "{ran}");
}

/// A receive that came first may have lost what it needs when its message comes: that ends the job, with a
/// line.
fn message_to_what_has_gone_ends_the_job(what: &str, reasons: &[&str]) {
    let scratch = Scratch::new(&format!("receive-first-{what}"));
    let compiled = compile("tests/point_to_point/programs/receive_first.c", scratch.path());
    for nodes in ["1", "2"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2", "--virtual-nodes", nodes]).arg(&compiled).arg(what);
        let ran = run(&mut mpiexec, LIMIT);
        let is_reason = |line: &str| reasons.iter().any(|reason| line.contains(reason));
        let is_said = ran.stderr.lines().any(|line| line.contains("rank 1") && is_reason(line));
        assert!(!ran.status.success() && is_said && ran.stdout.is_empty(), "{what}, {nodes} nodes: {ran}");
    }
}

#[test]
fn message_to_a_receive_whose_memory_was_freed_ends_the_job_with_a_line() {
    // A copy by the library finds it, or the kernel that receives from another node.
    let reasons =
        ["is no memory that may be written", "is not the program's: is its address or count wrong?"];
    message_to_what_has_gone_ends_the_job("freed", &reasons);
}

#[test]
fn message_to_a_receive_of_a_rank_that_has_left_ends_the_job_with_a_line() {
    message_to_what_has_gone_ends_the_job("left", &["exited with status 7"]);
}
