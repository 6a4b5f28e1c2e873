//! The envelope ring of an ordered pair of ranks: 64-byte lines, written by the sender, read by the receiver.
//!
//! A message takes one or more lines: a header of [`HEADER_BYTES`] and inline data right behind it, contiguous over the
//! lines. Its first word is the commit: it holds a sequence number, and only the number that is due is a message; what a
//! line held one turn of the ring ago has an older one.
//!
//! | word | holds | |
//! |---|---|---|
//! | 0 | `kind` (8 bits), `flags` (8), `lines` (16), `sequence` (32) | the commit, stored last |
//! | 1 | `context` (32), `tag` (32) | matching |
//! | 2 | `length` | bytes of the whole message, or an argument of a control message |
//! | 3.. | inline data, or further arguments | |
//!
//! Old payload is no header and could look like one (F9). The sender remembers which lines hold payload; when the line
//! *behind* a message is one of them it clears that line's word 0 before the commit. Lines that only ever held headers are
//! not cleared: a receiver that waits on the next line would lose it from its cache for nothing.
//!
//! A message that does not fit before the end of the ring is preceded by a pad. The lines that a pad covers are cleared
//! too, so each turn of the ring renews or clears word 0 of every line: an old number is at most two turns old and cannot
//! be due again when the numbers, after 2^32 messages, begin again. Line 0 never holds payload, because no message wraps.
//!
//! The receiver never writes to the lines; it counts what it consumed in a line of its own, which the sender looks at only
//! when the ring seems full.
//!
//! # Fullness and sleep
//! The receiver counts lazily, every eighth of the ring. Nobody need call [`Consumer::publish`] for the sender's sake: what
//! is consumed and not yet counted is less than an eighth, a message with pad and cleared line takes at most three quarters, so
//! an empty ring takes any message whether its receiver has counted or not.
//!
//! A sender that sleeps is another matter: the count wakes nobody. Therefore
//! - a sender that was refused sleeps, if at all, by [`crate::doorbell::sleep_unless`] on its own endpoint, and
//!   [`Producer::has_room_for`] is part of what it looks at;
//! - a receiver asks [`Consumer::take_owed_bell`] after a pass over the ring, before it sleeps or leaves the library, and
//!   rings the sender if told so.

use std::ptr::NonNull;

use crate::LINE_BYTES;
use crate::distance::{Distance, flush};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bytes in front of the inline data.
pub const HEADER_BYTES: usize = 24;
/// Inline bytes in a message's first line.
#[cfg(not(loom))]
const HEAD_BYTES: usize = LINE_BYTES - HEADER_BYTES;
/// Kind of the filler before the end of the ring; kinds of messages are 2 to 255.
const PAD: u8 = 1;

/// One line. The words are atomics because word 0 of each may be a commit.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Line {
    words: [AtomicU64; 8],
    /// Stands for the payload: loom sees when one end writes a line that the other may still read.
    #[cfg(loom)]
    payload: loom::cell::UnsafeCell<()>,
}

/// The receiver's counters. Writer of all: the receiver.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Consumed {
    /// Lines consumed since the start, counted lazily. Reader: the sender, when the ring seems full.
    pub lines: AtomicU64,
    _line0: [u64; 7],
    /// Number of the message that is due, 0 before the first. Reader of this line: who looks at a frozen receiver ([`waiting`]).
    pub due: AtomicU32,
    _gap: u32,
    /// A place before it: lines consumed in the lower half, number of the message that was due there in the upper one. Moves before
    /// `lines` does, so the sender has not used again what lies behind it.
    pub mark: AtomicU64,
    _line1: [u64; 6],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Consumed>() == 2 * LINE_BYTES);

/// A sender of small messages asks so many lines ahead for the right to write: in the time in which it sends so many, a line
/// comes from a core far away. The receiver looks at the next line only.
const CLAIMED_AHEAD: usize = 8;

/// The distance of the sender's core is measured once in so many messages.
const MESSAGES_PER_SAMPLE: u32 = 32;

