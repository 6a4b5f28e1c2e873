//! Jobs as batch users know them: names, time limits, dependencies, waiting for the end.

use std::time::{Duration, Instant};

use std::os::unix::process::CommandExt;

use tutti_testkit::{Need, skip};
use tutti_tests::Scratch;

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{RANK, await_that};

fn is_over(cluster: &Cluster, job: u32) {
    await_that("the job is over", || cluster.job(job).contains("\"over\""));
}

fn status_line(cluster: &Cluster, job: u32, line: &str) -> String {
    let status = cluster.tutti(&["status", &job.to_string()]).expect_success().stdout;
    let found = status.lines().find_map(|text| text.strip_prefix(line));
    found.unwrap_or_default().trim().to_owned()
}

/// The front end's line and status, and those of a job that nobody watches; the environment's limit counts
/// too.
#[test]
fn time_limit_ends_a_job_with_status_124() {
    let cluster = Cluster::up("batch-time", 2, &[]);
    let ran = cluster.run(&["run", "--time", "1s", "-N", "2", "-n", "2", RANK, "hang"]);
    let line = "tutti run: it reached its time limit of 0:01 (--time); the job is ended\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (124, line));
    for (job, option) in [(2, "--timeout"), (3, "--time")] {
        cluster
            .tutti(&[
                "submit",
                option,
                "1s".trim_end_matches(if job == 2 { "s" } else { "" }),
                "-n",
                "1",
                RANK,
                "hang",
            ])
            .expect_success();
        assert_eq!(cluster.tutti(&["wait", &job.to_string()]).code(), 124);
        let cause = format!("it reached its time limit of 0:01 ({option})");
        assert_eq!(status_line(&cluster, job, "cause"), cause);
        assert!(cluster.job(job).contains("\"limit_ms\": 1000"), "{}", cluster.job(job));
    }
    let mut command = cluster.command(&["submit", "-n", "1", RANK, "hang"]);
    tutti_tests::run(command.env("MPIEXEC_TIMEOUT", "1"), crate::harness::LIMIT).expect_success();
    assert_eq!(cluster.tutti(&["wait", "4"]).code(), 124);
}

/// A job that ends well within its grace keeps what it writes then; its status says that it was ended.
#[test]
fn time_limit_kills_after_a_grace() {
    let cluster = Cluster::up("batch-grace", 2, &[]);
    let script = "trap 'echo saved; exit 0' TERM; while :; do sleep 0.05; done";
    // Long enough for a shell to begin, on a crowded machine too.
    let ran = cluster.run(&["run", "--time", "6s", "-N", "2", "-n", "2", "sh", "-c", script]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (124, "saved\nsaved\n"), "{ran}");
    let began = Instant::now();
    let deaf = "trap '' TERM; while :; do sleep 0.05; done";
    let ran = cluster.run(&["run", "--time", "6s", "-n", "1", "sh", "-c", deaf]);
    assert_eq!(ran.code(), 124, "{ran}");
    assert!(began.elapsed() > Duration::from_secs(15), "{:?}", began.elapsed());
}

/// A cluster's ranks have 10 s after TERM at the limit; `tutti kill` gives none.
#[test]
fn kill_after_is_between_term_and_kill_of_a_job_of_the_cluster() {
    let cluster = Cluster::up("batch-kill-after", 1, &["--slots", "2"]);
    let deaf = "trap '' TERM; echo here; while :; do sleep 0.05; done";
    let words = ["run", "--time", "2s", "--kill-after", "0.5", "-n", "1", "sh", "-c", deaf];
    assert_eq!(cluster.run(&words).code(), 124);
    let submit = |words: &[&str], script: &str| {
        let words = [&["submit", "-o", "none"], words, &["-n", "2", "sh", "-c", script]].concat();
        cluster.tutti(&words).expect_success();
    };
    let says = |job: &str, text: &str| {
        await_that("the ranks are ready", || cluster.tutti(&["logs", job]).stdout.matches(text).count() == 2);
    };
    submit(&[], "trap 'echo saved; exit 7' TERM; echo here; while :; do sleep 0.05; done");
    says("2", "here\n");
    let ran = cluster.tutti(&["kill", "--kill-after", "1h", "2", "99"]);
    assert_eq!(ran.stderr, "tutti kill: there is no job 99\n", "{ran}");
    assert_eq!(ran.stdout, "job 2 is asked to end\n", "{ran}");
    assert_eq!(cluster.tutti(&["wait", "2"]).code(), 7);
    assert!(cluster.tutti(&["logs", "2"]).stdout.contains("saved\n"), "the first to end, at least");
    submit(&[], deaf);
    says("3", "here\n");
    submit(&["--exclusive"], "true");
    // What waits hears no signal.
    cluster.tutti(&["kill", "--kill-after", "1h", "4"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "4"]).code(), 137);
    // Suspended, it would not even know.
    cluster.tutti(&["suspend", "3"]).expect_success();
    cluster.tutti(&["kill", "--kill-after", "0.5", "3"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "3"]).code(), 137);
}

