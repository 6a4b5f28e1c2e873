//! Messages between nodes. All integers are little endian.
//!
//! | record | content |
//! |---|---|
//! | FETCH | kind 1, zero 1, units 2, first unit 4 |
//! | PAGE | kind 1, zero 3, first unit 4, offset in the run 4; bytes |
//! | DIFFERENCE | kind 1, zero 1, 1 if it has units of which copies are updated, zero 1; for each unit: unit 4, bytes that follow 2; gap and length as varints, bytes |
//! | DIFFERENCE, checked | kind 1, 1, zero 2, interval 4, place of the store 8, vector time; then as above from the kind on |
//! | UPDATE | kind 1, zero 3, place in the order of its home 8; then as DIFFERENCE from the first unit on |
//! | APPLIED, SETTLED, LEFT | kind 1, zero 3, place, count or unit 8 |
//! | MESSAGE | kind 1, last 1, zero 2; a piece of a message |
//!
//! A message has any length and goes in pieces: kind 1, zero 7, two numbers 8 each, the vector time, the
//! parts of the log that its receiver lacks, moves of homes, and text.

use std::ops::Range;

use super::blocks::{Attributes, PageSize, Protocol};
use super::interval::{Part, SENT_MAX};
use super::time::VectorTime;
use super::unit::{Move, Run, UNIT_BYTES};

/// The kinds of our records.
pub const KINDS: Range<u8> = 0x50..0x58;
/// Asks a home for units.
pub const FETCH: u8 = 0x50;
/// A piece of the answer.
pub const PAGE: u8 = 0x51;
/// Bytes that a node has stored, for their home.
pub const DIFFERENCE: u8 = 0x52;
/// A piece of a message.
pub const MESSAGE: u8 = 0x53;
/// Bytes that others have stored, for a copy.
pub const UPDATE: u8 = 0x54;
/// A copy has all up to here.
pub const APPLIED: u8 = 0x55;
/// All copies have what a node has sent in so many records of differences.
pub const SETTLED: u8 = 0x56;
/// A node has no copy of a unit any more.
pub const LEFT: u8 = 0x57;

/// Bytes of the record that fetches.
pub const FETCH_BYTES: usize = 8;
/// Bytes before those of a page.
pub const PAGE_HEAD_BYTES: usize = 12;
/// Bytes before the differences.
pub const DIFFERENCE_HEAD_BYTES: usize = 4;
/// Bytes of the number behind the head of an update.
const PLACE_BYTES: usize = 8;
/// Bytes of a record with a number.
pub const NUMBER_BYTES: usize = 12;
/// Bytes of a stamp before the time.
const STAMP_BYTES: usize = 12;
/// Bytes before those of a message.
pub const MESSAGE_HEAD_BYTES: usize = 4;
/// A longer message is none of ours.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
// The rest is for times and moves.
const _: () = assert!(SENT_MAX * size_of::<u32>() <= MESSAGE_BYTES_MAX / 2);
/// Bytes before the runs of a unit.
const UNIT_HEAD_BYTES: usize = 6;
/// Bytes of two varints at most.
const RUN_HEAD_BYTES: usize = 4;

/// Request or answer of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A lock is wanted.
    Lock {
        /// Which one.
        lock: u64,
    },
    /// A lock is given back.
    Unlock {
        /// Which one.
        lock: u64,
    },
    /// A node has come to a barrier of so many.
    Arrive {
        /// Which one.
        barrier: u64,
        /// How many meet there.
        count: u64,
    },
    /// A flag is set.
    Set {
        /// Which one.
        flag: u64,
    },
    /// A flag is cleared.
    Clear {
        /// Which one.
        flag: u64,
    },
    /// A node waits for a flag.
    Wait {
        /// Which one.
        flag: u64,
    },
    /// Memory is wanted.
    Allocate {
        /// How much.
        bytes: u64,
        /// Attributes of the memory.
        attributes: Attributes,
        /// The line of the program.
        site: String,
    },
    /// Memory is given back.
    Free {
        /// Where it begins in the arena.
        offset: u64,
        /// The line of the program.
        site: String,
    },
    /// A unit was touched of which the toucher does not know that it is part of a block.
    Touch {
        /// Where, in the arena.
        offset: u64,
    },
    /// A node comes to nothing more: its process has ended.
    End,
    /// A deputy wants a lock for the ranks of its node.
    Borrow {
        /// Which one.
        lock: u64,
    },
    /// The lock goes to a deputy.
    Lend {
        /// Which one.
        lock: u64,
        /// Others wait behind its node.
        is_wanted: bool,
    },
    /// Others wait for a lock that a deputy has.
    Recall {
        /// Which one.
        lock: u64,
    },
    /// A deputy gives a lock back.
    Return {
        /// Which one.
        lock: u64,
    },
    /// The answer to each call that waits.
    Grant {
        /// Thing asked for.
        value: u64,
    },
}

