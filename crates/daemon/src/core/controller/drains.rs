//! Nodes that take no new ranks (`tutti drain`): for work on the machine, or because something is wrong with
//! it.
//!
//! ```text
//! Drain, Undrain --> kept in a file --> the scheduler is told --> Done
//!                        '-- no room on the disk: refused, and nothing has changed
//! ```
//!
//! Nodes are known by their names, which outlive their numbers and the controller. Changes are made one after
//! the other: the file always has what the last answered one says. What is on the node stays there, and so do
//! steps of jobs that have room on it; a job that needs it waits, and says why.

use std::collections::{BTreeMap, VecDeque};

use tutti_protocol::users::{Drained, WHY_CHARS_MAX};

use super::Controller;
use super::answers::{Asker, Requester};
use super::placement::named_node;
use crate::core::action::Action;
use crate::core::job_event::JobEvent;
use crate::core::local::LocalNode;
use crate::gang::Command;
use crate::members::NodeId;
use crate::message::{Answer, Routed};

/// A change that is not kept yet; without a reason the node is drained no longer.
#[derive(Debug)]
struct Change {
    requester: Requester,
    node: String,
    mark: Option<Drained>,
}

/// The drained nodes, and changes on their way to the disk.
#[derive(Debug, Default)]
pub(super) struct Drains {
    nodes: BTreeMap<String, Drained>,
    /// The first is being written.
    changes: VecDeque<Change>,
}

impl Drains {
    /// Since when a node takes no new ranks, and why.
    pub(super) fn of(&self, name: &str) -> Option<&Drained> {
        self.nodes.get(name)
    }

    /// Question that is answered when the file is written.
    pub(super) fn answers(&self, requester: Requester) -> bool {
        self.changes.iter().any(|change| change.requester == requester)
    }

    /// The list as it is after the next change.
    fn changed(&self) -> Option<BTreeMap<String, Drained>> {
        let change = self.changes.front()?;
        let mut nodes = self.nodes.clone();
        match &change.mark {
            Some(drained) => nodes.insert(change.node.clone(), drained.clone()),
            None => nodes.remove(&change.node),
        };
        Some(nodes)
    }

    /// Contents to be written next.
    fn write_next(&self) -> Option<Action> {
        self.changed().map(Action::KeepDrains)
    }

    /// The nodes that were drained in an earlier incarnation of the controller.
    pub(super) fn restore(&mut self, nodes: BTreeMap<String, Drained>) {
        self.nodes = nodes;
    }

    /// Word to the scheduler which nodes take nothing new.
    fn command(&self, local: &LocalNode) -> Action {
        let members = local.members.iter().flat_map(|members| &members.nodes);
        let drained = members.filter(|(_, member)| self.of(&member.about.name).is_some());
        Action::Gang(Command::Drain(drained.map(|(node, _)| *node).collect()))
    }
}

/// Steps that follow when a change is kept, or cannot be.
pub(in crate::core) struct Kept {
    pub(in crate::core) actions: Vec<Action>,
    /// Node that has asked, and what it is answered.
    pub(in crate::core) answer: (NodeId, Routed),
}

impl Controller {
    /// The nodes that were drained in an earlier incarnation of the controller.
    pub(in crate::core) fn take_drains(&mut self, nodes: BTreeMap<String, Drained>) {
        self.drains.restore(nodes);
    }

    /// Word to the scheduler which nodes take nothing new.
    pub(in crate::core) fn drain_command(&self, local: &LocalNode) -> Action {
        self.drains.command(local)
    }

    /// Drains a node for a reason, or no longer; it is answered when that is kept. Gives what is to be done
    /// for that now.
    ///
    /// # Errors
    /// When it cannot be; a text for the user.
    pub(super) fn change_drain(
        &mut self,
        local: &LocalNode,
        asker: Asker,
        (name, why): (String, Option<String>),
        again: bool,
    ) -> Result<Option<Action>, String> {
        if !local.may(asker.user, None) {
            return Err("only the owner of the daemons may drain nodes".into());
        }
        let Some(members) = &local.members else { return Err("this node is not the controller".into()) };
        let node = match named_node(members, &name) {
            Ok((_, name)) => name,
            // One that has not come since the controller was started anew.
            Err(_) if self.drains.of(&name).is_some() => name,
            Err(error) => return Err(error.to_string()),
        };
        let why = why.map(|why| cleaned(&why));
        if why.as_ref().is_some_and(String::is_empty) {
            return Err("say why the node is drained: --why TEXT".into());
        }
        if why.is_none() && self.drains.of(&node).is_none() && !again {
            return Err(format!("{node} is not drained"));
        }
        let (since_ms, uid) = (local.wall_ms, asker.user.uid);
        let mark = why.map(|why| Drained { since_ms, uid, why });
        self.drains.changes.push_back(Change { requester: asker.requester, node, mark });
        let is_only_one = self.drains.changes.len() == 1;
        Ok(self.drains.write_next().filter(|_| is_only_one))
    }

    /// The next change is kept, or cannot be.
    pub(in crate::core) fn handle_drains_kept(
        &mut self,
        local: &LocalNode,
        kept: Result<(), String>,
    ) -> Option<Kept> {
        let nodes = self.drains.changed()?;
        let change = self.drains.changes.pop_front()?;
        let mut actions = Vec::new();
        let answer = match kept {
            Ok(()) => {
                self.drains.nodes = nodes;
                actions.push(self.drains.command(local));
                let event = if change.mark.is_some() { "drained" } else { "undrained" };
                let text = change.mark.map(|mark| mark.why).unwrap_or_default();
                let event = JobEvent { text, ..JobEvent::node(local.wall_ms, event, &change.node) };
                actions.push(Action::Log(event));
                Answer::Done
            }
            Err(why) => Answer::Refused(format!("the controller cannot keep it: {why}")),
        };
        self.answers.remember(change.requester, answer.clone());
        actions.extend(self.drains.write_next());
        let (from, request_id) = change.requester;
        Some(Kept { actions, answer: (from, Routed::Answer { request_id, answer }) })
    }
}

/// A reason as others read it on their terminals.
fn cleaned(why: &str) -> String {
    let shown = |c: char| if tutti_os::stderr::is_deceptive(c) { ' ' } else { c };
    let text: String = why.chars().take(WHY_CHARS_MAX).map(shown).collect();
    text.trim().to_owned()
}
