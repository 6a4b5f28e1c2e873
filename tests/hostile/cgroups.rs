//! Cgroups of a test: root's, and one that is delegated to a user.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// A cgroup of version 2 of the test's own, with everything in it. Killed and removed when dropped.
pub struct Cgroups(PathBuf);

impl Cgroups {
    /// None, with a line, where none can be made.
    pub fn make(name: &str) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "));
        let point = mount.and_then(|line| line.split(' ').nth(4)).map(Path::new);
        let path = point.map(|point| point.join(format!("{name}-{}", std::process::id())));
        let made = path.filter(|path| std::fs::create_dir(path).is_ok()).map(Cgroups);
        if made.is_none() {
            eprintln!("skipped: no cgroup can be made here");
        }
        made
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
