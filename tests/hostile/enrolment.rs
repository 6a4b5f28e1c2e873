//! A user says that a job of its runs already, and names what is not its own: nothing of anybody else's is
//! frozen, written or bound.

use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};
use serde_json::{Value, json};

use crate::Machine;
use crate::cgroups::{Cgroups, Sleeper};
use crate::harness::await_that;

/// Kinds of frames.
const ASK: u32 = 32;
const REPORT: u32 = 18;

/// Duration of the attack on the daemon. Without the checks root's cgroup was frozen within 0.1 s and its
/// file written within 3 s.
const ATTACK: Duration = Duration::from_secs(6);

/// The job that a user says it has.
fn submission(number: u64) -> Value {
    let program = json!({ "file": "/bin/true", "arguments": ["true"], "ranks": 1, "directory": null, "inherits": "All",
        "variables": [] });
    let job = json!({ "id": number, "front_end": 1, "programs": [program], "input": "None", "input_inherited": false,
        "terminal": null, "pty": false, "binding": "None", "cores_per_rank": null, "no_oversubscribe": false,
        "part": null, "debug": false });
    json!({ "job": job, "nodes": null, "per_node": null, "hosts": [], "environment": [], "directory": "/",
        "umask": 18 })
}

/// The name of that job's cgroup.
fn name(number: u64) -> String {
    format!("tutti-job-{number:016x}")
}

/// Enrols a job with these ranks, one by one bound to a core; `paths`: of its cgroups, as they were once
/// said. None: it is refused.
fn enrol(machine: &Machine, number: u64, pids: &[u32], paths: Option<&[PathBuf]>) -> Option<UnixStream> {
    let mut stream = UnixStream::connect(machine.socket()).expect("the daemon lives");
    let request = match paths {
        Some(paths) => json!({ "Enrol": [submission(number), { "cgroups": paths }] }),
        None => json!({ "Enrol": submission(number) }),
    };
    let cores: Vec<&str> = pids.iter().map(|_| "0").collect();
    let started = json!({ "Started": { "pids": pids, "cores": cores } });
    let frame = |kind, value: &Value| Machine::frame(kind, value.to_string().as_bytes());
    stream.write_all(&frame(ASK, &request)).expect("the daemon lives");
    let mut answer = [0; 512];
    let read = stream.read(&mut answer).expect("an answer");
    if !String::from_utf8_lossy(&answer[..read]).contains("{\"Job\":") {
        return None;
    }
    stream.write_all(&frame(REPORT, &started)).expect("the daemon lives");
    Some(stream)
}

/// Belongings of root that must not change.
struct Victim {
    group: PathBuf,
    process: Sleeper,
    cores: CpuSet,
    file: PathBuf,
}

impl Victim {
    fn new(machine: &Machine, cgroups: &Cgroups) -> Self {
        let group = cgroups.inner("root-slice");
        cgroups.inner("root-slice/ranks");
        let process = Sleeper::start(Command::new("sleep").arg("1000"), &group);
        let file = machine.users.root().join("secret");
        std::fs::write(&file, "root's").expect("a file");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("it is ours");
        let cores = sched_getaffinity(None).expect("we live");
        Victim { group, process, cores, file }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.process.pid() as i32).expect("a pid")
    }

    /// Harm that was done to them; none: nothing.
    fn harm(&self) -> Option<String> {
        let read = |path: &Path| std::fs::read_to_string(path).expect("it is there");
        let frozen = read(&self.group.join("cgroup.freeze"));
        let text = read(&self.file);
        if frozen.trim() != "0" {
            Some("root's cgroup was frozen".into())
        } else if text != "root's" {
            Some(format!("root's file says {text:?}"))
        } else if sched_getaffinity(Some(self.pid())).expect("it lives") != self.cores {
            Some("root's process is bound to other cores".into())
        } else {
            None
        }
    }
}

/// Points a link at one thing and another in turns, for as long as `goes_on`.
fn swap(link: &Path, to: [&Path; 3], goes_on: &AtomicBool) {
    let next = link.with_extension("next");
    for at in 0.. {
        if !goes_on.load(Ordering::Relaxed) {
            return;
        }
        let _ = std::fs::remove_file(&next);
        symlink(to[at % to.len()], &next).expect("a link in its own folder");
        std::fs::rename(&next, link).expect("its own folder");
    }
}

