//! Links between daemons: what is said on one comes in order and late, or not at all once it has broken or
//! fallen silent.

use tutti_protocol::codec;

use super::{Next, World};
use crate::core::event::Event;
use crate::ids::LinkId;
use crate::message::{MESSAGE_BYTES_MAX, Message};

/// One end of a link.
#[derive(Debug)]
pub(super) struct End {
    pub(super) node: usize,
    incarnation: u64,
    peer: LinkId,
    /// Whether nothing that is said arrives any more.
    silent: bool,
    /// When what was said last arrives.
    last_ms: u64,
}

impl World {
    pub(super) fn dial(&mut self, from: usize, to: usize) {
        let incarnation = self.machines[from].incarnation;
        let is_there = self.machines.get(to).is_some_and(|machine| machine.core.is_some());
        if !is_there || !self.peace && self.random.below(20) == 0 {
            return self.later(50, Next::Core(from, incarnation, None, Event::DialFailed("refused".into())));
        }
        let to_incarnation = self.machines[to].incarnation;
        let (near, far) = (LinkId(self.number()), LinkId(self.number()));
        let last_ms = self.now_ms + 5;
        self.ends.insert(near, End { node: from, incarnation, peer: far, silent: false, last_ms });
        self.ends
            .insert(far, End { node: to, incarnation: to_incarnation, peer: near, silent: false, last_ms });
        self.push(self.now_ms + 2, Next::Core(to, to_incarnation, Some(far), Event::Accepted(far)));
        self.push(self.now_ms + 4, Next::Core(from, incarnation, Some(near), Event::Dialled(near)));
    }

    pub(super) fn send(&mut self, link: LinkId, message: Message) {
        let bytes = codec::encode(&message);
        self.recorded.iter_mut().for_each(|recorded| recorded.note(&message, &bytes));
        if self.events.is_multiple_of(16) {
            let read = codec::decode(&bytes);
            assert!(read.is_ok_and(|read: Message| read == message), "{message:?}");
        }
        assert!(bytes.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes breaks its link", bytes.len());
        let Some(end) = self.ends.get(&link).filter(|end| !end.silent) else { return };
        let (peer, last_ms) = (end.peer, end.last_ms);
        let at_ms = last_ms.max(self.now_ms + 1 + self.random.below(20));
        self.ends.get_mut(&link).unwrap().last_ms = at_ms;
        let Some((to, to_incarnation)) = self.ends.get(&peer).map(|end| (end.node, end.incarnation)) else {
            return;
        };
        self.push(at_ms, Next::Core(to, to_incarnation, Some(peer), Event::Message(peer, message)));
    }

    /// One side lets go: the other hears it, behind what was said.
    pub(super) fn close(&mut self, link: LinkId) {
        let Some(end) = self.ends.remove(&link) else { return };
        if let Some(peer) = self.ends.get(&end.peer).filter(|_| !end.silent) {
            let at_ms = end.last_ms.max(self.now_ms + 1);
            self.push(
                at_ms,
                Next::Core(peer.node, peer.incarnation, Some(end.peer), Event::LinkDown(end.peer)),
            );
        }
    }

    fn any_link(&mut self) -> Option<LinkId> {
        // Nobody can tell one that breaks before it is made.
        let made = self.ends.iter().filter(|(_, end)| end.last_ms < self.now_ms);
        let links: Vec<LinkId> = made.map(|(link, _)| *link).collect();
        (!links.is_empty()).then(|| links[self.random.below(links.len() as u64) as usize])
    }

    pub(in crate::core::sim) fn break_a_link(&mut self) {
        self.troubled = true;
        if let Some(link) = self.any_link() {
            self.break_link(link);
        }
    }

    /// Breaks all links of a node that are made.
    pub(in crate::core::sim) fn break_links_of(&mut self, node: usize) {
        self.troubled = true;
        let made = self.ends.iter().filter(|(_, end)| end.node == node && end.last_ms < self.now_ms);
        let links: Vec<LinkId> = made.map(|(link, _)| *link).collect();
        links.into_iter().for_each(|link| self.break_link(link));
    }

    /// Breaks a link: what is under way is lost.
    fn break_link(&mut self, link: LinkId) {
        let peer = self.ends[&link].peer;
        for link in [link, peer] {
            if let Some(End { node, incarnation, .. }) = self.ends.remove(&link) {
                self.later(30, Next::Core(node, incarnation, None, Event::LinkDown(link)));
            }
        }
    }

    pub(in crate::core::sim) fn silence_a_link(&mut self) {
        self.troubled = true;
        let Some(link) = self.any_link() else { return };
        let peer = self.ends[&link].peer;
        for link in [link, peer] {
            self.ends.get_mut(&link).into_iter().for_each(|end| end.silent = true);
        }
    }
}
