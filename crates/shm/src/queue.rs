//! A queue of messages in shared memory: many senders, one receiver, each sender's messages in its order.
//!
//! ```text
//! | head | tail | lines | line 0 | line 1 | ...        64 bytes each
//! line of a message:  | mark 8 | bytes 4, from 4 | 48 of data |   | . 8 | 56 of data | ...
//! ```
//!
//! | word | writer |
//! |---|---|
//! | `head`: lines taken so far | the receiver |
//! | `tail`: lines given out so far | senders, by compare-and-swap |
//! | `sleeper`, beside the number of lines: the receiver sleeps until a message comes | the receiver; who wakes it |
//! | `done`, behind it: the receiver has done with all lines before this one | the receiver |
//! | a line's mark: 1 + its number, counted from the beginning | who has reserved the line, last |
//!
//! A sender reserves lines, copies, then stores the mark of the first one. No mark is ever cleared: one of an
//! earlier lap is smaller. Where there is no room nothing is reserved. A sender that is frozen between the
//! two holds up what was reserved behind it, until it goes on; who kills one ends its job. One that is killed
//! before it has woken a receiver leaves it asleep until its time is over. Loom searches the steps.
//!
//! What comes out of the memory is checked: a sender that writes nonsense makes the receiver drop it.

use std::ptr::NonNull;
use std::time::Duration;

use crate::LINE_BYTES;
use crate::doorbell::futex;
#[cfg(not(loom))]
use crate::opened::Opened;
use crate::sync::{AtomicU32, AtomicU64, Ordering::*, then_look};
#[cfg(loom)]
use model::Opened;

const HEAD: usize = 0;
const TAIL: usize = LINE_BYTES;
const LINES: usize = 2 * LINE_BYTES;
const SLEEPER: usize = LINES + 8;
const DONE: usize = LINES + 16;
/// Where the words are from which an onlooker sees whether all messages were dealt with.
#[cfg(not(loom))]
pub(crate) const PROGRESS_BYTES: usize = DONE + 8;
const BEGIN: usize = 3 * LINE_BYTES;
/// Sender of a message that was withdrawn.
const NOBODY: u32 = u32::MAX;
const FIRST_BYTES: usize = LINE_BYTES - 16;
const NEXT_BYTES: usize = LINE_BYTES - 8;

/// A queue, as this process sees it.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    memory: Opened,
    lines: u64,
}

/// Room for a message that nobody else has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    at: u64,
    bytes: usize,
}

/// How far messages have come, as an onlooker copies it.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Lines given out.
    pub given_out: u64,
    /// Lines taken.
    pub taken: u64,
    /// Lines that the receiver has done with.
    pub done: u64,
}

#[cfg(not(loom))]
impl Progress {
    /// Of the first bytes of a queue.
    pub(crate) fn of(words: &[u8; PROGRESS_BYTES]) -> Self {
        let word = |at: usize| words[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Progress { given_out: word(TAIL), taken: word(HEAD), done: word(DONE) }
    }
}

/// A message that has arrived, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    at: u64,
    /// Length of the message.
    pub bytes: usize,
    /// World rank of its sender.
    pub from: u32,
}

