//! Knowledge that a daemon has of itself, of the time and of the other nodes. Every part reads it;
//! [`Links`](super::links::Links) alone changes the number and the list.

use super::clocks::Clocks;
use super::config::Config;
use crate::members::{Members, NodeId};
use crate::message::User;

/// Node of this daemon, as all parts of it see it.
#[derive(Debug)]
pub(super) struct LocalNode {
    pub(super) config: Config,
    /// Our own time: it goes on in small steps only.
    pub(super) now_ms: u64,
    /// Reading of the clock, in ms since 1970.
    pub(super) wall_ms: u64,
    /// How long the machine is up: nobody sets that clock.
    pub(super) boot_ms: u64,
    /// Our number, as soon as we have one.
    pub(super) me: Option<NodeId>,
    /// The number that an earlier incarnation had.
    pub(super) preferred: Option<NodeId>,
    pub(super) members: Option<Members>,
    /// When the controller was last heard of, by us or by whoever is above.
    pub(super) controller_contact_ms: u64,
}

impl LocalNode {
    /// A node that has just been started.
    pub(super) fn new(config: Config, preferred: Option<NodeId>, now: Clocks) -> Self {
        let Clocks { wall_ms: now_ms, boot_ms } = now;
        let is_controller = config.controller.is_none();
        LocalNode {
            now_ms,
            wall_ms: now_ms,
            boot_ms,
            me: is_controller.then_some(NodeId::CONTROLLER),
            preferred,
            members: is_controller.then(|| {
                let first = now_ms.max(config.known_nodes.first_ms);
                let mut members = Members::new(config.arity, config.about.clone(), first);
                members.configure(&config.loaded.text, &config.loaded.rules);
                members
            }),
            controller_contact_ms: now_ms,
            config,
        }
    }

    pub(super) fn is_controller(&self) -> bool {
        self.config.controller.is_none()
    }

    /// The clocks say this now. Gives how far the one of the wall has gone on since it was looked at last.
    pub(super) fn set_clocks(&mut self, now: Clocks) -> u64 {
        let Clocks { wall_ms, boot_ms } = now;
        let passed_ms = wall_ms.saturating_sub(self.wall_ms);
        self.now_ms += passed_ms.min(self.config.step_ms());
        (self.wall_ms, self.boot_ms) = (wall_ms, boot_ms);
        passed_ms
    }

    /// Last readings of the clocks.
    pub(super) fn clocks(&self) -> Clocks {
        Clocks { wall_ms: self.wall_ms, boot_ms: self.boot_ms }
    }

    /// How long nothing has been heard of the controller.
    pub(super) fn controller_silent_ms(&self) -> u64 {
        if self.is_controller() { 0 } else { self.now_ms.saturating_sub(self.controller_contact_ms) }
    }

    /// Whether a user may have a job of another's.
    pub(super) fn may(&self, user: User, owner: Option<User>) -> bool {
        user.uid == 0 || user.uid == self.config.owner || owner.is_some_and(|owner| owner.uid == user.uid)
    }

    /// Whether this is the controller, and all nodes are of its machine.
    pub(super) fn is_of_one_machine(&self) -> bool {
        let machine = &self.config.about.machine;
        let mut members = self.members.iter().flat_map(|members| members.nodes.values());
        self.is_controller() && members.all(|member| !member.alive || &member.about.machine == machine)
    }

    /// No other node has cores of this machine.
    pub(super) fn has_machine_alone(&self) -> bool {
        let machine = &self.config.about.machine;
        let members = self.members.iter().flat_map(|members| members.nodes.values());
        members.filter(|member| member.alive && &member.about.machine == machine).count() <= 1
    }

    /// A user as the configuration names him: by his number where this machine knows no name.
    pub(super) fn user_name(&self, uid: u32) -> String {
        (self.config.user_name)(uid).unwrap_or_else(|| uid.to_string())
    }

    /// Memory of this node that all jobs of a user may have, in bytes, and where that is written; none: no
    /// limit.
    pub(super) fn memory_per_node(&self, uid: u32) -> Option<(u64, String)> {
        self.members.as_ref()?.of_nodes.memory_per_node(&self.user_name(uid))
    }

    /// A user who does something to a job, in words.
    pub(super) fn actor(&self, user: User) -> String {
        match (self.config.user_name)(user.uid) {
            Some(name) if user.uid == 0 => name,
            Some(name) => format!("user {name}"),
            None => format!("user {}", user.uid),
        }
    }
}
