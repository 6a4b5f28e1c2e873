//! Operations on the memory of ranks of other nodes, as records: what travels, and a parser that takes any
//! bytes.
//!
//! ```text
//! | kind 1 | detail 1 | element 2 | operation 2 | ranges 2 | region 4 | generation 4 | number 4 | sender 4 |
//! | offset 8, bytes 4 | offset 8, bytes 4 | ... | data |                       all little-endian
//! ```
//!
//! | record | data | answer | is |
//! |---|---|---|---|
//! | WRITE | of all ranges | - | a put |
//! | READ | - | REPLY | a get |
//! | CHANGE | of all ranges, unless they are only fetched | REPLY if it has a number | accumulate, fetch |
//! | SWAP | compare, then new | REPLY | compare-and-swap of one element |
//! | LOCK | - | REPLY when it is locked | the lock of a window |
//! | UNLOCK | - | - | gives it back, behind the operations before it |
//! | COUNT | - | - | a step of post-start-complete-wait |
//! | SETTLE | - | REPLY | whatever was refused before has been reported |
//! | OFFER | - | CLEAR | a long put: room is wanted for its data |
//! | FETCH | the name of the room | a message of that name | a long get |
//! | CLEAR | the name of the room | - | the data of what has its number may come |
//! | ENQUEUE | a part of a message | REPLY if it has a number | a message for a queue |
//! | REPLY | what was there | - | ends what has its number |
//! | STATUS | - | - | the operation was refused; ends what has its number |
//!
//! A region is named by its number and generation, never by an address; offsets count from its beginning. In
//! a region whose memory is attached piece by piece they are addresses.

use tutti_datatype::reduce::Operation;
use tutti_datatype::{Element, PairValue};
use tutti_shm::window_lock::Mode;

use crate::accumulate::{Change, Update};
use crate::control::Count;

/// The kinds of records that are remote memory's.
pub const KINDS: std::ops::Range<u8> = 0x20..0x40;
/// Bytes before the ranges.
pub const HEAD_BYTES: usize = 24;
/// Bytes of a range.
pub const RANGE_BYTES: usize = 12;
/// No region: what concerns a rank as a whole.
pub const NO_REGION: Name = Name { id: u32::MAX, generation: u32::MAX };
/// The number of what gets no answer.
pub const NO_REPLY: u32 = u32::MAX;

const WRITE: u8 = 0x20;
const READ: u8 = 0x21;
const CHANGE: u8 = 0x22;
const SWAP: u8 = 0x23;
const LOCK: u8 = 0x24;
const UNLOCK: u8 = 0x25;
const COUNT: u8 = 0x26;
const SETTLE: u8 = 0x27;
const REPLY: u8 = 0x28;
const STATUS: u8 = 0x29;
const ENQUEUE: u8 = 0x2a;
const OFFER: u8 = 0x2b;
const FETCH: u8 = 0x2c;
const CLEAR: u8 = 0x2d;

const REPLACE: u16 = 0xffff;
const KEEP: u16 = 0xfffe;

/// The name of an open region at its rank. A number that is used again has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// Number of the region.
    pub id: u32,
    /// How often the number had been given out before.
    pub generation: u32,
}

/// Why an operation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// No such region, or not any more.
    NoRegion = 1,
    /// The region does not allow it.
    NoRight = 2,
    /// The region has no such range.
    OutOfRange = 3,
    /// Elements are not aligned where they must be.
    Unaligned = 4,
    /// The record makes no sense.
    Malformed = 5,
    /// The queue has no room.
    Full = 6,
    /// The target has left its job. No record says that.
    Gone = 7,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Refusal; 7] = [
        Refusal::NoRegion,
        Refusal::NoRight,
        Refusal::OutOfRange,
        Refusal::Unaligned,
        Refusal::Malformed,
        Refusal::Full,
        Refusal::Gone,
    ];

    /// In the names of counters.
    pub const fn name(self) -> &'static str {
        match self {
            Refusal::NoRegion => "no_region",
            Refusal::NoRight => "no_right",
            Refusal::OutOfRange => "out_of_range",
            Refusal::Unaligned => "unaligned",
            Refusal::Malformed => "malformed",
            Refusal::Full => "full",
            Refusal::Gone => "gone",
        }
    }

    /// One that a rank tells another: that it has left it does not say itself.
    fn decode(code: u8) -> Option<Self> {
        let mut told = Refusal::ALL.into_iter().filter(|refusal| *refusal != Refusal::Gone);
        told.find(|refusal| *refusal as u8 == code)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::NoRegion => "the memory is not open there any more",
            Refusal::NoRight => "the memory is not open for that",
            Refusal::OutOfRange => "the target has no memory there",
            Refusal::Unaligned => "an element is not aligned",
            Refusal::Malformed => "the target does not understand it",
            Refusal::Full => "the queue is full",
            Refusal::Gone => "the target has left the job",
        })
    }
}

