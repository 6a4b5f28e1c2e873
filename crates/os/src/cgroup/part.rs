//! The cgroups of a job's part on a node as root's daemon makes them, before there is a process to put into
//! them. They are root's.
//!
//! ```text
//! daemon's cgroup, or in it that of the user (user.rs)
//!   tutti-part-NAME        all that there is of the job here: limits of processes and memory, killed at the end
//!     starter              the starter alone; never frozen
//!     tutti-job-NAME       frozen by the daemon when it is not the job's turn; limit of memory of the ranks
//!       ranks              every rank and all that it starts; frozen by the starter (suspend, snapshot)
//! ```
//!
//! A user's processes cannot leave. To move a process the kernel asks for the right to write `cgroup.procs`
//! of its target and of the nearest cgroup around both places. All of these are root's, but for two: that of
//! `ranks`, and that of the part. There [`JOINER`] has the right, a user that no process ever is. The starter
//! has a descriptor that was opened as that user ([`Granted`]): with it it can put processes of this part
//! into `ranks`, and nothing else anywhere.
//!
//! Where version 2 has not got a controller the limits are those of a group of version 1 with the same name.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, Gid, OFlags, Uid, chownat, flock, fstat, mkdirat};
use serde::{Deserialize, Serialize};

use super::granted::{Granted, UserReached};
use super::mount::{Mount, open_beneath, own_place};
use super::names::PART;
use super::removal::{self, Left, Removal, absent_is_well, is_populated, remove_directory};
use super::user::{self, Held, UserLimit};
use super::version1::Version1;
use super::{INNER, JobGroup, REMOVAL_MAX, UsedUp, event, name, number};
use crate::with_file_rights_of;

pub(super) mod sweep;

/// The starter's.
const STARTER: &str = "starter";
/// The uid that may put processes of a part into `ranks`. It is (uid_t)-1 of 16 bits, which no system gives
/// to anybody.
const JOINER: u32 = 65_535;
/// Memory of the starter beside that of the ranks.
const STARTER_BYTES: u64 = 64 << 20;
/// How often a part is made that another daemon sweeps while it is being made.
const CREATE_MAX: u32 = 10;
/// Version 1: what tells of memory that has run out.
const OOM: &str = "memory.oom_control";
/// Version 2: what became of processes that wanted more memory than a limit.
const EVENTS: &str = "memory.events";
/// Controllers of limits.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Limits of all processes of a part together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory; none: anything.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids_max: u64,
    /// Whether they run only where nobody beside their group wants the core (`cpu.idle`).
    pub behind: bool,
}

/// Which limits the kernel sees to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// Whether memory is limited; false: there is no limit, or it is only counted.
    pub memory: bool,
    /// Whether the number of processes and threads is limited.
    pub pids: bool,
    /// Whether they are behind everybody in the cgroup around theirs, and below it.
    #[serde(default)]
    pub behind: bool,
    /// Whether the memory of all jobs of the user on the node is limited; false: there is no limit, or it is
    /// only counted.
    #[serde(default)]
    pub user_memory: bool,
}

/// Where the cgroups of a part are, for a daemon that follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartPlace {
    /// Path of the cgroup around it in the hierarchy.
    parent: PathBuf,
    /// The cgroup of its user in that one, in which it is; none: it is in none.
    #[serde(default)]
    user: Option<String>,
    /// [`super::part_name`].
    name: String,
    /// Which limits the kernel sees to.
    #[serde(default)]
    enforced: Enforced,
}

/// The cgroups of a part. They stay when this is dropped.
#[derive(Debug)]
pub struct PartGroup {
    place: PartPlace,
    /// The daemon's.
    around: OwnedFd,
    /// In which it is: the user's, or the daemon's.
    parent: OwnedFd,
    /// Locked as long as it is held: it is not swept.
    directory: OwnedFd,
    starter: OwnedFd,
    job: OwnedFd,
    version1: Vec<Version1>,
    /// Limit that the kernel holds the user to; of a part that was made by an earlier daemon nothing is
    /// known.
    held: Held,
    run_out: RunOut,
}

