//! The receiver's end of a ring: a message is looked at where it lies, then given back to the sender.

use std::ptr::NonNull;

#[cfg(not(loom))]
use super::copy::copy;
use super::{Consumed, Envelope, HEADER_BYTES, Line, PAD, assert_count, next_sequence, pack};
use crate::LINE_BYTES;
use crate::distance::{Distance, flush};
use crate::sync::Ordering;

/// The distance of the sender's core is measured once in so many messages.
const MESSAGES_PER_SAMPLE: u32 = 32;

/// The receiver's end.
#[derive(Debug)]
pub struct Consumer {
    lines: NonNull<Line>,
    mask: usize,
    consumed: NonNull<Consumed>,
    pub(super) read: u64,
    /// `read` as last published in `consumed`.
    pub(super) published: u64,
    /// From this number of `read` on it is published.
    pub(super) publish_from: u64,
    pub(super) sequence: u32,
    /// `consumed` was stored and the sender has not been rung since.
    bell_owed: bool,
    /// Of the sender's core; measured while many messages come.
    distance: Distance,
}

// SAFETY: the pointers lead into a segment that outlives both ends (the constructors' contract); each end is
// used by one thread at a time, under the process lock.
unsafe impl Send for Consumer {}

impl Consumer {
    /// Whether anything was ever read.
    pub fn is_used(&self) -> bool {
        self.read > 0
    }

    /// The receiver's end of a ring, never used before.
    ///
    /// # Safety
    /// As [`super::Producer::new`], for consumers.
    pub unsafe fn new(lines: NonNull<Line>, count: usize, consumed: NonNull<Consumed>) -> Self {
        assert_count(count);
        Consumer {
            lines,
            mask: count - 1,
            consumed,
            read: 0,
            published: 0,
            publish_from: lazy(count),
            sequence: 1,
            bell_owed: false,
            distance: Distance::default(),
        }
    }

    /// The same end, at the same position, on a copy of the ring's memory: for snapshots, and for tests that
    /// look at a frozen peer.
    ///
    /// # Safety
    /// As [`Consumer::new`], but the memory is a copy of this end's ring.
    pub unsafe fn on_copy(&self, lines: NonNull<Line>, consumed: NonNull<Consumed>) -> Self {
        Consumer { lines, consumed, ..*self }
    }

    /// Whether a message, or a pad, waits.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.is_due(self.head().words[0].load(Ordering::Relaxed))
    }

    /// Whether a message waits or the sender is owed a bell.
    #[inline(always)]
    pub fn needs_attention(&self) -> bool {
        self.bell_owed || self.is_ready()
    }

    /// Lines consumed since the start.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// The oldest message that has not been consumed. Stays until [`Consumer::advance`].
    #[inline(always)]
    pub fn peek(&mut self) -> Option<Message<'_>> {
        let mut word = self.head().words[0].load(Ordering::Acquire);
        if !self.is_due(word) {
            return None;
        }
        if word as u8 == PAD {
            self.advance((word >> 16) as u16 as usize);
            word = self.head().words[0].load(Ordering::Acquire);
            if !self.is_due(word) {
                return None;
            }
        }
        let line = self.head();
        let second = line.words[1].load(Ordering::Relaxed);
        let envelope = Envelope {
            kind: word as u8,
            flags: (word >> 8) as u8,
            context: second as u32,
            tag: (second >> 32) as i32,
            length: line.words[2].load(Ordering::Relaxed),
        };
        Some(Message {
            envelope,
            lines: (word >> 16) as u16 as usize,
            at: self.read as usize & self.mask,
            ring: self,
        })
    }

    /// Gives the lines of the message last peeked back to the sender.
    #[inline(always)]
    fn advance(&mut self, lines: usize) {
        self.read += lines as u64;
        self.sequence = next_sequence(self.sequence);
        // SAFETY: valid by the constructor's contract. Nobody else has this line, so the store stays in our
        // cache.
        unsafe { self.consumed.as_ref() }.due.store(self.sequence, Ordering::Release);
        // The counter's line travels to the sender only when it asks; telling it every few lines keeps it in
        // our cache.
        if self.read >= self.publish_from {
            self.publish();
        }
    }

    /// The same while more messages are to come at once. A line that the reader of a far core has flushed is
    /// the sender's at once, one that it holds is not; what comes alone, and is answered, comes sooner
    /// without.
    #[inline(always)]
    fn advance_among_many(&mut self, lines: usize) {
        if self.distance.is_far() {
            // SAFETY: a message lies inside the ring and does not wrap.
            unsafe { flush(std::ptr::from_ref(self.head()).cast(), lines * LINE_BYTES) };
        }
        self.advance(lines);
        if cfg!(not(loom)) && self.sequence.is_multiple_of(MESSAGES_PER_SAMPLE) {
            self.measure();
        }
    }

    #[inline(never)]
    fn measure(&mut self) {
        let (mut distance, head) = (self.distance, self.head());
        // SAFETY: a line of the ring.
        unsafe { distance.measure(std::ptr::from_ref(head).cast(), || self.is_ready()) };
        self.distance = distance;
    }

    /// Whether the sender was notified of room since this was last asked: then the caller owes it a
    /// [`crate::doorbell::ring_if_sleeping`], see the module's rules.
    #[inline(always)]
    pub fn take_owed_bell(&mut self) -> bool {
        std::mem::take(&mut self.bell_owed)
    }

    /// Tells the sender about everything consumed so far, sooner than the lazy count would.
    #[inline]
    pub fn publish(&mut self) {
        if self.published != self.read {
            self.published = self.read;
            self.publish_from = self.read + lazy(self.mask + 1);
            self.bell_owed = true;
            // SAFETY: valid by the constructor's contract.
            let consumed = unsafe { self.consumed.as_ref() };
            consumed.mark.store(pack(self.read as u32, self.sequence), Ordering::Release);
            consumed.lines.store(self.read, Ordering::Release);
        }
    }

    /// Whether a word 0 commits the message that is next.
    #[inline(always)]
    fn is_due(&self, word: u64) -> bool {
        (word >> 32) as u32 == self.sequence
    }

    #[inline(always)]
    fn head(&self) -> &Line {
        // SAFETY: masked to the ring, which is valid by the constructor's contract.
        unsafe { self.lines.add(self.read as usize & self.mask).as_ref() }
    }
}

