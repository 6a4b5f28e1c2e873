//! Deadlock: ranks that wait for ever, since nothing is under way that could end a wait and no rank is left
//! that could begin to.
//!
//! A rank may continue when it does not sleep for good ([`Doing::Waits`] with `sure`) or when something in
//! flight is for it. The others continue when all parts of any of their alternatives can end, each by the
//! rank that it is for ([`super::reduction`]). A wait whose data are under way ends by itself. A rank whose
//! calls wait for ever may still advance collective operations that it has started. One that has a signal
//! open may continue as soon as any rank may: that one can start a function of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tutti_shm::envelope::CONTEXTS_PER_COMM;
use tutti_shm::report::WAITS;

use super::reduction::{Leaf, Party, stuck};
use crate::locks;
use crate::state::{Alternative, Doing, RankView, Snapshot, View, Wait, What};
use crate::waits;

/// For the user after a report of a deadlock, should something from outside end it: a signal's handler, a
/// debugger.
pub const DEADLOCK_ENDED: &str = "a rank that waited for ever has been woken: the job continues";

/// The communicator of which the own rank is the only member.
const SELF: u32 = 1;

/// Ranks that wait for each other for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// All of them.
    pub ranks: Vec<u32>,
    /// Some of them, each waiting for the next and the last for the first.
    pub cycle: Vec<Link>,
}

/// Deadlock as its user learns it, which travels in place of [`Deadlock`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockNotice {
    /// Line that says who waits for whom.
    pub line: Arc<str>,
    /// Ranks of the cycle, in its order; empty: there is none, or who has found it does not say.
    pub cycle: Arc<[u32]>,
}

/// A rank of a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Which.
    pub rank: u32,
    /// "receives from rank 1, tag 7, MPI_COMM_WORLD": the wait that leads to the next one, and whether it is
    /// one of several.
    pub text: String,
}

impl Snapshot {
    /// The ranks that wait for ever, if there are any. The work grows with what is seen, and what a rank may
    /// be seen to wait for is bounded.
    pub fn deadlock(&self) -> Option<Deadlock> {
        let is_whole = |node: &View| node.trouble.is_none() && node.omitted == 0 && node.flows_omitted == 0;
        if !self.nodes.iter().all(is_whole) || !self.is_of_ranks() {
            return None;
        }
        let (flying, troubles) = self.in_flight();
        if !troubles.is_empty() {
            return None;
        }
        let views = self.nodes.iter().flat_map(|node| &node.ranks);
        let mut doing: BTreeMap<u32, Option<&Doing>> =
            views.map(|view| (view.rank, Some(&view.doing))).collect();
        for flight in &flying {
            doing.entry(flight.message.to).and_modify(|doing| *doing = None);
        }
        let granted = locks::granted(&doing);
        doing.extend(granted.iter().map(|(rank, doing)| (*rank, Some(doing))));
        let ranks: Vec<u32> = doing.keys().copied().collect();
        let mut parties: Vec<Party> = doing
            .iter()
            .map(|(rank, doing)| {
                doing.map_or(Party::Free, |doing| party(*rank, doing, &ranks, self.ranks_end()))
            })
            .collect();
        // Behind them, for all that no view shows. Where the views show all ranks that the job began with,
        // they show those that were started later too. More can only be started by a rank that continues.
        let all_are_seen =
            ranks.iter().filter(|rank| u64::from(**rank) < self.ranks).count() as u64 == self.ranks;
        parties.push(if all_are_seen { Party::Gone } else { Party::Free });
        let stuck: BTreeMap<u32, &Doing> =
            stuck(&parties).into_iter().filter_map(|at| Some((ranks[at], doing[&ranks[at]]?))).collect();
        (!stuck.is_empty()).then(|| Deadlock { ranks: stuck.keys().copied().collect(), cycle: cycle(&stuck) })
    }

    /// Each rank is one of the job's, is seen once, and waits for no more than a report has room for.
    fn is_of_ranks(&self) -> bool {
        let mut seen = BTreeSet::new();
        let mut views = self.nodes.iter().flat_map(|node| &node.ranks);
        views.all(|view| {
            u64::from(view.rank) < self.ranks_end()
                && seen.insert(view.rank)
                && waits_of(&view.doing) <= WAITS
        })
    }
}

/// How much a rank waits for; an alternative without a wait counts as one.
fn waits_of(doing: &Doing) -> usize {
    let Doing::Waits { any, background, .. } = doing else { return 0 };
    // One may represent those of the background that have no room.
    let unnamed = background.iter().filter(|one| one.all.is_empty() && one.more).count().min(1);
    any.iter().chain(background).map(|one| one.all.len().max(1)).sum::<usize>() - unnamed
}

