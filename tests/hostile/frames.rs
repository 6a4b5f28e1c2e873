//! Frames that a user sends to root's daemon cost that user: others are answered meanwhile, and the daemon
//! stays small and quiet.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::{Value, json};

use crate::Machine;
use crate::harness::await_that;
use crate::machine::ASK;
use crate::memory::{KIB_MAX, kib};

/// Kinds of frames.
pub const REPORT: u32 = 18;
const REATTACH: u32 = 13;
/// Number of the user who is attacked; the next is the one who attacks.
const HONEST: usize = 0;
const HOSTILE: usize = 1;

/// A job that runs already, with so many ranks as is said.
fn submission(number: u64, ranks: u64) -> Value {
    let program = json!({ "file": "/bin/true", "arguments": ["true"], "ranks": ranks, "directory": null,
        "inherits": "All", "variables": [] });
    let job = json!({ "id": number, "front_end": 1, "programs": [program], "input": "None", "input_inherited": false,
        "terminal": null, "pty": false, "binding": "None", "cores_per_rank": null, "no_oversubscribe": false,
        "part": null, "debug": false });
    json!({ "job": job, "nodes": null, "per_node": null, "hosts": [], "environment": [], "directory": "/",
        "umask": 18 })
}

/// Enrols a job, by the hostile user.
#[track_caller]
pub fn enrol(machine: &Machine, number: u64, ranks: u64) -> UnixStream {
    let (stream, answer) = machine.ask(HOSTILE, &json!({ "Enrol": submission(number, ranks) }));
    assert!(answer["Job"].is_u64(), "{answer}");
    stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a socket");
    stream
}

/// A list of so many numbers.
fn numbers(number: u32, count: usize) -> String {
    format!("[{}]", vec![number.to_string(); count].join(","))
}

pub fn report(text: &str) -> Vec<u8> {
    Machine::frame(REPORT, text.as_bytes())
}

/// Processor time that a process has had.
fn worked(pid: Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).expect("it lives");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name")..].split(' ').collect();
    let ticks: u64 = fields[12..14].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
}

/// Bytes of the controller's log.
fn log_bytes(machine: &Machine) -> u64 {
    std::fs::metadata(machine.cluster.folder.join("node0.log")).expect("its log").len()
}

#[test]
fn reports_of_many_pids_take_no_time_of_others() {
    let Some(machine) = Machine::up("hostile-reports", 1, 2, &[]) else { return };
    let daemon = machine.daemon(0);
    let before = worked(daemon);
    // Each of these takes every one of those away, if it is there.
    let (pids, gone) = (numbers(1, 60_000), numbers(2, 1_000_000));
    let mut stream = enrol(&machine, 0xabce_0001, 4_000_000_000);
    stream.set_write_timeout(Some(tutti_tests::LIMIT)).expect("a socket");
    let sent = report(&format!("{{\"Started\":{{\"pids\":{pids},\"cores\":[]}}}}"));
    stream.write_all(&sent).expect("the daemon reads");
    let later = report(&format!("{{\"Later\":{{\"pids\":[],\"gone\":{gone}}}}}"));
    for _ in 0..3 {
        // It may have been closed.
        let _ = stream.write_all(&later);
    }
    machine.tutti(HONEST, &["ps"]).expect_success();
    drop(stream);
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    let took = worked(daemon) - before;
    assert!(took < Duration::from_secs(5), "the daemon has worked for {took:?}");
}

#[test]
fn flood_of_frames_waits_for_its_turn() {
    let Some(machine) = Machine::up("hostile-flood", 1, 2, &[]) else { return };
    let daemon = machine.daemon(0);
    let mut streams: Vec<UnixStream> = (0..40).map(|at| enrol(&machine, 0xabcd_1000 + at, 1)).collect();
    let idle = [true, false].map(|idle| report(&json!({ "Idle": idle }).to_string())).concat().repeat(2000);
    let (began, before) = (Instant::now(), worked(daemon));
    for stream in &mut streams {
        stream.set_nonblocking(true).expect("a socket");
    }
    let mut answers = 0;
    while answers < 5 {
        for stream in &mut streams {
            // As much as fits; it may begin in the middle of a frame, which the daemon does not forgive.
            let _ = stream.write(&idle);
        }
        machine.tutti(HONEST, &["ps"]).expect_success();
        machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
        answers += 1;
    }
    let (took, passed) = (worked(daemon) - before, began.elapsed());
    println!("the daemon has worked for {took:?} of {passed:?}");
    // What is left in the sockets is served at the hostile user's pace.
    assert!(took < Duration::from_secs(4) + passed / 2, "the daemon has worked for {took:?} of {passed:?}");
}

