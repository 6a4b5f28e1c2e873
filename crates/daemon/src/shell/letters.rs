//! Letters about jobs that wait to be sent, and the command of the keeper that sends one.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io::{Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tutti_os::{Entry, EntryFailure, Identity, fork_starter};

use super::orphans::{KILLED_MAX, Wards, await_end_blocking};
use super::script_files::{SEARCHED, checked};
use crate::core::action::Letter;

/// Letters that are sent at a time.
const RUNNING_MAX: usize = 4;
/// Letters that wait.
pub(super) const WAITING_MAX: usize = 1000;
/// A command that is not over after so long is killed.
const SEND_MAX: Duration = Duration::from_secs(60);

/// Letters that are being sent or wait for that.
#[derive(Debug, Default)]
pub(super) struct Mails {
    running: usize,
    waiting: VecDeque<Letter>,
    /// Whether the log has that some were dropped, since there was room last.
    is_full: bool,
}

impl Mails {
    /// Takes a letter; `false`: there is no room.
    pub(super) fn put(&mut self, letter: Letter) -> bool {
        let has_room = self.waiting.len() < WAITING_MAX;
        if has_room {
            self.waiting.push_back(letter);
        }
        has_room
    }

    /// Whether this is the first time that there is no room, since there was.
    pub(super) fn is_full_now(&mut self) -> bool {
        !std::mem::replace(&mut self.is_full, true)
    }

    /// A letter has been sent, or not.
    pub(super) fn end(&mut self) {
        self.running -= 1;
    }

    /// The letter that is to be sent next.
    pub(super) fn take(&mut self) -> Option<Letter> {
        let letter = self.waiting.pop_front_if(|_| self.running < RUNNING_MAX)?;
        self.running += 1;
        self.is_full = false;
        Some(letter)
    }
}

/// A command that sends a letter.
pub(super) struct Sending {
    pid: Pid,
    process: OwnedFd,
    failed: OwnedFd,
    wards: Wards,
}

impl Sending {
    /// Starts it, in the thread that starts all.
    pub(super) fn start(command: &Path, letter: &Letter, wards: &Wards) -> Result<Self, String> {
        let me = rustix::process::geteuid().as_raw();
        let user = letter.user;
        if user.uid != me && me != 0 {
            return Err("this daemon is not root: it sends mail of its owner only".into());
        }
        let whole = checked(command).map_err(|why| format!("{}: {why}", command.display()))?;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let body = rustix::fs::memfd_create("tutti-mail", MemfdFlags::CLOEXEC).map_err(|e| text(&e))?;
        let mut body = std::fs::File::from(body);
        body.write_all(letter.text.as_bytes()).and_then(|()| body.rewind()).map_err(|e| text(&e))?;
        let null = std::fs::File::options().write(true).open("/dev/null").map_err(|e| text(&e))?;
        let (failed, failed_end) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|e| text(&e))?;
        let zero_ended = |bytes: &[u8]| CString::new(bytes).map_err(|_| "a zero byte is in it".to_owned());
        let file = zero_ended(whole.as_os_str().as_bytes())?;
        // Some programs go by the name under which they are called.
        let called = zero_ended(command.as_os_str().as_bytes())?;
        let name = crate::accounts::name(user.uid).unwrap_or_else(|| user.uid.to_string());
        let environment = [format!("PATH={SEARCHED}"), format!("USER={name}"), format!("LOGNAME={name}")];
        let environment: Result<Vec<_>, _> =
            environment.iter().map(|pair| zero_ended(pair.as_bytes())).collect();
        let entry = Entry {
            arguments: &[
                called,
                c"-s".to_owned(),
                zero_ended(letter.subject.as_bytes())?,
                zero_ended(letter.to.as_bytes())?,
            ],
            file: &file,
            environment: &environment?,
            directory: c"/",
            umask: 0o077,
            input: body.as_fd(),
            output: null.as_fd(),
            errors: null.as_fd(),
            identity: (user.uid != me).then_some(Identity {
                uid: user.uid,
                gid: user.gid,
                groups: &letter.groups,
            }),
            session: None,
            cores: None,
            cgroup: None,
            groups: &[],
            failure: failed_end.as_fd(),
        };
        let (pid, process) = fork_starter(&entry).map_err(|e| text(&e))?;
        wards.add(pid.as_raw_nonzero().get() as u32);
        Ok(Sending { pid, process, failed, wards: wards.clone() })
    }

    /// Waits for its end; the error is a line that says how it has failed.
    pub(super) fn finish_blocking(self) -> Result<(), String> {
        let number = self.pid.as_raw_nonzero().get() as u32;
        let is_over = await_end_blocking(&self.process, SEND_MAX);
        if !is_over {
            // The leader of a session, whose number is its own until its status is taken.
            let _ = kill_process_group(self.pid, Signal::KILL);
            if !await_end_blocking(&self.process, KILLED_MAX) {
                self.wards.give_up(number);
                return Err("its command does not end".into());
            }
        }
        let status = waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED);
        self.wards.remove(number);
        if !is_over {
            return Err(format!("its command was not over after {} s", SEND_MAX.as_secs()));
        }
        let mut bytes = [0; EntryFailure::BYTES];
        let failure = rustix::io::read(&self.failed, &mut bytes).ok();
        if let Some(failure) = failure.and_then(|read| EntryFailure::decode(&bytes[..read])) {
            let error = std::io::Error::from_raw_os_error(failure.errno);
            return Err(format!("its command cannot be started: {error}"));
        }
        match status.ok().flatten().map(|status| status.exit_status()) {
            Some(Some(0)) => Ok(()),
            Some(Some(code)) => Err(format!("its command ended with status {code}")),
            _ => Err("its command was killed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{JobId, User};

    fn letter(job: u64) -> Letter {
        let (user, groups) = (User::new(5, 5), Vec::new());
        let (to, subject, text) = ("a".into(), "s".into(), "t".into());
        Letter { job: JobId(job), user, groups, to, subject, text }
    }

    #[test]
    fn letters_wait_for_those_before_them_and_are_bounded() {
        let mut mails = Mails::default();
        for job in 0..WAITING_MAX as u64 {
            assert!(mails.put(letter(job)));
        }
        assert!(!mails.put(letter(7)));
        let taken: Vec<_> = std::iter::from_fn(|| mails.take()).map(|letter| letter.job.0).collect();
        assert_eq!(taken, (0..RUNNING_MAX as u64).collect::<Vec<_>>());
        mails.end();
        assert_eq!(mails.take().map(|letter| letter.job.0), Some(RUNNING_MAX as u64));
        assert!(mails.take().is_none());
    }
}
