//! Deaths of daemons, on machines of the lab.

use rustix::process::{Signal, kill_process};

use tutti_tests::Scratch;

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{RANK, Running, await_that, cgroup_of, state_of};

#[test]
fn lost_node_ends_its_jobs_with_one_line() {
    let Some(cluster) = Cluster::on_machines(4, &["--lost-after", "4", "--keep-for", "1"]) else { return };
    // By load: the first two nodes get the first job, the other two the second.
    let lost = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let other = cluster.start(&["run", "-N", "2", "-n", "4", RANK, "hang"]);
    await_that("the other runs", || cluster.job(2).contains("\"running\""));
    kill_process(cluster.daemon(1), Signal::KILL).expect("it lives");
    let (status, said) = lost.end();
    assert_eq!(
        said,
        "tutti run: node node1 does not answer any more, its ranks are lost; the job is ended\n"
    );
    assert_eq!(status, 1);
    assert!(cluster.job(2).contains("\"running\""));
    other.signal(Signal::TERM);
    assert_eq!(other.end().0, 143);
    let rows = cluster.tutti(&["nodes"]).expect_success().stdout;
    assert_eq!(rows.lines().filter(|line| line.contains(" lost ")).count(), 1, "{rows}");
    cluster.run(&["run", "-N", "3", "-n", "6", RANK, "exchange"]).expect_success();
}

/// Lines that each rank of [`job_survives`] writes before the daemon dies, and again after.
const LINES: usize = 600;

/// A job of all four nodes, asked for on the third, while the daemons of some of them are replaced.
#[track_caller]
fn job_survives(name: &str, replaced: &[u32]) {
    let Some(cluster) = Cluster::on_machines(4, &[&SLOWLY_LOST, &["--arity", "2"][..]].concat()) else {
        return;
    };
    let scratch = Scratch::new(&format!("{name}-files"));
    let file = scratch.path().join("go");
    let (spray, go) = (format!("spray={LINES},100"), format!("await={}", file.display()));
    let words = ["run", "-N", "4", "-n", "8", "-l", RANK, "say=up", &spray, &go, &spray, "say=done"];
    let mut job = Running::start_command(&mut cluster.command_on(2, &words));
    (0..8).for_each(|rank| job.await_line(&format!("[{rank}] up")));
    for node in replaced {
        cluster.replace(*node);
    }
    await_that("the cluster is whole, and has its job", || {
        let rows = cluster.tutti(&["nodes"]).stdout;
        rows.lines().count() == 5 && !rows.contains(" lost ") && cluster.job(1).contains("\"running\"")
    });
    std::fs::write(&file, "").expect("a file");
    (0..8).for_each(|rank| job.await_line(&format!("[{rank}] done")));
    let (status, said, seen) = job.end_with_output();
    assert_eq!((status, said.as_str()), (0, ""));
    for rank in 0..8 {
        let start = format!("[{rank}] ");
        let lines = seen.iter().filter(|line| line.starts_with(&start)).count();
        assert_eq!(lines, 2 * LINES + 2, "rank {rank}");
    }
    await_that("it is over", || cluster.job(1).contains("\"over\""));
}

#[test]
fn daemon_death_of_a_leaf_keeps_its_job() {
    job_survives("cluster-leaf", &[3]);
}

#[test]
fn daemon_death_of_an_inner_node_keeps_its_job() {
    job_survives("cluster-inner", &[1]);
}

#[test]
fn controller_death_keeps_jobs() {
    job_survives("cluster-head", &[0]);
}

#[test]
fn daemon_death_of_all_but_the_origin_keeps_the_job() {
    job_survives("cluster-all", &[1, 0, 3]);
}

#[test]
fn origin_restart_keeps_job_and_output() {
    let Some(cluster) = Cluster::on_machines(2, &SLOWLY_LOST) else { return };
    let scratch = Scratch::new("cluster-home-files");
    let file = scratch.path().join("go");
    let go = format!("await={}", file.display());
    cluster.tutti(&["submit", "-N", "2", "-n", "4", RANK, &go, "spray=100,10"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    cluster.replace(0);
    await_that("it still runs", || cluster.job(1).contains("\"running\""));
    std::fs::write(&file, "").expect("a file");
    await_that("it is over", || cluster.job(1).contains("\"over\""));
    assert!(cluster.job(1).contains("\"status\": 0"), "{}", cluster.job(1));
    assert_eq!(cluster.tutti(&["logs", "1"]).expect_success().stdout.lines().count(), 400);
}

/// The daemon of the second node stands still, so that it cannot take its part of the job, and dies; the next
/// one takes it.
#[track_caller]
fn begins_anew(words: &[&str]) {
    let Some(cluster) = Cluster::on_machines(2, &SLOWLY_LOST) else { return };
    kill_process(cluster.daemon(1), Signal::STOP).expect("it lives");
    let job = cluster.start(&[&["run", "-H"], words].concat());
    await_that("it has its nodes", || cluster.job(1).contains("\"starting\""));
    cluster.replace(1);
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn daemon_restart_starts_a_pending_part() {
    begins_anew(&["node0:2,node1:2", "-n", "4", RANK, "exchange"]);
    begins_anew(&["node1:2", "-n", "2", RANK, "attach", "finalize"]);
}

#[test]
fn daemon_restart_ends_leftovers() {
    let Some(cluster) = Cluster::on_machines(2, &SLOWLY_LOST) else { return };
    let job = cluster.start(&["run", "-N", "2", "-n", "2", RANK, "hang"]);
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let ranks: Vec<_> = job.mark.processes();
    let cgroups: Vec<_> = ranks.iter().filter_map(|pid| cgroup_of(*pid)).collect();
    let daemon = cluster.daemon(1);
    let is_its = |pid: &rustix::process::Pid| parent(*pid) == daemon && crate::jobs::is_starter(*pid);
    let starter = ranks.iter().copied().find(is_its).expect("its starter");
    kill_process(daemon, Signal::STOP).expect("it lives");
    kill_process(starter, Signal::KILL).expect("it lives");
    await_that("the starter is dead", || state_of(starter).is_none_or(|state| state == 'Z'));
    cluster.replace(1);
    let (status, said) = job.end();
    assert_eq!(said, "tutti run: the ranks on node node1 were lost with its daemon; the job is ended\n");
    assert_eq!(status, 1);
    await_that("its cgroups are gone", || cgroups.iter().all(|path| !path.exists()));
    await_that("nothing of it is kept", || {
        std::fs::read_dir(cluster.folder_of(1).join("node1.parts")).expect("its folder").count() == 0
    });
}

pub fn parent(pid: rustix::process::Pid) -> rustix::process::Pid {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let parent = text.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse().ok()).unwrap_or(1);
    rustix::process::Pid::from_raw(parent).unwrap_or(pid)
}

/// The pid of a process as it is on its own machine.
fn number_there(pid: rustix::process::Pid) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).expect("its numbers");
    line.split_whitespace().last().expect("the innermost").to_owned()
}

