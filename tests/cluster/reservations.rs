//! Reservations: who gets reserved nodes, and who waits.

use std::os::unix::process::CommandExt;

use serde_json::Value;
use tutti_testkit::{Need, skip};

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{LIMIT, await_that};

fn row(cluster: &Cluster, job: u32) -> Value {
    let rows: Value = serde_json::from_str(&cluster.job(job)).unwrap_or_default();
    rows[0].clone()
}

#[track_caller]
fn await_state(cluster: &Cluster, job: u32, state: &str) {
    await_that(&format!("job {job} is {state}"), || row(cluster, job)["state"] == state);
}

#[track_caller]
fn await_reason(cluster: &Cluster, job: u32, why: &str) {
    await_that(&format!("job {job} waits: {why}"), || row(cluster, job)["waits"] == why);
}

fn submit(cluster: &Cluster, words: &[&str]) {
    cluster.tutti(&[&["submit", "-o", "none"], words].concat()).expect_success();
}

/// Number of this user.
fn own() -> String {
    rustix::process::geteuid().as_raw().to_string()
}

const RESERVED: &str = "it needs 1 node, 0 are not reserved (tutti reserve): maint";

#[test]
fn reserved_node_takes_its_own_jobs_and_those_that_are_over_before() {
    let cluster = Cluster::up("reserved", 2, &[&["--slots", "1"], &SLOWLY_LOST[..]].concat());
    let user = own();
    let reserve = |words: &[&str]| cluster.tutti(&[&["reserve"], words, &["--user", &user]].concat());
    submit(&cluster, &["--host", "node1", "-n", "1", "sleep", "1000"]);
    await_state(&cluster, 1, "running");
    let ran = reserve(&["node1", "--from", "+1h", "--for", "2h", "--name", "maint"]).expect_success();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("reservation maint\n", ""));
    // Jobs that run there go on.
    assert_eq!(row(&cluster, 1)["state"], "running");
    submit(&cluster, &["--host", "node1", "-n", "1", "sleep", "1000"]);
    await_reason(&cluster, 2, RESERVED);
    submit(&cluster, &["--host", "node1", "-n", "1", "--time", "3h", "sleep", "1000"]);
    await_reason(&cluster, 3, RESERVED);
    submit(&cluster, &["--host", "node1", "-n", "1", "--time", "10m", "sleep", "1000"]);
    await_state(&cluster, 4, "running");
    submit(&cluster, &["--reservation", "maint", "-n", "1", "sleep", "1000"]);
    await_reason(&cluster, 5, "until reservation maint begins (tutti reserve)");
    let why = cluster.tutti(&["why", "5"]).expect_success().stdout;
    assert!(why.contains("until reservation maint begins"), "{why}");
    // A shorter limit lets a job begin before.
    cluster.tutti(&["change", "3", "--time", "20m"]).expect_success();
    await_state(&cluster, 3, "running");
    // The next controller knows it.
    cluster.replace(0);
    await_that("it is listed again", || {
        cluster.tutti(&["reserve"]).stdout.lines().nth(1).is_some_and(|line| line.starts_with("maint "))
    });
    await_reason(&cluster, 2, RESERVED);
    let listed: Value =
        serde_json::from_str(&cluster.tutti(&["reserve", "--json"]).stdout).expect("JSON of reservations");
    let listed = &listed.as_array().expect("reservations")[..];
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["name"], &listed[0]["nodes"][0]), (&"maint".into(), &"node1".into()));
    // Without it the nodes are for all.
    cluster.tutti(&["unreserve", "maint"]).expect_success();
    await_state(&cluster, 2, "running");
    await_reason(&cluster, 5, "reservation maint is over, or was removed");
    // One of the same name that has begun: its job gets its node, and no other does.
    reserve(&["node1", "--for", "1h", "--name", "maint"]).expect_success();
    await_state(&cluster, 5, "running");
    assert_eq!(row(&cluster, 5)["nodes"][0], "node1");
    submit(&cluster, &["--host", "node1", "-n", "1", "--time", "1m", "true"]);
    await_reason(&cluster, 6, RESERVED);
    submit(&cluster, &["-n", "1", "true"]);
    assert_eq!(cluster.tutti(&["wait", "7"]).code(), 0, "the other node is for all");
}

