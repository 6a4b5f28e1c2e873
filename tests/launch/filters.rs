//! A rank's filters (`exec > >(tee log)`, an idiom of job scripts) get the end of file when it ends, and time
//! to write what they have; what is lost all the same is said.

use tutti_tests::{Scratch, program};

use crate::harness::run;

#[test]
fn filters_of_ranks_that_have_ended_write_what_they_have() {
    let scratch = Scratch::new("launch-filters");
    let bash = |ranks: &str, script: &str| {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks, "bash", "-c", script]).current_dir(scratch.path());
        run(&mut mpiexec)
    };
    // All ends of a rank: by itself, with a status, by a signal, and in a pipeline.
    for (end, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("exec true", 0)] {
        let ran = bash("1", &format!("exec > >(sleep 0.3; cat); seq 500; {end}"));
        let expected: String = (1..=500).map(|line| format!("{line}\n")).collect();
        assert_eq!((ran.stdout.as_str(), ran.code()), (expected.as_str(), code), "{end}: {ran}");
    }
    let ran = bash("2", "exec > >(tee log.$TUTTI_RANK | (sleep 0.2; tac)); seq 100");
    assert_eq!(ran.stdout.lines().count(), 200, "{ran}");
    // A filter whose own output is a file.
    bash("1", "seq 2000 > >(sleep 0.2; gzip > out.gz)").expect_success();
    let unpacked = run(std::process::Command::new("zcat").arg(scratch.path().join("out.gz")));
    assert_eq!(unpacked.stdout.lines().count(), 2000, "{unpacked}");
    // What a child writes behind its parent's end.
    let ran = bash("1", "(sleep 0.3; echo late) & echo early");
    assert_eq!(ran.stdout, "early\nlate\n", "{ran}");
    // On several nodes.
    let mut mpiexec = program("mpiexec");
    let script = "exec > >(sleep 0.3; cat); echo late";
    let ran = run(mpiexec.args(["--virtual-nodes", "2", "-n", "2", "bash", "-c", script]));
    assert_eq!(ran.stdout, "late\nlate\n", "{ran}");
}

#[test]
fn process_that_keeps_the_output_for_ever_is_ended_with_a_line() {
    let ran = run(program("mpiexec").args(["-n", "1", "sh", "-c", "sleep 1000 & echo early"]));
    assert_eq!((ran.stdout.as_str(), ran.code()), ("early\n", 0), "{ran}");
    assert!(ran.stderr.contains("sleep (pid ") && ran.stderr.contains("still held the output"), "{ran}");
    // A job that its user ends waits for nothing, and one that writes nowhere either.
    let script = "sleep 1000 > /dev/null 2>&1 & echo early";
    let ran = run(program("mpiexec").args(["-n", "1", "sh", "-c", script])).expect_success();
    assert_eq!(ran.stderr, "", "{ran}");
}
