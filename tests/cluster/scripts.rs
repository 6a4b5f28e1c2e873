//! Scripts that run once, and what `mpiexec` and `tutti run` in them start: steps in what their job has.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde_json::Value;
use tutti_tests::{Ran, Scratch, program};

use crate::Cluster;
use crate::cluster::SLOWLY_LOST;
use crate::harness::{RANK, await_that};

/// A script of the test, with the programs of the tree on its PATH.
fn script(scratch: &Scratch, name: &str, text: &str) -> String {
    let bin = PathBuf::from(program("tutti").get_program());
    let bin = bin.parent().expect("its folder").display();
    let file = scratch.path().join(name);
    let text =
        format!("#!/bin/sh\n{text}").replacen("\n\n", &format!("\nPATH={bin}:$PATH; rank={RANK}\n"), 1);
    std::fs::write(&file, text).expect("a script");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("our file");
    file.to_str().expect("UTF-8").to_owned()
}

/// The row of a job.
fn row(cluster: &Cluster, job: u32) -> Value {
    let rows: Value = serde_json::from_str(&cluster.job(job)).unwrap_or_default();
    rows[0].clone()
}

#[track_caller]
fn await_state(cluster: &Cluster, job: u32, state: &str) {
    await_that(&format!("job {job} is {state}"), || row(cluster, job)["state"] == state);
}

fn pids(cluster: &Cluster, job: u32) -> Vec<u64> {
    let row = row(cluster, job);
    let nodes = row["pids"].as_array().into_iter().flatten();
    let pids = nodes.flat_map(|node| node[1].as_array().into_iter().flatten());
    pids.filter_map(Value::as_u64).collect()
}

fn is_there(pid: u64) -> bool {
    Pid::from_raw(pid as i32).is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// The lines of a file, those between two marks sorted: ranks write in any order.
fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("the output");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.chunk_by_mut(|one, other| is_of_rank(one) && is_of_rank(other)).for_each(<[_]>::sort);
    lines
}

fn is_of_rank(line: &str) -> bool {
    line.starts_with("rank ")
}

const SAY: &str = "say='echo rank $TUTTI_RANK of $TUTTI_SIZE, $TUTTI_LOCAL_SIZE here'\n";

#[test]
fn script_runs_once_and_its_steps_have_its_ranks() {
    let cluster = Cluster::up("script-steps", 3, &["--slots", "2"]);
    let scratch = Scratch::new("script-steps-file");
    let text = format!(
        "#TUTTI --host node0,node1 -N 2 -n 4\n#SBATCH -N 9\n\n{SAY}\
         echo once $TUTTI_ALLOCATION\n\
         mpiexec sh -c \"$say\"\n\
         echo two; mpiexec -n 2 sh -c \"$say\"\n\
         echo nodes; tutti run -N 2 -n 2 sh -c \"$say\"\n\
         echo one; mpiexec -N 1 sh -c \"$say\"\n\
         echo host; mpiexec --host node1 sh -c \"$say\"\n\
         echo own; mpiexec -n 1 sh -c \"mpiexec -n 2 sh -c '\\$say'\" | sort\n\
         mpiexec -n 1 sh -c 'exit 3' 2>&1; echo status $?\n\
         exit 4\n"
    )
    .replace("\\$say", "echo rank \\$TUTTI_RANK");
    let file = script(&scratch, "job.sh", &text);
    let ran = cluster.tutti(&["submit", "-v", &file]).expect_success();
    let how = "is a script: it runs once, on the first of its nodes, and mpiexec in it starts the ranks";
    let foreign = "1 #SBATCH line is not read: options stand in #TUTTI lines, or on the command line";
    let said = format!("tutti submit: {file} {how}\ntutti submit: {file}: {foreign}\n");
    assert_eq!(ran.stderr, said);
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 4);
    let expected = [
        "once node0:2,node1:2",
        "rank 0 of 4, 2 here",
        "rank 1 of 4, 2 here",
        "rank 2 of 4, 2 here",
        "rank 3 of 4, 2 here",
        "two",
        "rank 0 of 2, 2 here",
        "rank 1 of 2, 2 here",
        "nodes",
        "rank 0 of 2, 1 here",
        "rank 1 of 2, 1 here",
        "one",
        "rank 0 of 2, 1 here",
        "rank 1 of 2, 1 here",
        "host",
        "rank 0 of 2, 2 here",
        "rank 1 of 2, 2 here",
        "own",
        "rank 0",
        "rank 1",
    ];
    let found = lines(&cluster.folder.join("tutti-1.out"));
    assert_eq!(found[..expected.len()], expected, "{found:?}");
    let rest = &found[expected.len()..];
    let is_said = rest[0].starts_with("mpiexec: rank 0 (pid ") && rest[0].ends_with(") exited with status 3");
    assert!(is_said && rest[1..] == ["status 3"], "{rest:?}");
    let (job, step) = (row(&cluster, 1), row(&cluster, 2));
    assert_eq!((&job["script"], &job["ranks"], &job["step_of"]), (&true.into(), &4.into(), &Value::Null));
    assert_eq!((&step["script"], &step["ranks"], &step["step_of"]), (&false.into(), &4.into(), &1.into()));
    // A program is started on each rank, also if it reads a script.
    let ran = cluster.tutti(&["submit", "-v", "-n", "2", "sh", "-c", "echo $TUTTI_SIZE"]).expect_success();
    assert_eq!(ran.stderr, "tutti submit: sh is no script: it is started on each rank\n");
    let number = ran.stdout.trim().trim_start_matches("job ").to_owned();
    cluster.tutti(&["wait", &number]).expect_success();
    assert_eq!(cluster.tutti(&["logs", &number]).stdout, "2\n2\n");
}

