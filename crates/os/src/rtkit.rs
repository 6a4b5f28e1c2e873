//! Real-time priority from RealtimeKit, which gives it to users without a right to it: one call over the
//! system's D-Bus.
//!
//! ```text
//! AUTH EXTERNAL uid -> OK -> BEGIN -> Hello -> its return -> MakeThreadRealtime(thread, priority) -> its return, or an error
//! ```
//!
//! It answers only processes with a limit RLIMIT_RTTIME: the kernel ends them when a real-time thread of
//! theirs does not sleep for long. Nothing here waits longer than a limit for all of it. Replies are bounded
//! and checked, whatever process sends them.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Where the system's bus is.
pub const BUS: &str = "/run/dbus/system_bus_socket";
/// Longest time for all of it.
pub const LIMIT: Duration = Duration::from_secs(1);
/// RealtimeKit gives 20 at most, unless its administrator has set less.
const PRIORITY: u32 = 10;
/// Longest time that a real-time thread may go without sleeping: RealtimeKit wants no more.
const RTTIME_US: u64 = 200_000;
/// A message of the bus is no longer.
const MESSAGE_MAX: usize = 64 << 10;

const CALL: u8 = 1;
const RETURN: u8 = 2;
const ERROR: u8 = 3;

/// Requests real-time priority for a thread of this process.
///
/// # Errors
/// When there is no bus, no reply in time, or a refusal.
pub fn make_real_time(bus: &Path, thread: u64, limit: Duration) -> io::Result<()> {
    let mut line = Line { stream: dial(bus)?, deadline: Instant::now() + limit };
    let current = getrlimit(Resource::Rttime);
    let most = Some(current.maximum.map_or(RTTIME_US, |most| most.min(RTTIME_US)));
    setrlimit(Resource::Rttime, Rlimit { current: most, maximum: most })?;
    line.log_in()?;
    let bus = ["/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus"];
    line.call(1, &message(1, bus, "Hello", None))?;
    let kit =
        ["/org/freedesktop/RealtimeKit1", "org.freedesktop.RealtimeKit1", "org.freedesktop.RealtimeKit1"];
    line.call(2, &message(2, kit, "MakeThreadRealtime", Some((thread, PRIORITY))))
}

/// A bus whose queue is full counts as none: it is not waited for.
fn dial(bus: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(bus)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A method call without or with the arguments of MakeThreadRealtime, in little-endian order.
fn message(serial: u32, [path, interface, to]: [&str; 3], member: &str, body: Option<(u64, u32)>) -> Vec<u8> {
    let mut fields = Vec::new();
    for (code, kind, text) in [(1, b'o', path), (2, b's', interface), (3, b's', member), (6, b's', to)] {
        pad(&mut fields, 8);
        fields.extend([code, 1, kind, 0]);
        fields.extend((text.len() as u32).to_le_bytes());
        fields.extend(text.bytes().chain([0]));
    }
    if body.is_some() {
        pad(&mut fields, 8);
        fields.extend(*b"\x08\x01g\0\x02tu\0");
    }
    let body_bytes: u32 = if body.is_some() { 12 } else { 0 };
    let mut message = vec![b'l', CALL, 0, 1];
    for word in [body_bytes, serial, fields.len() as u32] {
        message.extend(word.to_le_bytes());
    }
    message.extend(fields);
    pad(&mut message, 8);
    if let Some((thread, priority)) = body {
        message.extend(thread.to_le_bytes());
        message.extend(priority.to_le_bytes());
    }
    message
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

/// The connection, and until when it is listened to.
struct Line {
    stream: UnixStream,
    deadline: Instant,
}

impl Line {
    fn log_in(&mut self) -> io::Result<()> {
        let user = rustix::process::geteuid().as_raw().to_string();
        let digits: String = user.bytes().map(|digit| format!("{digit:02x}")).collect();
        self.send(format!("\0AUTH EXTERNAL {digits}\r\n").as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            if answer.len() > 1024 {
                return Err(odd("an answer without end"));
            }
            let mut byte = [0];
            self.recv(&mut byte)?;
            answer.push(byte[0]);
        }
        if !answer.starts_with(b"OK ") {
            return Err(Error::new(ErrorKind::PermissionDenied, "the bus refuses the connection"));
        }
        self.send(b"BEGIN\r\n")
    }

    /// Until this call is answered; other messages, such as signals, are dropped.
    fn call(&mut self, serial: u32, message: &[u8]) -> io::Result<()> {
        self.send(message)?;
        loop {
            let mut head = [0; 16];
            self.recv(&mut head)?;
            let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
            let (body, fields) = (word(4) as usize, word(12) as usize);
            if head[0] != b'l' || body > MESSAGE_MAX || fields > MESSAGE_MAX {
                return Err(odd("no message of a bus of this machine"));
            }
            let mut rest = vec![0; fields.next_multiple_of(8) + body];
            self.recv(&mut rest)?;
            let Some(reply_serial) = reply_serial(&rest[..fields]) else {
                return Err(odd("invalid fields"));
            };
            match head[1] {
                RETURN if reply_serial == serial => return Ok(()),
                ERROR if reply_serial == serial => {
                    return Err(Error::new(
                        ErrorKind::PermissionDenied,
                        "RealtimeKit refuses, or is not there",
                    ));
                }
                _ => {}
            }
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write_all(bytes)
    }

    fn recv(&mut self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            self.stream.set_read_timeout(self.left()?)?;
            match self.stream.read(into) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => into = &mut into[read..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn odd(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the bus answers {what}"))
}

/// The call that a message with these header fields answers, or 0; none: these are no fields.
fn reply_serial(fields: &[u8]) -> Option<u32> {
    let (mut at, mut reply_serial) = (0, 0);
    while at < fields.len() {
        at = at.next_multiple_of(8);
        let code = *fields.get(at)?;
        let kind = *fields.get(at + 2).filter(|_| fields.get(at + 1) == Some(&1))?;
        at += 4;
        if kind == b'g' {
            at += usize::from(*fields.get(at)?) + 2;
            continue;
        }
        let word = u32::from_le_bytes(fields.get(at..at + 4)?.try_into().ok()?);
        at += match kind {
            b'u' => 4,
            b's' | b'o' => (word as usize).checked_add(5)?,
            _ => return None,
        };
        if (code, kind) == (5, b'u') {
            reply_serial = word;
        }
    }
    Some(reply_serial)
}

#[cfg(test)]
mod tests;
