//! A terminal of a machine's own for a command that is started on one here: what is typed goes there, what it
//! prints comes here.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, ioctl_tiocsctty};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};

use super::sys;

/// The two ends of it.
#[derive(Debug)]
pub(super) struct Terminal {
    ours: OwnedFd,
    theirs: OwnedFd,
    /// How the one here was.
    before: Termios,
}

impl Terminal {
    /// Opens one in the mount namespace that this process is in, if it has been started on a terminal.
    pub(super) fn open_if_on_one() -> io::Result<Option<Self>> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(None);
        }
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let theirs = open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let before = tcgetattr(io::stdin())?;
        tcsetattr(&theirs, OptionalActions::Now, &before)?;
        let terminal = Terminal { ours, theirs, before };
        terminal.fit();
        Ok(Some(terminal))
    }

    fn fit(&self) {
        let _ = tcgetwinsize(io::stdin()).and_then(|size| tcsetwinsize(&self.ours, size));
    }

    /// The child, in its new session, takes it as its own.
    pub(super) fn become_ours(&self) -> io::Result<()> {
        ioctl_tiocsctty(&self.theirs)?;
        rustix::stdio::dup2_stdin(&self.theirs)?;
        rustix::stdio::dup2_stdout(&self.theirs)?;
        rustix::stdio::dup2_stderr(&self.theirs)?;
        Ok(())
    }

    /// The parent, until the child has ended; gives its status.
    pub(super) fn serve(self, child: Pid, signals: &OwnedFd) -> io::Result<u8> {
        let Terminal { ours, theirs, before } = self;
        drop(theirs);
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let status = Self::carry(&ours, child, signals);
        tcsetattr(io::stdin(), OptionalActions::Drain, &before)?;
        status
    }

    fn carry(ours: &OwnedFd, child: Pid, signals: &OwnedFd) -> io::Result<u8> {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let mut typing = true;
        loop {
            let mut waits = vec![PollFd::new(signals, PollFlags::IN), PollFd::new(ours, PollFlags::IN)];
            if typing {
                waits.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN));
            }
            match poll(&mut waits, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_ready: Vec<bool> = waits.iter().map(|wait| !wait.revents().is_empty()).collect();
            let mut bytes = [0; 4096];
            if is_ready[1] {
                match rustix::io::read(ours, &mut bytes) {
                    Ok(length) if length > 0 => write_all(stdout.as_fd(), &bytes[..length])?,
                    // All of its users are gone; the child may end a moment later.
                    _ => {
                        if let Some(status) = sys::status_of(child)? {
                            return Ok(status);
                        }
                        std::thread::yield_now();
                    }
                }
            } else if is_ready[0] {
                while let Some(signal) = sys::take_signal(signals.as_fd()) {
                    match signal {
                        libc::SIGCHLD => {}
                        libc::SIGWINCH => {
                            let _ = tcgetwinsize(&stdin).and_then(|size| tcsetwinsize(ours, size));
                        }
                        other => sys::send_signal(child, other),
                    }
                }
                if let Some(status) = sys::status_of(child)? {
                    return Ok(status);
                }
            } else if is_ready.get(2) == Some(&true) {
                match rustix::io::read(&stdin, &mut bytes) {
                    Ok(length) if length > 0 => write_all(ours.as_fd(), &bytes[..length])?,
                    _ => typing = false,
                }
            }
        }
    }
}

fn write_all(to: std::os::fd::BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
