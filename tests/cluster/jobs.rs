//! Jobs, and all that users do with them.

use std::process::Stdio;

use rustix::process::Signal;

use tutti_tests::{Scratch, compile, compile_with};

use crate::Cluster;
use crate::harness::{RANK, Running, await_that};

// Paper: S2
#[test]
fn run_uses_the_requested_number_of_nodes() {
    let Some(cluster) = Cluster::on_machines(4, &[]) else { return };
    for node in 0..4 {
        let ran = crate::harness::run(
            &mut cluster.command_on(node, &["run", "-N", "4", "-n", "8", RANK, "exchange"]),
        );
        let ran = ran.expect_success();
        assert_eq!(ran.stdout.lines().count(), 8, "{ran}");
    }
    cluster.run(&["run", "-N", "2", "-n", "2", RANK]).expect_success();
    assert!(
        cluster.job(5).contains("\"nodes\": [\n      \"node0\",\n      \"node1\"\n    ]"),
        "{}",
        cluster.job(5)
    );
    let refused = cluster.run(&["run", "-N", "5", "-n", "8", RANK]);
    assert_eq!(
        refused.stderr,
        "tutti run: 5 nodes are more than the 4 of the cluster: `tutti up --nodes N` makes more on one machine, tuttid --join on others\n"
    );
    assert_eq!(refused.code(), 1);
}

// Paper: S3
#[test]
fn run_ranks_descend_from_their_nodes_daemon() {
    let cluster = Cluster::up("cluster-parents", 2, &[]);
    let job = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let parent = |pid: i32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
        let rest = text.rsplit(") ").next().expect("fields");
        rest.split(' ').nth(1).and_then(|pid| pid.parse::<i32>().ok()).expect("a pid")
    };
    let status = cluster.job(1);
    let pids = status[status.find("\"pids\"").expect("pids")..].split(|c: char| !c.is_ascii_digit());
    let ranks: Vec<i32> = pids.filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 1).collect();
    assert_eq!(ranks.len(), 4, "{status}");
    let mut daemons: Vec<i32> = ranks.iter().map(|rank| parent(parent(*rank))).collect();
    daemons.dedup();
    assert_eq!(daemons, [0, 1].map(|node| cluster.daemon(node).as_raw_nonzero().get()));
    job.signal(Signal::TERM);
    assert_eq!(job.end().0, 143);
}

// Paper: S4
#[test]
fn run_output_of_all_ranks_reaches_the_front_end() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let ran = cluster.run(&["run", "-N", "3", "-n", "6", "-l", RANK, "spray=2000,100"]).expect_success();
    for rank in 0..6 {
        let lines = ran.stdout.lines().filter(|line| line.starts_with(&format!("[{rank}]")));
        assert_eq!(lines.count(), 2000, "rank {rank}");
    }
}

// Paper: S5
#[test]
fn control_suspend_resume_signal_and_kill() {
    let cluster = Cluster::up("cluster-control", 2, &[]);
    let mut job: Running = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "say=up", "hang"]);
    (0..4).for_each(|_| job.await_line("up"));
    cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("the job and its front end stand still", || {
        cluster.job(1).contains("\"suspended\"") && state(job.pid().as_raw_nonzero().get()) == 'T'
    });
    cluster.tutti(&["resume", "1"]).expect_success();
    await_that("the job and its front end go on", || {
        cluster.job(1).contains("\"running\"") && state(job.pid().as_raw_nonzero().get()) != 'T'
    });
    cluster.tutti(&["signal", "USR1", "1"]).expect_success();
    let (_, said) = job.end();
    assert!(said.contains("was killed by signal 10"), "{said}");
    let job = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("it runs", || cluster.job(2).contains("\"running\""));
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(job.end().0, 137);
    let again = cluster.tutti(&["kill", "2"]);
    assert_eq!((again.stderr.as_str(), again.code()), ("tutti kill: job 2 is over\n", 1));
    assert_eq!(cluster.tutti(&["kill", "77"]).stderr, "tutti kill: there is no job 77\n");
}

