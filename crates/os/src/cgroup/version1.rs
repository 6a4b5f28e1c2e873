//! Limits by the hierarchies of version 1, for machines where version 2 has not got the controller: a group
//! of the same name, in the daemon's own group there, that the starter is put into before it is its user's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat};

use super::mount::{open_beneath, unescape};

/// A group of one controller.
#[derive(Debug)]
pub(super) struct Version1 {
    parent: OwnedFd,
    name: String,
    directory: OwnedFd,
    /// Takes a process.
    procs: OwnedFd,
}

impl Version1 {
    /// Makes a group in the daemon's own and writes a limit, if there is one; `None` where that is
    /// impossible.
    pub(super) fn create(controller: &str, name: &str, limit: Option<(&str, u64)>) -> Option<Self> {
        let parent = own_directory(controller)?;
        rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)).ok()?;
        let furnish = || {
            let directory = open_beneath(&parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY)?;
            if let Some((file, value)) = limit {
                write(&directory, file, value)?;
            }
            let procs = open_beneath(&directory, Path::new("cgroup.procs"), OFlags::WRONLY)?;
            Ok::<_, io::Error>((directory, procs))
        };
        match furnish() {
            Ok((directory, procs)) => Some(Version1 { parent, name: name.to_owned(), directory, procs }),
            Err(_) => {
                let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
                None
            }
        }
    }

    /// One that an earlier daemon has made in what is the daemon's own group; `None` when there is none.
    pub(super) fn reopen(controller: &str, name: &str) -> Option<Self> {
        let parent = own_directory(controller)?;
        let directory = open_beneath(&parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        let procs = open_beneath(&directory, Path::new("cgroup.procs"), OFlags::WRONLY).ok()?;
        Some(Version1 { parent, name: name.to_owned(), directory, procs })
    }

    /// Writes another limit of it.
    pub(super) fn write(&self, file: &str, value: u64) -> io::Result<()> {
        write(&self.directory, file, value)
    }

    /// Opens a file of it to read.
    pub(super) fn open(&self, file: &str) -> io::Result<OwnedFd> {
        open_beneath(&self.directory, Path::new(file), OFlags::RDONLY)
    }

    /// A descriptor that becomes readable when what this file is about happens.
    pub(super) fn notify(&self, file: &str) -> io::Result<OwnedFd> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (about, control) = (self.open(file)?, Path::new("cgroup.event_control"));
        let control = open_beneath(&self.directory, control, OFlags::WRONLY)?;
        rustix::io::write(control, format!("{} {}", event.as_raw_fd(), about.as_raw_fd()).as_bytes())?;
        Ok(event)
    }

    /// Takes the process that writes 0.
    pub(super) fn procs(&self) -> BorrowedFd<'_> {
        self.procs.as_fd()
    }

    /// Removes it if it is empty.
    pub(super) fn try_remove(&self) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR)
    }
}

fn write(directory: &OwnedFd, file: &str, value: u64) -> io::Result<()> {
    let file = open_beneath(directory, Path::new(file), OFlags::WRONLY)?;
    Ok(rustix::io::write(file, value.to_string().as_bytes()).map(drop)?)
}

/// The group of this controller that this process is in; `None` where version 1 has not got it.
pub(super) fn own_directory(controller: &str) -> Option<OwnedFd> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let memberships = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let (point, relative) = find(&mounts, &memberships, controller)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let point = openat(CWD, &point, flags, Mode::empty()).ok()?;
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { &relative };
    open_beneath(&point, relative, OFlags::RDONLY | OFlags::DIRECTORY).ok()
}

/// Where the hierarchy of a controller is mounted, and the path from there to the group that a process is in.
fn find(mountinfo: &str, memberships: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let own = memberships.lines().find_map(|line| {
        // 4:memory:/a/b
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has(controllers).then_some(path)
    })?;
    mountinfo.lines().find_map(|line| {
        // 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        if right.next()? != "cgroup" || !has(right.nth(1)?) {
            return None;
        }
        let mut fields = left.split(' ').skip(3);
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        let relative = Path::new(own).strip_prefix(&root).ok()?.to_owned();
        let is_outside = relative.starts_with("..");
        (!is_outside).then(|| (PathBuf::from(point), relative))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_group_of_a_controller_is_found() {
        let mounts = "\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 /a /mnt/cpu\\040s rw,relatime - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let own = "4:memory:/x/y\n3:cpu,cpuacct:/a/b\n2:pids:/\n0::/z\n";
        let found = |controller| find(mounts, own, controller);
        assert_eq!(found("memory"), Some(("/sys/fs/cgroup/memory".into(), "x/y".into())));
        assert_eq!(found("cpu"), Some(("/mnt/cpu s".into(), "b".into())));
        assert_eq!(found("pids"), None, "it is mounted nowhere");
        assert_eq!(found("mem"), None);
        assert_eq!(find(mounts, "3:cpu:/b\n", "cpu"), None, "outside of what is mounted");
    }
}
