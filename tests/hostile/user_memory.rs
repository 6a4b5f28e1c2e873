//! Memory of a node that the configuration gives a user's jobs (`memory_per_node`): they have it together, by
//! a cgroup of root's around them.

use std::path::{Path, PathBuf};

use tutti_testkit::{Need, skip};

use crate::Machine;
use crate::harness::{Running, await_that, cgroup_of};

/// More than the limit of [`LIMITED`] in one process, which takes its time with nothing.
const HOG: &str = "head -c 400M /dev/zero | tail -c 300M | wc -c; sleep 1000";
/// Each user may have so much.
const LIMITED: &str = "[limits]\nmemory_per_node = \"200M\"\n";

/// A process that keeps so many MiB, says so and sleeps. It has read them into one buffer before it writes
/// the first byte, and has no other. `tail` would take up to twice as much: a buffer of its own for each
/// piece that a pipe gives it, full or not.
fn keep(mib: u32) -> String {
    format!(
        "exec 3>&1; dd if=/dev/zero bs={mib}M count=1 iflag=fullblock 2>/dev/null \
         | (head -c 1 >/dev/null; echo full >&3; exec sleep 1000)"
    )
}

/// Root's daemons with this configuration. None, with a line, where the kernel limits no memory for us.
fn up(name: &str, text: &str) -> Option<(Machine, PathBuf)> {
    let file = std::env::temp_dir().join(format!("tutti-{name}-{}.toml", std::process::id()));
    std::fs::write(&file, text).expect("a file");
    let more = ["--config", file.to_str().expect("a path"), "--slice", "50"];
    let machine = Machine::up_within_groups(name, 1, 2, &more)?;
    if !tutti_os::cgroup::ability().limits_memory {
        skip(Need::Memory, "the kernel has no controller of memory for us");
        return None;
    }
    Some((machine, file))
}

fn run<'a>(script: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "-n", "1"], more, &["sh", "-c", script]].concat()
}

/// The line that a user reads.
fn line(machine: &Machine, user: usize, limit: &str, place: &str) -> String {
    let uid = machine.uid(user);
    format!(
        "tutti run: rank 0 was killed: the jobs of {uid} on node node0 reached {limit} of memory \
         (memory_per_node): {place}"
    )
}

/// Lines of the front end. By version 1 a shell of the job may say that its child was killed, too, before it
/// is killed itself.
fn ours(errors: &str) -> Vec<&str> {
    errors.lines().filter(|line| line.starts_with("tutti run: ")).collect()
}

#[track_caller]
fn end(job: Running) {
    job.signal(rustix::process::Signal::TERM);
    job.end();
}

#[track_caller]
fn assert_none_left(machine: &Machine) {
    let groups = machine.groups.as_ref().expect("they can be made");
    await_that("no cgroup is left", || groups.jobs_of_both().is_empty() && groups.users().is_empty());
}

#[test]
fn user_memory_limit_kills_the_job_that_wants_more_and_no_other_users() {
    let Some((machine, file)) = up("hostile-user-memory", LIMITED) else { return };
    let mut other = machine.start(1, &run(&keep(150), &[]));
    other.await_line("full");
    assert_eq!(machine.row(1)["enforced"][0][1]["user_memory"], true, "{}", machine.row(1));
    let ran = machine.tutti(0, &run(HOG, &[]));
    let expected = line(&machine, 0, "200 MiB", &format!("[limits] in {}:2", file.display()));
    assert_eq!((ran.code(), ours(&ran.stderr)), (137, vec![expected.as_str()]), "{ran}");
    // A filler is one of the user's jobs, and so is one of many small processes.
    let many =
        "for i in 1 2 3 4 5 6 7 8 9 10; do (head -c 40M /dev/zero; sleep 1000) | tail -c 40M & done; wait";
    for (script, more) in [(HOG, &["--fill"][..]), (many, &[])] {
        let ran = machine.tutti(0, &run(script, more));
        assert_eq!((ran.code(), ours(&ran.stderr)), (137, vec![expected.as_str()]), "{more:?}: {ran}");
    }
    // What the job itself may have is another limit, with its own line.
    let ran = machine.tutti(0, &run(HOG, &["--memory", "64M"]));
    assert!(ran.code() == 137 && ran.stderr.contains("reached 64 MiB (--memory)"), "{ran}");
    assert_eq!(machine.row(1)["state"], "running", "{}", machine.row(1));
    // More than the user may ever have.
    let ran = machine.tutti(0, &run("true", &["--memory", "201M"]));
    let expected = format!(
        "--memory: 201 MiB is more than the 200 MiB that user {} may have on a node: [limits] in {}:2",
        machine.uid(0),
        file.display()
    );
    assert!(ran.code() != 0 && ran.stderr.contains(&expected) && ran.stderr.lines().count() == 1, "{ran}");
    end(other);
    assert_none_left(&machine);
    let _ = std::fs::remove_file(file);
}

