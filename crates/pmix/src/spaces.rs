//! The namespaces of a job: the ranks that it began with, and those that others have started since. All
//! servers of a job have the same, since they get them in one order ([`crate::machine`]).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::wire::{Description, Newcomers};

/// Number that stands for all ranks of a namespace.
pub const RANK_WILDCARD: u32 = u32::MAX - 1;

/// A process by its name in PMIx.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Namespace.
    pub space: String,
    /// Rank in it, or [`RANK_WILDCARD`].
    pub rank: u32,
}

/// A namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Name of the namespace.
    pub name: String,
    /// Node of the job that each rank is on.
    pub nodes: Vec<u32>,
    /// Number of each rank in the job.
    pub numbers: Vec<u32>,
    /// Ranks of each program, in their order.
    pub programs: Vec<u32>,
    /// The process that has asked for it; none: the job began with it.
    pub parent: Option<Process>,
    /// Numbers among the processes of all namespaces.
    pub among_all: AmongAll,
}

/// Numbers of a namespace's ranks among the processes of all namespaces of the job, which PMIx calls a
/// session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AmongAll {
    /// Number of rank 0: all processes that the job has ever had are counted, also those that are over.
    pub offset: u32,
    /// Number of each rank on its node: the lowest that no process of the node has.
    pub node_ranks: Vec<u16>,
    /// Processes of each node that has some, by the node's number.
    pub node_sizes: BTreeMap<u32, u32>,
}

impl AmongAll {
    /// Numbers of new ranks on these nodes, beside the spaces that are there.
    fn of(nodes: &[u32], offset: u32, there: &[Space]) -> Self {
        let mut used: BTreeMap<u32, BTreeSet<u16>> = BTreeMap::new();
        for space in there {
            for (node, rank) in space.current() {
                used.entry(node).or_default().insert(rank);
            }
        }
        let next = |node: &u32| {
            let used = used.entry(*node).or_default();
            let free = (0..=u16::MAX).find(|rank| !used.contains(rank)).unwrap_or(u16::MAX);
            used.insert(free);
            free
        };
        let node_ranks = nodes.iter().map(next).collect();
        let node_sizes = used.iter().map(|(node, ranks)| (*node, ranks.len() as u32)).collect();
        AmongAll { offset, node_ranks, node_sizes }
    }
}

impl Space {
    /// The ranks that a job begins with.
    pub fn first(job: &Description) -> Self {
        let nodes = (0..job.nodes.len()).flat_map(|node| job.ranks_of(node).map(move |_| node as u32));
        let nodes: Vec<u32> = nodes.collect();
        Space {
            name: job.space.clone(),
            among_all: AmongAll::of(&nodes, 0, &[]),
            nodes,
            numbers: (0..job.ranks()).collect(),
            programs: job.programs.clone(),
            parent: None,
        }
    }

    /// Node, and number there, of each process whose number in the job is its own.
    fn current(&self) -> impl Iterator<Item = (u32, u16)> {
        let places = self.nodes.iter().copied().zip(self.among_all.node_ranks.iter().copied());
        places.zip(&self.numbers).filter(|(_, number)| **number != u32::MAX).map(|(place, _)| place)
    }

    /// Ranks of the namespace on a node.
    pub fn ranks_on(&self, node: u32) -> impl Iterator<Item = u32> {
        self.nodes.iter().zip(0..).filter(move |(of, _)| **of == node).map(|(_, rank)| rank)
    }

    /// The nodes that have ranks of it, in the order in which they come.
    pub fn used_nodes(&self) -> Vec<u32> {
        let mut used: Vec<u32> = Vec::new();
        self.nodes.iter().for_each(|node| {
            if !used.contains(node) {
                used.push(*node);
            }
        });
        used
    }

    /// Program that a rank runs.
    pub fn program_of(&self, rank: u32) -> u32 {
        let mut end = 0;
        let ends = self.programs.iter().map(|ranks| {
            end += ranks;
            end
        });
        ends.take_while(|end| *end <= rank).count() as u32
    }
}

/// All of a job.
#[derive(Debug)]
pub struct Spaces {
    base: String,
    all: Vec<Space>,
    /// Processes that the job has ever had.
    ever: u32,
}

impl Spaces {
    /// The first one alone.
    pub fn new(first: Space) -> Self {
        Spaces { base: first.name.clone(), ever: first.nodes.len() as u32, all: vec![first] }
    }

    /// The name of the ranks that an order has started.
    pub fn name_of(&self, order: u32) -> String {
        format!("{}-{order}", self.base)
    }

    /// Ranks that others have asked for. Gives their namespace, and the names of those that are over: all of
    /// their numbers are used again.
    pub fn add(&mut self, new: &Newcomers) -> (Space, Vec<String>) {
        let parent = self.process(new.parent);
        let mut over = Vec::new();
        let (base, used) = (&self.base, &new.ranks);
        self.all.retain_mut(|old| {
            for number in &mut old.numbers {
                if used.contains(number) {
                    *number = u32::MAX;
                }
            }
            let is_over = old.name != *base && old.numbers.iter().all(|number| *number == u32::MAX);
            over.extend(is_over.then(|| old.name.clone()));
            !is_over
        });
        let space = Space {
            name: self.name_of(new.order),
            among_all: AmongAll::of(&new.nodes, self.ever, &self.all),
            nodes: new.nodes.clone(),
            numbers: new.ranks.clone(),
            programs: new.programs.clone(),
            parent,
        };
        self.ever = self.ever.saturating_add(new.nodes.len() as u32);
        self.all.push(space.clone());
        (space, over)
    }

