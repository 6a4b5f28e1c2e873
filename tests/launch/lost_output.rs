//! Output that goes nowhere: standard output is closed, full, or not read by anybody. A command says so and
//! fails; a rank's output reaches nothing else.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use tutti_tests::full_at_close::FullAtClose;
use tutti_tests::{Scratch, compile, program};

use crate::harness::{LIMIT, await_that, mpiexec_path, run};

/// Commands that print something, wherever they are run.
const PRINTING: [(&str, &[&str]); 15] = [
    ("mpiexec", &["--help"]),
    ("mpiexec", &["--version"]),
    ("tutti", &["--help"]),
    ("tutti", &["version"]),
    ("tutti", &["ps", "--help"]),
    ("tutti", &["help", "nodes"]),
    ("tutti", &["run", "--help"]),
    ("tutti", &["submit", "--help"]),
    ("tutti", &["man", "mpiexec"]),
    ("tutti", &["completion", "bash"]),
    ("tutti", &["config", "show"]),
    ("tutti", &["machine"]),
    ("tutti", &["top", "--help"]),
    ("tuttid", &["--help"]),
    ("tuttid", &["--version"]),
];

/// A command without standard output.
fn without_stdout(name: &str, words: &[&str]) -> Command {
    let path = program(name).get_program().to_owned();
    let mut command = Command::new("sh");
    command.env("TUTTI_DAEMON", "none").args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(path).args(words);
    command
}

#[test]
fn commands_whose_output_is_lost_say_so_and_fail() {
    for (name, words) in PRINTING {
        let full = || OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let ran = tutti_tests::run(program(name).args(words), LIMIT).expect_success();
        assert!(!ran.stdout.is_empty(), "{name} {words:?} prints");
        let (gone, pipe) = std::io::pipe().expect("a pipe");
        drop(gone);
        let mut to_full = program(name);
        let mut to_nobody = program(name);
        let lines = [
            (to_full.args(words).stdout(full()), "No space left on device"),
            (&mut without_stdout(name, words), "Bad file descriptor"),
            // A reader that has gone wants no more of it.
            (to_nobody.args(words).stdout(pipe), ""),
        ];
        for (command, reason) in lines {
            let ended = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it is there");
            let ended = ended.wait_with_output().expect("our child");
            let stderr = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(1), "{name} {words:?}, {reason}: {stderr}");
            let end = format!("cannot write to standard output: {reason}\n");
            let is_right = if reason.is_empty() { stderr.is_empty() } else { stderr.ends_with(&end) };
            assert!(is_right && stderr.lines().count() <= 1, "{name} {words:?}: {stderr}");
        }
    }
}

/// A pipe may have been made so by any process that shares it.
#[test]
fn command_waits_for_room_in_a_pipe_that_does_not_wait() {
    let words = ["man", "mpiexec"];
    let expected = tutti_tests::run(program("tutti").args(words), LIMIT).expect_success().stdout;
    let (mut from, to) = std::io::pipe().expect("a pipe");
    let room = rustix::pipe::fcntl_setpipe_size(&to, 4096).expect("a pipe");
    assert!(expected.len() > room, "the text is longer than the pipe");
    rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK).expect("a pipe");
    let mut child = program("tutti").args(words).stdout(to).spawn().expect("it is there");
    await_that("the pipe is full", || {
        rustix::io::ioctl_fionread(from.as_fd()).is_ok_and(|bytes| bytes == room as u64)
    });
    let mut text = String::new();
    from.read_to_string(&mut text).expect("a pipe");
    assert!(child.wait().expect("our child").success());
    assert_eq!(text, expected);
}

#[test]
fn job_that_writes_to_a_closed_stdout_is_ended_with_one_line() {
    for ranks in [&["-n", "2"][..], &["--virtual-nodes", "2", "-n", "2"]] {
        let ran = run(without_stdout("mpiexec", ranks).args(["sh", "-c", "echo text; sleep 1000"]));
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
        let line = "mpiexec: cannot write the job's output to standard output: Bad file descriptor; the job is ended\n";
        assert_eq!(ran.stderr, line);
        run(without_stdout("mpiexec", ranks).arg("true")).expect_success();
    }
}

#[test]
fn output_of_a_rank_without_streams_reaches_nothing_of_the_job() {
    let scratch = Scratch::new("launch-closed-streams");
    let path = compile("tests/launch/programs/closed_streams.c", scratch.path());
    let (path, mpiexec) = (path.display(), mpiexec_path());
    for (closed, numbers) in
        [(">&-", "1"), ("<&-", "0"), ("2>&-", "2"), ("<&- >&-", "0 1"), ("<&- >&- 2>&-", "0 1 2")]
    {
        let script = format!("exec {path} {numbers} {closed}");
        for ranks in [&["-n", "2"][..], &["--virtual-nodes", "2", "-n", "2"]] {
            let mut command = Command::new(&mpiexec);
            let ran = run(command.env("TUTTI_DAEMON", "none").args(ranks).args(["sh", "-c", &script]));
            assert_eq!((ran.code(), ran.stdout.as_str()), (0, ""), "{closed}: {ran}");
        }
    }
}

/// As flux-framework/flux-core issue 5177 has it: the launcher's own descriptors must not get the number.
#[test]
fn job_whose_caller_has_no_stdin_reads_its_end() {
    for ranks in [&["-n", "2"][..], &["--virtual-nodes", "2", "-n", "2"], &["-n", "2", "--stdin", "all"]] {
        let mut command = Command::new("sh");
        command.env("TUTTI_DAEMON", "none").args(["-c", "exec \"$0\" \"$@\" <&-"]).arg(mpiexec_path());
        let ran = run(command.args(ranks).args(["sh", "-c", "cat; echo $?"])).expect_success();
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("0\n0\n", ""), "{ranks:?}: {ran}");
    }
}

/// NFS and quotas of a server take a write, and say that there is no room when the file is closed.
#[test]
fn output_that_is_lost_when_its_file_is_closed_is_said_and_fails() {
    let scratch = Scratch::new("launch-full-at-close");
    let Some(disk) = FullAtClose::mount(&scratch.path().join("disk")) else { return };
    let pattern = disk.file("out.%r").display().to_string();
    let ran = run(program("mpiexec").args(["-n", "2", "--outfile-pattern", &pattern, "echo", "text"]));
    let said =
        ran.stderr.contains("cannot write the job's output to ") && ran.stderr.contains("No space left");
    assert!(ran.code() == 1 && said && ran.stderr.lines().count() == 1, "{ran}");
    for (name, words, line) in [
        ("mpiexec", &["-n", "1", "echo", "text"][..], "cannot write the job's output to standard output: "),
        ("mpiexec", &["--help"], "cannot write to standard output: "),
        ("tutti", &["version"], "cannot write to standard output: "),
    ] {
        let file = std::fs::File::create(disk.file(&format!("{}-{}", name, words.len()))).expect("a file");
        let mut command = program(name);
        command.env("TUTTI_DAEMON", "none").args(words).stdin(Stdio::null()).stdout(file);
        let ended = command.stderr(Stdio::piped()).spawn().expect("it is there");
        let ended = ended.wait_with_output().expect("our child");
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(stderr.contains(line) && stderr.contains("No space left"), "{name} {words:?}: {stderr}");
        assert_eq!((ended.status.code(), stderr.lines().count()), (Some(1), 1), "{name} {words:?}: {stderr}");
    }
}
