//! Names that a user's launches publish on a node for each other (MPI 11.9.4): a file for each name, in a
//! folder that is the user's alone.
//!
//! The process that publishes holds a lock on its whole file. The kernel drops it when the process dies, so a
//! name that nobody holds is none, and nobody has to answer: a publisher may compute, or be frozen. Files of
//! dead processes are removed when another name is published, by a process that holds a lock on the first
//! byte: that is no publisher. Names of a launch itself are [`tutti_shm::names`], those of other nodes
//! [`crate::cluster_names`].
//!
//! ```text
//! | bytes of the service's name: u32 | service | port |
//! ```

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tutti_shm::names::{PORT_BYTES_MAX, SERVICE_BYTES_MAX};

/// Looks at a file that others remove meanwhile, and the time between them.
const TRIES: usize = 1000;
const RETRY: Duration = Duration::from_millis(1);

/// Files that are looked at in one sweep, at most.
const SWEPT_MAX: usize = 1024;

/// A name that this process has published. It goes with the value, and with the process.
#[derive(Debug)]
pub struct UserName {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Drop for UserName {
    fn drop(&mut self) {
        // While the lock is held, so that no other process has this file by now.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Publishes a port under the name of a service; none when another process of the user has the name.
///
/// # Errors
/// When the folder is not the user's alone, or the file cannot be written.
pub fn publish(service: &[u8], port: &[u8]) -> io::Result<Option<UserName>> {
    publish_in(&folder(), service, port)
}

/// The port that another launch has published; none when there is no such name.
///
/// # Errors
/// When the folder is not the user's alone, or the file cannot be read.
pub fn look_up(service: &[u8]) -> io::Result<Option<Vec<u8>>> {
    look_up_in(&folder(), service)
}

fn publish_in(folder: &Path, service: &[u8], port: &[u8]) -> io::Result<Option<UserName>> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    check(folder)?;
    let path = folder.join(file_name(service));
    for _ in 0..TRIES {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
        if !lock(&file, Range::Whole)? {
            if is_published(&file)? {
                return Ok(None);
            }
            std::thread::sleep(RETRY);
            continue;
        }
        // Its last owner may have removed it between the two calls.
        if !is_at(&file, &path) {
            continue;
        }
        let content = [&(service.len() as u32).to_le_bytes(), service, port].concat();
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&content)?;
        sweep(folder, &path);
        return Ok(Some(UserName { path, _file: file }));
    }
    let text = "a stopped process of this user is about to remove the file of its last publisher";
    Err(io::Error::new(io::ErrorKind::WouldBlock, text))
}

/// Removes files of processes that were killed, but not this one.
fn sweep(folder: &Path, own: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(SWEPT_MAX);
    for path in entries.map(|entry| entry.path()).filter(|path| path != own) {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = File::options().read(true).write(true).custom_flags(flags).open(&path) else {
            continue;
        };
        let is_file = file.metadata().is_ok_and(|found| found.is_file());
        // Its owner may have begun with it between the two calls: then it sees that the file is gone.
        if is_file && lock(&file, Range::First).unwrap_or(false) && is_at(&file, &path) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn look_up_in(folder: &Path, service: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let opened =
        File::options().read(true).custom_flags(libc::O_NOFOLLOW).open(folder.join(file_name(service)));
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    check(folder)?;
    if !is_published(&file)? {
        return Ok(None);
    }
    let mut content = Vec::new();
    let most = 4 + SERVICE_BYTES_MAX + PORT_BYTES_MAX;
    (&file).take(most as u64 + 1).read_to_end(&mut content)?;
    Ok(port_of(&content, service).map(<[u8]>::to_vec).filter(|_| content.len() <= most))
}

/// The port in a file, if it is of this service.
pub(crate) fn port_of<'a>(content: &'a [u8], service: &[u8]) -> Option<&'a [u8]> {
    let (bytes, rest) = content.split_first_chunk::<4>()?;
    let (found, port) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
    (found == service).then_some(port)
}

/// Bytes of a file that a lock is for.
#[derive(Clone, Copy)]
enum Range {
    /// The lock of a publisher.
    Whole,
    /// The lock of a process that removes the file of a dead one.
    First,
}

/// Takes a write lock, which belongs to the opened file; false when another has one.
fn lock(file: &File, range: Range) -> io::Result<bool> {
    let bytes = match range {
        Range::Whole => 0,
        Range::First => 1,
    };
    match ask_lock(file, libc::F_OFD_SETLK, 0, bytes) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether another process publishes a name by this file. A lock on the first byte alone is no publisher's.
fn is_published(file: &File) -> io::Result<bool> {
    Ok(ask_lock(file, libc::F_OFD_GETLK, 1, 0)? != libc::F_UNLCK as libc::c_short)
}

/// Asks about a write lock on so many bytes from a place, 0 for all behind it. The type that the kernel
/// answers with.
fn ask_lock(file: &File, how: libc::c_int, start: i64, bytes: i64) -> io::Result<libc::c_short> {
    // SAFETY: all zeros is a valid lock.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    (lock.l_type, lock.l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    (lock.l_start, lock.l_len) = (start, bytes);
    // SAFETY: the structure is valid during the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), how, &raw mut lock) } {
        0 => Ok(lock.l_type),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether a file is still the one with this name.
fn is_at(file: &File, path: &Path) -> bool {
    let inode = file.metadata().map_or(0, |found| found.ino());
    std::fs::symlink_metadata(path).is_ok_and(|found| found.ino() == inode)
}

/// Names of any bytes as names of files: two FNV-1a hashes.
pub(crate) fn file_name(service: &[u8]) -> String {
    let hash = |seed: u64| {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        service.iter().fold(seed, step)
    };
    format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x84_2223_25cb_f29c))
}

/// Beside the sockets of daemons: below `TUTTI_DIR`, else root's folder, else the user's.
fn folder() -> PathBuf {
    let of = |name: &str| std::env::var_os(name).filter(|folder| !folder.is_empty()).map(PathBuf::from);
    // SAFETY: it takes nothing.
    let uid = unsafe { libc::geteuid() };
    let folder = match (of("TUTTI_DIR"), of("XDG_RUNTIME_DIR")) {
        (Some(folder), _) => folder,
        _ if uid == 0 => PathBuf::from("/run/tutti"),
        (_, Some(runtime)) => runtime.join("tutti"),
        _ => std::env::temp_dir().join(format!("tutti-{uid}")),
    };
    // One folder may serve several users.
    folder.join(format!("names-{uid}"))
}

fn check(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder)?;
    // SAFETY: it takes nothing.
    let is_own = found.is_dir() && found.uid() == unsafe { libc::geteuid() } && found.mode() & 0o077 == 0;
    if is_own {
        return Ok(());
    }
    let text = format!("{} is not this user's alone", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tutti_testkit::Scratch;

    use super::*;

    #[test]
    fn user_names_are_there_until_their_process_lets_them_go() {
        let scratch = Scratch::new("user-names");
        let folder = scratch.path().join("names");
        let look_up = |service: &[u8]| look_up_in(&folder, service).unwrap();
        assert_eq!(look_up(b"ocean"), None);
        let name = publish_in(&folder, b"ocean", b"port").unwrap().expect("it is free");
        assert_eq!(look_up(b"ocean"), Some(b"port".to_vec()));
        assert_eq!(look_up(b"ocea"), None);
        assert!(publish_in(&folder, b"ocean", b"other").unwrap().is_none(), "it is taken");
        assert_eq!(look_up(b"ocean"), Some(b"port".to_vec()));
        drop(name);
        assert_eq!(look_up(b"ocean"), None);
        assert!(publish_in(&folder, b"ocean", b"other").unwrap().is_some());
    }

    #[test]
    fn user_names_of_dead_processes_and_odd_files_are_none() {
        let scratch = Scratch::new("user-names-odd");
        let folder = scratch.path().join("names");
        std::mem::forget(publish_in(&folder, b"other", b"").unwrap());
        let path = folder.join(file_name(b"ocean"));
        let left = folder.join(file_name(b"left"));
        std::fs::write(&left, b"\x04\0\0\0leftport").unwrap();
        for content in [&b""[..], b"\x05\0\0", b"\x05\0\0\0oceanport", b"\xff\xff\xff\xffocean"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(look_up_in(&folder, b"ocean").unwrap(), None, "nobody holds it");
        }
        assert_eq!(port_of(b"\x05\0\0\0oceanport", b"ocean"), Some(&b"port"[..]));
        assert_eq!(port_of(b"\xff\xff\xff\xffocean", b"ocean"), None);
        assert!(
            publish_in(&folder, b"ocean", b"new").unwrap().is_some(),
            "what a dead process left is no name"
        );
        assert!(!left.exists(), "and is removed when another name is published");
        assert!(look_up_in(&folder, b"other").unwrap().is_some(), "what is held stays");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(publish_in(&folder, b"ocean", b"new").is_err(), "others may look into the folder");
    }

    #[test]
    fn user_names_whose_files_are_being_removed_are_free() {
        let scratch = Scratch::new("user-names-swept");
        let folder = scratch.path().join("names");
        drop(publish_in(&folder, b"other", b"").unwrap());
        let path = folder.join(file_name(b"ocean"));
        std::fs::write(&path, b"\x05\0\0\0oceanport").unwrap();
        let swept = File::options().read(true).write(true).open(&path).unwrap();
        assert!(lock(&swept, Range::First).unwrap());
        assert_eq!(look_up_in(&folder, b"ocean").unwrap(), None, "its publisher is dead");
        let error = publish_in(&folder, b"ocean", b"new").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "the process that removes it is stopped");
        std::thread::scope(|scope| {
            let publisher = scope.spawn(|| publish_in(&folder, b"ocean", b"new").unwrap());
            std::fs::remove_file(&path).unwrap();
            drop(swept);
            assert!(publisher.join().unwrap().is_some(), "no other process publishes it");
        });
    }

    #[test]
    fn user_names_of_their_own_are_free_to_several_that_publish_at_once() {
        let scratch = Scratch::new("user-names-at-once");
        let folder = &scratch.path().join("names");
        std::thread::scope(|scope| {
            for name in [b"a", b"b", b"c", b"d"] {
                scope.spawn(move || {
                    for _ in 0..200 {
                        assert!(publish_in(folder, name, b"port").unwrap().is_some(), "nobody else has it");
                    }
                });
            }
        });
    }
}
