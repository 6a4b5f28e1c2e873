//! A rank with `TUTTI_POLITE=1` sleeps while its node's board says that the network is congested: before long
//! messages, and before each access to shared memory that may send.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::{Need, skip};
use tutti_tests::{Scratch, compile, compile_with};

use crate::Cluster;

/// `congested_until_ns` in the head of a board (`tutti_board.h`).
const CONGESTED_UNTIL_AT: u64 = 12 * 8;
/// One a second would take longer than any test may.
const MESSAGES: u32 = 200;
/// Number of messages awaited while the network is congested; as in the program.
const JUDGED: u32 = 3;

/// A daemon that stands still goes on, also when the test has failed: only then can it end.
struct Stopped(Pid);

impl Stopped {
    #[track_caller]
    fn new(daemon: Pid) -> Self {
        kill_process(daemon, Signal::STOP).expect("the daemon lives");
        Stopped(daemon)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// The board is sealed, and only its daemon can write it: so this writes the daemon's memory.
#[track_caller]
fn write_congested_until(daemon: Pid, until_ns: u64) {
    let proc = format!("/proc/{}", daemon.as_raw_nonzero());
    let maps = std::fs::read_to_string(format!("{proc}/maps")).expect("the daemon's mappings");
    let board = maps.lines().find(|line| line.contains("/memfd:tutti-board") && line.contains(" rw-s "));
    let board = board.unwrap_or_else(|| panic!("no board that is written in {maps}"));
    let begin = board.split('-').next().expect("an address");
    let begin = u64::from_str_radix(begin, 16).expect("an address");
    let memory = File::options().write(true).open(format!("{proc}/mem")).expect("its memory");
    memory.write_all_at(&until_ns.to_ne_bytes(), begin + CONGESTED_UNTIL_AT).expect("its board");
}

/// How many messages came while the network was congested, and for how many seconds they were awaited; and
/// which part of that time the sender computed, in percent.
fn sent_while_congested(name: &str, polite: &str) -> (f64, f64) {
    // The daemon of the sender is stopped, so that it does not take back what is written on its board.
    let cluster = Cluster::up(name, 2, &["--lost-after", "600"]);
    let scratch = Scratch::new(&format!("{name}-program"));
    let (program, go) =
        (compile("tests/native/programs/polite.c", scratch.path()), scratch.path().join("go"));
    let [program, file] = [&program, &go].map(|path| path.to_str().expect("a path in UTF-8"));
    let messages = MESSAGES.to_string();
    let words = ["run", "-N", "2", "-n", "2", "env", polite, program, &messages, file];
    let mut job = cluster.start(&words);
    job.await_line("polite: up");
    let daemon = cluster.daemon(1);
    let stopped = Stopped::new(daemon);
    write_congested_until(daemon, u64::MAX);
    let begun = Instant::now();
    std::fs::write(&go, "").expect("a file in a scratch folder");
    job.await_line(&format!("message {}", JUDGED - 1));
    let seconds = begun.elapsed().as_secs_f64();
    // The daemon itself finds that nothing is lost, and says so.
    drop(stopped);
    let (status, errors, lines) = job.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""), "{lines:?}");
    assert!(lines.contains(&format!("message {}", MESSAGES - 1)), "{lines:?}");
    let computed = lines.iter().find_map(|line| line.strip_prefix("computed ")?.parse().ok());
    (seconds, computed.expect("the program says it"))
}

// Paper: C25
#[test]
fn polite_rank_sleeps_while_the_network_is_congested_and_goes_on_behind_it() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "a user may not write the memory of a daemon, though it is his");
    }
    let (seconds, computed) = sent_while_congested("polite", "TUTTI_POLITE=1");
    assert!(seconds >= f64::from(JUDGED), "{JUDGED} messages in {seconds} s: each is held for one");
    assert!(computed < 20.0, "it computed {computed} % of the time: it sleeps");
}

#[test]
fn rank_that_is_not_polite_sends_on_a_congested_network() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "a user may not write the memory of a daemon, though it is his");
    }
    // Nobody holds a message for a second; that many in less time show it, on a quiet machine or not.
    let seen: Vec<f64> = (0..3).map(|_| sent_while_congested("polite-not", "TUTTI_POLITE=0").0).collect();
    assert!(seen.iter().any(|seconds| *seconds < f64::from(JUDGED)), "{seen:?}");
}

/// Sums of the shared memory program: of 1 to 30, by both.
const COUNTED: u32 = 930;

/// How often each rank of a program of shared memory has slept before it sent, the network being congested at
/// the node of rank 1 all the time.
fn naps_while_congested(name: &str, polite: &str) -> Vec<u64> {
    // The daemon is stopped, so that it does not take back what is written on its board.
    let cluster = Cluster::up(name, 2, &["--lost-after", "600"]);
    let scratch = Scratch::new(&format!("{name}-program"));
    let program = compile_with("tutticc", "tests/dsm/programs/polite.c", scratch.path());
    let go = scratch.path().join("go");
    let [program, file] = [&program, &go].map(|path| path.to_str().expect("a path in UTF-8"));
    let words = ["run", "-N", "2", "-n", "2", "env", polite, "TUTTI_STATS=json", program, file];
    let mut job = cluster.start(&words);
    job.await_line("polite: up");
    let daemon = cluster.daemon(1);
    let stopped = Stopped::new(daemon);
    write_congested_until(daemon, u64::MAX);
    std::fs::write(&go, "").expect("a file in a scratch folder");
    job.await_line(&format!("polite: counted {COUNTED}"));
    drop(stopped);
    let (status, errors, lines) = job.end_with_output();
    assert_eq!(status, 0, "{errors} {lines:?}");
    let naps = |line: &str| {
        let counts: serde_json::Value = serde_json::from_str(line).ok()?;
        counts.get("shared_memory_of")?;
        counts.get("naps")?.as_u64()
    };
    let all: Vec<u64> = errors.lines().filter_map(naps).collect();
    assert_eq!(all.len(), 2, "a line for each rank: {errors}");
    all
}

// Paper: C25
#[test]
fn program_of_shared_memory_naps_while_the_network_is_congested_and_ends_right() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "a user may not write the memory of a daemon, though it is his");
    }
    let naps = naps_while_congested("polite-shared", "TUTTI_POLITE=1");
    // A barrier and a lock in each of 30 rounds; the other node's network is free, if the machine is quiet.
    assert!(naps[1] >= 30 && naps[0] < naps[1], "{naps:?}");
    assert_eq!(naps_while_congested("polite-shared-not", "TUTTI_POLITE=0"), [0, 0]);
}
