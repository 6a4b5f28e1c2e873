//! Removes cgroups with what is inside of them. The kernel removes only one that has neither processes nor
//! cgroups inside.
//!
//! A job within a job that was killed, or a user with delegated rights, leaves empty cgroups inside of ours.
//! They are removed from the inside out. What a removal does for them is bounded, in depth and in number:
//! who makes them need not be trusted. What is opened is opened by its name in a directory that is open, and
//! no link is followed. Processes are waited for; a cgroup without any is tried once more, and then left.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, unlinkat};
use rustix::io::Errno;

use super::mount::open_beneath;

/// How many cgroups inside of others one removal, or one sweep, looks at.
const NESTED_MAX: u32 = 1024;
/// How deep it looks. A job within a job is two deeper.
const DEPTH_MAX: u32 = 64;

/// A cgroup of ours that could not be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub(super) name: String,
    pub(super) why: Why,
}

/// Why a cgroup could not be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Processes in it do not end.
    Populated,
    /// Cgroups inside of it are more than are removed at once.
    Nested,
    /// Other answer of the kernel.
    Refused(Errno),
}

impl fmt::Display for Left {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match self.why {
            Why::Populated => write!(out, "{name} has processes that do not end"),
            Why::Nested => {
                write!(out, "{name} has more than {NESTED_MAX} cgroups inside, or more than {DEPTH_MAX} deep")
            }
            Why::Refused(error) => write!(out, "{name} is not removed by the kernel: {error}"),
        }
    }
}

/// Rest of the budget of a removal.
#[derive(Debug)]
pub(super) struct Removal {
    /// Number of cgroups inside of others that may still be looked at.
    nested_left: u32,
}

impl Removal {
    pub(super) fn new() -> Self {
        Removal { nested_left: NESTED_MAX }
    }

    /// One that has come to its bound.
    #[cfg(test)]
    pub(super) fn spent() -> Self {
        Removal { nested_left: 0 }
    }

    /// Removes the empty cgroups inside. False: some were passed over, since there are too many.
    pub(super) fn remove_inside(&mut self, directory: &OwnedFd) -> bool {
        self.remove_below(directory, DEPTH_MAX)
    }

    fn remove_below(&mut self, directory: &OwnedFd, depth_left: u32) -> bool {
        // One more than can be looked at tells that there are more.
        let most = self.nested_left as usize + 1;
        let inside: Vec<CString> = directories_in(directory).take(most).collect();
        let mut is_whole = true;
        for name in inside {
            if self.nested_left == 0 || depth_left == 0 {
                return false;
            }
            self.nested_left -= 1;
            let remove = || unlinkat(directory, &name, AtFlags::REMOVEDIR);
            if remove().is_err() {
                let path = Path::new(OsStr::from_bytes(name.to_bytes()));
                if let Ok(nested) = open_beneath(directory, path, OFlags::RDONLY | OFlags::DIRECTORY) {
                    is_whole &= self.remove_below(&nested, depth_left - 1);
                }
                let _ = remove();
            }
        }
        is_whole
    }

    /// Removes one without processes, with what is inside.
    pub(super) fn remove_empty(&mut self, parent: &OwnedFd, found: &str) -> Result<(), Left> {
        let path = Path::new(found);
        let opened = open_beneath(parent, path, OFlags::RDONLY | OFlags::DIRECTORY);
        let is_whole = opened.is_ok_and(|directory| self.remove_inside(&directory));
        unlinkat(parent, path, AtFlags::REMOVEDIR).map_err(|error| {
            let why = if is_whole || error != Errno::BUSY { Why::Refused(error) } else { Why::Nested };
            Left { name: found.to_owned(), why }
        })
    }

    /// Kills what is in a cgroup of version 2, the first of `groups`, and removes it by `try_remove`, which
    /// the kernel refuses as long as there is something in it. The others are of version 1, of the same
    /// processes. Waits for the last process, until `deadline`.
    pub(super) fn remove_blocking(
        &mut self,
        groups: &[&OwnedFd],
        deadline: Instant,
        try_remove: impl Fn() -> rustix::io::Result<()>,
    ) -> Result<(), Why> {
        let mut is_whole = None;
        loop {
            match try_remove() {
                Err(Errno::BUSY) => {}
                other => return other.map_err(Why::Refused),
            }
            kill(groups[0]);
            if is_populated(groups[0]) {
                if Instant::now() > deadline {
                    return Err(Why::Populated);
                }
                // The last members are exiting: the kernel sends no event when the last zombie has left.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            match is_whole {
                None => {
                    let passed_over = groups.iter().filter(|group| !self.remove_inside(group)).count();
                    is_whole = Some(passed_over == 0);
                }
                Some(true) => return Err(Why::Refused(Errno::BUSY)),
                Some(false) => return Err(Why::Nested),
            }
        }
    }
}

