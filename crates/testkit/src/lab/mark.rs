//! The mark of a lab: a name with a random part, and a file that its keeper holds locked as long as it runs.
//! The kernel ends a lab's processes with its keeper, and its interfaces with them; what may be left are
//! cgroups and files, whose names have the mark. Who finds a mark that is not locked removes them, and
//! touches nothing else.
//!
//! ```text
//! /tmp/tutti-lab-UID/3f2a.lock    held by the keeper; names the cgroups, one a line
//! /tmp/tutti-lab-UID/3f2a/        the lab's files
//! CGROUP/tutti-lab-3f2a/          its machines' cgroups, in each hierarchy
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::cgroups;

/// Variable: the folder of all labs, if not `/tmp/tutti-lab-UID`.
pub const FOLDER: &str = "TUTTI_LAB_DIR";

/// Where the files of all labs of this user are; made if need be.
///
/// # Errors
/// When it cannot be made, or is another user's.
pub fn base() -> io::Result<PathBuf> {
    let uid = rustix::process::getuid().as_raw();
    let base = std::env::var_os(FOLDER)
        .map_or_else(|| PathBuf::from(format!("/tmp/tutti-lab-{uid}")), PathBuf::from);
    match fs::DirBuilder::new().mode(0o755).create(&base) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&base)?;
    if !found.is_dir() || found.uid() != uid {
        return Err(io::Error::other("is no folder of this user"));
    }
    base.canonicalize()
}

/// A mark that is held.
#[derive(Debug)]
pub(super) struct Mark {
    name: String,
    base: PathBuf,
    lock: File,
}

impl Mark {
    /// Draws a new one in the folder of all labs.
    pub(super) fn draw(base: &Path) -> io::Result<Self> {
        loop {
            let mut bytes = [0; 2];
            rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
            let name = format!("{:04x}", u16::from_ne_bytes(bytes));
            let path = base.join(format!("{name}.lock"));
            let lock = match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                lock => lock?,
            };
            // Somebody may sweep between the two.
            if lock.try_lock().is_ok() && is_at(&lock, &path) {
                return Ok(Mark { name, base: base.to_owned(), lock });
            }
        }
    }

    /// Name of the mark.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The random part.
    pub(super) fn number(&self) -> u32 {
        u32::from_str_radix(&self.name, 16).unwrap_or(0)
    }

    /// The lab's folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.base.join(&self.name)
    }

    /// Writes down what must be removed with it.
    pub(super) fn note(&self, cgroup: &Path) -> io::Result<()> {
        writeln!(&self.lock, "{}", cgroup.display())
    }

    /// Removes all that has the mark, and the mark.
    pub(super) fn remove(self) {
        clear(&self.base, &self.name);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(found)) = (file.metadata(), fs::metadata(path)) else { return false };
    (held.dev(), held.ino()) == (found.dev(), found.ino())
}

/// The marks of labs that run.
///
/// # Errors
/// When the folder cannot be read.
pub fn running(base: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for (name, path) in marks(base)? {
        if File::open(&path).is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)))
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes what killed labs have left; gives their marks.
///
/// # Errors
/// When the folder cannot be read.
pub fn sweep(base: &Path) -> io::Result<Vec<String>> {
    let mut swept = Vec::new();
    for (name, path) in marks(base)? {
        let Ok(lock) = File::open(&path) else { continue };
        if lock.try_lock().is_ok() && is_at(&lock, &path) {
            clear(base, &name);
            swept.push(name);
        }
    }
    Ok(swept)
}

fn marks(base: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(base)?.flatten();
    let marks = entries.filter_map(|entry| {
        let path = entry.path();
        let name = path.file_name()?.to_str()?.strip_suffix(".lock")?.to_owned();
        Some((name, path))
    });
    Ok(marks.collect())
}

/// Removes all that has a mark that is held.
fn clear(base: &Path, name: &str) {
    let path = base.join(format!("{name}.lock"));
    let mut cgroups = String::new();
    let _ = File::open(&path).and_then(|mut file| file.read_to_string(&mut cgroups));
    // A line is our own, but the file may be cut short.
    let ours =
        cgroups.lines().map(Path::new).filter(|path| path.file_name() == Some(cgroups::name(name).as_ref()));
    let left = ours.filter(|cgroup| !cgroups::remove(cgroup)).count();
    let _ = fs::remove_dir_all(base.join(name));
    // What is left now is found by the next one that sweeps.
    if left == 0 {
        let _ = fs::remove_file(path);
    }
}
