//! The writer of a job's output files: a process of the job's user, at a wire to the daemon of the node where
//! the job was submitted. The daemon starts it when the job has its nodes, gives it what the ranks wrote, and
//! ends it when all is written.
//!
//! ```text
//! daemon                                   writer
//!   | Files: Open as JSON ------------------> |  becomes the user, enters the directory, opens the files
//!   | <-------------------- Opened, as JSON - |
//!   | Write(file), Write(file), ..., Flush -> |  appends, in this order, up to the first error
//!   | <------------------- Written, as JSON - |
//!   | closes the wire ----------------------> |  exits
//! ```
//!
//! Every path is the user's, so it is opened by a process that is the user's and nothing else: what the user
//! may not write the kernel refuses, also behind symbolic links. No process may trace it: it drops root's
//! identity itself, behind exec, and the kernel marks it as not dumpable for that.
//!
//! If it stops at any point: bytes are appended in the order of the frames, so the lengths of the files show
//! how far it came (the daemon's `core`). If the daemon stops, the writer reads the end of its wire behind
//! the frames that it has, and exits. Until then it holds a lock (flock) on the file that is its stdout. The
//! writer that the next daemon starts waits for it before it opens anything, so two never write at a time.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use tutti_protocol::wire::{self, Decoder, Kind};
use tutti_protocol::writer::{Identity, Open, Opened, Written};

/// Files that are open at a time.
const OPEN_MAX: usize = 128;
/// Bytes that are read from the wire at a time.
const READ_BYTES: usize = 256 << 10;

