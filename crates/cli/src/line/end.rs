//! One end of a line: moves bytes between a local stream and the line, as long as the line holds.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_client::line::{Line, WINDOW};
use tutti_protocol::wire;

/// A line that is silent for so long is given up, if nobody says otherwise.
pub const SILENT_MAX: Duration = Duration::from_secs(15);

/// Why the bytes move no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The line is cut.
    Cut,
    /// Somebody is at the door: a new line.
    Knock,
    /// Everything has been delivered, both ways.
    Over,
    /// The time given has come.
    Late,
}

/// A local stream, and what is on its way between it and the other end.
#[derive(Debug)]
pub struct End {
    /// The protocol.
    pub line: Line,
    local: UnixStream,
    /// Cleared once nothing more comes from it; the next one: once nothing more is taken by it.
    is_read: bool,
    is_written: bool,
    /// For the local stream.
    waiting: VecDeque<u8>,
    /// Of frames: the local stream gets whole ones alone, and this is not one yet.
    partial: Option<Vec<u8>>,
    /// Silence after which a line is given up.
    silent_max: Duration,
}

impl End {
    /// Of this stream; a line that is silent for `silent_max` is given up.
    ///
    /// # Errors
    /// When the kernel does not let us use it.
    pub fn new(local: UnixStream, silent_max: Duration) -> std::io::Result<Self> {
        local.set_nonblocking(true)?;
        let (line, waiting) = (Line::default(), VecDeque::new());
        Ok(End { line, local, is_read: true, is_written: true, waiting, partial: None, silent_max })
    }

    /// The same of the stream to a daemon: a cut line leaves no frame unfinished there.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_daemon(local: UnixStream) -> std::io::Result<Self> {
        Ok(End { partial: Some(Vec::new()), ..End::new(local, SILENT_MAX)? })
    }

    /// Bytes for the local stream have come.
    fn take(&mut self, data: &[u8]) {
        let Some(partial) = &mut self.partial else { return self.waiting.extend(data) };
        partial.extend_from_slice(data);
        let mut whole = 0;
        while let Some(bytes) =
            wire::frame_bytes(&partial[whole..]).filter(|bytes| whole + bytes <= partial.len())
        {
            whole += bytes;
        }
        self.waiting.extend(partial.drain(..whole));
    }

    /// Whether the process at the local stream has gone, and takes nothing more.
    #[must_use]
    pub fn is_left(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.local.as_fd(), PollFlags::empty())];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Moves bytes until something else is to be done.
    pub fn pump(
        &mut self,
        wire: Option<&UnixStream>,
        door: Option<&UnixListener>,
        until: Option<Instant>,
    ) -> Pause {
        let (mut heard, mut pinged) = (Instant::now(), Instant::now());
        // A silent line is asked for a sign of life three times before it is given up.
        let ping = self.silent_max / 4;
        loop {
            self.write_local();
            if self.line.is_ended() && self.waiting.is_empty() && self.is_written {
                self.is_written = false;
                let _ = self.local.shutdown(Shutdown::Write);
            }
            if self.line.is_delivered() && self.line.is_ended() && self.waiting.is_empty() {
                // The other end may not know yet that all has come.
                if let Some(wire) = wire {
                    self.write_wire(wire);
                }
                return Pause::Over;
            }
            let now = Instant::now();
            if wire.is_some() && now - heard >= ping && now - pinged >= ping {
                pinged = now;
                self.line.ping();
            }
            if wire.is_some_and(|wire| now - heard >= self.silent_max || !self.write_wire(wire)) {
                return Pause::Cut;
            }
            if until.is_some_and(|until| now >= until) {
                return Pause::Late;
            }
            let ready = self.wait(wire, door);
            if ready.door {
                return Pause::Knock;
            }
            if ready.local {
                self.read_local();
            }
            if let Some(wire) = wire.filter(|_| ready.wire) {
                heard = now;
                if !self.read_wire(wire) {
                    return Pause::Cut;
                }
            }
        }
    }

    fn wait(&mut self, wire: Option<&UnixStream>, door: Option<&UnixListener>) -> Ready {
        let in_local = self.is_read && self.line.room() > 0;
        let has_out = wire.is_some() && !self.line.poll_bytes().is_empty();
        let interest = |input: bool, output: bool| {
            let input = if input { PollFlags::IN } else { PollFlags::empty() };
            if output { input | PollFlags::OUT } else { input }
        };
        let mut polled = Vec::new();
        let flags = interest(in_local, self.is_written && !self.waiting.is_empty());
        let local_at = (!flags.is_empty()).then(|| {
            polled.push(PollFd::from_borrowed_fd(self.local.as_fd(), flags));
            polled.len() - 1
        });
        let flags = interest(self.waiting.len() < WINDOW, has_out);
        let wire_at = wire.filter(|_| !flags.is_empty()).map(|wire| {
            polled.push(PollFd::from_borrowed_fd(wire.as_fd(), flags));
            polled.len() - 1
        });
        let door_at = door.map(|door| {
            polled.push(PollFd::from_borrowed_fd(door.as_fd(), PollFlags::IN));
            polled.len() - 1
        });
        let wait = (self.silent_max / 8).min(Duration::from_secs(1));
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let is_ready = poll(&mut polled, Some(&wait)).is_ok_and(|ready| ready > 0);
        let is = |at: Option<usize>, flags: PollFlags| {
            is_ready && at.is_some_and(|at| polled[at].revents().intersects(flags))
        };
        let input = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        Ready { local: in_local && is(local_at, input), wire: is(wire_at, input), door: is(door_at, input) }
    }

    fn read_local(&mut self) {
        let mut bytes = vec![0; self.line.room().min(64 << 10)];
        match (&self.local).read(&mut bytes) {
            Ok(0) => self.end_local(),
            Ok(read) => self.line.push(&bytes[..read]),
            Err(error) if is_temporary(&error) => {}
            Err(_) => self.end_local(),
        }
    }

    fn end_local(&mut self) {
        self.is_read = false;
        self.line.finish();
    }

    fn write_local(&mut self) {
        while self.is_written && !self.waiting.is_empty() {
            match (&self.local).write(self.waiting.as_slices().0) {
                Ok(written) => drop(self.waiting.drain(..written)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_temporary(&error) => return,
                // It has gone: what comes for it has no taker.
                Err(_) => self.is_written = false,
            }
        }
        if !self.is_written {
            self.waiting.clear();
        }
    }

    /// `false`: it is cut.
    fn write_wire(&mut self, mut wire: &UnixStream) -> bool {
        loop {
            let bytes = self.line.poll_bytes();
            if bytes.is_empty() {
                return true;
            }
            match wire.write(bytes) {
                Ok(written) => self.line.handle_written(written),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return is_temporary(&error),
            }
        }
    }

    /// `false`: it is cut.
    fn read_wire(&mut self, mut wire: &UnixStream) -> bool {
        let mut bytes = [0; 64 << 10];
        match wire.read(&mut bytes) {
            Ok(0) => false,
            Ok(read) => match self.line.handle_bytes(&bytes[..read]) {
                Ok(data) => {
                    self.take(&data);
                    true
                }
                Err(_) => false,
            },
            Err(error) => is_temporary(&error),
        }
    }

    /// Adds bytes for the local stream, which come from nobody.
    pub fn inject(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }
}

struct Ready {
    local: bool,
    wire: bool,
    door: bool,
}

fn is_temporary(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