/// A line that a command writes by itself: its daemon has not answered, which one on a crowded machine may
/// come to before the daemon reports what is waited for.
fn is_of_slow_daemon(line: &str) -> bool {
    line.contains(": the daemon (pid ")
}

/// First line of a command's stderr; on another node than the controller's, the first of its daemon.
fn first_line(node: u32, command: &mut std::process::Child) -> String {
    let errors = std::io::BufReader::new(command.stderr.as_mut().expect("piped"));
    let mut lines = std::io::BufRead::lines(errors).map(|line| line.expect("text"));
    lines.find(|line| node == 0 || !is_of_slow_daemon(line)).expect("a line")
}

/// The controller stands still: who asks hears for whom he waits, queries end, and orders that were given up
/// are not carried out when it goes on.
#[test]
fn controller_stopped_is_reported_and_given_up_orders_are_dropped() {
    let Some(cluster) = Cluster::on_machines(2, &["--lost-after", "4"]) else { return };
    cluster.tutti(&["submit", "-host", "node1", "-n", "1", RANK, "hang"]).expect_success();
    await_that("it runs", || cluster.job(1).contains("\"running\""));
    let head = cluster.daemon(0);
    let number = number_there(head);
    kill_process(head, Signal::STOP).expect("it lives");
    await_that("it stands still", || state_of(head) == Some('T'));
    let start = |node: u32, words: &[&str]| {
        let mut command = cluster.command_on(node, words);
        command.stdin(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::null()).spawn().expect("tutti")
    };
    let waits = "node1 waits for the controller, which has not answered for 3 s; Ctrl-C gives up";
    let silent = format!("the daemon (pid {number}) has not answered for 3 s; Ctrl-C gives up");
    let orders = [(1, "kill", waits), (0, "kill", &silent), (1, "suspend", waits), (0, "suspend", &silent)];
    let mut ordered = orders.map(|(node, order, _)| start(node, &[order, "1"]));
    let mut submits = [0, 1].map(|node| start(node, &["submit", "-n", "1", RANK, "hang"]));
    let queries =
        [(0, "ps"), (1, "ps"), (1, "nodes")].map(|(node, query)| (node, query, start(node, &[query])));
    for ((node, order, text), ordered) in orders.iter().zip(&mut ordered) {
        assert_eq!(first_line(*node, ordered), format!("tutti {order}: {text}"));
    }
    for (node, query, asked) in queries {
        let ended = asked.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&ended.stderr).into_owned();
        let (end, begin) = match node {
            0 => (
                format!(
                    "the daemon (pid {number}) has not answered for 11 s; if it is stopped, kill -CONT {number} resumes it"
                ),
                silent.as_str(),
            ),
            _ => {
                ("the controller has not answered node1 for 10 s: requests wait until it does".into(), waits)
            }
        };
        let expected = [begin, &end].map(|line| format!("tutti {query}: {line}"));
        let lines: Vec<&str> = text.lines().filter(|line| node == 0 || !is_of_slow_daemon(line)).collect();
        // One whose daemon is slow gives up by itself.
        let is_right = lines == expected || node != 0 && lines == expected[..1];
        assert!(is_right && ended.status.code() == Some(1), "{query} on node{node}: {text}");
    }
    for given_up in ordered.iter_mut().chain(&mut submits) {
        given_up.kill().expect("it waits");
        given_up.wait().expect("it ends");
        // The command on the machine ends after the one that has started it there.
        let mut errors = given_up.stderr.take().expect("piped");
        std::io::Read::read_to_end(&mut errors, &mut Vec::new()).expect("its end");
    }
    kill_process(head, Signal::CONT).expect("it lives");
    await_that("node1 has its answers again", || {
        let asked = tutti_tests::run(&mut cluster.command_on(1, &["nodes"]), crate::harness::LIMIT);
        asked.stdout.lines().count() == 3 && !asked.stdout.contains(" lost ")
    });
    // What both have still to do is done before the next order of each.
    for node in [0, 1] {
        let mut signal = cluster.command_on(node, &["signal", "CONT", "1"]);
        tutti_tests::run(&mut signal, crate::harness::LIMIT).expect_success();
    }
    let rows = cluster.tutti(&["ps", "--all"]).expect_success().stdout;
    assert!(rows.lines().count() == 2 && rows.contains("running"), "{rows}");
    cluster.tutti(&["kill", "1"]).expect_success();
}