/// Serves the wire until it ends.
///
/// # Errors
/// When the wire does not carry frames of this version.
pub fn run(front: &OwnedFd) -> io::Result<()> {
    let mut writer = Writer::default();
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let wrong = |error: wire::BadFrame| io::Error::other(error.to_string());
        while let Some((head, payload)) = decoder.next_frame().map_err(wrong)? {
            let mut answer = Vec::new();
            match head.kind {
                Kind::Files => {
                    let open: Open = serde_json::from_slice(payload)?;
                    let opened = writer.open(open).unwrap_or_else(Opened::Refused);
                    wire::put_json(&mut answer, Kind::Opened, &opened);
                }
                Kind::Write => writer.append(head.rank, payload),
                Kind::Flush => wire::put_json(&mut answer, Kind::Written, &writer.take_written()),
                kind => return Err(io::Error::other(format!("{kind:?} is not for a writer"))),
            }
            let mut rest = &answer[..];
            while !rest.is_empty() {
                match rustix::io::write(front, rest) {
                    Ok(written) => rest = &rest[written..],
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        match rustix::io::read(front, &mut bytes[..]) {
            Ok(0) => return Ok(()),
            Ok(read) => decoder.extend(&bytes[..read]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[derive(Debug, Default)]
struct Writer {
    /// Held until this process exits.
    lock: Option<OwnedFd>,
    files: Vec<PathBuf>,
    open: HashMap<u32, OwnedFd>,
    /// Since the last Flush.
    written: Written,
    touched: Vec<u32>,
}

impl Writer {
    fn open(&mut self, open: Open) -> Result<Opened, String> {
        if open.locks {
            // A file system without locks has none to wait for.
            let lock = tutti_os::take_stdout().map_err(|error| format!("cannot keep the lock: {error}"))?;
            while rustix::fs::flock(&lock, FlockOperation::LockExclusive) == Err(Errno::INTR) {}
            self.lock = Some(lock);
        }
        tutti_os::oom::give_up_protection();
        if let Some(Identity { uid, gid, groups }) = &open.identity {
            tutti_os::become_this_user(*uid, *gid, groups)
                .map_err(|error| format!("cannot become user {uid}: {error}"))?;
        }
        rustix::process::umask(Mode::from_raw_mode(open.umask & 0o777));
        let directory = PathBuf::from(OsString::from(&open.directory));
        rustix::process::chdir(&directory).map_err(|error| cannot_enter(&directory, error))?;
        self.files = open.files.iter().map(|name| directory.join(OsString::from(name))).collect();
        let (mut lengths, mut first) = (Vec::new(), 0);
        for file in 0..self.files.len() as u32 {
            let truncate = if open.truncate { OFlags::TRUNC } else { OFlags::empty() };
            let status = self
                .descriptor(file, truncate)
                .and_then(rustix::fs::fstat)
                .map_err(|error| cannot_write(&self.files[file as usize], error))?;
            if file == 0 {
                first = status.st_ino;
            }
            let is_file = FileType::from_raw_mode(status.st_mode) == FileType::RegularFile;
            lengths.push(is_file.then_some(status.st_size as u64));
        }
        Ok(Opened::Ready { lengths, inode: first })
    }

    /// Appends bytes to a file. Behind an error nothing more is written until it has been answered for.
    fn append(&mut self, file: u32, mut bytes: &[u8]) {
        if self.touched.last() != Some(&file) {
            self.touched.push(file);
        }
        while self.written.error.is_none() && !bytes.is_empty() {
            let appended = match self.descriptor(file, OFlags::empty()) {
                Ok(descriptor) => rustix::io::write(descriptor, bytes),
                Err(error) => Err(error),
            };
            match appended {
                Ok(0) => self.written.error = Some(self.cannot_append(file, Errno::NOSPC)),
                Ok(written) => {
                    self.written.bytes += written as u64;
                    bytes = &bytes[written..];
                }
                Err(Errno::INTR) => {}
                Err(error) => self.written.error = Some(self.cannot_append(file, error)),
            }
        }
    }

    fn cannot_append(&self, file: u32, error: Errno) -> String {
        match self.files.get(file as usize) {
            Some(path) => cannot_write(path, error),
            None => format!("there is no file {file}"),
        }
    }

    fn take_written(&mut self) -> Written {
        self.touched.sort_unstable();
        self.touched.dedup();
        for file in std::mem::take(&mut self.touched) {
            let status = self.descriptor(file, OFlags::empty()).and_then(rustix::fs::fstat);
            if let Ok(status) = status
                && FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
            {
                self.written.lengths.push((file, status.st_size as u64));
                self.flush(file);
            }
        }
        std::mem::take(&mut self.written)
    }

    /// Bytes that the kernel has taken may still find no room where the file is kept.
    fn flush(&mut self, file: u32) {
        if let Some(open) = self.open.get(&file)
            && let Err(error) = tutti_os::flush_file(open)
            && self.written.error.is_none()
        {
            let error = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            self.written.error = Some(self.cannot_append(file, error));
        }
    }

    fn descriptor(&mut self, file: u32, more: OFlags) -> rustix::io::Result<&OwnedFd> {
        if !self.open.contains_key(&file) {
            let path = self.files.get(file as usize).ok_or(Errno::BADF)?;
            // A pipe without a reader is an error, not a wait.
            let flags = OFlags::WRONLY
                | OFlags::CREATE
                | OFlags::APPEND
                | OFlags::NOCTTY
                | OFlags::CLOEXEC
                | OFlags::NONBLOCK;
            let open = rustix::fs::open(path, flags | more, Mode::from_raw_mode(0o666))?;
            let flags = rustix::fs::fcntl_getfl(open.as_fd())?;
            rustix::fs::fcntl_setfl(open.as_fd(), flags - OFlags::NONBLOCK)?;
            if self.open.len() >= OPEN_MAX {
                (0..self.files.len() as u32).for_each(|file| self.flush(file));
                self.open.clear();
            }
            self.open.insert(file, open);
        }
        Ok(&self.open[&file])
    }
}

/// The line about a directory that the job's user cannot enter.
fn cannot_enter(directory: &Path, error: Errno) -> String {
    let (uid, error) = (rustix::process::geteuid().as_raw(), io::Error::from(error));
    format!("cannot enter the directory {} as user {uid}: {error}", directory.display())
}

fn cannot_write(path: &Path, error: Errno) -> String {
    format!("cannot write {}: {}", path.display(), io::Error::from(error))
}

#[cfg(test)]
mod tests;