/// Reason for which a job waits, from its row.
fn waits(cluster: &Cluster, job: u32) -> String {
    let rows: serde_json::Value = serde_json::from_str(&cluster.job(job)).unwrap_or_default();
    rows[0]["waits"].as_str().unwrap_or_default().to_owned()
}

/// A job of `--requeue` begins anew when a node of it is lost, and when it is told to. What waits for it
/// waits on.
#[test]
fn job_with_requeue_outlives_a_node_of_it() {
    let Some(cluster) = Cluster::on_machines(3, &["--slots", "1"]) else { return };
    let (named, path) = cluster.file("out");
    // All machines see it.
    let scratch = Scratch::new("batch-requeue");
    let go = scratch.path().join("go");
    let script =
        format!("echo begun $TUTTI_RESTARTS $TUTTI_FIRST_JOB; [ -e {} ] || exec sleep 1000", go.display());
    let submit = ["submit", "--requeue", "-o", named.to_str().expect("a name"), "-N", "2", "-n", "2"];
    let has_begun = |line: &str| {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().collect::<Vec<_>>() == [line; 2]
    };
    cluster.tutti(&[&submit[..], &["sh", "-c", &script]].concat()).expect_success();
    await_that("it runs", || has_begun("begun"));
    cluster.tutti(&["submit", "-o", "none", "--after-ok", "1", "-n", "1", "true"]).expect_success();
    cluster.tutti(&["requeue", "1"]).expect_success();
    await_that("it runs again", || has_begun("begun 1 1"));
    assert!(cluster.job(1).contains("\"kind\": \"requeued\""), "{}", cluster.job(1));
    assert!(waits(&cluster, 2).contains("job 3 has ended"), "{}", waits(&cluster, 2));
    std::fs::write(&go, "").expect("our folder");
    let lost = if cluster.job(3).contains("\"node1\"") { 1 } else { 2 };
    let gone = cluster.kill_daemon(lost);
    assert_eq!(cluster.tutti(&["wait", "1", "2"]).code(), 0);
    assert!(cluster.job(3).contains("\"kind\": \"node-lost\""), "{}", cluster.job(3));
    assert!(cluster.job(4).contains("\"count\": 2") && has_begun("begun 2 1"), "{}", cluster.job(4));
    let ran = cluster.tutti(&["requeue", "1"]);
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, "tutti requeue: job 4 is over\n"));
    drop(gone);
}

/// A job of `--requeue` that needs a certain node waits for it when it is lost.
#[test]
fn requeued_job_waits_for_its_lost_node() {
    let Some(cluster) = Cluster::on_machines(2, &["--slots", "1"]) else { return };
    let submit = ["submit", "--requeue", "-o", "none", "--host", "node1", "-n", "1"];
    let scratch = Scratch::new("batch-awaits");
    let go = scratch.path().join("go");
    let script = format!("[ -e {} ] || exec sleep 1000", go.display());
    cluster.tutti(&[&submit[..], &["sh", "-c", &script]].concat()).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    std::fs::write(&go, "").expect("our folder");
    let gone = cluster.kill_daemon(1);
    await_that("its successor waits for the node", || {
        waits(&cluster, 2) == "0 are of the 1 node that it needs up"
    });
    assert!(cluster.job(1).contains("\"kind\": \"node-lost\""), "{}", cluster.job(1));
    gone.start();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 0);
    assert!(cluster.job(2).contains("\"count\": 1"), "{}", cluster.job(2));
}

#[test]
fn held_job_starts_when_it_is_released() {
    let cluster = Cluster::up("batch-hold", 2, &[&["--slots", "1"], &SLOWLY_LOST[..]].concat());
    cluster.tutti(&["submit", "-o", "none", "--hold", "-n", "1", "true"]).expect_success();
    let held = |job: u32| waits(&cluster, job).ends_with(&format!(", until `tutti release {job}`"));
    await_that("it is held", || held(1));
    // One that waits for nodes is held too, and loses its place.
    cluster
        .tutti(&["submit", "-o", "none", "--exclusive", "-N", "2", "-n", "2", RANK, "hang"])
        .expect_success();
    await_that("it runs", || cluster.job(2).contains("\"running\""));
    cluster.tutti(&["submit", "-o", "none", "-n", "1", "true"]).expect_success();
    await_that("it waits for nodes", || waits(&cluster, 3).contains("exclusive"));
    cluster.tutti(&["hold", "3"]).expect_success();
    cluster.tutti(&["hold", "3"]).expect_success();
    assert!(held(3), "{}", cluster.job(3));
    let ran = cluster.tutti(&["hold", "2"]);
    let line = "tutti hold: job 2 has its nodes already: `tutti suspend 2` stops it\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, line));
    cluster.tutti(&["kill", "2"]).expect_success();
    cluster.tutti(&["wait", "2"]);
    // The next controller knows it.
    cluster.replace(0);
    await_that("they are held", || held(1) && held(3));
    if rustix::process::geteuid().is_root() {
        let mut command = cluster.command(&["release", "3"]);
        let ran = tutti_tests::run(command.uid(54321).gid(54321), crate::harness::LIMIT);
        assert_eq!((ran.code(), ran.stderr.as_str()), (1, "tutti release: job 3 is another user's\n"));
    } else {
        skip(Need::Root, "only root can be another user");
    }
    let ran = cluster.tutti(&["release", "1", "3"]).expect_success();
    assert_eq!(ran.stdout, "job 1 is released\njob 3 is released\n");
    assert_eq!(cluster.tutti(&["wait", "1", "3"]).code(), 0);
    assert_eq!(cluster.tutti(&["release", "1"]).stderr, "tutti release: job 1 is over\n");
}

