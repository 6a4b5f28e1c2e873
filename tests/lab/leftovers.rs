//! A lab ends with its keeper, whatever kills it, and what the kernel does not end is found by its mark.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::await_that;
use tutti_testkit::lab::{Lab, mark};

/// Cgroups and files that have the mark of a lab.
fn left_of(lab_mark: &str) -> Vec<PathBuf> {
    let base = mark::base().expect("a folder");
    let mut left: Vec<PathBuf> = [format!("{lab_mark}.lock"), lab_mark.to_owned()]
        .iter()
        .map(|name| base.join(name))
        .filter(|path| path.exists())
        .collect();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
    for place in mounts.lines().filter(|line| line.contains(" - cgroup")) {
        let place = place.split(' ').nth(4).expect("a mount point");
        left.extend(
            Some(PathBuf::from(place).join(format!("tutti-lab-{lab_mark}"))).filter(|path| path.exists()),
        );
    }
    left
}

/// Processes of a lab, by its mark.
fn processes_of(lab_mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|byte| *byte == 0).any(|word| word == lab_mark.as_bytes())).count()
}

#[test]
fn lab_of_a_killed_keeper_is_removed_by_its_mark_and_no_other_is_touched() {
    let Some(mut dead) = Lab::new(2) else { return };
    let Some(living) = Lab::new(1) else { return };
    let status = dead.status().expect("it runs");
    let (mark_of_dead, mark_of_living) = (status.mark, living.status().expect("it runs").mark);
    dead.node(0).spawn(&["sleep", "1000"]);
    dead.node(1).pause();
    assert!(processes_of(&mark_of_dead) >= 4 && !left_of(&mark_of_dead).is_empty());
    let keeper = Pid::from_raw(status.keeper as i32).expect("a pid");
    kill_process(keeper, Signal::KILL).expect("it runs");
    await_that("the kernel ends everything of it", || processes_of(&mark_of_dead) == 0);

    let Some(next) = Lab::new(1) else { return };
    assert_eq!(left_of(&mark_of_dead), Vec::<PathBuf>::new());
    assert_eq!(living.node(0).run(&["hostname"]), "node0\n");
    assert_eq!(next.node(0).run(&["hostname"]), "node0\n");
    assert!(dead.down().is_err(), "it is gone");

    let mark_of_next = next.status().expect("it runs").mark;
    drop((next, living));
    for gone in [mark_of_next, mark_of_living] {
        assert_eq!((left_of(&gone), processes_of(&gone)), (Vec::new(), 0), "nothing is left of {gone}");
    }
}

/// The keeper of a test's lab sees the end of the test by the end of its input.
#[test]
fn lab_ends_with_the_process_that_has_started_it() {
    let Some(lab) = Lab::new(1) else { return };
    let mark = lab.status().expect("it runs").mark;
    lab.node(0).spawn(&["sleep", "1000"]);
    drop(lab);
    assert_eq!((left_of(&mark), processes_of(&mark)), (Vec::new(), 0));
}

/// As in containers whose first process waits for no orphans.
#[test]
fn lab_ends_though_its_dead_are_not_buried() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).expect("the kernel can");
    let Some(lab) = Lab::new(1) else { return };
    let mut command = lab.node(0).command("sleep").arg("1000").spawn().expect("a command");
    await_that("it runs", || lab.node(0).sh("pidof sleep").status.success());
    // What it has begun in the machine is left to this process, which looks only later.
    command.kill().expect("it runs");
    command.wait().expect("our child");
    let (over, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(lab);
        over.send(()).expect("the test waits");
    });
    ended.recv_timeout(tutti_tests::LIMIT).expect("the lab ends");
    let orphan = rustix::process::wait(rustix::process::WaitOptions::empty()).expect("it was left to us");
    assert!(orphan.is_some());
}
