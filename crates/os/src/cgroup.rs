//! The job's cgroup (version 2), where one can be made: everything that the ranks start is in it, so it can
//! be stopped and killed as a whole, whatever process groups and sessions its members choose.
//!
//! The hierarchy may be mounted beside version 1 (`/sys/fs/cgroup/unified`), so its place is read from
//! mountinfo. No controller is needed: `cgroup.kill` and `cgroup.freeze` are core files. Where the caller's
//! cgroup is not writable (a login session, most containers) there is none, and [`crate::descendants`] does
//! the work.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use granted::UserReached;
use removal::Removal;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};

mod granted;
mod group;
mod login;
mod mount;
mod names;
mod part;
mod removal;
mod user;
mod version1;

pub use granted::{Granted, receive};
pub use group::{JobGroup, has_its_pid};
pub use login::PartOfUser;
pub use names::{INNER, name, part_name};
pub use part::sweep::{Swept, sweep_blocking};
pub use part::{Enforced, Limits, PartGroup, PartPlace};
pub use removal::Left;
pub use user::{UserLimit, limit_users};

/// How long the kernel may take to empty a killed cgroup before its removal is given up: a killed process
/// dies when it gets a core.
const REMOVAL_MAX: Duration = Duration::from_secs(10);

/// The cgroup of the ranks as their starter has it.
#[derive(Debug)]
pub struct Cgroup {
    directory: OwnedFd,
    inner: OwnedFd,
    rights: Rights,
}

/// By what right something is done to it.
#[derive(Debug)]
enum Rights {
    /// Right of this process, which made it there. Killed and removed when dropped.
    Made(PathBuf),
    /// Right given by root, whose cgroup it is: root's daemon has opened the files that are written.
    Granted {
        enter: OwnedFd,
        freeze: OwnedFd,
        turn: OwnedFd,
        kill: OwnedFd,
        reached: Option<OwnedFd>,
        of_user: Option<UserReached>,
        reach: Reach,
        limits_memory: bool,
        in_user: bool,
    },
}

/// Limits of memory that were reached, by version 1.
#[derive(Clone, Copy, Debug, Default)]
struct Reach {
    /// The job's was reached.
    of_job: bool,
    /// Whether that of all jobs of the user was.
    of_user: bool,
    /// Notices of the user's limit that the kernel is about to send to the job's group too.
    owed: u64,
}

impl Reach {
    /// Counts the notices that have come for the job's group, and since then for its user's: the kernel
    /// notifies the user's group first, and then all that are in it. True: one was about the job's own limit.
    fn note(&mut self, of_job: u64, of_user: u64) -> bool {
        self.of_user |= of_user > 0;
        let owed = self.owed + of_user;
        self.owed = owed.saturating_sub(of_job);
        self.of_job |= of_job > owed;
        of_job > owed
    }
}

/// Owner of the memory that was used up when the kernel killed processes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedUp {
    /// Memory that the job itself may have.
    Job,
    /// Memory that all jobs of its user may have together on the node.
    User,
}

impl UsedUp {
    /// Which of the limits it was that were reached: the nearer one.
    fn of(of_job: bool, of_user: bool) -> Option<Self> {
        if of_job { Some(UsedUp::Job) } else { of_user.then_some(UsedUp::User) }
    }
}

/// Mode of our directories: others may pass through one, not open it. Who can open one can lock it, and a
/// lock says that somebody needs it (see [`sweep_blocking`]).
fn directory_mode() -> Mode {
    Mode::from_raw_mode(0o711)
}

