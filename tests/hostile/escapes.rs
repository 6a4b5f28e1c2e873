//! A user's job under root's daemon is in cgroups that are root's: it takes its turns whatever it does, has
//! no more than its limits, and nothing of it is left when it is over.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tutti_testkit::{Need, skip};

use crate::Machine;
use crate::harness::{Running, await_that, cgroup_of, comes_true};

/// Number of a job's pauses that are looked at. On a busy machine the test may have no core in some others.
const PAUSES: usize = 4;
/// CPU time for which a rank may still be on its way to a standstill when the kernel says that it is frozen.
/// Work of a process that escapes fills a whole pause of 200 ms.
const REST_US_MAX: u64 = 2000;

/// A rank that works.
const SPIN: &str = "while :; do :; done";

/// A job of a user whose ranks work, with the cgroup that is frozen when it is not its turn. None, with a
/// line, where there is none.
fn start_spinning(machine: &Machine, user: usize) -> Option<(Running, Vec<Pid>, PathBuf)> {
    let job = machine.start(user, &["run", "-n", "2", "sh", "-c", &format!("echo up; {SPIN}")]);
    let mut job = job;
    job.await_line("up");
    job.await_line("up");
    let ranks = ranks_of(machine, user);
    let Some(inner) = cgroup_of(ranks[0]) else {
        skip(Need::Cgroup, "root's daemon can make no cgroups here");
        return None;
    };
    Some((job, ranks, inner.parent().expect("the job's").to_owned()))
}

/// Processes of a user's that are ranks: shells below a starter.
fn ranks_of(machine: &Machine, user: usize) -> Vec<Pid> {
    let all = machine.users.processes(machine.uid(user));
    let is_rank = |pid: &Pid| name_of(*pid) == "sh";
    all.into_iter().filter(is_rank).collect()
}

/// The starter of a user's only job.
#[track_caller]
fn starter_of(machine: &Machine, uid: u32) -> Pid {
    let all = machine.users.processes(uid);
    all.into_iter().find(|pid| name_of(*pid) == "tutti-starter").expect("it runs")
}

fn name_of(pid: Pid) -> String {
    let path = format!("/proc/{}/comm", pid.as_raw_nonzero());
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn read(path: &Path, file: &str) -> String {
    std::fs::read_to_string(path.join(file)).unwrap_or_default()
}

/// Events of a cgroup that is frozen and thawed, from the kernel. It counts the changes, so none is missed
/// while the test itself has no core.
struct Freezes(File);

impl Freezes {
    fn of(group: &Path) -> Self {
        Freezes(File::open(group.join("cgroup.events")).expect("the job's cgroup"))
    }

    /// Whether it stands still.
    fn is_frozen(&self) -> bool {
        let mut text = [0; 100];
        let bytes = self.0.read_at(&mut text, 0).expect("the kernel says it");
        String::from_utf8_lossy(&text[..bytes]).contains("frozen 1")
    }

    /// Whether that has changed since it was asked, for a moment too.
    fn have_changed(&self) -> bool {
        let mut events = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("a look") > 0
    }
}

/// CPU time of a cgroup, in us.
fn worked_us(group: &Path) -> u64 {
    let stat = read(group, "cpu.stat");
    let line = stat.lines().find_map(|line| line.strip_prefix("usage_usec "));
    line.and_then(|number| number.parse().ok()).expect("the kernel counts it")
}

/// Which limits the kernel sees to, of a job that runs.
fn enforced(machine: &Machine, job: u32) -> Value {
    machine.row(job)["enforced"][0][1].clone()
}

#[test]
fn turns_of_a_users_job_cannot_be_escaped_by_sigcont() {
    let Some(machine) = Machine::up("hostile-turns", 1, 2, &["--slice", "200"]) else { return };
    let Some((honest, _, _)) = start_spinning(&machine, 0) else { return };
    let Some((hostile, ranks, group)) = start_spinning(&machine, 1) else { return };
    assert!(
        group
            .parent()
            .expect("the part's")
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("tutti-part-"))
    );
    let (goes_on, freezes) = (AtomicBool::new(true), Freezes::of(&group));
    let worked = std::thread::scope(|scope| {
        scope.spawn(|| {
            machine.as_user(1, |_| {
                while goes_on.load(Ordering::Relaxed) {
                    ranks.iter().for_each(|pid| kill_process(*pid, Signal::CONT).unwrap_or_default());
                }
            });
        });
        // In each of its pauses, from when it stands still to just before it goes on.
        let (mut worked, mut pause) = (Vec::new(), None);
        let has_seen_all = comes_true(|| {
            let now = worked_us(&group);
            pause = match pause {
                None => freezes.is_frozen().then(|| (worked_us(&group), None)),
                Some((before, after)) => {
                    if freezes.have_changed() || read(&group, "cgroup.freeze").trim() != "1" {
                        worked.extend(after.map(|after: u64| after - before));
                        None
                    } else {
                        Some((before, Some(now)))
                    }
                }
            };
            worked.len() == PAUSES
        });
        goes_on.store(false, Ordering::Relaxed);
        assert!(has_seen_all, "pauses were seen: {worked:?}");
        worked
    });
    println!("us of CPU time in its pauses: {worked:?}");
    assert!(worked.iter().all(|us| *us < REST_US_MAX), "us of CPU time in its pauses: {worked:?}");
    for job in [honest, hostile] {
        job.signal(Signal::TERM);
        job.end();
    }
}

