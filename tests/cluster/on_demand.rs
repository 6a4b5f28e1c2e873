//! `mpiexec` without a cluster: the daemon of its user is found or started, and the jobs of one machine take
//! turns.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tutti_testkit::{Need, skip};
use tutti_tests::{Ran, Scratch, program};

use crate::gangs::{cgroup, cgroups, is_frozen};
use crate::harness::{LIMIT, Running, await_that, state_of};

const LOOP: [&str; 5] = ["-n", "2", "sh", "-c", "while :; do :; done"];

/// A user's machine without a daemon; one that is started ends with the test.
pub struct Laptop(Scratch);

impl Laptop {
    pub fn new(name: &str) -> Self {
        Laptop(Scratch::new(name))
    }

    pub fn command(&self, name: &str, words: &[&str]) -> Command {
        let mut command = program(name);
        command.args(words).env("TUTTI_DIR", self.0.path()).env_remove("TUTTI_DAEMON");
        command
    }

    #[track_caller]
    pub fn tutti(&self, words: &[&str]) -> Ran {
        tutti_tests::run(&mut self.command("tutti", words), LIMIT)
    }

    #[track_caller]
    fn start(&self) -> Running {
        Running::start_command(&mut self.command("mpiexec", &LOOP))
    }

    fn jobs(&self, state: &str) -> usize {
        self.tutti(&["ps", "--json"]).stdout.matches(&format!("\"state\": \"{state}\"")).count()
    }

    /// Folder of the laptop.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Ends its daemon, and waits until it has gone.
    #[track_caller]
    pub fn end_daemon(&self) {
        self.signal_daemon(Signal::TERM);
        await_that("the daemon has gone", || self.daemons().is_empty());
    }

    /// Daemons of the laptop; one that dies while it is looked at is none.
    fn daemons(&self) -> Vec<Pid> {
        let folder = self.0.path().to_string_lossy().into_owned();
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        pids.filter(|pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            line.split('\0').next().is_some_and(|first| first.ends_with("tuttid")) && line.contains(&folder)
        })
        .collect()
    }

    /// The one daemon: where two jobs started one each, one of them leaves when it sees the other's.
    #[track_caller]
    fn daemon(&self) -> Pid {
        await_that("there is one daemon for all", || self.daemons().len() == 1);
        self.daemons()[0]
    }

    #[track_caller]
    fn signal_daemon(&self, signal: Signal) {
        kill_process(self.daemon(), signal).expect("it lives");
    }
}

impl Drop for Laptop {
    fn drop(&mut self) {
        for daemon in self.daemons() {
            let _ = kill_process(daemon, Signal::TERM);
        }
    }
}

/// Two jobs that take part, and their cgroups; none where no cgroup can be made.
#[track_caller]
fn two_jobs(laptop: &Laptop) -> Option<([Running; 2], [PathBuf; 2])> {
    let jobs = [laptop.start(), laptop.start()];
    await_that("both take part", || laptop.jobs("running") == 2);
    let (Some(first), Some(second)) = (cgroup(&jobs[0]), cgroup(&jobs[1])) else {
        skip(Need::Cgroup, "no cgroup can be made here");
        return None;
    };
    Some((jobs, [first, second]))
}

#[track_caller]
fn await_turns([first, second]: &[PathBuf; 2]) {
    for _ in 0..3 {
        await_that("the second stands still while the first runs", || is_frozen(second) && !is_frozen(first));
        await_that("the first stands still while the second runs", || is_frozen(first) && !is_frozen(second));
    }
}

#[track_caller]
fn kill_both(laptop: &Laptop, jobs: [Running; 2]) {
    let listed = laptop.tutti(&["ps", "--json"]).expect_success().stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    for row in listed.as_array().expect("a list") {
        laptop.tutti(&["kill", &row["job"].to_string()]).expect_success();
    }
    for job in jobs {
        assert_eq!(job.end().0, 137);
    }
}

#[test]
fn mpiexec_two_jobs_take_turns() {
    let laptop = Laptop::new("laptop-turns");
    let Some((jobs, groups)) = two_jobs(&laptop) else { return };
    laptop.daemon();
    await_turns(&groups);
    kill_both(&laptop, jobs);
}

