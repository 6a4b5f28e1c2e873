//! Jobs: submitted in each way, waited for, cancelled; their environment and their steps.

use crate::Slurm;
use crate::harness::await_that;

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn job_has_slurms_environment_and_its_steps_have_their_tasks() {
    let slurm = Slurm::up("slurm-steps", 3, &["--slots", "2"]);
    slurm.write(
        "job.sh",
        "#!/bin/bash\n#SBATCH -J \"mesh x\" -N 2 -n 4 -w node0,node1\n#SBATCH --output='out %j'\n\
         echo $1 $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_JOB_NODELIST $SLURM_NNODES $SLURM_TASKS_PER_NODE $ENVIRONMENT\n\
         echo ${SLURM_CPUS_PER_TASK-none} ${SLURM_ARRAY_TASK_ID-none} $SLURM_SUBMIT_DIR\n\
         srun sh -c 'echo task $SLURM_PROCID of $SLURM_NTASKS on $SLURM_NODEID' | sort\n\
         srun -n 2 --output=task_%j_%t sh -c 'echo $SLURM_PROCID'\n\
         srun -n1 sh -c 'exit 3' 2>/dev/null; echo status $?\n\
         echo typed | srun -n 2 cat\n\
         mpiexec -n 2 sh -c 'echo rank' 2>&1\n\
         exit 4\n",
    );
    let ran = slurm.run("sbatch job.sh argument");
    let job = Slurm::number_in(&ran.stdout);
    assert_eq!(ran.stderr, "");
    let folder = slurm.cluster.folder.display().to_string();
    slurm.await_state(&job.to_string(), "FAILED");
    let expected = format!(
        "argument {job} mesh x node[0-1] 2 2(x2) BATCH\nnone none {folder}\ntask 0 of 4 on 0\ntask 1 of 4 on 0\n\
         task 2 of 4 on 1\ntask 3 of 4 on 1\nstatus 3\ntyped\nrank\nrank\n"
    );
    assert_eq!(slurm.read(&format!("out {job}")), expected);
    assert_eq!([0, 1].map(|task| slurm.read(&format!("task_{job}_{task}"))), ["0\n", "1\n"]);
    let rows = slurm.ok(&format!("sacct -nP -j {job} -o JobID,State,ExitCode,NodeList"));
    let expected = format!(
        "{job}|FAILED|4:0|node[0-1]\n{job}.batch|FAILED|4:0|node0\n{job}.0|COMPLETED|0:0|node[0-1]\n\
         {job}.1|COMPLETED|0:0|node[0-1]\n{job}.2|FAILED|3:0|node0\n{job}.3|COMPLETED|0:0|node[0-1]\n"
    );
    assert!(rows.starts_with(&expected), "{rows}");
}

#[test]
fn interactive_jobs_avoid_nodes_and_wait_for_others_as_batch_jobs_do() {
    let slurm = Slurm::up("slurm-interactive-terms", 3, &["--slots", "2"]);
    let nodes = "sh -c 'echo $SLURM_JOB_NODELIST'";
    assert_eq!(slurm.ok(&format!("srun -x node0,node2 -n 1 {nodes}")), "node1\n");
    assert_eq!(slurm.ok(&format!("salloc -Q -x node0 -d singleton -N 2 {nodes}")), "node[1-2]\n");
    let first = slurm.submit("--wrap='sleep 1; echo one >first'");
    assert_eq!(slurm.ok(&format!("srun -d afterok:{first} --begin=now -n 1 cat first")), "one\n");
    // Seconds to the end of the other tasks: 0 is for ever.
    assert_eq!(slurm.ok("srun -W 0 -n 1 echo word"), "word\n");
    let ran = slurm.run("srun --wait=60 --kill-on-bad-exit=1 -n 1 echo word").expect_success();
    assert_eq!(ran.stdout, "word\n");
    assert!(ran.stderr.contains("--wait without effect on a cluster of Tutti"), "{ran}");
    // Its folder is entered once.
    slurm.ok("mkdir sub");
    assert!(slurm.ok("srun -D sub -n 1 pwd").ends_with("/sub\n"));
    let refused = slurm.run("salloc -Q -N 2 -w node0,node1 srun -x node1 -n 1 true");
    let expected = "--exclude: node1 is a node of this job; --nodelist names the others";
    assert!(!refused.status.success() && refused.stderr.contains(expected), "{refused}");
}

