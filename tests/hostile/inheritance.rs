//! Inheritance of a user's job: from the session that submits it, and nothing from the daemon that starts it.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal};
use serde_json::json;
use tutti_tests::{LIMIT, await_that, run};

use crate::Machine;
use crate::harness::Running;

/// In place of a starter: an escape, then 100 MiB of lines on standard error, as far as they are read.
const FLOOD: &str = r#"trap '' PIPE
printf 'a\033[2Jb\n' >&2
yes 'to the log' 2>/dev/null | head -c 104857600 >&2 2>/dev/null
exec "$starter" "$@""#;

/// The log of the controller's daemon.
fn log(machine: &Machine) -> PathBuf {
    machine.cluster.folder.join("node0.log")
}

/// A job of the second user's, in a directory below the first one's home.
#[test]
fn job_directory_below_another_users_home_is_refused_and_nothing_is_read() {
    let Some(machine) = Machine::up("hostile-directory", 1, 2, &[]) else { return };
    let inner = machine.users.folder(machine.uid(0)).join("inner");
    let make = "umask 022; mkdir inner; echo secret > inner/file; chmod 700 .";
    assert!(run(&mut machine.script(0, make), LIMIT).status.success());
    let copy = machine.users.folder(machine.uid(1)).join("copy");
    let mut request = machine.request(1, &["submit", "-n", "1", "cp", "file", &copy.display().to_string()]);
    request["Submit"]["directory"] = json!(inner);
    let (_stream, answer) = machine.ask(1, &request);
    let job = answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}")) as u32;
    machine.await_state(job, "over");
    assert!(!copy.exists(), "a file below another user's home was read");
    let uid = machine.uid(1);
    // The writer of the job's output is there first.
    let cause = format!(
        "cannot enter the directory {} as user {uid}: Permission denied (os error 13); the job is ended",
        inner.display()
    );
    assert_eq!(machine.row(job)["cause"], json!(cause));
    // Its owner's job runs there.
    request["Submit"]["job"]["programs"][0]["arguments"] = json!(["cp", "file", "copy"]);
    let (_stream, answer) = machine.ask(0, &request);
    machine.await_state(answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}")) as u32, "over");
    assert!(inner.join("copy").exists());
}

#[test]
fn job_limits_are_those_of_the_session_on_every_node() {
    let Some(machine) = Machine::up("hostile-limits", 2, 1, &[]) else { return };
    let seen = "ulimit -S -n; ulimit -H -n; ulimit -c; ulimit -S -s; cut -d' ' -f19 /proc/self/stat; \
                grep -E 'NoNewPrivs|Cpus_allowed_list' /proc/self/status; cat /proc/self/oom_score_adj; umask";
    let session = "ulimit -S -n 600; ulimit -H -n 700; ulimit -c 0; ulimit -S -s 4096; umask 0027; \
                   echo 300 > /proc/self/oom_score_adj; exec nice -n 3 setpriv --no-new-privs taskset -c 0 ";
    let here = run(&mut machine.script(0, &format!("{session} sh -c \"{seen}\"")), LIMIT).expect_success();
    let script = format!("{session} $tutti run -N 2 -n 2 --bind-to none sh -c \"{seen}\"");
    let ran = run(&mut machine.script(0, &script), LIMIT).expect_success();
    let (mut wanted, mut found): (Vec<&str>, Vec<&str>) =
        (here.stdout.lines().chain(here.stdout.lines()).collect(), ran.stdout.lines().collect());
    assert!(here.stdout.starts_with("600\n700\n0\n4096\n"), "{here}");
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, wanted, "{ran}");
    // Who says it in the request himself is not asked.
    let mut request = machine.request(0, &["submit", "-n", "1", "sh", "-c", "ulimit -n > limit"]);
    let unlimited = vec![json!([u64::MAX, u64::MAX]); 16];
    request["Submit"]["session"] = json!({
        "limits": unlimited, "nice": -20, "policy": 0, "io_priority": 0, "oom_score_adjustment": -1000,
        "no_new_privileges": false, "bounding": u64::MAX, "cores": "0", "machine": "",
    });
    let (_stream, answer) = machine.ask(0, &request);
    machine.await_state(answer["Job"].as_u64().unwrap_or_else(|| panic!("{answer}")) as u32, "over");
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let said = std::fs::read_to_string(machine.users.folder(machine.uid(0)).join("limit")).expect("it ran");
    assert_eq!(said.trim().parse().ok(), own, "that of this process, which has asked");
}

/// Both nodes refuse it, and each would say so.
#[test]
fn job_without_room_in_its_limits_ends_with_one_line() {
    let Some(machine) = Machine::up("hostile-few", 2, 1, &[]) else { return };
    for _ in 0..20 {
        let script = "ulimit -n 60; exec $tutti run -N 2 -n 2 true";
        machine.users.refused(&mut machine.script(0, script), "1 ranks need ");
    }
}

