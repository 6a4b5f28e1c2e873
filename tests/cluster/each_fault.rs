//! On machines of the lab, whatever can die or fall silent does, again and again, under a job of two nodes,
//! while two jobs of two other nodes pass messages all the time and keep the cores busy: those never notice,
//! the one that is hit ends with one line or goes on, and nothing of it stays.
//!
//! `make soak-cluster FAULTS=50` has each fault so often; `TUTTI_TEST_SEED` repeats the moments at which they
//! come.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::Random;
use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::{RANK, Running, await_that, cgroup_of, comes_true};
use crate::jobs::is_starter;
use crate::leftovers::{self, Held};

/// A node that is silent for so long is lost, in seconds; a daemon that is started anew has half of it to
/// come back.
const LOST_AFTER: &str = "6";
/// Starters wait so long for the daemon that follows theirs, in seconds: on a busy machine it takes its time
/// to start.
const KEEP_FOR: &str = "30";

const NODES: u32 = 4;
/// A daemon may have grown so much when hundreds of jobs are over, in KiB.
const GROWTH_MAX: u64 = 16 << 10;

/// Fault of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Rank,
    Starter,
    /// Killed, and another one is started at once.
    Daemon,
    /// The same, of the controller.
    Head,
    FrontEnd,
    /// Killed with all that it has started, and comes back when it is lost.
    Node,
    /// Death of the node's daemon alone, until it is lost.
    Vanished,
    /// SIGSTOP of its daemon until it is lost.
    Silent,
}

const FAULTS: [Fault; 8] = [
    Fault::Rank,
    Fault::Starter,
    Fault::Daemon,
    Fault::Head,
    Fault::FrontEnd,
    Fault::Node,
    Fault::Vanished,
    Fault::Silent,
];

/// The cluster, and the jobs that must not notice.
struct Stage {
    cluster: Cluster,
    scratch: Scratch,
    bystanders: Vec<Running>,
    /// How many jobs have been hit.
    hit: u32,
    random: Random,
    /// Holdings of each daemon when there are no jobs but the bystanders.
    held: Vec<Held>,
}

impl Stage {
    fn new(name: &str) -> Option<Self> {
        let options = ["--lost-after", LOST_AFTER, "--keep-for", KEEP_FOR];
        let cluster = Cluster::on_machines(NODES, &options)?;
        let scratch = Scratch::new(&format!("{name}-files"));
        let program = compile("tests/gang/programs/traffic.c", scratch.path());
        let end = scratch.path().join("end").display().to_string();
        let bystanders = [1, 2].map(|stamp: u32| {
            let (stamp, program) = (stamp.to_string(), program.to_string_lossy());
            let words = ["run", "-host", "node0:1,node1:1", "-n", "2", &program, &stamp, &end];
            let mut job = start(&cluster, &words);
            job.await_line("traffic: up");
            job
        });
        let random = Random::new(tutti_testkit::seed());
        let bystanders = Vec::from(bystanders);
        await_that("both run", || jobs(&cluster) == [1, 2].map(|job| (job, "running".to_owned())).into());
        // From then on their daemons have opened all that they need for them.
        await_that("it is known how both are held on both nodes", || held_on(&cluster) == [2, 2]);
        let held = (0..NODES).map(|node| Held::once_it_counts(cluster.daemon(node))).collect();
        Some(Stage { cluster, scratch, bystanders, hit: 0, random, held })
    }

    fn go(&self) -> PathBuf {
        self.scratch.path().join("go")
    }

    /// The fault comes when the job is up, or at any moment before.
    #[track_caller]
    fn strike(&mut self, fault: Fault, early: bool) {
        let _ = std::fs::remove_file(self.go());
        let go = format!("await={}", self.go().display());
        let words =
            ["run", "-host", "node2:2,node3:2", "-n", "4", RANK, "say=up", &go, "exchange", "say=done"];
        let mut job = start(&self.cluster, &words);
        self.hit += 1;
        if early {
            std::thread::sleep(Duration::from_millis(self.random.below(60)));
        } else {
            job.await_line("up");
            await_that("all are up", || {
                jobs(&self.cluster).split_off(&3).values().any(|state| state == "running")
            });
        }
        let cgroups: Vec<PathBuf> = job.mark.processes().into_iter().filter_map(cgroup_of).collect();
        let numbers = numbers(&job);
        assert!(early || self.has_socket(&numbers), "it has sockets");
        self.happen(fault, &job);
        std::fs::write(self.go(), "").expect("a file");
        let (status, said) = job.end();
        let goes_on = matches!(fault, Fault::Daemon | Fault::Head);
        let lines = without_head(&said).len();
        let as_expected = match fault {
            Fault::FrontEnd => status == 137,
            Fault::Rank => (status, lines) == (137, 1),
            _ if early => (status == 0) == (lines == 0) && lines <= 1,
            _ if goes_on => (status, lines) == (0, 0),
            _ => (status, lines) == (1, 1),
        };
        assert!(as_expected, "{fault:?}, early: {early}: {status}, {said:?}");
        self.check(fault, &cgroups, &numbers);
    }

