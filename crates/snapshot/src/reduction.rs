//! Which of several parties that wait for each other can never continue.
//!
//! A party continues when all waits of any one of its alternatives can end. A wait can end when its target
//! can continue. So running parties are removed, then those that they let continue, and so on until none is
//! left to remove. The rest wait for ever, whatever the others do.
//!
//! Besides its calls a party may have operations in the background. They advance by themselves and help some
//! waits of others (`any_kind`), but not its own calls.

/// Wait, by what can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    /// The party that can end it; none: any.
    pub peer: Option<usize>,
    /// Operations in the background of the target can end it too.
    pub any_kind: bool,
    /// Whether it ends whatever others do.
    pub ends: bool,
}

/// Waits that all must end.
pub(super) type All = Vec<Leaf>;

/// A party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Party {
    /// May do anything.
    Free,
    /// Does nothing any more.
    Gone,
    /// Waits.
    Waits {
        /// For any of these.
        any: Vec<All>,
        /// Operations in its background, each when all of it has ended.
        background: Vec<All>,
    },
}

/// Part of a party that may continue: its calls, or its background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Actor {
    party: usize,
    is_background: bool,
}

/// An alternative of an actor, and how many of its waits have not ended.
#[derive(Debug)]
struct Open {
    actor: Actor,
    waits: usize,
}

/// Waits that end when a party continues, by their numbers.
#[derive(Debug, Default)]
struct Followers {
    calls: Vec<usize>,
    background: Vec<usize>,
}

/// A reduction under way. Each wait ends once, so the work is that of looking at each once or twice, whatever
/// it is for.
#[derive(Debug)]
struct Reduction {
    alternatives: Vec<Open>,
    /// The alternative of each wait; none: it has ended.
    waits: Vec<Option<usize>>,
    /// By party, and behind them for anybody.
    followers: Vec<Followers>,
    /// Whether each may continue: calls, background.
    may: Vec<[bool; 2]>,
    due: Vec<Actor>,
    /// Waits that were looked at.
    checks: usize,
}

impl Reduction {
    fn of(parties: &[Party]) -> Self {
        let mut reduction = Reduction {
            alternatives: Vec::new(),
            waits: Vec::new(),
            followers: std::iter::repeat_with(Followers::default).take(parties.len() + 1).collect(),
            may: vec![[false; 2]; parties.len()],
            due: Vec::new(),
            checks: 0,
        };
        for (party, waits) in parties.iter().enumerate() {
            match waits {
                Party::Gone => {}
                Party::Free => [false, true]
                    .into_iter()
                    .for_each(|is_background| reduction.let_go(Actor { party, is_background })),
                Party::Waits { any, background } => {
                    reduction.add(Actor { party, is_background: false }, any);
                    reduction.add(Actor { party, is_background: true }, background);
                }
            }
        }
        reduction
    }

    fn add(&mut self, actor: Actor, alternatives: &[All]) {
        for all in alternatives {
            let open: Vec<&Leaf> = all.iter().filter(|leaf| !leaf.ends).collect();
            for leaf in &open {
                let anybody = self.may.len();
                let followers = &mut self.followers[leaf.peer.unwrap_or(anybody)];
                followers.calls.push(self.waits.len());
                if leaf.any_kind {
                    followers.background.push(self.waits.len());
                }
                self.waits.push(Some(self.alternatives.len()));
            }
            if open.is_empty() {
                self.let_go(actor);
            }
            self.alternatives.push(Open { actor, waits: open.len() });
        }
    }

    fn let_go(&mut self, actor: Actor) {
        let may = &mut self.may[actor.party][usize::from(actor.is_background)];
        if !std::mem::replace(may, true) {
            self.due.push(actor);
        }
    }

    /// Until no more can continue.
    fn run(&mut self) {
        while let Some(Actor { party, is_background }) = self.due.pop() {
            for of in [party, self.may.len()] {
                let followers = &mut self.followers[of];
                let waits = if is_background { &mut followers.background } else { &mut followers.calls };
                std::mem::take(waits).into_iter().for_each(|wait| self.end(wait));
            }
        }
    }

