//! A rank that is killed while its mates wait for it, or work on its memory, takes the job down as any other:
//! one line, its status, and nothing is left behind. No rank says anything about it.

use tutti_tests::{Scratch, program};

use crate::compiled;
use crate::harness;

/// On one node, and on two with two ranks each.
const PLACES: [&[&str]; 2] = [&["-n", "3"], &["--virtual-nodes", "2", "-n", "4"]];

#[track_caller]
fn ends_with_one_line(what: &str, times: u32) {
    let scratch = Scratch::new(&format!("windows-dies-{what}"));
    let dies = compiled(&scratch, "dies");
    for place in PLACES {
        for memory in ["allocate", "create"] {
            for _ in 0..times {
                let mut mpiexec = program("mpiexec");
                let ran = harness::run(mpiexec.args(place).arg(&dies).args([what, memory]));
                assert_eq!(ran.code(), 137, "{place:?}, {memory}: {ran}");
                let line = ran.stderr.strip_prefix("mpiexec: rank 0 (pid ").unwrap_or_default();
                let is_it =
                    line.ends_with(") was killed by signal 9 (Killed)\n") && line.lines().count() == 1;
                assert!(is_it, "{place:?}, {memory}: {ran}");
                let job = ran.stdout.trim().strip_prefix("job ").expect("its line");
                assert_nothing_left(job);
            }
        }
    }
}

/// Neither a socket nor a cgroup of the job.
#[track_caller]
fn assert_nothing_left(job: &str) {
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("/proc/net/unix");
    assert!(!sockets.contains(&format!("tutti-{job}")), "the socket is left");
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let cgroup = std::path::Path::new(root).join(format!("tutti-job-{job}"));
        assert!(!cgroup.exists(), "{} is left", cgroup.display());
    }
}

#[test]
fn window_lock_holder_that_is_killed_ends_the_job_in_one_line() {
    ends_with_one_line("lock", 1);
}

#[test]
fn window_lock_waiter_that_is_killed_ends_the_job_in_one_line() {
    ends_with_one_line("ask", 1);
}

#[test]
fn window_rank_that_is_killed_inside_a_fence_ends_the_job_in_one_line() {
    ends_with_one_line("fence", 1);
}

/// It stands anywhere in its own operations, also behind a closed gate.
#[test]
fn window_rank_that_is_killed_among_atomics_ends_the_job_in_one_line() {
    ends_with_one_line("atomics", 8);
}