/// A message that any rank may send to a signal: its function may do what the rank waits for.
const OF_ANY: Leaf = Leaf { peer: None, any_kind: false, ends: false };

/// The rank that a wait of this one is for; none: any.
fn peer_of(wait: &Wait, rank: u32) -> Option<u32> {
    let alone = wait.context / CONTEXTS_PER_COMM == SELF;
    wait.peer.or(alone.then_some(rank))
}

/// Party of a rank, by the places of ranks in `ranks`; unknown ranks have the place behind them. A peer
/// beyond the `total` of the job is a guest, which no view of this job shows: it may do anything.
fn party(rank: u32, doing: &Doing, ranks: &[u32], total: u64) -> Party {
    let place = |peer: u32| ranks.binary_search(&peer).unwrap_or(ranks.len());
    let leaf = |wait: &Wait| {
        let is_collective = !wait.context.is_multiple_of(CONTEXTS_PER_COMM);
        Leaf {
            peer: peer_of(wait, rank).map(place),
            any_kind: is_collective && !matches!(wait.what, What::Member | What::Window),
            ends: wait.matched
                || wait.what == What::Other
                || wait.peer.is_some_and(|peer| u64::from(peer) >= total),
        }
    };
    let all = |one: &Alternative| one.all.iter().map(leaf).collect();
    match doing {
        Doing::Waits { any, background, signals, sure: true, .. } => Party::Waits {
            any: any.iter().map(all).chain(signals.then(|| vec![OF_ANY])).collect(),
            background: background.iter().filter(|one| !locks::is_place(one)).map(all).collect(),
        },
        Doing::HasLeft => Party::Gone,
        _ => Party::Free,
    }
}

/// The first rank that a rank waits for among those that are `absent` (in order) for good, if it waits for
/// ever for them, whatever all others do. Ranks of the job have numbers below `ranks_end`.
pub fn absent_peer(view: &RankView, absent: &[u32], ranks_end: u64) -> Option<u32> {
    let parties = absent.iter().map(|_| Party::Gone);
    let own = party(view.rank, &view.doing, absent, ranks_end);
    let parties: Vec<Party> = parties.chain([Party::Free, own]).collect();
    stuck(&parties).first()?;
    let Doing::Waits { any, .. } = &view.doing else { return None };
    let peers = any.iter().flat_map(|one| &one.all).filter_map(|wait| wait.peer);
    peers.filter(|peer| absent.binary_search(peer).is_ok()).min()
}

/// A wait of a rank that leads to another one.
type Lead<'a> = (u32, &'a Wait);

/// Ranks of which each waits for the next; empty when all that is waited for has left.
fn cycle(stuck: &BTreeMap<u32, &Doing>) -> Vec<Link> {
    // On the path; or was, and leads to no cycle.
    let (mut seen, mut left) = (BTreeSet::new(), BTreeSet::new());
    for first in stuck.keys().copied() {
        let mut path = Vec::new();
        if seen.insert(first) {
            path.push((first, None, leads(first, stuck)));
        }
        while let Some((at, taken, rest)) = path.last_mut() {
            let Some((peer, wait)) = rest.next() else {
                left.insert(*at);
                path.pop();
                continue;
            };
            *taken = Some(wait);
            if seen.insert(peer) {
                path.push((peer, None, leads(peer, stuck)));
            } else if !left.contains(&peer) {
                let links = path.iter().skip_while(|(rank, ..)| *rank != peer);
                return links.filter_map(|(rank, taken, _)| link(*rank, stuck, (*taken)?)).collect();
            }
        }
    }
    Vec::new()
}

/// The waits of a rank for others of these. A wait for any rank is a wait for each of them.
fn leads<'a>(rank: u32, stuck: &'a BTreeMap<u32, &'a Doing>) -> Box<dyn Iterator<Item = Lead<'a>> + 'a> {
    let Doing::Waits { any, .. } = stuck[&rank] else { return Box::new(std::iter::empty()) };
    let waits = any.iter().flat_map(|one| &one.all);
    let open = waits.filter(|wait| !wait.matched && wait.what != What::Other);
    Box::new(open.flat_map(move |wait| {
        let peer = peer_of(wait, rank);
        let peers = peer.map_or_else(|| stuck.range(..), |peer| stuck.range(peer..=peer));
        let others = peers.map(|(other, _)| *other).filter(move |other| peer.is_some() || *other != rank);
        others.map(move |other| (other, wait))
    }))
}

