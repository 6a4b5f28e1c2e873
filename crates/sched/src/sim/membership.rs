//! Links and lists: how daemons come to their places in the tree, as `tuttid` does it.
//!
//! The controller alone says who is a node and whose child: its list goes to all, to each when it likes.
//! Whoever finds another parent there, or whose link breaks, dials; the parent may not have the list yet. It
//! greets the child, which has missed what went down meanwhile.

use super::calendar::Event;
use super::node::Node;
use super::world::{World, agent};
use crate::tree::Tree;
use crate::types::NodeId;

/// As many nodes as a cluster grows to.
const NODES_MAX: usize = 48;
/// A node without a link for so long may have run what it has alone.
const ALONE_NS: u64 = 500_000_000;

impl World {
    /// A node joins at the end of the tree. The controller knows it first.
    pub(super) fn join_a_node(&mut self) {
        let all_known = self.controller.tree().nodes() as usize == self.nodes.len();
        if self.nodes.len() >= NODES_MAX || self.is_headless() || !all_known {
            return;
        }
        self.report.membership += 1;
        let (now_ns, slots) = (self.now_ns, self.options.slots);
        let node = self.controller.handle_join(now_ns, slots, 0);
        let tree = Tree::new(self.options.arity, node.0 + 1);
        self.nodes.push(Node { agent: None, ..Node::new(agent(&self.options, node, tree)) });
        self.thawed.push(0);
        let controller = self.controller.tree().controller();
        self.with_any(controller, |agent| agent.handle_nodes(now_ns, node.0 + 1));
        self.start_daemon(node);
        self.controller.handle_daemon_back();
        self.poll_controller();
        self.spread_list();
    }

    /// The list of nodes is another: each hears of it after a while.
    pub(super) fn spread_list(&mut self) {
        let late = self.random.chance(300);
        let most_ns = if late { 500_000_000 } else { 5_000_000 };
        for at in 0..self.nodes.len() as u32 {
            let contact_ns = self.now_ns + self.random.between((50_000, most_ns));
            self.push(contact_ns.max(self.nodes[at as usize].cut_until_ns), Event::List { node: NodeId(at) });
        }
    }

    /// The newest list has come to this node.
    pub(super) fn handle_list(&mut self, node: NodeId) {
        let (now_ns, nodes) = (self.now_ns, self.controller.tree().nodes());
        self.with_any(node, |agent| agent.handle_nodes(now_ns, nodes));
        if self.nodes[node.0 as usize].agent.is_none() {
            return;
        }
        // Its own parent may be another, and so may that of those who have dialled it.
        for at in (0..self.nodes.len() as u32).map(NodeId) {
            let parent = self.nodes[at.0 as usize].parent();
            let concerns = at == node || parent == Some(node);
            if concerns && parent.is_some() && parent != self.place_of(at) {
                self.unlink(at);
            }
        }
    }

    /// Parent that the node is to dial, by the list of nodes.
    fn place_of(&self, node: NodeId) -> Option<NodeId> {
        self.controller.tree().is_here(node).then(|| self.controller.tree().parent(node)).flatten()
    }

    /// All links from and to this node are gone.
    pub(super) fn break_links(&mut self, node: NodeId) {
        for at in (0..self.nodes.len() as u32).map(NodeId) {
            if at == node || self.nodes[at.0 as usize].parent() == Some(node) {
                self.unlink(at);
            }
        }
    }

    fn unlink(&mut self, node: NodeId) {
        let known = &mut self.nodes[node.0 as usize];
        if known.link.take().is_some() {
            known.alone_since_ns = self.now_ns;
            self.dial(node, 20_000_000);
        }
    }

    /// The node tries to reach its parent, within this time.
    pub(super) fn dial(&mut self, node: NodeId, most_ns: u64) {
        let at_ns = self.now_ns + self.random.between((100_000, most_ns));
        let incarnation = self.nodes[node.0 as usize].incarnation;
        self.push(at_ns, Event::Dial { node, incarnation });
    }

    pub(super) fn handle_dial(&mut self, node: NodeId, incarnation: u32) {
        let known = &self.nodes[node.0 as usize];
        if known.agent.is_none() || known.incarnation != incarnation || known.link.is_some() {
            return;
        }
        let is_up = |at: NodeId| {
            let there = &self.nodes[at.0 as usize];
            there.agent.is_some() && self.now_ns >= there.cut_until_ns
        };
        let Some(parent) = self.place_of(node).filter(|&parent| is_up(parent) && is_up(node)) else {
            return self.dial(node, 200_000_000);
        };
        if self.now_ns >= known.alone_since_ns + ALONE_NS {
            self.blur_below(node, self.now_ns);
        }
        self.dialled += 1;
        self.nodes[node.0 as usize].link = Some((parent, self.dialled));
        self.with_any(parent, |agent| agent.handle_child(node));
    }
}
