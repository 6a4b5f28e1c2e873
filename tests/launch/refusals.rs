//! Bad input: one clear line, a status that is not 0, nothing left behind.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tutti_tests::{Scratch, program};

use crate::harness::{mpiexec, run};

#[track_caller]
fn refused(arguments: &[&str], status: i32, part: &str) {
    let ran = mpiexec(arguments);
    assert_eq!(ran.code(), status, "{arguments:?}: {ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{arguments:?}: {ran}");
    assert!(ran.stderr.starts_with("mpiexec: "), "{arguments:?}: {ran}");
    assert!(ran.stderr.contains(part), "{arguments:?}: {part:?} is not in {ran}");
    assert_eq!(ran.stdout, "", "{arguments:?}");
}

/// A file in a folder of the test, with a mode.
fn file(scratch: &Scratch, name: &str, content: &[u8], mode: u32) -> String {
    let path = scratch.path().join(name);
    std::fs::write(&path, content).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its mode");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn command_line_errors_are_refused() {
    refused(&["-n", "0", "true"], 2, "-n is given \"0\"");
    refused(&["-n", "-1", "true"], 2, "\"-1\"");
    refused(&["-n", "many", "true"], 2, "\"many\"");
    refused(&["-n", "2"], 2, "no program");
    refused(&[], 2, "no program");
    refused(&["--frobnicate", "true"], 2, "--frobnicate is not an option");
    refused(&["-n", "1", "true", ":", "true"], 2, "needs its number of ranks");
    refused(&["-stdin", "5", "-n", "2", "true"], 2, "rank 5");
}

#[test]
fn program_that_cannot_be_executed_is_refused() {
    let scratch = Scratch::new("refusals");
    refused(&["-n", "2", "no-such-program-here"], 127, "neither in PATH");
    refused(&["-n", "2", "./no/such/file"], 127, "no such file");
    refused(&["-n", "2", "/tmp"], 126, "is a directory");
    let plain = file(&scratch, "plain", b"#!/bin/sh\n", 0o644);
    refused(&["-n", "2", &plain], 126, "permission denied");
    let script = file(&scratch, "script", b"#!/no/such/interpreter\n", 0o755);
    refused(&["-n", "2", &script], 126, "its interpreter /no/such/interpreter does not exist");
    let rubbish = file(&scratch, "rubbish", b"\x00\x01\x02\x03rubbish", 0o755);
    refused(&["-n", "2", &rubbish], 126, "not a program for this machine");
    let empty = file(&scratch, "empty", b"", 0o755);
    refused(&["-n", "2", &empty], 126, "not a program for this machine");
    let cut = file(&scratch, "cut", b"\x7fELF\x02\x01\x01", 0o755);
    refused(&["-n", "2", &cut], 126, "not a program for this machine");
    refused(&["-wdir", "/no/such/folder", "-n", "2", "true"], 1, "/no/such/folder");
}

#[test]
fn program_of_another_mpi_is_refused() {
    let scratch = Scratch::new("other-mpi");
    for (soname, mpi, needs) in [
        (
            "libmpi.so.20",
            "a version of Open MPI that is not known here",
            "; known are those with libmpi.so.40: 4 and 5",
        ),
        ("libmpi.so.99", "another MPI", ""),
    ] {
        let source = file(&scratch, "library.c", b"int MPI_Init(void) { return 0; }\n", 0o644);
        let library = scratch.path().join(soname);
        let user =
            file(&scratch, "user.c", b"int MPI_Init(void); int main(void) { return MPI_Init(); }\n", 0o644);
        let made = scratch.path().join(format!("user-of-{soname}"));
        let (library, made) = (library.to_str().expect("UTF-8"), made.to_str().expect("UTF-8"));
        let cc = |arguments: &[&str]| {
            tutti_tests::run(Command::new("cc").args(arguments), crate::harness::LIMIT).expect_success()
        };
        cc(&["-shared", "-fPIC", "-o", library, &source, &format!("-Wl,-soname,{soname}")]);
        cc(&["-o", made, &user, library]);
        let expected =
            format!("{made} was built for {mpi} (needs {soname}{needs}); recompile it with mpicc of Tutti");
        refused(&["-n", "2", made], 1, &expected);
    }
}

#[test]
fn too_many_ranks_are_refused() {
    refused(&["-n", "100000", "true"], 1, "100000 ranks are more than");
    refused(&["--nooversubscribe", "-n", "500", "true"], 1, "--nooversubscribe");
}

