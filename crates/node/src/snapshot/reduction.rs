//! Which of several parties that wait for each other can never go on.
//!
//! A party goes on when all waits of any one of its alternatives can end; a wait can end when the one that it is for can go on. So those are let go
//! who run, then those who can go on by them, and so on until nobody more can; who remains waits for ever, whatever the others do.
//!
//! Besides its calls a party may have operations in the background, which go on by themselves and help some waits of others (`any_kind`),
//! but not its own calls.

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The party that can end it; none: any.
    pub peer: Option<usize>,
    /// What goes on in the background there can end it too.
    pub any_kind: bool,
    /// It ends whatever others do.
    pub ends: bool,
}

/// Waits that all must end.
pub(super) type All = Vec<Leaf>;

/// A party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Party {
    /// It may do anything.
    Free,
    /// It does nothing any more.
    Gone,
    /// It waits.
    Waits {
        /// For any of these.
        any: Vec<All>,
        /// What goes on in its background, each when all of it has ended.
        background: Vec<All>,
    },
}

/// Who may go on, by the reduction so far.
#[derive(Clone, Debug)]
struct May {
    calls: Vec<bool>,
    background: Vec<bool>,
}

impl May {
    fn ends(&self, leaf: &Leaf) -> bool {
        let helps = |party: usize| self.calls[party] || leaf.any_kind && self.background[party];
        leaf.ends
            || match leaf.peer {
                Some(peer) => helps(peer),
                None => (0..self.calls.len()).any(helps),
            }
    }

    fn has(&self, alternatives: &[All]) -> bool {
        alternatives.iter().any(|all| all.iter().all(|leaf| self.ends(leaf)))
    }
}