/// A call with what its receiver has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Thing asked for.
    pub call: Call,
    /// Times that the sender has seen, or the receiver is to see.
    pub time: VectorTime,
    /// Intervals that the receiver lacks.
    pub parts: Vec<Part>,
    /// Units of which the sender wants to be the home, or whose home moves.
    pub moves: Vec<Move>,
}

impl Message {
    /// A call without notices.
    pub fn new(call: Call, time: VectorTime) -> Self {
        Message { call, time, parts: Vec::new(), moves: Vec::new() }
    }

    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, numbers, text): (u8, [u64; 2], &str) = match &self.call {
            Call::Lock { lock } => (0, [*lock, 0], ""),
            Call::Unlock { lock } => (1, [*lock, 0], ""),
            Call::Arrive { barrier, count } => (2, [*barrier, *count], ""),
            Call::Set { flag } => (3, [*flag, 0], ""),
            Call::Clear { flag } => (4, [*flag, 0], ""),
            Call::Wait { flag } => (5, [*flag, 0], ""),
            Call::Allocate { bytes, attributes, site } => (6, [*bytes, bits_of(*attributes)], site),
            Call::Free { offset, site } => (7, [*offset, 0], site),
            Call::Grant { value } => (8, [*value, 0], ""),
            Call::Touch { offset } => (9, [*offset, 0], ""),
            Call::End => (10, [0, 0], ""),
            Call::Borrow { lock } => (11, [*lock, 0], ""),
            Call::Lend { lock, is_wanted } => (12, [*lock, u64::from(*is_wanted)], ""),
            Call::Recall { lock } => (13, [*lock, 0], ""),
            Call::Return { lock } => (14, [*lock, 0], ""),
        };
        let mut bytes = vec![kind, 0, 0, 0, 0, 0, 0, 0];
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        let mut put = |number: u32| bytes.extend(number.to_le_bytes());
        self.time.entries().iter().for_each(|entry| put(*entry));
        put(self.parts.len() as u32);
        for part in &self.parts {
            [part.node as u32, part.first, part.intervals.len() as u32].into_iter().for_each(&mut put);
            for runs in &part.intervals {
                put(runs.len() as u32);
                runs.iter().flat_map(|run| [run.first, run.count]).for_each(&mut put);
            }
        }
        put(self.moves.len() as u32);
        let numbers = |one: &Move| [one.run.first, one.run.count, one.rank as u32];
        self.moves.iter().flat_map(numbers).for_each(&mut put);
        bytes.extend(text.as_bytes());
        bytes
    }

    /// The message of so many bytes, among so many nodes with so many units; none: it is not one of ours.
    pub fn decode(bytes: &[u8], nodes: usize, units: u32) -> Option<Message> {
        let mut reader = Reader { bytes };
        let kind = reader.take(8)?[0];
        let [first, second] = [reader.number8()?, reader.number8()?];
        let entries = (0..nodes).map(|_| reader.number()).collect::<Option<Vec<u32>>>()?;
        let mut parts = Vec::new();
        for _ in 0..reader.number()? {
            let (node, number, count) = (reader.number()? as usize, reader.number()?, reader.number()?);
            let mut intervals = Vec::new();
            for _ in 0..count {
                let runs = reader.number()?;
                let runs = (0..runs).map(|_| reader.run(units)).collect::<Option<Vec<Run>>>()?;
                intervals.push(runs);
            }
            let is_right = node < nodes && number > 0 && number.checked_add(count).is_some();
            parts.push(is_right.then_some(Part { node, first: number, intervals })?);
        }
        let mut moves = Vec::new();
        for _ in 0..reader.number()? {
            let (run, rank) = (reader.run(units)?, reader.number()? as usize);
            moves.push((rank < nodes).then_some(Move { run, rank })?);
        }
        let text = std::str::from_utf8(reader.bytes).ok()?.to_owned();
        let call = match kind {
            0 => Call::Lock { lock: first },
            1 => Call::Unlock { lock: first },
            2 => Call::Arrive { barrier: first, count: second },
            3 => Call::Set { flag: first },
            4 => Call::Clear { flag: first },
            5 => Call::Wait { flag: first },
            6 => Call::Allocate { bytes: first, attributes: attributes_of(second), site: text },
            7 => Call::Free { offset: first, site: text },
            8 => Call::Grant { value: first },
            9 => Call::Touch { offset: first },
            10 => Call::End,
            11 => Call::Borrow { lock: first },
            12 => Call::Lend { lock: first, is_wanted: second != 0 },
            13 => Call::Recall { lock: first },
            14 => Call::Return { lock: first },
            _ => return None,
        };
        Some(Message { call, time: VectorTime::from_entries(entries), parts, moves })
    }
}

