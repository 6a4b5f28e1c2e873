//! The promises of chapter 11 about groups that have no communicator yet: new processes, ports, joins and
//! published names of one job, and of several launches, on one node ([`launches`]) and on nodes of a cluster
//! ([`cluster_launches`]); what is not built is refused. Everything runs from `target/dist`.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

#[path = "../cluster/cluster.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod cluster;
mod cluster_launches;
#[path = "../launch/harness.rs"]
#[allow(dead_code, reason = "each suite uses a part of it")]
mod harness;
mod launches;
mod moves;

use std::path::Path;
use std::time::Duration;

use tutti_testkit::await_that;
use tutti_tests::users::Users;
use tutti_tests::{Ran, Scratch, compile, program, run};

/// Limit for a program: none takes a tenth of it on a free machine.
const LIMIT: Duration = Duration::from_secs(100);

#[track_caller]
fn run_ranks(program_file: &Path, ranks: u32, nodes: u32, arguments: &[&str], checks: bool) -> Ran {
    let mut mpiexec = program("mpiexec");
    if nodes > 1 {
        mpiexec.args(["--virtual-nodes", &nodes.to_string()]);
    }
    mpiexec.args(["-n", &ranks.to_string()]).arg(program_file).args(arguments);
    if checks {
        mpiexec.env("TUTTI_CHECK", "1");
    }
    run(&mut mpiexec, LIMIT)
}

#[test]
fn ports_and_joins_connect_groups_of_a_job() {
    let scratch = Scratch::new("processes-ports");
    let ports = compile("tests/processes/programs/ports.c", scratch.path());
    for (ranks, nodes) in [(2, 1), (3, 1), (5, 1), (2, 2), (4, 2)] {
        let ran = run_ranks(&ports, ranks, nodes, &[], false).expect_success();
        assert_eq!(ran.stdout, "ports are right\n", "{ranks} ranks on {nodes} nodes: {ran}");
    }
    let ran = run_ranks(&ports, 3, 1, &[], true).expect_success();
    assert_eq!(ran.stderr, "", "the checker has something to say: {ran}");
}

#[test]
fn names_are_published_for_all_ranks_of_a_job() {
    let scratch = Scratch::new("processes-names");
    let names = compile("tests/processes/programs/names.c", scratch.path());
    for (ranks, nodes, checks) in [(2, 1, false), (5, 1, false), (2, 2, false), (5, 2, false), (3, 3, true)] {
        let ran = run_ranks(&names, ranks, nodes, &[], checks).expect_success();
        assert_eq!(ran.stdout, "names are right\n", "{ranks} ranks on {nodes} nodes: {ran}");
        assert_eq!(ran.stderr, "", "{ranks} ranks on {nodes} nodes: {ran}");
    }
}

#[test]
fn names_are_looked_up_while_rank_0_computes() {
    let scratch = Scratch::new("processes-names-computing");
    let names = compile("tests/processes/programs/names.c", scratch.path());
    for nodes in [1, 2] {
        let file = scratch.path().join(format!("looked-up-{nodes}"));
        let ran = run_ranks(&names, 2, nodes, &[file.to_str().expect("a path of text")], false);
        assert_eq!(ran.expect_success().stdout, "names are right\n", "{nodes} nodes");
    }
}

#[test]
fn names_of_a_job_whose_rank_0_has_left_are_an_error_and_no_wait() {
    let scratch = Scratch::new("processes-names-late");
    let names = compile("tests/processes/programs/names.c", scratch.path());
    for nodes in [1, 2] {
        let ran = run_ranks(&names, 2, nodes, &["late"], false).expect_success();
        assert_eq!(ran.stdout, "names are late\n", "{nodes} nodes: {ran}");
    }
}

#[test]
fn spawn_starts_ranks_with_a_world_of_their_own() {
    let scratch = Scratch::new("processes-spawn");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (ranks, checks) in [(1, false), (2, false), (3, false), (2, true)] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", &ranks.to_string()]).arg(&spawn).env("PARENTS", ranks.to_string());
        if checks {
            mpiexec.env("TUTTI_CHECK", "1");
        }
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ranks} ranks: {ran}");
    }
}

#[test]
fn spawn_starts_all_or_none_and_says_why() {
    let scratch = Scratch::new("processes-spawn-refused");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for ranks in ["1", "2"] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks]).arg(&spawn).arg("refused").current_dir(scratch.path());
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ranks} ranks: {ran}");
    }
    let ran = run_ranks(&spawn, 2, 2, &["nodes"], false).expect_success();
    assert!(ran.stdout.contains("room for 2 in all") && ran.stdout.lines().count() == 1, "{ran}");
}

