//! Operations on the memory of ranks of other nodes over channels that lose, double and reorder datagrams,
//! while ranks are frozen at random times: each is done exactly once, in the order of its pair. `make
//! soak-operations` runs as many seeds as one likes.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::time::Instant;

use tutti_channel::{
    Config, Endpoint, Identity, Incarnation, Key, Now, PlainMemory, Rank, SendError, Sink, Source, Taken,
};
use tutti_rma::accumulate::Update;
use tutti_rma::engine::{Engine, Offered, Port, Pushed};
use tutti_rma::operation::{Action, Operation};
use tutti_rma::region::Region;
use tutti_rma::wire::{Code, Name};
use tutti_shm::opened::Opened;
use tutti_testkit::Random;

const RANKS: usize = 3;
/// Cells of a rank: counters, a cell that is swapped, and a zone for each rank.
const COUNTERS: usize = 4;
const SWAPPED: usize = COUNTERS;
const ZONE: usize = 300;
const ZONES_AT: usize = 8;
const OPERATIONS: usize = 60;
const STEPS_MAX: usize = 400_000;
const FIFO_BYTES: usize = 16 << 10;

struct Node {
    end: Endpoint<PlainMemory>,
    engine: Engine,
    frozen_until: u64,
    thaws: u32,
    /// Number of operations that the node still has to begin, the one being begun, and those that are open.
    left: usize,
    current: Option<Started>,
    open: Vec<Started>,
}

/// An operation with the memory that it names.
struct Started {
    operation: Operation,
    target: usize,
    data: Box<[u64]>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Write,
    /// All cells of the zone were this when it was begun.
    Read(u64),
    Add(usize),
    FetchAdd(usize),
    Swap,
}

struct Apply<'a>(&'a mut Engine);

impl Sink for Apply<'_> {
    fn record(&mut self, from: Rank, record: &[u8]) -> Taken {
        self.0.take(from.0 as usize, record);
        Taken::Yes
    }

    fn fragment(&mut self, _tag: u64, _offset: u64, _bytes: &[u8]) {}
}

struct NoBulk;

impl Source for NoBulk {
    fn read(&mut self, _tag: u64, _offset: u64, _into: &mut [u8]) {}
}

struct ToChannel<'a>(&'a mut Endpoint<PlainMemory>);

impl Port for ToChannel<'_> {
    fn offer(&mut self, to: usize, head: &[u8], body: &[u8]) -> Offered {
        match self.0.try_send(Rank(to as u32), head, body) {
            Ok(()) => Offered::Taken,
            Err(SendError::Full) => Offered::Full,
            Err(error) => panic!("{error}"),
        }
    }
}

