//! Stdin, stdout and stderr of a job.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use tutti_tests::{Ran, Scratch, compile, program};

use crate::harness::{RANK, Running, await_that, has_paused_in_a_line, mpiexec, mpiexec_path, run};

// Paper: D7
#[test]
fn stdout_lines_of_ranks_never_mix() {
    for (lines, bytes) in [(3000, 100), (300, 10_000), (20, 200_000)] {
        let ran = mpiexec(&["-n", "4", RANK, &format!("spray={lines},{bytes}")]).expect_success();
        if has_paused_in_a_line(&ran) {
            println!("lines of {bytes} bytes: {}", ran.stderr);
            continue;
        }
        let mut counts = [0; 4];
        for line in ran.stdout.lines() {
            let letter = line.as_bytes()[0];
            assert!(line.bytes().all(|byte| byte == letter), "lines of {bytes} bytes are mixed");
            assert_eq!(line.len(), bytes - 1);
            counts[usize::from(letter - b'a')] += 1;
        }
        assert_eq!(counts, [lines; 4], "lines of {bytes} bytes");
    }
}

#[test]
fn stdout_bytes_pass_unchanged() {
    let scratch = Scratch::new("bytes");
    let path = scratch.path().join("bytes");
    let mut bytes = vec![0_u8; 3 << 20];
    tutti_testkit::Random::new(1).fill(&mut bytes);
    std::fs::write(&path, &bytes).expect("a file");
    let mut child = program("mpiexec")
        .args(["-n", "1", "cat"])
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpiexec");
    let mut got = Vec::new();
    child.stdout.take().expect("piped").read_to_end(&mut got).expect("stdout");
    assert!(child.wait().expect("our child").success());
    assert!(got == bytes, "{} bytes came of {}", got.len(), bytes.len());
}

#[test]
fn stdout_partial_line_comes_after_a_pause() {
    let scratch = Scratch::new("prompt");
    let go = scratch.path().join("go");
    let mut child = program("mpiexec")
        .args(["-n", "1", RANK, "raw=prompt> ", &format!("await={}", go.display())])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpiexec");
    let mut bytes = [0; 8];
    // The rank goes on only when its prompt has been seen.
    child.stdout.as_mut().expect("piped").read_exact(&mut bytes).expect("the prompt");
    assert_eq!(&bytes, b"prompt> ");
    std::fs::write(go, "").expect("a file");
    assert!(child.wait().expect("our child").success());
}

/// A rank's standard output is no terminal here, and the C library alone would keep the line.
#[test]
fn stdout_line_comes_while_the_program_runs() {
    let scratch = Scratch::new("launch-lines");
    let lines = compile("tests/launch/programs/lines.c", scratch.path());
    for (how, expected) in [("waits", &b"here\n"[..]), ("early", b"before\nhere\n")] {
        let mut mpiexec = program("mpiexec");
        mpiexec.args(["-n", "1"]).arg(&lines).arg(how).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = mpiexec.spawn().expect("mpiexec");
        let mut found = vec![0; expected.len()];
        // The rank ends only when its line has been seen.
        child.stdout.as_mut().expect("piped").read_exact(&mut found).expect("the line");
        assert_eq!(found, expected, "{how}");
        drop(child.stdin.take());
        assert!(child.wait().expect("our child").success(), "{how}");
    }
}

#[test]
fn stdout_buffer_of_the_program_s_own_stays_and_mpi_finalize_writes_it() {
    let scratch = Scratch::new("launch-own-buffer");
    let lines = compile("tests/launch/programs/lines.c", scratch.path());
    for (how, expected) in [("own", ""), ("exec", "here\n")] {
        let ran = run(program("mpiexec").args(["-n", "1"]).arg(&lines).arg(how).stdin(Stdio::null()));
        assert_eq!(ran.stdout, expected, "{how}: {ran}");
    }
}

#[test]
fn stdin_goes_to_rank_0_alone() {
    let cat = "cat | sed s/^/$TUTTI_RANK:/";
    for (options, expected) in [
        (&[][..], "0:text\n"),
        (&["-stdin", "1"], "1:text\n"),
        (&["-stdin", "none"], ""),
        (&["-stdin", "all"], "0:text\n1:text\n"),
    ] {
        let mut child = program("mpiexec")
            .args(options)
            .args(["-n", "2", "sh", "-c", cat])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("mpiexec");
        child.stdin.take().expect("piped").write_all(b"text\n").expect("stdin");
        let output = child.wait_with_output().expect("our child");
        let mut lines: Vec<&str> = std::str::from_utf8(&output.stdout).expect("text").lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected.lines().collect::<Vec<_>>(), "{options:?}");
    }
}

