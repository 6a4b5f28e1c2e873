//! Where the cgroups of version 2 are mounted, and how a cgroup is opened by the path that the kernel gives
//! for it.
//!
//! [`Mount::open_directory`] resolves below the mount point and follows no link, so that a name on the way
//! cannot lead elsewhere. What is opened is used by its descriptor from then on, never by its path again.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstatfs, openat, openat2};

/// Type of the file system of cgroups, version 2.
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// A mount of the hierarchy, or of a part of it.
#[derive(Debug)]
pub(super) struct Mount {
    point: OwnedFd,
    /// Part of the hierarchy that is mounted there.
    root: PathBuf,
}

impl Mount {
    /// The first one; `None` where there is none.
    pub(super) fn open() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let (point, root) = all(&mounts).next()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let point = openat(CWD, &point, flags, Mode::empty()).ok()?;
        is_cgroup2(&point).then_some(Mount { point, root })
    }

    /// Opens a cgroup by its path in the hierarchy, as `/proc/PID/cgroup` has it.
    ///
    /// # Errors
    /// When there is none that is seen from here, or a link is on the way.
    pub(super) fn open_directory(&self, place: &Path) -> io::Result<OwnedFd> {
        let unseen = |_| io::Error::from(io::ErrorKind::NotFound);
        let relative = Path::new("/").join(place);
        let relative = relative.strip_prefix(&self.root).map_err(unseen)?;
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let directory = open_beneath(&self.point, relative, OFlags::RDONLY | OFlags::DIRECTORY)?;
        if is_cgroup2(&directory) { Ok(directory) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

/// Opens what is below a directory, on the same mount, and follows no link.
///
/// # Errors
/// When it is not there, or elsewhere.
pub(super) fn open_beneath(directory: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    Ok(openat2(directory, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve)?)
}

fn is_cgroup2(descriptor: &OwnedFd) -> bool {
    fstatfs(descriptor).is_ok_and(|found| found.f_type == CGROUP2_MAGIC)
}

/// The cgroup of version 2 that a process is in, from `/proc/PID/cgroup`; `None` when it is outside of what
/// we see.
pub(super) fn place_in(memberships: &str) -> Option<&Path> {
    // A process that has the root cgroup for its own in a container sees paths such as /../..: no place of
    // ours.
    let place = memberships.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let is_outside = place.starts_with("..") || place.ends_with(" (deleted)");
    (!is_outside).then(|| Path::new(place))
}

/// Where a place of the hierarchy is visible, if it is.
pub(super) fn below_mount(mountinfo: &str, place: &Path) -> Option<PathBuf> {
    all(mountinfo).find_map(|(point, root)| {
        let inside = Path::new("/").join(place);
        Some(point.join(inside.strip_prefix(root).ok()?))
    })
}

/// The mounts of version 2: mount point, and what of the hierarchy is mounted there.
fn all(mountinfo: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    mountinfo.lines().filter_map(|line| {
        // 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
        let (left, right) = line.split_once(" - ")?;
        if right.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = left.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        Some((PathBuf::from(unescape(point)), PathBuf::from(unescape(root))))
    })
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
pub(super) fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// The cgroup of version 2 that this process is in.
///
/// # Errors
/// When it is not seen, or is that of a step of Slurm: what is below that outlives `scancel`.
pub(super) fn own_place() -> io::Result<PathBuf> {
    if crate::slurm::job().is_some() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "ranks stay in the group of Slurm's step"));
    }
    let memberships = std::fs::read_to_string("/proc/self/cgroup")?;
    place_in(&memberships).map(Path::to_owned).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The group of this controller that this process is in; `None` where version 1 has not got it, or it is that
/// of a step of Slurm.
pub(super) fn own_directory(controller: &str) -> Option<OwnedFd> {
    if crate::slurm::job().is_some() {
        return None;
    }
    directory_version1(&std::fs::read_to_string("/proc/self/cgroup").ok()?, controller)
}

/// The group of this controller of version 1 that a process with these memberships is in; `None` where it is
/// not seen.
pub(super) fn directory_version1(memberships: &str, controller: &str) -> Option<OwnedFd> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    let (point, relative) = find_version1(&mounts, memberships, controller)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let point = openat(CWD, &point, flags, Mode::empty()).ok()?;
    let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { &relative };
    open_beneath(&point, relative, OFlags::RDONLY | OFlags::DIRECTORY).ok()
}

