//! Followers of a cluster: `tutti ps --watch`, messages of jobs, and the history beside the daemons' log.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Child;

use serde_json::Value;
use tutti_tests::{Scratch, compile};

use crate::Cluster;
use crate::harness::await_that;
use crate::page::{Site, get, state, submit};

/// A command that goes on until the test ends.
struct Watching(Child);

impl Watching {
    fn start(cluster: &Cluster, words: &[&str], output: &Path) -> Self {
        let file = File::create(output).expect("a file");
        Watching(cluster.command(words).stdout(file).spawn().expect("it starts"))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn number_of(row: &Value) -> String {
    row["job"].to_string()
}

#[test]
fn ps_watch_prints_changes_also_after_a_new_controller() {
    let cluster = Cluster::up("ps-watch", 2, &["--slots", "2"]);
    let (lines, table) = (cluster.folder.join("lines"), cluster.folder.join("table"));
    let words = ["ps", "--watch", "--json", "--name", "seen"];
    let _lines = Watching::start(&cluster, &words, &lines);
    let _table = Watching::start(&cluster, &["ps", "--watch"], &table);
    let rows = || -> Vec<Value> {
        let text = std::fs::read_to_string(&lines).expect("a file");
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let has = |job: &str, state: &str| {
        let is_it = |row: &Value| number_of(row) == job && row["state"] == state;
        rows().iter().any(is_it)
    };
    let other = submit(&cluster, &["-n", "1", "--name", "other", "sleep", "1000"]);
    let first = submit(&cluster, &["-n", "2", "--name", "seen", "sleep", "1000"]);
    await_that("it runs", || has(&first, "running"));
    cluster.tutti(&["suspend", &first]).expect_success();
    await_that("it is suspended", || has(&first, "suspended"));
    // The controller that follows knows nothing of its readers.
    cluster.replace(0);
    await_that("the next controller knows it", || cluster.tutti(&["ps"]).stdout.contains("suspended"));
    cluster.tutti(&["kill", &first]).expect_success();
    await_that("it is gone", || has(&first, "gone"));
    let second = submit(&cluster, &["-n", "1", "--name", "seen", "sleep", "1000"]);
    await_that("the next one runs", || has(&second, "running"));
    assert!(rows().iter().all(|row| number_of(row) != other), "it was not chosen: {:#?}", rows());
    let shown = || std::fs::read_to_string(&table).expect("a file");
    await_that("the table has both", || {
        let shown = shown();
        let last = shown.rsplit("\n\n").next().unwrap_or_default();
        [&other, &second]
            .into_iter()
            .all(|job| last.lines().any(|line| line.split_whitespace().next() == Some(job.as_str())))
    });
    assert!(!shown().contains('\u{1b}'), "it is no terminal: {}", shown());
    for (words, expected) in [
        (&["ps", "--watch", "--all"][..], "--all"),
        (&["ps", "--watch", "--history"], "--history"),
        (&["ps", "--watch", "--user", "nobody-has-this-name"], "there is no user"),
    ] {
        let ran = cluster.tutti(words);
        assert!(ran.code() != 0 && ran.stdout.is_empty() && ran.stderr.contains(expected), "{ran}");
    }
}

#[test]
fn messages_of_a_job_are_counted_and_shown() {
    const COUNT: u64 = 1000;
    let site = Site::up("page-messages", 2, &["--slots", "1"]);
    let (cluster, address) = (&site.cluster, site.address);
    let scratch = Scratch::new("page-messages-program");
    let program = compile("tests/cluster/programs/sends.c", scratch.path());
    let end = cluster.folder.join("end");
    let (program, file) = (program.to_str().expect("a path"), end.to_str().expect("a path"));
    let count = COUNT.to_string();
    let job = submit(cluster, &["-N", "2", "-n", "2", program, &count, file]);
    let sent = || {
        let ran = cluster.tutti(&["top", "--json"]).expect_success();
        let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
        found["jobs"][0]["messages"].as_u64().unwrap_or(0)
    };
    await_that("all have been counted", || sent() >= COUNT);
    // Those of the library itself are a few.
    assert!(sent() < 2 * COUNT, "{}", sent());
    await_that("the page has them, and a rate", || {
        let row = state(address)["jobs"][&job].clone();
        row["messages"].as_u64().is_some_and(|sent| sent >= COUNT) && row["messages_s"].is_u64()
    });
    assert!(get(address, "/metrics").contains("\ntutti_messages_per_second "));
    let listed = cluster.tutti(&["ps", "-l"]).expect_success().stdout;
    let words: Vec<&str> = listed.lines().nth(1).expect("its line").split_whitespace().collect();
    assert!(words[5].parse::<u64>().is_ok_and(|sent| sent >= COUNT), "{listed}");
    assert!(cluster.tutti(&["top", "--once"]).expect_success().stdout.contains("MESSAGES"));
    File::create(&end).expect("a file");
    cluster.tutti(&["wait", &job]).expect_success();
    await_that("a job that is over has none", || state(address)["jobs"][&job].is_null());
}

/// Step of a switch, by the daemon's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    /// When, in us since 1970.
    us: u64,
    /// Switch that it is of.
    generation: u64,
    job: u64,
    /// The job was thawed; else it was frozen.
    runs: bool,
}

/// Steps of the node, in order.
fn steps(log: &Path) -> Vec<Step> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut found = Vec::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        if line["node"] != "node0" {
            continue;
        }
        let since_us = line["since_us"].as_u64().expect("a time");
        for turn in line["turns"].as_array().expect("turns") {
            let number = |at: usize| turn[at].as_u64().expect("a number");
            if let Some(runs) = match turn[0].as_str() {
                Some("thaw") => Some(true),
                Some("freeze") => Some(false),
                _ => None,
            } {
                found.push(Step { us: since_us + number(1), generation: number(2), job: number(3), runs });
            }
        }
    }
    found.sort_unstable();
    found
}

