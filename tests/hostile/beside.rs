//! Output of a user's jobs, the list of waiting ones and their terms: whatever the user does with them,
//! others and the keeper's commands stay as they are.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tutti_testkit::Random;

use crate::Machine;
use crate::harness::await_that;
use crate::machine::ASK;
use crate::malformed;
use crate::memory::{KIB_MAX, kib};

/// Users: the attacked one, and the attacker.
const HONEST: usize = 0;
const HOSTILE: usize = 1;
/// Front ends that are stopped while their jobs write.
const STOPPED: usize = 6;
/// Times that the keeper reads the configuration again.
const RELOADS: usize = 4;

/// A front end of the hostile user's, which does not read its job's output any more.
fn stopped_reader(machine: &Machine, words: &[&str]) -> Child {
    let mut command = machine.command(HOSTILE, "tutti", words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().expect("tutti");
    kill_process(Pid::from_child(&child), Signal::STOP).expect("our child");
    child
}

#[test]
fn readers_that_are_stopped_cost_others_nothing() {
    let Some(machine) = Machine::up("hostile-stopped", 2, 2, &["--slots", "4"]) else { return };
    let daemon = machine.daemon(0);
    // Jobs that write all the time, on the node of the front end and on another one; nobody reads.
    let jobs: Vec<Child> = (0..STOPPED)
        .map(|number| {
            let host = if number % 2 == 0 { "node0:1" } else { "node1:1" };
            let words = ["run", "-H", host, "-n", "1", "yes", "a line that nobody reads"];
            let mut command = machine.command(HOSTILE, "tutti", &words);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().expect("tutti")
        })
        .collect();
    await_that("they run", || machine.jobs().len() == STOPPED);
    for job in &jobs {
        kill_process(Pid::from_child(job), Signal::STOP).expect("our child");
    }
    // And more that ask for the same output.
    let number = machine.jobs()[0].to_string();
    let followers: Vec<Child> =
        (0..STOPPED).map(|_| stopped_reader(&machine, &["attach", &number])).collect();
    for _ in 0..3 {
        let ran = machine.tutti(HONEST, &["run", "-N", "2", "-n", "2", "echo", "here"]).expect_success();
        assert_eq!(ran.stdout, "here\nhere\n");
        machine.tutti(HONEST, &["ps"]).expect_success();
    }
    let peak = kib(daemon, "VmHWM");
    println!("the head had at most {peak} KiB");
    assert!(peak < KIB_MAX, "the head had {peak} KiB");
    assert_eq!(machine.daemon(0), daemon);
    machine.cluster.tutti(&["kill", "--user", &machine.uid(HOSTILE).to_string()]);
    for mut child in jobs.into_iter().chain(followers) {
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        child.wait().expect("our child");
    }
    await_that("all jobs are over", || machine.jobs().is_empty());
}

/// A terminal that is not read, and what a program has of it.
fn terminal() -> (OwnedFd, OwnedFd) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&master).expect("a terminal");
    unlockpt(&master).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    (master, open(name, flags, Mode::empty()).expect("a terminal"))
}

