//! Locks of open descriptions, which `rustix` does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::frames::Lock;

/// Sets a lock, or frees it, without waiting.
///
/// # Errors
/// The kernel's; EAGAIN while others have it.
pub(crate) fn set_lock(file: BorrowedFd<'_>, lock: Lock) -> io::Result<()> {
    let range = range_of(lock);
    // SAFETY: the structure lives for the call; the descriptor is open.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The lock that would be in the way; none: it could be set.
///
/// # Errors
/// The kernel's.
pub(crate) fn conflicting_lock(file: BorrowedFd<'_>, lock: Lock) -> io::Result<Option<Lock>> {
    let mut range = range_of(lock);
    // SAFETY: the structure lives for the call; the descriptor is open.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut range) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let kind = i32::from(range.l_type);
    Ok((kind != libc::F_UNLCK).then_some(Lock { kind, begin: range.l_start, bytes: range.l_len }))
}

fn range_of(lock: Lock) -> libc::flock {
    libc::flock {
        l_type: lock.kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: lock.begin,
        l_len: lock.bytes,
        l_pid: 0,
    }
}