/// Variables that JAX and others read in a step.
#[test]
fn step_has_its_nodes_and_name_in_its_environment() {
    let slurm = Slurm::up("slurm-step-nodes", 3, &["--slots", "2"]);
    let echo = "echo $SLURM_STEP_NODELIST $SLURM_STEP_NUM_NODES $SLURM_STEP_TASKS_PER_NODE $SLURM_JOB_NAME";
    slurm.write(
        "job.sh",
        &format!(
            "#!/bin/sh\nsrun -n 3 -J mesh sh -c '{echo}' | sort -u\nsrun -N 1 -n 1 sh -c '{echo}'\n\
             srun -w node0 -n 2 sh -c '{echo} $SLURM_GTIDS' | sort -u\n"
        ),
    );
    slurm.ok("sbatch --wait -J job -N 2 -n 3 -w node0,node1 -o steps job.sh");
    assert_eq!(slurm.read("steps"), "node[0-1] 2 2,1 mesh\nnode0 1 1 job\nnode0 1 2 job 0,1\n");
}

/// Labels as wide as the highest task: DIRAC and others split such lines at the colon.
#[test]
fn lines_of_labelled_steps_begin_as_slurms_do() {
    let slurm = Slurm::up("slurm-labels", 1, &["--slots", "11"]);
    for (tasks, width) in [(2, 1), (11, 2)] {
        let expected: String = (0..tasks).map(|task| format!("{task:width$}: a: b\n")).collect();
        assert_eq!(slurm.ok(&format!("srun -n {tasks} -l echo 'a: b' | sort -n")), expected);
    }
}

#[test]
fn scripts_come_from_files_stdin_and_the_command_line() {
    let slurm = Slurm::up("slurm-sources", 1, &["--slots", "2"]);
    // The file may go as soon as the answer is there.
    slurm.write("once.sh", "#!/bin/sh\necho from a file\n");
    let job = Slurm::number_in(&slurm.ok("sbatch --wait once.sh && rm once.sh"));
    assert_eq!(slurm.read(&format!("slurm-{job}.out")), "from a file\n");
    let job = Slurm::number_in(
        &slurm.ok("printf '#!/bin/sh\\n#SBATCH -o stdin.%%j\\necho from stdin\\n' | sbatch --wait"),
    );
    assert_eq!(slurm.read(&format!("stdin.{job}")), "from stdin\n");
    slurm.ok("printf '#!/bin/sh\\necho by name\\n' | sbatch --wait -o named /dev/stdin");
    assert_eq!(slurm.read("named"), "by name\n");
    slurm.ok("sbatch --wait -o wrapped --wrap='echo \"wrapped  text\"'");
    assert_eq!(slurm.read("wrapped"), "wrapped  text\n");
    // Larger than what the kernel takes as one argument.
    slurm.write("large.sh", &format!("#!/bin/sh\n#{}\necho large $#\n", "x".repeat(300_000)));
    slurm.ok("sbatch --wait -o large large.sh a 'b c'");
    assert_eq!(slurm.read("large"), "large 2\n");
    // The interpreter is the script's.
    slurm.write("awk.sh", "#!/usr/bin/awk -f\nBEGIN { print \"awk\"; exit 7 }\n");
    assert_eq!(slurm.run("sbatch --wait -o awk awk.sh").code(), 7);
    assert_eq!(slurm.read("awk"), "awk\n");
    assert_eq!(slurm.run("sbatch --wait --wrap='kill -9 $$'").code(), 1, "death by a signal is 1");
    let words = "--export=NONE -o none --wait --wrap='echo ${MARK-none} ${SLURM_JOB_ID-none}'";
    let job = Slurm::number_in(&slurm.ok(&format!("MARK=1 sbatch {words}")));
    assert_eq!(slurm.read("none"), format!("none {job}\n"));
    slurm.ok("MARK=1 sbatch --export=ALL,OTHER=2 -o all --wait --wrap='echo $MARK $OTHER'");
    assert_eq!(slurm.read("all"), "1 2\n");
}

