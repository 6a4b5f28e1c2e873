//! List of the nodes in the cluster, and the control tree that follows from it.
//!
//! Only the controller changes the list; everybody else has a copy of some version of it. Node 0 is the
//! controller. The tree is k-ary by number: the parent of node `n` is `(n - 1) / k`, or the nearest ancestor
//! that is there. So a node that vanishes changes the parents of its children only, and nobody has to be
//! notified a tree: the list says it (SCore-D 1.2.2).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tutti_os::PriorityClass;
use tutti_protocol::config::Rules;
use tutti_protocol::gpus::Gpus;
use tutti_sched::tree;

pub use tutti_sched::NodeId;

/// Nodes of a cluster, at most; a number beyond is not believed.
pub(crate) const NODES_MAX: u32 = 1 << 20;

/// Description of a node, by its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Name of the node, unique in the cluster.
    pub name: String,
    /// Where its daemon hears other daemons.
    pub control: SocketAddr,
    /// Address on which its ranks are reached.
    pub data: IpAddr,
    /// Cores that ranks can hold.
    pub slots: u32,
    /// Memory for jobs; 0: not known.
    #[serde(default)]
    pub memory_bytes: u64,
    /// The kernel holds jobs to the memory that they declare.
    #[serde(default)]
    pub limits_memory: bool,
    /// Jobs are stopped by the freezer of their cgroups, else by signals.
    #[serde(default)]
    pub freezes: bool,
    /// Number that a start of the daemon draws: another one is another incarnation.
    pub incarnation: u64,
    /// How far the kernel prefers its switch thread.
    #[serde(default)]
    pub preferred: PriorityClass,
    /// All nodes with the same text share one machine, and so its cores.
    pub machine: String,
    /// The release of its daemon.
    #[serde(default)]
    pub release: String,
    /// GPUs for jobs.
    #[serde(default, rename = "gpus")]
    pub offered_gpus: Gpus,
}

impl About {
    /// GPUs for jobs.
    pub fn gpus(&self) -> Gpus {
        self.offered_gpus
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Description of the node, by its daemon.
    pub about: About,
    /// Whether the node is there.
    pub alive: bool,
}

/// All nodes that are or were there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Grows with every change.
    pub version: u64,
    /// Children of a node, at most.
    pub arity: u32,
    /// The sections of the configuration that hold for all nodes; empty: there are none.
    #[serde(default)]
    pub configuration: Arc<str>,
    /// Of it what each node's kernel sees to, with its places in the keeper's file.
    #[serde(default)]
    pub of_nodes: Arc<Rules>,
    /// The nodes by number.
    pub nodes: BTreeMap<NodeId, Member>,
}

impl Members {
    /// A cluster of the controller alone. `version`: larger than any that the controller has used in an
    /// earlier incarnation; the clock will do.
    ///
    /// # Panics
    /// When `arity` is 0.
    pub fn new(arity: u32, controller: About, version: u64) -> Self {
        assert!(arity > 0, "a tree of arity 0");
        Members {
            version,
            arity,
            configuration: Arc::from(""),
            of_nodes: Arc::default(),
            nodes: BTreeMap::from([(NodeId::CONTROLLER, Member { about: controller, alive: true })]),
        }
    }

