//! Nodes that take no new ranks (`tutti drain`): for work on the machine, or because something is wrong with
//! it.
//!
//! ```text
//! Drain, Undrain --> kept in a file --> the scheduler is notified --> Done
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
use crate::core::outbox::Outbox;
use crate::gang::Command;
use crate::members::NodeId;
use crate::message::{Answer, Routed};

/// A change that is not kept yet; without a reason the node is drained no longer.
#[derive(Debug)]
struct Change {
    /// None: a fault of the node's, which holds already.
    requester: Option<Requester>,
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
        self.changes.iter().any(|change| change.requester == Some(requester))
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
    pub(super) actions: Vec<Action>,
    /// Node that has asked, if one has, and what it is answered.
    pub(super) answer: Option<(NodeId, Routed)>,
}

impl Kept {
    pub(in crate::core) fn give_out(self, out: &Outbox) {
        self.actions.into_iter().for_each(|action| out.act(action));
        self.answer.into_iter().for_each(|(to, answer)| out.route(to, answer));
    }
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
        self.drains.changes.push_back(Change { requester: Some(asker.requester), node, mark });
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
        let Some(requester) = change.requester else {
            if let Err(why) = kept {
                let node = change.node;
                actions.push(Action::Warn(format!(
                    "{node} is drained, and the controller cannot keep it: {why}"
                )));
            }
            actions.extend(self.drains.write_next());
            return Some(Kept { actions, answer: None });
        };
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
        self.answers.remember(requester, answer.clone());
        actions.extend(self.drains.write_next());
        let (from, request_id) = requester;
        Some(Kept { actions, answer: Some((from, Routed::answer(request_id, answer))) })
    }

    /// Drains a node at once because of a fault there; the file follows. A reason that it has stays.
    /// Gives what is to be done for that.
    pub(super) fn drain_for_fault(&mut self, local: &LocalNode, node: NodeId, why: &str) -> Vec<Action> {
        let Some(members) = &local.members else { return Vec::new() };
        let name = members.name(node);
        if self.drains.of(&name).is_some() {
            return Vec::new();
        }
        let mark = Drained { since_ms: local.wall_ms, uid: local.config.owner, why: cleaned(why) };
        self.drains.nodes.insert(name.clone(), mark.clone());
        let mut actions = vec![self.drains.command(local)];
        let text = mark.why.clone();
        actions.push(Action::Log(JobEvent { text, ..JobEvent::node(local.wall_ms, "drained", &name) }));
        self.drains.changes.push_back(Change { requester: None, node: name, mark: Some(mark) });
        let is_only_one = self.drains.changes.len() == 1;
        actions.extend(self.drains.write_next().filter(|_| is_only_one));
        actions
    }
}

/// A reason as others read it on their terminals.
fn cleaned(why: &str) -> String {
    let shown = |c: char| if tutti_os::stderr::is_deceptive(c) { ' ' } else { c };
    let text: String = why.chars().take(WHY_CHARS_MAX).map(shown).collect();
    text.trim().to_owned()
}
