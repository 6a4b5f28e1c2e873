//! Connections between daemons: to the parent, which we dial, and to the children, which dial us.
//!
//! ```text
//! start -> dial the controller -> Hello -> Welcome(number, members) -> the controller is the parent: done
//!                                                             \> close, dial the parent -> Hello(number)
//! parent gone -> dial it again, in turn with the controller, which knows who the parent is now
//! ```
//!
//! Each side says Alive on a link every [`Config::alive_ms`], and at once when the
//! other has said it and its own is nearly due: so both wake up once. The link to who is not heard of for
//! `lost_ms` is closed. A child whose link is closed or breaks has half that time to come back, one that the
//! list hangs here and that has no link yet all of it; then it is lost: it is reported to the controller,
//! which takes it out of the list. A parent is dialled again. A node that finds itself lost in the list asks
//! the controller anew.
//!
//! Alive says also how long ago the controller was heard of: so a node whose parent lives knows when the
//! controller does not. Its jobs on several nodes end [`Config::keep_ms`] after the
//! controller is lost (`parts/lifecycle.rs`).
//!
//! [`Config::alive_ms`]: super::config::Config::alive_ms
//! [`Config::keep_ms`]: super::config::Config::keep_ms

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::action::Action;
use super::config::Loaded;
use super::context::Context;
use super::job_event::JobEvent;
use super::local::LocalNode;
use super::numbers::Numbers;
use super::outbox::{Effect, Outbox};
use crate::gang::Command;
use crate::ids::LinkId;
use crate::members::{About, Members, NodeId};
use crate::message::Message;

/// Between two attempts to reach somebody.
const DIAL_MS: u64 = 200;
/// Time after which it is logged again that somebody is not reached.
const LOG_AGAIN_MS: u64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The other end has not said who it is.
    Unidentified,
    /// Child of ours in the tree.
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
    /// On the controller.
    numbers: Numbers,
}

impl Links {
    /// None yet. `numbers`: those of nodes by name, on the controller.
    pub(super) fn new(numbers: Numbers) -> Self {
        Links { numbers, ..Links::default() }
    }

    pub(super) fn accept(&mut self, link: LinkId, now_ms: u64) {
        self.links.insert(link, Link { role: Role::Unidentified, contact_ms: now_ms, sent_ms: now_ms });
    }

    /// Records that something has come on a link; returns what the link is to us.
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

    /// The links to all neighbours in the tree that have said who they are.
    pub(super) fn neighbours(&self) -> impl Iterator<Item = LinkId> {
        self.upwards().into_iter().chain(self.children().map(|(link, _)| link))
    }

    /// All is as it should be: only silence could change it.
    pub(super) fn is_settled(&self) -> bool {
        self.missing.is_empty() && !self.dialling
    }

    /// When somebody is to be notified that we live, or has been silent for too long.
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

impl Links {
    /// Dials upwards if there is no link and it is time.
    pub(super) fn dial_if_needed(&mut self, cx: Context<'_>) {
        let Some(controller) = cx.local.config.controller else { return };
        let is_early = cx.local.now_ms < self.dialled_ms + DIAL_MS && self.dials > 0;
        if self.up().is_some() || self.dialling || is_early {
            return;
        }
        // In turn: the parent that we know of, and the controller, who knows better if that one is gone.
        // Whom the list says to be lost only the controller takes in again.
        let members = cx.local.members.as_ref();
        let is_in = |me: &NodeId| members.is_some_and(|members| is_member(cx.local, members, *me));
        let parent = cx.local.me.filter(is_in).and_then(|me| members?.parent(me));
        let known =
            parent.and_then(|node| Some((node, cx.local.members.as_ref()?.nodes.get(&node)?.about.control)));
        let (parent, address) = match known {
            Some((node, address)) if self.dials.is_multiple_of(2) || node == NodeId::CONTROLLER => {
                (Some(node), address)
            }
            _ => (None, controller),
        };
        self.dials += 1;
        self.dialling = true;
        self.parent = parent;
        self.address = Some(address);
        cx.out.act(Action::Dial(address));
    }

    /// Tells whoever keeps the machines that there is no way to the others, at once and then each minute.
    pub(super) fn handle_dial_failed(&mut self, cx: Context<'_>, why: &str) {
        self.note_unreached(cx, "does not answer", why);
    }

    /// The daemon that is dialled is of a release that does not speak with ours. A node that has never been
    /// in its cluster ends; one that has keeps its jobs, and tries again: the other one may be replaced.
    pub(super) fn handle_other_release(&mut self, cx: Context<'_>, why: &str) {
        if cx.local.me.or(cx.local.preferred).is_none() {
            let address = self.address.map(|address| address.to_string()).unwrap_or_default();
            return cx.out.act(Action::GiveUp(format!("{address} (--join) is refused: {why}")));
        }
        self.note_unreached(cx, "is refused", why);
    }