/// Version 1: become readable when memory runs out, by the limit of the job or of its user. The counts of
/// failures (`memory.failcnt`) stay 0 in some kernels.
#[derive(Debug, Default)]
struct RunOut {
    /// Also when it is the user's.
    of_job: Option<OwnedFd>,
    of_user: Option<OwnedFd>,
}

impl RunOut {
    fn of(memory: &Version1) -> Self {
        let of_user = memory.is_of_user().then(|| memory.notify_of_user(OOM).ok()).flatten();
        RunOut { of_job: memory.notify(OOM).ok(), of_user }
    }

    /// Owner of the limit that was reached, if one was.
    fn owner(&self) -> Option<UsedUp> {
        let has = |event: &Option<OwnedFd>| {
            event.as_ref().is_some_and(|event| rustix::io::read(event, &mut [0; 8]).is_ok())
        };
        if has(&self.of_user) { Some(UsedUp::User) } else { has(&self.of_job).then_some(UsedUp::Job) }
    }
}

impl PartGroup {
    /// Makes those of a part with this name ([`super::part_name`]) inside of the cgroup that this process is
    /// in, for root; with `user` in the one of that user there. Of a user with a limit no part is behind
    /// others by version 2: it would be behind that user's other parts alone.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn create(name: &str, user: Option<&UserLimit>, limits: Limits) -> io::Result<Self> {
        let place = PartPlace {
            parent: own_place()?,
            user: user.map(UserLimit::directory_name),
            name: name.to_owned(),
            enforced: Enforced::default(),
        };
        let around = mount()?.open_directory(&place.parent)?;
        let mut left = CREATE_MAX;
        loop {
            left -= 1;
            let made = Self::try_create(&place, around.try_clone()?, user, limits);
            let Err(error) = &made else { return made };
            // A daemon that begins beside this one sweeps it before it is locked, or the last other part of
            // the user has gone and its group with it.
            let is_swept = matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::WouldBlock | io::ErrorKind::AlreadyExists
            );
            if !is_swept || left == 0 {
                return made;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn try_create(
        place: &PartPlace,
        around: OwnedFd,
        user: Option<&UserLimit>,
        limits: Limits,
    ) -> io::Result<Self> {
        let mut held = Ok(None);
        let parent = match user {
            None => around.try_clone()?,
            Some(of_user) => {
                let _ = write(&around, "cgroup.subtree_control", "+memory");
                let (directory, by_version2) = of_user.make_in(&around)?;
                held = by_version2;
                directory
            }
        };
        // One of the same name would be a job with the same number, which is drawn.
        let made = mkdirat(&parent, place.directory_name(), super::directory_mode())
            .map_err(io::Error::from)
            .and_then(|()| {
                let around = (around.try_clone()?, parent.try_clone()?);
                let furnished = Self::furnish(place.clone(), around, held, user, limits);
                // It is empty.
                furnished.inspect_err(|_| {
                    let _ = place.remove_unfinished(&mut Removal::new(), &parent);
                })
            });
        made.inspect_err(|_| place.remove_user(&around))
    }

    fn furnish(
        place: PartPlace,
        (around, parent): (OwnedFd, OwnedFd),
        held: Held,
        user: Option<&UserLimit>,
        limits: Limits,
    ) -> io::Result<Self> {
        let directory = open(&parent, &place.directory_name())?;
        flock(&directory, FlockOperation::NonBlockingLockShared)?;
        let job_name = name(&place.name);
        let make = |path: &Path| mkdirat(&directory, path, super::directory_mode());
        make(Path::new(STARTER))?;
        make(Path::new(&job_name))?;
        make(&Path::new(&job_name).join(INNER))?;
        let joiner = Some(Uid::from_raw(JOINER));
        let none: Option<Gid> = None;
        let nofollow = AtFlags::SYMLINK_NOFOLLOW;
        chownat(&directory, "cgroup.procs", joiner, none, nofollow)?;
        chownat(&directory, Path::new(&job_name).join(INNER).join("cgroup.procs"), joiner, none, nofollow)?;
        let (starter, job) = (open(&directory, STARTER)?, open(&directory, &job_name)?);
        let version1 = Vec::new();
        let run_out = RunOut::default();
        let mut part = PartGroup { place, around, parent, directory, starter, job, version1, held, run_out };
        part.limit(user, limits);
        part.run_out = part.memory_version1().map(RunOut::of).unwrap_or_default();
        Ok(part)
    }

    fn limit(&mut self, user: Option<&UserLimit>, limits: Limits) {
        // Without need no job has a share of the cores by its cgroup.
        for controller in CONTROLLERS.iter().filter(|controller| **controller != "cpu" || limits.behind) {
            let enable = |directory| write(directory, "cgroup.subtree_control", &format!("+{controller}"));
            // Behind others is a matter of the daemon's cgroup alone.
            if *controller == "cpu" && user.is_some() {
                continue;
            }
            // Where the cgroup around it has processes of its own the kernel refuses.
            let _ = enable(&self.around);
            let _ = enable(&self.parent);
            let _ = enable(&self.directory);
        }
        let pids = limits.pids_max.to_string();
        self.place.enforced.pids = write(&self.directory, "pids.max", &pids).is_ok()
            || self.limit_by_version1("pids", None, ("pids.max", limits.pids_max));
        self.place.enforced.behind = limits.behind
            && (user.is_none() && write(&self.directory, "cpu.idle", "1").is_ok()
                || self.limit_by_version1("cpu", None, ("cpu.idle", 1)));
        // Before there is a limit: a process is never killed alone, whoever's limit it is.
        let is_whole = write(&self.job, "memory.oom.group", "1").is_ok();
        let Some(bytes) = limits.memory_bytes else {
            // Its memory is counted all the same.
            if open_file(&self.job, "memory.current", OFlags::RDONLY).is_err() {
                self.add_version1("memory", user, None);
            }
            self.place.enforced.user_memory = matches!(self.held, Ok(Some(_)));
            return;
        };
        let by_version2 = is_whole && write(&self.job, "memory.max", &bytes.to_string()).is_ok();
        if by_version2 {
            // Where the kernel counts no swap there is none to forbid.
            let _ = write(&self.job, "memory.swap.max", "0");
            let _ = write(&self.directory, "memory.max", &(bytes + STARTER_BYTES).to_string());
        }
        self.place.enforced.memory =
            by_version2 || self.limit_by_version1("memory", user, ("memory.limit_in_bytes", bytes));
        if let Some(memory) = self.memory_version1() {
            let _ = memory.write("memory.memsw.limit_in_bytes", bytes);
        }
        self.place.enforced.user_memory = matches!(self.held, Ok(Some(_)));
    }

    fn limit_by_version1(&mut self, controller: &str, user: Option<&UserLimit>, limit: (&str, u64)) -> bool {
        self.add_version1(controller, user, Some(limit))
    }

    /// Version 1 may hold the user to its limit where version 2 has not got the controller.
    fn add_version1(
        &mut self,
        controller: &str,
        user: Option<&UserLimit>,
        limit: Option<(&str, u64)>,
    ) -> bool {
        match Version1::create(controller, user, &self.place.directory_name(), limit) {
            Ok(mut group) => {
                if user.is_some() {
                    user::supersede(&mut self.held, group.take_held());
                }
                self.version1.push(group);
                true
            }
            Err(error) => {
                if user.is_some_and(UserLimit::is_limited) {
                    user::supersede(&mut self.held, Err(error));
                }
                false
            }
        }
    }

    /// A part that is killed is behind nobody any more: on a busy machine it would not come to its end.
    pub fn end_behind(&self) {
        if self.place.enforced.behind {
            let _ = write(&self.directory, "cpu.idle", "0");
            for group in &self.version1 {
                let _ = group.write("cpu.idle", 0);
            }
        }
    }

    fn memory_version1(&self) -> Option<&Version1> {
        self.version1.iter().find(|group| group.open(OOM).is_ok())
    }

    /// Opens the cgroups of a part that an earlier daemon has made; `None` when they are gone, or not ours.
    pub fn reopen(place: &PartPlace) -> Option<Self> {
        let around = Mount::open()?.open_directory(&place.parent).ok()?;
        let parent = place.open_parent(&around).ok()?;
        let directory = open(&parent, &place.directory_name()).ok()?;
        let is_own = |directory: &OwnedFd| {
            fstat(directory).is_ok_and(|found| found.st_uid == rustix::process::geteuid().as_raw())
        };
        if !is_own(&parent) || !is_own(&directory) {
            return None;
        }
        let _ = flock(&directory, FlockOperation::NonBlockingLockShared);
        let (starter, job) = (open(&directory, STARTER).ok()?, open(&directory, &name(&place.name)).ok()?);
        let version1: Vec<Version1> = place.version1().collect();
        let (place, held) = (place.clone(), Ok(None));
        let mut part = PartGroup {
            place,
            around,
            parent,
            directory,
            starter,
            job,
            version1,
            held,
            run_out: RunOut::default(),
        };
        part.run_out = part.memory_version1().map(RunOut::of).unwrap_or_default();
        Some(part)
    }

    /// Where it is.
    pub fn place(&self) -> &PartPlace {
        &self.place
    }

    /// Which limits the kernel sees to.
    pub fn enforced(&self) -> Enforced {
        self.place.enforced
    }

    /// Why the kernel does not hold the user to its limit of memory; none: it does, there is none, or an
    /// earlier daemon has made this.
    pub fn user_memory_failure(&self) -> Option<String> {
        self.held.as_ref().err().map(ToString::to_string)
    }

    /// In which the starter is to begin.
    pub fn starter(&self) -> BorrowedFd<'_> {
        self.starter.as_fd()
    }

