//! Two endpoints joined by hand: what the interface promises call by call.

use tutti_channel::packet::{FRAGMENT_BYTES_BEFORE, fragment_place};
use tutti_channel::{
    BulkError, Config, ConfigError, Drop, Endpoint, Event, FlowWord, Identity, Incarnation, Key, Now,
    PEERS_MAX, PlainMemory, Rank, SendError,
};

mod sides;

use sides::{Side, at, datagrams, endpoint};

struct Pair {
    ends: [Endpoint<PlainMemory>; 2],
    sides: [Side; 2],
    ns: u64,
}

impl Pair {
    fn new() -> Self {
        let sides = [0, 1].map(|_| Side { room: usize::MAX, ..Side::default() });
        Pair { ends: [endpoint(0, &[1]), endpoint(1, &[0])], sides, ns: 0 }
    }

    /// One exchange: what side `from` has to send reaches the other, but for what `keep` refuses.
    fn carry(&mut self, from: usize, mut keep: impl FnMut(usize) -> bool) -> usize {
        self.ns += 1000;
        let sent = datagrams(&mut self.ends[from], &mut self.sides[from], at(self.ns));
        for (count, datagram) in sent.iter().enumerate() {
            if keep(count) {
                let (end, side) = (&mut self.ends[1 - from], &mut self.sides[1 - from]);
                end.handle_datagram(at(self.ns), datagram, side).unwrap();
            }
        }
        sent.len()
    }

    fn settle(&mut self) {
        while self.carry(0, |_| true) + self.carry(1, |_| true) > 0 {}
    }

    /// Lets the timer fire that is due next.
    fn wait(&mut self) {
        let due = self.ends.iter().filter_map(Endpoint::poll_timeout).min().expect("a timer");
        self.ns = self.ns.max(due);
        for end in &mut self.ends {
            end.handle_timeout(at(self.ns));
        }
    }
}

#[test]
fn silent_peer_is_known_by_time_and_by_its_first_answer() {
    const FOR_NS: u64 = 10_000_000_000;
    let mut pair = Pair::new();
    let silent = |pair: &Pair| pair.ends[0].silent_peer(at(pair.ns), FOR_NS);
    pair.ends[0].try_send(Rank(1), b"x", &[]).unwrap();
    pair.settle();
    assert_eq!(silent(&pair), None, "it has answered");
    pair.ends[0].try_send(Rank(1), b"y", &[]).unwrap();
    // Nothing arrives any more.
    pair.carry(0, |_| false);
    pair.wait();
    let asked_ns = pair.ns;
    while pair.ns < asked_ns + FOR_NS {
        assert_eq!(silent(&pair), None, "{} ns", pair.ns - asked_ns);
        pair.carry(0, |_| false);
        pair.wait();
    }
    assert_eq!(silent(&pair), Some(Rank(1)));
    pair.carry(0, |_| true);
    pair.carry(1, |_| true);
    assert_eq!(silent(&pair), None, "it is back");
}

#[test]
fn silent_peer_is_known_in_a_job_that_takes_turns() {
    const FOR_NS: u64 = 10_000_000_000;
    const SLICE_NS: u64 = 100_000_000;
    let (mut end, mut side) = (endpoint(0, &[1]), Side::default());
    let in_turn = |ns: u64| Now { ns, thaw_count: (ns / SLICE_NS) as u32 };
    end.try_send(Rank(1), b"x", &[]).unwrap();
    let mut known_ns = None;
    for ns in (0..FOR_NS + 10 * SLICE_NS).step_by(1_000_000) {
        end.handle_timeout(in_turn(ns));
        datagrams(&mut end, &mut side, in_turn(ns));
        if end.silent_peer(in_turn(ns), FOR_NS).is_some() {
            known_ns.get_or_insert(ns);
        }
    }
    assert!(known_ns.is_some_and(|ns| ns >= FOR_NS), "{known_ns:?}");
    // A clock that went back knows no silence.
    let restored = Now { ns: 1000, thaw_count: u32::MAX };
    end.handle_timeout(restored);
    assert_eq!(end.silent_peer(Now { ns: FOR_NS + 1000, ..restored }, FOR_NS), None);
    // And it begins anew, until a record is heard.
    end.handle_timeout(Now { ns: SLICE_NS, ..restored });
    datagrams(&mut end, &mut side, Now { ns: SLICE_NS, ..restored });
    let later = Now { ns: 2 * FOR_NS, ..restored };
    assert_eq!(end.silent_peer(later, FOR_NS), Some(Rank(1)));
    let mut peer = endpoint(1, &[0]);
    peer.try_send(Rank(0), b"here", &[]).unwrap();
    let record = datagrams(&mut peer, &mut Side::default(), at(0)).remove(0);
    let mut sink = Side { room: 9, ..Side::default() };
    end.handle_datagram(later, &record, &mut sink).unwrap();
    assert_eq!(end.silent_peer(later, FOR_NS), None);
}

