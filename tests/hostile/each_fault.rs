//! Whatever can die or stand still for a while does, under root's daemons, in a job of one of two users,
//! while a job of each passes messages that are checked: those never notice, the one that is hit ends with
//! one line or goes on with every byte right, and nothing of it stays.
//!
//! `make soak-hostile FAULTS=20` has each fault so often; `TUTTI_TEST_SEED` repeats the moments at which they
//! come.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tutti_os::stat::Stat;
use tutti_testkit::Random;

use crate::Machine;
use crate::harness::{Running, await_that, comes_true};
use crate::nothing_left::{Before, assert_nothing_left, local_sockets};
use crate::orphans::children;

const NODES: u32 = 4;
const USERS: usize = 2;
/// As in the soak of a cluster: time for a daemon that is started anew to come back, on a busy machine.
const OPTIONS: [&str; 4] = ["--lost-after", "20", "--keep-for", "60"];
/// Length of a pause, at most, in ms: no part is lost that stands still for less.
const PAUSE_MAX_MS: u64 = 300;
/// A fault that comes early comes within so many ms of the job's start.
const EARLY_MAX_MS: u64 = 60;
/// The node on which all jobs are asked for: its daemon lives through everything.
const ORIGIN: u32 = 1;
/// The node whose part of a job is hit.
const HIT: u32 = 3;
/// How each message's check ends.
const WHOLE: &str = " messages, each once, in order, whole";

/// Part of a job or of the cluster that is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Rank,
    Starter,
    /// Where it is killed another one is started at once.
    Daemon,
    /// The same.
    Head,
    FrontEnd,
}

/// Fault of the part that is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// SIGKILL.
    Killed,
    /// SIGSTOP, and SIGCONT after a while.
    Paused,
}

const PARTS: [Part; 5] = [Part::Rank, Part::Starter, Part::Daemon, Part::Head, Part::FrontEnd];
const FAULTS: [Fault; 2] = [Fault::Killed, Fault::Paused];

/// The daemons, and the jobs that must not notice.
struct Stage {
    machine: Machine,
    program: PathBuf,
    before: Before,
    bystanders: Vec<Running>,
    /// All processes of the users, and all cgroups, while nothing but the bystanders is there.
    around: (BTreeSet<i32>, BTreeSet<PathBuf>),
    random: Random,
    /// How many jobs have been hit.
    hit: u32,
    /// Numbers of all jobs.
    ids: BTreeSet<String>,
}

impl Stage {
    fn new(name: &str) -> Option<Self> {
        let machine = Machine::up_within_groups(name, NODES, USERS as u32, &OPTIONS)?;
        let before = Before::note(&machine, NODES);
        let program = machine.compile("tests/gang/programs/traffic.c");
        let random = Random::new(tutti_testkit::seed());
        let (around, ids) = (Default::default(), BTreeSet::new());
        let mut stage =
            Stage { machine, program, before, bystanders: Vec::new(), around, random, hit: 0, ids };
        for user in 0..USERS {
            let mut job = stage.traffic(user, "node0:1,node1:1", "bystanders-end");
            job.await_line("traffic: up");
            stage.bystanders.push(job);
        }
        await_that("both run", || stage.running() == USERS);
        stage.around = (stage.processes(), stage.groups());
        stage.note_ids();
        Some(stage)
    }

    /// A job of a user's whose two ranks pass messages until there is a file of this name.
    #[track_caller]
    fn traffic(&self, user: usize, hosts: &str, end: &str) -> Running {
        let (stamp, end) = ((self.hit + 10 + user as u32).to_string(), self.file(end));
        let (program, end) = (self.program.to_string_lossy(), end.to_string_lossy());
        let words = ["run", "-host", hosts, "-n", "2", &program, &stamp, &end];
        Running::start_command(&mut self.machine.mpi(user, ORIGIN, &words))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.machine.users.root().join(name)
    }

    fn running(&self) -> usize {
        self.machine.cluster.tutti(&["ps", "--json"]).stdout.matches("\"running\"").count()
    }

    fn processes(&self) -> BTreeSet<i32> {
        let uids = self.machine.users.uids().iter();
        uids.flat_map(|uid| self.machine.users.processes(*uid))
            .map(|pid| pid.as_raw_nonzero().get())
            .collect()
    }

    fn groups(&self) -> BTreeSet<PathBuf> {
        self.machine.groups.iter().flat_map(|groups| groups.jobs_of_both()).collect()
    }

    fn note_ids(&mut self) {
        self.ids.extend(self.machine.groups.iter().flat_map(|groups| groups.job_ids()));
    }

    /// The fault comes when the job is up, or at any moment before.
    #[track_caller]
    fn strike(&mut self, part: Part, fault: Fault, early: bool) {
        let user = self.hit as usize % USERS;
        let end = format!("end-{}", self.hit);
        let mut job = self.traffic(user, "node2:1,node3:1", &end);
        self.hit += 1;
        if early {
            std::thread::sleep(Duration::from_millis(self.random.below(EARLY_MAX_MS)));
        } else {
            job.await_line("traffic: up");
            await_that("all are up", || self.running() == USERS + 1);
        }
        self.note_ids();
        self.happen(part, fault, user, &job);
        std::fs::write(self.file(&end), "").expect("a file");
        let (status, said, lines) = job.end_with_output();
        std::fs::remove_file(self.file(&end)).expect("it is there");
        let context =
            format!("{part:?} {fault:?} of user {user}, early: {early}: {status}, {said:?}, {lines:?}");
        // What is wrong with a message is said on stderr.
        assert!(!said.contains("traffic "), "{context}");
        // On a busy machine a controller may be away for longer than the front end waits in silence.
        let count = said.lines().filter(|line| !line.contains(" waits for the controller")).count();
        let is_whole = status == 0 && count == 0 && lines.last().is_some_and(|line| line.ends_with(WHOLE));
        let as_expected = match (part, fault) {
            (_, Fault::Paused) => is_whole,
            (Part::FrontEnd, _) => status == 137,
            (Part::Rank, _) => (status, count) == (137, 1),
            // What was on its way to a daemon may be lost with it.
            _ if early => is_whole || status != 0 && count == 1,
            (Part::Daemon | Part::Head, _) => is_whole,
            (Part::Starter, _) => (status, count) == (1, 1),
        };
        assert!(as_expected, "{context}");
        self.check(&context);
    }

