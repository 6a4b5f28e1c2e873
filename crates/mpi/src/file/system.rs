//! All system calls on files. A call moves at most [`CALL_BYTES_MAX`], so that a freeze of the rank is never
//! late for a file: the kernel freezes a process between calls.

use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};

use tutti_files::process;
use tutti_rma::device::Access;
use tutti_runtime::bad_memory;

use core::ffi::c_int;

use crate::tally::{self, Tally};

/// Bytes of one call.
pub const CALL_BYTES_MAX: usize = 4 << 20;

/// Result of a transfer: all that was wanted, unless the file has ended or the kernel says why not.
#[derive(Debug)]
pub struct Moved {
    /// Bytes.
    pub bytes: usize,
    /// Why not more.
    pub error: Option<Error>,
}

impl Moved {
    /// The kernel stops where it cannot access the memory of a transfer, which began at `at`.
    fn refuse_bad_memory(self, at: *const u8, access: Access) -> Moved {
        if self.error.as_ref().is_some_and(|error| error.raw_os_error() == Some(libc::EFAULT)) {
            bad_memory::end_refused(at.addr() + self.bytes, access);
        }
        self
    }
}

fn retried(mut call: impl FnMut() -> isize) -> Result<usize> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result as usize);
        }
        let error = Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// An open file.
#[derive(Debug)]
pub enum OpenFile {
    /// A descriptor of this process.
    Here(File),
    /// A file of the node where the job was started, by its server (`origin:NAME`).
    Origin(process::File),
}

impl OpenFile {
    /// Size of the file, in bytes.
    ///
    /// # Errors
    /// The kernel's, or the origin's.
    pub fn bytes(&self) -> Result<u64> {
        match self {
            OpenFile::Here(file) => Ok(file.metadata()?.len()),
            OpenFile::Origin(file) => Ok(file.stat()?.size),
        }
    }

    /// Cuts or extends it.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        match self {
            OpenFile::Here(file) => file.set_len(bytes),
            OpenFile::Origin(file) => file.set_len(bytes),
        }
    }

    /// Brings it to the disk.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn sync_all(&self) -> Result<()> {
        match self {
            OpenFile::Here(file) => file.sync_all(),
            OpenFile::Origin(file) => file.sync(),
        }
    }

    /// Has the file system say whether it has all that was written: NFS and quotas do not before a descriptor
    /// is closed, so another one of the same open file is.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn flush(&self) -> Result<()> {
        let OpenFile::Here(file) = self else { return Ok(()) };
        // A program that has no descriptor left closes this one all the same.
        let Ok(copy) = file.try_clone().map(IntoRawFd::into_raw_fd) else { return Ok(()) };
        // SAFETY: our own, and known to nobody else; it is closed whatever the call says.
        if unsafe { libc::close(copy) } == 0 {
            return Ok(());
        }
        match Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            error => Err(error),
        }
    }
}

/// The name of a path of the origin; none: it is one of this machine.
fn origin_name(path: &CString) -> Option<&[u8]> {
    path.to_bytes().strip_prefix(process::PREFIX)
}

/// Opens a path.
///
/// # Errors
/// The kernel's.
pub fn open(path: &CString, flags: c_int, mode: u32) -> Result<OpenFile> {
    if let Some(name) = origin_name(path) {
        return process::File::open(name, flags, mode).map(OpenFile::Origin);
    }
    // SAFETY: the path ends with a zero byte.
    let fd = retried(|| unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, mode) } as isize)?;
    // SAFETY: a descriptor of our own.
    Ok(OpenFile::Here(unsafe { File::from_raw_fd(fd as c_int) }))
}

/// Removes a path.
///
/// # Errors
/// The kernel's.
pub fn remove(path: &CString) -> Result<()> {
    if let Some(name) = origin_name(path) {
        return process::remove(name);
    }
    // SAFETY: the path ends with a zero byte.
    retried(|| unsafe { libc::unlink(path.as_ptr()) } as isize).map(drop)
}

/// Whether a path names a directory.
pub fn is_directory(file: &OpenFile) -> bool {
    // The origin refuses one.
    matches!(file, OpenFile::Here(file) if file.metadata().is_ok_and(|data| data.is_dir()))
}

/// Reads up to `bytes` bytes at an offset; fewer at the end of the file. Memory that cannot be written ends
/// the job, as everywhere.
///
/// # Safety
/// `at` is valid for writing `bytes` bytes.
pub unsafe fn read(file: &OpenFile, at: *mut u8, bytes: usize, offset: i64) -> Moved {
    let moved = pieces(bytes, &tally::FILE_BYTES_READ, |done, part| match file {
        // SAFETY: our contract; each part lies inside.
        OpenFile::Here(file) => retried(|| unsafe {
            libc::pread(file.as_raw_fd(), at.add(done).cast(), part, offset + done as i64)
        }),
        OpenFile::Origin(file) => {
            // SAFETY: our contract; each part lies inside.
            let part = unsafe { std::slice::from_raw_parts_mut(at.add(done), part) };
            file.read_at(part, (offset + done as i64).cast_unsigned())
        }
    });
    moved.refuse_bad_memory(at, Access::Write)
}