// Paper: S10
#[test]
fn record_arrives_only_on_its_own_channel() {
    let mut sender = endpoint(0, &[1, 2]);
    let mut side = Side::default();
    sender.try_send(Rank(1), b"for one", &[]).unwrap();
    let packet = datagrams(&mut sender, &mut side, at(0)).remove(0);
    let mut sink = Side { room: 9, ..Side::default() };
    // Rank 2 is handed the packet for rank 1; so is rank 1 of another job and of another incarnation of this
    // one.
    assert_eq!(endpoint(2, &[0, 1]).handle_datagram(at(0), &packet, &mut sink), Err(Drop::WrongRank));
    for (key, incarnation, reason) in [(43, 1, Drop::WrongKey), (42, 2, Drop::WrongIncarnation)] {
        let identity = Identity { key: Key(key), incarnation: Incarnation(incarnation), rank: Rank(1) };
        let peers = [(Rank(0), PlainMemory::new(16 << 10))];
        let mut other = Endpoint::new(identity, Config::default(), at(0), peers).unwrap();
        assert_eq!(other.handle_datagram(at(0), &packet, &mut sink), Err(reason));
        assert_eq!(other.counters().dropped[reason.index()], 1);
    }
    // A rank whose partition does not contain the sender.
    assert_eq!(endpoint(1, &[2]).handle_datagram(at(0), &packet, &mut sink), Err(Drop::OutsidePartition));
    assert!(sink.records.is_empty());
    let mut receiver = endpoint(1, &[0, 2]);
    receiver.handle_datagram(at(0), &packet, &mut sink).unwrap();
    assert_eq!(sink.records, [b"for one".to_vec()]);
    assert_eq!(receiver.memory(Rank(0)).unwrap().words[FlowWord::RcvNxt as usize], 1);
    assert_eq!(receiver.memory(Rank(2)).unwrap().words[FlowWord::RcvNxt as usize], 0);
}

// Paper: S11
#[test]
fn send_outside_the_job_is_refused() {
    let mut end = endpoint(0, &[1, 5]);
    for rank in [0, 2, 6, u32::MAX] {
        assert_eq!(end.try_send(Rank(rank), b"x", &[]), Err(SendError::OutsidePartition(rank)));
        assert_eq!(end.accept_bulk(Rank(rank), 1, 0), Err(BulkError::OutsidePartition(rank)));
    }
    assert!(datagrams(&mut end, &mut Side::default(), at(0)).is_empty());
    assert_eq!(end.try_send(Rank(5), b"x", &[]), Ok(()));
}

// Paper: S13
#[test]
fn send_fails_only_when_the_fifo_is_full() {
    let mut pair = Pair::new();
    let record = [7; 1000];
    let sent = (0..).take_while(|_| pair.ends[0].try_send(Rank(1), &record, &[]).is_ok()).count();
    assert_eq!(sent, (16 << 10) / 1008);
    assert_eq!(pair.ends[0].try_send(Rank(1), &record, &[]), Err(SendError::Full));
    pair.settle();
    assert!(pair.ends[0].is_flushed());
    assert_eq!(pair.ends[0].try_send(Rank(1), &record, &[]), Ok(()));
    let most = pair.ends[0].config().record_bytes_max();
    let long = vec![1; most + 1];
    assert_eq!(pair.ends[0].try_send(Rank(1), &long, &[]), Err(SendError::TooLong { found: most + 1, most }));
    assert_eq!(pair.ends[0].try_send(Rank(1), &long[..9], &long[9..most]), Ok(()));
    pair.settle();
    assert_eq!(pair.sides[1].records.len(), sent + 2);
}

// Paper: S12
#[test]
fn nack_once_per_gap_and_old_nacks_are_ignored() {
    let mut pair = Pair::new();
    for count in 0..10u8 {
        pair.ends[0].try_send(Rank(1), &[count; 1300], &[]).unwrap();
    }
    pair.carry(0, |count| count != 2);
    assert_eq!(pair.carry(1, |_| true), 1, "seven packets behind one gap are one refusal");
    assert_eq!(pair.carry(0, |_| true), 8);
    pair.settle();
    assert_eq!(pair.sides[1].records, (0..10u8).map(|count| vec![count; 1300]).collect::<Vec<_>>());
    assert_eq!(pair.ends[0].counters().rewinds, 1);
}

#[test]
fn timeout_sends_one_probe_never_the_window() {
    let mut pair = Pair::new();
    for _ in 0..5 {
        pair.ends[0].try_send(Rank(1), &[1; 1300], &[]).unwrap();
    }
    pair.carry(0, |_| false);
    let mut gaps = Vec::new();
    for _ in 0..12 {
        let before = pair.ns;
        pair.wait();
        gaps.push(pair.ns - before);
        let probes = datagrams(&mut pair.ends[0], &mut pair.sides[0], at(pair.ns));
        assert_eq!(probes.iter().map(Vec::len).collect::<Vec<_>>(), [48], "a probe is a header");
    }
    assert!(gaps[0] >= 1_000_000, "the first after {} ns, within the skew of a switch", gaps[0]);
    assert_eq!(gaps[1..8], [200_000, 400_000, 800_000, 1_600_000, 3_200_000, 6_400_000, 10_000_000]);
    pair.wait();
    pair.settle();
    assert_eq!(pair.sides[1].records.len(), 5);
}

