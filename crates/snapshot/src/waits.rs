//! Waits of ranks, in words.

use std::fmt::Write as _;

use tutti_shm::envelope::CONTEXTS_PER_COMM;

use crate::state::{Alternative, Wait, What};

/// "rank 3", or "ranks 1-3, 5".
pub(super) fn named(ranks: &[u32]) -> String {
    let mut text = String::from(if ranks.len() == 1 { "rank " } else { "ranks " });
    for (at, run) in ranks.chunk_by(|one, next| one.checked_add(1) == Some(*next)).enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            [] => Ok(()),
        };
    }
    text
}

/// Name of a context's communicator: names that a program has given are known to its ranks only.
pub(crate) fn communicator(context: u32) -> String {
    let suffix = match context % CONTEXTS_PER_COMM {
        0 => "",
        1 => " (collective)",
        5 => " (partitions)",
        _ => " (internal)",
    };
    match context / CONTEXTS_PER_COMM {
        0 => format!("MPI_COMM_WORLD{suffix}"),
        1 => format!("MPI_COMM_SELF{suffix}"),
        number => format!("communicator {number:#x}{suffix}"),
    }
}

/// Alternatives, and parts of one, that a sentence names.
const NAMED_MAX: usize = 4;

impl Wait {
    /// "receives from rank 1, tag 7, MPI_COMM_WORLD".
    pub fn sentence(&self) -> String {
        let Wait { what, peer, tag, context, .. } = self;
        let rank = peer.map_or_else(|| "any rank".into(), |peer| format!("rank {peer}"));
        let with = match tag {
            Some(tag) => format!(", tag {tag}, {}", communicator(*context)),
            None => format!(", any tag, {}", communicator(*context)),
        };
        let number = tag.unwrap_or_default();
        let text = match what {
            What::Receive => format!("receives from {rank}{with}"),
            What::Send => format!("sends to {rank}{with}"),
            What::Probe => format!("probes for a message from {rank}{with}"),
            What::Member => in_a_collective_call(&rank, *context),
            What::Window => format!("waits for {rank} to post, complete or unlock a window"),
            What::Lock => format!("waits for a lock of a window that {rank} grants"),
            What::Place | What::Held => "has a place in the queue of a lock for another rank".into(),
            What::Word => "waits for a word of its memory that another rank is to change".into(),
            What::Page => format!("waits for a page of shared memory from {rank}"),
            What::SharedLock => format!("waits for lock {number} of shared memory, which {rank} keeps"),
            What::SharedHolder => format!("waits for lock {number} of shared memory, which {rank} holds"),
            What::Barrier => format!("waits at barrier {number} of shared memory"),
            What::Pause => format!("waits for pause {number} of shared memory to be set"),
            What::Other => "waits for something that is not listed".into(),
        };
        match (self.matched, self.moved) {
            (false, _) => text,
            (true, 0) => text + ", the data are under way",
            (true, moved) => {
                let whither = if *what == What::Send { "left" } else { "arrived" };
                format!("{text}, {moved} of {} bytes have {whither}", self.bytes)
            }
        }
    }
}

fn in_a_collective_call(whom: &str, context: u32) -> String {
    let of_messages = context - context % CONTEXTS_PER_COMM;
    format!("waits for {whom} in a collective call on {}", communicator(of_messages))
}

impl Alternative {
    /// "receives from rank 1, ...", or "waits for ranks 0-2 in a collective call on ..."; none if it takes a
    /// list.
    fn as_one(&self) -> Option<String> {
        match &self.all[..] {
            _ if self.more => None,
            [] => None,
            [one] => Some(one.sentence()),
            [one, ..] => {
                let alike = |wait: &&Wait| {
                    (wait.what, wait.matched, wait.context) == (What::Member, false, one.context)
                };
                let peers: Vec<u32> = self.all.iter().filter(alike).filter_map(|wait| wait.peer).collect();
                (peers.len() == self.all.len()).then(|| in_a_collective_call(&named(&peers), one.context))
            }
        }
    }

    /// "all of: ..., and ...".
    fn all_of(&self) -> String {
        let parts = self.all.iter().map(Wait::sentence).collect();
        format!("all of: {}", listed(parts, self.more, ", and "))
    }
}

