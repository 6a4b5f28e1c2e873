//! Which world ranks are of a node: those that the job began with there, which follow each other, and its
//! share of the room for ranks that are started later.
//!
//! ```text
//! world rank   0 1 2 3 4 | 5 6 7 8 9 10         a job of 5 ranks with room for 11, on three nodes
//! node         0 0 1 1 2 | 0 1 2 0 1 2          the room goes round the nodes
//! ```
//!
//! So every process knows the node of every rank, also of one that is started later, without asking. On a
//! node its ranks are counted from 0: first those that the job began with.

/// The world ranks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    first: usize,
    began: usize,
    len: usize,
    world: usize,
    node: usize,
    nodes: usize,
}

/// The node of the rank that comes as the `behind`th behind those that the job began with.
pub fn node_of_later(behind: usize, nodes: usize) -> usize {
    behind % nodes.max(1)
}

/// The share of a node in a room for so many later ranks.
pub fn share_of_later(room: u32, node: u32, nodes: u32) -> u32 {
    room.saturating_sub(node).div_ceil(nodes.max(1))
}

impl Numbers {
    /// Numbers of the ranks of a node, one of `nodes`: `began` from `first` on, and with later ones `len`;
    /// the job began with `world` on all nodes.
    pub fn new([first, began, len]: [u32; 3], world: u32, node: u32, nodes: u32) -> Self {
        let is_whole = nodes <= 1;
        Numbers {
            first: first as usize,
            // On one node they all follow each other.
            began: if is_whole { len } else { began } as usize,
            len: len as usize,
            world: if is_whole { usize::MAX } else { world as usize },
            node: node as usize,
            nodes: nodes.max(1) as usize,
        }
    }

    /// The first so many of them.
    pub fn up_to(self, len: usize) -> Self {
        Numbers { len: len.min(self.len), ..self }
    }

    /// How many they are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first one.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Place of a rank on the node; not below [`Numbers::len`] of a rank that is none of them.
    #[inline(always)]
    pub fn index_of(&self, rank: usize) -> usize {
        let at = rank.wrapping_sub(self.first);
        if at < self.began { at } else { self.index_of_later(rank) }
    }

    #[inline]
    fn index_of_later(&self, rank: usize) -> usize {
        match rank.checked_sub(self.world) {
            Some(behind) if behind % self.nodes == self.node => self.began + behind / self.nodes,
            _ => usize::MAX,
        }
    }

    /// Whether a rank is one of them.
    #[inline(always)]
    pub fn contains(&self, rank: usize) -> bool {
        self.index_of(rank) < self.len
    }

    /// How many of them are below a rank.
    pub fn below(&self, rank: usize) -> usize {
        let of_launch = rank.saturating_sub(self.first).min(self.began);
        let later = rank.saturating_sub(self.world);
        let later = later.saturating_sub(self.node).div_ceil(self.nodes);
        (of_launch + later).min(self.len)
    }

    /// World rank of the one at a place.
    #[inline(always)]
    pub fn rank_at(&self, index: usize) -> usize {
        if index < self.began {
            self.first + index
        } else {
            self.world + self.node + (index - self.began) * self.nodes
        }
    }

    /// All of them, in the order of their places.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        (0..self.len).map(move |index| self.rank_at(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_nodes_are_all_ranks_once() {
        for (firsts, world, room) in [
            (vec![0_u32], 3_u32, 9_u32),
            (vec![0, 2, 4], 5, 11),
            (vec![0, 1], 2, 7),
            (vec![0, 3], 5, 5),
            (vec![0, 1, 2, 3], 4, 6),
        ] {
            let nodes = firsts.len() as u32;
            let mut seen = Vec::new();
            for (node, first) in (0..nodes).zip(&firsts) {
                let end = firsts.get(node as usize + 1).unwrap_or(&world);
                let local_ranks = end - first;
                let len = local_ranks + share_of_later(room - world, node, nodes);
                let numbers = Numbers::new([*first, local_ranks, len], world, node, nodes);
                for (index, rank) in numbers.iter().enumerate() {
                    assert_eq!((numbers.index_of(rank), numbers.rank_at(index)), (index, rank));
                    let later = rank.checked_sub(world as usize);
                    let of_later = later.map(|behind| node_of_later(behind, nodes as usize));
                    assert!(of_later.is_none_or(|found| found == node as usize));
                }
                for rank in 0..room as usize {
                    assert_eq!(numbers.below(rank), numbers.iter().filter(|one| *one < rank).count());
                }
                let others = (0..room as usize + 3).filter(|rank| !numbers.contains(*rank)).count();
                assert_eq!(others + numbers.len(), room as usize + 3, "node {node} of {nodes}");
                seen.extend(numbers.iter());
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..room as usize), "{firsts:?}, {world} of {room}");
        }
    }
}
