//! Stdout and stderr of the ranks on their way to the front end.
//!
//! Whole lines are forwarded as they come, so that lines of several ranks never mix. A part of a line is
//! forwarded after a silence: of [`PROMPT_NS`] where a person may be waiting for it, of [`PART_NS`] where
//! only a file or pipe is, since a rank that has lost its core in the middle of a line is silent too. A line
//! longer than [`BUFFER_BYTES`] is forwarded in parts: its stream then *holds the floor*, and all others wait
//! until the line ends or falls silent. Bytes are never changed, but for labels that the job wants: they are
//! put in here, once, before a frame is kept for the next daemon.
//!
//! Memory is bounded: a stream whose buffer is full, or all when the way to the front end is, are not read;
//! the pipe fills and the rank waits in its write.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::fstat;
use rustix::pty::ptsname;
use rustix::termios::{Winsize, tcsetwinsize};

use tutti_protocol::wire::{self, Kind};

/// Bytes that wait here for one stream, at most.
pub const BUFFER_BYTES: usize = wire::DATA_BYTES_MAX;
/// After this silence a part of a line is forwarded to a terminal, and of stderr to anything.
pub const PROMPT_NS: u64 = 50_000_000;
/// After this silence a part of a line is forwarded to a file or pipe.
pub const PART_NS: u64 = 500_000_000;

/// The streams of all ranks of a job.
#[derive(Debug, Default)]
pub struct Streams {
    streams: Vec<Stream>,
    /// Index of the stream whose long line is being forwarded.
    floor: Option<usize>,
    /// Where the next round of forwarding begins, so that no stream is always first.
    turn: usize,
    /// Each line begins with its rank.
    label: bool,
}

#[derive(Debug)]
struct Stream {
    rank: u32,
    kind: Kind,
    /// The reading end; none after its end.
    descriptor: Option<OwnedFd>,
    bytes: Vec<u8>,
    /// When bytes last came.
    last_read_ns: u64,
    /// How long it must be silent before a part of a line goes.
    silence_ns: u64,
    /// Whether what has been forwarded ends within a line.
    inside_line: bool,
}

impl Streams {
    /// From now on each line begins with its rank, or not.
    pub fn set_label(&mut self, label: bool) {
        self.label = label;
    }

    /// Adds a stream, in the place of one that is over if there is any; its descriptor must be nonblocking.
    pub fn add(&mut self, rank: u32, kind: Kind, descriptor: OwnedFd, silence_ns: u64) {
        let stream = Stream {
            rank,
            kind,
            descriptor: Some(descriptor),
            bytes: Vec::new(),
            last_read_ns: 0,
            silence_ns,
            inside_line: false,
        };
        let is_over = |index: &usize| self.streams[*index].is_finished() && self.floor != Some(*index);
        match (0..self.streams.len()).find(is_over) {
            Some(index) => self.streams[index] = stream,
            None => self.streams.push(stream),
        }
    }

    /// Adds whole lines to a rank's error output that have come by another way, as far as there is room.
    pub fn add_lines(&mut self, rank: u32, text: &[u8], now_ns: u64) {
        let of_rank = |stream: &&mut Stream| stream.rank == rank && stream.kind == Kind::Errors;
        let Some(stream) = self.streams.iter_mut().find(of_rank) else { return };
        let is_ended = text.ends_with(b"\n");
        if stream.bytes.len() + text.len() < BUFFER_BYTES {
            stream.bytes.extend_from_slice(text);
            stream.bytes.extend_from_slice(if is_ended { b"" } else { b"\n" });
            stream.last_read_ns = now_ns;
        }
    }

    /// Streams that have room, to be polled and given to [`Self::handle_readable`].
    pub fn readable(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        self.streams.iter().enumerate().filter_map(|(index, stream)| {
            let descriptor = stream.descriptor.as_ref()?;
            (stream.bytes.len() < BUFFER_BYTES).then(|| (index, descriptor.as_fd()))
        })
    }

    /// How /proc names what the ranks write to, as long as it is open.
    pub fn writing_ends(&self) -> Vec<String> {
        let open = self.streams.iter().filter_map(|stream| stream.descriptor.as_ref());
        let name = |descriptor: &OwnedFd| {
            link_of_pipe(descriptor).or_else(|| ptsname(descriptor, Vec::new()).ok()?.into_string().ok())
        };
        open.filter_map(name).collect()
    }

    /// When anything was read last.
    pub fn last_read_ns(&self) -> u64 {
        self.streams.iter().map(|stream| stream.last_read_ns).max().unwrap_or(0)
    }

    /// Whether nothing more can be written to any of them.
    pub fn are_at_end(&self) -> bool {
        self.streams.iter().all(|stream| stream.descriptor.is_none())
    }

    /// Sets the new size of the terminals among them.
    pub fn set_window(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        for descriptor in self.streams.iter().filter_map(|stream| stream.descriptor.as_ref()) {
            // A pipe has none.
            let _ = tcsetwinsize(descriptor, size);
        }
    }

