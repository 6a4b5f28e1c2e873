//! Ranks that move by themselves (`tutti_move.h`), on one node and on virtual ones; between machines they do
//! in tests/machines.

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_testkit::await_that;
use tutti_tests::{Ran, Scratch, compile_by, program, run};

use super::{LIMIT, is_running};

fn compile(scratch: &Scratch) -> PathBuf {
    compile_by("mpicc", &["-ltutti"], "tests/processes/programs/moves.c", scratch.path())
}

/// The program of what ranks keep.
fn compile_kept(scratch: &Scratch) -> PathBuf {
    compile_by("mpicc", &["-ltutti"], "tests/processes/programs/moves_kept.c", scratch.path())
}

/// A job of so many ranks on so many nodes, with room for so many.
#[track_caller]
fn run_job(moves: &Path, (ranks, nodes, universe): (u32, u32, u32), words: &[&str]) -> Ran {
    let mut mpiexec = program("mpiexec");
    let numbers = [nodes, universe, ranks].map(|number| number.to_string());
    mpiexec.args(["--universe", &numbers[1], "-n", &numbers[2]]);
    if nodes > 1 {
        mpiexec.args(["--virtual-nodes", &numbers[0]]);
    }
    run(mpiexec.arg(moves).args(words), LIMIT)
}

#[track_caller]
fn expect_right(moves: &Path, job: (u32, u32, u32), words: &[&str]) {
    let ran = run_job(moves, job, words).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("moves are right\n", ""), "{job:?} {words:?}: {ran}");
}

/// Messages between all pairs wait over each move, and each arrives once, in order.
// Paper: C24
#[test]
fn moves_of_ranks_keep_rank_state_and_messages() {
    let scratch = Scratch::new("moves-ring");
    let moves = compile(&scratch);
    for (job, nodes) in [((1, 1, 4), "1"), ((3, 1, 8), "1"), ((2, 2, 8), "2"), ((3, 3, 12), "3")] {
        expect_right(&moves, job, &["ring", "9", nodes]);
    }
}

/// Rows, columns, a grid, a graph, an intercommunicator, groups and datatypes go on under their handles, with
/// what waits in each.
// Paper: C24
#[test]
fn moves_keep_communicators_their_handles_and_messages() {
    let scratch = Scratch::new("moves-comms");
    let moves = compile(&scratch);
    for (job, nodes) in [((2, 1, 6), "1"), ((5, 1, 12), "1"), ((2, 2, 8), "2"), ((4, 3, 16), "3")] {
        expect_right(&moves, job, &["comms", "9", nodes]);
    }
}

#[test]
fn moves_to_the_only_node_by_its_name_stay_there() {
    let scratch = Scratch::new("moves-own");
    let moves = compile(&scratch);
    expect_right(&moves, (2, 1, 6), &["ring", "3", "0"]);
}

#[test]
fn moves_of_all_ranks_at_once_keep_their_messages() {
    let scratch = Scratch::new("moves-all");
    let moves = compile(&scratch);
    for (job, nodes) in [((3, 1, 12), "1"), ((3, 3, 15), "3")] {
        expect_right(&moves, job, &["all", "3", nodes]);
    }
}

#[test]
fn moves_hand_over_states_of_any_length() {
    let scratch = Scratch::new("moves-large");
    let moves = compile(&scratch);
    for bytes in ["0", "1", "3000001"] {
        expect_right(&moves, (2, 1, 6), &["large", bytes]);
    }
    expect_right(&moves, (2, 2, 6), &["large", "300001"]);
}

/// Open files go on under their handles, with views, pointers, hints and modes. The shared pointer is in
/// shared memory, or with rank 0, which moves as well.
// Paper: C24
#[test]
fn moves_keep_files_their_views_and_pointers() {
    let scratch = Scratch::new("moves-files");
    let moves = compile_kept(&scratch);
    for (at, (job, nodes)) in
        [((1, 1, 4), "1"), ((3, 1, 8), "1"), ((2, 2, 8), "2"), ((3, 3, 12), "3")].into_iter().enumerate()
    {
        let path = scratch.path().join(format!("grid-{at}"));
        expect_right(&moves, job, &["files", "9", nodes, &path.to_string_lossy()]);
    }
}

/// The file that is open counts, not what its path leads to when a rank moves.
// Paper: C24
#[test]
fn moves_keep_files_behind_links() {
    let scratch = Scratch::new("moves-links");
    let moves = compile_kept(&scratch);
    let (real, link) = (scratch.path().join("real"), scratch.path().join("link"));
    std::fs::create_dir(&real).expect("our folder");
    std::os::unix::fs::symlink(&real, &link).expect("our folder");
    for (at, (job, nodes)) in [((3, 1, 8), "1"), ((2, 2, 8), "2")].into_iter().enumerate() {
        let path = link.join(format!("grid-{at}"));
        expect_right(&moves, job, &["files", "5", nodes, &path.to_string_lossy()]);
        let path = real.join(format!("again-{at}"));
        expect_right(&moves, job, &["repointed", &path.to_string_lossy()]);
    }
}

/// Persistent requests of ranks that stay reach those that have moved; the source of a message is its rank.
// Paper: C24
#[test]
fn moves_keep_persistent_requests_of_ranks_that_stay() {
    let scratch = Scratch::new("moves-requests");
    let moves = compile_kept(&scratch);
    for (job, nodes) in [((2, 1, 6), "1"), ((5, 1, 12), "1"), ((3, 3, 12), "3")] {
        expect_right(&moves, job, &["requests", "9", nodes]);
    }
}