#[test]
fn cancelled_job_is_cancelled_and_ended_ones_are_ignored() {
    let slurm = Slurm::up("slurm-cancel", 2, &["--slots", "2"]);
    let job = slurm.submit("-N 2 --wrap='srun sleep 1000'").to_string();
    await_that("its step runs", || {
        slurm.ok(&format!("sacct -nP -j {job} -o JobID,State")).contains(".0|RUNNING")
    });
    let ran = slurm.run(&format!("scancel -v {job}"));
    assert_eq!((ran.code(), ran.stderr), (0, format!("scancel: Terminating job {job}\n")));
    slurm.await_state(&job, "CANCELLED");
    let state = slurm.ok(&format!("sacct -X -nP -j {job} -o State"));
    assert!(state.starts_with("CANCELLED by "), "{state}");
    let ran = slurm.run(&format!("scancel {job}; scancel 999999; scancel --me"));
    assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""));
    let ran = slurm.run("scancel");
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, "scancel: error: No job identification provided\n"));
    // A signal is for the steps: the script sees how its step ended.
    let job = slurm.submit("-o signal --wrap='srun sleep 1000; echo status $?'").to_string();
    await_that("its step runs", || {
        slurm.ok(&format!("sacct -nP -j {job} -o JobID,State")).contains(".0|RUNNING")
    });
    slurm.ok(&format!("scancel --signal=USR1 {job}"));
    slurm.await_state(&job, "COMPLETED");
    let text = slurm.read("signal");
    assert!(text.ends_with("status 138\n"), "{text}");
}

/// `scancel -b`: the script's shell alone has the signal, neither its step nor what it has started.
#[test]
fn signal_for_the_batch_script_is_for_nothing_else() {
    let slurm = Slurm::up("slurm-batch-signal", 1, &["--slots", "2"]);
    let trap =
        "trap 'echo heard; : >told' USR1; sh -c 'while [ ! -e end ]; do sleep 0.1; done; echo child $?' &";
    let step = "srun sh -c 'while [ ! -e end ]; do sleep 0.1; done; echo step' & : >ready; wait; wait; wait";
    slurm.write("job.sh", &format!("#!/bin/sh\n{trap}\n{step}\n"));
    let job = slurm.submit("-o signal job.sh").to_string();
    await_that("its step runs, and the script listens", || {
        let steps = slurm.ok(&format!("sacct -nP -j {job} -o JobID,State"));
        steps.contains(".0|RUNNING") && slurm.cluster.folder.join("ready").exists()
    });
    slurm.ok(&format!("scancel -b -s USR1 {job}"));
    await_that("the script has heard it", || slurm.cluster.folder.join("told").exists());
    slurm.write("end", "");
    slurm.await_state(&job, "COMPLETED");
    let text = slurm.read("signal");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["child 0", "heard", "step"]);
}

#[test]
fn job_that_waits_for_its_turn_runs_and_one_that_a_user_stopped_is_suspended() {
    let slurm = Slurm::up("slurm-turns", 1, &["--slots", "1"]);
    let jobs: Vec<String> =
        (0..3).map(|_| slurm.submit("--wrap='while :; do :; done'").to_string()).collect();
    for job in &jobs {
        slurm.await_state(job, "RUNNING");
    }
    // One slot for all of them: two wait for their turn at any moment.
    let states = slurm.ok("squeue -h -o '%i %t'");
    let expected: Vec<String> = jobs.iter().map(|job| format!("{job} R")).collect();
    assert_eq!(sorted(&states), expected);
    slurm.ok(&format!("scontrol suspend {}", jobs[1]));
    slurm.await_state(&jobs[1], "SUSPENDED");
    slurm.ok(&format!("scontrol resume {}", jobs[1]));
    slurm.await_state(&jobs[1], "RUNNING");
    slurm.ok("scancel -u $(id -un)");
    for job in &jobs {
        slurm.await_state(job, "CANCELLED");
    }
}

