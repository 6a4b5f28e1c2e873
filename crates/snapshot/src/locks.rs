//! Locks of windows at ranks of other nodes, and of shared memory, as the search for deadlocks sees them.
//!
//! The rank whose memory is locked has a place in the queue for each rank of another node, and says so in its
//! background ([`What::Place`], [`What::Held`]). Who waits names that rank ([`What::Lock`]), which does not
//! hold the lock. Here such a wait becomes one for those who have to give the lock back. Where that is not
//! known the wait may end.

use std::collections::BTreeMap;

use crate::state::{Alternative, Doing, Wait, What};

/// Activities of ranks; none: anything.
type DoingOf<'a> = BTreeMap<u32, Option<&'a Doing>>;

/// An alternative of the background that is a place in a queue: it helps nobody by itself.
pub(crate) fn is_place(one: &Alternative) -> bool {
    one.all.first().is_some_and(|wait| matches!(wait.what, What::Place | What::Held))
}

/// The ranks that wait for such a lock, with waits for who has it instead.
pub(crate) fn granted(doing: &DoingOf<'_>) -> BTreeMap<u32, Doing> {
    let waiting = doing.iter().filter_map(|(rank, does)| Some((*rank, (*does)?)));
    let resolved = waiting.filter_map(|(rank, does)| {
        let Doing::Waits { any, .. } = does else { return None };
        let mut waits = any.iter().flat_map(|one| &one.all);
        if !waits.any(|wait| matches!(wait.what, What::Lock | What::SharedLock)) {
            return None;
        }
        let mut does = does.clone();
        let Doing::Waits { any, .. } = &mut does else { return None };
        for one in any {
            let all = std::mem::take(&mut one.all);
            one.all = all.into_iter().flat_map(|wait| holders(rank, wait, doing)).collect();
        }
        Some((rank, does))
    });
    resolved.collect()
}

/// The waits that one is made of.
fn holders(rank: u32, wait: Wait, doing: &DoingOf<'_>) -> Vec<Wait> {
    if wait.what == What::SharedLock {
        return vec![holder(rank, &wait, doing)];
    }
    if wait.what != What::Lock {
        return vec![wait];
    }
    let keeper = wait.peer.and_then(|keeper| *doing.get(&keeper)?);
    // A keeper that may do anything may have granted the lock already.
    let Some(Doing::Waits { background, sure: true, .. }) = keeper else { return vec![unknown(&wait)] };
    let for_rank = |rank: Option<u32>| Wait { what: What::Window, peer: rank, tag: None, bytes: 0, ..wait };
    let places = background.iter().filter(|one| is_place(one)).flat_map(|one| &one.all);
    let found: Vec<Wait> = match wait.tag {
        // The rank's own place.
        None => places
            .filter(|place| place.what == What::Place && place.moved == u64::from(rank))
            .map(|place| if place.matched { unknown(&wait) } else { for_rank(place.peer) })
            .collect(),
        // One that is named.
        Some(_) => {
            let is_it = |place: &&Wait| (place.tag, place.bytes) == (wait.tag, wait.bytes);
            let is_whole = !background.iter().any(|one| one.all.is_empty());
            match places.clone().find(is_it) {
                Some(place) if place.matched => vec![unknown(&wait)],
                Some(place) => vec![for_rank(u32::try_from(place.moved).ok())],
                // It is the keeper's own.
                None if is_whole => vec![for_rank(wait.peer)],
                None => Vec::new(),
            }
        }
    };
    if found.is_empty() { vec![unknown(&wait)] } else { found }
}

/// Ranks that are asked for who holds a lock of shared memory: the deputy of a node, the keeper, and the
/// deputy of another node.
const ASKED_MAX: usize = 3;

/// The wait for who holds a lock of shared memory that a rank waits for. One that is asked names the holder,
/// or a rank in whose queue it has a place itself (bytes of 1).
fn holder(rank: u32, wait: &Wait, doing: &DoingOf<'_>) -> Wait {
    let (mut asker, mut asked) = (rank, wait.peer);
    for _ in 0..ASKED_MAX {
        let does = asked.and_then(|asked| *doing.get(&asked)?);
        let Some(Doing::Waits { background, sure: true, .. }) = does else { break };
        let mut places = background.iter().filter(|one| is_place(one)).flat_map(|one| &one.all);
        let place = places.find(|place| place.moved == u64::from(asker) && place.tag == wait.tag);
        match place.map(|place| (place.peer, place.bytes)) {
            Some((Some(holder), 0)) => {
                return Wait { what: What::SharedHolder, peer: Some(holder), ..wait.clone() };
            }
            Some((Some(next), _)) => (asker, asked) = (asked.unwrap_or(asker), Some(next)),
            _ => break,
        }
    }
    unknown(wait)
}

