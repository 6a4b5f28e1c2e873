//! Facts of a machine that decide how well Tutti works on it, as `tutti doctor` judges them. Each is read or
//! tried here and now, by this process: a daemon reads those of its node, `tutti` those of its user's
//! session. Nothing is changed for good.

use std::fs::read_to_string;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{PidfdFlags, Resource, getpid, getrlimit, pidfd_open};
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};

use tutti_os::cgroup::{self, Cgroup};
use tutti_os::{PriorityClass, kernel, prefer_this_thread};

/// Facts about a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Version of Tutti.
    pub version: String,
    /// Release of the kernel.
    pub kernel: String,
    /// The wall clock, in us since 1970.
    pub clock_us: u64,
    /// The user of the process that looked.
    pub uid: u32,
    /// Cgroups.
    pub cgroups: Cgroups,
    /// How far a thread of this process can be preferred.
    pub priority_class: PriorityClass,
    /// Bytes that may be locked in memory; none: any.
    pub lock_bytes: Option<u64>,
    /// Files that a process may have open.
    pub files_max: Option<u64>,
    /// Greatest receive buffer of a socket; none: any, for this user.
    pub receive_bytes: Option<u64>,
    /// System calls that the kernel lets this process do.
    pub calls: Calls,
    /// Other processes, as this one sees them.
    #[serde(flatten)]
    pub processes: Processes,
}

/// Facts about other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Processes {
    /// `kernel.yama.ptrace_scope`; none: the kernel has no Yama.
    pub ptrace_scope: Option<u32>,
    /// `/proc` hides those of other users (`hidepid`).
    #[serde(rename = "hides_processes")]
    pub are_hidden: bool,
}

/// Facts about cgroups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroups {
    /// The cgroup of the process, where version 2 is mounted; none: it is not.
    pub own: Option<PathBuf>,
    /// Controllers of version 2 in it.
    pub controllers: Vec<String>,
    /// Of these, what cgroups inside it have.
    pub passed_on: Vec<String>,
    /// Controllers that version 1 holds, which version 2 then cannot have.
    pub version1: Vec<String>,
    /// A cgroup for a job could be made, with all that is needed.
    pub can_make: bool,
    /// And stopped and thawed.
    pub can_freeze: bool,
}

/// System calls, each tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Calls {
    /// `clone3`
    pub clone3: bool,
    /// `pidfd_open`
    pub pidfd: bool,
    /// `memfd_create` with seals.
    pub memfd: bool,
    /// `process_vm_readv`
    pub process_vm: bool,
    /// Runs of datagrams are sent as one.
    pub gso: bool,
    /// And received as one.
    pub gro: bool,
}

impl Facts {
    /// Looks. Takes a second where RealtimeKit is asked and does not answer.
    pub fn read() -> Self {
        // A thread of its own: its priority goes with it.
        let priority_class = std::thread::spawn(prefer_this_thread).join().unwrap_or_default();
        let has = |wanted| capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted));
        let may_lock = has(CapabilitySet::IPC_LOCK);
        let locked = getrlimit(Resource::Memlock).current;
        let (gso, gro) = tutti_transport::udp::has_offloads();
        let pidfd = pidfd_open(getpid(), PidfdFlags::empty()).is_ok();
        let memfd = memfd_create("tutti-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).is_ok();
        let number = |path: &str| read_to_string(path).ok()?.trim().parse().ok();
        Facts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            clock_us: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_micros() as u64),
            uid: rustix::process::geteuid().as_raw(),
            cgroups: Cgroups::read(),
            priority_class,
            lock_bytes: locked.filter(|_| !may_lock),
            files_max: getrlimit(Resource::Nofile).current,
            receive_bytes: number("/proc/sys/net/core/rmem_max").filter(|_| !has(CapabilitySet::NET_ADMIN)),
            calls: Calls {
                clone3: kernel::has_clone3(),
                pidfd,
                memfd,
                process_vm: kernel::has_process_vm(),
                gso,
                gro,
            },
            processes: Processes {
                ptrace_scope: number("/proc/sys/kernel/yama/ptrace_scope").map(|scope| scope as u32),
                // The first process is always there, and anybody may read this of it elsewhere.
                are_hidden: std::fs::read("/proc/1/stat").is_err(),
            },
        }
    }
}

impl Cgroups {
    fn read() -> Self {
        let own = cgroup::place("").filter(|place| place.is_dir());
        let words = |file: &str| -> Vec<String> {
            let text = own.as_ref().and_then(|own| read_to_string(own.join(file)).ok()).unwrap_or_default();
            text.split_whitespace().map(str::to_owned).collect()
        };
        let (controllers, passed_on) = (words("cgroup.controllers"), words("cgroup.subtree_control"));
        let version1 = held_by_version1(&read_to_string("/proc/cgroups").unwrap_or_default());
        // Removed when it is dropped.
        let made = Cgroup::create(&format!("tutti-doctor-{}", std::process::id()));
        let can_freeze = made.as_ref().is_some_and(|made| made.freeze(true) && made.freeze(false));
        Cgroups { own, controllers, passed_on, version1, can_make: made.is_some(), can_freeze }
    }
}

/// Controllers of /proc/cgroups (name, hierarchy, cgroups, enabled) that have a hierarchy, which is version
/// 1's.
fn held_by_version1(table: &str) -> Vec<String> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    let held = rows.filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        (words.next()? != "0").then(|| name.to_owned())
    });
    held.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_name_controllers_of_version_1() {
        let table =
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t3\t1\t1\nmemory\t0\t90\t1\npids\t7\t2\t1\n";
        assert_eq!(held_by_version1(table), ["cpu", "pids"]);
        assert!(held_by_version1("").is_empty());
    }

    #[test]
    fn facts_leave_nothing_behind_and_come_back_from_json() {
        let facts = Facts::read();
        if let Some(own) = &facts.cgroups.own {
            let name = format!("tutti-doctor-{}", std::process::id());
            assert!(!own.join(name).exists());
        }
        assert!(facts.calls.clone3 && facts.clock_us > 1_700_000_000_000_000);
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);
    }
}