#[test]
fn submit_job_runs_alone_and_keeps_its_output() {
    let cluster = Cluster::up("cluster-submit", 2, &[]);
    let ran = cluster.tutti(&["submit", "-N", "2", "-n", "2", RANK, "say=hello"]).expect_success();
    assert_eq!(ran.stdout, "job 1\n");
    await_that("the job is over", || cluster.job(1).contains("\"over\""));
    assert_eq!(cluster.tutti(&["logs", "1"]).expect_success().stdout, "hello\nhello\n");
    assert!(cluster.tutti(&["ps", "--json"]).expect_success().stdout.trim() == "[]");
    assert!(cluster.tutti(&["ps", "--all"]).expect_success().stdout.contains("over(0)"));
}

// Paper: S6
#[test]
fn rank_death_ends_the_job_on_all_nodes_with_one_line() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let ran = cluster.run(&["run", "-N", "3", "-n", "6", RANK, "5:exit=7", "hang"]);
    assert_eq!(ran.code(), 7, "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    assert!(ran.stderr.contains("rank 5 (pid ") && ran.stderr.contains(") exited with status 7"), "{ran}");
}

#[test]
fn front_end_death_ends_its_job() {
    let cluster = Cluster::up("cluster-front-end", 2, &[]);
    let job = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    job.signal(Signal::KILL);
    job.mark.assert_nothing_left();
    await_that("the controller knows", || cluster.job(1).contains("\"over\""));
    let _ = job.end();
}

#[test]
fn output_jam_stalls_no_other_job() {
    let cluster = Cluster::up("cluster-jam", 3, &[]);
    let mark = crate::harness::Mark::new();
    let mut command = cluster.command(&["run", "-N", "3", "-n", "6", RANK, "spray=1000000,1000"]);
    mark.on(&mut command);
    // Nobody reads what it writes.
    let mut jammed = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("tutti");
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    for _ in 0..3 {
        cluster.run(&["run", "-N", "3", "-n", "6", RANK, "exchange"]).expect_success();
    }
    cluster.tutti(&["suspend", "1"]).expect_success();
    await_that("it stands still", || cluster.job(1).contains("\"suspended\""));
    cluster.tutti(&["resume", "1"]).expect_success();
    cluster.tutti(&["kill", "1"]).expect_success();
    await_that("none of its ranks is left", || {
        mark.processes()
            .iter()
            .all(|pid| pid.as_raw_nonzero().get() as u32 == jammed.id() || is_starter(*pid))
    });
    drop(jammed.stdout.take());
    jammed.wait().expect("our child");
    await_that("it is over", || cluster.job(1).contains("\"over\""));
    mark.assert_nothing_left();
}

#[test]
fn concurrent_jobs_reach_their_own_ranks_only() {
    let Some(cluster) = Cluster::on_machines(4, &[]) else { return };
    let jobs: Vec<Running> =
        (0..4).map(|_| cluster.start(&["run", "-N", "2", "-n", "4", RANK, "exchange"])).collect();
    for job in jobs {
        let (status, said, lines) = job.end_with_output();
        assert_eq!((status, said.as_str(), lines.len()), (0, "", 4), "{lines:?}");
    }
}

// Paper: C32
#[test]
fn concurrent_jobs_of_different_width_run_on_their_own_nodes() {
    let Some(cluster) = Cluster::on_machines(4, &[]) else { return };
    let mut jobs = Vec::new();
    for (number, width) in ["1", "2", "3", "4"].into_iter().enumerate() {
        jobs.push(cluster.start(&["run", "-N", width, "-n", "6", RANK, "hang"]));
        await_that("it runs", || cluster.job(number as u32 + 1).contains("\"running\""));
    }
    for number in 1..=4_u32 {
        let row = cluster.job(number);
        assert!(row.contains("\"running\""), "{row}");
        // Each of its nodes is in the list of nodes and in that of pids; its origin is a node too.
        let (row, _) = row.split_once("\"held_by\"").expect("what stands behind the pids");
        assert_eq!(row.matches("\"node").count(), 2 + 2 * number as usize, "{row}");
    }
    for (number, job) in jobs.into_iter().enumerate() {
        cluster.tutti(&["kill", &(number + 1).to_string()]).expect_success();
        assert_eq!(job.end().0, 137);
    }
}

pub fn is_starter(pid: rustix::process::Pid) -> bool {
    std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
        .is_ok_and(|name| name.trim() == "tutti-starter")
}

