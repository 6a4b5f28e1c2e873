//! Front ends over the restart of their daemon: the job goes on, no line of it is lost or comes twice, what
//! is typed arrives once.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{LIMIT, await_that};
use crate::keeping::Kept;

/// A front end with its output in files.
struct Front {
    child: Child,
    folder: std::path::PathBuf,
}

impl Front {
    fn start(kept: &Kept, words: &[&str]) -> Self {
        Self::start_command(&mut kept.command(words), &kept.folder("."))
    }

    fn start_command(command: &mut Command, folder: &Path) -> Self {
        let file = |name: &str| std::fs::File::create(folder.join(name)).expect("a file");
        command.stdin(Stdio::piped()).stdout(file("stdout")).stderr(file("stderr"));
        Front { child: command.spawn().expect("a front end"), folder: folder.to_owned() }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).expect("its file")
    }

    #[track_caller]
    fn await_line(&self, line: &str, times: usize) {
        await_that(line, || self.read("stdout").lines().filter(|found| *found == line).count() == times);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("our child");
    }

    /// Exit status, stdout, stderr.
    #[track_caller]
    fn end(mut self) -> (Option<i32>, String, String) {
        drop(self.child.stdin.take());
        let begun = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("our child") {
                Some(status) => break status,
                None if begun.elapsed() > LIMIT => panic!("no end: {}", self.read("stderr")),
                None => std::thread::sleep(std::time::Duration::from_millis(2)),
            }
        };
        (status.code(), self.read("stdout"), self.read("stderr"))
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each rank says a line for each line that is typed, and nine numbered ones behind it.
const ECHO: &str = "while read word; do echo $TUTTI_RANK $word; \
                    for i in 1 2 3 4 5 6 7 8 9; do echo $TUTTI_RANK $word $i; done; done; exit 7";

#[test]
fn front_end_goes_on_over_restarts_of_its_daemon() {
    let mut kept = Kept::start("comeback", &[]);
    let script = ECHO.replace("$TUTTI_RANK", "$PMI_RANK");
    let mut front = Front::start(&kept, &["run", "-n", "2", "--stdin", "all", "sh", "-c", &script]);
    let mut input = front.child.stdin.take().expect("piped");
    let mut expected = [String::new(), String::new()];
    for turn in 0..5 {
        // The first piece is typed before, the second while there is no daemon.
        input.write_all(format!("before{turn}\n").as_bytes()).expect("it reads");
        (0..2).for_each(|rank| front.await_line(&format!("{rank} before{turn} 9"), 1));
        kept.end_daemon(if turn % 2 == 0 { Signal::USR1 } else { Signal::KILL });
        input.write_all(format!("between{turn}\n").as_bytes()).expect("it reads");
        kept.start_again();
        (0..2).for_each(|rank| front.await_line(&format!("{rank} between{turn} 9"), 1));
        for (rank, text) in expected.iter_mut().enumerate() {
            for word in ["before", "between"] {
                text.push_str(&format!("{rank} {word}{turn}\n"));
                (1..=9).for_each(|line| text.push_str(&format!("{rank} {word}{turn} {line}\n")));
            }
        }
    }
    drop(input);
    let (status, stdout, stderr) = front.end();
    assert_eq!(status, Some(7), "{stderr}");
    assert!(!stderr.contains("lost") && !stderr.contains("died"), "{stderr}");
    for (rank, text) in expected.iter().enumerate() {
        let found: String =
            stdout.split_inclusive('\n').filter(|line| line.starts_with(&format!("{rank} "))).collect();
        assert_eq!(&found, text);
    }
    kept.await_state("1", "over");
}

#[test]
fn front_end_that_attached_goes_on_over_a_restart_and_may_leave() {
    let mut kept = Kept::start("comeback-attach", &[]);
    let script = "for i in 1 2 3; do echo line $i; while [ ! -e go$i ]; do sleep 0.05; done; done";
    kept.tutti(&["submit", "-n", "2", "sh", "-c", script]).expect_success();
    kept.await_state("1", "running");
    let front = Front::start(&kept, &["attach", "1"]);
    for step in 1..=2 {
        front.await_line(&format!("line {step}"), 2);
        kept.end_daemon(Signal::USR1);
        std::fs::write(kept.folder(&format!("go{step}")), "").expect("a file");
        kept.start_again();
        front.await_line(&format!("line {}", step + 1), 2);
    }
    // Its end is not the job's, here as before.
    front.signal(Signal::KILL);
    let _ = front.end();
    assert!(kept.tutti(&["status", "--json", "1"]).stdout.contains("\"running\""));
    std::fs::write(kept.folder("go3"), "").expect("a file");
    kept.await_state("1", "over");
    assert!(kept.tutti(&["status", "--json", "1"]).stdout.contains("\"status\": 0"));
}