/// The wait that leads on, first of those that must all end; of alternatives all, since each of them waits
/// for ever.
fn link(rank: u32, stuck: &BTreeMap<u32, &Doing>, leads: &Wait) -> Option<Link> {
    let Doing::Waits { any, more, .. } = stuck[&rank] else { return None };
    let text = match &any[..] {
        [one] => {
            let others = one.all.iter().filter(|wait| *wait != leads);
            let all = std::iter::once(leads).chain(others).cloned().collect();
            waits::sentence(&[Alternative { all, more: one.more }], *more)
        }
        any => waits::sentence(any, *more),
    };
    Some(Link { rank, text })
}

/// Cycle of these ranks as arrows: "rank 0 -> rank 1 -> rank 0"; nothing without ranks.
pub fn arrows(cycle: &[u32]) -> Option<String> {
    let first = cycle.first()?;
    Some(cycle.iter().map(|rank| format!("rank {rank} -> ")).collect::<String>() + &format!("rank {first}"))
}

impl Deadlock {
    /// The cycle as arrows; nothing when there is none.
    pub(super) fn arrows(&self) -> Option<String> {
        arrows(&self.ranks_of_cycle())
    }

    /// Ranks of the cycle, in its order.
    pub fn ranks_of_cycle(&self) -> Vec<u32> {
        self.cycle.iter().map(|link| link.rank).collect()
    }

    /// Line and cycle for the user.
    pub fn notice(&self) -> DeadlockNotice {
        DeadlockNotice { line: self.line().into(), cycle: self.ranks_of_cycle().into() }
    }

    /// For the user, once.
    pub fn line(&self) -> String {
        format!("the ranks wait for each other for ever: {}", self.sentence())
    }

    /// "rank 0 receives from rank 1, ...; rank 1 ...".
    pub fn sentence(&self) -> String {
        if self.cycle.is_empty() {
            let (noun, verb) = if self.ranks.len() == 1 { ("rank", "waits") } else { ("ranks", "wait") };
            let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
            let ranks = ranks.join(", ");
            return format!("{noun} {ranks} {verb} for ranks that have left, or never were there");
        }
        let cycle: Vec<String> =
            self.cycle.iter().map(|link| format!("rank {} {}", link.rank, link.text)).collect();
        cycle.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Flow, Message};

    fn receive(peer: Option<u32>) -> Wait {
        Wait { what: What::Receive, matched: false, peer, tag: Some(7), context: 0, bytes: 4, moved: 0 }
    }

    fn from(peer: u32) -> Wait {
        receive(Some(peer))
    }

    /// All of these.
    fn all<const N: usize>(waits: [Wait; N]) -> Option<Vec<Alternative>> {
        Some(vec![Alternative { all: waits.to_vec(), more: false }])
    }

    /// Any of these.
    fn any<const N: usize>(waits: [Wait; N]) -> Option<Vec<Alternative>> {
        Some(waits.map(|wait| Alternative { all: vec![wait], more: false }).to_vec())
    }

    /// Snapshot of ranks with these waits; none: the rank runs.
    fn snapshot(waits: &[Option<Vec<Alternative>>]) -> Snapshot {
        let view = |(rank, any): (usize, &Option<Vec<Alternative>>)| RankView {
            rank: rank as u32,
            pid: 1,
            doing: any.clone().map_or(Doing::Runs, |any| Doing::Waits {
                call: None,
                any,
                background: Vec::new(),
                more: false,
                signals: false,
                armed: false,
                sure: true,
                unasked: 0,
            }),
            taking: false,
            unread: None,
        };
        let ranks = waits.iter().enumerate().map(view).collect();
        let nodes = vec![View { ranks, ..View::default() }];
        Snapshot { job: 1, command: "a".into(), ranks: waits.len() as u64, taken_ms: 0, room: None, nodes }
    }

    fn ranks(waits: &[Option<Vec<Alternative>>]) -> Vec<u32> {
        snapshot(waits).deadlock().map_or(Vec::new(), |found| found.ranks)
    }

