//! `tutti timeline`: a page that needs nothing but itself, from the logs alone.

use std::process::{Command, Stdio};

use tutti_tests::{Scratch, program};

use crate::Cluster;
use crate::harness::{LIMIT, await_that};

#[test]
fn timeline_shows_turns_without_daemons() {
    let cluster = Cluster::up("cluster-timeline", 2, &["--slots", "1", "--slice", "20"]);
    let words = ["run", "-N", "2", "-n", "2", "sh", "-c", "while :; do :; done # <b> & \"c\""];
    let one = cluster.start(&words);
    await_that("it is job 1", || cluster.job(1).contains("\"running\""));
    let other = cluster.start(&words);
    await_that("it is job 2", || cluster.job(2).contains("\"running\""));
    let log = cluster.folder.join("turns.jsonl");
    let taken = || std::fs::read_to_string(&log).unwrap_or_default();
    if crate::gangs::cgroup(&one).is_some() {
        // Each node says once a second what its switch thread has done.
        await_that("several turns of both nodes are logged", || {
            ["node0", "node1"].iter().all(|node| {
                let of_node = format!("\"{node}\"");
                let taken = taken();
                let lines = taken.lines().filter(|line| line.contains(&of_node));
                lines.map(|line| line.matches("\"thaw\"").count()).sum::<usize>() >= 10
            })
        });
    }
    cluster.tutti(&["kill", "1", "2"]).expect_success();
    assert_eq!((one.end().0, other.end().0), (137, 137));
    cluster.tutti(&["down"]).expect_success();

    let page = cluster.folder.join("page.html");
    cluster.tutti(&["timeline", "--all", "-o", page.to_str().unwrap()]).expect_success();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("2 nodes, 2 jobs"), "{text}");
    assert!(text.contains("while :; do :; done # &lt;b&gt; &amp; &quot;c"), "commands are text, not markup");
    assert_eq!(
        text.matches("http").count(),
        text.matches("http://www.w3.org/2000/svg").count(),
        "it fetches nothing"
    );
    if taken().contains("\"thaw\"") {
        assert!(
            text.contains("<h2>One switch</h2><p>The median of ") && text.contains(" switches; "),
            "{text}"
        );
    }
    // Whose job it is, and when by the clock on the wall.
    assert!(
        text.contains("<td class=\"r\">1<td>root<td class=\"c\">sh -c")
            || !rustix::process::geteuid().is_root()
    );
    let (_, events) = text.split_once("<details><summary>").expect("a folded table");
    assert!(events.contains("</table></details>"), "{events}");
    let picture = cluster.folder.join("job.svg");
    cluster.tutti(&["timeline", "2", "-o", picture.to_str().unwrap()]).expect_success();
    assert!(std::fs::read_to_string(&picture).unwrap().starts_with("<svg "));
    for name in ["job.png", "job"] {
        let other = cluster.folder.join(name);
        let refused = cluster.tutti(&["timeline", "2", "-o", other.to_str().unwrap()]);
        let said = format!(
            "tutti timeline: {} is neither a page (.html) nor a picture (.svg): there are no other formats\n",
            other.display()
        );
        assert_eq!((refused.code(), refused.stderr), (1, said));
        assert!(!other.exists());
    }
    let refused = cluster.tutti(&["timeline", "99"]);
    assert_eq!((refused.code(), refused.stderr.as_str()), (1, "tutti timeline: the logs have no job 99\n"));
}

/// A folder with the logs of a job.
fn logs(name: &str, events: usize) -> Scratch {
    let scratch = Scratch::new(name);
    let mut text =
        String::from("{\"ms\":1000,\"event\":\"submitted\",\"job\":1,\"nodes\":[\"a\"],\"text\":\"x\"}\n");
    text.push_str("{\"ms\":1001,\"event\":\"started\",\"job\":1,\"nodes\":[\"a\"]}\n");
    (0..events).for_each(|n| {
        text.push_str(&format!("{{\"ms\":{},\"event\":\"node-lost\",\"nodes\":[\"a\"]}}\n", 1002 + n))
    });
    std::fs::write(scratch.path().join("events.jsonl"), text).expect("a file");
    scratch
}