/// The parent of a user's process that is a starter.
fn starter_of(machine: &Machine) -> Option<u32> {
    let read = |pid: u32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    machine.users.processes(machine.uid(0)).iter().find_map(|pid| {
        let status = read(pid.as_raw_nonzero().get().cast_unsigned(), "status")?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        (read(parent, "comm")?.trim() == "tutti-starter").then_some(parent)
    })
}

/// The kernel need not take a rank. By version 1 the starter is notified of the limit before, so it may have
/// ended its ranks when it is killed, and have told of that.
#[test]
fn user_memory_limit_is_named_when_the_kernel_kills_the_starter() {
    let Some((machine, file)) = up("hostile-user-starter", LIMITED) else { return };
    for (more, expected) in [
        (&[][..], format!("200 MiB of memory (memory_per_node): [limits] in {}:2", file.display())),
        (&["--memory", "64M"][..], "64 MiB (--memory)".to_owned()),
    ] {
        // By version 2 the memory of the job itself is that of its ranks alone.
        if !more.is_empty() && !Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
            continue;
        }
        let go = machine.users.root().join("go");
        let _ = std::fs::remove_file(&go);
        let script = format!("echo up; until [ -e {} ]; do sleep 0.02; done; {HOG}", go.display());
        let mut job = machine.start(0, &run(&script, more));
        job.await_line("up");
        let starter = starter_of(&machine).expect("the job's starter");
        std::fs::write(format!("/proc/{starter}/oom_score_adj"), "1000").expect("we are root");
        std::fs::write(&go, "").expect("a file");
        let (status, errors) = job.end();
        let expected = match more.is_empty() {
            true => format!("the jobs of {} on node node0 reached {expected}", machine.uid(0)),
            false => format!("the job's memory on node node0 reached {expected}"),
        };
        let ways = ["the starter", "rank 0"].map(|who| format!("tutti run: {who} was killed: {expected}"));
        let said = ours(&errors);
        assert!(
            status == 137 && said.len() == 1 && ways.iter().any(|way| way == said[0]),
            "{more:?}: {status}, {said:?}"
        );
    }
    assert_none_left(&machine);
    let _ = std::fs::remove_file(file);
}

#[test]
fn user_memory_limit_is_of_all_jobs_together_and_a_reload_raises_it() {
    let Some((machine, file)) = up("hostile-user-sum", LIMITED) else { return };
    let mut first = machine.start(0, &run(&keep(140), &["--no-gang"]));
    first.await_line("full");
    // The kernel ends the job with the largest process.
    let mut second = machine.start(0, &run(&keep(180), &["--no-gang"]));
    let place = format!("[limits] in {}:2", file.display());
    let (status, errors) = first.end();
    let expected = line(&machine, 0, "200 MiB", &place);
    assert_eq!((status, ours(&errors)), (137, vec![expected.as_str()]));
    second.await_line("full");
    std::fs::write(&file, LIMITED.replace("200M", "500M")).expect("a file");
    machine.cluster.tutti(&["reload"]).expect_success();
    let mut third = machine.start(0, &run(&keep(140), &["--no-gang"]));
    third.await_line("full");
    // Lowered it ends no job.
    std::fs::write(&file, LIMITED.replace("200M", "100M")).expect("a file");
    machine.cluster.tutti(&["reload"]).expect_success();
    let mut fourth = machine.start(0, &run(&keep(20), &["--no-gang"]));
    fourth.await_line("full");
    assert!([2, 3, 4].iter().all(|job| machine.row(*job)["state"] == "running"));
    [second, third].into_iter().for_each(end);
    // And holds as soon as they have less.
    let ran = machine.tutti(0, &run(HOG, &["--no-gang"]));
    let expected = line(&machine, 0, "100 MiB", &place);
    assert_eq!((ran.code(), ours(&ran.stderr)), (137, vec![expected.as_str()]), "{ran}");
    assert_eq!(machine.row(4)["state"], "running");
    end(fourth);
    assert_none_left(&machine);
    let _ = std::fs::remove_file(file);
}

