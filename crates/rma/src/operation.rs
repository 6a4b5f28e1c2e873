//! An operation on the memory of a rank of another node, as its initiator cuts it into records.
#![allow(unsafe_code)]

use std::ops::Deref;

use tutti_datatype::Buffer;

use crate::done::DoneAt;
use crate::engine::bulk;
use crate::wire::{self, Begin, Code, HEAD_BYTES, Name, RANGE_BYTES, Range, Refusal};

/// Ranges of a record at most: so many that a few long ones leave room for data.
const RANGES_MAX: usize = 256;

/// Action of an operation.
#[derive(Debug)]
pub enum Action {
    /// Bytes are written.
    Write {
        /// Data to write.
        from: Buffer,
    },
    /// Bytes are read.
    Read {
        /// Where to.
        into: Buffer,
    },
    /// Elements are changed.
    Change {
        /// How.
        code: Code,
        /// The origin's elements, one behind the other; of no meaning if they are only fetched.
        origin: *const u8,
        /// Where to what they were, one behind the other, if that is wanted.
        result: Option<*mut u8>,
    },
    /// A message is put into a queue.
    Enqueue {
        /// The message, behind one another.
        from: Buffer,
    },
    /// One element is replaced if it has a certain value.
    Swap {
        /// The value, then what it becomes, 16 bytes at most each.
        operands: Vec<u8>,
        /// Where to what it was.
        result: *mut u8,
    },
}

/// Ranges of a region, as offset and bytes.
#[derive(Debug)]
pub enum Places {
    /// One, as nearly always: it needs no memory of its own.
    One([(u64, usize); 1]),
    /// Any number.
    Many(Vec<(u64, usize)>),
}

impl Deref for Places {
    type Target = [(u64, usize)];

    #[inline]
    fn deref(&self) -> &Self::Target {
        match self {
            Places::One(one) => one,
            Places::Many(many) => many,
        }
    }
}

impl From<Vec<(u64, usize)>> for Places {
    fn from(many: Vec<(u64, usize)>) -> Self {
        Places::Many(many)
    }
}

/// An operation, and how much of it has been handed over.
#[derive(Debug)]
pub struct Operation {
    /// World rank of the target.
    pub to: usize,
    /// The region there.
    pub region: Name,
    action: Action,
    /// Ranges that it works on there, as offset and bytes.
    ranges: Places,
    /// The range that is next, and what of it is done.
    next: (usize, usize),
    done: usize,
    bytes: usize,
    /// Where its end is noted, if somebody wants to know.
    noted: Option<DoneAt>,
    is_handed_over: bool,
    /// The origin stays until the operation is complete.
    origin_stays: bool,
    /// Whether it travels as a bulk message, which has begun.
    pub(crate) is_bulk: bool,
    /// Whether its records may be asked for once more; and those that have been handed over.
    keeps: bool,
    kept: Vec<Kept>,
}

/// A record of an operation that has been handed over: where in the operation it begins.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Requests that were handed over to its rank before.
    pub number: u64,
    /// Number of its answer.
    pub(crate) reply: u32,
    /// Bytes that it has at most.
    pub(crate) bytes_max: usize,
    next: (usize, usize),
    done: usize,
}

/// Note of what becomes of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// Where.
    pub at: DoneAt,
    /// The answer to the last record ends the operation.
    pub is_last: bool,
}

impl Note {
    /// The record has been answered, or never will be.
    pub(crate) fn answered(self, refusal: Option<Refusal>) {
        let done = self.at.get();
        if let Some(refusal) = refusal {
            done.fail(refusal);
        }
        if self.is_last {
            done.end();
        }
    }
}

/// A record that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Cut {
    /// Beginning of the record.
    pub begin: Begin,
    /// Bytes of its data at the target.
    pub bytes: usize,
    next: (usize, usize),
}

