//! The keeper: a process beside the starter that ends what is left of a job whose mpiexec and starter were
//! killed at once. Then the ranks die by their parent-death signal, but no other process knows of their
//! children.
//!
//! ```text
//! starter --clone3(CLONE_PARENT)--> keeper, in a session of its own, with one end of a pipe and a pidfd of mpiexec
//!    |-- a byte: the job is over ----> leaves
//!    '-- end of file: killed --------> waits for mpiexec's end (it cleans up, and ends the keeper too), then
//!                                      kills the cgroup and removes it, and whoever has the job's number in its environment,
//!                                      and removes the job's folders
//! ```
//!
//! It is mpiexec's child, not the starter's, so that it is none of the job's descendants. Two things escape
//! it: a process outside of a cgroup that has cleared its environment, and everything if the keeper is killed
//! as well.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use tutti_os::cgroup;

/// How long the starter waits for a keeper that it has sent away.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// How long a process may be in the middle of execve.
const EXEC_MAX: Duration = Duration::from_secs(1);
/// How long processes that were killed may take to die.
const DEATH_MAX: Duration = Duration::from_secs(10);
/// Where `/proc/PID/stat` has the end of the environment, counted from 1 as proc_pid_stat(5) does.
const ENV_END_FIELD: usize = 51;

/// The starter's end.
#[derive(Debug)]
pub struct Keeper {
    pipe: OwnedFd,
    process: OwnedFd,
}

impl Keeper {
    /// Begins to watch over the job with this number; `front_end` is the pid of its mpiexec, `folders` are
    /// those that the job may make. `None` where the kernel makes no such process: then the job has no
    /// keeper.
    pub fn start(job: u64, front_end: u32, cgroup: Option<&Path>, folders: &[PathBuf]) -> Option<Self> {
        let (watched, pipe) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let front_end = Pid::from_raw(front_end.cast_signed())?;
        let front_end = pidfd_open(front_end, PidfdFlags::empty()).ok()?;
        let mark = format!("TUTTI_JOB={job:016x}").into_bytes();
        let cgroup = cgroup.map(PathBuf::from);
        let process = tutti_os::fork_sibling(|| {
            tutti_os::hide_process(c"tutti-keeper", [&watched, &front_end]);
            if keep(&watched, &front_end, &mark, cgroup.as_deref()) {
                remove_own(folders);
            }
        });
        Some(Keeper { pipe, process: process.ok()? })
    }

    /// The job is over, and nothing of it is left.
    pub fn dismiss(self) {
        let _ = rustix::io::write(&self.pipe, b"d");
        await_input(&self.process, Some(LEAVE_MAX));
    }
}

