//! Front ends come and go, jobs stay; and a link that breaks loses nothing.

use rustix::process::{Signal, kill_process};
use tutti_tests::Scratch;

use crate::Cluster;
use crate::harness::{RANK, Running, await_that, run, state_of};

/// Says a line, waits for a file, says another.
fn two_lines(scratch: &Scratch) -> Vec<String> {
    let go = scratch.path().join("go");
    vec![RANK.into(), "say=before".into(), format!("await={}", go.display()), "say=after".into()]
}

/// Becomes the front end of job 1, which has written `line` and whose last front end is gone: as long as the
/// origin has not heard of that, there is one already.
#[track_caller]
fn attach_after_the_last(cluster: &Cluster, node: u32, line: &str) -> Running {
    let mut attached = None;
    await_that("the origin has no front end any more", || {
        let mut front = Running::start_command(&mut cluster.command_on(node, &["attach", "1"]));
        if front.try_await_line(line) {
            attached = Some(front);
        } else {
            assert_eq!(front.end().1, "tutti attach: job 1 has a front end already\n");
        }
        attached.is_some()
    });
    attached.expect("just attached")
}

fn with<'a>(words: &[&'a str], more: &'a [String]) -> Vec<&'a str> {
    words.iter().copied().chain(more.iter().map(String::as_str)).collect()
}

// Paper: S1
#[test]
fn attach_works_from_any_node_and_shows_past_output() {
    let Some(cluster) = Cluster::on_machines(3, &[]) else { return };
    let scratch = Scratch::new("cluster-attach-go");
    let program = two_lines(&scratch);
    let mut submit = cluster.command_on(1, &with(&["submit", "-N", "3", "-n", "3"], &program));
    tutti_tests::run(&mut submit, crate::harness::LIMIT).expect_success();
    await_that("all have spoken", || {
        let logs = tutti_tests::run(&mut cluster.command_on(2, &["logs", "1"]), crate::harness::LIMIT);
        logs.stdout == "before\nbefore\nbefore\n"
    });
    let mut front = Running::start_command(&mut cluster.command_on(2, &["attach", "1"]));
    (0..3).for_each(|_| front.await_line("before"));
    let second = run(&mut cluster.command_on(0, &["attach", "1"]));
    assert_eq!(second.stderr, "tutti attach: job 1 has a front end already\n");
    // What is done to the front end is done to the job, wherever it is.
    front.signal(Signal::TSTP);
    await_that("the job and its front end stand still", || {
        cluster.job(1).contains("\"suspended\"") && state_of(front.pid()) == Some('T')
    });
    front.signal(Signal::CONT);
    await_that("the job goes on", || cluster.job(1).contains("\"running\""));
    std::fs::write(scratch.path().join("go"), "").expect("a file");
    (0..3).for_each(|_| front.await_line("after"));
    assert_eq!(front.end(), (0, String::new()));
    for node in 0..3 {
        let logs = tutti_tests::run(&mut cluster.command_on(node, &["logs", "1"]), crate::harness::LIMIT);
        assert_eq!(logs.expect_success().stdout.lines().count(), 6);
        let over = tutti_tests::run(&mut cluster.command_on(node, &["attach", "1"]), crate::harness::LIMIT);
        assert_eq!(over.stderr, "tutti attach: job 1 is over; `tutti logs 1` shows what it wrote\n");
    }
}

#[test]
fn attach_front_end_death_leaves_the_job_alone() {
    let cluster = Cluster::up("cluster-attach-death", 2, &[]);
    cluster.tutti(&["submit", "-N", "2", "-n", "2", RANK, "say=here", "hang"]).expect_success();
    for node in [1, 0, 1] {
        let mut front = attach_after_the_last(&cluster, node, "here");
        front.await_line("here");
        front.signal(Signal::KILL);
        let _ = front.end();
    }
    assert!(cluster.job(1).contains("\"running\""));
    let mut front = attach_after_the_last(&cluster, 1, "here");
    front.await_line("here");
    front.signal(Signal::INT);
    assert_eq!(front.end().0, 130);
    await_that("the job is over", || cluster.job(1).contains("\"over\""));
}

#[test]
fn detach_by_tilde_dot_leaves_the_job_alone() {
    let cluster = Cluster::up("cluster-detach", 2, &[]);
    let scratch = Scratch::new("cluster-detach-go");
    let program = two_lines(&scratch).join(" ");
    let script = format!("$tutti run -N 2 -n 2 {program}; echo status $?; $tutti attach 1; echo status $?");
    let mut terminal = cluster.at_terminal(&script, &[]);
    (0..2).for_each(|_| terminal.await_text("before"));
    terminal.press("~.\n");
    terminal.await_text("job 1 continues");
    terminal.await_text("status 0");
    // Attached again.
    (0..2).for_each(|_| terminal.await_text("before"));
    std::fs::write(scratch.path().join("go"), "").expect("a file");
    (0..2).for_each(|_| terminal.await_text("after"));
    terminal.await_text("status 0");
}

#[test]
fn detach_on_hangup() {
    let cluster = Cluster::up("cluster-hangup-detach", 2, &[]);
    let scratch = Scratch::new("cluster-hangup-go");
    let program = two_lines(&scratch).join(" ");
    let script = format!("$tutti run --detach-on-hangup -N 2 -n 2 {program}; echo over");
    let mut terminal = cluster.at_terminal(&script, &[]);
    (0..2).for_each(|_| terminal.await_text("before"));
    terminal.hang_up();
    let mut front = attach_after_the_last(&cluster, 1, "before");
    front.await_line("before");
    std::fs::write(scratch.path().join("go"), "").expect("a file");
    (0..2).for_each(|_| front.await_line("after"));
    assert_eq!(front.end(), (0, String::new()));
}

#[test]
fn attach_survives_broken_links_without_loss() {
    // A chain: what the ranks of node 0 write goes through node 1 to the front end on node 2.
    let Some(cluster) = Cluster::on_machines(3, &["--arity", "1", "--lost-after", "8"]) else { return };
    let words =
        ["run", "-host", "node0,node2", "-n", "2", "-l", RANK, "say=up", "spray=3000,1000", "say=down"];
    let mut job = Running::start_command(&mut cluster.command_on(2, &words));
    job.await_line("[0] up");
    let middle = cluster.daemon(1);
    // It is stopped for a while, then it is dead for good. A duration is what is tested: less than
    // --lost-after, so that output piles up at a link that counts as alive.
    kill_process(middle, Signal::STOP).expect("it lives");
    std::thread::sleep(std::time::Duration::from_millis(700));
    kill_process(middle, Signal::CONT).expect("it lives");
    kill_process(middle, Signal::KILL).expect("it lives");
    job.await_line("[0] down");
    job.await_line("[1] down");
    for (rank, letter) in [(0, 'a'), (1, 'b')] {
        let line = format!("[{rank}] {}", String::from(letter).repeat(999));
        assert_eq!(job.seen().iter().filter(|seen| **seen == line).count(), 3000);
    }
    assert_eq!(job.end().0, 0);
    await_that("the dead node is lost", || cluster.tutti(&["nodes"]).stdout.contains("lost"));
}
