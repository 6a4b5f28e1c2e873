//! Cost of the protocol: two endpoints back to back in memory, one thread, no network. Prints ns per eager
//! record (both sides together) and MB/s of bulk.
//!
//!     cargo run -p tutti-channel --release --example cost

use std::hint::black_box;
use std::time::Instant;

use tutti_channel::{
    Config, Endpoint, Event, Identity, Incarnation, Key, Now, PlainMemory, Rank, Sink, Source, Taken,
};

/// Stores bulk data in memory and looks at records.
struct Memory {
    bulk: Vec<u8>,
    records: u64,
}

impl Sink for Memory {
    fn record(&mut self, _from: Rank, record: &[u8]) -> Taken {
        self.records += 1;
        black_box(record);
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, offset: u64, bytes: &[u8]) {
        self.bulk[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Source for Memory {
    fn read(&mut self, _tag: u64, offset: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.bulk[offset as usize..][..into.len()]);
    }
}

struct Pair {
    ends: [Endpoint<PlainMemory>; 2],
    memory: [Memory; 2],
    buffer: Vec<u8>,
    ns: u64,
}

impl Pair {
    fn new(config: Config, bulk_bytes: usize) -> Self {
        let end = |rank: u32| {
            let identity = Identity { key: Key(1), incarnation: Incarnation(1), rank: Rank(rank) };
            let peers = [(Rank(1 - rank), PlainMemory::new(64 << 10))];
            Endpoint::new(identity, config, Now { ns: 0, thaw_count: 0 }, peers)
                .expect("a valid configuration")
        };
        let memory = || Memory { bulk: vec![0; bulk_bytes], records: 0 };
        let buffer = vec![0; 64 * config.datagram_bytes];
        Pair { ends: [end(0), end(1)], memory: [memory(), memory()], buffer, ns: 0 }
    }

    /// Carries what both have to send until neither has anything.
    fn carry(&mut self) {
        loop {
            let mut idle = true;
            for side in 0..2 {
                self.ns += 100;
                let now = Now { ns: self.ns, thaw_count: 0 };
                while let Some(sent) =
                    self.ends[side].poll_transmit(now, &mut self.memory[side], &mut self.buffer)
                {
                    idle = false;
                    for datagram in self.buffer[..sent.bytes].chunks(sent.segment_bytes) {
                        let other = &mut self.ends[1 - side];
                        other
                            .handle_datagram(now, datagram, &mut self.memory[1 - side])
                            .expect("a good packet");
                    }
                }
            }
            if idle {
                return;
            }
        }
    }

    fn ns_per(&mut self, count: u64, mut one: impl FnMut(&mut Self)) -> f64 {
        for _ in 0..count / 10 {
            one(self);
        }
        let start = Instant::now();
        for _ in 0..count {
            one(self);
        }
        start.elapsed().as_nanos() as f64 / count as f64
    }
}

fn main() {
    let (small, large) = ([7u8; 36], [7u8; 1024]);
    let mut pair = Pair::new(Config::default(), 0);
    let mut turn = 0;
    let ping_pong = pair.ns_per(2_000_000, |pair| {
        turn = 1 - turn;
        pair.ends[turn].try_send(Rank(1 - turn as u32), &small, &[]).expect("room");
        pair.carry();
    });
    println!("record of 36 B, one datagram each, sides in turn   {ping_pong:8.1} ns");
    for (name, record) in [("36 B", &small[..]), ("1 KiB", &large[..])] {
        let stream = pair.ns_per(500_000, |pair| {
            while pair.ends[0].try_send(Rank(1), record, &[]).is_err() {
                pair.carry();
            }
        });
        println!("records of {name}, as many as fit in a datagram   {stream:10.1} ns");
    }
    for datagram_bytes in [1448, 8952, 62_000] {
        const BYTES: usize = 1 << 20;
        let config = Config { datagram_bytes, receive_buffer_bytes: 16 << 20, ..Config::default() };
        let mut pair = Pair::new(config, BYTES);
        let ns = pair.ns_per(300, |pair| {
            let id = pair.ends[1].accept_bulk(Rank(0), BYTES as u64, 1).expect("a place");
            pair.ends[0].send_bulk(Rank(1), id, BYTES as u64, 1).expect("a place");
            pair.carry();
            assert_eq!(pair.ends[0].poll_event(), Some(Event::BulkSent { to: Rank(1), tag: 1 }));
            assert_eq!(pair.ends[1].poll_event(), Some(Event::BulkReceived { from: Rank(0), tag: 1 }));
        });
        println!(
            "bulk of 1 MiB in datagrams of {datagram_bytes:5} B          {:8.0} MB/s",
            BYTES as f64 * 1e3 / ns
        );
    }
}
