//! Packets of nobody: random bytes, and real packets with bytes changed, at an endpoint that is at work.

use tutti_channel::{Config, Endpoint, Identity, Incarnation, Key, PlainMemory, Rank, Sink, Source, Taken};
use tutti_testkit::Random;

mod sides;

use sides::{at, datagrams};

struct Side {
    records: u64,
}

impl Sink for Side {
    fn record(&mut self, _from: Rank, _record: &[u8]) -> Taken {
        self.records += 1;
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= 100_000, "bytes outside of the message");
    }
}

impl Source for Side {
    fn read(&mut self, _tag: u64, _offset: u64, into: &mut [u8]) {
        into.fill(5);
    }
}

fn endpoint(rank: u32) -> Endpoint<PlainMemory> {
    let identity =
        Identity { key: Key(0x1234_5678_9abc_def0), incarnation: Incarnation(3), rank: Rank(rank) };
    let peers = [(Rank(1 - rank), PlainMemory::new(16 << 10))];
    Endpoint::new(identity, Config::default(), at(0), peers).unwrap()
}

/// Packets that are not ours are dropped and counted, and nothing of them is taken.
#[test]
fn forged_packets_without_the_key_are_dropped_and_counted() {
    const PACKETS: u64 = 1_000_000;
    let (mut sender, mut receiver, mut side) = (endpoint(0), endpoint(1), Side { records: 0 });
    let id = receiver.accept_bulk(Rank(0), 100_000, 1).unwrap();
    sender.try_send(Rank(1), b"a record", &[]).unwrap();
    sender.send_bulk(Rank(1), id, 100_000, 1).unwrap();
    let good = datagrams(&mut sender, &mut side, at(0));
    let mut random = Random::new(1);
    let mut bytes = Vec::new();
    for _ in 0..PACKETS {
        bytes.clear();
        if random.chance(500) {
            (0..random.below(200)).for_each(|_| bytes.push(random.number() as u8));
        } else {
            bytes.extend_from_slice(&good[random.below(good.len() as u64) as usize]);
            // A byte of magic, incarnation, key, ranks, length or padding; some more anywhere.
            const FATAL: [u64; 25] =
                [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 26, 27, 46];
            bytes[FATAL[random.below(25) as usize] as usize] ^= 1 + random.below(255) as u8;
            for _ in 0..random.below(5) {
                let place = 28 + random.below(bytes.len() as u64 - 28) as usize;
                bytes[place] = random.number() as u8;
            }
        }
        assert!(receiver.handle_datagram(at(1), &bytes, &mut side).is_err(), "{bytes:?} was taken");
    }
    assert_eq!(receiver.counters().dropped.iter().sum::<u64>(), PACKETS);
    assert_eq!((side.records, receiver.counters().fragments_in), (0, 0));
    assert!(datagrams(&mut receiver, &mut side, at(1)).is_empty(), "it answered a packet that is not ours");
    for packet in &good {
        receiver.handle_datagram(at(2), packet, &mut side).unwrap();
    }
    assert_eq!(side.records, 1);
}

/// One who knows the key can do harm to the flow that it says it is, but not crash it, write outside of a
/// message, or make it use more memory.
#[test]
fn forged_packets_with_the_key_crash_nothing() {
    let mut random = Random::new(2);
    for round in 0..200 {
        let (mut sender, mut receiver, mut side) = (endpoint(0), endpoint(1), Side { records: 0 });
        let mut ns = 0;
        for tag in 0..3 {
            let id = receiver.accept_bulk(Rank(0), 100_000, tag).unwrap();
            sender.send_bulk(Rank(1), id, 100_000, tag).unwrap();
        }
        for _ in 0..200 {
            ns += random.below(2_000_000);
            let _ = sender.try_send(Rank(1), &[1; 500][..random.below(500) as usize], &[]);
            let _ = receiver.try_send(Rank(0), &[1; 500][..random.below(500) as usize], &[]);
            for turn in 0..2 {
                let ends = [&mut sender, &mut receiver];
                let [from, to] = if turn == 0 {
                    ends
                } else {
                    let [a, b] = ends;
                    [b, a]
                };
                from.handle_timeout(at(ns));
                for mut packet in datagrams(from, &mut side, at(ns)) {
                    if random.chance(100) {
                        let mut changed = packet.clone();
                        for _ in 0..1 + random.below(3) {
                            let place = 24 + random.below(changed.len() as u64 - 24) as usize;
                            changed[place] = random.number() as u8;
                        }
                        let _ = to.handle_datagram(at(ns), &changed, &mut side);
                    }
                    if random.chance(900) {
                        let _ = to.handle_datagram(at(ns), &packet, &mut side);
                    }
                    packet.truncate(random.below(packet.len() as u64) as usize);
                    assert!(to.handle_datagram(at(ns), &packet, &mut side).is_err());
                }
            }
            while sender.poll_event().is_some() {}
            while receiver.poll_event().is_some() {}
        }
        assert!(sender.counters().datagrams_in > 0, "round {round} did nothing");
    }
}