    fn note_unreached(&mut self, cx: Context<'_>, what: &str, why: &str) {
        let now_ms = cx.local.now_ms;
        (self.dialling, self.dialled_ms) = (false, now_ms);
        let Some(address) = self.address else { return };
        let (since_ms, sent_ms) = self.unreached_ms.unwrap_or((now_ms, 0));
        let is_first = self.unreached_ms.is_none();
        if !is_first && now_ms < sent_ms + LOG_AGAIN_MS {
            return;
        }
        self.unreached_ms = Some((since_ms, now_ms));
        let parent = if Some(address) == cx.local.config.controller { " (--join)" } else { "" };
        let long =
            if is_first { String::new() } else { format!(", for {} s now", (now_ms - since_ms) / 1000) };
        cx.out.act(Action::Warn(format!("{address}{parent} {what}{long}: {why}; it is tried again")));
    }

    pub(super) fn handle_dialled(&mut self, cx: Context<'_>, link: LinkId) {
        if let (Some((since_ms, _)), Some(address)) = (self.unreached_ms.take(), self.address) {
            let seconds = (cx.local.now_ms - since_ms) / 1000;
            cx.out.act(Action::Info(format!(
                "{address} answers, {seconds} s after the first attempt that failed"
            )));
        }
        self.dialling = false;
        self.dialled_ms = cx.local.now_ms;
        self.links
            .insert(link, Link { role: Role::Up, contact_ms: cx.local.now_ms, sent_ms: cx.local.now_ms });
        // Somebody whom we do not know to be our parent is asked, as by a new node, who that is.
        let asks_controller = self.parent.is_none_or(|parent| parent == NodeId::CONTROLLER);
        let hello = Message::Hello {
            about: cx.local.config.about.clone(),
            node: self.parent.and(cx.local.me),
            preferred: cx.local.me.or(cx.local.preferred),
            known: cx.local.members.clone().filter(|_| asks_controller),
        };
        cx.out.act(Action::Send(link, hello));
        if self.parent.is_some() {
            cx.out.push(Effect::LinkedUp);
        }
        self.open_parent_link(cx, link);
    }

    pub(super) fn handle_link_down(&mut self, cx: Context<'_>, link: LinkId) {
        match self.links.remove(&link).map(|link| link.role) {
            Some(Role::Up) => self.dialled_ms = cx.local.now_ms,
            Some(Role::Child(node)) => self.await_child(cx.local, node, cx.local.config.lost_ms / 2),
            _ => {}
        }
        cx.out.push(Effect::Unlinked(link));
    }

    /// A child of ours without a link is lost if none comes.
    fn await_child(&mut self, local: &LocalNode, node: NodeId, grace_ms: u64) {
        let (Some(me), Some(members)) = (local.me, &local.members) else { return };
        let is_ours = members.is_alive(node) && members.parent(node) == Some(me);
        if is_ours && self.children().all(|(_, child)| child != node) {
            self.missing.entry(node).or_insert(local.now_ms + grace_ms);
        }
    }

    fn close(&mut self, cx: Context<'_>, link: LinkId) {
        cx.out.act(Action::Close(link));
        self.handle_link_down(cx, link);
    }

    pub(super) fn handle_hello(
        &mut self,
        local: &mut LocalNode,
        out: &Outbox,
        link: LinkId,
        about: About,
        (node, preferred): (Option<NodeId>, Option<NodeId>),
        known: Option<Members>,
    ) {
        let member = node.and_then(|node| local.members.as_ref()?.nodes.get(&node));
        let is_same =
            member.is_some_and(|member| member.about.incarnation == about.incarnation && member.alive);
        match node {
            // A child may know of a change before us; what it may not is be somebody else.
            Some(node) if is_same || !local.is_controller() => self.adopt(Context { local, out }, link, node),
            _ => self.admit(local, out, link, about, preferred, known),
        }
    }

