//! Which rank may run on which cores. Pure but for [`Machine::read`].
//!
//! | ranks, cores of the job | bound |
//! |---|---|
//! | ranks x cores-per-rank fit | to an even share as a set (`share`), or to the first cores-per-rank of it (`core`) |
//! | they do not fit | round robin to sets of cores-per-rank, one core by default |
//! | a rank started later | `core`: the next set of cores-per-rank, by its place on the node; else not bound |
//! | `none`, or a cgroup quota below the affinity mask | not at all: the kernel chooses which cores the quota buys |
//!
//! The share is the even one also when OMP_NUM_THREADS asks for less: otherwise two jobs on one machine would
//! share its first cores while others idle.

use rustix::thread::CpuSet;

use tutti_os::cpu_list;

use tutti_protocol::wire::Binding;
use tutti_shm::numbers::Numbers;

/// The cores that this job may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Core numbers, hardware threads of one core side by side.
    pub cores: Vec<usize>,
    /// How many of them may be busy together (cgroup quota).
    pub usable: usize,
}

impl Machine {
    /// Looks at the affinity mask, the cgroup's quota and the hardware threads.
    pub fn read() -> Self {
        let mask = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        let mut cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect();
        if cores.is_empty() {
            cores.push(0);
        }
        // The standard library counts the mask and the quotas of both cgroup versions.
        let usable = std::thread::available_parallelism().map_or(cores.len(), usize::from).min(cores.len());
        if cores.len() > 2 && hardware_threads_shared() {
            cores = siblings_together(&cores, siblings_of);
        }
        Machine { cores, usable }
    }

    /// The cores of every rank; `None`: not bound.
    pub fn bind(&self, ranks: usize, binding: Binding, per_rank: Option<usize>) -> Vec<Option<Vec<usize>>> {
        let cores = self.cores.len();
        let explicit = binding == Binding::Core;
        if binding == Binding::None || (self.usable < cores && !explicit) {
            return vec![None; ranks];
        }
        let wanted = per_rank.unwrap_or(1).clamp(1, cores);
        let fit = ranks * wanted <= cores;
        let set = |rank: usize| {
            if !fit {
                let sets = cores / wanted;
                let first = rank % sets * wanted;
                return self.cores[first..first + wanted].to_vec();
            }
            let (first, end) = (rank * cores / ranks, (rank + 1) * cores / ranks);
            if explicit {
                // Even shares differ by one, so that the first `wanted` of each never meet the next one's.
                self.cores[first..(first + wanted).min(cores)].to_vec()
            } else {
                self.cores[first..end].to_vec()
            }
        };
        (0..ranks).map(|rank| Some(set(rank)).filter(|set| set.len() < cores || explicit)).collect()
    }
}

impl Machine {
    /// The cores of a rank that is started later; `None`: not bound.
    pub fn bind_later(&self, rank: usize, binding: Binding, per_rank: Option<usize>) -> Option<Vec<usize>> {
        let cores = self.cores.len();
        let wanted = per_rank.unwrap_or(1).clamp(1, cores);
        let first = rank % (cores / wanted) * wanted;
        (binding == Binding::Core).then(|| self.cores[first..first + wanted].to_vec())
    }

    /// The same of all ranks of a node, by their places on it: their numbers go round the nodes. Virtual
    /// nodes share the cores of the machine by numbers.
    pub fn bind_all_later(
        &self,
        numbers: Numbers,
        shares_machine: bool,
        binding: Binding,
        per_rank: Option<usize>,
    ) -> Vec<Option<Vec<usize>>> {
        let by = numbers.iter().enumerate().map(|(place, rank)| if shares_machine { rank } else { place });
        by.map(|by| self.bind_later(by, binding, per_rank)).collect()
    }
}

fn hardware_threads_shared() -> bool {
    std::fs::read("/sys/devices/system/cpu/smt/active").is_ok_and(|text| text.first() == Some(&b'1'))
}

fn siblings_of(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    std::fs::read_to_string(path).map_or_else(|_| vec![core], |text| cpu_list::parse(&text))
}