fn state(pid: i32) -> char {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit(") ").next().and_then(|rest| rest.chars().next()).unwrap_or('?')
}

#[test]
fn event_log_has_every_rank_exit() {
    let cluster = Cluster::up("cluster-events", 2, &[]);
    cluster.run(&["run", "-N", "2", "-n", "4", "true"]).expect_success();
    let job = cluster.start(&["run", "-N", "2", "-n", "4", "sleep", "100"]);
    let sleepers = || {
        let is_rank = |pid: &rustix::process::Pid| {
            std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
                .is_ok_and(|line| line.starts_with(b"sleep\x00100"))
        };
        job.mark.processes().into_iter().filter(is_rank).collect::<Vec<_>>()
    };
    await_that("its ranks sleep", || sleepers().len() == 4 && cluster.job(2).contains("\"running\""));
    let victim = *sleepers().iter().max_by_key(|pid| pid.as_raw_nonzero()).expect("four");
    rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("it lives");
    assert_eq!(job.end().0, 137);
    let log = std::fs::read_to_string(cluster.folder.join("events.jsonl")).expect("the log");
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let of = |job: u32, event: &str| -> Vec<&serde_json::Value> {
        lines.iter().filter(|line| line["job"] == job && line["event"] == event).collect()
    };
    for job in [1, 2] {
        let started = of(job, "ranks-started");
        assert_eq!(started.len(), 2, "a line for each node: {log}");
        assert!(started.iter().all(|line| line["pids"].as_array().is_some_and(|pids| pids.len() == 2)));
        assert_eq!((&started[0]["rank"], &started[1]["rank"]), (&0.into(), &2.into()));
    }
    let ended = of(1, "ranks-ended");
    assert!(ended.len() == 2 && ended.iter().all(|line| line["status"] == 0), "{log}");
    assert!(of(1, "rank-ended").is_empty() && of(2, "said").is_empty(), "{log}");
    let [ended] = of(2, "rank-ended")[..] else { panic!("one rank was killed: {log}") };
    assert_eq!(
        (&ended["cause"], &ended["signal"], &ended["status"]),
        (&"signal".into(), &9.into(), &137.into())
    );
    assert_eq!(ended["pids"], serde_json::json!([victim.as_raw_nonzero().get()]));
    let node = if ended["rank"].as_u64() < Some(2) { 0 } else { 1 };
    assert_eq!(ended["nodes"], of(2, "ranks-started")[node]["nodes"], "{log}");
}

/// Causes that a front end would have told, of jobs that have none.
#[test]
fn status_and_event_log_name_the_cause_of_the_end() {
    let cluster = Cluster::up("cluster-causes", 2, &["--lost-after", "6", "--keep-for", "1"]);
    let words = ["submit", "-host", "node1", "-n", "1", crate::harness::RANK, "hang"];
    let start = |job: u32| {
        let running = cluster.start(&words);
        await_that("it runs", || cluster.job(job).contains("\"running\""));
        running
    };
    let kill = |pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
    let causes = |job: u32| -> [String; 3] {
        await_that("it is over", || cluster.job(job).contains("\"over\""));
        let status = cluster.tutti(&["status", &job.to_string()]).expect_success().stdout;
        let line = status.lines().find_map(|line| line.strip_prefix("cause    ")).unwrap_or_default();
        let row: serde_json::Value = serde_json::from_str(&cluster.job(job)).expect("JSON");
        let log = std::fs::read_to_string(cluster.folder.join("events.jsonl")).expect("the log");
        let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        let mut over = lines.filter(|line| line["job"] == job && line["event"] == "over");
        let over = over.next().expect("a line");
        [line, row[0]["cause"].as_str().unwrap_or_default(), over["text"].as_str().unwrap_or_default()]
            .map(str::to_owned)
    };
    let said = |job: u32, text: &str| assert_eq!(causes(job), [text; 3], "job {job}");
    let first = start(1);
    let row: serde_json::Value = serde_json::from_str(&cluster.job(1)).expect("JSON");
    assert!(row[0]["cause"].is_null(), "it runs: {row}");
    let pid = row[0]["pids"][0][1][0].as_i64().expect("a pid") as i32;
    kill(rustix::process::Pid::from_raw(pid).expect("a pid"));
    said(1, &format!("rank 0 (pid {pid}) was killed by signal 9 (Killed)"));
    first.mark.assert_nothing_left();
    let second = start(2);
    kill(second.mark.processes().into_iter().find(|pid| is_starter(*pid)).expect("its starter"));
    said(2, "the starter died (signal: 9 (SIGKILL)); the job is ended");
    second.mark.assert_nothing_left();
    let third = start(3);
    cluster.tutti(&["kill", "3"]).expect_success();
    said(3, "it was killed by root");
    third.mark.assert_nothing_left();
    cluster.tutti(&["submit", "-host", "node1", "-n", "1", "true"]).expect_success();
    said(4, "");
    let fifth = start(5);
    kill(cluster.daemon(1));
    said(5, "node node1 does not answer any more, its ranks are lost; the job is ended");
    // A job of that node alone goes on without its daemon. With its starter its rank ends.
    let starter = fifth.mark.processes().into_iter().find(|pid| is_starter(*pid));
    kill(starter.expect("its starter"));
    fifth.mark.assert_nothing_left();
}

