//! The sender's end of a ring: room is looked for, a message is written, then committed.

use std::ptr::NonNull;

#[cfg(not(loom))]
use super::copy::copy;
use super::{
    Consumed, Envelope, HEADER_BYTES, LINES_MAX, Line, PAD, assert_count, lines_for, next_sequence, pack,
};
use crate::LINE_BYTES;
use crate::sync::Ordering;

/// Inline bytes in a message's first line.
#[cfg(not(loom))]
const HEAD_BYTES: usize = LINE_BYTES - HEADER_BYTES;

/// A sender of small messages asks so many lines ahead for the right to write: in the time in which it sends
/// so many, a line comes from a core far away. The receiver looks at the next line only.
const CLAIMED_AHEAD: usize = 8;

/// The sender's end.
#[derive(Debug)]
pub struct Producer {
    lines: NonNull<Line>,
    mask: usize,
    consumed: NonNull<Consumed>,
    /// Lines written since the start, pads included.
    pub(super) written: u64,
    /// Up to where `written` may go, by `consumed` when last looked at.
    pub(super) room_until: u64,
    pub(super) sequence: u32,
    /// Lines whose word 0 is payload of a message.
    payload: LineSet,
    /// From this number of `written` on `payload` is empty: a turn after the last message of several lines.
    clean_from: u64,
}

// SAFETY: the pointers lead into a segment that outlives both ends (the constructors' contract); each end is
// used by one thread at a time, under the process lock.
unsafe impl Send for Producer {}

impl Producer {
    /// Whether anything was ever written.
    pub fn is_used(&self) -> bool {
        self.written > 0
    }

    /// The sender's end of a ring of `lines` lines, never used before.
    ///
    /// # Safety
    /// `lines` points to `count` zeroed lines and `consumed` to a zeroed counter, both valid for the life of
    /// the value; no other producer exists for them.
    pub unsafe fn new(lines: NonNull<Line>, count: usize, consumed: NonNull<Consumed>) -> Self {
        assert_count(count);
        Producer {
            lines,
            mask: count - 1,
            consumed,
            written: 0,
            room_until: count as u64,
            sequence: 1,
            payload: LineSet([0; 4]),
            clean_from: 0,
        }
    }

    /// The same end, at the same position, on a copy of the ring's memory: for snapshots, and for tests that
    /// look at a frozen peer.
    ///
    /// # Safety
    /// As [`Producer::new`], but the memory is a copy of this end's ring.
    pub unsafe fn on_copy(&self, lines: NonNull<Line>, consumed: NonNull<Consumed>) -> Self {
        Producer { lines, consumed, ..*self }
    }

    /// Lines written since the start.
    pub fn position(&self) -> u64 {
        self.written
    }

    /// Whether [`Producer::try_push`] with so many inline bytes would succeed now: what a refused sender
    /// looks at between its intention to sleep and its sleep.
    pub fn has_room_for(&mut self, inline_bytes: usize) -> bool {
        let needed = lines_for(inline_bytes);
        let rest = self.mask + 1 - (self.written as usize & self.mask);
        self.has_room(if needed > rest { rest + needed + 1 } else { needed + 1 })
    }

    /// The most inline bytes that a message in this ring can have.
    pub fn inline_bytes_max(&self) -> usize {
        // So that a pad, a message and the cleared line always fit into an empty ring, of which an eighth may
        // not be counted.
        (self.mask + 1) * 3 / 8 * LINE_BYTES - HEADER_BYTES
    }

    /// Publishes a message whose inline data are `inline`. Returns false, with nothing written, when the ring
    /// is full.
    #[inline(always)]
    #[must_use]
    pub fn try_push(&mut self, envelope: &Envelope, inline: &[u8]) -> bool {
        if inline.len() <= LINE_BYTES - HEADER_BYTES {
            return self.try_push_line(envelope, inline);
        }
        let Envelope { kind, flags, context, tag, length } = *envelope;
        self.try_push_lines([kind, flags], pack(context, tag as u32), length, inline)
    }

