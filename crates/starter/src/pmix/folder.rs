//! Folder of a job's PMIx server: all files of the server and of its ranks (sessions, shared memory).
//!
//! | removes it | when |
//! |---|---|
//! | the starter | the job is over |
//! | the server | the starter is dead |
//! | the keeper | mpiexec and starter are dead |
//! | [`sweep`], at the next start of a starter of the user | all of them were killed at once |
//!
//! The starter holds a lock on a file in it as long as it lives. A sweep takes folders that belong to its
//! user and have such a file, which no process holds; and those without one, as a starter leaves them that is
//! killed before it has the lock, or an older one: their job has no socket, and no process names them in its
//! environment. Never by the name alone. Another user's stay, and root's daemon sweeps none: her next job
//! does.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, access, flock, fstat, open, openat,
    renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Folders of shared memory; the first that can be written is taken.
const PLACES: [&str; 2] = ["/dev/shm", "/tmp"];

const PREFIX: &str = "tutti-pmix-";

/// File whose lock says that the folder is in use. It has this name once it is locked.
const LOCK: &str = "lock";
const NEW_LOCK: &str = "lock.new";

/// The folder that the server of a job with this name has, in each place where it may be.
pub fn folders(job: &str) -> [PathBuf; 2] {
    PLACES.map(|place| Path::new(place).join(format!("{PREFIX}{job}")))
}

/// Removes what killed jobs of this user have left in memory.
pub fn sweep() {
    sweep_in(Path::new(PLACES[0]));
}