/// Update of elements by a change, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// The elements.
    pub element: Element,
    /// Update of each of them.
    pub update: Update,
}

impl Code {
    /// How it is done; none where the operation has no meaning for the elements.
    pub fn change(self) -> Option<Change> {
        Change::new(self.update, self.element)
    }

    fn encode(self) -> (u16, u16) {
        let operation = match self.update {
            Update::Replace => REPLACE,
            Update::Keep => KEEP,
            Update::Reduce(Operation(number)) => number as u16,
        };
        (encode_element(self.element), operation)
    }

    fn decode(element: u16, operation: u16) -> Option<Self> {
        let update = match operation {
            REPLACE => Update::Replace,
            KEEP => Update::Keep,
            number => Update::Reduce(Operation(number.into())),
        };
        Some(Code { element: decode_element(element)?, update })
    }
}

fn encode_element(element: Element) -> u16 {
    let (kind, size) = match element {
        Element::Signed(size) => (1, size),
        Element::Unsigned(size) => (2, size),
        Element::Float(size) => (3, size),
        Element::Quad { complex } => (4, u8::from(complex)),
        Element::Complex(size) => (5, size),
        Element::Logical(size) => (6, size),
        Element::Byte => (7, 1),
        Element::Character(size) => (8, size),
        Element::Pair(PairValue::Float) => (9, 0),
        Element::Pair(PairValue::Double) => (9, 1),
        Element::Pair(PairValue::LongDouble) => (9, 2),
        Element::Pair(PairValue::Short) => (9, 3),
        Element::Pair(PairValue::Int) => (9, 4),
        Element::Pair(PairValue::Long) => (9, 5),
        Element::Pair(PairValue::Quad) => (9, 6),
        Element::Pair(PairValue::Same { bytes, integer }) => (10 + u16::from(integer), bytes),
    };
    kind << 8 | u16::from(size)
}

fn decode_element(code: u16) -> Option<Element> {
    let [size, kind] = code.to_le_bytes();
    let sized = size.is_power_of_two() && size <= 16;
    Some(match (kind, size) {
        (1, _) if sized => Element::Signed(size),
        (2, _) if sized => Element::Unsigned(size),
        (3, _) if sized => Element::Float(size),
        (4, 0 | 1) => Element::Quad { complex: size == 1 },
        (5, _) if sized => Element::Complex(size),
        (6, _) if sized => Element::Logical(size),
        (7, 1) => Element::Byte,
        (8, _) if sized => Element::Character(size),
        (9, 0) => Element::Pair(PairValue::Float),
        (9, 1) => Element::Pair(PairValue::Double),
        (9, 2) => Element::Pair(PairValue::LongDouble),
        (9, 3) => Element::Pair(PairValue::Short),
        (9, 4) => Element::Pair(PairValue::Int),
        (9, 5) => Element::Pair(PairValue::Long),
        (9, 6) => Element::Pair(PairValue::Quad),
        (10 | 11, _) if sized => Element::Pair(PairValue::Same { bytes: size, integer: kind == 11 }),
        _ => return None,
    })
}

/// Bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where they begin.
    pub offset: u64,
    /// How many they are.
    pub bytes: u32,
}

/// The ranges of a record, as they lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges<'a>(&'a [u8]);

impl Ranges<'_> {
    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.0
            .chunks_exact(RANGE_BYTES)
            .map(|bytes| Range { offset: u64_at(bytes, 0), bytes: u32_at(bytes, 8) })
    }

    /// The only one.
    fn one(&self) -> Option<Range> {
        let mut all = self.iter();
        let (range, None) = (all.next()?, all.next()) else { return None };
        Some(range)
    }

    /// Bytes of all together.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|range| u64::from(range.bytes)).sum()
    }
}