#[test]
fn array_runs_each_task_and_is_over_with_the_last() {
    let cluster = Cluster::up("batch-array", 2, &[&["--slots", "1"], &SLOWLY_LOST[..]].concat());
    // Each task waits for a file of its own: no more of them begin than may at once.
    let script = "touch began-$TUTTI_ARRAY_TASK; until [ -e go-$TUTTI_ARRAY_TASK ]; do sleep 0.05; done; \
                  echo $TUTTI_ARRAY_ID $TUTTI_ARRAY_TASK of $TUTTI_ARRAY_COUNT, $TUTTI_ARRAY_MIN-$TUTTI_ARRAY_MAX; \
                  exit $((TUTTI_ARRAY_TASK / 7))";
    let words = ["submit", "--array", "1-5:2,7%2", "-n", "1", "sh", "-c", script];
    let ran = cluster.tutti(&words).expect_success();
    assert_eq!(ran.stdout, "job 1\n");
    let began = |task: u32| cluster.folder.join(format!("began-{task}")).exists();
    await_that("two tasks begin", || began(1) && began(3));
    let rows = cluster.tutti(&["ps"]).stdout;
    let why = "job 1_[5,7] waits: 2 tasks of its array have nodes, which are as many as may at once";
    assert!(rows.contains("1_3") && rows.contains(why), "{rows}");
    assert_eq!(waits(&cluster, 1), "0 of its 4 tasks are over");
    // A task is held and killed alone; what is done to the array is done to all that are not over.
    cluster.tutti(&["hold", "1_5"]).expect_success();
    let refused = cluster.tutti(&["kill", "1_4"]);
    assert_eq!(refused.stderr, "tutti kill: job 1 has no task 4: it has 1,3,5,7%2\n");
    cluster.replace(0);
    await_that("the next controller knows them", || waits(&cluster, 1) == "0 of its 4 tasks are over");
    for task in [1, 3] {
        std::fs::write(cluster.folder.join(format!("go-{task}")), "").expect("our folder");
        assert_eq!(cluster.tutti(&["wait", &format!("1_{task}")]).code(), 0);
    }
    await_that("the task that is not held begins", || began(7));
    assert!(!began(5) && waits(&cluster, 4).contains("it is held by"), "{}", cluster.job(4));
    std::fs::write(cluster.folder.join("go-5"), "").expect("our folder");
    cluster.tutti(&["release", "1"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1_5"]).code(), 0);
    std::fs::write(cluster.folder.join("go-7"), "").expect("our folder");
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 1);
    assert_eq!(status_line(&cluster, 1, "cause"), "task 7 (job 5) has ended with status 1");
    assert_eq!(status_line(&cluster, 3, "array"), "1, task 3");
    let read = |task: u32| {
        std::fs::read_to_string(cluster.folder.join(format!("tutti-1_{task}.out"))).expect("its file")
    };
    for task in [1, 3, 5, 7] {
        assert_eq!(read(task), format!("1 {task} of 4, 1-7\n"));
    }
    let shown: String = [1, 3, 5, 7].map(|task| format!("==> 1_{task} <==\n1 {task} of 4, 1-7\n")).concat();
    assert_eq!(cluster.tutti(&["logs", "1"]).expect_success().stdout, shown);
    // All at once; nothing is left to wait.
    cluster.tutti(&["submit", "-o", "none", "--array", "0-99%1", "-n", "1", RANK, "hang"]).expect_success();
    await_that("its first task runs", || cluster.job(7).contains("\"running\""));
    // The array waits, too: only those of its tasks that do are meant.
    let killed = cluster.tutti(&["kill", "6", "--state", "waiting"]).expect_success().stdout;
    assert!(killed.starts_with("job 8 is killed\n") && killed.lines().count() == 99, "{killed}");
    assert!(cluster.job(7).contains("\"running\""), "{}", cluster.job(7));
    // All that is left of it: what is done to the array is not done to the task again.
    let user = rustix::process::getuid().as_raw().to_string();
    let killed = cluster.tutti(&["kill", "--user", &user]).expect_success();
    assert_eq!((killed.stdout.as_str(), killed.stderr.as_str()), ("job 6 is killed\n", ""));
    assert_eq!(cluster.tutti(&["wait", "6", "6_99"]).code(), 137);
    let refused = cluster.tutti(&["submit", "--array", "1-1000000", "true"]);
    let line = "tutti submit: --array: 1000000 tasks are more than the 1000 that an array may have\n";
    assert_eq!((refused.code(), refused.stderr.as_str()), (2, line));
}

/// Starters that a daemon has begun and not buried: its children.
fn starters(daemon: rustix::process::Pid) -> usize {
    let daemon = daemon.as_raw_nonzero().to_string();
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // Behind the name, which may hold blanks: the state, the parent.
    let is_its = |stat: &String| {
        stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&daemon)
    };
    stats.filter(is_its).count()
}

