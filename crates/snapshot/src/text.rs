//! A snapshot for people.

use std::fmt::Write as _;

use tutti_os::stderr::escape_control;

use super::flight::{InFlight, Place};
use super::waits::communicator;
use crate::state::{BulkIn, Doing, Message, RankView, Snapshot};
use crate::termination::has_terminated;

/// Messages that are listed one by one between the same two ranks; the others are counted.
const LISTED_MAX: usize = 8;

/// Kind of a message, and where its data are.
fn whereabouts(message: &Message) -> String {
    let Message { kind, from, .. } = message;
    match kind.as_str() {
        "stream" => format!("{kind}, what follows of its data is still with rank {from}"),
        "announce" | "write" => format!("{kind}, its data are still with rank {from}"),
        _ => escape_control(kind),
    }
}

/// "3.2 of 16.0 MiB".
fn of_bytes(part: u64, whole: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| whole >= *unit) {
        Some((unit, name)) => {
            // Cut off, not rounded: what has not arrived is not counted as arrived.
            let tenths = |bytes: u64| (u128::from(bytes) * 10 / unit as u128) as u64;
            let text = |bytes| format!("{}.{}", tenths(bytes) / 10, tenths(bytes) % 10);
            format!("{} of {} {name}", text(part), text(whole))
        }
        None => format!("{part} of {whole} bytes"),
    }
}

/// "1 node", "2 nodes".
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl Snapshot {
    /// Everything, readably.
    pub fn text(&self) -> String {
        let mut text = format!(
            "job {}: {} on {}, {}\n",
            self.job,
            counted(self.ranks, "rank"),
            counted(self.nodes.len() as u64, "node"),
            escape_control(&self.command)
        );
        for node in &self.nodes {
            if let Some(trouble) = &node.trouble {
                let _ = writeln!(text, "node {}: {}", node.node, escape_control(trouble));
            }
        }
        let found = self.deadlock();
        self.put_ranks(&mut text);
        self.put_graph(found.as_ref(), &mut text);
        self.put_messages(&mut text);
        match found {
            Some(found) if has_terminated(self, &found) => {
                text.push_str("terminated: all ranks wait for whatever comes, and nothing is under way\n");
            }
            Some(found) => {
                let _ = writeln!(text, "deadlock of {} ranks: {}", found.ranks.len(), found.sentence());
            }
            None => text.push_str("no deadlock\n"),
        }
        text
    }

    fn put_ranks(&self, text: &mut String) {
        let ranks: Vec<&RankView> = self.nodes.iter().flat_map(|node| &node.ranks).collect();
        if !ranks.is_empty() && ranks.iter().all(|view| view.doing == Doing::Elsewhere) {
            text.push_str(
                "no rank uses Tutti's library: the messages of another MPI are in its own memory and in \
                 sockets of the kernel, and cannot be seen\n",
            );
            return;
        }
        for view in ranks {
            let doing = match &view.doing {
                Doing::Elsewhere => "is not in Tutti's library".into(),
                Doing::Runs => "runs".into(),
                Doing::HasLeft => "has left MPI_Finalize".into(),
                Doing::Waits { call, any, more, unasked, .. } => {
                    let call =
                        call.as_ref().map_or_else(String::new, |call| format!("{}: ", escape_control(call)));
                    let held = if *unasked > 0 {
                        format!(
                            "; holds {unasked} message{} that no receive has asked for",
                            if *unasked == 1 { "" } else { "s" }
                        )
                    } else {
                        String::new()
                    };
                    call + &super::waits::sentence(any, *more) + &held
                }
            };
            let _ = writeln!(text, "  rank {}  {doing}", view.rank);
        }
    }

    /// Writes the messages that ranks have taken and no receive has asked for, and the ranks of which that is
    /// not known.
    fn put_held(&self, text: &mut String) {
        let held: Vec<&Message> = self.nodes.iter().flat_map(|node| &node.held).collect();
        if !held.is_empty() {
            let bytes: u64 = held.iter().fold(0, |sum, message| sum.saturating_add(message.bytes));
            let count = held.len();
            let _ =
                writeln!(text, "arrived, and no receive has asked for them: {count} messages, {bytes} bytes");
            put_list(held.into_iter().map(|message| (message, "")), text);
        }
        let omitted: u64 = self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.held_omitted));
        if omitted > 0 {
            let _ = writeln!(
                text,
                "{omitted} messages that have arrived are not listed: there was no room for them"
            );
        }
        for view in self.nodes.iter().flat_map(|node| &node.ranks) {
            if let Some(why) = &view.unread {
                let _ = writeln!(
                    text,
                    "not all that has arrived at rank {} is listed: {}",
                    view.rank,
                    escape_control(why)
                );
            }
            if view.taking {
                let rank = view.rank;
                let _ = writeln!(
                    text,
                    "rank {rank} was stopped inside a call, where it may have been taking a message: one to it may be missing or \
                     listed twice"
                );
            }
        }
    }

    fn put_messages(&self, text: &mut String) {
        let (found, troubles) = self.in_flight();
        let messages: Vec<&InFlight<'_>> = found.iter().filter(|one| one.message.is_message()).collect();
        let bytes: u64 = messages.iter().fold(0, |sum, one| sum.saturating_add(one.message.bytes));
        let _ = writeln!(text, "messages in flight: {}, {bytes} bytes", messages.len());
        let place = |one: &&InFlight<'_>| match one.place {
            Place::Ring => ": in the ring of the two",
            Place::Network => ": kept by the sender, perhaps in the network",
            Place::Queue => ": kept by the sender, not sent yet",
        };
        put_list(messages.iter().map(|one| (one.message, place(one))), text);
        for flow in self.nodes.iter().flat_map(|node| &node.flows) {
            if let Some(BulkIn { bytes, here }) = flow.bulk {
                let come = of_bytes(here, bytes);
                let _ = writeln!(text, "  rank {} -> rank {}  bulk: {come} have arrived", flow.to, flow.from);
            }
        }
        let control = found.len() - messages.len();
        if control > 0 {
            let _ = writeln!(text, "answers and parts of messages in flight: {control}");
        }
        let omitted: u64 = self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.omitted));
        if omitted > 0 {
            let _ = writeln!(text, "{omitted} messages are not listed: there was no room for them");
        }
        let flows: u64 = self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.flows_omitted));
        if flows > 0 {
            let _ = writeln!(
                text,
                "{flows} flows to ranks of other nodes are not listed: there was no room for them, and what is in flight between these \
                 ranks is not known"
            );
        }
        self.put_held(text);
        for trouble in troubles {
            let _ = writeln!(text, "does not fit together: {trouble}");
        }
    }
}