    /// The controller takes a node in, and tells it where it belongs.
    fn admit(
        &mut self,
        local: &mut LocalNode,
        out: &Outbox,
        link: LinkId,
        about: About,
        preferred: Option<NodeId>,
        known: Option<Members>,
    ) {
        let is_controller = local.is_controller();
        let Some(members) = local.members.as_mut().filter(|_| is_controller) else {
            // Only the controller takes in: it is asked again there.
            return self.close(Context { local, out }, link);
        };
        known.iter().for_each(|known| members.remember(known));
        if about.name == local.config.about.name {
            let text = format!("the name {:?} is the controller's", about.name);
            return out.act(Action::Send(link, Message::Refused(text)));
        }
        let before = members.nodes.values().find(|member| member.about.name == about.name);
        let is_back = before.is_some();
        let is_new_incarnation = before.is_none_or(|member| member.about.incarnation != about.incarnation);
        let node = self.numbers.choose(members, &about.name, preferred);
        members.admit(node, about.clone());
        if let Some(numbers) = self.numbers.learn(members) {
            out.act(Action::KeepNumbers(numbers));
        }
        if is_new_incarnation {
            // Its starters may live: it says itself what is left of its parts. As an origin it has forgotten
            // everything.
            out.push(Effect::NodeRenewed(node));
        }
        self.missing.remove(&node);
        let welcome = Message::Welcome { node, members: members.clone() };
        let is_child = members.parent(node) == Some(NodeId::CONTROLLER);
        out.act(Action::Send(link, welcome));
        out.act(Action::Log(JobEvent::node(local.wall_ms, "node-up", &about.name)));
        let what = if is_back { "is back" } else { "has joined" };
        out.act(Action::Info(format!("node {} ({}) {what}", about.name, about.control)));
        if is_child {
            self.adopt(Context { local, out }, link, node);
        }
        self.send_members(Context { local, out });
    }

    fn adopt(&mut self, cx: Context<'_>, link: LinkId, node: NodeId) {
        let old: Vec<LinkId> =
            self.children().filter(|(_, child)| *child == node).map(|(old, _)| old).collect();
        for old in old.into_iter().filter(|old| *old != link) {
            self.close(cx, old);
        }
        if let Some(link) = self.links.get_mut(&link) {
            link.role = Role::Child(node);
        }
        self.missing.remove(&node);
        if let Some(members) = cx.local.members.clone() {
            cx.out.act(Action::Send(link, Message::Members(members)));
        }
        cx.out.push(Effect::LinkedDown(link));
        // The switch threads of both ends speak over a link of their own.
        cx.out.act(Action::OpenSwitchLink(link, node, false));
        cx.out.act(Action::Gang(Command::ChildJoined(node)));
    }

    pub(super) fn handle_welcome(
        &mut self,
        local: &mut LocalNode,
        out: &Outbox,
        link: LinkId,
        node: NodeId,
        members: Members,
    ) {
        if local.me != Some(node) {
            if local.me.or(local.preferred).is_some_and(|before| before != node) {
                // A controller without memory has given our number away: what was ours under it nobody asks
                // us for any more.
                out.push(Effect::NumberLost);
            }
            local.me = Some(node);
            out.push(Effect::NumberKnown);
        }
        if members.parent(node) == Some(NodeId::CONTROLLER) {
            self.parent = Some(NodeId::CONTROLLER);
            out.push(Effect::LinkedUp);
            self.open_parent_link(Context { local, out }, link);
        } else {
            self.parent = None;
            self.close(Context { local, out }, link);
            self.dials = 0;
        }
        self.handle_members(local, out, members);
    }

    pub(super) fn handle_members(&mut self, local: &mut LocalNode, out: &Outbox, members: Members) {
        let is_known = local.members.as_ref().is_some_and(|known| known.version >= members.version);
        let Some(me) = local.me.filter(|_| !is_known && !local.is_controller()) else { return };
        // Lost, says the list, or another: the controller takes us in again.
        let is_in = is_member(local, &members, me);
        let parent = members.parent(me).filter(|_| is_in);
        local.members = Some(members);
        self.send_members(Context { local, out });
        if self.parent.is_some() && self.parent != parent {
            if let Some(up) = self.up() {
                self.close(Context { local, out }, up);
            }
            self.parent = None;
            // Zero dials the parent, one the controller.
            self.dials = u64::from(!is_in);
        }
        self.drop_moved_children(Context { local, out });
        self.dial_if_needed(Context { local, out });
    }

    /// Children that the list hangs elsewhere by now find their parent from the list; their links here are
    /// closed.
    fn drop_moved_children(&mut self, cx: Context<'_>) {
        let (Some(me), Some(members)) = (cx.local.me, &cx.local.members) else { return };
        let is_ours = |child: NodeId| members.is_alive(child) && members.parent(child) == Some(me);
        let moved: Vec<LinkId> =
            self.children().filter(|(_, child)| !is_ours(*child)).map(|(link, _)| link).collect();
        self.missing.retain(|child, _| is_ours(*child));
        // They have heard of the change before.
        for link in moved {
            cx.out.act(Action::Close(link));
            self.links.remove(&link);
            cx.out.push(Effect::Unlinked(link));
        }
    }