#[test]
fn timers_rearm_after_a_thaw() {
    let mut pair = Pair::new();
    pair.ends[0].try_send(Rank(1), b"x", &[]).unwrap();
    pair.carry(0, |_| false);
    let due = pair.ends[0].poll_timeout().unwrap();
    let thawed = Now { ns: due + 1, thaw_count: 1 };
    pair.ends[0].handle_timeout(thawed);
    assert!(datagrams(&mut pair.ends[0], &mut pair.sides[0], thawed).is_empty());
    assert!(pair.ends[0].poll_timeout().unwrap() > due + 1_000_000);
    // The same when the clock goes back.
    let earlier = Now { ns: 5, thaw_count: 1 };
    pair.ends[0].handle_timeout(earlier);
    assert!((1_000_000..10_000_000).contains(&pair.ends[0].poll_timeout().unwrap()));
}

/// Messages go round in 20 ms; one is lost. Its sender is thawed every 5 ms, and looks `polls` times at the
/// clock, `apart_ns` apart, each time. Gives the thaws until it asks.
fn thaws_until_probe(polls: u64, apart_ns: u64) -> u32 {
    let mut pair = Pair::new();
    for _ in 0..20 {
        pair.ends[0].try_send(Rank(1), b"x", &[]).unwrap();
        pair.carry(0, |_| true);
        pair.ns += 20_000_000;
        pair.ends[1].handle_timeout(at(pair.ns));
        pair.carry(1, |_| true);
    }
    assert!(pair.ends[0].is_flushed());
    pair.ends[0].try_send(Rank(1), b"lost", &[]).unwrap();
    assert_eq!(pair.carry(0, |_| false), 1);
    let due = pair.ends[0].poll_timeout().expect("an answer is awaited");
    assert!(due > pair.ns + 10_000_000, "it is late after two slices at the soonest");
    for thaw_count in 1..1000 {
        for poll in 0..polls {
            let now = Now { ns: pair.ns + poll * apart_ns, thaw_count };
            pair.ends[0].handle_timeout(now);
            if !datagrams(&mut pair.ends[0], &mut pair.sides[0], now).is_empty() {
                return thaw_count;
            }
        }
        pair.ns += 5_000_000;
    }
    panic!("nothing was asked in 1000 slices");
}

#[test]
fn lost_packet_is_recovered_when_slices_are_shorter_than_a_round_trip() {
    let thaws = thaws_until_probe(10, 500_000);
    assert!((3..=25).contains(&thaws), "after {thaws} slices of 5 ms");
    // The cores are crowded: of its slice it has a millisecond.
    let thaws = thaws_until_probe(3, 500_000);
    assert!((3..=30).contains(&thaws), "after {thaws} slices of 5 ms");
}

#[test]
fn timers_are_off_when_all_is_acknowledged() {
    let mut pair = Pair::new();
    pair.ends[0].try_send(Rank(1), b"x", &[]).unwrap();
    pair.carry(0, |_| true);
    assert!(
        pair.ends.iter().all(|end| end.poll_timeout().is_some()),
        "an answer is awaited, an acknowledgement owed"
    );
    pair.ends[1].try_send(Rank(0), b"y", &[]).unwrap();
    pair.carry(1, |_| true);
    assert_eq!(
        pair.ends[1].poll_timeout().map(|at| at > 1_000_000),
        Some(true),
        "its record is not acknowledged yet"
    );
    pair.wait();
    pair.settle();
    assert!(pair.ends.iter().all(|end| end.is_flushed() && end.poll_timeout().is_none()));
}

// Paper: S12
#[test]
fn nack_full_record_waits_for_room() {
    let mut pair = Pair::new();
    pair.sides[1].room = 2;
    for count in 0..5u8 {
        pair.ends[0].try_send(Rank(1), &[count], &[]).unwrap();
    }
    pair.settle();
    assert_eq!(pair.sides[1].records.len(), 2);
    // The other direction is not held up by it.
    pair.ends[1].try_send(Rank(0), b"back", &[]).unwrap();
    pair.settle();
    assert_eq!(pair.sides[0].records.len(), 1);
    pair.sides[1].room = 9;
    for _ in 0..3 {
        pair.wait();
        pair.settle();
    }
    assert_eq!(pair.sides[1].records.len(), 2, "nothing is sent until there is said to be room");
    pair.ends[1].handle_room(Rank(0));
    pair.settle();
    assert_eq!(pair.sides[1].records, (0..5u8).map(|count| vec![count]).collect::<Vec<_>>());
}

