//! Connections between daemons: to the parent, which we dial, and to the children, which dial us.
//!
//! ```text
//! start -> dial the controller -> Hello -> Welcome(number, members) -> the controller is the parent: done
//!                                                             \> close, dial the parent -> Hello(number)
//! parent gone -> dial it again, in turn with the controller, which knows who the parent is now
//! ```
//!
//! Each side says Alive on a link every [`Config::alive_ms`](super::Config::alive_ms), and at once when the
//! other has said it and its own is nearly due: so both wake up once. Who is not heard of for `lost_ms` is
//! lost: a child is reported to the head, which takes it out of the list; a parent is dialled again. A child
//! whose link breaks has half that time to come back, one that the list hangs here and that has no link yet
//! all of it. A node that finds itself lost in the list asks the controller anew.
//!
//! Alive says also how long ago the controller was heard of: so a node whose parent lives knows when the
//! controller does not. Its jobs on several nodes end [`Config::keep_ms`](super::Config::keep_ms) after the
//! controller is lost (`parts/incarnations.rs`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::{Action, Core, LinkId};
use crate::members::{About, Members, NodeId};
use crate::message::Message;

/// Between two attempts to reach somebody.
const DIAL_MS: u64 = 200;
/// That somebody is not reached is said again after so long.
const LOG_AGAIN_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It has not said who it is.
    Unidentified,
    /// One of our children.
    Child(NodeId),
    /// We dialled it.
    Up,
}

#[derive(Debug)]
struct Link {
    role: Role,
    contact_ms: u64,
    sent_ms: u64,
}

/// The connections of a daemon.
#[derive(Debug, Default)]
pub(super) struct Links {
    links: BTreeMap<LinkId, Link>,
    /// Whom the link upwards leads to, when it is known.
    parent: Option<NodeId>,
    dialling: bool,
    dials: u64,
    dialled_ms: u64,
    /// Whom we dial.
    address: Option<SocketAddr>,
    /// Since when nobody has been reached, and when that was said last.
    unreached_ms: Option<(u64, u64)>,
    /// Children whose link broke, and when they are lost.
    missing: BTreeMap<NodeId, u64>,
}

impl Links {
    pub(super) fn accept(&mut self, link: LinkId, now_ms: u64) {
        self.links.insert(link, Link { role: Role::Unidentified, contact_ms: now_ms, sent_ms: now_ms });
    }

    /// Something has come on a link; what it is to us.
    pub(super) fn record_contact(&mut self, link: LinkId, now_ms: u64) -> Option<Role> {
        let link = self.links.get_mut(&link)?;
        link.contact_ms = now_ms;
        Some(link.role)
    }

    fn up(&self) -> Option<LinkId> {
        self.links.iter().find(|(_, link)| link.role == Role::Up).map(|(id, _)| *id)
    }

    /// The link to a neighbour in the tree.
    pub(super) fn link_to(&self, node: NodeId) -> Option<LinkId> {
        if self.parent == Some(node) {
            return self.up();
        }
        self.children().find(|(_, child)| *child == node).map(|(link, _)| link)
    }

    /// Whom the link upwards leads to, or is to lead to.
    pub(super) fn parent(&self) -> Option<NodeId> {
        self.parent
    }

    /// The link upwards, as soon as it leads to our parent.
    pub(super) fn upwards(&self) -> Option<LinkId> {
        self.parent.and_then(|_| self.up())
    }

    /// All is as it should be: only silence could change it.
    pub(super) fn is_settled(&self) -> bool {
        self.missing.is_empty() && !self.dialling
    }

    /// When somebody is to be told that we live, or has been silent for too long.
    pub(super) fn due_ms(&self, alive_ms: u64, lost_ms: u64) -> Option<u64> {
        let due = |link: &Link| match link.role {
            Role::Unidentified => link.contact_ms + lost_ms,
            _ => (link.sent_ms + alive_ms).min(link.contact_ms + lost_ms),
        };
        self.links.values().map(due).min()
    }

    pub(super) fn children(&self) -> impl Iterator<Item = (LinkId, NodeId)> {
        self.links.iter().filter_map(|(id, link)| match link.role {
            Role::Child(node) => Some((*id, node)),
            _ => None,
        })
    }
}