    /// Whether the node is there.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|member| member.alive)
    }

    /// Name of a node, or its number where the list does not know it.
    pub fn name(&self, node: NodeId) -> String {
        self.nodes.get(&node).map_or_else(|| node.to_string(), |member| member.about.name.clone())
    }

    /// The number of the node with this name.
    pub fn number(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().find(|(_, member)| member.about.name == name).map(|(node, _)| *node)
    }

    /// The names of these nodes.
    pub fn names(&self, nodes: &[NodeId]) -> Vec<String> {
        nodes.iter().map(|node| self.name(*node)).collect()
    }

    /// The nodes that are there.
    pub fn alive(&self) -> impl Iterator<Item = (NodeId, &Member)> {
        self.nodes.iter().filter(|(_, member)| member.alive).map(|(node, member)| (*node, member))
    }

    /// Where the tree hangs a node: the nearest ancestor that is there; none for the controller.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        tree::ancestor(self.arity, node, |above| self.is_alive(above))
    }

    /// The neighbour of `from` in the direction of `to`: its child above `to`, or else its parent.
    pub fn hop(&self, from: NodeId, to: NodeId) -> Option<NodeId> {
        let mut below = to;
        while let Some(above) = self.parent(below) {
            if above == from {
                return Some(below);
            }
            below = above;
        }
        self.parent(from)
    }

    /// `node` is `above` or hangs somewhere below it.
    pub fn is_below(&self, node: NodeId, above: NodeId) -> bool {
        let mut at = Some(node);
        while let Some(here) = at {
            if here == above {
                return true;
            }
            at = self.parent(here);
        }
        false
    }

    /// Neighbours below a node in the tree.
    pub fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.alive().map(|(child, _)| child).filter(move |child| self.parent(*child) == Some(node))
    }

    /// Takes over what a node knows of a list that was the controller's in an earlier incarnation: numbers
    /// stay whose they were. Only for the controller.
    pub fn remember(&mut self, known: &Members) {
        self.version = self.version.max(known.version);
        for (node, member) in &known.nodes {
            let taken =
                self.nodes.iter().any(|(id, other)| id == node || other.about.name == member.about.name);
            if !taken {
                self.nodes.insert(*node, Member { about: member.about.clone(), alive: false });
            }
        }
    }

    /// Takes a node in under this number, which is free or its own; only for the controller.
    pub fn admit(&mut self, node: NodeId, about: About) {
        self.version += 1;
        self.nodes.insert(node, Member { about, alive: true });
    }

    /// Another configuration holds; only for the controller.
    pub fn configure(&mut self, text: &Arc<str>, rules: &Rules) {
        let of_nodes = rules.of_nodes();
        if self.configuration != *text || *self.of_nodes != of_nodes {
            (self.configuration, self.of_nodes) = (Arc::clone(text), Arc::new(of_nodes));
            self.version += 1;
        }
    }

    /// A node has gone; only for the controller.
    pub fn lose(&mut self, node: NodeId) {
        if let Some(member) = self.nodes.get_mut(&node).filter(|member| member.alive) {
            member.alive = false;
            self.version += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(name: u32) -> About {
        About {
            name: format!("n{name}"),
            control: "127.0.0.1:1".parse().unwrap(),
            data: "127.0.0.1".parse().unwrap(),
            slots: 2,
            memory_bytes: 0,
            offered_gpus: Gpus::NONE,
            limits_memory: false,
            freezes: false,
            incarnation: 1,
            preferred: PriorityClass::Plain,
            machine: String::new(),
            release: String::new(),
        }
    }

    fn cluster(nodes: u32, arity: u32) -> Members {
        let mut members = Members::new(arity, about(0), 1);
        (1..nodes).for_each(|node| members.admit(NodeId(node), about(node)));
        members
    }

    #[test]
    fn members_tree_depth_is_logarithmic() {
        for (nodes, depth) in [(1, 0), (2, 1), (5, 1), (6, 2), (21, 2), (22, 3), (85, 3), (4096, 6)] {
            let members = cluster(nodes, 4);
            let mut at = NodeId(nodes - 1);
            let mut steps = 0;
            while let Some(above) = members.parent(at) {
                (at, steps) = (above, steps + 1);
            }
            assert_eq!((at, steps), (NodeId::CONTROLLER, depth), "{nodes} nodes");
        }
    }

    #[test]
    fn members_tree_connects_all_despite_losses() {
        for missing in 1..20 {
            let mut members = cluster(20, 3);
            members.lose(NodeId(missing));
            let alive: Vec<_> = members.alive().map(|(node, _)| node).collect();
            for &from in &alive {
                for &to in alive.iter().filter(|to| **to != from) {
                    let (mut at, mut steps) = (from, 0);
                    while at != to {
                        at = members.hop(at, to).unwrap();
                        assert!(members.is_alive(at));
                        steps += 1;
                        assert!(steps < 10, "{from} to {to} without {missing}");
                    }
                }
            }
        }
    }
}
