//! Needs of a keeper: state that outlives a boot, ports for a firewall, daemons that are replaced, accounts
//! of what was used.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::{Ran, Scratch, program};

use crate::harness::{LIMIT, await_that};

/// A daemon with a run folder and a state folder, as a service manager starts it.
pub struct Kept {
    scratch: Scratch,
    daemon: Child,
    more: Vec<String>,
}

impl Kept {
    pub fn start(name: &str, more: &[&str]) -> Self {
        let scratch = Scratch::new(name);
        let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
        let daemon = Self::daemon(scratch.path(), &more);
        let kept = Kept { scratch, daemon, more };
        kept.await_daemon();
        kept
    }

    fn daemon(folder: &Path, more: &[String]) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).expect("a log");
        let mut command = program("tuttid");
        command.args(["--listen", "127.0.0.1:0", "--name", "keeper", "--dir"]).arg(folder.join("run"));
        command.arg("--state").arg(folder.join("state")).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().expect("tuttid")
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A file of the folder; nothing where there is none.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder(name)).unwrap_or_default()
    }

    fn await_daemon(&self) {
        await_that("a daemon answers", || self.tutti(&["nodes"]).stdout.contains(" up "));
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = program("tutti");
        command.args(words).env_remove("TUTTI_DAEMON").env("TUTTI_DIR", self.folder("run"));
        command.current_dir(self.scratch.path());
        command
    }

    pub fn tutti(&self, words: &[&str]) -> Ran {
        tutti_tests::run(&mut self.command(words), LIMIT)
    }

    pub fn await_state(&self, job: &str, state: &str) {
        let wanted = format!("\"state\": \"{state}\"");
        await_that(&format!("job {job} is {state}"), || {
            self.tutti(&["status", "--json", job]).stdout.contains(&wanted)
        });
    }

    /// Ends the daemon by a signal and waits for its death.
    pub fn end_daemon(&mut self, signal: Signal) -> std::process::ExitStatus {
        kill_process(Pid::from_child(&self.daemon), signal).expect("our child");
        self.daemon.wait().expect("our child")
    }

    pub fn start_again(&mut self) {
        self.daemon = Self::daemon(self.scratch.path(), &self.more);
        self.await_daemon();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.tutti(&["down"]);
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        if std::thread::panicking() {
            println!("{}", std::fs::read_to_string(self.folder("log")).unwrap_or_default());
        }
    }
}

/// A boot: all processes are gone, and so is the run folder.
#[test]
fn state_records_and_waiting_jobs_outlive_a_boot() {
    let mut kept = Kept::start("keeping-boot", &["--slots", "1"]);
    kept.tutti(&["submit", "-n", "1", "--name", "first", "sh", "-c", "exit 3"]).expect_success();
    kept.await_state("1", "over");
    kept.tutti(&["submit", "--exclusive", "-n", "1", "sleep", "1000"]).expect_success();
    kept.await_state("2", "running");
    let output = kept.folder("kept.out").display().to_string();
    kept.tutti(&["submit", "-n", "1", "-o", &output, "sh", "-c", "echo $TUTTI_JOBID ran"]).expect_success();
    kept.await_state("3", "waiting");
    let pids = kept.tutti(&["status", "--json", "2"]).stdout;
    let pids: serde_json::Value = serde_json::from_str(&pids).expect("JSON");
    let rank = pids[0]["pids"][0][1][0].as_i64().expect("its pid") as i32;
    let rank = Pid::from_raw(rank).expect("a pid");
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", rank.as_raw_nonzero())).expect("it lives");
    let starter = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("its parent");
    let starter = Pid::from_raw(starter.trim().parse().expect("a pid")).expect("a pid");
    kept.end_daemon(Signal::KILL);
    for pid in [starter, rank] {
        let _ = kill_process(pid, Signal::KILL);
    }
    std::fs::remove_dir_all(kept.folder("run")).expect("the run folder");

    // Without a daemon the records are read in the state folder that a variable names.
    let mut alone = kept.command(&["ps", "--all"]);
    let alone = tutti_tests::run(alone.env("TUTTI_STATE", kept.folder("state")), LIMIT).expect_success();
    assert!(alone.stdout.contains("over(3)"), "{alone}");

    kept.start_again();
    kept.await_state("3", "over");
    assert_eq!(std::fs::read_to_string(&output).expect("its output"), "3 ran\n");
    let all = kept.tutti(&["ps", "--all"]).expect_success().stdout;
    assert!(all.contains("first") && all.contains("over(3)") && all.contains("over(0)"), "{all}");
    kept.tutti(&["submit", "-n", "1", "true"]).expect_success();
    kept.await_state("4", "over");
    // The command finds the folder by the link beside the socket.
    kept.tutti(&["down"]).expect_success();
    let all = kept.tutti(&["ps", "--all"]).expect_success().stdout;
    assert!(all.contains("first") && all.contains("over(3)"), "{all}");
    let page = kept.folder("page.html").display().to_string();
    kept.tutti(&["timeline", "--all", "-o", &page]).expect_success();
    let state = |file: &str| kept.folder("state").join(file).exists();
    assert!(
        state("events.jsonl") && state("keeper.queue") && !kept.folder("run").join("events.jsonl").exists()
    );
}

