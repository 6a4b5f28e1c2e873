//! Ranks that other ranks start (MPI_Comm_spawn) in jobs under daemons, on one machine of the lab and
//! on several.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use crate::harness::await_that;
use crate::{Cluster, gangs};
use tutti_tests::{Scratch, compile};

fn spawn_program(name: &str) -> (Scratch, PathBuf) {
    let scratch = Scratch::new(name);
    let spawn = compile("tests/processes/programs/spawn.c", scratch.path());
    (scratch, spawn)
}

#[test]
fn spawn_works_in_jobs_under_daemons() {
    let (_scratch, spawn) = spawn_program("spawn-under-daemons");
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let program = spawn.to_str().expect("a path of text");
    for (nodes, ranks) in [("1", "2"), ("2", "2"), ("3", "3")] {
        let mut run = cluster.command(&["run", "-N", nodes, "-n", ranks, "--universe", "12", program]);
        let ran = tutti_tests::run(run.env("PARENTS", ranks), crate::harness::LIMIT).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ranks} ranks on {nodes} nodes");
    }
    let ran = cluster.run(&["run", "-N", "2", "-n", "2", "--universe", "8", program, "places", "4"]);
    assert_eq!(ran.expect_success().stdout, "nodes 0 1 0 1\n");
    let ran =
        cluster.run(&["run", "-N", "2", "-n", "2", "--universe", "8", program, "places", "1", "nowhere"]);
    assert!(ran.stdout.contains("host nowhere is none of the job's nodes"), "{ran}");
}

/// The job is frozen every 5 ms, also while its ranks forget others and new ones take their numbers.
#[test]
fn spawn_uses_numbers_of_ended_ranks_again_under_forced_switches_of_5_ms() {
    let (_scratch, spawn) = spawn_program("spawn-again-forced");
    let Some(cluster) = Cluster::on_machines(2, &["--slice", "5", "--force-switch"]) else { return };
    let program = spawn.to_str().expect("a path of text");
    let again = ["run", "-N", "2", "-n", "2", "--universe", "6", program, "again", "40"];
    let ran = cluster.run(&again).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ran}");
}

#[test]
fn spawn_of_a_program_that_one_node_does_not_have_starts_none() {
    if std::process::Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|ran| ran.success())
    {
        let (scratch, spawn) = spawn_program("spawn-missing");
        let Some(cluster) = Cluster::on_machines(2, &crate::cluster::SLOWLY_LOST) else { return };
        let folder = scratch.path().join("folder");
        std::fs::create_dir(&folder).expect("a folder");
        let file = folder.join("worker");
        std::fs::copy(&spawn, &file).expect("a copy");
        cluster.kill_daemon(1).start_with_empty(&folder);
        let two = || cluster.tutti(&["nodes"]).stdout.lines().filter(|line| line.contains("node1")).count();
        await_that("the second node is there", || two() == 1);
        let (program, worker) = (spawn.to_str().expect("text"), file.to_str().expect("text"));
        let words = ["run", "-N", "2", "-n", "2", "--universe", "6", program, "missing", worker];
        let ran = cluster.run(&words).expect_success();
        assert!(ran.stdout.contains("cannot execute") && ran.stdout.contains("node1"), "{ran}");
        assert_eq!((ran.stdout.lines().count(), &*ran.stderr), (1, ""), "{ran}");
    } else {
        tutti_testkit::skip(tutti_testkit::Need::MountNamespace, "no mount namespace");
    }
}

/// Node 1 has no ranks left when it gets the first ones, and is suspended and frozen as every other node.
#[test]
fn spawn_starts_ranks_on_a_node_whose_ranks_have_all_ended() {
    let (_scratch, spawn) = spawn_program("spawn-emptied");
    let Some(cluster) = Cluster::on_machines(2, &["--slice", "5", "--force-switch"]) else { return };
    let program = spawn.to_str().expect("a path of text");
    let words = ["run", "-N", "2", "-n", "2", "--universe", "6", program, "emptied"];
    let ran = cluster.run(&[&words[..], &["200"]].concat()).expect_success();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{ran}");
    let ran = cluster.run(&[&words[..], &["3", "7"]].concat());
    assert_eq!((ran.code(), &*ran.stdout), (7, "spawn is right\n"), "{ran}");
}