/// All tasks of an array have their place at once, and each costs its daemon a fork: others are answered
/// between two of them, not behind the last one.
#[test]
fn array_that_begins_leaves_others_their_answers() {
    const TASKS: usize = 250;
    let cluster = Cluster::up("batch-many", 1, &["--slots", "8"]);
    let daemon = cluster.daemon(0);
    let tasks = format!("1-{TASKS}");
    let submit = ["submit", "-o", "none", "--array", &tasks, "-n", "1", "sleep", "1000"];
    cluster.tutti(&submit).expect_success();
    let mut seen = Vec::new();
    await_that("all tasks have begun", || {
        let before = starters(daemon);
        cluster.tutti(&["ps"]).expect_success();
        seen.push((before, starters(daemon)));
        before >= TASKS
    });
    assert!(seen.iter().any(|(before, behind)| *before > 0 && *behind < TASKS), "{seen:?}");
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 137);
}

#[test]
fn start_rules_keep_a_job_waiting() {
    let cluster = Cluster::up("batch-rules", 3, &[&["--slots", "1"], &SLOWLY_LOST[..]].concat());
    let submit = |words: &[&str]| cluster.tutti(&[&["submit", "-o", "none"], words].concat());
    submit(&["--name", "one", "-n", "1", RANK, "hang"]).expect_success();
    submit(&["--name", "one", "--after-same-name", "-n", "1", "true"]).expect_success();
    submit(&["--name", "other", "--after-same-name", "-n", "1", "true"]).expect_success();
    submit(&["--begin", "+1d", "-n", "1", "true"]).expect_success();
    submit(&["--begin", "2001-01-01", "-n", "1", "true"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "3", "5"]).code(), 0);
    cluster.replace(0);
    let behind = "until job 1, which has the same name, is over (--after-same-name)";
    await_that("both wait", || waits(&cluster, 2) == behind && waits(&cluster, 4).contains("--begin"));
    assert!(status_line(&cluster, 4, "begin").starts_with("not before 20"), "{}", cluster.job(4));
    cluster.tutti(&["kill", "1", "4"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "2"]).code(), 0);
    // Slots are shared, but for these nodes; all three cannot be had without one of them.
    submit(&["--exclude", "node0,node2", "-N", "1", "-n", "1", "--exclusive", RANK, "hang"]).expect_success();
    await_that("it runs", || cluster.job(6).contains("\"running\""));
    assert!(cluster.job(6).contains("\"node1\""), "{}", cluster.job(6));
    submit(&["--exclude", "node0,node2", "-n", "1", "true"]).expect_success();
    await_that("it waits for the only node", || !waits(&cluster, 7).is_empty());
    cluster.tutti(&["kill", "6"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "7"]).code(), 0);
    let refused = |words: &[&str], line: &str| {
        let ran = submit(words);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
        assert!(ran.stderr.contains(line), "{ran}");
    };
    refused(&["--exclude", "nowhere", "true"], "nowhere is not a node of this cluster");
    refused(&["--exclude", "node1", "--host", "node1", "-n", "1", "true"], "--exclude names node1");
    refused(&["--exclude", "node1", "-N", "3", "-n", "3", "true"], "nodes");
    refused(&["--after-same-name", "-n", "1", "true"], "--name NAME");
    refused(&["--signal", "USR1@10", "-n", "1", "true"], "--time LIMIT");
}

/// No other job ends meanwhile, and no node comes.
#[test]
fn job_starts_at_its_time_to_begin_on_an_idle_cluster() {
    let cluster = Cluster::up("batch-begin", 1, &[]);
    cluster.tutti(&["submit", "-o", "none", "--begin", "+2s", "-n", "1", "true"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 0);
    cluster.tutti(&["submit", "-o", "none", "--begin", "+1d", "-n", "1", "true"]).expect_success();
    cluster.tutti(&["change", "2", "--begin", "+2s"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "2"]).code(), 0);
}

