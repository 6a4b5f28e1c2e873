//! The bulk ring of an ordered pair: a few slots through which the bytes of matched or eager messages stream
//! while both ranks run. Their size is the layout's: 17 KiB where few ranks share a node (not 16: the first
//! KiB of all slots have room in the first-level caches side by side). The envelope ring goes on beside it.
//!
//! A line of the sender holds the descriptors of all slots: `lap` (8 bits, never the previous one
//! of that slot), `bytes` (24), `message` (32). The descriptor is the commit. Another line, the receiver's,
//! counts the slots that it has emptied, and says in which pieces it wants the data.
//!
//! ```text
//! sender    slot i free? copy chunk, descriptor[i] = (lap, bytes, message)
//! receiver  descriptor[i] has my lap? copy chunk out, emptied += 1
//! ```
//!
//! What the pieces are like is a matter of the processor ([`crate::distance`]). Where all cores share one
//! last cache they have 8 KiB. Where some are near and some far, near cores pass pieces of 1 KiB that stay in
//! their first-level caches; between far ones a line comes faster from memory than from the other core's
//! cache, so the receiver flushes what it has read, and pieces have 4 KiB. Nothing but time depends on this.
//!
//! The count wakes nobody. A sender that sleeps because all slots are full does so by
//! [`crate::doorbell::sleep_if`] on its own endpoint and looks at [`Producer::free_slot`] there; a receiver
//! asks [`Consumer::take_owed_bell`] after a pass over the ring, before it sleeps or leaves the library, and
//! rings the sender if told so.

use std::ptr::NonNull;

use crate::LINE_BYTES;
use crate::distance::{Distance, flush, is_memory_nearer};
use crate::sync::{AtomicU64, Ordering};

#[cfg(not(loom))]
const SLOTS: usize = crate::layout::BULK_SLOTS;
/// Two slots have all the states that eight have; loom's search stays short.
#[cfg(loom)]
const SLOTS: usize = 2;

/// The descriptors of the slots. Writer: the sender.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Descriptors([AtomicU64; SLOTS]);

/// The receiver's counter. Writer: the receiver.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Emptied {
    /// Twice the slots emptied since the start; one more while the receiver's core is far.
    pub slots: AtomicU64,
}

/// Bytes of a piece between cores that share one last cache with all others.
const PIECE_BYTES: usize = 8 << 10;
/// Bytes of a piece between near cores, where others are far.
const NEAR_PIECE_BYTES: usize = 1 << 10;
/// Bytes of a piece between far cores.
const FAR_PIECE_BYTES: usize = 4 << 10;
/// Messages up to this many bytes are sent without asking and find room in an empty ring, if it has as much.
const SHORT_BYTES_MAX: usize = 16 << 10;
/// Less is not worth flushing.
const FLUSHED_BYTES_MIN: usize = 512;

/// Cache line of a slot.
#[cfg(not(loom))]
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Slot([u8; LINE_BYTES]);

/// One slot's bytes: a cell (open to the models) through which loom sees when both ends use them at once.
#[cfg(loom)]
#[derive(Debug, Default)]
pub struct Slot(pub loom::cell::UnsafeCell<u64>);

/// Piece of a message that the sender has put in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Number of the message that it belongs to, given by the sender.
    pub message: u32,
    /// Length of the piece in bytes, 1 to that of a slot.
    pub bytes: usize,
}

/// The three parts of a ring in the segment.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// The descriptors' line.
    pub descriptors: NonNull<Descriptors>,
    /// The receiver's counter.
    pub emptied: NonNull<Emptied>,
    /// First line of the first of [`crate::layout::BULK_SLOTS`] slots, one behind the other.
    pub slots: NonNull<Slot>,
    /// Lines of a slot.
    pub slot_lines: usize,
}

/// The sender's end.
#[derive(Debug)]
pub struct Producer {
    parts: Parts,
    filled: u64,
    known_emptied: u64,
    /// Bytes of a piece.
    piece_bytes: usize,
}

/// The receiver's end.
#[derive(Debug)]
pub struct Consumer {
    parts: Parts,
    emptied: u64,
    /// `emptied` when the caller was last told to ring the sender.
    rung_at: u64,
    /// Of the sender's core; measured once a lap.
    distance: Distance,
    /// `emptied` when it was last measured.
    measured_at: u64,
}

// SAFETY: the pointers lead into a segment that outlives both ends (the constructors' contract); each end is
// used by one thread at a time, under the process lock.
unsafe impl Send for Producer {}
// SAFETY: as above.
unsafe impl Send for Consumer {}

/// The lap number of the `n`-th use of the ring: 1 to 255, so that a zeroed descriptor is never valid.
const fn lap(n: u64) -> u64 {
    (n / SLOTS as u64) % 255 + 1
}

/// Bytes of a piece to a receiver that says whether its core is far.
fn piece_bytes(is_far: bool) -> usize {
    match (is_far, is_memory_nearer()) {
        (true, _) => FAR_PIECE_BYTES,
        (false, true) => NEAR_PIECE_BYTES,
        (false, false) => PIECE_BYTES,
    }
}

impl Producer {
    /// The sender's end of a ring never used before.
    ///
    /// # Safety
    /// The parts are zeroed, valid for the life of the value, and no other producer exists for them.
    pub unsafe fn new(parts: Parts) -> Self {
        Producer { parts, filled: 0, known_emptied: 0, piece_bytes: piece_bytes(false) }
    }

    /// The same end, at the same position, on a copy of the ring's memory: for snapshots, and for tests that
    /// look at a frozen peer.
    ///
    /// # Safety
    /// As [`Producer::new`], but the memory is a copy of this end's ring.
    pub unsafe fn on_copy(&self, parts: Parts) -> Self {
        Producer { parts, ..*self }
    }

