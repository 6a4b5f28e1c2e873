//! A rank that dies takes the job down with one line; nothing stays behind.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{LIMIT, RANK, Running, await_that, cgroup_of, mpiexec, run};

/// The lines of mpiexec itself.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("mpiexec: ")).collect()
}

#[track_caller]
fn assert_one_line(stderr: &str, parts: &[&str]) {
    let lines = said(stderr);
    assert_eq!(lines.len(), 1, "{stderr}");
    for part in parts {
        assert!(lines[0].contains(part), "{part:?} is not in {stderr}");
    }
}

#[test]
fn a_good_job_ends_with_0_and_says_nothing() {
    let ran = mpiexec(&["-n", "3", RANK, "attach", "finalize"]).expect_success();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn a_rank_killed_by_a_signal_ends_the_job() {
    let ran = mpiexec(&["-n", "4", RANK, "attach", "2:signal=11", "hang"]);
    assert_eq!(ran.code(), 128 + 11, "{ran}");
    assert_one_line(&ran.stderr, &["rank 2 (pid ", ") was killed by signal 11 (Segmentation fault"]);
}

#[test]
fn a_rank_that_exits_with_a_status_ends_the_job() {
    let ran = mpiexec(&["-n", "3", RANK, "attach", "1:exit=3", "hang"]);
    assert_eq!(ran.code(), 3, "{ran}");
    assert_one_line(&ran.stderr, &["rank 1 (pid ", ") exited with status 3"]);
}

#[test]
fn a_program_without_mpi_that_fails_ends_the_job_too() {
    let ran = mpiexec(&["-n", "2", "sh", "-c", "[ $TUTTI_RANK = 0 ] && exit 7; sleep 1000"]);
    assert_eq!(ran.code(), 7, "{ran}");
    assert_one_line(&ran.stderr, &["rank 0", "exited with status 7"]);
}

#[test]
fn exit_without_finalize_is_named() {
    let ran = mpiexec(&["-n", "2", RANK, "attach", "0:exit=0", "hang"]);
    assert_eq!(ran.code(), 1, "{ran}");
    assert_one_line(&ran.stderr, &["rank 0", "exited without calling MPI_Finalize"]);
}

#[test]
fn abort_ends_the_job_with_its_code_and_loses_no_output() {
    let ran = mpiexec(&["-n", "2", RANK, "attach", "1:say=last words", "1:abort=77", "hang"]);
    assert_eq!(ran.code(), 77, "{ran}");
    assert_eq!(ran.stdout, "last words\n");
    assert_one_line(&ran.stderr, &["rank 1", "called MPI_Abort(77)"]);
}

#[test]
fn a_status_after_finalize_is_kept_and_the_others_go_on() {
    let ran = mpiexec(&[
        "-n",
        "2",
        "sh",
        "-c",
        &format!(
            "if [ $TUTTI_RANK = 0 ]; then exec {RANK} attach finalize touch=/proc/self/fd/2 exit=5; fi; {RANK} attach finalize; sleep 0.3; echo done"
        ),
    ]);
    assert_eq!(ran.code(), 5, "{ran}");
    assert_eq!(ran.stdout, "done\n", "{ran}");
    assert_one_line(&ran.stderr, &["rank 0", "exited with status 5"]);
}

#[test]
fn a_crash_below_a_wrapper_ends_the_job() {
    // The wrapper hides the crash and would wait for ever.
    let ran = mpiexec(&["-n", "2", "sh", "-c", &format!("{RANK} attach 0:signal=9 hang; sleep 1000")]);
    assert_eq!(ran.code(), 1, "{ran}");
    assert_one_line(&ran.stderr, &["rank 0", "lost its MPI process"]);
}

#[test]
fn what_ranks_leave_behind_is_ended() {
    for words in
        [&["stray", "fork"][..], &["attach", "stray", "fork", "finalize"], &["fork", "0:exit=3", "hang"]]
    {
        mpiexec(&[&["-n", "2", RANK], words].concat());
    }
}

#[test]
fn what_ranks_leave_behind_is_ended_without_a_cgroup_too() {
    // In a mount namespace where the cgroup file systems cannot be written; ordinary users are always in that place.
    if cgroups_hidden().is_none() {
        eprintln!("skipped: no user namespaces here");
        return;
    }
    for words in ["stray fork", "attach stray fork finalize", "fork stray 0:exit=3 hang"] {
        let mpiexec = tutti_tests::dist().join("bin/mpiexec");
        let line = format!("{} -n 2 {RANK} {words}", mpiexec.display());
        let mut command = cgroups_hidden().expect("just seen");
        run(command.args(["sh", "-c", &line]));
    }
}

/// A command that runs its arguments where no cgroup can be made.
fn cgroups_hidden() -> Option<std::process::Command> {
    let hide = "for d in /sys/fs/cgroup /sys/fs/cgroup/unified; do \
                mountpoint -q $d && mount -o remount,bind,ro $d 2>/dev/null; done; \
                ! mkdir /sys/fs/cgroup/unified/tutti-probe 2>/dev/null && ! mkdir /sys/fs/cgroup/tutti-probe 2>/dev/null \
                && exec \"$@\"";
    let with = |program: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide, "hide"]).args(program);
        command
    };
    let works =
        with(&["true"]).stderr(std::process::Stdio::null()).status().is_ok_and(|status| status.success());
    works.then(|| with(&[]))
}