    /// Files to which the starter is to write 0 while it is root's: then it is in the groups of version 1.
    pub fn entrances(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.version1.iter().map(Version1::procs)
    }

    /// Gives the starter what it needs of it, on a wire on which nothing has been sent. `frame` makes the
    /// frame that carries it, with the flags of [`Granted`].
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn grant(&self, wire: BorrowedFd<'_>, frame: impl FnOnce(u32) -> Vec<u8>) -> io::Result<()> {
        let copy = |directory: &OwnedFd| directory.try_clone();
        let ranks = open(&self.job, INNER)?;
        let enter = || open_file(&ranks, "cgroup.procs", OFlags::WRONLY);
        let enter = with_file_rights_of(JOINER, enter).ok_or(io::ErrorKind::PermissionDenied)??;
        let memory = self.memory_version1();
        let limited = memory.filter(|_| self.place.enforced.memory);
        let reached = limited.and_then(|group| group.notify(OOM).ok());
        let of_user = memory.filter(|group| group.is_of_user());
        let of_user = of_user.and_then(|group| {
            Some(UserReached { reached: group.notify_of_user(OOM).ok()?, kills: group.open(OOM).ok()? })
        });
        let granted = Granted {
            job: copy(&self.job)?,
            enter,
            freeze: open_file(&ranks, "cgroup.freeze", OFlags::WRONLY)?,
            turn: open_file(&self.job, "cgroup.freeze", OFlags::WRONLY)?,
            kill: open_file(&self.job, "cgroup.kill", OFlags::WRONLY)?,
            reached,
            of_user,
            limits_memory: self.place.enforced.memory,
            in_user: self.place.user.is_some(),
            ranks,
        };
        granted.send(wire, &frame(granted.flags()))
    }

