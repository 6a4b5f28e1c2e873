//! Ranks of several nodes that wait for each other's window lock, post, flag or lock are named, no others.

use std::path::Path;
use std::time::Duration;

use tutti_tests::{Scratch, compile, compile_with, testing_library};

use crate::Cluster;
use crate::harness::Running;

/// Where most datagrams are lost a job takes its time on any machine: each is asked for after up to a tenth
/// of a second, and of six exchanges one is whole. The slower program took 13 to 29 s.
const LOSSY_LIMIT: Duration = Duration::from_secs(80);
/// The status of a job that `--on-deadlock end` has ended.
const DEADLOCK: i32 = 35;

#[track_caller]
fn started(cluster: &Cluster, ranks: &str, program: &Path, argument: &str) -> Running {
    let path = program.to_str().expect("text");
    cluster.start(&["run", "--on-deadlock", "end", "-N", "2", "-n", ranks, path, argument])
}

#[track_caller]
fn ends_by(cluster: &Cluster, ranks: &str, program: &Path, argument: &str, sentences: &[&str]) {
    let (status, said) = started(cluster, ranks, program, argument).end();
    assert_eq!(status, DEADLOCK, "{argument}: {said}");
    assert!(sentences.iter().all(|sentence| said.contains(sentence)), "{argument}: {said}");
}

#[test]
fn deadlock_of_windows_over_two_nodes_is_named_by_its_ranks() {
    let cluster = Cluster::up("stuck-windows", 2, &[]);
    let scratch = Scratch::new("stuck-windows-programs");
    let program = compile("tests/windows/c/deadlock.c", scratch.path());
    let window =
        |rank, peer| format!("rank {rank} waits for rank {peer} to post, complete or unlock a window");
    let receive = |rank, peer| format!("rank {rank} receives from rank {peer}");
    let case = |ranks, which, sentences: &[String]| {
        let sentences: Vec<&str> = sentences.iter().map(String::as_str).collect();
        ends_by(&cluster, ranks, &program, which, &sentences);
    };
    case("2", "lock", &[window(0, 1), window(1, 0)]);
    case("4", "holder", &[window(0, 3), receive(3, 0)]);
    case("4", "mate", &[window(3, 0), receive(0, 3)]);
    // The cycle leads over one of the two that share it.
    let both = [0, 3].map(|rank| format!("waits for rank {rank} to post, complete or unlock a window"));
    let receives = " receives from rank 1, tag 0".into();
    case("4", "shared", &["rank 1 waits for all of: ".into(), both[0].clone(), both[1].clone(), receives]);
    case("2", "post", &[window(0, 1), receive(1, 0)]);
    case("4", "post", &[window(0, 1), receive(1, 0)]);
}

#[test]
fn deadlock_of_flags_and_locks_over_two_nodes_is_named() {
    let cluster = Cluster::up("stuck-shmem", 2, &[]);
    let scratch = Scratch::new("stuck-shmem-programs");
    let program = compile_with("oshcc", "tests/shmem/programs/stuck.c", scratch.path());
    for (ranks, which) in [("2", "flag"), ("3", "flag"), ("2", "locks"), ("4", "locks")] {
        ends_by(
            &cluster,
            ranks,
            &program,
            which,
            &["waits for a word of its memory that another rank is to change"],
        );
    }
}

/// All ranks sleep while what ends their waits is lost and sent again.
#[test]
fn deadlock_of_remote_memory_is_not_reported_while_the_network_loses_records() {
    let cluster = Cluster::up("stuck-patience", 2, &[]);
    let scratch = Scratch::new("stuck-patience-programs");
    let windows = compile("tests/windows/c/patience.c", scratch.path());
    let shmem_folder = scratch.path().join("shmem");
    std::fs::create_dir(&shmem_folder).expect("a folder");
    let shmem = compile_with("oshcc", "tests/shmem/programs/patience.c", &shmem_folder);
    let library = testing_library();
    let faults = format!("loss=60%,seed={}", tutti_testkit::seed());
    // Starters look every half a second.
    for (program, rounds, said) in [(&windows, "6", "patience: all right"), (&shmem, "2", "patience: ok")] {
        let path = program.to_str().expect("text");
        let words = ["run", "--on-deadlock", "end", "-N", "2", "-n", "4", path, rounds];
        let mut command = cluster.command(&words);
        command.env("LD_PRELOAD", &library).env("TUTTI_FAULTS", &faults);
        let ran = tutti_tests::run(&mut command, LOSSY_LIMIT);
        assert_eq!(ran.code(), 0, "{ran}");
        assert!(ran.stdout.contains(said), "{ran}");
    }
}