/// Lines of a ring of `count` that are consumed before the sender is notified.
pub(super) const fn lazy(count: usize) -> u64 {
    count as u64 / 8
}

/// A message at the head of the ring.
#[derive(Debug)]
pub struct Message<'a> {
    /// Header of the message.
    pub envelope: Envelope,
    lines: usize,
    at: usize,
    ring: &'a mut Consumer,
}

impl Message<'_> {
    /// Bytes that may be inline data: what its lines hold behind the header.
    #[inline(always)]
    pub fn inline_capacity(&self) -> usize {
        self.lines * LINE_BYTES - HEADER_BYTES
    }

    /// Copies the first `to.len()` inline bytes out.
    ///
    /// # Panics
    /// When `to` is longer than the message's lines.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn read_inline(&self, to: &mut [u8]) {
        // SAFETY: a slice is valid for its length.
        unsafe { self.read_inline_to(to.as_mut_ptr(), to.len()) }
    }

    /// Copies `bytes` inline bytes to `to`.
    ///
    /// # Safety
    /// `to` is valid for writing `bytes` bytes.
    ///
    /// # Panics
    /// When `bytes` is more than the message's lines hold.
    #[cfg(not(loom))]
    #[inline(always)]
    pub unsafe fn read_inline_to(&self, to: *mut u8, bytes: usize) {
        // SAFETY: `to` by our contract.
        unsafe { copy(self.inline(bytes), to, bytes) };
    }

    /// Where `bytes` inline bytes lie in the ring, until the message is consumed.
    ///
    /// # Panics
    /// When `bytes` is more than the message's lines hold.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn inline(&self, bytes: usize) -> *const u8 {
        assert!(bytes <= self.inline_capacity(), "{bytes} inline bytes read from {} lines", self.lines);
        // SAFETY: the lines are inside the ring (a message never wraps) and were published before the commit
        // that peek acquired; the sender does not touch them before we advance.
        unsafe { self.ring.lines.add(self.at).cast::<u8>().add(HEADER_BYTES) }.as_ptr()
    }

    /// Copies the first `to.len()` inline bytes out.
    #[cfg(loom)]
    pub fn read_inline(&self, to: &mut [u8]) {
        assert!(to.len() <= self.inline_capacity());
        for (i, bytes) in to.chunks_mut(8).enumerate() {
            let position = 3 + i;
            // SAFETY: masked to the ring.
            let line = unsafe { self.ring.lines.add((self.at + position / 8) & self.ring.mask).as_ref() };
            line.payload.with(|_| ());
            let word = line.words[position % 8].load(Ordering::Relaxed).to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }

    /// Word `3 + index`: an argument of a control message.
    #[inline(always)]
    pub fn argument(&self, index: usize) -> u64 {
        assert!(index < 5);
        // SAFETY: masked to the ring.
        unsafe { self.ring.lines.add(self.at).as_ref() }.words[3 + index].load(Ordering::Relaxed)
    }

    /// Done with it: the lines go back to the sender.
    #[inline(always)]
    pub fn consume(self) {
        self.ring.advance(self.lines);
    }

    /// The same when more messages are to come at once.
    #[inline(always)]
    pub fn consume_among_many(self) {
        self.ring.advance_among_many(self.lines);
    }
}
