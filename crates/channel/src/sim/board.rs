//! The model: what was sent and received, and the check of every published word against it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::cut::{BulkIn, FlowWords, cut, in_flight};
use crate::ports::{FlowMemory, FlowWord, WORDS};
use crate::types::{BulkId, Seq};
use tutti_testkit::mix;

/// A bulk message of the model.
#[derive(Clone, Debug)]
pub(super) struct Bulk {
    pub from: usize,
    pub to: usize,
    pub id: BulkId,
    /// Bytes as the receiver has them: those that are not there are wrong.
    pub bytes: Vec<u8>,
    /// The receiver has been notified that it is complete.
    pub received: bool,
    pub sent: bool,
    /// Accepted for certain, or something of it has come.
    pub begun: bool,
    /// Bytes for which there was room before the message was known: it may be shorter.
    pub offered: Option<u64>,
}

impl Bulk {
    pub(super) fn new(from: usize, to: usize, id: BulkId, tag: u64, bytes: u64) -> Self {
        let bytes = (0..bytes).map(|offset| !bulk_byte(tag, offset)).collect();
        Bulk { from, to, id, bytes, received: false, sent: false, begun: true, offered: None }
    }

    /// Whether bytes may be received there before it is known whose they are.
    pub(super) fn may_be_placed(&self, offset: u64, bytes: usize) -> bool {
        self.offered.is_none() && offset + bytes as u64 <= self.bytes.len() as u64
    }

    /// Whether the first `count` bytes are there.
    pub(super) fn has_magic(&self, tag: u64, count: u64) -> bool {
        let bytes = self.bytes[..count as usize].iter();
        bytes.enumerate().all(|(at, byte)| *byte == bulk_byte(tag, at as u64))
    }
}

/// Everything that is known about all flows.
#[derive(Clone, Debug)]
pub struct Board {
    pub(super) seed: u64,
    ranks: usize,
    first: Seq,
    record_bytes_max: usize,
    words: Vec<[u64; WORDS]>,
    sent: Vec<u64>,
    received: Vec<u64>,
    pub(super) bulk: HashMap<u64, Bulk>,
    /// While endpoints are being restored their words change all at once.
    pub(super) restoring: bool,
    pub(super) stores: u64,
    pub(super) cuts: u64,
    pub(super) in_flight: u64,
    /// Bytes of bulk messages that were claimed to be there, at all looks.
    pub(super) claimed: u64,
}

/// Record `number` from one rank to another: length and bytes follow from the numbers.
pub fn record_of(seed: u64, (from, to): (usize, usize), number: u64, bytes_max: usize, into: &mut Vec<u8>) {
    let hash = mix(seed ^ mix(number ^ mix((from as u64) << 32 | to as u64)));
    let length = match hash % 16 {
        0 => bytes_max,
        1..=3 => hash as usize / 16 % (bytes_max + 1),
        _ => hash as usize / 16 % 64,
    };
    into.clear();
    into.extend((0..length as u64).map(|at| (hash >> (at % 57)) as u8 ^ at as u8));
}

/// Byte `offset` of bulk message `tag`.
pub(super) fn bulk_byte(tag: u64, offset: u64) -> u8 {
    (tag.wrapping_mul(31) ^ offset ^ offset >> 8 ^ offset >> 16) as u8
}

impl Board {
    pub(super) fn new(seed: u64, ranks: usize, first: Seq, record_bytes_max: usize) -> Self {
        let mut words = [u64::from(first.0); WORDS];
        words[FlowWord::Rewind as usize..].fill(0);
        Board {
            seed,
            ranks,
            first,
            record_bytes_max,
            words: vec![words; ranks * ranks],
            sent: vec![0; ranks * ranks],
            received: vec![0; ranks * ranks],
            bulk: HashMap::new(),
            restoring: false,
            stores: 0,
            cuts: 0,
            in_flight: 0,
            claimed: 0,
        }
    }

    pub(super) fn flow(&self, from: usize, to: usize) -> usize {
        from * self.ranks + to
    }

    /// The words that `rank` has published of its flow with `peer`.
    #[must_use]
    pub fn words(&self, rank: usize, peer: usize) -> FlowWords {
        FlowWords::from(self.words[self.flow(rank, peer)])
    }

    /// Records sent and received from one rank to another.
    #[must_use]
    pub fn counts(&self, from: usize, to: usize) -> (u64, u64) {
        let flow = self.flow(from, to);
        (self.sent[flow], self.received[flow])
    }

    /// Records received on all flows.
    pub(super) fn all_received(&self) -> u64 {
        self.received.iter().sum()
    }

    /// The next record of a flow, to be sent.
    pub(super) fn next_record(&self, from: usize, to: usize, into: &mut Vec<u8>) {
        record_of(self.seed, (from, to), self.counts(from, to).0, self.record_bytes_max, into);
    }