/// One that may end.
fn unknown(wait: &Wait) -> Wait {
    Wait { what: What::Other, peer: None, tag: None, ..wait.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{RankView, Snapshot, View};

    fn wait(what: What, peer: Option<u32>) -> Wait {
        Wait { what, matched: false, peer, tag: None, context: 0, bytes: 0, moved: 0 }
    }

    fn place(what: What, number: u64, from: u32, peer: Option<u32>) -> Alternative {
        let wait = Wait { tag: Some(3), bytes: number, moved: from.into(), ..wait(what, peer) };
        Alternative { all: vec![wait], more: false }
    }

    fn rank(rank: u32, waits: &[Wait], places: &[Alternative], sure: bool) -> View {
        let any = vec![Alternative { all: waits.to_vec(), more: false }];
        let background = places.to_vec();
        let doing = Doing::Waits {
            call: None,
            any,
            background,
            more: false,
            signals: false,
            armed: false,
            sure,
            unasked: 0,
        };
        View { ranks: vec![RankView { rank, pid: 1, doing, taking: false, unread: None }], ..View::default() }
    }

    fn arrows(nodes: Vec<View>) -> Option<String> {
        let ranks = nodes.len() as u64;
        let snapshot = Snapshot { job: 1, command: String::new(), ranks, taken_ms: 0, room: None, nodes };
        snapshot.deadlock().map(|found| found.arrows().unwrap_or_default())
    }

    #[test]
    fn lock_of_shared_memory_is_a_wait_for_who_holds_it() {
        let lock = Wait { tag: Some(3), ..wait(What::SharedLock, Some(2)) };
        let place = Wait { tag: Some(3), moved: 0, ..wait(What::Place, Some(1)) };
        let place = Alternative { all: vec![place], more: false };
        let keeper = |sure| rank(2, &[wait(What::Barrier, None)], std::slice::from_ref(&place), sure);
        for (sure, expected) in [(true, (What::SharedHolder, Some(1))), (false, (What::Other, None))] {
            let views = [rank(0, std::slice::from_ref(&lock), &[], true), keeper(sure)];
            let ranks = views.iter().flat_map(|view| &view.ranks);
            let doing: DoingOf<'_> = ranks.map(|rank| (rank.rank, Some(&rank.doing))).collect();
            let granted = granted(&doing);
            let Some(Doing::Waits { any, .. }) = granted.get(&0) else { panic!("{granted:?}") };
            assert_eq!((any[0].all[0].what, any[0].all[0].peer), expected);
        }
    }

    #[test]
    fn lock_of_shared_memory_that_another_node_has_leads_to_its_holder_there() {
        let lock = Wait { tag: Some(3), ..wait(What::SharedLock, Some(1)) };
        let place = |moved, peer, bytes| {
            let wait = Wait { tag: Some(3), moved, bytes, ..wait(What::Place, Some(peer)) };
            Alternative { all: vec![wait], more: false }
        };
        // Rank 0 asks deputy 1, which asks keeper 2, which has lent it to deputy 3, where rank 4 holds it.
        let lent = [place(0, 2, 1), place(1, 3, 1), place(2, 4, 0)];
        let barrier = wait(What::Barrier, None);
        for (is_known, expected) in [(true, (What::SharedHolder, Some(4))), (false, (What::Other, None))] {
            let mut views = vec![rank(0, std::slice::from_ref(&lock), &[], true)];
            let sure = |asked: u32| asked != 3 || is_known;
            views.extend((1..4).map(|asked| {
                let places = std::slice::from_ref(&lent[asked as usize - 1]);
                rank(asked, std::slice::from_ref(&barrier), places, sure(asked))
            }));
            let ranks = views.iter().flat_map(|view| &view.ranks);
            let doing: DoingOf<'_> = ranks.map(|rank| (rank.rank, Some(&rank.doing))).collect();
            let granted = granted(&doing);
            let Some(Doing::Waits { any, .. }) = granted.get(&0) else { panic!("{granted:?}") };
            assert_eq!((any[0].all[0].what, any[0].all[0].peer), expected);
        }
    }

    #[test]
    fn deadlock_of_a_lock_leads_to_the_rank_that_holds_it() {
        let lock = wait(What::Lock, Some(2));
        let queue = [place(What::Held, 0, 1, None), place(What::Place, 1, 0, Some(1))];
        let keeper = |waits: Wait, sure| rank(2, &[waits], &queue, sure);
        let receive = |peer| wait(What::Receive, Some(peer));
        let holder = || rank(1, &[receive(0)], &[], true);
        let cycle = Some("rank 0 -> rank 1 -> rank 0".into());
        let waits = || rank(0, std::slice::from_ref(&lock), &[], true);
        assert_eq!(arrows(vec![waits(), holder(), keeper(receive(0), true)]), cycle);
        assert_eq!(
            arrows(vec![waits(), holder(), keeper(wait(What::Other, None), true)]),
            cycle,
            "keeps out"
        );
        assert_eq!(arrows(vec![waits(), holder(), keeper(receive(0), false)]), None, "it owes the grant");
        let other = rank(1, &[wait(What::Other, None)], &[], true);
        assert_eq!(arrows(vec![waits(), other, keeper(receive(0), true)]), None, "the holder goes on");
        let mut unknown = queue.clone();
        unknown[1].all[0] = Wait { matched: true, peer: None, ..unknown[1].all[0].clone() };
        assert_eq!(arrows(vec![waits(), holder(), rank(2, &[receive(0)], &unknown, true)]), None);
        assert_eq!(arrows(vec![waits(), holder(), rank(2, &[receive(0)], &queue[..1], true)]), None);
    }

    #[test]
    fn deadlock_of_a_mate_leads_to_the_rank_whose_place_is_before_it() {
        let named = |number| Wait { tag: Some(3), bytes: number, ..wait(What::Lock, Some(2)) };
        let queue = [place(What::Held, 4, 1, None)];
        let receive = |peer| wait(What::Receive, Some(peer));
        let ring = |number, queue: &[Alternative]| {
            arrows(vec![
                rank(0, &[named(number)], &[], true),
                rank(1, &[receive(0)], &[], true),
                rank(2, &[receive(0)], queue, true),
            ])
        };
        assert_eq!(ring(4, &queue).as_deref(), Some("rank 0 -> rank 1 -> rank 0"));
        assert_eq!(ring(5, &queue).as_deref(), Some("rank 0 -> rank 2 -> rank 0"), "the keeper's own");
        let more = Alternative { all: Vec::new(), more: true };
        assert_eq!(ring(5, &[queue[0].clone(), more]), None, "it may be one that has no room");
    }
}