/// A daemon that follows another is told again which nodes have no ranks.
#[test]
fn spawn_on_a_node_without_ranks_outlasts_its_daemon() {
    let (scratch, spawn) = spawn_program("spawn-emptied-restart");
    let Some(cluster) = Cluster::on_machines(2, &crate::cluster::SLOWLY_LOST) else { return };
    let program = spawn.to_str().expect("a path of text");
    let go = scratch.path().join("go");
    let words = ["submit", "-N", "2", "-n", "2", "--universe", "6", program, "emptied", "5", "0"];
    cluster.tutti(&[&words[..], &[go.to_str().expect("a path of text")]].concat()).expect_success();
    await_that("the job runs", || cluster.job(1).contains("\"running\""));
    await_that("one rank is left", || processes_of(&spawn).len() == 1);
    cluster.kill_daemon(1).start();
    std::fs::write(&go, "").expect("a file in the scratch folder");
    await_that("the job is over", || cluster.job(1).contains("\"over\""));
    assert!(cluster.job(1).contains("\"status\": 0"), "{}", cluster.job(1));
}

/// Processes that execute a file.
fn processes_of(file: &Path) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let of_file =
        entries.filter(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == file));
    of_file.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Whether a process is frozen by its cgroup, or stopped where there is none.
fn is_frozen(pid: Pid) -> bool {
    match gangs::cgroup_of_job(pid) {
        Some(group) => gangs::is_frozen(&group),
        None => std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
            .is_ok_and(|stat| stat.contains(") T ")),
    }
}

/// True when the controller has logged that a job was thawed several times on so many nodes.
fn has_had_turns(cluster: &Cluster, job: u32, nodes: &str) -> bool {
    let log = std::fs::read_to_string(cluster.state_folder_of(0).join("turns.jsonl")).unwrap_or_default();
    let lines: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let is_thaw = |turn: &&serde_json::Value| turn[0] == "thaw" && turn[3] == job;
    let mut thaws = BTreeMap::<&str, usize>::new();
    for line in &lines {
        let turns = line["turns"].as_array().into_iter().flatten();
        *thaws.entry(line["node"].as_str().unwrap_or_default()).or_default() += turns.filter(is_thaw).count();
    }
    thaws.values().filter(|thaws| **thaws > 5).count().to_string() == nodes
}

/// `tutti timeline` draws the job as one: its row, its nodes, its turns, and that it is suspended.
#[track_caller]
fn assert_timeline_shows_one(cluster: &Cluster, job: u32, nodes: &str, command: &str) {
    let (file, page) = cluster.file(&format!("spawned-{job}.html"));
    let file = file.to_str().expect("a path of text");
    cluster.tutti(&["timeline", &job.to_string(), "-o", file]).expect_success();
    let text = std::fs::read_to_string(&page).expect("a page");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("<tr><td><svg ")).collect();
    let number =
        |row: &&str| row.split("</svg><td class=\"r\">").nth(1)?.split('<').next()?.parse::<u32>().ok();
    let numbers: Vec<u32> = rows.iter().filter_map(number).filter(|number| *number >= job).collect();
    assert_eq!(numbers, [job], "its children are no jobs: {rows:?}");
    let row = rows.last().expect("just counted");
    assert!(row.contains(&format!("<td class=\"c\">{command}<td class=\"r\">{nodes}<td ")), "{row}");
    let (_, last) = row.rsplit_once("<td class=\"r\">").expect("a column");
    let turns = last.strip_suffix("<td>runs").and_then(|turns| turns.parse::<u32>().ok());
    assert!(turns.is_some_and(|turns| turns > 1), "{row}");
    assert!(text.contains(&format!("<td class=\"r\">{job}<td>suspended\n")), "{text}");
}

