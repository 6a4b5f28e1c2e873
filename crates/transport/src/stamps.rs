//! Stamps: when what happened to operations on remote memory, kept in memory until the program asks.
//!
//! ```text
//! start        from now on stamps are kept, in a table that has been touched before
//! begin, note  where something happens: one load and a branch while none are kept
//! stop         gives them, in the order in which they were noted
//! ```
//!
//! Nothing here writes a file or calls the kernel between start and stop, but for the clock, which is no
//! system call on most machines. [`Mark`] says what a stamp is of; marks from [`OWN_MARKS`] on are the
//! program's.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

pub use crate::clock::monotonic_ns;

/// Marks of the program itself begin here.
pub const OWN_MARKS: u32 = 16;
/// Places of the smallest table and of the largest one, as powers of two.
const ROOM_LEVELS: std::ops::RangeInclusive<u32> = 10..=22;

/// Mark of a stamp: what happened from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Mark {
    /// A record was handed to the network of this rank; `count` has its bytes.
    Handed = 1,
    /// The kernel took datagrams; `count` has how many messages.
    Sent = 2,
    /// The kernel gave datagrams; `count` has how many messages, `arrived_ns` when the first had come.
    Received = 3,
    /// A record of another rank was applied; `count` has its bytes.
    Applied = 4,
    /// A region of a rank of this node was worked on, without a message; `count` has the bytes.
    Mapped = 5,
    /// A DSE process handed a question to its kernel, which is another process; `count` has its bytes.
    Asked = 6,
    /// A DSE kernel has taken a question of its process, from the end of the call that waited for it on.
    Taken = 7,
    /// A DSE kernel handed an answer to its process; `count` has its bytes.
    Given = 8,
}

/// When something happened, by the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stamp {
    /// When it began.
    pub begin_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// When the kernel had the first message; 0: not known.
    pub arrived_ns: u64,
    /// A [`Mark`], or one of the program's.
    pub mark: u32,
    /// As [`Mark`] says.
    pub count: u32,
}

const _: () = assert!(size_of::<Stamp>() == 32, "tutti.h has it too");

/// Level at which nothing is kept.
const OFF: u8 = 0;
/// Level at which the program's marks are kept.
const OWN: u8 = 1;
/// Level at which those and what happens in the library are kept.
const ALL: u8 = 2;

/// Writer: the calls that start and stop. Read wherever something happens.
static KEPT: AtomicU8 = AtomicU8::new(OFF);
/// Places given out since the start; more than there are if some were lost.
static NOTED: AtomicUsize = AtomicUsize::new(0);
/// Which of the tables is in use.
static LEVEL: AtomicUsize = AtomicUsize::new(0);
/// Tables stay, since a thread that was late may still be in one.
static TABLES: [OnceLock<Box<[Place]>>; (*ROOM_LEVELS.end() - *ROOM_LEVELS.start() + 1) as usize] =
    [const { OnceLock::new() }; _];
/// Of the calls that start and stop: since when stamps are kept.
static STARTED: Mutex<Option<u64>> = Mutex::new(None);

/// Written by whoever notes, each place once; read when nothing is kept.
#[derive(Debug, Default)]
struct Place {
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
    arrived_ns: AtomicU64,
    count: AtomicU32,
    /// Stored last; 0: free.
    mark: AtomicU32,
}

impl Place {
    fn fill(&self, stamp: Stamp) {
        self.begin_ns.store(stamp.begin_ns, Ordering::Relaxed);
        self.end_ns.store(stamp.end_ns, Ordering::Relaxed);
        self.arrived_ns.store(stamp.arrived_ns, Ordering::Relaxed);
        self.count.store(stamp.count, Ordering::Relaxed);
        self.mark.store(stamp.mark, Ordering::Release);
    }

    fn read(&self) -> Option<Stamp> {
        let mark = self.mark.load(Ordering::Acquire);
        (mark != 0).then(|| Stamp {
            begin_ns: self.begin_ns.load(Ordering::Relaxed),
            end_ns: self.end_ns.load(Ordering::Relaxed),
            arrived_ns: self.arrived_ns.load(Ordering::Relaxed),
            mark,
            count: self.count.load(Ordering::Relaxed),
        })
    }
}

fn table(level: usize) -> Option<&'static [Place]> {
    TABLES[level].get().map(|table| &**table)
}