/// The header of a message, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Envelope {
    /// Meaning of the message; 2 to 255.
    pub kind: u8,
    /// Meaning depends on the kind.
    pub flags: u8,
    /// Communicator context.
    pub context: u32,
    /// Tag.
    pub tag: i32,
    /// Bytes of the message, or an argument.
    pub length: u64,
}

/// Lines that a message with so many inline bytes takes.
#[inline(always)]
pub const fn lines_for(inline_bytes: usize) -> usize {
    (HEADER_BYTES + inline_bytes).div_ceil(LINE_BYTES)
}

/// The sender's end.
#[derive(Debug)]
pub struct Producer {
    lines: NonNull<Line>,
    mask: usize,
    consumed: NonNull<Consumed>,
    /// Lines written since the start, pads included.
    written: u64,
    /// What `consumed` was when last looked at.
    known_consumed: u64,
    sequence: u32,
    /// Lines whose word 0 is payload of a message.
    payload: LineSet,
    /// From this number of `written` on `payload` is empty: a turn after the last message of several lines.
    clean_from: u64,
}

/// The receiver's end.
#[derive(Debug)]
pub struct Consumer {
    lines: NonNull<Line>,
    mask: usize,
    consumed: NonNull<Consumed>,
    read: u64,
    /// `read` as last published in `consumed`.
    published: u64,
    sequence: u32,
    /// `consumed` was stored and the sender has not been rung since.
    bell_owed: bool,
    /// Of the sender's core; measured while many messages come.
    distance: Distance,
}

// SAFETY: the pointers lead into a segment that outlives both ends (the constructors' contract); each end is used by one
// thread at a time, under the process lock.
unsafe impl Send for Producer {}
// SAFETY: as above.
unsafe impl Send for Consumer {}

impl Producer {
    /// The sender's end of a ring of `lines` lines, never used before.
    ///
    /// # Safety
    /// `lines` points to `count` zeroed lines and `consumed` to a zeroed counter, both valid for the life of the value; no
    /// other producer exists for them.
    pub unsafe fn new(lines: NonNull<Line>, count: usize, consumed: NonNull<Consumed>) -> Self {
        assert_count(count);
        Producer {
            lines,
            mask: count - 1,
            consumed,
            written: 0,
            known_consumed: 0,
            sequence: 1,
            payload: LineSet([0; 4]),
            clean_from: 0,
        }
    }

    /// The same end, at the same position, on a copy of the ring's memory: for snapshots, and for tests that look at a
    /// frozen peer.
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

    /// Whether [`Producer::try_push`] with so many inline bytes would succeed now: what a refused sender looks at between
    /// its intention to sleep and its sleep.
    pub fn has_room_for(&mut self, inline_bytes: usize) -> bool {
        let needed = lines_for(inline_bytes);
        let rest = self.mask + 1 - (self.written as usize & self.mask);
        self.has_room(if needed > rest { rest + needed + 1 } else { needed + 1 })
    }

    /// The most inline bytes that a message in this ring can have.
    pub fn inline_bytes_max(&self) -> usize {
        // So that a pad, a message and the cleared line always fit into an empty ring, of which an eighth may not be counted.
        (self.mask + 1) * 3 / 8 * LINE_BYTES - HEADER_BYTES
    }

    /// Publishes a message whose inline data are `inline`. Returns false, with nothing written, when the ring is full.
    #[inline(always)]
    #[must_use]
    pub fn try_push(&mut self, envelope: &Envelope, inline: &[u8]) -> bool {
        if inline.len() <= LINE_BYTES - HEADER_BYTES {
            return self.try_push_line(envelope, inline);
        }
        self.try_push_lines(envelope, inline)
    }

