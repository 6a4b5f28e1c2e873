//! From one release to the next: nodes are replaced one after the other while jobs run, and nothing is lost.
//!
//! `make test-upgrade` builds what is needed and says where it is: the last release's tree
//! (`TUTTI_UPGRADE_LAST`, its number in `TUTTI_UPGRADE_LAST_RELEASE`) and that of this source with a kind of
//! message and a field more (`TUTTI_UPGRADE_NEXT`).
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

#[path = "../cluster/cluster.rs"]
#[allow(dead_code)]
mod cluster;
#[path = "../launch/harness.rs"]
#[allow(dead_code)]
mod harness;

use std::path::{Path, PathBuf};
use std::process::Command;

use tutti_tests::{LIMIT, Scratch, await_that, dist, root, run};

use cluster::{Cluster, SLOWLY_LOST};

/// Nodes of a cluster that is upgraded, and jobs that run meanwhile.
const NODES: u32 = 5;
const JOBS: usize = 20;

/// A tree that `make test-upgrade` has built.
#[track_caller]
fn tree(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .unwrap_or_else(|| panic!("{variable}: run make test-upgrade"))
}

/// The first release that speaks with those before and behind it is 0.2.0.
fn speaks(release: &str) -> bool {
    release != "0.1.0"
}

fn this_release() -> String {
    let said = run(Command::new(dist().join("bin/tutti")).arg("--version"), LIMIT).expect_success().stdout;
    said.split_whitespace().last().expect("its release").to_owned()
}

/// Compiled by the wrapper of one of the trees, so that its ranks have the library of that one.
fn compile(tree: &Path, source: &str, folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let mut compiler = Command::new(tree.join("bin/mpicc"));
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-D_DEFAULT_SOURCE", "-o"]).arg(&program);
    run(compiler.arg(root().join("tests/upgrade/programs").join(source)), LIMIT).expect_success();
    program
}

/// Where the machine lets us, each node has a network namespace.
fn apart() -> Vec<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    [&SLOWLY_LOST[..], &["--slots", "4"], if is_root { &["--netns"] } else { &[] }].concat()
}

fn log(cluster: &Cluster, node: u32) -> String {
    std::fs::read_to_string(cluster.folder.join(format!("node{node}.log"))).expect("its log")
}

/// Rows of a command that answers with JSON, on a node.
#[track_caller]
fn rows(cluster: &Cluster, node: u32, words: &[&str]) -> Vec<serde_json::Value> {
    let ran = run(&mut cluster.command_on(node, words), LIMIT).expect_success();
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"))
}

/// All nodes are there, by the controller's word.
#[track_caller]
fn await_nodes(cluster: &Cluster) {
    await_that("all nodes are up", || {
        let ran = run(&mut cluster.command(&["nodes", "--json"]), LIMIT);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap_or_default();
        rows.len() == NODES as usize && rows.iter().all(|row| row["alive"] == true)
    });
}

/// Jobs that run until they may end, some over two nodes and some over three.
struct Jobs {
    numbers: Vec<String>,
    go: PathBuf,
}

impl Jobs {
    fn start(cluster: &Cluster, programs: &[PathBuf], scratch: &Path, count: usize) -> Self {
        let go = scratch.join("over");
        let submit = |index: usize| {
            let origin = index as u32 % NODES;
            let size = if index.is_multiple_of(3) { "3" } else { "2" };
            let mut command = cluster.command_on(origin, &["submit", "-N", size, "-n", size, "-o"]);
            command.arg(scratch.join(format!("out-{index}"))).arg(&programs[index % programs.len()]).arg(&go);
            let said = run(&mut command, LIMIT).expect_success().stdout;
            said.split_whitespace().last().expect("its number").to_owned()
        };
        let jobs = Jobs { numbers: (0..count).map(submit).collect(), go };
        for index in 0..count {
            let file = scratch.join(format!("out-{index}"));
            await_that("the job's ranks go", || {
                std::fs::read_to_string(&file).is_ok_and(|text| text.contains("rank 0 goes\n"))
            });
        }
        jobs
    }

    /// By any node's word.
    #[track_caller]
    fn assert_run(&self, cluster: &Cluster, node: u32) {
        let rows = rows(cluster, node, &["ps", "--json"]);
        for number in &self.numbers {
            let row = rows.iter().find(|row| row["job"].as_u64() == number.parse().ok());
            assert_eq!(row.map(|row| &row["state"]), Some(&"running".into()), "job {number}: {rows:?}");
        }
    }

    #[track_caller]
    fn end(self, cluster: &Cluster, scratch: &Path) {
        std::fs::write(&self.go, "").expect("a file");
        for (index, number) in self.numbers.iter().enumerate() {
            let ran = run(&mut cluster.command_on(index as u32 % NODES, &["wait", number]), LIMIT);
            let status = cluster.job(number.parse().expect("a number"));
            assert_eq!(ran.code(), 0, "job {number}: {ran}: {status}");
            let size = if index.is_multiple_of(3) { 3 } else { 2 };
            let text = std::fs::read_to_string(scratch.join(format!("out-{index}"))).expect("its output");
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            let mut expected: Vec<String> =
                (0..size).flat_map(|rank| ["goes", "ok"].map(|word| format!("rank {rank} {word}"))).collect();
            expected.sort_unstable();
            assert_eq!(lines, expected, "job {number}");
        }
    }
}