fn bits_of(attributes: Attributes) -> u64 {
    let Attributes { size, protocol } = attributes;
    u64::from(size == PageSize::Large) | u64::from(protocol == Protocol::Update) << 1
}

fn attributes_of(bits: u64) -> Attributes {
    let size = if bits & 1 == 0 { PageSize::Small } else { PageSize::Large };
    Attributes { size, protocol: if bits & 2 == 0 { Protocol::Invalidate } else { Protocol::Update } }
}

/// Takes numbers from bytes that may be anything.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn number8(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn run(&mut self, units: u32) -> Option<Run> {
        let run = Run { first: self.number()?, count: self.number()? };
        run.first.checked_add(run.count).filter(|end| *end <= units).map(|_| run)
    }

    /// A number below 2^14.
    fn varint(&mut self) -> Option<usize> {
        let low = self.take(1)?[0];
        if low < 0x80 {
            return Some(low.into());
        }
        let high = self.take(1)?[0];
        Some(usize::from(low & 0x7f) | usize::from(high) << 7)
    }
}

fn put_varint(bytes: &mut Vec<u8>, number: usize) {
    assert!(number < 1 << 14, "{number} is no place in a unit");
    if number < 0x80 {
        bytes.push(number as u8);
    } else {
        bytes.extend([number as u8 | 0x80, (number >> 7) as u8]);
    }
}

/// The record that asks for a run of units.
pub fn encode_fetch(run: Run) -> [u8; FETCH_BYTES] {
    let mut record = [0; FETCH_BYTES];
    record[0] = FETCH;
    record[2..4].copy_from_slice(&(run.count as u16).to_le_bytes());
    record[4..].copy_from_slice(&run.first.to_le_bytes());
    record
}

/// The run that a record asks for.
pub fn decode_fetch(record: &[u8], units: u32) -> Option<Run> {
    let record: [u8; FETCH_BYTES] = record.try_into().ok()?;
    let count = u32::from(u16::from_le_bytes([record[2], record[3]]));
    let first = u32::from_le_bytes(record[4..].try_into().ok()?);
    first.checked_add(count).filter(|end| *end <= units && count > 0).map(|_| Run { first, count })
}

/// Head of a piece of an answer.
pub fn encode_page(run: Run, offset: usize) -> [u8; PAGE_HEAD_BYTES] {
    let mut record = [0; PAGE_HEAD_BYTES];
    record[0] = PAGE;
    record[4..8].copy_from_slice(&run.first.to_le_bytes());
    record[8..].copy_from_slice(&(offset as u32).to_le_bytes());
    record
}

/// The first unit of an answer, where its piece belongs, and the piece.
pub fn decode_page(record: &[u8]) -> Option<(u32, usize, &[u8])> {
    let (head, bytes) = record.split_at_checked(PAGE_HEAD_BYTES)?;
    let number = |at: usize| Some(u32::from_le_bytes(head[at..at + 4].try_into().ok()?));
    Some((number(4)?, number(8)? as usize, bytes))
}

/// A record of differences that is being made. It never grows beyond its room.
#[derive(Debug)]
pub struct Differences {
    bytes: Vec<u8>,
    head: usize,
    room: usize,
    /// Where the unit began that is being written, and where its last run ended.
    unit_at: usize,
    run_end: usize,
}

impl Differences {
    /// An empty record of so many bytes at most.
    pub fn new(room: usize) -> Self {
        Differences { bytes: Vec::with_capacity(room), head: 0, room, unit_at: 0, run_end: 0 }
    }

