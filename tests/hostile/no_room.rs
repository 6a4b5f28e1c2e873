//! Where there is no room: on the file system of the daemon's state and log, and in the list of jobs
//! that wait, of which one user submits many.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tutti_testkit::{Need, skip};
use tutti_tests::LIMIT;
use tutti_tests::users::Users;

use crate::Machine;
use crate::cluster::Cluster;
use crate::harness::await_that;
use crate::machine::ASK;
use crate::memory::{KIB_MAX, kib};

/// The user that is attacked, and the one that attacks.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Bytes of the small file system.
const ROOM: &str = "size=6m,mode=0755";

/// A small file system, until it is dropped: before what stands in it.
struct Mounted(PathBuf);

impl Mounted {
    fn new(folder: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", ROOM, "tutti-small"]).arg(folder).status();
        mounted.is_ok_and(|status| status.success()).then(|| Mounted(folder.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Fills it to the last byte.
fn fill(folder: &Path) -> PathBuf {
    let path = folder.join("ballast");
    let mut ballast = File::create(&path).expect("there is room");
    for bytes in [64 << 10, 4096, 1] {
        loop {
            match ballast.write(&vec![0; bytes]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    path
}

#[test]
fn daemon_without_room_for_its_state_and_log_serves_and_goes_on() {
    let Some(users) = Users::new("hostile-room", 2) else { return };
    let folder = users.root().join("daemons");
    let Some(mounted) = Mounted::new(&folder) else {
        return skip(Need::Root, "a file system in memory cannot be mounted here");
    };
    let cluster = Cluster::up_at(folder.clone(), users.programs().to_path_buf(), 1, &[]);
    let machine = Machine { cluster, users, groups: None };
    // Dropped first, while the daemon may still have files there.
    let mounted = mounted;
    let daemon = machine.daemon(0);
    machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
    let ballast = fill(&folder);
    for _ in 0..20 {
        // Whatever is answered.
        machine.tutti(HOSTILE, &["submit", "-o", "none", "-n", "1", "true"]);
    }
    let ran = machine.tutti(HONEST, &["run", "-n", "2", "echo", "here"]).expect_success();
    assert_eq!(ran.stdout, "here\nhere\n");
    machine.tutti(HONEST, &["ps"]).expect_success();
    assert_eq!(machine.daemon(0), daemon, "the daemon has lived through it");
    std::fs::remove_file(ballast).expect("it is ours");
    let job = machine.submit(HONEST, &["-o", "none", "-n", "1", "true"]);
    machine.tutti(HONEST, &["wait", &job.to_string()]).expect_success();
    drop(mounted);
}

/// Submits it so often on one connection each, by the hostile user; says how many were accepted, and refused.
fn submit(machine: &Machine, request: &Value, count: u64) -> (u64, u64) {
    let frame = Machine::frame(ASK, request.to_string().as_bytes());
    machine.as_user(HOSTILE, |machine| {
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..count {
            let mut stream = UnixStream::connect(machine.socket()).expect("the daemon lives");
            stream.set_read_timeout(Some(LIMIT)).expect("a socket");
            stream.write_all(&frame).expect("the daemon reads");
            let answer = Machine::read_frame(&mut stream).expect("an answer").1;
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            match answer["Job"].is_u64() {
                true => accepted += 1,
                false => refused += 1,
            }
        }
        (accepted, refused)
    })
}

#[track_caller]
fn submit_many(name: &str, count: u64) {
    let Some(machine) = Machine::up(name, 1, 2, &["--slots", "2"]) else { return };
    let daemon = machine.daemon(0);
    let mut first = machine.start(HOSTILE, &["run", "-n", "1", "sh", "-c", "echo up; exec sleep 3600"]);
    first.await_line("up");
    let number = machine.jobs()[0].to_string();
    let mut request =
        machine.request(HOSTILE, &["submit", "--after", &number, "-o", "none", "-n", "1", "true"]);
    request["Submit"]["environment"] = serde_json::json!([]);
    let mut honest = machine.start(HONEST, &["run", "-n", "2", "sh", "-c", "echo up; while :; do :; done"]);
    honest.await_line("up");
    let (accepted, refused) = std::thread::scope(|scope| {
        let submits = scope.spawn(|| submit(&machine, &request, count));
        while !submits.is_finished() {
            machine.tutti(HONEST, &["ps"]).expect_success();
            machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
        }
        submits.join().expect("it is answered")
    });
    println!("{accepted} accepted, {refused} refused; the daemon had {} KiB", kib(daemon, "VmHWM"));
    assert_eq!((accepted + refused, machine.daemon(0)), (count, daemon));
    assert!(accepted > 0, "some wait");
    assert!(kib(daemon, "VmHWM") < KIB_MAX, "the daemon had {} KiB", kib(daemon, "VmHWM"));
    honest.signal(rustix::process::Signal::INT);
    honest.end();
    // All that wait for it begin, or are ended by root.
    machine.cluster.tutti(&["kill", "--user", &machine.uid(HOSTILE).to_string()]);
    first.end();
    await_that("all jobs are over", || machine.jobs().is_empty());
}

#[test]
fn hundreds_of_submissions_of_a_user_leave_another_its_answers() {
    submit_many("hostile-hundreds", 300);
}

#[test]
#[ignore = "long: make soak-hostile"]
fn thousands_of_submissions_of_a_user_leave_another_its_answers_soak() {
    submit_many("hostile-thousands", 10_000);
}
