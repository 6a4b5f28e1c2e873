//! Locks of daemons beside their sockets and on the files that outlive a boot: one daemon has them at a time.
//! Taken by `tuttid`, and looked at by whoever removes what daemons have left.
//!
//! They are record locks of POSIX. The kernel takes them back with the process, and no child has them: one
//! that was forked just before its daemon was killed has all of that one's descriptors until it closes them,
//! and with a lock of `flock` the next daemon would wait for it. A process loses such a lock when it closes
//! any descriptor of the file, so whoever has one does not open the file once more.

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

/// Whether this process has got the lock, on a file that is open for writing; `false`: another one has it.
///
/// # Errors
/// When the file system has no locks.
pub fn try_take(file: &File) -> io::Result<bool> {
    loop {
        return match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            // A file system of another host may be asked for long enough.
            Err(Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// Whether another process has the lock, on a file that is open for reading.
#[must_use]
pub fn is_held(file: &File) -> bool {
    fcntl_getlk(file, &Flock::from(FlockType::ReadLock)).is_ok_and(|found| found.is_some())
}

/// The process that has the lock, if one has it that is seen from here.
#[must_use]
pub fn holder(file: &File) -> Option<u32> {
    let found = fcntl_getlk(file, &Flock::from(FlockType::ReadLock)).ok()??;
    found.pid.map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn daemon_lock_is_none_of_a_child_that_has_its_descriptor() {
        let path = std::env::temp_dir().join(format!("tutti-daemon-lock-{}", std::process::id()));
        let open = || File::options().create(true).append(true).read(true).open(&path).expect("a file");
        let lock = open();
        assert!(try_take(&lock).expect("locks"));
        let input = lock.try_clone().expect("a descriptor");
        let mut child = Command::new("sleep").arg("1000").stdin(input).spawn().expect("sleep");
        // Its daemon dies.
        drop(lock);
        let next = open();
        let is_free = !is_held(&next) && try_take(&next).expect("locks");
        child.kill().expect("it lives");
        child.wait().expect("our child");
        std::fs::remove_file(&path).expect("it is there");
        assert!(is_free);
    }
}