/// The program without mpiexec.
fn alone(program_file: &Path, arguments: &[&str]) -> std::process::Command {
    let mut alone = std::process::Command::new(program_file);
    alone.args(arguments).env("PARENTS", "1");
    alone
}

#[test]
fn spawn_without_mpiexec_starts_ranks_with_a_world_of_their_own() {
    let scratch = Scratch::new("processes-spawn-alone");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for arguments in [&[][..], &["refused"], &["hints", scratch.path().to_str().expect("a path of text")]] {
        let ran = run(alone(&spawn, arguments).current_dir(scratch.path()), LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{arguments:?}: {ran}");
    }
    let ran = run(alone(&spawn, &[]).env("TUTTI_CHECK", "1"), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ran}");
    let ran = run(alone(&spawn, &["universe"]).env("TUTTI_UNIVERSE", "7"), LIMIT).expect_success();
    assert_eq!(ran.stdout, "universe 7\n");
}

#[test]
fn spawn_without_an_installation_is_refused() {
    let scratch = Scratch::new("processes-spawn-no-starter");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let mut alone = alone(&spawn, &["nodes"]);
    let ran = run(alone.env("TUTTI_STARTER", "/no/such/starter"), LIMIT).expect_success();
    assert!(ran.stdout.contains("not started by mpiexec") && ran.stdout.lines().count() == 1, "{ran}");
    assert!(ran.stderr.contains("/no/such/starter") && ran.stderr.lines().count() == 1, "{ran}");
}

#[test]
fn spawned_ranks_without_mpiexec_give_their_status_to_the_program() {
    let scratch = Scratch::new("processes-spawn-alone-ends");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (how, status, line) in [
        ("idle", 1, "was started by MPI_Comm_spawn and exited without calling MPI_Init"),
        ("killed", 137, "was killed by signal 9 (Killed)"),
    ] {
        let ran = run(&mut alone(&spawn, &[how]), LIMIT);
        assert_eq!(ran.status.code(), Some(status), "{ran}");
        assert!(ran.stderr.starts_with("mpiexec: rank 1 (pid ") && ran.stderr.contains(line), "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
}

#[test]
fn spawned_ranks_without_mpiexec_end_with_a_program_that_is_killed() {
    let scratch = Scratch::new("processes-spawn-alone-killed");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let errors = scratch.path().join("errors");
    let file = std::fs::File::create(&errors).expect("a file in the scratch folder");
    let status = alone(&spawn, &["last"]).stderr(file).status().expect("the program starts");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    let read = || std::fs::read_to_string(&errors).expect("its errors");
    await_that("mpiexec says why", || read().ends_with('\n'));
    assert!(read().contains("died without calling MPI_Finalize"), "{}", read());
    await_that("nothing of it is left", || !is_running(&spawn));
    assert_eq!(read().lines().count(), 1, "{}", read());
}

/// Whether a process executes this file.
fn is_running(file: &Path) -> bool {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut files = entries.filter_map(|entry| std::fs::read_link(entry.path().join("exe")).ok());
    files.any(|one| one == file)
}

/// A job on several nodes that has room for so many ranks.
#[track_caller]
fn run_nodes(program_file: &Path, (ranks, nodes, universe): (u32, u32, u32), arguments: &[&str]) -> Ran {
    let mut mpiexec = program("mpiexec");
    let numbers = [nodes, universe, ranks].map(|number| number.to_string());
    mpiexec.args(["--universe", &numbers[1], "-n", &numbers[2]]);
    if nodes > 1 {
        mpiexec.args(["--virtual-nodes", &numbers[0]]);
    }
    mpiexec.arg(program_file).args(arguments).env("PARENTS", &numbers[2]);
    run(&mut mpiexec, LIMIT)
}

#[test]
fn spawn_between_virtual_nodes_starts_ranks_with_a_world_of_their_own() {
    let scratch = Scratch::new("processes-spawn-nodes");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for job in [(2, 2, 10), (3, 2, 11), (3, 3, 12)] {
        let ran = run_nodes(&spawn, job, &[]).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{job:?}: {ran}");
    }
}

#[test]
fn spawn_between_virtual_nodes_starts_all_or_none_and_says_why() {
    let scratch = Scratch::new("processes-spawn-nodes-refused");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "2", "--virtual-nodes", "2", "--universe", "14"]).arg(&spawn).arg("refused");
    let ran = run(mpiexec.current_dir(scratch.path()), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ran}");
}

#[test]
fn spawn_between_virtual_nodes_places_ranks_where_the_user_wishes() {
    let scratch = Scratch::new("processes-spawn-nodes-host");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (host, ranks, places) in [("", "4", "0 1 0 1"), ("node1", "3", "1 1 1"), ("node0", "2", "0 0")] {
        let ran = run_nodes(&spawn, (2, 2, 8), &["places", ranks, host]).expect_success();
        assert_eq!(ran.stdout, format!("nodes {places}\n"), "host {host}: {ran}");
    }
    let ran = run_nodes(&spawn, (2, 2, 8), &["places", "4", "node1"]);
    assert!(ran.stdout.contains("3 more on that node"), "{ran}");
    let ran = run_nodes(&spawn, (2, 2, 8), &["places", "1", "elsewhere"]);
    assert!(ran.stdout.contains("host elsewhere is none of the job's nodes (node0, node1)"), "{ran}");
}

#[test]
fn spawned_ranks_of_another_node_are_ranks_of_the_job_when_they_end() {
    let scratch = Scratch::new("processes-spawn-nodes-ends");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (how, status, line) in [
        ("idle", 1, "was started by MPI_Comm_spawn and exited without calling MPI_Init"),
        ("killed", 137, "was killed by signal 9 (Killed)"),
    ] {
        let ran = run_nodes(&spawn, (2, 2, 4), &[how]);
        assert_eq!(ran.status.code(), Some(status), "{ran}");
        assert!(ran.stderr.starts_with("mpiexec: rank 2 (pid ") && ran.stderr.contains(line), "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
}

#[test]
fn spawn_takes_its_hints() {
    let scratch = Scratch::new("processes-spawn-hints");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let directory = scratch.path().join("somewhere");
    std::fs::create_dir(&directory).expect("a directory in the scratch folder");
    let ran = run_ranks(&spawn, 2, 1, &["hints", directory.to_str().expect("a path of text")], false);
    assert_eq!(ran.expect_success().stdout, "spawn is right\n");
}

#[test]
fn spawned_ranks_are_ranks_of_the_job_when_they_end() {
    let scratch = Scratch::new("processes-spawn-ends");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (how, status, line) in [
        ("idle", 1, "was started by MPI_Comm_spawn and exited without calling MPI_Init"),
        ("killed", 137, "was killed by signal 9 (Killed)"),
    ] {
        let ran = run_ranks(&spawn, 2, 1, &[how], false);
        assert_eq!(ran.status.code(), Some(status), "{ran}");
        assert!(ran.stderr.starts_with("mpiexec: rank 2 (pid ") && ran.stderr.contains(line), "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    }
}

/// Node 0 has no room for three more, so a node whose ranks have all ended starts some in each round.
#[test]
fn spawn_starts_ranks_on_nodes_whose_ranks_have_all_ended() {
    let scratch = Scratch::new("processes-spawn-emptied");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (job, rounds) in [((2, 2, 6), "200"), ((3, 3, 6), "40"), ((3, 3, 9), "20")] {
        let ran = run_nodes(&spawn, job, &["emptied", rounds]).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{job:?}: {ran}");
    }
    let ran = run_nodes(&spawn, (2, 2, 6), &["emptied", "3", "7"]);
    assert_eq!((ran.code(), &*ran.stdout), (7, "spawn is right\n"), "{ran}");
    assert!(ran.stderr.contains("exited with status 7") && ran.stderr.lines().count() == 1, "{ran}");
}

#[test]
fn spawn_merged_with_its_parents_has_windows_and_files() {
    let scratch = Scratch::new("processes-spawn-shared");
    let shared = compile("tests/processes/programs/spawn_shared.c", scratch.path());
    for job in [(1, 1, 4), (3, 1, 8), (2, 2, 6), (3, 2, 8)] {
        let file = scratch.path().join(format!("file-{}-{}", job.0, job.1));
        let ran = run_nodes(&shared, job, &[file.to_str().expect("a path of text")]).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("windows and files are right\n", ""), "{job:?}: {ran}");
    }
}

#[test]
fn spawned_ranks_whose_parent_dies_meanwhile_end_with_the_job() {
    let scratch = Scratch::new("processes-spawn-orphans");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for job in [(1, 1, 4), (2, 1, 4), (2, 2, 6)] {
        let ran = run_nodes(&spawn, job, &["orphans"]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (137, 1), "{job:?}: {ran}");
        assert!(ran.stderr.starts_with("mpiexec: rank 0 (pid "), "{job:?}: {ran}");
        assert!(ran.stderr.contains("was killed by signal 9 (Killed)"), "{job:?}: {ran}");
        await_that("nothing of it is left", || !is_running(&spawn));
    }
}

#[test]
fn spawn_survives_a_rank_that_asks_for_far_too_much() {
    let scratch = Scratch::new("processes-spawn-greedy");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for job in [(1, 1, 4), (2, 1, 4), (2, 2, 6)] {
        let ran = run_nodes(&spawn, job, &["greedy"]).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{job:?}: {ran}");
    }
}

#[test]
fn spawned_ranks_are_bound_to_single_cores_if_that_is_wished() {
    let allowed = rustix::thread::sched_getaffinity(None).expect("our cores");
    let allowed: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if allowed.len() < 2 {
        tutti_testkit::skip(tutti_testkit::Need::Cores, "one core");
        return;
    }
    let scratch = Scratch::new("processes-spawn-cores");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let cores = |binding: &str| {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "1", "--universe", "4", "--bind-to", binding]).arg(&spawn).args(["cores", "3"]);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        let words = ran.stdout.split_whitespace().skip(1);
        words.map(|core| core.parse().expect("a number")).collect::<Vec<i64>>()
    };
    let bound = cores("core");
    assert!(bound.iter().all(|core| allowed.contains(&(*core as usize))), "{bound:?} of {allowed:?}");
    assert_ne!(bound[0], bound[1], "the first new one has a core of its own");
    assert_ne!(bound[1], bound[2], "the next one has the next core");
    assert_eq!(cores("none"), [-1; 4], "they may run on several");
}

#[test]
fn spawn_with_a_soft_number_waits_for_ranks_that_are_about_to_end() {
    let scratch = Scratch::new("processes-spawn-soft");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    // A pool of three that is made again and again; the same beside two that stay; and on two nodes.
    for (universe, nodes, stay, expected) in
        [("4", 1, "0", 3), ("6", 1, "2", 3), ("5", 1, "2", 2), ("8", 2, "0", 3), ("8", 2, "2", 3)]
    {
        let mut mpiexec = program("mpiexec");
        if nodes > 1 {
            mpiexec.args(["--virtual-nodes", "2", "-n", "2"]);
        } else {
            mpiexec.args(["-n", "1"]);
        }
        mpiexec.args(["--universe", universe]).arg(&spawn).args(["soft", "3", "6", stay]);
        let ran = run(&mut mpiexec, LIMIT).expect_success();
        assert_eq!(
            ran.stdout,
            format!("{expected} workers\n").repeat(6) + "spawn is right\n",
            "universe {universe}, {stay} stay: {ran}"
        );
    }
}

#[test]
fn spawn_uses_the_room_of_ranks_that_have_ended_again() {
    let scratch = Scratch::new("processes-spawn-again");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    for (ranks, universe, rounds) in [("1", "4", "200"), ("2", "4", "50"), ("3", "5", "20")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", ranks, "--universe", universe]).arg(&spawn).args(["again", rounds]);
        let ran = run(&mut mpiexec, 3 * LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ranks} of {universe}: {ran}");
    }
    for (nodes, universe, rounds) in [("2", "4", "200"), ("3", "8", "30")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", nodes, "--virtual-nodes", nodes, "--universe", universe]);
        let ran = run(mpiexec.arg(&spawn).args(["again", rounds]), 3 * LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{nodes} nodes: {ran}");
    }
    let ran = run(alone(&spawn, &["again", "20"]).env("TUTTI_UNIVERSE", "3"), LIMIT).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ran}");
}

/// A place is free as soon as nothing names the rank that has ended, also for a rank that waits meanwhile.
#[test]
fn spawn_uses_the_room_of_a_rank_whose_last_message_has_been_received() {
    let scratch = Scratch::new("processes-forgotten");
    let forgotten = compile("tests/processes/programs/forgotten.c", scratch.path());
    for (nodes, universe, children) in [("1", "3", "1"), ("2", "4", "2")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "2", "--virtual-nodes", nodes, "--universe", universe]);
        let ran = run(mpiexec.arg(&forgotten).arg(children), LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("forgotten is right\n", ""), "{nodes} nodes: {ran}");
    }
}