#[test]
fn timeline_to_stdout_appends() {
    let scratch = logs("timeline-stdout", 1);
    let line = "cd \"$1\"; echo before; \"$0\" timeline --all --logs . -o /dev/stdout; echo after";
    let command = || {
        let mut command = Command::new("sh");
        command.args(["-c", line]).arg(program("tutti").get_program()).arg(scratch.path());
        command
    };
    let by_pipe = tutti_tests::run(&mut command(), LIMIT).expect_success().stdout;
    assert!(
        by_pipe.starts_with("before\n<!doctype html>") && by_pipe.ends_with("</html>\nafter\n"),
        "{by_pipe}"
    );
    let file = scratch.path().join("file");
    let ended = command().stdout(std::fs::File::create(&file).expect("a file")).status().expect("sh");
    assert!(ended.success());
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), by_pipe);
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let mut child = command().stdout(std::os::fd::OwnedFd::from(theirs)).spawn().expect("sh");
    assert_eq!(std::io::read_to_string(ours).expect("text"), by_pipe);
    assert!(child.wait().expect("our child").success());
}

#[test]
fn timeline_to_a_descriptor_keeps_its_offset() {
    let scratch = logs("timeline-descriptor", 1);
    for (open, old) in [("3>file", ""), ("3>>file", "old\n"), ("3<>file", "")] {
        std::fs::write(scratch.path().join("file"), "old\n").expect("a file");
        let line = format!(
            "cd \"$1\"; exec {open}; echo before >&3; \"$0\" timeline --all --logs . -o /dev/fd/3; echo after >&3"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).arg(program("tutti").get_program()).arg(scratch.path());
        tutti_tests::run(&mut command, LIMIT).expect_success();
        let text = std::fs::read_to_string(scratch.path().join("file")).expect("a file");
        let begins = format!("{old}before\n<!doctype html>");
        assert!(text.starts_with(&begins) && text.ends_with("</html>\nafter\n"), "{open}: {text}");
    }
}

#[test]
fn timeline_over_the_file_size_limit_leaves_nothing() {
    let scratch = logs("timeline-limit", 1);
    let folder = scratch.path().join("pages");
    std::fs::create_dir(&folder).expect("a folder");
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -f 1; exec \"$0\" timeline --all --logs \"$1\" -o \"$1/pages/page.html\""]);
    command.arg(program("tutti").get_program()).arg(scratch.path());
    let ran = tutti_tests::run(&mut command, LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("cannot write") && ran.stderr.contains("File too large"), "{ran}");
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
}

#[test]
fn timeline_interrupted_is_whole_or_absent() {
    let scratch = logs("timeline-interrupted", 20_000);
    let folder = scratch.path().join("pages");
    std::fs::create_dir(&folder).expect("a folder");
    let page = folder.join("page.html");
    let names = || -> Vec<_> {
        std::fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("a file").file_name())
            .collect()
    };
    for _ in 0..10 {
        let mut command = program("tutti");
        command.args(["timeline", "--all", "--logs"]).arg(scratch.path()).arg("-o").arg(&page);
        let mut child = command.stdout(Stdio::null()).spawn().expect("tutti");
        await_that("it writes", || !names().is_empty());
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
            .expect("it is ours");
        child.wait().expect("our child");
        assert_eq!(names(), ["page.html"]);
        assert!(std::fs::read_to_string(&page).expect("a page").ends_with("</html>\n"));
        std::fs::remove_file(&page).expect("it is there");
    }
}

/// A job that ends at once asks no daemon, so there is no log.
#[test]
fn timeline_after_a_short_job_names_where_jobs_are_logged() {
    let scratch = Scratch::new("timeline-none");
    let mut command = program("tutti");
    command.args(["timeline", "--all"]).current_dir(scratch.path());
    command.env("TUTTI_DIR", scratch.path()).env_remove("TUTTI_DAEMON");
    let ran = tutti_tests::run(&mut command, LIMIT);
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("no daemon has kept a log in "), "{ran}");
    assert!(ran.stderr.contains("jobs of mpiexec that end within 50 ms"), "{ran}");
    command.args(["--logs", "."]);
    let ran = tutti_tests::run(&mut command, LIMIT);
    assert_eq!(ran.stderr, "tutti timeline: there is no log of a daemon in .\n");
}