    /// A message of one line, which always fits before the end of the ring.
    #[inline(always)]
    fn try_push_line(&mut self, envelope: &Envelope, inline: &[u8]) -> bool {
        debug_assert!(envelope.kind > PAD, "kind {} is not a message's", envelope.kind);
        if !self.has_room(2) {
            return false;
        }
        // Read once: behind a store to shared memory the compiler would read all of it again.
        let (written, sequence) = (self.written, self.sequence);
        let at = written as usize & self.mask;
        if written < self.clean_from {
            self.clear_payload(at + 1);
            self.payload.remove(at);
        }
        // SAFETY: masked to the ring, which is valid by the constructor's contract, also longer than this
        // borrow.
        let [line, ahead] = unsafe {
            [at, (at + CLAIMED_AHEAD) & self.mask].map(|at| &*self.lines.add(at).as_ptr().cast_const())
        };
        store(line, envelope);
        self.store_short(at, line, inline);
        line.words[0].store(head(envelope.kind, envelope.flags, 1, sequence), Ordering::Release);
        self.sequence = next_sequence(sequence);
        self.written = written + 1;
        claim(ahead);
        true
    }

    /// A message of several lines: kind and flags, context and tag, length. Out of line, and in registers:
    /// else the short ones would store their envelopes first.
    #[inline(never)]
    fn try_push_lines(&mut self, [kind, flags]: [u8; 2], matching: u64, length: u64, inline: &[u8]) -> bool {
        let (context, tag) = (matching as u32, (matching >> 32) as i32);
        let envelope = Envelope { kind, flags, context, tag, length };
        self.try_push_stored(&envelope, inline.len(), |ring, at| ring.store_inline(at, inline))
    }

    /// Publishes a message of `bytes` inline bytes, which `fill` writes to the address that it is given.
    /// Returns false, with nothing written and `fill` not called, when the ring is full.
    ///
    /// # Safety
    /// `fill` writes at most `bytes` bytes.
    #[cfg(not(loom))]
    #[inline(always)]
    #[must_use]
    pub unsafe fn try_push_with(
        &mut self,
        envelope: &Envelope,
        bytes: usize,
        fill: impl FnOnce(*mut u8),
    ) -> bool {
        self.try_push_stored(envelope, bytes, |ring, at| {
            // SAFETY: the message does not wrap and stays inside the ring, as was checked when it was given
            // its place.
            fill(unsafe { ring.lines.add(at).cast::<u8>().add(HEADER_BYTES) }.as_ptr());
        })
    }

    #[inline(always)]
    fn try_push_stored(
        &mut self,
        envelope: &Envelope,
        bytes: usize,
        fill: impl FnOnce(&mut Self, usize),
    ) -> bool {
        debug_assert!(bytes <= self.inline_bytes_max());
        debug_assert!(envelope.kind > PAD, "kind {} is not a message's", envelope.kind);
        let needed = lines_for(bytes);
        let mut at = self.written as usize & self.mask;
        if at + needed > self.mask + 1 {
            if !self.pad(at, needed) {
                return false;
            }
            at = 0;
        } else if !self.has_room(needed + 1) {
            return false;
        }
        self.clear_payload(at + needed);
        if needed > 1 {
            self.payload.insert(at + 1, needed - 1);
            self.clean_from = self.written + (needed + self.mask + 1) as u64;
        }
        // The header last: the receiver polls its line, and would take it from us between two stores far
        // apart.
        fill(self, at);
        store(self.line(at), envelope);
        self.commit(at, envelope.kind, envelope.flags, needed);
        true
    }

    #[inline(always)]
    fn commit(&mut self, at: usize, kind: u8, flags: u8, lines: usize) {
        let word = head(kind, flags, lines, self.sequence);
        if self.written < self.clean_from {
            self.payload.remove(at);
        }
        self.line(at).words[0].store(word, Ordering::Release);
        self.sequence = next_sequence(self.sequence);
        self.written += lines as u64;
    }

    /// Makes sure that the line at which the receiver will look next does not hold payload.
    #[inline(always)]
    fn clear_payload(&mut self, at: usize) {
        let at = at & self.mask;
        if self.payload.contains(at) {
            self.payload.remove(at);
            self.line(at).words[0].store(0, Ordering::Relaxed);
        }
    }