struct World {
    nodes: Vec<Node>,
    memories: Vec<Box<[u64]>>,
    names: Vec<Name>,
    /// Values that each rank has written last into its zone of each other.
    written: [[u64; RANKS]; RANKS],
    /// Sums that were added to each counter, and the values that were found there.
    added: [[u64; COUNTERS]; RANKS],
    found: BTreeMap<(usize, usize), Vec<u64>>,
    swapped: [u64; RANKS],
    network: Vec<(u64, usize, usize, Vec<u8>)>,
    random: Random,
    ns: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let cells = ZONES_AT + RANKS * ZONE;
        let mut memories: Vec<Box<[u64]>> = (0..RANKS).map(|_| vec![0; cells].into_boxed_slice()).collect();
        let mut names = Vec::new();
        let nodes = (0..RANKS).map(|rank| {
            let peers = (0..RANKS).filter(|peer| *peer != rank);
            let peers = peers.map(|peer| (Rank(peer as u32), PlainMemory::new(FIFO_BYTES)));
            let identity = Identity { key: Key(9), incarnation: Incarnation(0), rank: Rank(rank as u32) };
            let end =
                Endpoint::new(identity, Config::default(), Now { ns: 0, thaw_count: 0 }, peers).unwrap();
            let mut engine = Engine::new(rank as u32, end.config().record_bytes_max());
            // SAFETY: the memory lives as long as the world, and is looked at when all is done.
            let opened = unsafe { Opened::new(NonNull::from(&mut memories[rank][0]).cast(), cells * 8) };
            names.push(engine.open(Region::plain(opened)));
            Node { end, engine, frozen_until: 0, thaws: 0, left: OPERATIONS, current: None, open: Vec::new() }
        });
        let nodes = nodes.collect();
        World {
            nodes,
            memories,
            names,
            written: Default::default(),
            added: Default::default(),
            found: BTreeMap::new(),
            swapped: [0; RANKS],
            network: Vec::new(),
            random: Random::new(seed),
            ns: 0,
        }
    }

    fn begin(&mut self, rank: usize) -> Started {
        let target = (rank + 1 + self.random.below(RANKS as u64 - 1) as usize) % RANKS;
        let zone = ((ZONES_AT + rank * ZONE) * 8) as u64;
        let counter = self.random.below(COUNTERS as u64) as usize;
        let code = Code {
            element: tutti_datatype::Element::Unsigned(8),
            update: Update::Reduce(tutti_datatype::reduce::Operation::SUM),
        };
        let buffer = |data: &mut Box<[u64]>| {
            tutti_datatype::Buffer::contiguous(data.as_mut_ptr().cast(), data.len() * 8)
        };
        let (kind, mut data, at) = match self.random.below(5) {
            0 => {
                self.written[target][rank] += 1;
                (Kind::Write, vec![self.written[target][rank]; ZONE], (zone, ZONE * 8))
            }
            1 => (Kind::Read(self.written[target][rank]), vec![u64::MAX; ZONE], (zone, ZONE * 8)),
            2 => (Kind::Add(counter), vec![1, 0], (counter as u64 * 8, 8)),
            3 => (Kind::FetchAdd(counter), vec![1, u64::MAX], (counter as u64 * 8, 8)),
            _ => (Kind::Swap, vec![0], (SWAPPED as u64 * 8, 8)),
        };
        if let Kind::Add(counter) | Kind::FetchAdd(counter) = kind {
            self.added[target][counter] += 1;
        }
        let mut data = std::mem::take(&mut data).into_boxed_slice();
        let place: *mut u64 = data.as_mut_ptr();
        let action = match kind {
            Kind::Write => Action::Write { from: buffer(&mut data) },
            Kind::Read(_) => Action::Read { into: buffer(&mut data) },
            Kind::Add(_) => Action::Change { code, origin: place.cast(), result: None },
            Kind::FetchAdd(_) => {
                Action::Change { code, origin: place.cast(), result: Some(place.wrapping_add(1).cast()) }
            }
            Kind::Swap => {
                let guess = self.random.below(4);
                let operands = [guess.to_le_bytes(), (guess + 1).to_le_bytes()].concat();
                data[0] = guess << 32 | 0xffff;
                Action::Swap { operands, result: place.cast() }
            }
        };
        // SAFETY: the data stay beside the operation until it is complete.
        let operation = unsafe { Operation::new(target, self.names[target], action, vec![at]) };
        Started { operation, target, data, kind }
    }

    /// Compares what has been answered with what must have been there.
    fn check(&mut self, rank: usize) {
        let node = &mut self.nodes[rank];
        let engine = &node.engine;
        let (done, open) =
            std::mem::take(&mut node.open).into_iter().partition(|one| engine.outstanding(one.target) == 0);
        node.open = open;
        let done: Vec<Started> = done;
        for one in done {
            match one.kind {
                Kind::Read(expected) => assert!(one.data.iter().all(|cell| *cell == expected), "rank {rank}"),
                Kind::FetchAdd(counter) => {
                    self.found.entry((one.target, counter)).or_default().push(one.data[1]);
                }
                Kind::Swap => self.swapped[one.target] = self.swapped[one.target].max(one.data[0]),
                Kind::Write | Kind::Add(_) => {}
            }
        }
    }

    fn step(&mut self) -> bool {
        self.ns += self.random.below(30_000);
        let mut arrived = Vec::new();
        let now = self.ns;
        self.network.retain_mut(|(at, from, to, datagram)| {
            let arrives = *at <= now;
            if arrives {
                arrived.push((*from, *to, std::mem::take(datagram)));
            }
            !arrives
        });
        for (from, to, datagram) in arrived {
            let node = &mut self.nodes[to];
            if node.frozen_until > now {
                // It waits in the socket.
                self.network.push((node.frozen_until, from, to, datagram));
                continue;
            }
            let time = Now { ns: now, thaw_count: node.thaws };
            node.end.handle_datagram(time, &datagram, &mut Apply(&mut node.engine)).unwrap();
        }
        let mut is_done = true;
        for rank in 0..RANKS {
            let node = &mut self.nodes[rank];
            if node.frozen_until > now {
                is_done = false;
                continue;
            }
            if self.random.chance(2) {
                node.frozen_until = now + self.random.below(3_000_000);
                node.thaws += 1;
                is_done = false;
                continue;
            }
            self.check(rank);
            if self.nodes[rank].current.is_none() && self.nodes[rank].left > 0 {
                self.nodes[rank].left -= 1;
                self.nodes[rank].current = Some(self.begin(rank));
            }
            let (node, random) = (&mut self.nodes[rank], &mut self.random);
            let time = Now { ns: now, thaw_count: node.thaws };
            node.end.handle_timeout(time);
            if let Some(mut current) = node.current.take() {
                let pushed = node.engine.push(&mut current.operation, &mut ToChannel(&mut node.end));
                if random.chance(300) {
                    node.end.ask_now(Rank(current.target as u32));
                }
                match pushed {
                    Pushed::All => node.open.push(current),
                    Pushed::Part => node.current = Some(current),
                    Pushed::Gone => panic!("nobody leaves"),
                }
            }
            node.engine.pump(&mut ToChannel(&mut node.end));
            let mut buffer = vec![0; 64 * 1448];
            while let Some(sent) = node.end.poll_transmit(time, &mut NoBulk, &mut buffer) {
                for datagram in buffer[..sent.bytes].chunks(sent.segment_bytes) {
                    let copies = usize::from(!random.chance(50)) + usize::from(random.chance(30));
                    for _ in 0..copies {
                        let at = now + 5_000 + random.below(60_000);
                        self.network.push((at, rank, sent.to.0 as usize, datagram.to_vec()));
                    }
                }
            }
            let node = &self.nodes[rank];
            is_done &= node.left == 0
                && node.current.is_none()
                && node.open.is_empty()
                && node.end.is_flushed()
                && node.engine.is_flushed();
        }
        is_done
    }

    fn run(mut self, seed: u64) {
        let steps = (0..STEPS_MAX).find(|_| self.step());
        assert!(steps.is_some(), "seed {seed}: it does not end");
        for target in 0..RANKS {
            for rank in (0..RANKS).filter(|rank| *rank != target) {
                let zone = &self.memories[target][ZONES_AT + rank * ZONE..][..ZONE];
                let written = self.written[target][rank];
                assert!(zone.iter().all(|cell| *cell == written), "seed {seed}: rank {rank} wrote {written}");
            }
            for counter in 0..COUNTERS {
                let (cell, added) = (self.memories[target][counter], self.added[target][counter]);
                assert_eq!(cell, added, "seed {seed}: counter {counter} of rank {target}");
                let mut found = self.found.remove(&(target, counter)).unwrap_or_default();
                let count = found.len();
                found.sort_unstable();
                found.dedup();
                let is_below = found.iter().all(|value| *value < added);
                assert!(found.len() == count && is_below, "seed {seed}: a value was found twice");
            }
            let swapped = self.memories[target][SWAPPED];
            assert!(self.swapped[target] <= swapped && swapped <= 4, "seed {seed}: swapped to {swapped}");
            assert_eq!(self.nodes[target].engine.refused(), 0, "seed {seed}");
        }
    }
}

