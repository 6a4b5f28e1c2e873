//! The tree as the switch thread knows it: who is in it, and what somebody who comes is told.

use tutti_sched::agent::Agent;
use tutti_sched::controller::Controller;
use tutti_sched::gang::Timing;
use tutti_sched::{JobId, NodeId, Tree};

use super::{IDLE_NS, JOBS, Life, Node};
use crate::gang::{Seat, Word};

impl Life {
    pub(super) fn handle_members(&mut self, now_ns: u64, me: NodeId, arity: u32, nodes: Vec<Seat>) {
        if self.node.as_ref().is_none_or(|node| node.me != me) {
            let tree = Tree::new(arity, if me == NodeId(0) { 1 } else { nodes.len() as u32 });
            let timing = Timing {
                silence_ns: if me == NodeId(0) { 0 } else { Timing::default().silence_ns },
                idle_ns: IDLE_NS,
                ..Timing::default()
            };
            let agent = Agent::new(me, tree.clone(), timing, self.slice_ns * 10, JOBS);
            let head = self.scheduler.take().map(|mut scheduler| {
                scheduler.handle_node(now_ns, me, nodes[0].slots, nodes[0].memory_bytes);
                Controller::new(scheduler, tree)
            });
            let known = if head.is_some() { nodes[..1].to_vec() } else { nodes.clone() };
            self.node = Some(Node { me, agent, head, nodes: known });
        }
        let Some(node) = &mut self.node else { return };
        let mut changed = false;
        for (index, &seat) in nodes.iter().enumerate() {
            let Seat { alive, slots, memory_bytes } = seat;
            let id = NodeId(index as u32);
            let before = node.nodes.get(index).copied();
            let known = before.map(|seat| seat.alive);
            node.agent.handle_nodes(now_ns, id.0 + 1);
            let Some(head) = &mut node.head else { continue };
            changed |= known != Some(alive);
            match known {
                None => {
                    head.handle_join(now_ns, slots, memory_bytes);
                    if !alive {
                        head.handle_node_lost(now_ns, id);
                    }
                }
                Some(false) if alive => head.handle_node_back(now_ns, id, slots, memory_bytes),
                Some(true) if !alive => drop(head.handle_node_lost(now_ns, id)),
                // Its daemon was started anew with other settings before it was missed.
                Some(true) if before != Some(seat) => {
                    head.scheduler_mut().handle_node(now_ns, id, slots, memory_bytes);
                }
                _ => {}
            }
        }
        node.nodes = nodes;
        self.admission.nodes_changed();
        // Who has come knows nothing of the state of the tree that reports must be of.
        if let Some(head) = node.head.as_mut().filter(|_| changed) {
            head.handle_daemon_back();
        }
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.settle(now_ns, job));
    }

    /// Tells a child the slots of the jobs: the agent tells it the rest.
    pub(super) fn say_slots(&mut self, child: NodeId) {
        let jobs = self.jobs.iter().filter(|(_, entry)| !entry.parts.is_empty());
        let words: Vec<Word> = jobs.map(|(job, entry)| Word::Slots(*job, entry.parts.clone())).collect();
        words.iter().for_each(|word| self.say_down(child, word));
    }
}
