//! The front end's own stdout and stderr, or files in their place: labels, and writes that do not block.
//!
//! The descriptors are shared with our parent, so they cannot be made nonblocking. A pipe or terminal that
//! poll calls writable takes [`SMALL_BYTES`] without blocking; a file always takes everything.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::FileType;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tutti_protocol::wire::Kind;

/// Bytes of one write to a pipe: PIPE_BUF.
const SMALL_BYTES: usize = 4096;

/// Beginnings of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// No labels.
    #[default]
    None,
    /// `[3] text`.
    Brackets,
    /// ` 3: text`, as `srun -l` of Slurm has it.
    Columns(usize),
}

impl Labels {
    /// Labels of a command: in brackets, or in so many columns.
    #[must_use]
    pub fn new(are_asked: bool, columns: Option<usize>) -> Self {
        match (are_asked, columns) {
            (false, _) => Labels::None,
            (true, None) => Labels::Brackets,
            (true, Some(columns)) => Labels::Columns(columns),
        }
    }

    fn of(self, rank: u32) -> Option<String> {
        match self {
            Labels::None => None,
            Labels::Brackets => Some(format!("[{rank}] ")),
            Labels::Columns(columns) => Some(format!("{rank:columns$}: ")),
        }
    }
}

/// Where output goes that came from the ranks.
#[derive(Debug)]
pub struct Stdio {
    labels: Labels,
    output: Target,
    errors: Target,
    /// Bytes that are being written; then how many of them are, and where to.
    pending: Vec<u8>,
    written: usize,
    to: Kind,
    rank: u32,
    /// Streams whose last byte was no newline.
    inside_line: HashMap<(u32, bool), ()>,
    /// Set once its reader is gone.
    discarding: bool,
    /// The terminal is raw, and rank 0 writes for it: the newlines of all others need a carriage return.
    pub raw: bool,
}

#[derive(Debug)]
enum Target {
    /// Our own stream; whether it is a file.
    Copy(OwnedFd, bool),
    /// Files by name, made at the start; of a rank that is started later, when it writes something.
    Files(OsString, HashMap<OsString, File>),
}

impl Target {
    fn open(&mut self, rank: u32) -> Result<(), String> {
        let Target::Files(pattern, files) = self else { return Ok(()) };
        let name = file_name(pattern, rank);
        let shown = name.to_string_lossy().into_owned();
        if let std::collections::hash_map::Entry::Vacant(entry) = files.entry(name) {
            let made = File::create(entry.key())
                .map_err(|error| format!("cannot write the job's output to {shown}: {error}"))?;
            entry.insert(made);
        }
        Ok(())
    }
}

