//! Properties that a job inherits from its user's session: limits, priorities, cores, and capabilities that
//! it may never regain. The daemon at whose socket a job is submitted asks the kernel about the process at
//! the other end ([`Session::of`]); claims of the user do not count. Every node's daemon starts its part of
//! the job with that and never above it ([`crate::fork_starter`]).
//!
//! Everything is read below one descriptor of `/proc/PID`, and the process is alive before and after. So all
//! of it belongs to one process, whose number was not reused.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

/// The lines of `/proc/PID/limits`, in the order of the kernel's numbers (`RLIMIT_CPU` is 0).
const LIMITS: [&str; 16] = [
    "Max cpu time",
    "Max file size",
    "Max data size",
    "Max stack size",
    "Max core file size",
    "Max resident set",
    "Max processes",
    "Max open files",
    "Max locked memory",
    "Max address space",
    "Max file locks",
    "Max pending signals",
    "Max msgqueue size",
    "Max nice priority",
    "Max realtime priority",
    "Max realtime timeout",
];
/// No file that is read here is longer.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// The kernel's view of a process that submits a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Soft and hard limits, by the kernel's numbers.
    pub limits: Vec<(u64, u64)>,
    /// From -20 to 19.
    pub nice: i32,
    /// `SCHED_OTHER`, `SCHED_BATCH` or `SCHED_IDLE`. A session in real time counts as a usual one: jobs take
    /// turns.
    pub policy: i32,
    /// As from `ioprio_get`.
    pub io_priority: i32,
    /// How soon it is killed when there is no memory, from -1000 to 1000.
    pub oom_score_adjustment: i32,
    /// A program that it executes gains nothing (`PR_SET_NO_NEW_PRIVS`).
    pub no_new_privileges: bool,
    /// Capabilities that a program of its may ever have.
    pub bounding: u64,
    /// The cores that it may use, as `0-3,8`.
    pub cores: String,
    /// The machine that has these cores.
    pub machine: String,
}

impl Session {
    /// Session of this process on this machine; `pidfd` is the same process.
    ///
    /// # Errors
    /// When it has ended, or the kernel does not tell.
    pub fn of(pid: Pid, pidfd: BorrowedFd<'_>, machine: &str) -> io::Result<Self> {
        let path = format!("/proc/{}", pid.as_raw_nonzero());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, path, flags, Mode::empty())?;
        let read = || -> io::Result<Option<Self>> {
            let (limits, status) = (read(&folder, "limits")?, read(&folder, "status")?);
            let stat = read(&folder, "stat")?;
            let oom = read(&folder, "oom_score_adj")?;
            let io_priority = crate::io_priority(pid)?;
            let parsed = || {
                let (nice, policy) = scheduling(&stat)?;
                Some(Session {
                    limits: parse_limits(&limits)?,
                    nice,
                    policy,
                    io_priority,
                    oom_score_adjustment: oom.trim().parse().ok()?,
                    no_new_privileges: field(&status, "NoNewPrivs:")? != "0",
                    bounding: u64::from_str_radix(field(&status, "CapBnd:")?, 16).ok()?,
                    cores: field(&status, "Cpus_allowed_list:")?.to_owned(),
                    machine: machine.to_owned(),
                })
            };
            Ok(parsed())
        };
        let found = read();
        if !is_alive(pidfd) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        found?.ok_or_else(|| io::Error::other("its files in /proc are not those of a Linux that we know"))
    }
}

/// Whether the process has not ended.
fn is_alive(pidfd: BorrowedFd<'_>) -> bool {
    crate::look(&mut [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)]) == Ok(0)
}

fn read(folder: &OwnedFd, name: &str) -> io::Result<String> {
    let file = openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(std::fs::File::from(file), FILE_BYTES_MAX), &mut bytes)?;
    // The name of a process need not be text.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// Nice and policy of a line of `/proc/PID/stat`.
fn scheduling(stat: &str) -> Option<(i32, i32)> {
    // The name may hold anything; the last parenthesis ends it. What follows is field 3.
    let mut fields = stat[stat.rfind(") ")? + 2..].split_ascii_whitespace();
    let nice = fields.nth(19 - 3)?.parse().ok()?;
    let policy: i32 = fields.nth(41 - 20)?.parse().ok()?;
    let is_usual = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE].contains(&policy);
    Some((nice, if is_usual { policy } else { libc::SCHED_OTHER }))
}

fn parse_limits(text: &str) -> Option<Vec<(u64, u64)>> {
    let limit = |name: &&str| {
        let mut words = text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace();
        let mut value = || match words.next()? {
            "unlimited" => Some(libc::RLIM_INFINITY),
            number => number.parse().ok(),
        };
        Some((value()?, value()?))
    };
    LIMITS.iter().map(limit).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use rustix::process::{PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn session_is_what_the_kernel_says_of_a_process() {
        let script = "ulimit -S -n 77; ulimit -H -n 99; ulimit -c 0; ulimit -S -s 4096; \
                      echo 300 > /proc/self/oom_score_adj; exec nice -n 3 taskset -c 0 sleep 60";
        let mut child = Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty()).unwrap();
        let own = Session::of(rustix::process::getpid(), own.as_fd(), "here").unwrap();
        let comm = format!("/proc/{}/comm", pid.as_raw_nonzero());
        while std::fs::read_to_string(&comm).unwrap() != "sleep\n" {
            std::thread::yield_now();
        }
        let found = Session::of(pid, pidfd.as_fd(), "here").unwrap();
        assert_eq!((found.limits[libc::RLIMIT_NOFILE as usize], found.nice), ((77, 99), own.nice + 3));
        assert_eq!(found.limits[libc::RLIMIT_CORE as usize], (0, 0));
        assert_eq!(found.limits[libc::RLIMIT_STACK as usize].0, 4 << 20);
        assert_eq!((found.oom_score_adjustment, found.cores.as_str()), (300, "0"));
        assert!(!found.no_new_privileges && found.bounding == own.bounding && found.machine == "here");
        child.kill().unwrap();
        child.wait().unwrap();
        let gone = Session::of(pid, pidfd.as_fd(), "here").unwrap_err().raw_os_error();
        assert!([Some(libc::ESRCH), Some(libc::ENOENT)].contains(&gone), "{gone:?}");
    }

    #[test]
    fn session_of_a_number_that_is_another_process_now_is_none() {
        let mut child = Command::new("true").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        child.wait().unwrap();
        let found = Session::of(rustix::process::getpid(), pidfd.as_fd(), "here");
        assert_eq!(found.unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn limits_and_scheduling_are_read_whatever_the_name() {
        let stat = "17 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 20 -5 1 0 99 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 \
                    17 1 0 3 0";
        assert_eq!(scheduling(stat), Some((-5, libc::SCHED_BATCH)));
        assert_eq!(scheduling(&stat.replace("17 1 0 3 0", "17 1 50 1 0")), Some((-5, libc::SCHED_OTHER)));
        assert_eq!(scheduling("17 (a S 1"), None);
        assert_eq!(parse_limits("Limit  Soft Limit\nMax cpu time  unlimited 7 seconds\n"), None);
    }
}
