//! State of each unit of the arena at this rank.
//!
//! ```text
//! (zero at first)
//! ABSENT --fetched--> PRESENT --first store--> PRESENT, WRITTEN, and --release--> PRESENT
//!   ^                    |                     TWINNED or NOTED
//!   |                    |                              | flushed early (a notice of it came)
//!   '----notice----------'                              v
//!   '--------------------------------------------- WRITTEN (named in the notice of the interval)
//! home on this node: always PRESENT, never TWINNED or NOTED: what others send is stored into it
//! home that moves (all ranks have met): where it was the unit is a PRESENT copy. Until a rank has heard that
//! its wish is granted the unit is WISHED, and served
//! stores that go to all copies: a copy is ABSENT at first, so that its home hears of it; no notice drops it.
//!                          At the home the unit is TWINNED or NOTED as a copy is
//!
//! ABSENT --noted store, where loads are checked--> WRITTEN, NOTED, BLIND --release--> ABSENT
//!                                                      '--fetched, but for noted bytes--> PRESENT, ...
//! ```
//!
//! A copy whose first store was noted needs no twin: its notes say which bytes go home. It gets one besides
//! when code without notes may store to it (`rearm`); then both count.
//!
//! Which accesses the memory permits is another matter ([`super::member::Frames::allow`]): a unit that is
//! present may lack permission, and gets it by a fault without a message.

use super::unit::{HOME_UNITS, Homes, Move, Placement, Run};

const PRESENT: u16 = 1;
const TWINNED: u16 = 2;
const WRITTEN: u16 = 4;
const NOTED: u16 = 8;
/// Code without notes may store to a copy, so the next fault there makes a twin, wherever it is.
const REARMED: u16 = 16;
/// A copy that takes memory here.
const RESIDENT: u16 = 32;
/// A copy with notes alone has a twin to check them by.
const CHECKED: u16 = 64;

/// Stores were made to a copy that is not here: its noted bytes are right, and nothing else of it is.
const BLIND: u16 = 128;
/// A copy went to save memory. A load may follow whose check came before that.
const EVICTED: u16 = 256;

/// Part of a large page.
const LARGE: u16 = 512;

/// Copy of which this rank wants to be the home; a barrier says whether it is.
const WISHED: u16 = 1024;

/// Way in which the program stores to a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The byte is noted.
    Noted,
    /// No note says so: a comparison has to find it.
    Unnoted,
}

/// The units of an arena, as seen from a node. Its lists have room for all of them from the start, so that a
/// fault allocates nothing.
#[derive(Debug)]
pub struct Pages {
    placement: Placement,
    flags: Vec<u16>,
    /// Copies that have a twin or notes.
    pending: Vec<u32>,
    /// How many of them, from the first on, have a twin or get one at their next store.
    rearmed: usize,
    /// Copies that have nothing but stores.
    blinds: usize,
    /// Units that this interval has written.
    written: Vec<u32>,
}

impl Pages {
    /// An arena of so many units. They are present: everything is zero, here and at the homes. But a home has
    /// to hear of copies whose stores it sends on, so they are absent.
    pub fn new(placement: Placement, units: u32) -> Self {
        let flag = |unit| if placement.is_updated(unit) { 0 } else { PRESENT };
        Pages {
            flags: (0..units).map(flag).collect(),
            placement,
            pending: Vec::with_capacity(units as usize),
            rearmed: 0,
            blinds: 0,
            written: Vec::with_capacity(units as usize),
        }
    }

    /// How many units there are.
    pub fn units(&self) -> u32 {
        self.flags.len() as u32
    }

    /// Where the homes are at first.
    pub fn homes(&self) -> Homes {
        self.placement.homes()
    }

    /// The home of a unit.
    pub fn home_of(&self, unit: u32) -> usize {
        self.placement.home_of(unit)
    }

    /// Whether this rank may become the home of a unit: it has a copy with all that its home has.
    pub fn may_come(&self, unit: u32) -> bool {
        let is_whole = self.is_present(unit) && !self.is_blind(unit) || mutated!(AbsentMoved);
        is_whole && !self.is_here(unit) && !self.is_updated(unit)
    }

    /// Notes that this rank wants to be the home of units, or has heard whether it is.
    pub fn note_wished(&mut self, wishes: &[Move], is_wished: bool) {
        for unit in wishes.iter().flat_map(|one| one.run.units()) {
            let flags = &mut self.flags[unit as usize];
            *flags = if is_wished { *flags | WISHED } else { *flags & !WISHED };
        }
    }

    /// Whether this rank answers for a unit: it is the home, or others have heard before it that it is. Only
    /// they ask a rank for what it has wished.
    pub fn is_served(&self, unit: u32) -> bool {
        let is_wished = self.flags[unit as usize] & WISHED != 0 && !mutated!(EarlyRequestRefused);
        self.is_home(unit) || is_wished
    }