/// Prints how a run that fails is repeated.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}={} repeats this", tutti_testkit::random::SEED, self.0);
        }
    }
}

/// Runs so many seeds, from this one on.
fn run(first: u64, rounds: u64) {
    for round in 0..rounds {
        let repeat = Repeat(first.wrapping_add(round));
        let seed = tutti_testkit::mix(repeat.0);
        World::new(seed).run(seed);
    }
}

#[test]
fn remote_operations_are_done_once_and_in_order() {
    run(tutti_testkit::seed(), 60);
}

#[test]
#[ignore = "runs TUTTI_SIM_SEEDS seeds: make soak-operations"]
fn remote_operations_are_done_once_and_in_order_soak() {
    const ROUNDS: u64 = 100;
    let given =
        std::env::var("TUTTI_SIM_SEEDS").map(|seeds| seeds.parse().expect("TUTTI_SIM_SEEDS is a number"));
    let seeds: u64 = given.unwrap_or(1000);
    let (start, first) = (Instant::now(), tutti_testkit::seed());
    for done in (0..seeds).step_by(ROUNDS as usize) {
        run(first.wrapping_add(done), ROUNDS.min(seeds - done));
        println!(
            "{} of {seeds} seeds, {:.0} s",
            done + ROUNDS.min(seeds - done),
            start.elapsed().as_secs_f64()
        );
    }
    println!("{seeds} seeds from {first}: nothing wrong");
}
