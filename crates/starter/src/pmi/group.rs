//! Ranks that were started together: their store, its name, and their barriers. On several nodes each has its
//! share of a group; the barriers of those that were started later are told by words.

use std::collections::BTreeMap;

use tutti_protocol::wire::Job;

use super::NoPmi;
use super::spawning::Pair;
use super::store::Store;
use super::word::{PUTS_BYTES_MAX, Word};

/// Such ranks, as far as they are of this node.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) store: Store,
    /// Places of the ranks of this node in the group's world; more may be said than have come.
    pub(super) places: Vec<u32>,
    /// Ranks of the group on this node that have come.
    pub(super) members: Vec<u32>,
    /// For each program the last rank in the world and one more.
    pub(super) programs: Vec<u64>,
    /// Name of its key-value space.
    pub(super) space: String,
    /// Barriers that are over.
    pub(super) fences: u32,
    /// The other nodes know that all of this one are in the next barrier.
    pub(super) reported: bool,
    /// How many nodes have ranks of it.
    pub(super) nodes: usize,
    /// Data that the nodes have told of the next barrier, and whether that is all.
    gathered: BTreeMap<u32, (Vec<u8>, bool)>,
}

/// Where the ranks of a group are that a rank has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Placement<'a> {
    /// The node of each, in the order of its world.
    pub nodes: &'a [u32],
    /// Number of this node.
    pub here: u32,
}

impl Group {
    /// Ranks that the job begins with; `share_bytes`: what each may put.
    pub(super) fn first(job: &Job, share_bytes: usize) -> Self {
        let local = job.local_ranks();
        let mut store = Store::new((local.end - local.start) as usize, share_bytes);
        let first_ranks = job.part.as_ref().map_or(&[0][..], |part| &part.first_ranks);
        store.preset(b"PMI_process_mapping", mapping(first_ranks, job.ranks()).as_bytes());
        let programs: Vec<u32> = job.programs.iter().map(|program| program.ranks).collect();
        let places = (local.start as u32..local.end as u32).collect();
        Group::new(store, places, &programs, format!("kvs_{:016x}", job.id), first_ranks.len())
    }

    fn new(store: Store, places: Vec<u32>, programs: &[u32], space: String, nodes: usize) -> Self {
        Group {
            store,
            places,
            members: Vec::new(),
            programs: ends(programs.iter().copied()),
            space,
            fences: 0,
            reported: false,
            nodes,
            gathered: BTreeMap::new(),
        }
    }

    /// Ranks that a rank has asked for; `share_bytes`: what each may put.
    pub(super) fn later(
        programs: &[u32],
        preput: &[Pair],
        at: Placement<'_>,
        space: String,
        share_bytes: usize,
    ) -> Self {
        let of_node = at.nodes.iter().zip(0..).filter(|(node, _)| **node == at.here);
        let places: Vec<u32> = of_node.map(|(_, place)| place).collect();
        let mut store = Store::new(places.len(), share_bytes);
        store.preset(b"PMI_process_mapping", mapping_of(at.nodes).as_bytes());
        preput.iter().for_each(|(key, value)| store.preset(key, value));
        let mut nodes = at.nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        Group::new(store, places, programs, space, nodes.len())
    }

    /// Whether all of its ranks are here.
    pub(super) fn is_alone(&self) -> bool {
        self.nodes <= 1
    }

    /// The barrier is over.
    pub(super) fn end_fence(&mut self) {
        self.fences += 1;
        self.reported = false;
        self.gathered.clear();
    }

    /// All ranks of this node are in the next barrier: what the other nodes are told.
    pub(super) fn report(&mut self, group: u32, node: u32) -> Vec<Word> {
        self.reported = true;
        let puts = self.store.take_fresh();
        let number = self.fences + 1;
        let parts = puts.len().div_ceil(PUTS_BYTES_MAX).max(1);
        let part = |at: usize| {
            let puts = puts.iter().skip(at * PUTS_BYTES_MAX).take(PUTS_BYTES_MAX).copied().collect();
            Word::Fence { group, number, node, is_last: at + 1 == parts, puts }
        };
        (0..parts).map(part).collect()
    }

    /// A node is in a barrier. Whether all are.
    ///
    /// # Errors
    /// When what they have put are no keys and values.
    pub(super) fn take_fence(
        &mut self,
        number: u32,
        node: u32,
        puts: &[u8],
        is_last: bool,
    ) -> Result<bool, NoPmi> {
        if number != self.fences + 1 {
            return Ok(false);
        }
        let (kept, is_whole) = self.gathered.entry(node).or_default();
        kept.extend_from_slice(puts);
        *is_whole |= is_last;
        if self.gathered.len() < self.nodes || self.gathered.values().any(|(_, is_whole)| !is_whole) {
            return Ok(false);
        }
        let all: Vec<u8> =
            std::mem::take(&mut self.gathered).into_values().flat_map(|(puts, _)| puts).collect();
        if self.store.merge(&all) { Ok(true) } else { Err(NoPmi) }
    }
}

/// Which ranks share a node, as MPICH wants it: blocks (first node, nodes, ranks on each). Nodes are counted
/// in the order in which they come.
fn mapping_of(nodes: &[u32]) -> String {
    let mut known: Vec<u32> = Vec::new();
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    for node in nodes {
        let at = known.iter().position(|one| one == node).unwrap_or_else(|| {
            known.push(*node);
            known.len() - 1
        });
        match blocks.last_mut() {
            Some((of, ranks)) if *of == at => *ranks += 1,
            _ => blocks.push((at, 1)),
        }
    }
    let blocks: Vec<String> = blocks.iter().map(|(node, ranks)| format!("({node},1,{ranks})")).collect();
    format!("(vector,{})", blocks.join(","))
}

/// Which ranks share a node, as MPICH wants it: blocks (first node, nodes, ranks on each).
fn mapping(first_ranks: &[u32], ranks: u64) -> String {
    let ends = first_ranks.iter().skip(1).map(|first| u64::from(*first)).chain([ranks]);
    let mut blocks: Vec<(usize, usize, u64)> = Vec::new();
    for (node, (first, end)) in first_ranks.iter().zip(ends).enumerate() {
        let ranks = end - u64::from(*first);
        match blocks.last_mut() {
            Some((_, nodes, each)) if *each == ranks => *nodes += 1,
            _ => blocks.push((node, 1, ranks)),
        }
    }
    let blocks: Vec<String> =
        blocks.iter().map(|(node, nodes, ranks)| format!("({node},{nodes},{ranks})")).collect();
    format!("(vector,{})", blocks.join(","))
}

/// For each program its last rank and one more.
fn ends(programs: impl Iterator<Item = u32>) -> Vec<u64> {
    let ends = programs.scan(0, |end, ranks| {
        *end += u64::from(ranks);
        Some(*end)
    });
    ends.collect()
}

#[cfg(test)]
mod tests {
    use super::mapping;

    #[test]
    fn pmi_process_mapping_is_in_blocks() {
        assert_eq!(mapping(&[0], 4), "(vector,(0,1,4))");
        assert_eq!(mapping(&[0, 2, 4], 6), "(vector,(0,3,2))");
        assert_eq!(mapping(&[0, 3, 5], 7), "(vector,(0,1,3),(1,2,2))");
    }
}