/// Operation that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Bytes are written.
    Write {
        /// Where.
        ranges: Ranges<'a>,
        /// Data to write.
        data: &'a [u8],
    },
    /// Bytes are read.
    Read {
        /// Where.
        ranges: Ranges<'a>,
    },
    /// Elements are changed, and fetched if there is a number.
    Change {
        /// Where; each range is whole elements.
        ranges: Ranges<'a>,
        /// How.
        code: Code,
        /// The origin's elements; none if they are only fetched.
        data: &'a [u8],
    },
    /// One element is replaced if it has a certain value.
    Swap {
        /// Where it begins.
        offset: u64,
        /// The value.
        compare: &'a [u8],
        /// Value that replaces it; as long.
        new: &'a [u8],
    },
    /// The lock is asked for.
    Lock(Mode),
    /// The lock is given back.
    Unlock,
    /// A step of post-start-complete-wait by a rank of the window.
    Count(Count, u32),
    /// An answer is wanted, for its place in the order alone.
    Settle,
    /// Bytes are to be written that come as a bulk message.
    Offer(Range),
    /// Bytes are to be sent as a bulk message of this name.
    Fetch(Range, u64),
    /// A part of a message for a queue. The parts of one follow each other.
    Enqueue {
        /// Bytes of the message.
        total: u32,
        /// Where in it the part begins.
        at: u32,
        /// The part.
        data: &'a [u8],
    },
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An operation on a region of the receiver.
    Request {
        /// The region.
        region: Name,
        /// The number of the answer, or [`NO_REPLY`].
        number: u32,
        /// Operation that is asked for.
        request: Request<'a>,
    },
    /// The answer to one.
    Reply {
        /// Number of the answer.
        number: u32,
        /// Data that were there.
        data: &'a [u8],
    },
    /// Room is there for the bulk message of an operation.
    Clear {
        /// The operation's number.
        number: u32,
        /// The name of the message.
        name: u64,
    },
    /// One was refused.
    Status {
        /// Number of the request, or [`NO_REPLY`].
        number: u32,
        /// The region that it named.
        region: Name,
        /// Why.
        refusal: Refusal,
    },
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Reads a record; none if it makes no sense. Whether there is such a region, and such ranges in it, is the
/// executor's to say.
pub fn parse(record: &[u8]) -> Option<Record<'_>> {
    let (head, rest) = record.split_at_checked(HEAD_BYTES)?;
    let (kind, detail) = (head[0], head[1]);
    let region = Name { id: u32_at(head, 8), generation: u32_at(head, 12) };
    let (number, sender) = (u32_at(head, 16), u32_at(head, 20));
    let (ranges, data) = rest.split_at_checked(usize::from(u16_at(head, 6)) * RANGE_BYTES)?;
    let ranges = Ranges(ranges);
    let is_bare = rest.is_empty();
    let has_number = number != NO_REPLY;
    let request = match kind {
        REPLY => return (has_number && ranges.0.is_empty()).then_some(Record::Reply { number, data }),
        STATUS => {
            let refusal = Refusal::decode(detail).filter(|_| is_bare)?;
            return Some(Record::Status { number, region, refusal });
        }
        CLEAR => {
            let is_right = has_number && ranges.0.is_empty() && data.len() == 8;
            return is_right.then(|| Record::Clear { number, name: u64_at(data, 0) });
        }
        OFFER if has_number && data.is_empty() => Request::Offer(ranges.one()?),
        FETCH if has_number && data.len() == 8 => Request::Fetch(ranges.one()?, u64_at(data, 0)),
        WRITE if ranges.bytes() == data.len() as u64 => Request::Write { ranges, data },
        READ if has_number && data.is_empty() => Request::Read { ranges },
        CHANGE => {
            let code = Code::decode(u16_at(head, 2), u16_at(head, 4))?;
            let stride = code.change()?.element_bytes() as u32;
            let expected = if code.update == Update::Keep { 0 } else { ranges.bytes() };
            let is_whole = ranges.iter().all(|range| range.bytes % stride == 0);
            (is_whole && expected == data.len() as u64).then_some(Request::Change { ranges, code, data })?
        }
        SWAP if has_number => {
            let mut all = ranges.iter();
            let (range, None) = (all.next()?, all.next()) else { return None };
            let bytes = range.bytes as usize;
            let is_right = matches!(bytes, 1 | 2 | 4 | 8 | 16) && data.len() == 2 * bytes;
            let (compare, new) = is_right.then(|| data.split_at(bytes))?;
            Request::Swap { offset: range.offset, compare, new }
        }
        LOCK if has_number && is_bare && detail <= 1 => {
            Request::Lock(if detail == 0 { Mode::Shared } else { Mode::Exclusive })
        }
        UNLOCK if is_bare => Request::Unlock,
        COUNT if is_bare && detail <= 1 => {
            Request::Count(if detail == 0 { Count::Posted } else { Count::Completed }, sender)
        }
        SETTLE if has_number && is_bare => Request::Settle,
        ENQUEUE => {
            let mut all = ranges.iter();
            let (range, None) = (all.next()?, all.next()) else { return None };
            let at = u32::try_from(range.offset).ok()?;
            let end = at.checked_add(range.bytes).filter(|end| *end <= sender)?;
            let is_right = range.bytes as usize == data.len() && (at < end || sender == 0);
            is_right.then_some(Request::Enqueue { total: sender, at, data })?
        }
        _ => return None,
    };
    Some(Record::Request { region, number, request })
}

