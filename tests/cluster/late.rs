//! Nodes that do not freeze a job when its turn is over: who keeps the machines hears of it, and so does who
//! looks at the job.

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tutti_testkit::{Need, skip};

use crate::Cluster;
use crate::gangs::cgroup;
use crate::harness::{Running, await_that};

const SPIN: [&str; 3] = ["sh", "-c", "while :; do :; done"];

/// Three nodes of one core, two jobs on the first two and two on the third; they take turns. None where no
/// cgroup can be made.
fn four_jobs(more: &[&str]) -> Option<(Cluster, Vec<Running>)> {
    let options = ["--slots", "1", "--slice", "20", "--lost-after", "120"];
    let cluster = Cluster::on_machines(3, &[&options, more].concat())?;
    let (both, third) = (["-H", "node0:1,node1:1", "-n", "2"], ["-H", "node2:1", "-n", "1"]);
    let mut jobs = Vec::new();
    for (job, place) in (1..).zip([both, both, third, third]) {
        jobs.push(cluster.start(&[&["run"], &place[..], &SPIN].concat()));
        await_that("it runs", || cluster.job(job).contains("\"running\""));
        if cgroup(jobs.last()?).is_none() {
            skip(Need::Cgroup, "no cgroup can be made here");
            return None;
        }
    }
    await_that("all take turns", || (1..=4).all(|job| turns(&cluster, job) > 2));
    Some((cluster, jobs))
}

fn row(cluster: &Cluster, job: u32) -> Value {
    let rows: Value = serde_json::from_str(&cluster.job(job)).expect("JSON");
    rows[0].clone()
}

fn turns(cluster: &Cluster, job: u32) -> u64 {
    row(cluster, job)["turns"].as_u64().expect("a number")
}

/// Events of a node in the log since it came, in order.
fn events(cluster: &Cluster, node: &str) -> Vec<String> {
    let log = std::fs::read_to_string(cluster.state_folder_of(0).join("events.jsonl")).expect("the log");
    // The last line may be on its way.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    let lines = whole.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let of_node = lines.filter(|line| line["job"].is_null() && line["nodes"][0] == node);
    of_node.map(|line| line["event"].as_str().expect("a word").to_owned()).skip(1).collect()
}

/// Waits until a job of these stands still, and `tutti` says that it is for this node.
#[track_caller]
fn await_kept(cluster: &Cluster, jobs: [u32; 2], node: &str) {
    let kept = |job: &u32| row(cluster, *job)["unfrozen"] == serde_json::json!([node]);
    await_that(&format!("a job stands still for {node}"), || jobs.iter().any(kept));
    let job = *jobs.iter().find(|job| kept(job)).expect("its node stands still");
    let list = cluster.tutti(&["ps"]).expect_success().stdout;
    assert!(list.contains(&format!("job {job} is not frozen yet on {node}\n")), "{list}");
    let status = cluster.tutti(&["status", &job.to_string()]).expect_success().stdout;
    assert!(status.contains(&format!("\nfrozen   not yet on {node}\n")), "{status}");
}

/// Begins and ends by turns: nothing is said twice.
#[track_caller]
fn assert_once(events: &[String], begin: &str, end: &str) {
    let expected = [begin, end].into_iter().cycle().take(events.len());
    assert!(events.iter().eq(expected), "{events:?}");
}

#[test]
fn late_node_is_named_once() {
    let Some((cluster, jobs)) = four_jobs(&[]) else { return };
    // One that lacks beside another node of the job, and one that has both of its jobs alone.
    for (node, kept, others) in [(1, [1, 2], 3), (2, [3, 4], 1)] {
        let name = format!("node{node}");
        kill_process(cluster.daemon(node), Signal::STOP).expect("it lives");
        await_kept(&cluster, kept, &name);
        await_that("it is in the log", || {
            events(&cluster, &name).last().is_some_and(|last| last == "node-late")
        });
        let said = events(&cluster, &name);
        // Its parent reports it each ten slices; so many times the others have their turns.
        let until = turns(&cluster, others) + 50;
        await_that("others take their turns", || turns(&cluster, others) > until);
        assert_eq!(events(&cluster, &name), said);
        kill_process(cluster.daemon(node), Signal::CONT).expect("it lives");
        await_that("nobody stands still", || {
            kept.iter().all(|job| row(&cluster, *job)["unfrozen"] == serde_json::json!([]))
        });
        let before = kept.map(|job| turns(&cluster, job));
        await_that("they take their turns again", || {
            kept.iter().zip(before).all(|(job, before)| turns(&cluster, *job) > before + 2)
        });
        await_that("its end is in the log", || {
            events(&cluster, &name).last().is_some_and(|last| last == "node-in-time")
        });
        assert_once(&events(&cluster, &name), "node-late", "node-in-time");
        let log = cluster.lab().log(0);
        let job = kept.iter().find(|job| log.contains(&format!("node {name} has not frozen job {job},")));
        assert!(
            job.is_some() && log.contains(&format!("node {name} has frozen what it was late with")),
            "{log}"
        );
    }
    cluster.tutti(&["kill", "1", "2", "3", "4"]).expect_success();
    jobs.into_iter().for_each(|job| assert_eq!(job.end().0, 137));
}

#[test]
fn expelled_node_is_shown_until_it_is_back() {
    let Some((cluster, jobs)) = four_jobs(&["--strict"]) else { return };
    kill_process(cluster.daemon(1), Signal::STOP).expect("it lives");
    await_that("both stand still", || {
        [1, 2].iter().all(|job| row(&cluster, *job)["unfrozen"] == serde_json::json!(["node1"]))
    });
    let until = turns(&cluster, 3) + 50;
    await_that("others take their turns", || turns(&cluster, 3) > until);
    let said = events(&cluster, "node1");
    assert_eq!(said.last().map(String::as_str), Some("node-expelled"), "{said:?}");
    kill_process(cluster.daemon(1), Signal::CONT).expect("it lives");
    await_that("nobody stands still", || {
        [1, 2].iter().all(|job| row(&cluster, *job)["unfrozen"] == serde_json::json!([]))
    });
    await_that("its end is in the log", || {
        events(&cluster, "node1").last().is_some_and(|last| last == "node-back")
    });
    assert_once(&events(&cluster, "node1"), "node-expelled", "node-back");
    cluster.tutti(&["kill", "1", "2", "3", "4"]).expect_success();
    jobs.into_iter().for_each(|job| assert_eq!(job.end().0, 137));
}
