//! Copies that take memory, when that is limited: those that have had it longest make room.

use std::collections::VecDeque;

use super::frames::{Access, Frames};
use crate::core::page::Pages;
use crate::core::unit::{Move, Run};

/// Copies that take memory.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// At most so many, unless more have stores that have not gone home.
    limit: Option<usize>,
    /// Copies that take memory now; the oldest first.
    resident: VecDeque<u32>,
    /// Runs that a call of the system is about to load: they stay, whatever the limit, until the program
    /// misses another unit.
    pinned: Vec<Run>,
    evicted_units: u64,
}

/// The most runs that are kept for calls: more than one call has pieces.
const PINNED_MAX: usize = 4096;

impl Copies {
    /// At most so many, of so many units.
    pub(super) fn limited(limit: usize, units: u32) -> Self {
        // A fault allocates nothing.
        let resident = VecDeque::with_capacity(units as usize + 1);
        Copies { limit: Some(limit), resident, pinned: Vec::with_capacity(PINNED_MAX), evicted_units: 0 }
    }

    /// Clean copies dropped so far.
    pub(super) fn evicted_units(&self) -> u64 {
        self.evicted_units
    }

    /// Homes have moved, when all have met: a unit that had its home here is a copy, one that has come is
    /// none. A frame that ranks of this node have shared is one of this rank alone, and absent.
    pub(super) fn follow(&mut self, moves: &[Move], me: usize, pages: &mut Pages, frames: &mut impl Frames) {
        for (unit, rank) in moves.iter().flat_map(|one| one.run.units().map(|unit| (unit, one.rank))) {
            let was_home = pages.is_home(unit);
            if was_home && mutated!(OldHomeKept) {
                continue;
            }
            if pages.move_home(unit, rank) {
                frames.part(unit, rank);
                frames.note_absent(Run::of(unit), true);
                frames.allow(Run::of(unit), Access::None);
            } else if was_home && self.limit.is_some() && pages.note_resident(unit) {
                self.resident.push_back(unit);
            }
            if rank == me {
                self.resident.retain(|resident| *resident != unit);
            }
        }
    }

    /// A call of the system is about to load these units: none makes room for the others. The first of a call
    /// lets those of the call before go.
    pub(super) fn pin(&mut self, run: Run, is_first: bool) {
        if is_first {
            self.pinned.clear();
        }
        let is_known = |pinned: &Run| pinned.first <= run.first && run.end() <= pinned.end();
        if self.limit.is_none() || self.pinned.iter().any(is_known) {
            return;
        }
        if self.pinned.len() == PINNED_MAX {
            self.pinned.clear();
        }
        self.pinned.push(run);
    }

    fn is_pinned(&self, unit: u32) -> bool {
        self.pinned.iter().any(|run| run.units().contains(&unit))
    }

    /// Units take memory; clean copies that have had it longest make room.
    pub(super) fn hold(&mut self, held: Run, pages: &mut Pages, frames: &mut impl Frames) {
        let Some(limit) = self.limit else { return };
        for unit in held.units() {
            if pages.note_resident(unit) {
                self.resident.push_back(unit);
            }
        }
        // A miss beside them is one of the program: the call is over. A run may begin before what was missed.
        if !self.pinned.iter().any(|run| run.first < held.end() && held.first < run.end()) {
            self.pinned.clear();
        }
        let mut looks = match self.pinned.len() {
            0 => self.resident.len(),
            // Most of them may be pinned: a long call looks at each a few times.
            _ => self.resident.len().min(limit + held.count as usize),
        };
        while self.resident.len() > limit && looks > 0 {
            looks -= 1;
            let Some(unit) = self.resident.pop_front() else { return };
            if mutated!(MovedWhenWished) && pages.is_here(unit) {
                continue;
            }
            let is_clean = pages.is_clean(unit) || mutated!(WrittenEvicted);
            if !is_clean || held.units().contains(&unit) || self.is_pinned(unit) {
                self.resident.push_back(unit);
                continue;
            }
            pages.evict(unit);
            frames.allow(Run::of(unit), Access::None);
            frames.note_absent(Run::of(unit), true);
            frames.forget(unit);
            self.evicted_units += 1;
        }
    }
}