/// The signal comes once, to all ranks, also under the next controller, and the job goes on.
#[test]
fn signal_comes_before_the_time_limit() {
    let cluster = Cluster::up("batch-warned", 2, &SLOWLY_LOST);
    // Long enough for a shell to begin, on a crowded machine too.
    let script = "trap 'echo warned' USR1; until [ -e go ]; do sleep 0.05; done";
    let words = ["submit", "--time", "1h", "--signal", "USR1@3585", "-N", "2", "-n", "2", "sh", "-c", script];
    cluster.tutti(&words).expect_success();
    // The shell may say of its `sleep`, which gets the signal too, that it has ended.
    let file = || std::fs::read_to_string(cluster.folder.join("tutti-1.out")).unwrap_or_default();
    let warned = || file().matches("warned").count();
    await_that("both ranks are warned", || warned() == 2);
    cluster.replace(0);
    await_that("the next controller has the job", || cluster.job(1).contains("\"running\""));
    std::fs::write(cluster.folder.join("go"), "").expect("our folder");
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 0);
    assert_eq!(warned(), 2, "{}", file());
}

#[test]
fn changed_job_has_its_new_values_under_the_next_controller() {
    let cluster = Cluster::up("batch-change", 2, &SLOWLY_LOST);
    let submit =
        |words: &[&str]| cluster.tutti(&[&["submit", "-o", "none"], words].concat()).expect_success();
    submit(&["-n", "1", RANK, "hang"]);
    submit(&["--begin", "+1d", "--time", "1h", "-n", "1", "true"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["change", "1", "--time", "2h", "--weight", "250", "--name", "new"]).expect_success();
    cluster.tutti(&["change", "2", "--time", "3h", "--name", "later"]).expect_success();
    let row = |job: u32| -> serde_json::Value {
        let rows: serde_json::Value = serde_json::from_str(&cluster.job(job)).unwrap_or_default();
        rows[0].clone()
    };
    let is_changed = || {
        let (one, two) = (row(1), row(2));
        one["limit_ms"] == 7_200_000
            && one["weight"] == 250
            && one["name"] == "new"
            && two["limit_ms"] == 10_800_000
            && two["name"] == "later"
    };
    await_that("both have their values", is_changed);
    cluster.replace(0);
    await_that("the next controller has them", is_changed);
    // It has run for longer than that.
    cluster.tutti(&["change", "1", "--time", "1s"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 124);
    cluster.tutti(&["change", "2", "--begin", "now"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "2"]).code(), 0);
    let refused = |words: &[&str], code: i32, line: &str| {
        let ran = cluster.tutti(words);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (code, 1), "{ran}");
        assert!(ran.stderr.contains(line), "{ran}");
    };
    refused(&["change", "1", "--time", "1h"], 1, "job 1 is over");
    refused(&["change", "99", "--time", "1h"], 1, "there is no job 99");
    refused(&["change", "1"], 2, "");
    refused(&["change", "1", "--time", "soon"], 2, "a time above 0");
    submit(&["-n", "1", RANK, "hang"]);
    await_that("it runs", || cluster.job(3).contains("\"running\""));
    refused(&["change", "3", "--weight", "0"], 1, "from 1 to 10000");
    refused(&["change", "3", "--begin", "+1h"], 1, "has its nodes already");
}

#[test]
fn time_limit_excludes_suspended_time() {
    let cluster = Cluster::up("batch-suspended", 1, &[]);
    cluster.tutti(&["submit", "--time", "8s", "-n", "1", RANK, "hang"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["suspend", "1"]).expect_success();
    let began = Instant::now();
    let state = status_line(&cluster, 1, "state");
    assert!(state.starts_with("suspended since 20") && state.ends_with(" by root"), "{state}");
    while began.elapsed() < Duration::from_secs(9) {
        assert!(cluster.job(1).contains("\"suspended\""), "{}", cluster.job(1));
    }
    cluster.tutti(&["resume", "1"]).expect_success();
    assert!(cluster.job(1).contains("\"running\""), "{}", cluster.job(1));
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 124);
}

