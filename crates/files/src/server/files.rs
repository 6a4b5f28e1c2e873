//! Open files of a session.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags, RawDir};

use super::FILES_MAX;
use super::folders::{Folders, attributes_of, times_of};
use crate::frames::{Attributes, DATA_MAX, Entry, Place, Request, Target, Writer};
use crate::sys;

/// Entries of one folder.
const ENTRIES_MAX: usize = 1 << 20;
/// Bits of `open` that a client may ask for.
const FLAGS: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_DIRECTORY
    | libc::O_DSYNC
    | libc::O_SYNC;

/// An open file.
#[derive(Debug)]
enum Opened {
    File(OwnedFd),
    /// A folder, with its entries as they were.
    Folder(OwnedFd, Vec<Entry>),
}

/// The files of one client.
#[derive(Debug)]
pub(super) struct Session {
    pub number: u64,
    files: Mutex<HashMap<u64, Arc<Opened>>>,
    /// Open files of all sessions.
    open: Arc<AtomicUsize>,
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Session {
    pub(super) fn new(number: u64, open: Arc<AtomicUsize>) -> Self {
        Session { number, files: Mutex::default(), open }
    }

    /// Opens what lies there: answer with the handle and its attributes.
    pub(super) fn open(
        &self,
        folders: &Folders,
        place: &Place,
        flags: u32,
        mode: u32,
        follow: bool,
    ) -> io::Result<Vec<u8>> {
        let flags = flags.cast_signed() & FLAGS;
        // Never a wait for the other end of a pipe.
        let wanted = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::NONBLOCK | OFlags::NOCTTY;
        let wanted = if follow { wanted } else { wanted | OFlags::NOFOLLOW };
        let writes =
            flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        let file = folders.open_below(place, wanted, Mode::from_raw_mode(mode & 0o7777), writes)?;
        let attributes = attributes_of(&rustix::fs::fstat(&file)?);
        let opened = match attributes.mode & libc::S_IFMT {
            libc::S_IFREG => Opened::File(file),
            libc::S_IFDIR => {
                let entries = entries_of(&file)?;
                Opened::Folder(file, entries)
            }
            // Devices, pipes and sockets are of the machine where they are.
            _ => return Err(error(libc::EOPNOTSUPP)),
        };
        if self.open.fetch_add(1, Ordering::Relaxed) >= FILES_MAX {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(error(libc::ENFILE));
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = (1..).find(|handle| !files.contains_key(handle)).unwrap_or(1);
        files.insert(handle, Arc::new(opened));
        Ok(Writer::answer(0).u64(handle).attributes(&attributes).finish())
    }

    fn find(&self, handle: u64) -> io::Result<Arc<Opened>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&handle).cloned().ok_or_else(|| error(libc::EBADF))
    }

    fn file(&self, handle: u64) -> io::Result<impl AsFd + use<>> {
        Ok(Shared(self.find(handle)?))
    }