#[test]
fn spawn_goes_on_after_the_kernel_has_refused_a_process() {
    let Some(users) = Users::new("tutti-spawn-refused", 1) else { return };
    let scratch = Scratch::new("processes-refused");
    let refused = users.reachable(&compile("tests/processes/programs/refused.c", scratch.path()));
    for options in
        [&["-n", "1", "--universe", "9"][..], &["-n", "2", "--virtual-nodes", "2", "--universe", "10"]]
    {
        let mut mpiexec = users.command(users.uids()[0], "mpiexec", options);
        let ran = run(mpiexec.env("TUTTI_DAEMON", "none").arg(&refused), LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("refused: all right\n", ""), "{options:?}: {ran}");
    }
}

#[test]
fn universe_says_how_many_ranks_a_program_may_have() {
    let scratch = Scratch::new("processes-universe");
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    let universe = |options: &[&str]| {
        let mut mpiexec = program("mpiexec");
        run(mpiexec.args(options).arg(&spawn).arg("universe"), LIMIT)
    };
    assert_eq!(universe(&["-n", "1", "--universe", "7"]).expect_success().stdout, "universe 7\n");
    assert_eq!(universe(&["-n", "3", "--universe", "2"]).expect_success().stdout, "universe 3\n");
    let ran = universe(&["-n", "1", "--universe", "9000"]);
    assert!(!ran.status.success() && ran.stderr.contains("one node takes 2048"), "{ran}");
    let ran = universe(&["-n", "2", "--virtual-nodes", "2", "--universe", "4"]);
    assert_eq!(ran.expect_success().stdout, "universe 4\n");
    let ran = universe(&["-n", "2", "--virtual-nodes", "2", "--universe", "9000"]);
    assert!(!ran.status.success() && ran.stderr.contains("one node takes 2048"), "{ran}");
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "1", "--universe", "4"]).arg(&spawn).arg("refused").current_dir(scratch.path());
    // Those that could not be started take no room.
    assert_eq!(run(&mut mpiexec, LIMIT).expect_success().stdout, "spawn is right\n");
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "1", "--universe", "2"]).arg(&spawn);
    let ran = run(&mut mpiexec, LIMIT);
    assert!(!ran.status.success() && ran.stdout.contains("has room for 2"), "{ran}");
}