    /// Rank 5 was started by others; numbers 2 to 4 were not used, or are of ranks that have left.
    #[test]
    fn deadlock_of_ranks_that_were_started_later_is_found() {
        let of_two = snapshot(&[all([receive(Some(5))]), all([receive(None)])]);
        let mut node = of_two.nodes[0].clone();
        node.ranks[1].rank = 5;
        let with = |more: RankView, room| {
            let mut node = node.clone();
            node.ranks.insert(1, RankView { rank: 1, ..more });
            Snapshot { room, nodes: vec![node], ..of_two.clone() }
        };
        let stuck = RankView { ..node.ranks[1].clone() };
        let found = with(stuck.clone(), Some(6)).deadlock().expect("all three wait");
        assert_eq!(found.ranks, [0, 1, 5]);
        assert_eq!(with(stuck.clone(), None).deadlock(), None, "it is no rank of the job");
        assert_eq!(with(RankView { doing: Doing::Runs, ..stuck }, Some(6)).deadlock(), None);
        let without = Snapshot { room: Some(6), nodes: vec![node], ..of_two };
        assert_eq!(without.deadlock(), None, "rank 1 is seen nowhere");
    }

    #[test]
    fn deadlock_ring_of_receives_is_a_cycle() {
        let found = snapshot(&[0, 1, 2].map(|rank| all([from((rank + 1) % 3)]))).deadlock().unwrap();
        assert_eq!(found.ranks, [0, 1, 2]);
        assert!(found.sentence().starts_with("rank 0 receives from rank 1, tag 7, MPI_COMM_WORLD; rank 1"));
        assert_eq!(found.arrows().as_deref(), Some("rank 0 -> rank 1 -> rank 2 -> rank 0"));
        let notice = found.notice();
        assert_eq!((&*notice.line, &*notice.cycle), (&*found.line(), &[0, 1, 2][..]));
        for left in [vec![1], vec![1, 2]] {
            let found = Deadlock { ranks: left, cycle: Vec::new() };
            assert_eq!((found.arrows(), found.notice().cycle.len()), (None, 0));
        }
    }

    #[test]
    fn deadlock_excludes_ranks_that_can_be_helped() {
        // Rank 2 runs: rank 1, which would take its message too, is not stuck, and so rank 0 is not.
        assert_eq!(ranks(&[all([from(1)]), any([from(0), from(2)]), None]), [0; 0]);
        // Two wait for each other, and the third computes.
        assert_eq!(ranks(&[all([from(1)]), all([from(0)]), None]), [0, 1]);
        // A wait for any rank can be ended by every running rank, seen or not.
        assert_eq!(ranks(&[all([receive(None)]), None]), [0; 0]);
        assert_eq!(ranks(&[all([receive(None)]), all([receive(None)])]), [0, 1]);
        let part = Snapshot { ranks: 3, ..snapshot(&[all([receive(None)]), all([receive(None)])]) };
        assert_eq!(part.deadlock(), None);
    }

    /// A rank that may continue may start a function of a rank that has a signal open, which may help any
    /// other.
    #[test]
    fn deadlock_rank_with_a_signal_is_stuck_only_with_all_others() {
        let with_signal_of = |at: usize, waits: &[Option<Vec<Alternative>>]| {
            let mut snapshot = snapshot(waits);
            let Doing::Waits { signals, .. } = &mut snapshot.nodes[0].ranks[at].doing else {
                panic!("it waits")
            };
            *signals = true;
            snapshot.deadlock().map_or(Vec::new(), |found| found.ranks)
        };
        let pair = [all([from(1)]), all([from(0)])];
        assert_eq!(with_signal_of(0, &pair), [0, 1]);
        let and_one_that_runs = [pair[0].clone(), pair[1].clone(), None];
        assert_eq!(ranks(&and_one_that_runs), [0, 1]);
        assert_eq!(with_signal_of(0, &and_one_that_runs), [0; 0]);
        let and_one_that_waits = [pair[0].clone(), pair[1].clone(), all([from(1)])];
        assert_eq!(with_signal_of(2, &and_one_that_waits), [0, 1, 2]);
    }

    #[test]
    fn deadlock_waitall_needs_all_requests() {
        // The data of one are under way, or a rank that runs sends it; the other never comes.
        let matched = Wait { matched: true, ..from(2) };
        assert_eq!(ranks(&[all([matched, from(1)]), all([from(0)]), None]), [0, 1]);
        let found = snapshot(&[all([from(2), from(1)]), all([from(0)]), None]).deadlock().unwrap();
        assert_eq!(found.ranks, [0, 1]);
        let rest = ", tag 7, MPI_COMM_WORLD";
        assert_eq!(
            found.sentence().replace(rest, ""),
            "rank 0 waits for all of: receives from rank 1, and receives from rank 2; rank 1 receives from rank 0"
        );
        assert_eq!(ranks(&[any([from(2), from(1)]), all([from(0)]), None]), [0; 0]);
    }