// Paper: S9
#[test]
fn full_channel_stalls_no_other_channel() {
    let (mut sender, mut side) = (endpoint(0, &[1, 2]), Side::default());
    let mut ends = [endpoint(1, &[0]), endpoint(2, &[0])];
    // Rank 1 never takes anything.
    let mut sides = [Side::default(), Side { room: usize::MAX, ..Side::default() }];
    let mut filled = 0;
    for round in 0..500u64 {
        let now = at(round * 100_000);
        filled += u32::from(sender.try_send(Rank(1), &[1; 500], &[]) == Err(SendError::Full));
        sender.try_send(Rank(2), &round.to_le_bytes(), &[]).unwrap();
        sender.handle_timeout(now);
        for datagram in datagrams(&mut sender, &mut side, now) {
            for (end, side) in ends.iter_mut().zip(&mut sides) {
                let _ = end.handle_datagram(now, &datagram, side);
            }
        }
        for (end, side) in ends.iter_mut().zip(&mut sides) {
            end.handle_timeout(now);
            for datagram in datagrams(end, side, now) {
                sender.handle_datagram(now, &datagram, &mut Side::default()).unwrap();
            }
        }
    }
    assert!(filled > 400, "the FIFO to the deaf rank was full {filled} times");
    assert_eq!(sides[1].records.len(), 500);
    let state = sender.flow_state(Rank(1)).unwrap();
    assert!(state.waits_for_room && state.flight_bytes == 0 && sender.is_steady());
    // It is asked ever more seldom, at the end every 10 ms.
    assert!(sender.counters().probes < 20, "{} probes in 50 ms", sender.counters().probes);
}

#[test]
fn acks_of_large_datagrams_are_not_delayed() {
    let config = Config { datagram_bytes: 60_000, receive_buffer_bytes: 4 << 20, ..Config::default() };
    let end = |rank: u32| {
        let identity = Identity { key: Key(42), incarnation: Incarnation(1), rank: Rank(rank) };
        Endpoint::new(identity, config, at(0), [(Rank(1 - rank), PlainMemory::new(256 << 10))]).unwrap()
    };
    let mut ends = [end(0), end(1)];
    let mut sides = [0, 1].map(|_| Side { room: usize::MAX, ..Side::default() });
    let mut buffer = vec![0; config.transmit_bytes_min()];
    // No time passes: a sender whose FIFO fills must have asked for acknowledgements before it is full.
    for sent in 0..100 {
        assert_eq!(ends[0].try_send(Rank(1), &vec![0; 50_000], &[]), Ok(()), "after {sent}");
        for side in [0, 1, 0] {
            while let Some(packet) = ends[side].poll_transmit(at(0), &mut sides[side], &mut buffer) {
                let bytes = &buffer[..packet.bytes];
                ends[1 - side].handle_datagram(at(0), bytes, &mut sides[1 - side]).unwrap();
            }
        }
    }
    assert_eq!(sides[1].records.len(), 100);
}

/// 64 KiB as an eager message: its receiver is about to answer, so an acknowledgement alone would only come
/// before the answer.
#[test]
fn ack_of_a_multi_datagram_message_rides_on_the_answer() {
    let config = Config { receive_buffer_bytes: 4 << 20, ..Config::default() };
    let end = |rank: u32| {
        let identity = Identity { key: Key(42), incarnation: Incarnation(1), rank: Rank(rank) };
        let peers = [(Rank(1 - rank), PlainMemory::new(256 << 10))];
        Endpoint::new(identity, config, at(0), peers).unwrap()
    };
    let mut pair = Pair { ends: [end(0), end(1)], ..Pair::new() };
    let record = vec![7; config.record_bytes_max()];
    let mut alone = usize::MAX;
    // The first messages find the window small: their sender asks to be acknowledged.
    for _ in 0..20 {
        for _ in 0..48 {
            pair.ends[0].try_send(Rank(1), &record, &[]).unwrap();
        }
        alone = 0;
        while pair.carry(0, |_| true) > 0 {
            alone += pair.carry(1, |_| true);
        }
        pair.ends[1].try_send(Rank(0), b"answer", &[]).unwrap();
        assert_eq!(pair.carry(1, |_| true), 1);
        let words = pair.ends[0].memory(Rank(1)).unwrap().words;
        assert_eq!(words[FlowWord::SndUna as usize] as u32, words[FlowWord::SndNxt as usize] as u32);
        pair.settle();
    }
    assert_eq!(alone, 0, "acknowledgements went alone");
}

/// Losses at the very end have nothing behind them that would tell; the sender asks soon, and not once
/// more before long.
#[test]
fn bulk_lost_tail_is_requested_soon() {
    let mut pair = Pair::new();
    let bytes = 40 * Config::default().fragment_bytes() as u64;
    pair.sides[0].bulk = vec![5; bytes as usize];
    pair.sides[1].bulk = vec![0; bytes as usize];
    for round in 0..2 {
        let id = pair.ends[1].accept_bulk(Rank(0), bytes, 0).unwrap();
        pair.ends[0].send_bulk(Rank(1), id, bytes, 0).unwrap();
        while pair.ends[0].counters().fragments_out < 40 * (round + 1) - 8 {
            pair.carry(0, |_| true);
            pair.carry(1, |_| true);
        }
        let before = pair.ns;
        // In the first round nothing is lost, so that a round trip is known.
        pair.carry(0, |_| round == 0);
        pair.carry(1, |_| true);
        if round == 1 {
            pair.wait();
            assert!(
                pair.ns - before < Config::default().rto_ns_min / 2,
                "asked after {} ns",
                pair.ns - before
            );
            assert_eq!(pair.carry(0, |_| true), 1, "a question is one small datagram");
        }
        pair.settle();
    }
    assert_eq!(pair.sides[1].bulk, pair.sides[0].bulk);
}

