//! Answers that front ends get about daemons that are gone or stopped, and the end of what nobody waits for
//! any more.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, kill_process};
use tutti_os::stat::Stat;
use tutti_testkit::cgroup::Cgroup;
use tutti_testkit::{Need, skip};
use tutti_tests::Scratch;

use crate::Cluster;
use crate::harness::{LIMIT, RANK, Running, await_that};

/// A front end on a node whose stderr can be read while it lives.
pub struct Said {
    job: Running,
    file: PathBuf,
    _scratch: Scratch,
}

impl Said {
    /// Starts one; the name is that of a folder for its stderr.
    #[track_caller]
    pub fn start(cluster: &Cluster, node: u32, name: &str, words: &[&str]) -> Self {
        let scratch = Scratch::new(&format!("{name}-said"));
        let file = scratch.path().join("stderr");
        let front = cluster.command_on(node, words);
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec \"$@\" 2>\"$0\""]).arg(&file).arg(front.get_program()).args(front.get_args());
        shell.envs(front.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Said { job: Running::start_command(&mut shell), file, _scratch: scratch }
    }

    /// Waits until stderr has this text.
    #[track_caller]
    pub fn await_said(&self, text: &str) {
        await_that(text, || self.read().contains(text));
    }

    /// Text of stderr until now.
    fn read(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap_or_default()
    }

    /// Waits for the end; gives the status, stderr and the lines of stdout.
    #[track_caller]
    pub fn end(self) -> (i32, String, Vec<String>) {
        let (status, _, lines) = self.job.end_with_output();
        (status, std::fs::read_to_string(&self.file).unwrap_or_default(), lines)
    }
}

/// Jobs of the cluster. A table of them has those of other users of this machine too.
#[track_caller]
fn own_jobs(cluster: &Cluster) -> Vec<u64> {
    let text = cluster.tutti(&["ps", "--all", "--json"]).expect_success().stdout;
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let jobs = rows.as_array().expect("a list").iter();
    jobs.map(|row| row["job"].as_u64().expect("a number")).collect()
}