impl Operation {
    /// An operation on some ranges of a region. They hold as many bytes as the origin; those of a change are
    /// whole elements.
    ///
    /// # Safety
    /// The memory that the action names stays valid until the operation is complete.
    pub unsafe fn new(to: usize, region: Name, action: Action, ranges: impl Into<Places>) -> Self {
        let ranges = ranges.into();
        let bytes = ranges.iter().map(|(_, bytes)| bytes).sum();
        let is_handed_over = bytes == 0 && !matches!(action, Action::Enqueue { .. });
        Operation {
            to,
            region,
            action,
            ranges,
            next: (0, 0),
            done: 0,
            bytes,
            noted: None,
            is_handed_over,
            origin_stays: false,
            is_bulk: false,
            keeps: false,
            kept: Vec::new(),
        }
    }

    /// The same with an origin that stays as it is until the operation is complete, and each record of it may
    /// be asked for once more: [`Operation::record`]. All of them are answered, in any order; its end is
    /// noted where that of no other operation is.
    #[must_use]
    pub fn keeping_its_records(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// The records that have been handed over since this was asked last; none of a bulk message.
    pub fn take_kept(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.kept)
    }

    /// The bytes of a record, once more.
    pub fn record(&self, kept: &Kept) -> Vec<u8> {
        let (mut ranges, mut record, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        let cut = self.cut_from(kept.next, kept.bytes_max, &mut ranges);
        wire::write_request(cut.begin, self.region, kept.reply, &ranges, &mut record);
        record.extend_from_slice(self.data_from(kept.done, &cut, &mut scratch));
        record
    }

    /// Whether its records are kept.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// Keeps the record that is next, which has been handed over.
    pub(crate) fn keep(&mut self, number: u64, reply: u32, bytes_max: usize) {
        self.kept.push(Kept { number, reply, bytes_max, next: self.next, done: self.done });
    }

    /// The same with an origin that stays as it is until the operation is complete: a long put is handed over
    /// at once.
    #[must_use]
    pub fn with_lasting_origin(mut self) -> Self {
        self.origin_stays = true;
        self
    }

    /// Whether a put to these ranges may travel as a bulk message, so that its origin is needed until then.
    pub fn is_long_put(ranges: &Places) -> bool {
        matches!(ranges[..], [(_, bytes)] if bytes >= bulk::PUT_BYTES_MIN)
    }

    /// Whether it only reads.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.action, Action::Read { .. })
    }

    /// The memory of this rank and the range there, if it is one long put or get of which nothing has gone
    /// yet.
    pub(crate) fn as_bulk(&self) -> Option<(&Buffer, Range)> {
        let (memory, least) = match &self.action {
            Action::Write { from } => (from, bulk::PUT_BYTES_MIN),
            Action::Read { into } => (into, bulk::GET_BYTES_MIN),
            _ => return None,
        };
        let [(offset, bytes)] = self.ranges[..] else { return None };
        let is_long = self.done == 0 && (least..=bulk::BYTES_MAX).contains(&bytes);
        is_long.then_some((memory, Range { offset, bytes: bytes as u32 }))
    }

    /// The note of its end, if it travels in one.
    pub(crate) fn note_whole(&self) -> Option<Note> {
        self.noted.map(|at| Note { at, is_last: true })
    }

    /// Takes the note of its end out, if nothing that has been handed over brings it: a bulk message does.
    pub(crate) fn take_end(&mut self) -> Option<Note> {
        let note = self.note_whole().filter(|_| !self.is_bulk);
        self.noted = None;
        note
    }

    /// Makes it travel as a bulk message from now on. A get, and a put whose origin stays, is handed over.
    pub(crate) fn begin_bulk(&mut self) {
        self.is_bulk = true;
        self.is_handed_over = self.origin_stays || self.is_read();
    }

    /// Ends its bulk message, which has arrived.
    pub(crate) fn end_bulk(&mut self) {
        self.is_handed_over = true;
    }

    /// The same with a place where its end is noted: every record of it is answered. It has some bytes, or is
    /// for a queue.
    #[must_use]
    pub fn noted(mut self, done: DoneAt) -> Self {
        self.noted = Some(done);
        self
    }

    /// Where the end of the operation is noted if a record is its last one, else where a failure is.
    pub(crate) fn note(&self, cut: &Cut) -> Option<Note> {
        self.noted.map(|at| Note { at, is_last: self.done + cut.bytes == self.bytes })
    }