/// A terminal whose reader stands still holds its front end in a write, and ranks that have terminals of
/// their own (`--pty`) in theirs.
#[test]
fn terminals_that_are_not_read_cost_others_nothing() {
    let Some(machine) = Machine::up("hostile-terminals", 2, 2, &["--slots", "4"]) else { return };
    let daemon = machine.daemon(0);
    let mut fronts = Vec::new();
    for number in 0..STOPPED {
        let host = ["node0:1", "node1:1"][number % 2];
        let mut words = vec!["run", "-H", host, "-n", "1"];
        words.extend((number % 3 == 0).then_some("--pty"));
        words.extend(["yes", "a line that nobody reads"]);
        let (master, slave) = terminal();
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let mut command = machine.command(HOSTILE, "tutti", &words);
        command.stdin(end()).stdout(end()).stderr(end());
        fronts.push((command.spawn().expect("tutti"), master, slave));
    }
    await_that("they run", || machine.jobs().len() == STOPPED);
    await_that("no terminal takes more", || {
        fronts.iter().all(|(.., slave)| {
            let mut polled = [PollFd::new(slave, PollFlags::OUT)];
            poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready == 0)
        })
    });
    for _ in 0..3 {
        let ran = machine.tutti(HONEST, &["run", "-N", "2", "-n", "2", "echo", "here"]).expect_success();
        assert_eq!(ran.stdout, "here\nhere\n");
        machine.tutti(HONEST, &["ps"]).expect_success();
    }
    let peak = kib(daemon, "VmHWM");
    println!("the head had at most {peak} KiB");
    assert!(peak < KIB_MAX, "the head had {peak} KiB");
    assert_eq!(machine.daemon(0), daemon);
    machine.cluster.tutti(&["kill", "--user", &machine.uid(HOSTILE).to_string()]);
    await_that("all jobs are over", || machine.jobs().is_empty());
    for (mut front, master, slave) in fronts {
        // Its terminal hangs up.
        drop((master, slave));
        await_that("the front end ends with its terminal", || front.try_wait().expect("ours").is_some());
    }
}

/// Submits, changes and kills its own jobs as fast as it is let, until it is ordered to stop.
fn toss_queue(machine: &Machine, goes_on: &AtomicBool, asked: &AtomicU64) {
    let submit = machine.request(HOSTILE, &["submit", "-o", "none", "-n", "1", "sleep", "100"]);
    let requests = malformed::requests(machine, HOSTILE);
    let mut random = Random::new(tutti_testkit::seed());
    machine.as_user(HOSTILE, |machine| {
        while goes_on.load(Ordering::Relaxed) {
            let request = if random.chance(700) {
                submit.to_string()
            } else {
                requests[random.below(requests.len() as u64) as usize].to_string()
            };
            let Ok(mut stream) = UnixStream::connect(machine.socket()) else { continue };
            // Some are answered when a job is over.
            stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
            if stream.write_all(&Machine::frame(ASK, request.as_bytes())).is_ok() {
                let _ = Machine::read_frame(&mut stream);
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
}

#[test]
fn configuration_is_read_again_while_a_user_tosses_its_queue() {
    let scratch = tutti_tests::Scratch::new("hostile-reload");
    let file = scratch.path().join("tutti.toml");
    let limited = |jobs: usize| format!("[limits]\njobs = {jobs}\n");
    std::fs::write(&file, limited(50)).expect("a file");
    let more = ["--config", file.to_str().expect("a path"), "--slots", "2"];
    let Some(machine) = Machine::up("hostile-reload", 1, 2, &more) else { return };
    let daemon = machine.daemon(0);
    let refused = machine.tutti(HOSTILE, &["reload"]);
    assert_ne!(refused.code(), 0, "only the keeper may: {refused}");
    let (goes_on, asked) = (AtomicBool::new(true), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| toss_queue(&machine, &goes_on, &asked));
        let ends = Ends(&goes_on);
        await_that("its jobs wait", || machine.jobs().len() > 20);
        for round in 0..RELOADS {
            std::fs::write(&file, limited(50 - round)).expect("a file");
            machine.cluster.tutti(&["reload"]).expect_success();
            machine.tutti(HONEST, &["run", "-n", "1", "true"]).expect_success();
            let prices = machine.tutti(HONEST, &["prices"]).expect_success();
            assert!(!prices.stdout.is_empty());
        }
        // What was read last holds.
        std::fs::write(&file, limited(1)).expect("a file");
        machine.cluster.tutti(&["reload"]).expect_success();
        drop(ends);
    });
    println!("{asked:?} requests; the daemon had {} KiB", kib(daemon, "VmHWM"));
    machine.cluster.tutti(&["kill", "--user", &machine.uid(HOSTILE).to_string()]);
    assert_eq!(machine.daemon(0), daemon);
    assert!(kib(daemon, "VmHWM") < KIB_MAX, "the daemon had {} KiB", kib(daemon, "VmHWM"));
}

/// Ends the attack, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