#[test]
fn reservation_ends_by_itself() {
    let cluster = Cluster::up("reserved-end", 1, &SLOWLY_LOST);
    cluster.tutti(&["reserve", "node0", "--user", &own(), "--for", "5s"]).expect_success();
    submit(&cluster, &["-n", "1", "true"]);
    await_that("it has waited, and begins then", || {
        let row = row(&cluster, 1);
        let reason = row["waits"].as_str().unwrap_or_default().to_owned();
        assert!(reason.is_empty() || reason.contains("reserved") || reason.contains("wait"), "{reason}");
        row["state"] == "over"
    });
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 0);
    assert_eq!(cluster.tutti(&["reserve"]).stdout.lines().count(), 1, "only the head is left");
}

#[test]
fn reservation_that_cannot_be_is_refused_in_one_line() {
    let cluster = Cluster::up("reserved-refused", 2, &SLOWLY_LOST);
    let user = own();
    let refused = |words: &[&str], status: i32, line: &str| {
        let ran = cluster.tutti(words);
        let text = format!("tutti {}: {line}\n", words[0]);
        assert_eq!((ran.code(), ran.stderr.as_str()), (status, text.as_str()));
    };
    let reserve = ["reserve", "node1", "--user", &user];
    cluster.tutti(&[&reserve[..], &["--for", "1h"]].concat()).expect_success();
    let taken = "node1 is reserved at that time: reservation r1";
    refused(&[&reserve[..], &["--from", "+30m", "--for", "1h"]].concat(), 1, taken);
    // The same node at another time, another node at the same one.
    cluster.tutti(&[&reserve[..], &["--from", "+2h", "--for", "1h"]].concat()).expect_success();
    let unknown = "nowhere is not a node of this cluster; its nodes are node0 node1";
    refused(&["reserve", "nowhere", "--user", &user, "--for", "1h"], 1, unknown);
    refused(
        &["reserve", "node0", "--user", &user, "--for", "1h", "--name", "r1"],
        1,
        "there is a reservation r1 already",
    );
    refused(&["reserve", "node0", "--user", &user], 1, "say how long: --for TIME, or --until TIME");
    refused(&["reserve", "node0", "--for", "1h"], 1, "say for whom: --user USER");
    refused(
        &["reserve", "node0", "--for", "1h", "--user", "no-such-user"],
        1,
        "there is no user no-such-user",
    );
    refused(&["unreserve", "none"], 1, "there is no reservation none");
    let of_none = ["submit", "--reservation", "none", "-n", "1", "true"];
    refused(&of_none, 1, "--reservation: there is no reservation none");
    let outside = ["submit", "--reservation", "r1", "--host", "node0", "-n", "1", "true"];
    refused(&outside, 1, "node node0 is not of reservation r1");
    let ran = cluster.tutti(&["submit", "--reservation", "r1", "-N", "2", "-n", "2", "true"]);
    assert!(ran.code() == 1 && ran.stderr.contains("1 have the slots for it"), "{ran}");
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can be another user");
        return;
    }
    let as_other = |words: &[&str], line: &str| {
        let mut command = cluster.command(words);
        let ran = tutti_tests::run(command.uid(54321).gid(54321).current_dir("/"), LIMIT);
        let text = format!("tutti {}: {line}\n", words[0]);
        assert_eq!((ran.code(), ran.stderr.as_str()), (1, text.as_str()));
    };
    let keeper = "only the owner of the daemons may reserve nodes";
    as_other(&["reserve", "node0", "--user", "54321", "--for", "1h"], keeper);
    as_other(&["unreserve", "r1"], keeper);
    let line = "--reservation: reservation r1 is not for you";
    as_other(&["submit", "-o", "none", "--reservation", "r1", "-n", "1", "true"], line);
    cluster
        .tutti(&["reserve", "node0", "--user", "54321", "--for", "1h", "--name", "theirs"])
        .expect_success();
    let mut command = cluster.command(&["run", "--reservation", "theirs", "-n", "1", "id", "-u"]);
    let ran = tutti_tests::run(command.uid(54321).gid(54321).current_dir("/"), LIMIT).expect_success();
    assert_eq!(ran.stdout, "54321\n");
}