fn siblings_together(cores: &[usize], siblings: impl Fn(usize) -> Vec<usize>) -> Vec<usize> {
    let mut ordered = Vec::with_capacity(cores.len());
    for &core in cores {
        if !ordered.contains(&core) {
            ordered.push(core);
            let others = siblings(core).into_iter().filter(|other| *other != core && cores.contains(other));
            ordered.extend(others);
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cores: usize) -> Machine {
        Machine { cores: (0..cores).collect(), usable: cores }
    }

    fn lists(bound: Vec<Option<Vec<usize>>>) -> Vec<String> {
        bound.into_iter().map(|set| set.map_or_else(|| "-".into(), |set| cpu_list::format(&set))).collect()
    }

    #[test]
    fn binding_shares_are_even_and_cover_the_machine() {
        assert_eq!(lists(machine(2).bind(2, Binding::Share, None)), ["0", "1"]);
        assert_eq!(lists(machine(8).bind(3, Binding::Share, None)), ["0-1", "2-4", "5-7"]);
        assert_eq!(lists(machine(8).bind(2, Binding::Share, Some(1))), ["0-3", "4-7"]);
        assert_eq!(lists(machine(4).bind(1, Binding::Share, None)), ["-"]);
    }

    #[test]
    fn binding_to_single_cores() {
        assert_eq!(lists(machine(8).bind(3, Binding::Core, None)), ["0", "2", "5"]);
        assert_eq!(lists(machine(8).bind(2, Binding::Core, Some(2))), ["0-1", "4-5"]);
        assert_eq!(lists(machine(1).bind(1, Binding::Core, None)), ["0"]);
    }

    #[test]
    fn binding_oversubscribed_is_round_robin() {
        assert_eq!(lists(machine(2).bind(5, Binding::Share, None)), ["0", "1", "0", "1", "0"]);
        assert_eq!(lists(machine(4).bind(4, Binding::Share, Some(2))), ["0-1", "2-3", "0-1", "2-3"]);
        assert_eq!(lists(machine(2).bind(2, Binding::Share, Some(64))), ["-", "-"]);
    }

    #[test]
    fn binding_of_later_ranks_is_to_single_cores_in_turn_or_none() {
        let of = |machine: Machine, binding, per_rank| {
            lists((1..5).map(|rank| machine.bind_later(rank, binding, per_rank)).collect())
        };
        assert_eq!(of(machine(3), Binding::Core, None), ["1", "2", "0", "1"]);
        assert_eq!(of(machine(5), Binding::Core, Some(2)), ["2-3", "0-1", "2-3", "0-1"]);
        assert_eq!(of(machine(2), Binding::Core, Some(64)), ["0-1"; 4]);
        assert_eq!(of(machine(2), Binding::Share, None), ["-"; 4]);
        assert_eq!(of(machine(2), Binding::None, None), ["-"; 4]);
    }

    #[test]
    fn binding_of_later_ranks_uses_all_cores_of_each_node() {
        for node in 0..2 {
            // Two ranks, one on each of two nodes, each with room for four later ones.
            let numbers = Numbers::new([node, 1, 5], 2, node, 2);
            let of = |shares| lists(machine(2).bind_all_later(numbers, shares, Binding::Core, None));
            assert_eq!(of(false), ["0", "1", "0", "1", "0"], "node {node}");
            let number = node.to_string();
            assert_eq!(of(true), [number.as_str(); 5], "virtual node {node}");
        }
    }

    #[test]
    fn binding_none_leaves_ranks_unbound() {
        assert_eq!(lists(machine(4).bind(2, Binding::None, None)), ["-", "-"]);
        let limited = Machine { cores: (0..8).collect(), usable: 2 };
        assert_eq!(lists(limited.bind(2, Binding::Share, None)), ["-", "-"]);
        assert_eq!(lists(limited.bind(2, Binding::Core, None)), ["0", "4"]);
    }

    #[test]
    fn binding_never_shares_cores_that_suffice() {
        for cores in 1..20 {
            for ranks in 1..=cores {
                for binding in [Binding::Share, Binding::Core] {
                    let mut seen = vec![false; cores];
                    for set in machine(cores).bind(ranks, binding, None).into_iter().flatten() {
                        assert!(!set.is_empty());
                        for core in set {
                            assert!(!std::mem::replace(&mut seen[core], true), "{ranks} on {cores}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn binding_keeps_hardware_threads_of_a_core_together() {
        let ordered = siblings_together(&[0, 1, 2, 3], |core| vec![core % 2, core % 2 + 2]);
        assert_eq!(ordered, [0, 2, 1, 3]);
    }
}