/// Replaces the daemons of a cluster in this order while jobs run; on every mixture of nodes new jobs are
/// started too, by either release's command.
fn upgrade(name: &str, old: &Path, new: &Path, order: [u32; NODES as usize]) {
    let scratch = Scratch::new(name);
    let folder = scratch.path();
    let programs = [compile(old, "steps.c", folder, "old"), compile(new, "steps.c", folder, "new")];
    let cluster = Cluster::up_at(folder.join("cluster"), old.to_owned(), NODES, &apart());
    await_nodes(&cluster);
    let jobs = Jobs::start(&cluster, &programs, folder, JOBS);
    for node in order {
        cluster.kill_daemon(node).with_program(new.join("bin/tuttid")).start();
        await_nodes(&cluster);
        jobs.assert_run(&cluster, node);
        jobs.assert_run(&cluster, (node + 1) % NODES);
        let over = folder.join("cluster");
        for (tree, from) in [(old, node), (new, (node + 2) % NODES)] {
            for program in &programs {
                // The file is there: it ends after its first step.
                let mut command = Command::new(tree.join("bin/tutti"));
                let socket = if from == 0 { "tuttid.sock".into() } else { format!("node{from}.sock") };
                command.env("TUTTI_DIR", &over).env("TUTTI_DAEMON", over.join(socket));
                command.args(["run", "-N", "5", "-n", "5"]).arg(program).arg(&over);
                let ran = run(&mut command, LIMIT).expect_success();
                assert_eq!(ran.stdout.matches(" ok\n").count(), 5, "{ran}");
            }
        }
    }
    jobs.assert_run(&cluster, 0);
    jobs.end(&cluster, folder);
    for node in 0..NODES {
        let log = log(&cluster, node);
        assert!(!log.contains("invalid message") && !log.contains("refused"), "{node}: {log}");
    }
}

#[test]
#[ignore = "builds other releases: make test-upgrade"]
fn upgrade_to_a_release_with_a_kind_of_message_more_loses_no_job() {
    upgrade("upgrade-next", &dist(), &tree("TUTTI_UPGRADE_NEXT"), [3, 0, 1, 4, 2]);
}

#[test]
#[ignore = "builds other releases: make test-upgrade"]
fn upgrade_from_the_last_release_loses_no_job() {
    let release = std::env::var("TUTTI_UPGRADE_LAST_RELEASE").unwrap_or_default();
    if !speaks(&release) {
        return println!("from release {release}: refused, see the other test");
    }
    upgrade("upgrade-last", &tree("TUTTI_UPGRADE_LAST"), &dist(), [1, 4, 0, 2, 3]);
}

#[test]
#[ignore = "builds other releases: make test-upgrade"]
fn upgrade_from_a_release_that_does_not_speak_is_refused_with_one_line() {
    let release = std::env::var("TUTTI_UPGRADE_LAST_RELEASE").unwrap_or_default();
    if speaks(&release) {
        return println!("from release {release}: goes on, see the other test");
    }
    let (old, new, this) = (tree("TUTTI_UPGRADE_LAST"), dist(), this_release());
    let names_both = |line: &&str| line.contains(&format!("release {release}")) && line.contains(&this);
    // An older daemon in the place of one of this release's: it ends, and both sides say why.
    let scratch = Scratch::new("upgrade-refused");
    let cluster = Cluster::up_at(scratch.path().join("cluster"), new.clone(), 2, &[]);
    let (mut daemon, _namespace) = cluster.kill_daemon(1).with_program(old.join("bin/tuttid")).spawn();
    let status = daemon.wait().expect("our child");
    assert_eq!(status.code(), Some(1), "{}", log(&cluster, 1));
    let (here, there) = (log(&cluster, 0), log(&cluster, 1));
    assert_eq!(here.lines().filter(names_both).count(), 1, "{here}");
    let said: Vec<&str> = there.lines().filter(names_both).collect();
    assert!(said.iter().all(|line| line.contains("the controller refuses this node")), "{there}");
    assert!(!said.is_empty(), "{there}");
    drop(cluster);
    // One of this release in the place of an older one: it says why, and tries again.
    let cluster = Cluster::up_at(scratch.path().join("older"), old, 2, &[]);
    let (mut daemon, _namespace) = cluster.kill_daemon(1).with_program(new.join("bin/tuttid")).spawn();
    await_that("the line that names both", || log(&cluster, 1).lines().any(|line| names_both(&line)));
    let _ = daemon.kill();
    daemon.wait().expect("our child");
    let there = log(&cluster, 1);
    assert_eq!(there.lines().filter(names_both).count(), 1, "{there}");
    let here = log(&cluster, 0);
    assert!(here.lines().any(|line| line.contains("is not a member of this cluster")), "{here}");
}