#[test]
fn the_death_of_mpiexec_ends_the_job() {
    let mut job = Running::start(&["-n", "2", RANK, "attach", "stray", "fork", "1:say=here", "hang"]);
    job.await_line("here");
    let cgroup = cgroup_of(rank_of(&job));
    job.signal(Signal::KILL);
    job.child.wait().expect("our child");
    job.mark.assert_nothing_left();
    if let Some(cgroup) = cgroup {
        await_that("the cgroup is removed", || !cgroup.exists());
    }
}

#[test]
fn the_death_of_the_starter_ends_the_job() {
    let mut job = Running::start(&["-n", "2", RANK, "attach", "stray", "fork", "1:say=here", "hang"]);
    job.await_line("here");
    let cgroup = cgroup_of(rank_of(&job));
    kill_process(starter_of(&job), Signal::KILL).expect("the starter runs");
    let (status, stderr) = job.end();
    assert_eq!(status, 1, "{stderr}");
    assert_one_line(&stderr, &["starter has died"]);
    if let Some(cgroup) = cgroup {
        await_that("the cgroup is removed", || !cgroup.exists());
    }
}

fn named(job: &Running, name: &str) -> Vec<Pid> {
    let is_named = |pid: &Pid| {
        std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
            .is_ok_and(|comm| comm.trim_end() == name)
    };
    job.mark.processes().into_iter().filter(is_named).collect()
}

fn starter_of(job: &Running) -> Pid {
    named(job, "tutti-starter")[0]
}

pub fn rank_of(job: &Running) -> Pid {
    named(job, "test-rank")[0]
}

#[test]
fn the_socket_and_the_cgroup_of_a_job_are_gone_with_it() {
    let words = ["-n", "2", "sh", "-c", "echo $TUTTI_JOB; [ $1 = 0 ] || exit $1; exit 0", "sh"];
    for status in ["0", "4"] {
        let ran = mpiexec(&[&words[..], &[status]].concat());
        let job = ran.stdout.lines().next().expect("a line").to_owned();
        let sockets = std::fs::read_to_string("/proc/net/unix").expect("/proc/net/unix");
        assert!(!sockets.contains(&format!("tutti-{job}")), "the socket is left");
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            assert!(
                !std::path::Path::new(root).join(format!("tutti-job-{job}")).exists(),
                "the cgroup is left"
            );
        }
    }
}

#[test]
fn a_rank_inherits_no_descriptor_of_the_launcher() {
    let ran = mpiexec(&["-n", "2", "sh", "-c", "ls /proc/self/fd | wc -l"]).expect_success();
    let plain = tutti_tests::run(
        std::process::Command::new("sh").args(["-c", "ls /proc/self/fd | wc -l"]),
        Duration::from_secs(10),
    );
    let expected = plain.stdout.trim();
    assert!(ran.stdout.lines().all(|line| line.trim() == expected), "{ran}, without mpiexec: {expected}");
}

#[test]
fn a_timeout_ends_the_job_with_124() {
    let ran = mpiexec(&["--timeout", "0.3", "-n", "2", RANK, "attach", "fork", "hang"]);
    assert_eq!(ran.code(), 124, "{ran}");
    assert_one_line(&ran.stderr, &["did not finish within 0.3 seconds"]);
    assert!(ran.took < LIMIT);
}
