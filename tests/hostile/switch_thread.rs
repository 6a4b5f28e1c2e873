//! The thread that switches gangs neither opens nor maps what users have made, and waits for none of it.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::Pid;
use serde_json::json;

use crate::Machine;
use crate::frames::{enrol, report};
use crate::harness::{Running, await_that};

/// Number of the user who is attacked; the next is the one who attacks.
const HONEST: usize = 0;
const HOSTILE: usize = 1;

/// A process that is taken for a starter, with the connection of its job.
struct Starter {
    child: Child,
    _stream: UnixStream,
}

impl Starter {
    #[track_caller]
    fn enrol(machine: &Machine, program: &Path, number: u64, words: [&str; 2]) -> Self {
        let mut command = machine.users.foreign(machine.uid(HOSTILE), program);
        let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let pid: u32 = line.trim().parse().unwrap_or_else(|_| panic!("no pid: {line:?}"));
        let mut stream = enrol(machine, number, 1);
        let started = json!({ "Started": { "pids": [pid], "cores": ["0"] } });
        std::io::Write::write_all(&mut stream, &report(&started.to_string())).expect("the daemon reads");
        Starter { child, _stream: stream }
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The folder of a daemon's thread of this name in /proc.
#[track_caller]
fn thread(daemon: Pid, name: &str) -> Option<PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.as_raw_nonzero())).expect("it lives");
    let mut tasks = tasks.map(|task| task.expect("a thread").path());
    tasks.find(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|found| found.trim() == name))
}

/// The folder of the switch thread.
#[track_caller]
fn switch_thread(daemon: Pid) -> PathBuf {
    thread(daemon, "switch").expect("it has a switch thread")
}

/// How often it has found no memory where it touched some.
#[track_caller]
fn faults(thread: &Path) -> u64 {
    let stat = std::fs::read_to_string(thread.join("stat")).expect("it lives");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name")..].split(' ').collect();
    // Minor and major ones: fields 10 and 12 of proc(5).
    [8, 10].iter().map(|field| fields[*field].parse::<u64>().expect("a number")).sum()
}

/// The kernel holds this thread to a list of system calls. Daemons of tests end at one that is not in it
/// (`TUTTI_SWITCH_CALLS`).
#[track_caller]
fn assert_held_to_its_list(thread: &Path) {
    let status = std::fs::read_to_string(thread.join("status")).expect("it lives");
    let filter = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    assert_eq!(filter.map(str::trim), Some("2"), "the kernel holds it to a list");
}

#[test]
fn switch_thread_does_not_wait_for_who_has_a_lease() {
    let Some(machine) = Machine::up("hostile-lease", 1, 2, &["--slice", "20"]) else { return };
    let program = machine.compile("tests/hostile/programs/pages.c");
    let loops = ["run", "-n", "2", "sh", "-c", "while :; do :; done"];
    let honest: Vec<Running> = (0..2).map(|_| machine.start(HONEST, &loops)).collect();
    await_that("both take turns", || machine.row(1)["turns"].as_u64() > Some(2));
    // Each would hold who opens it for the 45 s of fs.lease-break-time.
    let starter = Starter::enrol(&machine, &program, 0xabc1_0000, ["lease", "20"]);
    await_that("it is there", || machine.row(3)["state"] == "running");
    let before = machine.row(1)["turns"].as_u64();
    await_that("they take turns as before", || {
        machine.row(1)["turns"].as_u64() > before.map(|turns| turns + 20)
    });
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    drop(starter);
    for job in honest {
        job.signal(rustix::process::Signal::INT);
        job.end();
    }
}

/// Memory that is about to be taken away keeps whoever touches it waiting until it is away.
#[test]
fn switch_thread_touches_no_memory_that_a_user_takes_away() {
    const TAKEN: u64 = 30;
    let Some(machine) = Machine::up("hostile-taken", 1, 2, &["--slice", "20"]) else { return };
    let program = machine.compile("tests/hostile/programs/pages.c");
    let honest = machine.start(HONEST, &["run", "-n", "2", "sh", "-c", "while :; do :; done"]);
    let starter = Starter::enrol(&machine, &program, 0xabc3_0000, ["taken", "1"]);
    await_that("both take turns", || machine.row(2)["turns"].as_u64() > Some(2));
    let daemon = machine.daemon(0);
    let switch = switch_thread(daemon);
    let of_proxy = || thread(daemon, "proxy").map_or(0, |proxy| faults(&proxy));
    let (switch_before, proxy_before) = (faults(&switch), of_proxy());
    // As many turns as it takes: on a busy machine the memory is not taken away before each of them.
    await_that("the proxy has found the memory away", || of_proxy() >= proxy_before + TAKEN);
    let by_switch = faults(&switch) - switch_before;
    println!("{by_switch} faults of the switch thread, {} of the proxy", of_proxy() - proxy_before);
    assert!(by_switch < TAKEN / 3, "the switch thread has found no memory {by_switch} times");
    drop(starter);
    honest.signal(rustix::process::Signal::INT);
    honest.end();
}

