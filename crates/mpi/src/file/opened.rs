//! A file as this process has it open, and what the user has said of it.

use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::rc::Rc;

use core::ffi::c_int;

use tutti_datatype::{Layout, View};
use tutti_runtime::file_locks::FileLocks;

use super::hints::{Hints, NODES};
use super::pointer::Pointer;
use super::representation::Representation;
use super::system::{self, Lock, OpenFile};
use crate::abi::*;
use crate::error::{Error, Result, check};

/// Properties of a file that do not change while it is open.
#[derive(Debug)]
pub struct Opened {
    /// The descriptor.
    pub file: OpenFile,
    /// Path of the file.
    pub path: CString,
    /// Context of the messages of its ranks.
    pub context: u32,
    /// Ranks of the file, by their ranks in the world.
    pub members: Vec<u32>,
    /// Which of them this process is.
    pub me: usize,
    /// The ranks that access the file for others, best first.
    pub aggregators: Vec<u32>,
    /// How many of them do so if the user does not say it.
    pub aggregators_wanted: usize,
    /// The descriptor can be read, whatever the access mode says.
    pub is_readable: bool,
    /// Whether the descriptor can be written.
    pub is_writable: bool,
    /// An access of this process holds a lock: locks of one description do not exclude each other.
    pub is_locked: Cell<bool>,
    /// Where this rank says that it has a lock.
    pub locks: FileLocks,
}

impl Opened {
    /// The path for the user's eyes.
    pub fn name(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// How many ranks access the file for others.
    pub fn aggregators_with(&self, hints: &Hints) -> usize {
        match hints.number(NODES) {
            0 => self.aggregators_wanted,
            count => (count as usize).min(self.aggregators.len()),
        }
    }

    /// Locks a range, unless somebody is in the way, or the job is about to be frozen: then there is no
    /// result yet.
    pub fn try_lock(&self, lock: Lock, begin: i64, bytes: i64) -> Option<Result<()>> {
        if self.is_locked.get() || !self.locks.try_begin() {
            return None;
        }
        // The lock must be one that the descriptor allows.
        let lock = match lock {
            Lock::Shared if !self.is_readable => Lock::Exclusive,
            Lock::Exclusive if !self.is_writable => Lock::Shared,
            lock => lock,
        };
        match system::try_lock(&self.file, lock, begin, bytes) {
            Ok(false) => {
                self.locks.end();
                None
            }
            Ok(true) => {
                self.is_locked.set(true);
                Some(Ok(()))
            }
            Err(error) => {
                self.locks.end();
                let text = format!("{}: the file system does not lock files: {error}", self.name());
                Some(Err(Error::new(MPI_ERR_IO, text)))
            }
        }
    }

    /// Gives a range back.
    pub fn unlock(&self, begin: i64, bytes: i64) {
        self.is_locked.set(false);
        // A lock that cannot be given back ends with the descriptor.
        let _ = system::try_lock(&self.file, Lock::Free, begin, bytes);
        self.locks.end();
    }

    /// The error of a transfer that has not moved `bytes` bytes at `offset`.
    #[cold]
    pub fn failed(&self, verb: &str, bytes: usize, offset: i64, error: &io::Error) -> Error {
        let text = format!("cannot {verb} {bytes} bytes at offset {offset} of {}: {error}", self.name());
        Error::new(class_of(error), text)
    }
}

/// The class of an error of the kernel (14.7).
pub fn class_of(error: &io::Error) -> c_int {
    match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT => MPI_ERR_NO_SUCH_FILE,
        libc::EEXIST => MPI_ERR_FILE_EXISTS,
        libc::EACCES | libc::EPERM => MPI_ERR_ACCESS,
        libc::EROFS => MPI_ERR_READ_ONLY,
        libc::ENOSPC | libc::EFBIG => MPI_ERR_NO_SPACE,
        libc::EDQUOT => MPI_ERR_QUOTA,
        libc::EBUSY | libc::ETXTBSY => MPI_ERR_FILE_IN_USE,
        libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => MPI_ERR_BAD_FILE,
        _ => MPI_ERR_IO,
    }
}

/// Current view of a file.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The places.
    pub view: Rc<View>,
    /// Where the view begins.
    pub displacement: i64,
    /// The type that offsets count.
    pub etype: Rc<Layout>,
    /// Bytes of one in the file; never 0.
    pub etype_bytes: u64,
    /// The type of the places.
    pub filetype: Rc<Layout>,
    /// How data look in the file.
    pub representation: Rc<Representation>,
}

/// A split collective access that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// MPI_File_read_all_begin
    ReadAll,
    /// MPI_File_read_at_all_begin
    ReadAtAll,
    /// MPI_File_read_ordered_begin
    ReadOrdered,
    /// MPI_File_write_all_begin
    WriteAll,
    /// MPI_File_write_at_all_begin
    WriteAtAll,
    /// MPI_File_write_ordered_begin
    WriteOrdered,
}

/// File that a handle names.
#[derive(Debug)]
pub struct File {
    /// The communicator of its own over which its ranks meet.
    pub comm: MPI_Comm,
    /// Properties that do not change.
    pub opened: Rc<Opened>,
    /// Access mode.
    pub amode: c_int,
    /// The view.
    pub shown: Shown,
    /// The individual pointer, in etypes.
    pub position: i64,
    /// The shared pointer.
    pub pointer: Rc<Pointer>,
    /// Hints that hold.
    pub hints: Hints,
    /// Atomic mode (14.6.1).
    pub is_atomic: bool,
    /// Error handler; one of its references is ours.
    pub errhandler: MPI_Errhandler,
    /// The split collective access that has begun, with its request.
    pub split: Option<(Split, u32)>,
    /// Collective accesses so far; the tags of their messages.
    pub accesses: u32,
}

impl File {
    /// Checks that the user may write.
    ///
    /// # Errors
    /// MPI_ERR_READ_ONLY.
    pub fn check_writable(&self) -> Result<()> {
        check(self.amode & MPI_MODE_RDONLY == 0, MPI_ERR_READ_ONLY, || {
            format!("{} was opened with MPI_MODE_RDONLY", self.opened.name())
        })
    }

    /// Checks that the user may read.
    ///
    /// # Errors
    /// MPI_ERR_ACCESS.
    pub fn check_readable(&self) -> Result<()> {
        check(self.amode & MPI_MODE_WRONLY == 0, MPI_ERR_ACCESS, || {
            format!("{} was opened with MPI_MODE_WRONLY", self.opened.name())
        })
    }

    /// Checks that places may be named.
    ///
    /// # Errors
    /// MPI_ERR_UNSUPPORTED_OPERATION.
    pub fn check_not_sequential(&self) -> Result<()> {
        check(self.amode & MPI_MODE_SEQUENTIAL == 0, MPI_ERR_UNSUPPORTED_OPERATION, || {
            format!("{} was opened with MPI_MODE_SEQUENTIAL", self.opened.name())
        })
    }

    /// Checks that no split collective access has begun.
    ///
    /// # Errors
    /// MPI_ERR_OTHER.
    pub fn check_no_split(&self) -> Result<()> {
        check(self.split.is_none(), MPI_ERR_OTHER, || {
            "a split collective access of this file has begun and not ended".into()
        })
    }

    /// The tag of the next collective access; those that follow it are its own up to the next multiple of 4.
    pub fn next_tag(&mut self) -> i32 {
        self.accesses = (self.accesses + 1) % (1 << 28);
        (self.accesses * 4) as i32
    }
}
