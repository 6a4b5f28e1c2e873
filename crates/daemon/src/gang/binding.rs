//! Ranks move to the cores of the slots that the matrix gives their job: two jobs of one rank each
//! that share a row are not both on the first core, where their starters, which know nothing of each other,
//! have put them.

use std::collections::HashSet;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tutti_os::cgroup::{JobGroup, has_its_pid};
use tutti_os::stat::owner;

use super::page::starter_of;
use tutti_sched::Slots;

use super::command::LocalRanks;

/// Threads of a rank and of what it has started that are bound.
const BOUND_MAX: usize = 4096;

/// The cores behind the slots of this node, in order: those that the daemon may use.
#[derive(Debug, Default)]
pub(super) struct Cores(Vec<usize>);

impl Cores {
    pub(super) fn of_this_thread() -> Self {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        Cores((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
    }

    /// The core of each rank, if there is one for each.
    fn of_ranks(&self, slots: &Slots, ranks: usize) -> Option<Vec<usize>> {
        let cores: Vec<usize> =
            slots.iter().map(|slot| self.0.get(slot as usize).copied()).collect::<Option<_>>()?;
        (cores.len() >= ranks).then(|| cores[..ranks].to_vec())
    }

    /// Binds ranks that have a core each to those of the slots. What is no process of the user's in the job's
    /// cgroup is left alone: who names pids may be a user.
    pub(super) fn bind(&self, slots: &Slots, ranks: &LocalRanks, group: &JobGroup) {
        let Some(cores) = self.of_ranks(slots, ranks.pids.len()) else { return };
        // A session that has some of the cores keeps to them (taskset): then where its starter has put the
        // ranks is right.
        let may = ranks.pids.first().and_then(|rank| cores_of_starter(*rank, ranks.user));
        if !may.is_some_and(|may| cores.iter().all(|core| may.is_set(*core))) {
            return;
        }
        let family =
            Family { user: ranks.user, members: group.members().into_iter().collect(), every: self.every() };
        for (rank, core) in ranks.pids.iter().zip(cores) {
            let mut set = CpuSet::new();
            set.set(core);
            family.bind(*rank, &set);
        }
    }

    fn every(&self) -> CpuSet {
        let mut every = CpuSet::new();
        self.0.iter().for_each(|core| every.set(*core));
        every
    }
}

/// The cores that the starter of this rank of the user's may use, and so its session.
fn cores_of_starter(rank: u32, user: u32) -> Option<CpuSet> {
    sched_getaffinity(Some(starter_of(Pid::from_raw(i32::try_from(rank).ok()?)?, user)?)).ok()
}

/// Processes that may be bound.
struct Family {
    user: u32,
    /// Processes of the job.
    members: HashSet<u32>,
    /// All cores that ranks may have.
    every: CpuSet,
}

impl Family {
    /// Binds all threads of a process, and of its descendants in the job: the rank may stand below a wrapper.
    /// How many there are, and how far below each other, a user says: no more than [`BOUND_MAX`] threads are
    /// bound.
    fn bind(&self, pid: u32, set: &CpuSet) {
        let (mut waiting, mut left) = (vec![pid], BOUND_MAX);
        while let Some(pid) = waiting.pop() {
            let Some(process) = Pid::from_raw(pid as i32).filter(|_| self.members.contains(&pid)) else {
                continue;
            };
            let Ok(pidfd) = pidfd_open(process, PidfdFlags::empty()) else { continue };
            // What is the user's has the number now, and keeps it as long as the descriptor says so.
            if owner(process) != Some(self.user) {
                continue;
            }
            for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                left -= 1;
                if left == 0 {
                    return;
                }
                let number = thread.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
                if let Some(number) = number.filter(|_| has_its_pid(&pidfd)) {
                    let _ = sched_setaffinity(Some(number), set);
                    if !has_its_pid(&pidfd) || !thread.path().exists() {
                        // It has ended meanwhile: whoever has its number by now is not held to this core.
                        let _ = sched_setaffinity(Some(number), &self.every);
                    }
                }
                let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                waiting
                    .extend(children.split_ascii_whitespace().filter_map(|child| child.parse::<u32>().ok()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binding_follows_slots() {
        let cores = Cores(vec![2, 3, 6]);
        let both = Slots::first(3);
        assert_eq!(cores.of_ranks(&both, 3), Some(vec![2, 3, 6]));
        assert_eq!(cores.of_ranks(&both, 2), Some(vec![2, 3]));
        assert_eq!(cores.of_ranks(&Slots::first(2), 3), None, "more ranks than slots");
        assert_eq!(cores.of_ranks(&Slots::first(4), 1), None, "a slot without a core");
    }

    #[test]
    fn binding_keeps_to_the_cores_of_the_starter() {
        let user = rustix::process::geteuid().as_raw();
        let folder = std::env::temp_dir().join(format!("tutti-binding-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (mut starter, rank) = crate::gang::page::start_as(&folder, "tutti-starter");
        let number = rank.as_raw_nonzero().get().cast_unsigned();
        let own = sched_getaffinity(Some(Pid::from_child(&starter))).unwrap();
        assert!(cores_of_starter(number, user) == Some(own));
        assert!(cores_of_starter(number, user + 1).is_none());
        for pid in [Pid::from_child(&starter), rank] {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        starter.wait().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn binding_is_for_the_users_processes_in_the_jobs_cgroup() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (pid, user) = (child.id(), rustix::process::geteuid().as_raw());
        let before = sched_getaffinity(Some(Pid::from_child(&child))).unwrap();
        let every: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| before.is_set(*core)).collect();
        let mut set = CpuSet::new();
        set.set(every[0]);
        let cores = Cores(every);
        let bind = |user, members: Vec<u32>| {
            let members = members.into_iter().collect();
            Family { user, members, every: cores.every() }.bind(pid, &set);
        };
        let now = || sched_getaffinity(Some(Pid::from_child(&child))).unwrap();
        bind(user + 1, vec![pid]);
        bind(user, vec![pid + 1]);
        assert!(now() == before);
        bind(user, vec![pid]);
        assert!(now() == set);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
