//! The paper's steady state, the cut, ranks that left, and saved endpoints, step by step.

use tutti_channel::cut::{FlowWords, cut, in_flight};
use tutti_channel::{
    Config, Drop, Endpoint, Event, ExitedRank, FlowMemory, Generation, Incarnation, PlainMemory, Rank,
    RestoreError, SendError, Seq, SteadyResponder, SteadyTest,
};

mod sides;

use sides::{Side, at, datagrams, endpoint, identity, memory};

fn words(end: &Endpoint<PlainMemory>, peer: u32) -> FlowWords {
    FlowWords::from(end.memory(Rank(peer)).unwrap().words)
}

/// Hands the datagrams to `end` and returns what it has to say.
fn deliver(end: &mut Endpoint<PlainMemory>, side: &mut Side, all: &[Vec<u8>], ns: u64) -> Vec<Vec<u8>> {
    for datagram in all {
        end.handle_datagram(at(ns), datagram, side).unwrap();
    }
    datagrams(end, side, at(ns))
}

/// Asks for the steady state of `rank`'s flow to `peer`, whose daemon may answer if `is_frozen`.
fn probe(
    test: &mut SteadyTest,
    responder: &mut SteadyResponder,
    is_frozen: bool,
    receiver: FlowWords,
) -> bool {
    let (mut probe, mut answer) = ([0; 64], [0; 64]);
    // The round before is over; the next one is due.
    let due_ns = test.poll_timeout().expect("a test that goes on");
    let probed = test.poll_probe(due_ns, &mut probe).expect("something to ask");
    assert_eq!(test.poll_probe(due_ns, &mut [0; 64]), None, "one probe a round");
    let found_crc =
        responder.handle_probe(&probe[..probed.bytes], is_frozen, |_| Some(receiver), &mut answer).unwrap();
    if let Some(found_crc) = found_crc {
        test.handle_answer(&answer[..found_crc.bytes]).unwrap();
    }
    test.is_steady()
}

// Paper: S14
#[test]
fn channel_is_quiescent_when_all_is_acked_or_nacked() {
    let (mut sender, mut receiver) = (endpoint(0, &[1]), endpoint(1, &[0]));
    let (mut source, mut sink) = (Side::default(), Side { room: 2, ..Side::default() });
    assert!(sender.is_steady());
    for record in 0..5u8 {
        sender.try_send(Rank(1), &[record; 1000], &[]).unwrap();
    }
    assert!(sender.is_steady(), "nothing has been sent yet");
    let sent = datagrams(&mut sender, &mut source, at(0));
    assert!(!sender.is_steady());
    // Two are acknowledged and three refused: by the answer the sender knows both.
    let answer = deliver(&mut receiver, &mut sink, &sent, 1);
    assert!(deliver(&mut sender, &mut source, &answer, 2).is_empty());
    assert!(sender.is_steady() && !sender.is_flushed());
    let cut = cut(&words(&sender, 1), &words(&receiver, 0)).unwrap();
    assert_eq!((cut.from.0, cut.count()), (2, 3));
    // There is room: the rest follows.
    sink.room = 9;
    receiver.handle_room(Rank(0));
    let room = datagrams(&mut receiver, &mut sink, at(3));
    let sent = deliver(&mut sender, &mut source, &room, 4);
    assert!(!sender.is_steady());
    let answer = deliver(&mut receiver, &mut sink, &sent, 5);
    deliver(&mut sender, &mut source, &answer, 6);
    receiver.handle_timeout(at(1_000_000));
    let answer = datagrams(&mut receiver, &mut sink, at(1_000_000));
    deliver(&mut sender, &mut source, &answer, 1_000_001);
    assert!(sender.is_steady() && sender.is_flushed());
}

