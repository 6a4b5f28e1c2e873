//! Copies that take memory, when that is limited: those that have had it longest make room.

use std::collections::VecDeque;

use super::frames::{Access, Frames};
use crate::core::page::Pages;
use crate::core::unit::Run;

/// Copies that take memory.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// At most so many, unless more have stores that have not gone home.
    limit: Option<usize>,
    /// Copies that take memory now; the oldest first.
    resident: VecDeque<u32>,
    evicted_units: u64,
}

impl Copies {
    /// At most so many, of so many units.
    pub(super) fn limited(limit: usize, units: u32) -> Self {
        // A fault allocates nothing.
        Copies { limit: Some(limit), resident: VecDeque::with_capacity(units as usize + 1), evicted_units: 0 }
    }

    /// Clean copies dropped so far.
    pub(super) fn evicted_units(&self) -> u64 {
        self.evicted_units
    }

    /// A unit that had its home here is a copy.
    pub(super) fn take_in(&mut self, unit: u32, pages: &mut Pages) {
        if self.limit.is_some() && pages.note_resident(unit) {
            self.resident.push_back(unit);
        }
    }

    /// A copy has become the unit itself.
    pub(super) fn let_go(&mut self, unit: u32) {
        self.resident.retain(|resident| *resident != unit);
    }

    /// Units take memory; clean copies that have had it longest make room.
    pub(super) fn hold(&mut self, held: Run, pages: &mut Pages, frames: &mut impl Frames) {
        let Some(limit) = self.limit else { return };
        for unit in held.units() {
            if pages.note_resident(unit) {
                self.resident.push_back(unit);
            }
        }
        let mut looks = self.resident.len();
        while self.resident.len() > limit && looks > 0 {
            looks -= 1;
            let Some(unit) = self.resident.pop_front() else { return };
            if mutated!(MovedWhenWished) && pages.is_here(unit) {
                continue;
            }
            let is_clean = pages.is_clean(unit) || mutated!(WrittenEvicted);
            if !is_clean || held.units().contains(&unit) {
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