/// A job that requeues itself, as checkpointing tools do: the same number, one more restart, the file anew.
#[test]
fn requeued_job_keeps_its_number_and_counts_its_restarts() {
    let slurm = Slurm::up("slurm-requeue", 1, &["--slots", "2"]);
    slurm.write(
        "job.sh",
        "#!/bin/sh\necho $SLURM_JOB_ID ${SLURM_RESTART_COUNT:-none}\n\
         [ -n \"$SLURM_RESTART_COUNT\" ] || { scontrol requeue $SLURM_JOB_ID; exec sleep 1000; }\n\
         while [ ! -e go ]; do sleep 0.05; done\nexit 5\n",
    );
    let job = slurm.submit("--requeue job.sh").to_string();
    let file = format!("slurm-{job}.out");
    await_that("it has begun again", || {
        std::fs::read_to_string(slurm.cluster.folder.join(&file))
            .is_ok_and(|text| text == format!("{job} 1\n"))
    });
    assert_eq!(slurm.ok("squeue -h -o '%i %t'"), format!("{job} R\n"));
    let shown = slurm.ok(&format!("scontrol -o show job {job}"));
    assert!(shown.starts_with(&format!("JobId={job} ")) && shown.contains(" Restarts=1 "), "{shown}");
    slurm.write("go", "");
    slurm.await_state(&job, "FAILED");
    assert_eq!(
        slurm.ok(&format!("sacct -X -nP -j {job} -o JobID,State,ExitCode")),
        format!("{job}|FAILED|5:0\n")
    );
    let once = slurm.submit("--no-requeue --wrap='exec sleep 1000'").to_string();
    slurm.await_state(&once, "RUNNING");
    let ran = slurm.run(&format!("scontrol requeue {once}"));
    assert!(ran.code() == 1 && ran.stderr.contains("presently disabled"), "{}", ran.stderr);
    slurm.ok("scancel --me");
}

/// Kinds of ends are words of the daemon, and none is read from a line for people.
#[test]
fn ends_have_kind_code_and_signal_apart_and_memory_is_measured() {
    let slurm = Slurm::up("slurm-ends", 1, &["--slots", "4"]);
    let submit = |script: &str| slurm.submit(&format!("-o /dev/null --wrap='{script}'"));
    let jobs = ["true", "exit 44", "kill -SEGV $$", "exit 139"].map(submit);
    let first = jobs[0];
    let asked = format!(
        "sacct -X -nP -S now-1hour -j {} -o State,ExitCode",
        jobs.map(|job| job.to_string()).join(",")
    );
    await_that("all are over", || slurm.ok("squeue -h").is_empty());
    assert_eq!(slurm.ok(&asked), "COMPLETED|0:0\nFAILED|44:0\nFAILED|0:11\nFAILED|139:0\n");
    let rows = slurm.ok("tutti ps --all --json");
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("json");
    let ends: Vec<_> = rows.as_array().expect("rows").iter().map(|row| row["end"].clone()).collect();
    let end = |kind: &str, code: u8, signal: u8| serde_json::json!({"kind": kind, "code": code, "signal": signal, "by_uid": null});
    assert_eq!(
        ends,
        [end("completed", 0, 0), end("failed", 44, 0), end("failed", 0, 11), end("failed", 139, 0)]
    );
    let used = slurm.ok(&format!("sacct -nP -j {first}.batch -o JobID,MaxRSS,TotalCPU"));
    let words: Vec<&str> = used.trim().split('|').collect();
    let kib: u64 = words[1].trim_end_matches('K').parse().expect(words[1]);
    assert!(words[0] == format!("{first}.batch") && kib > 100 && words[2].contains(':'), "{used}");
    assert_eq!(slurm.ok(&format!("sacct -nP -j {first} -X -o MaxRSS")), "\n");
    // The log has the same, for those that daemons have forgotten.
    let log = slurm.ok("find . -name events.jsonl | xargs grep -h '\"event\":\"over\"'");
    assert!(log.contains("\"end\":{\"kind\":\"failed\",\"code\":44,\"signal\":0,"), "{log}");
}