/// A line for each of these messages with their places; of many between two ranks how many more there are.
fn put_list<'a>(messages: impl Iterator<Item = (&'a Message, &'static str)>, text: &mut String) {
    let pair = |message: &Message| (message.from, message.to);
    let mut messages = messages.peekable();
    let mut listed = 0;
    while let Some((m, place)) = messages.next() {
        listed += 1;
        if listed <= LISTED_MAX {
            let _ = writeln!(
                text,
                "  rank {} -> rank {}  tag {}, {}, {} bytes, {}{place}",
                m.from,
                m.to,
                m.tag,
                communicator(m.context),
                m.bytes,
                whereabouts(m)
            );
        }
        if messages.peek().is_none_or(|(next, _)| pair(next) != pair(m)) {
            if listed > LISTED_MAX {
                let _ = writeln!(text, "  and {} more", listed - LISTED_MAX);
            }
            listed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Alternative, View, Wait, What};

    /// Names in it are hostile, as in a forged file.
    fn hostile() -> Snapshot {
        let name = || "\u{1b}[2J\nno deadlock\u{9b}1m".to_owned();
        let message = |from, to| Message { from, to, kind: name(), context: 0, tag: 0, bytes: 0, data: None };
        let wait = Wait {
            what: What::Receive,
            matched: false,
            peer: Some(1),
            tag: Some(7),
            context: 0,
            bytes: 4,
            moved: 0,
        };
        let any = vec![Alternative { all: vec![wait], more: false }];
        let doing = Doing::Waits {
            call: Some(name()),
            any,
            background: Vec::new(),
            more: false,
            signals: false,
            armed: false,
            sure: true,
            unasked: 0,
        };
        let view = View {
            trouble: Some(name()),
            ranks: vec![RankView { rank: 0, pid: 1, doing, taking: true, unread: Some(name()) }],
            rings: vec![message(0, 1)],
            held: vec![message(1, 0)],
            ..View::default()
        };
        Snapshot { job: 1, command: name(), ranks: 2, taken_ms: 0, room: None, nodes: vec![view] }
    }

    #[test]
    fn snapshot_text_escapes_names() {
        for text in [hostile().text(), hostile().dot()] {
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
            assert!(text.lines().all(|line| !line.starts_with("no deadlock\\u{9b}")), "{text}");
        }
        assert!(hostile().text().starts_with("job 1: 2 ranks on 1 node, \\u{1b}[2J\\nno deadlock"));
    }

    #[test]
    fn snapshot_text_names_missing_flows() {
        let nodes = vec![View { flows_omitted: 3, ..View::default() }];
        let text = Snapshot { nodes, ..hostile() }.text();
        assert!(text.contains("\n3 flows to ranks of other nodes are not listed: "), "{text}");
    }

    #[test]
    fn snapshot_text_never_overstates_arrived_bytes() {
        assert_eq!(of_bytes(3_355_443, 16 << 20), "3.1 of 16.0 MiB");
        assert_eq!(of_bytes((16 << 20) - 1, 16 << 20), "15.9 of 16.0 MiB");
        assert_eq!(of_bytes(0, 65_537), "0.0 of 64.0 KiB");
        assert_eq!(of_bytes(7, 900), "7 of 900 bytes");
        assert_eq!(of_bytes(1 << 62, u64::MAX), "4294967296.0 of 17179869183.9 GiB");
    }
}
