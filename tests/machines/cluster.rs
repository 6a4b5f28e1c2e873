//! A cluster of machines that loses and regains some, and the jobs on it.

use std::time::Duration;

use tutti_testkit::await_that;
use tutti_testkit::lab::Machine;
use tutti_tests::machines::Machines;
use tutti_tests::run;

const LIMIT: Duration = Duration::from_secs(60);

/// A machine of which nothing is heard is soon lost.
const SOON_LOST: [&str; 4] = ["--lost-after", "1", "--keep-for", "5"];

/// Action on a machine.
type Do = fn(&Machine<'_>);

/// The state of a machine in the cluster's list.
fn state_of(machines: &Machines, name: &str) -> String {
    let listed = machines.tutti(0, &["nodes"]).stdout;
    let row = listed.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
    row.and_then(|row| row.split_whitespace().nth(2)).unwrap_or("missing").to_owned()
}

fn job(machines: &Machines, job: u32) -> String {
    machines.tutti(0, &["status", "--json", &job.to_string()]).stdout
}

/// Submits a job on machine 0; gives its number.
#[track_caller]
fn submit(machines: &Machines, words: &[&str]) -> u32 {
    let ran = machines.tutti(0, &[&["submit"], words].concat()).expect_success();
    ran.stdout.trim().trim_start_matches("job ").parse().unwrap_or_else(|_| panic!("no number: {ran}"))
}

/// By a loss of power, a cut cable and a silent one; jobs on other machines do not notice.
// Paper: C29
#[test]
fn machines_cluster_loses_a_machine_and_regains_it() {
    let Some(machines) = Machines::up("lost", 3, &SOON_LOST) else { return };
    // As long as all of this takes, on the machines that stay.
    let beside = submit(&machines, &["-H", "node0:1,node1:1", "-n", "2", "sleep", "1000"]);
    await_that("it runs", || job(&machines, beside).contains("\"running\""));
    let lost = machines.lab.node(2);
    let ways: [(&str, Do, Do); 4] = [
        ("kill", |machine| machine.kill(), |machine| machine.boot()),
        ("cut", |machine| machine.cut(), |machine| machine.mend()),
        ("silence", |machine| machine.silence(), |machine| machine.mend()),
        ("pause", |machine| machine.pause(), |machine| machine.resume()),
    ];
    for (way, lose, regain) in ways {
        let number = submit(&machines, &["-N", "3", "-n", "3", "sleep", "1000"]);
        await_that("the job runs", || job(&machines, number).contains("\"running\""));
        lose(&lost);
        await_that("the machine is lost", || state_of(&machines, "node2") == "lost");
        await_that("its job has ended", || job(&machines, number).contains("\"over\""));
        regain(&lost);
        await_that("the machine is back", || state_of(&machines, "node2") == "up");
        let mut all = machines.launch(3, 3);
        let ran = run(all.arg("hostname"), LIMIT).expect_success();
        let mut names: Vec<&str> = ran.stdout.lines().collect();
        names.sort_unstable();
        assert_eq!(names, ["node0", "node1", "node2"], "after {way}: {ran}");
        let state = job(&machines, beside);
        assert!(state.contains("\"running\""), "after {way}: {state}");
        await_that("nothing of the job that has ended is left", || {
            !lost.sh("cat /proc/[0-9]*/comm").stdout.windows(5).any(|word| word == b"sleep")
        });
    }
    machines.tutti(0, &["kill", &beside.to_string()]).expect_success();
}

/// Each daemon in turn, without warning; the next one takes its jobs back.
#[test]
fn machines_jobs_outlast_each_daemon_that_is_killed() {
    let Some(machines) = Machines::up("takeover", 3, &["--lost-after", "12"]) else { return };
    let (file, outside) = machines.file("go");
    let wait = format!("while ! [ -e {} ]; do sleep 0.1; done; hostname", file.display());
    let number = submit(&machines, &["-N", "3", "-n", "3", "-o", "said", "sh", "-c", &wait]);
    await_that("the job runs", || job(&machines, number).contains("\"running\""));
    for node in [1, 2, 0] {
        let machine = machines.lab.node(node);
        machine.run(&["sh", "-c", "kill -9 $(pidof tuttid)"]);
        machine.start_daemon().expect("a daemon");
        await_that("the cluster is whole and knows its job", || {
            machines.tutti(node, &["nodes"]).stdout.matches(" up ").count() == 3
                && job(&machines, number).contains("\"running\"")
        });
    }
    std::fs::write(outside, "").expect("a file");
    await_that("the job has ended", || job(&machines, number).contains("\"over\""));
    let ended = job(&machines, number);
    assert!(ended.contains("\"status\": 0"), "{ended}");
    let said = std::fs::read_to_string(machines.file("said").1).expect("its output");
    let mut names: Vec<&str> = said.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["node0", "node1", "node2"]);
}

/// A list of hosts may name the machine on which it is typed, by any of its names.
#[test]
fn machines_jobs_run_where_hosts_say_on_whichever_machine_that_is_said() {
    let Some(machines) = Machines::up("hosts", 3, &[]) else { return };
    for from in 0..3 {
        let own = format!("node{from}");
        let other = format!("node{}", (from + 1) % 3);
        let mixed = format!("{other}:1,localhost:1");
        for (hosts, ranks, expected) in [
            (own.as_str(), "1", vec![&own]),
            ("localhost", "2", vec![&own, &own]),
            ("127.0.0.1", "1", vec![&own]),
            (&other, "1", vec![&other]),
            (&mixed, "2", vec![&other, &own]),
        ] {
            let ran = machines.tutti(from, &["run", "-H", hosts, "-n", ranks, "hostname"]).expect_success();
            let mut said: Vec<&str> = ran.stdout.lines().collect();
            let mut expected: Vec<&str> = expected.into_iter().map(String::as_str).collect();
            said.sort_unstable();
            expected.sort_unstable();
            assert_eq!(said, expected, "-H {hosts} on node{from}: {ran}");
        }
    }
}