    pub(super) fn note_sent(&mut self, from: usize, to: usize) {
        let flow = self.flow(from, to);
        self.sent[flow] += 1;
    }

    /// A record reaches its sink: it has to be the next one.
    pub(super) fn take(&mut self, from: usize, to: usize, record: &[u8], scratch: &mut Vec<u8>) {
        let (sent, received) = self.counts(from, to);
        assert!(received < sent, "record {received} from {from} to {to} arrived and only {sent} were sent");
        record_of(self.seed, (from, to), received, self.record_bytes_max, scratch);
        assert!(record == scratch, "what arrived from {from} at {to} is not record {received}");
        let flow = self.flow(from, to);
        self.received[flow] += 1;
    }

    /// Checks that what is in flight is what is missing: by number, and by every byte if the sender's
    /// FIFO is given.
    pub(super) fn check_cut(&mut self, from: usize, to: usize, fifo: Option<&[u8]>) {
        let (sender, receiver) = (self.words(from, to), self.words(to, from));
        let cut = cut(&sender, &receiver).unwrap_or_else(|error| panic!("flow from {from} to {to}: {error}"));
        let (sent, received) = self.counts(from, to);
        // A record is published before the word that commits it, and both are between two events.
        let number =
            |seq: Seq| (received as i64 + i64::from(seq.since(self.first.plus(received as u32)))) as u64;
        assert!(
            number(cut.from) == received || number(cut.from) + 1 == received,
            "{received} records from {from} to {to} were taken and its word says {}",
            number(cut.from)
        );
        assert!(number(cut.end) <= sent + 1, "{} records claimed and {sent} sent", number(cut.end));
        let Some(fifo) = fifo else { return };
        let mut expected = Vec::new();
        let mut count = 0;
        for record in in_flight(&sender, &cut, fifo) {
            let (seq, record) = record.unwrap_or_else(|error| panic!("flow from {from} to {to}: {error}"));
            record_of(self.seed, (from, to), number(seq), self.record_bytes_max, &mut expected);
            assert!(
                record == expected,
                "record {} in flight from {from} to {to} has other bytes",
                number(seq)
            );
            count += 1;
        }
        assert_eq!(count, cut.count(), "records in flight from {from} to {to}");
        self.cuts += 1;
        self.in_flight += u64::from(count);
    }
}

impl Board {
    /// Checks that what a rank claims to have of a bulk message is there.
    pub(super) fn check_bulk(&mut self, from: usize, to: usize) {
        let Some(shown) = BulkIn::of(&self.words[self.flow(to, from)]) else { return };
        let is_it = |(_, bulk): &(&u64, &Bulk)| {
            (bulk.from, bulk.to, bulk.id) == (from, to, shown.id) && !bulk.received
        };
        let found = self.bulk.iter().find(is_it);
        let (tag, bulk) = found.unwrap_or_else(|| panic!("{to} has no message {:?} of {from}", shown.id));
        let is_right = shown.bytes == bulk.bytes.len() as u64 || bulk.offered == Some(shown.bytes);
        assert!(is_right, "length of {:?} from {from} to {to}: {}", shown.id, shown.bytes);
        assert!(
            bulk.has_magic(*tag, shown.here),
            "{} bytes of {:?} are claimed, and not there",
            shown.here,
            shown.id
        );
        self.claimed += shown.here;
    }
}

/// The memory of a flow in the simulator.
#[derive(Clone, Debug)]
pub struct SimMemory {
    board: Rc<RefCell<Board>>,
    rank: usize,
    peer: usize,
    fifo: Vec<u8>,
}

impl SimMemory {
    pub(super) fn new(board: &Rc<RefCell<Board>>, rank: usize, peer: usize, fifo_bytes: usize) -> Self {
        SimMemory { board: Rc::clone(board), rank, peer, fifo: vec![0xee; fifo_bytes] }
    }

    /// As if both ranks stopped here.
    fn check(&self, board: &mut Board, word: FlowWord) {
        if matches!(word, FlowWord::BulkName | FlowWord::BulkBytes | FlowWord::BulkHere) {
            board.check_bulk(self.peer, self.rank);
        } else if word == FlowWord::RcvNxt {
            board.check_cut(self.peer, self.rank, None);
        } else {
            let walk = board.stores.is_multiple_of(16);
            board.check_cut(self.rank, self.peer, walk.then_some(&self.fifo[..]));
        }
    }
}

impl FlowMemory for SimMemory {
    fn publish(&mut self, word: FlowWord, value: u64) {
        let mut board = self.board.borrow_mut();
        if !board.restoring {
            self.check(&mut board, word);
        }
        let flow = board.flow(self.rank, self.peer);
        board.words[flow][word as usize] = value;
        board.stores += 1;
        if !board.restoring {
            self.check(&mut board, word);
        }
    }

    fn fifo(&self) -> &[u8] {
        &self.fifo
    }

    fn fifo_mut(&mut self) -> &mut [u8] {
        &mut self.fifo
    }
}
