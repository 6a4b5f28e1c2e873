//! Several unprivileged users on this machine, made by root for one test: uids that no machine has, a folder
//! of each, and programs that all of them can reach. [`Users`] ends every process of theirs and removes every
//! file, also when the test fails.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::{LIMIT, Ran, await_that, comes_true, dist, run, state_of};

/// The first uid. From here to 2^31 systemd, distributions and containers leave all uids unused.
const FIRST_UID: u32 = 1_880_000_000;
/// Each test process has so many of its own, so that limits per user and leftovers are its own too.
const UIDS_OF_A_PROCESS: u32 = 128;
/// Processes whose uids differ: no more than so many pids are in use at once.
const PROCESSES: u32 = 1 << 20;

/// How many of this process's have been given to tests.
static GIVEN: AtomicU32 = AtomicU32::new(0);

/// Users of one test.
pub struct Users {
    uids: Vec<u32>,
    root: PathBuf,
    programs: PathBuf,
}

impl Users {
    /// None, with a line, when this is not root.
    ///
    /// # Panics
    /// When a folder cannot be made.
    pub fn new(name: &str, count: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            tutti_testkit::skip(tutti_testkit::Need::Root, "only root can be several users");
            return None;
        }
        let first = GIVEN.fetch_add(count, Ordering::Relaxed);
        assert!(first + count <= UIDS_OF_A_PROCESS, "one test process has {UIDS_OF_A_PROCESS} users");
        let first = FIRST_UID + std::process::id() % PROCESSES * UIDS_OF_A_PROCESS + first;
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir(&root).expect("a folder");
        std::fs::set_permissions(&root, PermissionsExt::from_mode(0o755)).expect("it is ours");
        let mut users = Users { uids: (first..first + count).collect(), root, programs: dist() };
        for uid in &users.uids {
            std::fs::create_dir(users.folder(*uid)).expect("a folder");
            chown(users.folder(*uid), Some(*uid), Some(*uid)).expect("it is ours");
        }
        let reached = users.command(users.uids[0], "tutti", &["--version"]).output();
        if !reached.is_ok_and(|ran| ran.status.success()) {
            users.copy_programs();
        }
        Some(users)
    }

    /// The source tree may be where others have no access.
    fn copy_programs(&mut self) {
        let to = self.root.join("dist");
        let mut copy = Command::new("cp");
        copy.arg("--recursive").arg("--no-dereference").arg(&self.programs).arg(&to);
        assert!(copy.status().is_ok_and(|status| status.success()), "a copy of the programs");
        self.programs = to;
    }

    /// Uids of the users, each also the gid of its user.
    pub fn uids(&self) -> &[u32] {
        &self.uids
    }

    /// A folder that all of them can reach and none of them can write.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a user: its origin, and where its own daemon's files are.
    pub fn folder(&self, uid: u32) -> PathBuf {
        self.root.join(uid.to_string())
    }

    /// The installation tree that they use.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// A copy of a program of the test's that all of them can execute.
    ///
    /// # Panics
    /// When it cannot be copied.
    pub fn reachable(&self, program: &Path) -> PathBuf {
        let copy = self.root.join(program.file_name().expect("a file"));
        std::fs::copy(program, &copy).expect("a copy");
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).expect("it is ours");
        copy
    }

    /// Any command, by a user, in its folder, with nothing of root's but the environment.
    pub fn foreign(&self, uid: u32, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.uid(uid).gid(uid).current_dir(self.folder(uid)).env("HOME", self.folder(uid));
        command.env_remove("XDG_RUNTIME_DIR").env_remove("TUTTI_DAEMON").env("TUTTI_DIR", self.folder(uid));
        command
    }

    /// A program of the installation tree, by a user, who has no daemon but its own.
    pub fn command(&self, uid: u32, name: &str, words: &[&str]) -> Command {
        let mut command = self.foreign(uid, self.programs.join("bin").join(name));
        command.args(words);
        command
    }

    /// `tutti` with these words, by a user, to its end.
    #[track_caller]
    pub fn tutti(&self, uid: u32, words: &[&str]) -> Ran {
        run(&mut self.command(uid, "tutti", words), LIMIT)
    }

    /// A command that is refused with one line.
    ///
    /// # Panics
    /// When it is not.
    #[track_caller]
    pub fn refused(&self, command: &mut Command, why: &str) {
        let ran = run(command, LIMIT);
        assert_eq!((ran.code(), ran.stderr.lines().count()), (1, 1), "{command:?}: {ran}");
        assert!(ran.stderr.contains(why) && ran.stdout.is_empty(), "{command:?}: {ran}");
    }

    /// The folder of the daemon that a user's `mpiexec` has started.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn on_demand(&self, uid: u32) -> PathBuf {
        let mut entries = std::fs::read_dir(self.folder(uid)).expect("its folder").flatten();
        entries.find(|entry| entry.file_name().to_string_lossy().starts_with("local-")).expect("one").path()
    }

    /// All processes of a user, zombies too.
    ///
    /// # Panics
    /// Without /proc.
    pub fn processes(&self, uid: u32) -> Vec<Pid> {
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let own = entries.filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == uid));
        own.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    /// All processes of a user, also those that it may not look into, whose folders are root's.
    ///
    /// # Panics
    /// Without /proc.
    pub fn processes_by_status(&self, uid: u32) -> Vec<Pid> {
        let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        pids.filter(|pid| tutti_os::stat::owner(*pid) == Some(uid)).collect()
    }

    /// Ends every process of theirs. A user's fork bomb is stopped first as a whole, so that it cannot outrun
    /// this.
    fn end_all(&self) {
        let living = |uid: u32| {
            let all = self.processes(uid).into_iter();
            all.filter(|pid| state_of(*pid).is_some_and(|state| state != 'Z')).collect::<Vec<Pid>>()
        };
        for uid in &self.uids {
            // As the user itself: the kernel reaches all of its processes in one call, and no other.
            let kill = || self.foreign(*uid, "sh").args(["-c", "kill -9 -1"]).stderr(Stdio::null()).status();
            let is_over = || {
                if !living(*uid).is_empty() {
                    let _ = kill();
                    for pid in living(*uid) {
                        let _ = kill_process(pid, Signal::KILL);
                    }
                }
                living(*uid).is_empty()
            };
            if std::thread::panicking() {
                let _ = comes_true(is_over);
            } else {
                await_that("no process of the users is left", is_over);
            }
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        for pid in daemons(&self.root) {
            let _ = kill_process(pid, Signal::TERM);
            let _ = comes_true(|| state_of(pid).is_none_or(|state| state == 'Z'));
        }
        self.end_all();
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Daemons whose files are in this folder.
///
/// # Panics
/// Without /proc.
pub fn daemons(folder: &Path) -> Vec<Pid> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let ours = entries.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).next().is_some_and(|word| word.ends_with(b"tuttid"))
            && line.windows(folder.len()).any(|part| part == folder)
    });
    ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}