#[test]
fn time_limit_dependencies_and_memory_are_tuttis() {
    let slurm = Slurm::up("slurm-terms", 2, &["--slots", "2"]);
    let job = slurm.submit("-t 0:01 --wrap='exec sleep 1000'").to_string();
    let first = slurm.submit("--wrap='exit 1'").to_string();
    let ok = slurm.submit(&format!("-d afterok:{first} --wrap=true")).to_string();
    let not_ok = slurm.submit(&format!("-d afternotok:{first} --wrap=true")).to_string();
    let any = slurm.submit(&format!("-d afterany:{first} -o any --wrap='echo any'")).to_string();
    slurm.await_state(&not_ok, "COMPLETED");
    slurm.await_state(&any, "COMPLETED");
    slurm.await_state(&ok, "CANCELLED");
    assert_eq!(slurm.ok(&format!("squeue -h -t all -j {ok} -o %r")), "DependencyNeverSatisfied\n");
    slurm.await_state(&job, "TIMEOUT");
    assert_eq!(
        slurm.ok(&format!("sacct -X -nP -j {job} -o State,ExitCode,Timelimit")),
        "TIMEOUT|0:0|00:00:01\n"
    );
    let shown = slurm.ok("sbatch --parsable --mem=64M --wrap='exec sleep 1000' | xargs scontrol -o show job");
    assert!(shown.contains(" MinMemoryNode=64M "), "{shown}");
    let one = slurm.submit("-J same -d singleton --wrap='exec sleep 1000'").to_string();
    let two = slurm.submit("-J same -d singleton --wrap=true").to_string();
    slurm.await_state(&one, "RUNNING");
    await_that("the later one waits for it", || {
        slurm.ok(&format!("squeue -h -j {two} -o '%T %r %R %B'")) == "PENDING Dependency (Dependency) n/a\n"
    });
    slurm.ok(&format!("scancel {one}"));
    slurm.await_state(&two, "COMPLETED");
    slurm.ok("scancel --me");
}

/// A job that daemons have forgotten counts as the log says it ended.
#[test]
fn dependency_on_a_job_of_the_log_is_met_by_its_end() {
    let slurm = Slurm::up("slurm-past", 1, &["--slots", "2"]);
    let [good, bad] = ["true", "exit 3"].map(|script| slurm.submit(&format!("-o none --wrap='{script}'")));
    await_that("both are over", || slurm.ok("squeue -h").is_empty());
    slurm.cluster.replace(0);
    await_that("the new daemon answers", || slurm.run("squeue -h").code() == 0);
    assert_eq!(slurm.ok("squeue -h -t all"), "", "it knows neither");
    slurm.ok(&format!("sbatch --wait -d afterok:{good},afternotok:{bad},afterany:{bad} -o none --wrap=true"));
    let ran = slurm.run(&format!("sbatch -d afterok:{bad} --wrap=true"));
    let expected = format!("Job dependency problem: job {bad} has ended as FAILED\n");
    assert!(ran.code() == 1 && ran.stderr.ends_with(&expected), "{ran}");
}

