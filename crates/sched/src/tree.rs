//! The control tree: who is whose parent, by arithmetic on positions; no messages.
//!
//! Node 0 is the controller, the children of position i are k*i+1 to k*i+k. A lost node leaves a gap: its
//! children belong to the nearest ancestor that is left (to the lowest position left, if there is none), so
//! the links of all others stay as they are. An expelled node keeps its place and forwards, but is no member
//! of any job's barrier.

use crate::message::Members;
use crate::types::{Membership, NodeId};

/// The nearest node above `node`, in a tree of this arity, that is there.
#[must_use]
pub fn ancestor(arity: u32, node: NodeId, is_here: impl Fn(NodeId) -> bool) -> Option<NodeId> {
    let mut at = node.0;
    while at > 0 {
        at = (at - 1) / arity;
        if is_here(NodeId(at)) {
            return Some(NodeId(at));
        }
    }
    None
}

/// A k-ary tree over the nodes 0 to `nodes`, some of which may be lost or expelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    arity: u32,
    nodes: u32,
    members: Members,
}

impl Tree {
    /// A tree over the nodes 0 to `nodes` (without `nodes`) in which a node has at most `arity` children.
    ///
    /// # Panics
    /// Panics if `arity` or `nodes` is 0.
    #[must_use]
    pub fn new(arity: u32, nodes: u32) -> Self {
        assert!(arity > 0 && nodes > 0, "a tree of arity {arity} over {nodes} nodes");
        Tree { arity, nodes, members: Members::default() }
    }

    /// How many nodes there are, lost ones too.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Makes the tree larger: a node has joined, with the number that this returns.
    pub fn grow(&mut self) -> NodeId {
        self.nodes += 1;
        NodeId(self.nodes - 1)
    }

    /// The state of the tree.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The number of the state of the tree.
    #[must_use]
    pub fn membership(&self) -> Membership {
        self.members.membership
    }

    /// Takes over a newer state; false if it is not newer.
    pub fn handle_members(&mut self, members: &Members) -> bool {
        let newer = members.membership > self.members.membership;
        if newer {
            self.members.clone_from(members);
        }
        newer
    }

    /// True if the node is in the tree.
    #[must_use]
    pub fn is_here(&self, node: NodeId) -> bool {
        node.0 < self.nodes && self.members.lost.binary_search(&node).is_err()
    }

    /// True if barriers wait for the node.
    #[must_use]
    pub fn counts(&self, node: NodeId) -> bool {
        self.is_here(node) && self.members.expelled.binary_search(&node).is_err()
    }

    /// The controller: the lowest node that is here.
    ///
    /// # Panics
    /// Panics if every node is lost.
    #[must_use]
    pub fn controller(&self) -> NodeId {
        (0..self.nodes).map(NodeId).find(|&node| self.is_here(node)).expect("some node is left")
    }

    /// The parent of a node that is here; None for the controller.
    #[must_use]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        ancestor(self.arity, node, |above| self.is_here(above))
            .or_else(|| Some(self.controller()).filter(|&controller| controller != node))
    }

    /// The children of a node that is here.
    #[must_use]
    pub fn children(&self, node: NodeId) -> Vec<NodeId> {
        let mut found = Vec::with_capacity(self.arity as usize);
        self.add_children(node.0, &mut found);
        if node.0 > 0 && node == self.controller() {
            // The place of the first controller is empty: what hangs below it and has no other ancestor
            // belongs to this one.
            self.add_children(0, &mut found);
            found.retain(|&child| child != node);
        }
        found
    }

    /// Adds the nodes below `at` between which and `at` nobody is left.
    fn add_children(&self, at: u32, found: &mut Vec<NodeId>) {
        let first = u64::from(at) * u64::from(self.arity) + 1;
        for child in first..(first + u64::from(self.arity)).min(u64::from(self.nodes)) {
            let child = child as u32;
            if self.is_here(NodeId(child)) {
                found.push(NodeId(child));
            } else {
                self.add_children(child, found);
            }
        }
    }

    /// How many hops the node is below the controller.
    #[must_use]
    pub fn depth(&self, node: NodeId) -> u32 {
        let mut depth = 0;
        let mut at = node;
        while let Some(parent) = self.parent(at) {
            depth += 1;
            at = parent;
        }
        depth
    }

    /// How many hops the deepest node of an unbroken tree is below the controller.
    #[must_use]
    pub fn height(&self) -> u32 {
        let (mut at, mut height) = (self.nodes - 1, 0);
        while at > 0 {
            at = (at - 1) / self.arity;
            height += 1;
        }
        height
    }

    /// The child of `from` through which `to` is reached; None if `to` is not below `from`.
    #[must_use]
    pub fn next_hop(&self, from: NodeId, to: NodeId) -> Option<NodeId> {
        let mut at = to;
        loop {
            let parent = self.parent(at)?;
            if parent == from {
                return Some(at);
            }
            // Parents have lower numbers than their children.
            if parent < from {
                return None;
            }
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tree(arity: u32, nodes: u32, lost: &[u32]) -> Tree {
        let mut tree = Tree::new(arity, nodes);
        let mut lost: Vec<_> = lost.iter().map(|&node| NodeId(node % nodes)).collect();
        lost.sort_unstable();
        lost.dedup();
        if lost.len() == nodes as usize {
            lost.pop();
        }
        tree.handle_members(&Members { membership: Membership(1), lost, expelled: Vec::new() });
        tree
    }

    // Paper: S7
    #[test]
    fn tree_depth_is_logarithmic() {
        for (nodes, height) in [(1, 0), (2, 1), (5, 1), (6, 2), (21, 2), (22, 3), (4096, 6)] {
            assert_eq!(Tree::new(4, nodes).height(), height, "{nodes} nodes");
        }
    }

    proptest! {
        #[test]
        fn tree_every_node_has_one_parent_after_losses(
            arity in 1_u32..9, nodes in 1_u32..200, lost in proptest::collection::vec(0_u32..200, 0..60),
        ) {
            let tree = tree(arity, nodes, &lost);
            let mut reached = vec![tree.controller()];
            let mut next = 0;
            while next < reached.len() {
                for child in tree.children(reached[next]) {
                    prop_assert_eq!(tree.parent(child), Some(reached[next]));
                    prop_assert_eq!(tree.next_hop(tree.controller(), child).is_some(), true);
                    reached.push(child);
                }
                next += 1;
            }
            reached.sort_unstable();
            let here: Vec<_> = (0..nodes).map(NodeId).filter(|&node| tree.is_here(node)).collect();
            prop_assert_eq!(reached, here);
        }
    }
}