#[test]
fn front_end_reports_controller_lost_and_back_once() {
    let cluster = Cluster::up("cluster-told", 2, &["--lost-after", "6"]);
    let words = ["run", "-N", "1", "-host", "node1", "-n", "1", RANK, "hang"];
    let front = Said::start(&cluster, 1, "cluster-told", &words);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let head = cluster.kill_daemon(0);
    front.await_said("node1 has had no message from the controller for ");
    head.start();
    front.await_said("node1 is connected to the controller again");
    await_that("the controller knows it", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["kill", "1"]).expect_success();
    let said = front.read();
    assert_eq!(front.job.end().0, 137);
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn front_end_reports_its_stopped_daemon() {
    let cluster = Cluster::up("cluster-stopped", 2, &["--lost-after", "30"]);
    let words = ["run", "-N", "1", "-host", "node0", "-n", "1", RANK, "hang"];
    let front = Said::start(&cluster, 1, "cluster-stopped", &words);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let daemon = cluster.daemon(1);
    kill_process(daemon, Signal::STOP).expect("it lives");
    let pid = daemon.as_raw_nonzero();
    front.await_said(&format!("tutti run: the daemon (pid {pid}) is stopped: "));
    kill_process(daemon, Signal::CONT).expect("it lives");
    cluster.tutti(&["kill", "1"]).expect_success();
    let said = front.read();
    assert_eq!(front.job.end().0, 137);
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn front_end_given_up_without_controller_gets_no_job() {
    let cluster = Cluster::up("cluster-given-up", 2, &["--lost-after", "3"]);
    let head = cluster.kill_daemon(0);
    let front = Said::start(&cluster, 1, "cluster-given-up", &["run", "-n", "1", RANK, "hang"]);
    front.await_said("tutti run: node1 waits for the controller, ");
    front.job.signal(Signal::INT);
    assert_ne!(front.job.end().0, 0);
    head.start();
    let asked = Running::start_command(&mut cluster.command_on(1, &["run", "-n", "1", "true"]));
    let ended = asked.end();
    assert_eq!(ended.0, 0, "{}", ended.1);
    // A controller that is new waits for what its nodes know of what they have asked before, twice as long as
    // for a node. A duration is what is tested: no request that was given up may come in it.
    std::thread::sleep(Duration::from_secs(8));
    let jobs = own_jobs(&cluster);
    assert_eq!(jobs.len(), 1, "{jobs:?}");
}

#[test]
fn logs_name_the_cause_of_the_end() {
    let cluster = Cluster::up("cluster-why", 2, &[]);
    let submit = |words: &[&str]| {
        cluster.tutti(&[&["submit", "-n", "1"], words].concat()).expect_success();
    };
    submit(&["sh", "-c", "echo here; exit 3"]);
    submit(&[RANK, "hang"]);
    submit(&["echo", "well"]);
    await_that("it runs", || cluster.job(2).contains("\"running\""));
    cluster.tutti(&["kill", "2"]).expect_success();
    await_that("all are over", || (1..=3).all(|job| cluster.job(job).contains("\"over\"")));
    let logs = |job: &str, node| tutti_tests::run(&mut cluster.command_on(node, &["logs", job]), LIMIT);
    for node in [0, 1] {
        let ran = logs("1", node).expect_success();
        let why = ran.stderr.strip_prefix("tutti logs: job 1 has ended with status 3: rank 0 (pid ");
        assert!(
            ran.stdout == "here\n" && why.is_some_and(|why| why.ends_with(") exited with status 3\n")),
            "{ran}"
        );
        let killed = "tutti logs: job 2 has ended with status 137: it was killed by root\n";
        assert_eq!(logs("2", node).expect_success().stderr, killed);
        let ran = logs("3", node).expect_success();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("well\n", ""));
    }
}

#[test]
fn submit_is_refused_where_it_cannot_be_stored() {
    let cluster = Cluster::up("cluster-full", 2, &[]);
    let submit = |node, words: &[&str]| {
        tutti_tests::run(&mut cluster.command_on(node, &[&["submit", "-n", "1"], words].concat()), LIMIT)
    };
    // What is in the way of the first file.
    let new = cluster.folder.join("node0.queue/1.jobs");
    std::fs::create_dir(&new).expect("a folder");
    for node in [0, 1] {
        let ran = submit(node, &["true"]);
        assert_eq!((ran.code(), ran.stdout.as_str(), ran.stderr.lines().count()), (1, "", 1), "{ran}");
        assert!(
            ran.stderr.starts_with("tutti submit: the controller cannot keep the job: cannot write "),
            "{ran}"
        );
    }
    assert!(own_jobs(&cluster).is_empty());
    // Who waits for his job sees what becomes of it.
    cluster.run(&["run", "-N", "2", "-n", "2", RANK, "exchange"]).expect_success();
    std::fs::remove_dir(&new).expect("it is empty");
    assert!(submit(1, &["true"]).expect_success().stdout.starts_with("job "));
}

/// The daemon continues a front end when somebody resumes its job. What the front end does then comes late,
/// at worst after another suspend: that one stays.
#[test]
fn front_end_that_is_continued_late_does_not_undo_a_suspend() {
    let cluster = Cluster::up("cluster-late-continue", 1, &[]);
    let front = cluster.start(&["run", "-n", "1", "sh", "-c", "while :; do :; done"]);
    let is = |state: &str| cluster.job(1).contains(&format!("\"state\": \"{state}\""));
    await_that("it runs", || is("running"));
    let pid = front.pid();
    let Some(group) = Cgroup::hold(pid.as_raw_nonzero().get()) else {
        skip(Need::Cgroup, "no cgroup can be made here");
        return;
    };
    let state = || Stat::of(pid).expect("it lives");
    cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("it has stopped itself", || state().is_stopped());
    group.set_frozen(true);
    cluster.tutti(&["resume", "1"]).expect_success();
    await_that("it runs again", || is("running"));
    cluster.tutti(&["suspend", "1"]).expect_success();
    group.set_frozen(false);
    let continued = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status", pid = pid.as_raw_nonzero()));
        let status = status.expect("it lives");
        let masks = status.lines().filter_map(|line| line.strip_prefix("ShdPnd:"));
        let pending = |mask: &str| u64::from_str_radix(mask.trim(), 16).expect("a mask");
        masks.map(pending).all(|mask| mask & (1 << (Signal::CONT.as_raw() - 1)) == 0)
    };
    await_that("it has read SIGCONT", continued);
    // A request that it must not make would need a moment to take effect.
    for _ in 0..40 {
        assert!(is("suspended"), "{}", cluster.job(1));
    }
    // What the user says holds.
    kill_process(pid, Signal::CONT).expect("it lives");
    await_that("the user has resumed it", || is("running"));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(front.end().0, 137);
}