/// Checks so many random moments between two: jobs that ran at once stood in one row, those that were frozen
/// did not stand in it. Gives how many moments could be looked at.
fn check_moments(site: &Site, jobs: &[u64], span_ms: (u64, u64), count: u64) -> u64 {
    let log = site.cluster.folder.join("turns.jsonl");
    let steps = steps(&log);
    let query = format!("/api/timeline?since_ms={}&until_ms={}", span_ms.0, span_ms.1);
    let found: Value = serde_json::from_str(&get(site.address, &query)).expect("JSON");
    let holds = |part: &Value, from: usize, at_ms: u64| {
        part[from].as_u64().is_some_and(|from_ms| from_ms <= at_ms)
            && part[from + 1].as_u64().is_none_or(|until_ms| until_ms >= at_ms)
    };
    let is_gap = |at_ms: u64| {
        let gaps = found["gaps"].as_array().expect("gaps");
        gaps.iter().any(|gap| holds(gap, 0, at_ms))
    };
    let rows = |job: u64, at_ms: u64| -> BTreeSet<u32> {
        let places = found["places"].as_array().expect("places").iter();
        let mut places = places.filter(|place| place[0] == job && holds(place, 1, at_ms));
        let place = places.next().unwrap_or_else(|| panic!("job {job} has no row at {at_ms}: {found:#}"));
        let rows = place[3].as_str().expect("rows").split(',');
        rows.map(|row| row.parse().unwrap_or_else(|_| panic!("{place} has no row"))).collect()
    };
    let mut random = tutti_testkit::Random::new(tutti_testkit::random::seed());
    let mut looked = 0;
    for _ in 0..count {
        let at_us = 1000 * span_ms.0 + random.below(1000 * (span_ms.1 - span_ms.0));
        let at_ms = at_us / 1000;
        let next = steps.partition_point(|step| step.us <= at_us);
        // Between two steps of one switch a row is neither there nor gone.
        let is_inside = |at: usize| steps.get(at).map(|step| step.generation);
        if is_gap(at_ms) || next == 0 || is_inside(next - 1) == is_inside(next) {
            continue;
        }
        let state = |job: u64| steps[..next].iter().rfind(|step| step.job == job).map(|step| step.runs);
        let (mut ran, mut frozen) = (Vec::new(), Vec::new());
        for job in jobs {
            match state(*job) {
                Some(true) => ran.push(rows(*job, at_ms)),
                Some(false) => frozen.push(rows(*job, at_ms)),
                None => {}
            }
        }
        let Some(common) = ran.iter().cloned().reduce(|one, other| &one & &other) else { continue };
        assert!(!common.is_empty(), "at {at_ms} ran jobs of different rows: {ran:?}");
        for rows in frozen {
            assert!(
                common.iter().any(|row| !rows.contains(row)),
                "at {at_ms} a job of {common:?} was frozen"
            );
        }
        looked += 1;
    }
    looked
}