    #[track_caller]
    fn happen(&self, fault: Fault, job: &Running) {
        let kill = |pid: Pid| _ = kill_process(pid, Signal::KILL);
        let is_lost = || self.cluster.tutti(&["nodes"]).stdout.contains(" lost ");
        let of_node3 = || {
            let daemon = self.cluster.daemon(3);
            let starters = job.mark.processes().into_iter().filter(|pid| is_starter(*pid));
            starters.filter(|pid| crate::faults::parent(*pid) == daemon).collect::<Vec<_>>()
        };
        match fault {
            Fault::Rank => {
                let ranks = job.mark.processes().into_iter().filter(|pid| is_rank(*pid));
                kill(ranks.max_by_key(|pid| pid.as_raw_nonzero()).expect("they are up"));
            }
            Fault::Starter => of_node3().into_iter().for_each(kill),
            Fault::Daemon => self.cluster.replace(3),
            Fault::Head => self.cluster.replace(0),
            Fault::FrontEnd => kill(job.pid()),
            Fault::Node => {
                let starters = of_node3();
                let gone = self.cluster.kill_daemon(3);
                starters.into_iter().for_each(kill);
                await_that("it is lost", is_lost);
                gone.start();
            }
            Fault::Vanished => {
                let gone = self.cluster.kill_daemon(3);
                await_that("it is lost", is_lost);
                gone.start();
            }
            Fault::Silent => {
                let daemon = self.cluster.daemon(3);
                kill_process(daemon, Signal::STOP).expect("it lives");
                await_that("it is lost", is_lost);
                kill_process(daemon, Signal::CONT).expect("it lives");
            }
        }
    }

    /// All daemons are there, nothing of the job that was hit is, and the others have noticed nothing.
    #[track_caller]
    fn check(&mut self, fault: Fault, cgroups: &[PathBuf], numbers: &BTreeSet<String>) {
        await_that("all nodes are there", || {
            let rows = self.cluster.tutti(&["nodes"]).stdout;
            rows.lines().count() == 1 + NODES as usize && !rows.contains(" lost ")
        });
        let others = BTreeMap::from([1, 2].map(|job| (job, "running".to_owned())));
        let is_as_before = comes_true(|| {
            for index in 0..self.bystanders.len() {
                if !matches!(self.bystanders[index].child.try_wait(), Ok(None)) {
                    let (status, said, _) = self.bystanders.remove(index).end_with_output();
                    panic!("{fault:?}: a job beside has noticed: {status}, {said}");
                }
            }
            jobs(&self.cluster) == others
        });
        assert!(is_as_before, "{fault:?}: only the jobs beside run, and they do: {:?}", jobs(&self.cluster));
        await_that("no socket of it is left", || !self.has_socket(numbers));
        await_that("no cgroup of it is left", || cgroups.iter().all(|path| !path.exists()));
        await_that("no daemon keeps anything of it", || {
            (2..4).all(|node| {
                let kept = self.cluster.folder_of(node).join(format!("node{node}.parts"));
                std::fs::read_dir(kept).is_ok_and(|entries| entries.count() == 0)
            })
        });
    }

    /// A socket on which ranks of the job redeem their tickets is there.
    fn has_socket(&self, numbers: &BTreeSet<String>) -> bool {
        // Such names are known in one network namespace.
        (2..4).any(|node| {
            let daemon = self.cluster.daemon(node).as_raw_nonzero();
            let table = std::fs::read_to_string(format!("/proc/{daemon}/net/unix")).expect("it is there");
            numbers.iter().any(|number| table.contains(&format!(" @tutti-{number}")))
        })
    }