#[test]
fn deadlock_of_parents_and_spawned_children_is_named_by_its_ranks() {
    let (_scratch, spawn) = spawn_program("spawn-stuck");
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let program = spawn.to_str().expect("a path of text");
    for (nodes, how) in [("1", "rank"), ("2", "rank"), ("2", "any")] {
        let words = ["run", "--on-deadlock", "end", "-N", nodes, "-n", "2", "--universe", "8"];
        let ran = cluster.run(&[&words[..], &[program, "stuck", how]].concat());
        assert_eq!(ran.code(), 35, "{how} on {nodes} nodes: {ran}");
        let line = ran.stderr.lines().find(|line| line.contains("wait for each other for ever: "));
        let line = line.unwrap_or_else(|| panic!("{how} on {nodes} nodes: {ran}"));
        let names = |rank| line.contains(&format!("rank {rank} receives from"));
        // Parents that wait for any rank of theirs wait for each other, too.
        let is_named = (0..2).any(names) && (how == "any" || (2..4).any(names));
        assert!(is_named, "{how} on {nodes} nodes: {line}");
    }
}

/// Parents and a child that wait are no deadlock as long as another child does anything.
#[test]
fn deadlock_is_not_seen_while_a_spawned_child_is_busy() {
    let (_scratch, spawn) = spawn_program("spawn-patient");
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let program = spawn.to_str().expect("a path of text");
    for nodes in ["1", "2"] {
        let words = ["run", "--on-deadlock", "end", "-N", nodes, "-n", "2", "--universe", "8"];
        let ran = cluster.run(&[&words[..], &[program, "patient"]].concat()).expect_success();
        assert_eq!((&*ran.stdout, &*ran.stderr), ("spawn is right\n", ""), "{nodes} nodes: {ran}");
    }
}

/// Parents and children are frozen as one job, which `tutti timeline` shows meanwhile.
#[test]
fn spawned_ranks_are_counted_frozen_and_end_with_their_job() {
    let (_scratch, spawn) = spawn_program("spawn-counted");
    let Some(cluster) = Cluster::on_machines(2, &["--slice", "5", "--force-switch"]) else { return };
    let program = spawn.to_str().expect("a path of text");
    for (job, nodes) in [(1, "1"), (2, "2")] {
        cluster
            .tutti(&["submit", "-N", nodes, "-n", "2", "--universe", "6", program, "hang"])
            .expect_success();
        await_that("the new ranks are counted", || cluster.job(job).contains("\"ranks\": 4"));
        await_that("it was switched off and on", || has_had_turns(&cluster, job, nodes));
        await_that("it had several turns", || cluster.row(job.into())["turns"].as_u64() > Some(3));
        let number = job.to_string();
        cluster.tutti(&["suspend", &number]).expect_success();
        let ranks = processes_of(&spawn);
        assert_eq!(ranks.len(), 4);
        await_that("parents and children are frozen", || ranks.iter().all(|rank| is_frozen(*rank)));
        assert_timeline_shows_one(&cluster, job, nodes, &format!("{program} hang"));
        assert!(ranks.iter().all(|rank| is_frozen(*rank)), "it was drawn while it was frozen");
        cluster.tutti(&["resume", &number]).expect_success();
        cluster.tutti(&["kill", &number]).expect_success();
        await_that("the job is over", || cluster.job(job).contains("\"over\""));
    }
    for nodes in ["1", "2"] {
        let ran = cluster.run(&["run", "-N", nodes, "-n", "2", "--universe", "4", program, "killed"]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (137, 1), "{ran}");
        assert!(ran.stderr.contains("rank 2 (pid ") && ran.stderr.contains("signal 9"), "{ran}");
    }
}