    /// The home of a unit is another rank. All stores to it are there and here: all ranks have met. Where it
    /// was the unit is a copy; where its frame was shared it is absent. Whether it was shared here.
    pub fn move_home(&mut self, unit: u32, rank: usize) -> bool {
        let (was_home, was_shared) = (self.is_home(unit), self.placement.is_shared(unit));
        let flags = &mut self.flags[unit as usize];
        assert!(*flags & (TWINNED | NOTED | BLIND | WRITTEN) == 0, "stores to unit {unit} would be lost");
        *flags &= !(EVICTED | REARMED);
        if was_shared && !mutated!(PartedPresent) {
            *flags &= !PRESENT;
        } else if was_home {
            *flags |= PRESENT;
        }
        self.placement.move_to(unit, rank);
        if self.is_home(unit) {
            // Elsewhere a copy takes memory as before.
            self.flags[unit as usize] &= !RESIDENT;
        }
        was_shared
    }

    /// Ranks of this node.
    pub fn mates(&self) -> Vec<usize> {
        self.placement.mates()
    }

    /// Whether this rank is the home of a unit.
    pub fn is_home(&self, unit: u32) -> bool {
        self.placement.is_home(unit)
    }

    /// Whether the home of a unit is on this node: its frame is shared with the ranks of the node.
    pub fn is_here(&self, unit: u32) -> bool {
        self.placement.is_here(unit)
    }

    /// The first unit whose stores go to all copies; [`u32::MAX`]: there are none.
    pub fn updated_from(&self) -> u32 {
        self.placement.updated_from()
    }

    /// Whether stores to a unit go to all copies, in place of notices.
    pub fn is_updated(&self, unit: u32) -> bool {
        self.placement.is_updated(unit)
    }

    /// Whether stores to a unit go nowhere: its home is on this node, and no copies hear of them.
    fn stays(&self, unit: u32) -> bool {
        self.is_here(unit) && !self.is_updated(unit)
    }

    /// Whether loads find right values here.
    pub fn is_present(&self, unit: u32) -> bool {
        self.is_here(unit) || self.flags[unit as usize] & PRESENT != 0
    }

    /// Whether a unit is a copy that a notice drops.
    pub fn is_noticed_copy(&self, unit: u32) -> bool {
        !self.is_here(unit) && self.is_present(unit) && !self.is_updated(unit)
    }

    /// Copies that a notice drops, ascending.
    pub fn copies(&self) -> Vec<u32> {
        (0..self.units()).filter(|&unit| self.is_noticed_copy(unit)).collect()
    }

    /// Whether a copy has a twin.
    pub fn is_twinned(&self, unit: u32) -> bool {
        self.flags[unit as usize] & TWINNED != 0
    }

    /// Whether a unit has a twin, to find its stores by or to check its notes by.
    pub fn has_twin(&self, unit: u32) -> bool {
        self.flags[unit as usize] & (TWINNED | CHECKED) != 0
    }

    /// Whether notes say which bytes of a copy its home does not have yet.
    pub fn is_noted(&self, unit: u32) -> bool {
        self.flags[unit as usize] & NOTED != 0
    }

    /// Whether any store of this interval may follow without a fault. A copy that has notes alone faults
    /// again when it has lost its permission.
    pub fn is_writable(&self, unit: u32) -> bool {
        let flags = self.flags[unit as usize];
        flags & WRITTEN != 0 && (self.stays(unit) || flags & TWINNED != 0)
    }

    /// Units around a home's own one that get permission with it, so that its neighbours need no fault.
    pub fn readable_run(&self, unit: u32) -> Run {
        let first = unit / HOME_UNITS * HOME_UNITS;
        let run = Run { first, count: self.homes().end_of(unit).min(self.units()) - first };
        let is_plain = run.units().all(|unit| self.is_here(unit) && self.flags[unit as usize] & WRITTEN == 0);
        if is_plain { run } else { Run::of(unit) }
    }

    /// A copy has come.
    pub fn note_fetched(&mut self, unit: u32) {
        self.end_blind(unit);
        let flags = &mut self.flags[unit as usize];
        *flags = *flags & !EVICTED | PRESENT;
    }

    /// Units are part of large pages.
    pub fn note_large(&mut self, run: Run) {
        run.units().for_each(|unit| self.flags[unit as usize] |= LARGE);
    }

    /// Whether a unit is part of a large page, as far as this rank knows.
    pub fn is_large(&self, unit: u32) -> bool {
        self.flags[unit as usize] & LARGE != 0
    }

    /// Whether a store may go to a unit that is absent, without a fetch. A twin of it would tell nothing, and
    /// what was here since the last synchronisation may be loaded without another check.
    pub fn may_be_blind(&self, unit: u32) -> bool {
        let mut flags = self.flags[unit as usize];
        if mutated!(BlindAfterEviction) {
            flags &= !EVICTED;
        }
        !self.is_present(unit) && flags & (REARMED | TWINNED | EVICTED) == 0
    }

    /// Stores go to a unit that is absent.
    pub fn note_blind(&mut self, unit: u32) {
        self.blinds += usize::from(!self.is_blind(unit));
        self.flags[unit as usize] |= BLIND;
    }

    fn end_blind(&mut self, unit: u32) {
        self.blinds -= usize::from(self.is_blind(unit));
        self.flags[unit as usize] &= !BLIND;
    }