    #[test]
    fn deadlock_of_a_rank_that_waits_for_absent_ones_needs_no_other_view() {
        let peer = |waits: Option<Vec<Alternative>>| {
            let view = &snapshot(&[waits]).nodes[0].ranks[0];
            absent_peer(view, &[3, 5], 8)
        };
        assert_eq!(peer(all([from(5)])), Some(5));
        assert_eq!(peer(all([from(1), from(5)])), Some(5));
        assert_eq!(peer(any([from(5), from(3)])), Some(3));
        // Others may end these: one that is there, any, a guest; or they end by themselves, or it runs.
        let matched = Wait { matched: true, ..from(5) };
        for waits in [
            all([from(4)]),
            any([from(5), from(4)]),
            all([receive(None)]),
            all([from(9)]),
            all([matched]),
            None,
        ] {
            assert_eq!(peer(waits.clone()), None, "{waits:?}");
        }
        let mut with_signal = snapshot(&[all([from(5)])]).nodes[0].ranks[0].clone();
        let Doing::Waits { signals, .. } = &mut with_signal.doing else { panic!("it waits") };
        *signals = true;
        assert_eq!(absent_peer(&with_signal, &[5], 8), None);
    }

    #[test]
    fn deadlock_on_comm_self_is_found() {
        let own = Wait { context: SELF * CONTEXTS_PER_COMM, ..receive(None) };
        assert_eq!(ranks(&[all([own.clone()]), None]), [0]);
        let found = snapshot(&[all([own]), None]).deadlock().unwrap();
        assert_eq!(found.arrows().as_deref(), Some("rank 0 -> rank 0"));
    }

    /// A snapshot in which these ranks have left.
    fn with_left<const N: usize>(left: [usize; N], waits: &[Option<Vec<Alternative>>]) -> Snapshot {
        let mut snapshot = snapshot(waits);
        left.into_iter().for_each(|rank| snapshot.nodes[0].ranks[rank].doing = Doing::HasLeft);
        snapshot
    }

    #[test]
    fn deadlock_cycle_is_found_beside_waits_for_exited_ranks() {
        // Rank 0 leads nowhere, and so does the first wait of rank 1.
        let waits = [all([from(4)]), all([from(0), from(2)]), all([from(3)]), all([from(1)]), None];
        let found = with_left([4], &waits).deadlock().unwrap();
        assert_eq!(found.ranks, [0, 1, 2, 3]);
        assert_eq!(found.arrows().as_deref(), Some("rank 1 -> rank 2 -> rank 3 -> rank 1"));
        // Any rank may be one that leads on.
        let waits = [all([from(3)]), all([receive(None)]), all([from(1)]), None];
        let found = with_left([3], &waits).deadlock().unwrap();
        assert_eq!(found.arrows().as_deref(), Some("rank 1 -> rank 2 -> rank 1"));
        let none = with_left([2], &[all([from(1)]), all([from(2)]), None]).deadlock().unwrap();
        assert_eq!((none.ranks.clone(), none.arrows()), (vec![0, 1], None));
        assert_eq!(none.sentence(), "ranks 0, 1 wait for ranks that have left, or never were there");
    }

    #[test]
    fn deadlock_cycle_is_found_behind_a_long_chain() {
        let waits: Vec<_> =
            (0..20_000).map(|rank| all([from(if rank == 9 { 9_999 } else { rank / 2 })])).collect();
        assert!(!snapshot(&waits).deadlock().unwrap().cycle.is_empty());
        let chain: Vec<_> = (1..20_000).map(|next| all([from(next)])).chain([None]).collect();
        let found = with_left([19_999], &chain).deadlock().unwrap();
        assert_eq!((found.ranks.len(), found.cycle.len()), (19_999, 0));
    }