/// Waits until the job is over, and ends what is left of it. Whether the starter was killed.
fn keep(watched: &OwnedFd, front_end: &OwnedFd, mark: &[u8], cgroup: Option<&Path>) -> bool {
    await_input(watched, None);
    let mut byte = [0];
    if rustix::io::read(watched, &mut byte) == Ok(1) {
        return false;
    }
    await_input(front_end, None);
    cgroup.iter().for_each(|path| cgroup::remove(path));
    let begin = Instant::now();
    loop {
        let at_most = match kill_marked(mark) {
            Seen::Marked => DEATH_MAX,
            Seen::Unknown => EXEC_MAX,
            Seen::None => break,
        };
        if begin.elapsed() >= at_most {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Removes folders that belong to the user of this process; one of another user with such a name stays.
fn remove_own(folders: &[PathBuf]) {
    let own = rustix::process::geteuid().as_raw();
    for folder in folders {
        let is_own = |about: std::fs::Metadata| about.is_dir() && about.uid() == own;
        if std::fs::symlink_metadata(folder).is_ok_and(is_own) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Waits until there is something to read or the other end is gone.
fn await_input(descriptor: &OwnedFd, at_most: Option<Duration>) {
    let timeout = at_most.map(|time| Timespec::try_from(time).expect("a short time"));
    let mut polled = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
    while poll(&mut polled, timeout.as_ref()) == Err(rustix::io::Errno::INTR) {}
}

/// Result of a look at all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// None with the mark.
    None,
    /// One in the middle of execve, which may have the mark behind it.
    Unknown,
    /// One with the mark.
    Marked,
}

/// Kills every process that has `mark` in its environment.
fn kill_marked(mark: &[u8]) -> Seen {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let mut seen = Seen::None;
    for pid in pids {
        // The descriptor first: what is read then is of the process that it names, or the signal goes
        // nowhere.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        // What may not be read is of another user, or would not be readable behind its execve either.
        let Ok(environment) = std::fs::read(path) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
            seen = Seen::Marked;
            let _ = pidfd_send_signal(&process, Signal::KILL);
        } else if environment.is_empty() && is_in_execve(pid) {
            seen = seen.max(Seen::Unknown);
        }
    }
    seen
}

/// Whether a process has memory and no place for its environment yet. Kernel threads and zombies have no
/// memory; one that was started with an empty environment has a place for it.
fn is_in_execve(pid: Pid) -> bool {
    let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    let has_memory = || {
        let pages = read("statm").unwrap_or_default();
        pages.split(' ').next().is_some_and(|pages| !pages.is_empty() && pages != "0")
    };
    std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).is_ok_and(|line| lacks_environment(&line))
        && has_memory()
}

/// Whether a line of `/proc/PID/stat` says that the environment has no place.
fn lacks_environment(line: &[u8]) -> bool {
    // The name may hold anything; the last parenthesis ends it, and the third field follows.
    let Some(name_end) = line.iter().rposition(|byte| *byte == b')') else { return false };
    let mut fields = line[name_end + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    fields.nth(ENV_END_FIELD - 3) == Some(b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeper_kills_only_processes_of_its_job() {
        let start = |number: &str| {
            std::process::Command::new("sleep").arg("60").env("TUTTI_JOB", number).spawn().unwrap()
        };
        let number = format!("{:016x}", std::process::id());
        let (mut own, mut other) = (start(&number), start(&format!("{number}0")));
        let mark = format!("TUTTI_JOB={number}").into_bytes();
        // Between fork and exec the child still has our environment.
        while kill_marked(&mark) != Seen::Marked {}
        assert!(!own.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn keeper_removes_folders_and_what_is_in_them_but_follows_no_link() {
        let place = std::env::temp_dir().join(format!("tutti-keeper-{}", std::process::id()));
        let (folder, elsewhere, link) = (place.join("job"), place.join("elsewhere"), place.join("link"));
        std::fs::create_dir_all(folder.join("session")).unwrap();
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::fs::write(folder.join("session/socket"), "").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        remove_own(&[folder.clone(), link, place.join("none")]);
        let is_left = (folder.exists(), elsewhere.exists());
        std::fs::remove_dir_all(&place).unwrap();
        assert_eq!(is_left, (false, true));
    }

    #[test]
    fn keeper_waits_for_no_process_without_variables() {
        let mut bare = std::process::Command::new("sleep").arg("60").env_clear().spawn().unwrap();
        let pid = Pid::from_child(&bare);
        let environment = || std::fs::read(format!("/proc/{}/environ", bare.id())).unwrap();
        // Until it has left our environment, and its execve, behind.
        while !environment().is_empty() || is_in_execve(pid) {}
        let line = std::fs::read(format!("/proc/{}/stat", bare.id())).unwrap();
        assert!(!lacks_environment(&line), "{}", String::from_utf8_lossy(&line));
        bare.kill().unwrap();
        bare.wait().unwrap();
        assert!(!is_in_execve(pid));
    }

    /// Processes of other users, which may not be read, and kernel threads run here too.
    #[test]
    fn keeper_waits_for_no_process_that_is_not_in_execve() {
        let until = Instant::now() + DEATH_MAX;
        // Others may begin programs at any time, one after the other.
        while kill_marked(b"TUTTI_JOB=none of these") != Seen::None {
            assert!(Instant::now() < until, "one of them is taken for one in the middle of execve");
        }
    }

    #[test]
    fn keeper_looks_again_where_the_environment_has_no_place_yet() {
        let line = |name: &str, env_end: &str| {
            let mut fields = vec!["7"; 52];
            (fields[1], fields[2], fields[ENV_END_FIELD - 1]) = (name, "S", env_end);
            fields.join(" ").into_bytes()
        };
        for name in ["(cat)", "(a b)", "(a) S 0 0)", "()"] {
            assert!(lacks_environment(&line(name, "0")), "{name}");
            assert!(!lacks_environment(&line(name, "140723")), "{name}");
        }
        assert!(!lacks_environment(b"7 (cat) S 1") && !lacks_environment(b""));
    }
}