    /// Fills the rest of the ring, if what follows will fit behind it.
    #[cold]
    fn pad(&mut self, at: usize, needed: usize) -> bool {
        let rest = self.mask + 1 - at;
        if !self.has_room(rest + needed + 1) {
            return false;
        }
        for line in at + 1..=self.mask {
            self.payload.remove(line);
            self.line(line).words[0].store(0, Ordering::Relaxed);
        }
        self.commit(at, PAD, 0, rest);
        true
    }

    #[inline(always)]
    fn has_room(&mut self, lines: usize) -> bool {
        let end = self.written + lines as u64;
        end <= self.room_until || {
            // SAFETY: valid by the constructor's contract.
            let consumed = unsafe { self.consumed.as_ref() }.lines.load(Ordering::Acquire);
            self.room_until = consumed + self.mask as u64 + 1;
            end <= self.room_until
        }
    }

    #[inline(always)]
    fn line(&self, at: usize) -> &Line {
        // SAFETY: masked to the ring, which is valid by the constructor's contract.
        unsafe { self.lines.add(at & self.mask).as_ref() }
    }

    /// Inline data of a message of one line.
    #[cfg(not(loom))]
    #[inline(always)]
    fn store_short(&mut self, _at: usize, line: &Line, inline: &[u8]) {
        // SAFETY: the caller has checked that they fit into the line, which is atomics, so it may be written
        // through the reference; the receiver does not look at it before the commit.
        unsafe {
            let to = std::ptr::from_ref(line).cast::<u8>().add(HEADER_BYTES).cast_mut();
            copy(inline.as_ptr(), to, inline.len());
        }
    }

    #[cfg(loom)]
    fn store_short(&mut self, at: usize, _line: &Line, inline: &[u8]) {
        self.store_inline(at, inline);
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn store_inline(&mut self, at: usize, inline: &[u8]) {
        // SAFETY: the message does not wrap and stays inside the ring (checked by the caller); the receiver
        // does not look at these lines before the commit.
        unsafe {
            let to = self.lines.add(at).cast::<u8>().add(HEADER_BYTES);
            let head = inline.len().min(HEAD_BYTES);
            let (head, tail) = inline.split_at(head);
            copy(tail.as_ptr(), to.as_ptr().add(HEAD_BYTES), tail.len());
            copy(head.as_ptr(), to.as_ptr(), head.len());
        }
    }

    #[cfg(loom)]
    fn store_inline(&mut self, at: usize, inline: &[u8]) {
        for line in 0..lines_for(inline.len()) {
            self.line(at + line).payload.with_mut(|_| ());
        }
        for (i, bytes) in inline.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let position = 3 + i;
            self.line(at + position / 8).words[position % 8]
                .store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }
}

/// Word 0 of a message.
#[inline(always)]
fn head(kind: u8, flags: u8, lines: usize, sequence: u32) -> u64 {
    u64::from(kind) | u64::from(flags) << 8 | (lines as u64) << 16 | u64::from(sequence) << 32
}

/// The words of a header behind the commit.
#[inline(always)]
fn store(line: &Line, envelope: &Envelope) {
    line.words[1].store(pack(envelope.context, envelope.tag as u32), Ordering::Relaxed);
    line.words[2].store(envelope.length, Ordering::Relaxed);
}

/// A set of positions in the ring.
#[derive(Clone, Copy, Debug)]
struct LineSet([u64; LINES_MAX / 64]);

impl LineSet {
    #[inline(always)]
    fn contains(&self, at: usize) -> bool {
        self.0[at / 64 % 4] >> (at % 64) & 1 != 0
    }

    #[inline(always)]
    fn remove(&mut self, at: usize) {
        self.0[at / 64 % 4] &= !(1 << (at % 64));
    }

    /// Adds `count` positions from `at` on.
    #[inline(always)]
    fn insert(&mut self, at: usize, count: usize) {
        for position in at..at + count {
            self.0[position / 64 % 4] |= 1 << (position % 64);
        }
    }
}

/// Asks for a line to be written soon. Nothing happens where the processor has no such wish.
#[inline(always)]
fn claim(line: &Line) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    // SAFETY: a prefetch changes nothing, and every processor of this kind takes the instruction, if only as
    // none.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = line;
}
