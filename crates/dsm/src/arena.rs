//! The memory of a rank: the arena at the same address on all ranks, seen twice.
//!
//! ```text
//! application's view   BASE: what the program loads and stores; permission by page (permissions)
//! system's view        anywhere: always readable and writable, for the library alone
//! shared frames        where a node has several ranks: those of units that have their home there, seen in
//!                      both views by all of them
//! twins                anywhere: a page for each unit, used while a copy has stores of its own
//! ```
//!
//! The library never touches the application's view: a fault while it holds the process lock would wait for
//! itself. Where the kernel has no more mappings for single pages (`vm.max_map_count`) the whole arena
//! loses its permissions, and gets them again page by page, without messages.

use crate::core::member::{Access, Frames};
use crate::core::unit::{Placement, Run, UNIT_BYTES};
use crate::core::violation::Private;
use crate::permissions::{Backend, Permissions};
use crate::sites::Sites;
use crate::states::{ABSENT, OPENED, States};
use crate::{failure, globals, maps, note, os, sites};
use std::collections::BTreeSet;
use std::ops::Range;

pub use crate::core::unit::BASE;

/// Twins after whose use their memory is given back.
const TWINS_KEPT: usize = 4096;

/// Shows frames of this rank alone where those of its node were.
pub trait OwnFrames: std::fmt::Debug {
    /// Units of the application's view are those of this rank.
    ///
    /// # Errors
    /// When the kernel has no room for another mapping.
    fn show(&self, run: Run) -> std::io::Result<()>;
}

/// Frames that the ranks of a node share.
#[derive(Debug)]
pub struct Shared {
    /// The address of their system's view.
    pub system: usize,
    /// Says whose they are.
    pub placement: Placement,
    /// The way to frames of one's own in their place, and the units that have such.
    pub own: Box<dyn OwnFrames>,
    /// See above.
    pub parted: BTreeSet<u32>,
}

impl Shared {
    fn has(&self, unit: u32) -> bool {
        self.placement.is_here(unit) && !self.parted.contains(&unit)
    }
}

/// The arena of this rank.
#[derive(Debug)]
pub struct Arena {
    bytes: usize,
    /// Addresses of the system's view and of the twins.
    system: usize,
    twins: usize,
    shared: Option<Shared>,
    twins_used: usize,
    twins_in_use: usize,
    permissions: Box<dyn Permissions>,
    /// The unit that the program has touched and waits for.
    touched: Option<u32>,
    /// Where the program looks at them before loads and stores.
    states: Option<States>,
    /// Costs of instructions of the program.
    pub(crate) sites: Sites,
}

impl Arena {
    /// An arena of so many bytes whose system's view is at an address; with the frames that mates share, if
    /// there are mates.
    ///
    /// # Errors
    /// When there is no address space for twins.
    pub fn new(
        bytes: usize,
        system: usize,
        shared: Option<Shared>,
        permissions: Box<dyn Permissions>,
    ) -> std::io::Result<Self> {
        let twins = os::map_anywhere(bytes)?;
        let sites = Sites::new(bytes)?;
        Ok(Arena {
            bytes,
            system,
            twins,
            shared,
            twins_used: 0,
            twins_in_use: 0,
            permissions,
            touched: None,
            states: None,
            sites,
        })
    }

    /// From now on the states of pages are kept.
    pub(crate) fn keep_states(&mut self, states: States) {
        self.states = Some(states);
    }

    /// Takes all permissions away.
    ///
    /// # Errors
    /// When the kernel does not.
    pub fn close(&mut self) -> std::io::Result<()> {
        self.permissions.close()
    }

    /// The program has touched a unit and waits for it, or does not wait any more.
    pub(crate) fn note_touched(&mut self, unit: Option<u32>) {
        self.touched = unit;
    }

    /// Calls of the kernel for permissions so far.
    pub(crate) fn permission_calls(&self) -> (Backend, u64) {
        (self.permissions.backend(), self.permissions.calls())
    }

    fn at(&self, unit: u32, offset: usize) -> usize {
        let offset = unit as usize * UNIT_BYTES + offset;
        assert!(offset < self.bytes, "byte {offset} of an arena of {}", self.bytes);
        match &self.shared {
            Some(shared) if shared.has(unit) => shared.system + offset,
            _ => self.system + offset,
        }
    }

    fn twin_at(&self, unit: u32) -> usize {
        self.twins + unit as usize * UNIT_BYTES
    }
}

impl Frames for Arena {
    fn allow(&mut self, run: Run, access: Access) {
        if let Some(states) = self.states {
            states.set(run, OPENED, access == Access::Write);
        }
        if self.permissions.set(run, self.touched, access).is_ok() {
            return;
        }
        // One mapping for all, then those that are needed.
        let closed = self.permissions.close();
        if let Err(error) = closed.and_then(|()| self.permissions.set(run, self.touched, access)) {
            failure::end(format_args!("the permissions of shared memory cannot be set: {error}"));
        }
    }

    fn note_absent(&mut self, run: Run, is_absent: bool) {
        if let Some(states) = self.states {
            states.set(run, ABSENT, is_absent);
        }
    }

    fn make_twin(&mut self, unit: u32) {
        os::store(self.twin_at(unit), os::bytes(self.at(unit, 0), UNIT_BYTES));
        self.twins_used += 1;
        self.twins_in_use += 1;
    }

