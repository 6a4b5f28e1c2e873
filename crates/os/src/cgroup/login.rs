//! Logins of users who have a job on this node: root puts the process of a login where the ranks of the job
//! are, so it has their limits and turns and ends with them. Called by `tutti admit`, as root.
//!
//! Proof of a job is what the kernel says of a process of the user: that it is in the cgroup of the ranks of
//! a part (`super::part`), below the cgroup of root's daemon. No user can make one there.

use std::io;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::Pid;

use super::mount::{self, Mount, open_beneath};
use super::names::{INNER, PART, USER, name};
use crate::stat::Stat;

/// File of a cgroup that takes processes.
const PROCS: &str = "cgroup.procs";

/// The cgroups of the ranks of a job's part on this node.
#[derive(Clone, Debug)]
pub struct PartOfUser {
    /// A rank, or a process that one has started, and its start in clock ticks since boot.
    process: Pid,
    since: u64,
}

impl PartOfUser {
    /// The part of this user, made by this daemon, whose process that lives has begun last; none: the user
    /// has no ranks here.
    pub fn newest(uid: u32, daemon: Pid) -> Option<Self> {
        let around = mount::place_in(&memberships(daemon)?)?.to_owned();
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let processes =
            processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
        let of_user = processes.filter(|process| real_uid(*process) == Some(uid));
        let parts = of_user.filter_map(|process| {
            // Its cgroup is that of the process which began then.
            let since = Stat::of(process).filter(|stat| !stat.is_dead())?.since;
            let is_rank = is_of_ranks(mount::place_in(&memberships(process)?)?.strip_prefix(&around).ok()?);
            (is_rank && Stat::of(process)?.since == since).then_some(PartOfUser { process, since })
        });
        parts.max_by_key(|part| part.since)
    }

    /// Whether the ranks stand still until a user lets them go on.
    pub fn is_suspended(&self) -> bool {
        let freezes = |place: &Path| {
            let file = Mount::open()?.open_directory(place).ok()?;
            let file = open_beneath(&file, Path::new("cgroup.freeze"), OFlags::RDONLY).ok()?;
            let mut byte = [0];
            (rustix::io::read(file, &mut byte).ok()? == 1).then_some(byte[0] == b'1')
        };
        let memberships = memberships(self.process).unwrap_or_default();
        mount::place_in(&memberships).and_then(freezes).unwrap_or(false)
    }

    /// Puts a process, and what it starts from now on, where the ranks are.
    ///
    /// # Errors
    /// When the part has ended meanwhile, or the kernel refuses.
    pub fn admit(&self, process: Pid) -> io::Result<()> {
        let memberships = memberships(self.process).ok_or(io::ErrorKind::NotFound)?;
        if Stat::of(self.process).is_none_or(|stat| stat.since != self.since) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let number = process.as_raw_nonzero().to_string();
        let is_of_part = |line: &&str| line.split('/').any(|name| name.starts_with(PART));
        // Limits first: where the ranks are the process may be frozen at once.
        for line in memberships.lines().filter(is_of_part).filter(|line| !line.starts_with("0::")) {
            let controllers = line.split(':').nth(1).unwrap_or_default();
            let controller = controllers.split(',').next().unwrap_or_default();
            let directory = mount::directory_version1(&memberships, controller);
            let directory = directory.ok_or(io::ErrorKind::NotFound)?;
            write_to(&open_beneath(&directory, Path::new(PROCS), OFlags::WRONLY)?, &number)?;
        }
        let place = mount::place_in(&memberships).ok_or(io::ErrorKind::NotFound)?;
        let directory = Mount::open().ok_or(io::ErrorKind::NotFound)?.open_directory(place)?;
        write_to(&open_beneath(&directory, Path::new(PROCS), OFlags::WRONLY)?, &number)
    }
}

/// A place below a daemon's cgroup is that of ranks, or below it. No user makes a cgroup in that of root's
/// daemon itself, but further below others may.
fn is_of_ranks(place: &Path) -> bool {
    let names: Vec<&str> = place.components().filter_map(|name| name.as_os_str().to_str()).collect();
    let [part, job, ranks, ..] = (match &names[..] {
        [user, inside @ ..] if user.starts_with(USER) => inside,
        inside => inside,
    }) else {
        return false;
    };
    part.strip_prefix(PART).is_some_and(|part| *job == name(part)) && *ranks == INNER
}

fn memberships(process: Pid) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/cgroup", process.as_raw_nonzero())).ok()
}

/// The user who has started a process.
fn real_uid(process: Pid) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn write_to(file: &impl std::os::fd::AsFd, text: &str) -> io::Result<()> {
    Ok(rustix::io::write(file, text.as_bytes()).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_of_ranks_is_known_by_all_of_its_names() {
        for place in [
            "tutti-part-00ff/tutti-job-00ff/ranks",
            "tutti-user-1001/tutti-part-00ff-1/tutti-job-00ff-1/ranks",
            "tutti-part-00ff/tutti-job-00ff/ranks/of/its/own",
        ] {
            assert!(is_of_ranks(Path::new(place)), "{place}");
        }
        for place in [
            "",
            "tutti-part-00ff",
            "tutti-part-00ff/starter",
            "tutti-part-00ff/tutti-job-00ff",
            "tutti-part-00ff/tutti-job-00fe/ranks",
            "tutti-job-00ff/ranks",
            "x/ranks/tutti-job-00ff",
            "user.slice/tutti-part-00ff/tutti-job-00ff/ranks",
            "tutti-user-1001/x/tutti-part-00ff/tutti-job-00ff/ranks",
        ] {
            assert!(!is_of_ranks(Path::new(place)), "{place}");
        }
    }

    #[test]
    fn user_without_ranks_below_a_daemon_has_no_part() {
        let own = rustix::process::getpid();
        assert!(PartOfUser::newest(rustix::process::getuid().as_raw(), own).is_none());
    }
}
