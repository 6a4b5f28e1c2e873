//! A rank that dies takes the job down with one line; nothing stays behind.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use tutti_testkit::{Need, skip_part};
use tutti_tests::{Scratch, compile, program};

use crate::harness::{LIMIT, RANK, Running, await_that, cgroup_of, mpiexec, run, without_cgroups};

/// The lines of mpiexec itself.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("mpiexec: ")).collect()
}

#[track_caller]
pub fn assert_one_line(stderr: &str, parts: &[&str]) {
    let lines = said(stderr);
    assert_eq!(lines.len(), 1, "{stderr}");
    for part in parts {
        assert!(lines[0].contains(part), "{part:?} is not in {stderr}");
    }
}

#[test]
fn exit_status_0_is_silent() {
    let ran = mpiexec(&["-n", "3", RANK, "attach", "finalize"]).expect_success();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn exit_by_signal_ends_the_job() {
    let ran = mpiexec(&["-n", "4", RANK, "attach", "2:signal=11", "hang"]);
    assert_eq!(ran.code(), 128 + 11, "{ran}");
    assert_one_line(&ran.stderr, &["rank 2 (pid ", ") was killed by signal 11 (Segmentation fault"]);
}

#[test]
fn exit_with_a_status_ends_the_job() {
    let ran = mpiexec(&["-n", "3", RANK, "attach", "1:exit=3", "hang"]);
    assert_eq!(ran.code(), 3, "{ran}");
    assert_one_line(&ran.stderr, &["rank 1 (pid ", ") exited with status 3"]);
}

#[test]
fn exit_of_a_program_without_mpi_ends_the_job() {
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
fn exit_without_init_is_named_when_others_wait() {
    let scratch = Scratch::new("launch-never-comes");
    let path = compile("tests/launch/programs/never_comes.c", scratch.path());
    for (ranks, words) in [("2", &[][..]), ("3", &[]), ("3", &["receive"])] {
        let ran = run(program("mpiexec").args(["-n", ranks]).arg(&path).args(words));
        assert_eq!(ran.code(), 1, "{ranks}, {words:?}: {ran}");
        assert_one_line(&ran.stderr, &["rank 1 (pid ", "exited without calling MPI_Init"]);
    }
    // Nobody waits for it.
    run(program("mpiexec").args(["-n", "2", "sh", "-c", "exit 0"])).expect_success();
}

#[test]
fn exit_without_init_is_named_when_others_wait_on_several_nodes() {
    let scratch = Scratch::new("launch-never-comes-nodes");
    let path = compile("tests/launch/programs/never_comes.c", scratch.path());
    for (nodes, ranks) in [("2", "2"), ("2", "3"), ("2", "4"), ("3", "3")] {
        for words in [&[][..], &["receive"], &["send"], &["compute"]] {
            let nodes = ["--virtual-nodes", nodes, "-n", ranks];
            let ran = run(program("mpiexec").args(nodes).arg(&path).args(words));
            assert_eq!(ran.code(), 1, "{nodes:?}, {words:?}: {ran}");
            assert_one_line(&ran.stderr, &["rank 1 (pid ", "exited without calling MPI_Init"]);
        }
    }
}

/// The first that leaves a node is not all that the other nodes know of it.
#[test]
fn exit_without_init_is_named_when_others_have_left_before() {
    let scratch = Scratch::new("launch-never-comes-late");
    let path = compile("tests/launch/programs/never_comes.c", scratch.path());
    let nodes = ["--virtual-nodes", "2", "-n", "2"];
    let others = [":", "-n", "1", "true", ":", "-n", "1", "sleep", "2"];
    let ran = run(program("mpiexec").args(nodes).arg(&path).args(["receive", "3"]).args(others));
    assert_eq!(ran.code(), 1, "{ran}");
    assert_one_line(&ran.stderr, &["rank 3 (pid ", "exited without calling MPI_Init"]);
}

/// Programs that never wait for those that use no MPI, and a rank whose child is the one that uses it.
#[test]
fn exit_without_init_is_right_when_no_rank_waits() {
    let scratch = Scratch::new("launch-leaves-rightly");
    let path = compile("tests/launch/programs/leaves_rightly.c", scratch.path());
    let path = path.to_str().expect("a path of ours");
    // Longer than the starters look for such ranks.
    let later = format!("{path} world & exit 0");
    for nodes in [&[][..], &["--virtual-nodes", "2"], &["--virtual-nodes", "4"]] {
        for words in [
            &["-n", "2", path, "part", ":", "-n", "2", "true"][..],
            &["-n", "2", "true", ":", "-n", "2", path, "part"],
            &["-n", "4", path, "early"],
            &["-n", "3", path, "world", ":", "-n", "1", "sh", "-c", &later],
        ] {
            let ran = run(program("mpiexec").args(nodes).args(words));
            assert_eq!((ran.code(), ran.stderr.as_str()), (0, ""), "{nodes:?}, {words:?}: {ran}");
        }
    }
}

/// By hand what a library of MPICH's kind does in MPI_Init.
#[test]
fn exit_without_init_is_named_when_others_wait_over_pmi() {
    let script = "[ $PMI_RANK = 1 ] && exit 0; echo cmd=init pmi_version=1 pmi_subversion=1 >&$PMI_FD; \
        read -u $PMI_FD; echo cmd=barrier_in >&$PMI_FD; read -u $PMI_FD; sleep 1000";
    for ranks in [&["-n", "2"][..], &["-n", "3"], &["--virtual-nodes", "2", "-n", "2"]] {
        let ran = run(program("mpiexec").args(ranks).args(["bash", "-c", script]));
        assert_eq!(ran.code(), 1, "{ranks:?}: {ran}");
        assert_one_line(&ran.stderr, &["rank 1 (pid ", "exited without calling MPI_Init"]);
    }
    // One that has left somebody behind who may still come is awaited.
    let script = "if [ $PMI_RANK = 1 ]; then \
            { sleep 2; echo cmd=barrier_in >&$PMI_FD; read -u $PMI_FD; } & exit 0; fi; \
        echo cmd=barrier_in >&$PMI_FD; read -u $PMI_FD answer; echo $answer";
    let ran = run(program("mpiexec").args(["-n", "2", "bash", "-c", script])).expect_success();
    assert_eq!(ran.stdout, "cmd=barrier_out rc=0\n", "{ran}");
}

#[test]
fn abort_ends_the_job_with_its_code_and_loses_no_output() {
    let ran = mpiexec(&["-n", "2", RANK, "attach", "1:say=last words", "1:abort=77", "hang"]);
    assert_eq!(ran.code(), 77, "{ran}");
    assert_eq!(ran.stdout, "last words\n");
    assert_one_line(&ran.stderr, &["rank 1", "called MPI_Abort(77)"]);
}

#[test]
fn exit_status_after_finalize_is_kept() {
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
fn exit_by_crash_below_a_wrapper_ends_the_job() {
    // The wrapper hides the crash and would wait for ever.
    let ran = mpiexec(&["-n", "2", "sh", "-c", &format!("{RANK} attach 0:signal=9 hang; sleep 1000")]);
    assert_eq!(ran.code(), 1, "{ran}");
    assert_one_line(&ran.stderr, &["rank 0", "lost its MPI process"]);
}

/// Once as this user is, once where no cgroup can be made: ordinary users are often in that place.
fn with_and_without_cgroups(test: impl Fn(Command)) {
    test(program("mpiexec"));
    match without_cgroups() {
        Some(command) => test(command),
        None => skip_part(Need::MountNamespace, "not tried without cgroups: no mount namespaces here"),
    }
}

#[test]
fn leftover_processes_are_ended() {
    with_and_without_cgroups(|mut mpiexec| {
        let words = ["stray", "fork", "attach", "stray", "fork", "finalize"];
        run(mpiexec.args(["-n", "2", RANK]).args(words)).expect_success();
    });
}

#[test]
fn leftover_processes_are_ended_when_a_rank_dies() {
    with_and_without_cgroups(|mut mpiexec| {
        let ran = run(mpiexec.args(["-n", "2", RANK, "fork", "stray", "0:exit=3", "hang"]));
        assert_eq!(ran.code(), 3, "{ran}");
    });
}

#[test]
fn mpiexec_death_ends_the_job() {
    with_and_without_cgroups(|mut mpiexec| {
        let words = ["-n", "2", RANK, "attach", "stray", "fork", "1:say=here", "hang"];
        let mut job = Running::start_command(mpiexec.args(words));
        job.await_line("here");
        let cgroup = cgroup_of(rank_of(&job));
        job.signal(Signal::KILL);
        job.child.wait().expect("our child");
        job.mark.assert_nothing_left();
        if let Some(cgroup) = cgroup {
            await_that("the cgroup is removed", || !cgroup.exists());
        }
    });
}

#[test]
fn mpiexec_and_starter_death_at_once_ends_the_job() {
    with_and_without_cgroups(|mut mpiexec| {
        let words = ["-n", "2", RANK, "attach", "stray", "fork", "1:say=here", "hang"];
        mpiexec.args(words);
        for _ in 0..20 {
            let mut job = Running::start_command(&mut mpiexec);
            job.await_line("here");
            let cgroup = cgroup_of(rank_of(&job));
            let victims = [starter_of(&job), job.pid()];
            // Stopped, neither can do anything about the other's death.
            for signal in [Signal::STOP, Signal::KILL] {
                victims.iter().for_each(|pid| kill_process(*pid, signal).expect("it runs"));
            }
            job.child.wait().expect("our child");
            job.mark.assert_nothing_left();
            if let Some(cgroup) = cgroup {
                await_that("the cgroup is removed", || !cgroup.exists());
            }
        }
    });
}

#[test]
fn starter_death_ends_the_job() {
    with_and_without_cgroups(|mut mpiexec| {
        let words = ["-n", "2", RANK, "attach", "stray", "fork", "1:say=here", "hang"];
        let mut job = Running::start_command(mpiexec.args(words));
        job.await_line("here");
        let cgroup = cgroup_of(rank_of(&job));
        kill_process(starter_of(&job), Signal::KILL).expect("the starter runs");
        let (status, stderr) = job.end();
        assert_eq!(status, 1, "{stderr}");
        assert_one_line(&stderr, &["starter has died"]);
        if let Some(cgroup) = cgroup {
            await_that("the cgroup is removed", || !cgroup.exists());
        }
    });
}

/// Kills mpiexec or the starter at random moments of a job's start and life.
#[test]
fn mpiexec_killed_at_any_moment_leaves_nothing_behind() {
    let mut random = tutti_testkit::Random::new(tutti_testkit::seed());
    let before = empty_cgroups();
    for _ in 0..40 {
        let mut job = Running::start(&["-n", "2", RANK, "attach", "stray", "fork", "hang"]);
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        let mpiexec = job.pid();
        let children = format!("/proc/{0}/task/{0}/children", mpiexec.as_raw_nonzero());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let starter = children.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        let victim = if random.below(2) == 0 { mpiexec } else { starter.unwrap_or(mpiexec) };
        kill_process(victim, Signal::KILL).expect("it is there, dead or alive, until its parent looks");
        job.child.wait().expect("our child");
        job.mark.assert_nothing_left();
    }
    await_that("no empty cgroup of a job is left", || empty_cgroups().is_subset(&before));
}

/// The cgroups of jobs that are empty. Other jobs come and go on this machine; what is empty and stays is
/// left behind.
pub fn empty_cgroups() -> BTreeSet<PathBuf> {
    let is_empty = |path: &PathBuf| {
        let events = std::fs::read_to_string(path.join("cgroup.events"));
        events.is_ok_and(|events| events.contains("populated 0"))
    };
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let entries = roots.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let jobs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("tutti-job-"));
    jobs.map(|entry| entry.path()).filter(is_empty).collect()
}

pub fn named(job: &Running, name: &str) -> Vec<Pid> {
    let is_named = |pid: &Pid| {
        std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()))
            .is_ok_and(|comm| comm.trim_end() == name)
    };
    job.mark.processes().into_iter().filter(is_named).collect()
}