    /// Answers what is asked of an open file; none: it is asked of a place.
    pub(super) fn answer(&self, request: &Request) -> io::Result<Option<Vec<u8>>> {
        let mut out = Writer::answer(0);
        match request {
            Request::Stat { target: Target::Handle(handle), .. } => {
                out.attributes(&attributes_of(&rustix::fs::fstat(self.file(*handle)?)?));
            }
            Request::Read { handle, offset, bytes } => {
                let file = self.file(*handle)?;
                let version = attributes_of(&rustix::fs::fstat(&file)?).version();
                let mut data = vec![0; (*bytes as usize).min(DATA_MAX)];
                let read = read_all(&file, &mut data, *offset)?;
                out.u64(version).bytes(&data[..read]);
            }
            Request::Write { handle, offset, data } => {
                let file = self.file(*handle)?;
                out.u32(write_all(&file, data, *offset)? as u32);
            }
            Request::Set { target: Target::Handle(handle), change } => {
                let file = self.file(*handle)?;
                if let Some(mode) = change.mode {
                    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
                }
                if let Some(size) = change.size {
                    rustix::fs::ftruncate(&file, size)?;
                }
                if let Some(times) = times_of(change) {
                    rustix::fs::futimens(&file, &times)?;
                }
                out.attributes(&attributes_of(&rustix::fs::fstat(&file)?));
            }
            Request::Sync { handle } => rustix::fs::fsync(self.file(*handle)?)?,
            Request::Close { handle } => {
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                files.remove(handle).ok_or_else(|| error(libc::EBADF))?;
                self.open.fetch_sub(1, Ordering::Relaxed);
            }
            Request::SetLock { handle, lock } => sys::set_lock(self.file(*handle)?.as_fd(), *lock)?,
            Request::LockFile { handle, kind } => {
                // A handle is an open description here, as it is where the program runs.
                let operation = match *kind {
                    libc::F_RDLCK => FlockOperation::NonBlockingLockShared,
                    libc::F_WRLCK => FlockOperation::NonBlockingLockExclusive,
                    _ => FlockOperation::NonBlockingUnlock,
                };
                rustix::fs::flock(self.file(*handle)?, operation)?;
            }
            Request::GetLock { handle, lock } => {
                match sys::conflicting_lock(self.file(*handle)?.as_fd(), *lock)? {
                    None => out.u32(libc::F_UNLCK as u32).u64(0).u64(0),
                    Some(found) => out
                        .u32(found.kind as u32)
                        .u64(found.begin.cast_unsigned())
                        .u64(found.bytes.cast_unsigned()),
                };
            }
            Request::Allocate { handle, mode, offset, bytes } => {
                let flags = FallocateFlags::from_bits_retain(*mode);
                rustix::fs::fallocate(self.file(*handle)?, flags, *offset, *bytes)?;
            }
            Request::List { handle, index } => match &*self.find(*handle)? {
                Opened::Folder(_, entries) => {
                    let from = (*index as usize).min(entries.len());
                    return Ok(Some(Entry::encode_list(&entries[from..])));
                }
                Opened::File(_) => return Err(error(libc::ENOTDIR)),
            },
            _ => return Ok(None),
        }
        Ok(Some(out.finish()))
    }
}

impl Drop for Session {
    /// The client has gone.
    fn drop(&mut self) {
        let files = self.files.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.open.fetch_sub(files.len(), Ordering::Relaxed);
    }
}

struct Shared(Arc<Opened>);

impl AsFd for Shared {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match &*self.0 {
            Opened::File(file) | Opened::Folder(file, _) => file.as_fd(),
        }
    }
}

fn read_all(file: impl AsFd, data: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < data.len() {
        match rustix::io::pread(&file, &mut data[done..], offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) if done == 0 => return Err(error.into()),
            Err(_) => break,
        }
    }
    Ok(done)
}

/// Bytes written before an error count; the next write says the error.
fn write_all(file: impl AsFd, data: &[u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < data.len() {
        match rustix::io::pwrite(&file, &data[done..], offset.saturating_add(done as u64)) {
            Ok(written) => done += written,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) if done == 0 => return Err(error.into()),
            Err(_) => break,
        }
    }
    Ok(done)
}

fn entries_of(folder: &OwnedFd) -> io::Result<Vec<Entry>> {
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut entries = Vec::new();
    let mut reader = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = reader.next() {
        let entry = entry?;
        if entries.len() >= ENTRIES_MAX {
            return Err(error(libc::EOVERFLOW));
        }
        let kind = match entry.file_type() {
            rustix::fs::FileType::Directory => libc::DT_DIR,
            rustix::fs::FileType::RegularFile => libc::DT_REG,
            rustix::fs::FileType::Symlink => libc::DT_LNK,
            _ => libc::DT_UNKNOWN,
        };
        entries.push(Entry { ino: entry.ino(), kind, name: entry.file_name().to_bytes().to_vec() });
    }
    Ok(entries)
}

/// Attributes of what has just been opened, as a client reads them.
pub(crate) fn opened_of(answer: &[u8]) -> Result<(u64, Attributes), crate::frames::NoFrame> {
    let mut from = crate::frames::Reader::new(answer);
    let opened = (from.u64()?, from.attributes()?);
    from.end()?;
    Ok(opened)
}