#[test]
fn bulk_without_accept_is_refused() {
    let mut pair = Pair::new();
    pair.sides[0].bulk = vec![3; 5000];
    pair.sides[1].bulk = vec![0; 5000];
    let id = pair.ends[1].accept_bulk(Rank(0), 5000, 8).unwrap();
    let unaccepted = tutti_channel::BulkId::from_bits(id.to_bits() + 1);
    pair.ends[0].send_bulk(Rank(1), unaccepted, 5000, 7).unwrap();
    let fragments = datagrams(&mut pair.ends[0], &mut pair.sides[0], at(pair.ns));
    for fragment in fragments {
        let result = pair.ends[1].handle_datagram(at(pair.ns), &fragment, &mut pair.sides[1]);
        assert_eq!(result, Err(Drop::UnknownBulk));
    }
    pair.wait();
    pair.settle();
    assert_eq!(pair.ends[0].poll_event(), Some(Event::BulkRefused { to: Rank(1), tag: 7 }));
    pair.ends[0].send_bulk(Rank(1), id, 5000, 9).unwrap();
    pair.settle();
    assert_eq!(pair.ends[0].poll_event(), Some(Event::BulkSent { to: Rank(1), tag: 9 }));
    assert_eq!(pair.ends[1].poll_event(), Some(Event::BulkReceived { from: Rank(0), tag: 8 }));
    assert_eq!(pair.sides[1].bulk, vec![3; 5000]);
    assert!(pair.ends[0].is_flushed() && pair.ends[1].is_flushed());
}

#[test]
fn bulk_room_that_is_taken_back_is_free_again() {
    let mut pair = Pair::new();
    pair.sides[0].bulk = vec![3; 50_000];
    pair.sides[1].bulk = vec![0; 50_000];
    let most = pair.ends[1].config().bulk_in_max;
    for round in 0..2 * most {
        let id = pair.ends[1].accept_bulk(Rank(0), 50_000, round.into()).expect("room");
        pair.ends[1].cancel_bulk(id);
        // A second time it names nothing.
        pair.ends[1].cancel_bulk(id);
    }
    let full: Vec<_> =
        (0..most).map(|_| pair.ends[1].accept_bulk(Rank(0), 50_000, 1).expect("room")).collect();
    assert_eq!(pair.ends[1].accept_bulk(Rank(0), 50_000, 1), Err(BulkError::Full));
    pair.ends[0].send_bulk(Rank(1), full[0], 50_000, 7).unwrap();
    pair.carry(0, |count| count == 1);
    // What comes later is not stored; its sender hears that there is no room any more.
    full.into_iter().for_each(|id| pair.ends[1].cancel_bulk(id));
    let before = pair.sides[1].bulk.clone();
    pair.settle();
    while !pair.ends[0].is_flushed() {
        pair.wait();
        pair.settle();
    }
    assert_eq!(pair.ends[0].poll_event(), Some(Event::BulkRefused { to: Rank(1), tag: 7 }));
    assert_eq!((pair.ends[1].poll_event(), &pair.sides[1].bulk), (None, &before));
    assert!(pair.ends[0].is_flushed() && pair.ends[1].is_flushed());
}

/// Data of another message is received where one is expected, before it is known whose it is.
#[test]
fn bulk_offered_is_expected_from_its_first_bytes_on() {
    let mut pair = Pair::new();
    pair.sides[0].bulk = vec![3; 50_000];
    pair.sides[1].bulk = vec![0; 50_000];
    // The second has the place of the first, which was the last to be stored.
    for tag in 0..2 {
        let id = pair.ends[1].offer_bulk(Rank(0), 50_000, tag).unwrap();
        pair.settle();
        assert_eq!(pair.ends[1].expected(), None, "offer {tag}");
        pair.ends[0].send_bulk(Rank(1), id, 50_000, tag).unwrap();
        let mut buffer = vec![0; 4 * 1448];
        let run = pair.ends[0].poll_transmit(at(pair.ns), &mut pair.sides[0], &mut buffer).unwrap();
        for fragment in buffer[..run.bytes].chunks(run.segment_bytes) {
            pair.ends[1].handle_datagram(at(pair.ns), fragment, &mut pair.sides[1]).unwrap();
        }
        assert!(pair.ends[1].expected().is_some_and(|expected| expected.tag == tag && expected.offset > 0));
        pair.settle();
        assert_eq!(pair.ends[1].poll_event(), Some(Event::BulkReceived { from: Rank(0), tag }));
        assert_eq!(pair.ends[0].poll_event(), Some(Event::BulkSent { to: Rank(1), tag }));
        assert_eq!(pair.sides[1].bulk, pair.sides[0].bulk);
    }
    let id = pair.ends[1].offer_bulk(Rank(0), 50_000, 2).unwrap();
    pair.ends[1].cancel_bulk(id);
    assert_eq!((pair.ends[1].expected(), pair.ends[1].poll_event()), (None, None));
}