/// The starters of a job whose ranks are named test-rank. (A keeper has its starter's name until it runs for
/// the first time.)
pub fn starters_of(job: &Running) -> Vec<Pid> {
    let parents: Vec<Pid> = named(job, "test-rank").into_iter().filter_map(parent_of).collect();
    named(job, "tutti-starter").into_iter().filter(|starter| parents.contains(starter)).collect()
}

fn starter_of(job: &Running) -> Pid {
    *starters_of(job).first().expect("a rank runs")
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    Pid::from_raw(stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?)
}

pub fn rank_of(job: &Running) -> Pid {
    named(job, "test-rank")[0]
}

#[test]
fn leftover_socket_and_cgroup_are_removed() {
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
fn descriptors_of_the_launcher_are_not_inherited() {
    let count = "ls /proc/self/fd | wc -l";
    let ran = mpiexec(&["-n", "2", "bash", "-c", &format!("exec {{PMI_FD}}>&-; {count}")]).expect_success();
    let plain =
        tutti_tests::run(std::process::Command::new("bash").args(["-c", count]), Duration::from_secs(10));
    let expected = plain.stdout.trim();
    assert!(ran.stdout.lines().all(|line| line.trim() == expected), "{ran}, without mpiexec: {expected}");
}

#[test]
fn timeout_ends_the_job_with_124() {
    let ran = mpiexec(&["--timeout", "0.3", "-n", "2", RANK, "attach", "fork", "hang"]);
    assert_eq!(ran.code(), 124, "{ran}");
    assert_one_line(&ran.stderr, &["did not finish within 0.3 seconds"]);
    assert!(ran.took < LIMIT);
}
