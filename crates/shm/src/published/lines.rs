//! Words in which the server of published regions says what has become of each, and whether a client waits
//! for a change of it. Clients map them for reading, so one that maps a region need not ask.
//!
//! | word of a line | writer |
//! |---|---|
//! | `generation`: of the region that is open, 0, or [`GONE`] | the server; [`GONE`]: also the starter, when it or the server ends |
//! | `waiters` | the server |
//!
//! Who changes a region stores, fences, then looks at `waiters`. The server counts a waiter, fences, then
//! looks at the region: one of them sees the other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::*, fence};

use super::area::{Area, Mapped};
use super::{REGIONS_MAX, Status};

const LINE_BYTES: usize = 16;
const BYTES: usize = REGIONS_MAX * LINE_BYTES;
/// The owner of the region has ended.
const GONE: u64 = u64::MAX;

/// The writer's.
#[derive(Debug)]
pub struct Lines {
    area: Area,
    reading: OwnedFd,
}

impl Lines {
    /// Makes them; nobody else can write them.
    ///
    /// # Errors
    /// When the kernel gives no memory.
    pub fn create() -> io::Result<Self> {
        let area = Area::create(BYTES)?;
        // Before Linux 5.1 the descriptor for reading is what keeps others from writing.
        let _ = area.seal();
        Ok(Lines { reading: area.reading_end()?, area })
    }

    /// Descriptor that clients get.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.reading.as_fd()
    }

    /// Descriptor that clients get, for a process that keeps nothing else.
    pub fn reading_end(&self) -> &OwnedFd {
        &self.reading
    }

    fn words(&self, line: usize) -> (&AtomicU64, &AtomicU64) {
        let word = |at: usize| self.area.mapped().word(at as u64).expect("the line is there");
        (word(line * LINE_BYTES), word(line * LINE_BYTES + 8))
    }

    /// A region is there.
    pub fn open(&self, line: usize, generation: u64) {
        let (word, waiters) = self.words(line);
        waiters.store(0, SeqCst);
        word.store(generation, SeqCst);
    }

    /// Marks a region as ended.
    pub fn end(&self, line: usize, status: Status) {
        self.words(line).0.store(if status == Status::Gone { GONE } else { 0 }, SeqCst);
    }

    /// None of them is any more: their owners have ended.
    pub fn end_all(&self) {
        for line in 0..REGIONS_MAX {
            let word = self.words(line).0;
            if word.load(SeqCst) != 0 {
                word.store(GONE, SeqCst);
            }
        }
    }

    /// A client waits.
    pub fn add_waiter(&self, line: usize) {
        self.words(line).1.fetch_add(1, SeqCst);
        fence(SeqCst);
    }

    /// Counts one waiter less.
    pub fn remove_waiter(&self, line: usize) {
        self.words(line).1.fetch_sub(1, SeqCst);
    }
}

/// A client's.
#[derive(Debug)]
pub struct Seen(Mapped);

impl Seen {
    /// Maps them.
    ///
    /// # Errors
    /// When they are something else.
    pub fn map(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        Mapped::map(descriptor, BYTES, false).map(Seen)
    }

    fn word(&self, at: usize) -> u64 {
        self.0.word(at as u64).map_or(0, |word| word.load(SeqCst))
    }

    /// Status of a region: whether it is still there.
    pub fn status(&self, line: usize, generation: u64) -> Status {
        match self.word(line * LINE_BYTES) {
            GONE => Status::Gone,
            found if found == generation => Status::Ok,
            _ => Status::Region,
        }
    }

    /// Whether a client waits for a change of it. The change was made before.
    pub fn is_awaited(&self, line: usize) -> bool {
        fence(SeqCst);
        self.word(line * LINE_BYTES + 8) != 0
    }
}