    /// Begins a record.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.extend([DIFFERENCE, 0, 0, 0]);
        self.head = self.bytes.len();
    }

    /// Begins a record of a job that is checked.
    pub fn begin_stamped(&mut self, interval: u32, site: u64, seen: &VectorTime) {
        self.bytes.clear();
        self.bytes.extend([DIFFERENCE, 1, 0, 0]);
        self.bytes.extend(interval.to_le_bytes());
        self.bytes.extend(site.to_le_bytes());
        seen.entries().iter().for_each(|entry| self.bytes.extend(entry.to_le_bytes()));
        self.bytes.extend([0; DIFFERENCE_HEAD_BYTES]);
        self.head = self.bytes.len();
    }

    /// Begins a record for a copy.
    pub fn begin_update(&mut self) {
        self.bytes.clear();
        self.bytes.extend([UPDATE, 0, 0, 0]);
        self.bytes.extend([0; PLACE_BYTES]);
        self.head = self.bytes.len();
    }

    /// Ends a record for a copy, with its place in the order of its home.
    pub fn end_update(&mut self, place: u64) {
        self.bytes[DIFFERENCE_HEAD_BYTES..][..PLACE_BYTES].copy_from_slice(&place.to_le_bytes());
    }

    /// Says that the record has units of which copies are updated.
    pub fn mark_updated(&mut self) {
        self.bytes[2] = 1;
    }

    /// Begins a unit, if there is room for something of it.
    pub fn begin(&mut self, unit: u32) -> bool {
        if self.bytes.len() + UNIT_HEAD_BYTES + RUN_HEAD_BYTES >= self.room {
            return false;
        }
        self.unit_at = self.bytes.len();
        self.run_end = 0;
        self.bytes.extend(unit.to_le_bytes());
        self.bytes.extend([0; 2]);
        true
    }

    /// Adds as much of a run of the unit as there is room for; how many bytes.
    pub fn put(&mut self, offset: usize, bytes: &[u8]) -> usize {
        let room = self.room.saturating_sub(self.bytes.len() + RUN_HEAD_BYTES);
        let count = bytes.len().min(room);
        if count > 0 {
            put_varint(&mut self.bytes, offset - self.run_end);
            put_varint(&mut self.bytes, count);
            self.bytes.extend(&bytes[..count]);
            self.run_end = offset + count;
        }
        count
    }

    /// Ends the unit. One of which nothing was added leaves no trace.
    pub fn end(&mut self) {
        let length = self.bytes.len() - self.unit_at - UNIT_HEAD_BYTES;
        if length == 0 {
            self.bytes.truncate(self.unit_at);
        } else {
            let at = self.unit_at + 4;
            self.bytes[at..at + 2].copy_from_slice(&(length as u16).to_le_bytes());
        }
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= self.head
    }

    /// The record.
    pub fn record(&self) -> &[u8] {
        &self.bytes
    }
}

/// Ranks that a job which is checked may have, by the bytes of the longest record: a stamp names an interval
/// of each, and a store has to follow.
pub fn checked_ranks_max(record_bytes_max: usize) -> usize {
    let stamp = DIFFERENCE_HEAD_BYTES + STAMP_BYTES + DIFFERENCE_HEAD_BYTES;
    record_bytes_max.saturating_sub(stamp + UNIT_HEAD_BYTES + RUN_HEAD_BYTES + 1) / size_of::<u32>()
}

/// The stamp of a record of differences of a job that is checked: its interval, where it stored, what it has
/// seen; behind it the record goes on as any.
pub fn decode_stamp(record: &[u8], nodes: usize) -> Option<(u32, u64, VectorTime, &[u8])> {
    let mut reader = Reader { bytes: record.get(DIFFERENCE_HEAD_BYTES..)? };
    let (interval, site) = (reader.number()?, reader.number8()?);
    let entries = (0..nodes).map(|_| reader.number()).collect::<Option<Vec<u32>>>()?;
    let head = DIFFERENCE_HEAD_BYTES + STAMP_BYTES + nodes * size_of::<u32>();
    Some((interval, site, VectorTime::from_entries(entries), record.get(head..)?))
}

/// Whether a record of differences has units of which copies are updated.
pub fn is_for_copies(record: &[u8]) -> bool {
    record.get(2) == Some(&1)
}

/// Place of a record for a copy; behind it the record goes on as differences.
pub fn decode_update(record: &[u8]) -> Option<(u64, &[u8])> {
    let mut reader = Reader { bytes: record.get(DIFFERENCE_HEAD_BYTES..)? };
    Some((reader.number8()?, &record[PLACE_BYTES..]))
}