/// A job's folder, which is gone with the value.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Folder {
    /// Makes the folder of a job with this name.
    ///
    /// # Errors
    /// When there is one already, or the kernel gives none.
    pub(super) fn make(job: &str) -> io::Result<Self> {
        let is_open = |place: &str| access(place, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        let [first, second] = folders(job);
        if is_open(PLACES[0]) {
            return Self::make_at(first);
        }
        sweep_in(Path::new(PLACES[1]));
        Self::make_at(second)
    }

    fn make_at(path: PathBuf) -> io::Result<Self> {
        // Nobody else's: one that is there already is refused.
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let locked = || {
            let folder = open_folder(&path)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let lock = openat(&folder, NEW_LOCK, flags, Mode::from_raw_mode(0o600))?;
            flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
            renameat(&folder, NEW_LOCK, &folder, LOCK)?;
            Ok(lock)
        };
        match locked() {
            Ok(lock) => Ok(Folder { path, _lock: lock }),
            Err(error) => {
                let _ = std::fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

fn sweep_in(place: &Path) {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes())) {
        // The lock is held until the folder is gone.
        if let Ok(Some((_lock, folder))) = take_left(&entry.path())
            && remove_others(&entry.path()).is_ok()
            && unlinkat(&folder, LOCK, AtFlags::empty()).is_ok()
        {
            let _ = rustix::fs::unlinkat(CWD, entry.path(), AtFlags::REMOVEDIR);
        } else if is_left_without_lock(&entry.path()).unwrap_or(false) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether this is a folder of this user that has no lock, and no job.
fn is_left_without_lock(path: &Path) -> io::Result<bool> {
    let folder = open_folder(path)?;
    let is_own = fstat(&folder)?.st_uid == geteuid().as_raw();
    let is_locked = !matches!(statat(&folder, LOCK, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT));
    let name = path.file_name().and_then(|name| name.as_bytes().strip_prefix(PREFIX.as_bytes()));
    let Some(job) = name.filter(|_| is_own && !is_locked) else { return Ok(false) };
    // The starter has had the socket since before it made the folder.
    let socket = [b"@tutti-", job].concat();
    let sockets = std::fs::read("/proc/net/unix")?;
    let has_job = sockets.split(|byte| b" \n".contains(byte)).any(|word| word == socket);
    Ok(!has_job && !is_named_by_a_process(path)?)
}

/// Whether the environment of a process of this user has the path.
fn is_named_by_a_process(path: &Path) -> io::Result<bool> {
    let path = path.as_os_str().as_bytes();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.windows(path.len()).any(|bytes| bytes == path) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lock of a folder of this user that no process holds, and the folder.
fn take_left(path: &Path) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    let folder = open_folder(path)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = openat(&folder, LOCK, flags, Mode::empty())?;
    let is_own = |file: &OwnedFd| fstat(file).map(|about| about.st_uid == geteuid().as_raw());
    let is_file = FileType::from_raw_mode(fstat(&lock)?.st_mode) == FileType::RegularFile;
    if !is_file || !is_own(&folder)? || !is_own(&lock)? {
        return Ok(None);
    }
    let is_left = flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    Ok(is_left.then_some((lock, folder)))
}

/// Removes all but the lock, so that a sweep that is killed leaves what the next one knows.
fn remove_others(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == OsStr::new(LOCK) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use tutti_testkit::Scratch;

    use super::*;

    #[test]
    fn sweep_removes_folders_whose_lock_no_process_holds_and_no_others() {
        let scratch = Scratch::new("pmix-folders");
        let at = |name: &str| scratch.path().join(name);
        let made = |name: &str| Folder::make_at(at(name)).unwrap();
        let held = made("tutti-pmix-held");
        // As a kill -9 leaves it: the lock is gone, the files are there.
        let killed = made("tutti-pmix-killed");
        std::fs::create_dir(at("tutti-pmix-killed/session")).unwrap();
        std::fs::write(at("tutti-pmix-killed/session/segment"), "x").unwrap();
        flock(&killed._lock, FlockOperation::Unlock).unwrap();
        // By the name alone: a link to a folder that is free, a FIFO for a lock.
        let free = made("elsewhere");
        flock(&free._lock, FlockOperation::Unlock).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("tutti-pmix-link")).unwrap();
        std::fs::create_dir(at("tutti-pmix-fifo")).unwrap();
        rustix::fs::mknodat(CWD, at("tutti-pmix-fifo/lock"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        sweep_in(scratch.path());
        assert!(!at("tutti-pmix-killed").exists());
        for left in ["tutti-pmix-held/lock", "elsewhere/lock", "tutti-pmix-fifo/lock"] {
            assert!(at(left).exists(), "{left}");
        }
        drop(held);
        assert!(!at("tutti-pmix-held").exists());
    }

    /// As a starter leaves it that is killed before it has the lock, or an older one.
    #[test]
    fn sweep_removes_folders_without_a_lock_that_no_job_has() {
        let scratch = Scratch::new("pmix-folders-older");
        let job = |name: &str| format!("{name}-{}", std::process::id());
        let at = |name: &str| scratch.path().join(format!("{PREFIX}{}", job(name)));
        for name in ["older", "half", "bound", "named"] {
            std::fs::create_dir_all(at(name).join("session")).unwrap();
        }
        std::fs::write(at("half").join(NEW_LOCK), "").unwrap();
        let address = format!("tutti-{}", job("bound"));
        let address = <SocketAddr as SocketAddrExt>::from_abstract_name(address).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let mut command = std::process::Command::new("sleep");
        command.env("OMPI_MCA_btl_sm_backing_directory", at("named"));
        let mut process = command.arg("60").spawn().unwrap();
        sweep_in(scratch.path());
        let left = ["older", "half", "bound", "named"].map(|name| at(name).exists());
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(left, [false, false, true, true]);
        sweep_in(scratch.path());
        assert!(!at("named").exists());
    }

    #[test]
    fn folder_of_another_user_is_not_swept() {
        if !geteuid().is_root() {
            return tutti_testkit::skip(tutti_testkit::Need::Root, "gives a folder to another user");
        }
        let scratch = Scratch::new("pmix-folders-others");
        let folder = Folder::make_at(scratch.path().join("tutti-pmix-1")).unwrap();
        flock(&folder._lock, FlockOperation::Unlock).unwrap();
        std::os::unix::fs::chown(folder.path(), Some(12345), None).unwrap();
        let other = scratch.path().join("tutti-pmix-2");
        std::fs::create_dir(&other).unwrap();
        std::os::unix::fs::chown(&other, Some(12345), None).unwrap();
        sweep_in(scratch.path());
        assert!(folder.path().join(LOCK).exists() && other.exists());
    }

    #[test]
    fn folder_that_is_there_already_is_refused_and_stays() {
        let scratch = Scratch::new("pmix-folders-taken");
        let path = scratch.path().join("tutti-pmix-1");
        std::fs::create_dir(&path).unwrap();
        assert!(Folder::make_at(path.clone()).is_err() && path.exists());
    }
}