#[test]
fn moves_keep_windows_of_ranks_that_stay() {
    let scratch = Scratch::new("moves-windows");
    let moves = compile_kept(&scratch);
    for (job, nodes) in [((3, 1, 8), "1"), ((4, 2, 12), "2")] {
        expect_right(&moves, job, &["windows", "5", nodes]);
    }
}

#[test]
fn moves_keep_persistent_collectives_of_ranks_that_stay() {
    let scratch = Scratch::new("moves-collectives");
    let moves = compile_kept(&scratch);
    for (job, nodes) in [((3, 1, 8), "1"), ((6, 2, 16), "2")] {
        expect_right(&moves, job, &["collectives", "5", nodes]);
    }
}

#[test]
fn moves_keep_regions_of_ranks_that_stay() {
    let scratch = Scratch::new("moves-regions");
    let moves = compile_kept(&scratch);
    for (job, nodes) in [((3, 1, 8), "1"), ((3, 3, 12), "3")] {
        expect_right(&moves, job, &["regions", "8", nodes]);
    }
}

#[test]
fn moves_are_refused_where_a_file_cannot_be_opened() {
    let scratch = Scratch::new("moves-lost");
    let moves = compile_kept(&scratch);
    for what in ["gone", "another"] {
        let path = scratch.path().join(what);
        expect_right(&moves, (2, 1, 6), &["lost", &path.to_string_lossy(), what]);
    }
}

/// Threads and the checker are of the whole process: in the way of all moves, and named.
#[test]
fn moves_are_refused_beside_threads_and_the_checker() {
    let scratch = Scratch::new("moves-whole");
    let moves = compile(&scratch);
    expect_right(&moves, (2, 1, 6), &["whole", "rank 0 has asked for MPI_THREAD_MULTIPLE", "threads"]);
    let mut mpiexec = program("mpiexec");
    mpiexec.env("TUTTI_CHECK", "1").args(["--universe", "6", "-n", "2"]).arg(&moves);
    let ran = run(mpiexec.args(["whole", "the program is being checked (TUTTI_CHECK)"]), LIMIT);
    assert_eq!(ran.expect_success().stdout, "moves are right\n");
    let alone = run(Command::new(&moves).args(["whole", "rank 0 was started without mpiexec"]), LIMIT);
    assert_eq!(alone.expect_success().stdout, "moves are right\n");
}

/// Windows, invocations and OpenSHMEM that begin behind moves know the ranks that are there then.
#[test]
fn moves_are_known_to_what_begins_behind_them() {
    let scratch = Scratch::new("moves-then");
    let then = compile_by("oshcc", &["-ltutti"], "tests/processes/programs/moves_then.c", scratch.path());
    for (job, nodes) in [((3, 1, 8), "1"), ((3, 3, 9), "3"), ((4, 2, 12), "2")] {
        expect_right(&then, job, &["7", nodes]);
    }
}

/// Invocations and OpenSHMEM are in the way as long as they run; a program without MPI is told so.
#[test]
fn moves_are_refused_beside_invocations_and_openshmem() {
    let scratch = Scratch::new("moves-beside");
    let beside = compile_by("oshcc", &["-ltutti"], "tests/processes/programs/moves_beside.c", scratch.path());
    let ran = run(program("mpiexec").args(["--universe", "6", "-n", "2"]).arg(&beside), LIMIT);
    assert_eq!(ran.expect_success().stdout, "refusals are right\n");
}

#[test]
fn moves_are_refused_by_name_and_all_is_as_before() {
    let scratch = Scratch::new("moves-refused");
    let moves = compile(&scratch);
    for job in [(2, 1, 6), (2, 2, 6)] {
        let mut mpiexec = program("mpiexec");
        let [nodes, ranks] = [job.1, job.0].map(|number: u32| number.to_string());
        mpiexec.args(["--universe", "6", "-n", &ranks, "--virtual-nodes", &nodes]).arg(&moves);
        let ran = run(mpiexec.arg("refused").current_dir(scratch.path()), LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("moves are right\n", ""), "{job:?}: {ran}");
    }
    expect_right(&moves, (2, 1, 6), &["gone"]);
}

#[test]
fn moves_without_room_are_refused_and_all_is_as_before() {
    let scratch = Scratch::new("moves-full");
    let moves = compile(&scratch);
    let ran = run_job(&moves, (2, 2, 2), &["status", "0"]);
    assert!(ran.code() != 0 && ran.stdout.contains("rank 0 has no successor: "), "{ran}");
    assert!(ran.stdout.contains("room for 2 in all"), "{ran}");
}

#[test]
fn status_of_a_rank_that_has_moved_is_that_of_the_job() {
    let scratch = Scratch::new("moves-status");
    let moves = compile(&scratch);
    for job in [(2, 1, 6), (2, 2, 6)] {
        let ran = run_job(&moves, job, &["status", "7"]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (7, 1), "{job:?}: {ran}");
    }
}

#[test]
fn rank_that_is_killed_around_its_move_ends_the_job() {
    let scratch = Scratch::new("moves-killed");
    let moves = compile(&scratch);
    for job in [(2, 1, 6), (2, 2, 6)] {
        let ran = run_job(&moves, job, &["killed", "successor"]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (137, 1), "{job:?}: {ran}");
    }
    let seed = tutti_testkit::seed();
    for which in 0..6 {
        let job = if which % 2 == 0 { (2, 1, 6) } else { (2, 2, 6) };
        let when = (seed.wrapping_add(which * 3331) % 20_000).to_string();
        let ran = run_job(&moves, job, &["killed", "mover", &when]);
        // It may have left before.
        assert!([0, 137].contains(&ran.code()), "{job:?}, {when} us: {ran}");
        await_that("nothing of it is left", || !is_running(&moves));
    }
}