/// How a rank comes into it.
#[derive(Clone, Copy, Debug)]
pub enum Entrance<'a> {
    /// Begins there.
    Clone(BorrowedFd<'a>),
    /// Writes 0 to this file before it is its program.
    Write(BorrowedFd<'a>),
}

impl Cgroup {
    /// Makes `name` inside the cgroup that this process is in; `None` where that is impossible.
    pub fn create(name: &str) -> Option<Self> {
        let path = place(name)?;
        // A daemon that sweeps may take one for left over that is not locked yet; it does so once.
        (0..2).find_map(|_| {
            rustix::fs::mkdir(&path, directory_mode()).ok()?;
            let made = Self::furnish(&path);
            if made.is_none() {
                remove(&path);
            }
            made
        })
    }

    fn furnish(path: &Path) -> Option<Self> {
        let directory = open(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        rustix::fs::mkdirat(&directory, INNER, directory_mode()).ok()?;
        let inner = open(&directory, Path::new(INNER), OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
        // Kernels before 5.14 have no cgroup.kill: descendants are then killed one by one.
        open(&directory, Path::new("cgroup.kill"), OFlags::WRONLY).ok()?;
        // While it is held no sweep removes it.
        let _ = rustix::fs::flock(&directory, rustix::fs::FlockOperation::NonBlockingLockShared);
        Some(Cgroup { directory, inner, rights: Rights::Made(path.to_owned()) })
    }

    /// All its processes together get no more memory than this, swapped out or not; when they want more the
    /// kernel kills them all. `false`: the memory controller is not to be had here, and nothing has changed.
    /// Those of a cgroup that is not the root of all are there only if it has no processes of its own.
    pub fn limit_memory(&self, bytes: u64) -> bool {
        if let Rights::Granted { limits_memory, .. } = &self.rights {
            // The daemon has done so.
            return *limits_memory;
        }
        if !self.has("memory.max") {
            let _ = write(&self.directory, "../cgroup.subtree_control", b"+memory");
        }
        // In this order: a limited process is never killed alone.
        let is_limited = write(&self.directory, "memory.oom.group", b"1").is_ok()
            && write(&self.directory, "memory.max", bytes.to_string().as_bytes()).is_ok();
        if is_limited {
            // Where the kernel counts no swap there is none to forbid.
            let _ = write(&self.directory, "memory.swap.max", b"0");
        }
        is_limited
    }

    /// Whether processes were killed since a limit of memory had been reached, and which.
    pub fn used_up(&self) -> Option<UsedUp> {
        if let Rights::Granted { reach: Reach { of_job: true, .. }, .. } = &self.rights {
            return Some(UsedUp::Job);
        }
        if let Rights::Granted { of_user: Some(of_user), reach: Reach { of_user: true, .. }, .. } =
            &self.rights
        {
            let mut bytes = [0; 256];
            let read = rustix::io::pread(&of_user.kills, &mut bytes, 0).unwrap_or(0);
            return (event(&bytes[..read], "oom_kill") > 0).then_some(UsedUp::User);
        }
        let count = |file: &str, name: &str| {
            let mut bytes = [0; 1024];
            let file = open(&self.directory, Path::new(file), OFlags::RDONLY);
            let read = file.and_then(|file| rustix::io::read(file, &mut bytes)).unwrap_or(0);
            event(&bytes[..read], name)
        };
        if count("memory.events", "oom_kill") == 0 {
            return None;
        }
        // The kernel counts "oom" where the limit was, and around that.
        let is_in_user = matches!(self.rights, Rights::Granted { in_user: true, .. });
        let is_users =
            is_in_user && count("memory.events", "oom") == 0 && count("../../memory.events", "oom") > 0;
        Some(if is_users { UsedUp::User } else { UsedUp::Job })
    }

    /// Readable when a limit of memory has been reached where the kernel kills only one process for that;
    /// then [`Self::handle_reached`].
    pub fn reached(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (of_job, of_user) = match &self.rights {
            Rights::Granted { reached, of_user, .. } => (reached.as_ref(), of_user.as_ref()),
            Rights::Made(_) => (None, None),
        };
        of_job.into_iter().chain(of_user.map(|of_user| &of_user.reached)).map(AsFd::as_fd)
    }

    /// A limit of memory has been reached. If it is the job's, all processes are killed. If it is that of all
    /// jobs of the user, the kernel kills a process of one of them right now: true, and it is to be looked
    /// for a while whether it is one of this job ([`Self::used_up`]).
    pub fn handle_reached(&mut self) -> bool {
        let Rights::Granted { reached, of_user, reach, .. } = &mut self.rights else { return false };
        let count = |event: &OwnedFd| {
            let mut count = [0; 8];
            rustix::io::read(event, &mut count).map_or(0, |_| u64::from_ne_bytes(count))
        };
        let of_job = reached.as_ref().map_or(0, count);
        let of_user = of_user.as_ref().map_or(0, |of_user| count(&of_user.reached));
        if reach.note(of_job, of_user) {
            self.kill();
        }
        of_user > 0
    }

    fn has(&self, file: &str) -> bool {
        rustix::fs::accessat(&self.directory, file, Access::EXISTS, AtFlags::empty()).is_ok()
    }

    /// Where it is, if this process made it.
    pub fn path(&self) -> Option<&Path> {
        if let Rights::Made(path) = &self.rights { Some(path) } else { None }
    }

    /// How a rank comes into it.
    pub fn entrance(&self) -> Entrance<'_> {
        match &self.rights {
            Rights::Made(_) => Entrance::Clone(self.inner.as_fd()),
            Rights::Granted { enter, .. } => Entrance::Write(enter.as_fd()),
        }
    }

    /// Kills every process in it.
    pub fn kill(&self) {
        let _ = match &self.rights {
            Rights::Made(_) => write(&self.directory, "cgroup.kill", b"1"),
            Rights::Granted { kill, .. } => rustix::io::write(kill, b"1").map(drop),
        };
    }

    /// Stops or thaws every process in it.
    pub fn freeze(&self, frozen: bool) -> bool {
        let word = if frozen { b"1" } else { b"0" };
        let written = match &self.rights {
            Rights::Made(_) => write(&self.inner, "cgroup.freeze", word),
            Rights::Granted { freeze, .. } => rustix::io::pwrite(freeze, word, 0).map(drop),
        };
        written.is_ok()
    }

    /// Whether every process in it is frozen; none: that cannot be seen.
    pub fn is_frozen(&self) -> Option<bool> {
        let mut bytes = [0; 256];
        let file = open(&self.inner, Path::new("cgroup.events"), OFlags::RDONLY).ok()?;
        let read = rustix::io::read(file, &mut bytes).ok()?;
        let text = std::str::from_utf8(&bytes[..read]).ok()?;
        text.lines().find_map(|line| line.strip_prefix("frozen ")).map(|value| value.trim() == "1")
    }

    /// Undoes what a daemon that is gone may have frozen.
    pub fn thaw_outer(&self) {
        match &self.rights {
            Rights::Made(path) => thaw(path),
            Rights::Granted { turn, .. } => drop(rustix::io::pwrite(turn, b"0", 0)),
        }
    }
}

impl From<Granted> for Cgroup {
    fn from(granted: Granted) -> Self {
        let Granted { job, ranks, enter, freeze, turn, kill, reached, of_user, limits_memory, in_user } =
            granted;
        let reach = Reach::default();
        let rights =
            Rights::Granted { enter, freeze, turn, kill, reached, of_user, reach, limits_memory, in_user };
        Cgroup { directory: job, inner: ranks, rights }
    }
}

fn write(directory: &OwnedFd, file: &str, bytes: &[u8]) -> rustix::io::Result<()> {
    let file = open(directory, Path::new(file), OFlags::WRONLY)?;
    rustix::io::write(file, bytes).map(drop)
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.path().into_iter().for_each(remove);
    }
}

/// Whether this is the name of a cgroup of a job: `Some(true)`, of its only one on this node; `Some(false)`,
/// of one of its nodes'.
fn is_name_of(name: &str, job: u64) -> Option<bool> {
    let node = name.strip_prefix(&self::name(&part_name(job, None)))?;
    if node.is_empty() {
        return Some(true);
    }
    let number = node.strip_prefix('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(false)
}

/// Abilities of cgroups where this process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ability {
    /// Whether their processes can be stopped together.
    pub freezes: bool,
    /// The memory of jobs that this process starts can be limited, by either version.
    pub limits_memory: bool,
}

/// Tries it out with a cgroup that is gone afterwards.
pub fn ability() -> Ability {
    let by_version1 = || rustix::process::geteuid().is_root() && mount::own_directory("memory").is_some();
    let Some(cgroup) = Cgroup::create(&name(&format!("ability-{}", std::process::id()))) else {
        return Ability { freezes: false, limits_memory: by_version1() };
    };
    let freezes = cgroup.freeze(true) && cgroup.freeze(false);
    Ability { freezes, limits_memory: cgroup.limit_memory(1 << 30) || by_version1() }
}

/// Whether this process may have counted what the processes of a cgroup send. Tries it out.
pub fn counts_traffic() -> bool {
    let Some(cgroup) = Cgroup::create(&name(&format!("traffic-{}", std::process::id()))) else {
        return false;
    };
    let counter = crate::TrafficCounter::attach(cgroup.directory.as_fd());
    counter.is_ok_and(|counter| counter.sent_bytes().is_ok_and(|bytes| bytes == 0))
}

/// Where a cgroup of that name would be: inside the one that this process is in. `None` below a step of
/// Slurm.
pub fn place(name: &str) -> Option<PathBuf> {
    if crate::slurm::job().is_some() {
        return None;
    }
    let memberships = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    Some(mount::below_mount(&mounts, mount::place_in(&memberships)?)?.join(name))
}

/// Whether the kernel gives this process a core before any part of ours that is behind: its group of the
/// controller `cpu` is the one that this process is in, or below that. A group that is behind has nothing to
/// say about those outside of the group around it.
pub fn is_before(pid: rustix::process::Pid) -> bool {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let theirs =
        std::fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).unwrap_or_default();
    cpu_place(&own).zip(cpu_place(&theirs)).is_some_and(|(own, theirs)| theirs.starts_with(own))
}