// Paper: S15
#[test]
fn channel_is_quiescent_although_a_full_receiver_is_stopped() {
    let (mut sender, mut receiver) = (endpoint(0, &[1]), endpoint(1, &[0]));
    let (mut source, mut sink) = (Side::default(), Side { room: 2, ..Side::default() });
    for record in 0..7u8 {
        sender.try_send(Rank(1), &[record; 1000], &[]).unwrap();
    }
    let sent = datagrams(&mut sender, &mut source, at(0));
    // Four arrive: two are taken, two find it full. Then both ranks are stopped; its refusal and three
    // packets are on their way.
    let refusal = deliver(&mut receiver, &mut sink, &sent[..4], 1);
    assert!(!sender.is_steady());
    let before = (words(&sender, 1), words(&receiver, 0));
    let mut test = SteadyTest::new(identity(0), Generation(5), 1, 0, [(Rank(1), before.0)]);
    let mut responder = SteadyResponder::new(identity(1));
    assert!(
        !probe(&mut test, &mut responder, false, before.1),
        "a rank that is not frozen is not answered for"
    );
    assert!(!responder.is_closed(Rank(0)));
    // An answer of another generation, or to another test, counts for nothing.
    for (generation, number) in [(4, 1), (5, 2)] {
        let mut other =
            SteadyTest::new(identity(0), Generation(generation), number, 0, [(Rank(1), before.0)]);
        let mut stale = SteadyResponder::new(identity(1));
        let (mut probe, mut answer) = ([0; 64], [0; 64]);
        let probed = other.poll_probe(0, &mut probe).unwrap();
        let found_crc = stale
            .handle_probe(&probe[..probed.bytes], true, |_| Some(before.1), &mut answer)
            .unwrap()
            .unwrap();
        assert_eq!(test.handle_answer(&answer[..found_crc.bytes]), Err(Drop::Wrong));
    }
    assert!(probe(&mut test, &mut responder, true, before.1));
    let (first, end) = test.refused(Rank(1)).unwrap();
    assert_eq!((first.0, end.0), (2, 7));
    // What the predicate calls refused is the cut, and lies byte for byte in the sender's FIFO.
    let cut = cut(&before.0, &before.1).unwrap();
    assert_eq!((cut.from, cut.end), (first, end));
    let fifo = sender.memory(Rank(1)).unwrap().fifo();
    let records: Vec<_> = in_flight(&before.0, &cut, fifo).map(|record| record.unwrap().1.to_vec()).collect();
    assert_eq!(records, (2..7u8).map(|record| vec![record; 1000]).collect::<Vec<_>>());
    // Until thaw the flow is closed: what still comes is neither stored nor acknowledged.
    assert!(responder.is_closed(Rank(0)));
    receiver.close(Rank(0));
    sink.room = 9;
    for late in &sent[4..] {
        assert_eq!(receiver.handle_datagram(at(2), late, &mut sink), Err(Drop::Closed));
    }
    assert_eq!(words(&receiver, 0), before.1);
    // Both go on, and nothing is lost.
    responder.handle_thaw();
    receiver.open_all();
    assert!(!responder.is_closed(Rank(0)));
    receiver.handle_room(Rank(0));
    let room = datagrams(&mut receiver, &mut sink, at(3));
    let again = deliver(&mut sender, &mut source, &[refusal, room].concat(), 4);
    deliver(&mut receiver, &mut sink, &again, 5);
    assert_eq!(sink.records, (0..7u8).map(|record| vec![record; 1000]).collect::<Vec<_>>());
}