#[test]
fn output_long_lines_of_several_nodes_never_mix() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let ran = cluster.run(&["run", "-N", "3", "-n", "6", crate::harness::RANK, "spray=10,200000"]);
    let ran = ran.expect_success();
    if crate::harness::has_paused_in_a_line(&ran) {
        return println!("{}", ran.stderr);
    }
    assert_eq!(ran.stdout.lines().count(), 60);
    for line in ran.stdout.lines() {
        let first = line.as_bytes()[0];
        assert!(line.len() == 199_999 && line.bytes().all(|byte| byte == first), "a line is mixed");
    }
}

/// Libraries on which the ranks of a job have begun with MPI, as `tutti status` has them.
#[track_caller]
fn expect_libraries(cluster: &Cluster, job: u32, expected: &[&str]) {
    let text = cluster.job(job);
    let rows: serde_json::Value = serde_json::from_str(&text).expect("rows");
    assert_eq!(rows[0]["libraries"], serde_json::json!(expected), "{text}");
}

#[test]
fn job_list_names_the_libraries_that_were_seen() {
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let scratch = Scratch::new("cluster-libraries");
    let ours = compile("tests/foreign/c/foreign.c", scratch.path());
    let ours = ours.to_str().expect("UTF-8");
    cluster.run(&["run", "-n", "1", "true"]).expect_success();
    expect_libraries(&cluster, 1, &[]);
    // While it runs, and on the one node of two that has a rank with MPI.
    let script = "[ $TUTTI_RANK = 0 ] || exec sleep 1000; exec \"$0\" wait";
    let job = cluster.start(&["run", "-N", "2", "-n", "2", "sh", "-c", script, ours]);
    await_that("the job's row names the library", || cluster.job(2).contains("\"tutti\""));
    expect_libraries(&cluster, 2, &["tutti"]);
    let listed = cluster.tutti(&["ps", "-l"]).expect_success().stdout;
    let column = |line: &str| line.split_whitespace().nth(6).map(str::to_owned);
    let columns: Vec<_> = listed.lines().map(column).collect();
    assert_eq!(columns, [Some("LIBRARY".to_owned()), Some("Tutti".to_owned())], "{listed}");
    let status = cluster.tutti(&["status", "2"]).expect_success().stdout;
    assert!(status.contains("\nlibrary  Tutti's library\n"), "{status}");
    cluster.tutti(&["kill", "2"]).expect_success();
    job.end();
    expect_libraries(&cluster, 2, &["tutti"]);
}

