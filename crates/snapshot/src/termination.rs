//! Global termination (SCore-D, state detection from saved contexts): a message-driven job whose ranks all
//! wait, and that nothing can wake, has done what it had to do. It looks like a deadlock; what tells them
//! apart is that each rank has said that it waits for whatever comes.

use crate::deadlock::Deadlock;
use crate::state::{Alternative, Doing, Snapshot, Wait, What};

/// Whether the deadlock that was found in a snapshot is a termination: all ranks that have not left are in
/// it, are armed, have asked for all that has arrived, and wait for whatever comes.
pub fn has_terminated(snapshot: &Snapshot, found: &Deadlock) -> bool {
    let mut views = snapshot.nodes.iter().flat_map(|node| &node.ranks);
    views.all(|view| match &view.doing {
        Doing::HasLeft => true,
        Doing::Waits { any, more: false, armed: true, unasked: 0, .. } => {
            found.ranks.binary_search(&view.rank).is_ok() && is_for_whatever_comes(any)
        }
        _ => false,
    })
}

/// A wait for a message of any rank, for one of several messages, or for a word; not one for a certain rank,
/// a collective operation, a lock, a send.
fn is_for_whatever_comes(any: &[Alternative]) -> bool {
    let is_open = |wait: &Wait| match wait.what {
        What::Word => true,
        What::Receive | What::Probe => wait.peer.is_none() || any.len() > 1,
        _ => false,
    };
    let is_driven = |one: &Alternative| matches!(&one.all[..], [wait] if !one.more && is_open(wait));
    !any.is_empty() && any.iter().all(is_driven)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{RankView, View};

    fn wait(what: What, peer: Option<u32>) -> Alternative {
        let wait = Wait { what, matched: false, peer, tag: None, context: 0, bytes: 4, moved: 0 };
        Alternative { all: vec![wait], more: false }
    }

    fn waits(any: Vec<Alternative>, armed: bool) -> Doing {
        let (call, background) = (None, Vec::new());
        Doing::Waits { call, any, background, more: false, sure: true, signals: false, armed, unasked: 0 }
    }

    /// A deadlock in the snapshot of ranks that do this, and whether it is a termination.
    fn judged(doing: impl IntoIterator<Item = Doing>) -> Option<bool> {
        let view = |(rank, doing)| RankView { rank, pid: 1, doing, taking: false, unread: None };
        let ranks: Vec<RankView> = (0..).zip(doing).map(view).collect();
        let number = ranks.len() as u64;
        let nodes = vec![View { ranks, ..View::default() }];
        let snapshot =
            Snapshot { job: 1, command: "a".into(), ranks: number, taken_ms: 0, room: None, nodes };
        snapshot.deadlock().map(|found| has_terminated(&snapshot, &found))
    }

    #[test]
    fn termination_needs_all_ranks_armed() {
        let any = || wait(What::Receive, None);
        let both = |first, second| judged([waits(vec![any()], first), waits(vec![any()], second)]);
        assert_eq!(both(true, true), Some(true));
        assert_eq!(both(true, false), Some(false));
        assert_eq!(both(false, false), Some(false));
        assert_eq!(judged([waits(vec![any()], true), Doing::HasLeft]), Some(true));
        assert_eq!(judged([waits(vec![any()], true), Doing::Runs]), None);
    }

    #[test]
    fn termination_needs_waits_for_whatever_comes() {
        let with =
            |other: Vec<Alternative>| judged([waits(vec![wait(What::Word, None)], true), waits(other, true)]);
        let of_each = || vec![wait(What::Receive, Some(0)), wait(What::Receive, Some(1))];
        assert_eq!(with(vec![wait(What::Word, None)]), Some(true));
        assert_eq!(with(vec![wait(What::Probe, None)]), Some(true));
        assert_eq!(with(of_each()), Some(true), "any of several");
        assert_eq!(with(vec![wait(What::Receive, Some(0))]), Some(false), "a certain rank");
        let both = Alternative { all: of_each().into_iter().flat_map(|one| one.all).collect(), more: false };
        assert_eq!(with(vec![both]), Some(false), "all of several");
        assert_eq!(with(vec![wait(What::Member, Some(0))]), Some(false), "a collective call");
        assert_eq!(with(vec![wait(What::Send, Some(0)), wait(What::Receive, None)]), Some(false));
    }
}
