//! Where a daemon finds the page on which it tells a job of its turns ([`tutti_shm::daemon_page`]): among the
//! descriptors of the job's starter.
//!
//! The ranks run before any daemon knows of them, and daemons come and go; so the starter makes the page, and
//! each daemon looks for it when it begins to give the job its turns. Which process is a starter may have
//! been said by a user: what is opened is first looked at by a descriptor that opens nothing (`O_PATH`), and
//! has to be the page of a process of that user, a file of his own. Whoever opens it may all the same wait
//! for the user, and looks take as long as the user's paths are: this is no work for the switch thread
//! ([`super::fetcher`]).

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, MemfdFlags, Mode, OFlags, StatxFlags, memfd_create, openat, readlinkat,
    statx,
};
use rustix::io::Errno;
use rustix::process::Pid;
use tutti_os::stat::{Stat, owner};
use tutti_shm::call_counts::{self, CallCounts};
use tutti_shm::daemon_page::{DaemonPage, NAME, PAGE_BYTES, Page, Teller};
use tutti_shm::phases::{self, Grants, Rings};
use tutti_shm::segment::HeaderPage;

/// The starter has it among its first descriptors; of who has more than a starter no more are looked at.
const DESCRIPTORS_MAX: usize = 1024;
/// A job has one starter on a node, or one for each of its virtual nodes.
pub(crate) const STARTERS_MAX: usize = 256;

/// The starter that has this process of the user's as a child; none when it is dead, or another user's. Then
/// the parent is whoever takes orphans, such as the manager of the user's session: what descends from that is
/// none of the job's, and is not to be stopped. Nor is that of a process which was started without a starter.
pub(crate) fn starter_of(rank: Pid, user: u32) -> Option<Pid> {
    let starter = Pid::from_raw(Stat::of(rank)?.parent)?;
    let is_users = owner(rank) == Some(user) && owner(starter) == Some(user);
    (is_users && Stat::of(starter)?.has_starter_name).then_some(starter)
}

/// The starters of these ranks of the user's, each once. No more than [`STARTERS_MAX`] are found.
pub(crate) fn starters_of(ranks: &[u32], user: u32) -> Vec<u32> {
    let ranks = ranks.iter().filter_map(|rank| Pid::from_raw(i32::try_from(*rank).ok()?));
    let mut starters = Vec::new();
    for rank in ranks {
        let starter = starter_of(rank, user).map(|pid| pid.as_raw_nonzero().get() as u32);
        starters.extend(starter.filter(|starter| !starters.contains(starter)));
        if starters.len() == STARTERS_MAX {
            break;
        }
    }
    starters
}

/// Pages that a starter has for the switch thread.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Where its ranks are notified of their turns.
    pub(super) teller: Option<Teller>,
    /// Where its ranks say that they have locks of files.
    pub(super) file_locks: Option<HeaderPage>,
    /// Where its ranks say that they want parallel slots, and ring.
    pub(super) grants: Option<(Grants, Rings)>,
}

/// Finds the pages among the first descriptors of this starter, which is the user's, until it takes too long.
/// Finds nothing where we may not look at them: that the first one says, and often the folder.
pub(super) fn find_all(starter: Pid, user: u32, now_ns: u64, is_over: &dyn Fn() -> bool) -> Found {
    let mut found = Found::default();
    look_through(starter, |folder, number, link| {
        let is_page = |bytes| bytes == PAGE_BYTES as u64;
        if found.teller.is_none() && is_named(link, NAME) {
            let page = open_file(folder, number, user, OFlags::RDWR, is_page);
            found.teller = page.and_then(|page| DaemonPage::adopt(page.as_fd(), user, now_ns).ok());
        } else if found.file_locks.is_none() && is_named(link, call_counts::NAME) {
            let segment = open_file(folder, number, user, OFlags::RDONLY, |bytes| bytes >= PAGE_BYTES as u64);
            found.file_locks = segment.and_then(|segment| HeaderPage::read(segment.as_fd()).ok());
        } else if found.grants.is_none() && is_named(link, phases::NAME) {
            let page = open_file(folder, number, user, OFlags::RDWR, is_page);
            found.grants = page.and_then(|page| {
                Grants::adopt(page.as_fd(), user)
                    .and_then(|grants| Ok((grants, Rings::adopt(page.as_fd(), user)?)))
                    .ok()
            });
        }
        let has_all = found.teller.is_some() && found.file_locks.is_some() && found.grants.is_some();
        (has_all || is_over()).then_some(())
    });
    found
}

/// The same page, to be read.
pub(crate) fn read(starter: Pid, user: u32) -> Option<Page> {
    find_file(starter, NAME, |folder, number| {
        let page = open_file(folder, number, user, OFlags::RDONLY, |bytes| bytes == PAGE_BYTES as u64)?;
        Page::read(page.as_fd()).ok()
    })
}

/// The calls that the ranks of this starter have made.
pub(crate) fn call_counts(starter: Pid, user: u32) -> Option<CallCounts> {
    find_file(starter, call_counts::NAME, |folder, number| {
        let segment = open_file(folder, number, user, OFlags::RDONLY, |bytes| bytes >= PAGE_BYTES as u64)?;
        CallCounts::of(segment).ok()
    })
}