#[test]
fn exited_rank_is_acknowledged_for() {
    let (mut sender, mut receiver) = (endpoint(0, &[1]), endpoint(1, &[0]));
    let (mut source, mut sink) = (Side::default(), Side { room: 9, ..Side::default() });
    sender.try_send(Rank(1), b"last", &[]).unwrap();
    let sent = datagrams(&mut sender, &mut source, at(0));
    // It arrives, its acknowledgement is lost, and the receiver leaves.
    deliver(&mut receiver, &mut sink, &sent, 1);
    assert!(receiver.is_flushed() && !sender.is_flushed());
    let exited = ExitedRank::new(identity(1), Seq(0), [(Rank(0), 0, words(&receiver, 0).rcv_nxt)]);
    let mut into = [0; 256];
    let due = sender.poll_timeout().unwrap();
    sender.handle_timeout(at(due));
    let probes = datagrams(&mut sender, &mut source, at(due));
    let answer = exited.handle_datagram(&probes[0], &mut into).unwrap().unwrap();
    assert_eq!(answer.to, Rank(0));
    sender.handle_datagram(at(due), &into[..answer.bytes], &mut source).unwrap();
    assert!(sender.is_flushed());
    assert_eq!(sender.poll_event(), Some(Event::PeerExited { rank: Rank(1), unread: 0 }));
    assert_eq!(sender.try_send(Rank(1), b"x", &[]), Err(SendError::Exited(1)));
    // It answers questions only, so that two who left never talk to each other.
    assert_eq!(exited.handle_datagram(&into[..answer.bytes], &mut [0; 256]), Err(Drop::WrongRank));
    let other = ExitedRank::new(identity(0), Seq(0), [(Rank(1), 0, words(&sender, 1).rcv_nxt)]);
    assert_eq!(other.handle_datagram(&into[..answer.bytes], &mut [0; 256]), Ok(None));
}

// Paper: S21
#[test]
fn renewed_flow_takes_nothing_of_the_former_process() {
    let (mut parent, mut child) = (endpoint(0, &[1]), endpoint(1, &[0]));
    let (mut at_parent, mut at_child) =
        (Side { room: 9, ..Side::default() }, Side { room: 9, ..Side::default() });
    for record in 0..3u8 {
        parent.try_send(Rank(1), &[record; 100], &[]).unwrap();
        child.try_send(Rank(0), &[record; 100], &[]).unwrap();
    }
    let to_child = datagrams(&mut parent, &mut at_parent, at(0));
    let to_parent = datagrams(&mut child, &mut at_child, at(0));
    deliver(&mut parent, &mut at_parent, &to_parent, 1);
    let exited = ExitedRank::new(identity(1), Seq(0), [(Rank(0), 0, words(&child, 0).rcv_nxt)]);
    // The child ends; its number gets another process, which knows that it is the second one.
    assert!(parent.renew(Rank(1), 1) && !parent.renew(Rank(7), 1));
    let mut next = endpoint(1, &[0]);
    assert!(next.renew(Rank(0), 1));
    assert!(parent.is_flushed(), "what was for the former is dropped");
    assert_eq!(words(&parent, 1), words(&next, 0));
    for late in &to_parent {
        let taken = parent.handle_datagram(at(2), late, &mut at_parent);
        assert_eq!(taken, Err(Drop::WrongIncarnation));
    }
    for late in &to_child {
        assert_eq!(next.handle_datagram(at(2), late, &mut at_child), Err(Drop::WrongIncarnation));
    }
    // Nor does the stand-in of the former end the flow to the next one.
    parent.try_send(Rank(1), b"hello", &[]).unwrap();
    let sent = datagrams(&mut parent, &mut at_parent, at(3));
    let mut into = [0; 256];
    let answer = exited.handle_datagram(&to_child[0], &mut into).unwrap().unwrap();
    let late = parent.handle_datagram(at(3), &into[..answer.bytes], &mut at_parent);
    assert_eq!(late, Err(Drop::WrongIncarnation));
    at_child.records.clear();
    let answers = deliver(&mut next, &mut at_child, &sent, 4);
    deliver(&mut parent, &mut at_parent, &answers, 5);
    assert_eq!(at_child.records, [b"hello".to_vec()]);
    // A flow with bulk under way is not renewed.
    let id = next.accept_bulk(Rank(0), 5000, 1).unwrap();
    parent.send_bulk(Rank(1), id, 5000, 2).unwrap();
    assert!(!parent.renew(Rank(1), 2) && !next.renew(Rank(0), 2));
}