/// The group of the controller `cpu`: of version 1 if that has it.
fn cpu_place(memberships: &str) -> Option<&Path> {
    let by_version1 = memberships.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then_some(path)
    });
    let place = by_version1.or_else(|| memberships.lines().find_map(|line| line.strip_prefix("0::")));
    place.map(Path::new)
}

/// Thaws what a daemon that is gone may have frozen.
pub fn thaw(path: &Path) {
    let _ = std::fs::write(path.join("cgroup.freeze"), "0");
}

/// Kills what is in a cgroup of ours and removes it. The front end calls this when the starter has died.
pub fn remove(path: &Path) {
    let me = rustix::process::geteuid().as_raw();
    // A newer one of the same name stays.
    if !rustix::fs::lstat(path).is_ok_and(|found| found.st_uid == me) {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let Ok(directory) = open(CWD, path, flags) else { return };
    let inner = path.join(INNER);
    let remove_both =
        || rustix::fs::rmdir(&inner).or_else(absent_is_well).and_then(|()| rustix::fs::rmdir(path));
    let deadline = Instant::now() + REMOVAL_MAX;
    // What stays is found again by the next sweep.
    let _ = Removal::new().remove_blocking(&[&directory], deadline, remove_both);
}

fn absent_is_well(error: rustix::io::Errno) -> rustix::io::Result<()> {
    if error == rustix::io::Errno::NOENT { Ok(()) } else { Err(error) }
}

/// Count under a name in a file of the kernel's.
fn event(text: &[u8], name: &str) -> u64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let mut words = text.lines().filter_map(|line| line.split_once(' '));
    words.find(|(word, _)| *word == name).and_then(|(_, count)| count.trim().parse().ok()).unwrap_or(0)
}

