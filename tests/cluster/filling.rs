//! Fillers: what they have, and what becomes of one that costs a gang too much.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use tutti_testkit::{Need, Scratch, skip_part};
use tutti_tests::compile;

use crate::Cluster;
use crate::gangs::is_frozen;
use crate::harness::{await_that, cgroup_of};
use crate::sharing::SPIN;

impl Cluster {
    /// The job is a filler that runs; false where it cannot be put behind others.
    fn submit_filler(&self, job: u64, words: &[&str]) -> bool {
        self.submit(job, &[&["--fill"], words].concat(), "running");
        let is_behind = self.row(job)["enforced"][0][1]["behind"] == true;
        if !is_behind {
            skip_part(Need::Cgroup, "no group of the controller cpu can be made here");
        }
        is_behind
    }

    /// The cgroup of a job's first rank that its daemon freezes.
    fn frozen_group(&self, job: u64) -> PathBuf {
        let mut place = None;
        await_that("its rank is in the job's cgroup", || {
            let pid = self.row(job)["pids"][0][1][0].as_i64();
            place = pid.and_then(|pid| cgroup_of(Pid::from_raw(pid as i32)?));
            place.is_some()
        });
        place.expect("a cgroup").parent().expect("the job's").to_owned()
    }
}

/// Clock ticks that the ranks of a job have worked.
fn worked(cluster: &Cluster, job: u64) -> u64 {
    let pids = cluster.row(job)["pids"][0][1].as_array().cloned().unwrap_or_default();
    let pids = pids.iter().filter_map(|pid| rustix::process::Pid::from_raw(pid.as_i64()? as i32));
    pids.filter_map(tutti_os::stat::Stat::of).map(|stat| stat.worked).sum()
}

