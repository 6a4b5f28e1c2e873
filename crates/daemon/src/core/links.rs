//! Connections between daemons: to the parent, which we dial, and to the children, which dial us.
//!
//! ```text
//! start -> dial the head -> Hello -> Welcome(number, members) -> the head is the parent: done
//!                                                             \> close, dial the parent -> Hello(number)
//! parent gone -> dial it again, in turn with the head, which knows who the parent is now
//! ```
//!
//! A link that has nothing to say says Alive every second. Who is not heard of for `lost_ms` is lost: a child is reported to the
//! head, which takes it out of the list; a parent is dialled again. A child whose link breaks has half that time to come back.

use std::collections::BTreeMap;

use super::{Action, Core, LinkId};
use crate::members::{About, Members, NodeId};
use crate::message::Message;

/// A link that has nothing to say says so this often.
const ALIVE_MS: u64 = 1000;
/// Between two attempts to reach somebody.
const DIAL_MS: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It has not said who it is.
    Stranger,
    /// One of our children.
    Child(NodeId),
    /// We dialled it.
    Up,
}

#[derive(Debug)]
struct Link {
    role: Role,
    heard_ms: u64,
    said_ms: u64,
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
    /// Children whose link broke, and when they are lost.
    missing: BTreeMap<NodeId, u64>,
}

impl Links {
    pub(super) fn accept(&mut self, link: LinkId, now_ms: u64) {
        self.links.insert(link, Link { role: Role::Stranger, heard_ms: now_ms, said_ms: now_ms });
    }

    pub(super) fn dial_failed(&mut self, now_ms: u64) {
        self.dialling = false;
        self.dialled_ms = now_ms;
    }