    /// A message of one line, which always fits before the end of the ring.
    #[inline(always)]
    fn try_push_line(&mut self, envelope: &Envelope, inline: &[u8]) -> bool {
        debug_assert!(envelope.kind > PAD, "kind {} is not a message's", envelope.kind);
        if !self.has_room(2) {
            return false;
        }
        let at = self.written as usize & self.mask;
        if self.written < self.clean_from {
            self.clear_payload(at + 1);
        }
        self.store(at, envelope);
        self.store_inline(at, inline);
        self.commit(at, envelope.kind, envelope.flags, 1);
        claim(self.line(at + CLAIMED_AHEAD));
        true
    }

    #[inline(never)]
    fn try_push_lines(&mut self, envelope: &Envelope, inline: &[u8]) -> bool {
        self.try_push_stored(envelope, inline.len(), |ring, at| ring.store_inline(at, inline))
    }

    /// Publishes a message of `bytes` inline bytes, which `fill` writes to the address that it is given. Returns false, with nothing
    /// written and `fill` not called, when the ring is full.
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
            // SAFETY: the message does not wrap and stays inside the ring, as was checked when it was given its place.
            fill(unsafe { ring.lines.add(at).cast::<u8>().add(HEADER_BYTES) }.as_ptr());
        })
    }

    #[inline(always)]
    fn try_push_stored(
        &mut self,
        envelope: &Envelope,
        bytes: usize,
        store: impl FnOnce(&mut Self, usize),
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
        // The header last: the receiver polls its line, and would take it from us between two stores far apart.
        store(self, at);
        self.store(at, envelope);
        self.commit(at, envelope.kind, envelope.flags, needed);
        true
    }

    /// The words of a header behind the commit.
    #[inline(always)]
    fn store(&self, at: usize, envelope: &Envelope) {
        let line = self.line(at);
        line.words[1].store(pack(envelope.context, envelope.tag as u32), Ordering::Relaxed);
        line.words[2].store(envelope.length, Ordering::Relaxed);
    }

    #[inline(always)]
    fn commit(&mut self, at: usize, kind: u8, flags: u8, lines: usize) {
        let word =
            u64::from(kind) | u64::from(flags) << 8 | (lines as u64) << 16 | u64::from(self.sequence) << 32;
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
        end <= self.known_consumed + self.mask as u64 + 1 || {
            // SAFETY: valid by the constructor's contract.
            self.known_consumed = unsafe { self.consumed.as_ref() }.lines.load(Ordering::Acquire);
            end <= self.known_consumed + self.mask as u64 + 1
        }
    }

    #[inline(always)]
    fn line(&self, at: usize) -> &Line {
        // SAFETY: masked to the ring, which is valid by the constructor's contract.
        unsafe { self.lines.add(at & self.mask).as_ref() }
    }

    #[cfg(not(loom))]
    #[inline(always)]
    fn store_inline(&mut self, at: usize, inline: &[u8]) {
        // SAFETY: the message does not wrap and stays inside the ring (checked by the caller); the receiver does not look
        // at these lines before the commit.
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

impl Consumer {
    /// The receiver's end of a ring, never used before.
    ///
    /// # Safety
    /// As [`Producer::new`], for consumers.
    pub unsafe fn new(lines: NonNull<Line>, count: usize, consumed: NonNull<Consumed>) -> Self {
        assert_count(count);
        Consumer {
            lines,
            mask: count - 1,
            consumed,
            read: 0,
            published: 0,
            sequence: 1,
            bell_owed: false,
            distance: Distance::default(),
        }
    }

    /// The same end, at the same position, on a copy of the ring's memory: for snapshots, and for tests that look at a
    /// frozen peer.
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
        // SAFETY: valid by the constructor's contract. Nobody else has this line, so the store stays in our cache.
        unsafe { self.consumed.as_ref() }.due.store(self.sequence, Ordering::Release);
        // The counter's line travels to the sender only when it asks; telling it every few lines keeps it in our cache.
        if self.read - self.published >= (self.mask as u64 + 1) / 8 {
            self.publish();
        }
    }

    /// The same while more messages are to come at once. A line that the reader of a far core has flushed is the sender's at once,
    /// one that it holds is not; what comes alone, and is answered, comes sooner without.
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

    /// Whether the sender was told of room since this was last asked: then the caller owes it a
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

/// A message at the head of the ring.
#[derive(Debug)]
pub struct Message<'a> {
    /// Its header.
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
        // SAFETY: the lines are inside the ring (a message never wraps) and were published before the commit that peek
        // acquired; the sender does not touch them before we advance.
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

/// A message that has not been taken, as an onlooker sees it.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untaken {
    /// Its header.
    pub envelope: Envelope,
    /// Its first line.
    pub at: usize,
    /// Bytes behind its header, at most.
    pub capacity: usize,
}