#[test]
fn stdin_large_for_all_ranks_arrives_whole() {
    let mut child = program("mpiexec")
        .args(["-stdin", "all", "-n", "3", "sh", "-c", "[ $TUTTI_RANK = 1 ] && sleep 0.2; wc -c"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpiexec");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(&vec![b'x'; 1_000_000]));
    let output = child.wait_with_output().expect("our child");
    writer.join().expect("writer").expect("all of it was read");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1000000\n1000000\n1000000\n");
}

#[test]
fn stdout_on_a_terminal_is_a_raw_terminal() {
    let line = format!(
        "{} -n 2 sh -c 'test -t 1 && ! test -t 2 && echo is a terminal; exec 3<&1; stty -a <&3 | grep -c -e -opost'",
        program("mpiexec").get_program().display()
    );
    let ran = run(Command::new("script").args(["-qec", &line, "/dev/null"])).expect_success();
    assert_eq!(ran.stdout.matches("is a terminal").count(), 2, "{ran}");
    assert_eq!(ran.stdout.lines().filter(|line| line.trim() == "1").count(), 2, "{ran}");
}

#[test]
fn stdout_labels_name_the_rank() {
    for option in ["-l", "--tag-output", "-prepend-rank", "--label", "--output=tag"] {
        let ran = mpiexec(&[option, "-n", "2", "sh", "-c", "echo a; echo b; echo e >&2"]).expect_success();
        for rank in 0..2 {
            for (text, letter) in [(&ran.stdout, "a"), (&ran.stdout, "b"), (&ran.stderr, "e")] {
                assert!(text.lines().any(|line| line == format!("[{rank}] {letter}")), "{option}: {ran}");
            }
        }
        assert_eq!(ran.stdout.lines().count(), 4);
    }
    let ran = mpiexec(&["--output=tag:2", "-n", "2", "sh", "-c", "echo a >&2"]).expect_success();
    let mut lines: Vec<&str> = ran.stderr.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [" 0: a", " 1: a"]);
}

#[test]
fn stdout_goes_to_files_on_request() {
    let scratch = Scratch::new("files");
    let pattern = scratch.path().join("out-%r");
    mpiexec(&[
        "-outfile-pattern",
        pattern.to_str().expect("UTF-8"),
        "-n",
        "2",
        RANK,
        "0:say=zero",
        "1:say=one",
    ])
    .expect_success();
    for (rank, text) in [(0, "zero\n"), (1, "one\n")] {
        let path = scratch.path().join(format!("out-{rank}"));
        assert_eq!(std::fs::read_to_string(path).expect("a file"), text);
    }
    let ran = mpiexec(&["-outfile-pattern", "/no/such/folder/%r", "-n", "1", RANK, "say=x"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.stderr.contains("/no/such/folder/0"), "{ran}");
}

/// One file for all ranks is one file: each has its lines in it.
#[test]
fn output_files_are_labelled_and_shared() {
    let scratch = Scratch::new("shared-files");
    let path = |name: &str| scratch.path().join(name).to_str().expect("UTF-8").to_owned();
    let script = "echo out; echo err >&2";
    let lines = |name: &str| {
        let text = std::fs::read_to_string(path(name)).expect("a file");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let files = ["-outfile-pattern", &path("out"), "-errfile-pattern", &path("err")];
    mpiexec(&[&files[..], &["-l", "-n", "3", "sh", "-c", script]].concat()).expect_success();
    assert_eq!(lines("out"), ["[0] out", "[1] out", "[2] out"]);
    assert_eq!(lines("err"), ["[0] err", "[1] err", "[2] err"]);
    mpiexec(&["--output-filename", &path("each"), "-n", "2", "sh", "-c", script]).expect_success();
    for rank in 0..2 {
        assert_eq!(lines(&format!("each.{rank}.out")), ["out"]);
        assert_eq!(lines(&format!("each.{rank}.err")), ["err"]);
    }
}

#[test]
fn stdout_closed_reader_ends_the_job_quietly() {
    let mpiexec = program("mpiexec").get_program().to_owned();
    let line = format!("{} -n 3 yes | head -n 2; echo ${{PIPESTATUS[0]}}", mpiexec.display());
    let ran = run(Command::new("bash").args(["-c", &line])).expect_success();
    assert_eq!(ran.stdout, "y\ny\n141\n", "{ran}");
    assert_eq!(ran.stderr, "", "{ran}");
}

#[test]
fn stdout_slow_reader_blocks_the_ranks() {
    let scratch = Scratch::new("jam");
    let done = scratch.path().join("done");
    let mut child = program("mpiexec")
        .args(["-n", "1", RANK, "spray=40000,1000", &format!("touch={}", done.display())])
        .stdout(Stdio::piped())
        .spawn()
        .expect("mpiexec");
    // The job's memory stays bounded: all of 40 MB would otherwise stand in the starter or in mpiexec.
    let starter = {
        let mark = child.id();
        let mut found = None;
        await_that("the starter is there", || {
            let children = std::fs::read_to_string(format!("/proc/{mark}/task/{mark}/children"));
            found = children.ok().and_then(|pids| pids.split_whitespace().next()?.parse::<u32>().ok());
            found.is_some()
        });
        found.expect("just seen")
    };
    await_that("the rank waits in its write", || {
        let rank =
            std::fs::read_to_string(format!("/proc/{starter}/task/{starter}/children")).unwrap_or_default();
        rank.split_whitespace().next().is_some_and(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/wchan"))
                .is_ok_and(|wchan| wchan.contains("pipe_write"))
                || std::fs::read_to_string(format!("/proc/{pid}/stack"))
                    .is_ok_and(|stack| stack.contains("pipe_write"))
        })
    });
    assert!(!done.exists());
    for pid in [starter, child.id()] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
        let kib: u64 = peak.trim().trim_end_matches(" kB").trim().parse().expect("a number");
        assert!(kib < 20_000, "pid {pid} took {kib} KiB");
    }
    let mut bytes = Vec::new();
    child.stdout.take().expect("piped").read_to_end(&mut bytes).expect("stdout");
    assert_eq!(bytes.len(), 40_000_000);
    assert!(child.wait().expect("our child").success() && done.exists());
}

#[test]
fn stdout_jam_does_not_block_signals() {
    let mut job = Running::start(&["-n", "1", "sh", "-c", "echo here; yes >&2"]);
    job.await_line("here");
    job.signal(rustix::process::Signal::INT);
    let (status, _) = job.end();
    assert_eq!(status, 130);
}

/// A shell that may have few files open at first runs `mpiexec` with these words.
fn with_few_files(scratch: &Scratch, words: &str) -> Ran {
    let script = format!("ulimit -Sn 256; exec \"$@\" {words}");
    let mut command = std::process::Command::new("sh");
    command.env("TUTTI_DAEMON", "none").args(["-c", &script, "sh"]).arg(mpiexec_path());
    run(command.current_dir(scratch.path()))
}

#[test]
fn output_files_of_many_ranks_are_made_at_the_start() {
    let scratch = Scratch::new("launch-many-files");
    // More files than may be open at first; the ranks keep that limit.
    let ran = with_few_files(&scratch, "-n 140 --output-filename x sh -c 'ulimit -n; echo err >&2'");
    assert_eq!(ran.code(), 0, "{ran}");
    let text = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap_or_default();
    assert_eq!((text("x.139.out").as_str(), text("x.0.err").as_str()), ("256\n", "err\n"), "{ran}");
    // What an earlier run has written goes, also where this one writes nothing.
    let ran = with_few_files(&scratch, "-n 140 --output-filename x true");
    assert_eq!((ran.code(), text("x.139.out").as_str(), text("x.0.err").as_str()), (0, "", ""), "{ran}");
    // A folder that is not there is named before anything has run.
    let ran = with_few_files(&scratch, "-n 1 --output-filename none/x sh -c 'touch ran; echo out'");
    assert!(ran.code() != 0 && ran.stderr.contains("none/x"), "{ran}");
    assert!(!scratch.path().join("ran").exists(), "{ran}");
}