    /// Whether nothing but the noted bytes of a unit is right.
    pub fn is_blind(&self, unit: u32) -> bool {
        self.flags[unit as usize] & BLIND != 0
    }

    /// All units of which that holds.
    pub fn blind(&self) -> Vec<u32> {
        if self.blinds == 0 {
            return Vec::new();
        }
        self.pending.iter().copied().filter(|unit| self.is_blind(*unit)).collect()
    }

    /// The program is about to store to a unit; whether it needs a twin.
    pub fn note_store(&mut self, unit: u32, store: Store) -> bool {
        assert!(self.is_present(unit) || self.is_blind(unit), "a store to unit {unit}, which is absent");
        let stays = self.stays(unit);
        let flags = &mut self.flags[unit as usize];
        let store = if *flags & REARMED != 0 { Store::Unnoted } else { store };
        if *flags & WRITTEN == 0 {
            *flags |= WRITTEN;
            self.written.push(unit);
        }
        let wanted = match store {
            _ if stays => return false,
            Store::Noted => NOTED,
            Store::Unnoted => TWINNED,
        };
        let needs_twin = store == Store::Unnoted && *flags & TWINNED == 0;
        if *flags & (NOTED | TWINNED) == 0 {
            self.pending.push(unit);
        }
        *flags |= wanted;
        needs_twin
    }

    /// A copy with notes gets a twin to check them by; whether it has none yet.
    pub fn note_checked(&mut self, unit: u32) -> bool {
        let flags = &mut self.flags[unit as usize];
        let is_new = *flags & (CHECKED | TWINNED) == 0 && *flags & NOTED != 0;
        if is_new {
            *flags |= CHECKED;
        }
        is_new
    }

    /// Takes the mark of such a twin away; whether there was one.
    pub fn take_checked(&mut self, unit: u32) -> bool {
        let flags = &mut self.flags[unit as usize];
        let was = *flags & CHECKED != 0;
        *flags &= !CHECKED;
        was
    }

    /// Copies that have stores which their homes do not have yet.
    pub fn pending(&self) -> &[u32] {
        &self.pending
    }

    /// Copies without a twin, whose next store has to fault and to make one; but for those of which that was
    /// said before.
    pub fn rearm(&mut self) -> Vec<u32> {
        let new = self.pending[self.rearmed..].iter().copied();
        let units: Vec<u32> = new.filter(|&unit| !self.is_twinned(unit)).collect();
        self.rearmed = self.pending.len();
        units.iter().for_each(|&unit| self.flags[unit as usize] |= REARMED);
        units
    }

    /// The stores of a copy have gone to its home.
    pub fn note_flushed(&mut self, unit: u32) {
        self.end_blind(unit);
        self.flags[unit as usize] &= !(TWINNED | NOTED | REARMED);
    }

    /// Takes all copies off the list that [`Pages::note_flushed`] was called for.
    pub fn drop_flushed(&mut self) {
        let flags = &self.flags;
        let is_pending = |unit: &u32| flags[*unit as usize] & (TWINNED | NOTED) != 0;
        self.rearmed = self.pending[..self.rearmed].iter().filter(|unit| is_pending(unit)).count();
        self.pending.retain(is_pending);
    }

    /// Another node has written: the copy is worth nothing.
    pub fn drop_copy(&mut self, unit: u32) {
        assert!(!self.is_twinned(unit) && !self.is_noted(unit), "stores to unit {unit} would be lost");
        self.flags[unit as usize] &= !PRESENT;
    }

    /// A copy takes memory from now on; whether it did not before.
    pub fn note_resident(&mut self, unit: u32) -> bool {
        let flags = &mut self.flags[unit as usize];
        let is_new = *flags & RESIDENT == 0 && !self.placement.is_here(unit);
        if is_new {
            *flags |= RESIDENT;
        }
        is_new
    }

    /// Whether a copy holds nothing that its home does not have.
    pub fn is_clean(&self, unit: u32) -> bool {
        self.flags[unit as usize] & (TWINNED | WRITTEN | NOTED | REARMED) == 0
    }

    /// A copy takes no memory any more.
    pub fn evict(&mut self, unit: u32) {
        assert!(!self.is_here(unit), "a home forgets unit {unit}");
        let flags = &mut self.flags[unit as usize];
        *flags = *flags & !(PRESENT | RESIDENT) | EVICTED;
    }

    /// Ends the interval: its units, in the order in which they were written first.
    pub fn take_written(&mut self) -> Vec<u32> {
        let units = self.written.clone();
        self.written.clear();
        for &unit in &units {
            self.flags[unit as usize] &= !WRITTEN;
        }
        units
    }

    /// Whether this interval has written anything.
    pub fn has_written(&self) -> bool {
        !self.written.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_whose_home_moves_between_others_takes_memory_as_before() {
        let mut pages = Pages::new(Placement::new(2, &[0, 1, 2]), 8);
        assert!(pages.note_resident(0));
        pages.move_home(0, 1);
        assert!(!pages.note_resident(0), "it would be twice in the list of copies");
        pages.move_home(0, 2);
        pages.move_home(0, 0);
        assert!(pages.note_resident(0), "a home is no copy");
    }
}