#[test]
fn time_limit_survives_controller_restart() {
    let Some(cluster) = Cluster::on_machines(2, &crate::cluster::SLOWLY_LOST) else { return };
    cluster.tutti(&["submit", "--time", "3s", "-N", "2", "-n", "2", RANK, "hang"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.replace(0);
    // While no daemon answers, the log is read, which has no end of it.
    await_that("it is over", || {
        let job = cluster.job(1);
        job.contains("\"over\"") && !job.contains("its end is not in the log")
    });
    assert_eq!(status_line(&cluster, 1, "cause"), "it reached its time limit of 0:03 (--time)");
}

#[test]
fn wait_returns_the_first_nonzero_status() {
    let cluster = Cluster::up("batch-wait", 2, &[]);
    for words in [&["true"][..], &["sh", "-c", "sleep 1; exit 7"], &["sh", "-c", "exit 3"]] {
        cluster.tutti(&[&["submit", "-n", "1"], words].concat()).expect_success();
    }
    assert_eq!(cluster.tutti(&["wait", "1", "2", "3"]).code(), 7);
    assert_eq!(cluster.tutti(&["wait", "3", "2"]).code(), 3);
    let on_node1 = tutti_tests::run(&mut cluster.command_on(1, &["wait", "1"]), crate::harness::LIMIT);
    assert_eq!((on_node1.code(), on_node1.stderr.as_str()), (0, ""));
    let ran = cluster.tutti(&["wait", "77", "2"]);
    assert_eq!((ran.code(), ran.stderr.as_str()), (127, "tutti wait: there is no job 77\n"));
}

#[test]
fn dependency_starts_or_fails_a_job() {
    let cluster = Cluster::up("batch-after", 2, &[]);
    cluster.tutti(&["submit", "-n", "1", RANK, "hang"]).expect_success();
    let submit = |after: &[&str]| {
        let words = [&["submit", "--json"], after, &["-n", "1", "true"]].concat();
        cluster.tutti(&words).expect_success().stdout
    };
    assert_eq!(submit(&["--after", "1"]), "{\"job\":2}\n");
    submit(&["--after-ok", "1"]);
    submit(&["--after-ok", "2"]);
    submit(&["--after", "2:3"]);
    submit(&["--after-not-ok", "1"]);
    submit(&["--after-not-ok", "2"]);
    submit(&["--after-any", "7"]);
    let ps = cluster.tutti(&["ps"]).expect_success().stdout;
    assert!(ps.contains("job 2 waits: until job 1 is over\n"), "{ps}");
    assert!(ps.contains("job 4 waits: until job 2 has ended with status 0\n"), "{ps}");
    assert!(ps.contains("job 5 waits: until job 2 is over, job 3 is over\n"), "{ps}");
    assert!(ps.contains("job 6 waits: until job 1 has ended with another status than 0\n"), "{ps}");
    assert!(ps.contains("job 8 waits: until job 7 is over\n"), "{ps}");
    cluster.tutti(&["kill", "1"]).expect_success();
    for (job, status) in [(2, 0), (3, 1), (4, 0), (5, 0), (6, 0), (7, 1), (8, 0)] {
        assert_eq!(cluster.tutti(&["wait", &job.to_string()]).code(), status, "job {job}");
    }
    let cause = "dependency failed: job 1 has ended with status 137";
    assert_eq!(status_line(&cluster, 3, "cause"), cause);
    assert_eq!(status_line(&cluster, 7, "cause"), "dependency failed: job 2 has ended with status 0");
    let ran = cluster.run(&["run", "--after-ok", "3", "-n", "1", "true"]);
    let line = "tutti run: dependency failed: job 3 has ended with status 1\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, line));
    let refused = cluster.tutti(&["submit", "--after", "99", "-n", "1", "true"]);
    assert_eq!((refused.code(), refused.stderr.as_str()), (1, "tutti submit: there is no job 99\n"));
}

#[test]
fn dependency_survives_controller_restart() {
    let Some(cluster) = Cluster::on_machines(2, &crate::cluster::SLOWLY_LOST) else { return };
    cluster.tutti(&["submit", "-N", "2", "-n", "2", RANK, "hang"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["submit", "--name", "second", "--after", "1", "-n", "1", "true"]).expect_success();
    cluster.tutti(&["submit", "--after-ok", "1", "-n", "1", "true"]).expect_success();
    cluster.replace(0);
    await_that("the next controller knows it", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["kill", "1"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "2"]).code(), 0);
    assert_eq!(cluster.tutti(&["wait", "3"]).code(), 1);
    assert_eq!(status_line(&cluster, 2, "name"), "second");
}

#[test]
fn ps_filters_by_user_state_and_name() {
    let cluster = Cluster::up("batch-ps", 1, &[]);
    // Other users of the machine may have jobs, which are numbered USER/N.
    let is_own = |line: &&str| !line.split_whitespace().next().is_some_and(|number| number.contains('/'));
    let header =
        |text: &str| text.lines().filter(is_own).count() == 1 && text.trim_start().starts_with("JOB  STATE");
    let ps = |words: &[&str]| cluster.tutti(&[&["ps"], words].concat()).expect_success().stdout;
    assert!(header(&ps(&[])));
    cluster.tutti(&["submit", "-J", "a b", "-n", "1", RANK, "hang"]).expect_success();
    cluster.tutti(&["submit", "--name", "c\u{1b}[2J", "-n", "1", "false"]).expect_success();
    is_over(&cluster, 2);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let jobs = |words: &[&str]| -> Vec<String> {
        let text = ps(words);
        let own = text.lines().skip(1).filter(is_own);
        own.filter_map(|row| row.split_whitespace().next().map(str::to_owned)).collect()
    };
    for (words, listed) in [
        (&[][..], &["1"][..]),
        (&["-a"], &["1", "2"]),
        (&["-a", "--limit", "1"], &["1", "2"]),
        (&["-a", "--limit", "1", "--name", "a b"], &["1"]),
        (&["--state", "over"], &["2"]),
        (&["--state", "running,over"], &["1", "2"]),
        (&["-a", "--name", "a b"], &["1"]),
        (&["-a", "--name", "c [2J"], &["2"]),
        (&["-a", "--user", "root"], &["1", "2"]),
        (&["-a", "--user", "0"], &["1", "2"]),
        (&["-a", "--user", "nobody"], &[]),
    ] {
        assert_eq!(jobs(words), listed, "{words:?}");
    }
    let wrong = cluster.tutti(&["ps", "--limit", "5"]);
    assert!(wrong.code() == 1 && wrong.stderr.ends_with("it needs --all or --history\n"), "{wrong}");
    let wrong = cluster.tutti(&["ps", "--state", "asleep"]);
    assert!(wrong.code() == 2 && wrong.stderr.lines().count() == 1, "{wrong}");
    let mut command = cluster.command(&["ps"]);
    let nowhere = cluster.folder.join("nothing-here.sock");
    let ran = tutti_tests::run(command.env("TUTTI_DAEMON", nowhere), crate::harness::LIMIT);
    assert!(ran.code() == 1 && ran.stderr.starts_with("tutti ps: no daemon answers at "), "{ran}");
    // Without a name of a socket there need not be a daemon: it leaves when nothing runs.
    let folder = cluster.folder.join("empty");
    let mut command = cluster.command(&["ps"]);
    command.env_remove("TUTTI_DAEMON").env("TUTTI_DIR", &folder);
    let ran = tutti_tests::run(&mut command, crate::harness::LIMIT).expect_success();
    assert!(header(&ran.stdout) && ran.stderr.is_empty(), "{ran}");
    // One that has died leaves its socket, and perhaps jobs: an empty table would deny them.
    std::fs::create_dir_all(&folder).expect("a folder");
    drop(std::os::unix::net::UnixListener::bind(folder.join("tuttid.sock")).expect("a socket"));
    let ran = tutti_tests::run(&mut command, crate::harness::LIMIT);
    assert!(ran.code() == 1 && ran.stdout.is_empty(), "{ran}");
    assert!(ran.stderr.starts_with("tutti ps: no daemon answers at "), "{ran}");
}

/// As batch users write them: the command line wins, and what is wrong is named by file and line.
#[test]
fn script_lines_are_options_of_submit() {
    let cluster = Cluster::up("batch-script", 2, &["--slots", "4"]);
    let scratch = tutti_tests::Scratch::new("batch-script-file");
    let file = scratch.path().join("job.sh");
    let text = "#!/bin/sh\n# what it does\n#TUTTI -N 2 -n 4 --name 'from script'\n#TUTTI --time 1h\n\necho $TUTTI_ALLOCATION $1\n#TUTTI -n 9\n";
    write_script(&file, text);
    let name = file.to_str().expect("UTF-8");
    cluster.tutti(&["submit", name, "x"]).expect_success();
    cluster.tutti(&["submit", "-n", "3", "--name", "mine", name, "y"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1", "2"]).code(), 0);
    let row = |job: u32| -> serde_json::Value { serde_json::from_str(&cluster.job(job)).expect("JSON") };
    let (first, second) = (row(1), row(2));
    assert_eq!((&first[0]["ranks"], &first[0]["name"]), (&4.into(), &"from script".into()));
    assert_eq!(first[0]["limit_ms"], 3_600_000);
    assert_eq!((&second[0]["ranks"], &second[0]["name"]), (&3.into(), &"mine".into()));
    assert_eq!(second[0]["nodes"].as_array().map(Vec::len), Some(2), "{second}");
    write_script(&file, "#!/bin/sh\n\n#TUTTI --frob\ntrue\n");
    let ran = cluster.tutti(&["submit", name]);
    let line = format!("tutti submit: {name}, line 3: --frob is not an option (see --help)\n");
    assert_eq!((ran.code(), ran.stderr), (2, line));
}

/// No wait would help such a job. A script starts its ranks itself, as many as fit.
#[test]
fn submission_of_more_ranks_than_nodes_take_is_refused_at_once() {
    let cluster = Cluster::up("batch-crowd", 2, &[]);
    for (words, ranks) in [
        (&["-n", "4200"][..], 2100),
        (&["-N", "1", "-n", "2100"], 2100),
        (&["--ppn", "2049", "-n", "2100"], 2049),
    ] {
        let ran = cluster.tutti(&[&["submit", "-o", "none"], words, &["true"]].concat());
        let line = format!(
            "tutti submit: {ranks} ranks of a job on one node are more than the 2048 that it takes\n"
        );
        assert_eq!((ran.code(), ran.stderr), (1, line));
    }
    let scratch = tutti_tests::Scratch::new("batch-crowd-file");
    let file = scratch.path().join("job.sh");
    write_script(&file, "#!/bin/sh\nexit 6\n");
    let name = file.to_str().expect("UTF-8");
    cluster.tutti(&["submit", "-o", "none", "-n", "4200", name]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 6);
}

#[test]
fn run_without_n_has_a_rank_for_each_slot_of_its_nodes() {
    let cluster = Cluster::up("batch-slots", 3, &["--slots", "3"]);
    for (words, ranks) in [
        (&["run", "-N", "2"][..], 6),
        (&["run"], 3),
        (&["run", "-host", "node1,node2"], 6),
        (&["run", "-host", "node1:2,node2:1"], 3),
        (&["run", "-N", "2", "-ppn", "2"], 4),
        (&["mpiexec", "--nodes", "2"], 6),
    ] {
        let rest = ["sh", "-c", "echo $TUTTI_SIZE"];
        let ran = match words[0] {
            "mpiexec" => {
                let mut command = tutti_tests::program("mpiexec");
                command.args(&words[1..]).args(rest).env("TUTTI_DIR", &cluster.folder);
                tutti_tests::run(
                    command.env("TUTTI_DAEMON", cluster.folder.join("tuttid.sock")),
                    crate::harness::LIMIT,
                )
            }
            _ => cluster.run(&[words, &rest].concat()),
        };
        assert_eq!(ran.expect_success().stdout, format!("{ranks}\n").repeat(ranks), "{words:?}");
    }
    let ran = cluster.run(&["run", "-N", "4", "true"]);
    assert_eq!(
        ran.stderr,
        "tutti run: 4 nodes are more than the 3 of the cluster: `tutti up --nodes N` makes more on one machine, tuttid --join on others\n"
    );
    let ran = cluster.run(&["run", "-stdin", "5", "true"]);
    assert_eq!(ran.stderr, "tutti run: -stdin names rank 5, the job has 3 ranks\n");
}

/// Meaning of `-N`, in the help of each command; that of the cluster's commands speaks of the cluster.
#[test]
fn help_says_what_n_means_for_each_command() {
    let help = |program: &str, words: &[&str]| {
        let mut command = tutti_tests::program(program);
        let text = tutti_tests::run(command.args(words), crate::harness::LIMIT).expect_success().stdout;
        // Lines are as long as the terminal's.
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (run, submit) = (help("tutti", &["run", "--help"]), help("tutti", &["submit", "--help"]));
    for text in [&run, &submit] {
        assert!(
            text.contains(
                "run on N nodes of the cluster (-N is the number of ranks on each node for mpiexec"
            )
        );
        assert!(text.contains("the cluster") && !text.contains("of it on this machine"), "{text}");
    }
    let mpiexec = help("mpiexec", &["--help"]);
    assert!(mpiexec.contains("ranks per node (`tutti run -N` is the number of nodes)"), "{mpiexec}");
}

#[test]
fn status_says_who_sent_the_signal_that_ended_a_job() {
    let cluster = Cluster::up("batch-signal", 1, &[]);
    cluster.tutti(&["submit", "-n", "1", RANK, "hang"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.tutti(&["signal", "TERM", "1"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 143);
    assert_eq!(status_line(&cluster, 1, "cause"), "signal 15 (Terminated) was sent by root");
}

/// Time, level, node, text; who comes back, and an address that does not answer.
#[test]
fn log_lines_have_time_and_level_and_tell_of_nodes_and_addresses() {
    let cluster = Cluster::up("batch-log", 2, &crate::cluster::SLOWLY_LOST);
    let log =
        |node: u32| std::fs::read_to_string(cluster.folder.join(format!("node{node}.log"))).expect("its log");
    cluster.replace(1);
    await_that("node1 is back", || {
        log(0).lines().any(|line| line.contains("node node1 (") && line.ends_with(") is back"))
    });
    let gone = cluster.kill_daemon(0);
    await_that("its address does not answer", || log(1).contains(" WARN node1: 127.0.0.1:"));
    assert!(log(1).contains(" (--join) does not answer: "), "{}", log(1));
    gone.start();
    await_that("it answers", || log(1).contains(" answers, "));
    for line in [log(0), log(1)].iter().flat_map(|log| log.lines()) {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [time, level, node, _] = words[..] else { panic!("{line}") };
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(["INFO", "WARN", "ERROR"].contains(&level) && ["node0:", "node1:"].contains(&node), "{line}");
    }
}

fn write_script(file: &std::path::Path, text: &str) {
    std::fs::write(file, text).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(file, mode).expect("our file");
}