/// The parties that wait for ever, in order.
pub(super) fn stuck(parties: &[Party]) -> Vec<usize> {
    let free = |party: &Party| *party == Party::Free;
    let calls: Vec<bool> = parties.iter().map(free).collect();
    let mut may = May { background: calls.clone(), calls };
    // Who waits for whom, and who for anybody.
    let mut followers = vec![Vec::new(); parties.len()];
    let mut for_any = Vec::new();
    for (at, party) in parties.iter().enumerate() {
        let Party::Waits { any, background } = party else { continue };
        for leaf in any.iter().chain(background).flatten() {
            leaf.peer.map_or(&mut for_any, |peer| &mut followers[peer]).push(at);
        }
    }
    // Each once, however many of its parts wait for the same.
    followers.iter_mut().chain([&mut for_any]).for_each(Vec::dedup);
    let mut due: Vec<usize> = (0..parties.len()).collect();
    let mut is_due = vec![true; parties.len()];
    while let Some(at) = due.pop() {
        is_due[at] = false;
        let Party::Waits { any, background } = &parties[at] else { continue };
        let now = (may.calls[at] || may.has(any), may.background[at] || may.has(background));
        if now != (may.calls[at], may.background[at]) {
            (may.calls[at], may.background[at]) = now;
            let again = followers[at].iter().chain(&for_any).copied();
            due.extend(again.filter(|follower| !std::mem::replace(&mut is_due[*follower], true)));
        }
    }
    let waits = |at: &usize| matches!(parties[*at], Party::Waits { .. });
    (0..parties.len()).filter(waits).filter(|at| !may.calls[*at]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// For the calls of a party.
    fn on(peer: usize) -> Leaf {
        Leaf { peer: Some(peer), any_kind: false, ends: false }
    }

    const ANYBODY: Leaf = Leaf { peer: None, any_kind: false, ends: false };
    const UNDER_WAY: Leaf = Leaf { peer: Some(0), any_kind: false, ends: true };

    fn waits(any: &[&[Leaf]]) -> Party {
        Party::Waits { any: any.iter().map(|all| all.to_vec()).collect(), background: Vec::new() }
    }

    #[test]
    fn all_parts_must_be_able_to_end_but_only_one_alternative() {
        let (a, b) = (waits(&[&[on(1)]]), waits(&[&[on(0)]]));
        for (third, expected) in [
            (waits(&[&[on(0), on(3)]]), vec![0, 1, 2]),
            (waits(&[&[UNDER_WAY, on(0)]]), vec![0, 1, 2]),
            (waits(&[&[on(0)], &[on(3)]]), vec![0, 1]),
            (waits(&[&[on(0), on(3)], &[on(1), UNDER_WAY]]), vec![0, 1, 2]),
            (waits(&[&[on(3), UNDER_WAY], &[on(1)]]), vec![0, 1]),
            (waits(&[&[ANYBODY]]), vec![0, 1]),
            (waits(&[&[ANYBODY, on(1)]]), vec![0, 1, 2]),
            (waits(&[&[]]), vec![0, 1]),
            (waits(&[]), vec![0, 1, 2]),
        ] {
            let parties = [a.clone(), b.clone(), third.clone(), Party::Free];
            assert_eq!(stuck(&parties), expected, "{third:?}");
        }
    }

    #[test]
    fn who_has_gone_helps_nobody_and_is_not_stuck() {
        assert_eq!(stuck(&[waits(&[&[on(1)]]), Party::Gone]), [0]);
        assert_eq!(stuck(&[waits(&[&[ANYBODY]]), Party::Gone]), [0]);
        assert_eq!(stuck(&[waits(&[&[ANYBODY]]), waits(&[&[ANYBODY]]), Party::Gone]), [0, 1]);
    }

    #[test]
    fn the_background_of_one_who_is_stuck_helps_collective_operations_only() {
        let background = vec![vec![on(2)]];
        let first = Party::Waits { any: vec![vec![on(1)]], background };
        let collective = Leaf { any_kind: true, ..on(0) };
        assert_eq!(stuck(&[first.clone(), waits(&[&[on(0)]]), Party::Free]), [0, 1]);
        assert_eq!(stuck(&[first.clone(), waits(&[&[collective]]), Party::Free]), [0; 0]);
        assert_eq!(stuck(&[first, waits(&[&[collective]]), Party::Gone]), [0, 1]);
    }

    #[test]
    fn long_chains_are_reduced_from_their_end() {
        let chain =
            |last| -> Vec<Party> { (1..20_000).map(|next| waits(&[&[on(next)]])).chain([last]).collect() };
        assert_eq!(stuck(&chain(Party::Free)), [0; 0]);
        assert_eq!(stuck(&chain(Party::Gone)).len(), 19_999);
    }

    fn leaf() -> impl Strategy<Value = Leaf> {
        let peer = prop_oneof![6 => (0..4_usize).prop_map(Some), 1 => Just(None)];
        (peer, any::<bool>(), prop::bool::weighted(0.1)).prop_map(|(peer, any_kind, ends)| Leaf {
            peer,
            any_kind,
            ends,
        })
    }

    fn party() -> impl Strategy<Value = Party> {
        let alternatives = |most| prop::collection::vec(prop::collection::vec(leaf(), 0..4), 0..most);
        let waits =
            (alternatives(4), alternatives(3)).prop_map(|(any, background)| Party::Waits { any, background });
        prop_oneof![1 => Just(Party::Free), 1 => Just(Party::Gone), 6 => waits]
    }

    /// By trying every order in which calls and backgrounds can go on, from what has gone on so far: a set of bits, calls first.
    fn explore(parties: &[Party], done: u32, seen: &mut [bool]) {
        if std::mem::replace(&mut seen[done as usize], true) {
            return;
        }
        let count = parties.len();
        let is_done = |bit: usize| done >> bit & 1 != 0;
        let helps = |peer: usize, leaf: &Leaf| match parties[peer] {
            Party::Free => true,
            Party::Gone => false,
            Party::Waits { .. } => is_done(peer) || leaf.any_kind && is_done(count + peer),
        };
        let ends = |leaf: &Leaf| {
            leaf.ends || (0..count).any(|peer| leaf.peer.is_none_or(|one| one == peer) && helps(peer, leaf))
        };
        let can = |alternatives: &[All]| alternatives.iter().any(|all| all.iter().all(ends));
        for (at, party) in parties.iter().enumerate() {
            let Party::Waits { any, background } = party else { continue };
            for (bit, alternatives) in [(at, any), (count + at, background)] {
                if !is_done(bit) && can(alternatives) {
                    explore(parties, done | 1 << bit, seen);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn who_is_stuck_goes_on_in_no_order_of_events_and_everybody_else_in_one(
            parties in prop::collection::vec(party(), 4),
        ) {
            let mut seen = vec![false; 1 << (2 * parties.len())];
            explore(&parties, 0, &mut seen);
            let goes_on = |at: usize| seen.iter().enumerate().any(|(done, seen)| *seen && done >> at & 1 != 0);
            let waits = |at: &usize| matches!(parties[*at], Party::Waits { .. });
            let expected: Vec<usize> = (0..4).filter(waits).filter(|at| !goes_on(*at)).collect();
            prop_assert_eq!(stuck(&parties), expected);
        }
    }
}
