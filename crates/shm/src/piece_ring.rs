//! The ring of a partitioned send to a rank of its node: memory of both, into which the sender writes what is
//! ready and out of which the receiver reads it. So a partition costs its data and one store, not a message.
//!
//! ```text
//! | written 8, operation 4 | taken 8 | called 8 | records, one behind the other    64 bytes each, the rest
//! record:  a word that is not 0, and as many others as the user of the ring says
//!          0                       nothing more before the end of the ring
//! ```
//!
//! | word | writer |
//! |---|---|
//! | `written`: words of records since the beginning | the sender, behind the record |
//! | `operation`: which send has the ring | the sender, while the ring is empty |
//! | `taken`: words that have been read since the beginning | the receiver, behind its look |
//! | `called`: what `written` was when the sender last called | the sender |
//!
//! A receiver that waits for all partitions looks at `called` alone: if it looked at `written`, that line
//! would go from core to core with each partition. The sender calls every [`CALL_WORDS`], when all partitions
//! are ready, and when it finds no room; then it rings, too. A receiver that asks for one partition looks at
//! `written`. It says what it has taken, and rings, when it has made room of a quarter of the ring, or has
//! taken all of a start: a sender that finds no room has more in the ring than that.
//!
//! Stopped anywhere, a ring holds whole records, which the receiver takes in the order of the sender. It is
//! used again by a later send to the same rank when all has been taken.

use std::ptr::NonNull;

use crate::sync::{AtomicU32, AtomicU64, Ordering::*};

/// The sender calls a receiver that waits every so many words, so that both copy at once.
#[cfg(not(loom))]
pub const CALL_WORDS: u64 = 512;
/// The same for models: one record.
#[cfg(loom)]
pub const CALL_WORDS: u64 = 2;

/// Words of both ends. A fresh one is zeroed.
#[cfg_attr(not(loom), repr(C, align(64)))]
#[derive(Debug, Default)]
pub struct Head {
    written: AtomicU64,
    operation: AtomicU32,
    _line0: [u32; 13],
    taken: AtomicU64,
    _line1: [u64; 7],
    called: AtomicU64,
    _line2: [u64; 7],
}

/// Word of a record.
#[cfg(not(loom))]
#[repr(transparent)]
#[derive(Debug)]
pub struct Word(u64);

/// Word of a record: a cell (open to the models) through which loom sees when both ends use it at once.
#[cfg(loom)]
#[derive(Debug, Default)]
pub struct Word(pub loom::cell::UnsafeCell<u64>);

impl Word {
    /// # Safety
    /// The word is alive, and the other end does not touch it.
    unsafe fn clear(at: NonNull<Word>) {
        // SAFETY: by our contract.
        #[cfg(not(loom))]
        unsafe {
            at.cast::<u64>().write(0);
        }
        #[cfg(loom)]
        unsafe { at.as_ref() }.0.with_mut(|word| unsafe { *word = 0 });
    }

    /// # Safety
    /// The word is alive, and the other end does not write it.
    #[inline(always)]
    unsafe fn is_clear(at: NonNull<Word>) -> bool {
        // SAFETY: by our contract.
        #[cfg(not(loom))]
        return unsafe { at.cast::<u64>().read() } == 0;
        #[cfg(loom)]
        unsafe { at.as_ref() }.0.with(|word| unsafe { *word == 0 })
    }
}

/// The memory of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    head: NonNull<Head>,
    words: NonNull<Word>,
    room: usize,
}

impl Parts {
    /// A ring with room for so many words of records.
    ///
    /// # Safety
    /// Head and words are valid for the life of the value and of the ends that are made of it, at least 2
    /// words; nobody but one of each end, and no end that is no longer used, touches them.
    pub unsafe fn new(head: NonNull<Head>, words: NonNull<Word>, room: usize) -> Self {
        Parts { head, words, room }
    }

    #[inline(always)]
    fn head(&self) -> &Head {
        // SAFETY: valid by the constructor's contract; its words are atomics.
        unsafe { self.head.as_ref() }
    }

    #[inline(always)]
    fn word(&self, at: usize) -> NonNull<Word> {
        debug_assert!(at < self.room);
        // SAFETY: the words are as many.
        unsafe { self.words.add(at) }
    }
}

/// The sender's end.
#[derive(Debug)]
pub struct Producer {
    parts: Parts,
    written: u64,
    /// Where the next record begins.
    at: usize,
    /// Words that the receiver had taken when this end last looked.
    known_taken: u64,
    /// Words that were written when this end last called.
    called: u64,
}

impl Producer {
    /// The sender's end of a new, empty ring: nobody reads it before its place was sent.
    pub fn new(parts: Parts) -> Self {
        for word in [&parts.head().written, &parts.head().taken, &parts.head().called] {
            word.store(0, Relaxed);
        }
        Producer { parts, written: 0, at: 0, known_taken: 0, called: 0 }
    }

    /// Whether all has been taken.
    pub fn is_empty(&self) -> bool {
        self.parts.head().taken.load(Acquire) == self.written
    }