    /// Reads once. `false`: there was nothing, or no room.
    pub fn handle_readable(&mut self, index: usize, now_ns: u64) -> bool {
        let stream = &mut self.streams[index];
        let Some(descriptor) = &stream.descriptor else { return false };
        let before = stream.bytes.len();
        if before >= BUFFER_BYTES {
            return false;
        }
        stream.bytes.reserve_exact(BUFFER_BYTES - before);
        match rustix::io::read(descriptor, rustix::buffer::spare_capacity(&mut stream.bytes)) {
            Ok(read) if read > 0 => {
                stream.last_read_ns = now_ns;
                true
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => false,
            // A pty whose other side is closed gives EIO.
            Ok(_) | Err(_) => {
                stream.descriptor = None;
                stream.free();
                false
            }
        }
    }

    /// All writers are dead: what can be read without waiting is all there is. Called until it gives `true`;
    /// between calls [`Self::forward`] makes room.
    pub fn handle_end(&mut self, now_ns: u64) -> bool {
        for index in 0..self.streams.len() {
            while self.handle_readable(index, now_ns) {}
            if self.streams[index].bytes.len() < BUFFER_BYTES {
                self.streams[index].descriptor = None;
                self.streams[index].free();
            }
        }
        self.streams.iter().all(|stream| stream.descriptor.is_none())
    }

    /// Whether nothing is left to read or to forward.
    pub fn are_finished(&self) -> bool {
        self.streams.iter().all(Stream::is_finished)
    }

    /// Forwards what may go, until `out` holds `room` bytes or more.
    pub fn forward(&mut self, out: &mut Vec<u8>, room: usize, now_ns: u64) {
        let count = self.streams.len();
        // The holder of the floor first: until its line ends, no other stream may write.
        if let Some(holder) = self.floor {
            self.forward_one(holder, out, room, now_ns);
        }
        for step in 0..count {
            if self.floor.is_some() || out.len() >= room {
                return;
            }
            self.forward_one((self.turn + step) % count, out, room, now_ns);
        }
        self.turn = (self.turn + 1) % count.max(1);
    }

    /// When the next part of a line falls silent for long enough, if one waits.
    pub fn silence_ends_ns(&self) -> Option<u64> {
        let waiting = self.streams.iter().enumerate().filter(|(index, stream)| {
            self.floor == Some(*index) || (self.floor.is_none() && !stream.bytes.is_empty())
        });
        waiting.map(|(_, stream)| stream.last_read_ns + stream.silence_ns).min()
    }

    fn forward_one(&mut self, index: usize, out: &mut Vec<u8>, room: usize, now_ns: u64) {
        if out.len() >= room {
            return;
        }
        let holds_floor = self.floor == Some(index);
        if self.streams[index].bytes.is_empty() && !holds_floor {
            return;
        }
        // A stream is silent only if there was room and nothing came: after a jam, more may be in its pipe.
        if self.streams[index].is_silent(now_ns) {
            self.handle_readable(index, now_ns);
        }
        let stream = &mut self.streams[index];
        let over = stream.descriptor.is_none() || stream.is_silent(now_ns);
        let line_end = stream.bytes.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
        let full = stream.bytes.len() >= BUFFER_BYTES;
        let bytes = match line_end {
            Some(end) if !over => end,
            _ if over || full || holds_floor => stream.bytes.len(),
            _ => return,
        };
        if bytes > 0 {
            stream.put(bytes, self.label, out);
        }
        let line_continues = !over && line_end.is_none();
        self.floor = (line_continues && (full || holds_floor)).then_some(index);
    }
}

impl Stream {
    /// Appends what came first, `bytes` of it, as frames.
    fn put(&mut self, bytes: usize, label: bool, out: &mut Vec<u8>) {
        if label {
            self.put_labelled(bytes, out);
        } else {
            wire::put(out, self.kind, self.rank, &self.bytes[..bytes]);
        }
        self.bytes.drain(..bytes);
        self.free();
    }

    /// Gives the buffer back where nothing more comes.
    fn free(&mut self) {
        if self.is_finished() {
            self.bytes = Vec::new();
        }
    }

    /// Whether nothing is left to read or to forward.
    fn is_finished(&self) -> bool {
        self.descriptor.is_none() && self.bytes.is_empty()
    }

    /// The same with labels. They may make several frames of one: they end at lines, but for a line that
    /// fills one.
    fn put_labelled(&mut self, bytes: usize, out: &mut Vec<u8>) {
        let label = format!("[{}] ", self.rank);
        let mut frame = Vec::new();
        let mut flush = |frame: &mut Vec<u8>| {
            frame.chunks(wire::DATA_BYTES_MAX).for_each(|part| wire::put(out, self.kind, self.rank, part));
            frame.clear();
        };
        for line in self.bytes[..bytes].split_inclusive(|byte| *byte == b'\n') {
            let label = if self.inside_line { "" } else { &label };
            self.inside_line = !line.ends_with(b"\n");
            if frame.len() + label.len() + line.len() > wire::DATA_BYTES_MAX {
                flush(&mut frame);
            }
            frame.extend_from_slice(label.as_bytes());
            frame.extend_from_slice(line);
        }
        flush(&mut frame);
    }

    fn is_silent(&self, now_ns: u64) -> bool {
        self.bytes.len() < BUFFER_BYTES && now_ns >= self.last_read_ns + self.silence_ns
    }
}

/// How /proc names both ends of a pipe; none of anything else.
pub fn link_of_pipe(end: impl AsFd) -> Option<String> {
    let stat = fstat(end).ok()?;
    rustix::fs::FileType::from_raw_mode(stat.st_mode).is_fifo().then(|| format!("pipe:[{}]", stat.st_ino))
}

#[cfg(test)]
mod tests;
