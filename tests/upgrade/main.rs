//! From one release to the next: nodes are replaced one after the other while jobs run, and nothing is lost.
//!
//! `make test-upgrade` builds what is needed and says where it is: the last release's tree
//! (`TUTTI_UPGRADE_LAST`, its number in `TUTTI_UPGRADE_LAST_RELEASE`) and that of this source with a kind of
//! message and a field more (`TUTTI_UPGRADE_NEXT`).
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tutti_testkit::lab::Lab;
use tutti_tests::machines::Machines;
use tutti_tests::{LIMIT, Scratch, await_that, comes_true, dist, root, run};

/// Machines of a cluster that is upgraded, and jobs that run meanwhile.
const NODES: u32 = 5;
const JOBS: usize = 20;
/// On a crowded machine a daemon may need seconds to come back.
const OPTIONS: [&str; 4] = ["--lost-after", "12", "--slots", "4"];
/// A job over all machines beside twenty others.
const JOB_LIMIT: Duration = Duration::from_secs(60);

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

/// A cluster with the daemons of a tree; none where there can be no lab.
#[track_caller]
fn cluster(name: &str, nodes: u32, tree: &Path) -> Option<Machines> {
    Machines::up_by(name, &Lab::plan(nodes).installation(tree), &OPTIONS)
}

/// The command of a tree on a machine.
fn tutti(machines: &Machines, node: u32, tree: &Path) -> Command {
    machines.command(node, tree.join("bin/tutti"))
}

/// Rows of a command that answers with JSON, on a machine; none while no daemon answers there.
#[track_caller]
fn rows(machines: &Machines, node: u32, words: &[&str]) -> Vec<serde_json::Value> {
    serde_json::from_str(&machines.tutti(node, words).stdout).unwrap_or_default()
}

/// All machines are there, by the controller's word.
#[track_caller]
fn await_nodes(machines: &Machines) {
    await_that("all nodes are up", || {
        let rows = rows(machines, 0, &["nodes", "--json"]);
        rows.len() == NODES as usize && rows.iter().all(|row| row["alive"] == true)
    });
}

/// Jobs that run until they may end, some over two machines and some over three.
struct Jobs<'a> {
    machines: &'a Machines,
    numbers: Vec<String>,
}

impl<'a> Jobs<'a> {
    /// By the command of a tree.
    fn start(machines: &'a Machines, tree: &Path, programs: &[PathBuf]) -> Self {
        let (go, _) = machines.file("over");
        let submit = |index: usize| {
            let origin = index as u32 % NODES;
            let size = if index.is_multiple_of(3) { "3" } else { "2" };
            let mut command = tutti(machines, origin, tree);
            command.args(["submit", "-N", size, "-n", size, "-o"]).arg(machines.file(&out(index)).0);
            let said = run(command.arg(&programs[index % programs.len()]).arg(&go), LIMIT).expect_success();
            said.stdout.split_whitespace().last().expect("its number").to_owned()
        };
        let numbers = (0..JOBS).map(submit).collect();
        for index in 0..JOBS {
            await_that("the job's ranks go", || {
                std::fs::read_to_string(machines.file(&out(index)).1)
                    .is_ok_and(|text| text.contains("rank 0 goes\n"))
            });
        }
        Jobs { machines, numbers }
    }

    /// By any machine's word. Its daemon may have just begun, and a controller learns of jobs from their
    /// nodes; what is lost does not run any more.
    #[track_caller]
    fn await_run(&self, node: u32) {
        let mut found = Vec::new();
        let all_run = comes_true(|| {
            found = rows(self.machines, node, &["ps", "--json"]);
            self.numbers.iter().all(|number| {
                let row = found.iter().find(|row| row["job"].as_u64() == number.parse().ok());
                row.is_some_and(|row| row["state"] == "running")
            })
        });
        assert!(all_run, "jobs {:?} run: {found:?}", self.numbers);
    }

    #[track_caller]
    fn end(self) {
        std::fs::write(self.machines.file("over").1, "").expect("a file");
        for (index, number) in self.numbers.iter().enumerate() {
            let ran =
                run(self.machines.command(index as u32 % NODES, "tutti").args(["wait", number]), JOB_LIMIT);
            let status = self.machines.tutti(0, &["status", "--json", number]).stdout;
            assert_eq!(ran.code(), 0, "job {number}: {ran}: {status}");
            let size = if index.is_multiple_of(3) { 3 } else { 2 };
            let text = std::fs::read_to_string(self.machines.file(&out(index)).1).expect("its output");
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            let mut expected: Vec<String> =
                (0..size).flat_map(|rank| ["goes", "ok"].map(|word| format!("rank {rank} {word}"))).collect();
            expected.sort_unstable();
            assert_eq!(lines, expected, "job {number}");
        }
    }
}