/// All cgroups of a job of two virtual nodes are frozen and thawed together, beside another job's.
#[track_caller]
fn virtual_nodes_take_turns(name: &str, option: &str) {
    let laptop = Laptop::new(name);
    let words = [option, "2", "-n", "2", "sh", "-c", "while :; do :; done"];
    let jobs = [Running::start_command(&mut laptop.command("mpiexec", &words)), laptop.start()];
    await_that("both take part", || laptop.jobs("running") == 2);
    if jobs.iter().any(|job| cgroup(job).is_none()) {
        return skip(Need::Cgroup, "no cgroup can be made here");
    }
    await_that("each node has a cgroup", || jobs.each_ref().map(|job| cgroups(job).len()) == [2, 1]);
    let groups = jobs.each_ref().map(cgroups);
    let are_frozen = |groups: &[PathBuf]| groups.iter().all(|group| is_frozen(group));
    let run = |groups: &[PathBuf]| groups.iter().all(|group| !is_frozen(group));
    for _ in 0..3 {
        await_that("the nodes run", || run(&groups[0]) && are_frozen(&groups[1]));
        await_that("the nodes stand still", || are_frozen(&groups[0]) && run(&groups[1]));
    }
    laptop.signal_daemon(Signal::KILL);
    await_that("they run again", || run(&groups[0]));
    await_that("they take part again", || laptop.jobs("running") == 2);
    kill_both(&laptop, jobs);
}

#[test]
fn mpiexec_virtual_nodes_job_takes_turns() {
    virtual_nodes_take_turns("laptop-virtual", "--virtual-nodes");
}

#[test]
fn mpiexec_netns_job_takes_turns() {
    if crate::nodes::have_namespaces() {
        virtual_nodes_take_turns("laptop-netns", "--netns");
    }
}

#[test]
fn on_demand_daemon_death_leaves_no_job_frozen() {
    let laptop = Laptop::new("laptop-death");
    let Some((jobs, groups)) = two_jobs(&laptop) else { return };
    await_that("one stands still", || groups.iter().any(|group| is_frozen(group)));
    laptop.signal_daemon(Signal::KILL);
    await_turns(&groups);
    let next = laptop.daemon();
    laptop.signal_daemon(Signal::TERM);
    await_that("a signal ends it", || !laptop.daemons().contains(&next));
    await_that("the next one is there", || !laptop.daemons().is_empty());
    await_turns(&groups);
    kill_both(&laptop, jobs);
}

#[test]
fn on_demand_daemon_stopped_is_named() {
    let laptop = Laptop::new("laptop-stopped");
    let said = [1, 2].map(|job| laptop.0.path().join(format!("said{job}")));
    let jobs = said.each_ref().map(|said| {
        let mut shell = Command::new("bash");
        shell.env("TUTTI_DIR", laptop.0.path()).env_remove("TUTTI_DAEMON").env("SAID", said);
        shell.args(["-c", "exec \"$@\" 2>\"$SAID\"", "bash"]).arg(program("mpiexec").get_program());
        Running::start_command(shell.args(LOOP))
    });
    await_that("both take part", || laptop.jobs("running") == 2);
    if let [Some(one), Some(other)] = jobs.each_ref().map(cgroup) {
        let groups = [one, other];
        await_turns(&groups);
        let daemon = laptop.daemon();
        // In a turn of one of them.
        await_that("one stands still with the daemon", || {
            kill_process(daemon, Signal::STOP).expect("it lives");
            await_that("it is stopped", || state_of(daemon) == Some('T'));
            let stays = groups.iter().filter(|group| is_frozen(group)).count() == 1;
            if !stays {
                kill_process(daemon, Signal::CONT).expect("it lives");
            }
            stays
        });
        let line = format!("mpiexec: the daemon (pid {}) is stopped, ", daemon.as_raw_nonzero());
        await_that("both users are told", || {
            said.iter().all(|said| std::fs::read_to_string(said).is_ok_and(|text| text.starts_with(&line)))
        });
        kill_process(daemon, Signal::KILL).expect("it lives");
        await_turns(&groups);
        let lines =
            said.iter().map(|said| std::fs::read_to_string(said).expect("it is there").lines().count());
        assert_eq!(lines.collect::<Vec<_>>(), [1, 1], "once");
    }
    kill_both(&laptop, jobs);
}