    #[track_caller]
    fn happen(&mut self, part: Part, fault: Fault, user: usize, job: &Running) {
        let hit: Option<Pid> = match part {
            Part::Rank => {
                let ranks = job.mark.processes().into_iter().filter(|pid| self.is_rank(*pid));
                Some(ranks.max_by_key(|pid| pid.as_raw_nonzero()).expect("they are up"))
            }
            Part::Starter => self.starter(user),
            Part::Daemon => Some(self.machine.daemon(HIT)),
            Part::Head => Some(self.machine.daemon(0)),
            Part::FrontEnd => Some(job.pid()),
        };
        // Early there may be no starter yet.
        let Some(pid) = hit else { return };
        match (fault, part) {
            (Fault::Killed, Part::Daemon) => self.machine.cluster.replace(HIT),
            (Fault::Killed, Part::Head) => self.machine.cluster.replace(0),
            (Fault::Killed, _) => _ = kill_process(pid, Signal::KILL),
            (Fault::Paused, _) => {
                let _ = kill_process(pid, Signal::STOP);
                std::thread::sleep(Duration::from_millis(self.random.below(PAUSE_MAX_MS)));
                let _ = kill_process(pid, Signal::CONT);
            }
        }
    }

    /// Starter of the job on the node that is hit. It has nothing of its user's in its environment.
    fn starter(&self, user: usize) -> Option<Pid> {
        let daemon = self.machine.daemon(HIT).as_raw_nonzero().get();
        let all = self.machine.users.processes(self.machine.uid(user));
        all.into_iter().find(|pid| Stat::of(*pid).is_some_and(|stat| stat.parent == daemon))
    }

    fn is_rank(&self, pid: Pid) -> bool {
        std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).is_ok_and(|exe| exe == self.program)
    }

    /// All daemons are there, nothing of the job that was hit is, and the others have noticed nothing.
    #[track_caller]
    fn check(&mut self, context: &str) {
        await_that("all nodes are there", || {
            let rows = self.machine.cluster.tutti(&["nodes"]).stdout;
            rows.lines().count() == 1 + NODES as usize && !rows.contains(" lost ")
        });
        let is_as_before = comes_true(|| {
            for index in 0..self.bystanders.len() {
                if !matches!(self.bystanders[index].child.try_wait(), Ok(None)) {
                    let (status, said, _) = self.bystanders.remove(index).end_with_output();
                    panic!("{context}: a job beside has noticed: {status}, {said}");
                }
            }
            self.machine.jobs().len() == USERS && self.running() == USERS
        });
        assert!(is_as_before, "{context}: only the jobs beside run, and they do: {:?}", self.machine.jobs());
        let is_clean = comes_true(|| (self.processes(), self.groups()) == self.around);
        assert!(is_clean, "{context}: {:?} is not {:?}", (self.processes(), self.groups()), self.around);
        let bystanders: BTreeSet<String> = self.machine.groups.iter().flat_map(|all| all.job_ids()).collect();
        let over = self.ids.difference(&bystanders).cloned().collect();
        let sockets = || local_sockets(&over, &[]);
        assert!(comes_true(|| sockets().is_empty()), "{context}: sockets are left: {:?}", sockets());
        await_that("no daemon has children of it", || {
            (2..NODES).all(|node| children(self.machine.daemon(node)).is_empty())
        });
        await_that("no daemon keeps anything of it", || {
            (2..NODES).all(|node| {
                let kept = self.machine.cluster.folder.join(format!("node{node}.parts"));
                std::fs::read_dir(kept).is_ok_and(|entries| entries.count() == 0)
            })
        });
    }

    #[track_caller]
    fn end(self) {
        std::fs::write(self.file("bystanders-end"), "").expect("a file");
        for job in self.bystanders {
            let (status, said, lines) = job.end_with_output();
            assert_eq!((status, said.as_str()), (0, ""), "{lines:?}");
            let last = lines.last().expect("a line");
            println!("{last}");
            assert!(last.ends_with(WHOLE), "{last}");
        }
        await_that("all jobs are over", || self.machine.jobs().is_empty());
        assert_nothing_left(&self.machine, &self.before, &self.ids);
    }
}

#[track_caller]
fn each_fault(name: &str, times: u32) {
    let Some(mut stage) = Stage::new(name) else { return };
    for time in 1..=times {
        for part in PARTS {
            for fault in FAULTS {
                stage.strike(part, fault, false);
                if part != Part::Rank && time % 2 == 0 {
                    stage.strike(part, fault, true);
                }
            }
        }
        println!("{time} of {times}: each fault, {} jobs hit", stage.hit);
    }
    stage.end();
}

#[test]
fn faults_of_two_users_jobs_leave_nothing_and_no_wrong_byte() {
    each_fault("hostile-faults", 1);
}

#[test]
#[ignore = "long: make soak-hostile"]
fn faults_of_two_users_jobs_repeated() {
    let times = std::env::var("TUTTI_FAULT_TIMES").ok().and_then(|times| times.parse().ok());
    each_fault("hostile-faults-soak", times.unwrap_or(20));
}
