//! Files of this machine that machines of a lab see: trees cloned and not attached yet, which the keeper
//! hands to a machine as descriptors. Only the keeper may let the owners of files appear as a machine's own
//! users (an id-mapped mount); where the filesystem does not know that, its files appear as nobody's.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use serde::{Deserialize, Serialize};

use super::sys;

/// Where a tree stands in a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) is_folder: bool,
}

/// Description of a tree: where its files are here and there, and how they are mounted.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Here.
    pub(super) source: PathBuf,
    /// Place there.
    pub(super) target: PathBuf,
    pub(super) read_only: bool,
    /// Files of root here are those of root there, and so on.
    pub(super) mapped: bool,
    /// Whether mounts inside of it come along as they are. Who is not root cannot leave them out.
    pub(super) whole: bool,
}

impl Tree {
    /// The same file or folder there, to be read.
    pub(super) fn same(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Tree { source: path.clone(), target: path, read_only: true, mapped: false, whole: false }
    }

    /// Adds trees for what is mounted inside it.
    pub(super) fn with_inner(self, mounts: &[PathBuf]) -> Vec<Self> {
        let inner = mounts.iter().filter(|mount| **mount != self.source && mount.starts_with(&self.source));
        let inner: Vec<Tree> = inner
            .map(|mount| {
                let rest = mount.strip_prefix(&self.source).expect("just seen");
                Tree { source: mount.clone(), target: self.target.join(rest), ..self.clone() }
            })
            .collect();
        std::iter::once(self).chain(inner).collect()
    }

    /// Clones it; `users` is the user namespace by which owners are mapped.
    pub(super) fn clone_for(&self, users: Option<BorrowedFd<'_>>) -> io::Result<(Place, OwnedFd)> {
        let clone = || -> io::Result<OwnedFd> {
            let inner = if self.whole { OpenTreeFlags::AT_RECURSIVE } else { OpenTreeFlags::empty() };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | inner;
            Ok(open_tree(CWD, &self.source, flags)?)
        };
        let place = Place { path: self.target.clone(), is_folder: fs::metadata(&self.source)?.is_dir() };
        if let Some(users) = users.filter(|_| self.mapped) {
            let tree = clone()?;
            match sys::change_mount(tree.as_fd(), Some(users), self.read_only, false) {
                Ok(()) => return Ok((place, tree)),
                // The filesystem does not know it.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        let tree = clone()?;
        sys::change_mount(tree.as_fd(), None, self.read_only, self.whole)?;
        Ok((place, tree))
    }
}

/// Whether owners of files in this folder can be mapped.
pub(super) fn can_be_mapped(folder: &Path, users: BorrowedFd<'_>) -> bool {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, folder, flags)
        .is_ok_and(|tree| sys::change_mount(tree.as_fd(), Some(users), false, false).is_ok())
}

/// Where something is mounted here.
pub(super) fn mount_points() -> io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    let mut points: Vec<PathBuf> =
        text.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape).collect();
    points.sort_unstable();
    points.dedup();
    Ok(points)
}

/// Blanks and the like are `\040` there.
fn unescape(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| more.get(..3)).flatten();
        let code = octal.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &more[3..] } else { more };
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_trees_bring_what_is_mounted_inside_them() {
        assert_eq!(unescape(r"/a\040b\134c\9"), PathBuf::from(r"/a b\c\9"));
        let mounts = ["/", "/usr", "/usr/local", "/usrx", "/var"].map(PathBuf::from);
        let tree = Tree { target: "/there".into(), ..Tree::same("/usr") };
        let targets: Vec<PathBuf> = tree.with_inner(&mounts).into_iter().map(|tree| tree.target).collect();
        assert_eq!(targets, ["/there", "/there/local"].map(PathBuf::from));
    }
}
