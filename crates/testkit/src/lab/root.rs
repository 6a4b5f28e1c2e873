//! The tree of files of a machine, made by its first process in its mount namespace:
//!
//! | what | where from |
//! |---|---|
//! | /tmp, /run, /dev, /dev/shm, /dev/pts, /dev/mqueue, /proc, /sys | its own, empty at every boot |
//! | /sys/fs/cgroup | its own cgroups, in the layout of this machine |
//! | /etc, /var, /root | its own, kept over a boot; /etc leads to `/.host/etc` for what is not about the machine |
//! | /usr and the like, the source tree, the installation | this machine's, to be read |
//! | /home | the lab's, shared by all its machines, or its own |

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags, mount, mount_change, move_mount, unmount,
};

use super::cgroups::Hierarchy;
use super::tree::Place;

/// The new root is built here; nobody looks for anything under it before it is the root.
const SITE: &str = "/tmp";

/// An operation, and what it was done to, for the line of an error.
fn doing<T, E: Into<io::Error>>(what: &str, path: &Path, result: Result<T, E>) -> io::Result<T> {
    result.map_err(|error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("cannot {what} {}: {error}", path.display()))
    })
}

/// Builds the tree and makes it the root of this process.
pub(super) fn build(
    hierarchies: &[Hierarchy],
    links: &[(PathBuf, PathBuf)],
    places: &[Place],
    trees: Vec<OwnedFd>,
) -> io::Result<()> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    filesystem("tmpfs", Path::new(SITE), "mode=755")?;
    let site = |path: &str| Path::new(SITE).join(path);
    for folder in ["dev", "proc", "sys", "run", "tmp", "mnt", "opt", "srv"] {
        folder_at(&site(folder))?;
    }
    filesystem("tmpfs", &site("tmp"), "mode=1777")?;
    filesystem("tmpfs", &site("run"), "mode=755")?;
    folder_at(&site("run/lock"))?;
    filesystem("proc", &site("proc"), "")?;
    filesystem("sysfs", &site("sys"), "")?;
    cgroups(hierarchies, &site("sys/fs/cgroup"))?;
    devices(&site("dev"))?;
    for (place, tree) in places.iter().zip(trees) {
        let target = site("").join(place.path.strip_prefix("/").unwrap_or(&place.path));
        if place.is_folder {
            folder_at(&target)?;
        } else {
            target.parent().map_or(Ok(()), folder_at)?;
            doing("make", &target, fs::File::options().append(true).create(true).open(&target))?;
        }
        let moved = move_mount(&tree, "", CWD, &target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH);
        doing("mount", &target, moved)?;
    }
    for (path, leads_to) in links {
        doing("link", path, symlink(leads_to, site("").join(path.strip_prefix("/").unwrap_or(path))))?;
    }
    std::env::set_current_dir(SITE)?;
    rustix::process::pivot_root(".", ".")?;
    // The old root lies over the new one.
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir("/")
}

fn folder_at(path: &Path) -> io::Result<()> {
    doing("make", path, fs::create_dir_all(path))
}

fn filesystem(kind: &str, target: &Path, options: &str) -> io::Result<()> {
    let flags = match kind {
        "tmpfs" => MountFlags::NOSUID,
        "devpts" => MountFlags::NOSUID | MountFlags::NOEXEC,
        _ => MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NODEV,
    };
    let options = std::ffi::CString::new(options)?;
    doing(&format!("mount a {kind} at"), target, mount(kind, target, kind, flags, &*options))
}

fn devices(dev: &Path) -> io::Result<()> {
    filesystem("tmpfs", dev, "mode=755")?;
    for folder in ["shm", "pts", "mqueue"] {
        folder_at(&dev.join(folder))?;
    }
    filesystem("tmpfs", &dev.join("shm"), "mode=1777")?;
    filesystem("devpts", &dev.join("pts"), "newinstance,ptmxmode=0666,mode=620")?;
    filesystem("mqueue", &dev.join("mqueue"), "")?;
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ];
    for (name, leads_to) in links {
        symlink(leads_to, dev.join(name))?;
    }
    Ok(())
}

fn cgroups(hierarchies: &[Hierarchy], target: &Path) -> io::Result<()> {
    let is_alone = hierarchies.iter().any(|hierarchy| hierarchy.place == Path::new(""));
    if !is_alone {
        filesystem("tmpfs", target, "mode=755")?;
    }
    for hierarchy in hierarchies {
        let target: PathBuf = target.join(&hierarchy.place);
        folder_at(&target)?;
        match &hierarchy.options {
            None => filesystem("cgroup2", &target, "")?,
            Some(options) => filesystem("cgroup", &target, options)?,
        }
    }
    Ok(())
}
