//! Allocations of Slurm whose `srun` is a script: what `mpiexec` does when the step does not do what it
//! should. The nodes are names for this machine, each with a daemon of its own.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::{LIMIT, Ran, Scratch, dist};

use crate::harness::{Mark, RANK, await_that};

/// The node on which `mpiexec` is called, and another one.
const NODES: [&str; 2] = ["localhost", "other"];
/// Starts the daemon of a node (`$1`, its place `$2`) as slurmd would; `$@` is the command of the step.
const START: &str = "start() {\n  node=$1 place=$2; shift 2\n  SLURMD_NODENAME=$node SLURM_NODEID=$place exec \"$@\"\n}\n\
                     while [ \"${1#--}\" != \"$1\" ]; do shift; done\necho >>$TUTTI_DIR/steps\n";

/// An allocation of two nodes.
struct Allocation {
    scratch: Scratch,
    mark: Mark,
}

impl Allocation {
    /// One whose `srun` runs these lines, which have `start`; without lines there is no `srun`.
    fn new(name: &str, srun: &str) -> Self {
        let allocation = Allocation { scratch: Scratch::new(name), mark: Mark::new() };
        if !srun.is_empty() {
            let program = allocation.scratch.path().join("srun");
            std::fs::write(&program, format!("#!/bin/sh\n{START}{srun}\n")).expect("a file");
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("its mode");
        }
        allocation
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn mpiexec(&self, words: &[&str]) -> Command {
        let mut command = Command::new(dist().join("bin/mpiexec"));
        self.mark.on(&mut command);
        command.args(words).env_remove("TUTTI_DAEMON").env("TUTTI_DIR", self.scratch.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.scratch.path().display()));
        command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", NODES.join(","));
        command.env("SLURM_JOB_NUM_NODES", "2").env("SLURM_TASKS_PER_NODE", "2(x2)");
        command.env("SLURM_JOB_CPUS_PER_NODE", "2(x2)").env("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1");
        command.env("SLURMD_NODENAME", NODES[0]);
        command
    }

    fn run(&self, words: &[&str]) -> Ran {
        tutti_tests::run(&mut self.mpiexec(words), LIMIT)
    }

    fn signal(&self, signal: Signal) {
        for pid in self.mark.processes() {
            let _ = kill_process(pid, signal);
        }
    }

    /// Ends all processes by KILL, as `scancel` does at last.
    fn cancel(&self) {
        self.signal(Signal::KILL);
        self.mark.assert_nothing_left();
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

#[test]
fn allocation_in_which_mpiexec_is_called_twice_at_once_has_one_step() {
    let both = "start localhost 0 \"$@\" & start other 1 \"$@\" & wait";
    let allocation = Allocation::new("allocation-twice", both);
    let words = [RANK, "say=here"];
    let ran = std::thread::scope(|scope| {
        let each = [(); 2].map(|()| scope.spawn(|| allocation.run(&words)));
        each.map(|each| each.join().expect("no panic"))
    });
    for ran in ran {
        assert_eq!((ran.stdout.as_str(), ran.code()), ("here\nhere\nhere\nhere\n", 0), "{}", ran.stderr);
    }
    let steps = || std::fs::read_to_string(allocation.file("steps")).expect("steps").lines().count();
    assert_eq!(steps(), 1);
    // The daemons are there for the next one.
    assert_eq!(allocation.run(&["-n", "1", RANK, "say=on"]).stdout, "on\n");
    assert_eq!(steps(), 1);
    allocation.cancel();
    // Without its daemons the allocation begins anew, beside the files of those that were killed.
    assert_eq!(allocation.run(&["-n", "1", RANK, "say=anew"]).stdout, "anew\n");
    assert_eq!(steps(), 2);
    allocation.cancel();
}

/// A fault of the step is one line, with the last words of `srun` or of a daemon.
#[test]
fn allocation_whose_step_fails_is_named_in_one_line() {
    let ended = "srun: error: Unable to create step for job 7: Job/step already completing or completed";
    let no_path = "slurmstepd: error: execve(): /nothing/tuttid: No such file or directory";
    let cases = [
        ("none", String::new(), "its daemons do not start: srun has ended: sh: ".to_owned()),
        (
            "ended",
            format!("echo '{ended}' >&2; exit 1"),
            format!("its daemons do not start: srun has ended: {ended}"),
        ),
        // The allocation ends while the second node's daemon is awaited.
        (
            "cancelled",
            "start localhost 0 \"$@\" & i=0; until [ -S $TUTTI_DIR/slurm-7.localhost/tuttid.sock ] || [ $((i += 1)) = 600 ]; do sleep 0.05; done\n\
             kill -9 $!; wait; echo 'srun: error: *** STEP 7.0 ON localhost CANCELLED AT 2026-11-30T12:00:00 ***' >&2; exit 143"
                .to_owned(),
            "its daemons do not start: srun has ended: srun: error: *** STEP 7.0 ON localhost CANCELLED AT \
             2026-11-30T12:00:00 ***"
                .to_owned(),
        ),
        // The tree is not at its path on the second node.
        (
            "path",
            format!("start localhost 0 \"$@\" 2>/dev/null & echo '{no_path}' >&2; wait"),
            format!("its daemons do not start: the daemons of other did not join in 20 s: {no_path}"),
        ),
        // No network between the nodes: what the second one joins is nobody.
        (
            "network",
            "start localhost 0 \"$@\" 2>/dev/null & start other 1 \"$1\" --engine slurm --join localhost:9 & wait".to_owned(),
            "its daemons do not start: the daemons of other did not join in 20 s".to_owned(),
        ),
    ];
    // Side by side: two of them wait for 20 s.
    std::thread::scope(|scope| {
        for (name, srun, expected) in cases {
            scope.spawn(move || {
                let allocation = Allocation::new(&format!("allocation-{name}"), &srun);
                let ran = allocation.run(&[RANK, "say=here"]);
                let begin = "mpiexec: this is a Slurm allocation of 2 nodes, and ";
                let found = (ran.code(), ran.stdout.as_str(), ran.stderr.lines().count());
                assert_eq!(found, (1, "", 1), "{name}: {ran}");
                assert!(ran.stderr.starts_with(&format!("{begin}{expected}")), "{name}: {}", ran.stderr);
                allocation.cancel();
            });
        }
    });
}

/// A job that runs when its allocation is cancelled ends, and nothing of it stays.
#[test]
fn allocation_that_ends_beside_a_job_leaves_nothing() {
    let both = "start localhost 0 \"$@\" & start other 1 \"$@\" & wait";
    let allocation = Allocation::new("allocation-cancelled", both);
    let until = allocation.file("never");
    let mut command = allocation.mpiexec(&[RANK, "say=on", &format!("await={}", until.display())]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut job = command.spawn().expect("mpiexec");
    await_that("its ranks run", || {
        let sees = |pid: &Pid| {
            std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
                .is_ok_and(|name| name.trim() == "test-rank")
        };
        allocation.mark.processes().iter().filter(|pid| sees(pid)).count() == 4
    });
    // As at the end of a time limit: TERM to all, mpiexec among them.
    allocation.signal(Signal::TERM);
    await_that("mpiexec has ended", || job.try_wait().expect("a child").is_some());
    let ended = job.wait_with_output().expect("mpiexec");
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && !errors.contains("panicked"), "{ended:?}");
    allocation.mark.assert_nothing_left();
}