    fn send_members(&mut self, cx: Context<'_>) {
        let Some(members) = cx.local.members.clone() else { return };
        let children: Vec<LinkId> = self.children().map(|(link, _)| link).collect();
        for link in children {
            cx.out.act(Action::Send(link, Message::Members(members.clone())));
        }
        if cx.local.is_controller() {
            self.drop_moved_children(cx);
        }
        let ours: Vec<NodeId> = cx.local.me.map(|me| members.children(me).collect()).unwrap_or_default();
        ours.into_iter().for_each(|child| self.await_child(cx.local, child, cx.local.config.lost_ms));
        cx.out.push(Effect::MembersChanged);
    }

    /// On the controller: another configuration holds.
    pub(super) fn configure(&mut self, local: &mut LocalNode, out: &Outbox, loaded: &Loaded) {
        if let Some(members) = local.members.as_mut() {
            members.configure(&loaded.text, &loaded.rules);
            self.send_members(Context { local, out });
        }
    }

    fn open_parent_link(&self, cx: Context<'_>, link: LinkId) {
        if let (Some(parent), Some(_)) = (self.parent, cx.local.me) {
            cx.out.act(Action::OpenSwitchLink(link, parent, true));
        }
    }

    /// A node has gone, says its parent.
    pub(super) fn handle_gone(
        &mut self,
        local: &mut LocalNode,
        out: &Outbox,
        node: NodeId,
        incarnation: u64,
        by: NodeId,
    ) {
        if !local.is_controller() {
            if let Some(up) = self.upwards() {
                out.act(Action::Send(up, Message::Gone { node, incarnation, by }));
            }
            return;
        }
        let Some(members) = &mut local.members else { return };
        let found = members.nodes.get(&node).map(|member| (&member.about, member.alive));
        // It may be back since, or hang elsewhere.
        let Some((about, true)) = found else { return };
        if about.incarnation != incarnation || members.parent(node) != Some(by) {
            return;
        }
        let name = about.name.clone();
        members.lose(node);
        out.push(Effect::NodeLost(node, name.clone()));
        out.act(Action::Log(JobEvent::node(local.wall_ms, "node-lost", &name)));
        out.act(Action::Warn(format!("node {name} does not answer any more")));
        self.send_members(Context { local, out });
    }

    /// Tells who has just told us that he lives that we do, unless he has been told lately.
    pub(super) fn answer_alive(&mut self, cx: Context<'_>, id: LinkId) {
        let nearly_ms = cx.local.config.nearly_alive_ms();
        let link = self.links.get_mut(&id).filter(|link| link.role != Role::Unidentified);
        if let Some(link) = link.filter(|link| cx.local.now_ms >= link.sent_ms + nearly_ms) {
            link.sent_ms = cx.local.now_ms;
            cx.out.act(Action::Send(id, alive(cx.local)));
        }
    }

    pub(super) fn tick(&mut self, local: &mut LocalNode, out: &Outbox) {
        let now_ms = local.now_ms;
        let silent: Vec<LinkId> = self
            .links
            .iter()
            .filter(|(_, link)| now_ms >= link.contact_ms + local.config.lost_ms)
            .map(|(id, _)| *id)
            .collect();
        silent.into_iter().for_each(|link| self.close(Context { local, out }, link));
        let nearly_ms = local.config.nearly_alive_ms();
        let quiet: Vec<LinkId> = self
            .links
            .iter_mut()
            .filter(|(_, link)| link.role != Role::Unidentified && now_ms >= link.sent_ms + nearly_ms)
            .map(|(id, link)| {
                link.sent_ms = now_ms;
                *id
            })
            .collect();
        quiet.into_iter().for_each(|link| out.act(Action::Send(link, alive(local))));
        let lost: Vec<NodeId> =
            self.missing.iter().filter(|(_, lost_ms)| now_ms >= **lost_ms).map(|(node, _)| *node).collect();
        for node in lost {
            self.missing.remove(&node);
            let member = local.members.as_ref().and_then(|members| members.nodes.get(&node));
            if let (Some(me), Some(member)) = (local.me, member) {
                let incarnation = member.about.incarnation;
                // What does not reach the controller is said again.
                self.await_child(local, node, local.config.lost_ms);
                self.handle_gone(local, out, node, incarnation, me);
            }
        }
        self.dial_if_needed(Context { local, out });
    }
}

/// By this list we are there, in this incarnation.
fn is_member(local: &LocalNode, members: &Members, me: NodeId) -> bool {
    let member = members.nodes.get(&me);
    member.is_some_and(|member| member.alive && member.about.incarnation == local.config.about.incarnation)
}

fn alive(local: &LocalNode) -> Message {
    Message::Alive { controller_silent_ms: local.controller_silent_ms() }
}