#[test]
fn mpich_program_runs_on_machines_of_a_cluster() {
    let Some(mpich) = tutti_tests::peers::mpich() else { return };
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let scratch = Scratch::new("cluster-mpich");
    let file = scratch.path().join("foreign");
    let mut mpicc = std::process::Command::new(mpich.join("bin/mpicc"));
    mpicc.arg("-o").arg(&file).arg(tutti_tests::root().join("tests/foreign/c/foreign.c"));
    tutti_tests::run(&mut mpicc, crate::harness::LIMIT).expect_success();
    let file = file.to_str().expect("UTF-8");
    // A job's number is told by its order here.
    for (library, first, seen) in [(&["run"][..], 1, "tutti-mpich"), (&["run", "--own-mpi"], 4, "pmi")] {
        for (nodes, on_node) in [("1", 4), ("2", 2)] {
            let words = [library, &["-N", nodes, "-n", "4", file]].concat();
            let ran = cluster.run(&words).expect_success();
            for rank in 0..4 {
                let line = format!("rank {rank} of 4, {on_node} on its node, sum 6, last 3\n");
                assert!(ran.stdout.contains(&line), "{line}{ran}");
            }
        }
        let ran = cluster.run(&[library, &["-N", "3", "-n", "3", file, "abort"]].concat());
        assert_eq!(ran.code(), 7, "{ran}");
        assert!(ran.stderr.contains("called MPI_Abort(7)"), "{ran}");
        (first..first + 3).for_each(|job| expect_libraries(&cluster, job, &[seen]));
    }
}

#[test]
fn open_mpi_program_runs_on_machines_of_a_cluster() {
    let Some(open_mpi) = tutti_tests::peers::open_mpi() else { return };
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let scratch = Scratch::new("cluster-open-mpi");
    let file = scratch.path().join("foreign");
    let mut mpicc = std::process::Command::new(open_mpi.join("bin/mpicc"));
    mpicc.arg("-o").arg(&file).arg(tutti_tests::root().join("tests/foreign/c/foreign.c"));
    tutti_tests::run(&mut mpicc, crate::harness::LIMIT).expect_success();
    let file = file.to_str().expect("UTF-8");
    for (nodes, on_node) in [("1", 4), ("2", 2)] {
        let ran = cluster.run(&["run", "-N", nodes, "-n", "4", file]).expect_success();
        for rank in 0..4 {
            let line = format!("rank {rank} of 4, {on_node} on its node, sum 6, last 3\n");
            assert!(ran.stdout.contains(&line), "{line}{ran}");
        }
    }
    let ran = cluster.run(&["run", "-N", "3", "-n", "3", file, "abort"]);
    assert_eq!(ran.code(), 7, "{ran}");
    assert!(ran.stderr.contains("called MPI_Abort(7)"), "{ran}");
    (1..4).for_each(|job| expect_libraries(&cluster, job, &["pmix"]));
}

#[test]
fn run_has_the_status_of_shmem_global_exit_on_all_nodes() {
    let Some(cluster) = Cluster::on_machines(2, &[]) else { return };
    let scratch = Scratch::new("cluster-global-exit-programs");
    let program = compile_with("oshcc", "tests/shmem/programs/wrong.c", scratch.path());
    let program = program.to_str().expect("plain");
    for (job, (what, status)) in [("global_exit", 7), ("global_exit_0", 0)].into_iter().enumerate() {
        let ran = cluster.run(&["run", "-N", "2", "-n", "4", program, what]);
        assert_eq!(ran.code(), status, "{ran}");
        let record = cluster.job(job as u32 + 1);
        assert!(record.contains(&format!("\"status\": {status}")), "{record}");
    }
}

// Paper: M17
#[test]
fn run_adds_up_what_the_ranks_of_all_nodes_have_counted() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let scratch = Scratch::new("cluster-counted-files");
    let compiled = compile("tests/mpi/programs/tool_information.c", scratch.path());
    let mut command = cluster.command(&["run", "-N", "2", "-n", "2", &compiled.to_string_lossy()]);
    let ran = crate::harness::run(command.env("TUTTI_STATS", "json")).expect_success();
    let jobs: Vec<&str> =
        ran.stderr.lines().filter(|line| line.starts_with("{\"job\":{\"ranks\":2,\"nodes\":2,")).collect();
    assert_eq!(jobs.len(), 1, "{ran}");
    let job: serde_json::Value = serde_json::from_str(jobs[0]).expect("it is JSON");
    // Each rank sends 12 messages of 100 bytes, and more at its end.
    assert!(
        job["job"]["messages_sent"].as_u64() >= Some(24) && job["job"]["bytes_sent"].as_u64() >= Some(2400),
        "{ran}"
    );
}