    /// Memory that the ranks have, by version 1 with the starter; none where the kernel does not count it.
    pub fn memory_bytes(&self) -> Option<u64> {
        let by_version1 = || number(self.memory_version1()?.open("memory.usage_in_bytes"));
        number(open_file(&self.job, "memory.current", OFlags::RDONLY)).or_else(by_version1)
    }

    /// Owner of the limit of memory, if the kernel has killed the starter for one; none too where the whole
    /// machine had used up its memory. For a starter that was killed by SIGKILL: version 1 counts the starter
    /// and the ranks together.
    pub fn used_up_of_starter(&self) -> Option<UsedUp> {
        let count = |directory: &OwnedFd, name: &str| {
            let mut bytes = [0; 1024];
            let file = open_file(directory, EVENTS, OFlags::RDONLY).ok()?;
            let read = rustix::io::read(file, &mut bytes).ok()?;
            Some(event(&bytes[..read], name))
        };
        if let Some(killed) = count(&self.starter, "oom_kill") {
            // The kernel counts "oom" where the limit was, and around that.
            let is_over = |directory: &OwnedFd| count(directory, "oom").is_some_and(|times| times > 0);
            let (of_job, of_user) =
                (is_over(&self.directory), self.place.user.is_some() && is_over(&self.parent));
            return UsedUp::of(of_job, of_user).filter(|_| killed > 0);
        }
        let memory = self.memory_version1()?;
        let mut bytes = [0; 256];
        let read = rustix::io::read(memory.open(OOM).ok()?, &mut bytes).ok()?;
        self.run_out.owner().filter(|_| event(&bytes[..read], "oom_kill") > 0)
    }