/// Removes an empty one. That it is gone already is well.
pub(super) fn remove_directory(directory: &OwnedFd, path: &str) -> rustix::io::Result<()> {
    absent_is_well(unlinkat(directory, path, AtFlags::REMOVEDIR))
}

/// The result of a removal of something that somebody else may have removed.
pub(super) fn absent_is_well(result: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Names of the directories in one.
fn directories_in(directory: &OwnedFd) -> impl Iterator<Item = CString> {
    let entries = Dir::read_from(directory).into_iter().flatten().flatten();
    let is_inside = |name: &CString| !matches!(name.to_bytes(), b"." | b"..");
    let directories = entries.filter(|entry| entry.file_type() == FileType::Directory);
    directories.map(|entry| entry.file_name().to_owned()).filter(is_inside)
}

/// Kills every process in it and below.
pub(super) fn kill(directory: &OwnedFd) {
    let _ = open_beneath(directory, Path::new("cgroup.kill"), OFlags::WRONLY)
        .and_then(|file| Ok(rustix::io::write(file, b"1")?));
}

/// Whether there is a process in it or below.
pub(super) fn is_populated(directory: &OwnedFd) -> bool {
    let mut text = [0; 128];
    let read = open_beneath(directory, Path::new("cgroup.events"), OFlags::RDONLY)
        .and_then(|file| Ok(rustix::io::read(file, &mut text)?));
    // Where that cannot be seen there may be one.
    !read.is_ok_and(|read| text[..read].split(|byte| *byte == b'\n').any(|line| line == b"populated 0"))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder in which there are folders as cgroups are in a cgroup.
    fn folder(name: &str) -> (PathBuf, OwnedFd) {
        let path = std::env::temp_dir().join(format!("tutti-removal-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("in")).unwrap();
        let directory = std::fs::File::open(path.join("in")).unwrap().into();
        (path, directory)
    }

    #[test]
    fn removal_follows_no_link_and_removes_no_file() {
        let (path, directory) = folder("links");
        for nested in ["in/a/b/c", "in/a/d", "in/held", "out/empty"] {
            std::fs::create_dir_all(path.join(nested)).unwrap();
        }
        std::fs::write(path.join("in/held/file"), "").unwrap();
        std::os::unix::fs::symlink("../out", path.join("in/link")).unwrap();
        std::os::unix::fs::symlink("../../out", path.join("in/held/link")).unwrap();
        assert!(Removal::new().remove_inside(&directory), "none was passed over");
        let is_there = |name: &str| path.join(name).symlink_metadata().is_ok();
        let left = ["in/a", "in/held/file", "in/held/link", "in/link", "out/empty"].map(is_there);
        assert_eq!(left, [false, true, true, true, true]);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn removal_is_bounded_in_depth_and_number() {
        let (path, directory) = folder("bounds");
        let chain = |depth: u32| "x/".repeat(depth as usize);
        std::fs::create_dir_all(path.join("in").join(chain(DEPTH_MAX + 1))).unwrap();
        assert!(!Removal::new().remove_inside(&directory));
        assert!(path.join("in").join(chain(DEPTH_MAX + 1)).exists(), "it was not reached");
        std::fs::remove_dir(path.join("in").join(chain(DEPTH_MAX + 1))).unwrap();
        assert!(Removal::new().remove_inside(&directory));
        let count = || std::fs::read_dir(path.join("in")).unwrap().count();
        assert_eq!(count(), 0);
        for number in 0..NESTED_MAX + 3 {
            std::fs::create_dir(path.join(format!("in/{number}"))).unwrap();
        }
        let mut removal = Removal::new();
        assert!(!removal.remove_inside(&directory));
        assert!(!removal.remove_inside(&directory), "the bound is that of all that it does");
        assert_eq!(count(), 3);
        assert!(Removal::new().remove_inside(&directory));
        assert_eq!(count(), 0);
        std::fs::remove_dir_all(path).unwrap();
    }
}
