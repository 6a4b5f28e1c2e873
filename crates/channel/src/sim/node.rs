//! A node of the simulator: a rank, its socket buffer, its clock, and the program that runs there.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::board::{Board, SimMemory, bulk_byte};
use super::{Options, Random};
use crate::endpoint::Endpoint;
use crate::exited::ExitedRank;
use crate::ports::{Sink, Source, Taken};
use crate::types::{Identity, Incarnation, Key, Now, Rank};

pub(super) const KEY: Key = Key(0x7475_7474_6973_696d);

/// The rank of a node.
#[derive(Debug)]
pub(super) enum Process {
    /// The rank runs, or is frozen.
    Alive(Box<Endpoint<SimMemory>>),
    /// The rank has left; its node answers.
    Exited(ExitedRank),
    /// The rank was killed, and nobody answers.
    Dead,
}

#[derive(Debug)]
pub(super) struct Node {
    pub process: Process,
    pub program: Program,
    /// Datagrams in the socket, and their charge.
    pub socket: VecDeque<Vec<u8>>,
    pub socket_bytes: u32,
    pub overflowed: u64,
    /// Handed out by the endpoint and not yet sent: the rank was frozen in between.
    pub unsent: Vec<(usize, Vec<u8>)>,
    pub frozen: bool,
    frozen_at: u64,
    frozen_ns_total: u64,
    thaw_count: u32,
    clock_offset: u64,
    /// The only wake-up that counts.
    pub wake_at: u64,
}

/// Program of the rank on its channels: the source of its bulk data, the sink of what arrives.
#[derive(Debug)]
pub(super) struct Program {
    pub rank: usize,
    pub board: Rc<RefCell<Board>>,
    pub random: Random,
    pub refuse_permille: u32,
    /// From whom a record was refused, and not notified yet that there is room.
    pub refused: Vec<bool>,
    /// Takes nothing from anybody.
    pub deaf: bool,
    pub scratch: Vec<u8>,
}

impl Sink for Program {
    fn record(&mut self, from: Rank, record: &[u8]) -> Taken {
        let from = from.0 as usize;
        if self.deaf || self.random.chance(self.refuse_permille.into()) {
            self.refused[from] = true;
            return Taken::Full;
        }
        self.refused[from] = false;
        self.board.borrow_mut().take(from, self.rank, record, &mut self.scratch);
        Taken::Yes
    }

    fn fragment(&mut self, tag: u64, offset: u64, bytes: &[u8]) {
        let mut board = self.board.borrow_mut();
        let bulk = board.bulk.get_mut(&tag).expect("a message that is under way");
        bulk.begun = true;
        assert!(bulk.to == self.rank && !bulk.received, "bytes for message {tag}, which is complete");
        for (at, byte) in bytes.iter().enumerate() {
            let offset = offset + at as u64;
            assert!(*byte == bulk_byte(tag, offset), "byte {offset} of message {tag} is wrong");
            bulk.bytes[offset as usize] = *byte;
        }
    }
}

impl Program {
    /// Bytes are received where those of a message are expected, whatever they are.
    pub(super) fn place(&mut self, tag: u64, offset: u64, data: &[u8]) {
        let mut board = self.board.borrow_mut();
        let Some(bulk) = board.bulk.get_mut(&tag) else { return };
        assert!(bulk.begun, "bytes are received into the memory of message {tag}, which may never come");
        bulk.bytes[offset as usize..][..data.len()].copy_from_slice(data);
    }

    /// Whether there is memory for so many bytes that are expected.
    pub(super) fn has_place(&self, tag: u64, offset: u64, bytes: usize) -> bool {
        self.board.borrow().bulk.get(&tag).is_none_or(|bulk| bulk.may_be_placed(offset, bytes))
    }
}

impl Source for Program {
    fn read(&mut self, tag: u64, offset: u64, into: &mut [u8]) {
        let board = self.board.borrow();
        // What was refused is never known to the board.
        assert!(
            board.bulk.get(&tag).is_none_or(|bulk| !bulk.sent),
            "message {tag} is read after it was sent"
        );
        for (at, byte) in into.iter_mut().enumerate() {
            *byte = bulk_byte(tag, offset + at as u64);
        }
    }

    /// Every second message lies in one piece; what it holds, the network asks `read`.
    fn slice(&self, tag: u64, _offset: u64, bytes: usize) -> Option<&[u8]> {
        tag.is_multiple_of(2).then_some(&PIECE[..bytes])
    }
}

static PIECE: [u8; 1 << 16] = [0; 1 << 16];

impl Node {
    pub(super) fn new(
        options: &Options,
        rank: usize,
        board: &Rc<RefCell<Board>>,
        random: &mut Random,
    ) -> Self {
        let identity = Identity { key: KEY, incarnation: Incarnation(1), rank: Rank(rank as u32) };
        let memory = |peer| (Rank(peer as u32), SimMemory::new(board, rank, peer, options.fifo_bytes));
        let peers = (0..options.ranks).filter(|peer| *peer != rank).map(memory);
        let clock_offset = random.below(1 << 40);
        let now = Now { ns: clock_offset, thaw_count: 0 };
        let endpoint = Endpoint::new(identity, options.config, now, peers).expect("a valid configuration");
        Node {
            process: Process::Alive(Box::new(endpoint)),
            program: Program {
                rank,
                board: Rc::clone(board),
                random: Random::new(random.number()),
                refuse_permille: options.refuse_permille,
                refused: vec![false; options.ranks],
                deaf: false,
                scratch: Vec::new(),
            },
            socket: VecDeque::new(),
            socket_bytes: 0,
            overflowed: 0,
            unsent: Vec::new(),
            frozen: false,
            frozen_at: 0,
            frozen_ns_total: 0,
            thaw_count: 0,
            clock_offset,
            wake_at: 0,
        }
    }

    /// Library time: without the time spent frozen.
    pub(super) fn now(&self, time_ns: u64) -> Now {
        let ns = (time_ns - self.frozen_ns_total).wrapping_add(self.clock_offset);
        Now { ns, thaw_count: self.thaw_count }
    }

    /// When something due at `ns` of this node's library time happens.
    pub(super) fn time_of(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.clock_offset).saturating_add(self.frozen_ns_total)
    }

    pub(super) fn freeze(&mut self, time_ns: u64) {
        if !self.frozen {
            (self.frozen, self.frozen_at) = (true, time_ns);
        }
    }

    pub(super) fn thaw(&mut self, time_ns: u64) {
        if self.frozen {
            self.frozen = false;
            self.frozen_ns_total += time_ns - self.frozen_at;
            self.thaw_count += 1;
        }
    }

    /// The clock jumps, forward or back.
    pub(super) fn jump(&mut self, random: &mut Random) {
        self.clock_offset = random.below(2 * self.clock_offset + 1_000_000_000);
    }

    pub(super) fn alive(&mut self) -> Option<&mut Endpoint<SimMemory>> {
        match &mut self.process {
            Process::Alive(endpoint) => Some(endpoint),
            _ => None,
        }
    }

    pub(super) fn is_dead(&self) -> bool {
        matches!(self.process, Process::Dead)
    }
}
