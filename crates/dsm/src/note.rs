//! Notes of stores, as code compiled with the plugin makes them (docs/internals/dsm.md).
//!
//! ```text
//! compiled code    tests the address, extends the open range, or calls add, add_rows; then it stores
//! the same         calls rearm before functions that make no notes
//! the same         tells what a loop ahead of another one finds (core::ahead)
//! a fault, a flush asks what is noted; the open range is closed first
//! ```
//!
//! The thread that may touch the arena makes the notes, and takes the faults and calls that read them. So
//! nothing here is locked. Another thread has an open range of its own, without the arena's tag: its stores
//! make no notes, and their faults end the job ([`crate::fault`]).

use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr::NonNull;

use crate::core::ahead::Ahead;
use crate::core::notes::{Notes, words_of};
use crate::core::unit::UNIT_BYTES;
use crate::os;
use crate::states::States;

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

/// The same of programs of today: with the place of the states of pages.
#[derive(Debug)]
#[repr(C)]
pub struct CheckedRange {
    open: OpenRange,
    /// See [`States::biased`]. Writer: this module. Reader: compiled code.
    states: usize,
}

const _: () = assert!(size_of::<CheckedRange>() == 40);

/// Counts of the work done for notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Notes of the program: each execution of one counts.
    pub notes: u64,
    /// Notes among them that stand for rows of a loop nest.
    pub row_notes: u64,
    /// Calls of code that makes no notes.
    pub rearmed: u64,
    /// Loops whose stores through an index were noted before them.
    pub looked_ahead: u64,
}

impl Counters {
    /// The counts with their names, as they are printed.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        [
            ("notes", self.notes),
            ("row_notes", self.row_notes),
            ("rearmed", self.rearmed),
            ("looked_ahead", self.looked_ahead),
        ]
    }
}

#[derive(Debug)]
struct State {
    open: NonNull<OpenRange>,
    notes: Notes<&'static mut [u64]>,
    /// The address of the arena, and its length.
    base: usize,
    bytes: usize,
    ahead: Ahead,
    /// Notes in the order in which they were made, each within a unit; none when they are combined.
    singles: Option<Vec<(u32, Range<usize>)>>,
    /// Loads of the program are checked.
    states: Option<States>,
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

    /// Keeps a note of a range of the arena.
    fn keep(&mut self, range: Range<usize>) {
        let range = range.start..range.end.min(self.bytes);
        if let Some(singles) = &mut self.singles {
            let mut from = range.start;
            while from < range.end {
                let unit = from / UNIT_BYTES;
                let end = range.end.min((unit + 1) * UNIT_BYTES);
                singles.push((unit as u32, from % UNIT_BYTES..end - unit * UNIT_BYTES));
                from = end;
            }
        }
        self.notes.add(range);
    }

    /// A note of bytes from an address on that is the arena's by its tag.
    fn add(&mut self, address: usize, bytes: usize) {
        self.counters.notes += 1;
        self.close();
        if self.singles.is_some() {
            let begin = address - self.base;
            return self.keep(begin..begin.saturating_add(bytes));
        }
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
                self.keep(begin..begin.saturating_add(bytes));
            }
        }
    }
}

impl State {
    /// Notes all that a loop will store, if it is known; what of the arena that is.
    fn end_ahead(&mut self) -> Option<Vec<Range<usize>>> {
        let mut runs = std::mem::take(&mut self.ahead).end()?;
        self.close();
        self.counters.looked_ahead += 1;
        // What is private needs no note.
        let arena = self.base..self.base + self.bytes;
        runs.retain(|run| arena.contains(&run.start));
        for run in &runs {
            self.counters.notes += 1;
            self.keep(run.start - self.base..run.end - self.base);
        }
        Some(runs)
    }
}

/// From now on notes in so many bytes of the arena at `base` are kept. The open range is that of the calling
/// thread, and stays. Notes that are not combined leave one by one.
///
/// # Errors
/// When there is no address space for them.
pub(crate) fn install(
    open: NonNull<OpenRange>,
    base: usize,
    bytes: usize,
    is_combined: bool,
) -> std::io::Result<()> {
    let words = words_of(bytes);
    let address = os::map_anywhere(words * size_of::<u64>())?;
    let notes = Notes::new(os::words_mut(address, words));
    let (ahead, counters) = (Ahead::default(), Counters::default());
    let (singles, states) = ((!is_combined).then(Vec::new), None);
    // SAFETY: as in `with`.
    unsafe { *STATE.0.get() = Some(State { open, notes, base, bytes, ahead, singles, states, counters }) };
    Ok(())
}

/// The same in a program that may look at the states of pages.
pub(crate) fn install_states(range: NonNull<CheckedRange>, states: States) {
    with(|state| {
        // SAFETY: the range is this thread's, in memory that stays until the process ends.
        unsafe { (*range.as_ptr()).states = states.biased(state.base) };
        state.states = Some(states);
    });
}

/// States of pages, where the program looks at them.
pub(crate) fn states() -> Option<States> {
    with(|state| state.states).flatten()
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

/// A call has stored so many bytes; nothing where the program does not see the arena yet.
pub(crate) fn add_stored(address: usize, bytes: usize) {
    with(|state| {
        // SAFETY: as in `State::close`.
        if unsafe { state.open.as_ref() }.tag == state.base >> TAG_SHIFT {
            state.add(address, bytes);
        }
    });
}

/// Stores to rows follow: so many, each of so many bytes, whose beginnings are a stride apart.
pub fn add_rows(address: usize, bytes: usize, stride: isize, rows: usize) {
    with(|state| state.add_rows(address, bytes, stride, rows));
}

/// A loop follows that runs ahead of another one.
pub fn begin_ahead() {
    with(|state| state.ahead = Ahead::default());
}

/// See [`Ahead::add_site`]; a base of 0: the store is to the element itself.
pub fn add_site(slot_bytes: usize, base: usize, bytes: usize) {
    with(|state| state.ahead.add_site(slot_bytes, (base != 0).then_some((base, bytes))));
}

/// See [`Ahead::add_load`].
pub fn add_load(first: usize, last: usize, bytes: usize) {
    with(|state| state.ahead.add_load(first, last, bytes));
}

/// See [`Ahead::tell`].
pub fn tell_ahead(site: usize, slot: usize, first: i64) {
    with(|state| state.ahead.tell(site, slot, first));
}

/// The loop ahead has ended: what of the arena the other one will store is noted now. None: not all is known.
pub fn end_ahead() -> Option<Vec<Range<usize>>> {
    with(State::end_ahead).flatten()
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

/// See [`crate::core::member::Frames::single`].
pub(crate) fn single(place: usize) -> Option<(u32, Range<usize>)> {
    with(|state| state.singles.as_ref()?.get(place).cloned()).flatten()
}

/// See [`crate::core::member::Frames::drop_singles`].
pub(crate) fn drop_singles() {
    with(|state| state.singles.as_mut().map(Vec::clear));
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