/// Writes `bytes` bytes at an offset. Memory that cannot be read ends the job, as everywhere.
///
/// # Safety
/// `at` is valid for reading `bytes` bytes.
pub unsafe fn write(file: &OpenFile, at: *const u8, bytes: usize, offset: i64) -> Moved {
    let moved = pieces(bytes, &tally::FILE_BYTES_WRITTEN, |done, part| match file {
        // SAFETY: our contract; each part lies inside.
        OpenFile::Here(file) => retried(|| unsafe {
            libc::pwrite(file.as_raw_fd(), at.add(done).cast(), part, offset + done as i64)
        }),
        OpenFile::Origin(file) => {
            // SAFETY: our contract; each part lies inside.
            let part = unsafe { std::slice::from_raw_parts(at.add(done), part) };
            file.write_at(part, (offset + done as i64).cast_unsigned())
        }
    });
    moved.refuse_bad_memory(at, Access::Read)
}

fn pieces(bytes: usize, moved: &Tally, mut call: impl FnMut(usize, usize) -> Result<usize>) -> Moved {
    let mut done = 0;
    while done < bytes {
        match call(done, (bytes - done).min(CALL_BYTES_MAX)) {
            Ok(0) => break,
            Ok(part) => {
                done += part;
                moved.add(part as u64);
            }
            Err(error) => return Moved { bytes: done, error: Some(error) },
        }
    }
    Moved { bytes: done, error: None }
}

/// Makes room for the first `bytes` bytes. Where the file system cannot, the file is extended only.
///
/// # Errors
/// The kernel's.
pub fn allocate(file: &OpenFile, bytes: i64) -> Result<()> {
    // The kernel makes room for one byte at least.
    if bytes == 0 {
        return Ok(());
    }
    let allocated = match file {
        OpenFile::Here(file) => allocate_here(file, bytes),
        OpenFile::Origin(file) => file.allocate(bytes.cast_unsigned()),
    };
    match allocated {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS)) => {
            if file.bytes()? < bytes as u64 { file.set_len(bytes as u64) } else { Ok(()) }
        }
        other => other,
    }
}

fn allocate_here(file: &File, bytes: i64) -> Result<()> {
    // Not posix_fallocate: where the kernel cannot, it writes into blocks that others write meanwhile.
    // SAFETY: plain numbers.
    retried(|| unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } as isize).map(drop)
}

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Others may read.
    Shared,
    /// Access for this process alone.
    Exclusive,
    /// No longer.
    Free,
}

/// Sets the lock of a range for this open description. Returns false when others are in the way.
///
/// # Errors
/// The kernel's: the file system may have no locks.
pub fn try_lock(file: &OpenFile, lock: Lock, begin: i64, bytes: i64) -> Result<bool> {
    let kind = match lock {
        Lock::Shared => libc::F_RDLCK,
        Lock::Exclusive => libc::F_WRLCK,
        Lock::Free => libc::F_UNLCK,
    };
    let range = libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: begin,
        l_len: bytes,
        l_pid: 0,
    };
    let result = match file {
        OpenFile::Here(file) => {
            let (file, range) = (file.as_raw_fd(), &raw const range);
            // SAFETY: the structure lives during the call.
            retried(|| unsafe { libc::fcntl(file, libc::F_OFD_SETLK, range) } as isize).map(drop)
        }
        OpenFile::Origin(file) => file.set_lock(tutti_files::frames::Lock { kind, begin, bytes }),
    };
    match result {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a file lies on NFS.
pub fn is_on_nfs(file: &OpenFile) -> bool {
    let OpenFile::Here(file) = file else { return false };
    // SAFETY: zeroes are a value of this structure; the kernel fills it.
    unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        libc::fstatfs(file.as_raw_fd(), &raw mut found) == 0 && found.f_type == libc::NFS_SUPER_MAGIC
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_lock_of_another_description_is_in_the_way() {
        let path = CString::new(format!("/tmp/tutti-lock-{}", std::process::id())).unwrap();
        let flags = libc::O_RDWR | libc::O_CREAT;
        let (one, other) = (open(&path, flags, 0o600).unwrap(), open(&path, flags, 0o600).unwrap());
        remove(&path).unwrap();
        assert!(try_lock(&one, Lock::Exclusive, 0, 100).unwrap());
        assert!(!try_lock(&other, Lock::Shared, 50, 10).unwrap());
        assert!(try_lock(&other, Lock::Exclusive, 100, 10).unwrap());
        assert!(try_lock(&one, Lock::Free, 0, 100).unwrap());
        assert!(try_lock(&other, Lock::Shared, 50, 10).unwrap());
    }

    #[test]
    fn system_read_ends_with_the_file() {
        let path = CString::new(format!("/tmp/tutti-read-{}", std::process::id())).unwrap();
        let file = open(&path, libc::O_RDWR | libc::O_CREAT, 0o600).unwrap();
        remove(&path).unwrap();
        let data = vec![7_u8; CALL_BYTES_MAX + 10];
        let mut read_back = vec![0_u8; CALL_BYTES_MAX + 100];
        // SAFETY: both vectors are as long as said.
        let (written, found) = unsafe {
            let written = write(&file, data.as_ptr(), data.len(), 5);
            (written, read(&file, read_back.as_mut_ptr(), read_back.len(), 5))
        };
        assert_eq!((written.bytes, found.bytes), (data.len(), data.len()));
        assert!(written.error.is_none() && found.error.is_none());
        assert_eq!(read_back[..data.len()], data);
    }
}
