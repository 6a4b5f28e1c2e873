//! The envelope ring of an ordered pair of ranks: 64-byte lines, written by the sender, read by the receiver.
//!
//! A message takes one or more lines: a header of [`HEADER_BYTES`] and inline data right behind it,
//! contiguous over the lines. Its first word is the commit: it holds a sequence number, and only the number
//! that is due is a message; what a line held one turn of the ring ago has an older one.
//!
//! | word | holds | |
//! |---|---|---|
//! | 0 | `kind` (8 bits), `flags` (8), `lines` (16), `sequence` (32) | the commit, stored last |
//! | 1 | `context` (32), `tag` (32) | matching |
//! | 2 | `length` | bytes of the whole message, or an argument of a control message |
//! | 3.. | inline data, or further arguments | |
//!
//! Old payload is no header and could look like one. The sender remembers which lines hold payload; when
//! the line *behind* a message is one of them it clears that line's word 0 before the commit. Lines that only
//! ever held headers are not cleared: a receiver that waits on the next line would lose it from its cache for
//! nothing.
//!
//! A message that does not fit before the end of the ring is preceded by a pad. The lines that a pad covers
//! are cleared too, so each turn of the ring renews or clears word 0 of every line: an old number is at most
//! two turns old and cannot be due again when the numbers, after 2^32 messages, begin again. Line 0 never
//! holds payload, because no message wraps.
//!
//! The receiver never writes to the lines; it counts what it consumed in a line of its own, which the sender
//! looks at only when the ring seems full.
//!
//! # Fullness and sleep
//! The receiver counts lazily, every eighth of the ring. Nobody need call [`Consumer::publish`] for the
//! sender's sake: what is consumed and not yet counted is less than an eighth, a message with pad and cleared
//! line takes at most three quarters, so an empty ring takes any message whether its receiver has counted or
//! not.
//!
//! A sender that sleeps is another matter: the count wakes nobody. Therefore
//! - a sender that was refused sleeps, if at all, by [`crate::doorbell::sleep_if`] on its own endpoint, and
//!   [`Producer::has_room_for`] is part of what it looks at;
//! - a receiver asks [`Consumer::take_owed_bell`] after a pass over the ring, before it sleeps or leaves the
//!   library, and rings the sender if told so.

use crate::LINE_BYTES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

pub use consumer::{Consumer, Message};
pub use producer::Producer;

mod consumer;
#[cfg(not(loom))]
mod copy;
mod producer;

/// Bytes in front of the inline data.
pub const HEADER_BYTES: usize = 24;
/// Lines of a ring, at most.
pub const LINES_MAX: usize = 256;
/// Kind of the filler before the end of the ring; kinds of messages are 2 to 255.
const PAD: u8 = 1;

/// Cache line of an envelope. The words are atomics because word 0 of each may be a commit.
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
    /// Number of the message that is due, 0 before the first. Reader of this line: who looks at a frozen
    /// receiver ([`waiting`]).
    pub due: AtomicU32,
    _gap: u32,
    /// A place before it: lines consumed in the lower half, number of the message that was due there in the
    /// upper one. Moves before `lines` does, so the sender has not used again what lies behind it.
    pub mark: AtomicU64,
    _line1: [u64; 6],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Consumed>() == 2 * LINE_BYTES);

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

/// A message that has not been taken, as an onlooker sees it.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untaken {
    /// Header of the message.
    pub envelope: Envelope,
    /// First line of the message.
    pub at: usize,
    /// Bytes behind its header, at most.
    pub capacity: usize,
}

/// The messages that wait in a ring whose receiver is frozen, oldest first. The ring may hold anything: the
/// walk ends at what is no message.
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

/// At least four lines, so that a message may have one; at most [`LINES_MAX`].
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

const fn pack(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(all(test, not(loom)))]
mod tests;
