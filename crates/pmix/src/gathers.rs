//! Operations of several processes on several nodes: each server says when all of its processes are there,
//! and what they have given; the operation is over when all have. Those of one kind and the same processes
//! come one after the other. All servers of a job have the same ([`crate::machine`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::spaces::Process;

/// Kind of an operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// PMIx_Fence.
    Fence,
    /// PMIx_Connect.
    Connect,
    /// PMIx_Disconnect.
    Disconnect,
    /// PMIx_Group_construct, with the group's name.
    Construct(String),
    /// PMIx_Group_destruct.
    Destruct(String),
}

/// Contribution of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The node.
    pub node: u32,
    /// Number of the operation there.
    pub number: u64,
    /// Bytes that its processes have given.
    pub bytes: Vec<u8>,
    /// Whether they want a number for their group.
    pub wants_context: bool,
}

type Queues = BTreeMap<u32, VecDeque<Given>>;

/// All that are not over.
#[derive(Debug, Default)]
pub struct Gathers(BTreeMap<(Kind, Vec<Process>), Queues>);

impl Gathers {
    /// A node is in an operation of the processes on `nodes`. Gives what all have given, in the order of
    /// nodes, if that was the last one.
    pub fn add(
        &mut self,
        kind: Kind,
        processes: Vec<Process>,
        given: Given,
        nodes: &BTreeSet<u32>,
    ) -> Option<Vec<Given>> {
        let signature = (kind, processes);
        let queues = self.0.entry(signature.clone()).or_default();
        queues.entry(given.node).or_default().push_back(given);
        let is_over = nodes.iter().all(|node| queues.get(node).is_some_and(|queue| !queue.is_empty()));
        let all = is_over.then(|| queues.values_mut().filter_map(VecDeque::pop_front).collect());
        if queues.values().all(VecDeque::is_empty) {
            self.0.remove(&signature);
        }
        all
    }

    /// A node does not wait any longer. Gives what the operation had until then: it is over for all of them.
    pub fn give_up(&mut self, node: u32, number: u64) -> Vec<Given> {
        let place = |queues: &Queues| queues.get(&node)?.iter().position(|given| given.number == number);
        let found = self.0.iter().find_map(|(signature, queues)| Some((signature.clone(), place(queues)?)));
        let Some((signature, at)) = found else { return Vec::new() };
        let queues = self.0.get_mut(&signature).expect("it has just been found");
        let all = queues.values_mut().filter_map(|queue| queue.remove(at)).collect();
        if queues.values().all(VecDeque::is_empty) {
            self.0.remove(&signature);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(rank: u32) -> Vec<Process> {
        vec![Process { space: "job".into(), rank }]
    }

    fn given(node: u32, number: u64) -> Given {
        Given { node, number, bytes: vec![node as u8], wants_context: false }
    }

    fn numbers(all: Vec<Given>) -> Vec<(u32, u64)> {
        all.into_iter().map(|given| (given.node, given.number)).collect()
    }

    #[test]
    fn gather_is_over_when_all_nodes_are_in_it() {
        let (mut gathers, nodes) = (Gathers::default(), BTreeSet::from([0, 2]));
        assert_eq!(gathers.add(Kind::Fence, processes(1), given(2, 1), &nodes), None);
        // Others are not the same one.
        assert_eq!(gathers.add(Kind::Connect, processes(1), given(0, 1), &nodes), None);
        assert_eq!(gathers.add(Kind::Fence, processes(2), given(0, 2), &nodes), None);
        // The next of the same kind waits for its turn.
        assert_eq!(gathers.add(Kind::Fence, processes(1), given(2, 5), &nodes), None);
        let all = gathers.add(Kind::Fence, processes(1), given(0, 3), &nodes);
        assert_eq!(all.map(numbers), Some(vec![(0, 3), (2, 1)]));
        let all = gathers.add(Kind::Fence, processes(1), given(0, 4), &nodes);
        assert_eq!(all.map(numbers), Some(vec![(0, 4), (2, 5)]));
        assert_eq!(gathers.0.len(), 2);
    }

    #[test]
    fn gather_that_a_node_gives_up_is_over_for_all() {
        let (mut gathers, nodes) = (Gathers::default(), BTreeSet::from([0, 1, 2]));
        let kind = Kind::Construct("group".into());
        for one in [given(0, 1), given(1, 1), given(1, 2)] {
            assert_eq!(gathers.add(kind.clone(), processes(1), one, &nodes), None);
        }
        assert_eq!(numbers(gathers.give_up(1, 1)), [(0, 1), (1, 1)]);
        assert_eq!(numbers(gathers.give_up(1, 1)), []);
        assert_eq!(numbers(gathers.give_up(1, 2)), [(1, 2)]);
        assert!(gathers.0.is_empty());
    }
}