/// Time that jobs have had, as the daemon said it last.
fn served(cluster: &Cluster) -> Vec<Value> {
    let ran = cluster.tutti(&["top", "--json"]).expect_success();
    let found: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    found["jobs"].as_array().expect("jobs").iter().map(|job| job["served_ms"].clone()).collect()
}

fn history_is_the_log(name: &str, phases: u64, moments: u64) {
    let site = Site::up(name, 1, &["--slots", "2", "--slice", "50"]);
    let (cluster, address) = (&site.cluster, site.address);
    let busy = ["sh", "-c", "while :; do :; done"];
    let number = |text: String| text.parse::<u64>().expect("a number");
    let start = |ranks: &str| number(submit(cluster, &[&["-n", ranks], &busy[..]].concat()));
    let mut jobs = vec![start("2"), start("1"), start("1")];
    let log = cluster.folder.join("turns.jsonl");
    let mut looked = 0;
    for phase in 0..phases {
        let placed = |job: u64| {
            let text = get(address, &format!("/api/job/{job}"));
            let found: Value = serde_json::from_str(&text).expect("JSON");
            let places = found["past"]["places"].as_array().cloned().unwrap_or_default();
            let last = places.last().cloned().unwrap_or_default();
            last[2].is_null() && last[3].as_str().is_some_and(|rows| !rows.is_empty())
        };
        await_that("the history has the rows of all", || jobs.iter().all(|job| placed(*job)));
        // What is said of rows is a second old: it is to be of behind the last change.
        for _ in 0..3 {
            let known = served(cluster);
            await_that("the daemon has said anew what jobs have had", || served(cluster) != known);
        }
        let of_daemon = |job: u64| state(address)["jobs"][job.to_string()]["rows"].clone();
        let before: Vec<Value> = jobs.iter().map(|job| of_daemon(*job)).collect();
        let last_us = || steps(&log).last().map_or(0, |step| step.us);
        let from_us = last_us();
        await_that("they take turns", || steps(&log).iter().filter(|step| step.us > from_us).count() > 40);
        let until_us = last_us();
        let after: Vec<Value> = jobs.iter().map(|job| of_daemon(*job)).collect();
        // Jobs that were given other slots meanwhile are known a second later.
        if before == after {
            looked += check_moments(&site, &jobs, (from_us / 1000 + 1, until_us / 1000), moments / phases);
        }
        let ended = jobs.remove(phase as usize % jobs.len());
        cluster.tutti(&["kill", &ended.to_string()]).expect_success();
        jobs.push(start(if phase % 2 == 0 { "2" } else { "1" }));
    }
    println!("{looked} of {moments} moments were looked at");
    assert!(looked * 4 > moments, "{looked} of {moments} moments could be looked at");
}

#[test]
fn history_has_the_rows_that_the_log_has() {
    history_is_the_log("history-log", 2, 100);
}

#[test]
#[ignore = "minutes: make soak-history"]
fn history_has_the_rows_that_the_log_has_soak() {
    history_is_the_log("history-log-soak", 20, 1000);
}

/// Memory of the daemon of a node, in KiB, that is its own.
fn daemon_kib(cluster: &Cluster, node: u32) -> u64 {
    let pid = cluster.daemon(node).as_raw_nonzero();
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

/// No daemon may grow by more than this, in KiB.
const GROWTH_KIB_MAX: u64 = 16 << 10;
/// Number of those who follow at once.
const WATCHERS: usize = 64;

/// Times of freezes and of thaws behind a moment, in us, in order.
fn took_us(log: &Path, from_us: u64) -> [Vec<u64>; 2] {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut found = [Vec::new(), Vec::new()];
    for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let since_us = line["since_us"].as_u64().expect("a time");
        for turn in line["turns"].as_array().expect("turns") {
            let number = |at: usize| turn[at].as_u64().expect("a number");
            let kind = ["freeze", "thaw"].iter().position(|kind| turn[0] == *kind);
            if let Some(kind) = kind.filter(|_| since_us + number(1) > from_us) {
                found[kind].push(number(4));
            }
        }
    }
    found.iter_mut().for_each(|times| times.sort_unstable());
    found
}

