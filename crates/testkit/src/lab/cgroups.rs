//! A cgroup for each machine in every hierarchy that this process may write, in the layout in which this
//! machine has them mounted. A machine's cgroup namespace has it as its root and may make others in it.
//!
//! ```text
//! OUR CGROUP/tutti-lab-MARK/node1        the root of machine 1; frozen when it is paused
//! OUR CGROUP/tutti-lab-MARK/node1/init   version 2: its processes, so that controllers may be given on
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The kernel empties a cgroup whose processes were killed in this time.
const REMOVAL_MAX: Duration = Duration::from_secs(10);
/// Files that whoever may make cgroups inside one must be able to write.
const DELEGATED: [&str; 5] =
    ["cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control", "cgroup.clone_children"];
/// The cgroup of a machine's processes.
const INIT: &str = "init";

/// A mounted hierarchy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hierarchy {
    /// Below /sys/fs/cgroup; empty: that folder itself.
    pub(super) place: PathBuf,
    /// Of version 1: how it is mounted.
    pub(super) options: Option<String>,
    /// Our cgroup in it.
    own: PathBuf,
}

/// Name of the cgroup around the machines of a lab.
pub(super) fn name(mark: &str) -> String {
    format!("tutti-lab-{mark}")
}

/// The hierarchies that are mounted here.
pub(super) fn hierarchies() -> io::Result<Vec<Hierarchy>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let cgroups = fs::read_to_string("/proc/self/cgroup")?;
    let all = cgroups.lines().filter_map(|line| hierarchy(line, &mounts));
    Ok(all.filter(|hierarchy| !shares_cores(hierarchy)).collect())
}

/// Machines share the cores as processes do. Where each had a share of its own, a rank that waits and yields
/// would not yield to ranks of other machines: the kernel's yield is among the processes of a cgroup.
fn shares_cores(hierarchy: &Hierarchy) -> bool {
    hierarchy.options.as_ref().is_some_and(|options| options.split(',').any(|name| name == "cpu"))
}

/// Hierarchy of a line of /proc/self/cgroup: `4:memory:/path`, or `0::/path` for version 2.
fn hierarchy(line: &str, mounts: &str) -> Option<Hierarchy> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = if controllers.is_empty() { "cgroup2" } else { "cgroup" };
    let (root, mount) = mounts.lines().find_map(|line| {
        // 36 31 0:33 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
        let (place, filesystem) = line.split_once(" - ")?;
        let mut words = filesystem.split(' ');
        let is_it = words.next()? == kind;
        let options: Vec<&str> = words.nth(1)?.split(',').collect();
        let has_all = controllers.split(',').all(|name| name.is_empty() || options.contains(&name));
        let mut fields = place.split(' ').skip(3);
        (is_it && has_all).then_some((fields.next()?, fields.next()?))
    })?;
    let inside = Path::new(path).strip_prefix(root).or(Path::new(path).strip_prefix("/")).ok()?;
    let options = (kind == "cgroup").then(|| match controllers.strip_prefix("name=") {
        Some(name) => format!("none,name={name}"),
        None => controllers.to_owned(),
    });
    Some(Hierarchy {
        place: Path::new(mount).strip_prefix("/sys/fs/cgroup").ok()?.to_owned(),
        options,
        own: Path::new(mount).join(inside),
    })
}

/// The cgroups of a lab's machines.
#[derive(Debug)]
pub(super) struct Cgroups {
    /// With the lab's cgroup in each.
    places: Vec<(Hierarchy, PathBuf)>,
}

impl Cgroups {
    /// Makes the lab's cgroup in each hierarchy where that is allowed. `note` gets each before it is made.
    pub(super) fn create(mark: &str, mut note: impl FnMut(&Path) -> io::Result<()>) -> io::Result<Self> {
        let mut places = Vec::new();
        for hierarchy in hierarchies()? {
            let path = hierarchy.own.join(name(mark));
            note(&path)?;
            if make(&path).is_ok() {
                places.push((hierarchy, path));
            }
        }
        Ok(Cgroups { places })
    }

    /// The hierarchies in which the machines have cgroups.
    pub(super) fn hierarchies(&self) -> Vec<Hierarchy> {
        self.places.iter().map(|(hierarchy, _)| hierarchy.clone()).collect()
    }

    /// Whether a machine can be frozen.
    pub(super) fn can_freeze(&self) -> bool {
        self.unified().is_some()
    }