/// The region and the number that a record names, whatever else is wrong with it: for the refusal.
pub fn names(record: &[u8]) -> Option<(Name, u32)> {
    let head = record.get(..HEAD_BYTES)?;
    Some((Name { id: u32_at(head, 8), generation: u32_at(head, 12) }, u32_at(head, 16)))
}

/// Beginning of a record of an operation; its data follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// [`Request::Write`]
    Write,
    /// [`Request::Read`]
    Read,
    /// [`Request::Change`]
    Change(Code),
    /// [`Request::Swap`]
    Swap,
    /// [`Request::Lock`]
    Lock(Mode),
    /// [`Request::Unlock`]
    Unlock,
    /// [`Request::Count`]
    Count(Count, u32),
    /// [`Request::Settle`]
    Settle,
    /// [`Request::Offer`]
    Offer,
    /// [`Request::Fetch`]
    Fetch,
    /// [`Request::Enqueue`], with the bytes of the message.
    Enqueue(u32),
}

/// Writes the head of a request, and its ranges, into an empty `to`.
pub fn write_request(begin: Begin, region: Name, number: u32, ranges: &[Range], to: &mut Vec<u8>) {
    let (mut detail, mut element, mut operation, mut sender) = (0, 0, 0, 0);
    let kind = match begin {
        Begin::Write => WRITE,
        Begin::Read => READ,
        Begin::Change(code) => {
            (element, operation) = code.encode();
            CHANGE
        }
        Begin::Swap => SWAP,
        Begin::Lock(mode) => {
            detail = u8::from(mode == Mode::Exclusive);
            LOCK
        }
        Begin::Unlock => UNLOCK,
        Begin::Count(count, rank) => {
            (detail, sender) = (u8::from(count == Count::Completed), rank);
            COUNT
        }
        Begin::Settle => SETTLE,
        Begin::Offer => OFFER,
        Begin::Fetch => FETCH,
        Begin::Enqueue(total) => {
            sender = total;
            ENQUEUE
        }
    };
    to.clear();
    to.extend([kind, detail]);
    to.extend(element.to_le_bytes());
    to.extend(operation.to_le_bytes());
    to.extend((ranges.len() as u16).to_le_bytes());
    to.extend(region.id.to_le_bytes());
    to.extend(region.generation.to_le_bytes());
    to.extend(number.to_le_bytes());
    to.extend(sender.to_le_bytes());
    for range in ranges {
        to.extend(range.offset.to_le_bytes());
        to.extend(range.bytes.to_le_bytes());
    }
}

/// An answer without its data, which the caller appends.
pub fn reply(number: u32, bytes: usize) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEAD_BYTES + bytes);
    record.resize(HEAD_BYTES, 0);
    record[0] = REPLY;
    record[16..20].copy_from_slice(&number.to_le_bytes());
    record
}

/// The name of the room for what has this number.
pub fn clear(number: u32, name: u64) -> Vec<u8> {
    let mut record = reply(number, 8);
    record[0] = CLEAR;
    record.extend(name.to_le_bytes());
    record
}

/// A refusal.
pub fn status(number: u32, region: Name, refusal: Refusal) -> Vec<u8> {
    let mut record = vec![0; HEAD_BYTES];
    (record[0], record[1]) = (STATUS, refusal as u8);
    record[8..12].copy_from_slice(&region.id.to_le_bytes());
    record[12..16].copy_from_slice(&region.generation.to_le_bytes());
    record[16..20].copy_from_slice(&number.to_le_bytes());
    record
}

#[cfg(test)]
mod tests;