#[test]
fn switch_thread_makes_no_call_outside_of_its_list_under_attack() {
    let Some(machine) = Machine::up("hostile-calls", 1, 2, &["--slice", "20", "--slots", "2"]) else {
        return;
    };
    let program = machine.compile("tests/hostile/programs/pages.c");
    let daemon = machine.daemon(0);
    assert_held_to_its_list(&switch_thread(daemon));
    let loops = "while :; do :; done";
    let computes: &[&str] = &["run", "-n", "2", "sh", "-c", loops];
    let phases: &[&str] = &["run", "--phases", "-n", "1", "sh", "-c", loops];
    let sleeps: &[&str] = &["run", "-n", "4", "sleep", "1000"];
    let programs =
        [(HONEST, computes), (HONEST, computes), (HOSTILE, phases), (HOSTILE, phases), (HOSTILE, sleeps)];
    let jobs: Vec<Running> = programs
        .into_iter()
        .zip(1..)
        .map(|((user, words), number)| {
            let job = machine.start(user, words);
            machine.await_state(number, "running");
            job
        })
        .collect();
    let starters: Vec<Starter> = [["lease", "20"], ["links", "500"], ["taken", "1"]]
        .into_iter()
        .zip(0xabc4_0000..)
        .map(|(words, number)| Starter::enrol(&machine, &program, number, words))
        .collect();
    let turns = |job: u32| machine.row(job)["turns"].as_u64();
    await_that("they take turns", || turns(1) > Some(5) && turns(3) > Some(5));
    machine.tutti(HOSTILE, &["suspend", "3"]).expect_success();
    machine.tutti(HOSTILE, &["resume", "3"]).expect_success();
    drop(starters);
    let before = turns(1);
    await_that("turns go on", || turns(1) > before.map(|turns| turns + 5));
    assert_eq!(machine.daemon(0), daemon, "no call has ended it");
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("its log");
    assert!(!log.contains("system call"), "{log}");
    for job in jobs {
        job.signal(rustix::process::Signal::INT);
        job.end();
    }
}

/// The call that reads a link is not in its list, so one link that it had read would have ended the daemon.
#[test]
fn switch_thread_reads_no_long_links() {
    let Some(machine) = Machine::up("hostile-links", 1, 2, &[]) else { return };
    let program = machine.compile("tests/hostile/programs/pages.c");
    let daemon = machine.daemon(0);
    let thread = switch_thread(daemon);
    assert_held_to_its_list(&thread);
    let starters: Vec<Starter> =
        (0..2).map(|at| Starter::enrol(&machine, &program, 0xabc2_0000 + at, ["links", "1000"])).collect();
    for job in 1..=2 {
        await_that("its job is there", || machine.row(job)["state"] == "running");
    }
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    assert_eq!((machine.daemon(0), switch_thread(daemon)), (daemon, thread), "no call has ended it");
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("its log");
    assert!(!log.contains("system call"), "{log}");
    drop(starters);
}

/// A rank can hold the lock of a pipe for ever, by writing from memory of a file system of its own: nobody
/// who must not wait for it may have one.
#[test]
fn daemon_has_no_pipe_that_ranks_write() {
    let Some(machine) = Machine::up("hostile-pipes", 1, 2, &["--slots", "2"]) else { return };
    let script = "echo up; exec sleep 1000";
    let mut jobs: Vec<Running> =
        (0..2).map(|_| machine.start(HOSTILE, &["run", "--phases", "-n", "1", "sh", "-c", script])).collect();
    jobs.iter_mut().for_each(|job| job.await_line("up"));
    let pipes = |pid: Pid| -> BTreeSet<String> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
        let links =
            folder.into_iter().flatten().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links
            .map(|link| link.to_string_lossy().into_owned())
            .filter(|link| link.starts_with("pipe:"))
            .collect()
    };
    let daemon = machine.daemon(0);
    let has_bell = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.as_raw_nonzero())).expect("it lives");
        let names = tasks.map(|task| std::fs::read_to_string(task.expect("one").path().join("comm")));
        names.filter(|name| name.as_ref().is_ok_and(|name| name.trim() == "bell")).count() == 2
    };
    await_that("their rings are heard", has_bell);
    let theirs = machine.users.processes(machine.uid(HOSTILE));
    let ranks: BTreeSet<String> = theirs.into_iter().flat_map(pipes).collect();
    assert!(!ranks.is_empty(), "they have pipes");
    // What starters write on standard error is read where it may be waited for.
    let shared: Vec<String> = pipes(daemon).intersection(&ranks).cloned().collect();
    let bells = |link: &String| {
        jobs.iter().any(|job| {
            job.mark.processes().into_iter().filter(|pid| is_rank(*pid)).any(|pid| pipes(pid).contains(link))
        })
    };
    assert!(!shared.iter().any(bells), "{shared:?}");
    for job in jobs {
        job.signal(rustix::process::Signal::INT);
        job.end();
    }
}

/// A rank of these jobs.
fn is_rank(pid: Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
        .is_ok_and(|name| name.trim() == "sleep")
}