#[test]
fn exited_rank_answers_the_next_process_of_a_peer() {
    let mut next = endpoint(0, &[1]);
    assert!(next.renew(Rank(1), 1));
    let mut side = Side::default();
    next.try_send(Rank(1), b"where are you", &[]).unwrap();
    let sent = datagrams(&mut next, &mut side, at(0));
    let exited = ExitedRank::new(identity(1), Seq(0), [(Rank(0), 0, Seq(77))]);
    let mut into = [0; 256];
    let answer = exited.handle_datagram(&sent[0], &mut into).unwrap().unwrap();
    next.handle_datagram(at(1), &into[..answer.bytes], &mut side).unwrap();
    assert_eq!(next.poll_event(), Some(Event::PeerExited { rank: Rank(1), unread: 1 }));
    let later = ExitedRank::new(identity(1), Seq(0), [(Rank(0), 2, Seq(0))]);
    assert_eq!(later.handle_datagram(&sent[0], &mut into), Err(Drop::WrongIncarnation));
}

#[test]
fn restored_endpoint_continues_only_under_a_new_incarnation() {
    let (mut sender, mut receiver) = (endpoint(0, &[1]), endpoint(1, &[0]));
    let bulk: Vec<u8> = (0..200_000u32).map(|at| (at % 253) as u8).collect();
    let mut source = Side { bulk: bulk.clone(), ..Side::default() };
    let mut sink = Side { room: 2, bulk: vec![0; bulk.len()], ..Side::default() };
    for record in 0..5u8 {
        sender.try_send(Rank(1), &[record; 1200], &[]).unwrap();
    }
    let id = receiver.accept_bulk(Rank(0), bulk.len() as u64, 4).unwrap();
    sender.send_bulk(Rank(1), id, bulk.len() as u64, 3).unwrap();
    let sent = datagrams(&mut sender, &mut source, at(0));
    let answer = deliver(&mut receiver, &mut sink, &sent, 1);
    deliver(&mut sender, &mut source, &answer, 2);
    let save = |end: &Endpoint<PlainMemory>| {
        let mut saved = Vec::new();
        end.save(&mut saved);
        saved
    };
    let (saved, saved_receiver) = (save(&sender), save(&receiver));
    let restore = |saved: &[u8], incarnation, config| {
        Endpoint::restore(saved, Incarnation(incarnation), config, at(0), |_| Some(memory()))
    };
    let good = Config::default();
    let mut again = restore(&saved, 2, good).unwrap();
    let mut receiver_again = restore(&saved_receiver, 2, good).unwrap();
    assert_eq!(
        save(&restore(&save(&again), 3, good).unwrap()).len(),
        saved.len(),
        "what is saved twice is the same"
    );
    // What was sent before is of another incarnation.
    for late in &sent {
        assert_eq!(receiver_again.handle_datagram(at(1), late, &mut sink), Err(Drop::WrongIncarnation));
    }
    sink.room = 9;
    let mut sent = Vec::new();
    for round in 2..2000 {
        let ns = round * 100_000;
        again.handle_timeout(at(ns));
        receiver_again.handle_timeout(at(ns));
        sent.extend(datagrams(&mut again, &mut source, at(ns)));
        let answer = deliver(&mut receiver_again, &mut sink, &sent, ns);
        sent = deliver(&mut again, &mut source, &answer, ns);
    }
    assert_eq!(sink.records, (0..5u8).map(|record| vec![record; 1200]).collect::<Vec<_>>());
    assert_eq!(sink.bulk, bulk);
    assert!(again.is_flushed());
    // Bad input has its name.
    assert_eq!(
        restore(&saved, 1, good).err(),
        Some(RestoreError::Inconsistent("the incarnation has to change"))
    );
    assert_eq!(restore(&saved[..7], 2, good).err(), Some(RestoreError::Foreign));
    let mut newer = saved.clone();
    newer[4] = 9;
    assert_eq!(restore(&newer, 2, good).err(), Some(RestoreError::Version(9)));
    for at in (16..saved.len()).step_by(37) {
        let mut broken = saved.clone();
        broken[at] ^= 0x10;
        assert!(matches!(restore(&broken, 2, good).err(), Some(RestoreError::Checksum { .. })), "byte {at}");
    }
    let other = Config { fifo_records: 512, ..good };
    assert_eq!(
        restore(&saved, 2, other).err(),
        Some(RestoreError::Differs { name: "fifo_records", saved: 1024, given: 512 })
    );
}
