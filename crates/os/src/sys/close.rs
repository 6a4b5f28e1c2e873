//! Errors of writes that a file system says when a descriptor is closed, and not before: NFS, quotas of a
//! server, FUSE.

use std::io;
use std::os::fd::{AsFd, IntoRawFd};

/// Has a file system say whether it has all that was written by way of this descriptor, which stays open:
/// one that refers to the same open file is closed. On a local disk nothing happens.
///
/// # Errors
/// The kernel's: a full disk, a quota, an error of the server.
pub fn flush_file(file: impl AsFd) -> io::Result<()> {
    let copy = file.as_fd().try_clone_to_owned()?.into_raw_fd();
    // SAFETY: our own, and known to nobody else; it is closed whatever the call says.
    if unsafe { libc::close(copy) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}
