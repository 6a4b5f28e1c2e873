//! One message copied by two ranks at once, each from or into the other's memory: the sender writes pieces,
//! the receiver reads pieces, whoever is there. Three lines per kind and ordered pair of ranks.
//!
//! | line | holds | written by |
//! |---|---|---|
//! | 0 | `message` (32 bits), next piece (32) | both, by compare-and-swap: a claim |
//! | 1 | `message`, pieces copied by the sender | the sender |
//! | 2 | `message`, pieces copied by the receiver | the receiver |
//!
//! ```text
//! opener   message n-1 complete: own line := (n, 0); line 0 := (n, 0); tells the other, by an envelope, that n is open
//! both     claim a piece, copy it, count it in the own line; ring the other
//! both     the two counts make all pieces, or line 0 names a later message: complete
//! ```
//!
//! Sender or receiver opens all messages of such a block, in the order of their numbers. The other need not
//! come: then the opener claims every piece. A rank that is frozen between claim and count delays the
//! message, it loses nothing.
//!
//! A rank that cannot copy counts [`BROKEN`]: the message must go another way, and the block is not opened
//! again.

use std::ptr::NonNull;

use crate::sync::{AtomicU64, Ordering};

/// Word of a message, alone in its cache line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct PieceWord(AtomicU64);

/// Stands for a count: this rank cannot copy from or to the other's memory.
const BROKEN: u32 = u32::MAX;

/// The lines as one rank sees them.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Line 0.
    pub claims: NonNull<PieceWord>,
    /// Count of this rank.
    pub own: NonNull<PieceWord>,
    /// The other's count.
    pub other: NonNull<PieceWord>,
}

/// State of a message, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Message that has not been opened yet.
    Closed,
    /// Pieces are missing.
    Open,
    /// All is copied.
    Complete,
    /// Sender or receiver cannot copy.
    Broken,
}

/// One rank's end.
#[derive(Debug)]
pub struct Joint {
    parts: Parts,
    /// Message that the own line holds.
    message: u32,
    copied: u32,
}

// SAFETY: the pointers lead into a segment that outlives the value (the constructor's contract); an end is
// used by one thread at a time, under the process lock.
unsafe impl Send for Joint {}

const fn pack(message: u32, count: u32) -> u64 {
    (message as u64) << 32 | count as u64
}

const fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

impl Joint {
    /// An end of a block that was never used.
    ///
    /// # Safety
    /// The lines are zeroed and valid for the life of the value; there is one end on each side.
    pub unsafe fn new(parts: Parts) -> Self {
        Joint { parts, message: 0, copied: 0 }
    }

    /// Opens the next message. The opener calls it in the order of the numbers, which begin at 1, when the
    /// one before is complete.
    pub fn open(&mut self, message: u32) {
        self.count(message, 0);
        self.claims().store(pack(message, 0), Ordering::Release);
    }

    /// Takes a piece of a message to copy; none when all are taken or the message is not open.
    pub fn claim(&self, message: u32, pieces: u32) -> Option<u32> {
        let mut seen = self.claims().load(Ordering::Acquire);
        loop {
            let (current, next) = unpack(seen);
            if current != message || next >= pieces {
                return None;
            }
            let claimed = self.claims().compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Acquire);
            match claimed {
                Ok(_) => return Some(next),
                Err(now) => seen = now,
            }
        }
    }

    /// A claimed piece is copied.
    pub fn finish_piece(&mut self, message: u32) {
        let copied = if self.message == message { self.copied + 1 } else { 1 };
        self.count(message, copied);
    }

    /// Gives up: this rank cannot copy, and a claimed piece is not copied.
    pub fn give_up(&mut self, message: u32) {
        self.count(message, BROKEN);
    }

    /// Whether pieces of a message are not taken yet, also because it is not open.
    pub fn has_pieces(&self, message: u32, pieces: u32) -> bool {
        let (current, next) = unpack(self.claims().load(Ordering::Relaxed));
        match current.wrapping_sub(message).cast_signed() {
            0 => next < pieces,
            ahead => ahead < 0,
        }
    }

    /// How far a message is.
    pub fn state(&self, message: u32, pieces: u32) -> State {
        // The other's line first: an opener renews its own line before line 0, so what is read here is not of
        // a message before the one that line 0 is then found to name.
        // SAFETY: valid by the constructor's contract.
        let (other_message, other_copied) =
            unpack(unsafe { self.parts.other.as_ref() }.0.load(Ordering::Acquire));
        let (current, _) = unpack(self.claims().load(Ordering::Acquire));
        let ahead = current.wrapping_sub(message).cast_signed();
        if ahead < 0 {
            return State::Closed;
        }
        if ahead > 0 {
            return State::Complete;
        }
        let own = if self.message == message { self.copied } else { 0 };
        let other = if other_message == message { other_copied } else { 0 };
        if own == BROKEN || other == BROKEN {
            State::Broken
        } else if own + other == pieces {
            State::Complete
        } else {
            State::Open
        }
    }

    fn count(&mut self, message: u32, copied: u32) {
        (self.message, self.copied) = (message, copied);
        // SAFETY: valid by the constructor's contract.
        unsafe { self.parts.own.as_ref() }.0.store(pack(message, copied), Ordering::Release);
    }

    fn claims(&self) -> &AtomicU64 {
        // SAFETY: valid by the constructor's contract.
        &unsafe { self.parts.claims.as_ref() }.0
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
