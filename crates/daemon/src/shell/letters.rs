//! Letters about jobs that wait to be sent, and the command of the keeper that sends one.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::io::{Seek, Write};
use std::ops::Bound;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_send_signal, waitid};
use tutti_os::{Entry, EntryFailure, Identity, fork_starter};

use super::orphans::{KILLED_MAX, Wards, await_end_blocking};
use super::script_files::{SEARCHED, checked};
use crate::core::action::Letter;

/// Letters that are sent at a time, of each account one: whoever stops the command that sends its mail keeps
/// no other's waiting.
const RUNNING_MAX: usize = 32;
/// Letters of an account that wait.
pub(super) const WAITING_MAX: usize = 200;
/// A command that is not over after so long is killed.
const SEND_MAX: Duration = Duration::from_secs(60);

/// Letters of an account.
#[derive(Debug, Default)]
struct OfAccount {
    is_running: bool,
    waiting: VecDeque<Letter>,
    /// Whether the log has that some were dropped, since there was room last.
    is_full: bool,
}

/// Letters that are being sent or wait for that, by account; none of an account without any.
#[derive(Debug, Default)]
pub(super) struct Mails {
    running: usize,
    accounts: BTreeMap<u32, OfAccount>,
    /// The account whose turn it was last.
    last: u32,
}

/// Fate of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// Waiting.
    Waits,
    /// Dropped, the first one since there was room.
    FirstWithoutRoom,
    /// Dropped.
    Dropped,
}

impl Mails {
    /// Takes a letter.
    pub(super) fn put(&mut self, letter: Letter) -> Put {
        let of_account = self.accounts.entry(letter.user.account().uid).or_default();
        if of_account.waiting.len() < WAITING_MAX {
            of_account.waiting.push_back(letter);
            return Put::Waits;
        }
        match std::mem::replace(&mut of_account.is_full, true) {
            false => Put::FirstWithoutRoom,
            true => Put::Dropped,
        }
    }

    /// A letter of an account has been sent, or not.
    pub(super) fn end(&mut self, account: u32) {
        self.running -= 1;
        let Some(of_account) = self.accounts.get_mut(&account) else { return };
        of_account.is_running = false;
        if of_account.waiting.is_empty() {
            self.accounts.remove(&account);
        }
    }

    /// The letter that is to be sent next: accounts take turns.
    pub(super) fn take(&mut self) -> Option<Letter> {
        if self.running >= RUNNING_MAX {
            return None;
        }
        let after = (Bound::Excluded(self.last), Bound::Unbounded);
        let behind = self.accounts.range(after).chain(self.accounts.range(..=self.last));
        let mut ready = behind.filter(|(_, of_account)| !of_account.is_running);
        let account = ready.find(|(_, of_account)| !of_account.waiting.is_empty()).map(|(uid, _)| *uid)?;
        let of_account = self.accounts.get_mut(&account)?;
        let letter = of_account.waiting.pop_front()?;
        (of_account.is_running, of_account.is_full) = (true, false);
        self.running += 1;
        self.last = account;
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
        if user.uid != me && letter.session.is_none() {
            return Err(format!("the limits of the session of user {} are not known", user.uid));
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
            session: letter.session.as_deref(),
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
        self.finish_within_blocking(SEND_MAX)
    }

    fn finish_within_blocking(self, most: Duration) -> Result<(), String> {
        let number = self.pid.as_raw_nonzero().get() as u32;
        let is_over = await_end_blocking(&self.process, most);
        if !is_over {
            // Another user's leads a session, whose number is its own until its status is taken; ours leads
            // none. What it has started is adopted by this daemon, and ended.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = pidfd_send_signal(&self.process, Signal::KILL);
            if !await_end_blocking(&self.process, KILLED_MAX) {
                self.wards.give_up(number);
                return Err("its command does not end".into());
            }
        }
        let status = waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED);
        self.wards.remove(number);
        if !is_over {
            return Err(format!("its command was not over after {} s", most.as_secs()));
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

    fn letter(uid: u32, job: u64) -> Letter {
        let (user, groups) = (User::new(uid, uid), Vec::new());
        let (to, subject, text) = ("a".into(), "s".into(), "t".into());
        Letter { job: JobId(job), user, groups, to, subject, text, session: None }
    }

    #[test]
    fn letters_wait_for_those_of_their_account_and_are_bounded() {
        let mut mails = Mails::default();
        for job in 0..WAITING_MAX as u64 {
            assert_eq!(mails.put(letter(5, job)), Put::Waits);
        }
        assert_eq!(mails.put(letter(5, 700)), Put::FirstWithoutRoom);
        assert_eq!(mails.put(letter(5, 701)), Put::Dropped);
        assert_eq!(mails.put(letter(3, 900)), Put::Waits, "another's has room");
        let all = |mails: &mut Mails| -> Vec<u64> {
            std::iter::from_fn(|| mails.take()).map(|letter| letter.job.0).collect()
        };
        assert_eq!(all(&mut mails), [900, 0], "one of each");
        mails.end(3);
        assert_eq!(all(&mut mails), Vec::<u64>::new(), "the first one of the other is not sent yet");
        mails.end(5);
        assert_eq!(all(&mut mails), [1]);
        assert_eq!(mails.put(letter(5, 702)), Put::Waits);
        // Nobody's turn comes twice before another's.
        for user in [7, 9] {
            (0..3).for_each(|job| _ = mails.put(letter(user, u64::from(user) * 100 + job)));
        }
        assert_eq!(all(&mut mails), [700, 900]);
        let mut order = Vec::new();
        for account in [9, 7, 5, 9, 7] {
            mails.end(account);
            order.extend(all(&mut mails));
        }
        assert_eq!(order, [901, 701, 2, 902, 702]);
        mails.end(7);
        mails.end(9);
        assert_eq!(mails.accounts.keys().copied().collect::<Vec<_>>(), [5], "{mails:?}");
    }

    #[test]
    fn letters_of_a_crowd_are_sent_some_at_a_time() {
        let mut mails = Mails::default();
        (0..2 * RUNNING_MAX as u32).for_each(|uid| _ = mails.put(letter(uid, 1)));
        assert_eq!(std::iter::from_fn(|| mails.take()).count(), RUNNING_MAX);
        mails.end(7);
        assert_eq!(std::iter::from_fn(|| mails.take()).count(), 1);
    }

    /// Also where it leads no session, as that of the daemon's own user.
    #[test]
    fn command_for_mail_that_is_not_over_in_time_is_killed() {
        let scratch = tutti_testkit::Scratch::new("mail-late");
        let path = scratch.path().join("mail");
        std::fs::write(&path, "#!/bin/sh\nexec sleep 1000\n").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let wards = Wards::new();
        let mut own = letter(rustix::process::geteuid().as_raw(), 1);
        own.user.gid = rustix::process::getegid().as_raw();
        let sending = Sending::start(&path, &own, &wards).unwrap();
        let pid = sending.pid;
        let why = sending.finish_within_blocking(Duration::from_millis(1)).unwrap_err();
        assert_eq!(why, "its command was not over after 0 s");
        assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone");
    }
}