/// Ranks that share the machine with others are bound to the cores of their slots, unless their session has
/// no such core.
#[test]
fn job_keeps_to_the_cores_of_its_session_beside_others() {
    let cores = rustix::thread::sched_getaffinity(None).expect("cores");
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).collect();
    let Some(last) = cores.get(1..).and_then(<[usize]>::last) else {
        return tutti_testkit::skip(tutti_testkit::Need::Cores, "one core is every core");
    };
    let Some(machine) = Machine::up("hostile-cores", 1, 1, &[]) else { return };
    let mut taskset = std::process::Command::new("taskset");
    taskset.args(["-c", &last.to_string()]).arg(machine.users.programs().join("bin/tutti"));
    taskset.args(["run", "-n", "1", "sh", "-c", "while :; do :; done"]);
    let bound = Running::start_command(taskset.env("TUTTI_DAEMON", machine.socket()));
    machine.await_state(1, "running");
    let all = cores.len().to_string();
    let beside = machine.cluster.start(&["run", "-n", &all, "sh", "-c", "while :; do :; done"]);
    await_that("it has had turns", || machine.row(1)["turns"].as_u64().is_some_and(|turns| turns > 0));
    let rank = machine.row(1)["pids"][0][1][0].as_i64().and_then(|pid| Pid::from_raw(pid as i32));
    let now = rustix::thread::sched_getaffinity(rank).expect("it runs");
    assert!((0..rustix::thread::CpuSet::MAX_CPU).filter(|core| now.is_set(*core)).eq([*last]));
    for job in [bound, beside] {
        job.signal(Signal::TERM);
        assert_eq!(job.end().0, 143);
    }
}

#[test]
fn job_has_no_descriptor_of_the_daemons() {
    // What root's shell had open when the daemons were started.
    let secret = std::env::temp_dir().join(format!("hostile-secret-{}", std::process::id()));
    std::fs::write(&secret, "secret").expect("a file");
    let open = File::open(&secret).expect("it is ours");
    fcntl_setfd(&open, FdFlags::empty()).expect("it is ours");
    let machine = Machine::up("hostile-descriptors", 1, 1, &[]);
    let _ = std::fs::remove_file(&secret);
    drop(open);
    let Some(machine) = machine else { return };
    let script = "for fd in /proc/$$/fd/* /proc/$PPID/fd/*; do echo $fd $(readlink $fd); done; echo $PMI_FD";
    let ran = machine.tutti(0, &["run", "-n", "1", "sh", "-c", script]).expect_success();
    assert!(!ran.stdout.contains("hostile-secret") && !ran.stdout.contains("node0.log"), "{ran}");
    // The starter's stderr.
    assert!(ran.stdout.lines().any(|line| line.contains("/fd/2 pipe:")), "{ran}");
    let script = "for n in $(seq 0 99); do [ -e /proc/$$/fd/$n ] && echo $n; done; echo $PMI_FD";
    let of_rank = machine.tutti(0, &["run", "-n", "1", "sh", "-c", script]).expect_success();
    let mut numbers: Vec<&str> = of_rank.stdout.lines().collect();
    let mut wanted = vec!["0", "1", "2", numbers.pop().unwrap_or_default()];
    numbers.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(numbers, wanted, "{of_rank}");
}

#[test]
fn job_has_a_session_keyring_of_its_own() {
    let Some(machine) = Machine::up("hostile-keyring", 1, 1, &[]) else { return };
    let keyrings = || {
        let ran = machine.tutti(0, &["run", "-n", "1", "cat", "/proc/keys"]).expect_success();
        let lines = ran.stdout.lines().filter(|line| line.contains(" _ses"));
        lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    // It may also see that of its user's last job, which goes a little later than that.
    let (one, other) = (keyrings(), keyrings());
    assert!(!one.is_empty() && !other.is_subset(&one), "{one:?}, {other:?}");
}

#[test]
fn starter_that_floods_its_stderr_does_not_fill_the_daemons_log() {
    let Some(machine) = Machine::up_with_starter("hostile-stderr", FLOOD) else { return };
    let before = log(&machine).metadata().expect("a log").len();
    machine.tutti(0, &["run", "-n", "1", "true"]).expect_success();
    let uid = machine.uid(0);
    let said = format!("the starter of job 1 of user {uid}: ");
    let text = || std::fs::read_to_string(log(&machine)).expect("a log of text");
    await_that("the end of it is said", || {
        text().contains(&format!("{said}it has written 1 MiB on standard"))
    });
    let text = text();
    assert!(
        text.contains(&format!("{said}a\\u{{1b}}[2Jb\n")) && text.contains(&format!("{said}to the log\n"))
    );
    assert!((text.len() as u64) < before + (512 << 10), "{} bytes", text.len());
    // The log of a daemon is written at its end, whatever somebody else does with the file.
    let flags = |pid: Pid| {
        let text =
            std::fs::read_to_string(format!("/proc/{}/fdinfo/2", pid.as_raw_nonzero())).expect("stderr");
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        u32::from_str_radix(flags.trim(), 8).expect("octal")
    };
    assert_ne!(flags(machine.daemon(0)) & rustix::fs::OFlags::APPEND.bits(), 0);
    assert_eq!(log(&machine).metadata().expect("a log").permissions().mode() & 0o077, 0, "root's alone");
}