    #[test]
    fn deadlock_is_not_judged_for_unknown_waits() {
        let ring = || snapshot(&[all([from(1)]), all([from(0)])]);
        let judged = |change: fn(&mut View)| {
            let mut snapshot = ring();
            change(&mut snapshot.nodes[0]);
            snapshot.deadlock().is_some()
        };
        let mut more_waits = [ring(), ring()];
        for (snapshot, waits) in more_waits.iter_mut().zip([WAITS, WAITS + 1]) {
            let Doing::Waits { any, background, .. } = &mut snapshot.nodes[0].ranks[0].doing else {
                panic!("it waits")
            };
            any[0].all = vec![from(1); waits];
            background.push(Alternative { all: Vec::new(), more: true });
        }
        assert_eq!(more_waits.map(|snapshot| snapshot.deadlock().is_some()), [true, false]);
        assert!(judged(|_| {}));
        assert!(!judged(|node| node.ranks.push(node.ranks[0].clone())), "one is seen twice");
        assert!(!judged(|node| node.ranks[0].rank = 2), "one is none of the job's");
        let many = |node: &mut View| {
            let Doing::Waits { any, .. } = &mut node.ranks[0].doing else { panic!("it waits") };
            any.extend(std::iter::repeat_n(Alternative::default(), WAITS));
        };
        assert!(!judged(many), "alternatives are bounded, too");
    }

    #[test]
    fn deadlock_background_operations_help_collectives_only() {
        let mut snapshot = snapshot(&[all([from(1)]), all([from(0)]), all([from(0)])]);
        let Doing::Waits { background, .. } = &mut snapshot.nodes[0].ranks[0].doing else {
            panic!("it waits")
        };
        background.push(Alternative { all: Vec::new(), more: true });
        assert_eq!(snapshot.deadlock().map(|found| found.ranks), Some(vec![0, 1, 2]));
        let step = Wait { context: 1, ..from(0) };
        let Doing::Waits { any, .. } = &mut snapshot.nodes[0].ranks[2].doing else { panic!("it waits") };
        any[0].all = vec![step];
        assert_eq!(snapshot.deadlock().map(|found| found.ranks), Some(vec![0, 1]));
    }

    #[test]
    fn deadlock_unknown_state_may_end_a_wait() {
        let other = Wait { what: What::Other, peer: None, ..from(1) };
        assert_eq!(ranks(&[all([other.clone()]), all([from(0)])]), [0; 0]);
        assert_eq!(ranks(&[all([other, from(1)]), all([from(0)])]), [0, 1]);
    }

    #[test]
    fn deadlock_of_words_needs_all_ranks() {
        let word = Wait { what: What::Word, peer: None, tag: None, ..from(1) };
        assert_eq!(ranks(&[all([word.clone()]), all([word.clone()])]), [0, 1]);
        assert_eq!(ranks(&[all([word.clone()]), all([from(0)]), None]), [0; 0]);
        assert_eq!(ranks(&[all([word.clone()]), all([from(0)])]), [0, 1]);
        let mut snapshot = snapshot(&[all([word.clone()]), all([word])]);
        let line = snapshot.deadlock().expect("both wait").line();
        let word = "waits for a word of its memory that another rank is to change";
        assert!(line.ends_with(&format!("rank 0 {word}; rank 1 {word}")), "{line}");
        let mut second = snapshot.nodes[0].clone();
        second.ranks.remove(0);
        snapshot.nodes[0].ranks.truncate(1);
        snapshot.nodes.push(second);
        assert!(snapshot.deadlock().is_some(), "both are seen");
        let message =
            Message { from: 0, to: 1, kind: "unknown".into(), context: 0, tag: 0, bytes: 0, data: None };
        let (snd_una, snd_high, snd_nxt, rcv_nxt) = (7, 8, 8, 0);
        let flow =
            Flow { from: 0, to: 1, snd_una, snd_high, snd_nxt, rcv_nxt, bulk: None, records: vec![message] };
        snapshot.nodes[0].flows.push(flow);
        snapshot.nodes[1].acknowledged_omitted = true;
        assert_eq!(snapshot.deadlock(), None, "a record is on its way");
    }

    #[test]
    fn deadlock_excludes_waits_for_guests() {
        // Rank 2 is of another job, which this one is connected to.
        assert_eq!(ranks(&[all([from(2)]), all([from(0)])]), [0; 0]);
        assert_eq!(ranks(&[all([from(2), from(1)]), all([from(0)])]), [0, 1]);
        let none = with_left([1], &[all([from(2)]), None]).deadlock();
        assert_eq!(none, None);
    }

    #[test]
    fn deadlock_message_in_flight_ends_a_wait() {
        let waits = [all([from(1)]), all([from(0)])];
        let mut flying = snapshot(&waits);
        flying.nodes[0].rings.push(Message {
            from: 1,
            to: 0,
            kind: "eager".into(),
            context: 0,
            tag: 7,
            bytes: 4,
            data: None,
        });
        assert_eq!(flying.deadlock(), None);
        let matched = Wait { matched: true, ..from(1) };
        assert_eq!(ranks(&[all([matched]), waits[1].clone()]), [0; 0]);
    }
}