impl Core {
    /// Dials upwards if there is no link and it is time.
    pub(super) fn dial_if_needed(&mut self) {
        let Some(controller) = self.config.controller else { return };
        let links = &self.links;
        if links.up().is_some()
            || links.dialling
            || self.now_ms < links.dialled_ms + DIAL_MS && links.dials > 0
        {
            return;
        }
        // In turn: the parent that we know of, and the controller, who knows better if that one is gone.
        // Whom the list says to be lost only the controller takes in again.
        let members = self.members.as_ref();
        let is_in = |me: &NodeId| members.is_some_and(|members| self.is_member(members, *me));
        let parent = self.me.filter(is_in).and_then(|me| members?.parent(me));
        let links = &mut self.links;
        let known =
            parent.and_then(|node| Some((node, self.members.as_ref()?.nodes.get(&node)?.about.control)));
        let (parent, address) = match known {
            Some((node, address)) if links.dials.is_multiple_of(2) || node == NodeId::CONTROLLER => {
                (Some(node), address)
            }
            _ => (None, controller),
        };
        links.dials += 1;
        links.dialling = true;
        links.parent = parent;
        links.address = Some(address);
        self.act(Action::Dial(address));
    }

    /// Whoever keeps the machines reads that there is no way to the others, at once and then each minute.
    pub(super) fn handle_dial_failed(&mut self, why: &str) {
        let (now_ms, links) = (self.now_ms, &mut self.links);
        (links.dialling, links.dialled_ms) = (false, now_ms);
        let Some(address) = links.address else { return };
        let (since_ms, sent_ms) = links.unreached_ms.unwrap_or((now_ms, 0));
        let is_first = links.unreached_ms.is_none();
        if !is_first && now_ms < sent_ms + LOG_AGAIN_MS {
            return;
        }
        links.unreached_ms = Some((since_ms, now_ms));
        let parent = if Some(address) == self.config.controller { " (--join)" } else { "" };
        let long =
            if is_first { String::new() } else { format!(", for {} s now", (now_ms - since_ms) / 1000) };
        self.act(Action::Warn(format!("{address}{parent} does not answer{long}: {why}; it is tried again")));
    }

    pub(super) fn handle_dialled(&mut self, link: LinkId) {
        if let (Some((since_ms, _)), Some(address)) = (self.links.unreached_ms.take(), self.links.address) {
            let seconds = (self.now_ms - since_ms) / 1000;
            self.act(Action::Info(format!(
                "{address} answers, {seconds} s after the first attempt that failed"
            )));
        }
        self.links.dialling = false;
        self.links.dialled_ms = self.now_ms;
        self.links.links.insert(link, Link { role: Role::Up, contact_ms: self.now_ms, sent_ms: self.now_ms });
        // Somebody whom we do not know to be our parent is asked, as by a new node, who that is.
        let asks_controller = self.links.parent.is_none_or(|parent| parent == NodeId::CONTROLLER);
        let hello = Message::Hello {
            about: self.config.about.clone(),
            node: self.links.parent.and(self.me),
            preferred: self.me.or(self.preferred),
            known: self.members.clone().filter(|_| asks_controller),
        };
        self.act(Action::Send(link, hello));
        if self.links.parent.is_some() {
            self.relay.resend_all();
        }
        self.open_parent_link(link);
    }

    pub(super) fn handle_link_down(&mut self, link: LinkId) {
        match self.links.links.remove(&link).map(|link| link.role) {
            Some(Role::Up) => self.links.dialled_ms = self.now_ms,
            Some(Role::Child(node)) => self.await_child(node, self.config.lost_ms / 2),
            _ => {}
        }
        self.relay.forget_link(link);
    }

    /// A child of ours without a link is lost if none comes.
    fn await_child(&mut self, node: NodeId, grace_ms: u64) {
        let (Some(me), Some(members)) = (self.me, &self.members) else { return };
        let is_ours = members.is_alive(node) && members.parent(node) == Some(me);
        if is_ours && self.links.children().all(|(_, child)| child != node) {
            self.links.missing.entry(node).or_insert(self.now_ms + grace_ms);
        }
    }

    fn close(&mut self, link: LinkId) {
        self.act(Action::Close(link));
        self.handle_link_down(link);
    }

    pub(super) fn handle_hello(
        &mut self,
        link: LinkId,
        about: About,
        node: Option<NodeId>,
        preferred: Option<NodeId>,
        known: Option<Members>,
    ) {
        let member = node.and_then(|node| self.members.as_ref()?.nodes.get(&node));
        let is_same =
            member.is_some_and(|member| member.about.incarnation == about.incarnation && member.alive);
        match node {
            // A child may know of a change before us; what it may not is be somebody else.
            Some(node) if is_same || self.controller.is_none() => self.adopt(link, node),
            _ => self.admit(link, about, preferred, known),
        }
    }

