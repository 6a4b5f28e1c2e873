//! A PE that is killed while others wait for it, or work on its memory, takes the job down as any other rank:
//! one line, its status, and nothing is left behind. No PE says anything about it.

use std::path::Path;

use tutti_tests::{Scratch, compile, compile_with, program};

use crate::harness::assert_kill_of_rank_0_ends;

/// On one node, and on two with two PEs each.
#[track_caller]
fn ends_with_one_line(compiled: &Path, what: &str, times: usize) {
    for place in [&["-n", "3"][..], &["--virtual-nodes", "2", "-n", "4"]].repeat(times) {
        assert_kill_of_rank_0_ends(program("oshrun").args(place).arg(compiled).arg(what));
    }
}

const SOURCE: &str = "tests/shmem/programs/dies.c";

#[test]
fn shmem_pe_that_is_killed_while_others_wait_for_it_ends_the_job_in_one_line() {
    let scratch = Scratch::new("shmem-dies-awaited");
    let compiled = compile_with("oshcc", SOURCE, scratch.path());
    for what in ["lock", "ask", "barrier", "word"] {
        ends_with_one_line(&compiled, what, 1);
    }
}

/// The variables of a program that oshcc has not linked are in the dead process alone.
#[test]
fn shmem_pe_that_is_killed_among_operations_ends_the_job_in_one_line() {
    let scratch = Scratch::new("shmem-dies-among");
    let compiled = compile_with("oshcc", SOURCE, scratch.path());
    ends_with_one_line(&compiled, "atomics", 4);
    ends_with_one_line(&compiled, "statics", 2);
    ends_with_one_line(&compile(SOURCE, scratch.path()), "statics", 6);
}
