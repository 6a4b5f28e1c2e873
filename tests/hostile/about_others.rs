//! Reports of a starter about jobs that are not its own: the daemon knows by the kernel and by the connection
//! whose they are, so nothing of another user's job changes.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;
use serde_json::{Value, json};
use tutti_testkit::Random;

use crate::Machine;
use crate::frames::{enrol, report};
use crate::harness::cgroup_of;
use crate::malformed::nearly_value;
use crate::numbers::{is_alive, variable};

/// The user that is attacked, and the one that attacks.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
const REATTACH: u32 = 13;
/// Frames of all connections.
const FRAMES: u64 = 600;

/// Reports that name a job's launch, processes and ranks.
pub fn samples(public: u64, pids: &[u32]) -> Vec<Value> {
    let cores = vec![0; pids.len()];
    let ended = json!({ "rank": 0, "pid": pids[0], "cause": { "Signal": { "signal": 9, "core": false } } });
    vec![
        json!({ "Started": { "pids": pids, "cores": cores } }),
        json!({ "Later": { "pids": pids, "gone": [] } }),
        json!({ "Later": { "pids": [], "gone": pids } }),
        json!({ "Connected": [public] }),
        json!({ "Ended": ended }),
        json!({ "Ending": { "status": 9 } }),
        json!({ "Stalled": { "ranks": pids } }),
        json!({ "Idle": true }),
        json!({ "Empty": 1 }),
        json!({ "Stands": { "since": 1 } }),
        json!("Suspended"),
        json!("Stopped"),
        json!("Continued"),
        json!("Detached"),
        json!("Left"),
        json!({ "End": { "status": 9 } }),
    ]
}

/// Frames of a starter that comes back to a job with this number.
pub fn come_back(random: &mut Random, number: u32) -> Vec<u8> {
    let back = json!({ "job": number, "token": random.below(u64::MAX), "base": 0, "piece": 0, "taken": true,
        "frozen": true, "has_peers": true, "signals": { "number": 9, "term": true } });
    Machine::frame(REATTACH, back.to_string().as_bytes())
}

/// Facts about a process, as the kernel has them: whether it lives, its cores, its group.
fn known(pid: u32) -> (bool, Vec<usize>, Option<std::path::PathBuf>) {
    let pid = Pid::from_raw(pid as i32).expect("a number of a process");
    let set = sched_getaffinity(Some(pid)).expect("it lives");
    (is_alive(pid), (0..1024).filter(|core| set.is_set(*core)).collect(), cgroup_of(pid))
}

#[test]
fn reports_of_a_starter_about_a_job_of_another_user_change_nothing_of_it() {
    let Some(machine) = Machine::up("hostile-about-others", 1, 2, &[]) else { return };
    let file = machine.users.root().join("goes-on");
    let script = format!("echo here; while [ ! -e {} ]; do sleep 0.1; done; echo on", file.display());
    let mut job = machine.start(HONEST, &["run", "-n", "2", "sh", "-c", &script]);
    job.await_line("here");
    job.await_line("here");
    let number = 1;
    machine.await_state(number, "running");
    let before = machine.row(number);
    let pids: Vec<u32> = serde_json::from_value(before["pids"][0][1].clone()).expect("pids");
    let rank = Pid::from_raw(pids[0] as i32).expect("a number of a process");
    let public = variable(rank, "TUTTI_JOB").and_then(|text| u64::from_str_radix(&text, 16).ok());
    let public = public.expect("a rank has the number of its launch");
    let seen: BTreeMap<u32, _> = pids.iter().map(|pid| (*pid, known(*pid))).collect();
    let daemon = machine.daemon(0);
    let daemon_seen = known(daemon.as_raw_nonzero().get() as u32);

    let mut random = Random::new(tutti_testkit::seed());
    let all = [&pids[..], &[1, daemon.as_raw_nonzero().get() as u32]].concat();
    let samples = samples(public, &all);
    let mut stream: Option<UnixStream> = None;
    for _ in 0..FRAMES {
        if random.chance(50) {
            let mut other = machine.connect(HOSTILE);
            let _ = other.write_all(&come_back(&mut random, number));
        }
        // Under the number of the job that is attacked, and under others.
        let id = if random.chance(500) { public } else { random.below(1 << 40) + 1 };
        let open = stream.get_or_insert_with(|| enrol(&machine, id, all.len() as u64));
        let sample = &samples[random.below(samples.len() as u64) as usize];
        let text = if random.chance(700) { sample.clone() } else { nearly_value(&mut random, sample) };
        if open.write_all(&report(&text.to_string())).is_err() || random.chance(30) {
            stream = None;
        }
    }
    drop(stream);

    machine.tutti(HONEST, &["ps"]).expect_success();
    machine.await_state(number, "running");
    let after = machine.row(number);
    for field in ["pids", "connected", "uid", "ranks", "nodes", "warnings", "suspended", "held"] {
        assert_eq!(before[field], after[field], "{field}: {before} {after}");
    }
    for (pid, seen) in &seen {
        assert_eq!(*seen, known(*pid), "process {pid} of the honest user's");
    }
    assert_eq!(daemon_seen, known(machine.daemon(0).as_raw_nonzero().get() as u32), "the daemon");
    std::fs::write(&file, "").expect("a file");
    let (status, errors, lines) = job.end_with_output();
    assert_eq!((status, errors.as_str()), (0, ""));
    assert_eq!(lines.iter().filter(|line| *line == "on").count(), 2, "{lines:?}");
}