    /// The ranks that an order should have started are none. Gives the name that they had.
    pub fn remove(&mut self, order: u32) -> Option<String> {
        let name = self.name_of(order);
        let at = self.all.iter().position(|space| space.name == name)?;
        Some(self.all.remove(at).name)
    }

    fn find(&self, name: &str) -> Option<&Space> {
        self.all.iter().find(|space| space.name == name)
    }

    /// Number of a process in the job.
    pub fn number(&self, process: &Process) -> Option<u32> {
        self.find(&process.space)?.numbers.get(process.rank as usize).copied()
    }

    /// The process that has a number now.
    pub fn process(&self, number: u32) -> Option<Process> {
        self.all.iter().rev().find_map(|space| {
            let rank = space.numbers.iter().position(|of| *of == number)? as u32;
            Some(Process { space: space.name.clone(), rank })
        })
    }

    /// Node of a process.
    pub fn node(&self, process: &Process) -> Option<u32> {
        self.find(&process.space)?.nodes.get(process.rank as usize).copied()
    }

    /// The nodes that have some of these processes; none if one of them is not known.
    pub fn nodes(&self, processes: &[Process]) -> Option<BTreeSet<u32>> {
        let mut all = BTreeSet::new();
        for process in processes {
            match process.rank {
                RANK_WILDCARD => all.extend(&self.find(&process.space)?.nodes),
                _ => drop(all.insert(self.node(process)?)),
            }
        }
        Some(all)
    }

    /// Whether these are all ranks that the job began with, and no others.
    pub fn are_first(&self, processes: &[Process]) -> bool {
        let [one] = processes else { return false };
        one.rank == RANK_WILDCARD && one.space == self.base
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(space: &str, rank: u32) -> Process {
        Process { space: space.into(), rank }
    }

    fn spaces() -> Spaces {
        let (nodes, numbers) = (vec![0, 0, 1], vec![0, 1, 2]);
        let among_all = AmongAll::of(&nodes, 0, &[]);
        Spaces::new(Space {
            name: "job".into(),
            nodes,
            numbers,
            programs: vec![1, 2],
            parent: None,
            among_all,
        })
    }

    #[test]
    fn spaces_know_where_each_process_is() {
        let mut all = spaces();
        let new = Newcomers { order: 4, ranks: vec![4, 3], nodes: vec![1, 0], programs: vec![2], parent: 2 };
        let (space, over) = all.add(&new);
        assert_eq!((&*space.name, space.parent, over), ("job-4", Some(process("job", 2)), vec![]));
        assert_eq!((all.number(&process("job-4", 0)), all.node(&process("job-4", 0))), (Some(4), Some(1)));
        assert_eq!(all.process(3), Some(process("job-4", 1)));
        let both = [process("job", 0), process("job-4", RANK_WILDCARD)];
        assert_eq!(all.nodes(&both), Some(BTreeSet::from([0, 1])));
        assert_eq!(all.nodes(&[process("job", 3)]), None);
        assert_eq!(all.nodes(&[process("other", RANK_WILDCARD)]), None);
        assert!(all.are_first(&[process("job", RANK_WILDCARD)]) && !all.are_first(&both));
        assert_eq!(all.remove(4).as_deref(), Some("job-4"));
        assert_eq!((all.remove(4), all.number(&process("job-4", 0))), (None, None));
    }

    #[test]
    fn space_is_over_when_all_of_its_numbers_are_used_again() {
        let mut all = spaces();
        let new = |order, ranks: &[u32]| Newcomers {
            order,
            ranks: ranks.to_vec(),
            nodes: vec![0; ranks.len()],
            programs: vec![ranks.len() as u32],
            parent: 0,
        };
        assert_eq!(all.add(&new(1, &[3, 4])).1, [""; 0]);
        assert_eq!(all.add(&new(2, &[3])).1, [""; 0]);
        // Of the two processes that have had it the later one has it.
        assert_eq!(all.process(3), Some(process("job-2", 0)));
        assert_eq!(all.add(&new(3, &[4])).1, ["job-1"]);
        assert_eq!(all.add(&new(4, &[3, 4])).1, ["job-2", "job-3"]);
    }

    #[test]
    fn spaces_count_their_processes_among_those_of_all() {
        let mut all = spaces();
        let new = |order, ranks: &[u32], nodes: &[u32]| Newcomers {
            order,
            ranks: ranks.to_vec(),
            nodes: nodes.to_vec(),
            programs: vec![ranks.len() as u32],
            parent: 0,
        };
        let first = all.all[0].among_all.clone();
        assert_eq!((first.offset, first.node_ranks), (0, vec![0, 1, 0]));
        let (space, _) = all.add(&new(1, &[3, 4, 5], &[1, 0, 1]));
        let sizes = BTreeMap::from([(0, 3), (1, 3)]);
        let expected = AmongAll { offset: 3, node_ranks: vec![1, 2, 2], node_sizes: sizes };
        assert_eq!(space.among_all, expected);
        // The process whose number is used again is over: its place on the node is free, its number among
        // all is not.
        let (space, _) = all.add(&new(2, &[3, 6], &[1, 1]));
        let sizes = BTreeMap::from([(0, 3), (1, 4)]);
        let expected = AmongAll { offset: 6, node_ranks: vec![1, 3], node_sizes: sizes };
        assert_eq!(space.among_all, expected);
        all.remove(2);
        assert_eq!(all.add(&new(3, &[7], &[2])).0.among_all.offset, 8);
    }

    #[test]
    fn space_counts_programs_and_nodes() {
        let space = spaces().all.remove(0);
        assert_eq!((0..3).map(|rank| space.program_of(rank)).collect::<Vec<_>>(), [0, 1, 1]);
        assert_eq!((space.used_nodes(), space.ranks_on(1).collect()), (vec![0, 1], vec![2]));
    }
}