/// How a process fails, and the status of `mpiexec`.
const FAILURES: [(&str, i32); 4] = [("kill", 137), ("exit", 5), ("abort", 6), ("fatal", 6)];

#[test]
fn groups_that_have_disconnected_do_not_end_each_other() {
    let scratch = Scratch::new("processes-apart");
    let apart = &compile("tests/processes/programs/apart.c", scratch.path());
    for (how, status) in FAILURES {
        for (fails, others) in [("child", "parents"), ("parent", "children")] {
            let ran = run_ranks(apart, 2, 1, &[fails, how, "disconnect"], false);
            assert!(ran.stdout.contains(&format!("{others} go on\n")), "{fails} {how}: {ran}");
            assert!(how == "fatal" || ran.status.code() == Some(status), "{fails} {how}: {ran}");
            assert!(!ran.status.success(), "{fails} {how}: {ran}");
            let lines = ran.stderr.lines().filter(|line| line.starts_with("mpiexec: rank ")).count();
            assert_eq!(lines, 1, "{fails} {how}: {ran}");
        }
    }
    // Who has only freed the communicator is connected, and so is who has connected again.
    for how in ["free", "again"] {
        for fails in ["child", "parent"] {
            let ran = run_ranks(apart, 2, 1, &[fails, "exit", how], false);
            assert_eq!(ran.status.code(), Some(5), "{fails} {how}: {ran}");
            assert_eq!(ran.stdout, "", "{fails} {how}: {ran}");
        }
    }
}

#[test]
fn groups_that_have_failed_apart_leave_their_room_and_no_processes() {
    let scratch = Scratch::new("processes-apart-room");
    let apart = &compile("tests/processes/programs/apart.c", scratch.path());
    for (how, rounds) in [("abort", 5), ("wrapped", 2)] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "1", "--universe", "3"]).arg(apart).args(["both", how, &rounds.to_string()]);
        let ran = run(&mut mpiexec, LIMIT);
        assert_eq!((ran.status.code(), &*ran.stdout), (Some(6), "parents go on\n"), "{how}: {ran}");
        let lines = ran.stderr.lines().filter(|line| line.starts_with("mpiexec: rank ")).count();
        assert_eq!(lines, rounds, "{how}: {ran}");
    }
}