impl Stdio {
    /// Opens the files of the options.
    ///
    /// # Errors
    /// When the kernel has no more descriptors.
    pub fn new(
        labels: Labels,
        output_file: Option<OsString>,
        errors_file: Option<OsString>,
    ) -> io::Result<Self> {
        let own = |descriptor: BorrowedFd<'_>| -> io::Result<Target> {
            let file = rustix::fs::fstat(descriptor)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
            Ok(Target::Copy(descriptor.try_clone_to_owned()?, file))
        };
        let target = |file: Option<OsString>, descriptor: BorrowedFd<'_>| match file {
            Some(pattern) => Ok(Target::Files(pattern, HashMap::new())),
            None => own(descriptor),
        };
        Ok(Stdio {
            labels,
            output: target(output_file, rustix::stdio::stdout())?,
            errors: target(errors_file, rustix::stdio::stderr())?,
            pending: Vec::new(),
            written: 0,
            to: Kind::Output,
            rank: 0,
            inside_line: HashMap::new(),
            discarding: false,
            raw: false,
        })
    }

    /// Makes the files of the ranks that the job begins with, empty, so that no earlier run's text stays in
    /// one. This process may have as many as they are: its starters have been started, so no rank inherits
    /// that.
    ///
    /// # Errors
    /// When one cannot be made; a text for the user.
    pub fn open(&mut self, ranks: u64) -> Result<(), String> {
        if !matches!((&self.output, &self.errors), (Target::Copy(..), Target::Copy(..))) {
            let limit = getrlimit(Resource::Nofile);
            let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        }
        let Stdio { output, errors, .. } = self;
        for rank in 0..ranks as u32 {
            output.open(rank)?;
            errors.open(rank)?;
        }
        Ok(())
    }

    /// Whether nothing waits to be written.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// The descriptor to poll for writing before [`Self::write`]; none: write at once.
    pub fn waits_for(&self) -> Option<BorrowedFd<'_>> {
        if self.is_idle() {
            return None;
        }
        match self.target() {
            Target::Copy(descriptor, false) => Some(descriptor.as_fd()),
            _ => None,
        }
    }

    /// From now on everything is thrown away.
    pub fn discard(&mut self) {
        self.discarding = true;
        self.pending.clear();
        self.written = 0;
    }

    /// Whether everything is thrown away: its reader is gone, or there was an error.
    pub fn is_discarding(&self) -> bool {
        self.discarding
    }

    /// Takes what a rank wrote; [`Self::is_idle`] must hold.
    pub fn take(&mut self, kind: Kind, rank: u32, bytes: &[u8]) {
        assert!(self.is_idle());
        if self.discarding || bytes.is_empty() {
            return;
        }
        (self.to, self.rank, self.written) = (kind, rank, 0);
        let bytes = if self.raw && (rank != 0 || kind == Kind::Errors) { &for_raw(bytes) } else { bytes };
        if let Some(label) = self.labels.of(rank) {
            let key = (rank, kind == Kind::Output);
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                if self.inside_line.remove(&key).is_none() {
                    self.pending.extend_from_slice(label.as_bytes());
                }
                self.pending.extend_from_slice(line);
                if !line.ends_with(b"\n") {
                    self.inside_line.insert(key, ());
                }
            }
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// Writes once.
    ///
    /// # Errors
    /// The kernel's error, with the name of the stream; the rest is not lost but will hardly fare better.
    pub fn write(&mut self) -> Result<(), (Kind, String, rustix::io::Errno)> {
        let (to, rank) = (self.to, self.rank);
        let rest = &self.pending[self.written..];
        let target = match to {
            Kind::Errors => &mut self.errors,
            _ => &mut self.output,
        };
        let (result, name) = match target {
            Target::Copy(descriptor, file) => {
                let bytes = if *file { rest.len() } else { rest.len().min(SMALL_BYTES) };
                let name = if to == Kind::Errors { "standard error" } else { "standard output" };
                (rustix::io::write(&*descriptor, &rest[..bytes]), name.to_owned())
            }
            Target::Files(pattern, files) => {
                let name = file_name(pattern, rank);
                let shown = name.to_string_lossy().into_owned();
                let file = match files.entry(name.clone()) {
                    std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                    std::collections::hash_map::Entry::Vacant(entry) => {
                        let made = File::create(&name).map_err(|error| {
                            (
                                to,
                                shown.clone(),
                                rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
                            )
                        })?;
                        entry.insert(made)
                    }
                };
                (rustix::io::write(&*file, rest), shown)
            }
        };
        match result {
            Ok(written) => self.written += written,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => return Err((to, name, error)),
        }
        if self.written == self.pending.len() {
            self.pending.clear();
            self.written = 0;
        }
        Ok(())
    }

    /// Has the file systems say whether they have all that was written: some do not before a file is closed.
    ///
    /// # Errors
    /// The first error, with the name of its file.
    pub fn flush(&self) -> Result<(), (String, io::Error)> {
        let mut flushed = Ok(());
        for (target, stream) in [(&self.output, "standard output"), (&self.errors, "standard error")] {
            let mut flush = |name: &OsStr, file: BorrowedFd<'_>| {
                let done = tutti_os::flush_file(file);
                let done = done.map_err(|error| (name.to_string_lossy().into_owned(), error));
                flushed = std::mem::replace(&mut flushed, Ok(())).and(done);
            };
            match target {
                Target::Copy(_, false) => {}
                Target::Copy(descriptor, true) => flush(stream.as_ref(), descriptor.as_fd()),
                Target::Files(_, files) => files.iter().for_each(|(name, file)| flush(name, file.as_fd())),
            }
        }
        flushed
    }

    fn target(&self) -> &Target {
        match self.to {
            Kind::Errors => &self.errors,
            _ => &self.output,
        }
    }
}

/// With a carriage return before each newline.
fn for_raw(bytes: &[u8]) -> Vec<u8> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let ends = |line: &[u8]| line.ends_with(b"\n");
    lines
        .flat_map(|line| if ends(line) { [&line[..line.len() - 1], b"\r\n"] } else { [line, b""] })
        .flatten()
        .copied()
        .collect()
}

/// `%r` is the rank, `%%` a percent sign.
fn file_name(pattern: &OsStr, rank: u32) -> OsString {
    let mut name = Vec::new();
    let mut bytes = pattern.as_bytes().iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'%', Some(b'r')) => {
                bytes.next();
                name.extend_from_slice(rank.to_string().as_bytes());
            }
            (b'%', Some(b'%')) => {
                bytes.next();
                name.push(b'%');
            }
            _ => name.push(byte),
        }
    }
    OsString::from_vec(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdio_file_names_hold_the_rank() {
        for (pattern, expected) in
            [("out.%r", "out.7"), ("%r%r", "77"), ("100%%", "100%"), ("a%", "a%"), ("%x", "%x")]
        {
            assert_eq!(file_name(pattern.as_ref(), 7), expected);
        }
    }

    #[test]
    fn stdio_labels_begin_each_line() {
        for (columns, expected) in
            [(None, "[0] a\n[0] b[1] x\nc\n[0] \n"), (Some(2), " 0: a\n 0: b 1: x\nc\n 0: \n")]
        {
            let labels = Labels::new(true, columns);
            let mut stdio = Stdio::new(labels, None, None).unwrap();
            let mut seen = String::new();
            for (rank, part) in [(0, "a\nb"), (1, "x\n"), (0, "c\n"), (0, "\n")] {
                stdio.take(Kind::Output, rank, part.as_bytes());
                seen.push_str(std::str::from_utf8(&stdio.pending).unwrap());
                stdio.pending.clear();
            }
            assert_eq!(seen, expected);
        }
        assert_eq!(Labels::new(false, Some(2)), Labels::None);
    }
}
