//! A rank that is killed while its mates wait for it, or work on its memory, takes the job down as any other:
//! one line, its status, and nothing is left behind. No rank says anything about it.

use tutti_tests::{Scratch, program};

use crate::compiled;
use crate::harness::assert_kill_of_rank_0_ends;

/// On one node, and on two with two ranks each.
const PLACES: [&[&str]; 2] = [&["-n", "3"], &["--virtual-nodes", "2", "-n", "4"]];

#[track_caller]
fn ends_with_one_line(what: &str, times: usize) {
    let scratch = Scratch::new(&format!("windows-dies-{what}"));
    let dies = compiled(&scratch, "dies");
    for place in PLACES {
        for memory in ["allocate", "create"].repeat(times) {
            let mut mpiexec = program("mpiexec");
            assert_kill_of_rank_0_ends(mpiexec.args(place).arg(&dies).args([what, memory]));
        }
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

/// Death of a rank anywhere in its own operations, also behind a closed gate.
#[test]
fn window_rank_that_is_killed_among_atomics_ends_the_job_in_one_line() {
    ends_with_one_line("atomics", 8);
}