    /// Checks that nothing has grown but what is bounded: the list of jobs that are over, and what the last
    /// ones have written.
    #[track_caller]
    fn look_for_leaks(&self, before: &[Held]) {
        for (node, held) in self.held.iter().enumerate() {
            held.await_no_more(&self.cluster, node as u32);
        }
        // The daemons of nodes 1 and 2 live through everything.
        for node in [1, 2] {
            let last = Held::by(self.cluster.daemon(node)).resident;
            let first = before[node as usize].resident;
            println!("node {node}: {first} KiB after the first round, {last} at the end");
            assert!(last < first + GROWTH_MAX, "node {node} has grown from {first} to {last} KiB");
        }
    }

    #[track_caller]
    fn end(self) {
        std::fs::write(self.scratch.path().join("end"), "").expect("a file");
        for job in self.bystanders {
            let (status, said, lines) = job.end_with_output();
            let other = without_head(&said);
            assert!(status == 0 && other.is_empty(), "{status} {other:?} {lines:?}");
            let last = lines.last().expect("a line");
            println!("{last}");
            assert!(last.ends_with(" messages, each once, in order, whole"), "{last}");
        }
        let namespaces = leftovers::namespaces(&self.cluster, NODES);
        println!("{} network namespaces", namespaces.len());
        drop(self.cluster);
        leftovers::await_gone(&namespaces);
    }
}

/// Lines that a front end has said, but for those, in turn, about a controller that was not heard for longer
/// than [`LOST_AFTER`] and is back: its jobs stay as they are.
#[track_caller]
fn without_head(said: &str) -> Vec<&str> {
    let of_head = ["has had no message from the controller for", "is connected to the controller again"];
    let (away, other): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| of_head.iter().any(|part| line.contains(part)));
    let is_in_pairs = away.iter().zip(of_head.iter().cycle()).all(|(line, part)| line.contains(part));
    assert!(is_in_pairs, "{away:?}");
    other
}

/// Jobs that are not over, with their states.
fn jobs(cluster: &Cluster) -> BTreeMap<u32, String> {
    let rows = cluster.tutti(&["ps"]).stdout;
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.parse().ok()?, words.next()?.to_owned()))
    };
    rows.lines().filter_map(row).collect()
}

/// On how many nodes it is known how each job is held while others have the cores.
fn held_on(cluster: &Cluster) -> Vec<usize> {
    let shown = cluster.tutti(&["ps", "--json"]).expect_success();
    let rows: serde_json::Value = serde_json::from_str(&shown.stdout).expect("it is JSON");
    let rows = rows.as_array().expect("rows").iter();
    rows.map(|row| row["held_by"].as_array().map_or(0, Vec::len)).collect()
}

/// Asked for on a node whose daemon lives through everything.
#[track_caller]
fn start(cluster: &Cluster, words: &[&str]) -> Running {
    Running::start_command(&mut cluster.command_on(1, words))
}

/// The numbers of a job in the environment of its ranks, by which its sockets are named; none before it has
/// any.
fn numbers(job: &Running) -> BTreeSet<String> {
    let environment = |pid: Pid| std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok();
    let number = |bytes: Vec<u8>| {
        let mut entries = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        entries.find_map(|entry| entry.strip_prefix("TUTTI_JOB=").map(str::to_owned))
    };
    job.mark.processes().into_iter().filter_map(|pid| number(environment(pid)?)).collect()
}

fn is_rank(pid: Pid) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
        .is_ok_and(|line| line.starts_with(RANK.as_bytes()))
}

#[track_caller]
fn each_fault(name: &str, times: u32) {
    let Some(mut stage) = Stage::new(name) else { return };
    let mut before = Vec::new();
    for time in 1..=times {
        for fault in FAULTS {
            stage.strike(fault, false);
            if !matches!(fault, Fault::Rank) && time % 2 == 0 {
                stage.strike(fault, true);
            }
        }
        println!("{time} of {times}: each fault, {} jobs hit", stage.hit);
        if time == 1 {
            before = (0..NODES).map(|node| Held::by(stage.cluster.daemon(node))).collect();
        }
    }
    stage.look_for_leaks(&before);
    stage.end();
}

/// How often in a long run.
fn times() -> u32 {
    std::env::var("TUTTI_FAULT_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(50)
}

#[test]
fn each_fault_ends_at_most_its_own_job_with_one_line() {
    each_fault("cluster-each-fault", 1);
}

#[test]
#[ignore = "long: make soak-cluster"]
fn each_fault_repeated() {
    each_fault("cluster-soak", times());
}