    fn end(&mut self, wait: usize) {
        self.checks += 1;
        let Some(at) = self.waits[wait].take() else { return };
        let alternative = &mut self.alternatives[at];
        alternative.waits -= 1;
        if alternative.waits == 0 {
            let actor = alternative.actor;
            self.let_go(actor);
        }
    }
}

/// The parties that wait for ever, in order.
pub(super) fn stuck(parties: &[Party]) -> Vec<usize> {
    let mut reduction = Reduction::of(parties);
    reduction.run();
    let waits = |at: &usize| matches!(parties[*at], Party::Waits { .. });
    (0..parties.len()).filter(waits).filter(|at| !reduction.may[*at][0]).collect()
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
    fn deadlock_reduction_needs_all_parts_of_one_alternative() {
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
    fn deadlock_reduction_exited_rank_helps_no_other() {
        assert_eq!(stuck(&[waits(&[&[on(1)]]), Party::Gone]), [0]);
        assert_eq!(stuck(&[waits(&[&[ANYBODY]]), Party::Gone]), [0]);
        assert_eq!(stuck(&[waits(&[&[ANYBODY]]), waits(&[&[ANYBODY]]), Party::Gone]), [0, 1]);
    }

    #[test]
    fn deadlock_reduction_background_helps_collectives_only() {
        let background = vec![vec![on(2)]];
        let first = Party::Waits { any: vec![vec![on(1)]], background };
        let collective = Leaf { any_kind: true, ..on(0) };
        assert_eq!(stuck(&[first.clone(), waits(&[&[on(0)]]), Party::Free]), [0, 1]);
        assert_eq!(stuck(&[first.clone(), waits(&[&[collective]]), Party::Free]), [0; 0]);
        assert_eq!(stuck(&[first, waits(&[&[collective]]), Party::Gone]), [0, 1]);
    }

    #[test]
    fn deadlock_reduction_of_long_chains() {
        let chain =
            |last| -> Vec<Party> { (1..20_000).map(|next| waits(&[&[on(next)]])).chain([last]).collect() };
        assert_eq!(stuck(&chain(Party::Free)), [0; 0]);
        assert_eq!(stuck(&chain(Party::Gone)).len(), 19_999);
    }

    /// A long chain resolves link by link, with many others that wait for any rank, and for one that has
    /// left.
    #[test]
    fn deadlock_reduction_is_linear() {
        const MANY: usize = 20_000;
        let collective = Leaf { any_kind: true, ..ANYBODY };
        let last = 2 * MANY;
        let chain = (1..=MANY).map(|next| waits(&[&[on(if next < MANY { next } else { last })]]));
        let others = (0..MANY).map(|_| waits(&[&[ANYBODY, collective, on(last + 1)]]));
        let parties: Vec<Party> = chain.chain(others).chain([Party::Free, Party::Gone]).collect();
        let mut reduction = Reduction::of(&parties);
        reduction.run();
        assert!(reduction.checks <= 2 * reduction.waits.len(), "{} looks", reduction.checks);
        assert_eq!(reduction.waits.len(), 4 * MANY);
        assert_eq!(stuck(&parties).len(), MANY);
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

    /// By trying every order in which calls and backgrounds can continue, from what has continued so far: a
    /// set of bits, calls first.
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
        fn deadlock_reduction_matches_exhaustive_search(
            parties in prop::collection::vec(party(), 4),
        ) {
            let mut seen = vec![false; 1 << (2 * parties.len())];
            explore(&parties, 0, &mut seen);
            let can_end = |at: usize| seen.iter().enumerate().any(|(done, seen)| *seen && done >> at & 1 != 0);
            let waits = |at: &usize| matches!(parties[*at], Party::Waits { .. });
            let expected: Vec<usize> = (0..4).filter(waits).filter(|at| !can_end(*at)).collect();
            prop_assert_eq!(stuck(&parties), expected);
        }
    }
}
