//! The cgroup of a job as a daemon has it: a descriptor of the directory. All files in it are opened relative
//! to that descriptor and without following links. So the owner of a name on the way cannot have something
//! else frozen.
//!
//! Where a job runs already, its cgroup is the kernel's entry for its ranks ([`JobGroup::of_rank`]), never a
//! path that a user has named. A user may move only its own processes into a cgroup that it owns. So freezing
//! it does nothing that the user could not do.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{OFlags, fstat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::mount::{Mount, open_beneath, place_in};
use super::{INNER, is_name_of, number};
use crate::TrafficCounter;
use crate::stat::owner;

/// A job's cgroup: the one that is frozen when it is not the job's turn.
#[derive(Debug)]
pub struct JobGroup {
    directory: OwnedFd,
    /// Device and inode.
    identity: (u64, u64),
}

impl PartialEq for JobGroup {
    fn eq(&self, other: &Self) -> bool {
        self.identity == other.identity
    }
}

impl JobGroup {
    /// A directory that its maker has opened.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn new(directory: OwnedFd) -> io::Result<Self> {
        let found = fstat(&directory)?;
        Ok(JobGroup { directory, identity: (found.st_dev, found.st_ino) })
    }

    /// The cgroup of a process that a user names as a rank of the job with this number, and whether it is the
    /// job's only one (its virtual nodes have one each). `None`: the process is not the user's or gone, or is
    /// in no cgroup of the user that has the name of this job.
    pub fn of_rank(rank: Pid, user: u32, job: u64) -> Option<(Self, bool)> {
        let pidfd = pidfd_open(rank, PidfdFlags::empty()).ok()?;
        let is_of_user = owner(rank) == Some(user);
        let memberships = std::fs::read_to_string(format!("/proc/{}/cgroup", rank.as_raw_nonzero())).ok()?;
        // What was read is of the process that the descriptor names: its number has not been given to another
        // one since.
        if !is_of_user || !has_its_pid(&pidfd) {
            return None;
        }
        let place = place_in(&memberships)?;
        let place = place.parent().filter(|_| place.file_name().is_some_and(|name| name == INNER))?;
        let is_only = is_name_of(place.file_name()?.to_str()?, job)?;
        let group = JobGroup::new(Mount::open()?.open_directory(place).ok()?).ok()?;
        group.is_delegated_to(user).then_some((group, is_only))
    }

    /// The user may freeze it without us.
    fn is_delegated_to(&self, user: u32) -> bool {
        let is_of_user = |file: &OwnedFd| fstat(file).is_ok_and(|found| found.st_uid == user);
        let freeze = self.open_file("cgroup.freeze", OFlags::RDONLY);
        is_of_user(&self.directory) && freeze.is_ok_and(|freeze| is_of_user(&freeze))
    }

    /// Opens a file of it.
    ///
    /// # Errors
    /// When it is not there, or not ours to open.
    pub fn open_file(&self, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
        open_beneath(&self.directory, Path::new(name), flags)
    }

    /// The same of the cgroup inside, where the processes are.
    ///
    /// # Errors
    /// When it is not there, or not ours to open.
    pub fn open_inner_file(&self, name: &str) -> io::Result<OwnedFd> {
        open_beneath(&self.directory, &Path::new(INNER).join(name), OFlags::RDONLY)
    }

    /// Counts from now on what its processes send.
    ///
    /// # Errors
    /// When the kernel cannot do so, or this process may not.
    pub fn count_traffic(&self) -> io::Result<TrafficCounter> {
        TrafficCounter::attach(self.directory.as_fd())
    }

    /// Memory that its processes have; none where the kernel does not count it here.
    pub fn memory_bytes(&self) -> Option<u64> {
        number(self.open_file("memory.current", OFlags::RDONLY))
    }

    /// Time of processors that its processes have had.
    pub fn worked_us(&self) -> Option<u64> {
        let mut text = [0; 1024];
        let read = rustix::io::read(self.open_file("cpu.stat", OFlags::RDONLY).ok()?, &mut text).ok()?;
        let text = std::str::from_utf8(&text[..read]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()
    }

    /// Processes of the group.
    pub fn members(&self) -> Vec<u32> {
        let read = |file: io::Result<OwnedFd>| {
            let mut text = String::new();
            let _ = io::Read::read_to_string(&mut std::fs::File::from(file.ok()?), &mut text);
            Some(text)
        };
        let all = [self.open_file("cgroup.procs", OFlags::RDONLY), self.open_inner_file("cgroup.procs")];
        let all: Vec<String> = all.into_iter().filter_map(read).collect();
        all.iter().flat_map(|text| text.lines()).filter_map(|pid| pid.parse().ok()).collect()
    }
}

/// The process of this descriptor still has its number, also when it is dead and waits to be reaped.
pub fn has_its_pid(pidfd: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let text =
        std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap_or_default();
    let pid = text.lines().find_map(|line| line.strip_prefix("Pid:")?.trim().parse::<i32>().ok());
    pid.is_some_and(|pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::part_name;
    use crate::cgroup::{Cgroup, name};

    #[test]
    fn group_of_a_rank_is_what_the_kernel_says() {
        let job = 0xabcd_0000_0000_0000 + u64::from(std::process::id());
        let user = rustix::process::geteuid().as_raw();
        let mut outside = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(JobGroup::of_rank(Pid::from_child(&outside), user, job).is_none(), "in no job's cgroup");
        outside.kill().unwrap();
        outside.wait().unwrap();
        assert!(JobGroup::of_rank(Pid::from_child(&outside), user, job).is_none(), "gone");
        let Some(cgroup) = Cgroup::create(&name(&part_name(job, Some(3)))) else {
            return tutti_testkit::skip(tutti_testkit::Need::Cgroup, "no cgroup can be made here");
        };
        let mut inside = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&inside);
        let place = cgroup.path().unwrap().join(INNER).join("cgroup.procs");
        std::fs::write(place, inside.id().to_string()).unwrap();
        let (group, is_only) = JobGroup::of_rank(pid, user, job).expect("it is in it");
        assert!(!is_only, "it is one of a virtual node's");
        assert_eq!(group.members(), [inside.id()]);
        assert!(JobGroup::of_rank(pid, user + 1, job).is_none(), "not that user's");
        assert!(JobGroup::of_rank(pid, user, job + 1).is_none(), "not that job's");
        if user == 0 {
            // The cgroup of another user is not frozen for this one, even with its own process inside.
            let path = cgroup.path().unwrap();
            std::os::unix::fs::chown(path, Some(23_456), None).unwrap();
            let found = JobGroup::of_rank(pid, user, job);
            // It is removed by its owner only.
            std::os::unix::fs::chown(path, Some(user), None).unwrap();
            assert!(found.is_none(), "it is another user's");
        }
        inside.kill().unwrap();
        inside.wait().unwrap();
        let path = cgroup.path().unwrap().to_path_buf();
        drop(cgroup);
        assert!(group.members().is_empty(), "it is gone");
        assert!(!path.exists(), "nothing is left behind");
    }

    #[test]
    fn pidfd_of_a_reaped_process_has_no_pid() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        assert!(has_its_pid(&pidfd));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!has_its_pid(&pidfd));
    }
}
