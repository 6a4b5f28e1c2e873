//! A cgroup of its own for a process of a test, to freeze it at whatever it does, system calls included.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use crate::stepper::DEADLINE;

/// The cgroup. Killed and removed when dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// A cgroup of its own for a process; `None` where we may not make one.
    pub fn hold(pid: libc::pid_t) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?.to_owned();
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let cgroup = Cgroup(PathBuf::from(mount).join(path).join(format!("tutti-storm-{pid}")));
        fs::create_dir(&cgroup.0).ok()?;
        fs::write(cgroup.0.join("cgroup.procs"), pid.to_string()).ok()?;
        fs::write(cgroup.0.join("cgroup.freeze"), "0").ok()?;
        Some(cgroup)
    }

    /// Freezes the process, which stands still soon after, or thaws it.
    ///
    /// # Panics
    /// When the cgroup is gone.
    pub fn set_frozen(&self, frozen: bool) {
        let word = if frozen { "1" } else { "0" };
        fs::write(self.0.join("cgroup.freeze"), word).expect("our own cgroup");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        let began = Instant::now();
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && began.elapsed() < DEADLINE {
            std::thread::yield_now();
        }
    }
}