#[test]
fn jobs_that_wait_keep_their_front_ends_over_a_restart() {
    let mut kept = Kept::start("comeback-waits", &["--slots", "1", "--lost-after", "3"]);
    kept.tutti(&["submit", "--exclusive", "-n", "1", "sleep", "1000"]).expect_success();
    kept.await_state("1", "running");
    let front = Front::start(&kept, &["run", "-n", "1", "echo", "ran"]);
    kept.await_state("2", "waiting");
    kept.end_daemon(Signal::USR1);
    kept.start_again();
    kept.await_state("2", "waiting");
    kept.tutti(&["kill", "1"]).expect_success();
    let (status, stdout, stderr) = front.end();
    assert_eq!((status, &stdout[..]), (Some(0), "ran\n"), "{stderr}");
}

/// Output of such a job has no reader, and no front end would end it.
#[test]
fn job_whose_front_end_died_beside_its_daemon_ends() {
    let mut kept = Kept::start("comeback-none", &["--keep-for", "2"]);
    let front = Front::start(&kept, &["run", "-n", "1", "sh", "-c", "echo here; sleep 1000"]);
    front.await_line("here", 1);
    kept.end_daemon(Signal::KILL);
    front.signal(Signal::KILL);
    let _ = front.end();
    kept.start_again();
    kept.await_state("1", "over");
    // One that was left alone goes on.
    let words = ["submit", "-n", "1", "sh", "-c", "sleep 1000"];
    kept.tutti(&words).expect_success();
    kept.await_state("2", "running");
    kept.end_daemon(Signal::USR1);
    kept.start_again();
    let third = Front::start(&kept, &["run", "-n", "1", "sh", "-c", "echo here; sleep 1000"]);
    third.await_line("here", 1);
    kept.end_daemon(Signal::USR1);
    third.signal(Signal::KILL);
    let _ = third.end();
    kept.start_again();
    kept.await_state("3", "over");
    assert!(kept.tutti(&["status", "--json", "2"]).stdout.contains("\"running\""));
    kept.tutti(&["kill", "2"]).expect_success();
}

/// Without a daemon the user's time for the job to end is no time to wait: nothing can pass the request on.
#[test]
fn interrupted_front_end_ends_without_a_daemon_and_its_job_with_the_next() {
    let mut kept = Kept::start("comeback-interrupted", &["--keep-for", "2"]);
    let words =
        ["run", "-n", "1", "--kill-after", "1000", "sh", "-c", "echo here; echo $$ > pid; exec sleep 1000"];
    let front = Front::start(&kept, &words);
    await_that("its pid", || kept.read("pid").ends_with('\n'));
    let rank = Path::new("/proc").join(kept.read("pid").trim());
    kept.end_daemon(Signal::USR1);
    await_that("it says so", || front.read("stderr").contains("the next daemon is awaited"));
    front.signal(Signal::INT);
    let (_, _, stderr) = front.end();
    assert!(stderr.contains("the next one ends job 1"), "{stderr}");
    assert!(rank.exists(), "its rank ends with the next daemon");
    kept.start_again();
    kept.await_state("1", "over");
    // A zombie may be left for a moment.
    await_that("its rank ends", || !rank.exists());
}

/// Starters await no daemon for longer than `--keep-for`, and give the job to one that comes later.
#[test]
fn job_that_its_daemon_left_goes_on_and_the_next_daemon_has_it() {
    let mut kept = Kept::start("comeback-later", &["--keep-for", "1"]);
    // More than is kept for a daemon.
    let script = "echo first; while [ ! -e go1 ]; do sleep 0.05; done; \
                  for i in $(seq 64); do seq 10000 20000; done; touch written; \
                  while [ ! -e go2 ]; do sleep 0.05; done; echo last; exit 3";
    let output = kept.folder("output").display().to_string();
    kept.tutti(&["submit", "-n", "1", "-o", &output, "sh", "-c", script]).expect_success();
    await_that("its first line", || kept.read("output") == "first\n");
    kept.tutti(&["suspend", "1"]).expect_success();
    kept.await_state("1", "suspended");
    kept.end_daemon(Signal::USR1);
    std::fs::write(kept.folder("go1"), "").expect("a file");
    // Suspended, and with more output than has room, it would wait for a daemon.
    await_that("it goes on alone", || kept.folder("written").exists());
    kept.start_again();
    // As its user has left it.
    kept.await_state("1", "suspended");
    kept.tutti(&["resume", "1"]).expect_success();
    kept.await_state("1", "running");
    let line = "while it had no daemon found no room: they are lost";
    await_that("what was lost is said", || kept.read("state/events.jsonl").contains(line));
    std::fs::write(kept.folder("go2"), "").expect("a file");
    kept.await_state("1", "over");
    let status = kept.tutti(&["status", "1"]).stdout;
    assert!(status.contains("status   3"), "{status}");
    let output = kept.read("output");
    assert!(output.starts_with("first\n10000\n10001\n") && output.contains("last\n"), "{}", output.len());
}