#[test]
fn mpiexec_job_stopped_by_its_terminal_takes_no_turns() {
    let laptop = Laptop::new("laptop-stop");
    let Some((jobs, groups)) = two_jobs(&laptop) else { return };
    jobs[0].signal(Signal::TSTP);
    await_that("mpiexec stands still", || state_of(jobs[0].pid()) == Some('T'));
    await_that("the daemon knows", || laptop.jobs("suspended") == 1);
    await_that("the other one runs", || !is_frozen(&groups[1]));
    jobs[0].signal(Signal::CONT);
    await_that("the daemon knows", || laptop.jobs("running") == 2);
    await_turns(&groups);
    // The other way round: the daemon stops it, mpiexec with it, and lets both go on.
    let listed = laptop.tutti(&["ps", "--json"]).expect_success().stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    let number = listed[0]["job"].to_string();
    laptop.tutti(&["suspend", &number]).expect_success();
    await_that("it stands still", || jobs.iter().any(|job| state_of(job.pid()) == Some('T')));
    laptop.tutti(&["resume", &number]).expect_success();
    await_that("it goes on", || laptop.jobs("running") == 2);
    await_turns(&groups);
    kill_both(&laptop, jobs);
}

#[test]
fn mpiexec_killed_ends_only_its_own_job() {
    let laptop = Laptop::new("laptop-kill");
    let jobs = [laptop.start(), laptop.start()];
    await_that("both take part", || laptop.jobs("running") == 2);
    let [first, second] = jobs;
    first.signal(Signal::KILL);
    assert_eq!(first.end().0, 137);
    await_that("the daemon knows", || laptop.jobs("running") == 1);
    second.signal(Signal::INT);
    assert_eq!(second.end().0, 130);
    await_that("the daemon knows", || laptop.jobs("running") == 0);
}

/// Wherever the daemon stands when the request and the end of its connection come.
#[test]
fn mpiexec_killed_during_enrolment_leaves_no_job() {
    let laptop = Laptop::new("laptop-early-kill");
    let first = laptop.start();
    await_that("there is a daemon", || laptop.jobs("running") == 1);
    let daemon = laptop.daemon();
    for step in 0..60 {
        let early = laptop.start();
        // Across the time that a start takes.
        std::thread::sleep(Duration::from_micros(step * 500));
        kill_process(daemon, Signal::STOP).expect("it lives");
        std::thread::sleep(Duration::from_millis(5));
        early.signal(Signal::KILL);
        assert_eq!(early.end().0, 137);
        kill_process(daemon, Signal::CONT).expect("it lives");
    }
    // Jobs that were there for a moment are over.
    await_that("the first is alone", || laptop.jobs("running") == 1 && laptop.jobs("starting") == 0);
    first.signal(Signal::KILL);
    first.end();
    await_that("no job is left", || laptop.jobs("running") + laptop.jobs("starting") == 0);
}

#[test]
fn on_demand_daemon_leaves_when_unused() {
    let laptop = Laptop::new("laptop-leave");
    let folder = laptop.0.path().join("own");
    let words = ["--on-demand", "--listen", "127.0.0.1:0", "--leave-after", "0.3", "--dir"];
    let mut command = laptop.command("tuttid", &words);
    tutti_tests::run(command.arg(&folder), LIMIT).expect_success();
    assert!(!folder.join("tuttid.sock").exists(), "its socket is left behind");
}

/// Two ranks that go on when their mpiexec, started by `shell`, has said that the job runs without turns, and
/// then run a script: what they said, and what it did, which goes into a file of this folder.
#[track_caller]
pub fn run_without_turns(shell: &mut Command, mpiexec: &Path, folder: &Path, script: &str) -> (Ran, String) {
    let said = folder.join("said");
    std::fs::write(&said, "").expect("a file");
    std::fs::set_permissions(&said, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("it is ours");
    let script = format!("until grep -q 'runs without turns' $SAID; do sleep 0.01; done; {script}");
    shell.args(["-c", "exec \"$@\" 2>\"$SAID\"", "bash"]).arg(mpiexec);
    shell.args(["-v", "-n", "2", "sh", "-c", &script]).env("SAID", &said);
    let ran = tutti_tests::run(shell, LIMIT).expect_success();
    (ran, std::fs::read_to_string(said).expect("what it said"))
}

#[test]
fn mpiexec_job_runs_without_a_daemon() {
    let laptop = Laptop::new("laptop-none");
    // A folder that is not ours alone is not used.
    let shared = laptop.0.path().join("shared");
    std::fs::create_dir(&shared).expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&shared, open).expect("it is ours");
    let mut shell = Command::new("bash");
    shell.env("TUTTI_DIR", &shared).env_remove("TUTTI_DAEMON");
    let mpiexec = program("mpiexec");
    let (ran, said) =
        run_without_turns(&mut shell, mpiexec.get_program().as_ref(), laptop.0.path(), "echo done");
    assert_eq!(ran.stdout, "done\ndone\n", "{ran}");
    assert!(said.contains("the job runs without turns: cannot use the folder"), "{said}");
    let words = ["-n", "2", "sh", "-c", "sleep 0.3; echo done"];
    let ran = tutti_tests::run(laptop.command("mpiexec", &words).env("TUTTI_DAEMON", "none"), LIMIT);
    assert_eq!(ran.stdout, "done\ndone\n", "{ran}");
    assert!(laptop.daemons().is_empty(), "nobody wanted a daemon");
}