#[test]
fn jobs_are_asked_about_one_by_one() {
    let slurm = Slurm::up("slurm-asked", 1, &["--slots", "2"]);
    let jobs =
        ["first", "second"].map(|name| slurm.submit(&format!("-J {name} --wrap='sleep 1000'")).to_string());
    jobs.iter().for_each(|job| slurm.await_state(job, "RUNNING"));
    let [first, second] = &jobs;
    let asked = slurm.ok(&format!("printf 'what\\nn\\ny\\n' | scancel -i {first} {second}"));
    let question = |job: &str, name: &str| format!("Cancel job_id={job} name={name} partition=tutti [y/n]? ");
    let (one, other) = (question(first, "first"), question(second, "second"));
    assert_eq!(asked, format!("{one}{one}{other}"));
    slurm.await_state(second, "CANCELLED");
    assert_eq!(slurm.state(first), "RUNNING");
    // The end of stdin is a no.
    assert_eq!(slurm.ok("scancel -i --me </dev/null"), one);
    assert_eq!(slurm.state(first), "RUNNING");
    slurm.ok(&format!("scancel {first}"));
}

#[test]
fn allocation_has_slurms_environment_and_srun_makes_its_own() {
    let slurm = Slurm::up("slurm-alloc", 2, &["--slots", "2"]);
    let ran = slurm.run("salloc -N 2 -n 2 sh -c 'echo $SLURM_JOB_ID $SLURM_NTASKS $SLURM_JOB_NODELIST; srun sh -c \"echo \\$SLURM_PROCID\" | sort'");
    let job = ran.stdout.split(' ').next().unwrap_or_default();
    assert_eq!(ran.stdout, format!("{job} 2 node[0-1]\n0\n1\n"));
    assert_eq!(ran.stderr, format!("salloc: Granted job allocation {job}\n"));
    let ran = slurm.run("srun -N 2 -n 2 -w node1,node0 sh -c 'echo $SLURM_PROCID $SLURM_JOB_NODELIST'");
    assert_eq!(sorted(&ran.stdout), ["0 node[1,0]", "1 node[1,0]"], "{ran}");
    assert_eq!(slurm.run("srun -n 2 sh -c 'exit 5'").code(), 5);
    assert_eq!(slurm.ok("echo typed | srun cat"), "typed\n");
    assert_eq!(slurm.ok("srun --version"), "slurm 22.05.8\n");
    assert_eq!(slurm.run("srun -n1 ./nothing-of-this-name").code(), 2);
    let ran = slurm.run("srun -n1 ./nothing-of-this-name");
    let line = "slurmstepd: error: execve(): ./nothing-of-this-name: No such file or directory\n";
    assert!(ran.stderr.contains(line), "{ran}");
    slurm.ok("echo a >in_0; echo b >in_1");
    assert_eq!(slurm.ok("srun -n 2 -l -i in_%t cat | sort"), "0: a\n1: b\n");
    assert_eq!(
        slurm.ok("echo typed | SLURM_LABELIO=1 SLURM_STDINMODE=all SLURM_NTASKS=2 srun cat | sort"),
        "0: typed\n1: typed\n"
    );
    assert_eq!(slurm.ok("echo typed | srun -n 2 -l -i 1 cat"), "1: typed\n");
    assert_eq!(slurm.ok("echo typed | SLURM_STDINMODE=none srun -n 2 cat"), "");
}

#[test]
fn held_job_waits_until_it_is_released() {
    let slurm = Slurm::up("slurm-hold", 1, &["--slots", "2"]);
    let job = slurm.submit("--hold --wrap=true").to_string();
    await_that("it is held", || {
        slurm.ok(&format!("squeue -h -j {job} -o '%T %r %R'")) == "PENDING JobHeldUser (JobHeldUser)\n"
    });
    slurm.ok(&format!("scontrol release {job}"));
    slurm.await_state(&job, "COMPLETED");
    let ran = slurm.run(&format!("scontrol hold {job}"));
    assert!(ran.code() == 1 && ran.stderr.contains("already finished"), "{ran}");
}