    fn unified(&self) -> Option<&Path> {
        self.places.iter().find(|(hierarchy, _)| hierarchy.options.is_none()).map(|(_, path)| &**path)
    }

    /// Makes those of a machine whose root is this user here, and puts a process into them.
    pub(super) fn admit(&self, machine: &str, owner: u32, pid: u32) -> io::Result<()> {
        for (_, path) in &self.places {
            let path = path.join(machine);
            make(&path)?;
            delegate(&path, owner)?;
            fs::write(path.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(())
    }

    /// Moves a process of a machine to where its processes are.
    pub(super) fn settle(&self, machine: &str, owner: u32, pid: u32) -> io::Result<()> {
        let Some(path) = self.unified() else { return Ok(()) };
        let path = path.join(machine).join(INIT);
        make(&path)?;
        delegate(&path, owner)?;
        fs::write(path.join("cgroup.procs"), pid.to_string())
    }

    /// The files by which a process comes into a machine's cgroups.
    pub(super) fn entrances(&self, machine: &str) -> Vec<PathBuf> {
        let file = |(hierarchy, path): &(Hierarchy, PathBuf)| {
            let path = path.join(machine);
            let path = if hierarchy.options.is_none() { path.join(INIT) } else { path };
            path.join("cgroup.procs")
        };
        self.places.iter().map(file).collect()
    }

    /// Freezes or thaws all that is in a machine's cgroup, and waits for it.
    pub(super) fn freeze(&self, machine: &str, freeze: bool) -> io::Result<()> {
        let path = self.unified().ok_or(io::ErrorKind::Unsupported)?.join(machine);
        let word = if freeze { "1" } else { "0" };
        fs::write(path.join("cgroup.freeze"), word)?;
        let wanted = format!("frozen {word}");
        let began = Instant::now();
        while !fs::read_to_string(path.join("cgroup.events"))?.lines().any(|line| line == wanted) {
            if began.elapsed() > REMOVAL_MAX {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Removes those of a machine, whatever it has made in them.
    pub(super) fn dismiss(&self, machine: &str) {
        for (_, path) in &self.places {
            remove(&path.join(machine));
        }
    }

    /// Removes all.
    pub(super) fn remove(&self) {
        for (_, path) in &self.places {
            remove(path);
        }
    }
}

fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // One of version 1 has no cores and no memory until it is given some.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let above = path.parent().map(|above| above.join(file)).filter(|above| above.exists());
        if let Some(all) = above.filter(|_| !path.join("cgroup.controllers").exists()) {
            fs::write(path.join(file), fs::read_to_string(all)?.trim())?;
        }
    }
    Ok(())
}

fn delegate(path: &Path, owner: u32) -> io::Result<()> {
    chown(path, Some(owner), Some(owner))?;
    for file in DELEGATED.map(|file| path.join(file)) {
        if file.exists() {
            chown(file, Some(owner), Some(owner))?;
        }
    }
    Ok(())
}

/// Kills what is in a cgroup and in those below it, and removes them; whether it is gone.
pub(super) fn remove(path: &Path) -> bool {
    if !path.exists() {
        return true;
    }
    let _ = fs::write(path.join("cgroup.kill"), "1");
    let began = Instant::now();
    loop {
        if try_remove(path) {
            return true;
        }
        if began.elapsed() > REMOVAL_MAX {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn try_remove(path: &Path) -> bool {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            try_remove(&entry.path());
        }
    }
    fs::remove_dir(path).is_ok() || !path.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_hierarchies_are_found_by_version_name_and_root() {
        let mounts = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
            35 31 0:32 /box /sys/fs/cgroup/memory rw,relatime shared:3 - cgroup cgroup rw,memory\n\
            40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let of = |line: &str| {
            hierarchy(line, mounts).map(|found| (found.place.display().to_string(), found.options, found.own))
        };
        let own = |path: &str| PathBuf::from("/sys/fs/cgroup").join(path);
        assert_eq!(
            of("1:cpu,cpuacct:/a"),
            Some(("cpu,cpuacct".into(), Some("cpu,cpuacct".into()), own("cpu,cpuacct/a")))
        );
        assert_eq!(of("4:memory:/box/b"), Some(("memory".into(), Some("memory".into()), own("memory/b"))));
        let named = Some("none,name=systemd".into());
        assert_eq!(of("9:name=systemd:/"), Some(("systemd".into(), named, own("systemd"))));
        assert_eq!(of("0::/c"), Some(("unified".into(), None, own("unified/c"))));
        assert_eq!(of("5:pids:/"), None);
    }
}