/// The record that says how long a message is comes before its bytes, between them, or behind them all.
#[test]
fn bulk_offered_may_be_shorter_than_its_room() {
    for (tag, confirmed_after, bytes) in [(0, 0, 20_000), (1, 5, 20_000), (2, 99, 20_000), (3, 99, 50_000)] {
        let mut pair = Pair::new();
        pair.sides[0].bulk = vec![3; bytes as usize];
        pair.sides[1].bulk = vec![0; 50_000];
        let id = pair.ends[1].offer_bulk(Rank(0), 50_000, tag).unwrap();
        pair.ends[0].send_bulk(Rank(1), id, bytes, tag).unwrap();
        let mut buffer = vec![0; 64 * 1448];
        let mut fragments = 0;
        while let Some(run) = pair.ends[0].poll_transmit(at(pair.ns), &mut pair.sides[0], &mut buffer) {
            for fragment in buffer[..run.bytes].chunks(run.segment_bytes) {
                if fragments == confirmed_after {
                    assert!(pair.ends[1].confirm_bulk(id, bytes));
                    assert!(pair.ends[1].expected().is_some_and(|it| it.offset + it.bytes as u64 <= bytes));
                }
                pair.ends[1].handle_datagram(at(pair.ns), fragment, &mut pair.sides[1]).unwrap();
                fragments += 1;
            }
        }
        if confirmed_after > fragments {
            pair.settle();
            let is_complete = bytes == 50_000;
            let event = is_complete.then_some(Event::BulkReceived { from: Rank(0), tag });
            assert_eq!(pair.ends[1].poll_event(), event, "message {tag}");
            assert!(!pair.ends[1].confirm_bulk(id, 4000) || is_complete, "more is here");
            assert!(pair.ends[1].confirm_bulk(id, bytes), "message {tag}");
        }
        pair.settle();
        // A short end that came too early is asked for.
        while !pair.ends[0].is_flushed() {
            pair.wait();
            pair.settle();
        }
        let last = pair.ends[1].poll_event();
        let is_early = confirmed_after > fragments && bytes == 50_000;
        assert_eq!(last, (!is_early).then_some(Event::BulkReceived { from: Rank(0), tag }), "message {tag}");
        assert_eq!(pair.ends[0].poll_event(), Some(Event::BulkSent { to: Rank(1), tag }));
        let (here, behind) = pair.sides[1].bulk.split_at(bytes as usize);
        assert!(here == pair.sides[0].bulk && behind.iter().all(|byte| *byte == 0), "message {tag}");
    }
}

#[test]
fn bulk_resends_only_lost_fragments_of_a_burst() {
    let mut pair = Pair::new();
    let bytes = 40_000;
    pair.sides[0].bulk = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
    pair.sides[1].bulk = vec![0; bytes];
    let id = pair.ends[1].accept_bulk(Rank(0), bytes as u64, 1).unwrap();
    pair.ends[0].send_bulk(Rank(1), id, bytes as u64, 1).unwrap();
    let mut buffer = vec![0; 64 * 1448];
    let burst = pair.ends[0].poll_transmit(at(0), &mut pair.sides[0], &mut buffer).unwrap();
    let mut sent: Vec<_> = buffer[..burst.bytes].chunks(burst.segment_bytes).map(<[u8]>::to_vec).collect();
    assert!(sent.len() >= 16, "a burst of {}", sent.len());
    sent.remove(3);
    sent.remove(8);
    for fragment in &sent {
        pair.ends[1].handle_datagram(at(0), fragment, &mut pair.sides[1]).unwrap();
    }
    pair.settle();
    assert_eq!(pair.ends[1].poll_event(), Some(Event::BulkReceived { from: Rank(0), tag: 1 }));
    assert_eq!(pair.sides[1].bulk, pair.sides[0].bulk);
    let counters = pair.ends[0].counters();
    assert_eq!(counters.fragments_lost, 2);
    assert_eq!(counters.fragments_out, bytes.div_ceil(1384) as u64 + 2);
}

#[test]
fn bulk_loss_keeps_later_runs_in_their_expected_place() {
    let mut pair = Pair::new();
    let bytes = 1384 * 900;
    pair.sides[0].bulk = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
    pair.sides[1].bulk = vec![0; bytes];
    let id = pair.ends[1].accept_bulk(Rank(0), bytes as u64, 1).unwrap();
    pair.ends[0].send_bulk(Rank(1), id, bytes as u64, 1).unwrap();
    let mut buffer = vec![0; 40 * 1448];
    let (mut sent, mut runs, mut begun_well) = (0, 0, 0);
    while pair.ends[1].poll_event().is_none() {
        while let Some(run) = pair.ends[0].poll_transmit(at(pair.ns), &mut pair.sides[0], &mut buffer) {
            let expected = pair.ends[1].expected().expect("a message is on its way");
            let first = fragment_place(&buffer[..FRAGMENT_BYTES_BEFORE]).0;
            runs += 1;
            begun_well += u32::from(first == expected.offset);
            for fragment in buffer[..run.bytes].chunks(run.segment_bytes) {
                sent += 1;
                // One in the middle of a run, and one so near its end that it is not known to be lost before
                // the next.
                if !matches!(sent % 41, 17 | 39) {
                    pair.ends[1].handle_datagram(at(pair.ns), fragment, &mut pair.sides[1]).unwrap();
                }
            }
            pair.carry(1, |_| true);
        }
        if pair.ends[1].poll_timeout().is_some() {
            pair.wait();
        }
    }
    assert_eq!(pair.sides[1].bulk, pair.sides[0].bulk);
    assert!(pair.ends[0].counters().fragments_lost >= 20);
    // A run whose own first fragment was lost is never expected; at the end there are only such.
    assert!(
        begun_well * 20 >= runs * 19 && runs > 20,
        "{begun_well} of {runs} runs began where they were expected"
    );
}

