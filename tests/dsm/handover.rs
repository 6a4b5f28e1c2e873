//! Locks that ranks of a node hand over among themselves.

use tutti_tests::{Scratch, program, run};

use super::{LIMIT, compile_twin, sum_of};

/// Rounds of each rank.
const ROUNDS: u64 = 320;

/// Records between nodes, locks lent to a node, and locks that went from rank to rank there, when so many of
/// eight ranks on two nodes take locks.
fn counted(takers: u64, switch: &str) -> [u64; 3] {
    let scratch = Scratch::new("dsm-handover");
    let compiled = compile_twin("tests/dsm/programs/handover.c", &scratch);
    let mut command = program("mpiexec");
    command.env("TUTTI_STATS", "json").env("TUTTI_DSM_HANDOVER", switch);
    command.args(["-n", "8", "--virtual-nodes", "2"]).arg(&compiled).arg("8");
    let ran = run(command.args([takers, ROUNDS].map(|number| number.to_string())), LIMIT).expect_success();
    assert_eq!(ran.stdout, "handover: 0 wrong\n", "{ran}");
    ["records", "locks_lent", "locks_passed"].map(|name| sum_of(&ran.stderr, name))
}

#[test]
fn dsm_lock_goes_from_rank_to_rank_of_a_node_without_the_network() {
    // Half of the locks are kept by the node whose ranks take them.
    let (handovers, away) = (4 * ROUNDS, 4 * ROUNDS / 2);
    let [on, off] = ["on", "off"].map(|switch| counted(4, switch));
    println!("records, lent, passed: on {on:?}, off {off:?} for {handovers} locks taken");
    assert_eq!(off[1..], [0, 0], "each lock is asked for");
    assert!(off[0] > 2 * away, "a request, a grant and an unlock: {off:?}");
    assert_eq!(on[1] + on[2], away, "a lock that is kept elsewhere is lent or passed: {on:?}");
    assert!(on[1] <= 8, "no other node wants them: {on:?}");
    assert!(on[0] < off[0] / 4, "{on:?} {off:?}");
}

#[test]
fn dsm_lock_that_ranks_of_two_nodes_want_goes_to_all() {
    let [records, lent, passed] = counted(8, "on");
    println!("{records} records, {lent} locks lent, {passed} passed");
    assert!(lent > 8 && lent + passed == 8 * ROUNDS / 2, "{lent} lent, {passed} passed");
}
