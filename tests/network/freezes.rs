//! Ranks that are frozen at random while their messages and operations on remote memory cross a bad network:
//! every message once, in order, whole; every operation once.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use tutti_testkit::cgroup::Cgroup;
use tutti_tests::{Scratch, compile, compile_with};

use crate::{LIMIT, Network, seed};

const RANKS: usize = 3;
/// Rounds of 60 messages of up to 300,000 bytes, every byte checked.
const ROUNDS: &str = "170";

/// A job, killed when dropped before its end.
pub struct Job(pub Child);

impl Drop for Job {
    fn drop(&mut self) {
        // mpiexec passes it on; its starters end what is left.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Process ids below `root` whose program has this name.
pub fn descendants(root: u32, name: &str) -> Vec<i32> {
    let stat = |entry: fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (head, tail) = text.rsplit_once(')')?;
        let parent: u32 = tail.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent, head.split_once('(')?.1.to_owned()))
    };
    let all: Vec<_> = fs::read_dir("/proc").expect("proc").flatten().filter_map(stat).collect();
    let descends = |mut pid: u32| {
        for _ in 0..8 {
            match all.iter().find(|(this, ..)| *this == pid) {
                Some((_, parent, _)) if *parent == root => return true,
                Some((_, parent, _)) => pid = *parent,
                None => return false,
            }
        }
        false
    };
    let ranks = all.iter().filter(|(pid, _, comm)| comm == name && descends(*pid));
    ranks.map(|(pid, ..)| *pid as i32).collect()
}

/// Runs a program again and again until its ranks were frozen so often: on a quick machine one run is short.
const FREEZES: usize = 60;
/// At most so often.
const RUNS_MAX: usize = 60;

/// Runs a program while its ranks are frozen one by one at random, for up to 5 ms; each run must say `said`.
#[track_caller]
fn survives(network: Network, scratch: &Scratch, program: &Path, arguments: &[&str], said: &str) {
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    let (mut freezes, mut runs) = (0, 0);
    while freezes < FREEZES {
        assert!(runs < RUNS_MAX, "only {freezes} freezes in {runs} runs");
        let Some(more) = run_frozen(network, scratch, program, arguments, said, &mut random) else { return };
        (freezes, runs) = (freezes + more, runs + 1);
    }
    println!("{network:?}: {freezes} freezes in {runs} runs");
}

/// Runs it once; how many freezes there were. None where no cgroup can be made.
#[track_caller]
fn run_frozen(
    network: Network,
    scratch: &Scratch,
    program: &Path,
    arguments: &[&str],
    said: &str,
    random: &mut tutti_testkit::Random,
) -> Option<usize> {
    let output = scratch.path().join("output");
    let file = fs::File::create(&output).expect("a file of our own");
    let mut mpiexec = network.mpiexec(RANKS);
    mpiexec.arg(program).args(arguments).stdin(Stdio::null());
    let mut job = Job(mpiexec.stdout(file).spawn().expect("mpiexec starts"));
    let began = Instant::now();
    let name = program.file_name().and_then(|name| name.to_str()).expect("a name");
    let ranks = loop {
        let ranks = descendants(job.0.id(), name);
        if ranks.len() == RANKS || job.0.try_wait().expect("our own child").is_some() {
            break ranks;
        }
        assert!(began.elapsed() < LIMIT, "there are only {} ranks", ranks.len());
    };
    let cgroups: Vec<_> = ranks.iter().filter_map(|rank| Cgroup::hold(*rank)).collect();
    // A dead one that is not reaped yet can be put into no cgroup.
    let is_there = |rank: &i32| {
        let stat = fs::read_to_string(format!("/proc/{rank}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    if cgroups.is_empty() && ranks.len() == RANKS && ranks.iter().all(is_there) {
        tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
        return None;
    }
    let mut freezes = 0;
    let status = loop {
        if let Some(status) = job.0.try_wait().expect("our own child") {
            break status;
        }
        assert!(began.elapsed() < LIMIT, "not at its end after {freezes} freezes");
        // On a crowded machine some of the ranks may have been at their end before.
        let Some(cgroup) = cgroups.get(random.below(RANKS as u64) as usize) else { continue };
        cgroup.set_frozen(true);
        std::thread::sleep(Duration::from_micros([0, 50, 300, 5000][random.below(4) as usize]));
        cgroup.set_frozen(false);
        freezes += 1;
        std::thread::sleep(Duration::from_micros(random.below(3000)));
    };
    let output = fs::read_to_string(&output).expect("what it said");
    assert!(status.success() && output.contains(said), "{status} after {freezes} freezes: {output}");
    Some(freezes)
}

#[test]
fn messages_survive_random_freezes_on_a_faulty_network() {
    let scratch = Scratch::new("network-freezes");
    let random = compile("tests/point_to_point/programs/random.c", scratch.path());
    let said = format!("{ROUNDS} rounds of 60 messages on {RANKS} ranks");
    survives(Network::Faulty, &scratch, &random, &[&seed(), ROUNDS], &said);
}

/// Frozen between an advertised receive, its message, and the end of it.
#[test]
fn received_first_survives_random_freezes_on_a_faulty_network() {
    let scratch = Scratch::new("network-freezes-first");
    let program = compile("tests/network/programs/received_first.c", scratch.path());
    let said = format!("received first: 960 messages on {RANKS} ranks\n");
    survives(Network::Faulty, &scratch, &program, &["80"], &said);
}

/// On one node a rank stands still with the gate of memory that others change, or with a lock; between nodes
/// its service thread does too.
#[test]
fn window_operations_survive_random_freezes_on_one_node_and_on_a_faulty_network() {
    let scratch = Scratch::new("network-freezes-windows");
    let operations = compile("tests/windows/c/operations.c", scratch.path());
    for (network, rounds) in [(Network::OneNode, "8"), (Network::Faulty, "2")] {
        survives(network, &scratch, &operations, &[&seed(), rounds], "operations: all right\n");
    }
}

#[test]
fn shmem_programs_survive_random_freezes_on_one_node_and_on_a_faulty_network() {
    let programs =
        [("atomics", ["600000", "1000"]), ("locks", ["200000", "300"]), ("signals", ["60000", "500"])];
    for (name, times) in programs {
        let scratch = Scratch::new(&format!("network-freezes-{name}"));
        let program = compile_with("oshcc", &format!("tests/shmem/programs/{name}.c"), scratch.path());
        for (network, times) in [Network::OneNode, Network::Faulty].into_iter().zip(times) {
            survives(network, &scratch, &program, &[times], &format!("{name}: ok\n"));
        }
    }
}

/// Frozen while they send, run and answer, with calls in both queues.
#[test]
fn invocations_survive_random_freezes_on_one_node_and_on_a_faulty_network() {
    let scratch = Scratch::new("network-freezes-calls");
    let calls = compile("tests/cxx/programs/calls.c", scratch.path());
    for network in [Network::OneNode, Network::Faulty] {
        survives(network, &scratch, &calls, &[], "calls: ok\n");
    }
    if tutti_testkit::has_command_for_part(tutti_testkit::Need::Cxx, "c++") {
        for subject in ["values", "tasks", "memory"] {
            let source = format!("tests/cxx/programs/{subject}.cpp");
            let program = compile_with("tutticxx", &source, scratch.path());
            for network in [Network::OneNode, Network::Faulty] {
                survives(network, &scratch, &program, &[], &format!("{subject}: ok\n"));
            }
        }
    }
}
