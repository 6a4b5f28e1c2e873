//! Runner of a keeper's script: a process between a daemon and the script, which is there for the time after
//! the daemon is killed. The program `tuttid` is it when it is called by the name [`NAME`].
//!
//! ```text
//! tuttid --stdin is a pipe that tuttid alone can write--> runner --> the script, and what it starts
//!    the script ends:        the runner ends as it did
//!    the daemon is gone:     a prolog is killed with all below it; an epilog goes on
//!    the time is long over:  all are killed
//! ```
//!
//! A daemon that lives counts the time itself, and kills the runner's group of processes, to which the script
//! belongs. The runner adopts whatever leaves that group, so nothing of a script outlives it. It has the
//! environment of the script, which it hands on.

use std::ffi::{OsStr, OsString};
use std::io::stdin;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, kill_process, pidfd_open, set_child_subreaper,
    setrlimit,
};
use tutti_os::descendants;
use tutti_os::stderr::print_line;

/// Name by which the program is called, as the first word of its command line.
const NAME: &str = "tutti-script";
/// Time that a daemon has to kill a script that is late, before its runner does.
const GRACE: Duration = Duration::from_secs(10);
/// Exit status of a script that cannot be executed, as shells have it.
const NOT_EXECUTED: u8 = 127;

/// End of a script when its daemon is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphaned {
    /// Killed: the next daemon begins it anew.
    Killed,
    /// Going on until its time is over.
    GoesOn,
}

/// The command that runs a script under a runner. The caller adds environment, a pipe for stdin that nobody
/// else can write, and outputs.
pub fn command(file: &Path, called: &Path, most: Duration, orphaned: Orphaned) -> Command {
    let mut command = Command::new("/proc/self/exe");
    let orphaned = match orphaned {
        Orphaned::Killed => "killed",
        Orphaned::GoesOn => "goes-on",
    };
    command.arg0(NAME).arg(most.as_millis().to_string()).arg(orphaned).arg(called).arg(file);
    command.process_group(0).current_dir("/");
    command
}

/// Runs a script, if these words are a runner's; gives the end of it. For the first lines of `main`.
pub fn try_run_blocking(mut words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    words.next().filter(|name| name == NAME)?;
    let words: Vec<OsString> = words.collect();
    let [most, orphaned, called, file] = &words[..] else { return Some(ExitCode::from(NOT_EXECUTED)) };
    let most = most.to_str().and_then(|text| text.parse().ok()).map(Duration::from_millis);
    let orphaned = if orphaned == "killed" { Orphaned::Killed } else { Orphaned::GoesOn };
    Some(run_blocking(called, file, most.unwrap_or_default() + GRACE, orphaned))
}

fn run_blocking(called: &OsStr, file: &OsStr, most: Duration, orphaned: Orphaned) -> ExitCode {
    let _ = rustix::thread::set_name(c"tutti-script");
    tutti_os::oom::give_up_protection();
    let started = set_child_subreaper(Some(getpid())).map_err(std::io::Error::from);
    let started = started.and_then(|()| Command::new(file).arg0(called).stdin(Stdio::null()).spawn());
    let child = match started {
        Ok(child) => child,
        Err(error) => {
            print_line(format_args!("{error}"));
            return ExitCode::from(NOT_EXECUTED);
        }
    };
    match await_blocking(child, most, orphaned) {
        Some(status) => end_as(status),
        None => {
            descendants::end_all(None, || ());
            end_as(ExitStatus::from_raw(Signal::KILL.as_raw()))
        }
    }
}

/// Waits for the end of the script; none: it is to be killed.
fn await_blocking(mut child: Child, most: Duration, orphaned: Orphaned) -> Option<ExitStatus> {
    let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok()?;
    // More than a clock can count is for ever.
    let deadline = Instant::now().checked_add(most);
    let mut has_daemon = true;
    loop {
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if rest == Some(Duration::ZERO) {
            return None;
        }
        let timeout = rest.and_then(|rest| Timespec::try_from(rest).ok());
        let stdin = stdin();
        let both = [
            PollFd::new(&process, PollFlags::IN),
            // Its other end is the daemon's: nothing is ever written.
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        ];
        let mut polled = Vec::from(both);
        polled.truncate(1 + usize::from(has_daemon));
        if poll(&mut polled, timeout.as_ref()).is_err() {
            continue;
        }
        if !polled[0].revents().is_empty() {
            return child.wait().ok();
        }
        if polled.get(1).is_some_and(|daemon| !daemon.revents().is_empty()) {
            has_daemon = false;
            if orphaned == Orphaned::Killed {
                return None;
            }
        }
    }
}

/// Ends this process as another one has ended.
fn end_as(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(Signal::from_named_raw) {
        // Whose core it would be is not the script's.
        let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
        let _ = kill_process(getpid(), signal);
    }
    ExitCode::from(status.code().map_or(NOT_EXECUTED, |code| code as u8))
}
