//! Deadlock: ranks of which each waits for others of them, and nothing is under way that could end a wait.
//!
//! Of all ranks that sleep for good ([`Doing::Waits`] with `sure`), those are left out that something in flight is for, that wait for data
//! under way, or that any rank left out or not asleep could let go on; and so on until nobody more is left out. Whoever remains waits for
//! ever: a rank goes on when any of its waits ends, each of them needs a message of ranks that remain, and none of these sends before it
//! goes on itself.

use std::collections::BTreeMap;

use super::{Doing, Snapshot, Wait, What};

/// For the user who was told of a deadlock, should something from outside end it: a signal's handler, a debugger.
pub const GOES_ON: &str = "a rank that waited for ever has been woken: the job goes on";

/// Ranks that wait for each other for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// All of them.
    pub ranks: Vec<u32>,
    /// Some of them, each waiting for the next and the last for the first.
    pub cycle: Vec<(u32, Wait)>,
}

impl Snapshot {
    /// The ranks that wait for ever, if there are any.
    pub fn deadlock(&self) -> Option<Deadlock> {
        let (flying, troubles) = self.in_flight();
        if !troubles.is_empty() || self.nodes.iter().any(|node| node.trouble.is_some() || node.omitted > 0) {
            return None;
        }
        let ranks = self.nodes.iter().flat_map(|node| &node.ranks);
        let mut stuck: BTreeMap<u32, &[Wait]> = ranks
            .filter_map(|view| match &view.doing {
                Doing::Waits { waits, sure: true, .. } => Some((view.rank, &waits[..])),
                _ => None,
            })
            .collect();
        for flight in &flying {
            stuck.remove(&flight.message.to);
        }
        loop {
            let before = stuck.len();
            let all = self.ranks as usize;
            let known = stuck.clone();
            stuck.retain(|_, waits| {
                waits.iter().all(|wait| {
                    !wait.matched
                        && match wait.peer {
                            Some(peer) => known.contains_key(&peer) || self.has_left(peer),
                            None => known.len() + self.left() == all || known.len() == all,
                        }
                })
            });
            if stuck.len() == before {
                break;
            }
        }
        (!stuck.is_empty()).then(|| Deadlock { ranks: stuck.keys().copied().collect(), cycle: cycle(&stuck) })
    }

    fn has_left(&self, rank: u32) -> bool {
        let mut ranks = self.nodes.iter().flat_map(|node| &node.ranks);
        ranks.any(|view| view.rank == rank && view.doing == Doing::HasLeft)
    }

    fn left(&self) -> usize {
        self.nodes.iter().flat_map(|node| &node.ranks).filter(|view| view.doing == Doing::HasLeft).count()
    }
}

/// Follows the first wait of each rank that leads to another of them; empty when all that is waited for has left.
fn cycle(stuck: &BTreeMap<u32, &[Wait]>) -> Vec<(u32, Wait)> {
    let mut path: Vec<(u32, Wait)> = Vec::new();
    let Some((first, _)) = stuck.first_key_value() else { return path };
    let mut at = *first;
    loop {
        if let Some(begin) = path.iter().position(|(rank, _)| *rank == at) {
            return path.split_off(begin);
        }
        // Who waits for any rank waits for the first that is stuck besides him.
        let anybody = || stuck.keys().copied().find(|rank| *rank != at);
        let next = stuck[&at].iter().find_map(|wait| match wait.peer {
            Some(peer) => stuck.contains_key(&peer).then_some((peer, wait)),
            None => anybody().map(|peer| (peer, wait)),
        });
        let Some((peer, wait)) = next else { return Vec::new() };
        path.push((at, wait.clone()));
        at = peer;
    }
}

