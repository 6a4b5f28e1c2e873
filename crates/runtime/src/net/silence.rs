//! Silence of all other nodes: a firewall that drops packets tells nobody.

use std::collections::HashMap;

/// Silence after which the user is warned, ns.
pub(super) const SILENCE_NS: u64 = 5_000_000_000;

/// Silence of one rank after which the user is warned, ns: a rank may be away from MPI for a while.
pub(super) const PEER_SILENCE_NS: u64 = 10_000_000_000;

/// Watches whether anything ever comes from another node. Says once that nothing does.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Whether something has come, or the silence was named.
    is_over: bool,
    /// When it was asked first why nothing comes.
    since_ns: Option<u64>,
}

impl Silence {
    /// Takes what was counted by now, `now_ns` of library time; whether the silence is to be named now.
    ///
    /// Library time may be a little behind an earlier reading when the job goes on after a stop.
    pub(super) fn has_lasted(&mut self, now_ns: u64, datagrams_in: u64, probes: u64) -> bool {
        self.is_over |= datagrams_in > 0;
        if self.is_over || probes == 0 {
            return false;
        }
        let since_ns = *self.since_ns.get_or_insert(now_ns);
        self.is_over = now_ns.saturating_sub(since_ns) >= SILENCE_NS;
        self.is_over
    }
}

/// Refusals that follow each other by more than this are none of one kind, ns: a route that was away for a
/// moment. A question is asked again more often.
const GAP_NS: u64 = 4_000_000_000;

/// Refusals of datagrams for one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) peer: u32,
    /// How many there have been by now, for all peers.
    pub(super) count: u64,
    /// State of the flow to the peer and from it, which changes when something goes through.
    pub(super) progress: u64,
}

/// Watches datagrams that this node's kernel refuses to send. Says once that it goes on, and that nothing
/// goes through to that peer.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// How many there have been by now, for all peers.
    counted: u64,
    /// By peer: the last one, when it was found, and when the present ones began.
    of_peers: HashMap<u32, (Refused, u64, u64)>,
    is_named: bool,
}

impl Refusals {
    /// Takes what was refused by now; whether it is to be named now.
    pub(super) fn have_lasted(&mut self, now_ns: u64, refused: Refused) -> bool {
        if self.is_named || self.counted == refused.count {
            return false;
        }
        self.counted = refused.count;
        let before = self.of_peers.get(&refused.peer).filter(|(seen, seen_ns, _)| {
            seen.progress == refused.progress && now_ns.saturating_sub(*seen_ns) <= GAP_NS
        });
        let since_ns = before.map_or(now_ns, |(_, _, since_ns)| *since_ns);
        self.of_peers.insert(refused.peer, (refused, now_ns, since_ns));
        self.is_named = now_ns.saturating_sub(since_ns) >= SILENCE_NS;
        self.is_named
    }

    /// Whether they were named: then silence has a reason that the user knows.
    pub(super) fn is_named(&self) -> bool {
        self.is_named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_NS: u64 = 1_000_000_000;

    #[test]
    fn silence_is_named_once_after_its_time() {
        let mut silence = Silence::default();
        assert!(!silence.has_lasted(0, 0, 0), "nothing was asked");
        assert!(!silence.has_lasted(BEGIN_NS, 0, 1));
        assert!(!silence.has_lasted(BEGIN_NS + SILENCE_NS - 1, 0, 2));
        assert!(silence.has_lasted(BEGIN_NS + SILENCE_NS, 0, 3));
        assert!(!silence.has_lasted(BEGIN_NS + 2 * SILENCE_NS, 0, 4));
    }

    #[test]
    fn refusals_are_named_once_when_they_go_on() {
        let mut refusals = Refusals::default();
        let mut at = |seconds, count| refusals.have_lasted(at_seconds(seconds), refused(1, count, 7));
        assert!(!at(0, 1));
        assert!(!at(3, 2) && !at(4, 2));
        // Those of before are over.
        assert!(!at(20, 3));
        assert!(!at(23, 5) && at(25, 6));
        assert!(!at(26, 7), "once");
    }

    /// A queue that overflows, or a rule for some packets.
    #[test]
    fn refusals_are_not_named_where_the_others_go_through() {
        let mut refusals = Refusals::default();
        for turn in 0..20 {
            assert!(!refusals.have_lasted(at_seconds(3 * turn), refused(1, 1 + turn, 7 + turn)), "{turn}");
        }
    }

    #[test]
    fn refusals_of_two_peers_are_not_taken_for_those_of_one() {
        let mut refusals = Refusals::default();
        let mut at =
            |seconds, peer, count| refusals.have_lasted(at_seconds(seconds), refused(peer, count, 7));
        assert!(!at(0, 1, 1) && !at(3, 2, 2) && !at(6, 2, 3));
        assert!(at(8, 2, 4), "of one that goes on");
    }

    /// One rule for all nodes: timers of the peers end in turn.
    #[test]
    fn refusals_of_peers_in_turn_are_named() {
        let mut refusals = Refusals::default();
        let named = (0..8).find(|turn| {
            let now_ns = BEGIN_NS + turn * 1_500_000_000;
            refusals.have_lasted(now_ns, refused(1 + (turn % 2) as u32, 1 + turn, 7))
        });
        assert_eq!(named, Some(4), "6 s after the first one of the first peer");
    }

    fn at_seconds(seconds: u64) -> u64 {
        BEGIN_NS + seconds * 1_000_000_000
    }

    fn refused(peer: u32, count: u64, progress: u64) -> Refused {
        Refused { peer, count, progress }
    }

    #[test]
    fn silence_ends_with_the_first_datagram() {
        let mut silence = Silence::default();
        assert!(!silence.has_lasted(BEGIN_NS, 0, 1));
        assert!(!silence.has_lasted(BEGIN_NS + SILENCE_NS, 1, 2));
        assert!(!silence.has_lasted(BEGIN_NS + 2 * SILENCE_NS, 1, 3));
    }

    #[test]
    fn silence_is_not_named_when_library_time_is_behind_an_earlier_reading() {
        let mut silence = Silence::default();
        assert!(!silence.has_lasted(BEGIN_NS, 0, 1));
        assert!(!silence.has_lasted(BEGIN_NS - 1, 0, 2));
        assert!(silence.has_lasted(BEGIN_NS + SILENCE_NS, 0, 3));
    }
}