    /// The controller takes a node in, and tells it where it belongs.
    fn admit(&mut self, link: LinkId, about: About, preferred: Option<NodeId>, known: Option<Members>) {
        let (Some(controller), Some(members)) = (&mut self.controller, &mut self.members) else {
            // Only the controller takes in: it is asked again there.
            return self.close(link);
        };
        known.iter().for_each(|known| members.remember(known));
        if about.name == self.config.about.name {
            let text = format!("the name {:?} is the controller's", about.name);
            return self.act(Action::Send(link, Message::Refused(text)));
        }
        let before = members.nodes.values().find(|member| member.about.name == about.name);
        let is_back = before.is_some();
        let is_new_incarnation = before.is_none_or(|member| member.about.incarnation != about.incarnation);
        let node = members.admit(about.clone(), preferred);
        if is_new_incarnation {
            // Its starters may live: it says itself what is left of its parts. As an origin it has forgotten
            // everything.
            controller.renew_origin(node);
        }
        self.links.missing.remove(&node);
        let welcome = Message::Welcome { node, members: members.clone() };
        let is_child = members.parent(node) == Some(NodeId::CONTROLLER);
        self.act(Action::Send(link, welcome));
        self.act(Action::Log(super::JobEvent::node(self.wall_ms, "node-up", &about.name)));
        let what = if is_back { "is back" } else { "has joined" };
        self.act(Action::Info(format!("node {} ({}) {what}", about.name, about.control)));
        if is_child {
            self.adopt(link, node);
        }
        self.send_members();
    }

    fn adopt(&mut self, link: LinkId, node: NodeId) {
        let old: Vec<LinkId> =
            self.links.children().filter(|(_, child)| *child == node).map(|(old, _)| old).collect();
        for old in old.into_iter().filter(|old| *old != link) {
            self.close(old);
        }
        if let Some(link) = self.links.links.get_mut(&link) {
            link.role = Role::Child(node);
        }
        self.links.missing.remove(&node);
        if let Some(members) = self.members.clone() {
            self.act(Action::Send(link, Message::Members(members)));
        }
        self.relay.greet(link);
        self.open_child_link(link, node);
    }

    pub(super) fn handle_welcome(&mut self, link: LinkId, node: NodeId, members: Members) {
        if self.me != Some(node) {
            if self.me.or(self.preferred).is_some_and(|before| before != node) {
                // A controller without memory has given our number away: what was ours under it nobody asks
                // us for any more.
                self.drop_parts();
            }
            self.me = Some(node);
            self.publish_all_parts();
        }
        if members.parent(node) == Some(NodeId::CONTROLLER) {
            self.links.parent = Some(NodeId::CONTROLLER);
            self.relay.resend_all();
            self.open_parent_link(link);
        } else {
            self.links.parent = None;
            self.close(link);
            self.links.dials = 0;
        }
        self.handle_members(members);
    }

    pub(super) fn handle_members(&mut self, members: Members) {
        let is_known = self.members.as_ref().is_some_and(|known| known.version >= members.version);
        let Some(me) = self.me.filter(|_| !is_known && self.controller.is_none()) else { return };
        // Lost, says the list, or another: the controller takes us in again.
        let is_in = self.is_member(&members, me);
        let parent = members.parent(me).filter(|_| is_in);
        self.members = Some(members);
        self.send_members();
        if self.links.parent.is_some() && self.links.parent != parent {
            if let Some(up) = self.links.up() {
                self.close(up);
            }
            self.links.parent = None;
            // Zero dials the parent, one the controller.
            self.links.dials = u64::from(!is_in);
        }
        self.drop_moved_children();
        self.dial_if_needed();
    }

    /// By this list we are there, in this incarnation.
    fn is_member(&self, members: &Members, me: NodeId) -> bool {
        let member = members.nodes.get(&me);
        member.is_some_and(|member| member.alive && member.about.incarnation == self.config.about.incarnation)
    }