impl Reservation {
    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Queue {
    /// Lines that a message of so many bytes takes.
    pub fn lines_of(bytes: usize) -> u64 {
        1 + bytes.saturating_sub(FIRST_BYTES).div_ceil(NEXT_BYTES) as u64
    }

    /// Bytes of the longest message in a queue of so many lines, at least one.
    pub fn message_bytes_of(lines: u64) -> usize {
        FIRST_BYTES + (lines as usize - 1) * NEXT_BYTES
    }

    /// Bytes of memory for a queue that holds a message of so many bytes, or several shorter ones.
    pub fn bytes_for(bytes: usize) -> usize {
        BEGIN + Queue::lines_of(bytes) as usize * LINE_BYTES
    }

    /// Makes an empty queue of zeroed memory.
    pub fn create(memory: Opened) -> Option<Self> {
        let lines = (memory.bytes().checked_sub(BEGIN)? / LINE_BYTES) as u64;
        memory.atomic_u64(LINES)?.store(lines, Release);
        Queue::open(memory)
    }

    /// The queue that a rank of this node has made; none where there is none.
    pub fn open(memory: Opened) -> Option<Self> {
        let lines = memory.atomic_u64(LINES)?.load(Acquire);
        let room = (memory.bytes().checked_sub(BEGIN)? / LINE_BYTES) as u64;
        (lines > 0 && lines <= room).then_some(Queue { memory, lines })
    }

    /// Bytes of the longest message.
    pub fn message_bytes_max(&self) -> usize {
        Queue::message_bytes_of(self.lines)
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.memory.atomic_u64(offset).expect("the memory has so many lines")
    }

    fn sleeper(&self) -> &AtomicU32 {
        self.memory.atomic_u32(SLEEPER).expect("the memory has so many lines")
    }

    fn line(&self, number: u64) -> usize {
        BEGIN + (number % self.lines) as usize * LINE_BYTES
    }

    /// Room for a message; none while the queue is full.
    pub fn reserve(&self, from: u32, bytes: usize) -> Option<Reservation> {
        let lines = Queue::lines_of(bytes);
        let tail = self.word(TAIL);
        let mut at = tail.load(Relaxed);
        loop {
            let used = at.wrapping_sub(self.word(HEAD).load(Acquire));
            if used > self.lines || lines > self.lines - used {
                // The head may be ahead of an old look at the tail: what others reserved meanwhile is taken.
                let found = tail.load(Relaxed);
                if found == at {
                    return None;
                }
                at = found;
                continue;
            }
            match tail.compare_exchange_weak(at, at.wrapping_add(lines), AcqRel, Relaxed) {
                Ok(_) => break,
                Err(found) => at = found,
            }
        }
        self.word(self.line(at) + 8).store(bytes as u64 | u64::from(from) << 32, Relaxed);
        Some(Reservation { at, bytes })
    }

    /// Copies a part of a message to where it belongs.
    ///
    /// # Safety
    /// `from` is valid for so many bytes, which end inside the message.
    pub unsafe fn fill(&self, reservation: Reservation, offset: usize, from: *const u8, bytes: usize) {
        debug_assert!(offset + bytes <= reservation.bytes);
        self.each_piece(reservation.at, offset, bytes, |place, done, some| {
            // SAFETY: our contract.
            unsafe { self.memory.store(place, from.add(done), some) };
        });
    }

    /// The message is whole: the receiver may have it.
    pub fn commit(&self, reservation: Reservation) {
        self.word(self.line(reservation.at)).store(reservation.at.wrapping_add(1), SeqCst);
        then_look();
        // Either this load sees the receiver's intention, or its look behind that sees the message.
        if self.sleeper().load(SeqCst) != 0 {
            self.wake();
        }
    }

    /// The message does not become whole: the receiver passes it over.
    pub fn withdraw(&self, reservation: Reservation) {
        let head = reservation.bytes as u64 | u64::from(NOBODY) << 32;
        self.word(self.line(reservation.at) + 8).store(head, Relaxed);
        self.commit(reservation);
    }

    /// Ends a sleep of the receiver.
    #[cold]
    pub fn wake(&self) {
        let sleeper = self.sleeper();
        if sleeper.swap(0, SeqCst) != 0 {
            futex::wake_all(sleeper);
        }
    }

    /// Sleeps until a message comes, [`Queue::wake`] is called or the time is over; may return early. Called
    /// by the receiver.
    pub fn sleep(&self, at_most: Duration, is_over: impl FnOnce() -> bool) {
        let sleeper = self.sleeper();
        // Exchanges: loom does not order plain stores with those of senders. On x86 they are the same.
        sleeper.swap(1, SeqCst);
        then_look();
        if !self.has_message() && !is_over() {
            futex::wait(sleeper, 1, Some(at_most));
        }
        sleeper.swap(0, SeqCst);
    }

    /// Whether there is a message.
    pub fn has_message(&self) -> bool {
        let head = self.word(HEAD).load(Relaxed);
        self.word(self.line(head)).load(SeqCst) == head.wrapping_add(1)
    }

    /// The next message, which stays. Called by the receiver.
    pub fn peek(&self) -> Option<Message> {
        loop {
            let message = self.peek_at(self.word(HEAD).load(Relaxed))?;
            if message.from != NOBODY {
                return Some(message);
            }
            self.word(HEAD).store(message.at.wrapping_add(Queue::lines_of(message.bytes)), Release);
        }
    }

    /// The message there, where the head is, withdrawn or not.
    fn peek_at(&self, at: u64) -> Option<Message> {
        if !self.has_message() {
            return None;
        }
        let head = self.word(self.line(at) + 8).load(Relaxed);
        let (bytes, from) = (head as u32 as usize, (head >> 32) as u32);
        let given_out = self.word(TAIL).load(Acquire).wrapping_sub(at);
        if Queue::lines_of(bytes) > given_out.min(self.lines) {
            // Somebody has written what no sender writes.
            self.word(HEAD).store(at.wrapping_add(1), Release);
            return None;
        }
        Some(Message { at, bytes, from })
    }

    /// Copies the message that [`Queue::peek`] has found, and takes it out.
    ///
    /// # Safety
    /// `to` is valid for writing its bytes. The receiver calls, one thread at a time.
    pub unsafe fn take(&self, message: Message, to: *mut u8) {
        self.each_piece(message.at, 0, message.bytes, |place, done, some| {
            // SAFETY: our contract.
            unsafe { self.memory.load(place, to.add(done), some) };
        });
        self.word(HEAD).store(message.at.wrapping_add(Queue::lines_of(message.bytes)), Release);
    }

    /// The receiver has done what the messages that it has taken ask for. Called by a receiver that acts on
    /// each: an onlooker takes it for at rest from now on, until it takes another one.
    pub fn finish(&self) {
        self.word(DONE).store(self.word(HEAD).load(Relaxed), Release);
    }

    /// Visits the pieces of `bytes` bytes at `offset` of a message: where, what is done, how many.
    fn each_piece(&self, at: u64, offset: usize, bytes: usize, mut visit: impl FnMut(usize, usize, usize)) {
        let mut done = 0;
        while done < bytes {
            let place = offset + done;
            let (number, skip, room) = match place.checked_sub(FIRST_BYTES) {
                None => (at, 16 + place, FIRST_BYTES - place),
                Some(behind) => {
                    let inside = behind % NEXT_BYTES;
                    (at.wrapping_add(1 + (behind / NEXT_BYTES) as u64), 8 + inside, NEXT_BYTES - inside)
                }
            };
            let some = room.min(bytes - done);
            visit(self.line(number) + skip, done, some);
            done += some;
        }
    }

    /// First byte of the queue's memory.
    pub fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }
}

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
