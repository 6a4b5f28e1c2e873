//! Notes of stores, as code compiled with the plugin makes them (docs/internals/dsm.md).
//!
//! ```text
//! compiled code    tests the address, extends the open range, or calls add, add_rows; then it stores
//! the same         calls rearm before functions that make no notes
//! a fault, a flush asks what is noted; the open range is closed first
//! ```
//!
//! The thread that may touch the arena makes the notes, and takes the faults and calls that read them. So
//! nothing here is locked. Another thread has an open range of its own, without the arena's tag: its stores
//! make no notes, and their faults end the job ([`crate::fault`]).

use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::NonNull;

use crate::core::notes::{Notes, words_of};
use crate::os;

/// Bits of an address below those that say whether it is the arena's: the arena has 1 TiB at most.
const TAG_SHIFT: u32 = 40;
/// The open range of a thread. The compiled program holds it, and knows where its fields are.
#[derive(Debug)]
#[repr(C)]
pub struct OpenRange {
    /// Tag of addresses that are noted. Writer: this module. Reader: compiled code.
    tag: usize,
    /// The address behind the range. Writer: both.
    end: usize,
    /// The address at which it begins. Writer: this module.
    begin: usize,
    /// Notes that have extended a range. Writer: compiled code.
    extended: u64,
}

const _: () = assert!(size_of::<OpenRange>() == 32);

/// Counts of the work done for notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Notes of the program: each execution of one counts.
    pub notes: u64,
    /// Notes among them that stand for rows of a loop nest.
    pub row_notes: u64,
    /// Calls of code that makes no notes.
    pub rearmed: u64,
}

impl Counters {
    /// The counts with their names, as they are printed.
    pub fn named(&self) -> [(&'static str, u64); 3] {
        [("notes", self.notes), ("row_notes", self.row_notes), ("rearmed", self.rearmed)]
    }
}

#[derive(Debug)]
struct State {
    open: NonNull<OpenRange>,
    notes: Notes<&'static mut [u64]>,
    /// The address of the arena, and its length.
    base: usize,
    bytes: usize,
    counters: Counters,
}

static STATE: Cell = Cell(UnsafeCell::new(None));

struct Cell(UnsafeCell<Option<State>>);

// SAFETY: the content is reached by the thread alone that may touch the arena: in notes, in its faults (which
// do not come while it makes a note), and while it waits in a call of the library.
unsafe impl Sync for Cell {}

fn with<T>(action: impl FnOnce(&mut State) -> T) -> Option<T> {
    // SAFETY: see above; no action calls into this module again.
    unsafe { (*STATE.0.get()).as_mut() }.map(action)
}

impl State {
    /// The open range becomes notes.
    fn close(&mut self) {
        // SAFETY: it is this thread's, in memory that stays until the process ends.
        let open = unsafe { self.open.as_mut() };
        if open.begin != open.end {
            self.notes.add(open.begin - self.base..open.end - self.base);
            open.begin = open.end;
        }
    }

    /// A note of bytes from an address on that is the arena's by its tag.
    fn add(&mut self, address: usize, bytes: usize) {
        self.counters.notes += 1;
        self.close();
        // A range that grows is one that later notes extend; what is beyond the arena faults soon.
        let end = self.base + self.bytes;
        let begin = address.min(end);
        // SAFETY: as above.
        let open = unsafe { self.open.as_mut() };
        (open.begin, open.end) = (begin, begin.saturating_add(bytes).min(end));
    }

    fn add_rows(&mut self, address: usize, bytes: usize, stride: isize, rows: usize) {
        self.counters.notes += 1;
        self.counters.row_notes += 1;
        self.close();
        if bytes == 0 {
            return;
        }
        for row in 0..rows {
            let begin =
                address.wrapping_add_signed(stride.wrapping_mul(row as isize)).wrapping_sub(self.base);
            if begin < self.bytes {
                self.notes.add(begin..begin.saturating_add(bytes).min(self.bytes));
            }
        }
    }
}

/// From now on notes in so many bytes of the arena at `base` are kept. The open range is that of the calling
/// thread, and stays.
///
/// # Errors
/// When there is no address space for them.
pub(crate) fn install(open: NonNull<OpenRange>, base: usize, bytes: usize) -> std::io::Result<()> {
    let words = words_of(bytes);
    let address = os::map_anywhere(words * size_of::<u64>())?;
    let notes = Notes::new(os::words_mut(address, words));
    // SAFETY: as in `with`.
    unsafe { *STATE.0.get() = Some(State { open, notes, base, bytes, counters: Counters::default() }) };
    Ok(())
}

/// From now on the program sees the arena, and its stores there are noted.
pub(crate) fn open() {
    // SAFETY: as in `State::close`.
    with(|state| unsafe { state.open.as_mut().tag = state.base >> TAG_SHIFT });
}

/// A store of so many bytes follows.
pub fn add(address: usize, bytes: usize) {
    with(|state| state.add(address, bytes));
}

/// Stores to rows follow: so many, each of so many bytes, whose beginnings are a stride apart.
pub fn add_rows(address: usize, bytes: usize, stride: isize, rows: usize) {
    with(|state| state.add_rows(address, bytes, stride, rows));
}

/// Counts a call of code that makes no notes; whether notes are made at all.
pub(crate) fn count_rearm() -> bool {
    with(|state| state.counters.rearmed += 1).is_some()
}

/// Whether a byte of the arena is noted.
pub(crate) fn contains(offset: usize) -> bool {
    with(|state| {
        state.close();
        state.notes.contains(offset)
    })
    .unwrap_or(false)
}

/// See [`crate::core::member::Frames::next_noted`].
pub(crate) fn next(unit: u32, from: usize) -> Option<Range<usize>> {
    with(|state| {
        state.close();
        state.notes.next(unit, from)
    })
    .flatten()
}

/// See [`crate::core::member::Frames::drop_notes`].
pub(crate) fn drop_unit(unit: u32) {
    with(|state| {
        state.close();
        state.notes.drop_unit(unit);
    });
}

/// See [`crate::core::member::Frames::drop_all_notes`].
pub(crate) fn drop_all() -> usize {
    with(|state| {
        state.close();
        state.notes.drop_all()
    })
    .unwrap_or(0)
}

/// Work done so far; nothing when the program makes no notes.
pub fn counters() -> Counters {
    with(|state| {
        let mut counters = state.counters;
        // SAFETY: as in `State::close`.
        counters.notes += unsafe { state.open.as_ref().extended };
        counters
    })
    .unwrap_or_default()
}