#[test]
fn memory_for_reports_of_jobs_that_run_already_is_bounded_by_user() {
    let Some(machine) = Machine::up("hostile-states", 1, 2, &[]) else { return };
    let daemon = machine.daemon(0);
    let warning = report(&format!("{{\"Warning\":\"{}\"}}", "x".repeat(3 << 20)));
    let pids = report(&format!("{{\"Started\":{{\"pids\":{},\"cores\":[]}}}}", numbers(1, 1_000_000)));
    let longest = Machine::frame(34, &vec![b' '; 40 << 20]);
    let mut streams = Vec::new();
    for at in 0..60 {
        let mut stream = enrol(&machine, 0xabcf_0000 + at, 4_000_000_000);
        // Whoever says too much is closed, or not read.
        let _ = stream.write_all([&warning, &pids, &longest][at as usize % 3]);
        streams.push(stream);
    }
    machine.tutti(HONEST, &["ps", "--all"]).expect_success();
    let peak = kib(daemon, "VmHWM");
    println!("{peak} KiB");
    assert!(peak < 2 * KIB_MAX, "the controller had {peak} KiB");
    drop(streams);
    await_that("what was long is given back", || kib(daemon, "VmRSS") < KIB_MAX);
    let events = std::fs::read_to_string(machine.cluster.folder.join("events.jsonl")).expect("the log");
    let longest = events.lines().map(str::len).max().unwrap_or(0);
    assert!(longest < 64 << 10, "a line of {longest} bytes in the log of events");
}

#[test]
fn daemon_without_descriptors_answers_its_owner_and_stays_quiet() {
    let Some(machine) = Machine::up("hostile-descriptors", 1, 2, &[]) else { return };
    let daemon = machine.daemon(0);
    let folder = format!("/proc/{}/fd", daemon.as_raw_nonzero());
    let open = std::fs::read_dir(folder).expect("we are root").count() as u64;
    let set = |limit| prlimit(Some(daemon), Resource::Nofile, limit).expect("we are root");
    let before = set(Rlimit {
        current: Some(open + 8),
        maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
    });
    let (log, worked_before) = (log_bytes(&machine), worked(daemon));
    let strangers: Vec<UnixStream> = (0..100).map(|_| machine.connect(HOSTILE)).collect();
    let began = Instant::now();
    for _ in 0..10 {
        machine.cluster.tutti(&["ps"]).expect_success();
    }
    let (grown, took) = (log_bytes(&machine) - log, worked(daemon) - worked_before);
    println!("{grown} bytes of log, {took:?} of {:?}", began.elapsed());
    assert!(grown < 16 << 10, "{grown} bytes of log");
    assert!(took < Duration::from_secs(1) + began.elapsed() / 4, "the daemon has worked for {took:?}");
    drop(strangers);
    set(before);
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
}

#[test]
fn log_lines_that_a_user_causes_are_bounded() {
    let Some(machine) = Machine::up("hostile-log", 1, 2, &[]) else { return };
    let back = json!({ "job": 999_999_999, "token": 1, "base": 0, "piece": 0, "taken": false, "frozen": false,
        "has_peers": false });
    let frame = Machine::frame(REATTACH, back.to_string().as_bytes());
    let before = log_bytes(&machine);
    machine.as_user(HOSTILE, |machine| {
        for at in 0..1500_u64 {
            let Ok(mut stream) = UnixStream::connect(machine.socket()) else { continue };
            let _ = stream.write_all(&frame);
            // Read to its end, so that no more of them wait than may.
            let _ = stream.set_read_timeout(Some(tutti_tests::LIMIT));
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
            if at % 10 == 0
                && let Ok(mut stream) = UnixStream::connect(machine.socket())
            {
                let request = json!({ "Enrol": submission(0xabe0_0000 + at, 1) }).to_string();
                let _ = stream.write_all(&Machine::frame(ASK, request.as_bytes()));
                let pid = std::process::id();
                let started = json!({ "Started": { "pids": [pid], "cores": ["0"] } });
                let _ = Machine::read_frame(&mut stream);
                let _ = stream.write_all(&report(&started.to_string()));
            }
        }
    });
    machine.tutti(HONEST, &["ps"]).expect_success();
    let grown = log_bytes(&machine) - before;
    println!("{grown} bytes of log");
    assert!(grown < 96 << 10, "{grown} bytes of log");
}