    fn drop_twin(&mut self, _unit: u32) {
        self.twins_in_use -= 1;
        if self.twins_in_use == 0 && self.twins_used > TWINS_KEPT {
            os::forget(self.twins, self.bytes);
            self.twins_used = 0;
        }
    }

    fn frame(&self, unit: u32) -> &[u8] {
        os::bytes(self.at(unit, 0), UNIT_BYTES)
    }

    fn twin(&self, unit: u32) -> &[u8] {
        os::bytes(self.twin_at(unit), UNIT_BYTES)
    }

    fn next_noted(&self, unit: u32, from: usize) -> Option<Range<usize>> {
        note::next(unit, from)
    }

    fn drop_notes(&mut self, unit: u32) {
        note::drop_unit(unit);
    }

    fn part(&mut self, unit: u32, _rank: usize) {
        let Arena { shared: Some(shared), permissions, .. } = self else { return };
        shared.parted.insert(unit);
        let run = Run::of(unit);
        let show = |permissions: &mut dyn Permissions| {
            shared.own.show(run).and_then(|()| permissions.close_mapped(run))
        };
        // As for rights: one mapping for all where there is no room.
        let shown =
            show(&mut **permissions).or_else(|_| permissions.close().and_then(|()| show(&mut **permissions)));
        if let Err(error) = shown {
            failure::end(format_args!("a page of shared memory cannot be mapped: {error}"));
        }
    }

    fn forget(&mut self, unit: u32) {
        os::remove(self.at(unit, 0), UNIT_BYTES);
    }

    fn note_sent(&mut self, unit: u32, bytes: usize) {
        self.sites.note_sent(unit, bytes);
    }

    fn store_twin(&mut self, unit: u32, offset: usize, bytes: &[u8]) {
        os::store(self.twin_at(unit) + offset, bytes);
    }

    fn site_of(&self, unit: u32) -> u64 {
        sites::offset_of(self.sites.storer_of(unit))
    }

    fn private_place(&self, unit: u32, address: u64) -> Option<Private> {
        // A variable may hold a stream, or a block of malloc, that its process alone uses.
        let is_variable = globals::window().is_some_and(|(_, window)| window.units().contains(&unit));
        if is_variable { None } else { maps::private_place(address) }
    }

    fn drop_all_notes(&mut self) -> usize {
        note::drop_all()
    }

    fn single(&self, place: usize) -> Option<(u32, Range<usize>)> {
        note::single(place)
    }

    fn drop_singles(&mut self) {
        note::drop_singles();
    }

    fn store(&mut self, unit: u32, offset: usize, bytes: &[u8]) {
        os::store(self.at(unit, offset), bytes);
    }

    fn load(&self, unit: u32, offset: usize, into: &mut [u8]) {
        os::load(self.at(unit, offset), into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Rights that were set: of which units, the one that was touched, and which.
    type Set = (Run, Option<u32>, Access);

    /// Permissions of a kernel that has no room for another mapping once.
    #[derive(Debug)]
    struct Full {
        calls: Arc<Mutex<Vec<Set>>>,
    }

    /// All units of the arena, as they are closed.
    const ALL: Run = Run { first: 0, count: 4 };

    impl Permissions for Full {
        fn backend(&self) -> Backend {
            Backend::Mprotect
        }

        fn close(&mut self) -> std::io::Result<()> {
            self.set(ALL, None, Access::None)
        }

        fn close_mapped(&mut self, run: Run) -> std::io::Result<()> {
            self.set(run, None, Access::None)
        }

        fn set(&mut self, run: Run, touched: Option<u32>, access: Access) -> std::io::Result<()> {
            let mut calls = self.calls.lock().expect("a list");
            calls.push((run, touched, access));
            if calls.len() == 1 { Err(std::io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
        }

        fn calls(&self) -> u64 {
            self.calls.lock().expect("a list").len() as u64
        }
    }

    #[test]
    fn arena_without_room_for_mappings_takes_all_permissions_away_first() {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let bytes = 4 * UNIT_BYTES;
        let system = os::map_anywhere(bytes).expect("memory");
        let permissions = Box::new(Full { calls: calls.clone() });
        let mut arena = Arena::new(bytes, system, None, permissions).expect("memory");
        arena.note_touched(Some(2));
        arena.allow(Run { first: 1, count: 2 }, Access::Read);
        let wanted = (Run { first: 1, count: 2 }, Some(2), Access::Read);
        assert_eq!(*calls.lock().expect("a list"), [wanted, (ALL, None, Access::None), wanted]);
    }

    #[test]
    fn arena_keeps_a_twin_beside_what_is_stored() {
        let bytes = 4 * UNIT_BYTES;
        let system = os::map_anywhere(bytes).expect("memory");
        let permissions = Box::new(Full { calls: Arc::default() });
        let mut arena = Arena::new(bytes, system, None, permissions).expect("memory");
        arena.store(2, 8, &[1, 2]);
        arena.make_twin(2);
        arena.store(2, 9, &[5]);
        let (frame, twin) = (arena.frame(2), arena.twin(2));
        assert_eq!((&frame[7..11], &twin[7..11]), (&[0, 1, 5, 0][..], &[0, 1, 2, 0][..]));
        arena.drop_twin(2);
        let mut found = [0; 2];
        arena.load(2, 8, &mut found);
        assert_eq!(found, [1, 5]);
    }
}