#[test]
fn enrolment_race_of_paths_and_pids_harms_nobody() {
    let Some(machine) = Machine::up("hostile-enrolment", 1, 1, &["--slice", "10"]) else { return };
    let Some(cgroups) = Cgroups::make("tutti-hostile-enrolment") else {
        return tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
    };
    let uid = machine.uid(0);
    let number = 0xabc0_0000_0000_0000 + u64::from(std::process::id());
    let victim = Victim::new(&machine, &cgroups);
    // A cgroup of the user's own, named as a job's, with a process of the user's own in it.
    let own = cgroups.delegated("own", uid);
    let job = cgroups.delegated(&format!("own/{}", name(number)), uid);
    let ranks = cgroups.delegated(&format!("own/{}/ranks", name(number)), uid);
    std::os::unix::fs::chown(job.join("cgroup.freeze"), Some(uid), None).expect("it is ours");
    let rank = Sleeper::start(machine.users.foreign(uid, "sleep").arg("1000"), &ranks);
    // Others want the cores, so that whoever is enrolled has turns.
    let others = machine.cluster.start(&["run", "-n", "2", "sh", "-c", "while :; do :; done"]);
    let folder = machine.users.folder(uid);
    let (goes_on, harm) = (AtomicBool::new(true), std::sync::Mutex::new(None));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            machine.as_user(0, |_| {
                // The same name in three places: the user's cgroup, root's cgroup, and a folder with a link
                // to root's file.
                let (slice, fake) = (folder.join("slice"), folder.join("fake"));
                for place in [&slice, &fake.join(name(number))] {
                    std::fs::create_dir_all(place).expect("its own folder");
                }
                symlink(&victim.group, slice.join(name(number))).expect("a link");
                symlink(&victim.file, fake.join(name(number)).join("cgroup.freeze")).expect("a link");
                std::fs::write(fake.join(name(number)).join("cgroup.events"), "frozen 0\n").expect("a file");
                swap(&folder.join("now"), [&own, &slice, &fake], &goes_on);
            });
        });
        scope.spawn(|| {
            while goes_on.load(Ordering::Relaxed) {
                if let Some(found) = victim.harm() {
                    harm.lock().expect("no panic").get_or_insert(found);
                    return;
                }
            }
        });
        attack(&machine, number, &folder, [rank.pid(), victim.process.pid()], &harm);
        goes_on.store(false, Ordering::Relaxed);
    });
    assert_eq!(harm.into_inner().expect("no panic"), None);
    assert_eq!(victim.harm(), None);
    // The daemon lives, and serves its users.
    machine.tutti(0, &["run", "-n", "1", "true"]).expect_success();
    others.signal(rustix::process::Signal::INT);
    others.end();
}

/// Enrols jobs by all that may be said, until the time is over or something has happened.
fn attack(
    machine: &Machine,
    number: u64,
    folder: &Path,
    pids: [u32; 2],
    harm: &std::sync::Mutex<Option<String>>,
) {
    let path = [folder.join("now").join(name(number))];
    let begun = Instant::now();
    while begun.elapsed() < ATTACK && harm.lock().expect("no panic").is_none() {
        let connections = machine.as_user(0, |machine| {
            let ways =
                pids.map(|pid| [None, Some(&path[..])].map(|paths| enrol(machine, number, &[pid], paths)));
            ways.into_iter().flatten().flatten().collect::<Vec<_>>()
        });
        assert!(!connections.is_empty(), "a job is enrolled by one of the ways");
        // As long as a few turns.
        std::thread::sleep(Duration::from_millis(60));
        drop(connections);
    }
}

#[test]
fn enrolment_takes_the_cgroup_from_the_kernel() {
    let Some(machine) = Machine::up("hostile-enrolment-own", 1, 1, &["--slice", "10"]) else { return };
    let Some(cgroups) = Cgroups::make("tutti-hostile-own") else {
        return tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
    };
    let uid = machine.uid(0);
    let number = 0xabd0_0000_0000_0000 + u64::from(std::process::id());
    let job = cgroups.delegated(&name(number), uid);
    let ranks = cgroups.delegated(&format!("{}/ranks", name(number)), uid);
    std::os::unix::fs::chown(job.join("cgroup.freeze"), Some(uid), None).expect("it is ours");
    let mut spin = machine.users.foreign(uid, "sh");
    let rank = Sleeper::start(spin.args(["-c", "while :; do :; done"]), &ranks);
    let others = machine.cluster.start(&["run", "-n", "2", "sh", "-c", "while :; do :; done"]);
    let enrolled = machine.as_user(0, |machine| enrol(machine, number, &[rank.pid()], None));
    assert!(enrolled.is_some(), "it is enrolled");
    let frozen = || std::fs::read_to_string(job.join("cgroup.freeze")).expect("it is there");
    for _ in 0..3 {
        await_that("it is frozen while others run", || frozen().trim() == "1");
        await_that("it has its turn", || frozen().trim() == "0");
    }
    drop(enrolled);
    others.signal(rustix::process::Signal::INT);
    others.end();
}