    /// Gives the ring to another send, unless something is left in it.
    pub fn try_assign(&mut self, operation: u32) -> bool {
        let is_empty = self.is_empty();
        if is_empty {
            self.parts.head().operation.store(operation, Release);
        }
        is_empty
    }

    /// Whether the receiver has made room since a record last found none.
    pub fn has_more_room(&self) -> bool {
        self.parts.head().taken.load(Acquire) != self.known_taken
    }

    /// Whether there is room for so many words.
    #[inline(always)]
    fn has_room(&mut self, words: usize) -> bool {
        let end = self.written + words as u64;
        end <= self.known_taken + self.parts.room as u64 || {
            self.known_taken = self.parts.head().taken.load(Acquire);
            end <= self.known_taken + self.parts.room as u64
        }
    }

    /// Where a record of so many words goes, if there is room; [`Producer::commit`] publishes it. At most
    /// half of the ring.
    #[inline(always)]
    pub fn place(&mut self, words: usize) -> Option<NonNull<Word>> {
        debug_assert!(words > 0 && words <= self.parts.room / 2, "{words} words");
        let rest = self.parts.room - self.at;
        if words > rest {
            if !self.has_room(rest + words) {
                return None;
            }
            self.skip(rest);
        } else if !self.has_room(words) {
            return None;
        }
        Some(self.parts.word(self.at))
    }

    /// Leaves the rest of the ring empty.
    #[cold]
    fn skip(&mut self, rest: usize) {
        if rest > 0 {
            // SAFETY: inside the ring, and taken by the receiver: there is room for it.
            unsafe { Word::clear(self.parts.word(self.at)) };
        }
        self.written += rest as u64;
        self.at = 0;
    }

    /// Publishes the record that has been written at [`Producer::place`], whose first word is not 0.
    #[inline(always)]
    pub fn commit(&mut self, words: usize) {
        self.written += words as u64;
        self.at += words;
        self.parts.head().written.store(self.written, Release);
        if self.written - self.called >= CALL_WORDS {
            self.call();
        }
    }

    /// Calls a receiver that waits to look at what has been written. One that may sleep must be rung, too.
    #[inline(always)]
    pub fn call(&mut self) {
        self.called = self.written;
        self.parts.head().called.store(self.called, Release);
    }
}

/// The receiver's end.
#[derive(Debug)]
pub struct Consumer {
    parts: Parts,
    operation: u32,
    taken: u64,
    /// Words that the sender was told of ([`Consumer::publish`]).
    published: u64,
    at: usize,
    /// Words that the sender had written when this end last looked.
    known_written: u64,
    /// The last call of the sender that was seen.
    known_called: u64,
}

impl Consumer {
    /// The receiver's end for this send, which has written nothing that was taken.
    pub fn new(parts: Parts, operation: u32) -> Self {
        let taken = parts.head().taken.load(Relaxed);
        let at = (taken % parts.room as u64) as usize;
        Consumer { parts, operation, taken, published: taken, at, known_written: taken, known_called: taken }
    }

    /// Whether the sender has called since this was last asked.
    #[inline(always)]
    pub fn is_called(&mut self) -> bool {
        let called = self.parts.head().called.load(Acquire);
        std::mem::replace(&mut self.known_called, called) != called
    }

    /// The next record, and how many words there are from it on, which it does not exceed.
    ///
    /// # Panics
    /// When there is what no sender writes.
    #[inline(always)]
    pub fn peek(&mut self) -> Option<(NonNull<Word>, usize)> {
        loop {
            if self.taken == self.known_written {
                let head = self.parts.head();
                let written = head.written.load(Acquire);
                if written == self.taken || head.operation.load(Relaxed) != self.operation {
                    return None;
                }
                self.known_written = written;
            }
            if self.at == self.parts.room {
                self.at = 0;
            }
            let (left, rest) = ((self.known_written - self.taken) as usize, self.parts.room - self.at);
            let place = self.parts.word(self.at);
            // SAFETY: inside the ring; the sender has written it before `written`, and writes there again
            // only when it has been taken.
            if !unsafe { Word::is_clear(place) } {
                return Some((place, left.min(rest)));
            }
            assert!(left >= rest, "a ring of partitions ends before its end");
            (self.taken, self.at) = (self.taken + rest as u64, 0);
        }
    }

    /// Done with the record that was found, of so many words; the sender is notified by
    /// [`Consumer::publish`].
    #[inline(always)]
    pub fn take(&mut self, words: usize) {
        self.taken += words as u64;
        self.at += words;
    }

    /// Tells the sender what has been taken. One that may sleep must be rung, too.
    pub fn publish(&mut self) {
        self.published = self.taken;
        self.parts.head().taken.store(self.taken, Release);
    }

    /// The same when it is a quarter of the ring or more; whether it was. A sender that is not told has room
    /// for any record as soon as this end has taken all that is there, if none is longer than a quarter of
    /// the ring: with what it leaves at the end of the ring it takes less than half.
    #[inline(always)]
    pub fn publish_much(&mut self) -> bool {
        let is_much = self.taken - self.published >= (self.parts.room / 4) as u64;
        if is_much {
            self.publish();
        }
        is_much
    }
}

#[cfg(all(test, loom))]
mod model;
