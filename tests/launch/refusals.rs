//! Bad input: one clear line, a status that is not 0, nothing left behind.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tutti_testkit::{Need, skip};
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

/// A program of which the loader wants libraries with these names.
#[track_caller]
fn linked(scratch: &Scratch, sonames: &[&str]) -> String {
    let source = file(scratch, "library.c", b"int MPI_Init(void) { return 0; }\n", 0o644);
    let user = b"int MPI_Init(void); int main(int count, char **words) { return count > 9 && words ? MPI_Init() : 0; }\n";
    let user = file(scratch, "user.c", user, 0o644);
    let path = |name: &str| scratch.path().join(name).to_str().expect("UTF-8").to_owned();
    let cc = |arguments: &[&str]| {
        tutti_tests::run(Command::new("cc").args(arguments), crate::harness::LIMIT).expect_success();
    };
    let made = path(&format!("user-of-{}", sonames.join("-")));
    let libraries: Vec<String> = sonames.iter().map(|soname| path(soname)).collect();
    for (soname, library) in sonames.iter().zip(&libraries) {
        cc(&["-shared", "-fPIC", "-o", library, &source, &format!("-Wl,-soname,{soname}")]);
    }
    let libraries: Vec<&str> = libraries.iter().map(String::as_str).collect();
    cc(&[&["-Wl,--no-as-needed", "-o", &made, &user][..], &libraries].concat());
    made
}

/// Functions of both have the same names: which one a call meets is chance.
#[test]
fn program_of_two_mpis_is_refused() {
    let scratch = Scratch::new("two-mpis");
    let made = linked(&scratch, &["libmpi.so.12", "libmpi.so.40"]);
    let expected = format!("{made} is linked with two MPIs (libmpi.so.12 and libmpi.so.40), whose functions");
    refused(&["-n", "2", &made], 1, &expected);
}

/// The loader passes over the variables by which such a program would get our library.
#[test]
fn program_that_gets_rights_of_its_owner_is_refused_unless_it_has_its_own_library() {
    if !rustix::process::geteuid().is_root() {
        return skip(Need::Root, "only root can make a program of another user's");
    }
    let scratch = Scratch::new("setuid");
    let flags = rustix::fs::statvfs(scratch.path()).expect("the scratch folder").f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::NOSUID) {
        return skip(Need::Setup, "the folder of temporary files is mounted nosuid");
    }
    let made = linked(&scratch, &["libmpi.so.12"]);
    for (mode, why) in [(0o4755, "setuid"), (0o2755, "setgid")] {
        std::os::unix::fs::chown(&made, Some(1), Some(1)).expect("root may");
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(mode)).expect("its mode");
        let expected = format!("{made} gets the rights of its owner when it starts ({why}): the loader");
        refused(&["-n", "2", &made], 1, &expected);
    }
    let ran = mpiexec(&["--own-mpi", "-n", "1", &made]);
    assert!(!ran.stderr.contains("rights of its owner"), "{ran}");
    // Bits of a file of one's own change nothing.
    std::os::unix::fs::chown(&made, Some(0), Some(0)).expect("root may");
    std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o6755)).expect("its mode");
    mpiexec(&["-n", "1", &made]).expect_success();
}

#[test]
fn program_for_another_processor_is_refused() {
    let scratch = Scratch::new("other-processor");
    let mut bytes = std::fs::read("/bin/true").expect("a program");
    // Its header names a processor that nobody has.
    bytes[18..20].copy_from_slice(&0x00fe_u16.to_le_bytes());
    let made = file(&scratch, "other", &bytes, 0o755);
    refused(&["-n", "2", &made], 126, "not a program for this machine");
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
        let made = linked(&scratch, &[soname]);
        let expected =
            format!("{made} was built for {mpi} (needs {soname}{needs}); recompile it with mpicc of Tutti");
        refused(&["-n", "2", &made], 1, &expected);
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