/// `systemctl restart` with the unit that is installed: SIGUSR1, then the same command line.
#[test]
fn daemon_that_is_replaced_hurts_no_job() {
    let mut kept = Kept::start("keeping-replaced", &[]);
    let script = "for i in 1 2 3 4 5; do echo line $i; while [ ! -e go$i ]; do sleep 0.05; done; done";
    kept.tutti(&["submit", "-n", "2", "-o", "out", "sh", "-c", script]).expect_success();
    kept.await_state("1", "running");
    for step in 1..=3 {
        assert_eq!(kept.end_daemon(Signal::USR1).code(), Some(0));
        std::fs::write(kept.folder(&format!("go{step}")), "").expect("a file");
        kept.start_again();
        kept.await_state("1", "running");
    }
    for step in [4, 5] {
        std::fs::write(kept.folder(&format!("go{step}")), "").expect("a file");
    }
    kept.await_state("1", "over");
    assert!(kept.tutti(&["status", "--json", "1"]).stdout.contains("\"status\": 0"));
    let written = std::fs::read_to_string(kept.folder("out")).expect("its output");
    for step in 1..=5 {
        assert_eq!(written.matches(&format!("line {step}\n")).count(), 2, "{written}");
    }
}

/// Ranks of two nodes that have six ports each: one for each rank, until another job has them.
#[test]
fn ports_of_a_range_are_what_ranks_use_and_a_line_says_when_all_are_taken() {
    let scratch = Scratch::new("keeping-ports");
    let file = scratch.path().join("tutti.toml");
    // Below those that the kernel gives to whoever asks for none.
    let first = 20_000 + std::process::id() % 12_000;
    let range = format!("{first}-{}", first + 5);
    std::fs::write(&file, format!("[node]\nports = \"{range}\"\n")).expect("a file");
    let config = file.display().to_string();
    let cluster = crate::Cluster::up("keeping-ports-up", 2, &["--slots", "2", "--config", &config]);
    assert!(cluster.tutti(&["config", "show"]).stdout.contains(&range));
    let rank = crate::harness::RANK;
    let hold = ["submit", "-N", "2", "-n", "2", rank, "hang"];
    cluster.tutti(&hold).expect_success();
    let running = |job| cluster.job(job).contains("\"state\": \"running\"");
    await_that("it runs", || running(1));
    let bound = || {
        let table = std::fs::read_to_string("/proc/net/udp").expect("the kernel's table");
        let ports = table.lines().filter_map(|line| {
            let local = line.split_whitespace().nth(1)?;
            u32::from_str_radix(local.rsplit(':').next()?, 16).ok()
        });
        ports.filter(|port| (first..first + 6).contains(port)).count()
    };
    // With a cluster of this machine both nodes are one address; ranks of both are in one range.
    assert!(bound() >= 2, "{}", bound());
    let mut refused = None;
    for job in 2..=6 {
        let ran = cluster.tutti(&["run", "-N", "2", "-n", "4", "true"]);
        if ran.code() != 0 {
            refused = Some(ran);
            break;
        }
        cluster.tutti(&hold).expect_success();
        await_that("one more has ports", || cluster.job(job).contains("state") && bound() > 0);
    }
    let refused = refused.expect("at last there is no port");
    assert!(refused.stderr.contains(&format!("all UDP ports {range} of 127.0.0.1 are taken")), "{refused}");
}

#[test]
fn ports_that_are_none_are_refused_with_their_place() {
    let scratch = Scratch::new("keeping-ports-wrong");
    let file = scratch.path().join("tutti.toml");
    std::fs::write(&file, "[node]\nports = \"7499-7420\"\n").expect("a file");
    let ran = tutti_tests::run(program("tutti").args(["config", "check"]).arg(&file), LIMIT);
    assert!(
        ran.code() == 2
            && ran.stderr.contains("tutti.toml:2:9: ports: \"7499-7420\" is not a range of ports from 1024"),
        "{ran}"
    );
    let ran = tutti_tests::run(program("tuttid").args(["--ports", "80"]), LIMIT);
    assert!(ran.code() == 2 && ran.stderr.contains("is not a range of ports"), "{ran}");
}