    /// Bytes of a slot.
    #[inline(always)]
    pub fn slot_bytes(&self) -> usize {
        self.parts.slot_lines * LINE_BYTES
    }

    /// The slot to be filled next, or `None` when all are full. Commit with [`Producer::commit`].
    #[inline(always)]
    pub fn free_slot(&mut self) -> Option<NonNull<u8>> {
        if self.filled - self.known_emptied + 1 >= SLOTS as u64 {
            // SAFETY: valid by the constructor's contract.
            let word = unsafe { self.parts.emptied.as_ref() }.slots.load(Ordering::Acquire);
            (self.known_emptied, self.piece_bytes) = (word >> 1, piece_bytes(word & 1 != 0));
            if self.filled - self.known_emptied == SLOTS as u64 {
                return None;
            }
        }
        // SAFETY: the index stays below SLOTS.
        Some(unsafe { self.parts.slots.add(self.filled as usize % SLOTS * self.parts.slot_lines) }.cast())
    }

    /// How many of a message's last `left` bytes are best put into the slot that [`Producer::free_slot`]
    /// returned last: a piece; or a whole slot, if otherwise the rest of a short message would have to wait
    /// until its receiver has emptied others.
    #[inline(always)]
    pub fn piece_bytes(&self, left: usize) -> usize {
        let free_behind = SLOTS as u64 - 1 - (self.filled - self.known_emptied);
        let piece = self.piece_bytes;
        let fits = left <= piece + free_behind as usize * self.slot_bytes();
        let best = if fits || left > SHORT_BYTES_MAX { piece } else { self.slot_bytes() };
        left.min(best).min(self.slot_bytes())
    }

    /// Publishes the slot that [`Producer::free_slot`] returned last.
    #[inline(always)]
    pub fn commit(&mut self, chunk: Chunk) {
        assert!((1..=self.slot_bytes()).contains(&chunk.bytes));
        debug_assert!(self.filled - self.known_emptied < SLOTS as u64, "commit without a free slot");
        let word = lap(self.filled) | (chunk.bytes as u64) << 8 | u64::from(chunk.message) << 32;
        // SAFETY: valid by the constructor's contract.
        unsafe { self.parts.descriptors.as_ref() }.0[self.filled as usize % SLOTS]
            .store(word, Ordering::Release);
        self.filled += 1;
    }
}

impl Consumer {
    /// The receiver's end of a ring never used before.
    ///
    /// # Safety
    /// As [`Producer::new`], for consumers.
    pub unsafe fn new(parts: Parts) -> Self {
        Consumer { parts, emptied: 0, rung_at: 0, distance: Distance::default(), measured_at: u64::MAX }
    }

    /// The same end, at the same position, on a copy of the ring's memory: for snapshots, and for tests that
    /// look at a frozen peer.
    ///
    /// # Safety
    /// As [`Consumer::new`], but the memory is a copy of this end's ring.
    pub unsafe fn on_copy(&self, parts: Parts) -> Self {
        Consumer { parts, ..*self }
    }

    /// The oldest full slot. Stays until [`Consumer::advance`].
    #[inline(always)]
    pub fn peek(&mut self) -> Option<(Chunk, NonNull<u8>)> {
        let chunk = self.chunk()?;
        assert!(
            (1..=self.parts.slot_lines * LINE_BYTES).contains(&chunk.bytes),
            "a bulk chunk of {} bytes",
            chunk.bytes
        );
        let slot = self.slot();
        let is_measured = (self.emptied as usize).is_multiple_of(SLOTS) && self.measured_at != self.emptied;
        if is_measured && cfg!(not(loom)) {
            self.measured_at = self.emptied;
            // SAFETY: the slot is full, so it is ours to read.
            unsafe { self.distance.measure(slot.as_ptr(), || true) };
        }
        Some((chunk, slot))
    }

    #[inline(always)]
    fn chunk(&self) -> Option<Chunk> {
        let index = self.emptied as usize % SLOTS;
        // SAFETY: valid by the constructor's contract.
        let word = unsafe { self.parts.descriptors.as_ref() }.0[index].load(Ordering::Acquire);
        let is_due = word & 0xff == lap(self.emptied);
        is_due.then_some(Chunk { message: (word >> 32) as u32, bytes: (word >> 8 & 0xff_ffff) as usize })
    }

    #[inline(always)]
    fn slot(&self) -> NonNull<u8> {
        // SAFETY: the index stays below SLOTS.
        unsafe { self.parts.slots.add(self.emptied as usize % SLOTS * self.parts.slot_lines) }.cast()
    }

    /// Gives the slot last peeked back to the sender.
    #[inline(always)]
    pub fn advance(&mut self) {
        let is_far = self.distance.is_far();
        if is_far {
            self.flush_slot();
        }
        self.emptied += 1;
        // SAFETY: valid by the constructor's contract.
        unsafe { self.parts.emptied.as_ref() }
            .slots
            .store(self.emptied << 1 | u64::from(is_far), Ordering::Release);
    }

    #[inline(never)]
    fn flush_slot(&self) {
        if let Some(Chunk { bytes, .. }) = self.chunk().filter(|chunk| chunk.bytes >= FLUSHED_BYTES_MIN) {
            // SAFETY: the slot has so many bytes.
            unsafe { flush(self.slot().as_ptr(), bytes) };
        }
    }

    /// Whether slots were emptied since this was last asked: then the caller owes the sender a
    /// [`crate::doorbell::ring_if_sleeping`], see the module's rules.
    #[inline(always)]
    pub fn take_owed_bell(&mut self) -> bool {
        let owed = self.rung_at != self.emptied;
        self.rung_at = self.emptied;
        owed
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
