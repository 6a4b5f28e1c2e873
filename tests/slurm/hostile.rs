//! Scripts that would go on for ever, or ask for more than there is: each finds a bound that is said.

use std::os::unix::process::CommandExt;

use tutti_testkit::{Need, skip};
use tutti_tests::LIMIT;

use crate::Slurm;
use crate::harness::await_that;

/// Restarts of a job, at most.
const RESTARTS_MAX: usize = 100;

/// A job that requeues itself whenever it runs ends when it has done so often enough.
#[test]
fn job_that_requeues_itself_ends_after_a_number_of_restarts() {
    let slurm = Slurm::up("slurm-requeue-for-ever", 1, &["--slots", "2"]);
    slurm.write(
        "job.sh",
        "#!/bin/sh\necho >>runs\nscontrol requeue $SLURM_JOB_ID 2>>refused || exit 3\nexec sleep 1000\n",
    );
    let job = slurm.submit("--requeue job.sh").to_string();
    let runs =
        || std::fs::read_to_string(slurm.cluster.folder.join("runs")).unwrap_or_default().lines().count();
    for count in (10..=RESTARTS_MAX).step_by(10) {
        await_that(&format!("it has run {count} times"), || runs() >= count);
        slurm.ok("squeue -h");
    }
    slurm.await_state(&job, "FAILED");
    assert_eq!(runs(), RESTARTS_MAX + 1);
    let refused = slurm.read("refused");
    assert!(refused.contains(" has been requeued 100 times, which are as many as may be"), "{refused}");
    let rows = slurm.ok(&format!("sacct -X -nP -j {job} -o JobID,State,ExitCode"));
    assert_eq!(rows, format!("{job}|FAILED|3:0\n"));
}

/// A script that submits itself for ever is refused when its user has as many jobs as may be.
#[test]
fn script_that_submits_itself_finds_a_limit_that_is_said() {
    let slurm = Slurm::up("slurm-self", 1, &["--slots", "2"]);
    slurm.write(
        "job.sh",
        "#!/bin/sh\nwhile sbatch --hold --array=1-1000 -o none job.sh >>answers 2>>refused; do :; done\n",
    );
    let job = slurm.submit("-o none job.sh").to_string();
    let lines = |name: &str| {
        std::fs::read_to_string(slurm.cluster.folder.join(name)).unwrap_or_default().lines().count()
    };
    for count in 1..=11 {
        await_that(&format!("it has submitted {count} times"), || lines("answers") >= count);
    }
    slurm.await_state(&job, "COMPLETED");
    assert_eq!(lines("answers"), 11);
    let refused = slurm.read("refused");
    let expected = "sbatch: error: Batch job submission failed: you have 11012 jobs that are not over, and may \
                    have 12000: wait until some are over\n";
    assert_eq!(refused, expected);
    assert_eq!(slurm.ok("squeue -h -r -t PD -o %i").lines().count(), 11_000);
    slurm.ok("scancel --me");
    await_that("none is left", || slurm.ok("squeue -h").is_empty());
}

#[test]
fn sizes_that_no_script_has_are_refused() {
    let slurm = Slurm::up("slurm-sizes", 1, &["--slots", "2"]);
    slurm.write("long.sh", &format!("#!/bin/sh\n#SBATCH {}\ntrue\n", "-n1 ".repeat(1 << 18)));
    slurm.write("wide.sh", &format!("#!/bin/sh\n#SBATCH {}\ntrue\n", "-n1 ".repeat(1 << 17)));
    for (line, error) in [
        ("sbatch long.sh", "sbatch: error: Batch script is larger than 1 MiB: Job script too large\n"),
        ("sbatch wide.sh", "sbatch: error: script line 2: 524289 bytes of options, 65536 at most\n"),
        (
            "sbatch --array=1-1000000 --wrap=true",
            "sbatch: error: Batch job submission failed: Invalid job array specification\n",
        ),
        ("tutti submit --array 1-1000000 true", "tutti submit: "),
    ] {
        let ran = slurm.run(line);
        let is_refused =
            [1, 2].contains(&ran.code()) && ran.stderr.lines().count() == 1 && ran.stdout.is_empty();
        assert!(is_refused && ran.stderr.starts_with(error), "{line}: {ran}");
    }
    assert_eq!(slurm.ok("squeue -h -t all"), "");
}

/// A user's commands end, stop and change nothing of another user, by whatever name: radical.saga and others
/// look for Slurm's words.
#[test]
fn job_of_another_user_is_left_alone_and_slurms_words_say_so() {
    let slurm = Slurm::up("slurm-another-user", 1, &["--slots", "2"]);
    if !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root can be another user");
        return;
    }
    let job = slurm.submit("-o /dev/null --wrap='sleep 1000'").to_string();
    let held = slurm.submit("-H -o /dev/null --wrap='sleep 1000'").to_string();
    let array = slurm.submit("-H --array=1-3 -o /dev/null --wrap='sleep 1000'").to_string();
    slurm.await_state(&job, "RUNNING");
    let states = || slurm.ok("squeue -h -o '%i %t'");
    let before = states();
    let as_other = |line: &str| tutti_tests::run(slurm.command(line).uid(54321).gid(54321), LIMIT);
    let not_killed =
        |job: &str| format!("scancel: error: Kill job error on job id {job}: Access/permission denied\n");
    for (line, error) in [
        (format!("scancel {job}"), not_killed(&job)),
        (format!("scancel {held} {array}"), not_killed(&held) + &not_killed(&array)),
        (format!("scancel {array}_2"), not_killed(&format!("{array}_2"))),
        (format!("scancel -f -s USR1 {job}"), not_killed(&job)),
        (format!("scontrol suspend {job}"), format!("Access/permission denied for job {job}\n")),
        (format!("scontrol release {held}"), format!("Access/permission denied for job {held}\n")),
        (format!("scontrol requeue {job}"), format!("Access/permission denied for job {job}\n")),
    ] {
        let ran = as_other(&line);
        let status = if line.starts_with("scancel") { 210 } else { 1 };
        assert_eq!((ran.code(), ran.stderr.as_str()), (status, error.as_str()), "{line}");
    }
    let ran = as_other(&format!("scontrol update JobId={job} TimeLimit=1"));
    assert!(ran.code() == 1 && ran.stderr.contains("Access/permission denied"), "{ran}");
    as_other("scancel --me").expect_success();
    assert_eq!(states(), before);
}