    pub(super) fn heard(&mut self, link: LinkId, now_ms: u64) {
        if let Some(link) = self.links.get_mut(&link) {
            link.heard_ms = now_ms;
        }
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

    /// The link upwards, as soon as it leads to our parent.
    pub(super) fn upwards(&self) -> Option<LinkId> {
        self.parent.and_then(|_| self.up())
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
        let Some(head) = self.config.head else { return };
        let links = &mut self.links;
        if links.up().is_some()
            || links.dialling
            || self.now_ms < links.dialled_ms + DIAL_MS && links.dials > 0
        {
            return;
        }
        // In turn: the parent that we know of, and the head, who knows better if that one is gone.
        let parent = self.me.and_then(|me| self.members.as_ref().and_then(|members| members.parent(me)));
        let known =
            parent.and_then(|node| Some((node, self.members.as_ref()?.nodes.get(&node)?.about.control)));
        let (whom, address) = match known {
            Some((node, address)) if links.dials.is_multiple_of(2) || node == NodeId::HEAD => {
                (Some(node), address)
            }
            _ => (None, head),
        };
        links.dials += 1;
        links.dialling = true;
        links.parent = whom;
        self.act(Action::Dial(address));
    }

    pub(super) fn handle_dialled(&mut self, link: LinkId) {
        self.links.dialling = false;
        self.links.dialled_ms = self.now_ms;
        self.links.links.insert(link, Link { role: Role::Up, heard_ms: self.now_ms, said_ms: self.now_ms });
        // Somebody whom we do not know to be our parent is asked, as by a new node, who that is.
        let hello = Message::Hello { about: self.config.about.clone(), node: self.links.parent.and(self.me) };
        self.act(Action::Send(link, hello));
        if self.links.parent.is_some() {
            self.relay.resend_all();
        }
    }

    pub(super) fn handle_link_down(&mut self, link: LinkId) {
        match self.links.links.remove(&link).map(|link| link.role) {
            Some(Role::Up) => self.links.dialled_ms = self.now_ms,
            Some(Role::Child(node)) if self.links.link_to(node).is_none() => {
                self.links.missing.insert(node, self.now_ms + self.config.lost_ms / 2);
            }
            _ => {}
        }
        self.relay.forget_link(link);
    }

    fn close(&mut self, link: LinkId) {
        self.act(Action::Close(link));
        self.handle_link_down(link);
    }

    pub(super) fn handle_hello(&mut self, link: LinkId, about: About, node: Option<NodeId>) {
        let Some(node) = node else { return self.admit(link, about) };
        let known = self.members.as_ref().and_then(|members| members.nodes.get(&node));
        let is_same =
            known.is_some_and(|member| member.about.incarnation == about.incarnation && member.alive);
        // A child may know of a change before us; what it may not is be somebody else.
        if !is_same && self.head.is_some() {
            return self.admit(link, about);
        }
        self.adopt(link, node);
    }

    /// The head takes a node in, and tells it where it belongs.
    fn admit(&mut self, link: LinkId, about: About) {
        let (Some(head), Some(members)) = (&mut self.head, &mut self.members) else {
            // Only the head takes in: it is asked again there.
            return self.close(link);
        };
        let known = members.nodes.iter().find(|(_, member)| member.about.name == about.name);
        let alive = known.filter(|(_, member)| member.alive);
        if let Some((node, member)) = alive.map(|(node, member)| (*node, member.clone())) {
            if node == NodeId::HEAD {
                let text = format!("the name {:?} is the head's", about.name);
                self.act(Action::Send(link, Message::Refused(text)));
                return;
            }
            if member.about.incarnation != about.incarnation {
                members.lose(node);
                head.lose_node(node, &member.about.name, self.now_ms);
            }
        }
        let node = members.admit(about.clone());
        self.links.missing.remove(&node);
        let welcome = Message::Welcome { node, members: members.clone() };
        self.act(Action::Send(link, welcome));
        self.act(Action::Log(super::JobEvent::node(self.now_ms, "node-up", &about.name)));
        let is_child = self.members.as_ref().and_then(|members| members.parent(node)) == Some(NodeId::HEAD);
        if is_child {
            self.adopt(link, node);
        }
        self.tell_members();
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
        self.tell_gang_of_child(node);
    }

    pub(super) fn handle_welcome(&mut self, link: LinkId, node: NodeId, members: Members) {
        self.me = Some(node);
        if members.parent(node) == Some(NodeId::HEAD) {
            self.links.parent = Some(NodeId::HEAD);
            self.relay.resend_all();
        } else {
            self.close(link);
            self.links.dials = 0;
        }
        self.handle_members(members);
    }

    pub(super) fn handle_members(&mut self, members: Members) {
        if self.members.as_ref().is_some_and(|known| known.version >= members.version) || self.head.is_some()
        {
            return;
        }
        let Some(me) = self.me else { return };
        let parent = members.parent(me);
        self.members = Some(members);
        self.tell_members();
        if self.links.parent.is_some() && self.links.parent != parent {
            if let Some(up) = self.links.up() {
                self.close(up);
            }
            self.links.parent = None;
            self.links.dials = 0;
        }
        self.drop_strangers();
        self.dial_if_needed();
    }

    /// Children that the list hangs elsewhere by now find their parent from the list; their links here are closed.
    fn drop_strangers(&mut self) {
        let (Some(me), Some(members)) = (self.me, &self.members) else { return };
        let moved: Vec<LinkId> = self
            .links
            .children()
            .filter(|(_, child)| members.is_alive(*child) && members.parent(*child) != Some(me))
            .map(|(link, _)| link)
            .collect();
        // They hear of the change first.
        for link in moved {
            self.act(Action::Close(link));
            self.links.links.remove(&link);
            self.relay.forget_link(link);
        }
    }

    fn tell_members(&mut self) {
        let Some(members) = self.members.clone() else { return };
        let children: Vec<LinkId> = self.links.children().map(|(link, _)| link).collect();
        for link in children {
            self.act(Action::Send(link, Message::Members(members.clone())));
        }
        self.relay.members_changed();
        self.tell_gang_of_members();
    }

    /// A node has gone, says its parent.
    pub(super) fn handle_gone(&mut self, node: NodeId) {
        if self.head.is_none() {
            if let Some(up) = self.links.upwards() {
                self.act(Action::Send(up, Message::Gone(node)));
            }
            return;
        }
        let (Some(head), Some(members)) = (&mut self.head, &mut self.members) else { return };
        let Some(name) =
            members.nodes.get(&node).filter(|member| member.alive).map(|member| member.about.name.clone())
        else {
            return;
        };
        members.lose(node);
        head.lose_node(node, &name, self.now_ms);
        self.act(Action::Log(super::JobEvent::node(self.now_ms, "node-lost", &name)));
        self.act(Action::Say(format!("node {name} does not answer any more")));
        self.tell_members();
    }

    pub(super) fn tick_links(&mut self) {
        let now_ms = self.now_ms;
        let silent: Vec<LinkId> = self
            .links
            .links
            .iter()
            .filter(|(_, link)| now_ms >= link.heard_ms + self.config.lost_ms)
            .map(|(id, _)| *id)
            .collect();
        silent.into_iter().for_each(|link| self.close(link));
        let quiet: Vec<LinkId> = self
            .links
            .links
            .iter_mut()
            .filter(|(_, link)| link.role != Role::Stranger && now_ms >= link.said_ms + ALIVE_MS)
            .map(|(id, link)| {
                link.said_ms = now_ms;
                *id
            })
            .collect();
        quiet.into_iter().for_each(|link| self.act(Action::Send(link, Message::Alive)));
        let lost: Vec<NodeId> = self
            .links
            .missing
            .iter()
            .filter(|(_, lost_ms)| now_ms >= **lost_ms)
            .map(|(node, _)| *node)
            .collect();
        for node in lost {
            self.links.missing.remove(&node);
            self.handle_gone(node);
        }
        self.dial_if_needed();
    }
}