/// The number in a file of the kernel's.
fn number(file: std::io::Result<OwnedFd>) -> Option<u64> {
    let mut text = [0; 64];
    let read = rustix::io::read(file.ok()?, &mut text).ok()?;
    std::str::from_utf8(&text[..read]).ok()?.trim().parse().ok()
}

fn open(directory: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(directory, path, flags | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that looks like a cgroup of a job inside another, with these files.
    fn fake(name: &str, files: &[&str]) -> (PathBuf, Cgroup) {
        let around = std::env::temp_dir().join(format!("tutti-cgroup-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&around);
        let path = around.join("job");
        std::fs::create_dir_all(&path).expect("a folder");
        for file in [&["cgroup.kill"], files].concat() {
            std::fs::write(path.join(file), "").expect("a file");
        }
        let cgroup = Cgroup::furnish(&path).expect("it has all that a cgroup needs");
        (around, cgroup)
    }

    fn contents_of(folder: &Path, file: &str) -> String {
        std::fs::read_to_string(folder.join(file)).unwrap_or_else(|_| "absent".into())
    }

    #[test]
    fn memory_limit_of_a_user_that_is_reached_twice_at_once_is_not_taken_for_the_jobs() {
        // What a starter finds: notices for its job's group, then for that of the user.
        for (looks, own) in [
            (&[(0, 1), (1, 0)][..], false),
            (&[(1, 1)], false),
            // The second notice of the user's comes between the first and the second of the job's.
            (&[(0, 1), (1, 1), (1, 0)], false),
            (&[(0, 2), (1, 1), (2, 0)], false),
            (&[(1, 0)], true),
            (&[(0, 1), (2, 0)], true),
            (&[(1, 1), (1, 0)], true),
        ] {
            let mut reach = Reach::default();
            let found = looks.iter().filter(|(of_job, of_user)| reach.note(*of_job, *of_user)).count();
            assert_eq!((found > 0, reach.of_job), (own, own), "{looks:?}");
            assert_eq!(reach.owed, 0, "{looks:?}");
        }
    }

    #[test]
    fn cgroup_memory_limit_is_set() {
        let files = ["memory.max", "memory.swap.max", "memory.oom.group", "memory.events"];
        let (around, cgroup) = fake("limited", &files);
        assert!(cgroup.limit_memory(512 << 20));
        let job = around.join("job");
        assert_eq!(
            [files[0], files[1], files[2]].map(|file| contents_of(&job, file)),
            ["536870912", "0", "1"].map(str::to_owned)
        );
        assert_eq!(contents_of(&around, "cgroup.subtree_control"), "absent", "it was there already");
        for (events, has) in [
            ("", false),
            ("low 0\nhigh 0\nmax 9\noom 1\noom_kill 0\noom_group_kill 0\n", false),
            ("low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n", true),
            ("oom_kill many\n", false),
        ] {
            std::fs::write(job.join("memory.events"), events).expect("a file");
            assert_eq!(cgroup.used_up().is_some(), has, "{events:?}");
        }
        drop(cgroup);
        std::fs::remove_dir_all(&around).expect("ours");
    }

    #[test]
    fn cgroup_without_memory_controller_sets_no_limit() {
        // The parent lists no controllers to hand down; lists them, but hands down nothing; or lets no
        // process write.
        for around_it in ["", "file", "folder"] {
            let (around, cgroup) = fake(&format!("absent-{around_it}"), &[]);
            let control = around.join("cgroup.subtree_control");
            match around_it {
                "file" => std::fs::write(&control, "").expect("a file"),
                "folder" => std::fs::create_dir(&control).expect("a folder"),
                _ => {}
            }
            assert!(!cgroup.limit_memory(1 << 20) && cgroup.used_up().is_none());
            if around_it == "file" {
                assert_eq!(contents_of(&around, "cgroup.subtree_control"), "+memory", "it was tried");
            }
            let mut left: Vec<_> =
                std::fs::read_dir(around.join("job")).expect("it is there").flatten().collect();
            left.sort_by_key(std::fs::DirEntry::file_name);
            let names: Vec<_> =
                left.iter().map(|entry| entry.file_name().into_string().expect("text")).collect();
            assert_eq!(names, ["cgroup.kill", INNER]);
            drop(cgroup);
            std::fs::remove_dir_all(&around).expect("ours");
        }
    }

    #[test]
    fn cgroup_of_the_cpu_controller_is_that_of_version_1_if_it_has_it() {
        let mixed = "4:memory:/x\n3:cpu,cpuacct:/a/b\n0::/z\n";
        assert_eq!(cpu_place(mixed), Some(Path::new("/a/b")));
        assert_eq!(cpu_place("4:cpuacct:/x\n0::/z\n"), Some(Path::new("/z")));
        assert_eq!(cpu_place(""), None);
        assert!(is_before(rustix::process::getpid()));
    }

    #[test]
    fn cgroup_name_has_job_and_node() {
        let name = name(&part_name(0xab, None));
        assert_eq!(is_name_of(&name, 0xab), Some(true));
        assert_eq!(is_name_of(&format!("{name}-12"), 0xab), Some(false));
        assert_eq!(is_name_of(&name, 0xac), None, "another job's");
        for wrong in [format!("{name}-"), format!("{name}12"), format!("{name}-1x"), String::new()] {
            assert_eq!(is_name_of(&wrong, 0xab), None, "{wrong}");
        }
    }
}
