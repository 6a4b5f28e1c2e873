//! Boards of the other nodes: each node measures its own line, and lines go over the tree, up and down, so
//! that every node has those of all.
//!
//! Only words that have changed go over a link, and no more than [`BYTES_MAX`] at a time; what has no room
//! goes the next time, in turn. So the traffic of a link is bounded whatever the number of nodes, and lines
//! of very many nodes are older. A line goes on with its age, since nodes have clocks of their own.

use std::collections::BTreeMap;

use tutti_shm::board::{self, Node, Running, WORDS};

use super::action::Action;
use super::context::Context;
use crate::ids::LinkId;
use crate::members::NodeId;
use crate::message::{BoardLine, Message};

/// Bytes of lines in one message, as they travel, at most.
pub(super) const BYTES_MAX: usize = 12 << 10;
/// Bytes of a word with its place, at most; and of what stands before the words of a line.
const WORD_BYTES_MAX: usize = 11;
const LINE_HEAD_BYTES_MAX: usize = 24;

/// Lines of the nodes, and what neighbours know of them.
#[derive(Debug, Default)]
pub(super) struct BoardLines {
    lines: BTreeMap<NodeId, Known>,
    /// Words that the other end of each link has, and the node with which the next lines begin.
    sent: BTreeMap<LinkId, (BTreeMap<NodeId, Words>, u64)>,
}

/// The words of a node's two lines. Places of the second follow those of the first, also as they travel.
type Words = [u64; 2 * WORDS];

#[derive(Clone, Copy, Debug)]
struct Known {
    node: Node,
    running: Running,
    measured_ms: u64,
}

impl Known {
    fn words(&self) -> Words {
        let mut words = [0; 2 * WORDS];
        words[..WORDS].copy_from_slice(&self.node.words());
        words[WORDS..].copy_from_slice(&self.running.words());
        words
    }

    fn of_words(words: Words, measured_ms: u64) -> Self {
        let [first, second] = std::array::from_fn(|line| words.as_chunks::<WORDS>().0[line]);
        Known { node: Node::of_words(first), running: Running::of_words(second), measured_ms }
    }

    fn show(&self, node: NodeId, age_ms: u64) -> Action {
        Action::ShowNode(node, Box::new((self.node, self.running)), age_ms)
    }
}

impl BoardLines {
    /// Our own line was measured: it goes to the neighbours, and so does what has come since the last time.
    pub(super) fn refresh(&mut self, cx: Context<'_>, links: &[LinkId], (node, running): (Node, Running)) {
        let Some(me) = cx.local.me else { return };
        let own = Known {
            node: Node { updated_ns: 0, ..node },
            running: Running { updated_ns: 0, ..running },
            measured_ms: cx.local.now_ms,
        };
        self.lines.insert(me, own);
        self.mark_lost(cx);
        cx.out.act(own.show(me, 0));
        for link in links {
            let lines = self.changes(cx.local.now_ms, *link);
            if !lines.is_empty() {
                cx.out.act(Action::Send(*link, Message::Board(lines)));
            }
        }
        self.sent.retain(|link, _| links.contains(link));
    }

    /// Marks nodes on the board as lost that are so by the list.
    fn mark_lost(&mut self, cx: Context<'_>) {
        let Some(members) = &cx.local.members else { return };
        for (node, known) in &mut self.lines {
            if !members.is_alive(*node) && known.node.state == board::NODE_UP {
                (known.node.state, known.running) = (board::NODE_LOST, Running::default());
                cx.out.act(known.show(*node, cx.local.now_ms - known.measured_ms));
            }
        }
    }

    /// Lines that a neighbour does not know yet, in turn.
    fn changes(&mut self, now_ms: u64, link: LinkId) -> Vec<BoardLine> {
        let (known_there, next) = self.sent.entry(link).or_default();
        let in_turn =
            self.lines.range(NodeId(*next as u32)..).chain(self.lines.range(..NodeId(*next as u32)));
        let (mut lines, mut bytes) = (Vec::new(), 0);
        for (node, known) in in_turn {
            let before = known_there.get(node).copied().unwrap_or_default();
            let changed = known.words().into_iter().zip(before).enumerate();
            let words: Vec<(u8, u64)> = changed
                .filter(|(_, (now, before))| now != before)
                .map(|(place, (now, _))| (place as u8, now))
                .collect();
            if words.is_empty() {
                continue;
            }
            bytes += LINE_HEAD_BYTES_MAX + words.len() * WORD_BYTES_MAX;
            if bytes > BYTES_MAX {
                *next = u64::from(node.0);
                break;
            }
            known_there.insert(*node, known.words());
            lines.push(BoardLine { node: *node, age_ms: now_ms - known.measured_ms.min(now_ms), words });
        }
        lines
    }

