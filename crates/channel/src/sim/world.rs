//! The world: events by time, until all has arrived.

mod faults;

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::board::{Board, Bulk};
use super::network::Network;
use super::node::{Node, Process};
use super::trace::{Step, Trace};
use super::{Options, Random};
use faults::Checkpoint;

/// All must have arrived this long after the network is well.
const END_NS: u64 = 60_000_000_000;

/// Event of the simulation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    /// A rank looks after its channels.
    Wake(usize),
    /// A datagram reaches a socket.
    Arrival(usize, Vec<u8>),
    /// A rank stops where it is.
    Freeze(usize),
    /// A frozen rank goes on.
    Thaw(usize),
    /// The whole gang is frozen: the cut is taken.
    Cut,
    /// The network is one again, and deaf programs listen.
    Heal,
    /// A fault strikes.
    Fault,
}

/// Report of what a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Events.
    pub events: u64,
    /// Stores of published words, each checked.
    pub stores: u64,
    /// Cuts whose records were compared byte by byte.
    pub cuts: u64,
    /// Records found in flight by those cuts.
    pub in_flight: u64,
    /// Bytes of bulk messages that were claimed to be there and compared, at all stores.
    pub claimed: u64,
    /// Records received.
    pub records: u64,
    /// Bulk messages received.
    pub bulk: u64,
    /// Packets lost, in the network or for want of socket buffer.
    pub lost: u64,
    /// Packets that came twice.
    pub repeated: u64,
    /// Ranks frozen.
    pub freezes: u64,
    /// Endpoints saved and restored.
    pub restores: u64,
    /// Steady states reached by question and answer.
    pub steady: u64,
    /// Records that a sink refused.
    pub refusals: u64,
    /// Pieces of datagrams that were cut.
    pub pieces: u64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.stores += other.stores;
        self.cuts += other.cuts;
        self.in_flight += other.in_flight;
        self.claimed += other.claimed;
        self.records += other.records;
        self.bulk += other.bulk;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.freezes += other.freezes;
        self.restores += other.restores;
        self.steady += other.steady;
        self.refusals += other.refusals;
        self.pieces += other.pieces;
    }
}

/// A run of the simulator.
#[derive(Debug)]
pub struct World {
    pub(super) options: Options,
    pub(super) random: Random,
    pub(super) time_ns: u64,
    queue: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    queued: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) board: Rc<RefCell<Board>>,
    pub(super) network: Network,
    pub(super) incarnation: u32,
    pub(super) report: Report,
    pub(super) checkpoint: Option<Checkpoint>,
    trace: Trace,
    pub(super) buffer: Vec<u8>,
    pub(super) next_tag: u64,
    /// The network is well, nothing new is sent, ranks leave when they are done.
    pub(super) ending: bool,
}