#[test]
fn filler_has_what_a_gang_leaves() {
    let cluster = Cluster::up("filler", 1, &[]);
    let spin: Vec<&str> = ["--fill", "-n", "2"].into_iter().chain(SPIN).collect();
    cluster.submit(1, &spin, "running");
    if cluster.row(1)["enforced"][0][1]["behind"] != true {
        return skip_part(Need::Cgroup, "no group of the controller cpu can be made here");
    }
    let gang: Vec<&str> = ["-n", "2"].into_iter().chain(SPIN).collect();
    cluster.submit(2, &gang, "running");
    assert!(cluster.tutti(&["ps"]).stdout.contains(" fills "));
    // Until its ranks are there all that is left is the filler's.
    await_that("the gang works", || worked(&cluster, 2) > 50);
    let (filled, had) = (worked(&cluster, 1), worked(&cluster, 2));
    await_that("the gang has worked", || worked(&cluster, 2) > had + 300);
    let (filled, had) = (worked(&cluster, 1) - filled, worked(&cluster, 2) - had);
    assert!(filled * 10 < had, "the filler worked {filled} ticks, the gang {had}");
    cluster.tutti(&["kill", "2"]).expect_success();
    let dozer = "while :; do i=0; while [ $i -lt 500 ]; do i=$((i+1)); done; sleep 0.004; done";
    cluster.submit(3, &["-n", "2", "sh", "-c", dozer], "running");
    // What is left on a machine that others use too may be nothing: that it could run is what is tested.
    let pid =
        cluster.row(1)["pids"][0][1][0].as_i64().and_then(|pid| rustix::process::Pid::from_raw(pid as i32));
    let place = cgroup_of(pid.expect("a rank")).expect("a cgroup");
    let looks = std::time::Instant::now();
    while looks.elapsed() < std::time::Duration::from_secs(2) {
        assert!(!is_frozen(place.parent().expect("the job's")), "it fills while the gang has its turns");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    await_that("the gang has its turns", || cluster.row(3)["turns"].as_u64() > Some(0));
}

/// A process that takes what it gets of the cores, until it is dropped.
struct Spinning(Child);

impl Spinning {
    fn start() -> Self {
        Spinning(Command::new(SPIN[0]).args(&SPIN[1..]).spawn().expect("a shell"))
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The cluster is shut down while its ranks are on their way into their cgroup.
#[test]
fn filler_that_has_not_begun_ends_with_its_cluster() {
    let cluster = Cluster::up("filler-down", 1, &[]);
    cluster.submit(1, &[&["-n", "2"][..], &SPIN].concat(), "running");
    // Whoever is behind others gets next to nothing of the cores.
    let others: Vec<_> = (0..4).map(|_| Spinning::start()).collect();
    cluster.tutti(&["submit", "--fill", "-n", "2", "sleep", "1000"]).expect_success();
    await_that("it has a place", || !cluster.job(2).contains("\"waiting\""));
    let down = cluster.tutti(&["down"]);
    drop(others);
    down.expect_success();
    cluster.tutti(&["up"]).expect_success();
}

/// A gang whose calls depend on its filler as `how` says, and the filler; none where there are no fillers.
fn gang_beside_a_filler(name: &str, how: &str) -> Option<(Cluster, Scratch)> {
    let scratch = Scratch::new(&format!("{name}-program"));
    let program = compile("tests/gang/programs/filled.c", scratch.path());
    let cluster = Cluster::up(name, 1, &[]);
    if !cluster.submit_filler(1, &[&["-n", "1"][..], &SPIN].concat()) {
        return None;
    }
    let switch = cluster.frozen_group(1).join("cgroup.freeze");
    let words = [program.to_str().expect("UTF-8"), switch.to_str().expect("UTF-8"), how];
    cluster.submit(2, &[&["-n", "2"][..], &words].concat(), "running");
    Some((cluster, scratch))
}

#[test]
fn filler_that_halves_the_calls_of_a_gang_is_put_out() {
    let Some((cluster, _scratch)) = gang_beside_a_filler("filler-hurts", "hurts") else { return };
    await_that("the filler is put out", || cluster.row(1)["put_out"][0][1]["gang"] == 2);
    let row = cluster.row(1);
    assert_eq!(row["put_out"][0][1]["for_ms"], 10_000, "{row}");
    assert!(row["put_out"][0][1]["permille"].as_u64() > Some(200), "{row}");
    await_that("it stands still", || is_frozen(&cluster.frozen_group(1)));
    let says = |words: &[&str]| cluster.tutti(words).expect_success().stdout;
    assert!(says(&["ps"]).contains("job 1 is put out for 10 s: it costs job 2 "), "{}", says(&["ps"]));
    assert!(says(&["ps", "-l"]).contains("put out for 10 s: it costs job 2 "));
    assert!(says(&["status", "1"]).contains("fills    not on node0: put out for 10 s"));
    let log = std::fs::read_to_string(cluster.folder.join("events.jsonl")).expect("the log");
    assert!(log.contains("\"event\":\"put-out\",\"job\":1,\"nodes\":[\"node0\"]"), "{log}");
    let page = cluster.folder.join("turns.html");
    cluster.tutti(&["timeline", "--all", "-o", page.to_str().expect("UTF-8")]).expect_success();
    assert!(std::fs::read_to_string(&page).expect("a page").contains("put out for 10 s: it costs job 2 "));
    // When the gang is gone there is nobody whom it costs anything.
    cluster.tutti(&["kill", "2"]).expect_success();
    await_that("it fills again", || cluster.row(1)["put_out"][0].is_null());
    await_that("it runs", || !is_frozen(&cluster.frozen_group(1)));
}

#[test]
fn filler_that_costs_a_gang_nothing_is_tried_and_fills_on() {
    let Some((cluster, _scratch)) = gang_beside_a_filler("filler-gains", "gains") else { return };
    let group = cluster.frozen_group(1);
    await_that("it is tried", || is_frozen(&group));
    // A trial stops it for a window of 250 ms in each pair. Other load of the machine may be taken for the
    // filler's: then it is out for 10 s, and is tried again. One that costs a gang something never fills for
    // so long.
    let mut since = Instant::now();
    await_that("its trial is over, and it fills", || {
        if is_frozen(&group) {
            since = Instant::now();
        }
        since.elapsed() > Duration::from_secs(3)
    });
}

#[test]
fn advise_names_the_job_that_leaves_slots_and_the_one_that_could_fill_them() {
    let cluster = Cluster::up("advise", 1, &[]);
    assert_eq!(
        cluster.tutti(&["advise"]).expect_success().stdout,
        "no running job has been measured for long enough\n"
    );
    // One rank computes, the other sleeps: half of the slots is left.
    let half = "test $TUTTI_RANK = 0 || exec sleep 1000; while :; do :; done";
    cluster.submit(1, &["-n", "2", "sh", "-c", half], "running");
    cluster.submit(2, &[&["-n", "2"][..], &SPIN].concat(), "running");
    let advice = || -> serde_json::Value {
        serde_json::from_str(&cluster.tutti(&["advise", "--json"]).expect_success().stdout).expect("JSON")
    };
    let find = |list: &str, job: u64| {
        let advice = advice();
        advice[list].as_array().and_then(|all| all.iter().find(|one| one["job"] == job)).cloned()
    };
    await_that("the first leaves slots", || find("leave", 1).is_some());
    let left = find("leave", 1).expect("it does")["left_milli"].as_u64();
    assert!(left >= Some(900) && left <= Some(2000), "{left:?}");
    await_that("the second could fill them", || find("offers", 2).is_some_and(|offer| offer["beside"] == 1));
    let text = cluster.tutti(&["advise"]).expect_success().stdout;
    assert!(text.starts_with("JOB  STATE    USER  RANKS"), "{text}");
}
