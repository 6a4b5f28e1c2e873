//! Speed over a link of given speed, delay and loss, in simulated time: exact and repeatable.

use std::collections::VecDeque;

use tutti_channel::{
    Config, Endpoint, Event, Identity, Incarnation, Key, Now, PlainMemory, Rank, Sink, Source, Taken,
};
use tutti_testkit::Random;

/// A wire of a gigabyte a second, 20 us long, with a queue of 1 MiB in front of it.
const NS_PER_BYTE: f64 = 1.0;
const DELAY_NS: u64 = 20_000;
const QUEUE_NS: u64 = 1 << 20;

struct Side {
    records: u64,
}

impl Sink for Side {
    fn record(&mut self, _from: Rank, _record: &[u8]) -> Taken {
        self.records += 1;
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {}
}

impl Source for Side {
    fn read(&mut self, _tag: u64, _offset: u64, _into: &mut [u8]) {}
}

struct Wire {
    free_at: u64,
    packets: VecDeque<(u64, Vec<u8>)>,
    random: Random,
    loss_permille: u32,
    overflowed: u64,
}

impl Wire {
    fn new(loss_permille: u32, seed: u64) -> Self {
        Wire { free_at: 0, packets: VecDeque::new(), random: Random::new(seed), loss_permille, overflowed: 0 }
    }

    fn send(&mut self, now_ns: u64, datagram: &[u8]) {
        let start = self.free_at.max(now_ns);
        if start - now_ns > QUEUE_NS {
            self.overflowed += 1;
            return;
        }
        self.free_at = start + (datagram.len() as f64 * NS_PER_BYTE) as u64;
        if !self.random.chance(self.loss_permille.into()) {
            self.packets.push_back((self.free_at + DELAY_NS, datagram.to_vec()));
        }
    }
}

struct Link {
    ends: [Endpoint<PlainMemory>; 2],
    sides: [Side; 2],
    /// To side 0 and to side 1.
    wires: [Wire; 2],
    ns: u64,
    buffer: Vec<u8>,
}

impl Link {
    fn new(loss_permille: u32, receive_buffer_bytes: u32) -> Self {
        let config = Config { receive_buffer_bytes, ..Config::default() };
        let end = |rank: u32| {
            let identity = Identity { key: Key(1), incarnation: Incarnation(1), rank: Rank(rank) };
            let peers = [(Rank(1 - rank), PlainMemory::new(256 << 10))];
            Endpoint::new(identity, config, Now { ns: 0, thaw_count: 0 }, peers).unwrap()
        };
        Link {
            ends: [end(0), end(1)],
            sides: [Side { records: 0 }, Side { records: 0 }],
            wires: [Wire::new(loss_permille, 1), Wire::new(loss_permille, 2)],
            ns: 0,
            buffer: vec![0; 64 * 1448],
        }
    }

    /// Everything up to the next thing that happens, and that thing.
    fn step(&mut self) {
        for side in 0..2 {
            let now = Now { ns: self.ns, thaw_count: 0 };
            self.ends[side].handle_timeout(now);
            while let Some(sent) = self.ends[side].poll_transmit(now, &mut self.sides[side], &mut self.buffer)
            {
                for datagram in self.buffer[..sent.bytes].chunks(sent.segment_bytes) {
                    self.wires[1 - side].send(self.ns, datagram);
                }
            }
        }
        let arrivals = self.wires.iter().filter_map(|wire| wire.packets.front().map(|(at, _)| *at));
        let timers = self.ends.iter().filter_map(Endpoint::poll_timeout);
        self.ns = arrivals.chain(timers).min().expect("something comes").max(self.ns);
        for side in 0..2 {
            while let Some((at, datagram)) = self.wires[side].packets.pop_front() {
                if at > self.ns {
                    self.wires[side].packets.push_front((at, datagram));
                    break;
                }
                let now = Now { ns: self.ns, thaw_count: 0 };
                self.ends[side].handle_datagram(now, &datagram, &mut self.sides[side]).unwrap();
            }
        }
    }

    /// GB/s of bulk messages of 1 MiB, one after the other was accepted, four at a time.
    fn bulk(mut self) -> f64 {
        const BYTES: u64 = 1 << 20;
        let (mut begun, mut arrived) = (0, 0);
        while arrived < 128 {
            while begun < arrived + 4 {
                let id = self.ends[1].accept_bulk(Rank(0), BYTES, begun).unwrap();
                self.ends[0].send_bulk(Rank(1), id, BYTES, begun).unwrap();
                begun += 1;
            }
            self.step();
            while self.ends[0].poll_event().is_some() {}
            while let Some(event) = self.ends[1].poll_event() {
                assert!(matches!(event, Event::BulkReceived { .. }));
                arrived += 1;
            }
        }
        println!(
            "bulk at {} in 1000 lost: {:.3} GB/s, {} sent again, {} found the queue full",
            self.wires[1].loss_permille,
            (arrived * BYTES) as f64 / self.ns as f64,
            self.ends[0].counters().fragments_lost,
            self.wires[1].overflowed
        );
        (arrived * BYTES) as f64 / self.ns as f64
    }

    /// Millions of records of 100 B a second.
    fn records(mut self) -> f64 {
        const RECORDS: u64 = 400_000;
        let mut sent = 0;
        while self.sides[1].records < RECORDS {
            while sent < RECORDS && self.ends[0].try_send(Rank(1), &[0; 100], &[]).is_ok() {
                sent += 1;
            }
            self.step();
        }
        println!(
            "records at {} in 1000 lost: {:.2} M/s, went back {} times, {} probes",
            self.wires[1].loss_permille,
            RECORDS as f64 * 1e3 / self.ns as f64,
            self.ends[0].counters().rewinds,
            self.ends[0].counters().probes
        );
        RECORDS as f64 * 1e3 / self.ns as f64
    }
}

#[test]
fn bulk_fills_the_link_at_one_percent_loss() {
    let best = Link::new(0, 4 << 20).bulk();
    assert!(best > 0.90, "{best} GB/s of 1 without loss");
    let thousandth = Link::new(1, 4 << 20).bulk();
    assert!(thousandth > 0.95 * best, "{thousandth} GB/s at one in 1000");
    let hundredth = Link::new(10, 4 << 20).bulk();
    assert!(hundredth > 0.85 * best, "{hundredth} GB/s at one in 100");
    assert!(Link::new(100, 4 << 20).bulk() > 0.2, "one in ten is much, not the end");
}

#[test]
fn bulk_adapts_to_a_small_receive_buffer() {
    let speed = Link::new(0, 212_992).bulk();
    assert!(speed > 0.85, "{speed} GB/s into a stock receive buffer");
}

#[test]
fn records_keep_flowing_at_one_percent_loss() {
    let best = Link::new(0, 4 << 20).records();
    assert!(best > 6.0, "{best} M records a second of 8");
    let hundredth = Link::new(10, 4 << 20).records();
    assert!(hundredth > 0.3 * best, "{hundredth} M records a second at one in 100");
}