    /// Children that the list hangs elsewhere by now find their parent from the list; their links here are
    /// closed.
    fn drop_moved_children(&mut self) {
        let (Some(me), Some(members)) = (self.me, &self.members) else { return };
        let is_ours = |child: NodeId| members.is_alive(child) && members.parent(child) == Some(me);
        let moved: Vec<LinkId> =
            self.links.children().filter(|(_, child)| !is_ours(*child)).map(|(link, _)| link).collect();
        let links = &mut self.links;
        links.missing.retain(|child, _| members.is_alive(*child) && members.parent(*child) == Some(me));
        // They have heard of the change before.
        for link in moved {
            self.act(Action::Close(link));
            self.links.links.remove(&link);
            self.relay.forget_link(link);
        }
    }

    fn send_members(&mut self) {
        let Some(members) = self.members.clone() else { return };
        let children: Vec<LinkId> = self.links.children().map(|(link, _)| link).collect();
        for link in children {
            self.act(Action::Send(link, Message::Members(members.clone())));
        }
        if self.controller.is_some() {
            self.drop_moved_children();
        }
        let ours: Vec<NodeId> = self.me.map(|me| members.children(me).collect()).unwrap_or_default();
        ours.into_iter().for_each(|child| self.await_child(child, self.config.lost_ms));
        self.relay.members_changed();
        self.forward_members();
    }

    /// A node has gone, says its parent.
    pub(super) fn handle_gone(&mut self, node: NodeId, incarnation: u64, by: NodeId) {
        if self.controller.is_none() {
            if let Some(up) = self.links.upwards() {
                self.act(Action::Send(up, Message::Gone { node, incarnation, by }));
            }
            return;
        }
        let (Some(controller), Some(members)) = (&mut self.controller, &mut self.members) else { return };
        let found = members.nodes.get(&node).map(|member| (&member.about, member.alive));
        // It may be back since, or hang elsewhere.
        let Some((about, true)) = found else { return };
        if about.incarnation != incarnation || members.parent(node) != Some(by) {
            return;
        }
        let name = about.name.clone();
        members.lose(node);
        controller.lose_node(node, &name, self.now_ms);
        self.act(Action::Log(super::JobEvent::node(self.wall_ms, "node-lost", &name)));
        self.act(Action::Warn(format!("node {name} does not answer any more")));
        self.send_members();
    }

    fn alive(&self) -> Message {
        Message::Alive { controller_silent_ms: self.controller_silent_ms() }
    }

    /// How long nothing has been heard of the controller.
    pub(super) fn controller_silent_ms(&self) -> u64 {
        if self.controller.is_some() { 0 } else { self.now_ms.saturating_sub(self.controller_contact_ms) }
    }

    /// Who has just told us that he lives is told that we do, unless he has been lately.
    pub(super) fn answer_alive(&mut self, id: LinkId) {
        let nearly_ms = self.config.nearly_alive_ms();
        let link = self.links.links.get_mut(&id).filter(|link| link.role != Role::Unidentified);
        if let Some(link) = link.filter(|link| self.now_ms >= link.sent_ms + nearly_ms) {
            link.sent_ms = self.now_ms;
            self.act(Action::Send(id, self.alive()));
        }
    }

    pub(super) fn tick_links(&mut self) {
        let now_ms = self.now_ms;
        let silent: Vec<LinkId> = self
            .links
            .links
            .iter()
            .filter(|(_, link)| now_ms >= link.contact_ms + self.config.lost_ms)
            .map(|(id, _)| *id)
            .collect();
        silent.into_iter().for_each(|link| self.close(link));
        let nearly_ms = self.config.nearly_alive_ms();
        let quiet: Vec<LinkId> = self
            .links
            .links
            .iter_mut()
            .filter(|(_, link)| link.role != Role::Unidentified && now_ms >= link.sent_ms + nearly_ms)
            .map(|(id, link)| {
                link.sent_ms = now_ms;
                *id
            })
            .collect();
        quiet.into_iter().for_each(|link| self.act(Action::Send(link, self.alive())));
        let lost: Vec<NodeId> = self
            .links
            .missing
            .iter()
            .filter(|(_, lost_ms)| now_ms >= **lost_ms)
            .map(|(node, _)| *node)
            .collect();
        for node in lost {
            self.links.missing.remove(&node);
            let member = self.members.as_ref().and_then(|members| members.nodes.get(&node));
            if let (Some(me), Some(member)) = (self.me, member) {
                let incarnation = member.about.incarnation;
                // What does not reach the controller is said again.
                self.await_child(node, self.config.lost_ms);
                self.handle_gone(node, incarnation, me);
            }
        }
        self.dial_if_needed();
    }
}
