//! The cgroup around all parts of a user's jobs on a node. It holds them together to what the configuration
//! gives the user there (`memory_per_node`).
//!
//! ```text
//! daemon's cgroup
//!   tutti-user-UID-DAEMON    memory.max of the user; no processes of its own
//!     tutti-part-NAME        as in part.rs
//! ```
//!
//! Writer: root's daemon, before it makes a part and when the configuration changes. The group is root's,
//! every file of it: it is the nearest cgroup around two parts of a user, so no process moves between them.
//! Who removes the last part removes it; what a killed daemon has left of it the next one sweeps. It may be
//! removed while a part is being made in it, which is then tried again.
//!
//! Version 1 has the same tree in the hierarchy of its memory controller, and there alone.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, fstat, mkdirat, unlinkat};
use rustix::io::Errno;

use super::mount::{Mount, open_beneath, own_directory, own_place};
use super::names::USER;
use super::number;

/// Version 1: no limit.
const UNLIMITED: &str = "-1";

/// Limit of a user's jobs together on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserLimit {
    uid: u32,
    daemon: u64,
    memory_bytes: Option<u64>,
}

impl UserLimit {
    /// Of the user with this uid, among the parts of one daemon. `daemon` is a number that differs between
    /// the daemons of a machine and stays when one of them is started again. `memory_bytes`: none is no
    /// limit.
    #[must_use]
    pub fn new(uid: u32, daemon: u64, memory_bytes: Option<u64>) -> Self {
        UserLimit { uid, daemon, memory_bytes }
    }

    /// Whether there is a limit.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.memory_bytes.is_some()
    }

    pub(super) fn directory_name(&self) -> String {
        format!("{USER}{}-{:016x}", self.uid, self.daemon)
    }

    /// The user whose group this daemon has under that name.
    fn uid_in(name: &str, daemon: u64) -> Option<u32> {
        let (uid, number) = name.strip_prefix(USER)?.split_once('-')?;
        (u64::from_str_radix(number, 16) == Ok(daemon)).then_some(uid.parse().ok()?)
    }

    /// Makes the group in `parent` if it is not there, and writes the limit.
    pub(super) fn make_in(&self, parent: &OwnedFd) -> io::Result<(OwnedFd, Held)> {
        match mkdirat(parent, self.directory_name(), super::directory_mode()) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(about("cannot make the cgroup of its user", error.into())),
        }
        let directory = open_directory(parent, &self.directory_name())?;
        // Kernels before 5.11 count the groups inside only if they are asked to.
        let _ = write(&directory, "memory.use_hierarchy", "1");
        let held = limit(&directory, self.memory_bytes);
        Ok((directory, held))
    }
}

/// Limit that the kernel holds a user's jobs to, in bytes. None: there is no limit; an error: why it does not
/// hold the limit that there is, of the kind `NotFound` where it has no controller of memory.
pub(super) type Held = io::Result<Option<u64>>;

/// The same error, which says what was being done.
fn about(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A name of such a group.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(USER)
}

