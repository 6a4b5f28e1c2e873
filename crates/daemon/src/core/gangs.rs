//! Commands that tell the switch thread of nodes, and that somebody above lives.

use super::action::Action;
use super::context::Context;
use crate::gang::{Command, NodeResources};
use crate::members::NodeId;

/// Least time between two words to the switch thread that somebody above lives; and where there are no
/// jobs.
const LIVENESS_MS: u64 = 1000;
const LIVENESS_IDLE_MS: u64 = 5000;

/// Record of what the switch thread has been told.
#[derive(Debug, Default)]
pub(super) struct Gangs {
    /// When it was last told that somebody above lives.
    liveness_sent_ms: u64,
}

impl Gangs {
    /// The switch thread runs by turns the jobs that are here alone when nobody above has been heard of for
    /// 10 s. It need not be woken up for each message.
    pub(super) fn forward_liveness(&mut self, cx: Context<'_>, has_jobs: bool) {
        let grace_ms = if has_jobs { LIVENESS_MS } else { LIVENESS_IDLE_MS };
        // A parent may live without a controller, from which all turns come.
        let controller_alive = cx.local.controller_silent_ms() < cx.local.config.lost_ms;
        if controller_alive && cx.local.now_ms >= self.liveness_sent_ms + grace_ms {
            self.liveness_sent_ms = cx.local.now_ms;
            cx.out.act(Action::Gang(Command::ParentAlive));
        }
    }
}

/// The switch thread is notified of the nodes.
pub(super) fn forward_members(cx: Context<'_>) {
    let (Some(me), Some(members)) = (cx.local.me, &cx.local.members) else { return };
    // Numbers may have gaps: nodes that an earlier controller knew and that have not come back.
    let last = members.nodes.last_key_value().map_or(0, |(node, _)| node.0);
    let place = |node| {
        members.nodes.get(&NodeId(node)).map_or_else(NodeResources::default, |member| NodeResources {
            alive: member.alive,
            slots: member.about.slots,
            memory_bytes: member.about.memory_bytes,
            gpus: member.about.gpus().count(),
        })
    };
    let nodes = (0..=last).map(place).collect();
    cx.out.act(Action::Gang(Command::Members { me, arity: members.arity, nodes }));
}
