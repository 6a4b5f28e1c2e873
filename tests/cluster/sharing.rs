//! Choice of the nodes and times of jobs: exclusive jobs, memory, weights, jobs that take no turns, and what
//! becomes of those that wait.

use std::path::PathBuf;

use serde_json::Value;
use tutti_testkit::{Need, skip_part};

use crate::Cluster;
use crate::front_ends::Said;
use crate::gangs::{cgroup, is_frozen};
use crate::harness::{RANK, await_that, cgroup_of};

/// A rank that uses its core and ends when it is killed.
pub(crate) const SPIN: [&str; 3] = ["sh", "-c", "while :; do :; done"];

impl Cluster {
    /// Row of a job in `tutti ps --all --json`.
    #[track_caller]
    pub(crate) fn row(&self, job: u64) -> Value {
        let text = self.tutti(&["ps", "--all", "--json"]).expect_success().stdout;
        let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
        rows.into_iter().find(|row| row["job"] == job).unwrap_or(Value::Null)
    }

    #[track_caller]
    pub(crate) fn await_state(&self, job: u64, state: &str) {
        await_that(&format!("job {job} is {state}"), || self.row(job)["state"] == state);
    }

    /// A job that was submitted with these words is in this state and stays there for now.
    #[track_caller]
    pub(crate) fn submit(&self, job: u64, words: &[&str], state: &str) {
        let ran = self.tutti(&[&["submit"], words].concat()).expect_success();
        assert_eq!(ran.stdout, format!("job {job}\n"));
        self.await_state(job, state);
    }

    /// Whether it waits, and the reason is this one.
    #[track_caller]
    fn await_reason(&self, job: u64, why: &str) {
        await_that(&format!("job {job} waits: {why}"), || self.row(job)["waits"] == why);
        assert!(self.tutti(&["ps"]).stdout.contains(&format!("job {job} waits: {why}\n")));
        assert!(self.tutti(&["status", &job.to_string()]).stdout.contains(&format!("\nwaits    {why}\n")));
    }

    /// Where in the log of events the first such event of a job stands; it must be there.
    #[track_caller]
    fn place_in_log(&self, job: u64, event: &str) -> usize {
        let log = std::fs::read_to_string(self.state_folder_of(0).join("events.jsonl")).expect("the log");
        let is_it = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["job"] == job && line["event"] == event
        };
        log.lines().position(is_it).unwrap_or_else(|| panic!("job {job} {event} is not in\n{log}"))
    }

    /// Waits until so many jobs that wait have records: those of jobs with a front end are written while it
    /// waits already.
    #[track_caller]
    fn await_queued_files(&self, expected: usize) {
        let folder = self.state_folder_of(0).join("node0.queue");
        let records = |path: PathBuf| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.lines().filter(|record| record.starts_with('[')).count()
        };
        await_that(&format!("{expected} jobs have their records"), || {
            let groups = std::fs::read_dir(&folder).expect("the controller's folder").flatten();
            let groups = groups.map(|group| group.path());
            let named = groups.filter(|path| path.extension().is_some_and(|ending| ending == "jobs"));
            named.map(records).sum::<usize>() == expected
        });
    }
}

