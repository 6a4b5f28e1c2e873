//! The tree as the switch thread knows it: who is in it, and what somebody who comes is told.

use tutti_sched::agent::Agent;
use tutti_sched::controller::Controller;
use tutti_sched::gang::Timing;
use tutti_sched::{JobId, NodeId, Tree};

use super::contexts::CHANNEL_SLICES;
use super::{IDLE_NS, JOBS, Node, SwitchThread};
use crate::gang::command::NodeResources;
use crate::gang::switch_links::SwitchMessage;

impl SwitchThread {
    pub(super) fn handle_members(&mut self, now_ns: u64, me: NodeId, arity: u32, nodes: Vec<NodeResources>) {
        if self.node.as_ref().is_none_or(|node| node.me != me) {
            let tree = Tree::new(arity, if me == NodeId(0) { 1 } else { nodes.len() as u32 });
            let timing = Timing {
                silence_ns: if me == NodeId(0) { 0 } else { Timing::default().silence_ns },
                idle_ns: IDLE_NS,
                channel_ns: self.slice_ns * CHANNEL_SLICES,
                ..Timing::default()
            };
            let agent = Agent::new(me, tree.clone(), timing, self.slice_ns * 10, JOBS);
            let controller = self.scheduler.take().map(|mut scheduler| {
                scheduler.handle_node(now_ns, me, nodes[0].slots, nodes[0].memory_bytes);
                scheduler.handle_gpus(now_ns, me, nodes[0].gpus);
                Controller::new(scheduler, tree)
            });
            let known = if controller.is_some() { nodes[..1].to_vec() } else { nodes.clone() };
            self.node = Some(Node { me, agent, controller, nodes: known });
        }
        let Some(node) = &mut self.node else { return };
        let mut changed = false;
        for (index, &resources) in nodes.iter().enumerate() {
            let NodeResources { alive, slots, memory_bytes, gpus } = resources;
            let id = NodeId(index as u32);
            let before = node.nodes.get(index).copied();
            let known = before.map(|resources| resources.alive);
            node.agent.handle_nodes(now_ns, id.0 + 1);
            let Some(controller) = &mut node.controller else { continue };
            changed |= known != Some(alive);
            match known {
                None if alive => _ = controller.handle_join(now_ns, slots, memory_bytes),
                None => _ = controller.handle_join_lost(),
                Some(false) if alive => controller.handle_node_back(now_ns, id, slots, memory_bytes),
                Some(true) if !alive => drop(controller.handle_node_lost(now_ns, id)),
                // Its daemon was started anew with other settings before it was missed.
                Some(true) if before != Some(resources) => {
                    controller.scheduler_mut().handle_node(now_ns, id, slots, memory_bytes);
                }
                _ => {}
            }
            if before != Some(resources) {
                controller.scheduler_mut().handle_gpus(now_ns, id, gpus);
            }
        }
        node.nodes = nodes;
        self.admission.nodes_changed();
        // Who has come knows nothing of the state of the tree that reports must be of.
        if let Some(controller) = node.controller.as_mut().filter(|_| changed) {
            controller.handle_daemon_back();
        }
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        jobs.into_iter().for_each(|job| self.announce_job(now_ns, job));
    }

    /// Tells a child the slots of the jobs: the agent tells it the rest.
    pub(super) fn send_slots(&mut self, child: NodeId) {
        let jobs = self.jobs.iter().filter(|(_, entry)| !entry.parts.is_empty());
        let outbox: Vec<SwitchMessage> =
            jobs.map(|(job, entry)| SwitchMessage::Slots(*job, entry.parts.clone())).collect();
        outbox.iter().for_each(|message| self.send_down(child, message));
    }
}
