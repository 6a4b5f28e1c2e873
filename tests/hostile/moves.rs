//! Ranks of a hostile user that move by themselves (`tutti_move.h`) under root's daemons: in a storm, to a
//! node that is none of the job's, and killed under way. Another user's job goes on, and nothing is left.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Signal, kill_process};
use tutti_tests::{LIMIT, Scratch, compile_by, run};

use crate::harness::{Running, await_that};
use crate::machine::Machine;
use crate::nothing_left::{Before, assert_nothing_left};

const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Moves of a storm that ends, and of one that is killed.
const MOVES: &str = "60";
const MOVES_MANY: &str = "1000000";
/// Storms that are killed.
const KILLED: u64 = 3;

/// The program of the moves' own tests, where users can execute it.
fn moves(machine: &Machine) -> PathBuf {
    let scratch = Scratch::new("hostile-moves-program");
    let source = "tests/processes/programs/moves.c";
    machine.users.reachable(&compile_by("mpicc", &["-ltutti"], source, scratch.path()))
}

/// A job of two ranks of the hostile user, on the first two nodes, with room for new ones.
fn job(machine: &Machine, moves: &str, words: &[&str]) -> Command {
    let common = ["run", "--host", "node0,node1", "-n", "2", "--universe", "8", moves, "ring"];
    machine.mpi(HOSTILE, 0, &[&common, words].concat())
}

#[test]
fn moves_of_a_hostile_user_harm_no_other_user_and_leave_nothing() {
    let Some(machine) = Machine::up_within_groups("hostile-moves", 3, 2, &[]) else { return };
    let before = Before::note(&machine, 3);
    let program = moves(&machine);
    let moves = program.to_str().expect("a path of text");
    let gate = machine.users.root().join("gate");
    let waits = format!("echo begins; until [ -e {} ]; do sleep 0.05; done; echo goes on", gate.display());
    let mut honest = machine.start(HONEST, &["run", "-N", "2", "-n", "2", "sh", "-c", &waits]);
    honest.await_line("begins");
    honest.await_line("begins");

    // A storm that ends.
    let ran = run(&mut job(&machine, moves, &[MOVES, "2"]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "moves are right\n", "{ran}");
    // The second move is to node2, which the job does not have.
    let ran = run(&mut job(&machine, moves, &["9", "3"]), LIMIT);
    assert!(ran.code() != 0 && ran.stdout.contains("move 2: -"), "{ran}");
    // Killed under way: the ranks, the starters and the front end, at whatever they do.
    for number in 0..KILLED {
        let storm = job(&machine, moves, &[MOVES_MANY, "2"]);
        kill_under_way(&machine, storm, number);
    }
    // The daemons know nothing more of them, and the other user's job has gone on.
    await_that("one job is left", || machine.jobs().len() == 1);
    assert!(!machine.users.processes_by_status(machine.uid(HONEST)).is_empty());
    std::fs::write(&gate, "").expect("our folder");
    honest.await_line("goes on");
    honest.await_line("goes on");
    assert_eq!(honest.end(), (0, String::new()));
    std::fs::remove_file(&gate).expect("our file");
    std::fs::remove_file(&program).expect("our file");
    assert_nothing_left(&machine, &before, &BTreeSet::new());
}

/// Ends all processes of the user when so many more have been there than the job began with.
fn kill_under_way(machine: &Machine, mut storm: Command, number: u64) {
    let uid = machine.uid(HOSTILE);
    let running = Running::start_command(&mut storm);
    let mut seen = BTreeSet::new();
    await_that("ranks have moved", || {
        seen.extend(machine.users.processes_by_status(uid).iter().map(|pid| pid.as_raw_nonzero()));
        seen.len() as u64 > 12 + number
    });
    for process in machine.users.processes_by_status(uid) {
        let _ = kill_process(process, Signal::KILL);
    }
    assert_ne!(running.end().0, 0, "it was killed");
    await_that("no process of the user is left", || machine.users.processes_by_status(uid).is_empty());
}
