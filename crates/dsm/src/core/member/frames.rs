//! The memory of a node, as the protocol uses it.

use std::ops::Range;

use crate::core::unit::Run;
use crate::core::violation::Private;

/// Rights of the program on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No right: each access faults.
    None,
    /// Loads.
    Read,
    /// Loads and stores.
    Write,
}

/// The memory of a node: a frame for each unit of the arena, and room for a twin of each.
pub trait Frames {
    /// From now on the program may do this with the units.
    fn allow(&mut self, run: Run, access: Access);
    /// Loads of these units would find wrong values, or right ones again.
    fn note_absent(&mut self, run: Run, is_absent: bool);
    /// Keeps the unit as it is now.
    fn make_twin(&mut self, unit: u32);
    /// The twin is not needed any more.
    fn drop_twin(&mut self, unit: u32);
    /// A unit. The program does not run meanwhile.
    fn frame(&self, unit: u32) -> &[u8];
    /// The twin of a unit that has one.
    fn twin(&self, unit: u32) -> &[u8];
    /// The first run of bytes of a unit from `from` on that the program has noted.
    fn next_noted(&self, unit: u32, from: usize) -> Option<Range<usize>>;
    /// The notes of a unit are not needed any more.
    fn drop_notes(&mut self, unit: u32);
    /// The home of a unit whose frame ranks of this node share moves to a rank. From now on this rank has a
    /// frame of its own, with any content.
    fn part(&mut self, unit: u32, rank: usize);
    /// The memory of a unit is not needed: it is absent.
    fn forget(&mut self, unit: u32);
    /// A record with so many bytes about a unit has gone to its home.
    fn note_sent(&mut self, unit: u32, bytes: usize);
    /// Stores bytes beside those of a twin too, which another rank has stored.
    fn store_twin(&mut self, unit: u32, offset: usize, bytes: &[u8]);
    /// The place in the program of the first store to a unit in this interval; 0: not known.
    fn site_of(&self, unit: u32) -> u64;
    /// Memory of this process that an address in a unit leads to, and that is not at the same address in
    /// other processes; none: the value is no such address, or the unit may hold one.
    fn private_place(&self, unit: u32, address: u64) -> Option<Private>;
    /// The interval ends: no note is needed any more. How many units still had some.
    fn drop_all_notes(&mut self) -> usize;
    /// The note at a place of the list of those that leave one by one, in the order in which the program has
    /// made them. None: there are no more, or notes are combined.
    fn single(&self, place: usize) -> Option<(u32, Range<usize>)>;
    /// The list is empty.
    fn drop_singles(&mut self);
    /// Stores bytes from `offset` of a unit on, byte by byte: the program may store to others beside them.
    fn store(&mut self, unit: u32, offset: usize, bytes: &[u8]);
    /// Loads bytes from `offset` of a unit on; the program may be storing.
    fn load(&self, unit: u32, offset: usize, into: &mut [u8]);
}
