//! Signals that the caller of `mpiexec` ignores and blocks: they are inherited, and hinder no job.

use std::process::Command;

use tutti_testkit::{Need, skip};
use tutti_tests::program;

use crate::harness::run;

/// `env` with these options in front of a program of ours; none where it does not know them.
fn env(options: &[&str], name: &str) -> Option<Command> {
    let known = Command::new("env").args(options).arg("true").output();
    if !known.is_ok_and(|asked| asked.status.success()) {
        skip(Need::Setup, format!("env {} is not understood", options.join(" ")));
        return None;
    }
    let path = program(name).get_program().to_owned();
    let mut command = Command::new("env");
    command.env("TUTTI_DAEMON", "none").args(options).arg(path);
    Some(command)
}

#[test]
fn ignored_and_blocked_signals_of_the_caller_hinder_no_job() {
    let all = ["--ignore-signal=CHLD"];
    for options in [&all[..], &["--block-signal"], &["--block-signal", "--ignore-signal=CHLD"]] {
        for arguments in [&["-n", "2"][..], &["-n", "2", "--virtual-nodes", "2"]] {
            let Some(mut mpiexec) = env(options, "mpiexec") else { return };
            let ran = run(mpiexec.args(arguments).args(["sh", "-c", "exit 3"]));
            assert_eq!(ran.code(), 3, "{options:?}, {arguments:?}: {ran}");
        }
    }
    // A rank gets the deaths of its children, and may be ended.
    let Some(mut mpiexec) = env(&["--block-signal", "--ignore-signal=CHLD"], "mpiexec") else { return };
    let ran = run(mpiexec.args(["-n", "1", "sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status"]));
    let blocked = ran.stdout.lines().find(|line| line.starts_with("SigBlk")).unwrap_or_default();
    assert!(blocked.ends_with("0000000000000000"), "{ran}");
    let ignored = ran.stdout.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    let ignored = u64::from_str_radix(ignored.trim(), 16).expect("a number");
    assert_eq!(ignored >> (libc_child() - 1) & 1, 0, "{ran}");
}

/// Number of the signal for the death of a child.
fn libc_child() -> i32 {
    rustix::process::Signal::CHILD.as_raw()
}
