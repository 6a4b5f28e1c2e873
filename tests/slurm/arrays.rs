//! Arrays: elements with numbers, limits, lists and cancellation.

use crate::Slurm;
use crate::harness::await_that;

#[test]
fn array_runs_its_elements_a_few_at_once() {
    let slurm = Slurm::up("slurm-array", 2, &["--slots", "2"]);
    // An element waits until its successor's file is there: so the limit is seen without a clock.
    slurm.write(
        "job.sh",
        "#!/bin/sh\necho $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT $SLURM_ARRAY_TASK_MAX\n\
         while [ ! -e go ]; do sleep 0.05; done\nexit $SLURM_ARRAY_TASK_ID\n",
    );
    let job = slurm.submit("--array=0-4%2 job.sh");
    // The array has a number of its own, its elements have those behind it.
    let second = job + 2;
    await_that("two elements run", || {
        slurm.ok("squeue -h -o '%i %t'") == format!("{job}_[2-4%2] PD\n{job}_0 R\n{job}_1 R\n")
    });
    let waiting = [2, 3, 4].map(|task| format!("{job}_{task} JobArrayTaskLimit\n")).concat();
    assert_eq!(slurm.ok("squeue -h -r -t PD -o '%i %r'"), waiting);
    let rows = slurm.ok(&format!("sacct -X -nP -j {job} -o JobID,JobIDRaw,NodeList,State"));
    let last = format!("{job}_[2-4%2]|{job}|None assigned|PENDING");
    assert_eq!(rows.lines().last(), Some(last.as_str()));
    let shown = slurm.ok(&format!("scontrol -o show job {job}_1"));
    let expected = format!("JobId={second} ArrayJobId={job} ArrayTaskId=1 ArrayTaskThrottle=2 ");
    assert!(shown.starts_with(&expected), "{shown}");
    slurm.ok(&format!("scancel {job}_[3-4]"));
    slurm.write("go", "");
    await_that("all are over", || slurm.ok("squeue -h").is_empty());
    let rows = slurm.ok(&format!("sacct -X -nP -j {job} -o JobID,ExitCode,State"));
    let lines: Vec<&str> = rows.lines().collect();
    let ended = ["0|0:0|COMPLETED", "1|1:0|FAILED", "2|2:0|FAILED"].map(|row| format!("{job}_{row}"));
    assert_eq!(lines[..3], ended);
    assert!(lines[3].starts_with(&format!("{job}_3|0:0|CANCELLED by ")) && lines.len() == 5, "{rows}");
    for task in 0..3 {
        assert_eq!(slurm.read(&format!("slurm-{job}_{task}.out")), format!("{job} {task} 5 4\n"));
    }
    let shown = slurm.ok(&format!("squeue -h -t all -j {job}_1 -o '%F %K %A'"));
    assert_eq!(shown, format!("{job} 1 {second}\n"));
    // The last element keeps the array's number, by which tools ask for the whole.
    let raw = slurm.ok(&format!("sacct -X -nP -j {job} -o JobIDRaw"));
    assert_eq!(raw, format!("{}\n{second}\n{}\n{}\n{job}\n", job + 1, job + 3, job + 4));
}

/// Ten of the largest arrays of one user, and no more than that user may have.
#[test]
fn arrays_of_a_user_have_room_up_to_a_number_that_is_said() {
    let slurm = Slurm::up("slurm-array-room", 1, &["--slots", "2"]);
    let long = format!("LONG={}", "x".repeat(20_000));
    for _ in 0..10 {
        slurm.ok(&format!("{long} sbatch --hold --array=1-1000 -o none --wrap=true"));
    }
    let mut ran = slurm.run("sbatch --hold --array=1-1000 -o none --wrap=true");
    assert_eq!(ran.code(), 0, "{ran}");
    ran = slurm.run("sbatch --hold --array=1-1000 -o none --wrap=true");
    let expected = "sbatch: error: Batch job submission failed: you have 11011 jobs that are not over, and may have \
                    12000: wait until some are over\n";
    assert_eq!((ran.code(), &*ran.stderr), (1, expected));
    slurm.ok("scancel --me");
}

#[test]
fn array_as_a_whole_is_waited_for_and_cancelled() {
    let slurm = Slurm::up("slurm-array-whole", 1, &["--slots", "2"]);
    assert_eq!(
        slurm.run("sbatch --wait --array=1,3 -o 'a %A %a' --wrap='exit $SLURM_ARRAY_TASK_ID'").code(),
        3
    );
    assert_eq!(slurm.read("a 1 3"), "");
    let array = slurm.submit("--array=0-2 --wrap='exec sleep 1000'").to_string();
    let after = slurm.submit(&format!("-d afterany:{array} --wrap=true")).to_string();
    await_that("all elements run", || slurm.ok(&format!("squeue -h -j {array} -t R")).lines().count() == 3);
    assert_eq!(slurm.state(&after), "PENDING");
    slurm.ok(&format!("scancel {array}"));
    slurm.await_state(&after, "COMPLETED");
    assert!(slurm.ok("squeue -h").is_empty());
}

/// A file that an element has alone begins empty; one that they share loses nothing of the others.
#[test]
fn files_of_elements_begin_empty_unless_they_are_shared() {
    let slurm = Slurm::up("slurm-array-files", 1, &["--slots", "2"]);
    for name in ["own 1", "own 2"] {
        slurm.write(name, "what was there before, and longer\n");
    }
    slurm.ok("sbatch --wait --array=1-2 -o 'own %a' --wrap='echo $SLURM_ARRAY_TASK_ID'");
    assert_eq!(["own 1", "own 2"].map(|name| slurm.read(name)), ["1\n", "2\n"]);
    slurm.ok("sbatch --wait --array=1-2 -o shared --wrap='echo line'");
    assert_eq!(slurm.read("shared"), "line\nline\n");
    slurm.ok("sbatch --wait --array=1 --open-mode=append -o 'own %a' --wrap='echo more'");
    assert_eq!(slurm.read("own 1"), "1\nmore\n");
}