/// Keeps stamps from now on, so many at most: the program's, and if `inner` those of [`Mark`]. False if they
/// are kept already, or there is no room for so many.
pub fn start(room: usize, inner: bool) -> bool {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(places) = room.checked_next_power_of_two() else { return false };
    let level = places.ilog2().max(*ROOM_LEVELS.start()) - ROOM_LEVELS.start();
    let Some(table) = TABLES.get(level as usize) else { return false };
    if started.is_some() || room == 0 {
        return false;
    }
    let places = 1 << (level + ROOM_LEVELS.start());
    let table = table.get_or_init(|| (0..places).map(|_| Place::default()).collect());
    // Every page is touched here, and not when something is timed.
    table.iter().for_each(|place| place.fill(Stamp::default()));
    LEVEL.store(level as usize, Ordering::Relaxed);
    NOTED.store(0, Ordering::Relaxed);
    *started = Some(monotonic_ns());
    KEPT.store(if inner { ALL } else { OWN }, Ordering::Release);
    true
}

/// Keeps none any more: those since the start in their order, and how many had no room; `None` if none were
/// kept.
pub fn stop() -> Option<(Vec<Stamp>, usize)> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let since_ns = started.take()?;
    KEPT.store(OFF, Ordering::Release);
    let noted = NOTED.load(Ordering::Acquire);
    let table = table(LEVEL.load(Ordering::Relaxed))?;
    // One of a thread that was late is of an earlier start.
    let stamps = table.iter().take(noted).filter_map(Place::read).filter(|stamp| stamp.begin_ns >= since_ns);
    Some((stamps.collect(), noted.saturating_sub(table.len())))
}

/// Whether what happens in the library is kept.
#[inline(always)]
pub fn is_on() -> bool {
    KEPT.load(Ordering::Relaxed) == ALL
}

/// The time, if what happens in the library is kept.
#[inline(always)]
pub fn begin() -> Option<u64> {
    if is_on() { Some(now_rarely()) } else { None }
}

#[cold]
#[inline(never)]
fn now_rarely() -> u64 {
    monotonic_ns()
}

/// Notes what began at `begin_ns` and is over now.
#[cold]
#[inline(never)]
pub fn note(mark: Mark, begin_ns: u64, count: usize) {
    keep(Stamp { begin_ns, end_ns: monotonic_ns(), arrived_ns: 0, mark: mark as u32, count: short(count) });
}

/// The same of datagrams that have come; what `arrived_ns` takes is no part of it.
#[cold]
#[inline(never)]
pub(crate) fn note_received(begin_ns: u64, count: usize, arrived_ns: impl FnOnce() -> u64) {
    let (end_ns, mark) = (monotonic_ns(), Mark::Received as u32);
    keep(Stamp { begin_ns, end_ns, arrived_ns: arrived_ns(), mark, count: short(count) });
}

fn short(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Notes a mark of the program.
#[inline]
pub fn mark(mark: u32) {
    if KEPT.load(Ordering::Relaxed) != OFF {
        let now_ns = monotonic_ns();
        keep(Stamp { begin_ns: now_ns, end_ns: now_ns, arrived_ns: 0, mark, count: 0 });
    }
}

fn keep(stamp: Stamp) {
    let Some(table) = table(LEVEL.load(Ordering::Relaxed)) else { return };
    if let Some(place) = table.get(NOTED.fetch_add(1, Ordering::Relaxed)) {
        place.fill(stamp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since a process has one table.
    #[test]
    fn stamps_are_kept_in_order_and_counted_when_there_is_no_room() {
        assert!(stop().is_none());
        assert_eq!(begin(), None);
        mark(16);
        assert!(!start(0, true) && !start(1 << 23, true) && !start(usize::MAX, true));
        assert!(start(1000, false) && !start(1000, true));
        assert_eq!(begin(), None, "only the program's marks");
        mark(16);
        let (kept, lost) = stop().expect("they were kept");
        assert_eq!((kept.len(), kept[0].mark, lost), (1, 16, 0));
        assert!(start(1000, true));
        let began_ns = begin().expect("they are kept");
        note_received(began_ns, 3, || 7);
        for number in 0..2000 {
            mark(OWN_MARKS + number);
        }
        let (kept, lost) = stop().expect("they were kept");
        assert_eq!((kept.len(), lost), (1024, 2001 - 1024));
        let Stamp { begin_ns, end_ns, arrived_ns, mark, count } = kept[0];
        assert_eq!((begin_ns, arrived_ns, mark, count), (began_ns, 7, Mark::Received as u32, 3));
        assert!(begin_ns <= end_ns && end_ns <= kept[1].begin_ns);
        assert!(kept[1..].iter().zip(OWN_MARKS..).all(|(stamp, mark)| stamp.mark == mark));
        assert!(stop().is_none());
    }
}