#[test]
fn cgroups_of_a_users_job_cannot_be_left_or_changed_by_its_ranks() {
    let Some(machine) = Machine::up("hostile-leave", 1, 1, &[]) else { return };
    let Some((job, _, group)) = start_spinning(&machine, 0) else { return };
    // From a rank's place: up, aside, and into other hands.
    let part = group.parent().expect("the part's").to_owned();
    let user = part.parent().expect("the user's").to_owned();
    assert!(user.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tutti-user-")));
    let around = user.parent().expect("the daemon's").to_owned();
    let places: Vec<String> =
        [around, user, part.clone(), part.join("starter"), group.clone(), group.join("ranks")]
            .iter()
            .map(|path| path.display().to_string())
            .collect();
    let script = format!(
        "for d in {}; do \
         for f in cgroup.procs cgroup.threads; do echo $$ > $d/$f && echo moved to $d; done; \
         for f in cgroup.freeze cgroup.kill cgroup.subtree_control memory.max; do echo 1 > $d/$f && echo wrote $d/$f; done; \
         mkdir $d/mine && echo made in $d; done; exit 0",
        places.join(" ")
    );
    let ran = machine.tutti(0, &["run", "-n", "1", "--no-gang", "sh", "-c", &script]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (0, ""), "{ran}");
    // Nor can the user from outside; and its starter is not its to look into.
    let ran = tutti_tests::run(&mut machine.script(0, &script), tutti_tests::LIMIT);
    assert_eq!(ran.stdout, "", "{ran}");
    let starters = machine.users.processes(machine.uid(0));
    let starter = starters.into_iter().find(|pid| name_of(*pid) == "tutti-starter").expect("it runs");
    let look = format!("ls /proc/{0}/fd || cat /proc/{0}/environ", starter.as_raw_nonzero());
    let ran = tutti_tests::run(&mut machine.script(0, &look), tutti_tests::LIMIT);
    assert!(!ran.status.success() && ran.stdout.is_empty(), "{ran}");
    assert!(read(&part.join("starter"), "cgroup.procs").trim() == starter.as_raw_nonzero().to_string());
    job.signal(Signal::TERM);
    job.end();
}

#[test]
fn starter_of_a_users_job_loads_nothing_that_the_user_names() {
    let Some(machine) = Machine::up("hostile-preload", 1, 1, &[]) else { return };
    let script = "LD_PRELOAD=/nowhere/evil.so exec $tutti run -n 1 sh -c 'echo $LD_PRELOAD; tr \"\\0\" \"\\n\" < /proc/$PPID/environ'";
    let ran = tutti_tests::run(&mut machine.script(0, script), tutti_tests::LIMIT);
    assert_eq!(
        ran.stdout, "/nowhere/evil.so\n",
        "the rank has it, and cannot read what its starter has: {ran}"
    );
    let starters = ran.stderr.lines().filter(|line| line.contains("tutti-starter")).count();
    assert_eq!(starters, 0, "the linker says nothing for the starter: {ran}");
}

#[test]
fn memory_limit_of_a_users_job_is_enforced() {
    let Some(machine) = Machine::up("hostile-memory", 1, 1, &[]) else { return };
    let mut job = machine.start(0, &["run", "-n", "1", "--memory", "64M", "sh", "-c", "echo up; sleep 1000"]);
    job.await_line("up");
    if enforced(&machine, 1)["memory"] != true {
        return skip(Need::Memory, "the kernel has no controller of memory for us");
    }
    job.signal(Signal::TERM);
    job.end();
    // The one that wants too much is not the rank.
    let hog = "head -c 400M /dev/zero | tail -c 300M | wc -c; sleep 1000";
    let ran = machine.tutti(0, &["run", "-n", "1", "--memory", "64M", "sh", "-c", hog]);
    assert_eq!(ran.code(), 137, "{ran}");
    assert!(ran.stderr.contains("rank 0 was killed: the job's memory on node "), "{ran}");
}

#[test]
fn pids_limit_of_a_users_job_is_enforced() {
    let Some(machine) = Machine::up("hostile-pids", 1, 2, &["--pids-max", "24"]) else { return };
    let mut job = machine.start(0, &["run", "-n", "1", "sh", "-c", "echo up; sleep 1000"]);
    job.await_line("up");
    if enforced(&machine, 1)["pids"] != true {
        return skip(Need::Cgroup, "the kernel has no controller of processes for us");
    }
    let many = "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i + 1)); done; echo all";
    let ran = machine.tutti(1, &["run", "-n", "1", "sh", "-c", many]);
    assert!(ran.code() != 0 && ran.stdout.is_empty(), "{ran}");
    assert!(ran.stderr.to_lowercase().contains("fork"), "{ran}");
    await_that("nothing of it is left", || machine.users.processes(machine.uid(1)).is_empty());
    // Nobody else has fewer for it.
    assert_eq!(machine.tutti(1, &["run", "-n", "1", "echo", "more"]).expect_success().stdout, "more\n");
    job.signal(Signal::TERM);
    job.end();
    // A daemon that follows knows it too.
    let said =
        machine.tutti(0, &["submit", "-o", "none", "-n", "1", "sleep", "1000"]).expect_success().stdout;
    let number: u32 = said.split_whitespace().last().and_then(|word| word.parse().ok()).expect("its number");
    await_that("it runs", || enforced(&machine, number)["pids"] == true);
    machine.cluster.replace(0);
    await_that("the next daemon has the job", || enforced(&machine, number)["pids"] == true);
    machine.tutti(0, &["kill", &number.to_string()]).expect_success();
}

#[test]
fn leftovers_of_a_users_job_are_killed_with_it() {
    let Some(machine) = Machine::up("hostile-leftovers", 1, 1, &[]) else { return };
    // Daemons that have left session, environment and parent behind.
    let daemons = "env -i setsid sh -c 'env -i setsid sleep 1000 & env -i setsid sleep 1000 & exit 0'; \
                   env -i setsid -f sleep 1000";
    let script = format!("{daemons}; echo up; exec sleep 1000");
    let uid = machine.uid(0);
    for way in
        ["tutti kill", "tutti kill, and the starter is stopped", "the user kills the starter", "a rank ends"]
    {
        let script = if way == "a rank ends" { format!("{daemons}; echo up") } else { script.clone() };
        let mut job = machine.start(0, &["run", "-n", "1", "sh", "-c", &script]);
        job.await_line("up");
        let part = machine
            .users
            .processes(uid)
            .iter()
            .find_map(|pid| Some(cgroup_of(*pid)?.parent()?.parent()?.to_owned()));
        match way {
            "tutti kill" | "tutti kill, and the starter is stopped" => {
                if way != "tutti kill" {
                    machine.as_user(0, |machine| {
                        kill_process(starter_of(machine, uid), Signal::STOP).expect("it is the user's");
                    });
                }
                let list: Vec<Value> =
                    serde_json::from_str(&machine.tutti(0, &["ps", "--json"]).stdout).expect("JSON");
                machine.tutti(0, &["kill", &list[0]["job"].to_string()]).expect_success();
            }
            "the user kills the starter" => machine.as_user(0, |machine| {
                kill_process(starter_of(machine, uid), Signal::KILL).expect("it is the user's");
            }),
            _ => {}
        }
        job.end();
        // Whose status nobody has taken yet is dead.
        let is_alive = |pid: &Pid| crate::harness::state_of(*pid).is_some_and(|state| state != 'Z');
        await_that(&format!("nothing is left after: {way}"), || {
            !machine.users.processes(uid).iter().any(is_alive)
        });
        if let Some(part) = part {
            await_that("no cgroup is left", || !part.exists());
        }
    }
}
