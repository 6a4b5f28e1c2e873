//! Cgroups of a test: root's, one that is delegated to a user, and those of a test's daemons.

use std::collections::BTreeSet;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A cgroup of version 2 of the test's own, with everything in it. Killed and removed when dropped.
pub struct Cgroups(PathBuf);

impl Cgroups {
    /// None where none can be made.
    pub fn make(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let point = mount.and_then(|line| line.split(' ').nth(4)).map(Path::new);
        let path = point.map(|point| point.join(format!("{name}-{}", std::process::id())));
        path.filter(|path| std::fs::create_dir(path).is_ok()).map(Cgroups)
    }

    /// A cgroup inside.
    pub fn inner(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(&path).expect("a cgroup");
        path
    }

    /// The same, delegated to a user as systemd does it.
    pub fn delegated(&self, name: &str, uid: u32) -> PathBuf {
        let path = self.inner(name);
        for file in ["", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"] {
            chown(path.join(file), Some(uid), Some(uid)).expect("it is ours");
        }
        path
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        let _ = tutti_tests::comes_true(|| remove(&self.0).is_ok());
    }
}

/// Removes a cgroup and all inside.
fn remove(path: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)?.flatten().filter(|entry| entry.path().is_dir()) {
        remove(&entry.path())?;
    }
    std::fs::remove_dir(path)
}

/// A process in a cgroup. Killed when dropped.
pub struct Sleeper(Child);

impl Sleeper {
    pub fn start(command: &mut Command, group: &Path) -> Self {
        let child = command.spawn().expect("sleep");
        std::fs::write(group.join("cgroup.procs"), child.id().to_string()).expect("it is ours");
        Sleeper(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Controllers that may be in a hierarchy of version 1.
const CONTROLLERS: [&str; 2] = ["pids", "memory"];

/// Cgroups that only a test's daemons are in, so that all cgroups below them are of their jobs. Killed and
/// removed when dropped.
pub struct DaemonGroups {
    version2: Cgroups,
    version1: Vec<PathBuf>,
}

impl DaemonGroups {
    /// None where none can be made.
    pub fn make(name: &str) -> Option<Self> {
        let version2 = Cgroups::make(name)?;
        let name = format!("{name}-{}", std::process::id());
        let groups = CONTROLLERS.iter().filter_map(|controller| own_version1(controller));
        let groups = groups.map(|parent| parent.join(&name));
        let version1 = groups.filter(|group| std::fs::create_dir(group).is_ok()).collect();
        Some(DaemonGroups { version2, version1 })
    }

    fn all(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.version2.0).chain(&self.version1).map(PathBuf::as_path)
    }

    /// The one of version 2 that they are in.
    pub fn of_daemons(&self) -> &Path {
        &self.version2.0
    }

    /// The file that limits the memory of all that is in them; none where the kernel has no controller.
    pub fn memory_limit(&self) -> Option<PathBuf> {
        let files = ["memory.limit_in_bytes", "memory.max"];
        self.all().flat_map(|group| files.map(|file| group.join(file))).find(|file| file.exists())
    }

    /// Files to which a process is written that is to be in them.
    pub fn entrances(&self) -> Vec<PathBuf> {
        self.all().map(|group| group.join("cgroup.procs")).collect()
    }

    /// Cgroups of jobs, of version 2.
    pub fn jobs(&self) -> Vec<PathBuf> {
        parts(&self.version2.0)
    }

    /// The same, of both versions, and what is left of users' without jobs.
    pub fn jobs_of_both(&self) -> Vec<PathBuf> {
        self.all().flat_map(parts).collect()
    }

    /// Cgroups of users, of both versions.
    pub fn users(&self) -> Vec<PathBuf> {
        self.all().flat_map(directories).filter(|path| is_users(path)).collect()
    }

    /// Numbers of the jobs that have cgroups now, as they are in names: 16 digits.
    pub fn job_ids(&self) -> BTreeSet<String> {
        let names = self.jobs().into_iter().filter_map(|path| path.file_name()?.to_str().map(str::to_owned));
        names.filter_map(|name| name.strip_prefix("tutti-part-")?.get(..16).map(str::to_owned)).collect()
    }
}

impl Drop for DaemonGroups {
    fn drop(&mut self) {
        // What is killed in version 2 is also gone in version 1.
        let _ = std::fs::write(self.version2.0.join("cgroup.kill"), "1");
        for group in &self.version1 {
            let _ = tutti_tests::comes_true(|| remove(group).is_ok());
        }
    }
}

/// Cgroups in a daemon's cgroup that are no user's, and those in the users'; an empty one of a user's itself.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = |path: PathBuf| match directories(&path) {
        inside if is_users(&path) && !inside.is_empty() => inside,
        _ => vec![path],
    };
    directories(path).into_iter().flat_map(parts).collect()
}

fn is_users(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tutti-user-"))
}

fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// The group of version 1 that this process is in.
fn own_version1(controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let memberships = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = memberships.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        has(controllers).then_some(path)
    })?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - cgroup ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        has(right.rsplit(' ').next()?).then_some(())?;
        let relative = own.strip_prefix(root.trim_end_matches('/'))?;
        Some(Path::new(point).join(relative.trim_start_matches('/')))
    })
}