/// The file of a job's output.
fn out(index: usize) -> String {
    format!("out-{index}")
}

/// New jobs over all machines, of either tree's programs and by either tree's command.
#[track_caller]
fn assert_new_jobs_run(machines: &Machines, trees: [(&Path, u32); 2], programs: &[PathBuf]) {
    for (tree, from) in trees {
        for program in programs {
            // The file is there: it ends after its first step.
            let mut command = tutti(machines, from, tree);
            command.args(["run", "-N", "5", "-n", "5"]).arg(program).arg("/home");
            let ran = run(&mut command, JOB_LIMIT).expect_success();
            assert_eq!(ran.stdout.matches(" ok\n").count(), 5, "{ran}");
        }
    }
}

/// Replaces the daemons of a cluster in this order while jobs run; on every mixture of releases new jobs are
/// started too. With `TUTTI_UPGRADE_SECONDS` it goes back and forth for so long.
fn upgrade(name: &str, old: &Path, new: &Path, order: [u32; NODES as usize]) {
    let scratch = Scratch::new(name);
    let programs =
        [compile(old, "steps.c", scratch.path(), "old"), compile(new, "steps.c", scratch.path(), "new")];
    let Some(machines) = cluster(name, NODES, old) else { return };
    let seconds = std::env::var("TUTTI_UPGRADE_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let jobs = Jobs::start(&machines, old, &programs);
    let (mut from, mut to, mut times) = (old, new, 0);
    while times == 0 || Instant::now() < end {
        for node in order {
            machines.replace_daemon(node, &to.join("bin/tuttid"));
            await_nodes(&machines);
            jobs.await_run(node);
            jobs.await_run((node + 1) % NODES);
            assert_new_jobs_run(&machines, [(from, node), (to, (node + 2) % NODES)], &programs);
        }
        (from, to) = (to, from);
        times += 1;
    }
    jobs.await_run(0);
    jobs.end();
    println!("{times} times all daemons, {JOBS} jobs, nothing lost");
    for node in 0..NODES {
        let log = machines.lab.log(node);
        // The switch thread of a new daemon may hear a node before that one has said that it is back, and a
        // node may dial an address at which no daemon is for the moment.
        let is_passing = |line: &&str| {
            line.contains("refused at the switch thread's port")
                || line.contains(" does not answer") && line.contains("Connection refused")
        };
        let mut lines = log.lines().filter(|line| !is_passing(line));
        let is_refusal = |line: &str| line.contains("invalid message") || line.contains("refused");
        assert!(!lines.any(is_refusal), "{node}: {log}");
    }
}

/// The short form, which needs no other release: daemons of this one in the places of each other.
#[test]
fn upgrade_of_every_daemon_while_twenty_jobs_run_loses_none() {
    upgrade("upgrade-same", &dist(), &dist(), [2, 0, 4, 1, 3]);
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
    let Some(machines) = cluster("upgrade-refused", 2, &new) else { return };
    let words = machines.kill_daemon(1);
    let mut daemon = machines.lab.node(1).command(old.join("bin/tuttid"));
    let ran = run(daemon.args(&words[1..]), JOB_LIMIT);
    assert_eq!(ran.code(), 1, "{ran}");
    let here = machines.lab.log(0);
    assert_eq!(here.lines().filter(names_both).count(), 1, "{here}");
    let said: Vec<&str> = ran.stderr.lines().filter(names_both).collect();
    assert!(said.iter().all(|line| line.contains("the controller refuses this node")), "{ran}");
    assert!(!said.is_empty(), "{ran}");
    drop(machines);
    // One of this release in the place of an older one: it says why, and tries again.
    let Some(machines) = cluster("upgrade-older", 2, &old) else { return };
    machines.replace_daemon(1, &new.join("bin/tuttid"));
    await_that("the line that names both", || machines.lab.log(1).lines().any(|line| names_both(&line)));
    let there = machines.lab.log(1);
    assert_eq!(there.lines().filter(names_both).count(), 1, "{there}");
    let here = machines.lab.log(0);
    assert!(here.lines().any(|line| line.contains("is not a member of this cluster")), "{here}");
}