    /// Whether it has no data: a message of no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether all of it has been handed over.
    pub fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Whether records of it are answered.
    pub fn is_answered(&self) -> bool {
        self.noted.is_some()
            || !matches!(
                self.action,
                Action::Write { .. } | Action::Enqueue { .. } | Action::Change { result: None, .. }
            )
    }

    /// The next record, of `bytes_max` bytes at most. Its ranges are stored in an empty `ranges`.
    pub(crate) fn cut(&self, bytes_max: usize, ranges: &mut Vec<Range>) -> Cut {
        self.cut_from(self.next, bytes_max, ranges)
    }

    fn cut_from(&self, from: (usize, usize), bytes_max: usize, ranges: &mut Vec<Range>) -> Cut {
        let (begin, each_bytes) = match &self.action {
            Action::Write { .. } => (Begin::Write, 1),
            Action::Read { .. } => (Begin::Read, 1),
            Action::Change { code, .. } => (Begin::Change(*code), code.element.stride()),
            Action::Swap { .. } => (Begin::Swap, self.bytes),
            Action::Enqueue { .. } => (Begin::Enqueue(self.bytes as u32), 1),
        };
        let mut room = bytes_max - HEAD_BYTES;
        if let Action::Swap { operands, .. } = &self.action {
            room = room.saturating_sub(operands.len());
        }
        ranges.clear();
        let (mut next, mut bytes) = (from, 0);
        while ranges.len() < RANGES_MAX
            && let Some((offset, length)) = self.ranges.get(next.0)
            && room >= RANGE_BYTES + each_bytes
        {
            let some = (length - next.1).min((room - RANGE_BYTES) / each_bytes * each_bytes);
            // What would begin behind the last address is refused as that address is.
            ranges.push(Range { offset: offset.saturating_add(next.1 as u64), bytes: some as u32 });
            room -= RANGE_BYTES + some;
            bytes += some;
            next = if next.1 + some == *length { (next.0 + 1, 0) } else { (next.0, next.1 + some) };
        }
        Cut { begin, bytes, next }
    }

    /// The data of a record: where they lie, or in `scratch`.
    pub(crate) fn data<'a>(&'a self, cut: &Cut, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        self.data_from(self.done, cut, scratch)
    }

    fn data_from<'a>(&'a self, done: usize, cut: &Cut, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        match &self.action {
            Action::Read { .. } => &[],
            Action::Swap { operands, .. } => operands,
            Action::Change { code, .. } if code.update == crate::accumulate::Update::Keep => &[],
            // SAFETY: the origin has so many bytes, and stays (the constructor's contract).
            Action::Change { origin, .. } => unsafe {
                std::slice::from_raw_parts(origin.add(done), cut.bytes)
            },
            Action::Write { from } | Action::Enqueue { from } if cut.bytes == 0 || from.map.is_none() => {
                if cut.bytes == 0 {
                    return &[];
                }
                // SAFETY: as above.
                unsafe { std::slice::from_raw_parts(from.at.add(done), cut.bytes) }
            }
            Action::Write { from } | Action::Enqueue { from } => {
                scratch.resize(cut.bytes, 0);
                // SAFETY: as above; the scratch has so many bytes.
                unsafe { from.load(done, scratch.as_mut_ptr(), cut.bytes) };
                scratch
            }
        }
    }

    /// Where the answer to a record goes, if there is one.
    pub(crate) fn answer(&self, cut: &Cut) -> Option<Buffer> {
        match &self.action {
            Action::Write { .. } | Action::Enqueue { .. } | Action::Change { result: None, .. } => {
                self.noted.map(|_| Buffer::empty())
            }
            Action::Read { into } => Some(into.part(self.done, cut.bytes)),
            Action::Change { result: Some(result), .. } => {
                Some(Buffer::contiguous(result.wrapping_add(self.done), cut.bytes))
            }
            Action::Swap { result, .. } => Some(Buffer::contiguous(*result, cut.bytes)),
        }
    }

    /// The record has been handed over.
    pub(crate) fn advance(&mut self, cut: &Cut) {
        (self.next, self.done) = (cut.next, self.done + cut.bytes);
        self.is_handed_over = self.done == self.bytes;
    }
}