/// A user who names a daemon means it.
#[test]
fn mpiexec_names_a_missing_daemon_that_its_user_has_set() {
    let scratch = Scratch::new("laptop-named");
    let said = scratch.path().join("said");
    let script = "until grep -q 'runs without turns' $SAID; do sleep 0.01; done; echo done";
    let mut shell = Command::new("bash");
    shell.env("TUTTI_DAEMON", "/no/such.sock").env("SAID", &said);
    shell.args(["-c", "exec \"$@\" 2>\"$SAID\"", "bash"]).arg(program("mpiexec").get_program());
    let ran = tutti_tests::run(shell.args(["-n", "1", "sh", "-c", script]), LIMIT).expect_success();
    assert_eq!(ran.stdout, "done\n");
    let line = "mpiexec: the job runs without turns: no daemon answers at /no/such.sock (TUTTI_DAEMON)\n";
    assert_eq!(std::fs::read_to_string(said).expect("what it said"), line);
}

#[test]
fn mpiexec_two_jobs_of_one_rank_have_a_core_each() {
    if std::thread::available_parallelism().map_or(1, std::num::NonZero::get) < 2 {
        skip(Need::Cores, "one core");
        return;
    }
    let laptop = Laptop::new("laptop-cores");
    let one = ["-n", "1", "--bind-to", "core", "sh", "-c", "while :; do :; done"];
    let jobs = [0, 1].map(|_| Running::start_command(&mut laptop.command("mpiexec", &one)));
    let cores = |job: &Running| -> Option<String> {
        let rank = job.mark.processes().into_iter().find(|pid| crate::gangs::is_loop(*pid))?;
        let text = std::fs::read_to_string(format!("/proc/{}/status", rank.as_raw_nonzero())).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    await_that("both take part", || laptop.jobs("running") == 2);
    if cgroup(&jobs[0]).is_none() {
        skip(Need::Cgroup, "no cgroup can be made here");
        return;
    }
    await_that("each has a core of its own", || {
        let [first, second] = [cores(&jobs[0]), cores(&jobs[1])];
        first.is_some() && second.is_some() && first != second
    });
    kill_both(&laptop, jobs);
}

/// Snapshots of the ranks of an `mpiexec` are longer than anything else that it says to its daemon.
#[test]
fn snapshot_long_of_an_mpiexec_job_is_complete() {
    const RANKS: usize = 40;
    let laptop = Laptop::new("on-demand-long");
    let program = tutti_tests::compile("tests/gang/programs/snapshot.c", laptop.0.path());
    let folder = laptop.0.path().to_string_lossy().into_owned();
    let ranks = RANKS.to_string();
    let words = ["-n", &ranks, &program.to_string_lossy(), "flight", &folder];
    let mut job = Running::start_command(&mut laptop.command("mpiexec", &words));
    (0..RANKS).for_each(|_| job.await_line("snapshot: up"));
    std::fs::write(laptop.0.path().join("send"), "").expect("a file");
    (1..RANKS).for_each(|_| job.await_line("snapshot: sent"));
    let file = laptop.0.path().join("seen").to_string_lossy().into_owned();
    // Seven of each, of 0 to 600 bytes and as many more as the sender's number.
    let bytes: usize = (0..RANKS - 1).map(|rank| 7 * rank + 2100).sum();
    let expected = format!("messages in flight: {}, {bytes} bytes\n", 7 * (RANKS - 1));
    await_that("it takes part, and all is seen", || {
        laptop.tutti(&["snapshot", "1", "-o", &file]).stdout.contains(&expected)
    });
    let written = std::fs::metadata(&file).expect("it is kept").len();
    assert!(written > 150_000, "{written} bytes");
    std::fs::write(laptop.0.path().join("go"), "").expect("a file");
    assert_eq!(job.end(), (0, String::new()));
}

#[test]
fn snapshot_of_an_mpiexec_job_shows_waits() {
    let laptop = Laptop::new("on-demand-snapshot");
    let program = tutti_tests::compile("tests/gang/programs/snapshot.c", laptop.0.path());
    let folder = laptop.0.path().to_string_lossy().into_owned();
    let words = ["-n", "3", &program.to_string_lossy(), "wait", &folder];
    let mut job = Running::start_command(&mut laptop.command("mpiexec", &words));
    (0..3).for_each(|_| job.await_line("snapshot: up"));
    await_that("it takes part, and two sleep", || {
        let said = laptop.tutti(&["snapshot", "1"]).stdout;
        said.contains("rank 1  MPI_Recv: receives from rank 0, tag 5")
            && said.contains("rank 2  MPI_Recv: receives from rank 1")
    });
    std::fs::write(laptop.0.path().join("go"), "").expect("a file");
    assert_eq!(job.end(), (0, String::new()));
}

/// Without a cluster `tutti submit` works as `mpiexec` does, and its jobs are known when the daemon has left.
#[test]
fn submit_without_a_cluster_starts_the_daemon_and_its_jobs_are_remembered() {
    let laptop = Laptop::new("laptop-submit");
    laptop.tutti(&["ps"]).expect_success();
    let submit = |words: &[&str]| laptop.tutti(&[&["submit", "-o", "none", "-n", "1"], words].concat());
    let ran = submit(&["sh", "-c", "echo number $TUTTI_JOBID; exit 3"]).expect_success();
    assert_eq!(ran.stdout, "job 1\n", "{ran}");
    assert_eq!(laptop.tutti(&["wait", "1"]).code(), 3);
    assert_eq!(laptop.tutti(&["logs", "1"]).stdout, "number 1\n");
    for (name, job) in [("a", 2), ("b", 3), ("a", 4), ("c", 5)] {
        let ran = submit(&["--name", name, "sleep", "1000"]).expect_success();
        assert_eq!(ran.stdout, format!("job {job}\n"));
    }
    let ran = laptop.tutti(&["kill", "1", "999", "2-3"]);
    let lines = "tutti kill: job 1 is over\ntutti kill: there is no job 999\n";
    assert_eq!((ran.code(), &*ran.stderr), (1, lines), "{ran}");
    assert_eq!(ran.stdout, "job 2 is killed\njob 3 is killed\n");
    // As long as they are ending they are meant by their names, too.
    assert_eq!(laptop.tutti(&["wait", "2", "3"]).code(), 137);
    assert_eq!(
        laptop.tutti(&["suspend", "--name", "a,c"]).stdout,
        "job 4 is suspended\njob 5 is suspended\n"
    );
    assert_eq!(laptop.tutti(&["kill", "--name", "a", "--state", "suspended"]).stdout, "job 4 is killed\n");
    let wrong = [
        (&["kill", "--name", "nothing"][..], "no job is meant"),
        (&["kill", "--user", "no-such-user"], "there is no user no-such-user"),
        (&["ps", "--user", "no-such-user"], "there is no user no-such-user"),
        (&["kill", "bob/5"], "only bob and root can ask"),
        (&["status", "bob/5"], "only bob and root can ask"),
        (&["wait", "bob/5"], "only bob and root can ask"),
        (&["simulate"], "--swf FILE or --lublin JOBS is needed"),
        (&["timeline"], "JOB, --all, --last SECONDS or --since MOMENT is needed"),
        (&["squeue"], "it is tutti ps here"),
        (&["sumbit"], "did you mean tutti submit?"),
    ];
    for (words, text) in wrong {
        let ran = laptop.tutti(words);
        assert!(
            ran.code() != 0 && ran.stderr.contains(text) && ran.stderr.lines().count() == 1,
            "{words:?}: {ran}"
        );
    }
    laptop.tutti(&["kill", "5"]).expect_success();
    let page = laptop.folder().join("last.html");
    laptop.tutti(&["timeline", "--last", "60", "-o", page.to_str().expect("UTF-8")]).expect_success();
    assert!(std::fs::read_to_string(&page).expect("the page").contains("sleep 1000"));
    laptop.end_daemon();
    assert!(!laptop.tutti(&["ps"]).expect_success().stdout.contains("over"), "nothing runs");
    assert_eq!(laptop.tutti(&["wait", "1"]).code(), 3, "the log knows it");
    assert!(laptop.tutti(&["ps", "--all"]).expect_success().stdout.contains("over(3)"));
}

/// The rows of `tutti ps --json` of jobs that run: number, and number of ranks.
fn running(laptop: &Laptop) -> Vec<u64> {
    let ran = laptop.tutti(&["ps", "--json"]);
    // Where a daemon has just died there is an error.
    let listed = if ran.code() == 0 { &ran.stdout } else { "[]" };
    let listed: serde_json::Value = serde_json::from_str(listed).expect("JSON");
    let rows = listed.as_array().expect("a list").iter();
    rows.filter(|row| row["state"] == "running").map(|row| row["job"].as_u64().expect("a number")).collect()
}

/// `TUTTI_JOBID` is what `tutti ps` shows, whether a daemon was there when the job began or not.
#[test]
fn mpiexec_jobs_and_submitted_ones_have_numbers_of_one_series() {
    const SHOWS: &str = "echo number $TUTTI_JOBID; while :; do :; done";
    let laptop = Laptop::new("laptop-numbers");
    let alone = ["-n", "2", "sh", "-c", "echo number $TUTTI_JOBID"];
    let ran = tutti_tests::run(laptop.command("mpiexec", &alone).env("TUTTI_DAEMON", "none"), LIMIT);
    assert_eq!(ran.expect_success().stdout, "number 1\nnumber 1\n");
    let start = || Running::start_command(&mut laptop.command("mpiexec", &["-n", "1", "sh", "-c", SHOWS]));
    let mut first = start();
    first.await_line("number 2");
    await_that("it takes part under its number", || running(&laptop) == [2]);
    let ran = laptop.tutti(&["submit", "-o", "none", "-n", "1", "sleep", "1000"]).expect_success();
    assert_eq!(ran.stdout, "job 3\n", "{ran}");
    let mut second = start();
    second.await_line("number 4");
    await_that("all have their numbers", || running(&laptop) == [2, 3, 4]);
    laptop.tutti(&["kill", "2-3"]).expect_success();
    assert_eq!(first.end().0, 137);
    // The next daemon hears of it anew, and the number in its environment is still its own.
    laptop.signal_daemon(Signal::KILL);
    await_that("it takes part again", || running(&laptop) == [4]);
    let ran = laptop.tutti(&["submit", "-o", "none", "-n", "1", "true"]).expect_success();
    assert_eq!(ran.stdout, "job 5\n", "{ran}");
    laptop.tutti(&["kill", "4"]).expect_success();
    assert_eq!(second.end().0, 137);
    // Tasks of an array have numbers too.
    let ran = laptop.tutti(&["submit", "-o", "none", "--array", "1-3", "-n", "1", "true"]).expect_success();
    assert_eq!(ran.stdout, "job 6\n", "{ran}");
    // A job that is part of another one has that one's number.
    let inner = program("mpiexec").get_program().to_string_lossy().into_owned();
    let nested = ["-n", "1", &inner, "-n", "1", "sh", "-c", "echo number $TUTTI_JOBID"];
    let ran = tutti_tests::run(&mut laptop.command("mpiexec", &nested), LIMIT).expect_success();
    assert_eq!(ran.stdout, "number 10\n");
}

#[test]
fn logs_of_a_job_are_shown_when_its_daemon_has_left() {
    let laptop = Laptop::new("laptop-logs");
    let name = |name: &str| laptop.folder().join(name).to_string_lossy().into_owned();
    let script = "echo out $TUTTI_RANK; echo err $TUTTI_RANK >&2";
    let (out, errors) = (name("%r.%j.out"), name("errors"));
    let words = ["submit", "-o", &out, "-e", &errors, "-n", "2", "sh", "-c", script];
    laptop.tutti(&words).expect_success();
    laptop.tutti(&["submit", "-o", "none", "-n", "1", "echo", "lost"]).expect_success();
    laptop.tutti(&["wait", "1", "2"]).expect_success();
    laptop.end_daemon();
    for words in [&["logs", "1"][..], &["logs", "-f", "1"]] {
        let ran = laptop.tutti(words).expect_success();
        let mut errors: Vec<&str> = ran.stderr.lines().collect();
        errors.sort_unstable();
        assert_eq!((&*ran.stdout, &errors[..]), ("out 0\nout 1\n", &["err 0", "err 1"][..]), "{ran}");
    }
    std::fs::remove_file(laptop.folder().join("0.1.out")).expect("it is there");
    for (job, text) in [("1", "is not here"), ("2", "wrote no file"), ("9", "there is no job 9")] {
        let ran = laptop.tutti(&["logs", job]);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{ran}");
        assert!(ran.stderr.contains(text), "{ran}");
    }
}
