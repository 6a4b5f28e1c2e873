//! State of each unit of the arena on this node.
//!
//! ```text
//! (zero at first)
//! ABSENT --fetched--> PRESENT --first store--> PRESENT, TWINNED, WRITTEN --release--> PRESENT
//!   ^                    |                              | flushed early (a notice of it came)
//!   '----notice----------'                              v
//!   '--------------------------------------------- WRITTEN (named in the notice of the interval)
//! home: always PRESENT, never TWINNED: what others send is stored into it
//! ```
//!
//! Which accesses the memory permits is another matter ([`super::member::Frames::allow`]): a unit that is
//! present may lack permission, and gets it by a fault without a message.

use super::unit::Homes;

const PRESENT: u8 = 1;
const TWINNED: u8 = 2;
const WRITTEN: u8 = 4;

/// The units of an arena, as seen from a node. Its lists have room for all of them from the start, so that a
/// fault allocates nothing.
#[derive(Debug)]
pub struct Pages {
    me: usize,
    homes: Homes,
    flags: Vec<u8>,
    /// Copies that have a twin.
    twinned: Vec<u32>,
    /// Units that this interval has written.
    written: Vec<u32>,
}

impl Pages {
    /// So many units. All are present: everything is zero, here and at the homes.
    pub fn new(me: usize, nodes: usize, units: u32) -> Self {
        let homes = Homes::new(nodes);
        Pages {
            me,
            homes,
            flags: vec![PRESENT; units as usize],
            twinned: Vec::with_capacity(units as usize),
            written: Vec::with_capacity(units as usize),
        }
    }

    /// How many units there are.
    pub fn units(&self) -> u32 {
        self.flags.len() as u32
    }

    /// Where the homes are.
    pub fn homes(&self) -> Homes {
        self.homes
    }

    /// Whether this node is the home of a unit.
    pub fn is_home(&self, unit: u32) -> bool {
        self.homes.of(unit) == self.me
    }

    /// Whether loads find right values here.
    pub fn is_present(&self, unit: u32) -> bool {
        self.is_home(unit) || self.flags[unit as usize] & PRESENT != 0
    }

    /// Whether a copy has stores that its home does not have yet.
    pub fn is_twinned(&self, unit: u32) -> bool {
        self.flags[unit as usize] & TWINNED != 0
    }

    /// Whether stores of this interval are known already, so that more need no notice.
    pub fn is_writable(&self, unit: u32) -> bool {
        let flags = self.flags[unit as usize];
        flags & WRITTEN != 0 && (self.is_home(unit) || flags & TWINNED != 0)
    }

    /// A copy has come.
    pub fn note_fetched(&mut self, unit: u32) {
        self.flags[unit as usize] |= PRESENT;
    }

    /// The program is about to store to a unit; whether it needs a twin.
    pub fn note_store(&mut self, unit: u32) -> bool {
        assert!(self.is_present(unit), "a store to unit {unit}, which is absent");
        let needs_twin = !self.is_home(unit) && !self.is_twinned(unit);
        let flags = &mut self.flags[unit as usize];
        if *flags & WRITTEN == 0 {
            *flags |= WRITTEN;
            self.written.push(unit);
        }
        if needs_twin {
            *flags |= TWINNED;
            self.twinned.push(unit);
        }
        needs_twin
    }

    /// The copies that have twins.
    pub fn twinned(&self) -> &[u32] {
        &self.twinned
    }

    /// The stores of a copy have gone to its home.
    pub fn note_flushed(&mut self, unit: u32) {
        self.flags[unit as usize] &= !TWINNED;
    }

    /// All twins have gone that [`Pages::note_flushed`] was called for.
    pub fn drop_flushed(&mut self) {
        let flags = &self.flags;
        self.twinned.retain(|&unit| flags[unit as usize] & TWINNED != 0);
    }

    /// Another node has written: the copy is worth nothing.
    pub fn drop_copy(&mut self, unit: u32) {
        assert!(!self.is_twinned(unit), "stores to unit {unit} would be lost");
        self.flags[unit as usize] &= !PRESENT;
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