#[test]
fn limits_that_are_too_low_are_named() {
    let mpiexec = tutti_tests::dist().join("bin/mpiexec");
    for (limit, part) in [("-n 150", "open descriptors"), ("-f 8", "shared segment")] {
        let line = format!("ulimit {limit}; exec {} -n 40 true", mpiexec.display());
        let ran = run(Command::new("bash").args(["-c", &line]));
        assert_eq!(ran.code(), 1, "{ran}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
        assert!(ran.stderr.contains(part), "{ran}");
    }
}

#[test]
fn limit_of_descriptors_is_raised_and_restored() {
    let mpiexec = tutti_tests::dist().join("bin/mpiexec");
    let line = format!("ulimit -Sn 100; exec {} -n 40 bash -c 'ulimit -Sn'", mpiexec.display());
    let ran = run(Command::new("bash").args(["-c", &line])).expect_success();
    assert!(ran.stdout.lines().all(|line| line == "100"), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 40);
}

#[test]
fn output_to_a_full_disk_ends_the_job_with_one_line() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mark = crate::harness::Mark::new();
    let mut command = program("mpiexec");
    command.args(["-n", "2", "sh", "-c", "echo hello; sleep 1000"]).stdout(full);
    mark.on(&mut command);
    let child = command.stderr(std::process::Stdio::piped()).spawn().expect("mpiexec");
    let ended = child.wait_with_output().expect("our child");
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");
    mark.assert_nothing_left();
}

#[test]
fn output_over_the_file_size_limit_ends_the_job_with_one_line() {
    let scratch = Scratch::new("output-limit");
    let mpiexec = tutti_tests::dist().join("bin/mpiexec");
    let line = format!("ulimit -f 4096; exec {} -n 1 head -c 8M /dev/zero >out", mpiexec.display());
    let ran = run(Command::new("bash").args(["-c", &line]).current_dir(scratch.path()));
    assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
    assert!(ran.stderr.contains("File too large"), "{ran}");
}

#[test]
fn command_line_error_is_one_line() {
    let lines: [(&str, &[&str], &str); 8] = [
        (
            "tutti",
            &["kill"],
            "tutti kill: the following required arguments were not provided: <JOB>...; usage: tutti kill <JOB>... (see --help)",
        ),
        (
            "tutti",
            &["logs", "x"],
            "tutti logs: invalid value 'x' for '<JOB>': a number is expected, or that of a task such as 12_3 (see --help)",
        ),
        (
            "tutti",
            &["nodes", "--jsom"],
            "tutti nodes: unexpected argument '--jsom' found; a similar argument exists: '--json' (see --help)",
        ),
        (
            "tutti",
            &["snapshot", "1", "--dot", "--json"],
            "tutti snapshot: the argument '--dot' cannot be used with '--json' (see --help)",
        ),
        ("tutti", &["up", "--slice", "a\n\nb\u{1b}"], "tutti up: invalid value 'a"),
        ("tutti", &["run"], "tutti run: no program is given"),
        ("tuttid", &["--slots", "0"], "tuttid: invalid value '0' for '--slots <N>': 0 is not in 1.."),
        ("tuttid", &["moon"], "tuttid: unexpected argument 'moon' found (see --help)"),
    ];
    for (name, words, expected) in lines {
        let ran = run(program(name).args(words));
        assert!(ran.stderr.starts_with(expected) && ran.stderr.lines().count() == 1, "{ran}");
        assert!((1..=2).contains(&ran.code()) && ran.stdout.is_empty(), "{ran}");
    }
}

#[test]
fn command_line_error_status_without_stderr() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let (closed, gone) = std::io::pipe().expect("a pipe");
    drop(closed);
    let lines: [(&str, &[&str]); 4] = [
        ("mpiexec", &["-n", "1", "no-such-program"]),
        ("mpiexec", &["--no-such-option"]),
        ("tutti", &["no-such-command"]),
        ("tutti", &["timeline", "1", "--logs", "/no/such/folder"]),
    ];
    for (name, words) in lines {
        let code = run(program(name).args(words)).code();
        for stderr in [std::process::Stdio::from(full()), gone.try_clone().expect("a pipe").into()] {
            let status = program(name).args(words).stderr(stderr).status().expect("it is there");
            assert_eq!(status.code(), Some(code), "{name} {words:?}");
        }
    }
}

#[test]
fn starter_missing_is_named() {
    let ran = run(program("mpiexec").args(["-n", "1", "true"]).env("TUTTI_STARTER", "/no/such/starter"));
    assert_eq!(ran.code(), 1, "{ran}");
    assert!(ran.stderr.contains("/no/such/starter"), "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
}

#[test]
fn hosts_other_than_this_one_are_refused() {
    let scratch = Scratch::new("hosts");
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    mpiexec(&["-host", &format!("localhost,127.0.0.1,{}", name.trim()), "-n", "2", "true"]).expect_success();
    refused(&["-host", "localhost,moon", "-n", "2", "true"], 1, "moon");
    let good = file(&scratch, "good", b"# comment\nlocalhost slots=4\n\n127.0.0.1:2 # more\n", 0o644);
    mpiexec(&["-hostfile", &good, "-n", "2", "true"]).expect_success();
    let bad = file(&scratch, "bad", b"localhost\nmoon slots=2\n", 0o644);
    refused(&["-f", &bad, "-n", "2", "true"], 1, "moon");
    let rubbish = file(&scratch, "rubbish", b"localhost slots=many\n", 0o644);
    refused(&["-machinefile", &rubbish, "-n", "2", "true"], 1, "line 1");
    refused(&["-hostfile", "/no/such/file", "-n", "2", "true"], 1, "/no/such/file");
}