#[test]
fn account_has_start_end_processor_time_and_memory_of_every_job() {
    let cluster = crate::Cluster::up("keeping-account", 2, &["--slots", "2"]);
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3";
    let ran = cluster.run(&["run", "-N", "2", "-n", "2", "--name", "busy", "sh", "-c", busy]);
    assert_eq!(ran.code(), 3, "{ran}");
    cluster.run(&["run", "-n", "1", "true"]).expect_success();
    let check = |without: &str| {
        let rows = cluster.tutti(&["account", "--json"]).expect_success().stdout;
        let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
        let rows = rows.as_array().expect("a list");
        assert_eq!(rows.len(), 2, "{rows:?} {without}");
        let number =
            |row: usize, name: &str| rows[row][name].as_u64().unwrap_or_else(|| panic!("{name}: {rows:?}"));
        assert!(number(0, "cpu_ms") >= 20 && number(0, "cpu_ms") > number(1, "cpu_ms"), "{rows:?}");
        assert!(number(0, "largest_bytes") > 256 << 10 && number(0, "largest_bytes") < 1 << 30, "{rows:?}");
        assert!(number(0, "end_ms") >= number(0, "start_ms") && number(0, "status") == 3, "{rows:?}");
        let text = cluster.tutti(&["account"]).expect_success().stdout;
        assert!(text.contains("over(3)") && text.contains("busy") && text.lines().count() == 3, "{text}");
        let users = cluster.tutti(&["account", "--by-user"]).expect_success().stdout;
        let line: Vec<&str> = users.lines().nth(1).expect("a user").split_whitespace().collect();
        assert_eq!(line[1..3], ["2", "1"], "{users}");
        assert_eq!(cluster.tutti(&["account", "--last", "1d"]).expect_success().stdout, text);
    };
    check("with a daemon");
    assert!(cluster.tutti(&["status", "1"]).stdout.contains("s of processors, largest process "));
    cluster.tutti(&["down"]).expect_success();
    check("from the log alone");
}

/// One number: in the environment from the start, in `tutti ps`, in the log.
#[test]
fn job_of_mpiexec_beside_a_cluster_has_its_number_from_its_start() {
    let kept = Kept::start("keeping-number", &[]);
    kept.tutti(&["run", "-n", "1", "true"]).expect_success();
    let script = "echo $TUTTI_JOBID > number; while [ ! -e go ]; do sleep 0.05; done";
    let mut mpiexec = program("mpiexec");
    mpiexec.args(["-n", "1", "--name", "beside", "sh", "-c", script]);
    mpiexec.env_remove("TUTTI_DAEMON").env("TUTTI_DIR", kept.folder("run")).current_dir(kept.folder("."));
    let mut mpiexec = mpiexec.spawn().expect("mpiexec");
    await_that("it takes part", || kept.tutti(&["ps"]).stdout.contains("beside"));
    // Its rank begins meanwhile.
    await_that("it has written its number", || kept.read("number").ends_with('\n'));
    assert_eq!(kept.read("number"), "2\n");
    let rows = kept.tutti(&["ps", "--json"]).expect_success().stdout;
    let rows: serde_json::Value = serde_json::from_str(&rows).expect("JSON");
    let row = rows.as_array().expect("a list").iter().find(|row| row["name"] == "beside");
    assert_eq!(row.expect("it is there")["job"], 2, "{rows}");
    std::fs::write(kept.folder("go"), "").expect("a file");
    assert!(mpiexec.wait().expect("our child").success());
    kept.tutti(&["run", "-n", "1", "true"]).expect_success();
    kept.await_state("3", "over");
}

#[test]
fn keeping_two_daemons_of_a_name_do_not_write_into_one_state_folder() {
    let kept = Kept::start("keeping-one-state", &[]);
    let other = |name: &str| {
        let mut command = program("tuttid");
        command.args(["--listen", "127.0.0.1:0", "--name", name, "--dir"]).arg(kept.folder("other"));
        command.arg("--state").arg(kept.folder("state")).env_remove("TUTTI_DAEMON");
        tutti_tests::run(&mut command, LIMIT)
    };
    let ran = other("keeper");
    assert!(ran.code() == 1 && ran.stderr.contains("--state or TUTTI_STATE names another folder"), "{ran}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran}");
    let ran = other("another");
    let holder = "the controller of another cluster (pid ";
    let is_named = ran.stderr.contains(holder) && ran.stderr.contains(") has its logs in ");
    assert!(ran.code() == 1 && is_named, "{ran}");
    assert!(kept.tutti(&["nodes"]).expect_success().stdout.contains(" up "), "the first one goes on");
}

#[test]
fn keeping_folder_of_a_daemon_is_name_enough_for_commands() {
    let kept = Kept::start("keeping-folder-named", &[]);
    let mut command = program("tutti");
    command.arg("nodes").env("TUTTI_DAEMON", kept.folder("run"));
    let ran = tutti_tests::run(&mut command, LIMIT);
    assert!(ran.expect_success().stdout.contains(" up "));
}

#[test]
fn keeping_folder_that_cannot_be_used_is_named_with_its_own_option() {
    let scratch = Scratch::new("keeping-no-folder");
    let file = scratch.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let open = scratch.path().join("open");
    std::fs::create_dir(&open).expect("a folder");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&open, everybody).expect("its mode");
    for (wrong, why) in [(&file, "a file is there, no folder"), (&open, "is not this user's alone")] {
        for (option, other) in [("--state", "--dir"), ("--dir", "--state")] {
            let mut command = program("tuttid");
            command
                .args(["--listen", "127.0.0.1:0", other])
                .arg(scratch.path().join("good"))
                .arg(option)
                .arg(wrong);
            let ran = tutti_tests::run(&mut command, LIMIT);
            assert!(ran.code() == 1 && ran.stderr.contains(why), "{option}: {ran}");
            assert!(ran.stderr.contains(&format!("; {option} names another one")), "{option}: {ran}");
        }
    }
}