#[test]
fn queued_records_leave_as_one_gso_run() {
    let mut pair = Pair::new();
    let longest = pair.ends[0].config().record_bytes_max();
    for length in [longest, longest, longest, 100, 200, longest] {
        pair.ends[0].try_send(Rank(1), &[], &vec![length as u8; length]).unwrap();
    }
    let mut buffer = vec![0; 64 * 1448];
    let mut runs = Vec::new();
    while let Some(run) = pair.ends[0].poll_transmit(at(0), &mut pair.sides[0], &mut buffer) {
        let datagrams: Vec<_> = buffer[..run.bytes].chunks(run.segment_bytes).map(<[u8]>::to_vec).collect();
        runs.push(datagrams.iter().map(Vec::len).collect::<Vec<_>>());
        for datagram in &datagrams {
            pair.ends[1].handle_datagram(at(0), datagram, &mut pair.sides[1]).unwrap();
        }
    }
    let full = 48 + 8 + longest;
    assert_eq!(runs, [vec![full, full, full, 48 + 8 + 104 + 8 + 200], vec![full]]);
    let lengths: Vec<_> = pair.sides[1].records.iter().map(Vec::len).collect();
    assert_eq!(lengths, [longest, longest, longest, 100, 200, longest]);
}

#[test]
fn wrong_sequence_numbers_are_refused_by_name() {
    let make = |config: Config, peers: &[u32], fifo_bytes| {
        let identity = Identity { key: Key(42), incarnation: Incarnation(1), rank: Rank(0) };
        let peers = peers.iter().map(|peer| (Rank(*peer), PlainMemory::new(fifo_bytes)));
        Endpoint::new(identity, config, at(0), peers).err()
    };
    let good = Config::default();
    assert_eq!(make(good, &[1], 4096), None);
    assert_eq!(
        make(Config { datagram_bytes: 255, ..good }, &[1], 4096),
        Some(ConfigError::DatagramBytes(255))
    );
    assert_eq!(make(Config { fifo_records: 100, ..good }, &[1], 4096), Some(ConfigError::FifoRecords(100)));
    assert_eq!(make(good, &[1], 1000), Some(ConfigError::FifoBytes { found: 1000, least: 1400 }));
    assert_eq!(make(Config { bulk_in_max: 0, ..good }, &[1], 4096), Some(ConfigError::BulkMessages(0)));
    assert_eq!(make(Config { burst_datagrams: 65, ..good }, &[1], 4096), Some(ConfigError::Burst(65)));
    for peers in [&[1, 1][..], &[0], &[1 << 20]] {
        let wrong = *peers.last().unwrap();
        assert_eq!(make(good, peers, 4096), Some(ConfigError::Peer(wrong)));
    }
    let short = Config { datagram_bytes: 256, fifo_records: 2, ..good };
    let peers: Vec<u32> = (1..=PEERS_MAX as u32 + 1).collect();
    assert_eq!(make(short, &peers, 256), Some(ConfigError::Peers));
    assert_eq!(make(short, &peers[1..], 256), None);
}