/// Opens a group that only root can have made.
pub(super) fn open_directory(parent: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let directory = open_beneath(parent, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY)?;
    let is_own = fstat(&directory)?.st_uid == rustix::process::geteuid().as_raw();
    if is_own { Ok(directory) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Removes it if no part is in it; false: it is there.
pub(super) fn remove_empty(parent: &OwnedFd, name: &str) -> bool {
    is_name(name)
        && open_directory(parent, name).is_ok()
        && unlinkat(parent, name, AtFlags::REMOVEDIR).is_ok()
}

/// Another configuration holds: writes the limits of all users who have jobs of this daemon here. `wanted`
/// gives that of a uid, in bytes. Returns each uid with what its jobs are held to now. None: there is no
/// limit; an error: why they are not held to it.
pub fn limit_users(daemon: u64, wanted: impl Fn(u32) -> Option<u64>) -> Vec<(u32, io::Result<Option<u64>>)> {
    let by_version2 = || Mount::open()?.open_directory(&own_place().ok()?).ok();
    let mut found: Vec<(u32, Held)> = Vec::new();
    for parent in [by_version2(), own_directory("memory")].into_iter().flatten() {
        for name in names_in(&parent) {
            let Some(uid) = UserLimit::uid_in(&name, daemon) else { continue };
            let Ok(directory) = open_directory(&parent, &name) else { continue };
            let held = limit(&directory, wanted(uid));
            match found.iter_mut().find(|(known, _)| *known == uid) {
                Some((_, by_version2)) => supersede(by_version2, held),
                None => found.push((uid, held)),
            }
        }
    }
    found
}

/// Takes the result of version 1 where version 2 does not hold the limit; an error too, if version 1 has the
/// controller.
pub(super) fn supersede(by_version2: &mut Held, by_version1: Held) {
    let is_known = |held: &Held| !held.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if !matches!(by_version2, Ok(Some(_))) && is_known(&by_version1) {
        *by_version2 = by_version1;
    }
}

fn names_in(directory: &OwnedFd) -> Vec<String> {
    let entries = rustix::fs::Dir::read_from(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned)).collect()
}

/// Limits the memory of all below; none is no limit. A limit that is lowered ends no job: while they have
/// more, what held holds, the largest number if nothing did.
fn limit(directory: &OwnedFd, wanted_bytes: Option<u64>) -> Held {
    let read = |file: &str| number(open_beneath(directory, Path::new(file), OFlags::RDONLY));
    let set = |file: &str, text: &str| {
        write(directory, file, text).map_err(|error| about(&format!("cannot write {file}"), error))
    };
    let has = |file: &str| {
        let found = open_beneath(directory, Path::new(file), OFlags::WRONLY);
        !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    let text = |unlimited: &str| wanted_bytes.map_or_else(|| unlimited.to_owned(), |bytes| bytes.to_string());
    let used_bytes = read("memory.current").or_else(|| read("memory.usage_in_bytes")).unwrap_or(0);
    let is_over = |wanted| used_bytes > wanted && used_bytes.saturating_sub(cached_bytes(directory)) > wanted;
    let is_over = wanted_bytes.is_some_and(is_over);
    let is_set = if has("memory.max") {
        if is_over {
            return Ok(Some(read("memory.max").unwrap_or(u64::MAX)));
        }
        // Where the kernel counts no swap there is none to forbid.
        let _ = set("memory.swap.max", if wanted_bytes.is_some() { "0" } else { "max" });
        set("memory.max", &text("max"))
    } else if has("memory.limit_in_bytes") {
        if is_over {
            return Ok(read("memory.limit_in_bytes"));
        }
        // Memory and swap together are never less than memory: the one or the other order is right.
        let is_set = set("memory.limit_in_bytes", &text(UNLIMITED));
        let _ = set("memory.memsw.limit_in_bytes", &text(UNLIMITED));
        is_set.or_else(|_| set("memory.limit_in_bytes", &text(UNLIMITED)))
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "the kernel has no memory controller for us"))
    };
    wanted_bytes.map(|bytes| is_set.map(|()| bytes)).transpose()
}

/// Bytes of files that the group has and the kernel can take at once: it has copies of them on disk, and no
/// process holds them in memory. Both versions count so (`inactive_file` and `total_inactive_file`).
fn cached_bytes(directory: &OwnedFd) -> u64 {
    let Ok(file) = open_beneath(directory, Path::new("memory.stat"), OFlags::RDONLY) else { return 0 };
    let text = io::read_to_string(std::fs::File::from(file)).unwrap_or_default();
    let sum = |names: &[[&str; 2]]| -> u64 {
        let bytes = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let counts = names.iter().filter_map(|[of_2, of_1]| bytes(of_1).or_else(|| bytes(of_2)));
        counts.sum()
    };
    let files = [["inactive_file ", "total_inactive_file "], ["active_file ", "total_active_file "]];
    let unwritten = [["file_dirty ", "total_dirty "], ["file_writeback ", "total_writeback "]];
    sum(&files).saturating_sub(sum(&unwritten))
}

