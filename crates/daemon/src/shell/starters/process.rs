//! Process of a starter that this daemon has started: how it ends, and why it never became one.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};
use tutti_os::{EntryFailure, EntryStep};

use crate::shell::orphans::await_end_blocking;

/// A process that this daemon has started.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    pidfd: OwnedFd,
    /// Where it says that it could not become a starter.
    failed: OwnedFd,
    /// Where it was to begin, for people, and as whom.
    directory: String,
    uid: u32,
}

impl Process {
    /// Process `pid` of this daemon, which says by `failed` why it cannot become a starter. For people: the
    /// directory in which it was to begin, and as whom.
    pub(super) fn new(pid: u32, pidfd: OwnedFd, failed: OwnedFd, directory: String, uid: u32) -> Self {
        Process { pid, pidfd, failed, directory, uid }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn uid(&self) -> u32 {
        self.uid
    }

    /// How it has died; none: it has not, in so much time.
    pub(super) fn wait_blocking(&self, most: Duration) -> Option<Death> {
        if !await_end_blocking(&self.pidfd, most) {
            return None;
        }
        Some(match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
            Ok(Some(status)) => {
                // As `wait` has it.
                let code = status.exit_status().map(|code| code << 8);
                let code = code.or(status.terminating_signal()).unwrap_or_default();
                let is_killed = status.terminating_signal() == Some(Signal::KILL.as_raw());
                Death { text: ExitStatus::from_raw(code).to_string(), is_killed }
            }
            Ok(None) => Death { text: "it ended".into(), is_killed: false },
            Err(error) => Death { text: error.to_string(), is_killed: false },
        })
    }

    /// Why it never was a starter; none: it was one. For when it is dead.
    pub(super) fn failure(&self, starter: &Path, node: &str) -> Option<String> {
        let mut bytes = [0; EntryFailure::BYTES];
        let read = rustix::io::read(&self.failed, &mut bytes).ok()?;
        let EntryFailure { step, errno } = EntryFailure::decode(&bytes[..read])?;
        let what = match step {
            EntryStep::Groups => "enter the groups of its limits".into(),
            EntryStep::Detach => "begin a session".into(),
            EntryStep::Keyring => "make a keyring".into(),
            EntryStep::Session => "set the limits of the session".into(),
            EntryStep::Identity => "take the identity".into(),
            EntryStep::Directory => format!("enter the directory {}", self.directory),
            EntryStep::Execute => format!("execute {}", starter.display()),
        };
        let (uid, error) = (self.uid, std::io::Error::from_raw_os_error(errno));
        Some(format!("cannot {what} as user {uid} on node {node}: {error}"))
    }
}

/// How a starter has died.
#[derive(Debug)]
pub(super) struct Death {
    /// For people.
    pub text: String,
    /// By SIGKILL, and not by us; also where that cannot be known.
    pub is_killed: bool,
}