/// The messages that wait in a ring whose receiver is frozen, oldest first. The ring may hold anything: the walk ends
/// at what is no message.
#[cfg(not(loom))]
pub fn waiting<'a>(lines: &'a [Line], consumed: &Consumed) -> impl Iterator<Item = Untaken> + 'a {
    let mask = lines.len() - 1;
    let mark = consumed.mark.load(Ordering::Acquire);
    let (mut at, mut number) = (mark as u32 as usize & mask, ((mark >> 32) as u32).max(1));
    let mut due = consumed.due.load(Ordering::Acquire).max(1);
    let mut left = lines.len();
    std::iter::from_fn(move || {
        loop {
            let words = &lines[at].words;
            let word = words[0].load(Ordering::Acquire);
            let taken = (word >> 16) as u16 as usize;
            if (word >> 32) as u32 != number || taken == 0 || at + taken > lines.len() || taken > left {
                return None;
            }
            let (matching, length) = (words[1].load(Ordering::Relaxed), words[2].load(Ordering::Relaxed));
            let first = at;
            let is_taken = number != due;
            (at, left) = ((at + taken) & mask, left - taken);
            number = next_sequence(number);
            if is_taken {
                continue;
            }
            due = number;
            if word as u8 != PAD {
                let (kind, flags) = (word as u8, (word >> 8) as u8);
                let (context, tag) = (matching as u32, (matching >> 32) as i32);
                let envelope = Envelope { kind, flags, context, tag, length };
                return Some(Untaken { envelope, at: first, capacity: taken * LINE_BYTES - HEADER_BYTES });
            }
        }
    })
}

/// At least four lines, so that a message may have one; at most as many as a [`LineSet`] holds.
fn assert_count(count: usize) {
    assert!(count.is_power_of_two() && (4..=LINES_MAX).contains(&count), "a ring of {count} lines");
}

/// The number of the next message. Never 0, which a line has before its first use.
#[inline(always)]
const fn next_sequence(sequence: u32) -> u32 {
    match sequence.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Lines of a ring, at most.
pub const LINES_MAX: usize = 256;

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
    // SAFETY: a prefetch changes nothing, and every processor of this kind takes the instruction, if only as none.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
    let _ = line;
}

/// Copies small blocks without a call.
///
/// # Safety
/// As `ptr::copy_nonoverlapping`.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller's contract; the two overlapping moves stay inside [0, bytes).
    unsafe {
        match bytes {
            0 => {}
            1..=3 => {
                *to = *from;
                *to.add(bytes / 2) = *from.add(bytes / 2);
                *to.add(bytes - 1) = *from.add(bytes - 1);
            }
            4..=7 => two::<u32>(from, to, bytes),
            8..=16 => two::<u64>(from, to, bytes),
            17..=40 => {
                two::<u128>(from, to, bytes.min(32));
                two::<u64>(from.add(bytes - 16), to.add(bytes - 16), 16);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

/// Copies the first and the last `T` of a block that is between one and two `T` long.
#[cfg(not(loom))]
#[inline(always)]
unsafe fn two<T: Copy>(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: size_of::<T>() <= bytes <= 2 * size_of::<T>() by the callers; the caller's block is valid.
    unsafe {
        let last = bytes - size_of::<T>();
        let (first_value, last_value) =
            (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
        to.cast::<T>().write_unaligned(first_value);
        to.add(last).cast::<T>().write_unaligned(last_value);
    }
}

const fn pack(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(all(test, not(loom)))]
mod tests;