/// The group of version 1 or 2 of a user that has the limit.
fn limited_group(machine: &Machine) -> (PathBuf, &'static str) {
    let groups = machine.groups.as_ref().expect("they can be made").users();
    let find =
        |file: &'static str| Some((groups.iter().find(|path| path.join(file).exists())?.clone(), file));
    find("memory.max").or_else(|| find("memory.limit_in_bytes")).expect("it is limited")
}

fn number(path: &Path, file: &str) -> u64 {
    std::fs::read_to_string(path.join(file)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn user_memory_limit_cannot_be_raised_or_left_by_the_user() {
    let Some((machine, file)) = up("hostile-user-raise", LIMITED) else { return };
    let mut first = machine.start(0, &run("echo up; sleep 1000", &["--no-gang"]));
    first.await_line("up");
    let pids = machine.users.processes(machine.uid(0));
    let ranks = pids.iter().find_map(|pid| cgroup_of(*pid)).expect("a rank");
    let (group, limit) = limited_group(&machine);
    let around = group.parent().expect("the daemon's").to_owned();
    // From another job of the same user, and from outside: into the other job, up, and at the limit.
    let script = format!(
        "for d in {} {} {}; do for f in cgroup.procs tasks; do echo $$ > $d/$f && echo moved to $d; done; \
         for f in {limit} memory.swap.max memory.memsw.limit_in_bytes memory.oom.group memory.oom_control; do \
         echo 1 > $d/$f && echo wrote $d/$f; done; mkdir $d/mine && echo made in $d; rmdir $d/* && echo gone; \
         done; exit 0",
        ranks.display(),
        group.display(),
        around.display()
    );
    let ran = machine.tutti(0, &run(&script, &["--no-gang"]));
    assert_eq!((ran.code(), ran.stdout.as_str()), (0, ""), "{ran}");
    let ran = tutti_tests::run(&mut machine.script(0, &script), tutti_tests::LIMIT);
    assert_eq!(ran.stdout, "", "{ran}");
    assert_eq!(number(&group, limit), 200 << 20);
    end(first);
    assert_none_left(&machine);
    let _ = std::fs::remove_file(file);
}

#[test]
fn user_memory_limit_is_lowered_while_a_job_has_files_in_the_cache() {
    let Some((machine, file)) = up("hostile-user-cache", LIMITED) else { return };
    // The file's memory is the job's, and the kernel can have it back: it is on disk.
    let written = machine.users.root().join("written");
    std::fs::write(&written, "").expect("a file");
    std::os::unix::fs::chown(&written, Some(machine.uid(0)), None).expect("it is ours");
    let script = format!(
        "dd if=/dev/zero of={} bs=1M count=120 conv=fsync 2>/dev/null; echo written; sleep 1000",
        written.display()
    );
    let mut job = machine.start(0, &run(&script, &["--no-gang"]));
    job.await_line("written");
    let (group, limit) = limited_group(&machine);
    assert_eq!(number(&group, limit), 200 << 20);
    std::fs::write(&file, LIMITED.replace("200M", "60M")).expect("a file");
    machine.cluster.tutti(&["reload"]).expect_success();
    await_that("the limit is the lower one", || number(&group, limit) == 60 << 20);
    assert_eq!(machine.row(1)["state"], "running", "{}", machine.row(1));
    end(job);
    assert_none_left(&machine);
    let _ = std::fs::remove_file(file);
}

#[test]
fn user_memory_limit_stays_when_the_daemon_is_killed_and_its_group_goes_with_the_last_job() {
    let Some((machine, file)) = up("hostile-user-killed", LIMITED) else { return };
    let said =
        machine.tutti(0, &["submit", "-o", "none", "-n", "1", "sleep", "1000"]).expect_success().stdout;
    let job: u32 = said.split_whitespace().last().and_then(|word| word.parse().ok()).expect("its number");
    machine.await_state(job, "running");
    let gone = machine.cluster.kill_daemon(0);
    let (group, limit) = limited_group(&machine);
    assert_eq!(number(&group, limit), 200 << 20);
    // What holds when the next one begins is another limit.
    std::fs::write(&file, LIMITED.replace("200M", "300M")).expect("a file");
    gone.start();
    await_that("the next daemon has the job", || machine.row(job)["enforced"][0][1]["user_memory"] == true);
    await_that("the limit is that of the file", || number(&group, limit) == 300 << 20);
    machine.tutti(0, &["kill", &job.to_string()]).expect_success();
    assert_none_left(&machine);
    // Daemon and job die together: the next daemon sweeps.
    machine.tutti(0, &["submit", "-o", "none", "-n", "1", "sleep", "1000"]).expect_success();
    machine.await_state(job + 1, "running");
    let gone = machine.cluster.kill_daemon(0);
    for pid in machine.users.processes(machine.uid(0)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    gone.start();
    assert_none_left(&machine);
    let _ = std::fs::remove_file(file);
}

#[test]
fn user_memory_limit_that_is_not_held_for_another_cause_has_that_cause_in_the_log() {
    let Some((machine, file)) = up("hostile-user-cause", LIMITED) else { return };
    // As where a container's manager allows no more cgroups.
    let groups = machine.groups.as_ref().expect("they can be made");
    std::fs::write(groups.of_daemons().join("cgroup.max.descendants"), "0").expect("it is ours");
    for _ in 0..2 {
        machine.tutti(0, &run("true", &[])).expect_success();
    }
    let log = std::fs::read_to_string(machine.cluster.folder.join("node0.log")).expect("its log");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("memory_per_node")).collect();
    let expected = format!(
        "memory_per_node is not held here: cannot make the cgroup of its user: Resource temporarily \
         unavailable ([limits] in {}:2)",
        file.display()
    );
    assert!(lines.len() == 1 && lines[0].contains(&expected), "{log}");
    let _ = std::fs::remove_file(file);
}

#[test]
fn user_memory_limit_that_no_kernel_holds_is_named_once_by_the_node() {
    // A daemon that is not root's has no cgroups for jobs.
    let Some(users) = tutti_tests::users::Users::new("hostile-user-unheld", 1) else { return };
    let uid = users.uids()[0];
    let file = users.root().join("limits.toml");
    std::fs::write(&file, LIMITED).expect("a file");
    let folder = users.root().join("own");
    let words = |words: &[&str]| {
        let mut command = users.command(uid, "tutti", words);
        command.env("TUTTI_DIR", &folder).env("HOME", users.root()).env_remove("TUTTI_DAEMON");
        tutti_tests::run(&mut command, tutti_tests::LIMIT)
    };
    std::fs::create_dir(&folder).expect("a folder");
    std::os::unix::fs::chown(&folder, Some(uid), Some(uid)).expect("it is ours");
    words(&["up", "--config", file.to_str().expect("a path")]).expect_success();
    for _ in 0..2 {
        words(&["run", "-n", "1", "true"]).expect_success();
    }
    let log = std::fs::read_to_string(folder.join("node0.log")).expect("its log");
    words(&["down"]).expect_success();
    let expected = format!(
        "memory_per_node is not held here: the daemon is not root's ([limits] in {}:2)",
        file.display()
    );
    assert_eq!(log.lines().filter(|line| line.contains(&expected)).count(), 1, "{log}");
}
