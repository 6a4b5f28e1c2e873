//! Streams of a rank: pipes or a terminal, of which the rank gets one end and the starter keeps the other.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use tutti_protocol::wire::{Input, Job, Kind};

use super::error::{LaunchError, failed};
use crate::output::{PART_NS, PROMPT_NS};
use crate::parts::Parts;

pub(super) fn open_null() -> Result<OwnedFd, LaunchError> {
    open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed("open /dev/null"))
}

/// A rank's ends of its streams.
pub(super) struct Ends {
    pub(super) input: InputEnd,
    pub(super) output: OwnedFd,
    pub(super) errors: OwnedFd,
}

pub(super) enum InputEnd {
    Own(OwnedFd),
    Inherited,
    Null,
}

pub(super) fn open_streams(job: &Job, rank: u32, parts: &mut Parts) -> Result<Ends, LaunchError> {
    let (output, output_end) = match job.terminal {
        // Without a devpts, or when it has no more, a pipe is better than no job.
        Some(size) => raw_terminal(size).or_else(|_| output_pipe()),
        None => output_pipe(),
    }
    .map_err(failed("open a pipe for a rank's output"))?;
    let (errors, errors_end) = output_pipe().map_err(failed("open a pipe for a rank's error output"))?;
    let is_of_launch = u64::from(rank) < job.ranks();
    let takes_input = is_of_launch && (job.input == Input::All || job.input == Input::Rank(rank));
    let input = if takes_input && !job.input_inherited {
        let (end, input) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("open a pipe for a rank's input"))?;
        rustix::io::ioctl_fionbio(&input, true).map_err(failed("open a pipe for a rank's input"))?;
        parts.inputs.add(input);
        InputEnd::Own(end)
    } else if takes_input {
        InputEnd::Inherited
    } else {
        InputEnd::Null
    };
    let silence_ns = if job.terminal.is_some() { PROMPT_NS } else { PART_NS };
    parts.streams.add(rank, Kind::Output, output, silence_ns);
    parts.streams.add(rank, Kind::Errors, errors, PROMPT_NS);
    Ok(Ends { input, output: output_end, errors: errors_end })
}

/// One terminal for all streams of rank 0, the controlling one of this session; what is written to it is
/// forwarded at once.
pub(super) fn own_terminal(job: &Job, parts: &mut Parts) -> Result<Ends, LaunchError> {
    let open = || -> io::Result<(OwnedFd, OwnedFd)> {
        let (master, slave) = pseudoterminal(job.terminal.unwrap_or((24, 80)))?;
        rustix::process::ioctl_tiocsctty(&slave)?;
        Ok((master, slave))
    };
    let (master, slave) = open().map_err(failed("open a terminal for rank 0"))?;
    let copy = |end: &OwnedFd| end.try_clone().map_err(failed("open a terminal for rank 0"));
    parts.inputs.add(copy(&master)?);
    parts.streams.add(0, Kind::Output, copy(&master)?, 0);
    let ends = Ends { input: InputEnd::Own(copy(&slave)?), output: copy(&slave)?, errors: copy(&slave)? };
    parts.terminal = Some((master, slave));
    Ok(ends)
}

/// A pipe whose reading end does not block.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// A raw terminal of the given size (rows, columns), so that the C library of a rank writes line by line; our
/// end does not block.
fn raw_terminal(size: (u16, u16)) -> io::Result<(OwnedFd, OwnedFd)> {
    let (master, slave) = pseudoterminal(size)?;
    let mut settings = tcgetattr(&slave)?;
    settings.make_raw();
    tcsetattr(&slave, OptionalActions::Now, &settings)?;
    Ok((master, slave))
}

/// A terminal of the given size (rows, columns).
fn pseudoterminal((rows, columns): (u16, u16)) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = open(name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    tcsetwinsize(&slave, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((master, slave))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_terminal_changes_no_byte() {
        let (master, slave) = raw_terminal((24, 80)).unwrap();
        rustix::io::write(&slave, b"a\nb\x03\x04\0\xff").unwrap();
        let mut bytes = [0; 64];
        let read = rustix::io::read(&master, &mut bytes).unwrap();
        assert_eq!(&bytes[..read], b"a\nb\x03\x04\0\xff");
        assert!(rustix::termios::isatty(&slave));
    }
}