/// Tail of each of several messages behind a burst of it, which would be a run of its own, leaves
/// with what is left of the others.
#[test]
fn bulk_tails_leave_together_behind_all_bursts() {
    const MESSAGES: u64 = 6;
    let mut pair = Pair::new();
    let fragment_bytes = pair.ends[0].config().fragment_bytes();
    // Bursts of 8: one of each message, two whole fragments, and a short one.
    let config = Config { burst_datagrams: 8, receive_buffer_bytes: 4 << 20, ..Config::default() };
    pair.ends = [0, 1].map(|rank| {
        let identity = Identity { key: Key(42), incarnation: Incarnation(1), rank: Rank(rank) };
        Endpoint::new(identity, config, at(0), [(Rank(1 - rank), PlainMemory::new(16 << 10))]).unwrap()
    });
    let bytes = 10 * fragment_bytes + 100;
    pair.sides[0].bulk = (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
    pair.sides[1].bulk = vec![0; bytes];
    for round in 0..8 {
        for tag in 0..MESSAGES {
            let id = pair.ends[1].accept_bulk(Rank(0), bytes as u64, tag).unwrap();
            pair.ends[0].send_bulk(Rank(1), id, bytes as u64, tag).unwrap();
        }
        let (mut runs, mut fragments, mut buffer) = (Vec::new(), 0, vec![0; 64 * 1448]);
        while fragments < MESSAGES * 11 {
            pair.ns += 1000;
            while let Some(run) = pair.ends[0].poll_transmit(at(pair.ns), &mut pair.sides[0], &mut buffer) {
                let datagrams: Vec<_> = buffer[..run.bytes].chunks(run.segment_bytes).collect();
                let (side, end) = (&mut pair.sides[1], &mut pair.ends[1]);
                for datagram in &datagrams {
                    end.handle_datagram(at(pair.ns), datagram, side).unwrap();
                }
                fragments += datagrams.len() as u64;
                runs.push(datagrams.len());
            }
            pair.carry(1, |_| true);
        }
        pair.settle();
        // The window has grown to what all of them take: six bursts, two runs of what is left.
        if round == 7 {
            assert_eq!(runs, [8, 8, 8, 8, 8, 8, 8, 5, 5], "datagrams of each run");
        }
        let arrived = std::iter::from_fn(|| pair.ends[1].poll_event()).count() as u64;
        assert_eq!((arrived, &pair.sides[1].bulk), (MESSAGES, &pair.sides[0].bulk));
        while pair.ends[0].poll_event().is_some() {}
    }
}

/// A rest waits for others, but not for ever.
#[test]
fn bulk_tail_is_not_starved() {
    let mut pair = Pair::new();
    let fragment_bytes = pair.ends[0].config().fragment_bytes() as u64;
    pair.sides[0].bulk = vec![1; 32 << 20];
    pair.sides[1].bulk = vec![0; 32 << 20];
    let begin = |pair: &mut Pair, bytes: u64, tag: u64| {
        let id = pair.ends[1].accept_bulk(Rank(0), bytes, tag).unwrap();
        pair.ends[0].send_bulk(Rank(1), id, bytes, tag).unwrap();
    };
    // The window has grown to a burst.
    begin(&mut pair, 2000 * fragment_bytes, 9);
    pair.settle();
    pair.ends.iter_mut().for_each(|end| while end.poll_event().is_some() {});
    let before = pair.ends[0].counters().fragments_out;
    begin(&mut pair, 66 * fragment_bytes, 0);
    begin(&mut pair, 20_000 * fragment_bytes, 1);
    for _ in 0..2000 {
        pair.carry(0, |_| true);
        pair.carry(1, |_| true);
        if let Some(event) = pair.ends[1].poll_event() {
            assert_eq!(event, Event::BulkReceived { from: Rank(0), tag: 0 });
            assert!(
                pair.ends[0].counters().fragments_out < before + 10_000,
                "all of the second message went first"
            );
            return;
        }
    }
    panic!("the rest of the first message has never left");
}

/// A record and its acknowledgement: one datagram each way, without a timer.
#[test]
fn question_rides_on_the_record_and_is_answered_at_once() {
    let mut pair = Pair::new();
    pair.ends[0].try_send(Rank(1), b"put", &[]).unwrap();
    let mark = pair.ends[0].completion(Rank(1)).expect("a flow");
    pair.ends[0].ask_now(Rank(1));
    assert!(!pair.ends[0].is_complete(Rank(1), mark));
    assert_eq!((pair.carry(0, |_| true), pair.carry(1, |_| true)), (1, 1));
    assert!(pair.ends[0].is_complete(Rank(1), mark));
    assert_eq!(pair.carry(0, |_| true) + pair.carry(1, |_| true), 0);
    pair.ends[0].ask_now(Rank(1));
    assert_eq!(pair.carry(0, |_| true), 0, "nothing is outstanding");
}

/// Other than a probe it does not make the stream go back.
#[test]
fn question_behind_records_sends_nothing_again() {
    let mut pair = Pair::new();
    pair.ends[0].try_send(Rank(1), b"first", &[]).unwrap();
    let mark = pair.ends[0].completion(Rank(1)).expect("a flow");
    assert_eq!((pair.carry(0, |_| true), pair.carry(1, |_| true)), (1, 0), "it is acknowledged later");
    pair.ends[0].ask_now(Rank(1));
    assert_eq!(pair.carry(0, |_| true), 1);
    pair.ends[0].try_send(Rank(1), b"second", &[]).unwrap();
    assert_eq!(pair.carry(0, |_| false), 1, "it is lost");
    assert_eq!(pair.carry(1, |_| true), 1);
    assert!(pair.ends[0].is_complete(Rank(1), mark));
    assert_eq!((pair.ends[0].counters().rewinds, pair.carry(0, |_| true)), (0, 0));
    pair.wait();
    pair.settle();
    assert_eq!(pair.sides[1].records.len(), 2);
}

#[test]
fn completion_of_an_idle_flow_is_there_at_once() {
    let pair = Pair::new();
    let mark = pair.ends[0].completion(Rank(1)).expect("a flow");
    assert!(pair.ends[0].is_complete(Rank(1), mark) && pair.ends[0].completion(Rank(7)).is_none());
}