impl World {
    /// The world of `options`.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let mut random = Random::new(options.seed ^ 0x5eed);
        let (first, most) = (options.config.first_seq, options.config.record_bytes_max());
        let board = Rc::new(RefCell::new(Board::new(options.seed, options.ranks, first, most)));
        let nodes: Vec<_> =
            (0..options.ranks).map(|rank| Node::new(&options, rank, &board, &mut random)).collect();
        let mut world = World {
            network: Network::new(&options),
            buffer: vec![
                0;
                options
                    .config
                    .transmit_bytes_min()
                    .max(options.config.datagram_bytes * options.config.burst_datagrams)
            ],
            random,
            time_ns: 0,
            queue: BinaryHeap::new(),
            queued: 0,
            nodes,
            board,
            incarnation: 1,
            report: Report::default(),
            checkpoint: None,
            trace: Trace::default(),
            next_tag: 0,
            ending: false,
            options,
        };
        for rank in 0..options.ranks {
            world.wake(rank, 0);
        }
        if options.fault_every_ns > 0 {
            world.at(options.fault_every_ns, Happening::Fault);
        }
        world
    }

    /// Runs to the end.
    ///
    /// # Panics
    /// When something is wrong; the seed and the last steps are printed.
    #[must_use]
    pub fn run(mut self) -> Report {
        while self.report.events < self.options.events {
            self.step();
        }
        self.end();
        let deadline = self.time_ns + END_NS;
        while !self.is_done() {
            assert!(self.time_ns < deadline, "not all has arrived: {}", self.missing());
            self.step();
        }
        let board = self.board.borrow();
        (self.report.stores, self.report.cuts) = (board.stores, board.cuts);
        (self.report.in_flight, self.report.records) = (board.in_flight, board.all_received());
        self.report.claimed = board.claimed;
        drop(board);
        self.report.lost = self.network.lost + self.nodes.iter().map(|node| node.overflowed).sum::<u64>();
        self.report.repeated = self.network.repeated;
        for node in &mut self.nodes {
            if let Process::Alive(endpoint) = &node.process {
                self.report.refusals += endpoint.counters().refusals;
            }
        }
        self.report
    }

    pub(super) fn at(&mut self, after_ns: u64, happening: Happening) {
        self.queued += 1;
        self.queue.push(Reverse((self.time_ns + after_ns, self.queued, happening)));
    }

    pub(super) fn note(&mut self, step: Step) {
        self.trace.note(self.report.events, self.time_ns, step);
    }

    pub(super) fn log(&mut self, words: String) {
        self.note(Step::Log(words));
    }

    /// The rank looks after its channels at the latest after this long.
    pub(super) fn wake(&mut self, rank: usize, after_ns: u64) {
        let at = self.time_ns + after_ns;
        let node = &mut self.nodes[rank];
        if node.wake_at <= self.time_ns || at < node.wake_at {
            node.wake_at = at;
            self.at(after_ns, Happening::Wake(rank));
        }
    }

    fn step(&mut self) {
        let Reverse((time_ns, _, happening)) = self.queue.pop().expect("something always comes");
        self.time_ns = time_ns;
        self.report.events += 1;
        match happening {
            Happening::Wake(rank) => {
                if self.nodes[rank].wake_at == time_ns {
                    self.run_rank(rank);
                }
            }
            Happening::Arrival(rank, datagram) => self.arrive(rank, datagram),
            other => self.handle_fault(other),
        }
    }

    fn arrive(&mut self, rank: usize, datagram: Vec<u8>) {
        let (charge, node) = (self.options.config.charges.of(datagram.len()), &mut self.nodes[rank]);
        // As the kernel does: what is there already decides.
        if node.socket_bytes > 0 && node.socket_bytes + charge > self.options.config.receive_buffer_bytes {
            node.overflowed += 1;
            return;
        }
        node.socket_bytes += charge;
        node.socket.push_back(datagram);
        if !node.frozen {
            let after_ns =
                if self.random.chance(900) { self.random.below(2000) } else { self.random.below(300_000) };
            self.wake(rank, after_ns);
        }
    }

    /// Whether all that was sent to `rank` by those who live has arrived.
    pub(super) fn has_all(&self, rank: usize) -> bool {
        let board = self.board.borrow();
        let others = (0..self.options.ranks).filter(|peer| !self.nodes[*peer].is_dead());
        let records = others.map(|peer| board.counts(peer, rank)).all(|(sent, received)| sent == received);
        let is_alive = |bulk: &Bulk| !self.nodes[bulk.from].is_dead() && !self.nodes[bulk.to].is_dead();
        let mut bulk = board.bulk.values().filter(|bulk| is_alive(bulk));
        records && bulk.all(|bulk| (bulk.to != rank || bulk.received) && (bulk.from != rank || bulk.sent))
    }

    fn is_done(&self) -> bool {
        let mut alive = (0..self.options.ranks).filter(|rank| !self.nodes[*rank].is_dead());
        alive.all(|rank| match self.nodes[rank].process {
            // Where one was killed the others cannot be rid of what they sent to it.
            Process::Alive(_) => self.options.kill && self.has_all(rank),
            _ => true,
        })
    }

    fn missing(&self) -> String {
        let board = self.board.borrow();
        let mut text = String::new();
        for (from, to) in (0..self.options.ranks).flat_map(|a| (0..self.options.ranks).map(move |b| (a, b))) {
            let (sent, received) = board.counts(from, to);
            if sent != received {
                let words = board.words(from, to);
                text += &format!("{from} -> {to}: {received} of {sent}, {words:?}; ");
            }
        }
        for (tag, bulk) in &board.bulk {
            text += &format!("message {tag} {} -> {} of {} B; ", bulk.from, bulk.to, bulk.bytes.len());
        }
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.trace.print();
            eprintln!("TUTTI_SIM_SEED={} repeats this: {:?}", self.options.seed, self.options);
        }
    }
}
