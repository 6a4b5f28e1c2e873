//! Two users on one machine, neither of them root: each has a daemon of his own, both work, and neither can do anything to the other.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tutti_tests::{Ran, dist, run};

use crate::gangs::is_loop;
use crate::harness::{LIMIT, Running, await_that, state_of};

/// Users that no machine has.
const UIDS: [u32; 2] = [23_001, 23_002];

/// Programs and folders that both can reach; what lives in them ends with the test.
struct House {
    root: PathBuf,
    programs: PathBuf,
}

impl House {
    /// None, with a line, when this is not root.
    fn new(name: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can be two users");
            return None;
        }
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&root).expect("a folder");
        std::fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).expect("it is ours");
        let mut house = House { programs: dist(), root };
        for uid in UIDS {
            std::fs::create_dir(house.folder(uid)).expect("a folder");
            chown(house.folder(uid), Some(uid), Some(uid)).expect("it is ours");
        }
        let reached = house.command(UIDS[0], "tutti", &["--version"]).output();
        if !reached.is_ok_and(|ran| ran.status.success()) {
            house.copy_programs();
        }
        Some(house)
    }

    /// The source tree may stand where others may not look.
    fn copy_programs(&mut self) {
        let to = self.root.join("dist");
        for file in ["bin/tutti", "bin/tuttid", "libexec/tutti/tutti-starter"] {
            let copy = to.join(file);
            std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
            std::fs::copy(self.programs.join(file), copy).expect("a copy");
        }
        std::os::unix::fs::symlink("tutti", to.join("bin/mpiexec")).expect("a link");
        self.programs = to;
    }

    fn folder(&self, uid: u32) -> PathBuf {
        self.root.join(uid.to_string())
    }

    fn command(&self, uid: u32, name: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("bin").join(name));
        command.args(words).uid(uid).gid(uid).current_dir("/").env_remove("TUTTI_DAEMON");
        command.env_remove("XDG_RUNTIME_DIR").env("TUTTI_DIR", self.folder(uid));
        command
    }

    #[track_caller]
    fn tutti(&self, uid: u32, words: &[&str]) -> Ran {
        run(&mut self.command(uid, "tutti", words), LIMIT)
    }

    /// A command that is refused with one line.
    #[track_caller]
    fn refused(&self, command: &mut Command, why: &str) {
        let ran = run(command, LIMIT);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{command:?}: {ran}");
        assert!(ran.stderr.contains(why) && ran.stdout.is_empty(), "{command:?}: {ran}");
    }

    /// The folder of the daemon that his `mpiexec` has started.
    #[track_caller]
    fn on_demand(&self, uid: u32) -> PathBuf {
        let mut entries = std::fs::read_dir(self.folder(uid)).expect("his folder").flatten();
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with("local-")).expect("one").path()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        for pid in daemons(&self.root) {
            let _ = kill_process(pid, Signal::TERM);
            await_that("the daemon ends", || state_of(pid).is_none_or(|state| state == 'Z'));
        }
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Those whose files are in this folder.
fn daemons(folder: &Path) -> Vec<Pid> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let ours = entries.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).next().is_some_and(|word| word.ends_with(b"tuttid"))
            && line.windows(folder.len()).any(|part| part == folder)
    });
    ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

fn loops(job: &Running) -> Vec<Pid> {
    job.mark.processes().into_iter().filter(|pid| is_loop(*pid)).collect()
}

fn is_still(pids: &[Pid]) -> bool {
    pids.iter().all(|pid| {
        let frozen = || {
            crate::harness::cgroup_of(*pid)
                .is_some_and(|inner| inner.parent().is_some_and(crate::gangs::is_frozen))
        };
        state_of(*pid) == Some('T') || frozen()
    })
}

#[test]
fn w16_two_users_without_root_take_turns_and_cannot_touch_each_other() {
    let Some(house) = House::new("tutti-two-users") else { return };
    let words = ["-n", "2", "sh", "-c", "while :; do :; done"];
    let jobs = UIDS.map(|uid| Running::start_command(&mut house.command(uid, "mpiexec", &words)));
    for uid in UIDS {
        let running = || house.tutti(uid, &["ps", "--json"]).stdout.matches("\"running\"").count() == 1;
        await_that("each sees his own job", running);
    }
    let ranks = jobs.each_ref().map(|job| {
        await_that("its ranks work", || loops(job).len() == 2);
        loops(job)
    });
    await_turns(&ranks);
    // By signals or not: nobody stays stopped, and the next daemon takes part again.
    for daemon in daemons(&house.folder(UIDS[0])) {
        kill_process(daemon, Signal::KILL).expect("it lives");
    }
    await_turns(&ranks);
    touch_nothing(&house, &ranks[0]);
    end_one_after_the_other(&house, jobs, &ranks);
}

