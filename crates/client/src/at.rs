//! The host whose daemon is asked, where it is not this one: `tutti --at ssh://[USER@]HOST`, TUTTI_AT. A
//! process of `tutti line` has the line to that host; what is written to the stream that it gives comes to
//! the daemon there, as if it were connected to its socket.
//!
//! ```text
//! command --Opening--> tutti line --ssh--> tutti relay --> tutti relay --session --> daemon
//!         <--Opened---                                     (keeps the daemon's connection while a line is cut)
//! ```

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use tutti_protocol::paths;
use tutti_protocol::wire::Text;

/// Variable that names the host.
pub const VARIABLE: &str = "TUTTI_AT";
/// The hidden command that has the line.
pub const COMMAND: &str = "line";
/// Bytes of a line of the opening, at most: the arguments of a command are in it.
pub const OPENING_BYTES_MAX: usize = 4 << 20;

static GIVEN: OnceLock<String> = OnceLock::new();

/// Names the host, for this process.
pub fn set(target: String) {
    let _ = GIVEN.set(target);
}

/// The host; none: this one.
#[must_use]
pub fn target() -> Option<String> {
    let of_environment = || std::env::var(VARIABLE).ok();
    GIVEN.get().cloned().or_else(of_environment).filter(|target| !target.is_empty())
}

/// Purpose of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// Frames for the daemon.
    Frames,
    /// A job is started there, from a command line that is read there; then frames.
    Start(Box<Start>),
}

/// The command that starts a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Launcher {
    /// `tutti run`.
    Run,
    /// `tutti submit`.
    Submit,
    /// `mpiexec`.
    Mpiexec,
}

/// A command line, and what it sees of the place where it was typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Launcher that was called.
    pub launcher: Launcher,
    /// Arguments of the command.
    pub arguments: Vec<Text>,
    /// Hosts with their ranks, `NAME:N`, for programs that name none.
    pub hosts: Vec<String>,
    /// Folder in which it was typed, if that is there too.
    pub directory: Text,
    /// Size of the terminal that is its stdout: rows, columns.
    pub terminal: Option<(u16, u16)>,
    /// Whether its stdin is a terminal.
    pub types: bool,
}

/// The answer to an opening.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opened {
    /// Frames go both ways.
    Open,
    /// Refusal, in one line.
    Refused(String),
}

/// Opens a stream to the daemon of that host.
///
/// # Errors
/// When there is no way to it, or it refuses; a text for the user.
pub fn open(target: &str, opening: &Opening) -> Result<UnixStream, String> {
    let (mut own, end) =
        UnixStream::pair().map_err(|error| format!("cannot make a socket for the line: {error}"))?;
    let program = paths::tutti();
    Command::new(&program)
        .args([COMMAND, target])
        .stdin(Stdio::from(OwnedFd::from(end)))
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let mut words = serde_json::to_vec(opening).expect("openings are serialisable");
    words.push(b'\n');
    let gone = |_| format!("the line to {target} has ended");
    own.write_all(&words).map_err(gone)?;
    let answer = read_line(&mut own).map_err(gone)?;
    match serde_json::from_slice(&answer) {
        Ok(Opened::Open) => Ok(own),
        Ok(Opened::Refused(text)) => Err(text),
        Err(_) => Err(format!("the line to {target} has ended")),
    }
}

/// Reads a line, and no byte behind it.
///
/// # Errors
/// When it does not end, or is too long.
pub fn read_line(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < OPENING_BYTES_MAX {
        from.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return Ok(line);
        }
        line.push(byte[0]);
    }
    Err(std::io::ErrorKind::InvalidData.into())
}