#[test]
fn begin_and_excluded_nodes_hold_until_an_update() {
    let slurm = Slurm::up("slurm-begin", 2, &["--slots", "2"]);
    let nodes = slurm.ok("sinfo -h -N -o %N");
    let [first, second] = nodes.lines().collect::<Vec<_>>()[..] else { panic!("two nodes: {nodes}") };
    let wanted = format!("--begin=now+1hour --exclude={first} -o nodes --wrap='echo $SLURM_JOB_NODELIST'");
    let job = slurm.submit(&wanted).to_string();
    await_that("it waits for its time", || {
        slurm.ok(&format!("squeue -h -j {job} -o '%T %r'")) == "PENDING BeginTime\n"
    });
    slurm.ok(&format!("scontrol update JobId={job} TimeLimit=17"));
    for (by, cause) in [
        ("-17", "TimeLimit decrement larger"),
        ("-99", "TimeLimit decrement larger"),
        ("+-5", "Invalid TimeLimit"),
    ] {
        let ran = slurm.run(&format!("scontrol update JobId={job} TimeLimit={by}"));
        assert!(ran.code() == 1 && ran.stderr.contains(cause), "{by}: {ran}");
    }
    slurm.ok(&format!("scontrol update JobId={job} TimeLimit=-10 JobName=later StartTime=now"));
    slurm.await_state(&job, "COMPLETED");
    assert_eq!(slurm.read("nodes"), format!("{second}\n"));
    let accounted = slurm.ok(&format!("sacct -X -nP -j {job} -o JobName,Timelimit"));
    assert_eq!(accounted, "later|00:07:00\n");
}

#[test]
fn signal_before_the_time_limit_comes_to_the_script_or_to_its_steps() {
    let slurm = Slurm::up("slurm-signal", 1, &["--slots", "2"]);
    let wait = "while :; do sleep 0.1; done";
    slurm.write("script.sh", &format!("#!/bin/sh\ntrap 'echo got; exit 0' USR1\n{wait}\n"));
    slurm.write("step.sh", &format!("#!/bin/sh\ntrap 'exit 7' USR2\n{wait}\n"));
    let script = slurm.submit("-t 5 --signal=B:USR1@296 -o script script.sh").to_string();
    let steps = slurm.submit("-t 5 --signal=USR2@296 --wrap='srun sh step.sh'").to_string();
    slurm.await_state(&script, "COMPLETED");
    assert_eq!(slurm.read("script"), "got\n");
    slurm.await_state(&steps, "FAILED");
    assert_eq!(slurm.ok(&format!("sacct -X -nP -j {steps} -o ExitCode")), "7:0\n");
}

/// As many nodes as have cores for the tasks, where the tasks alone were named, and no more nodes than tasks.
#[test]
fn tasks_fill_nodes_where_the_number_of_nodes_was_not_named() {
    let slurm = Slurm::up("slurm-fill", 3, &["--slots", "2"]);
    for (words, expected) in [
        ("-n 1", "1 1"),
        ("-n 3", "2 2,1"),
        ("-n 5", "3 2(x2),1"),
        ("-n 2 -c 2", "2 1(x2)"),
        ("-n 3 -N 1", "1 3"),
        ("-n 7", "3 3,2(x2)"),
    ] {
        slurm.ok(&format!(
            "sbatch --wait {words} -o placed --wrap='echo $SLURM_NNODES $SLURM_TASKS_PER_NODE'"
        ));
        assert_eq!(slurm.read("placed"), format!("{expected}\n"), "{words}");
        let shown = slurm.ok(&format!("salloc -Q {words} sh -c 'echo $SLURM_NNODES $SLURM_TASKS_PER_NODE'"));
        assert_eq!(shown, format!("{expected}\n"), "salloc {words}");
    }
    let ran = slurm.run("sbatch --wait -N 2 -n 1 -o placed --wrap='echo $SLURM_NNODES $SLURM_NTASKS'");
    assert_eq!(ran.stderr, "sbatch: Warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n");
    assert_eq!(slurm.read("placed"), "1 1\n");
}
