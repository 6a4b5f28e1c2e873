//! Any command is a job: it ends with all its processes, its output and status are the job's.

use tutti_tests::{Scratch, program};

use crate::harness::{Running, mpiexec, run};

#[test]
fn any_command_runs_on_every_rank() {
    let ran = mpiexec(&["-n", "4", "hostname"]).expect_success();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(ran.stdout, format!("{name}\n").repeat(4));
    let ran = run(program("tutti").args(["run", "-n", "2", "--", "echo", "-n", "2"])).expect_success();
    assert_eq!(ran.stdout, "2".repeat(2));
}

#[test]
fn pipeline_can_be_a_rank() {
    let ran = mpiexec(&["-n", "1", "bash", "-c", "seq 100000 | sort -n | tail -1"]).expect_success();
    assert_eq!(ran.stdout, "100000\n");
    let ran = mpiexec(&["-n", "2", "bash", "-c", "echo out; echo err >&2; exit $((PMI_RANK * 5))"]);
    assert_eq!(ran.code(), 5, "{ran}");
    assert!(ran.stdout.contains("out\n") && ran.stderr.contains("err\n"), "{ran}");
}

#[test]
fn command_leftovers_are_ended() {
    // The harness looks for what is left by a mark in the environment.
    let ran =
        mpiexec(&["-n", "2", "bash", "-c", "setsid -f sleep 1000; sleep 1000 & (sleep 1000 &); echo done"]);
    assert_eq!(ran.expect_success().stdout, "done\ndone\n");
    let ran = mpiexec(&["-n", "2", "bash", "-c", "setsid -f sleep 1000; sleep 1000 & kill -9 $$"]);
    assert_eq!(ran.code(), 137, "{ran}");
}

#[test]
fn command_gets_the_signals_of_the_job() {
    let scratch = Scratch::new("foreign-signals");
    let script = "trap 'echo heard; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let mut command = program("mpiexec");
    command.args(["-n", "1", "bash", "-c", script]).current_dir(scratch.path());
    let mut job = Running::start_command(&mut command);
    job.await_line("up");
    job.signal(rustix::process::Signal::TERM);
    job.await_line("heard");
    let _ = job.end();
}