/// Opens the first file of this name among a starter's descriptors with which `open` agrees.
fn find_file<T>(starter: Pid, name: &str, mut open: impl FnMut(&OwnedFd, &CStr) -> Option<T>) -> Option<T> {
    look_through(starter, |folder, number, link| is_named(link, name).then(|| open(folder, number)).flatten())
}

/// A memfd has this name.
fn is_named(link: &[u8], name: &str) -> bool {
    let rest = link.strip_prefix(b"/memfd:").and_then(|rest| rest.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.starts_with(b" "))
}

/// Looks through a starter's descriptors and returns what `find` finds first; it is given their folder, the
/// number of each, and where it leads.
fn look_through<T>(starter: Pid, mut find: impl FnMut(&OwnedFd, &CStr, &[u8]) -> Option<T>) -> Option<T> {
    let path = format!("/proc/{}/fd", starter.as_raw_nonzero());
    let folder =
        openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let entries = Dir::read_from(&folder).ok()?.take(DESCRIPTORS_MAX);
    for entry in entries.map_while(Result::ok) {
        match readlinkat(&folder, entry.file_name(), Vec::new()) {
            Ok(link) => {
                if let Some(found) = find(&folder, entry.file_name(), link.as_bytes()) {
                    return Some(found);
                }
            }
            Err(Errno::ACCESS | Errno::PERM) => return None,
            // Another file, `.`, or one that has been closed meanwhile.
            _ => {}
        }
    }
    None
}

/// The file of such a size, if it is memory of the kernel's, among the descriptors of a process.
fn open_file(
    folder: &OwnedFd,
    number: &CStr,
    user: u32,
    flags: OFlags,
    is_size: impl Fn(u64) -> bool,
) -> Option<OwnedFd> {
    let seen = openat(folder, number, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // A file system of the user's could keep who asks it waiting: what is cached of the file says whether it
    // is in memory of the kernel's.
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::UID;
    let stat = statx(&seen, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, wanted).ok()?;
    let is_it = memory_device() == Some((stat.stx_dev_major, stat.stx_dev_minor))
        && FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile
        && is_size(stat.stx_size)
        && stat.stx_uid == user;
    if !is_it {
        return None;
    }
    let again = format!("/proc/self/fd/{}", seen.as_raw_fd());
    // Who has a lease of it is not waited for.
    openat(CWD, again, flags | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// The device of every memfd: no user can mount it.
fn memory_device() -> Option<(u32, u32)> {
    static DEVICE: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *DEVICE.get_or_init(|| {
        let one = memfd_create("tutti-device", MemfdFlags::CLOEXEC).ok()?;
        let stat = statx(&one, "", AtFlags::EMPTY_PATH, StatxFlags::TYPE).ok()?;
        Some((stat.stx_dev_major, stat.stx_dev_minor))
    })
}

/// A program of this name whose child is a rank; its pid.
#[cfg(test)]
pub(crate) fn start_as(folder: &std::path::Path, name: &str) -> (std::process::Child, Pid) {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    let program = folder.join(name);
    std::fs::write(&program, "#!/bin/sh\nsleep 60 & echo $!; wait\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(&program);
    let mut starter = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(starter.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (starter, Pid::from_raw(line.trim().parse().unwrap()).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemon_page_of_a_starter_is_adopted_by_owner_only() {
        let page = DaemonPage::create().unwrap();
        let (me, user) = (rustix::process::getpid(), rustix::process::geteuid().as_raw());
        let adopt = |user| find_all(me, user, 10, &|| false).teller;
        let mut teller = adopt(user).expect("it is among the first descriptors");
        teller.begin(20);
        teller.end(25);
        assert_eq!((page.turns().thaw_count, page.turns().frozen_ns_total), (1, 5));
        assert!(adopt(user + 1).is_none());
        assert!(find_all(me, user, 10, &|| true).teller.is_none(), "it takes too long");
    }

    #[test]
    fn daemon_page_starter_is_the_parent_that_is_one_and_the_same_users() {
        let user = rustix::process::geteuid().as_raw();
        let folder = std::env::temp_dir().join(format!("tutti-starter-of-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut starter, rank) = start_as(&folder, "tutti-starter");
        assert_eq!(starter_of(rank, user), Some(Pid::from_child(&starter)));
        assert_eq!(starter_of(rank, user + 1), None);
        // Dead, it has left the rank to whoever takes orphans here.
        starter.kill().unwrap();
        starter.wait().unwrap();
        assert_eq!(starter_of(rank, user), None);
        let (mut other, orphan) = start_as(&folder, "manager");
        assert_eq!(starter_of(orphan, user), None, "a process that was started without a starter");
        other.kill().unwrap();
        other.wait().unwrap();
        for left in [rank, orphan] {
            rustix::process::kill_process(left, rustix::process::Signal::KILL).unwrap();
            assert_eq!(starter_of(left, user), None);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