    /// A neighbour knows more.
    pub(super) fn handle_lines(&mut self, cx: Context<'_>, link: LinkId, lines: Vec<BoardLine>) {
        for line in lines {
            let is_member =
                cx.local.members.as_ref().is_some_and(|members| members.nodes.contains_key(&line.node));
            if cx.local.me == Some(line.node) || !is_member {
                continue;
            }
            let mut words = self.lines.get(&line.node).map_or([0; 2 * WORDS], Known::words);
            for (place, value) in line.words {
                // The first word of each line is its time.
                let place = usize::from(place);
                if let Some(word) = words.get_mut(place).filter(|_| !place.is_multiple_of(WORDS)) {
                    *word = value;
                }
            }
            let known = Known::of_words(words, cx.local.now_ms.saturating_sub(line.age_ms));
            self.lines.insert(line.node, known);
            // It does not go back to where it came from.
            self.sent.entry(link).or_default().0.insert(line.node, words);
            cx.out.act(known.show(line.node, line.age_ms));
        }
    }

    /// Forgets what the other end of a link knew: behind a new link nothing is known.
    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.sent.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(node: u32, value: u64) -> (NodeId, Known) {
        (NodeId(node), Known::of_words([value; 2 * WORDS], 10))
    }

    #[test]
    fn board_lines_go_once_and_in_turn() {
        let mut lines =
            BoardLines { lines: (0..500).map(|node| known(node, 7)).collect(), ..BoardLines::default() };
        let link = LinkId(1);
        let mut seen = Vec::new();
        while seen.len() < 500 {
            let sent = lines.changes(20, link);
            let bytes: usize =
                sent.iter().map(|line| LINE_HEAD_BYTES_MAX + line.words.len() * WORD_BYTES_MAX).sum();
            assert!(bytes <= BYTES_MAX && !sent.is_empty(), "{bytes} bytes, {} of 500", seen.len());
            let encoded = tutti_protocol::codec::encode(&Message::Board(sent.clone()));
            assert!(encoded.len() <= BYTES_MAX, "the bound is one: {}", encoded.len());
            seen.extend(sent.iter().map(|line| line.node));
            // The first one changes all the time, and keeps nobody from his turn.
            lines.lines.extend([known(0, 8 + seen.len() as u64)]);
        }
        assert!((1..500).all(|node| seen.iter().filter(|seen| seen.0 == node).count() == 1));
        let rest = lines.changes(20, link);
        assert!(rest.iter().all(|line| line.node == NodeId(0) && line.age_ms == 10));
        assert!(lines.changes(20, link).is_empty(), "nothing has changed");
        assert!(!lines.changes(20, LinkId(2)).is_empty(), "another neighbour knows nothing");
    }

    /// With the default refresh of 250 ms, and all words of 64 nodes new each time.
    #[test]
    fn board_lines_of_64_nodes_fit_a_link() {
        const REFRESHES: u64 = 100;
        const REFRESHES_IN_S: usize = 4;
        let (mut lines, link) = (BoardLines::default(), LinkId(1));
        let (mut bytes, mut last) = (0, [0; 64]);
        for refresh in 1..=REFRESHES {
            lines.lines.extend((0..64).map(|node| known(node, u64::MAX - refresh)));
            let sent = lines.changes(20, link);
            for line in &sent {
                last[line.node.0 as usize] = refresh;
            }
            let message = tutti_protocol::codec::encode(&Message::Board(sent));
            bytes += message.len();
            let oldest = last.iter().min().expect("there are 64");
            assert!(refresh < 4 || refresh - oldest <= 3, "a line is {} refreshes old", refresh - oldest);
        }
        let in_s = bytes * REFRESHES_IN_S / REFRESHES as usize;
        assert!(in_s < 100_000, "{in_s} bytes in a second");
    }
}