/// The record with a number.
pub fn encode_number(kind: u8, number: u64) -> [u8; NUMBER_BYTES] {
    let mut record = [0; NUMBER_BYTES];
    record[0] = kind;
    record[4..].copy_from_slice(&number.to_le_bytes());
    record
}

/// Number of such a record.
pub fn decode_number(record: &[u8]) -> Option<u64> {
    let record: &[u8; NUMBER_BYTES] = record.try_into().ok()?;
    Some(u64::from_le_bytes(record[4..].try_into().ok()?))
}

/// Gives each run of a record of differences: unit, offset, bytes. None: it is not one of ours; then nothing
/// of the unit in question was given.
pub fn decode_differences(record: &[u8], units: u32, mut give: impl FnMut(u32, usize, &[u8])) -> Option<()> {
    let mut reader = Reader { bytes: record.get(DIFFERENCE_HEAD_BYTES..)? };
    while !reader.bytes.is_empty() {
        let unit = reader.number().filter(|unit| *unit < units)?;
        let length = u16::from_le_bytes(reader.take(2)?.try_into().ok()?);
        let runs = reader.take(length.into())?;
        for is_known_right in [false, true] {
            let (mut runs, mut at) = (Reader { bytes: runs }, 0);
            while !runs.bytes.is_empty() {
                at += runs.varint()?;
                let count = runs.varint()?;
                let bytes = runs.take(count).filter(|_| at + count <= UNIT_BYTES)?;
                if is_known_right {
                    give(unit, at, bytes);
                }
                at += count;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tutti_testkit::random::Random;

    #[test]
    fn message_comes_back_from_its_bytes() {
        let part = Part { node: 1, first: 3, intervals: vec![vec![Run::of(4)], vec![]] };
        let time = VectorTime::from_entries(vec![7, 4]);
        let site = "lu.c:12".to_owned();
        let message = Message {
            call: Call::Allocate { bytes: 99, attributes: attributes_of(3), site },
            time,
            parts: vec![part],
            moves: vec![Move { run: Run { first: 2, count: 2 }, rank: 1 }],
        };
        let bytes = message.encode();
        assert_eq!(Message::decode(&bytes, 2, 5), Some(message));
        assert_eq!(Message::decode(&bytes, 2, 4), None, "a unit that is not there");
        assert!((0..bytes.len() - 7).all(|end| Message::decode(&bytes[..end], 2, 5).is_none()));
    }

    #[test]
    fn message_of_any_bytes_is_refused_or_read() {
        let mut random = Random::new(tutti_testkit::random::seed());
        for _ in 0..2000 {
            let mut bytes = vec![0; random.below(80) as usize];
            random.fill(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first %= 15;
            }
            let _ = Message::decode(&bytes, 2, 100);
            let _ = decode_differences(&bytes, 100, |unit, at, bytes| {
                assert!(unit < 100 && at + bytes.len() <= UNIT_BYTES);
            });
            let _ = (decode_fetch(&bytes, 100), decode_page(&bytes), decode_number(&bytes));
            if let Some((_, rest)) = decode_update(&bytes) {
                let _ = decode_differences(rest, 100, |unit, at, bytes| {
                    assert!(unit < 100 && at + bytes.len() <= UNIT_BYTES);
                });
            }
        }
    }

    #[test]
    fn differences_come_back_and_keep_to_their_room() {
        let mut record = Differences::new(64);
        record.clear();
        assert!(record.is_empty() && record.begin(3));
        assert_eq!(record.put(10, &[1, 2, 3]), 3);
        assert_eq!(record.put(300, &[4; 100]), 64 - 4 - 6 - 5 - 4);
        record.end();
        assert!(!record.begin(5), "there is no room");
        assert!(record.record().len() <= 64);
        let mut found = Vec::new();
        decode_differences(record.record(), 4, |unit, at, bytes| found.push((unit, at, bytes.len())))
            .unwrap();
        assert_eq!(found, [(3, 10, 3), (3, 300, 45)]);
    }

    #[test]
    fn stamp_of_as_many_ranks_as_may_be_leaves_room_for_a_store() {
        for room in [200, 1384, 1386, 8000] {
            let has_room = |ranks| {
                let mut record = Differences::new(room);
                record.begin_stamped(1, 2, &VectorTime::zero(ranks));
                record.begin(3) && record.put(4000, &[7]) == 1 && record.record().len() <= room
            };
            let most = checked_ranks_max(room);
            assert!(has_room(most) && !has_room(most + 1), "{most} ranks, {room} bytes");
        }
        assert_eq!(checked_ranks_max(10), 0);
    }
}