impl Wait {
    /// "receives from rank 1, tag 7, MPI_COMM_WORLD".
    pub fn sentence(&self) -> String {
        let Wait { what, peer, tag, context, .. } = self;
        let rank = peer.map_or_else(|| "any rank".into(), |peer| format!("rank {peer}"));
        let with = match tag {
            Some(tag) => format!(", tag {tag}, {}", super::text::communicator(*context)),
            None => format!(", any tag, {}", super::text::communicator(*context)),
        };
        let text = match what {
            What::Receive => format!("receives from {rank}{with}"),
            What::Send => format!("sends to {rank}{with}"),
            What::Probe => format!("probes for a message from {rank}{with}"),
            What::Member => {
                format!("waits for {rank} in a collective call on {}", super::text::communicator(*context))
            }
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

impl Deadlock {
    /// For the user, once.
    pub fn line(&self) -> String {
        format!("the ranks wait for each other for ever: {}", self.sentence())
    }

    /// "rank 0 receives from rank 1, ...; rank 1 ...".
    pub fn sentence(&self) -> String {
        let cycle: Vec<String> =
            self.cycle.iter().map(|(rank, wait)| format!("rank {rank} {}", wait.sentence())).collect();
        if cycle.is_empty() {
            let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
            let (noun, verb) = if ranks.len() == 1 { ("rank", "waits") } else { ("ranks", "wait") };
            return format!("{noun} {} {verb} for ranks that have left", ranks.join(", "));
        }
        cycle.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, RankView, View};
    use super::*;

    fn receive(peer: Option<u32>) -> Wait {
        Wait { what: What::Receive, matched: false, peer, tag: Some(7), context: 0, bytes: 4, moved: 0 }
    }

    /// What each rank waits for; none: it runs.
    fn snapshot(waits: &[Option<Vec<Wait>>]) -> Snapshot {
        let view = |(rank, waits): (usize, &Option<Vec<Wait>>)| RankView {
            rank: rank as u32,
            pid: 1,
            doing: waits.clone().map_or(Doing::Runs, |waits| Doing::Waits {
                call: None,
                waits,
                more: false,
                sure: true,
                unasked: 0,
            }),
        };
        let ranks = waits.iter().enumerate().map(view).collect();
        let nodes = vec![View { ranks, ..View::default() }];
        Snapshot { job: 1, command: "a".into(), ranks: waits.len() as u64, taken_ms: 0, nodes }
    }

    #[test]
    fn a_ring_of_receives_is_a_cycle() {
        let all = snapshot(&[0, 1, 2].map(|rank| Some(vec![receive(Some((rank + 1) % 3))])));
        let found = all.deadlock().unwrap();
        assert_eq!(found.ranks, [0, 1, 2]);
        assert!(found.sentence().starts_with("rank 0 receives from rank 1, tag 7, MPI_COMM_WORLD; rank 1"));
    }

    #[test]
    fn who_can_be_helped_is_not_stuck() {
        // Rank 2 runs: rank 1, which would take its message too, is not stuck, and so rank 0 is not.
        let helped = vec![receive(Some(0)), receive(Some(2))];
        assert_eq!(snapshot(&[Some(vec![receive(Some(1))]), Some(helped), None]).deadlock(), None);
        // Two wait for each other, and the third computes.
        let two = [Some(vec![receive(Some(1))]), Some(vec![receive(Some(0))]), None];
        assert_eq!(snapshot(&two).deadlock().unwrap().ranks, [0, 1]);
        // Who waits for anybody can be helped by whoever runs.
        assert_eq!(snapshot(&[Some(vec![receive(None)]), None]).deadlock(), None);
        assert!(snapshot(&[Some(vec![receive(None)]), Some(vec![receive(None)])]).deadlock().is_some());
    }

    #[test]
    fn what_is_in_flight_or_under_way_ends_a_wait() {
        let waits = [Some(vec![receive(Some(1))]), Some(vec![receive(Some(0))])];
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
        let matched = Wait { matched: true, ..receive(Some(1)) };
        assert_eq!(snapshot(&[Some(vec![matched]), waits[1].clone()]).deadlock(), None);
    }
}