#[track_caller]
fn await_turns(ranks: &[Vec<Pid>; 2]) {
    for _ in 0..3 {
        await_that("the second waits for the first", || is_still(&ranks[1]) && !is_still(&ranks[0]));
        await_that("the first waits for the second", || is_still(&ranks[0]) && !is_still(&ranks[1]));
    }
}

#[track_caller]
fn end_one_after_the_other(house: &House, [first, second]: [Running; 2], ranks: &[Vec<Pid>; 2]) {
    let number = || {
        let listed = house.tutti(UIDS[0], &["ps", "--json"]).stdout;
        let listed: serde_json::Value = serde_json::from_str(&listed).ok()?;
        Some(listed[0]["job"].as_u64()?.to_string())
    };
    await_that("the next daemon knows it", || number().is_some());
    house.tutti(UIDS[0], &["kill", &number().expect("it runs")]).expect_success();
    assert_eq!(first.end().0, 137);
    let log = house.on_demand(UIDS[1]).join("tuttid.log");
    await_that("the second has the machine alone", || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("no other user's jobs share this machine"))
    });
    await_that("it goes on", || !is_still(&ranks[1]));
    second.signal(Signal::INT);
    assert_eq!(second.end().0, 130);
}

/// What the second user tries with the first one's job.
#[track_caller]
fn touch_nothing(house: &House, ranks: &[Pid]) {
    let socket = house.on_demand(UIDS[0]).join("tuttid.sock");
    for words in
        [&["ps"][..], &["kill", "1"], &["suspend", "1"], &["attach", "1"], &["logs", "1"], &["submit", "id"]]
    {
        let mut command = house.command(UIDS[1], "tutti", words);
        house.refused(command.env("TUTTI_DAEMON", &socket), "another user's");
    }
    let pid = ranks[0].as_raw_nonzero();
    for script in [
        format!("kill -9 {pid}"),
        format!("kill -STOP {pid}"),
        format!("cat /proc/{pid}/environ"),
        format!("ls /proc/{pid}/fd/"),
        format!(
            "cat {0}/tuttid.log || cat {0}/cluster.key || ls {0}",
            socket.parent().expect("a folder").display()
        ),
    ] {
        let mut shell = Command::new("sh");
        let ran = run(shell.args(["-c", &script]).uid(UIDS[1]).gid(UIDS[1]).current_dir("/"), LIMIT);
        assert!(!ran.status.success() && ran.stdout.is_empty(), "{script}: {ran}");
    }
    assert!(ranks.iter().all(|pid| state_of(*pid).is_some_and(|state| state != 'Z')), "they live");
}

#[test]
fn what_belongs_to_another_user_is_not_used_and_named_in_one_line() {
    let Some(house) = House::new("tutti-stranger") else { return };
    let [user, stranger] = UIDS;
    // He has a daemon where ours would be, and lets everybody in.
    let place = house.folder(stranger);
    let words = ["--listen", "127.0.0.1:0", "--dir", &place.display().to_string()];
    let mut daemon = house.command(stranger, "tuttid", &words).spawn().expect("tuttid");
    await_that("it lives", || place.join("tuttid.sock").exists());
    let at_his = |name: &str, words: &[&str]| {
        let mut command = house.command(user, name, words);
        command.env("TUTTI_DIR", &place);
        command
    };
    for words in [&["ps"][..], &["submit", "id"], &["down"]] {
        let why = format!("is user {stranger}'s, who is neither you nor root: it is not asked");
        house.refused(&mut at_his("tutti", words), &why);
    }
    house.refused(&mut at_his("tutti", &["up"]), "is not ours alone");
    // A job needs nobody.
    let mut shell = Command::new("bash");
    shell.uid(user).gid(user).current_dir("/").env_remove("TUTTI_DAEMON").env("TUTTI_DIR", &place);
    let mpiexec = house.programs.join("bin/mpiexec");
    let (ran, said) = crate::on_demand::run_without_turns(&mut shell, &mpiexec, &house.folder(user), "id -u");
    assert_eq!(ran.stdout, "23001\n23001\n", "{ran}");
    assert!(said.contains("the job runs without turns: "), "{said}");
    let ran = run(&mut at_his("tutti", &["run", "-n", "1", "id", "-u"]), LIMIT);
    assert_eq!(ran.expect_success().stdout, "23001\n");
    daemon.kill().expect("it lives");
    daemon.wait().expect("it was ours");
}