/// Turns of two jobs, without and with readers that follow, so many times each.
fn turns_beside_watchers(name: &str, rounds: usize, switches: usize) {
    let cluster = Cluster::up(name, 1, &["--slots", "2", "--slice", "20"]);
    for _ in 0..2 {
        submit(&cluster, &["-n", "2", "sh", "-c", "while :; do :; done"]);
    }
    let log = cluster.folder.join("turns.jsonl");
    await_that("they take turns", || steps(&log).len() > 4);
    let before_kib = daemon_kib(&cluster, 0);
    for round in 0..rounds {
        for count in [0, WATCHERS] {
            let file = |number: usize| cluster.folder.join(format!("watcher-{number}"));
            let words = ["ps", "--watch", "--json"];
            let watchers: Vec<Watching> =
                (0..count).map(|number| Watching::start(&cluster, &words, &file(number))).collect();
            await_that("each has seen both jobs", || {
                (0..count)
                    .all(|number| std::fs::read_to_string(file(number)).expect("a file").lines().count() >= 2)
            });
            let from_us = steps(&log).last().map_or(0, |step| step.us);
            await_that("the jobs take turns", || took_us(&log, from_us)[1].len() > switches);
            let of = took_us(&log, from_us);
            let at = |times: &[u64], part: usize| times.get(times.len() * part / 100).copied();
            let [freeze, thaw] = of.map(|times| (at(&times, 50), at(&times, 99), times.len()));
            let kib = daemon_kib(&cluster, 0);
            println!("round {round}, {count} readers: freeze {freeze:?}, thaw {thaw:?}, {kib} KiB");
            drop(watchers);
        }
    }
    let grown_kib = daemon_kib(&cluster, 0).saturating_sub(before_kib);
    println!("the daemon has grown by {grown_kib} KiB");
    assert!(grown_kib < GROWTH_KIB_MAX, "{grown_kib} KiB");
}

#[test]
fn watchers_see_all_and_the_daemon_does_not_grow() {
    turns_beside_watchers("watchers", 1, 10);
}

#[test]
#[ignore = "minutes: make soak-history"]
fn watchers_beside_switches_soak() {
    turns_beside_watchers("watchers-soak", 5, 500);
}

/// Thousands of jobs come and go, and are in the history; what answers take is printed.
#[test]
#[ignore = "minutes: make soak-history"]
fn many_jobs_come_and_go_soak() {
    let jobs = std::env::var("TUTTI_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(10_000_usize);
    let site = Site::up("many-jobs", 1, &["--slots", "4"]);
    let (cluster, address) = (&site.cluster, site.address);
    let before_kib = daemon_kib(cluster, 0);
    let mut last = String::new();
    for number in 0..jobs {
        last = submit(cluster, &["--output", "none", "-n", "1", "true"]);
        // As many as the controller takes at once.
        if number % 100 == 99 {
            cluster.tutti(&["wait", &last]).expect_success();
        }
    }
    cluster.tutti(&["wait", &last]).expect_success();
    let path = format!("/api/history?limit={}", jobs.min(20_000));
    let in_history = || {
        let found: Value = serde_json::from_str(&get(address, &path)).expect("JSON");
        let rows = found["jobs"].as_array().expect("jobs").clone();
        rows.iter().filter(|row| row["ended_ms"].is_u64()).count()
    };
    await_that("all are in the history", || in_history() == jobs);
    for (what, ask) in [
        ("page, all jobs", &(|| drop(get(address, &path))) as &dyn Fn()),
        ("page, state", &|| drop(get(address, "/api/state"))),
        ("tutti ps", &|| drop(cluster.tutti(&["ps"]).expect_success())),
        ("tutti ps --all", &|| drop(cluster.tutti(&["ps", "--all"]).expect_success())),
        ("tutti top --once", &|| drop(cluster.tutti(&["top", "--once"]).expect_success())),
    ] {
        let began = std::time::Instant::now();
        ask();
        println!("{what}: {} ms", began.elapsed().as_millis());
    }
    let grown_kib = daemon_kib(cluster, 0).saturating_sub(before_kib);
    println!("{jobs} jobs: the daemon has grown by {grown_kib} KiB");
    assert!(grown_kib < GROWTH_KIB_MAX, "{grown_kib} KiB");
}