/// Refusals of what a step may not have are one line, and so is a step outside of a script.
#[test]
fn steps_cannot_leave_what_their_job_has() {
    let cluster = Cluster::up("script-refusals", 3, &["--slots", "2"]);
    let scratch = Scratch::new("script-refusals-file");
    let file = script(
        &scratch,
        "job.sh",
        "#TUTTI --host node0,node1 -N 2 -n 4\n\n\
         mpiexec -n 5 true 2>&1\n\
         tutti run --host node0:3,node1:3 true 2>&1\n\
         mpiexec --host node2 true 2>&1\n\
         TUTTI_ALLOCATION= tutti run --host node2 true 2>&1\n\
         TUTTI_ALLOCATION=node2:9 mpiexec -n 9 true 2>&1\n\
         for option in --exclusive '--memory 1G' --no-gang '--weight 7' '--after 1'; do\n\
         mpiexec -n 1 $option true 2>&1 | cut -d: -f2\n\
         done\n\
         tutti alloc -n 1 true 2>&1 | cut -d: -f2\n",
    );
    cluster.tutti(&["submit", &file]).expect_success();
    cluster.tutti(&["wait", "1"]).expect_success();
    let many = |name: &str, ranks| {
        format!(
            "{name}: {ranks} ranks are more than the 4 of job 1: -n of its submission says how many it has"
        )
    };
    let other = |name: &str| format!("{name}: node2 is not a node of job 1, which has node0 node1");
    let own = |option: &str| format!(" {option} is for jobs");
    let mut expected = vec![
        many("mpiexec", 5),
        many("tutti run", 6),
        other("mpiexec"),
        other("tutti run"),
        many("mpiexec", 9),
    ];
    let options = ["--exclusive", "--memory", "--no-gang", "--weight", "--after", "tutti alloc"];
    expected.extend(options.map(own));
    assert_eq!(lines(&cluster.folder.join("tutti-1.out")), expected);
    // Its environment makes no script of a process.
    let mut forged = cluster.command(&["run", "-n", "1", "true"]);
    let ran: Ran = tutti_tests::run(forged.env("TUTTI_ALLOCATION", "node0:2"), crate::harness::LIMIT);
    let line = "tutti run: TUTTI_ALLOCATION is set, but this process is not part of a job's script: unset it to \
                start a job of its own\n";
    assert_eq!((ran.code(), ran.stderr.as_str()), (1, line));
}

/// Two steps side by side, each of which waits for the other, are suspended, go on and die with their job.
#[test]
fn steps_side_by_side_share_the_fate_of_their_job() {
    let cluster = Cluster::up("script-beside", 2, &["--slots", "2"]);
    let scratch = Scratch::new("script-beside-file");
    let file = script(
        &scratch,
        "job.sh",
        "\ncd \"$(dirname \"$0\")\"\n\
         mpiexec -n 2 sh -c 'touch a$TUTTI_RANK; until [ -e b0 ] && [ -e b1 ]; do sleep 0.01; done' &\n\
         mpiexec -n 2 sh -c 'touch b$TUTTI_RANK; until [ -e a0 ] && [ -e a1 ]; do sleep 0.01; done'\n\
         wait\n\
         mpiexec -n 2 $rank hang &\n\
         mpiexec -n 2 $rank hang\n",
    );
    // Other jobs want the same cores, so that all of it takes turns.
    cluster.tutti(&["submit", "-N", "2", "-n", "4", "sh", "-c", "while :; do :; done"]).expect_success();
    cluster.tutti(&["submit", "-N", "2", "-n", "4", &file]).expect_success();
    let steps = [5, 6];
    steps.iter().for_each(|step| await_state(&cluster, *step, "running"));
    // The first two have ended, and these have nodes of their own.
    assert!([3, 4].iter().all(|step| row(&cluster, *step)["status"] == 0));
    let mut nodes: Vec<String> = steps.iter().map(|step| row(&cluster, *step)["nodes"].to_string()).collect();
    nodes.sort();
    assert_eq!(nodes, ["[\"node0\"]", "[\"node1\"]"]);
    cluster.tutti(&["suspend", "2"]).expect_success();
    steps.iter().for_each(|step| await_state(&cluster, *step, "suspended"));
    let ran = cluster.tutti(&["resume", "5"]);
    assert_eq!(ran.stderr, "tutti resume: job 5 is a step of job 2, which is suspended\n");
    cluster.tutti(&["resume", "2"]).expect_success();
    steps.iter().for_each(|step| await_state(&cluster, *step, "running"));
    let all: Vec<u64> = [2, 5, 6].iter().flat_map(|job| pids(&cluster, *job)).collect();
    assert_eq!(all.len(), 5, "a script and two ranks of each step");
    cluster.tutti(&["kill", "2"]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "2"]).code(), 137);
    // A job is not over before its steps are.
    assert!(steps.iter().all(|step| row(&cluster, *step)["state"] == "over"));
    await_that("nothing of it is left", || !all.iter().any(|pid| is_there(*pid)));
}

