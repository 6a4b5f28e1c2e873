//! Operations on the memory of ranks of other nodes over channels that lose, double and reorder datagrams,
//! while ranks are frozen at random times: each is done exactly once, in the order of its pair. Some are
//! asked for at the starter of their target as well, which is never frozen, by datagrams that are lost,
//! doubled and reordered too. `make soak-operations` runs as many seeds as one likes.

use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::time::Instant;

use tutti_channel::{
    Config, Endpoint, Identity, Incarnation, Key, Now, PlainMemory, Rank, SendError, Sink, Source, Taken,
};
use tutti_rma::accumulate::Update;
use tutti_rma::claims::Claims;
use tutti_rma::done::{Done, DoneAt};
use tutti_rma::engine::{Engine, Offered, Port, Pushed};
use tutti_rma::operation::{Action, Kept, Operation};
use tutti_rma::region::Region;
use tutti_rma::stand_in::{self, Answers};
use tutti_rma::wire::{Code, Name};
use tutti_shm::opened::Opened;
use tutti_shm::stand_in::{Answer, Place, Question};
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
const KEY: u64 = 9;

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
    /// Of one whose end is noted, which is asked for at the starter too: records that are not answered.
    done: Option<Box<Done>>,
    parts: VecDeque<Kept>,
}

impl Started {
    fn is_over(&self, engine: &Engine) -> bool {
        match &self.done {
            Some(done) => done.count.load(std::sync::atomic::Ordering::Acquire) == 1,
            None => engine.outstanding(self.target) == 0,
        }
    }
}

/// Question to a starter, or its answer.
struct Asked {
    at: u64,
    from: usize,
    to: usize,
    is_answer: bool,
    datagram: Vec<u8>,
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
    /// Words of each rank for the others' requests; what starters have answered, and what is on the way.
    claims: Vec<[u64; RANKS]>,
    answers: Answers,
    asked: Vec<Asked>,
    random: Random,
    ns: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let cells = ZONES_AT + RANKS * ZONE;
        let mut memories: Vec<Box<[u64]>> = (0..RANKS).map(|_| vec![0; cells].into_boxed_slice()).collect();
        let mut names = Vec::new();
        let mut claims = vec![[0; RANKS]; RANKS];
        let nodes = (0..RANKS).map(|rank| {
            let peers = (0..RANKS).filter(|peer| *peer != rank);
            let peers = peers.map(|peer| (Rank(peer as u32), PlainMemory::new(FIFO_BYTES)));
            let identity = Identity { key: Key(KEY), incarnation: Incarnation(0), rank: Rank(rank as u32) };
            let end =
                Endpoint::new(identity, Config::default(), Now { ns: 0, thaw_count: 0 }, peers).unwrap();
            let mut engine = Engine::new(rank as u32, end.config().record_bytes_max());
            // SAFETY: the memory lives as long as the world, and is looked at when all is done.
            let opened = unsafe { Opened::new(NonNull::from(&mut memories[rank][0]).cast(), cells * 8) };
            names.push(engine.open(Region::plain(opened)));
            engine.set_claims(claims_in(&mut claims[rank]), RANKS);
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
            claims,
            answers: Answers::default(),
            asked: Vec::new(),
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
        let mut operation = unsafe { Operation::new(target, self.names[target], action, vec![at]) };
        let mut done = None;
        if self.random.chance(600) {
            let noted: &Done = done.insert(Box::default());
            // SAFETY: it stays beside the operation until that is complete.
            operation = operation.noted(unsafe { DoneAt::new(NonNull::from(noted)) }).keeping_its_records();
        }
        Started { operation, target, data, kind, done, parts: VecDeque::new() }
    }

    /// A datagram between an initiator and a starter leaves: it may be lost, doubled and late.
    fn let_go(&mut self, from: usize, to: usize, is_answer: bool, datagram: &[u8]) {
        let copies = usize::from(!self.random.chance(200)) + usize::from(self.random.chance(100));
        for _ in 0..copies {
            let at = self.ns + 5_000 + self.random.below(400_000);
            self.asked.push(Asked { at, from, to, is_answer, datagram: datagram.to_vec() });
        }
    }

    /// Asks starters for what a rank waits for, as each of its threads would.
    fn ask(&mut self, rank: usize) {
        let mut questions = Vec::new();
        let Node { engine, open, current, .. } = &mut self.nodes[rank];
        for one in open.iter_mut().chain(current) {
            one.parts.extend(one.operation.take_kept());
            while one.parts.front().is_some_and(|part| !engine.awaits(one.target, part)) {
                one.parts.pop_front();
            }
            let Some(part) = one.parts.front() else { continue };
            if engine.first_kept(one.target) != Some(part.number) || !self.random.chance(100) {
                continue;
            }
            let place = Place { region: 0, generation: 1 };
            let (from, to, record) = (rank as u32, one.target as u32, one.operation.record(part));
            let question = Question { key: KEY, from, to, number: part.number, place, record: &record };
            questions.push((one.target, question.encode()));
        }
        for (to, question) in questions {
            self.let_go(rank, to, false, &question);
        }
    }

    /// Questions come to starters, which nothing stops, and answers to ranks that are not frozen.
    fn take_asked(&mut self) {
        let now = self.ns;
        let is_late = |asked: &mut Asked| asked.at <= now;
        for asked in self.asked.extract_if(.., is_late).collect::<Vec<_>>() {
            let Asked { from, to, is_answer, datagram, .. } = asked;
            if is_answer {
                let Node { engine, open, current, frozen_until, .. } = &mut self.nodes[to];
                if *frozen_until > now {
                    self.asked.push(Asked { at: *frozen_until, from, to, is_answer, datagram });
                    continue;
                }
                let Some(answer) = Answer::decode(&datagram) else { panic!("no answer") };
                let is_it = |one: &&mut Started| {
                    let part = one.parts.front().filter(|part| part.number == answer.number);
                    one.target == from && part.is_some_and(|part| engine.awaits(from, part))
                };
                if open.iter_mut().chain(current).find(is_it).is_some() {
                    engine.take(from, answer.record);
                }
                continue;
            }
            let Some(question) = Question::decode(&datagram) else { panic!("no question") };
            let claims = claims_in(&mut self.claims[to]);
            // SAFETY: the memory lives as long as the world.
            let memory = unsafe {
                Opened::new(NonNull::from(&mut self.memories[to][0]).cast(), (ZONES_AT + RANKS * ZONE) * 8)
            };
            let apply = || {
                stand_in::apply_once(claims, &question, |request, answer| {
                    Region::plain(memory).apply(from, request, Some(answer))
                })
            };
            if let Some(record) = self.answers.to(to as u32, &question, apply) {
                let answer = Answer { key: KEY, number: question.number, record }.encode();
                self.let_go(to, from, true, &answer);
            }
        }
    }

    /// Compares what has been answered with what must have been there.
    fn check(&mut self, rank: usize) {
        let node = &mut self.nodes[rank];
        let engine = &node.engine;
        let (done, open) = std::mem::take(&mut node.open).into_iter().partition(|one| one.is_over(engine));
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
        self.take_asked();
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
            self.ask(rank);
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

fn claims_in(words: &mut [u64; RANKS]) -> Claims {
    // SAFETY: the words live as long as the world, and are reached by atomics alone.
    Claims::new(unsafe { Opened::new(NonNull::from(words).cast(), RANKS * 8) })
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

// Paper: C3
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