/// Where the hierarchy of a controller is mounted, and the path from there to the group that a process is in.
fn find_version1(mountinfo: &str, memberships: &str, controller: &str) -> Option<(PathBuf, PathBuf)> {
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

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw
";

    fn below(mountinfo: &str, place: &str) -> Option<PathBuf> {
        below_mount(mountinfo, Path::new(place))
    }

    #[test]
    fn cgroup2_mount_is_found_beside_version_1() {
        assert_eq!(below(HYBRID, "a/b"), Some(PathBuf::from("/sys/fs/cgroup/unified/a/b")));
        assert_eq!(below(HYBRID, ""), Some(PathBuf::from("/sys/fs/cgroup/unified/")));
        assert_eq!(below(HYBRID.lines().next().unwrap(), "a"), None);
    }

    #[test]
    fn cgroup2_partial_mount_shows_only_its_part() {
        let part = "41 31 0:38 /user /mnt/my\\040groups rw - cgroup2 cgroup2 rw\n";
        assert_eq!(below(part, "user/me"), Some(PathBuf::from("/mnt/my groups/me")));
        assert_eq!(below(part, "system"), None);
    }

    #[test]
    fn mountinfo_of_any_text_is_parsed() {
        for text in ["", " - ", "- cgroup2", "1 - cgroup2", "1 2 3 / - cgroup2 x y", "\u{0} - cgroup2 \u{0}"]
        {
            assert_eq!(below(text, "a"), None, "{text:?}");
        }
    }

    #[test]
    fn cgroup_outside_of_the_namespace_is_none() {
        assert_eq!(place_in("4:memory:/x\n0::/a/b\n"), Some(Path::new("a/b")));
        for text in ["0::/../x\n", "0::/a (deleted)\n", "4:memory:/x\n", ""] {
            assert_eq!(place_in(text), None, "{text:?}");
        }
    }

    #[test]
    fn open_beneath_follows_no_link() {
        let folder = std::env::temp_dir().join(format!("tutti-beneath-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("in/side")).unwrap();
        std::fs::create_dir_all(folder.join("out")).unwrap();
        std::os::unix::fs::symlink("side", folder.join("in/link")).unwrap();
        std::os::unix::fs::symlink("../out", folder.join("in/away")).unwrap();
        let inside = OwnedFd::from(std::fs::File::open(folder.join("in")).unwrap());
        let open = |path: &str| open_beneath(&inside, Path::new(path), OFlags::RDONLY | OFlags::DIRECTORY);
        assert!(open("side").is_ok() && open(".").is_ok());
        for path in ["link", "away", "../out", "/", "side/../../out", "/proc/self/root"] {
            assert!(open(path).is_err(), "{path}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn version_1_group_of_a_controller_is_found() {
        let mounts = "\
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
36 31 0:33 /a /mnt/cpu\\040s rw,relatime - cgroup cgroup rw,cpu,cpuacct
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let own = "4:memory:/x/y\n3:cpu,cpuacct:/a/b\n2:pids:/\n0::/z\n";
        let found = |controller| find_version1(mounts, own, controller);
        assert_eq!(found("memory"), Some(("/sys/fs/cgroup/memory".into(), "x/y".into())));
        assert_eq!(found("cpu"), Some(("/mnt/cpu s".into(), "b".into())));
        assert_eq!(found("pids"), None, "it is mounted nowhere");
        assert_eq!(found("mem"), None);
        assert_eq!(find_version1(mounts, "3:cpu:/b\n", "cpu"), None, "outside of what is mounted");
    }
}