#[test]
fn step_ends_with_its_script_and_at_the_limit_of_its_job() {
    let cluster = Cluster::up("script-end", 1, &["--slots", "2"]);
    let scratch = Scratch::new("script-end-file");
    let started = scratch.path().join("started");
    let file = script(
        &scratch,
        "job.sh",
        &format!(
            "\nmpiexec -n 1 sh -c 'touch {0}; exec sleep 1000' &\nuntil [ -e {0} ]; do sleep 0.01; done\nexit 7\n",
            started.display()
        ),
    );
    cluster.tutti(&["submit", "-n", "2", &file]).expect_success();
    assert_eq!(cluster.tutti(&["wait", "1"]).code(), 7);
    assert_eq!(row(&cluster, 2)["state"], "over");
    let text = "\nmpiexec -n 2 sh -c 'trap \"echo saved; exit 0\" TERM; while :; do sleep 0.05; done'\n";
    let file = script(&scratch, "limit.sh", text);
    await_that("a step has begun before the limit of its job", || {
        let ran = cluster.tutti(&["submit", "--time", "4s", "-n", "2", &file]).expect_success();
        let job = ran.stdout.trim().trim_start_matches("job ").to_owned();
        assert_eq!(cluster.tutti(&["wait", &job]).code(), 124);
        // Where the machine is crowded there may be none.
        let step = row(&cluster, job.parse::<u32>().expect("a number") + 1);
        // It has had TERM, and was not killed with its script; a rank may not have come as far as to the
        // trap.
        let status = &step["status"];
        assert!(step.is_null() || [0, 143].iter().any(|expected| status == expected), "{step}");
        !step.is_null()
    });
}

#[test]
fn alloc_runs_a_command_once_with_nodes_for_its_steps() {
    let cluster = Cluster::up("script-alloc", 2, &["--slots", "2"]);
    let mpiexec = program("mpiexec");
    let mpiexec = mpiexec.get_program().to_str().expect("UTF-8");
    let line = format!("echo $TUTTI_ALLOCATION; {mpiexec} sh -c 'echo $TUTTI_SIZE'; exit 5");
    let ran = cluster.run(&["alloc", "-N", "2", "-n", "4", "sh", "-c", &line]);
    assert_eq!((ran.code(), ran.stdout.as_str()), (5, "node0:2,node1:2\n4\n4\n4\n4\n"), "{ran}");
    // Without a command it is a shell.
    let mut shell = cluster.command(&["alloc", "-v", "-n", "1"]);
    shell.env("SHELL", "/bin/true");
    let ran = tutti_tests::run(&mut shell, crate::harness::LIMIT).expect_success();
    let how = "runs once, on the first of its nodes, and mpiexec in it starts the ranks";
    assert_eq!(ran.stderr.lines().next(), Some(&*format!("tutti alloc: /bin/true {how}")), "{ran}");
    let ran = cluster.tutti(&["alloc", "--netns", "2", "true"]);
    assert!(ran.code() == 2 && ran.stderr.lines().count() == 1, "{ran}");
}

/// The next controller knows the script, and the step as one of its job; a lost node of theirs ends both.
#[test]
fn script_and_step_outlive_the_controller_and_end_with_a_node() {
    let Some(cluster) = Cluster::on_machines(3, &SLOWLY_LOST) else { return };
    let mpiexec = program("mpiexec");
    let mpiexec = mpiexec.get_program().to_str().expect("UTF-8");
    let line = format!("{mpiexec} --host node1 {RANK} hang; exit 5");
    let mut alloc = cluster.command_on(1, &["alloc", "--host", "node1:1,node2:1", "sh", "-c", &line]);
    let alloc = crate::harness::Running::start_command(&mut alloc);
    await_state(&cluster, 2, "running");
    cluster.replace(0);
    await_that("the next controller knows the step, and all nodes of its job", || {
        let (job, step) = (row(&cluster, 1), row(&cluster, 2));
        let is_whole = job["nodes"] == serde_json::json!(["node1", "node2"]);
        step["state"] == "running" && step["step_of"] == 1 && is_whole
    });
    let gone = cluster.kill_daemon(2);
    let (status, said) = alloc.end();
    assert!(status == 1 && said.contains("node2 does not answer any more"), "{status} {said}");
    await_state(&cluster, 1, "over");
    assert_eq!(row(&cluster, 2)["state"], "over");
    gone.start();
}
