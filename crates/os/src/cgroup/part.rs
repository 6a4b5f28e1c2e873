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

use rustix::fs::{AtFlags, FlockOperation, Gid, Mode, OFlags, Uid, chownat, flock, fstat, mkdirat, unlinkat};
use serde::{Deserialize, Serialize};

use super::granted::{Granted, UserReached};
use super::mount::{Mount, open_beneath, own_directory, own_place};
use super::removal::{self, Left, Removal, Why, is_populated};
use super::user::{self, Held, UserLimit};
use super::version1::Version1;
use super::{INNER, JobGroup, REMOVAL_MAX, UsedUp, event, name, number};
use crate::with_file_rights_of;

/// Beginning of the name of a part.
const PART: &str = "tutti-part-";
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

/// What all processes of a part have together, at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Memory; none: anything.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids_max: u64,
    /// They run only where nobody beside their group wants the core (`cpu.idle`).
    pub behind: bool,
}

/// Which limits the kernel sees to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// That of memory; false: there is none, or it is only counted.
    pub memory: bool,
    /// That of processes and threads.
    pub pids: bool,
    /// They are behind everybody in the cgroup around theirs, and below it.
    #[serde(default)]
    pub behind: bool,
    /// That of the memory of all jobs of the user on the node; false: there is none, or it is only counted.
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
    /// What the kernel holds the user to; of one that was made by an earlier daemon nothing is known.
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

    /// Whose limit it was, if one was reached.
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
        let made = mkdirat(&parent, place.directory_name(), Mode::from_raw_mode(0o755))
            .map_err(io::Error::from)
            .and_then(|()| {
                let around = (around.try_clone()?, parent.try_clone()?);
                let furnished = Self::furnish(place.clone(), around, held, user, limits);
                // It is empty.
                furnished.inspect_err(|_| {
                    let _ = remove_unfinished(&mut Removal::new(), &parent, place);
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
        let make = |path: &Path| mkdirat(&directory, path, Mode::from_raw_mode(0o755));
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

    fn memory_version1(&self) -> Option<&Version1> {
        self.version1.iter().find(|group| group.open(OOM).is_ok())
    }

    /// Those of a part that an earlier daemon has made; `None` when they are gone, or not ours.
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

    /// Whose limit of memory it was, if the kernel has killed the starter for one; none too where the whole
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

    /// What the switch thread freezes.
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
        let absent_is_well = |result| match result {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            other => other,
        };
        let remove =
            |directory: &OwnedFd, path: &str| absent_is_well(unlinkat(directory, path, AtFlags::REMOVEDIR));
        remove(&self.job, INNER)?;
        remove(&self.directory, &name(&self.place.name))?;
        remove(&self.directory, STARTER)?;
        // Version 1 before the part: while the part is there its owner makes or removes all of them.
        self.version1.iter().try_for_each(|group| absent_is_well(group.try_remove()))?;
        self.version1.iter().for_each(Version1::remove_user);
        remove(&self.parent, &self.place.directory_name())?;
        self.place.remove_user(&self.around);
        Ok(())
    }
}

impl PartPlace {
    /// The cgroup around it.
    fn open_parent(&self, around: &OwnedFd) -> io::Result<OwnedFd> {
        self.user.as_ref().map_or_else(|| around.try_clone(), |user| user::open_directory(around, user))
    }

    /// Its groups of version 1.
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

    fn directory_name(&self) -> String {
        format!("{PART}{}", self.name)
    }
}

/// What a sweep did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// So many cgroups of ours are gone, without those inside of them.
    pub removed: usize,
    /// These are there still.
    pub left: Vec<Left>,
}

/// A sweep that is under way.
struct Sweep {
    /// What it may still do, for all that it finds.
    removal: Removal,
    swept: Swept,
}

impl Sweep {
    fn new() -> Self {
        Sweep { removal: Removal::new(), swept: Swept::default() }
    }

    /// Counts one that was to be removed. One that somebody else has removed meanwhile is neither.
    fn count(&mut self, result: Result<(), Left>) {
        match result {
            Ok(()) => self.swept.removed += 1,
            Err(Left { why: Why::Refused(rustix::io::Errno::NOENT), .. }) => {}
            Err(left) => self.swept.left.push(left),
        }
    }

    /// Removes one without processes, with what is inside.
    fn remove_empty(&mut self, parent: &OwnedFd, found: &str) {
        let removed = remove_empty(&mut self.removal, parent, found);
        self.count(removed);
    }

    /// The parts of a user, and its group if it is empty then.
    fn sweep_user(&mut self, around: &OwnedFd, user: &str, place: impl Fn(&str) -> PartPlace) {
        let Ok(group) = user::open_directory(around, user) else { return };
        let (_, names) = with_names(group);
        for name in names.iter().filter_map(|found| found.strip_prefix(PART)) {
            self.sweep_part(&place(name));
        }
        self.swept.removed += usize::from(user::remove_empty(around, user));
    }

    /// Groups of version 1 whose part is gone from version 2.
    fn sweep_version1(&mut self, group: &OwnedFd, names: &[String], version2: &OwnedFd) {
        for found in names {
            if user::is_name(found) {
                if let Ok(inside) = user::open_directory(group, found) {
                    let (inside, names) = with_names(inside);
                    match user::open_directory(version2, found) {
                        Ok(version2) => self.sweep_version1(&inside, &names, &version2),
                        Err(_) => self.sweep_version1(&inside, &names, version2),
                    }
                }
                self.swept.removed += usize::from(user::remove_empty(group, found));
            } else if !has_part(version2, found) && is_own(group, found) {
                self.remove_empty(group, found);
            }
        }
    }

    fn sweep_part(&mut self, place: &PartPlace) {
        let Some(part) = PartGroup::reopen(place) else {
            let around = Mount::open().and_then(|mount| mount.open_directory(&place.parent).ok());
            if let Some(parent) = around.and_then(|around| place.open_parent(&around).ok()) {
                self.sweep_unfinished(&parent, place);
            }
            return;
        };
        // Its own lock becomes one that no other process has.
        let is_held = flock(&part.directory, FlockOperation::NonBlockingLockExclusive).is_err();
        if is_held || part.has_starter() {
            return;
        }
        let removed = part.remove_until(Instant::now() + REMOVAL_MAX, &mut self.removal);
        self.count(removed);
    }

    /// Removes what a daemon has begun to make, unless it is making it: then the daemon has locked it, or
    /// finds it locked and begins again.
    fn sweep_unfinished(&mut self, parent: &OwnedFd, place: &PartPlace) {
        let Ok(directory) = open(parent, &place.directory_name()) else { return };
        let is_held = flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err();
        if !is_held && is_own(parent, &place.directory_name()) {
            let removed = remove_unfinished(&mut self.removal, parent, place);
            self.count(removed);
        }
    }

    /// One that a starter has made. The kernel removes it only if it is empty.
    fn sweep_starters(&mut self, directory: &OwnedFd, found: &str) {
        let Ok(job) = open(directory, found) else { return };
        let is_held = flock(&job, FlockOperation::NonBlockingLockExclusive).is_err();
        if !is_held && is_own(directory, found) && !is_populated(&job) {
            self.remove_empty(directory, found);
        }
    }
}

/// Ends what killed daemons and starters have left in the cgroup of this process. That is parts that no
/// daemon holds and that have no starter any more, and empty cgroups of starters. Only those with our names
/// and our owner. What was made inside of them is removed up to a bound for the whole sweep.
pub fn sweep_blocking() -> Swept {
    let mut sweep = Sweep::new();
    let (Ok(parent), Some(mount)) = (own_place(), Mount::open()) else { return sweep.swept };
    let Ok(directory) = mount.open_directory(&parent) else { return sweep.swept };
    // Before those of version 2 are listed: a daemon makes the part first.
    let version1: Vec<(OwnedFd, Vec<String>)> =
        CONTROLLERS.iter().filter_map(|controller| own_directory(controller)).map(with_names).collect();
    let (directory, names) = with_names(directory);
    let place = |user: Option<&str>, name: &str| PartPlace {
        parent: parent.clone(),
        user: user.map(str::to_owned),
        name: name.to_owned(),
        enforced: Enforced::default(),
    };
    for found in names {
        if user::is_name(&found) {
            sweep.sweep_user(&directory, &found, |name| place(Some(&found), name));
            continue;
        }
        match found.strip_prefix(PART) {
            Some(name) => sweep.sweep_part(&place(None, name)),
            None => sweep.sweep_starters(&directory, &found),
        }
    }
    for (group, names) in version1 {
        sweep.sweep_version1(&group, &names, &directory);
    }
    sweep.swept
}

/// Whether a part is in this cgroup, or in that of a user there: only the memory of version 1 has such.
fn has_part(version2: &OwnedFd, part: &str) -> bool {
    let in_user = |user: &String| {
        user::is_name(user)
            && user::open_directory(version2, user).is_ok_and(|user| open(&user, part).is_ok())
    };
    let users = || version2.try_clone().map(with_names).is_ok_and(|(_, names)| names.iter().any(in_user));
    open(version2, part).is_ok() || users()
}

/// A directory, and what is in it that is named as ours.
fn with_names(directory: OwnedFd) -> (OwnedFd, Vec<String>) {
    let entries = rustix::fs::Dir::read_from(&directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let is_one =
        |found: &String| found.starts_with(PART) || found.starts_with(&name("")) || user::is_name(found);
    let names = names.filter(is_one).collect();
    (directory, names)
}

/// Removes what a daemon that was killed has begun to make, or to remove: the kernel removes only empty ones.
fn remove_unfinished(removal: &mut Removal, parent: &OwnedFd, place: &PartPlace) -> Result<(), Left> {
    for group in place.version1() {
        removal.remove_inside(group.directory());
        let _ = group.try_remove();
        group.remove_user();
    }
    remove_empty(removal, parent, &place.directory_name())
}

/// Removes one without processes, with what is inside.
fn remove_empty(removal: &mut Removal, parent: &OwnedFd, found: &str) -> Result<(), Left> {
    let is_whole = open(parent, found).is_ok_and(|directory| removal.remove_inside(&directory));
    unlinkat(parent, found, AtFlags::REMOVEDIR).map_err(|error| {
        let why =
            if is_whole || error != rustix::io::Errno::BUSY { Why::Refused(error) } else { Why::Nested };
        Left { name: found.to_owned(), why }
    })
}

fn is_own(directory: &OwnedFd, found: &str) -> bool {
    let me = rustix::process::geteuid().as_raw();
    open(directory, found).is_ok_and(|found| fstat(found).is_ok_and(|found| found.st_uid == me))
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
mod tests {
    use std::process::{Child, Command};

    use super::*;

    const LIMITS: Limits = Limits { memory_bytes: Some(64 << 20), pids_max: 40, behind: false };

    /// None, with a line, where none can be made.
    fn create(name: &str) -> Option<PartGroup> {
        create_of(name, None)
    }

    fn create_of(name: &str, user: Option<UserLimit>) -> Option<PartGroup> {
        use tutti_testkit::{Need, skip};
        if !rustix::process::geteuid().is_root() {
            skip(Need::Root, "only root's daemon makes cgroups for others");
            return None;
        }
        let made = PartGroup::create(&format!("{name}-{}", std::process::id()), user.as_ref(), LIMITS);
        made.map_err(|error| skip(Need::Cgroup, error)).ok()
    }

    fn start_in(directory: &OwnedFd) -> Child {
        let child = Command::new("sleep").arg("60").spawn().unwrap();
        write(directory, "cgroup.procs", &child.id().to_string()).unwrap();
        child
    }

    fn is_there(place: &PartPlace) -> bool {
        PartGroup::reopen(place).is_some()
    }

    #[test]
    fn part_group_is_killed_and_removed_with_all_that_is_in_it() {
        let Some(part) = create("unit-removed") else { return };
        let ranks = open(&part.job, INNER).unwrap();
        let mut children = [start_in(&part.starter), start_in(&ranks)];
        assert_eq!(part.job_group().unwrap().members(), [children[1].id()]);
        let again = PartGroup::reopen(part.place()).expect("a daemon that follows finds it");
        // A zombie that is not reaped stays in it: so does a starter's, until the daemon reaps it.
        let statuses = std::thread::scope(|scope| {
            let waits = scope.spawn(|| children.each_mut().map(|child| child.wait().unwrap()));
            again.remove_blocking().unwrap();
            waits.join().unwrap()
        });
        assert!(statuses.iter().all(|status| !status.success()));
        assert!(!is_there(part.place()));
    }

    /// A job within the job whose starter was killed, in both versions.
    fn nest(part: &PartGroup, path: &str) {
        let inner = format!("{}/{INNER}", name(&part.place.name));
        let groups = std::iter::once((&part.directory, inner.as_str()))
            .chain(part.version1.iter().map(|group| (group.directory(), ".")));
        for (directory, around) in groups {
            let mut made = PathBuf::from(around);
            for step in Path::new(path) {
                made.push(step);
                let result = mkdirat(directory, &made, Mode::from_raw_mode(0o755));
                assert!(matches!(result, Ok(()) | Err(rustix::io::Errno::EXIST)), "{result:?}");
            }
        }
    }

    /// Who waits for what holds no process is ended by the test's time limit.
    fn in_an_hour() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    #[test]
    fn part_group_is_removed_with_empty_groups_inside() {
        let Some(part) = create("unit-nested") else { return };
        nest(&part, "tutti-job-within/ranks/tutti-job-deeper/ranks");
        nest(&part, "another");
        let version1 = part.version1.len();
        assert_eq!(part.remove_until(in_an_hour(), &mut Removal::new()), Ok(()));
        assert!(!is_there(part.place()));
        assert_eq!((version1, part.place.version1().count()), (part.version1.len(), 0));
    }

    #[test]
    fn part_group_is_removed_with_processes_in_groups_inside() {
        let Some(part) = create("unit-nested-busy") else { return };
        nest(&part, "tutti-job-within/ranks");
        nest(&part, "tutti-job-empty/ranks");
        let ranks = open(&part.job, INNER).unwrap();
        let mut child = start_in(&open(&ranks, "tutti-job-within/ranks").unwrap());
        let status = std::thread::scope(|scope| {
            let wait = scope.spawn(|| child.wait().unwrap());
            assert_eq!(part.remove_until(in_an_hour(), &mut Removal::new()), Ok(()));
            wait.join().unwrap()
        });
        assert!(!status.success() && !is_there(part.place()));
    }

    /// A user with delegated rights can have made any number.
    #[test]
    fn part_group_with_too_many_groups_inside_is_left_at_once() {
        let Some(part) = create("unit-nested-many") else { return };
        for number in 0..1500 {
            nest(&part, &format!("many/{number}"));
        }
        let left = part.remove_until(in_an_hour(), &mut Removal::new()).unwrap_err();
        let expected = "has more than 1024 cgroups inside, or more than 64 deep";
        assert_eq!(left.to_string(), format!("{} {expected}", part.place.directory_name()));
        let mut tries = 1;
        while let Err(left) = part.remove_until(in_an_hour(), &mut Removal::new()) {
            tries += 1;
            assert!(tries < 20 && left.why == Why::Nested, "each removes some: {left}");
        }
        assert!(!is_there(part.place()));
    }

    #[test]
    fn part_group_sweep_counts_what_is_gone_and_what_is_left() {
        let Some(part) = create("unit-nested-swept") else { return };
        let (place, parent) = (part.place.clone(), part.parent.try_clone().unwrap());
        // The starter's is gone already, as when an earlier sweep had to stop.
        unlinkat(&part.directory, STARTER, AtFlags::REMOVEDIR).unwrap();
        nest(&part, "tutti-job-within/ranks");
        let mut spent = Sweep { removal: Removal::spent(), swept: Swept::default() };
        let mut sweep = Sweep::new();
        // Other tests sweep beside this one: they respect the lock.
        flock(&part.directory, FlockOperation::NonBlockingLockShared).unwrap();
        let removed = remove_unfinished(&mut spent.removal, &parent, &place);
        spent.count(removed);
        assert_eq!(spent.swept.left, [Left { name: place.directory_name(), why: Why::Nested }]);
        let removed = remove_unfinished(&mut sweep.removal, &parent, &place);
        sweep.count(removed);
        let removed = remove_unfinished(&mut sweep.removal, &parent, &place);
        sweep.count(removed);
        assert_eq!(sweep.swept, Swept { removed: 1, left: Vec::new() }, "what is gone is not counted");
        assert!(open(&parent, &place.directory_name()).is_err());
    }

    #[test]
    fn part_group_limits_are_written_where_the_kernel_has_the_controller() {
        let Some(part) = create("unit-limits") else { return };
        let read = |file: io::Result<OwnedFd>| {
            let mut text = [0; 64];
            let read = rustix::io::read(file.ok()?, &mut text).ok()?;
            std::str::from_utf8(&text[..read]).ok()?.trim().parse::<u64>().ok()
        };
        let of = |file: &str| part.version1.iter().find_map(|group| read(group.open(file)));
        let pids = read(open_file(&part.directory, "pids.max", OFlags::RDONLY)).or_else(|| of("pids.max"));
        let memory = read(open_file(&part.job, "memory.max", OFlags::RDONLY));
        let memory = memory.or_else(|| of("memory.limit_in_bytes"));
        assert_eq!(part.enforced().pids, pids == Some(LIMITS.pids_max));
        assert_eq!(part.enforced().memory, memory == LIMITS.memory_bytes);
        assert!(part.memory_bytes().is_some() || !part.enforced().memory, "what is limited is counted");
        part.remove_blocking().unwrap();
        assert!(!is_there(part.place()));
    }

    /// Folders with what version 2 counts: events of the user, the part and the starter.
    #[test]
    fn part_group_names_the_limit_of_a_killed_starter() {
        let root = std::env::temp_dir().join(format!("tutti-part-killed-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let folder = |name: &str| -> (PathBuf, OwnedFd) {
            let path = root.join(name);
            std::fs::create_dir_all(&path).unwrap();
            let directory = std::fs::File::open(&path).unwrap().into();
            (path, directory)
        };
        let (of_user, parent) = folder("user");
        let ((of_part, directory), (of_starter, starter)) =
            (folder("user/part"), folder("user/part/starter"));
        let place = PartPlace {
            parent: PathBuf::new(),
            user: Some("user".into()),
            name: "part".into(),
            enforced: Enforced::default(),
        };
        let (around, job) = (folder("").1, folder("user/part/job").1);
        let part = PartGroup {
            place,
            around,
            parent,
            directory,
            starter,
            job,
            version1: Vec::new(),
            held: Ok(None),
            run_out: RunOut::default(),
        };
        assert_eq!(part.used_up_of_starter(), None, "nobody counts");
        let put = |path: &Path, oom: u32, oom_kill: u32| {
            std::fs::write(path.join(EVENTS), format!("low 0\noom {oom}\noom_kill {oom_kill}\n")).unwrap();
        };
        for (user, part_oom, killed, expected) in [
            (0, 0, 0, None),
            (2, 1, 0, None),
            (1, 0, 1, Some(UsedUp::User)),
            (1, 1, 1, Some(UsedUp::Job)),
            // The machine had no more.
            (0, 0, 1, None),
        ] {
            put(&of_user, user, killed);
            put(&of_part, part_oom, killed);
            put(&of_starter, 0, killed);
            assert_eq!(part.used_up_of_starter(), expected, "{user} {part_oom} {killed}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn part_groups_are_swept_when_neither_daemon_nor_starter_is_left() {
        let Some(held) = create("unit-held") else { return };
        let (Some(started), Some(left), Some(empty)) =
            (create("unit-started"), create("unit-left"), create("unit-empty"))
        else {
            return;
        };
        let places = [&started, &left, &empty].map(|part| part.place().clone());
        let mut starter = start_in(&started.starter);
        let mut leftover = start_in(&open(&left.job, INNER).unwrap());
        drop((started, left, empty));
        let reaper = std::thread::spawn(move || leftover.wait().unwrap());
        // A child that was just forked has our descriptors, and so our locks, for a moment longer than it
        // seems.
        let deadline = Instant::now() + REMOVAL_MAX;
        while places[1..].iter().any(is_there) && Instant::now() < deadline {
            sweep_blocking();
        }
        assert!(!reaper.join().unwrap().success(), "what was left is killed");
        let there = places.each_ref().map(is_there);
        assert_eq!((is_there(held.place()), there), (true, [true, false, false]));
        starter.kill().unwrap();
        starter.wait().unwrap();
        while is_there(&places[0]) && Instant::now() < deadline {
            sweep_blocking();
        }
        assert!(!is_there(&places[0]));
        held.remove_blocking().unwrap();
    }

    #[test]
    fn part_groups_of_a_user_are_in_one_that_goes_with_the_last() {
        let daemon = u64::from(std::process::id());
        let user = |bytes| Some(UserLimit::new(54_321, daemon, bytes));
        let (Some(one), Some(two)) =
            (create_of("unit-user-one", user(Some(64 << 20))), create_of("unit-user-two", user(None)))
        else {
            return;
        };
        let name = user(None).unwrap().directory_name();
        assert_eq!(one.place().user.as_deref(), Some(name.as_str()));
        assert_eq!(one.enforced().user_memory, one.memory_bytes().is_some(), "what is counted is limited");
        assert!(!two.enforced().user_memory, "there is no limit any more");
        let held = super::super::limit_users(daemon, |uid| (uid == 54_321).then_some(32 << 20));
        let expected = one.enforced().user_memory.then_some(32 << 20);
        let is_expected = |(uid, held): &(u32, io::Result<Option<u64>>)| {
            *uid == 54_321 && held.as_ref().ok().copied().flatten() == expected
        };
        assert!(!held.is_empty() && held.iter().all(is_expected), "{held:?}");
        assert!(super::super::limit_users(daemon + 1, |_| None).is_empty(), "another daemon's");
        assert!(PartGroup::reopen(two.place()).is_some());
        one.remove_blocking().unwrap();
        assert!(user::open_directory(&two.around, &name).is_ok(), "a part is in it");
        let memory = own_directory("memory");
        two.remove_blocking().unwrap();
        assert!(user::open_directory(&two.around, &name).is_err());
        assert!(memory.is_none_or(|memory| user::open_directory(&memory, &name).is_err()));
    }

    #[test]
    fn part_groups_of_a_user_are_swept() {
        let user = Some(UserLimit::new(54_322, u64::from(std::process::id()), Some(64 << 20)));
        let name = user.as_ref().unwrap().directory_name();
        let Some(part) = create_of("unit-user-swept", user.clone()) else { return };
        let (around, place) = (part.around.try_clone().unwrap(), part.place().clone());
        sweep_blocking();
        assert!(is_there(&place), "it is held");
        assert!(part.version1.iter().all(|group| group.open("cgroup.procs").is_ok()), "all of it");
        drop(part);
        // What a daemon leaves that is killed when it has made the group alone.
        let empty = UserLimit::new(54_323, u64::from(std::process::id()), None);
        drop(empty.make_in(&around).unwrap());
        let memory = own_directory("memory");
        drop(memory.as_ref().map(|memory| empty.make_in(memory).unwrap()));
        let deadline = Instant::now() + REMOVAL_MAX;
        let is_left = |directory: &OwnedFd| {
            [&name, &empty.directory_name()].iter().any(|name| user::open_directory(directory, name).is_ok())
        };
        while (is_left(&around) || memory.as_ref().is_some_and(is_left)) && Instant::now() < deadline {
            sweep_blocking();
        }
        assert!(!is_left(&around) && !memory.as_ref().is_some_and(is_left));
    }

    /// Another daemon begins, and sweeps, while this one makes the groups of a part.
    #[test]
    fn part_group_that_is_being_made_is_not_swept() {
        let Some(part) = create("unit-being-made") else { return };
        // As it is before all are there.
        for path in [format!("{}/{INNER}", name(&part.place.name)), name(&part.place.name)] {
            unlinkat(&part.directory, path, AtFlags::REMOVEDIR).unwrap();
        }
        sweep_blocking();
        assert!(open(&part.parent, &part.place.directory_name()).is_ok());
        assert!(part.version1.iter().all(|group| group.open("cgroup.procs").is_ok()), "these are there too");
        let (parent, place) = (part.parent.try_clone().unwrap(), part.place.clone());
        drop(part);
        let deadline = Instant::now() + REMOVAL_MAX;
        while open(&parent, &place.directory_name()).is_ok() && Instant::now() < deadline {
            sweep_blocking();
        }
        assert!(open(&parent, &place.directory_name()).is_err());
    }

    #[test]
    fn part_groups_are_made_while_others_sweep() {
        let Some(first) = create("unit-made-beside") else { return };
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweeper = scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep_blocking();
                }
            });
            for round in 0..200 {
                let part = create(&format!("unit-made-beside-{round}")).expect("it is made");
                let there = part.version1.iter().all(|group| group.open("cgroup.procs").is_ok());
                assert!(is_there(part.place()) && there, "round {round}");
                part.remove_blocking().unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            sweeper.join().unwrap();
        });
        first.remove_blocking().unwrap();
    }

    /// A daemon that is killed while it makes the groups of a part leaves some of them.
    #[test]
    fn part_groups_that_were_never_finished_are_swept() {
        let user = UserLimit::new(54_324, u64::from(std::process::id()), Some(64 << 20));
        for (made, user) in (0..4).flat_map(|made| [(made, None), (made, Some(user.clone()))]) {
            let name_of_part = format!("unit-unfinished-{made}-{}", user.is_some());
            let Some(part) = create_of(&name_of_part, user) else { return };
            let (place, job) = (part.place().clone(), name(&part.place().name));
            let inner = [format!("{job}/{INNER}"), job, STARTER.to_owned()];
            for path in &inner[..3 - made.min(3)] {
                unlinkat(&part.directory, path, AtFlags::REMOVEDIR).unwrap();
            }
            let parent = part.parent.try_clone().unwrap();
            drop(part);
            assert!(open(&parent, &place.directory_name()).is_ok());
            let deadline = Instant::now() + REMOVAL_MAX;
            while open(&parent, &place.directory_name()).is_ok() && Instant::now() < deadline {
                sweep_blocking();
            }
            assert!(open(&parent, &place.directory_name()).is_err(), "{made} of its groups");
        }
    }
}
