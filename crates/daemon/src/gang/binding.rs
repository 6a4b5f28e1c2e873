//! Ranks move to the cores of the slots that the matrix gives their job (DESIGN 7): two jobs of one rank each that share a row are not
//! both on the first core, where their starters, which know nothing of each other, have put them.

use std::path::Path;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tutti_node::cgroup;
use tutti_sched::Slots;

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

    /// Binds ranks that have a core each to those of the slots. What is no process of the job's cgroup is left alone: who names pids may
    /// be a user.
    pub(super) fn bind(&self, slots: &Slots, ranks: &[u32], group: &Path) {
        let Some(cores) = self.of_ranks(slots, ranks.len()) else { return };
        let members = members(group);
        for (rank, core) in ranks.iter().zip(cores).filter(|(rank, _)| members.contains(rank)) {
            let mut set = CpuSet::new();
            set.set(core);
            bind_family(*rank, &set, &members);
        }
    }
}

/// Processes of a job.
fn members(group: &Path) -> Vec<u32> {
    let inside = |path: &Path| std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let text = inside(group) + &inside(&group.join(cgroup::INNER));
    text.lines().filter_map(|pid| pid.parse().ok()).collect()
}

/// All threads of a process, and of its children in the job: the rank may stand below a wrapper.
fn bind_family(pid: u32, set: &CpuSet, members: &[u32]) {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let number = thread.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
        if let Some(number) = number {
            let _ = sched_setaffinity(Some(number), set);
        }
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
        children.filter(|child| members.contains(child)).for_each(|child| bind_family(child, set, members));
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
}