    /// Group that the switch thread freezes.
    ///
    /// # Errors
    /// When there are no more descriptors.
    pub fn job_group(&self) -> io::Result<JobGroup> {
        JobGroup::new(self.job.try_clone()?)
    }

    /// Kills all that there is of the job on this node, its starter too.
    pub fn kill(&self) {
        removal::kill(&self.directory);
    }

    /// The starter, or what has taken its place, is still there.
    fn has_starter(&self) -> bool {
        is_populated(&self.starter)
    }

    /// Kills all that there is of the job on this node, and removes its cgroups, with those that the job has
    /// made inside. Waits for the last process, for a while.
    ///
    /// # Errors
    /// When they stay.
    pub fn remove_blocking(&self) -> Result<(), Left> {
        self.remove_until(Instant::now() + REMOVAL_MAX, &mut Removal::new())
    }

    fn remove_until(&self, deadline: Instant, removal: &mut Removal) -> Result<(), Left> {
        let groups: Vec<&OwnedFd> =
            std::iter::once(&self.directory).chain(self.version1.iter().map(Version1::directory)).collect();
        let removed = removal.remove_blocking(&groups, deadline, || self.try_remove());
        removed.map_err(|why| Left { name: self.place.directory_name(), why })
    }

    /// Removes what is empty, from the inside.
    fn try_remove(&self) -> rustix::io::Result<()> {
        remove_directory(&self.job, INNER)?;
        remove_directory(&self.directory, &name(&self.place.name))?;
        remove_directory(&self.directory, STARTER)?;
        // Version 1 before the part: while the part is there its owner makes or removes all of them.
        self.version1.iter().try_for_each(|group| absent_is_well(group.try_remove()))?;
        self.version1.iter().for_each(Version1::remove_user);
        remove_directory(&self.parent, &self.place.directory_name())?;
        self.place.remove_user(&self.around);
        Ok(())
    }
}

impl PartPlace {
    /// The cgroup around it.
    fn open_parent(&self, around: &OwnedFd) -> io::Result<OwnedFd> {
        self.user.as_ref().map_or_else(|| around.try_clone(), |user| user::open_directory(around, user))
    }

    /// Groups of version 1 of the part.
    fn version1(&self) -> impl Iterator<Item = Version1> {
        let directory = self.directory_name();
        CONTROLLERS.iter().filter_map(move |controller| {
            let within = self.user.as_deref().filter(|_| *controller == "memory");
            Version1::reopen(controller, within, &directory)
        })
    }

    /// Removes its user's, if no other part is in it.
    fn remove_user(&self, around: &OwnedFd) {
        if let Some(user) = &self.user {
            user::remove_empty(around, user);
        }
    }

    /// Removes what a daemon that was killed has begun to make, or to remove: the kernel removes only empty
    /// ones.
    fn remove_unfinished(&self, removal: &mut Removal, parent: &OwnedFd) -> Result<(), Left> {
        for group in self.version1() {
            removal.remove_inside(group.directory());
            let _ = group.try_remove();
            group.remove_user();
        }
        removal.remove_empty(parent, &self.directory_name())
    }

    fn directory_name(&self) -> String {
        format!("{PART}{}", self.name)
    }
}

fn mount() -> io::Result<Mount> {
    Mount::open().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroups of version 2"))
}

fn open(directory: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    open_beneath(directory, Path::new(name), OFlags::RDONLY | OFlags::DIRECTORY)
}

fn open_file(directory: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    open_beneath(directory, Path::new(name), flags)
}

fn write(directory: &OwnedFd, file: &str, text: &str) -> io::Result<()> {
    let file = open_file(directory, file, OFlags::WRONLY)?;
    Ok(rustix::io::write(file, text.as_bytes()).map(drop)?)
}

#[cfg(test)]
mod tests;