/// "receives from rank 1, ...", "waits for all of: ..., and ...", or "waits for any of: ..., or ...".
pub(super) fn sentence(any: &[Alternative], more: bool) -> String {
    match any {
        [] => "waits for something that is not listed".into(),
        [one] if !more => one.as_one().unwrap_or_else(|| format!("waits for {}", one.all_of())),
        _ => {
            let in_brackets =
                |one: &Alternative| one.as_one().unwrap_or_else(|| format!("({})", one.all_of()));
            format!("waits for any of: {}", listed(any.iter().map(in_brackets).collect(), more, ", or "))
        }
    }
}

fn listed(mut parts: Vec<String>, more: bool, between: &str) -> String {
    let others = parts.len().saturating_sub(NAMED_MAX);
    parts.truncate(NAMED_MAX);
    match (others, more) {
        (0, false) => {}
        (0, true) => parts.push("more that is not listed".into()),
        (others, false) => parts.push(format!("{others} more")),
        (others, true) => parts.push(format!("more than {others} more")),
    }
    parts.join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(peer: u32) -> Wait {
        let peer = Some(peer);
        Wait { what: What::Receive, matched: false, peer, tag: Some(7), context: 0, bytes: 4, moved: 0 }
    }

    fn all(peers: std::ops::Range<u32>) -> Alternative {
        Alternative { all: peers.map(receive).collect(), more: false }
    }

    #[test]
    fn snapshot_waits_distinguish_all_of_and_any_of() {
        let text = |any: &[Alternative], more| sentence(any, more).replace(", tag 7, MPI_COMM_WORLD", "");
        assert_eq!(text(&[all(1..2)], false), "receives from rank 1");
        assert_eq!(
            text(&[all(1..3)], false),
            "waits for all of: receives from rank 1, and receives from rank 2"
        );
        assert_eq!(
            text(&[all(1..2), all(2..3)], false),
            "waits for any of: receives from rank 1, or receives from rank 2"
        );
        assert_eq!(
            text(&[all(1..3), all(3..4)], true),
            "waits for any of: (all of: receives from rank 1, and receives from rank 2), or receives from rank 3, or \
             more that is not listed"
        );
        assert!(text(&[all(0..10)], false).ends_with("receives from rank 3, and 6 more"));
        let more = Alternative { more: true, ..all(0..10) };
        assert!(text(&[more], false).ends_with("receives from rank 3, and more than 6 more"));
        assert_eq!(text(&[], true), "waits for something that is not listed");
    }

    #[test]
    fn snapshot_waits_name_missing_members_of_a_collective() {
        let member = |peer| Wait { what: What::Member, tag: None, context: 1, ..receive(peer) };
        let missing =
            |peers: &[u32]| Alternative { all: peers.iter().copied().map(member).collect(), more: false };
        let world = "in a collective call on MPI_COMM_WORLD";
        assert_eq!(sentence(&[missing(&[1])], false), format!("waits for rank 1 {world}"));
        assert_eq!(sentence(&[missing(&[0, 1, 2, 5])], false), format!("waits for ranks 0-2, 5 {world}"));
        assert_eq!(
            sentence(&[missing(&[0, 2]), all(3..4)], false),
            format!(
                "waits for any of: waits for ranks 0, 2 {world}, or receives from rank 3, tag 7, MPI_COMM_WORLD"
            )
        );
        let mut mixed = missing(&[0, 1]);
        mixed.all[1].context = 7;
        assert!(sentence(&[mixed], false).starts_with("waits for all of: waits for rank 0 in"));
    }

    #[test]
    fn snapshot_waits_name_transfers_under_way() {
        let matched = Wait { matched: true, ..receive(1) };
        assert!(matched.sentence().ends_with(", the data are under way"));
        let moved = Wait { moved: 3, ..matched };
        assert!(moved.sentence().ends_with(", 3 of 4 bytes have arrived"));
        let sent = Wait { what: What::Send, ..moved };
        assert!(sent.sentence().ends_with(", 3 of 4 bytes have left"));
    }
}