#[test]
fn exclusive_job_waits_and_has_its_node_alone() {
    let cluster = Cluster::up("cluster-exclusive", 2, &["--slots", "1"]);
    let on_0 = |more: &[&'static str]| [&["-host", "node0"], more, &["-n", "1", "sleep", "1000"]].concat();
    cluster.submit(1, &on_0(&[]), "running");
    let alone = cluster.start(&[&["run"][..], &on_0(&["--exclusive"])].concat());
    cluster.await_reason(2, "it is exclusive and needs 1 node without other jobs, 0 are empty");
    // A later one passes it, as it may for some time.
    cluster.submit(3, &on_0(&[]), "running");
    cluster.tutti(&["kill", "1"]).expect_success();
    cluster.await_state(1, "over");
    assert_eq!(cluster.row(2)["state"], "waiting");
    cluster.tutti(&["kill", "3"]).expect_success();
    cluster.await_state(2, "running");
    assert_eq!(cluster.row(2)["exclusive"], true);
    // Others wait for it, or go elsewhere.
    cluster.submit(4, &on_0(&[]), "waiting");
    cluster.await_reason(4, "it needs 1 node, 0 are not taken by an exclusive job (job 2)");
    cluster.submit(5, &["-n", "1", "sleep", "1000"], "running");
    assert_eq!(cluster.row(5)["nodes"][0], "node1");
    cluster.tutti(&["kill", "2"]).expect_success();
    let (status, said) = alone.end();
    assert_eq!(status, 137);
    assert!(said.contains("job 2 waits: it is exclusive and needs 1 node"), "{said}");
    cluster.await_state(4, "running");
    // In the order in which the controller has seen it nobody was there beside it.
    let order = [(1, "over"), (3, "over"), (2, "placed"), (2, "over"), (4, "placed")];
    let places: Vec<usize> = order.iter().map(|(job, event)| cluster.place_in_log(*job, event)).collect();
    assert!(places[0] < places[2] && places[1..].is_sorted(), "{places:?}");
    cluster.tutti(&["kill", "4", "5"]).expect_success();
}

#[test]
fn memory_request_waits_or_is_refused() {
    let cluster = Cluster::up("cluster-memory", 2, &["--memory", "1G"]);
    cluster.submit(1, &["-N", "2", "-n", "2", "--memory", "600M", "sleep", "1000"], "running");
    cluster.submit(2, &["-n", "1", "--mem", "300", "sleep", "1000"], "running");
    let waits = cluster.start(&["run", "-N", "2", "-n", "2", "--memory", "0.5G", RANK, "say=here"]);
    let why = "it needs 512 MiB of memory on 2 nodes, 0 have so much left (at most 424 MiB)";
    cluster.await_reason(3, why);
    let nodes = cluster.tutti(&["nodes"]).expect_success().stdout;
    assert!(nodes.contains("  900M/1G  ") && nodes.contains("  600M/1G  "), "{nodes}");
    for (words, line) in [
        (
            &["submit", "-n", "1", "--memory", "1.5G", "true"][..],
            "tutti submit: 1.5 GiB of memory on one node is more than this cluster has for jobs: 0 of its nodes have so much, the largest has 1 GiB\n",
        ),
        (
            &["run", "-N", "2", "-n", "2", "--memory", "2T", "true"],
            "tutti run: 2 TiB of memory on each of 2 nodes are more than this cluster has for jobs: 0 of its nodes have so much, the largest has 1 GiB\n",
        ),
    ] {
        let ran = cluster.tutti(words);
        assert_eq!((ran.stderr.as_str(), ran.code()), (line, 1));
    }
    cluster.tutti(&["kill", "1"]).expect_success();
    let (status, said) = waits.end();
    assert_eq!(status, 0, "{said}");
    assert!(cluster.place_in_log(1, "over") < cluster.place_in_log(3, "placed"));
    cluster.tutti(&["kill", "2"]).expect_success();
}

#[test]
fn waiting_job_can_be_suspended_and_killed() {
    let cluster = Cluster::up("cluster-waiting-killed", 1, &[]);
    cluster.submit(1, &["--exclusive", "-n", "1", "sleep", "1000"], "running");
    let waits = cluster.start(&["run", "-n", "1", RANK, "hang"]);
    cluster.await_state(2, "waiting");
    cluster.submit(3, &["-n", "1", RANK, "hang"], "waiting");
    cluster.await_queued_files(2);
    cluster.tutti(&["suspend", "2"]).expect_success();
    cluster.await_state(2, "suspended");
    cluster.tutti(&["resume", "2"]).expect_success();
    cluster.await_state(2, "waiting");
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(waits.end().0, 137);
    // One whose front end is killed ends too.
    let waits = cluster.start(&["run", "-n", "1", RANK, "hang"]);
    cluster.await_state(4, "waiting");
    waits.signal(rustix::process::Signal::KILL);
    cluster.await_state(4, "over");
    let _ = waits.end();
    cluster.await_queued_files(1);
    cluster.tutti(&["kill", "1"]).expect_success();
    cluster.await_state(3, "running");
    cluster.await_queued_files(0);
    cluster.tutti(&["kill", "3"]).expect_success();
    cluster.await_state(3, "over");
}

#[test]
fn waiting_jobs_survive_a_controller_restart() {
    // The next controller starts nobody before its nodes have had twice this time to say what runs.
    let Some(cluster) = Cluster::on_machines(2, &["--lost-after", "3"]) else { return };
    let on_1 = |more: &[&'static str]| [&["-host", "node1", "-n", "1"], more].concat();
    cluster.submit(1, &on_1(&["--exclusive", "sleep", "1000"]), "running");
    cluster.submit(2, &on_1(&["--exclusive", RANK, "say=two"]), "waiting");
    // Its front end is at the other node, whose daemon stays.
    let mut command = cluster.command_on(1, &[&["run"][..], &on_1(&[RANK, "say=three"])].concat());
    let third = crate::harness::Running::start_command(&mut command);
    cluster.await_state(3, "waiting");
    // That of this one is at the daemon that is replaced.
    // It comes back if it knows its number; one that does not is told that its daemon has died.
    let words = [&["run", "-v"][..], &on_1(&[RANK, "say=four"])].concat();
    let fourth = Said::start(&cluster, 0, "cluster-waiting", &words);
    fourth.await_said("this is job 4");
    cluster.await_state(4, "waiting");
    cluster.await_queued_files(3);
    cluster.replace(0);
    await_that("the next controller answers", || cluster.tutti(&["ps"]).status.success());
    await_that("the next controller knows all", || {
        let states: Vec<Value> = [1, 2, 3, 4].iter().map(|job| cluster.row(*job)["state"].clone()).collect();
        states == ["running", "waiting", "waiting", "waiting"]
    });
    cluster.await_reason(2, "it needs 1 node, 0 are not taken by an exclusive job (job 1)");
    cluster.tutti(&["kill", "1"]).expect_success();
    let (status, said) = third.end();
    assert_eq!(status, 0, "{said}");
    cluster.await_state(2, "over");
    assert_eq!(cluster.tutti(&["logs", "2"]).expect_success().stdout, "two\n");
    assert!(
        cluster.place_in_log(2, "over") < cluster.place_in_log(3, "placed"),
        "in the order in which they came"
    );
    let (status, said, _) = fourth.end();
    assert_eq!(status, 0, "{said}");
    cluster.await_queued_files(0);
    let log = std::fs::read_to_string(cluster.state_folder_of(0).join("events.jsonl")).expect("the log");
    for job in [2, 3, 4] {
        let placed = format!("\"event\":\"placed\",\"job\":{job},");
        assert_eq!(log.matches(&placed).count(), 1, "{log}");
    }
}

#[test]
fn weights_are_shares_under_both_policies() {
    for policy in ["matrix", "dqt"] {
        let cluster =
            Cluster::up("cluster-weights", 1, &["--slots", "1", "--slice", "50", "--policy", policy]);
        assert!(cluster.tutti(&["nodes"]).stdout.contains(&format!("  {policy}  ")));
        cluster.submit(1, &[&["-n", "1"], &SPIN[..]].concat(), "running");
        cluster.submit(2, &[&["-n", "1", "--weight", "300"], &SPIN[..]].concat(), "running");
        assert_eq!((&cluster.row(1)["weight"], &cluster.row(2)["weight"]), (&100.into(), &300.into()));
        let turns = || {
            let text = cluster.tutti(&["ps", "--json"]).expect_success().stdout;
            let rows: Vec<Value> = serde_json::from_str(&text).expect("JSON");
            let of =
                |job: u64| rows.iter().find(|row| row["job"] == job).and_then(|row| row["turns"].as_u64());
            [of(1), of(2)].map(|turns| turns.expect("it runs"))
        };
        await_that("both have had their turns", || turns().iter().all(|turns| *turns > 1));
        // Where a job takes several slices to freeze since others keep the cores busy, who runs meanwhile has
        // those; what the other has to his credit is bounded. In some stretch that is not so.
        let mut before = turns();
        await_that("the heavy one has three slices for each of the light one", || {
            let now = turns();
            let (light, heavy) = (now[0] - before[0], now[1] - before[1]);
            if light < 10 {
                return false;
            }
            before = now;
            eprintln!("{light} and {heavy} slices, {policy}");
            heavy >= 2 * light && heavy <= 4 * light
        });
        cluster.tutti(&["kill", "1", "2"]).expect_success();
        cluster.await_state(1, "over");
        cluster.await_state(2, "over");
    }
}

#[test]
fn job_without_turns_runs_all_the_time() {
    let cluster = Cluster::up("cluster-no-gang", 1, &["--slots", "1", "--slice", "20"]);
    let words = |more: &[&'static str]| [&["run"], more, &["-n", "1"], &SPIN[..]].concat();
    let mut jobs = Vec::new();
    for (number, more) in [(1, &[][..]), (2, &["--no-gang", "--gang"]), (3, &["--no-gang"])] {
        jobs.push(cluster.start(&words(more)));
        cluster.await_state(number, "running");
    }
    assert_eq!((&cluster.row(2)["gang"], &cluster.row(3)["gang"]), (&true.into(), &false.into()));
    let groups: Option<Vec<_>> = jobs.iter().map(cgroup).collect();
    if let Some(groups) = &groups {
        for at in [0, 1, 0, 1, 0, 1] {
            await_that("one runs, the other does not", || {
                assert!(!is_frozen(&groups[2]), "it has no turns");
                is_frozen(&groups[at]) && !is_frozen(&groups[1 - at])
            });
        }
    } else {
        skip_part(Need::Cgroup, "no cgroup can be made here");
    }
    assert_eq!(cluster.row(3)["turns"], 0);
    assert!(cluster.tutti(&["status", "3"]).stdout.contains("\nturns    none: it runs all the time\n"));
    cluster.tutti(&["suspend", "3"]).expect_success();
    cluster.await_state(3, "suspended");
    cluster.tutti(&["kill", "1", "2", "3"]).expect_success();
    for job in jobs {
        assert_eq!(job.end().0, 137);
    }
}

#[test]
fn policies_run_the_same_jobs_to_their_ends() {
    let seed = tutti_testkit::seed();
    for policy in ["matrix", "dqt"] {
        let options = ["--slots", "2", "--slice", "10", "--memory", "1G", "--policy", policy];
        let cluster = Cluster::up("cluster-policies", 3, &options);
        let mut random = tutti_testkit::Random::new(seed);
        let mut below = |bound: u64| random.below(bound);
        for job in 1..=8_u64 {
            let nodes = 1 + below(3);
            let ranks = nodes + below(3);
            let mut words =
                vec!["submit".to_owned(), "-N".into(), nodes.to_string(), "-n".into(), ranks.to_string()];
            words.extend(["--weight".into(), (50 + below(400)).to_string()]);
            words.extend(["--memory".into(), format!("{}M", 50 + below(900))]);
            words.extend((below(4) == 0).then(|| "--exclusive".to_owned()));
            words.extend((below(5) == 0).then(|| "--no-gang".to_owned()));
            // All ranks hear of each other where there is a network between them.
            words.extend([RANK, "say=done"].map(str::to_owned));
            words.extend((nodes > 1).then(|| "exchange".to_owned()));
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(cluster.tutti(&words).expect_success().stdout, format!("job {job}\n"));
        }
        for job in 1..=8 {
            cluster.await_state(job, "over");
            assert_eq!(cluster.row(job)["status"], 0, "job {job}, {policy}");
            assert!(cluster.tutti(&["logs", &job.to_string()]).stdout.contains("done\n"));
        }
        cluster.await_queued_files(0);
        let nodes = cluster.tutti(&["nodes", "--json"]).expect_success().stdout;
        assert!(nodes.contains(&format!("\"policy\": \"{policy}\"")), "{nodes}");
    }
}

#[test]
fn policy_weight_and_memory_errors_are_one_line() {
    let ran = Cluster::try_up("cluster-no-policy", &["--policy", "fifo"]);
    assert!(ran.stderr.contains("a policy is matrix or dqt"), "{ran}");
    for (words, text) in [
        (&["--weight", "0"][..], "--weight is given \"0\", expected a whole number from 1 to 10000"),
        (&["--weight", "10001"], "--weight is given \"10001\""),
        (&["--memory", "lots"], "--memory is given \"lots\", expected a number with K, M, G or T after it"),
        (&["--exclusive"], "--exclusive, --memory, --gpus, --phases and --fill are for jobs of a cluster"),
        (&["--memory", "1G"], "--exclusive, --memory, --gpus, --phases and --fill are for jobs of a cluster"),
    ] {
        let mut command = tutti_tests::program("mpiexec");
        command.args(words).args(["-n", "1", "true"]).env("TUTTI_DAEMON", "none");
        let ran = tutti_tests::run(&mut command, crate::harness::LIMIT);
        assert!(ran.stderr.contains(text) && ran.stderr.lines().count() == 1, "{ran}");
        assert_eq!(ran.code(), 2, "{ran}");
    }
}

#[test]
fn memory_limit_kills_the_job_with_one_line() {
    let cluster = Cluster::up("cluster-limit", 2, &[]);
    let words = ["run", "-N", "2", "-n", "2", "--memory", "64M"];
    let job = cluster.start(&[&words[..], &["sleep", "1000"]].concat());
    cluster.await_state(1, "running");
    let row = cluster.row(1);
    let pid = row["pids"][0][1][0].as_i64().and_then(|pid| rustix::process::Pid::from_raw(pid as i32));
    // Its processes are in a cgroup inside the job's; or in one of version 1.
    let limit = cgroup_of(pid.expect("a pid"))
        .and_then(|inner| std::fs::read_to_string(inner.parent()?.join("memory.max")).ok());
    let by_version1 = limit.is_none() && row["enforced"][0][1]["memory"] == true;
    let limit = limit.or_else(|| by_version1.then(|| (64 << 20).to_string()));
    // What the keeper is shown is what holds, by either version.
    let held = if limit.is_some() {
        ["enforced", "64 MiB on each node, enforced"]
    } else {
        ["counted", "counted only"]
    };
    let nodes = cluster.tutti(&["nodes"]).expect_success().stdout;
    assert!(nodes.lines().nth(1).is_some_and(|line| line.contains(held[0])), "{nodes}");
    let status = cluster.tutti(&["status", "1"]).expect_success().stdout;
    assert!(status.contains(held[1]), "{status}");
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(job.end().0, 137);
    // More than is declared, all of it at once in memory; where it is only counted that does no harm.
    let hog =
        ["sh", "-c", "test $TUTTI_RANK = 0 || exec sleep 0; head -c 256M /dev/zero | tail -c 200M | wc -c"];
    let ran = cluster.run(&[&words[..], &hog].concat());
    let Some(limit) = limit else {
        println!("no memory controller for cgroups of version 2: --memory is only counted here");
        assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""), "{ran}");
        return;
    };
    assert_eq!(limit.trim(), (64 << 20).to_string());
    let line = "tutti run: rank 0 was killed: the job's memory on node node0 reached 64 MiB (--memory)\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (137, line), "{ran}");
}