fn write(directory: &OwnedFd, file: &str, text: &str) -> io::Result<()> {
    let file = open_beneath(directory, Path::new(file), OFlags::WRONLY)?;
    Ok(rustix::io::write(file, text.as_bytes()).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the files of a group; the test's own cgroup need not have the controller.
    fn fake(name: &str, files: &[(&str, &str)]) -> (std::path::PathBuf, OwnedFd) {
        let path = std::env::temp_dir().join(format!("tutti-user-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        files.iter().for_each(|(file, text)| std::fs::write(path.join(file), text).unwrap());
        let directory = OwnedFd::from(std::fs::File::open(&path).unwrap());
        (path, directory)
    }

    #[test]
    fn user_group_name_has_its_user_and_its_daemon() {
        let name = UserLimit::new(1000, 0xab, None).directory_name();
        assert_eq!(name, "tutti-user-1000-00000000000000ab");
        assert_eq!(UserLimit::uid_in(&name, 0xab), Some(1000));
        assert_eq!(UserLimit::uid_in(&name, 0xac), None, "another daemon's");
        for name in ["tutti-user-", "tutti-user-x-ab", "tutti-part-1000-ab", "tutti-user-5"] {
            assert_eq!(UserLimit::uid_in(name, 0xab), None, "{name}");
        }
    }

    #[test]
    fn user_memory_limit_is_not_lowered_below_what_is_used() {
        let read = |path: &Path, file: &str| std::fs::read_to_string(path.join(file)).unwrap();
        let files = [("memory.max", ""), ("memory.swap.max", ""), ("memory.current", "300\n")];
        let (path, group) = fake("version2", &files);
        assert_eq!(limit(&group, Some(500)).unwrap(), Some(500));
        assert_eq!((read(&path, "memory.max"), read(&path, "memory.swap.max")), ("500".into(), "0".into()));
        assert_eq!(limit(&group, Some(200)).unwrap(), Some(500));
        assert_eq!(read(&path, "memory.max"), "500");
        assert_eq!(limit(&group, None).unwrap(), None);
        assert_eq!(read(&path, "memory.max"), "max");
        std::fs::remove_dir_all(path).unwrap();
        let files = [
            ("memory.limit_in_bytes", ""),
            ("memory.memsw.limit_in_bytes", ""),
            ("memory.usage_in_bytes", "300\n"),
        ];
        let (path, group) = fake("version1", &files);
        assert_eq!(limit(&group, Some(500)).unwrap(), Some(500));
        assert_eq!(read(&path, "memory.memsw.limit_in_bytes"), "500");
        assert_eq!(limit(&group, Some(200)).unwrap(), Some(500));
        assert_eq!(read(&path, "memory.limit_in_bytes"), "500");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn user_memory_limit_is_lowered_below_what_files_have_in_the_cache() {
        let version2 =
            "anon 100\nfile 200\nfile_dirty 20\nfile_writeback 10\ninactive_file 50\nactive_file 150\n";
        // What is without `total_` is the group's own without those inside.
        let version1 = "inactive_file 0\ndirty 0\ntotal_dirty 20\ntotal_writeback 10\n\
            total_inactive_file 50\ntotal_active_file 150\n";
        for (limit_file, used_file, counts) in [
            ("memory.max", "memory.current", version2),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", version1),
        ] {
            let (path, group) =
                fake(limit_file, &[(limit_file, "500"), (used_file, "300\n"), ("memory.stat", counts)]);
            assert_eq!(limit(&group, Some(129)).unwrap(), Some(500), "130 cannot be taken: {limit_file}");
            assert_eq!(limit(&group, Some(130)).unwrap(), Some(130), "{limit_file}");
            std::fs::remove_dir_all(path).unwrap();
        }
    }

    #[test]
    fn user_memory_is_not_limited_where_there_is_no_controller() {
        let (path, group) = fake("bare", &[]);
        let error = limit(&group, Some(500)).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::NotFound, "the kernel has no memory controller for us")
        );
        assert_eq!(limit(&group, None).unwrap(), None, "there is nothing to hold");
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn user_memory_limit_that_cannot_be_written_has_its_own_reason() {
        for file in ["memory.max", "memory.limit_in_bytes"] {
            let (path, group) = fake(file, &[]);
            // It is there, and is not written.
            std::fs::create_dir(path.join(file)).unwrap();
            let mut held = limit(&group, Some(500));
            let expected = format!("cannot write {file}: Is a directory (os error 21)");
            assert_eq!(held.as_ref().unwrap_err().to_string(), expected);
            let (bare_path, bare) = fake("bare-beside", &[]);
            supersede(&mut held, limit(&bare, Some(500)));
            assert_eq!(held.as_ref().unwrap_err().to_string(), expected, "version 1 has no controller");
            let mut held = limit(&bare, Some(500));
            supersede(&mut held, limit(&group, Some(500)));
            assert_eq!(held.as_ref().unwrap_err().to_string(), expected);
            supersede(&mut held, Ok(Some(500)));
            assert_eq!(held.unwrap(), Some(500));
            [path, bare_path].into_iter().for_each(|path| std::fs::remove_dir_all(path).unwrap());
        }
    }
}
